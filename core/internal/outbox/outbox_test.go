package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const (
	testUUID = testhost.UUID
	hookURL  = "https://hooks.publisher.example/verge?token=of-the-publisher"
	secret   = "whsec_only_for_tests"
	part     = kv.Partition("p3")
	lease    = time.Minute
)

var ctx = context.Background()

// fixture is an Outbox on a store with faults, a receiver whose responses the test chooses and a clock that
// the test moves.
type fixture struct {
	*Outbox
	*testhost.Host

	answer func(host.FetchRequest) (int, error) // of the receiver
	posts  []host.FetchRequest
	at     []time.Time // of the posts

	mu     sync.Mutex
	counts map[string]int
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := testhost.New(t)
	w := &fixture{Host: h, counts: map[string]int{}, answer: status(200)}
	h.Fetch, h.Observer = w, testhost.Observer{OnCount: w.count}
	w.Outbox = &Outbox{Host: h.Host, Directory: integration.NewDirectory(h.Host), AttemptTime: AttemptTime,
		Partitions: []kv.Partition{"p0", "p1", part}}
	w.put(t, integration.Webhook{URL: hookURL}, secret)
	return w
}

func (w *fixture) count(event string) { w.mu.Lock(); w.counts[event]++; w.mu.Unlock() }

// watchWake appends the times of wake-ups to woken.
func (w *fixture) watchWake(woken *[]time.Time) {
	w.Outbox.Observer = testhost.Observer{OnCount: w.count,
		OnWake: func(due time.Time) { *woken = append(*woken, due) }}
}

func (w *fixture) put(t testing.TB, hook integration.Webhook, secret string) {
	t.Helper()
	coretest.Must(t, w.Directory.PutIntegration(ctx,
		integration.Integration{ID: testUUID, PublisherID: "pub_a", Webhook: hook}, secret))
}

// Fetch implements host.Fetcher.
func (w *fixture) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	w.posts = append(w.posts, req)
	w.at = append(w.at, w.Clock.Now())
	status, err := w.answer(req)
	return host.FetchResponse{Status: status}, err
}

func status(n int) func(host.FetchRequest) (int, error) {
	return func(host.FetchRequest) (int, error) { return n, nil }
}

func fails(reason string) func(host.FetchRequest) (int, error) {
	return func(host.FetchRequest) (int, error) {
		return 0, &host.FetchError{Reason: reason, Err: errors.New("dial " + hookURL)}
	}
}

// task returns the delivery of e, due now.
func (w *fixture) task(t testing.TB, e webhook.Event) kv.Task {
	t.Helper()
	task, err := Event(w.Outbox.Sealer, e, testUUID, w.Clock.Now())
	coretest.Must(t, err)
	return task
}

// body opens a sealed body that Read has returned.
func (w *fixture) body(t testing.TB, sealed []byte) []byte {
	t.Helper()
	b, err := Body(w.Outbox.Sealer, sealed)
	coretest.Must(t, err)
	return b
}

// schedule schedules one event and returns it.
func (w *fixture) schedule(t testing.TB) webhook.Event {
	t.Helper()
	state := "line 1\nline 2"
	e := webhook.Completed(webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: w.Clock.Now(),
		PublisherID: "pub_a", IntegrationID: testUUID, SessionID: "svc_sess_x"}, "L1", 25, nil, &state)
	id, err := kv.NewTxID(w.Outbox.Random)
	coretest.Must(t, err)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: id, Partition: part, Schedule: []kv.Task{w.task(t, e)}}))
	return e
}

// claim leases the due tasks and returns the time of the next task.
func (w *fixture) claim(t testing.TB) (jobs []host.Job, next time.Time) {
	t.Helper()
	now := w.Clock.Now()
	tasks, next, err := w.Memory.Claim(ctx, part, now, lease, 100)
	coretest.Must(t, err)
	for _, task := range tasks {
		jobs = append(jobs, host.Job{Partition: part, Task: task, Until: now.Add(lease)})
	}
	return jobs, next
}

func (w *fixture) claimOne(t testing.TB) host.Job {
	t.Helper()
	jobs, _ := w.claim(t)
	if len(jobs) != 1 {
		t.Fatalf("%d tasks are due, want 1", len(jobs))
	}
	return jobs[0]
}

func (w *fixture) run(t testing.TB, job host.Job) error {
	t.Helper()
	m, body, err := Read(job.Task)
	coretest.Must(t, err)
	return w.Deliver(ctx, job, m, body)
}

// idle checks that no task is scheduled, now or later.
func (w *fixture) idle(t testing.TB) {
	t.Helper()
	if jobs, next := w.claim(t); len(jobs) > 0 || !next.IsZero() {
		t.Errorf("still scheduled: %d due, the next at %v", len(jobs), next)
	}
}

func (w *fixture) dead(t testing.TB) []UndeliveredEvent {
	t.Helper()
	dead, err := w.Dead(ctx, part, "", 100)
	coretest.Must(t, err)
	return dead
}

