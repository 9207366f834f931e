package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/long"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// sharedStores are the stores that several processes can share.
var sharedStores = []struct {
	name string
	open func(t *testing.T) string
}{
	{"redis", func(t *testing.T) string { return stores.StartRedis(t, stores.Durable...).URL() }},
	{"cluster", func(t *testing.T) string { return stores.StartCluster(t, 3).URL() }},
	{"postgres", func(t *testing.T) string { return stores.StartPostgres(t).URL("verge") }},
}

// TestInstancesShare starts three processes at the same time on an empty store, and sends the requests of
// each verification to different ones.
func TestInstancesShare(t *testing.T) {
	t.Parallel()
	for _, c := range sharedStores {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "redis" {
				long.Skip(t, "TestInstancesShare")
			}
			t.Parallel()
			sink := newEvents(t)
			sink.trust(testSecret)
			site := newSite(t, c.open(t), sink.URL, "[limits]\nreconcile_per_key = 30\n")
			instances := site.startAll(3)

			t.Run("sessions and single use", func(t *testing.T) {
				for n := range 9 {
					at := func(i int) *served { return instances[(n+i)%3] }
					id, redirect, err := at(0).start(testIntegration)
					if err != nil {
						t.Fatal(err)
					}
					token, err := at(1).approve(redirect)
					if err != nil {
						t.Fatal(err)
					}
					var valid atomic.Int64
					var racers sync.WaitGroup
					for i := range 6 {
						racers.Go(func() {
							if ok, _, _ := at(i).validate(token); ok {
								valid.Add(1)
							}
						})
					}
					racers.Wait()
					if valid.Load() != 1 {
						t.Errorf("I1: the token of %s validated %d times", id, valid.Load())
					}
					wait.Until(t, "the events of "+id, func() bool {
						return sink.has(id, "started") && sink.has(id, "completed")
					})
				}
			})
			t.Run("rate limits", func(t *testing.T) {
				id, _, err := instances[0].start(testIntegration)
				if err != nil {
					t.Fatal(err)
				}
				begin, served := time.Now(), 0
				for n := range 60 {
					status, _, body, err := instances[n%3].api("GET", "/api/v1/verify/sessions/"+id, nil)
					switch {
					case err != nil:
						t.Fatal(err)
					case status == 200:
						served++
					case status != 429:
						t.Fatalf("%d %s", status, body)
					}
				}
				// The limit allows one more every two seconds.
				if most := 31 + int(time.Since(begin)/(2*time.Second)); served < 30 || served > most {
					t.Errorf("30 requests a minute were allowed, three instances served %d (at "+
						"most %d by now)",
						served, most)
				}
			})
			t.Run("keys revoked at one are rejected by all", func(t *testing.T) {
				p, _, _ := testProgram()
				p.Getenv = func(string) (string, bool) { return testToken, true }
				_, out := asOperator(p, instances[0].at, "key", "list", "--json")
				key, _, _ := strings.Cut(out[strings.Index(out, "key_"):], `"`)
				if code, out := asOperator(p, instances[1].at, "key", "revoke", key); code != exitOK {
					t.Fatalf("revoke %s: %s", key, out)
				}
				time.Sleep(5 * time.Second)
				for _, in := range instances {
					if _, _, err := in.start(testIntegration); err == nil ||
						!strings.Contains(err.Error(), "start: 401") {
						t.Errorf("contract 12: 5 seconds after its revocation a key's start ends with %v",
							err)
					}
				}
			})
			for _, in := range instances {
				in.cmd.Process.Signal(syscall.SIGTERM)
				wait.For(in.ended)
				if code := in.cmd.ProcessState.ExitCode(); code != exitOK {
					t.Errorf("exit code %d: %s", code, in.logs)
				}
			}
			for _, what := range sink.complaints() {
				t.Error(what)
			}
		})
	}
}

// holding is a receiver that holds each request until the test sets its response.
type holding struct {
	URL   string
	held  atomic.Int64
	open  atomic.Bool   // return 204 immediately
	reply chan struct{} // fail closes it, and the requests that are held get a 500
	fail  func()

	mu    sync.Mutex
	posts map[string][]string // bodies, by idempotency key
}

