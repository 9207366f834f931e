package invariants_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// I10 with the times of production: whenever the store goes down, tasks that were leased then are due again
// within 30 s. The test moves Verge's clock there, which decides when a lease ends.
func TestI10LeasesEndWithinTheRecovery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lost int64 // calls for all events
		lose func(c kvtest.Call) bool
	}{
		{"the reply to a claim is lost", 1, func(c kvtest.Call) bool { return c.Method == "Claim" }},
		{"a record and its repetition are lost", 6, func(c kvtest.Call) bool {
			return c.Method == "Commit" && len(c.Tx.Held) > 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var on atomic.Bool
			var lost atomic.Int64
			f := &kvtest.Faulty{KV: openMemory(t), Decide: func(call kvtest.Call) kvtest.Fault {
				if on.Load() && c.lose(call) {
					lost.Add(1)
					if call.Method == "Claim" {
						return kvtest.LoseReply
					}
					return kvtest.LoseRequest
				}
				return kvtest.Pass
			}}
			clock := &clock{}
			s := newService(t, setup{Store: f, Standard: true, Clock: clock})
			on.Store(true)
			ids := s.begin(3)
			time.Sleep(300 * time.Millisecond)
			wait.Until(t, "the calls are lost", func() bool { return lost.Load() >= c.lost })
			on.Store(false) // the store works again
			posts := len(s.sink.all())
			clock.Jump(recovery)
			if !within(recovery, func() bool {
				return s.posted(ids, webhook.TypeStarted) == len(ids) &&
					len(s.sink.all()) >= max(3, 2*posts) && s.inFlight(0) == 0
			}) {
				t.Errorf("I10: %v after the store's return %d of %d events are posted, %d leases in flight",
					recovery, s.posted(ids, webhook.TypeStarted), len(ids), s.inFlight(0))
			}
			s.auditPosts(t)
		})
	}
}

// I4 without faults: exactly one POST for each key, on every engine, even if the receiver is slow.
func TestI4ExactlyOnceWithoutFaults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, c setup) {
		c.Sink.always(func(e webhook.Event, n int) reply {
			// Slow, but within the concurrency of a destination. Otherwise the receiver's events would be
			// postponed for longer and longer.
			return reply{after: time.Duration(len(e.ID)+int(e.ID[5])) * 300 * time.Microsecond}
		})
		c.Partitions = 3
		once(t, c)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		store := openRedis(t, stores.StartCluster(t, 3).URL()+"&"+patient)
		once(t, setup{Store: store, Shared: true, Partitions: 3})
	})
}

func once(t *testing.T, c setup) {
	c.Standard = true // a short lease could end on a slow machine
	s := newService(t, c)
	b := newLedger(s, faultproxy.Seed(t, 1))
	stop := b.load(3)
	time.Sleep(time.Second)
	stop()
	b.audit(t, time.Now())
	if b.calls[503] > 0 {
		t.Errorf("rejected requests without a fault: %v", b.calls)
	}
	keys := map[string]bool{}
	for _, p := range s.sink.all() {
		if keys[p.IdempotencyKey] {
			t.Errorf("I4: %s was posted more than once", p.IdempotencyKey)
		}
		keys[p.IdempotencyKey] = true
	}
}

// I5: no POST follows a 2xx or a 4xx. After a 5xx, another POST follows.
func TestI5NoPostAfterTheLastWord(t *testing.T) {
	t.Parallel()
	statuses := []int{200, 204, 299, 400, 401, 404, 410, 429, 499}
	eachEngine(t, func(t *testing.T, c setup) {
		const soon = 50 * time.Millisecond
		c.Schedule, c.Standard = webhook.Schedule{Delays: []time.Duration{soon, soon, soon}}, true
		var n atomic.Int64
		c.Sink.always(func(e webhook.Event, nth int) reply {
			if nth == 1 {
				return reply{status: 503}
			}
			return reply{status: statuses[int(n.Add(1))%len(statuses)]}
		})
		s := newService(t, c)
		ids := s.begin(2 * len(statuses))
		wait.Until(t, "each event has its two POSTs and no lease", func() bool {
			return n.Load() == int64(len(ids)) && s.inFlight(0) == 0
		})
		// A forbidden POST would come now: each lease has ended, and the runner reads the clock.
		c.Clock.Jump(recovery)
		other := s.begin(1)
		wait.Until(t, "the next event has its two POSTs and no lease", func() bool {
			return n.Load() == int64(len(ids)+len(other)) && s.inFlight(0) == 0
		})
		for _, id := range ids {
			if got := s.sink.count(id + ":" + webhook.TypeStarted); got != 2 {
				t.Errorf("I5: %d POSTs, want a failed one and a successful one", got)
			}
		}
		rejected := slices.Collect(func(yield func(string) bool) {
			for _, d := range s.dead(t) {
				if d.Reason == "refused" && d.Attempts == 2 && d.Session != other[0] && !yield(d.Event) {
					return
				}
			}
		})
		if len(rejected) != 12 {
			t.Errorf("I3: %d events are visibly rejected, the sink rejected 12", len(rejected))
		}
		s.auditPosts(t)
	})
}

