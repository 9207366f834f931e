package oidc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/testharness/oidctest"
)

// TestLogin walks each way to authenticate, sign, and ask.
func TestLogin(t *testing.T) {
	client := func(auth, algorithm string) []oidctest.Client {
		return []oidctest.Client{{ID: clientID, Secret: secret, Auth: auth, Algorithm: algorithm}}
	}
	for _, c := range []struct {
		rule     string
		provider oidctest.Config
		settings settings
	}{
		{"contract 36: client_secret_basic by default", oidctest.Config{}, nil},
		{"contract 36: client_secret_post", oidctest.Config{Clients: client("client_secret_post", "")},
			settings{"client_auth": "client_secret_post"}},
		{"contract 36: private_key_jwt by default with a key",
			oidctest.Config{Clients: client("private_key_jwt", "")}, nil},
		{"private_key_jwt for the token endpoint's address",
			oidctest.Config{Clients: client("private_key_jwt", "")},
			settings{"key_audience": "token_endpoint", "key_id": "client-1"}},
		{"contract 36: RS256", oidctest.Config{Clients: client("", "RS256")}, nil},
		{"contract 36: PS256", oidctest.Config{Clients: client("", "PS256")}, nil},
		{"contract 36: EdDSA", oidctest.Config{Clients: client("", "EdDSA")}, nil},
		{"contract 36: pushed requests where offered", oidctest.Config{Pushed: true}, nil},
		{"pushed requests with private_key_jwt",
			oidctest.Config{PushedOnly: true, Clients: client("private_key_jwt", "")}, nil},
		{"a provider that announces no iss", oidctest.Config{HidesIssuer: true}, nil},
		{"contract 36: userinfo", oidctest.Config{}, settings{"userinfo": true}},
		{"signed userinfo", oidctest.Config{SignUserinfo: true}, settings{"userinfo": true}},
		{"signed userinfo with EdDSA, whose at_hash is SHA-512",
			oidctest.Config{SignUserinfo: true, Clients: client("", "EdDSA")}, settings{"userinfo": true}},
		{"contract 36: acr", oidctest.Config{}, settings{"acr_values": []string{"substantial", "high"}}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, c.provider, c.settings)
			if err := w.method.Begin(context.Background(), w.session); err != nil {
				t.Fatal(err)
			}
			if got := w.method.Show(w.session, nil).Choices; len(got) != 1 || got[0] != "begin" {
				t.Errorf("the page offers %q", got)
			}
			d, err := w.login()
			wantVerdict(t, "an adult", d, err, method.Approved)

			w.provider.Answer(oidctest.Answer{Claims: oidctest.AgeClaims(17)})
			d, err = w.login()
			wantVerdict(t, "contract 36: a claim that says no", d, err, method.Rejected)

			w.provider.Answer(oidctest.Answer{})
			d, err = w.login()
			wantVerdict(t, "contract 36: a claim that is absent", d, err, method.AttemptFailed)
		})
	}
}

