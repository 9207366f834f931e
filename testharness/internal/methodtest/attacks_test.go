package methodtest_test

import (
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/oidctest"
)

// site is a service with an OpenID provider for its L2 integration and an estimator for its L1 integration.
type site struct {
	*testharness.Harness
	t         *testing.T
	bank      *oidctest.Server
	estimator *estimatortest.Estimator
	commits   atomic.Int32
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t}
	s.Harness = testharness.New(t, &testharness.Options{
		Providers: []string{"bank"}, Estimators: []string{"camera"},
		KV: func(now func() time.Time) kv.KV {
			return &kvtest.Faulty{KV: memory.New(memory.Config{Now: now}),
				Decide: func(c kvtest.Call) kvtest.Fault {
					if c.Method == "Commit" {
						s.commits.Add(1)
					}
					return kvtest.Pass
				}}
		},
	})
	s.bank, s.estimator = s.Provider("bank"), s.Estimator("camera")
	s.Offer(s.Publisher.L1, "camera")
	s.Offer(s.Publisher.L2, "bank")
	return s
}

// startL2 starts a session that the provider decides.
func (s *site) startL2() testharness.Started {
	s.t.Helper()
	return s.Start(testharness.Body{"integration_id": s.Publisher.L2.ID})
}

// leaves takes a new browser to the provider and returns the address of the return.
func (s *site) leaves(started testharness.Started) (page *testharness.Page, back string) {
	s.t.Helper()
	page = s.Open(started.RedirectURL)
	return page, page.Submit("begin").ReturnURL()
}

// wantUndecided fails if the session was decided, or if an attempt was counted.
func (s *site) wantUndecided(started testharness.Started) {
	s.t.Helper()
	if status := s.Reconcile(started.SessionID).Text("status"); status != "PENDING" {
		s.t.Errorf("the session is %s", status)
	}
	for _, f := range s.Open(started.RedirectURL).Forms {
		if n := f.Fields.Get("attempt"); n != "0" {
			s.t.Errorf("%s attempts are counted", n)
		}
	}
}

