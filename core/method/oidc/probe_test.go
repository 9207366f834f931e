package oidc_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/testharness/oidctest"
)

// announcing returns a change of the provider's discovery document.
func announcing(name string, values ...string) func(w *walk) {
	return func(w *walk) {
		d := w.provider.Discovery()
		d[name] = values
		w.provider.Fault(oidctest.DiscoveryPath, oidctest.Fault{Body: string(encode(w.t, d))})
	}
}

// TestProbe: the output of verge method check for a provider.
func TestProbe(t *testing.T) {
	wrongClock := func(w *walk) {
		w.host.Now = func() time.Time { return w.now.Add(-5 * time.Hour) }
	}
	const elsewhere = "http://localhost:8080/verify/return/other"
	for _, c := range []probeCase{
		{"all is well", oidctest.Config{}, nil, returnURL, nil, "is likely registered", ""},
		{"the client is accepted", oidctest.Config{}, nil, returnURL, nil,
			"the token endpoint accepts the client", ""},
		{"the way to authenticate is offered", oidctest.Config{}, nil, returnURL, nil,
			"offers client_secret_basic", ""},
		{"a return address that is not registered", oidctest.Config{}, nil, elsewhere, nil, "",
			"likely not registered"},
		{"another secret", oidctest.Config{}, nil, returnURL,
			func(w *walk) { w.config.Secrets = map[string]string{"client_secret": "another"} }, "",
			"does not accept the client"},
		{"another client", oidctest.Config{}, settings{"client_id": "another"}, returnURL, nil, "",
			"does not accept the client"},
		{"pushed requests: all is well", oidctest.Config{PushedOnly: true}, nil, returnURL, nil,
			"accepted a pushed request", ""},
		{"pushed requests: another return address", oidctest.Config{PushedOnly: true}, nil, elsewhere, nil,
			"", "not registered"},
		{"pushed requests: another secret", oidctest.Config{PushedOnly: true}, nil, returnURL,
			func(w *walk) { w.config.Secrets = map[string]string{"client_secret": "another"} }, "",
			"does not accept the client"},
		{"pushed requests: 500", oidctest.Config{PushedOnly: true}, nil, returnURL,
			func(w *walk) { w.provider.Fault(oidctest.PushPath, oidctest.Fault{Status: 500}) }, "", "failed"},
		{"a provider that sends the browser back with an error", oidctest.Config{}, nil, returnURL,
			func(w *walk) { w.provider.Answer(oidctest.Answer{Error: "access_denied"}) },
			"", "back immediately"},
		{"a way to authenticate that is not offered", oidctest.Config{}, nil, returnURL,
			announcing("token_endpoint_auth_methods_supported", "private_key_jwt"),
			"", "offers private_key_jwt"},
		{"an algorithm of client assertions that is not offered", byKey(nil), nil, returnURL,
			announcing("token_endpoint_auth_signing_alg_values_supported", "RS256", "PS256"),
			"", "client assertions by ES256; it offers RS256, PS256: set key_alg"},
		{"a clock that is wrong", byKey(nil), nil, returnURL, wrongClock, "",
			"check client_id, the key, key_id and key_audience for private_key_jwt, and this machine's"},
		{"pushed requests: a clock that is wrong", oidctest.Config{Pushed: true, Clients: byKey(nil).Clients},
			nil, returnURL, wrongClock, "", "and this machine's clock"},
		{"an algorithm of client assertions that is offered", byKey(nil), nil, returnURL,
			announcing("token_endpoint_auth_signing_alg_values_supported", "RS256", "ES256"),
			"offers private_key_jwt", ""},
		{"an address that no browser can open", oidctest.Config{}, settings{
			"claims": settings{"id_token": settings{strings.Repeat("claim", 380): nil}}}, returnURL, nil, "",
			"no login with the claim is_over_18 can begin: oidc: the address for the browser has 2"},
		{"pushed requests: claims that are too long for an address", oidctest.Config{Pushed: true}, settings{
			"claims": settings{"id_token": settings{strings.Repeat("claim", 380): nil}}}, returnURL, nil,
			"accepted a pushed request", ""},
		{"a provider without PKCE S256", oidctest.Config{}, nil, returnURL,
			announcing("code_challenge_methods_supported", "plain"), "", "PKCE"},
		{"algorithms that cannot be checked", oidctest.Config{}, nil, returnURL,
			announcing("id_token_signing_alg_values_supported", "ES512"), "", "ES512"},
		{"an algorithm without a key", oidctest.Config{}, nil, returnURL,
			announcing("id_token_signing_alg_values_supported", "RS256"), "",
			"announces RS256 for ID tokens, and its key set has no key"},
		{"no code flow", oidctest.Config{}, nil, returnURL,
			announcing("response_types_supported", "id_token"), "", "does not offer the code flow"},
		{"no code in the query", oidctest.Config{}, nil, returnURL,
			announcing("response_modes_supported", "form_post"), "",
			"response_modes_supported has form_post"},
		{"a code in the query", oidctest.Config{}, nil, returnURL,
			announcing("response_modes_supported", "form_post", "query"), "", ""},
		{"tokens for every code", oidctest.Config{}, nil, returnURL, func(w *walk) {
			w.provider.Fault(oidctest.TokenPath, oidctest.Fault{Body: `{"id_token":"a","access_token":"b"}`})
		}, "", "returned tokens for a code that does not exist"},
		{"the login page is the same for every return address", oidctest.Config{}, nil, elsewhere,
			func(w *walk) {
				w.provider.Fault(oidctest.LoginPath, oidctest.Fault{Type: "text/html", Fill: 100 << 10})
			}, "it is unknown whether", ""},
		{"a credential's keys that are there", oidctest.Config{}, nil, returnURL, func(w *walk) {
			w.config.Settings = encode(w.t, settings{"issuer": w.provider.URL, "client_id": clientID,
				"proof":      plainProof,
				"credential": settings{"claim": []string{"a"}, "issuer": "i", "did": w.provider.DID()}})
		}, "has 1 keys", ""},
		{"a credential's keys that are not there", oidctest.Config{}, nil, returnURL, func(w *walk) {
			w.config.Settings = encode(w.t, settings{"issuer": w.provider.URL, "client_id": clientID,
				"proof":      plainProof,
				"credential": settings{"claim": []string{"a"}, "issuer": "i", "did": w.provider.DID()}})
			w.provider.Fault(oidctest.DIDPath, oidctest.Fault{Status: 404})
		}, "", "cannot be read"},
	} {
		t.Run(c.rule, c.run)
	}
}