// TestRequest checks the data that the browser carries.
func TestRequest(t *testing.T) {
	own := settings{
		"scope": "openid profile", "acr_values": "substantial high",
		"claims":     settings{"id_token": settings{"is_over_18": nil}},
		"parameters": settings{"login_hint": "country:DK"},
		"prompt":     []string{"login", "consent"}, "max_age": 300,
		"proof": []settings{
			{"claim": []string{"is_over_21"}, "equals": true, "age": 21, "scope": "is_over_21"},
			{"claim": []string{"is_over_18"}, "equals": true, "age": 18, "scope": "is_over_18"},
			{"claim": []string{"is_over_16"}, "equals": true, "age": 16, "scope": "is_over_16"},
		},
	}
	for _, c := range []struct {
		rule     string
		pushed   bool
		age      int
		settings string
		scope    string
		acr      string
	}{
		{"the lowest age that is high enough", false, 17, "", "openid profile is_over_18",
			"substantial high"},
		{"an exact age", false, 21, "", "openid profile is_over_21", "substantial high"},
		{"an integration that accepts fewer acr values", false, 18, `{"acr_values":["high"]}`,
			"openid profile is_over_18", "high"},
		{"a pushed request", true, 16, "", "openid profile is_over_16", "substantial high"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, oidctest.Config{Pushed: c.pushed}, own)
			w.session.MinimumAge, w.session.Settings = c.age, []byte(c.settings)
			d := w.mustLeave()
			u, err := url.Parse(d.Leave.URL)
			if err != nil {
				t.Fatal(err)
			}
			query := u.Query()
			if c.pushed {
				if len(query) != 2 || query.Get("client_id") != clientID ||
					!strings.HasPrefix(query.Get("request_uri"), "urn:") {
					t.Errorf("RFC 9126: the address has %v", query)
				}
				for _, r := range w.provider.Requests() {
					if r.Path == oidctest.PushPath {
						query = r.Form
					}
				}
			}
			for name, want := range map[string]string{
				"response_type": "code", "client_id": clientID, "redirect_uri": returnURL,
				"state":                 d.Leave.Handle,
				"code_challenge_method": "S256", "ui_locales": "de", "scope": c.scope, "acr_values": c.acr,
				"login_hint": "country:DK", "prompt": "login consent", "max_age": "300", "claims": `{"id_token":{"is_over_18":null}}`,
			} {
				if got := query.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if len(query.Get("nonce")) < 22 || len(query.Get("code_challenge")) != 43 ||
				query.Has("code_verifier") {
				t.Errorf("nonce %q, challenge %q", query.Get("nonce"), query.Get("code_challenge"))
			}
		})
	}
}

func TestAuthRequest_OwnValues(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	seen := map[string]bool{}
	for range 10 {
		d := w.mustLeave()
		u, err := url.Parse(d.Leave.URL)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"state", "nonce", "code_challenge"} {
			if v := u.Query().Get(name); seen[v] {
				t.Errorf("%s is there twice", name)
			} else {
				seen[v] = true
			}
		}
	}
}

func TestBegin_AnotherForm(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	for _, form := range []url.Values{{}, {"outcome": {"approve"}}, {"outcome": {"Begin"}}} {
		d, err := w.method.Act(context.Background(), w.session, method.Step{Form: form})
		if !errors.Is(err, method.ErrStep) || d.Verdict != method.Unclassified {
			t.Errorf("%v: %+v, %v", form, d, err)
		}
	}
}

// TestReturn has the rows of returns that are not what the provider sent.
func TestReturn(t *testing.T) {
	set := func(name, value string) func(url.Values) { return func(q url.Values) { q.Set(name, value) } }
	drop := func(names ...string) func(url.Values) {
		return func(q url.Values) {
			for _, name := range names {
				q.Del(name)
			}
		}
	}
	for _, c := range []struct {
		rule   string
		hidden bool // the provider announces no iss
		change func(url.Values)
		reason string
		step   bool // there is no such step: 400
	}{
		{"mix-up: iss of another provider", false, set("iss", "https://attacker.example"),
			"return_iss_differs", true},
		{"mix-up: iss of another provider, not announced", true, set("iss", "https://attacker.example"),
			"return_iss_differs", true},
		{"mix-up: iss that is empty", true, set("iss", ""), "return_iss_differs", true},
		{"mix-up: iss missing though promised", false, drop("iss"), "return_iss_missing", true},
		{"mix-up: an error of another provider", false, func(q url.Values) {
			q.Del("code")
			q.Set("error", "access_denied")
			q.Set("iss", "https://attacker.example")
		}, "return_iss_differs", true},
		{"no code and no error", false, drop("code"), "return_malformed", true},
		{"an empty code", false, set("code", ""), "return_malformed", true},
		{"a code and an error", false, set("error", "access_denied"), "return_malformed", true},
		{"contract 36: a code of 8 KiB", false, set("code", strings.Repeat("x", 8<<10)),
			"token_error_invalid_grant", false},
		{"contract 36: a longer code", false, set("code", strings.Repeat("x", 8<<10+1)), "return_malformed",
			true},
		{"contract 36: a code of every printable character", false, set("code", printable()),
			"token_error_invalid_grant", false},
		{"a code that is not ASCII", false, set("code", "é"), "return_malformed", true},
		{"a code with a line break", false, set("code", "a\nb"), "return_malformed", true},
		{"an unknown code", false, set("code", "canary"), "token_error_invalid_grant", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, oidctest.Config{HidesIssuer: c.hidden}, nil)
			d := w.mustLeave()
			query := w.visit(d.Leave.URL)
			c.change(query)
			got, err := w.back(d.State, query)
			wantRejection(t, c.rule, got, err, c.reason)
			if errors.Is(err, method.ErrStep) != c.step {
				t.Errorf("it is a step that the page does not have: %v, want %v", !c.step, c.step)
			}
			if asked := w.provider.Count(oidctest.TokenPath) > 0; asked == c.step {
				t.Errorf("the token endpoint was asked: %v", asked)
			}
		})
	}
}