// TestDeliver_Responses makes one attempt for each kind of response.
func TestDeliver_Responses(t *testing.T) {
	const gone, again, delivered = "gone", "again", "delivered"
	for _, c := range []struct {
		name   string
		answer func(host.FetchRequest) (int, error)
		want   string
		last   string
	}{
		{"spec, Delivery 3: 200", status(200), delivered, ""},
		{"spec, Delivery 3: 204", status(204), delivered, ""},
		{"spec, Delivery 3: 299", status(299), delivered, ""},
		{"spec, Delivery 3: 400", status(400), gone, "status 400"},
		{"spec, Delivery 3: 401", status(401), gone, "status 401"},
		{"spec, Delivery 3: 410", status(410), gone, "status 410"},
		{"spec, Delivery 3: 429", status(429), gone, "status 429"},
		{"spec, Delivery 3: 499", status(499), gone, "status 499"},
		{"contract 26: 301 is not followed", status(301), again, "status 301"},
		{"contract 26: 307 is not followed", status(307), again, "status 307"},
		{"spec, Delivery 3: 500", status(500), again, "status 500"},
		{"spec, Delivery 3: 503", status(503), again, "status 503"},
		{"contract 26: an invalid status", status(0), again, "malformed_status"},
		{"contract 26: timeout", fails(host.FetchTimeout), again, "timeout"},
		{"contract 26: network error", fails(host.FetchNetwork), again, "network_error"},
		{"contract 28: destination blocked", fails(host.FetchBlocked), again, "destination_not_allowed"},
		{"contract 26: an error without a name",
			func(host.FetchRequest) (int, error) { return 0, errors.New(hookURL) }, again, "network_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			e := w.schedule(t)
			w.answer = c.answer
			var woken []time.Time
			w.watchWake(&woken)
			coretest.Must(t, w.run(t, w.claimOne(t)))
			if len(w.posts) != 1 {
				t.Fatalf("%d posts", len(w.posts))
			}
			dead := w.dead(t)
			switch c.want {
			case delivered:
				w.idle(t)
				if len(dead) != 0 || w.counts["webhook_delivered"] != 1 {
					t.Errorf("dead %+v, counted %v", dead, w.counts)
				}
			case gone:
				w.idle(t)
				want := UndeliveredEvent{
					Event:       e.ID,
					Type:        e.Type,
					Session:     e.SessionID,
					Integration: testUUID,
					Reason:      rejected,
					Last:        c.last,
					Attempts:    1,
					At:          w.Clock.Now(),
				}
				if len(dead) != 1 || dead[0] != want {
					t.Errorf("contract 27: dead %+v, want %+v", dead, want)
				}
			case again:
				jobs, next := w.claim(t)
				d := next.Sub(w.Clock.Now())
				if len(jobs) != 0 || d < 4*time.Second || d > 6*time.Second || len(dead) != 0 {
					t.Errorf("contract 26: tried again after %s, want 5 s ±20 %%; dead %+v", d, dead)
				}
				if len(woken) != 1 || !woken[0].Equal(next) {
					t.Errorf("contract 26: the runner was woken for %v and not for %v", woken, next)
				}
				if !strings.Contains(w.Logged.String(), c.last) {
					t.Errorf("the log lacks %q: %s", c.last, &w.Logged)
				}
			}
			for _, never := range []string{"of-the-publisher", secret, "line 1", "hooks.publisher"} {
				if strings.Contains(w.Logged.String(), never) {
					t.Errorf("contract 13: the log holds %q: %s", never, &w.Logged)
				}
			}
		})
	}
}

func TestDeliver_Request(t *testing.T) {
	w := newFixture(t)
	e := w.schedule(t)
	w.Clock.Advance(3 * time.Second)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	p := w.posts[0]
	if p.Method != "POST" || p.URL != hookURL || !bytes.Equal(p.Body, e.Body()) {
		t.Errorf("posted %s %s %s", p.Method, p.URL, p.Body)
	}
	header := map[string][]string{}
	for name, value := range p.Header {
		header[name] = []string{value}
	}
	if err := webhook.Verify(secret, header, p.Body, w.Clock.Now(), 0); err != nil {
		t.Errorf("spec, Signature: %v", err)
	}
	if err := webhook.Verify("whsec_another", header, p.Body, w.Clock.Now(), 0); err == nil {
		t.Error("spec, Signature: another secret verifies it")
	}
}

// TestDeliver_WholeSchedule makes all attempts, from the first failure until the event is dead.
func TestDeliver_WholeSchedule(t *testing.T) {
	w := newFixture(t)
	e := w.schedule(t)
	w.answer = status(503)
	waits := []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}
	for n, wait := range waits {
		coretest.Must(t, w.run(t, w.claimOne(t)))
		if len(w.dead(t)) != 0 {
			t.Fatalf("contract 26: dead after %d attempts", n+1)
		}
		_, next := w.claim(t)
		if d := next.Sub(w.Clock.Now()); d < wait*8/10 || d > wait*12/10 {
			t.Errorf("contract 26: attempt %d comes after %s, want %s ±20 %%", n+2, d, wait)
		}
		w.Clock.Advance(next.Sub(w.Clock.Now()))
	}
	coretest.Must(t, w.run(t, w.claimOne(t)))
	w.idle(t)
	dead := w.dead(t)
	if len(dead) != 1 || dead[0].Reason != exhausted || dead[0].Last != "status 503" ||
		dead[0].Attempts != 10 || dead[0].Event != e.ID {
		t.Fatalf("contract 26: dead %+v", dead)
	}
	seen := map[string]bool{}
	for n, p := range w.posts {
		if !bytes.Equal(p.Body, e.Body()) {
			t.Errorf("contract 25: attempt %d has other bytes", n+1)
		}
		header := map[string][]string{}
		for name, value := range p.Header {
			header[name] = []string{value}
		}
		if err := webhook.Verify(secret, header, p.Body, w.at[n], 0); err != nil {
			t.Errorf("contract 25: in attempt %d, t is not the time of the attempt: %v", n+1, err)
		}
		seen[p.Header[webhook.HeaderTimestamp]] = true
	}
	if len(w.posts) != 10 || len(seen) != 10 {
		t.Errorf("contract 26: %d posts at %d times, want 10", len(w.posts), len(seen))
	}
	w.Clock.Advance(DeadLife - time.Millisecond)
	if len(w.dead(t)) != 1 {
		t.Error("contract 27: the dead event is not visible for 30 days")
	}
	w.Clock.Advance(time.Millisecond)
	if len(w.dead(t)) != 0 {
		t.Error("contract 19: after 30 days its state is still kept")
	}
}

