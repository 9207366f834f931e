package conformance_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/methodtest"
	"github.com/verge-id/verge/testharness/wallettest"
)

// walletProfile is a profile with the curves of its issuer's and its device's keys.
type walletProfile struct {
	name, eku string
	issuer    elliptic.Curve
	device    elliptic.Curve
}

// Each profile is walked by a wallet on another device and by the browser, for the elements and algorithms
// that its documents can have (contract 39).
func TestWalletProfiles(t *testing.T) {
	for _, p := range []struct {
		walletProfile
		steps []walletStep
	}{
		{walletProfile{"eu-av", wallettest.MDLSigner, elliptic.P256(), elliptic.P521()}, []walletStep{
			{18, "age_over_18", true, ""},
			{16, "age_over_18", true, ""},
			{16, "age_over_18", false, "does not say whether"},
			{21, "age_over_18", false, "PROVIDER_REJECTED"},
		}},
		{walletProfile{"mdl", wallettest.MDLSigner, elliptic.P384(), elliptic.P256()}, []walletStep{
			{16, "age_over_21", true, ""},
			{18, "age_over_21", false, "does not say whether"},
		}},
		{walletProfile{"pid", wallettest.AgeSigner, elliptic.P521(), elliptic.P384()}, []walletStep{
			{18, "birth_date", wallettest.BirthDate("1990-01-01"), ""},
			{18, "birth_date", wallettest.BirthDate("2025-01-01"), "PROVIDER_REJECTED"},
			{18, "birth_date", wallettest.BirthDate("1990"), "attempt"},
		}},
	} {
		t.Run(p.name, func(t *testing.T) {
			h, wallet := p.open(t)
			for _, s := range p.steps {
				for _, byBrowser := range []bool{false, true} {
					name := fmt.Sprintf("contract 39: %s is %v, for %d, by the browser: %v", s.element,
						s.value, s.age, byBrowser)
					wallet.Elements = map[string]any{s.element: s.value,
						"portrait": cbor.Tagged(37, cbor.Bytes([]byte("not asked for")))}
					s.walk(t, name, h, wallet, byBrowser)
				}
			}
			if logs := h.Logs(); strings.Contains(logs, "1990-01-01") {
				t.Error("contract 39: the log has a date of birth")
			}
		})
	}
}

// open starts a service that asks for documents of the profile.
func (p walletProfile) open(t *testing.T) (*testharness.Harness, *wallettest.Wallet) {
	t.Helper()
	issuer := wallettest.NewIssuer(
		wallettest.IssuerConfig{Now: testharness.Epoch, EKU: p.eku, Curve: p.issuer},
	)
	key, certificate := methodtest.NewCertificate(t, testharness.Epoch)
	settings := map[string]any{"profile": p.name, "trust_anchors": []string{string(issuer.PEM())},
		"browser": true}
	c := method.Config{Name: "wallet", Kind: "openid4vp"}
	o := &opts{}
	if p.name != "eu-av" {
		settings["certificate"], settings["client_id_prefix"] = certificate, "x509_hash"
		c.Keys, o.Keys = []string{"private_key"}, map[string][]byte{"wallet_private_key": key}
	}
	var err error
	if c.Settings, err = json.Marshal(settings); err != nil {
		t.Fatal(err)
	}
	o.Methods = []method.Config{c}
	h := newHarness(t, o)
	h.Offer(h.Publisher.L2, "wallet")
	wallet := wallettest.New(issuer)
	wallet.Now = h.Now
	if wallet.Key, err = ecdsa.GenerateKey(p.device, rand.Reader); err != nil {
		t.Fatal(err)
	}
	return h, wallet
}

// walletStep is a document with one element, and its result. "" is a success, a code ends the session, and
// any other text is on the page after a failed attempt.
type walletStep struct {
	age     int
	element string
	value   any
	want    string
}