// I5 with the times of production, if an attempt is suspended between the decision to post and the POST. For
// AttemptTime, no other instance posts. After the end of the lease another one does. Then the first POST may
// still come, because no check of the service follows (spec, Delivery 2).
func TestI5AnAttemptThatStandsStill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule  string
		still time.Duration // by the clock of the service
		posts int
	}{
		{"for AttemptTime: no other instance posts", standardAttempt, 1},
		{"beyond its lease: the event comes again, with the same bytes", 30 * time.Second, 2},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			decided, release := make(chan webhook.Event, 1), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(release) })
			clock := &clock{}
			s := newService(t, setup{Store: openMemory(t), Standard: true, Clock: clock,
				BeforePost: func(e webhook.Event) {
					select {
					case decided <- e: // only the first one
						wait.For(release)
					default:
					}
				}})
			t.Cleanup(goOn) // before the service ends, which waits for the attempt
			s.begin(1)
			if !within(recovery, func() bool { return len(decided) == 1 }) {
				t.Fatal("I3: no attempt is made")
			}
			e := wait.For(decided)
			decided <- e // full again, so that the next attempt does not wait
			clock.Jump(c.still)
			other := s.begin(1) // makes the runner read the clock
			if !within(recovery, func() bool {
				return s.posted(other, webhook.TypeStarted) == 1 && (c.posts == 1 || s.witness.of(e.ID).over)
			}) {
				t.Fatalf("I3: %v later the event waits for the attempt that stands still", recovery)
			}
			if n := s.sink.count(e.IdempotencyKey); n != c.posts-1 {
				t.Errorf("I5: %d POSTs while an attempt stands still, want %d", n, c.posts-1)
			}
			goOn()
			// The record of the suspended attempt comes after its POST.
			if !within(recovery, func() bool {
				return s.sink.count(e.IdempotencyKey) == c.posts && s.inFlight(0) == 0 &&
					s.witness.of(e.ID).unsure == c.posts-1
			}) {
				t.Errorf("I4: %d POSTs, want %d", s.sink.count(e.IdempotencyKey), c.posts)
			}
			s.auditPosts(t)
		})
	}
}

// I11: the receiver fails, and the store fails. Only the receiver's responses count as attempts.
func TestI11OnlyReceiversUseUpAttempts(t *testing.T) {
	t.Parallel()
	const soon = 100 * time.Millisecond
	delays := []time.Duration{soon, soon, soon, soon}
	for name, open := range map[string]func(testing.TB) kv.KV{"memory": openMemory, "bolt": openBolt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := faultproxy.Seed(t, 1)
			f := newFaulty(open(t), seed, map[kvtest.Fault]float64{
				kvtest.Reject: .2, kvtest.LoseRequest: .1, kvtest.LoseReply: .1,
			})
			clock := &clock{}
			s := newService(t, setup{Store: f, Schedule: webhook.Schedule{Delays: delays}, Clock: clock})
			s.sink.always(func(webhook.Event, int) reply { return reply{status: 500} })
			f.on.Store(true)
			var ids []string
			for n := 0; n < 12 || n < 90 && s.unsure() < 5; n++ {
				for range 4 {
					if a := s.start(integrationID); n < 12 && a.status == 200 {
						ids = append(ids, a.text("session_id"))
					}
				}
				clock.Jump(stale)
				time.Sleep(200 * time.Millisecond)
			}
			f.on.Store(false)
			missing := 0
			if !within(recovery, func() bool {
				of := map[string]bool{}
				for _, d := range s.dead(t) {
					of[d.Session] = true
				}
				missing = 0
				for _, id := range ids {
					if !of[id] {
						missing++
					}
				}
				return missing == 0 && s.inFlight(2*time.Second) == 0
			}) {
				t.Errorf("I3: %d of %d events have had all their attempts and are not among the dead",
					missing, len(ids))
			}
			for _, d := range s.dead(t) {
				e := s.witness.of(d.Event)
				if d.Attempts != len(delays)+1 || len(e.attempts) < d.Attempts {
					t.Errorf("I11: %d attempts are counted, of %d POSTs", d.Attempts, len(e.attempts))
				}
				if len(e.attempts) > d.Attempts+e.unsure {
					t.Errorf("I4: %d POSTs, %d attempts counted, %d records unsure", len(e.attempts),
						d.Attempts, e.unsure)
				}
			}
			if s.unsure() == 0 || len(ids) == 0 {
				t.Error("the faults hit no request")
			}
		})
	}
}