func TestNoTarget(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, w *fixture)
		reason string
	}{
		{"contract 27: switched off meanwhile",
			func(t *testing.T, w *fixture) { w.put(t, integration.Webhook{Off: true}, "") }, noTarget},
		{"contract 27: without URL meanwhile",
			func(t *testing.T, w *fixture) { w.put(t, integration.Webhook{}, "") }, noTarget},
		{"contract 27: the integration is gone", func(t *testing.T, w *fixture) {
			coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: "c",
				Deletes: []string{"c/int/" + testUUID}}))
			w.Directory = integration.NewDirectory(w.Host.Host)
		}, noTarget},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.schedule(t)
			c.change(t, w)
			coretest.Must(t, w.run(t, w.claimOne(t)))
			dead := w.dead(t)
			if len(dead) != 1 || dead[0].Reason != c.reason || dead[0].Attempts != 0 || len(w.posts) != 0 {
				t.Errorf("dead %+v after %d posts, want %s after none", dead, len(w.posts), c.reason)
			}
			w.idle(t)
		})
	}
}

// awaiting is a Sealer that lacks a key that other instances use.
type awaiting struct{ host.Sealer }

func (awaiting) Open(string, []byte) ([]byte, time.Time, error) {
	return nil, time.Time{}, host.ErrKeyAwaited
}

// secretless is a Sealer that has lost the key of webhook secrets.
type secretless struct{ host.Sealer }

func (s secretless) Open(purpose string, sealed []byte) ([]byte, time.Time, error) {
	if purpose == token.Secret {
		return nil, time.Time{}, host.ErrNotAuthentic
	}
	return s.Sealer.Open(purpose, sealed)
}

// Contract 27, last sentence.
func TestDeliver_InternalErrorPostpones(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(w *fixture)
	}{
		{"contract 27: the secret does not open", func(w *fixture) {
			on := w.Host.Host
			on.Sealer = secretless{w.Outbox.Sealer}
			w.Directory = integration.NewDirectory(on)
		}},
		{"contract 16: the event's key has not been read yet",
			func(w *fixture) { w.Outbox.Sealer = awaiting{w.Outbox.Sealer} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			whole := *w.Outbox
			w.schedule(t)
			c.fault(w)
			const looks = 12
			for n := range looks {
				coretest.Must(t, w.run(t, w.claimOne(t)))
				jobs, next := w.claim(t)
				if len(jobs) != 0 || next.IsZero() || next.Sub(w.Clock.Now()) > postponeMost {
					t.Fatalf("look %d: %d jobs are due and the next at %s; want it postponed by at most %s",
						n, len(jobs), next, postponeMost)
				}
				w.Clock.Advance(next.Sub(w.Clock.Now()))
			}
			if dead := w.dead(t); len(dead) != 0 || len(w.posts) != 0 {
				t.Fatalf("given up %+v after %d posts, want neither", dead, len(w.posts))
			}
			if n := strings.Count(w.Logged.String(), "webhook postponed"); n != 1 {
				t.Errorf("the postponed event is logged %d times, want once", n)
			}
			*w.Outbox = whole // the operator has fixed it
			w.answer = status(503)
			job := w.claimOne(t)
			coretest.Must(t, w.run(t, job))
			_, next := w.claim(t)
			w.Clock.Advance(next.Sub(w.Clock.Now()))
			m, _, err := Read(w.claimOne(t).Task)
			coretest.Must(t, err)
			if len(w.posts) != 1 || m.Attempts != 1 {
				t.Errorf("%d posts and %d attempts after %d looks; only the post counts", len(w.posts),
					m.Attempts, looks)
			}
		})
	}
}

func TestDeliver_LeaseTooShort(t *testing.T) {
	for _, c := range []struct {
		name  string
		left  time.Duration // of the lease
		slow  time.Duration // that a look-up takes
		posts int
	}{
		{"just enough", AttemptTime, 0, 1},
		{"an instant too short", AttemptTime - 1, 0, 0},
		{"run out", 0, 0, 0},
		{"enough, until the look-up of the target was slow", AttemptTime + time.Second, 2 * time.Second, 0},
	} {
		t.Run("outbox, AttemptTime: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			w.schedule(t)
			job := w.claimOne(t)
			w.Clock.Advance(lease - c.left)
			w.Store.Decide = func(call kvtest.Call) kvtest.Fault {
				if call.Method == "Get" {
					w.Clock.Advance(c.slow)
				}
				return kvtest.Pass
			}
			w.Directory = integration.NewDirectory(w.Host.Host)
			coretest.Must(t, w.run(t, job))
			if len(w.posts) != c.posts {
				t.Errorf("%d posts, want %d", len(w.posts), c.posts)
			}
			if c.posts == 0 {
				w.Clock.Advance(lease)
				again := w.claimOne(t)
				if m, _, _ := Read(again.Task); m.Attempts != 0 {
					t.Errorf("an attempt was counted: %+v", m)
				}
			}
		})
	}
}

