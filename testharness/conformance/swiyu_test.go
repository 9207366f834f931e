package conformance_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/methodtest"
	"github.com/verge-id/verge/testharness/wallettest"
)

// A Swiss wallet and the service know each other by DIDs. The wallet fetches the request by GET, and its
// E-ID, whose booleans are texts, counts by the key of the issuer's DID.
func TestSwissWallet(t *testing.T) {
	const issuerDID, serviceKey = "did:webvh:QmIssuer:a.example", "did:webvh:QmService:a.example#auth-1"
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch})
	issuer.Chain, issuer.KeyID = nil, issuerDID+"#assert-1"
	stranger := wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch})
	stranger.Chain, stranger.KeyID = nil, issuerDID+"#assert-2"
	keys, err := json.Marshal(map[string]any{"keys": []any{wallettest.JWK(&issuer.Key.PublicKey,
		issuer.KeyID)}})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(map[string]any{"profile": "swiyu", "issuer_keys": []string{string(keys)},
		"vct_values": []string{"urn:ch.admin.fedpol.eid"}, "key_id": serviceKey, "scheme": "openid4vp"})
	if err != nil {
		t.Fatal(err)
	}
	private, _ := methodtest.NewCertificate(t, testharness.Epoch)
	block, _ := pem.Decode(private)
	service, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	o := &opts{}
	o.Keys = map[string][]byte{"wallet_private_key": private}
	o.Methods = append(o.Methods, method.Config{Name: "wallet", Kind: "openid4vp",
		Keys: []string{"private_key"}, Settings: settings})
	h := newHarness(t, o)
	h.Offer(h.Publisher.L2, "wallet")
	wallet := wallettest.New(issuer)
	wallet.Now, wallet.Format, wallet.TextToken, wallet.OnlyGet = h.Now, sdJWT, true, true
	wallet.Services = map[string]*ecdsa.PublicKey{serviceKey: &service.(*ecdsa.PrivateKey).PublicKey}
	for _, c := range []struct {
		rule, over string
		issuer     *wallettest.Issuer
		words      string // "": completed
	}{
		{"old enough", "true", issuer, ""},
		{"too young", "false", issuer, "could not confirm the age that the site asks for"},
		{"an unknown key", "true", stranger, "Its issuer is not recognised here."},
	} {
		started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
		page := h.Open(started.RedirectURL).Submit("begin")
		wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: page}}
		wallet.Claims = map[string]any{"age_over_18": c.over, "birth_date": "1990-01-01"}
		wallet.Issuer = c.issuer
		if reply, err := wallet.Answer(t.Context(), page.Code); err != nil || reply.Status != http.StatusOK {
			t.Fatalf("contract 39: %s: %+v, %v", c.rule, reply, err)
		}
		done := page.LoadAgain()
		if (done.Callback != nil) != (c.words == "") || !strings.Contains(string(done.Body), c.words) {
			t.Errorf("contract 39: %s: a %s page, %s", c.rule, done.Kind, done.Body)
		}
	}
}
