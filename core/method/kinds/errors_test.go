package kinds

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/wallettest"
)

// fetcher responds to every request.
type fetcher struct {
	status int
	body   string
}

func (f fetcher) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	return host.FetchResponse{Status: f.status, Body: []byte(f.body)}, nil
}

// noLists is a store that fails.
type noLists struct{}

func (noLists) Anchors(context.Context, string, method.TrustList) (method.ListedAnchors, error) {
	return method.ListedAnchors{}, errors.New("cause")
}

// certificateOf returns a certificate for a host, in PEM.
func certificateOf(t *testing.T, name string, until time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: until, DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// Contract 48: an error of Begin or Act has a reason, and the setting that causes it.
func TestErrors_ReasonAndSetting(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: now, EKU: wallettest.AgeSigner})
	provider := fetcher{status: 200, body: `{"issuer":"https://id.example","jwks_uri":"https://id.example/k",
		"authorization_endpoint":"https://id.example/a","token_endpoint":"https://id.example/t"}`}
	pushed := fetcher{status: 200, body: strings.Replace(provider.body, "{",
		`{"pushed_authorization_request_endpoint":"https://id.example/p",`, 1)}
	long, many := strings.Repeat("a", 1900), settings{}
	for n := range 10 {
		many[string(rune('a'+n))] = long[:200]
	}
	id := settings{"issuer": "https://id.example", "client_id": "verge",
		"proof": settings{"claim": []string{"over18"}, "equals": true, "age": 18}}
	faces := settings{"profile": "plain", "url": "https://faces.example/"}
	yoti := settings{"profile": "yoti", "sdk_id": "7a6bd5b5-a3a8-4e1a-8a5f-0a4a7d9c0a11"}
	anchors := []string{string(issuer.PEM())}
	list := []settings{{"url": "https://list.example/", "format": "etsi-ts-119612", "signers": anchors}}
	wallet := func(certificate string) settings {
		return settings{"profile": "eu-av", "trust_anchors": anchors, "request": "signed",
			"certificate": certificate}
	}
	good := certificateOf(t, "verge.example", now.AddDate(0, 1, 0))
	browser := wallet(good)
	browser["browser"] = []string{"openid4vp-v1-signed"}
	const acts = "act"
	for _, c := range []struct {
		kind, call      string
		of              settings
		change          func(*method.Session)
		fetch           fetcher
		reason, setting string
	}{
		{"sandbox", "", nil, func(s *method.Session) { s.User = new("sandbox:init_error") }, fetcher{},
			"init_error", ""},
		{"oidc", "", id, func(s *method.Session) { s.MinimumAge = 21 }, provider, "no_proof", "proof"},
		{"oidc", "", id, func(s *method.Session) { s.Settings = json.RawMessage(`{"acr_values":["low"]}`) },
			provider, "integration_settings", "acr_values"},
		{"oidc", "", id, func(s *method.Session) { s.Settings = json.RawMessage(`{"acr_values":1}`) }, provider,
			"integration_settings", "acr_values"},
		{"oidc", "", id, nil, fetcher{status: 404}, "status", ""},
		{"oidc", acts, with(id, "claims", settings{"id_token": settings{long: nil}}), nil, provider,
			"address_too_long", "claims"},
		{"oidc", acts, with(id, "scope", slices.Repeat([]string{long[:200]}, 10)), nil, provider,
			"address_too_long", "scope"},
		{"oidc", acts, with(id, "acr_values", slices.Repeat([]string{long[:200]}, 10)), nil, provider,
			"address_too_long", "acr_values"},
		{"oidc", acts, with(with(id, "scope", long[:200]), "parameters", many), nil, provider,
			"address_too_long", "parameters"},
		{"oidc", acts, id, nil, fetcher{200, strings.Replace(provider.body, "example/a", "example/"+long, 1)},
			"address_too_long", ""},
		{"oidc", acts, with(id, "client_auth", "private_key_jwt"), nil, pushed, "not_signed",
			"private_key_file"},
		{"estimator", acts, faces, nil, fetcher{status: 401}, "status", "token_file"},
		{"estimator", acts, yoti, nil, fetcher{}, "not_signed", "private_key_file"},
		{"estimator", acts, faces, nil, fetcher{status: 429}, "status", ""},
		{"estimator", acts, faces, func(s *method.Session) { s.ChallengeAge = 0 }, fetcher{},
			"no_challenge_age", "challenge_age"},
		{"estimator", acts, faces, func(s *method.Session) { s.Settings = json.RawMessage(`{"deviation":9}`) },
			fetcher{}, "integration_settings", "deviation"},
		{"openid4vp", "", wallet(certificateOf(t, "verge.example", now.AddDate(0, 0, -1))), nil, fetcher{},
			"certificate_validity", "certificate_file"},
		{"openid4vp", "", wallet(certificateOf(t, "other.example", now.AddDate(0, 1, 0))), nil, fetcher{},
			"certificate_host", "certificate_file"},
		{"openid4vp", "", settings{"profile": "eu-av", "trust_lists": list}, nil, fetcher{}, "trust_lists",
			"trust_lists"},
		{"openid4vp", acts, browser, nil, fetcher{}, "not_signed", "private_key_file"},
		{"openid4vp", acts, browser, func(s *method.Session) { s.ReturnURL = "" }, fetcher{}, "no_address",
			"base_url"},
	} {
		t.Run(c.kind+": "+c.reason, func(t *testing.T) {
			m := openedWith(t, c.kind, c.of, c.reason == "not_signed", method.Host{Random: rand.Reader,
				Now: func() time.Time { return now }, Fetch: c.fetch, TrustLists: noLists{}})
			s := method.Session{Level: "L1", ChallengeAge: 25, MinimumAge: 18,
				ReturnURL: "https://verge.example/verify/return/m"}
			if c.change != nil {
				c.change(&s)
			}
			var err error
			if c.call == "" {
				err = m.Begin(t.Context(), s)
			} else {
				_, err = m.Act(t.Context(), s, method.Step{Form: url.Values{"outcome": {"begin"}},
					File: estimatortest.Picture()}, nil)
			}
			var setting method.SettingError
			if of := (*method.SettingError)(nil); errors.As(err, &of) {
				setting = *of
			}
			if reason := method.ReasonOf(err); reason != c.reason || setting.Setting != c.setting {
				t.Errorf("the reason is %q and the setting %q: %v", reason, setting.Setting, err)
			}
		})
	}
}