func TestDeliver_LostLease(t *testing.T) {
	for name, answer := range map[string]func(host.FetchRequest) (int, error){"delivered": status(200),
		"refused": status(400), "failed": status(500)} {
		w := newFixture(t)
		w.schedule(t)
		job := w.claimOne(t)
		var other host.Job
		w.answer = func(req host.FetchRequest) (int, error) {
			w.Clock.Advance(lease)
			other = w.claimOne(t)
			return answer(req)
		}
		if err := w.run(t, job); err != nil {
			t.Errorf("%s: a lost lease is an error: %v", name, err)
		}
		if w.counts["lease_lost"] != 1 || len(w.dead(t)) != 0 {
			t.Errorf("%s: counted %v, dead %+v", name, w.counts, w.dead(t))
		}
		w.answer = status(200)
		coretest.Must(t, w.run(t, other)) // the instance that holds the task decides
		w.idle(t)
		if len(w.posts) != 2 || !bytes.Equal(w.posts[0].Body, w.posts[1].Body) {
			t.Errorf("%s: %d posts, want two with the same bytes", name, len(w.posts))
		}
	}
}

// A lease whose time has ended is still valid until another instance takes the task.
func TestDeliver_EndedLeaseNotTaken(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	job := w.claimOne(t)
	w.answer = func(host.FetchRequest) (int, error) { w.Clock.Advance(2 * lease); return 200, nil }
	coretest.Must(t, w.run(t, job))
	w.idle(t)
}

func TestDeliver_StoreError(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	job := w.claimOne(t)
	w.Directory = integration.NewDirectory(w.Host.Host)
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	if err := w.run(t, job); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if len(w.posts) != 0 {
		t.Error("the event was posted although its destination is unknown")
	}
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	w.answer = status(500)
	if err := w.run(t, job); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	w.Store.Decide = nil
	w.Clock.Advance(lease)
	if m, _, _ := Read(w.claimOne(t).Task); m.Attempts != 0 {
		t.Errorf("doc: the store's errors never use up an attempt, but %d were", m.Attempts)
	}
}

// The store responds again by the time a result could be recorded.
func TestDeliver_FailedLookUp(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	job := w.claimOne(t)
	w.Directory = integration.NewDirectory(w.Host.Host)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Get" {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	if err := w.run(t, job); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	w.Store.Decide = nil
	if dead := w.dead(t); len(w.posts) != 0 || len(dead) != 0 {
		t.Errorf("doc: an error of the store gave the event up: %d posts, dead %+v", len(w.posts), dead)
	}
	w.Clock.Advance(lease)
	if m, _, _ := Read(w.claimOne(t).Task); m.Attempts != 0 {
		t.Errorf("doc: the store's errors never use up an attempt, but %d were", m.Attempts)
	}
}

func TestDeliver_Stopped(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	job := w.claimOne(t)
	stopped, stop := context.WithCancel(ctx)
	w.answer = func(host.FetchRequest) (int, error) {
		stop()
		return 0, &host.FetchError{Reason: host.FetchNetwork, Err: context.Canceled}
	}
	m, body, err := Read(job.Task)
	coretest.Must(t, err)
	if err := w.Deliver(stopped, job, m, body); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if len(w.counts) != 0 || w.Logged.Len() != 0 {
		t.Errorf("counted is %v, logged %s", w.counts, &w.Logged)
	}
	w.Clock.Advance(lease)
	if m, _, _ := Read(w.claimOne(t).Task); m.Attempts != 0 {
		t.Errorf("an attempt was counted: %+v", m)
	}
}

// Each result is recorded once, no matter which reply is lost. Afterwards the event is delivered, dead or
// scheduled.
func TestDeliver_LostReplies(t *testing.T) {
	all := []kvtest.Fault{kvtest.Pass, kvtest.Reject, kvtest.LoseRequest, kvtest.LoseReply, kvtest.Delay}
	for name, answer := range map[string]func(host.FetchRequest) (int, error){"200": status(200),
		"400": status(400), "500": status(500)} {
		for _, first := range all {
			for _, second := range all {
				t.Run(fmt.Sprintf("doc: %s, %v then %v", name, first, second), func(t *testing.T) {
					w := newFixture(t)
					e := w.schedule(t)
					job := w.claimOne(t)
					w.answer = answer
					commits := 0
					w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
						if c.Method != "Commit" {
							return kvtest.Pass
						}
						commits++
						return append([]kvtest.Fault{first, second}, kvtest.Pass, kvtest.Pass)[commits-1]
					}
					err := w.run(t, job)
					w.Store.Deliver(ctx)
					w.Store.Decide = nil
					jobs, next := w.claim(t)
					if len(jobs) > 0 {
						t.Fatal("it is due now")
					}
					dead := w.dead(t)
					scheduled := !next.IsZero()
					leased := scheduled && next.Equal(job.Until)
					if err == nil && leased {
						t.Error("no result was recorded, and Run returned no error")
					}
					switch {
					case leased: // free again when the lease ends
						if len(dead) != 0 {
							t.Errorf("scheduled and dead: %+v", dead)
						}
					case name == "200" && (scheduled || len(dead) > 0),
						name == "400" && (scheduled || len(dead) != 1),
						name == "500" && (!scheduled || len(dead) > 0):
						t.Errorf("scheduled %v, dead %+v", scheduled, dead)
					case name == "500":
						w.Clock.Advance(next.Sub(w.Clock.Now()))
						job := w.claimOne(t)
						if m, sealed, _ := Read(job.Task); m.Attempts != 1 ||
							!bytes.Equal(w.body(t, sealed), e.Body()) {
							t.Errorf("contract 25: %d attempts are counted of one", m.Attempts)
						}
					}
					if len(w.posts) != 1 {
						t.Errorf("%d posts", len(w.posts))
					}
				})
			}
		}
	}
}

