package invariants_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// Faults of a server, with Verge connected directly and under load.
func TestFaultsOfRedis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		args  []string
		fault func(s *stores.Redis)
	}{
		{"SCRIPT FLUSH", nil, func(s *stores.Redis) {
			for range 60 {
				s.Do("script", "flush")
				time.Sleep(20 * time.Millisecond)
			}
		}},
		{"kill -9, and back with its data", stores.Durable, func(s *stores.Redis) {
			for range 2 {
				s.Kill()
				time.Sleep(500 * time.Millisecond)
				s.Start()
				time.Sleep(500 * time.Millisecond)
			}
		}},
		{"READONLY", stores.Durable, func(s *stores.Redis) {
			for range 2 {
				s.Do("replicaof", "127.0.0.1", "1") // of a primary that never responds: its data stay
				time.Sleep(500 * time.Millisecond)
				s.Do("replicaof", "no", "one")
				time.Sleep(300 * time.Millisecond)
			}
		}},
		{"OOM", nil, func(s *stores.Redis) {
			s.Do("config", "set", "maxmemory", "1")
			time.Sleep(1500 * time.Millisecond)
			s.Do("config", "set", "maxmemory", "0")
		}},
		{"NOREPLICAS", nil, func(s *stores.Redis) {
			s.Do("config", "set", "min-replicas-to-write", "1")
			time.Sleep(time.Second)
			s.Do("config", "set", "min-replicas-to-write", "0")
		}},
		{"SIGSTOP", nil, func(s *stores.Redis) {
			s.Freeze()
			time.Sleep(2 * time.Second)
			s.Thaw()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := stores.StartRedis(t, c.args...)
			seed := faultproxy.Seed(t, 1)
			trouble(t, setup{Store: openRedis(t, s.URL()+"?"+impatient), Shared: true, Partitions: 4}, seed,
				func(b *ledger) {
					c.fault(s)
					b.mu.Lock()
					defer b.mu.Unlock()
					if c.name != "SCRIPT FLUSH" && b.calls[503] == 0 {
						t.Errorf("the fault hit no request: %v", b.calls)
					}
				})
		})
	}
}

// Cluster: the slot of the partition in use moves away and back under load; then a node fails, and the others
// return CLUSTERDOWN.
func TestFaultsOfACluster(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestFaultsOfACluster")
	nodes := stores.StartCluster(t, 3)
	seed := faultproxy.Seed(t, 1)
	store := openRedis(t, nodes.URL()+"&"+impatient)
	s := newService(t, setup{Store: store, Shared: true, Partitions: 1})
	t.Run("MOVED, ASK and TRYAGAIN", func(t *testing.T) {
		b := newLedger(s, seed)
		stop := b.load(clients)
		within(recovery, func() bool { return b.walks.Load() >= 2*clients })
		for range 3 {
			nodes.Move("{verge:p0}", 5*time.Millisecond)
			time.Sleep(200 * time.Millisecond)
		}
		since := time.Now()
		b.recovers(t, since)
		stop()
		b.audit(t, since)
	})
	t.Run("CLUSTERDOWN", func(t *testing.T) {
		b := newLedger(s, seed)
		stop := b.load(clients)
		within(recovery, func() bool { return b.walks.Load() >= clients })
		for _, n := range nodes {
			n.Do("config", "set", "cluster-node-timeout", "2000")
		}
		nodes[1].Kill()
		wait.Until(t, "the others return CLUSTERDOWN", func() bool {
			return strings.Contains(fmt.Sprint(nodes[0].Do("cluster", "info")), "cluster_state:fail")
		})
		time.Sleep(time.Second)
		nodes[1].Start()
		nodes.Wait()
		since := time.Now()
		b.recovers(t, since)
		stop()
		b.audit(t, since)
		if b.calls[503] == 0 {
			t.Errorf("the fault hit no request: %v", b.calls)
		}
	})
}

