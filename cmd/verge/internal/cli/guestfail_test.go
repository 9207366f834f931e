package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// TestGuestsThatFailUnderAServer makes guests fail in the middle of a request while others are served.
// Each request in such a guest returns the API's 503 and has no effect. No event of an
// acknowledged transition is lost, and the next request is served.
func TestGuestsThatFailUnderAServer(t *testing.T) {
	long.Skip(t, "TestGuestsThatFailUnderAServer")
	t.Parallel() // this test and the next one wait for leases
	g := newGuests(t)
	module := g.put("failing.wasm", failing(t))
	g.compile(module, "interruptible")
	for _, c := range []struct {
		store string
		open  func(t *testing.T) string
		kinds []string
	}{
		{"bolt", func(t *testing.T) string { return "bolt:" + filepath.Join(t.TempDir(), "verge.db") },
			[]string{"trap", "memory", "loop"}},
		{"redis", func(t *testing.T) string { return stores.StartRedis(t).URL() }, []string{"trap"}},
	} {
		t.Run(c.store, func(t *testing.T) {
			t.Parallel()
			sink := newEvents(t)
			sink.trust(testSecret)
			site := newSite(t, c.open(t), sink.URL,
				unlimited+g.section(module, "module_key = \""+g.public+"\"\ninterruptible = true"))
			in := site.start()

			others := walkBeside(t, in.publisher, 3)
			var victims []*walked
			for _, kind := range c.kinds {
				victims = append(victims, failOn(t, in, kind))
			}
			acknowledged, hit := others.end()
			sink.lostNothing(t, append(victims, acknowledged...))
			for _, w := range victims {
				if sink.has(w.id, "completed") {
					t.Errorf("%s was completed", w.id)
				}
			}
			for _, what := range sink.complaints() {
				t.Error(what)
			}
			if hit == len(acknowledged) {
				t.Error("no other request was served meanwhile")
			}
			if n := strings.Count(in.logs.String(), "guest failed; replacing it"); n < len(victims) {
				t.Errorf("%d guests were replaced, want at least %d: %s", n, len(victims), in.logs)
			}
			t.Logf("%d walks beside, of which %d were hit", len(acknowledged), hit)
		})
	}
}

// beside are clients that do verifications while guests fail. The only failure that they may see is a 503.
type beside struct {
	over    chan struct{}
	walkers sync.WaitGroup

	mu           sync.Mutex
	acknowledged []*walked
	hit          int
}

func walkBeside(t *testing.T, p *publisher, clients int) *beside {
	b := &beside{over: make(chan struct{})}
	for range clients {
		b.walkers.Go(func() {
			for {
				select {
				case <-b.over:
					return
				default:
				}
				w, err := walkOn(p)
				b.mu.Lock()
				b.acknowledged = append(b.acknowledged, w)
				if err != nil {
					b.hit++
					if !strings.Contains(err.Error(), "503") {
						t.Errorf("another request meanwhile: %v", err)
					}
				}
				b.mu.Unlock()
			}
		})
	}
	return b
}

// end returns the clients' results, and the number of walks with a failure.
func (b *beside) end() (acknowledged []*walked, hit int) {
	close(b.over)
	b.walkers.Wait()
	return b.acknowledged, b.hit
}

// failOn makes a guest fail on a start and on a user's decision. It returns the session of the latter.
func failOn(t *testing.T, in *served, kind string) *walked {
	t.Helper()
	if kind != "loop" {
		status, body := in.startFor(t, kind+":start")
		if status != 503 || !strings.Contains(body, `"code":"UNAVAILABLE"`) ||
			strings.Contains(body, "redirect_url") {
			t.Errorf("%s at the start: %d %s", kind, status, body)
		}
		servedAgain(t, in)
	}
	status, body := in.startFor(t, kind+":act")
	var s struct {
		SessionID   string `json:"session_id"`
		RedirectURL string `json:"redirect_url"`
	}
	if status != 200 || json.Unmarshal([]byte(body), &s) != nil {
		// It may have been in a guest that failed on another request, so it tries again.
		servedAgain(t, in)
		if status, body = in.startFor(t, kind+":act"); status != 200 ||
			json.Unmarshal([]byte(body), &s) != nil {
			t.Fatalf("%s: start: %d %s", kind, status, body)
		}
	}
	token, err := in.approve(s.RedirectURL)
	if err == nil || token != "" || !strings.Contains(err.Error(), "503") {
		t.Errorf("%s: the guest failed, and a result was granted: %q, %v", kind, token, err)
	}
	servedAgain(t, in)
	var state []byte
	wait.Until(t, "its state", func() bool {
		status, _, state, err = in.api("GET", "/api/v1/verify/sessions/"+s.SessionID, nil)
		return err == nil && status == 200
	})
	if strings.Contains(string(state), "COMPLETED") || strings.Contains(string(state), `"valid":true`) {
		t.Errorf("%s: the guest failed, and something was granted: %s", kind, state)
	}
	return &walked{id: s.SessionID, started: true}
}