func TestDeferCountsNoAttempt(t *testing.T) {
	w := newFixture(t)
	e := w.schedule(t)
	job := w.claimOne(t)
	until := w.Clock.Now().Add(90 * time.Second)
	coretest.Must(t, w.Defer(ctx, job, until))
	jobs, next := w.claim(t)
	if len(jobs) != 0 || !next.Equal(until) {
		t.Fatalf("deferred until %s, due at %s", until, next)
	}
	w.Clock.Advance(90 * time.Second)
	again := w.claimOne(t)
	m, sealed, err := Read(again.Task)
	if err != nil || m.Attempts != 0 || !bytes.Equal(w.body(t, sealed), e.Body()) {
		t.Errorf("came back as %+v, %v", m, err)
	}
	if err := w.Defer(ctx, job, until.Add(time.Hour)); err != nil { // a lost lease
		t.Error(err)
	}
	if _, next := w.claim(t); !next.Equal(again.Until) {
		t.Errorf("the runner that lost the lease moved the task to %s", next)
	}
}

// kill returns the ids of n new dead events.
func (w *fixture) kill(t testing.TB, n int) map[string]bool {
	t.Helper()
	w.answer = status(400)
	ids := map[string]bool{}
	for range n {
		ids[w.schedule(t).ID] = true
	}
	jobs, _ := w.claim(t)
	for _, job := range jobs {
		coretest.Must(t, w.run(t, job))
	}
	w.answer = status(200)
	return ids
}

func TestDeadEventsArePaged(t *testing.T) {
	w := newFixture(t)
	ids := w.kill(t, 23)
	after, pages := "", 0
	for {
		page, err := w.Dead(ctx, part, after, 5)
		coretest.Must(t, err)
		if len(page) == 0 {
			break
		}
		if len(page) > 5 {
			t.Fatalf("a page of %d", len(page))
		}
		for _, d := range page {
			if !ids[d.Event] || d.Event <= after {
				t.Errorf("contract 27: %s is listed after %s", d.Event, after)
			}
			delete(ids, d.Event)
			after = d.Event
		}
		pages++
	}
	if len(ids) != 0 || pages != 5 {
		t.Errorf("contract 27: in %d pages %d dead events were not shown", pages, len(ids))
	}
	if dead, err := w.Dead(ctx, "p4", "", 5); err != nil || len(dead) != 0 {
		t.Errorf("another partition: %+v, %v", dead, err)
	}
}

// resend sends a dead event again, and checks the integration that Resend returns.
func (w *fixture) resend(t *testing.T, event, integration string) {
	t.Helper()
	of, err := w.Resend(ctx, part, event, integration)
	if err != nil || of != testUUID {
		t.Fatalf("contract 27: resent %q of %q, %v", event, of, err)
	}
}

func TestResend(t *testing.T) {
	w := newFixture(t)
	e := w.schedule(t)
	w.answer = status(400)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	var woken []time.Time
	w.watchWake(&woken)

	if _, err := w.Resend(ctx, "p4", e.ID, ""); !errors.Is(err, ErrNotDead) {
		t.Errorf("in another partition: %v", err)
	}
	if _, err := w.Resend(ctx, part, "evt_"+testUUID, ""); !errors.Is(err, ErrNotDead) {
		t.Errorf("another event: %v", err)
	}
	w.resend(t, e.ID, "")
	if len(woken) != 1 || !woken[0].Equal(w.Clock.Now()) {
		t.Errorf("the runner was woken for %v", woken)
	}
	if _, err := w.Resend(ctx, part, e.ID, ""); !errors.Is(err, ErrNotDead) {
		t.Errorf("contract 27: resent twice: %v, want ErrNotDead", err)
	}
	if dead := w.dead(t); len(dead) != 0 {
		t.Errorf("resent and dead: %+v", dead)
	}
	w.answer = status(500)
	job := w.claimOne(t)
	m, _, err := Read(job.Task)
	m.Tried, m.Place = "", "" // for the log
	if err != nil || m != (Meta{Kind: Deliver, Session: e.SessionID, Integration: testUUID, Type: e.Type,
		Before: 1, Resent: true}) {
		t.Errorf("contract 27: the resent event starts from %+v, %v", m, err)
	}
	coretest.Must(t, w.run(t, job))
	if len(w.posts) != 2 || !bytes.Equal(w.posts[1].Body, e.Body()) ||
		!bytes.Equal(w.posts[0].Body, e.Body()) {
		t.Error("contract 25: resent with other bytes")
	}
	if _, next := w.claim(t); next.Sub(w.Clock.Now()) > 6*time.Second {
		t.Errorf("contract 27: the schedule did not start from its beginning: %s", next.Sub(w.Clock.Now()))
	}
}