// A kill -9 of Redis for 2 s under 1,000 events, with the times of production. No event is lost, and there is
// at most one extra POST for each lease in flight. Each event is delivered within 30 s of the return of Redis
// or of its later start, with no restart and no attempt used up.
func TestKillOfRedisUnderAThousandEvents(t *testing.T) {
	t.Parallel()
	events := long.Pick(t, "TestKillOfRedisUnderAThousandEvents", 200, 1000)
	s := stores.StartRedis(t, stores.Durable...)
	sv := newService(t, setup{Store: openRedis(t, s.URL()), Shared: true, Partitions: 4, Standard: true})
	var gate sync.RWMutex // while it is locked, the receiver does not respond
	var held atomic.Int64 // requests at the gate
	sv.sink.always(func(webhook.Event, int) reply {
		held.Add(1)
		gate.RLock()
		defer gate.RUnlock()
		held.Add(-1)
		return reply{}
	})
	began := map[string]time.Time{} // time of each session's acknowledgement
	var mu sync.Mutex
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(began) }
	begin := func() {
		if a := sv.start(integrationID); a.status == 200 {
			mu.Lock()
			defer mu.Unlock()
			began[a.text("session_id")] = time.Now()
		} else if a.status != 503 {
			t.Errorf("I2: start: %d %s", a.status, a.body)
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range events / 8 {
				begin()
			}
		})
	}
	wait.Until(t, "the load has begun", func() bool {
		return count() >= events*2/5 && len(sv.sink.all()) >= events/10
	})
	posted := len(sv.sink.all())
	gate.Lock()
	begin()
	wait.Until(t, "a lease is in flight", func() bool { return held.Load() > 0 })
	s.Kill()
	gate.Unlock()
	// By then Verge has read the last replies of Redis, including replies to claims and records.
	time.Sleep(500 * time.Millisecond)
	flying := sv.inFlight(0)
	time.Sleep(1500 * time.Millisecond)
	s.Start()
	back := time.Now()
	wg.Wait()
	// Clients retry after a 503.
	wait.Until(t, "all sessions have begun", func() bool {
		if count() < events {
			begin()
		}
		return count() >= events
	})
	const limit = 2 * recovery // of real time, on a machine with other work
	within(limit, func() bool {
		for id := range began {
			if sv.sink.count(id+":"+webhook.TypeStarted) == 0 {
				return false
			}
		}
		return true
	})
	arrived := sv.sink.arrivals()
	for id, at := range began {
		if at.Before(back) {
			at = back
		}
		if got, ok := arrived[id+":"+webhook.TypeStarted]; !ok || got.Sub(at) > limit {
			t.Errorf("I3, I10: the event of %s has not arrived %v after redis was back and it began (%v, %v)",
				id, limit, ok, got.Sub(at))
		}
	}
	t.Logf("%d acknowledged events, the last delivered %v after the return; "+
		"%d were posted and %d leases in flight at the kill",
		len(began), time.Since(back).Round(time.Millisecond), posted, flying)
	if len(began) < events || posted < events/10 || flying == 0 {
		t.Errorf("the kill hit no delivery: %d of %d events, %d posted before, %d leases", len(began), events,
			posted, flying)
	}
	newLedger(sv, 0).settle(t)
	extra, keys := 0, map[string]bool{}
	for _, p := range sv.sink.all() {
		if keys[p.IdempotencyKey] {
			extra++
		}
		keys[p.IdempotencyKey] = true
	}
	t.Logf("%d extra POSTs", extra)
	if extra > flying {
		t.Errorf("I4: %d extra POSTs, though only %d leases were in flight", extra, flying)
	}
	if dead := sv.dead(t); len(dead) > 0 {
		t.Errorf("I11: %d events are dead, though the receiver took all: %+v", len(dead), dead[0])
	}
	sv.auditPosts(t)
}

