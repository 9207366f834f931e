package npmwallet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/methodtest"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wallettest"
)

// An independent wallet responds to all four forms of a request. On the same device, it gets the address
// where its user continues.
func TestAnswer_IndependentWallet(t *testing.T) {
	long.Skip(t, "TestAnswer_IndependentWallet")
	for _, c := range []struct {
		form     string
		settings map[string]any
		client   string // its id begins with this
		mode     string
		curve    elliptic.Curve // of the issuer's and the device's keys
	}{
		{"by value", map[string]any{"profile": "eu-av"}, "redirect_uri:http://localhost:", "direct_post",
			elliptic.P256()},
		{"by value, encrypted", map[string]any{"profile": "eu-av", "encrypted": true},
			"redirect_uri:http://localhost:", "direct_post.jwt", elliptic.P521()},
		{"signed, by the host", map[string]any{"profile": "mdl"}, "x509_san_dns:localhost",
			"direct_post.jwt", elliptic.P384()},
		{"signed, by the hash", map[string]any{"profile": "pid", "client_id_prefix": "x509_hash"},
			"x509_hash:", "direct_post.jwt", elliptic.P256()},
		{"signed, for an SD-JWT with a date of birth", map[string]any{"profile": "pid",
			"client_id_prefix": "x509_hash"}, "x509_hash:", "direct_post.jwt", elliptic.P384()},
		{"by value, for an SD-JWT with ages", map[string]any{"profile": "pid", "request": "value",
			"encrypted": false, "browser": false}, "redirect_uri:http://localhost:", "direct_post",
			elliptic.P256()},
	} {
		t.Run("contract 39: "+c.form, func(t *testing.T) {
			eku := wallettest.AgeSigner
			if c.settings["profile"] == "mdl" {
				eku = wallettest.MDLSigner
			}
			issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch, EKU: eku,
				Curve: c.curve})
			device, err := ecdsa.GenerateKey(c.curve, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			h, _ := openLinked(t, issuer, c.settings, strings.HasPrefix(c.form, "signed"))
			born := map[bool]string{true: "1990-01-01", false: "2024-01-01"}
			answer := func(link string, says bool) answered {
				a := answerOpenID4VP(t, link, Document{
					SDJWTClaims: sdJWTClaims(c.form, says, born[says]), Now: h.Now(),
					Claims: map[string]any{"age_over_18": says, "age_over_21": says,
						"birth_date": born[says]},
					Chain: issuer.Chain, IssuerKey: issuer.Key, DeviceKey: device,
					Signed: h.Now().AddDate(0, 0, -1), ValidUntil: h.Now().AddDate(0, 2, 0)})
				if a.Status != 200 || !strings.HasPrefix(a.ClientID, c.client) || a.ResponseMode != c.mode {
					t.Fatalf("the wallet says %+v", a)
				}
				for _, number := range []int{-7, -35, -36} {
					if !slices.Contains(a.Algorithms, number) {
						t.Errorf("the request announces %v", a.Algorithms)
					}
				}
				return a
			}
			ask := func() (testharness.Started, *testharness.Page) {
				s := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
				return s, h.Open(s.RedirectURL).Submit("begin")
			}
			_, page := ask()
			answer(page.Code, true)
			if done := page.LoadAgain(); done.Callback == nil {
				t.Errorf("on another device: a %s page (%d)", done.Kind, done.Status)
			}
			_, page = ask()
			var told struct {
				RedirectURI string `json:"redirect_uri"`
			}
			if err := json.Unmarshal([]byte(answer(page.Wallet, true).Body), &told); err != nil {
				t.Fatal(err)
			}
			if done := page.Go(told.RedirectURI); done.Callback == nil {
				t.Errorf("on the same device: a %s page (%d)", done.Kind, done.Status)
			}
			s, page := ask()
			answer(page.Code, false)
			page.LoadAgain()
			if r := h.Reconcile(s.SessionID); r.Text("failure_code") != "PROVIDER_REJECTED" {
				t.Errorf("for a user who is too young: %s", r.Body)
			}
		})
	}
}

// openLinked starts a service at localhost that asks wallets for documents of an issuer. If it signs its
// requests, openLinked also returns its certificate.
func openLinked(t *testing.T, issuer *wallettest.Issuer, settings map[string]any, signed bool) (
	h *testharness.Harness, certificate string) {
	t.Helper()
	m := method.Config{Name: "wallet", Kind: "openid4vp"}
	all := map[string]any{"trust_anchors": []string{string(issuer.PEM())}}
	maps.Copy(all, settings)
	keys := map[string][]byte{}
	if signed {
		keys["wallet_private_key"], certificate = methodtest.NewCertificate(t, testharness.Epoch, "localhost")
		all["certificate"], m.Keys = certificate, []string{"private_key"}
	}
	var err error
	if m.Settings, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	h = testharness.New(t, &testharness.Options{Methods: []method.Config{m}, Keys: keys,
		Configure: func(c *core.Config) {
			c.BaseURL = strings.Replace(c.BaseURL, "127.0.0.1", "localhost", 1)
		}})
	h.BaseURL = strings.Replace(h.BaseURL, "127.0.0.1", "localhost", 1)
	h.Offer(h.Publisher.L2, "wallet")
	return h, certificate
}

// sdJWTClaims returns the claims of a document in the format dc+sd-jwt, nil if a form is for the other
// format.
func sdJWTClaims(form string, says bool, born string) map[string]any {
	switch {
	case strings.Contains(form, "SD-JWT with a date of birth"):
		return map[string]any{"birthdate": born, "family_name": "Muster"}
	case strings.Contains(form, "SD-JWT with ages"):
		return map[string]any{"birthdate": born, "age_equal_or_over": map[string]any{"18": says, "21": says}}
	}
	return nil
}