// An event that was never posted leaves the lists of waiting events when it is delivered, too.
func TestResend_NeverPosted(t *testing.T) {
	w := newFixture(t)
	e := w.schedule(t)
	w.put(t, integration.Webhook{Off: true}, "")
	coretest.Must(t, w.run(t, w.claimOne(t)))
	if dead := w.dead(t); len(dead) != 1 || dead[0].Attempts != 0 {
		t.Fatalf("dead: %+v, want one without an attempt", dead)
	}
	w.put(t, integration.Webhook{URL: hookURL}, secret)
	w.answer = status(200)
	w.resend(t, e.ID, "")
	w.agree(t)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	w.agree(t)
	if got := w.log(t); len(got) != 1 || got[0].State != StateDelivered || len(w.waiting(t)) > 0 {
		t.Errorf("contract 27: the log is %+v, waiting %+v", got, w.waiting(t))
	}
}

func TestResend_LostReply(t *testing.T) {
	for _, c := range []struct {
		faults    []kvtest.Fault
		want      error
		scheduled bool
	}{
		{[]kvtest.Fault{kvtest.LoseReply}, nil, true},
		{[]kvtest.Fault{kvtest.LoseRequest}, nil, true},
		{[]kvtest.Fault{kvtest.Delay}, nil, true},
		{[]kvtest.Fault{kvtest.Reject}, kv.ErrUnavailable, false},
		{[]kvtest.Fault{kvtest.LoseRequest, kvtest.LoseRequest, kvtest.LoseRequest}, kv.ErrUnknown, false},
		{[]kvtest.Fault{kvtest.LoseReply, kvtest.Reject}, kv.ErrUnknown, true},
	} {
		t.Run(fmt.Sprintf("contract 27: %v", c.faults), func(t *testing.T) {
			w := newFixture(t)
			w.kill(t, 1)
			dead := w.dead(t)
			commits := 0
			w.Store.Decide = func(call kvtest.Call) kvtest.Fault {
				if call.Method == "Commit" {
					if commits++; commits <= len(c.faults) {
						return c.faults[commits-1]
					}
				}
				return kvtest.Pass
			}
			_, err := w.Resend(ctx, part, dead[0].Event, "")
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("error %v, want %v", err, c.want)
			}
			jobs, _ := w.claim(t)
			if (len(jobs) == 1) != c.scheduled || len(jobs) > 1 || len(w.dead(t)) == len(jobs) {
				t.Errorf("%d tasks, %d dead; want it scheduled: %v", len(jobs), len(w.dead(t)), c.scheduled)
			}
			for _, job := range jobs {
				coretest.Must(t, w.run(t, job))
			}
			w.Store.Deliver(ctx)
			if jobs, _ := w.claim(t); len(jobs) > 0 {
				t.Error("contract 27: a late commit sends it again")
			}
		})
	}
}

func TestResend_Parallel(t *testing.T) {
	w := newFixture(t)
	w.kill(t, 1)
	event := w.dead(t)[0].Event
	var sent atomic.Int64
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			switch _, err := w.Resend(ctx, part, event, ""); {
			case err == nil:
				sent.Add(1)
			case !errors.Is(err, ErrNotDead):
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if jobs, _ := w.claim(t); sent.Load() != 1 || len(jobs) != 1 {
		t.Errorf("contract 27: %d callers resent it, %d tasks", sent.Load(), len(jobs))
	}
}

func TestDead_Damaged(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: part,
		Puts: []kv.Put{{Name: "d/evt_x", Value: []byte("no line feed")}}}))
	if _, err := w.Dead(ctx, part, "", 5); err == nil || !strings.Contains(err.Error(), "evt_x") {
		t.Errorf("listing: %v", err)
	}
	if _, err := w.Resend(ctx, part, "evt_x", ""); err == nil || errors.Is(err, ErrNotDead) {
		t.Errorf("resending: %v", err)
	}
}

func TestTasksRoundTrip(t *testing.T) {
	w := newFixture(t)
	now := w.Clock.Now()
	e := webhook.Started(webhook.Head{ID: "evt_" + testUUID, CreatedAt: now, SessionID: "svc_sess_x"}, now)
	task := w.task(t, e)
	m, body, err := Read(task)
	want := Meta{Kind: Deliver, Session: "svc_sess_x", Integration: testUUID, Type: webhook.TypeStarted}
	if err != nil || m != want || !bytes.Equal(w.body(t, body), e.Body()) || !task.Due.Equal(now) {
		t.Errorf("event task %+v: %+v, %s, %v", task, m, body, err)
	}
	if id := eventID(host.Job{Task: task}); id != e.ID {
		t.Errorf("its event is %q, want %q", id, e.ID)
	}
	sid := session.ID{Integration: testUUID, Created: now}
	task = Timer(sid, "svc_sess_x")
	m, body, err = Read(task)
	want = Meta{Kind: Expire, Session: "svc_sess_x", Integration: testUUID}
	if err != nil || m != want || len(body) != 0 ||
		!task.Due.Equal(now.Add(session.Life)) || task.ID != sid.TimerID() {
		t.Errorf("timer task %+v: %+v, %q, %v", task, m, body, err)
	}
	for _, payload := range []string{"", "{}", "{}\n", "x\n", `{"k":"other"}` + "\n", `{"k":"deliver"}`, "\n"} {
		if m, _, err := Read(kv.Task{Payload: []byte(payload)}); err == nil {
			t.Errorf("%q is read as %+v", payload, m)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"{\"k\":\"deliver\"}\n{}", "{\"k\":\"expire\"}\n", "", "\n\n",
		`{"k":"deliver","n":3}` + "\na\nb"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, body, err := Read(kv.Task{Payload: payload})
		if err != nil {
			return
		}
		again, bodyAgain, err := Read(kv.Task{Payload: join(m, body)})
		if err != nil || again != m || !bytes.Equal(bodyAgain, body) {
			t.Errorf("%q is read as %+v and %q; written and read again as %+v and %q, %v",
				payload, m, body, again, bodyAgain, err)
		}
	})
}

