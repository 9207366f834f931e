package conformance_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
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