// with changes the query of an address. An empty value removes the parameter.
func with(address string, pairs ...string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	q := u.Query()
	for n := 0; n < len(pairs); n += 2 {
		if q.Del(pairs[n]); pairs[n+1] != "" {
			q.Set(pairs[n], pairs[n+1])
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Returns with a changed query. The session stays undecided, and the provider receives no token request.
func TestReturns(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change []string
		status int
		kind   string
		reason string // in the log; "": not checked
	}{
		{"RFC 9207: the iss of another issuer (mix-up)", []string{"iss", "https://attacker.example"}, 400,
			"damaged", "return_iss_differs"},
		{"RFC 9207: no iss, though it is announced (mix-up)", []string{"iss", ""}, 400, "damaged",
			"return_iss_missing"},
		{"no state", []string{"state", ""}, 400, "damaged", ""},
		{"a state that is altered", []string{"state", strings.Repeat("A", 22)}, 403, "elsewhere", ""},
		{"a state that is too long", []string{"state", strings.Repeat("A", 23)}, 400, "damaged", ""},
		{"a code and an error", []string{"error", "access_denied"}, 400, "damaged", ""},
		{"neither a code nor an error", []string{"code", ""}, 400, "damaged", ""},
		{"a code that is too long", []string{"code", strings.Repeat("c", 8<<10+1)}, 400, "damaged", ""},
		{"contract 35: access_denied means that the user cancelled",
			[]string{"code", "", "error", "access_denied"}, 200, "cancelled", ""},
		{"contract 35: server_error counts no attempt", []string{"code", "", "error", "server_error"}, 200,
			"method", ""},
		{"contract 35: temporarily_unavailable counts no attempt",
			[]string{"code", "", "error", "temporarily_unavailable"}, 200, "method", ""},
		{"contract 35: any other error counts no attempt", []string{"code", "", "error", "canary-error"}, 200,
			"method", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newSite(t)
			started := s.startL2()
			page, back := s.leaves(started)
			s.bank.Requests()
			answered := page.Go(with(back, c.change...))
			if answered.Status != c.status || answered.Kind != c.kind || answered.Callback != nil {
				t.Errorf("a %s page (%d), want %s (%d)", answered.Kind, answered.Status, c.kind, c.status)
			}
			if n := s.bank.Count(oidctest.TokenPath); n != 0 {
				t.Errorf("the provider was asked %d times", n)
			}
			s.wantUndecided(started)
			if c.reason != "" && !strings.Contains(s.Logs(), `"reason":"`+c.reason+`"`) {
				t.Errorf("the log does not name the reason %s", c.reason)
			}
			if strings.Contains(s.Logs(), "canary-error") {
				t.Error("the log repeats what the browser brought")
			}
			if page.Go(back).Callback == nil {
				t.Error("the genuine return no longer completes the session")
			}
		})
	}
}

// A link scanner loads an address a hundred times, and a site makes a browser post it.
func TestReturn_ForgedRequests(t *testing.T) {
	s := newSite(t)
	started := s.startL2()
	page, back := s.leaves(started)
	s.bank.Requests()
	before := s.commits.Load()
	for range 100 {
		if p := s.Open(back); p.Kind != "elsewhere" || p.Status != 403 {
			t.Fatalf("contract 34: a scanner gets a %s page (%d)", p.Kind, p.Status)
		}
	}
	header := testharness.Headers("Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html")
	u, err := url.Parse(back)
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Do("POST", u.Path, header, []byte(u.RawQuery)); r.Status != 405 {
		t.Errorf("contract 35: form_post: %d, want 405", r.Status)
	}
	if n := s.bank.Count(oidctest.TokenPath); n != 0 || s.commits.Load() != before {
		t.Errorf("contract 34: the provider was asked %d times, and %d commits", n, s.commits.Load()-before)
	}
	s.wantUndecided(started)
	if page.Go(back).Callback == nil {
		t.Error("the browser that left is not served")
	}
}

// The values of the provider's claim. Only the exact value approves.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		rule   string
		claims map[string]any
		status string
		code   string
	}{
		{"contract 36: the exact value", map[string]any{"is_over_18": true}, "COMPLETED", ""},
		{"contract 36: false", map[string]any{"is_over_18": false}, "FAILED", "PROVIDER_REJECTED"},
		{"contract 36: a text that says true", map[string]any{"is_over_18": "true"}, "PENDING", ""},
		{"contract 36: one", map[string]any{"is_over_18": 1}, "PENDING", ""},
		{"contract 36: null", map[string]any{"is_over_18": nil}, "PENDING", ""},
		{"contract 36: absent", map[string]any{}, "PENDING", ""},
		{"contract 36: another age", map[string]any{"is_over_15": true, "is_over_16": true}, "PENDING", ""},
		{"contract 36: a name that is alike", map[string]any{"over_18": true, "Is_over_18": true}, "PENDING",
			""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newSite(t)
			s.bank.Answer(oidctest.Answer{Claims: c.claims})
			started := s.startL2()
			page, back := s.leaves(started)
			page.Go(back)
			r := s.Reconcile(started.SessionID)
			if r.Text("status") != c.status || r.Text("failure_code") != c.code {
				t.Errorf("%s, want %s %s", r.Body, c.status, c.code)
			}
		})
	}
}