// probeCase is a probe of a provider. good and bad are parts of the findings of that kind; if bad is empty,
// there is no bad one.
type probeCase struct {
	rule      string
	provider  oidctest.Config
	settings  settings
	returnURL string
	arrange   func(w *walk)
	good, bad string
}

func (c probeCase) run(t *testing.T) {
	w := newWalk(t, c.provider, c.settings)
	if c.arrange != nil {
		c.arrange(w)
	}
	report, err := oidc.Probe(context.Background(), w.config, w.host, c.returnURL)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := findings(t, report)
	if !strings.Contains(good, c.good) {
		t.Errorf("the good findings are %q, want %q", good, c.good)
	}
	if !strings.Contains(bad, c.bad) || c.bad == "" && bad != "" {
		t.Errorf("the bad findings are %q, want %q", bad, c.bad)
	}
	wantFacts(t, report, map[string]string{
		"issuer": w.provider.URL, "return address": c.returnURL, "key": `"es256-1" for ES256`,
		"iss with returns": "yes", "authorization endpoint": w.provider.URL + oidctest.LoginPath,
		"proves": "ages 18",
	})
}

// findings returns the texts of good and bad findings, one per line.
func findings(t *testing.T, r method.Report) (good, bad string) {
	t.Helper()
	for _, f := range r.Findings {
		if f.Good {
			good += f.Text + "\n"
		} else {
			bad += f.Text + "\n"
		}
		if strings.Contains(f.Text, secret) {
			t.Errorf("a finding has the secret: %s", f.Text)
		}
	}
	return good, bad
}

