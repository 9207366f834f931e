package invariants_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
)

// engines are stores without a network between Verge and the store, for tests about time. A test moves
// Verge's clock. Each store has its own clock, which is correct.
var engines = []struct {
	name   string
	shared bool
	open   func(t testing.TB) kv.KV
}{
	{"memory", false, openMemory},
	{"bolt", false, openBolt},
	{"miniredis", true,
		func(t testing.TB) kv.KV { return openRedis(t, "redis://"+startMiniredis(t).Addr()+"?"+patient) }},
	{"redis", true,
		func(t testing.TB) kv.KV { return openRedis(t, stores.StartRedis(t).URL()+"?"+patient) }},
	{"postgres", true, func(t testing.TB) kv.KV {
		return openPostgres(t, stores.StartPostgres(t).URL("verge"), time.Minute)
	}},
}

func eachEngine(t *testing.T, f func(t *testing.T, c setup)) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			f(t, setup{Store: e.open(t), Shared: e.shared, Clock: &clock{}, Sink: newSink(t)})
		})
	}
}

// begin starts n sessions.
func (s *service) begin(n int) (ids []string) {
	s.t.Helper()
	for range n {
		a := s.start(integrationID)
		if a.status != 200 {
			s.t.Fatalf("start: %d %s", a.status, a.body)
		}
		ids = append(ids, a.text("session_id"))
	}
	return ids
}

// posted counts the sessions whose event the sink has received.
func (s *service) posted(ids []string, event string) (n int) {
	for _, id := range ids {
		if s.sink.count(id+":"+event) > 0 {
			n++
		}
	}
	return n
}

// I7: the expired event comes soon after the 10 minutes of Verge's clock, and never before: when the clock is
// slow, when it jumps, and when no instance ran at that time.
func TestI7ExpiredNeverEarlyAndSoonAfter(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, c setup) {
		s := newService(t, c)
		expired := func(what string, ids []string, since time.Time) {
			t.Helper()
			all := func() bool { return s.posted(ids, webhook.TypeExpired) == len(ids) }
			if !within(time.Until(since.Add(recovery)), all) {
				t.Errorf("I7: %s: %v later %d of %d sessions have expired",
					what, recovery, s.posted(ids, webhook.TypeExpired), len(ids))
			}
			t.Logf("%s: after %v", what, time.Since(since).Round(time.Millisecond))
			for _, id := range ids {
				if a := s.reconcile(id); a.text("status") != "EXPIRED" {
					t.Errorf("I7: %s: reconcile returned for an expired session %s", what, a.body)
				}
			}
		}
		alive := func(what string, ids []string) {
			t.Helper()
			for _, id := range ids {
				if a := s.reconcile(id); a.text("status") != "PENDING" ||
					s.sink.count(id+":"+webhook.TypeExpired) > 0 {
					t.Errorf("I7: %s: a session has expired: %s", what, a.body)
				}
			}
		}
		s.begin(1) // the runner sleeps until its end, in ten minutes
		time.Sleep(300 * time.Millisecond)

		ids := s.begin(5)
		c.Clock.Jump(core.SessionLife - 30*time.Second) // a busy machine starts sessions slowly
		time.Sleep(500 * time.Millisecond)
		alive("half a minute before the end", ids)
		c.Clock.Jump(28 * time.Second)
		expired("the clock reached the end", ids, time.Now().Add(1500*time.Millisecond))

		ids = s.begin(5)
		c.Clock.Jump(-10 * time.Minute)
		time.Sleep(300 * time.Millisecond)
		alive("the clock was set back 10 min", ids)
		c.Clock.Jump(10 * time.Minute)
		alive("the clock was set right", ids)
		c.Clock.Jump(10 * time.Minute)
		expired("the clock was set 10 min ahead", ids, time.Now())

		ids = s.begin(5)
		s.pause()
		c.Clock.Jump(core.SessionLife + time.Minute)
		time.Sleep(100 * time.Millisecond)
		s.resume()
		expired("no instance ran at the end", ids, time.Now())
		s.auditPosts(t)
	})
}