// openAsked starts a service that asks the browser for documents of a profile by all protocols, at localhost,
// and returns it with its page that waits.
func openAsked(t *testing.T, profile string, issuer *wallettest.Issuer) (*testharness.Harness,
	*testharness.Page) {
	t.Helper()
	all := map[string]any{"profile": profile, "trust_anchors": []string{string(issuer.PEM())},
		"browser":       []string{"openid4vp-v1-signed", "openid4vp-v1-unsigned", "org-iso-mdoc"},
		"verifier_info": `[{"format":"registration_cert","data":"eyJ"}]`}
	keys := map[string][]byte{}
	var certificate string
	keys["wallet_private_key"], certificate = methodtest.NewCertificate(t, testharness.Epoch, "localhost")
	all["certificate"] = certificate
	keys["wallet_reader_key"], certificate = methodtest.NewCertificate(t, testharness.Epoch)
	all["reader_certificate"] = certificate
	settings, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	h := testharness.New(t, &testharness.Options{Keys: keys, Methods: []method.Config{{Name: "wallet",
		Kind: "openid4vp", Keys: []string{"private_key", "reader_key"}, Settings: settings}},
		Configure: func(c *core.Config) {
			c.BaseURL = strings.Replace(c.BaseURL, "127.0.0.1", "localhost",
				1)
		}})
	h.BaseURL = strings.Replace(h.BaseURL, "127.0.0.1", "localhost", 1)
	h.Offer(h.Publisher.L2, "wallet")
	s := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
	return h, h.Open(s.RedirectURL).Submit("begin")
}

// A wallet that others have written answers requests by way of the browser, and verifies those that are
// signed.
func TestOthersAnswerOurCredentialRequests(t *testing.T) {
	long.Skip(t, "TestOthersAnswerOurCredentialRequests")
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch, EKU: wallettest.MDLSigner})
	device, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for n, protocol := range []string{"openid4vp-v1-signed", "openid4vp-v1-unsigned", "openid4vp-v1-signed",
		"openid4vp-v1-unsigned"} {
		profile, claims := "mdl", map[string]any(nil)
		if n > 1 {
			profile, claims = "pid", sdJWTClaims("SD-JWT with ages", true, "1990-01-01")
		}
		t.Run("contract 55: "+profile+" by "+protocol, func(t *testing.T) {
			h, page := openAsked(t, profile, issuer)
			f := page.StepForm("credential", nil)
			type request struct {
				Protocol string
				Data     json.RawMessage
			}
			var more []request
			if err := json.Unmarshal([]byte(f.Data["more"]), &more); err != nil {
				t.Fatal(err)
			}
			r := append([]request{{f.Data["protocol"], json.RawMessage(f.Data["request"])}}, more...)[n%2]
			document := Document{
				Claims: map[string]any{"age_over_18": true}, SDJWTClaims: claims, Now: h.Now(),
				Chain: issuer.Chain, IssuerKey: issuer.Key, DeviceKey: device,
				Signed: h.Now().AddDate(0, 0, -1), ValidUntil: h.Now().AddDate(0, 2, 0)}
			a := answerCredential(t, h.BaseURL, r.Data, document)
			client := map[string]string{"openid4vp-v1-signed": "x509_san_dns:localhost"}[protocol]
			if a.Error != "" || r.Protocol != protocol || a.ResponseMode != "dc_api.jwt" ||
				a.ClientID != client || !strings.Contains(string(a.VerifierInfo), "registration_cert") {
				t.Fatalf("by %s the wallet says %+v", r.Protocol, a)
			}
			if protocol == "openid4vp-v1-signed" {
				evil := answerCredential(t, "https://evil.example", r.Data, document)
				if !strings.Contains(evil.Error, "expected_origins") {
					t.Errorf("a page of another site: %+v", evil)
				}
			}
			f.Fields.Set("credential", `{"protocol":"`+protocol+`","data":`+string(a.Data)+`}`)
			if done := page.SubmitForm(f); done.Callback == nil {
				t.Errorf("a %s page (%d)", done.Kind, done.Status)
			}
		})
	}
}

// A library that others have written finds our readerAuth good, and not for another page's session.
func TestOthersVerifyOurReaderAuth(t *testing.T) {
	long.Skip(t, "TestOthersVerifyOurReaderAuth")
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch, EKU: wallettest.MDLSigner})
	h, page := openAsked(t, "mdl", issuer)
	var more []struct {
		Protocol string
		Data     struct{ DeviceRequest, EncryptionInfo string }
	}
	if err := json.Unmarshal([]byte(page.StepForm("credential", nil).Data["more"]), &more); err != nil {
		t.Fatal(err)
	}
	data := more[len(more)-1].Data
	request, err := base64.RawURLEncoding.DecodeString(data.DeviceRequest)
	if err != nil {
		t.Fatal(err)
	}
	s := wallettest.Session{Handover: wallettest.AnnexC, Origin: h.BaseURL,
		EncryptionInfo: data.EncryptionInfo}
	evil := s
	evil.Origin = "https://evil.example"
	got := verifyReader(t, request, s.Transcript(), evil.Transcript())
	if !got[0].Good || got[1].Good || !slices.Equal(got[0].Elements, []string{"age_over_18", "age_over_21"}) {
		t.Errorf("contract 55: readerAuth is %+v", got)
	}
}