// printable returns every printable character of ASCII.
func printable() string {
	var all []byte
	for b := byte(' '); b <= '~'; b++ {
		all = append(all, b)
	}
	return string(all)
}

// TestCode_Size: contract 36: the size and the characters of a code are the provider's choice.
func TestCode_Size(t *testing.T) {
	for _, code := range []string{strings.Repeat("x", 2405), strings.Repeat("a b+/=", 8<<10/6), printable()} {
		w := newWalk(t, oidctest.Config{}, nil)
		w.provider.Codes(func() string { return code })
		d, err := w.login()
		wantVerdict(t, fmt.Sprintf("a code of %d bytes", len(code)), d, err, method.Approved)
	}
}

// TestAccess_Size: contract 36: an access token may be as large as its response.
func TestAccess_Size(t *testing.T) {
	for _, size := range []int{9000, 60_000} {
		w := newWalk(t, oidctest.Config{}, settings{"userinfo": true})
		w.provider.AccessTokens(func() string { return strings.Repeat("x", size) })
		d, err := w.login()
		wantVerdict(t, fmt.Sprintf("an access token of %d bytes", size), d, err, method.Approved)
	}
}

// TestMaxAge: contract 36: a sign-in that is older than max_age is no proof, even if the user changed the
// address. The browser leaves at 12:00:00 and is away for two minutes.
func TestMaxAge(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		rule   string
		maxAge any
		signIn *int64 // seconds since the browser left; nil: there is no auth_time
		reason string // "": it is accepted
	}{
		{"no max_age, no auth_time", nil, nil, ""},
		{"no max_age, an old sign-in", nil, seconds(-86_400), ""},
		{"no auth_time", 300, nil, "jwt_auth_time"},
		{"a sign-in while the browser was away", 0, seconds(60), ""},
		{"a sign-in just before, with the clocks a minute apart", 0, seconds(-60), ""},
		{"a sign-in before, though a new one was asked for", 0, seconds(-61), "jwt_auth_time"},
		{"the oldest sign-in that is good", 300, seconds(-360), ""},
		{"an older one", 300, seconds(-361), "jwt_auth_time"},
		{"a sign-in in the future", 300, seconds(181), "jwt_auth_time"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, oidctest.Config{}, settings{"max_age": c.maxAge})
			left := w.clock().Unix()
			w.provider.Tamper(func(_, claims map[string]any) {
				delete(claims, "auth_time")
				if c.signIn != nil {
					claims["auth_time"] = left + *c.signIn
				}
			})
			d := w.mustLeave()
			address, err := url.Parse(d.Leave.URL)
			if err != nil {
				t.Fatal(err)
			}
			query := address.Query()
			if want := map[any]string{nil: "", 0: "0", 300: "300"}[c.maxAge]; query.Get("max_age") != want {
				t.Errorf("max_age is %q, want %q", query.Get("max_age"), want)
			}
			query.Del("max_age") // by the user
			address.RawQuery = query.Encode()
			w.advance(2 * time.Minute)
			d, err = w.back(d.State, w.visit(address.String()))
			if c.reason == "" {
				wantVerdict(t, c.rule, d, err, method.Approved)
			} else {
				wantRejection(t, c.rule, d, err, c.reason)
			}
		})
	}

	for rule, authTime := range map[string]any{"a text": "1900000000", "null": nil, "negative": -1} {
		w := newWalk(t, oidctest.Config{}, settings{"max_age": 300})
		w.provider.Tamper(func(_, claims map[string]any) { claims["auth_time"] = authTime })
		d, err := w.login()
		wantRejection(t, "auth_time is "+rule, d, err, "jwt_auth_time")
	}
}

