package npmwallet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wallettest"
)

// credoCase is a form of request, and the document that the wallet holds.
type credoCase struct {
	name                  string
	settings              map[string]any
	client, mode          string // its id begins with client
	eku                   string
	docType, namespace    string
	claims, sdJWT         map[string]any // of a user who is old enough
	young, youngWithSDJWT map[string]any // of one who is not
}

var credoCases = []credoCase{
	{
		name: "eu-av, by value", settings: map[string]any{"profile": "eu-av"},
		client: "redirect_uri:http://localhost:", mode: "direct_post", eku: wallettest.AgeSigner,
		docType: "eu.europa.ec.av.1", namespace: "eu.europa.ec.av.1",
		claims: map[string]any{"age_over_18": true}, young: map[string]any{"age_over_18": false},
	},
	{
		name: "eu-av, by value, encrypted", settings: map[string]any{"profile": "eu-av", "encrypted": true},
		client: "redirect_uri:http://localhost:", mode: "direct_post.jwt", eku: wallettest.AgeSigner,
		docType: "eu.europa.ec.av.1", namespace: "eu.europa.ec.av.1",
		claims: map[string]any{"age_over_18": true}, young: map[string]any{"age_over_18": false},
	},
	{
		name: "mdl, signed, by the host", settings: map[string]any{"profile": "mdl"},
		client: "x509_san_dns:localhost", mode: "direct_post.jwt", eku: wallettest.MDLSigner,
		docType: "org.iso.18013.5.1.mDL", namespace: "org.iso.18013.5.1",
		claims: map[string]any{"age_over_18": true, "age_over_21": true, "family_name": "Muster"},
		young:  map[string]any{"age_over_18": false, "age_over_21": false, "family_name": "Muster"},
	},
	{
		name: "mdl, signed, in the clear", settings: map[string]any{"profile": "mdl", "encrypted": false,
			"browser": false},
		client: "x509_san_dns:localhost", mode: "direct_post", eku: wallettest.MDLSigner,
		docType: "org.iso.18013.5.1.mDL", namespace: "org.iso.18013.5.1",
		claims: map[string]any{"age_over_18": true, "age_over_21": true, "family_name": "Muster"},
		young:  map[string]any{"age_over_18": false, "age_over_21": false, "family_name": "Muster"},
	},
	{
		name: "pid, signed, by the hash", settings: map[string]any{"profile": "pid",
			"client_id_prefix": "x509_hash"},
		client: "x509_hash:", mode: "direct_post.jwt", eku: wallettest.AgeSigner,
		docType: "eu.europa.ec.eudi.pid.1", namespace: "eu.europa.ec.eudi.pid.1",
		claims: map[string]any{"birth_date": "1990-01-01", "family_name": "Muster"},
		young:  map[string]any{"birth_date": "2024-01-01", "family_name": "Muster"},
	},
	{
		name: "pid as SD-JWT VC, signed, by the host", settings: map[string]any{"profile": "pid"},
		client: "x509_san_dns:localhost", mode: "direct_post.jwt", eku: wallettest.AgeSigner,
		docType:        "urn:eudi:pid:1",
		sdJWT:          map[string]any{"birthdate": "1990-01-01", "family_name": "Muster"},
		youngWithSDJWT: map[string]any{"birthdate": "2024-01-01", "family_name": "Muster"},
	},
}

// Wallets of @credo-ts/openid4vc respond with documents of three profiles. The service accepts a user who is
// old enough, and rejects one who is too young and a document of an issuer that it does not trust. A wallet
// rejects a signed request of a service that it does not know.
func TestAnswerCredo_Documents(t *testing.T) {
	long.Skip(t, "TestAnswerCredo_Documents")
	for _, c := range credoCases {
		t.Run("contract 39: "+c.name, func(t *testing.T) { c.walk(t) })
	}
}

func (c credoCase) walk(t *testing.T) {
	newIssuer := func() *wallettest.Issuer {
		return wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch, EKU: c.eku})
	}
	issuer, stranger := newIssuer(), newIssuer()
	device, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed := strings.HasPrefix(c.client, "x509_")
	h, certificate := openLinked(t, issuer, c.settings, signed)
	var verifier []byte
	if signed {
		block, _ := pem.Decode([]byte(certificate))
		verifier = block.Bytes
	}
	old := Document{DocType: c.docType, Namespace: c.namespace, Claims: c.claims,
		SDJWTClaims: c.sdJWT, Chain: issuer.Chain, IssuerKey: issuer.Key, DeviceKey: device,
		Signed: h.Now().AddDate(0, 0, -1), ValidUntil: h.Now().AddDate(0, 2, 0), Now: h.Now()}
	young, forged := old, old
	young.Claims, young.SDJWTClaims = c.young, c.youngWithSDJWT
	forged.Chain, forged.IssuerKey = stranger.Chain, stranger.Key

	const here, elsewhere, tooYoung, untrusted, unknown = 0, 1, 2, 3, 4 // the wallets
	documents := []Document{here: old, elsewhere: old, tooYoung: young, untrusted: forged,
		unknown: old}
	var holders []holder
	var sessions []testharness.Started
	var pages []*testharness.Page
	for n, d := range documents {
		s := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
		page := h.Open(s.RedirectURL).Submit("begin")
		sessions, pages = append(sessions, s), append(pages, page)
		link := page.Code
		if n == here {
			link = page.Wallet
		}
		holders = append(holders, holder{Link: link, Verifier: verifier, Document: d})
	}
	holders[unknown].Verifier = stranger.Root.Raw
	if !signed {
		holders = holders[:unknown]
	}
	answers := answerCredo(t, holders...)
	for n, a := range answers[:unknown] {
		if a.Error != "" || a.Status != 200 || !strings.HasPrefix(a.ClientID, c.client) ||
			a.ResponseMode != c.mode || a.Signed != signed {
			t.Fatalf("wallet %d says %+v", n, a)
		}
	}
	var told struct {
		RedirectURI string `json:"redirect_uri"`
	}
	if err := json.Unmarshal([]byte(answers[here].Body), &told); err != nil {
		t.Fatal(err)
	}
	if done := pages[here].Go(told.RedirectURI); done.Callback == nil {
		t.Errorf("accepted on the same device: a %s page (%d)", done.Kind, done.Status)
	}
	if done := pages[elsewhere].LoadAgain(); done.Callback == nil {
		t.Errorf("accepted on another device: a %s page (%d)", done.Kind, done.Status)
	}
	pages[tooYoung].LoadAgain()
	if r := h.Reconcile(sessions[tooYoung].SessionID); r.Text("failure_code") != "PROVIDER_REJECTED" {
		t.Errorf("too young: %s", r.Body)
	}
	page := pages[untrusted].LoadAgain()
	if r := h.Reconcile(sessions[untrusted].SessionID); r.Text("status") != "PENDING" ||
		page.Callback != nil || !strings.Contains(string(page.Body), "Its issuer is not recognised here.") {
		t.Errorf("of an issuer that is not trusted: a %s page (%d), %s", page.Kind, page.Status, r.Body)
	}
	if signed && !strings.Contains(answers[unknown].Error, "trusted certificate") {
		t.Errorf("by a service that the wallet does not know: %+v", answers[unknown])
	}
}