func TestTask_SealsStateAndUser(t *testing.T) {
	w := newFixture(t)
	state, user := "canary-state", "canary-user"
	e := webhook.Failed(webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: w.Clock.Now(),
		IntegrationID: testUUID, SessionID: "svc_sess_x"}, webhook.FailureUnknown, "", &user, &state)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: part, Schedule: []kv.Task{w.task(t, e)}}))
	job := w.claimOne(t)
	if bytes.Contains(job.Task.Payload, []byte("canary")) {
		t.Errorf("contract 19: the task reads %q", job.Task.Payload)
	}
	w.answer = status(400)
	coretest.Must(t, w.run(t, job))
	items, err := w.Memory.List(ctx, kv.Key{Partition: part, Name: "d/"}, "", 10)
	if err != nil || len(items) != 1 || bytes.Contains(items[0].Value, []byte("canary")) {
		t.Errorf("contract 19: dead events are %q, %v", items, err)
	}
}

func TestDeliver_KeyGone(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	job := w.claimOne(t)
	job.Task.Payload = bytes.Clone(job.Task.Payload)
	job.Task.Payload[len(job.Task.Payload)-1] ^= 1
	coretest.Must(t, w.run(t, job))
	if dead := w.dead(t); len(w.posts) != 0 || len(dead) != 1 || dead[0].Reason != unreadable {
		t.Errorf("posted %d, dead %+v", len(w.posts), dead)
	}
}

// Contract 16: after the ring was replaced, an attacker who can write to the store can send no event dated
// later.
func TestDeliver_ReplacedRing(t *testing.T) {
	for _, c := range []struct {
		name  string
		dated time.Duration // after the replacement
		posts int
	}{
		{"before the replacement", -time.Minute, 1},
		{"within the clocks' margin", host.ClockMargin, 1},
		{"after it", host.ClockMargin + time.Second, 0},
	} {
		t.Run("contract 16: an event dated "+c.name, func(t *testing.T) {
			w := newFixture(t)
			w.Outbox.Sealer = replaced{w.Outbox.Sealer, w.Clock.Now()}
			e := webhook.Completed(webhook.Head{ID: webhook.NewID(w.Outbox.Random),
				CreatedAt:   w.Clock.Now().Add(c.dated),
				PublisherID: "pub_a", IntegrationID: testUUID, SessionID: "svc_sess_x"}, "L1", 25, nil, nil)
			coretest.Must(t,
				w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: part, Schedule: []kv.Task{w.task(t, e)}}))
			coretest.Must(t, w.run(t, w.claimOne(t)))
			if len(w.posts) != c.posts {
				t.Errorf("%d posts, want %d", len(w.posts), c.posts)
			}
			if dead := w.dead(t); c.posts == 0 && (len(dead) != 1 || dead[0].Reason != unreadable) {
				t.Errorf("dead %+v, want one dead event with reason %s", dead, unreadable)
			}
		})
	}
}

// replaced is a Sealer whose key of events was replaced at a time.
type replaced struct {
	host.Sealer
	at time.Time
}

func (r replaced) Open(purpose string, sealed []byte) ([]byte, time.Time, error) {
	claims, until, err := r.Sealer.Open(purpose, sealed)
	if purpose == token.Event {
		until = r.at
	}
	return claims, until, err
}

// The longest event that the contract allows fits into a task and into a dead event.
func TestTask_LongestEvent(t *testing.T) {
	w := newFixture(t)
	state, user := strings.Repeat("\u2028", 1024/3), strings.Repeat("\"", 256)
	e := webhook.Failed(webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: w.Clock.Now(),
		PublisherID: "pub_" + strings.Repeat("a", 64), IntegrationID: testUUID,
		SessionID: "svc_sess_" + strings.Repeat("A", 79)},
		webhook.FailureUnknown, webhook.FailureMessage(""), &user, &state)
	var back webhook.Event
	coretest.Must(t, json.Unmarshal(e.Body(), &back))
	if *back.Data.PublisherState != state {
		t.Error("the event does not keep the state")
	}
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: part, Schedule: []kv.Task{w.task(t, e)}}))
	w.answer = status(400)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	if len(w.dead(t)) != 1 {
		t.Error("contract 27: the event is not among the dead events")
	}
}