// TestPushed: contract 36: pushed = off sends the request by the address, even if the provider takes pushed
// ones.
func TestPushed(t *testing.T) {
	for _, c := range []struct {
		rule     string
		provider oidctest.Config
		pushed   any
		fault    *oidctest.Fault
		wants    string // "pushed", "address", or the reason of an error
	}{
		{"by default", oidctest.Config{Pushed: true}, nil, nil, "pushed"},
		{"auto", oidctest.Config{Pushed: true}, "auto", nil, "pushed"},
		{"auto, not announced", oidctest.Config{}, "auto", nil, "address"},
		{"auto, the client is rejected", oidctest.Config{Pushed: true}, "auto",
			&oidctest.Fault{Status: 401, Body: `{"error":"invalid_client"}`}, "token_error_invalid_client"},
		{"off, the client is rejected", oidctest.Config{Pushed: true}, "off",
			&oidctest.Fault{Status: 401, Body: `{"error":"invalid_client"}`}, "address"},
		{"off, not announced", oidctest.Config{}, "off", nil, "address"},
		{"off, required", oidctest.Config{PushedOnly: true}, "off", nil, "par_required"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, c.provider, settings{"pushed": c.pushed})
			if c.fault != nil {
				w.provider.Fault(oidctest.PushPath, *c.fault)
			}
			d, err := w.leave()
			if c.wants != "pushed" && c.wants != "address" {
				wantRejection(t, c.rule, d, err, c.wants)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			address, err := url.Parse(d.Leave.URL)
			if err != nil {
				t.Fatal(err)
			}
			if pushed := address.Query().Has("request_uri"); pushed != (c.wants == "pushed") {
				t.Errorf("the address is %s", address)
			}
			if c.wants == "address" && w.provider.Count(oidctest.PushPath) > 0 {
				t.Error("the request was pushed as well")
			}
			got, err := w.back(d.State, w.visit(d.Leave.URL))
			wantVerdict(t, c.rule, got, err, method.Approved)
		})
	}
}

func TestReturnOfAnError(t *testing.T) {
	for answer, reason := range map[string]string{
		"server_error":            "return_error_server_error",
		"temporarily_unavailable": "return_error_temporarily_unavailable",
		"invalid_scope":           "return_error_invalid_scope",
		"login_required":          "return_error_login_required",
		"canary <script>":         "return_error",
	} {
		w := newWalk(t, oidctest.Config{}, nil)
		w.provider.Answer(oidctest.Answer{Error: answer})
		d, err := w.login()
		wantRejection(t, "contract 35: the error "+answer, d, err, reason)
		if errors.Is(err, method.ErrStep) || w.provider.Count(oidctest.TokenPath) > 0 {
			t.Errorf("%s: %v", answer, err)
		}
	}
	w := newWalk(t, oidctest.Config{}, nil)
	w.provider.Answer(oidctest.Answer{Error: "access_denied"})
	d, err := w.login()
	wantVerdict(t, "contract 35: access_denied is the user's cancelling", d, err, method.Cancelled)
}