func factOf(r method.Report, name string) string {
	for _, f := range r.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

func wantFacts(t *testing.T, r method.Report, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := factOf(r, name); got != value {
			t.Errorf("the fact %q is %q, want %q", name, got, value)
		}
	}
}

// TestProbe_Claims: method check compares scopes, claims and more with those that the provider announces.
func TestProbe_Claims(t *testing.T) {
	scoped := oidctest.Config{Scopes: map[string][]string{"openid": nil, "adult": {"is_over_18"}}}
	proof := func(claim, scope string) settings {
		return settings{"claim": []string{claim}, "equals": true, "age": 18, "scope": scope}
	}
	const openidAlone = "asks for the scope openid alone"
	for _, c := range []struct {
		rule      string
		provider  oidctest.Config
		settings  settings
		announces map[string]any
		warns     []string // one each
		unchecked []string
	}{
		{"all is announced", scoped, settings{"proof": proof("is_over_18", "adult")}, nil, nil,
			[]string{"the claim is_over_18 for this client in the ID token; sign in once to see; if"}},
		{"the claim needs a scope that is not requested", scoped, nil, nil, []string{openidAlone},
			[]string{"the claim is_over_18"}},
		{"nothing is announced", oidctest.Config{}, nil, nil, []string{openidAlone}, []string{"is_over_18"}},
		{"the claims parameter asks for the claim", scoped,
			settings{"claims": settings{"id_token": settings{"is_over_18": nil}}}, nil, nil,
			[]string{"is_over_18"}},
		{"a scope that is not announced", scoped, settings{"proof": proof("is_over_18", "grown-up")}, nil,
			[]string{"the scope grown-up; scopes_supported of its discovery document has adult, openid"},
			[]string{"is_over_18"}},
		{"a claim that is not announced", scoped, settings{"proof": proof("over18", "adult")}, nil,
			[]string{"the claim over18; claims_supported of its discovery document has is_over_18"},
			[]string{"over18"}},
		{"text that a terminal cannot show", scoped, settings{"proof": proof("over18", "adult")},
			map[string]any{"claims_supported": []string{"a\x1b[31m", "b\n", "is_over_18", "\u00e5lder"}},
			[]string{"claims_supported of its discovery document has is_over_18, \u00e5lder"},
			[]string{"over18"}},
		{"two keys with one kid", scoped, settings{"proof": proof("is_over_18", "adult")},
			map[string]any{"jwks_uri": "twice"}, []string{"several keys with the kid \"es256-1\""},
			[]string{"is_over_18"}},
		{"a condition that is not announced", scoped, settings{"proof": settings{
			"claim": []string{"is_over_18"}, "equals": true, "age": 18, "scope": "adult",
			"require": []settings{{"claim": []string{"country"}, "equals": "DK"}}}}, nil,
			[]string{"the claim country"}, []string{"country", "is_over_18"}},
		{"userinfo", scoped, settings{"proof": proof("is_over_18", "adult"), "userinfo": true}, nil, nil,
			[]string{"the claim is_over_18 for this client from its userinfo endpoint; sign in once to see"}},
		{"a sign-in that is not announced", scoped, settings{"proof": proof("is_over_18", "adult"),
			"prompt": "login", "acr_values": "high", "max_age": 300},
			map[string]any{"prompt_values_supported": []string{"consent"},
				"acr_values_supported": []string{"low"}},
			[]string{"the prompt login", "the acr value high"}, []string{"is_over_18", "auth_time", "acr"}},
		{"an encryption that is not announced", byKey(nil), settings{"id_token_encryption": true},
			map[string]any{"id_token_encryption_alg_values_supported": []string{"RSA-OAEP-256"},
				"userinfo_encryption_alg_values_supported": []string{"ECDH-ES"}},
			[]string{"the algorithm to encrypt ID tokens ECDH-ES; id_token_encryption_alg_values_supported",
				"the scope openid alone"},
			[]string{"is_over_18"}},
		{"an encryption by key wrapping alone", byKey(nil), settings{"id_token_encryption": true},
			map[string]any{"id_token_encryption_alg_values_supported": []string{"ECDH-ES+A256KW"}},
			[]string{"the scope openid alone"}, []string{"is_over_18"}},
		{"an encryption of userinfo that is not announced", byKey(nil),
			settings{"userinfo": true, "userinfo_encryption": true},
			map[string]any{"id_token_encryption_alg_values_supported": []string{"RSA-OAEP"},
				"userinfo_encryption_alg_values_supported": []string{"RSA-OAEP-256"}},
			[]string{"the algorithm to encrypt userinfo ECDH-ES; userinfo_encryption_alg_values_supported",
				"the scope openid alone"},
			[]string{"is_over_18"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, c.provider, c.settings)
			if c.announces["jwks_uri"] == "twice" {
				set := w.provider.KeySet()
				keys := set["keys"].([]any)
				set["keys"] = append(keys, keys[0])
				w.provider.Fault(oidctest.KeysPath, oidctest.Fault{Body: string(encode(t, set))})
			} else if c.announces != nil {
				document := w.provider.Discovery()
				maps.Copy(document, c.announces)
				w.provider.Fault(oidctest.DiscoveryPath, oidctest.Fault{Body: string(encode(t, document))})
			}
			report, err := oidc.Probe(context.Background(), w.config, w.host, returnURL)
			if err != nil {
				t.Fatal(err)
			}
			var warnings []string
			for _, f := range report.Findings {
				if f.Warning {
					warnings = append(warnings, f.Text)
				}
				if !f.Good {
					t.Errorf("it is wrong: %s", f.Text)
				}
			}
			if !slices.EqualFunc(warnings, c.warns, strings.Contains) {
				t.Errorf("it warns %q, want %q", warnings, c.warns)
			}
			if !slices.EqualFunc(report.Unchecked, c.unchecked, strings.Contains) {
				t.Errorf("it cannot check %q, want %q", report.Unchecked, c.unchecked)
			}
		})
	}
}