// Contract 19: an attacker who can write to the store can change the unsealed part of a task. Still, no event
// reaches another receiver.
func TestDeliver_ForeignEvent(t *testing.T) {
	const theirs = "11111111-4d4e-475f-906b-2f11c5eca7bd"
	for _, c := range []struct {
		name  string
		alter func(w *fixture, task *kv.Task)
	}{
		{"contract 19: the integration is another's", func(_ *fixture, task *kv.Task) {
			m, sealed, err := Read(*task)
			coretest.Must(t, err)
			m.Integration = theirs
			task.Payload = join(m, sealed)
		}},
		{"contract 19: the event is stored under another id", func(w *fixture, task *kv.Task) {
			task.ID = taskID(webhook.NewID(w.Outbox.Random))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			coretest.Must(t, w.Directory.PutIntegration(ctx,
				integration.Integration{ID: theirs, PublisherID: "pub_b",
					Webhook: integration.Webhook{URL: "https://theirs.example/hook"}}, "their secret"))
			e := webhook.Completed(webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: w.Clock.Now(),
				PublisherID: "pub_a", IntegrationID: testUUID, SessionID: "svc_sess_x"}, "L1", 25, nil, nil)
			task := w.task(t, e)
			c.alter(w, &task)
			coretest.Must(t,
				w.Memory.Commit(ctx, kv.Tx{ID: "forger", Partition: part, Schedule: []kv.Task{task}}))
			coretest.Must(t, w.run(t, w.claimOne(t)))
			if dead := w.dead(t); len(w.posts) != 0 || len(dead) != 1 || dead[0].Reason != unreadable {
				t.Errorf("%d posts, dead %+v; want no post and one dead event with reason %s",
					len(w.posts), dead, unreadable)
			}
		})
	}
}

// contract 51: while a change is staged, each event has a signature of both secrets.
func TestDeliver_StandardWebhooks(t *testing.T) {
	const active = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	const staged = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	for _, c := range []struct {
		rule, active, staged string
		want                 []string
	}{
		{"one signature", active, "", []string{active}},
		{"another form", secret, "", nil},
		{"a staged change", active, staged, []string{active, staged}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newFixture(t)
			w.put(t, integration.Webhook{URL: hookURL}, c.active)
			if c.staged != "" {
				w.stage(t, c.staged)
			}
			e := w.schedule(t)
			coretest.Must(t, w.run(t, w.claimOne(t)))
			header, body := w.posts[0].Header, w.posts[0].Body
			var want []string
			for _, s := range c.want {
				want = append(want, webhook.Headers(e.ID, w.Clock.Now(), body, s)["webhook-signature"])
			}
			if got := header["webhook-signature"]; got != strings.Join(want, " ") {
				t.Errorf("contract 51: webhook-signature is %q, want %q", got, want)
			}
			if id := header["webhook-id"]; want != nil && id != e.ID {
				t.Errorf("contract 51: webhook-id is %q, want %q", id, e.ID)
			}
			if err := webhook.Verify(c.active, lines(header), body, w.Clock.Now(), 0); err != nil {
				t.Errorf("contract 25: the active secret: %v", err)
			}
		})
	}
}

// A staged secret that does not open does not delay events.
func TestStagedSecret_Damaged(t *testing.T) {
	w := newFixture(t)
	damaged := integration.Integration{ID: testUUID, Staged: &integration.Webhook{URL: hookURL, Sealed: "x"}}
	if got := w.stagedSecret(&damaged); got != "" {
		t.Errorf("contract 51: %q", got)
	}
}

func (w *fixture) stage(t testing.TB, secret string) {
	t.Helper()
	found, err := w.Directory.ReadIntegration(ctx, testUUID)
	coretest.Must(t, err)
	next := found.Value
	next.Staged = &integration.Webhook{URL: hookURL}
	_, err = w.Directory.SaveIntegration(ctx, next, integration.Secrets{Staged: &secret}, found.Version)
	coretest.Must(t, err)
}

func lines(from map[string]string) map[string][]string {
	header := map[string][]string{}
	for name, value := range from {
		header[name] = []string{value}
	}
	return header
}

// TestLog_TLSFault: contract 48: the log has the fault of a handshake, without other text of the error.
func TestLog_TLSFault(t *testing.T) {
	const unknown = "x509: certificate signed by unknown authority"
	for _, c := range []struct{ name, reason, text, want string }{
		{"a certificate", host.FetchTLS, "canary: tls: failed to verify certificate: " + unknown, unknown},
		{"another certificate of that name", host.FetchTLS, unknown + ` (possibly because of "canary")`,
			unknown},
		{"a version", host.FetchTLS, "remote error: tls: protocol version not supported",
			"tls: protocol version not supported"},
		{"a name with a line break", host.FetchTLS, "x509: certificate is valid for a\n\u202eb, not c",
			"x509: certificate is valid for a??b, not c"},
		{"a closed connection", host.FetchTLS, "EOF canary", ""},
		{"a long name", host.FetchTLS, "x509: " + strings.Repeat("a", 300),
			"x509: " + strings.Repeat("a", mostOfFault-6)},
		{"another reason", host.FetchNetwork, "canary " + unknown, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.schedule(t)
			w.answer = func(host.FetchRequest) (int, error) {
				return 0, &host.FetchError{Reason: c.reason, Err: errors.New(c.text)}
			}
			coretest.Must(t, w.run(t, w.claimOne(t)))
			logged := w.Logged.String()
			want := c.want != "" && strings.Contains(logged, fmt.Sprintf("error=%q", c.want)) ||
				c.want == "" && !strings.Contains(logged, "error=")
			if !want || !strings.Contains(logged, "last="+c.reason) || strings.Contains(logged, "canary") {
				t.Errorf("%s; want the error %q", logged, c.want)
			}
		})
	}
}