// TestForeignCodes has the rows of codes that belong to another request.
func TestForeignCodes(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	mine, theirs := w.mustLeave(), w.mustLeave()
	query := w.visit(theirs.Leave.URL)
	d, err := w.back(mine.State, query)
	wantRejection(t, "a code of another session: PKCE", d, err, "token_error_invalid_grant")

	query = w.visit(mine.Leave.URL)
	d, err = w.back(mine.State, query)
	wantVerdict(t, "a code of this session", d, err, method.Approved)
	d, err = w.back(mine.State, query)
	wantRejection(t, "a code that was used", d, err, "token_error_invalid_grant")

	// The provider that does not look at PKCE: the nonce still tells.
	w.provider.Tamper(func(_, claims map[string]any) { claims["nonce"] = "of-another-request" })
	d, err = w.login()
	wantRejection(t, "an ID token of another session: nonce", d, err, "jwt_nonce")
	w.provider.Tamper(nil)

	as := func(version byte) []byte { return append([]byte{version}, mine.State[1:]...) }
	for _, state := range [][]byte{nil, {}, mine.State[1:], append(mine.State, 0), as(9), as(2)} {
		d, err = w.back(state, query)
		wantRejection(t, "a state of another release", d, err, "outdated")
	}
}

// TestReturn_ChangedSettings: contract 34: a return is judged by the proof that its request has asked for.
func TestReturn_ChangedSettings(t *testing.T) {
	birth := settings{"proof": settings{"claim": []string{"birthdate"}, "birthdate": true}}
	high := settings{"acr_values": []string{"high", "substantial"}}
	credential := settings{"credential": settings{"claim": []string{"vc"}, "issuer": "https://vc.example",
		"did": "did:web:vc.example"}}
	with := func(name string, v any) map[string]any { return map[string]any{name: v} }
	const age = "idbrokerdk_age_verified"
	for _, c := range []struct {
		rule       string
		own        settings
		asked, now int            // minimum_age
		change     settings       // of the method, while the user is at the provider
		claims     map[string]any // that it returns
		want       method.Verdict
		outdated   string // the setting that changed
	}{
		{"nothing changed", nil, 18, 18, nil, with(age, "18:true"), method.Approved, ""},
		{"a higher age is required", nil, 16, 18, nil, with(age, "16:true"), 0,
			"minimum_age"},
		{"a lower age is required", nil, 18, 16, nil, with(age, "18:true"), method.Approved, ""},
		{"a no for the higher age", nil, 18, 16, nil, with(age, "18:false"), method.AttemptFailed, ""},
		{"a date of birth", birth, 16, 18, nil, with("birthdate", "2000-01-01"), method.Approved, ""},
		{"a late one", birth, 16, 18, nil, with("birthdate", "2010-01-01"), method.Rejected, ""},
		{"another proof", nil, 18, 18, settings{"proof": plainProof}, with("is_over_18", true), 0,
			"methods.oidc"},
		{"another client", nil, 18, 18, settings{"client_id": "another"}, with(age, "18:true"), 0,
			"methods.oidc"},
		{"another provider", nil, 18, 18, settings{"issuer": "https://another.example"},
			with(age, "18:true"), 0,
			"methods.oidc"},
		{"userinfo switched off", settings{"userinfo": true}, 18, 18, settings{"userinfo": nil},
			with(age, "18:true"), 0,
			"methods.oidc"},
		{"userinfo", nil, 18, 18, settings{"userinfo": true}, with(age, "18:true"), 0,
			"methods.oidc"},
		{"a credential", nil, 18, 18, credential, with(age, "18:true"), 0,
			"methods.oidc"},
		{"other acr values", high, 18, 18, settings{"acr_values": []string{"high"}},
			map[string]any{age: "18:true", "acr": "substantial"}, 0,
			"methods.oidc"},
		{"max_age", nil, 18, 18, settings{"max_age": 300}, with(age, "18:true"), 0,
			"methods.oidc"},
		{"another scope and prompt", nil, 18, 18, settings{"scope": []string{"openid", "more"},
			"prompt": []string{"login"}}, with(age, "18:true"), method.Approved, ""},
	} {
		own := settings{}
		maps.Copy(own, c.own)
		if own["proof"] == nil {
			own["preset"] = "mitid-age"
		}
		w := newWalk(t, oidctest.Config{}, own)
		w.provider.Answer(oidctest.Answer{Claims: c.claims})
		w.session.MinimumAge = c.asked
		away := w.mustLeave()
		query := w.visit(away.Leave.URL)
		w.session.MinimumAge = c.now
		if c.change != nil {
			all := settings{"issuer": w.provider.URL, "client_id": clientID}
			maps.Copy(all, own)
			maps.Copy(all, c.change)
			w.config.Settings = encode(t, all)
			w.open()
		}
		d, err := w.back(away.State, query)
		if c.outdated != "" {
			wantRejection(t, c.rule, d, err, "outdated")
			var setting *method.SettingError
			if !errors.As(err, &setting) || setting.Setting != c.outdated {
				t.Errorf("%s: the error names %+v, want %s", c.rule, setting, c.outdated)
			}
			if w.provider.Count(oidctest.TokenPath) > 0 {
				t.Errorf("%s: the code was sent", c.rule)
			}
			continue
		}
		wantVerdict(t, c.rule, d, err, c.want)
		if d.Verdict == method.Approved && d.Age != 18 {
			t.Errorf("%s: it proves %d, want 18", c.rule, d.Age)
		}
	}
}