// arrivals returns the time of the first POST by idempotency key.
func (s *sink) arrivals() map[string]time.Time {
	arrived := map[string]time.Time{}
	for _, p := range s.all() {
		if at, ok := arrived[p.IdempotencyKey]; !ok || p.at.Before(at) {
			arrived[p.IdempotencyKey] = p.at
		}
	}
	return arrived
}

// A store that loses all data: used marks, outcomes and configuration are lost. The remaining guarantees are:
//
//   - Keys and integrations are cached for 5 s at most. After that, every request is denied with 401 until
//     an operator has configured them again. An event of a session that started in those 5 s finds no
//     integration afterwards: it becomes dead for that reason, visible to the operator.
//   - After the new configuration every operation works, without a restart of Verge.
//   - No token validates twice, not even in two lives of the store: a token is valid only together with the
//     outcome that it names, and that outcome is lost.
//   - A session whose outcome is lost is PENDING again until its 10 minutes are over: its id proves only that
//     it was started here.
func TestRedisThatLosesEverything(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(s *stores.Redis){
		"FLUSHALL": func(s *stores.Redis) { s.Do("flushall") },
		"restart without its data": func(s *stores.Redis) {
			s.Kill()
			time.Sleep(300 * time.Millisecond)
			s.Start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "FLUSHALL" {
				long.Skip(t, "TestRedisThatLosesEverything")
			}
			t.Parallel()
			server := stores.StartRedis(t)
			s := newService(t, setup{Store: openRedis(t, server.URL()+"?"+impatient), Shared: true,
				Partitions: 4})
			b := newLedger(s, faultproxy.Seed(t, 1))
			b.lossy = true
			stop := b.load(clients)
			within(recovery, func() bool { return b.walks.Load() >= 2*clients })
			b.epoch.Add(1)
			lose(server)
			b.epoch.Add(1)
			s.forgot = true
			time.Sleep(time.Second)
			stop()
			b.singleUse(t)

			var old *life // validated in the first life
			for _, l := range b.lives {
				if l.won == 1 && l.to == 0 {
					old = l
				}
			}
			if old == nil {
				t.Fatal("nothing was validated before the loss")
			}
			denied := func() bool {
				return s.start(integrationID).status == 401 && s.validate(old.token).status == 401 &&
					s.reconcile(old.id).status == 401
			}
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() { // some sessions start shortly before the cache of Verge expires
					end := time.Now().Add(10 * time.Second)
					for s.start(integrationID).status == 200 && time.Now().Before(end) {
					}
				})
			}
			wg.Wait()
			if !within(10*time.Second, denied) {
				t.Error("I2: requests are not denied although the store has lost everything")
			}
			b.report(t)
			// An event of a session that started in the last moment may still wait for its first attempt.
			var untargeted []operate.UndeliveredEvent
			if !within(recovery, func() bool {
				b.settle(t)
				time.Sleep(500 * time.Millisecond)
				last := len(untargeted)
				untargeted = s.dead(t)
				return len(untargeted) == last
			}) {
				t.Error("I10: events still become dead, long after no session could start")
			}
			for _, d := range untargeted {
				if d.Reason != "no_target" {
					t.Errorf("I11: dead, though the receiver accepted all: %+v", d)
				}
			}

			s.seed()
			since := time.Now()
			fresh := newLedger(s, 2)
			fresh.before = untargeted
			fresh.recovers(t, since)
			stop = fresh.load(clients)
			within(recovery, func() bool { return fresh.walks.Load() >= 2*clients })
			stop()
			fresh.audit(t, since)

			if a := s.reconcile(old.id); a.status != 200 || a.text("status") != "PENDING" {
				t.Errorf("a session whose outcome is lost: %d %s, as documented it is PENDING", a.status,
					a.body)
			}
			first, second := s.validate(old.token), s.validate(old.token)
			if first.status != 400 || second.status != 400 {
				t.Errorf("I1: a token of an earlier life: %d, then %d; as documented 400", first.status,
					second.status)
			}
		})
	}
}