func newHolding(t *testing.T) *holding {
	h := &holding{reply: make(chan struct{}), posts: map[string][]string{}}
	h.fail = sync.OnceFunc(func() { close(h.reply) })
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		h.fail()
		s.Close()
	})
	h.URL = s.URL + "/hooks"
	return h
}

func (h *holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var event webhook.Event
	if err != nil || webhook.Verify(testSecret, r.Header, body, time.Now(), 0) != nil ||
		json.Unmarshal(body, &event) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	h.mu.Lock()
	h.posts[event.IdempotencyKey] = append(h.posts[event.IdempotencyKey], string(body))
	h.mu.Unlock()
	if !h.open.Load() {
		h.held.Add(1)
		wait.For(h.reply)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *holding) count() (events, posts int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.posts {
		posts += len(p)
	}
	return len(h.posts), posts
}

// TestLeasesOfTheDeadAndTheFrozen has three processes. Two have deliveries in progress and more that
// wait. One of these is killed and the other is stopped. The third takes over after the lease. Then the
// stopped process continues. Only now its deliveries fail, and it must neither record that nor deliver
// the rest.
func TestLeasesOfTheDeadAndTheFrozen(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestLeasesOfTheDeadAndTheFrozen")
	for _, c := range sharedStores {
		if c.name == "cluster" {
			continue // it runs the same scripts as a single server, and this test takes a minute
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sink := newHolding(t)
			site := newSite(t, c.open(t), sink.URL,
				unlimited+"[webhooks]\nretries = [\"1s\", \"5s\", \"30s\"]\n")
			instances := site.startAll(2)
			lane := edge.DefaultPerDestination // the limit of concurrent requests to one receiver
			each := lane + 9
			var starts sync.WaitGroup // all at the same time: a delivery ends after ten seconds
			for _, in := range instances {
				for range each {
					starts.Go(func() {
						if _, _, err := in.start(testIntegration); err != nil {
							t.Error(err)
						}
					})
				}
			}
			starts.Wait()
			wait.Until(t, "deliveries in hand", func() bool { return sink.held.Load() >= int64(2*lane) })
			dead, frozen := instances[0], instances[1]
			frozen.cmd.Process.Signal(syscall.SIGSTOP)
			dead.kill()
			wait.For(dead.ended)
			_, before := sink.count()
			sink.open.Store(true)
			third := site.start()
			all := func() bool {
				events, posts := sink.count()
				return events == 2*each && posts >= before+2*each
			}
			if !within(29*time.Second+20*time.Second, all) {
				events, posts := sink.count()
				t.Fatalf("I3: a lease and 20 s later %d of %d events were sent, in %d requests", events,
					2*each, posts)
			}

			sink.fail()
			frozen.cmd.Process.Signal(syscall.SIGCONT)
			if _, _, err := frozen.start(testIntegration); err != nil {
				t.Errorf("the process that was stopped no longer serves: %v", err)
			}
			wait.Until(t, "an event of the frozen instance", func() bool {
				events, _ := sink.count()
				return events == 2*each+1
			})
			time.Sleep(4 * time.Second) // if it had recorded a failure, the next try would come in about 1 s
			// I4: the extra requests are the deliveries that were in progress, with the same bytes.
			if events, posts := sink.count(); events != 2*each+1 || posts != before+2*each+1 {
				t.Errorf("I4, I5: %d events in %d requests, want %d in %d", events, posts, 2*each+1,
					before+2*each+1)
			}
			for key, bodies := range sink.posts {
				for _, b := range bodies {
					if b != bodies[0] {
						t.Errorf("I4: the bytes of %s changed", key)
					}
				}
			}
			p, _, _ := testProgram()
			p.Getenv = func(string) (string, bool) { return testToken, true }
			code, out := asOperator(p, third.at, "delivery", "list")
			if code != exitOK || !strings.Contains(out, "No failed events") {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
}

// startAll runs n processes at the same time.
func (s *site) startAll(n int) []*served {
	s.t.Helper()
	all := make([]*served, n)
	for i := range all {
		all[i] = s.launch()
	}
	for _, in := range all {
		s.ready(in)
	}
	return all
}
