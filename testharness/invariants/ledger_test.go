package invariants_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/internal/history"
)

// recovery is the maximum time after a fault until all effects have ended (I10).
const recovery = 30 * time.Second

// ledger has the responses that clients received. Each must be correct at that time, and stay correct through
// any fault.
type ledger struct {
	service *service
	seed    uint64
	lossy   bool                       // the store loses all requests in flight
	epoch   atomic.Int64               // of the store: odd while it loses everything
	before  []operate.UndeliveredEvent // listed before this ledger was opened

	mu    sync.Mutex
	lives []*life
	wrong []string // forbidden responses
	calls map[int]int
	walks atomic.Int64 // complete walks
}

// life is one session as seen by its publisher and its user.
type life struct {
	id      string
	ended   string // status at the end as their response had it; "": none
	failing bool   // an attempt of the user may have failed
	token   string
	won     int   // exchanges of the token that returned 200
	from    int64 // epoch of the store before the start
	to      int64 // and after the last exchange
	history history.Recorder
}

func newLedger(s *service, seed uint64) *ledger {
	return &ledger{service: s, seed: seed, calls: map[int]int{}}
}

func (b *ledger) protest(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// proper records a response. It must have one of the good statuses, or grant no access and ask the client to
// retry (I2).
func (b *ledger) proper(what string, a answer, good ...int) bool {
	b.mu.Lock()
	b.calls[a.status]++
	b.mu.Unlock()
	switch {
	case slices.Contains(good, a.status):
		return true
	case a.status == 503:
		if a.header.Get("Retry-After") == "" {
			b.protest("%s: 503 without Retry-After", what)
		}
	case b.lossy && (a.status == 401 || a.status == 404):
	case b.lossy && a.status == 400 && what == "validate": // its outcome is lost
	case b.lossy && a.status == 400 && (what == "page" || what == "submit"): // its integration is lost
	default:
		b.protest("%s: %d %.200s", what, a.status, a.body)
	}
	if strings.Contains(string(a.body), `"valid":true`) || hop(a) != nil ||
		strings.Contains(a.location, "result_token") {
		b.protest("%s: %d grants something: %.200s", what, a.status, a.body)
	}
	return false
}

// again repeats a request a few times, until the response has one of the good statuses.
func (b *ledger) again(ctx context.Context, what string, ask func() answer, good ...int) (answer, bool) {
	for range 6 {
		a := ask()
		if b.proper(what, a, good...) {
			return a, true
		}
		select {
		case <-ctx.Done():
			return a, false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return answer{}, false
}

// walk takes one session from its start to its end and reports whether it got
// there.
func (b *ledger) walk(ctx context.Context, rng *rand.Rand) bool {
	s, began := b.service, b.epoch.Load()
	a, ok := b.again(ctx, "start", func() answer { return s.start(integrationID) }, 200)
	if !ok {
		return false
	}
	l := &life{id: a.text("session_id"), from: began}
	b.mu.Lock()
	b.lives = append(b.lives, l)
	b.mu.Unlock()
	outcomes := []string{"approve"}
	switch rng.IntN(8) {
	case 0:
		outcomes = []string{"reject"}
	case 1:
		outcomes = []string{"fail_attempt", "fail_attempt", "fail_attempt"}
	case 2:
		outcomes = []string{"fail_attempt", "approve"}
	}
	if !b.attend(ctx, l, a.text("redirect_url"), outcomes) {
		return false
	}
	if l.token != "" && !b.exchange(ctx, l) {
		return false
	}
	status, ok := b.again(ctx, "reconcile", func() answer { return s.reconcile(l.id) }, 200)
	if ok && status.text("status") != l.ended && !b.lossy {
		b.protest("session %s ended %s for its user, and is %s", l.id, l.ended,
			status.text("status"))
	}
	if ok {
		b.walks.Add(1)
	}
	return ok
}

// attend acts as the user of the hosted pages. It tries again when a page asks for it.
func (b *ledger) attend(ctx context.Context, l *life, redirect string, outcomes []string) bool {
	s := b.service
	for tries, did := 0, 0; tries < 12; tries++ {
		a, choices := s.page(redirect)
		if !b.proper("page", a, 200, 410) {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		if to := hop(a); to != nil {
			l.token, l.ended = to.Query().Get("result_token"), "COMPLETED"
			return true
		}
		want := outcomes[min(did, len(outcomes)-1)]
		f, ok := choices[want]
		if !ok {
			// The session ended by a request without a response.
			final, ok := b.again(ctx, "reconcile", func() answer { return s.reconcile(l.id) }, 200)
			if ok {
				l.ended = final.text("status")
			}
			return ok && (l.ended == "FAILED" || l.ended == "COMPLETED")
		}
		l.failing = l.failing || want != "approve"
		a = s.submit(f)
		if !b.proper("submit", a, 303) {
			continue
		}
		did++
		if outcomes[min(did, len(outcomes))-1] == "reject" || did == 3 {
			l.ended = "FAILED"
			return true
		}
	}
	return false
}

// exchange validates the token by two concurrent callers, and then again.
func (b *ledger) exchange(ctx context.Context, l *life) bool {
	defer func() { l.to = b.epoch.Load() }()
	one := func(client int) answer {
		end := l.history.Call(client, fmt.Sprint(client, ".", time.Now().UnixNano()))
		a := b.service.validate(l.token)
		b.proper("validate", a, 200, 409)
		if a.status == 200 {
			b.mu.Lock()
			l.won++
			b.mu.Unlock()
			if a.text("session_id") != l.id {
				b.protest("validate: it is about %s, not %s", a.text("session_id"), l.id)
			}
		}
		end(a.status)
		return a
	}
	var wg sync.WaitGroup
	for client := range 2 {
		wg.Go(func() { one(client) })
	}
	wg.Wait()
	for range 6 {
		if a := one(2); a.status == 200 || a.status == 409 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}

// load runs clients that walk until stop is called. stop waits for them.
func (b *ledger) load(clients int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(b.seed, uint64(c)))
			for ctx.Err() == nil {
				b.walk(ctx, rng)
				time.Sleep(10 * time.Millisecond) // the machine is shared
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// recovers fails unless a new walk succeeds within 30 s after the fault, without a restart of Verge (I10).
func (b *ledger) recovers(t *testing.T, since time.Time) {
	t.Helper()
	rng := rand.New(rand.NewPCG(b.seed, 1<<32))
	if !within(time.Until(since.Add(recovery)), func() bool { return b.walk(t.Context(), rng) }) {
		t.Errorf("I10: %v after the fault no verification succeeds", recovery)
	}
	t.Logf("a walk succeeded %v after the fault", time.Since(since).Round(time.Millisecond))
}

// audit waits until all events have settled. Then it compares the clients' responses with the state of the
// service. The fault ended at since.
func (b *ledger) audit(t *testing.T, since time.Time) {
	t.Helper()
	s := b.service
	b.mu.Lock()
	lives := slices.Clone(b.lives)
	b.mu.Unlock()
	t.Logf("%d sessions, %d whole walks, answers by status: %v, %d POSTs",
		len(lives), b.walks.Load(), b.calls, len(s.sink.all()))

	ends := map[string]string{} // by session, of the sessions that have one
	for _, l := range lives {
		a, ok := b.again(t.Context(), "reconcile", func() answer { return s.reconcile(l.id) }, 200)
		status := a.text("status")
		if !ok || l.ended != "" && status != l.ended || status == "EXPIRED" {
			t.Errorf("I2: session %s ended %q for its user, but reconcile returned %d %s",
				l.id, l.ended, a.status, status)
		}
		if status != "PENDING" {
			ends[l.id] = strings.ToLower(status)
		}
	}
	t.Run("I1: a result token validates at most once", func(t *testing.T) {
		for _, l := range lives {
			if l.token != "" && !b.exchange(t.Context(), l) {
				t.Errorf("the token of %s cannot be validated: still no response", l.id)
			}
		}
		b.singleUse(t)
	})
	t.Run("I2: what cannot be known is denied", func(t *testing.T) { b.report(t) })
	dead := s.dead(t)
	t.Run("I3: an event whose transition was acknowledged is delivered or visibly failed",
		func(t *testing.T) {
			var missing []string
			ok := within(time.Until(since.Add(recovery)), func() bool {
				missing = nil
				for _, l := range lives {
					for _, end := range []string{"started", ends[l.id]} {
						key := l.id + ":verification." + end
						failed := func(d operate.UndeliveredEvent) bool { return d.Session+":"+d.Type == key }
						if end != "" && s.sink.count(key) == 0 && !slices.ContainsFunc(dead, failed) {
							missing = append(missing, key)
						}
					}
				}
				return len(missing) == 0
			})
			if !ok {
				t.Errorf("%v after the fault %d events are neither delivered nor dead: %.5s",
					recovery, len(missing), missing)
			}
		})
	b.settle(t)
	t.Run("I11: the store's errors use up no attempt", func(t *testing.T) {
		dead := slices.DeleteFunc(
			s.dead(t),
			func(d operate.UndeliveredEvent) bool { return slices.Contains(b.before, d) },
		)
		if len(dead) > 0 {
			t.Errorf("%d events are dead, though the receiver took all: %+v", len(dead), dead[0])
		}
	})
	t.Run("I14: a failing store is a line for each state and not for each request", func(t *testing.T) {
		for _, words := range []string{"request failed", "hosted page unavailable", "cannot claim",
			"outcome not recorded"} {
			if n := s.log.count(words); n > 0 {
				t.Errorf("%d lines say %q: %s", n, words, s.log.tail(1500))
			}
		}
		if n, rejected := s.log.count("the store fails"), b.calls[503]; rejected > 20 && n == 0 || n > 12 {
			t.Errorf("%d requests were rejected, and %d lines report that the store fails", rejected, n)
		}
	})
	s.auditPosts(t)
}

// singleUse checks that no token validated twice. If the store lost no data during the life of a token, some
// order of the requests must explain the responses about it.
func (b *ledger) singleUse(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	tokens := 0
	for _, l := range b.lives {
		if l.won > 1 {
			t.Errorf("I1: the token of %s validated %d times", l.id, l.won)
		}
		if l.token == "" || l.from != l.to || l.from%2 == 1 {
			continue // its outcome was lost, so no order of the requests explains the responses
		}
		tokens++
		// A key that was lost with the store is rejected before the token is used.
		exchanges := slices.DeleteFunc(l.history.History(), func(op porcupine.Operation) bool {
			return b.lossy && op.Output == (history.Answer{Status: 401})
		})
		if err := history.Explain(exchanges); err != nil {
			t.Errorf("I1: %v", err)
		}
	}
	t.Logf("%d tokens were used as they should be", tokens)
}

// auditPosts compares the receiver's requests with the service's records.
func (s *service) auditPosts(t *testing.T) {
	ids, bodies, ends, counts := map[string]string{}, map[string]string{}, map[string]string{},
		map[string]int{}
	posts := s.sink.all()
	t.Run("I4: an event is posted once, and again for each lease whose outcome was not recorded, "+
		"with the same bytes", func(t *testing.T) {
		extra := 0
		for _, p := range posts {
			counts[p.ID]++
			if body, ok := bodies[p.ID]; ok && body != string(p.body) {
				t.Errorf("%s was posted with other bytes:\n%s\n%s", p.ID, body, p.body)
			}
			bodies[p.ID] = string(p.body)
			// A session whose outcome the store has lost is pending, and can end again.
			if id, ok := ids[p.IdempotencyKey]; ok && id != p.ID && !s.forgot {
				t.Errorf("%s has two ids, %s and %s", p.IdempotencyKey, id, p.ID)
			}
			ids[p.IdempotencyKey] = p.ID
		}
		for id, n := range counts {
			e := s.witness.of(id)
			failed := 0
			for _, a := range e.attempts {
				if a.status < 200 || a.status > 499 {
					failed++
				}
			}
			extra += n - 1
			if n > 1+failed+e.unsure {
				t.Errorf("%s was posted %d times; %d attempts failed, %d records are unsure", id, n, failed,
					e.unsure)
			}
		}
		t.Logf("%d events, %d extra POSTs", len(counts), extra)
	})
	t.Run("I5: no POST after a recorded end, no task claimed before it is due", func(t *testing.T) {
		for _, what := range first(s.improper(), 5) {
			t.Error(what)
		}
	})
	t.Run("I6: at most one terminal event per session", func(t *testing.T) {
		for _, p := range posts {
			if p.Type == webhook.TypeStarted {
				continue
			}
			if end, ok := ends[p.SessionID]; ok && end != p.Type {
				t.Errorf("%s has sent %s and %s", p.SessionID, end, p.Type)
			}
			ends[p.SessionID] = p.Type
		}
	})
	t.Run("I7: no session expires before its 10 minutes", func(t *testing.T) {
		for _, p := range posts {
			if p.Type == webhook.TypeExpired && p.CreatedAt < *p.Data.ExpiresAt {
				t.Errorf("%s ends at %s, and has expired at %s", p.SessionID, *p.Data.ExpiresAt, p.CreatedAt)
			}
		}
	})
}

// report fails the test for every forbidden response.
func (b *ledger) report(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, what := range first(b.wrong, 5) {
		t.Error(what)
	}
	b.wrong = nil
}

// settle waits until no lease can cause another POST: its outcome is recorded, or it has ended and no other
// instance has taken the task.
func (b *ledger) settle(t *testing.T) {
	t.Helper()
	const poll = 2 * time.Second
	if !within(2*recovery, func() bool { return b.service.inFlight(poll) == 0 }) {
		t.Errorf("I10: %d leases never end", b.service.inFlight(poll))
	}
}

// dead returns the dead events.
func (s *service) dead(t testing.TB) (all []operate.UndeliveredEvent) {
	t.Helper()
	store := sessiontest.Store{Host: s.Host()}
	for n := range s.Engine().Partitions() {
		var page []operate.UndeliveredEvent
		var err error
		if !within(recovery, func() bool {
			page, err = store.DeadEvents(context.Background(), n, 1000)
			return err == nil
		}) {
			t.Errorf("the dead events cannot be listed: %v", err)
		}
		all = append(all, page...)
	}
	return all
}

func first[T any](all []T, n int) []T { return all[:min(n, len(all))] }

func (p post) String() string {
	b, _ := json.Marshal(p.Event)
	return string(b)
}