// openedWith returns a method of a kind as the core opens it. Its host has a key that does not sign. signs
// reports that the method signs requests.
func openedWith(t *testing.T, kind string, of settings, signs bool, h method.Host) method.Opened {
	t.Helper()
	c := method.Config{Name: "m", Kind: kind}
	if of != nil {
		b, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		c.Settings = b
	}
	switch {
	case signs, of["certificate"] != nil:
		c.Keys = []string{"private_key"}
	case kind == "oidc":
		c.Secrets = map[string]string{"client_secret": "secret"}
	case kind == "estimator":
		c.Secrets = map[string]string{"token": "secret"}
	}
	catalog, wrong := method.NewCatalog(All, []method.Config{c}, true)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	h.Sign = func(context.Context, string, string, []byte) ([]byte, error) { return nil, errors.New("cause") }
	all, err := catalog.Open(h)
	if err != nil {
		t.Fatal(err)
	}
	return all["m"]
}

// with returns settings with one more.
func with(of settings, name string, value any) settings {
	all := maps.Clone(of)
	all[name] = value
	return all
}

// Contract 34: a kind that sends no user to another site has no step for a return.
func TestAct_ReturnOfAnotherKind(t *testing.T) {
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(), EKU: wallettest.AgeSigner})
	for kind, of := range map[string]settings{
		"sandbox":   {},
		"estimator": {"profile": "plain", "url": "https://faces.example/"},
		"openid4vp": {"profile": "eu-av", "trust_anchors": []string{string(issuer.PEM())}},
	} {
		_, err := opened(t, kind, of).Act(t.Context(), method.Session{MinimumAge: 18, ChallengeAge: 25},
			method.Step{Form: url.Values{"state": {"a"}}, Back: true, State: []byte("b")})
		if !errors.Is(err, method.ErrStep) || method.ReasonOf(err) != "" {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
