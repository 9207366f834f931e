package methodtest_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/oidctest"
)

// With pushed requests, the address of the provider can be used once. A user who goes back to the page that
// has left sees the method's page, and the next request is pushed again.
func TestBack_PageThatLeft(t *testing.T) {
	for name, config := range map[string]oidctest.Config{
		"with pushed requests": {PushedOnly: true}, "without": {},
	} {
		t.Run("contract 34: "+name, func(t *testing.T) {
			var h *testharness.Harness
			config.Now = func() time.Time {
				if h == nil { // the provider starts before the harness, which has the clock
					return testharness.Epoch
				}
				return h.Now()
			}
			config.Clients = []oidctest.Client{{ID: "verge", Secret: "secret-of-the-test"}}
			p := oidctest.Start(t, config)
			settings, err := json.Marshal(map[string]any{"issuer": p.URL, "client_id": "verge",
				"proof": oidctest.AgeProof(18)})
			if err != nil {
				t.Fatal(err)
			}
			h = testharness.New(t, &testharness.Options{Methods: []method.Config{{Name: "bank", Kind: "oidc",
				Settings: settings, Secrets: map[string]string{"client_secret": "secret-of-the-test"}}}})
			h.Offer(h.Publisher.L2, "bank")
			started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})

			page := h.Open(started.RedirectURL)
			leaving := page.Submit("begin")
			first := leaving.ReturnURL() // the provider has used the address
			for _, again := range []*testharness.Page{leaving.Reload(), leaving.Reload()} {
				if again.Kind != "method" || again.Hop != "" {
					t.Fatalf("the page that left is a %s page that continues to %q", again.Kind, again.Hop)
				}
				if pushed := p.Count(oidctest.PushPath); config.PushedOnly && pushed != 1 {
					t.Errorf("loading a page pushes a request: %d", pushed)
				}
			}
			anew := leaving.Reload().Submit("begin")
			if anew.Kind != "leaving" || anew.Hop == leaving.Hop {
				t.Fatalf("the new start: a %s page that continues to %q", anew.Kind, anew.Hop)
			}
			second := anew.ReturnURL()
			if pushed := p.Count(oidctest.PushPath); config.PushedOnly && pushed != 2 {
				t.Errorf("%d requests were pushed, want 2", pushed)
			}
			// Both logins belong to this browser, and the first return counts.
			done := page.Go(second)
			if done.Callback == nil {
				t.Fatalf("a %s page (%d)", done.Kind, done.Status)
			}
			if late := page.Go(first); late.Callback == nil || late.Callback.SessionID != started.SessionID {
				t.Errorf("the other return: a %s page (%d)", late.Kind, late.Status)
			}
		})
	}
}
