package oidc_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
)

// goodSettings is a method that nothing is wrong with.
func goodSettings() settings {
	return settings{"issuer": "https://id.example", "client_id": clientID, "proof": plainProof}
}

func configured(t *testing.T, own settings) method.Config {
	t.Helper()
	all := goodSettings()
	maps.Copy(all, own)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return method.Config{Name: "bankid", Kind: oidc.Kind.Name, Level: "L2", Settings: encode(t, all),
		Secrets: map[string]string{"client_secret": secret}}
}

// settingsCase is settings beside goodSettings, and the member of the one mistake that is in them.
type settingsCase struct {
	rule     string
	settings settings
	member   string // "": nothing is wrong
}

// wantProblems checks that each mistake is reported once, at the member that has it.
func wantProblems(t *testing.T, cases []settingsCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			config := configured(t, c.settings)
			wrong := oidc.Kind.Check(config)
			m, err := oidc.Kind.Open(config, method.Host{})
			if (err == nil) != (len(wrong) == 0) || (m == nil) != (err != nil) {
				t.Errorf("Open: %v; Check: %v", err, wrong)
			}
			if c.member == "" {
				if len(wrong) > 0 {
					t.Errorf("it is wrong: %v", wrong)
				}
				return
			}
			if len(wrong) != 1 || wrong[0].Member != c.member || len(wrong[0].Text) < 15 {
				t.Errorf("got %q, want one problem of %s", wrong, c.member)
			}
		})
	}
}

// TestSettings has the client, its requests, and unknown names.
func TestSettings(t *testing.T) {
	wantProblems(t, []settingsCase{
		{"the least that is needed", nil, ""},
		{"no issuer", settings{"issuer": nil}, "issuer"},
		{"an issuer by http", settings{"issuer": "http://127.0.0.1:9000"}, "issuer"},
		{"an issuer with a query", settings{"issuer": "https://id.example?tenant=1"}, "issuer"},
		{"the address of the discovery document",
			settings{"issuer": "https://id.example/a/.well-known/openid-configuration"}, "issuer"},
		{"an issuer with a path and a slash", settings{"issuer": "https://id.example/tenant/"}, ""},
		{"no client_id", settings{"client_id": nil}, "client_id"},
		{"a client_id that is a number", settings{"client_id": 1}, "client_id"},
		{"a client_id with a space", settings{"client_id": "a b"}, "client_id"},
		{"an unknown client_auth", settings{"client_auth": "none"}, "client_auth"},
		{"client_auth for a key that is not there", settings{"client_auth": "private_key_jwt"},
			"client_auth"},
		{"an unknown key_alg", settings{"key_alg": "HS256"}, "key_alg"},
		{"an unknown key_audience", settings{"key_audience": "https://id.example"}, "key_audience"},
		{"scope as a list", settings{"scope": []string{"openid", "age"}}, ""},
		{"scope as words", settings{"scope": "openid age"}, ""},
		{"scope that is empty", settings{"scope": []string{}}, "scope"},
		{"scope with a number", settings{"scope": []any{"openid", 1}}, "scope"},
		{"scope with a quote", settings{"scope": []string{`a"b`}}, "scope"},
		{"acr_values with a space inside", settings{"acr_values": []string{"a b"}}, "acr_values"},
		{"claims that are a text", settings{"claims": "{}"}, "claims"},
		{"claims of 2,049 bytes", settings{"claims": settings{"a": strings.Repeat("x", 2049)}}, "claims"},
		{"a parameter that Verge sets", settings{"parameters": settings{"state": "x"}}, "parameters.state"},
		{"a parameter that would carry the secret", settings{"parameters": settings{"client_secret": "x"}},
			"parameters.client_secret"},
		{"another response_mode", settings{"parameters": settings{"response_mode": "form_post"}},
			"parameters.response_mode"},
		{"acr_values twice", settings{"acr_values": "a", "parameters": settings{"acr_values": "b"}},
			"parameters.acr_values"},
		{"acr_values as a parameter", settings{"parameters": settings{"acr_values": "b"}}, ""},
		{"contract 36: max_age", settings{"max_age": 300}, ""},
		{"contract 36: max_age of zero", settings{"max_age": 0}, ""},
		{"a negative max_age", settings{"max_age": -1}, "max_age"},
		{"a max_age of centuries", settings{"max_age": 1 << 40}, "max_age"},
		{"a max_age with a fraction", settings{"max_age": 0.5}, "max_age"},
		{"a max_age that is a text", settings{"max_age": "300"}, "max_age"},
		{"contract 36: max_age that would not be checked", settings{"parameters": settings{"max_age": "300"}},
			"parameters.max_age"},
		{"contract 36: max_age against max_age",
			settings{"max_age": 300, "parameters": settings{"max_age": "86400"}}, "parameters.max_age"},
		{"contract 36: prompt", settings{"prompt": "login consent"}, ""},
		{"prompt as a list", settings{"prompt": []string{"login", "consent"}}, ""},
		{"a prompt that lets no user sign in", settings{"prompt": "none"}, "prompt"},
		{"a prompt that is a number", settings{"prompt": 1}, "prompt"},
		{"contract 36: prompt against prompt",
			settings{"prompt": "login", "parameters": settings{"prompt": "none"}}, "parameters.prompt"},
		{"prompt as a parameter", settings{"parameters": settings{"prompt": "login"}}, ""},
		{"contract 36: prompt=none as a parameter", settings{"parameters": settings{"prompt": "none"}},
			"parameters.prompt"},
		{"contract 36: none in a list of prompts", settings{"parameters": settings{"prompt": "login none"}},
			"parameters.prompt"},
		{"contract 36: no pushed requests", settings{"pushed": "off"}, ""},
		{"contract 36: pushed requests where announced", settings{"pushed": "auto"}, ""},
		{"another word for pushed", settings{"pushed": "on"}, "pushed"},
		{"pushed that is false", settings{"pushed": false}, "pushed"},
		{"a parameter of a strange name", settings{"parameters": settings{"a&b": "x"}}, "parameters"},
		{"a parameter that is a number", settings{"parameters": settings{"max_age": 0}},
			"parameters.max_age"},
		{"parameters that are a list", settings{"parameters": []string{}}, "parameters"},
		{"userinfo that is a text", settings{"userinfo": "true"}, "userinfo"},
		{"an unknown setting", settings{"isuer": "x"}, "isuer"},
		{"a choice without its preset", settings{"country": "DK"}, "country"},
	})
}