func (s walletStep) walk(t *testing.T, name string, h *testharness.Harness, wallet *wallettest.Wallet,
	byBrowser bool) {
	t.Helper()
	h.Reconfigure(h.Publisher.L2, "", func(c *integration.Integration) { c.MinimumAge = s.age })
	started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
	page := h.Open(started.RedirectURL).Submit("begin")
	var done *testharness.Page
	if byBrowser {
		f := page.StepForm("credential", nil)
		data, err := wallet.Credential(h.BaseURL, f.Data["protocol"], []byte(f.Data["request"]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.Fields.Set("credential", `{"protocol":"org-iso-mdoc","data":`+string(data)+`}`)
		done = page.SubmitForm(f)
	} else {
		wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: page}}
		if reply, err := wallet.Answer(t.Context(), page.Code); err != nil || reply.Status != http.StatusOK {
			t.Fatalf("%s: %+v, %v", name, reply, err)
		}
		done = page.LoadAgain()
	}
	got := h.Reconcile(started.SessionID)
	switch {
	case s.want == "":
		if done.Callback == nil || got.Text("status") != "COMPLETED" {
			t.Errorf("%s: a %s page (%d), and %s", name, done.Kind, done.Status, got.Body)
		}
	case s.want == strings.ToUpper(s.want):
		if got.Text("failure_code") != s.want {
			t.Errorf("%s: %s", name, got.Body)
		}
	default:
		if done.Kind != "method" || got.Text("status") != "PENDING" ||
			!strings.Contains(string(done.Body), s.want) {
			t.Errorf("%s: a %s page (%d), and %s", name, done.Kind, done.Status, got.Body)
		}
	}
}

// openWallet starts a service with a method "wallet" of these settings, and a wallet whose issuer it trusts.
// Each key is a key of the host with a certificate.
func openWallet(t *testing.T, settings map[string]any, keys ...string) (*testharness.Harness,
	*wallettest.Wallet) {
	t.Helper()
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch, EKU: wallettest.MDLSigner})
	settings["trust_anchors"] = []string{string(issuer.PEM())}
	c := method.Config{Name: "wallet", Kind: "openid4vp", Keys: keys}
	o := &opts{Keys: map[string][]byte{}}
	for _, name := range keys {
		key, certificate := methodtest.NewCertificate(t, testharness.Epoch)
		o.Keys["wallet_"+name] = key
		settings[map[string]string{"private_key": "certificate", "reader_key": "reader_certificate"}[name]] =
			certificate
	}
	var err error
	if c.Settings, err = json.Marshal(settings); err != nil {
		t.Fatal(err)
	}
	o.Methods = []method.Config{c}
	h := newHarness(t, o)
	h.Offer(h.Publisher.L2, "wallet")
	wallet := wallettest.New(issuer)
	wallet.Now = h.Now
	return h, wallet
}

// credentialRequest is one of the requests that a page hands to the browser.
type credentialRequest struct {
	Protocol string
	Data     json.RawMessage
}

// credentialRequests returns all of them.
func credentialRequests(t *testing.T, f testharness.Form) []credentialRequest {
	t.Helper()
	var more []credentialRequest
	if err := json.Unmarshal([]byte(f.Data["more"]), &more); err != nil {
		t.Fatal(err)
	}
	return append([]credentialRequest{{f.Data["protocol"], json.RawMessage(f.Data["request"])}}, more...)
}

// A page asks by three protocols in one call, two of them signed by keys of the host. A wallet answers
// whichever the browser chooses.
func TestBrowserProtocols(t *testing.T) {
	h, wallet := openWallet(t, map[string]any{"profile": "mdl", "client_id_prefix": "x509_hash",
		"browser":       []string{"openid4vp-v1-signed", "openid4vp-v1-unsigned", "org-iso-mdoc"},
		"verifier_info": `[{"format":"registration_cert","data":"eyJ"}]`}, "private_key", "reader_key")
	for n, want := range []string{"openid4vp-v1-signed", "openid4vp-v1-unsigned", "org-iso-mdoc"} {
		started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
		page := h.Open(started.RedirectURL).Submit("begin")
		f := page.StepForm("credential", nil)
		r := credentialRequests(t, f)[n]
		if r.Protocol != want {
			t.Fatalf("contract 55: request %d is by %s, want %s", n, r.Protocol, want)
		}
		if want == "org-iso-mdoc" {
			if reader, err := wallet.Reader(h.BaseURL, r.Data); err != nil || reader == nil {
				t.Errorf("contract 55: readerAuth is by %v, %v", reader, err)
			}
		}
		data, err := wallet.Credential(h.BaseURL, r.Protocol, r.Data)
		if err != nil {
			t.Fatalf("contract 55: %s: %v", want, err)
		}
		again := page.Reload().StepForm("credential", nil)
		if !reflect.DeepEqual(again.Data, f.Data) {
			t.Errorf("contract 55: the page that waits asks for something else when it is loaded again")
		}
		f.Fields.Set("credential", `{"protocol":"`+want+`","data":`+string(data)+`}`)
		if done := page.SubmitForm(f); done.Callback == nil {
			t.Errorf("contract 55: by %s: a %s page (%d)", want, done.Kind, done.Status)
		}
	}
}

