package cli

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// seriesStore is a store as OPERATING.md recommends it, with the failure that it must survive.
type seriesStore struct {
	url, config string
	instances   int
	fail        func() // ends the primary; nil: the store ends with the instance
}

// TestSeries runs a service for a few minutes with the events of months: instances are killed, the key ring
// is rotated, and the store's primary ends. No event is lost, and no result counts twice.
func TestSeries(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestSeries")
	for _, store := range []struct {
		name string
		open func(t *testing.T) seriesStore
	}{
		{"bolt", func(t *testing.T) seriesStore {
			return seriesStore{url: "bolt:" + filepath.Join(t.TempDir(), "verge.db"), instances: 1}
		}},
		{"redis with sentinel", redisWithSentinel},
		{"postgres behind pgbouncer", postgresBehindPgBouncer},
	} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			sink := newEvents(t)
			sink.trust(testSecret)
			p := store.open(t)
			s := &series{site: newSite(t, p.url, sink.URL, unlimited+p.config), t: t,
				rng: rand.New(rand.NewPCG(faultproxy.Seed(t, rand.Uint64()), 0))}
			for range p.instances {
				s.fleet = append(s.fleet, s.site.start())
			}
			const kills = 5 // before and after each other event
			s.kill(kills)
			s.rotate()
			s.kill(kills)
			if p.fail != nil {
				s.under(p.fail)
				s.kill(kills)
			}
			started, completed, validated := settle(t, s.fleet[0], s.all, sink, time.Minute)
			if validated < 20 {
				t.Errorf("the test did too little: %d validated", validated)
			}
			t.Logf("%d kills, a rotation: %d sessions started, %d completed, %d validated",
				s.kills, started, completed, validated)
		})
	}
}

// series is a fleet in use, and all verifications on it.
type series struct {
	t     *testing.T
	site  *site
	fleet []*served
	rng   *rand.Rand
	all   []*walked
	kills int
}

// under runs do while users verify themselves at all instances, and waits for verifications that begin
// after it.
func (s *series) under(do func()) {
	s.t.Helper()
	var users []*visitors
	for _, in := range s.fleet {
		users = append(users, startVisitors(in.publisher))
	}
	completed := func() (n int) {
		for _, v := range users {
			n += v.count(func(w *walked) bool { return w.valid > 0 })
		}
		return n
	}
	wait.Until(s.t, "verifications before the event", func() bool { return completed() >= 5 })
	do()
	before := completed()
	if len(s.fleet) > 1 {
		wait.Until(s.t, "verifications after the event", func() bool { return completed() >= before+5 })
	}
	for _, v := range users {
		s.all = append(s.all, v.stop()...)
	}
}

// kill kills an instance and starts another one, n times.
func (s *series) kill(n int) {
	s.t.Helper()
	for range n {
		i := s.rng.IntN(len(s.fleet))
		s.under(func() {
			time.Sleep(time.Duration(s.rng.IntN(3000)) * time.Microsecond)
			s.fleet[i].kill()
			wait.For(s.fleet[i].ended)
		})
		s.fleet[i] = s.site.start()
		s.kills++
	}
}

// rotate rotates the key ring, and returns after all instances use the new key.
func (s *series) rotate() {
	s.t.Helper()
	s.under(func() {
		args := []string{"keyring", "rotate", s.site.ring, "--seals-in", sealsIn.String()}
		if code := run(s.t.Context(), args, onDisk()); code != exitOK {
			s.t.Fatal("rotate: exit code ", code)
		}
		key := newest(s.t, s.site.ring)
		wait.Until(s.t, "the new key", func() bool {
			for _, in := range s.fleet {
				if !strings.Contains(in.metric(s.t, "verge_keyring_sealing_key"), key) {
					return false
				}
			}
			return true
		})
	})
}

// redisWithSentinel returns a Redis that waits for a replica, and a Sentinel that replaces it. The primary
// that ended comes back as a replica.
func redisWithSentinel(t *testing.T) seriesStore {
	primary := stores.StartRedis(t, stores.Durable...)
	replica := primary.Replica(stores.Durable...)
	sentinel := stores.StartSentinel(t, primary)
	return seriesStore{
		url:       "redis+sentinel://" + sentinel.Addr() + "/?master_name=verge",
		config:    "[store]\nreplicas = 1\nwait = \"2s\"\n",
		instances: 3,
		fail: func() {
			primary.Kill()
			wait.Until(t, "the failover", func() bool {
				return strings.Contains(fmt.Sprint(replica.Do("info", "replication")), "role:master")
			})
			primary.Start()
			primary.WaitForPrimary() // it is the replica now
		},
	}
}

// postgresBehindPgBouncer returns a PostgreSQL with a synchronous replica, behind a PgBouncer.
func postgresBehindPgBouncer(t *testing.T) seriesStore {
	primary := stores.StartPostgres(t)
	replica := primary.Replica("one")
	primary.Set("synchronous_standby_names", "ANY 1 (one)")
	bouncer := stores.StartPgBouncer(t, primary)
	return seriesStore{
		url:       bouncer.URL(primary, "verge"),
		instances: 3,
		fail: func() {
			primary.Kill()
			replica.Promote()
			bouncer.Route(replica)
		},
	}
}