// TestFaults has the cases of a failing provider. Each step returns an error and decides no session.
func TestFaults(t *testing.T) {
	begin := func(w *walk) (method.Decision, error) {
		return method.Decision{}, w.method.Begin(context.Background(), w.session)
	}
	leave := func(w *walk) (method.Decision, error) { return w.leave() }
	// The browser is away when the fault begins.
	back := func(w *walk, break_ func()) (method.Decision, error) {
		d := w.mustLeave()
		query := w.visit(d.Leave.URL)
		break_()
		return w.back(d.State, query)
	}
	for _, endpoint := range []struct {
		path string
		step func(w *walk) (method.Decision, error)
	}{
		{oidctest.DiscoveryPath, begin}, {oidctest.DiscoveryPath, leave}, {oidctest.PushPath, leave},
		{oidctest.KeysPath, nil}, {oidctest.TokenPath, nil}, {oidctest.UserinfoPath, nil},
	} {
		for _, c := range []struct {
			rule   string
			fault  oidctest.Fault
			reason string // "": no answer at all
		}{
			{"500", oidctest.Fault{Status: 500, Body: `{"error":"canary"}`}, "status"},
			{"404", oidctest.Fault{Status: 404}, "status"},
			{"a redirect", oidctest.Fault{Redirect: "https://attacker.example/"}, "status"},
			{"rubbish", oidctest.Fault{Status: 200, Body: "canary"}, "json"},
			{"cut JSON", oidctest.Fault{Status: 200, Body: `{"id_token":"canary`}, "json"},
			{"a list", oidctest.Fault{Status: 200, Body: `[]`}, "json"},
			{"64 KiB", oidctest.Fault{Status: 200, Body: `{}`, Fill: 64 << 10}, "too_large"},
			{"a broken connection", oidctest.Fault{Drop: true}, ""},
			{"no response in time", oidctest.Fault{Hang: true}, ""},
		} {
			t.Run(endpoint.path+": "+c.rule, func(t *testing.T) {
				t.Parallel()
				w := newWalk(t, oidctest.Config{Pushed: endpoint.path == oidctest.PushPath},
					settings{"userinfo": true})
				if c.fault.Hang {
					w.fetch.silent = endpoint.path
				}
				var d method.Decision
				var err error
				if endpoint.step != nil {
					w.provider.Fault(endpoint.path, c.fault)
					d, err = endpoint.step(w)
				} else {
					d, err = back(w, func() { w.provider.Fault(endpoint.path, c.fault) })
				}
				if errors.Is(err, method.ErrStep) {
					t.Errorf("it is the browser's fault: %v", err)
				}
				if c.reason != "" {
					wantRejection(t, c.rule, d, err, c.reason)
				} else if fetch := (*host.FetchError)(nil); !errors.As(err, &fetch) {
					t.Errorf("%s: %+v, %v", c.rule, d, err)
				}

				w.provider.Heal()
				w.fetch.silent = ""
				w.advance(time.Second)
				d, err = w.login()
				wantVerdict(t, "a new login after "+c.rule, d, err, method.Approved)
			})
		}
	}
}