// A wallet sends a document that does not help. The browser that waits learns why, and the attempt counts.
// A stranger's document, which no wallet has signed for this session, spends no attempt.
func TestDocumentFaults(t *testing.T) {
	h, wallet := openWallet(t, map[string]any{"profile": "eu-av"})
	for _, c := range []struct {
		rule, says, reason string
		change             func(*wallettest.Presentation)
	}{
		{"an expired document", "Your document is not valid at the moment", "mso_expired",
			func(p *wallettest.Presentation) { p.ValidUntil = p.Signed.Add(1) }},
		{"an unknown issuer", "We cannot accept this document", "untrusted",
			func(p *wallettest.Presentation) {
				p.Issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch})
			}},
		{"another document", "Your wallet sent a different document", "document_type",
			func(p *wallettest.Presentation) { p.DocType = "org.iso.18013.5.1.mDL" }},
	} {
		started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
		page := h.Open(started.RedirectURL).Submit("begin")
		wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: page}}
		spoil := func(p *wallettest.Presentation) { p.Session.Nonce = "AAAAAAAAAAAAAAAAAAAAAA" }
		if reply, err := wallet.Answer(t.Context(), page.Code, c.change, spoil); err != nil ||
			reply.Status != http.StatusBadRequest {
			t.Errorf("contract 55: %s of a stranger: %+v, %v", c.rule, reply, err)
		}
		if waiting := page.LoadAgain(); strings.Contains(string(waiting.Body), c.says) || waiting.Code == "" {
			t.Errorf("contract 55: %s of a stranger ends the step", c.rule)
		}
		if reply, err := wallet.Answer(t.Context(), page.Code, c.change); err != nil ||
			reply.Status != http.StatusOK {
			t.Fatalf("contract 55: %s: %+v, %v", c.rule, reply, err)
		}
		done := page.LoadAgain()
		if done.Kind != "method" || !strings.Contains(string(done.Body), c.says) ||
			!strings.Contains(string(done.Body), "You have 2 attempts left") {
			t.Errorf("contract 55: %s: a %s page: %s", c.rule, done.Kind, done.Body)
		}
		if status := h.Reconcile(started.SessionID).Text("status"); status != "PENDING" {
			t.Errorf("contract 55: %s: the session is %s", c.rule, status)
		}
		if logs := h.Logs(); !strings.Contains(logs, `"reason":"`+c.reason+`"`) {
			t.Errorf("contract 55: %s: the log lacks %s", c.rule, c.reason)
		}
	}
}

// Wallets fetch a signed request by POST with their own nonce, or by GET. The address takes the response
// all the same.
func TestFetchedRequests(t *testing.T) {
	h, wallet := openWallet(t, map[string]any{"profile": "mdl", "client_id_prefix": "x509_hash"},
		"private_key")
	for _, onlyGet := range []bool{false, true} {
		wallet.OnlyGet = onlyGet
		started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
		page := h.Open(started.RedirectURL).Submit("begin")
		wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: page}}
		address := h.BaseURL + "/verify/box/" + page.Code[strings.LastIndex(page.Code,
			"box%2F")+len("box%2F"):]
		address, _, _ = strings.Cut(address, "&")
		fetch := func(body string) *testharness.Response {
			return page.AsAnother("POST", address, headers("Content-Type",
				"application/x-www-form-urlencoded",
				"Accept", "application/oauth-authz-req+jwt"), []byte(body))
		}
		for body, status := range map[string]int{"": 200, "wallet_nonce=a": 200,
			"wallet_nonce=a&wallet_nonce=b":            400,
			"wallet_nonce=" + strings.Repeat("a", 257): 400, "wallet_nonce=": 400, "vp_token=a": 400} {
			if got := fetch(body); got.Status != status {
				t.Errorf("contract 55: a POST of %.40q is %d, want %d: %s", body, got.Status, status,
					got.Body)
			}
		}
		if reply, err := wallet.Answer(t.Context(), page.Code); err != nil || reply.Status != http.StatusOK {
			t.Fatalf("contract 55: by GET alone %v: %+v, %v", onlyGet, reply, err)
		}
		if got := fetch("wallet_nonce=a"); got.Status != 410 {
			t.Errorf("contract 34: after the response the request is %d", got.Status)
		}
		if done := page.LoadAgain(); done.Callback == nil {
			t.Errorf("contract 55: by GET alone %v: a %s page (%d)", onlyGet, done.Kind, done.Status)
		}
	}
}