// TestProofSettings has what proves an age.
func TestProofSettings(t *testing.T) {
	proof := func(own settings) settings {
		p := settings{"claim": []string{"a"}, "equals": true, "age": 18}
		maps.Copy(p, own)
		maps.DeleteFunc(p, func(_ string, v any) bool { return v == nil })
		return settings{"proof": p}
	}
	birthdate := proof(settings{"equals": nil, "age": nil, "birthdate": true})
	wantProblems(t, []settingsCase{
		{"no proof", settings{"proof": nil}, "proof"},
		{"an empty list of proofs", settings{"proof": []string{}}, "proof"},
		{"17 proofs", settings{"proof": make([]any, 17)}, "proof"},
		{"a proof that is a text", settings{"proof": "is_over_18"}, "proof"},
		{"a proof without a claim", proof(settings{"claim": nil}), "proof.claim"},
		{"a claim that is a text", proof(settings{"claim": "is_over_18"}), "proof.claim"},
		{"a claim with an empty name", proof(settings{"claim": []string{"a", ""}}), "proof.claim"},
		{"a proof without age", proof(settings{"age": nil}), "proof.age"},
		{"an age of 0", proof(settings{"age": 0}), "proof.age"},
		{"an age of 121", proof(settings{"age": 121}), "proof.age"},
		{"an age that is a text", proof(settings{"age": "18"}), "proof.age"},
		{"a proof without equals", proof(settings{"equals": nil}), "proof.equals"},
		{"equals that is a list", proof(settings{"equals": []bool{true}}), "proof.equals"},
		{"equals that is a fraction", proof(settings{"equals": 18.5}), "proof.equals"},
		{"equals that is a text", proof(settings{"equals": "18:true"}), ""},
		{"contract 36: equals that is an empty text", proof(settings{"equals": ""}), "proof.equals"},
		{"contract 36: a condition whose equals is an empty text",
			proof(settings{"require": []settings{{"claim": []string{"a"}, "equals": ""}}}),
			"proof.require[0].equals"},
		{"a date of birth", birthdate, ""},
		{"a date of birth with an age", proof(settings{"birthdate": true, "equals": nil}), "proof.birthdate"},
		{"a condition without equals", proof(settings{"require": []settings{{"claim": []string{"a"}}}}),
			"proof.require[0].equals"},
		{"a condition that is a text", proof(settings{"require": []string{"a"}}), "proof.require[0].claim"},
		{"conditions that are a table", proof(settings{"require": settings{}}), "proof.require"},
		{"an unknown member of a proof", proof(settings{"ages": 18}), "proof.ages"},
		{"the second proof of a list",
			settings{"proof": []any{plainProof, settings{"claim": []string{"private_key"}, "equals": 1}}},
			"proof[1].age"},
	})
}