func TestTokenAnswers(t *testing.T) {
	for _, c := range []struct {
		rule   string
		fault  oidctest.Fault
		reason string
	}{
		{"wrong type", oidctest.Fault{Type: "text/html", Body: `{"id_token":"a.b.c"}`}, "media_type"},
		{"no type", oidctest.Fault{Type: "/", Body: `{"id_token":"a.b.c"}`}, "media_type"},
		{"no ID token", oidctest.Fault{Body: `{"access_token":"a","token_type":"Bearer"}`}, "token_member"},
		{"an ID token that is a number", oidctest.Fault{Body: `{"id_token":1}`}, "token_member"},
		{"an ID token of 63 KiB that is none",
			oidctest.Fault{Body: `{"id_token":"` + strings.Repeat("a", 63<<10) + `"}`}, "jwt_form"},
		{"another token type", oidctest.Fault{Body: `{"id_token":"a.b.c","token_type":"DPoP"}`}, "token_member"},
		{"an access token that would break a header",
			oidctest.Fault{Body: `{"id_token":"a.b.c","access_token":"a\r\nX: y"}`}, "token_member"},
		{"400 with an error that OAuth does not know", oidctest.Fault{Status: 400, Body: `{"error":"canary"}`},
			"token_error"},
		{"400 without JSON", oidctest.Fault{Status: 400, Body: "canary"}, "token_error"},
		{"401 invalid_client", oidctest.Fault{Status: 401, Body: `{"error":"invalid_client"}`},
			"token_error_invalid_client"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, oidctest.Config{}, nil)
			w.provider.Fault(oidctest.TokenPath, c.fault)
			d, err := w.login()
			wantRejection(t, c.rule, d, err, c.reason)
		})
	}
}

func TestUserinfoAnswers(t *testing.T) {
	for _, c := range []struct {
		rule   string
		fault  oidctest.Fault
		reason string
	}{
		{"contract 36: another sub", oidctest.Fault{Body: `{"sub":"person-2","is_over_18":true}`},
			"userinfo_sub_differs"},
		{"no sub", oidctest.Fault{Body: `{"is_over_18":true}`}, "userinfo_sub_differs"},
		{"a sub that is a number", oidctest.Fault{Body: `{"sub":1,"is_over_18":true}`}, "userinfo_sub_differs"},
		{"wrong type", oidctest.Fault{Type: "text/html", Body: `{"sub":"person-1","is_over_18":true}`},
			"media_type"},
		{"JSON that says it is a token", oidctest.Fault{Type: "application/jwt", Body: `{"sub":"person-1"}`},
			"jwt_form"},
		{"an unsigned token", oidctest.Fault{Type: "application/jwt",
			Body: "eyJhbGciOiJub25lIn0.eyJzdWIiOiJwZXJzb24tMSJ9.AA"}, "jwt_alg"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, oidctest.Config{}, settings{"userinfo": true})
			w.provider.Fault(oidctest.UserinfoPath, c.fault)
			d, err := w.login()
			wantRejection(t, c.rule, d, err, c.reason)
		})
	}

	const absent = "absent"
	signed := oidctest.Config{SignUserinfo: true}
	w := newWalk(t, signed, settings{"userinfo": true})
	for _, c := range []struct {
		rule, reason string
		claims       map[string]any
	}{
		{"signed for another client", "jwt_aud", map[string]any{"aud": "another"}},
		{"signed by another issuer", "jwt_iss", map[string]any{"iss": "https://attacker.example"}},
		{"contract 36: no iss", "", map[string]any{"iss": absent}},
		{"contract 36: no aud", "", map[string]any{"aud": absent}},
		{"contract 36: neither", "", map[string]any{"iss": absent, "aud": absent}},
		{"no iss, and another client", "jwt_aud", map[string]any{"iss": absent, "aud": "another"}},
		{"no aud, and another issuer", "jwt_iss", map[string]any{"iss": "https://attacker.example",
			"aud": absent}},
		{"iss that is a number", "jwt_claims", map[string]any{"iss": 1}},
		{"an empty aud", "jwt_claims", map[string]any{"aud": []string{}}},
		{"neither, and expired", "jwt_exp", map[string]any{"iss": absent, "aud": absent, "exp": 1}},
		{"neither, and another sub", "userinfo_sub_differs", map[string]any{"iss": absent, "aud": absent,
			"sub": "person-2"}},
	} {
		w.provider.Tamper(func(_, claims map[string]any) {
			if _, isIDToken := claims["nonce"]; isIDToken {
				return
			}
			for name, v := range c.claims {
				if claims[name] = v; v == absent {
					delete(claims, name)
				}
			}
		})
		d, err := w.login()
		if c.reason == "" {
			wantVerdict(t, c.rule, d, err, method.Approved)
		} else {
			wantRejection(t, c.rule, d, err, c.reason)
		}
	}
	w.provider.Tamper(func(_, claims map[string]any) {
		if _, isIDToken := claims["at_hash"]; isIDToken {
			claims["at_hash"] = "AAAAAAAAAAAAAAAAAAAAAA"
		}
	})
	d, err := w.login()
	wantRejection(t, "an access token of another login", d, err, "at_hash")

	w.provider.Tamper(nil)
	tokens := 0
	w.provider.Rewrite(func(token string) string {
		if tokens++; tokens == 2 { // the ID token is the first
			token += "\r\n"
		}
		return token
	})
	d, err = w.login()
	wantVerdict(t, "contract 36: signed, with a line break", d, err, method.Approved)
}