// TestProbe_Pushed: pushed = off at a provider that requires pushed requests is an error, and the advice is
// named.
func TestProbe_Pushed(t *testing.T) {
	w := newWalk(t, oidctest.Config{PushedOnly: true}, settings{"pushed": "off"})
	_, err := oidc.Probe(context.Background(), w.config, w.host, returnURL)
	if err == nil || !strings.Contains(err.Error(), `remove pushed = "off"`) {
		t.Errorf("required: %v", err)
	}
	w = newWalk(t, oidctest.Config{Pushed: true}, settings{"pushed": "off"})
	report, err := oidc.Probe(context.Background(), w.config, w.host, returnURL)
	if err != nil || w.provider.Count(oidctest.PushPath) > 0 {
		t.Errorf("offered: %v, and %d pushed requests", err, w.provider.Count(oidctest.PushPath))
	}
	wantFacts(t, report, map[string]string{"pushed requests": "off by the setting pushed"})
	w = newWalk(t, oidctest.Config{Pushed: true}, nil)
	w.provider.Fault(oidctest.PushPath, oidctest.Fault{Status: 401, Body: `{"error":"invalid_client"}`})
	report, err = oidc.Probe(context.Background(), w.config, w.host, returnURL)
	if last := report.Findings[len(report.Findings)-1]; err != nil || last.Good ||
		!strings.Contains(last.Text, `set pushed = "off"`) {
		t.Errorf("refused: %v, %+v", err, last)
	}
}

// TestProbeSaysWhichAges: an operator sees what the method can prove.
func TestProbeSaysWhichAges(t *testing.T) {
	for want, proof := range map[string]any{
		"ages 16, 18": []settings{{"claim": []string{"a"}, "equals": true, "age": 18},
			{"claim": []string{"b"}, "equals": true, "age": 16}},
		"every age, by a date of birth where no other claim is enough": []settings{
			{"claim": []string{"a"}, "equals": true, "age": 18},
			{"claim": []string{"birthdate"}, "birthdate": true}},
	} {
		w := newWalk(t, oidctest.Config{}, settings{"proof": proof})
		r, err := oidc.Probe(context.Background(), w.config, w.host, returnURL)
		if err != nil {
			t.Fatal(err)
		}
		wantFacts(t, r, map[string]string{"proves": want})
	}
}