// TestCredentialSettings has the signed claim that holds the others.
func TestCredentialSettings(t *testing.T) {
	credential := func(own settings) settings {
		c := settings{"claim": []string{"a"}, "issuer": "https://id.example/", "did": "did:web:id.example"}
		maps.Copy(c, own)
		return settings{"credential": c}
	}
	wantProblems(t, []settingsCase{
		{"a credential", credential(nil), ""},
		{"a credential of another DID method", credential(settings{"did": "did:key:z6Mk"}), "credential.did"},
		{"a DID with a path", credential(settings{"did": "did:web:id.example:user"}), "credential.did"},
		{"a DID with an escaped path", credential(settings{"did": "did:web:id.example%2Fuser"}),
			"credential.did"},
		{"a DID on loopback", credential(settings{"did": "did:web:127.0.0.1%3A80"}), ""},
		{"a credential without an issuer", credential(settings{"issuer": nil}), "credential.issuer"},
		{"a credential that is a text", settings{"credential": "a"}, "credential"},
	})
}

// TestPresetSettings has presets and the choices that they ask for.
func TestPresetSettings(t *testing.T) {
	wantProblems(t, []settingsCase{
		{"an unknown preset", settings{"preset": "facebook"}, "preset"},
		{"a preset that is a number", settings{"preset": 1}, "preset"},
		{"a preset without its choice", settings{"preset": "idura-age"}, "country"},
		{"a preset with another choice", settings{"preset": "idura-age", "country": "DE"}, "country"},
		{"a choice that would leave its text", settings{"preset": "oidc4ida", "trust_framework": `x","y":"`},
			"trust_framework"},
		{"a preset with its choice", settings{"preset": "idura-age", "country": "SE", "proof": nil}, ""},
		{"a preset whose proof is replaced", settings{"preset": "mitid-age"}, ""},
	})
}

// TestClientSettings has what is not in the settings object.
func TestClientSettings(t *testing.T) {
	for _, c := range []struct {
		rule    string
		secrets map[string]string
		keys    []string
		auth    any
		member  string // "": nothing is wrong
	}{
		{"nothing", nil, nil, nil, "client_auth"},
		{"a secret", map[string]string{"client_secret": secret}, nil, nil, ""},
		{"a secret for client_secret_post", map[string]string{"client_secret": secret}, nil,
			"client_secret_post", ""},
		{"a key", nil, []string{"private_key"}, nil, ""},
		{"a key for a secret's way", nil, []string{"private_key"}, "client_secret_basic", "client_auth"},
		{"another key", nil, []string{"private_key", "other"}, nil, "other"},
		{"both, without client_auth", map[string]string{"client_secret": secret}, []string{"private_key"},
			nil, "client_auth"},
		{"both, with client_auth", map[string]string{"client_secret": secret},
			[]string{"private_key"}, "private_key_jwt", ""},
		{"another secret", map[string]string{"client_secret": secret, "token": "x"}, nil, nil, "token"},
		{"a secret with a line break", map[string]string{"client_secret": secret + "\n"}, nil, nil,
			"client_secret"},
		{"a secret of 1,025 bytes", map[string]string{"client_secret": strings.Repeat("x", 1025)}, nil, nil,
			"client_secret"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			config := configured(t, settings{"client_auth": c.auth})
			config.Secrets, config.Keys = c.secrets, c.keys
			wrong := oidc.Kind.Check(config)
			if c.member == "" && len(wrong) > 0 || c.member != "" &&
				(len(wrong) != 1 || wrong[0].Member != c.member) {
				t.Errorf("got %q, want a problem of %q", wrong, c.member)
			}
			if strings.Contains(wrong.Error(), secret) {
				t.Errorf("a problem repeats the secret: %v", wrong)
			}
		})
	}
	config := configured(t, nil)
	config.Settings = json.RawMessage(`{"issuer":"https://id.example","issuer":"https://attacker.example"}`)
	if wrong := oidc.Kind.Check(config); len(wrong) != 1 || wrong[0].Member != "settings" {
		t.Errorf("a duplicate field: %v", wrong)
	}
}

