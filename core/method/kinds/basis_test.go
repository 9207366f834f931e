package kinds

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/wallettest"
)

type settings = map[string]any

// opened returns a method of a kind. Its secret is there where the kind has one.
func opened(t *testing.T, kind string, of settings) method.Method {
	t.Helper()
	at := slices.IndexFunc(All, func(k method.Kind) bool { return k.Name == kind })
	b, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	c := method.Config{Name: "m", Kind: kind, Settings: b}
	for _, name := range All[at].Secrets {
		c.Secrets = map[string]string{name: "secret"}
	}
	if wrong := All[at].Check(c); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	m, err := All[at].Open(c, method.Host{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFingerprint(t *testing.T) {
	one := wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(), EKU: wallettest.AgeSigner})
	other := wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(), EKU: wallettest.AgeSigner})
	proof := func(claim string, age int) settings {
		return settings{"claim": []string{claim}, "equals": true, "age": age}
	}
	bases := map[string]settings{
		"oidc":      {"issuer": "https://id.example", "client_id": "verge", "proof": proof("over18", 18)},
		"estimator": {"profile": "plain", "url": "https://faces.example/", "deviation": 4},
		"openid4vp": {"profile": "eu-av", "trust_anchors": []string{string(one.PEM())}},
	}
	for _, c := range []struct {
		kind, name string
		change     settings
		same       bool
	}{
		{"oidc", "another issuer", settings{"issuer": "https://id.example/2"}, false},
		{"oidc", "another client", settings{"client_id": "verge2"}, false},
		{"oidc", "another claim", settings{"proof": proof("over21", 18)}, false},
		{"oidc", "another age", settings{"proof": proof("over18", 16)}, false},
		{"oidc", "another value", settings{"proof": settings{"claim": []string{"over18"}, "equals": "true",
			"age": 18}}, false},
		{"oidc", "another condition", settings{"proof": settings{"claim": []string{"over18"}, "equals": true,
			"age": 18, "require": []settings{{"claim": []string{"real"}, "equals": true}}}}, false},
		{"oidc", "acr values", settings{"acr_values": []string{"high"}}, false},
		{"oidc", "another source of claims", settings{"userinfo": true}, false},
		{"oidc", "a signer inside the claims", settings{"credential": settings{"claim": []string{"vc"},
			"issuer": "https://signer.example", "did": "did:web:signer.example"}}, false},
		{"oidc", "another scope", settings{"scope": "openid age"}, true},
		{"estimator", "another address", settings{"url": "https://faces.example/2"}, false},
		{"estimator", "another deviation", settings{"deviation": 6}, false},
		{"estimator", "a floor", settings{"floor": 12}, true},
		{"openid4vp", "another profile", settings{"profile": "mdl", "request": "value"}, false},
		{"openid4vp", "another anchor", settings{"trust_anchors": []string{string(other.PEM())}}, true},
		{"openid4vp", "another scheme", settings{"scheme": "openid4vp"}, true},
	} {
		t.Run("contract 34: "+c.kind+", "+c.name, func(t *testing.T) {
			base := bases[c.kind]
			changed := maps.Clone(base)
			maps.Copy(changed, c.change)
			print := func(of settings) string {
				return opened(t, c.kind, of).(method.Fingerprinter).Fingerprint()
			}
			if first := print(base); first == "" || print(maps.Clone(base)) != first {
				t.Fatal("the same settings have two fingerprints, or none")
			}
			if same := print(base) == print(changed); same != c.same {
				t.Errorf("the same fingerprint: %v, want %v", same, c.same)
			}
		})
	}
}

// A wallet's verdict depends on one anchor, and counts while that one is configured.
func TestTrusts(t *testing.T) {
	one := wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(), EKU: wallettest.AgeSigner})
	other := wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(), EKU: wallettest.AgeSigner})
	with := func(issuers ...*wallettest.Issuer) method.Truster {
		var anchors []string
		for _, i := range issuers {
			anchors = append(anchors, string(i.PEM()))
		}
		return opened(t, "openid4vp", settings{"profile": "eu-av", "trust_anchors": anchors}).(method.Truster)
	}
	anchors, err := mdoc.ParseAnchors(one.PEM())
	if err != nil {
		t.Fatal(err)
	}
	trust := anchors[0].Fingerprint()
	trusts := func(m method.Truster, anchor string) bool {
		ok, err := m.Trusts(t.Context(), anchor)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !trusts(with(one, other), trust) || trusts(with(other), trust) || trusts(with(one), "") {
		t.Error("contract 34: what an anchor stands for counts without it")
	}
}