// I1 is valid while the clocks of Verge and the store differ by 10 minutes and Verge's clock jumps, because
// the used mark is kept longer than the token.
func TestI1HoldsWhereClocksDiffer(t *testing.T) {
	for _, off := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		for _, jump := range []time.Duration{-10 * time.Minute, 0} {
			if off+jump < -10*time.Minute {
				continue
			}
			t.Run(fmt.Sprintf("I1: Verge's clock is off by %v, and then jumps %v", off, jump),
				func(t *testing.T) {
					of := kvtest.NewClock() // the store's clock
					verge := &clock{}
					at := func() time.Duration { return time.Until(of.Now()) }
					verge.Jump(at() + off)
					s := newService(t, setup{Store: memory.New(memory.Config{Now: of.Now}), Clock: verge})
					id, err := sessiontest.New(s.Host().Random, integrationID, "L1", verge.Now(), 0)
					must(t, err)
					completed := verge.Now()
					result, err := sessiontest.Store{Host: s.Host()}.Issue(t.Context(), id, completed)
					must(t, err)
					if a := s.validate(result); a.status != 200 {
						t.Fatalf("the first time: %d %s", a.status, a.body)
					}
					verge.Jump(jump)
					for {
						a := s.validate(result)
						if a.status == 410 {
							break
						}
						if a.status != 409 {
							t.Fatalf("I1: %v after its use, at %v of its 5 minutes: %d %s",
								of.Now(), verge.Now().Sub(completed), a.status, a.body)
						}
						const step = 29 * time.Second
						of.Advance(step)
						verge.Jump(step)
					}
				})
		}
	}
}

// I6: users finish their sessions at the moment of expiry.
func TestI6CompletionRacesExpiry(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, c setup) {
		rng := rand.New(rand.NewPCG(faultproxy.Seed(t, 1), 6))
		c.Store = lingering(c.Store)
		s := newService(t, c)
		b := newLedger(s, 0)
		ends := map[string]int{}
		for range long.Pick(t, "TestI6CompletionRacesExpiry", 1, 2*times()) {
			const n = 30
			type racer struct {
				id   string
				form form
				at   time.Duration // of the POST, from the end
			}
			var racers []racer
			for i := range n {
				a := s.start(integrationID)
				_, choices := s.page(a.text("redirect_url"))
				at := rng.IntN(60) - 60 // its commit meets the timer's commit
				if i%3 == 0 {
					at = rng.IntN(2900) - 2800 // even on a slow machine, some win and some lose
				}
				racers = append(racers, racer{a.text("session_id"), choices["approve"],
					time.Duration(at) * time.Millisecond})
			}
			c.Clock.Jump(core.SessionLife - 3*time.Second) // the first began a moment ago
			var wg sync.WaitGroup
			told := make([]answer, n)
			for i, r := range racers {
				wg.Go(func() {
					if a := s.reconcile(r.id); a.status == 200 {
						if end, err := time.Parse(time.RFC3339, a.text("expires_at")); err == nil {
							time.Sleep(end.Add(r.at).Sub(c.Clock.Now()))
						}
					}
					told[i] = s.submit(r.form)
				})
			}
			wg.Wait()
			for i, r := range racers {
				completed := false
				if told[i].status == 303 {
					shown, _ := s.page(s.url + told[i].location)
					to := hop(shown)
					completed = to != nil && to.Host == "shop.example"
				}
				var status string
				if !within(recovery, func() bool {
					status = s.reconcile(r.id).text("status")
					return status == "COMPLETED" && s.sink.count(r.id+":"+webhook.TypeCompleted) > 0 ||
						status == "EXPIRED" && s.sink.count(r.id+":"+webhook.TypeExpired) > 0
				}) {
					t.Errorf("I6: %s is %s, but there is no event for it", r.id, status)
				}
				if completed != (status == "COMPLETED") {
					t.Errorf("I6: %s: the user got %d %.60s, but the session is %s",
						r.id, told[i].status, told[i].location, status)
				}
				ends[status]++
			}
		}
		t.Logf("ends: %v", ends)
		if ends["COMPLETED"] == 0 || ends["EXPIRED"] == 0 {
			t.Errorf("the sessions did not race with their expiry: %v", ends)
		}
		b.settle(t)
		s.auditPosts(t)
	})
}