// TestNarrow: an integration can only be stricter.
func TestNarrow(t *testing.T) {
	config := configured(t, settings{"acr_values": []string{"substantial", "high"}})
	for _, c := range []struct {
		rule, settings string
		member         string // "": nothing is wrong
	}{
		{"nothing", ``, ""},
		{"an empty table", `{}`, ""},
		{"one of the acr values", `{"acr_values":["high"]}`, ""},
		{"all of them", `{"acr_values":"high substantial"}`, ""},
		{"one more", `{"acr_values":["high","low"]}`, "acr_values"},
		{"none", `{"acr_values":[]}`, "acr_values"},
		{"another issuer", `{"issuer":"https://attacker.example"}`, "issuer"},
		{"another proof", `{"proof":{}}`, "proof"},
		{"more scope", `{"scope":"email"}`, "scope"},
		{"an unknown setting", `{"x":null}`, "x"},
		{"a list", `[]`, "settings"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			wrong := oidc.Kind.Narrow(config, json.RawMessage(c.settings))
			if c.member == "" && len(wrong) > 0 || c.member != "" &&
				(len(wrong) != 1 || wrong[0].Member != c.member) {
				t.Errorf("got %q, want a problem of %q", wrong, c.member)
			}
		})
	}
}

// TestNarrowedSession: an integration's choices also apply to the response.
func TestNarrowedSession(t *testing.T) {
	w := newWalk(t, oidctestConfig(), settings{"acr_values": []string{"substantial", "high"}})
	w.session.Settings = json.RawMessage(`{"acr_values":["high"]}`)
	d, err := w.login()
	wantVerdict(t, "the acr value that the integration accepts", d, err, method.Approved)
	w.provider.Answer(answerWithACR("substantial"))
	d, err = w.login()
	wantRejection(t, "an acr value that only the method accepts", d, err, "jwt_acr")

	w.session.Settings = json.RawMessage(`{"acr_values":["low"]}`)
	if d, err := w.leave(); err == nil {
		t.Errorf("settings that the method has not: %+v", d)
	}
}

// id_token_encryption and userinfo_encryption need a key that can decrypt, however the client authenticates
// (contract 36).
func TestEncryptionSettings(t *testing.T) {
	withSecret := map[string]string{"client_secret": secret}
	for _, c := range []struct {
		rule      string
		secrets   map[string]string
		keys      []string
		settings  settings
		algorithm string // that the key must decrypt with
		member    string // "": nothing is wrong
	}{
		{"a key", nil, []string{"private_key"}, settings{}, "ECDH-ES", ""},
		{"an RSA key", nil, []string{"private_key"}, settings{"key_alg": "RS256"}, "RSA-OAEP-256", ""},
		{"an RSA key for PS256", nil, []string{"private_key"}, settings{"key_alg": "PS256"}, "RSA-OAEP-256",
			""},
		{"a key next to a secret", withSecret, []string{"private_key"},
			settings{"client_auth": "client_secret_post"}, "ECDH-ES", ""},
		{"false", nil, []string{"private_key"}, settings{"id_token_encryption": false}, "", ""},
		{"false without a key", withSecret, nil, settings{"id_token_encryption": false}, "", ""},
		{"no key", withSecret, nil, settings{}, "", "id_token_encryption"},
		{"Ed25519", nil, []string{"private_key"}, settings{"key_alg": "EdDSA"}, "", "id_token_encryption"},
		{"a text", nil, []string{"private_key"}, settings{"id_token_encryption": "ECDH-ES"}, "",
			"id_token_encryption"},
		{"userinfo alone", nil, []string{"private_key"}, settings{"id_token_encryption": false,
			"userinfo": true, "userinfo_encryption": true}, "ECDH-ES", ""},
		{"userinfo alone, and no key", withSecret, nil, settings{"id_token_encryption": false,
			"userinfo": true, "userinfo_encryption": true}, "", "userinfo_encryption"},
		{"userinfo that is not read", nil, []string{"private_key"}, settings{"userinfo_encryption": true}, "",
			"userinfo_encryption"},
	} {
		own := settings{"id_token_encryption": true}
		maps.Copy(own, c.settings)
		config := configured(t, own)
		config.Secrets, config.Keys = c.secrets, c.keys
		wrong := oidc.Kind.Check(config)
		if c.member == "" && len(wrong) > 0 || c.member != "" &&
			(len(wrong) != 1 || wrong[0].Member != c.member) {
			t.Errorf("%s: got %q, want a problem of %q", c.rule, wrong, c.member)
		}
		if got := oidc.Kind.Decrypts(config)["private_key"]; c.member == "" && got != c.algorithm {
			t.Errorf("%s: the key decrypts with %q, want %q", c.rule, got, c.algorithm)
		}
	}
}
