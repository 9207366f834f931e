package oidc_test

import (
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/testharness/oidctest"
)

// vector is a login with a preset: the expected request, the provider's claims, and the decision.
type vector struct {
	Preset     string            `json:"preset"`
	Why        string            `json:"why"`
	Choices    map[string]string `json:"choices"`
	MinimumAge int               `json:"minimum_age"` // 0: 18
	Scope      string            `json:"scope"`       // "": not checked
	Parameters map[string]string `json:"parameters"`

	Claims map[string]any `json:"claims"`

	// Credential is in the claim that the preset names. The test adds iss, aud, sub, iat and exp.
	Credential map[string]any `json:"credential"`

	Verdict  string `json:"verdict"`
	Rejected string `json:"refused"` // the reason, instead of a verdict
}

const coreIdentity = "https://vocab.account.gov.uk/v1/coreIdentityJWT"

func TestPresets(t *testing.T) {
	raw, err := os.ReadFile("testdata/presets.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]method.Verdict{
		"approved": method.Approved, "rejected": method.Rejected, "unconfirmed": method.AttemptFailed,
	}
	approved := map[string]bool{}
	_, wide := newKeys(t)
	for _, v := range vectors {
		t.Run(v.Preset+": "+v.Why, func(t *testing.T) {
			own := settings{"preset": v.Preset}
			for name, value := range v.Choices {
				own[name] = value
			}
			var w *walk
			if v.Preset == "govuk-one-login" {
				w = newGOVUK(t, wide)
			} else {
				w = newWalk(t, oidctest.Config{}, own)
			}
			if v.MinimumAge != 0 {
				w.session.MinimumAge = v.MinimumAge
			}
			if v.Credential != nil {
				v.Claims = map[string]any{coreIdentity: w.credential(v.Credential)}
			}
			w.provider.Answer(oidctest.Answer{Claims: v.Claims})

			address, err := url.Parse(w.mustLeave().Leave.URL)
			if err != nil {
				t.Fatal(err)
			}
			query := address.Query()
			if v.Scope != "" && query.Get("scope") != v.Scope {
				t.Errorf("the scope is %q, want %q", query.Get("scope"), v.Scope)
			}
			for name, want := range v.Parameters {
				if query.Get(name) != want {
					t.Errorf("%s is %q, want %q", name, query.Get(name), want)
				}
			}
			d, err := w.login()
			if v.Rejected != "" {
				wantRejection(t, v.Why, d, err, v.Rejected)
				return
			}
			want, known := verdicts[v.Verdict]
			if !known {
				t.Fatalf("the verdict %q is not known", v.Verdict)
			}
			wantVerdict(t, v.Why, d, err, want)
			approved[v.Preset] = approved[v.Preset] || want == method.Approved
		})
	}
	for _, name := range oidc.PresetNames() {
		if !approved[name] {
			t.Errorf("no vector has an approval of the preset %s", name)
		}
	}
	if !slices.Contains(oidc.PresetNames(), "idura-age") {
		t.Errorf("the presets are %q", oidc.PresetNames())
	}
}

// newGOVUK returns a walk of the preset govuk-one-login. As GOV.UK, the provider verifies client assertions
// by an RSA key alone. It also signs the credentials.
func newGOVUK(t *testing.T, key *rsa.PrivateKey) *walk {
	t.Helper()
	w := newWalk(t, byKey(&key.PublicKey), settings{"preset": "govuk-one-login"})
	w.signWith(key)
	w.config.Settings = encode(t, settings{"preset": "govuk-one-login", "issuer": w.provider.URL,
		"client_id": clientID, "credential": settings{"claim": []string{coreIdentity},
			"issuer": "https://identity.account.gov.uk/", "did": w.provider.DID()}})
	w.open()
	return w
}

// credential signs claims as the issuer of GOV.UK's identities does.
func (w *walk) credential(claims map[string]any) string {
	w.t.Helper()
	now := w.clock()
	whole := map[string]any{"iss": "https://identity.account.gov.uk/", "aud": clientID, "sub": "person-1",
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
	maps.Copy(whole, claims)
	token, err := w.provider.SignCredential("ES256", whole)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// TestPresetsAreGood: each preset is a method that nothing is wrong with, once its choices are made.
func TestPresetsAreGood(t *testing.T) {
	choices := settings{"idura-age": settings{"country": "NO"},
		"oidc4ida":        settings{"trust_framework": "eidas"},
		"govuk-one-login": settings{"client_auth": "client_secret_post"}}
	for _, name := range oidc.PresetNames() {
		own := settings{"preset": name, "proof": nil}
		if more, ok := choices[name].(settings); ok {
			maps.Copy(own, more)
		}
		if wrong := oidc.Kind.Check(configured(t, own)); len(wrong) > 0 {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

// TestCredentialKeys has the rows of DID documents that must not vouch for a credential.
func TestCredentialKeys(t *testing.T) {
	_, wide := newKeys(t)
	for _, c := range []struct {
		rule   string
		change func(document map[string]any)
		reason string // "": it is accepted
	}{
		{"as it is", func(map[string]any) {}, ""},
		{"another id", func(d map[string]any) { d["id"] = "did:web:attacker.example" }, "jwks"},
		{"no keys", func(d map[string]any) { delete(d, "assertionMethod") }, "jwks"},
		{"a key of another controller", func(d map[string]any) {
			d["assertionMethod"].([]any)[0].(map[string]any)["controller"] = "did:web:attacker.example"
		}, "jwt_no_key"},
		{"a key without an id", func(d map[string]any) {
			delete(d["assertionMethod"].([]any)[0].(map[string]any), "id")
		}, "jwt_no_key"},
		{"things that are no keys", func(d map[string]any) {
			d["assertionMethod"] = append(d["assertionMethod"].([]any), nil, 1, "did:web:x#y")
		}, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newGOVUK(t, wide)
			w.provider.Answer(
				oidctest.Answer{Claims: map[string]any{coreIdentity: w.credential(map[string]any{
					"vot": "P2",
					"vc": settings{"credentialSubject": settings{
						"birthDate": []any{settings{"value": "1990-01-01"}}}},
				})}})
			id, _ := w.provider.Key("ES256")
			document := map[string]any{"id": w.provider.DID(), "assertionMethod": []any{map[string]any{
				"type": "JsonWebKey", "id": w.provider.DID() + "#" + id, "controller": w.provider.DID(),
				"publicKeyJwk": w.provider.KeySet()["keys"].([]any)[0],
			}}}
			c.change(document)
			w.provider.Fault(oidctest.DIDPath, oidctest.Fault{Body: string(encode(t, document))})
			d, err := w.login()
			if c.reason == "" {
				wantVerdict(t, c.rule, d, err, method.Approved)
			} else {
				wantRejection(t, c.rule, d, err, c.reason)
			}
		})
	}
}