// TestAgeThatNothingProves: the session asks for more than any claim of the method says.
func TestAgeThatNothingProves(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	w.session.MinimumAge = 19
	if err := w.method.Begin(context.Background(), w.session); err == nil || !strings.Contains(err.Error(),
		"19") {
		t.Errorf("Begin: %v", err)
	}
	if d, err := w.leave(); err == nil {
		t.Errorf("it sends the browser away: %+v", d)
	}
}

// A pushed request has no such limit.
func TestAddressTooLong(t *testing.T) {
	long := settings{"id_token": settings{strings.Repeat("claim", 380): nil}}
	w := newWalk(t, oidctest.Config{}, settings{"claims": long})
	if d, err := w.leave(); err == nil {
		t.Errorf("an address of %d bytes", len(d.Leave.URL))
	}
	w = newWalk(t, oidctest.Config{Pushed: true}, settings{"claims": long})
	w.mustLeave()
}

// TestSigningFails: without its key a method decides no session.
func TestSigningFails(t *testing.T) {
	clients := []oidctest.Client{{ID: clientID, Auth: "private_key_jwt"}}
	w := newWalk(t, oidctest.Config{Clients: clients}, nil)
	w.host.Sign = func(context.Context, string, string, []byte) ([]byte, error) {
		return nil, errors.New("there is no such key")
	}
	w.open()
	if d, err := w.login(); err == nil || d.Verdict != method.Unclassified {
		t.Errorf("a key that does not exist: %+v, %v", d, err)
	}
	w = newWalk(t, oidctest.Config{Clients: clients}, nil)
	w.host.Sign = func(context.Context, string, string, []byte) ([]byte, error) {
		return make([]byte, 64), nil
	}
	w.open()
	d, err := w.login()
	wantRejection(t, "a signature by another key", d, err, "token_error_invalid_client")
	w.host.Sign = nil
	if _, err := oidc.Kind.Open(w.config, w.host); err == nil {
		t.Error("a host without keys: the method opens")
	}
}

// TestAssertionIsNew: each request has its own assertion, so that none can be replayed.
func TestAssertionIsNew(t *testing.T) {
	w := newWalk(t, oidctest.Config{PushedOnly: true,
		Clients: []oidctest.Client{{ID: clientID, Auth: "private_key_jwt"}}}, nil)
	d, err := w.login()
	wantVerdict(t, "a login", d, err, method.Approved)
	seen := map[string]bool{}
	for _, r := range w.provider.Requests() {
		if a := r.Form.Get("client_assertion"); a != "" {
			seen[a] = true
		}
		if r.Form.Has("client_secret") || r.Header.Get("Authorization") != "" {
			t.Errorf("%s has another authentication as well", r.Path)
		}
	}
	if len(seen) != 2 {
		t.Errorf("two requests have %d assertions", len(seen))
	}
}