// lingering returns a store whose commits take some time before and after they are applied.
func lingering(store kv.KV) kv.KV {
	l := slow{store}
	if m, ok := store.(kv.Meter); ok {
		return struct {
			slow
			kv.Meter
		}{l, m}
	}
	return l
}

type slow struct{ kv.KV }

func (s slow) Commit(ctx context.Context, tx kv.Tx) error {
	time.Sleep(time.Duration(rand.IntN(80)) * time.Millisecond)
	defer time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
	return s.KV.Commit(ctx, tx)
}

// I8: a receiver that only fails gets exactly the attempts of the schedule. None comes earlier than
// scheduled, even if the clock jumps. A clock that is set back does not stop new events.
func TestI8AttemptsKeepTheSchedule(t *testing.T) {
	t.Parallel()
	delays := []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}
	for _, jump := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		t.Run(fmt.Sprint("the clock jumps ", jump), func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, c setup) {
				c.Schedule = webhook.Schedule{Delays: delays}
				c.Standard = jump == 0 // a short lease could end without a jump on a slow machine
				c.Sink.always(func(webhook.Event, int) reply { return reply{status: 500} })
				s := newService(t, c)
				ids := s.begin(6)
				if jump != 0 {
					within(recovery, func() bool { return s.posted(ids, webhook.TypeStarted) == len(ids) })
					c.Clock.Jump(jump)
				}
				if jump < 0 {
					fresh := s.begin(2)
					since := time.Now()
					if !within(recovery,
						func() bool { return s.posted(fresh, webhook.TypeStarted) == len(fresh) }) {
						t.Errorf("I3: %v after the clock was set back new events are not posted", recovery)
					}
					t.Logf("new events after %v", time.Since(since).Round(time.Millisecond))
					// Events that are due by the old time wait for that time. The test does not wait so long.
					c.Clock.Jump(-jump)
					ids = append(ids, fresh...)
				}
				// A jump ahead ends the earlier sessions as well, with one more event each.
				events := len(ids) + 6
				switch {
				case jump == 0:
					events = len(ids)
				case jump < 0:
					events = len(ids) + 2
				}
				if !within(recovery, func() bool { return len(s.dead(t)) == events }) {
					t.Errorf("I8: %v later %d of %d events have had all their attempts", recovery,
						len(s.dead(t)), events)
				}
				for _, d := range s.dead(t) {
					if d.Attempts != len(delays)+1 || d.Reason != "exhausted" {
						t.Errorf("I8: an event is dead after %d attempts: %+v", d.Attempts, d)
					}
					attempts := s.witness.of(d.Event).attempts
					// A lease that a jump has ended may be delivered again (I4).
					if n := len(attempts); n != len(delays)+1 &&
						(jump == 0 || n < len(delays)+1 || n > len(delays)+2) {
						t.Errorf("I8: %d POSTs, the schedule has %d", n, len(delays)+1)
						continue
					}
					if len(attempts) != len(delays)+1 {
						continue
					}
					for i, delay := range delays {
						gap := attempts[i+1].began.Sub(attempts[i].ended)
						if jump < 0 && gap < jump/2 {
							// The attempt ended before the clock was set back, and the service read the clock
							// after that: the delay counts from the new time.
							gap -= jump
						}
						if gap < delay*8/10-time.Millisecond { // stores keep milliseconds
							t.Errorf("I8: attempt %d came after %v, want %v", i+2,
								gap, delay)
						}
					}
				}
			})
		})
	}
}