// Forged ID tokens. The session stays undecided, the log has the reason, and the user may try again.
func TestForgedTokens(t *testing.T) {
	claim := func(name string, value any) func(header, claims map[string]any) {
		return func(_, claims map[string]any) { claims[name] = value }
	}
	for _, c := range []struct {
		rule    string
		tamper  func(header, claims map[string]any)
		rewrite func(token string) string
		reason  string
	}{
		{"the nonce of another login", claim("nonce", "another"), nil, "jwt_nonce"},
		{"an issuer with a slash", claim("iss", "https://attacker.example/"), nil, "jwt_iss"},
		{"for another client", claim("aud", "another"), nil, "jwt_aud"},
		{"for two clients without azp", claim("aud", []string{"verge", "another"}), nil, "jwt_azp"},
		{"an azp of another client", claim("azp", "another"), nil, "jwt_azp"},
		{"no iat", func(_, claims map[string]any) { delete(claims, "iat") }, nil, "jwt_iat"},
		{"expired", claim("exp", testharness.Epoch.Add(-time.Minute).Unix()), nil, "jwt_exp"},
		{"an unknown critical header", func(h, _ map[string]any) { h["crit"] = []string{"x"} }, nil,
			"jwt_crit"},
		{"five parts", nil, func(token string) string { return token + ".a.b" }, "jwt_form"},
		{"a dot at its end", nil, func(token string) string { return token + "." }, "jwt_form"},
		{"a signature of another token", nil, func(token string) string {
			return token[:strings.LastIndexByte(token, '.')+1] + strings.Repeat("A", 86)
		}, "jwt_signature"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newSite(t)
			started := s.startL2()
			s.bank.Tamper(c.tamper)
			s.bank.Rewrite(c.rewrite)
			page, back := s.leaves(started)
			if p := page.Go(back); p.Kind != "method" || p.Callback != nil {
				t.Errorf("a %s page (%d)", p.Kind, p.Status)
			}
			s.wantUndecided(started)
			if !strings.Contains(s.Logs(), "rejected: "+c.reason) {
				t.Errorf("the log does not name the reason %s", c.reason)
			}
			s.bank.Tamper(nil)
			s.bank.Rewrite(nil)
			if page.Submit("begin").Follow().Callback == nil {
				t.Error("a new login is not accepted")
			}
		})
	}
}

func TestProvidersThatChange(t *testing.T) {
	t.Run("contract 36: keys that rotate between login and exchange are fetched again", func(t *testing.T) {
		s := newSite(t)
		if page, back := s.leaves(s.startL2()); page.Go(back).Callback == nil {
			t.Fatal("the first login")
		}
		s.Advance(time.Minute) // since the key set was fetched
		page, back := s.leaves(s.startL2())
		s.bank.Rotate()
		if p := page.Go(back); p.Callback == nil {
			t.Errorf("a %s page", p.Kind)
		}
	})
	t.Run("contract 33: a provider that names another issuer is not available, and start returns 502",
		func(t *testing.T) {
			s := newSite(t)
			s.bank.Fault(oidctest.DiscoveryPath, oidctest.Fault{Body: `{"issuer":"https://attacker.example"}`})
			r := s.TryStart(testharness.Body{"integration_id": s.Publisher.L2.ID})
			if r.Status != 502 || !strings.Contains(s.Logs(), "discovery_issuer_differs") {
				t.Errorf("%d %s", r.Status, r.Body)
			}
		})
	t.Run("contract 35: a return after another tab was cancelled continues", func(t *testing.T) {
		s := newSite(t)
		started := s.startL2()
		page, back := s.leaves(started)
		denied := page.Submit("begin").ReturnURL()
		if p := page.Go(with(denied, "code", "", "error", "access_denied")); p.Kind != "cancelled" {
			t.Errorf("a %s page", p.Kind)
		}
		s.wantUndecided(started)
		if p := page.Go(back); p.Callback == nil {
			t.Errorf("a %s page (%d)", p.Kind, p.Status)
		}
	})
}

// Tokens of one kind used as another.
func TestToken_WrongPlace(t *testing.T) {
	s := newSite(t)
	done := s.Open(s.startL2().RedirectURL).Submit("begin").Follow().Callback.ResultToken
	started := s.startL2()
	page := s.Open(started.RedirectURL)
	form := page.Form("begin")
	flow, step := form.Fields.Get("flow"), form.Fields.Get("provider")
	for _, c := range []struct{ rule, flow, step string }{
		{"a flow token as step", flow, flow},
		{"a result token as step", flow, done},
		{"a step as flow token", step, step},
		{"a result token as flow token", done, step},
	} {
		form.Fields.Set("flow", c.flow)
		form.Fields.Set("provider", c.step)
		if p := page.SubmitForm(form); p.Status != 400 || p.Kind != "damaged" {
			t.Errorf("contract 15: %s: a %s page (%d)", c.rule, p.Kind, p.Status)
		}
	}
	form.Fields.Set("flow", flow)
	form.Fields.Set("provider", "")
	if p := page.SubmitForm(form); p.Kind != "method" || p.Status != 200 {
		t.Errorf("contract 34: no step: a %s page (%d)", p.Kind, p.Status)
	}
	if r := s.Validate(step); r.Status == 200 {
		t.Error("contract 15: a step is validated")
	}
	s.wantUndecided(started)
}