// lostNothing waits for the events of all acknowledged requests. The tasks that a guest had claimed
// when it failed are due again after their lease, 27 s.
func (e *events) lostNothing(t *testing.T, all []*walked) {
	t.Helper()
	lost := func() (lost []string) {
		for _, w := range all {
			if w.started && !e.has(w.id, "started") {
				lost = append(lost, w.id+" started")
			}
			if w.completed && !e.has(w.id, "completed") {
				lost = append(lost, w.id+" completed")
			}
		}
		return lost
	}
	if !within(patience, func() bool { return len(lost()) == 0 }) {
		t.Errorf("I3: lost: %v", lost())
	}
}

// startFor starts a session for an external user.
func (in *served) startFor(t *testing.T, user string) (status int, body string) {
	t.Helper()
	status, _, raw, err := in.api("POST", "/api/v1/verify/start", map[string]string{
		"integration_id":   testIntegration,
		"callback_url":     "https://shop.example/callback",
		"external_user_id": user,
	})
	if err != nil {
		t.Fatal(err)
	}
	return status, string(raw)
}

// servedAgain waits until a request is served, as it is once the server has replaced the guest.
func servedAgain(t *testing.T, in *served) {
	t.Helper()
	wait.Until(t, "a request that is served", func() bool {
		_, err := quietWalk(in.publisher)
		return err == nil
	})
}

// walkOn does a verification and returns the acknowledged steps before a failure.
func walkOn(p *publisher) (*walked, error) {
	w := new(walked)
	id, redirect, err := p.start(p.IntegrationID)
	if err != nil {
		return w, err
	}
	w.id, w.started = id, true
	token, err := p.approve(redirect)
	if err != nil {
		return w, err
	}
	w.completed = true
	if valid, status, body := p.validate(token); !valid {
		return w, fmt.Errorf("validate: %d %s", status, body)
	}
	return w, nil
}

// TestRollbackUnderAServer activates a module that passes every test but fails on the requests of
// users. The server restores the previous module automatically, and informs operators.
func TestRollbackUnderAServer(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestRollbackUnderAServer")
	g := newGuests(t)
	good, bad := g.put("good.wasm", testenv.Module(t)), g.put("bad.wasm", failing(t))
	g.compile(good)
	g.compile(bad)
	sink := newEvents(t)
	sink.trust(testSecret)
	in := newSite(t, "memory", sink.URL, unlimited+g.section(good, "")).start()
	before := in.modules(t).Active
	code, out := asOperator(operator(), in.at, "module", "activate", bad, "--json")
	var done admin.ModuleActivated
	if code != exitOK || json.Unmarshal([]byte(out), &done) != nil || !done.Changed ||
		done.Digest == before.Digest {
		t.Fatalf("exit code %d: %s", code, out)
	}
	first, err := quietWalk(in.publisher)
	if err != nil {
		t.Fatalf("a verification before the module fails: %v", err)
	}
	if status, body := in.startFor(t, "trap:start"); status != 503 {
		t.Errorf("%d %s", status, body)
	}
	wait.Until(t, "the module before", func() bool { return in.modules(t).Active.Digest == before.Digest })
	s := in.modules(t)
	if s.Active.Source != before.Source || s.Rejected == nil || s.Rejected.Digest != done.Digest ||
		s.Rejected.Source != sentByOperator ||
		!strings.Contains(s.Rejected.Reason, "failed soon after it was activated (trap)") {
		t.Errorf("%+v, refused %+v", s.Active, s.Rejected)
	}
	second, err := quietWalk(in.publisher)
	if err != nil {
		t.Error(err)
	}
	if status, body := in.startFor(t, "trap:start"); status != 200 {
		t.Errorf("the request on which the refused module failed: %d %s", status, body)
	}
	wait.Until(t, "the events", func() bool {
		return sink.has(first, "completed") && sink.has(second, "completed")
	})
	code, out = asOperator(operator(), in.at, "module", "show")
	if code != exitOK || !strings.Contains(out, "rejected  ") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
