package methodtest_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/oidctest"
)

// realBank returns a service whose L2 integration offers one method with these settings, and its provider.
func realBank(t *testing.T, c oidctest.Config, own map[string]any) *site {
	t.Helper()
	c.Now = func() time.Time { return testharness.Epoch }
	c.Clients = []oidctest.Client{{ID: "verge", Secret: "secret-of-the-test"}}
	s := &site{t: t, bank: oidctest.Start(t, c)}
	settings := map[string]any{"issuer": s.bank.URL, "client_id": "verge", "proof": oidctest.AgeProof(18)}
	maps.Copy(settings, own)
	raw, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	s.Harness = testharness.New(t, &testharness.Options{Methods: []method.Config{{Name: "bank", Kind: "oidc",
		Title: "Example ID", Settings: raw,
		Secrets: map[string]string{"client_secret": "secret-of-the-test"}}}})
	s.Offer(s.Publisher.L2, "bank")
	return s
}

// outcome does a login and returns the session's status and failure code, and the last page.
func (s *site) outcome() (status string, page *testharness.Page) {
	s.t.Helper()
	started := s.startL2()
	page, back := s.leaves(started)
	page = page.Go(back)
	r := s.Reconcile(started.SessionID)
	return strings.TrimSpace(r.Text("status") + " " + r.Text("failure_code")), page
}

// keyAs makes the provider serve only its newest key, after a change.
func (s *site) keyAs(change func(key map[string]any)) {
	s.t.Helper()
	all := s.bank.KeySet()["keys"].([]any)
	key := all[len(all)-1].(map[string]any)
	change(key)
	body, err := json.Marshal(map[string]any{"keys": []any{key}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.bank.Fault(oidctest.KeysPath, oidctest.Fault{Body: string(body)})
}

// TestProvider_Deviations: providers with harmless differences verify people.
func TestProvider_Deviations(t *testing.T) {
	userinfo := map[string]any{"userinfo": true}
	for _, c := range []struct {
		rule     string
		config   oidctest.Config
		settings map[string]any
		arrange  func(s *site)
	}{
		{"contract 36: a code of 2,405 characters", oidctest.Config{}, nil,
			func(s *site) { s.bank.Codes(func() string { return strings.Repeat("c", 2405) }) }},
		{"contract 36: a code of 8 KiB, each character escaped", oidctest.Config{}, nil,
			func(s *site) { s.bank.Codes(func() string { return strings.Repeat("/ +", 8<<10/3) }) }},
		{"contract 36: a code with a space", oidctest.Config{}, nil,
			func(s *site) { s.bank.Codes(func() string { return "a code" }) }},
		{"contract 36: pushed = off, and the provider refuses pushed requests", oidctest.Config{Pushed: true},
			map[string]any{"pushed": "off"}, func(s *site) {
				s.bank.Fault(oidctest.PushPath, oidctest.Fault{Status: 401, Body: `{"error":"invalid_client"}`})
			}},
		{"contract 36: gzip", oidctest.Config{Pushed: true}, userinfo, func(s *site) { s.bank.Compress() }},
		{"contract 36: padding in a key", oidctest.Config{}, nil, func(s *site) {
			s.keyAs(func(key map[string]any) {
				key["x"], key["y"] = key["x"].(string)+"=", key["y"].(string)+"="
			})
		}},
		{"contract 36: typ as a media type", oidctest.Config{}, nil, func(s *site) {
			s.bank.Tamper(func(h, _ map[string]any) { h["typ"] = "application/jwt" })
		}},
		{"contract 36: an access token of 9,000 characters", oidctest.Config{}, userinfo, func(s *site) {
			s.bank.AccessTokens(func() string { return strings.Repeat("t", 9000) })
		}},
		{"contract 36: iat 45 s ahead", oidctest.Config{}, nil, func(s *site) {
			s.bank.Tamper(func(_, c map[string]any) { c["iat"] = testharness.Epoch.Unix() + 45 })
		}},
		{"contract 36: the client twice in aud", oidctest.Config{}, nil, func(s *site) {
			s.bank.Tamper(func(_, c map[string]any) { c["aud"] = []string{"verge", "verge"} })
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := realBank(t, c.config, c.settings)
			c.arrange(s)
			if status, page := s.outcome(); status != "COMPLETED" || page.Callback == nil {
				t.Errorf("an adult is %s, on a %s page; the log: %s", status, page.Kind, s.Logs())
			}
		})
	}
}

// Contract 36: a key that is replaced under its id, or has no id, does not fail a login.
func TestProvider_ReplacedKey(t *testing.T) {
	for rule, as := range map[string]func(words map[string]any){
		"under its kid": func(words map[string]any) { words["kid"] = "same" },
		"without a kid": func(words map[string]any) { delete(words, "kid") },
	} {
		t.Run(rule, func(t *testing.T) {
			s := realBank(t, oidctest.Config{}, nil)
			s.bank.Tamper(func(header, _ map[string]any) { as(header) })
			for _, when := range []string{"before", "after"} {
				s.keyAs(as)
				if status, _ := s.outcome(); status != "COMPLETED" {
					t.Errorf("%s: an adult is %s", when, status)
				}
				s.bank.Rotate()
			}
		})
	}
}

// Contract 36: an unreadable value is not a rejection.
func TestProvider_Birthdates(t *testing.T) {
	born := map[string]any{"proof": map[string]any{"claim": []string{"birthdate"}, "birthdate": true}}
	for _, c := range []struct {
		value any
		want  string
	}{
		{"1975-05-01", "COMPLETED"}, {"1975", "COMPLETED"}, {"2020", "FAILED PROVIDER_REJECTED"},
		{"2020-05-01", "FAILED PROVIDER_REJECTED"},
		{"", "PENDING"}, {"02/01/1980", "PENDING"}, {"0000-05-01", "PENDING"}, {"1975-13-01", "PENDING"},
		{19750501, "PENDING"}, {nil, "PENDING"}, {map[string]any{"value": "1975-05-01"}, "PENDING"},
	} {
		s := realBank(t, oidctest.Config{}, born)
		s.bank.Answer(oidctest.Answer{Claims: map[string]any{"birthdate": c.value}})
		status, page := s.outcome()
		if status != c.want {
			t.Errorf("the birth date %v: %s, want %s", c.value, status, c.want)
		}
		if says := strings.Contains(string(page.Body), "Example ID did not confirm your age"); says !=
			(c.want == "PENDING") {
			t.Errorf("the birth date %v: the page shows it: %v", c.value, says)
		}
	}
}
