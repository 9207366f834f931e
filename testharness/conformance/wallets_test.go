package conformance_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/methodtest"
	"github.com/verge-id/verge/testharness/wallettest"
)

// addWallet adds a method that asks wallets. Each key is a key of the host with a certificate.
func addWallet(t *testing.T, o *opts, name string, settings map[string]any, keys ...string) {
	t.Helper()
	if o.Keys == nil {
		o.Keys = map[string][]byte{}
	}
	for _, key := range keys {
		private, certificate := methodtest.NewCertificate(t, testharness.Epoch)
		o.Keys[name+"_"+key] = private
		settings[map[string]string{"private_key": "certificate", "reader_key": "reader_certificate"}[key]] =
			certificate
	}
	b, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	o.Methods = append(o.Methods, method.Config{Name: name, Kind: "openid4vp", Keys: keys, Settings: b})
}

// openWallet starts a service with a method "wallet" of these settings, and a wallet whose issuer it trusts.
func openWallet(t *testing.T, settings map[string]any, keys ...string) (*testharness.Harness,
	*wallettest.Wallet) {
	t.Helper()
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch, EKU: wallettest.MDLSigner})
	settings["trust_anchors"] = []string{string(issuer.PEM())}
	o := &opts{}
	addWallet(t, o, "wallet", settings, keys...)
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

// A page asks by three protocols in one call, two of them signed by keys of the host. TestWalletMatrix has
// the responses.
func TestBrowserProtocols(t *testing.T) {
	h, wallet := openWallet(t, map[string]any{"profile": "mdl", "client_id_prefix": "x509_hash",
		"browser": walletProtocolsOfBrowsers}, "private_key", "reader_key")
	page := h.Open(h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID}).RedirectURL).Submit("begin")
	f := page.StepForm("credential", nil)
	for n, r := range credentialRequests(t, f) {
		if r.Protocol != walletProtocolsOfBrowsers[n] {
			t.Fatalf("contract 55: request %d is by %s, want %s", n, r.Protocol, walletProtocolsOfBrowsers[n])
		}
		if r.Protocol == "org-iso-mdoc" {
			if reader, err := wallet.Reader(h.BaseURL, r.Data); err != nil || reader == nil {
				t.Errorf("contract 55: readerAuth is by %v, %v", reader, err)
			}
		}
	}
	if again := page.Reload().StepForm("credential", nil); !reflect.DeepEqual(again.Data, f.Data) {
		t.Error("contract 55: the page that waits asks for something else when it is loaded again")
	}
}

// A stranger's document, which no wallet has signed for this session, spends no attempt, with any fault.
// TestWalletMatrix has the documents of wallets, except those of another type.
func TestDocumentFaults(t *testing.T) {
	h, wallet := openWallet(t, map[string]any{"profile": "eu-av"})
	other := func(p *wallettest.Presentation) { p.DocType = "org.iso.18013.5.1.mDL" }
	spoil := func(p *wallettest.Presentation) { p.Session.Nonce = "AAAAAAAAAAAAAAAAAAAAAA" }
	started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
	page := h.Open(started.RedirectURL).Submit("begin")
	wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: page}}
	for rule, change := range map[string]func(*wallettest.Presentation){
		"an expired document": func(p *wallettest.Presentation) { p.ValidUntil = p.Signed.Add(1) },
		"an unknown issuer": func(p *wallettest.Presentation) {
			p.Issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch})
		},
		"another document": other,
	} {
		if reply, err := wallet.Answer(t.Context(), page.Code, change, spoil); err != nil ||
			reply.Status != http.StatusBadRequest {
			t.Errorf("contract 55: %s of a stranger: %+v, %v", rule, reply, err)
		}
		if waiting := page.LoadAgain(); waiting.Code == "" {
			t.Errorf("contract 55: %s of a stranger ends the step: a %s page", rule, waiting.Kind)
		}
	}
	if reply, err := wallet.Answer(t.Context(), page.Code, other); err != nil ||
		reply.Status != http.StatusOK {
		t.Fatalf("contract 55: another document: %+v, %v", reply, err)
	}
	done := page.LoadAgain()
	if done.Kind != "method" ||
		!strings.Contains(string(done.Body), "Your wallet sent a different document") ||
		!strings.Contains(string(done.Body), "You have 2 attempts left") {
		t.Errorf("contract 55: another document: a %s page: %s", done.Kind, done.Body)
	}
	if status := h.Reconcile(started.SessionID).Text("status"); status != "PENDING" {
		t.Errorf("contract 55: another document: the session is %s", status)
	}
	if logs := h.Logs(); !strings.Contains(logs, `"reason":"document_type"`) {
		t.Error("contract 55: the log lacks document_type")
	}
}

// A wallet fetches a signed request by POST, with or without its own nonce. The address still accepts the
// response, and after that no fetch.
func TestFetchedRequests(t *testing.T) {
	h, wallet := openWallet(t, map[string]any{"profile": "mdl", "client_id_prefix": "x509_hash"},
		"private_key")
	page := h.Open(h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID}).RedirectURL).Submit("begin")
	wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: page}}
	_, handle, _ := strings.Cut(page.Code, "box%2F")
	handle, _, _ = strings.Cut(handle, "&")
	fetch := func(body string) *testharness.Response {
		return page.AsAnother("POST", h.BaseURL+"/verify/box/"+handle, headers("Content-Type",
			"application/x-www-form-urlencoded", "Accept", "application/oauth-authz-req+jwt"), []byte(body))
	}
	for body, status := range map[string]int{"": 200, "wallet_nonce=a": 200,
		"wallet_nonce=a&wallet_nonce=b":            400,
		"wallet_nonce=" + strings.Repeat("a", 257): 400, "wallet_nonce=": 400, "vp_token=a": 400} {
		if got := fetch(body); got.Status != status {
			t.Errorf("contract 55: a POST of %.40q is %d, want %d: %s", body, got.Status, status, got.Body)
		}
	}
	if reply, err := wallet.Answer(t.Context(), page.Code); err != nil || reply.Status != http.StatusOK {
		t.Fatalf("contract 55: %+v, %v", reply, err)
	}
	if got := fetch("wallet_nonce=a"); got.Status != 410 {
		t.Errorf("contract 34: after the response the request is %d", got.Status)
	}
}