// TestProbeFails: what keeps a method from working at all is an error.
func TestProbeFails(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	w.provider.Fault(oidctest.KeysPath, oidctest.Fault{Body: `{"keys":[]}`})
	if r, err := oidc.Probe(context.Background(), w.config, w.host, returnURL); err == nil {
		t.Errorf("a provider without keys: %+v", r)
	}
	w.provider.Fault(oidctest.KeysPath, oidctest.Fault{Type: "text/html", Body: "<p>"})
	if r, err := oidc.Probe(context.Background(), w.config, w.host, returnURL); err == nil ||
		!strings.Contains(err.Error(), oidctest.KeysPath+", the jwks_uri of the discovery document") {
		t.Errorf("an address of another page: %+v, %v", r, err)
	}
	w.provider.Fault(oidctest.KeysPath, oidctest.Fault{Status: 500})
	if r, err := oidc.Probe(context.Background(), w.config, w.host, returnURL); err == nil {
		t.Errorf("a provider whose keys cannot be read: %+v", r)
	}
	w.provider.Fault(oidctest.DiscoveryPath, oidctest.Fault{Drop: true})
	if r, err := oidc.Probe(context.Background(), w.config, w.host, returnURL); err == nil ||
		factOf(r, "issuer") != w.provider.URL {
		t.Errorf("a missing provider: %+v, %v", r, err)
	}
	for what, wrong := range map[string]struct {
		fault oidctest.Fault
		says  string
	}{
		"another issuer": {oidctest.Fault{Body: `{"issuer":"https://elsewhere.example"}`}, "spells it"},
		"a placeholder": {oidctest.Fault{Body: `{"issuer":"https://id.example/{tenantid}/v2.0"}`},
			"of one tenant"},
		"no such page": {oidctest.Fault{Status: 404}, "correct issuer"},
		"a firewall":   {oidctest.Fault{Status: 403, Type: "text/html", Body: "<p>"}, "firewall"},
		"its limit":    {oidctest.Fault{Status: 429}, "try again later"},
		"its fault":    {oidctest.Fault{Status: 503}, "try again later"},
		"a redirect":   {oidctest.Fault{Status: 302}, "redirects are not followed"},
		"no issuer":    {oidctest.Fault{Body: `{}`}, "correct issuer"},
		"no JSON":      {oidctest.Fault{Type: "text/html", Body: "<p>"}, "correct issuer"},
	} {
		w.provider.Fault(oidctest.DiscoveryPath, wrong.fault)
		r, err := oidc.Probe(context.Background(), w.config, w.host, returnURL)
		if err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
	w.config.Settings = nil
	if r, err := oidc.Probe(context.Background(), w.config, w.host, returnURL); err == nil {
		t.Errorf("no settings: %+v", r)
	}
}

// TestProbeOfAnErrorPage: some providers send the browser to their own error page.
func TestProbeOfAnErrorPage(t *testing.T) {
	pages := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		target := "/login?x=1"
		if r.URL.Query().Get("redirect_uri") != returnURL {
			target = "/error?x=1"
		}
		http.Redirect(rw, r, target, http.StatusFound)
	}))
	t.Cleanup(pages.Close)
	w := newWalk(t, oidctest.Config{}, nil)
	d := w.provider.Discovery()
	d["authorization_endpoint"] = pages.URL + "/authorize"
	w.provider.Fault(oidctest.DiscoveryPath, oidctest.Fault{Body: string(encode(t, d))})
	report, err := oidc.Probe(context.Background(), w.config, w.host, returnURL)
	if err != nil {
		t.Fatal(err)
	}
	last := report.Findings[len(report.Findings)-1]
	if !last.Good || !strings.Contains(last.Text, "likely registered") {
		t.Errorf("it says %+v", last)
	}
	var other bool
	for _, f := range report.Findings {
		other = other || strings.Contains(f.Text, "not on the issuer's host")
	}
	if !other {
		t.Errorf("an endpoint on another host is not said: %+v", report.Findings)
	}
}
