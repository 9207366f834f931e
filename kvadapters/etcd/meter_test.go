package etcd_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/stores"
)

// model is kv.Meter's promise, word for word.
type model map[string]time.Time

func (m model) spend(now time.Time, charges []kv.Charge) []time.Time {
	var before, after []time.Time
	all := true
	for _, c := range charges {
		tat := m[c.Name]
		before = append(before, tat)
		if now.After(tat) {
			tat = now
		}
		tat = tat.Add(c.Cost)
		after = append(after, tat)
		all = all && !tat.After(now.Add(c.Burst))
	}
	if all {
		for i, c := range charges {
			m[c.Name] = after[i]
		}
	}
	return before
}

func TestSpendDoesWhatMeterPromises(t *testing.T) {
	server := stores.StartEtcd(t)
	// Two instances take turns, so that what one remembers is often out of date.
	stores := []*etcd.Store{
		open(t, server.URL("verge"), etcd.Config{}),
		open(t, server.URL("verge"), etcd.Config{}),
	}
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := kv.Partition(fmt.Sprint("p", seed))
		now := time.Unix(1_800_000_000, 0)
		want := make(model)
		for step := range 200 {
			var charges []kv.Charge
			for _, i := range rng.Perm(4)[:1+rng.IntN(3)] {
				charges = append(charges, kv.Charge{
					Name: fmt.Sprint("c", i), Cost: time.Duration(rng.IntN(30)) * time.Second,
					Burst: time.Duration(rng.IntN(200)) * time.Second,
				})
			}
			got, err := stores[rng.IntN(2)].Spend(t.Context(), p, now, charges)
			if err != nil {
				t.Fatal(err)
			}
			if before := want.spend(now, charges); !slices.EqualFunc(got, before, time.Time.Equal) {
				t.Fatalf("seed %d, step %d: spend %v at %v:\ngot  %v\nwant %v", seed, step, charges, now, got,
					before)
			}
			now = now.Add(time.Duration(rng.IntN(20_000)) * time.Millisecond)
		}
	}
}

func TestInstancesTogetherSpendAtMostTheBurst(t *testing.T) {
	server := stores.StartEtcd(t)
	now := time.Unix(1_800_000_000, 0)
	const allowed = 60
	charges := []kv.Charge{
		{Name: "ip", Cost: time.Second, Burst: 10 * allowed * time.Second},
		{Name: "key", Cost: time.Second, Burst: allowed * time.Second},
	}
	var granted atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		s := open(t, server.URL("verge"), etcd.Config{})
		for range 3 {
			all.Go(func() {
				for range 12 {
					before, err := s.Spend(t.Context(), part, now, charges)
					if err != nil {
						t.Error(err)
						return
					}
					if !max2(before[1], now).Add(time.Second).After(now.Add(charges[1].Burst)) {
						granted.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	if granted.Load() != allowed {
		t.Errorf("three instances granted %d charges of 108, want %d", granted.Load(), allowed)
	}
	before, err := open(t, server.URL("verge"), etcd.Config{}).Spend(t.Context(), part, now, charges)
	if err != nil || !before[0].Equal(now.Add(allowed*time.Second)) {
		t.Errorf("the wide counter stands at %v, %v, want %v: a charge over one burst must charge no counter",
			before[0], err, now.Add(allowed*time.Second))
	}
}

func max2(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func keysUnder(t *testing.T, server *stores.Etcd, prefix string) []string {
	t.Helper()
	resp, err := server.Client().Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, found := range resp.Kvs {
		keys = append(keys, string(found.Key))
	}
	return keys
}

func TestWhatHasExpiredIsSweptAndNothingElse(t *testing.T) {
	server := stores.StartEtcd(t)
	clock := kvtest.NewClock()
	const grace = time.Minute
	c := etcd.Config{Now: clock.Now, SweepEvery: 5 * time.Millisecond, SweepGrace: grace}
	s := open(t, server.URL("verge"), c)
	open(t, server.URL("verge"), c) // another instance sweeps as well
	soon, later := clock.Now().Add(10*time.Second), clock.Now().Add(time.Hour)
	for i := range 100 {
		commit(t, s, kv.Tx{ID: "brief", Puts: []kv.Put{{Name: fmt.Sprintf("brief%02d", i), Expires: soon}}})
	}
	commit(t, s, kv.Tx{ID: "1", Puts: []kv.Put{
		{Name: "prolonged", Expires: soon},
		{Name: "kept", Expires: soon},
		{Name: "shortened", Expires: later},
		{Name: "deleted", Expires: soon},
		{Name: "twice", Expires: soon},
	}})
	commit(t, s, kv.Tx{ID: "2", Puts: []kv.Put{
		{Name: "prolonged", Expires: later},
		{Name: "kept"},
		{Name: "shortened", Expires: soon},
		{Name: "forever"},
		{Name: "twice", Expires: soon.Add(1)},
	}, Deletes: []string{"deleted"}})
	_, err := s.Spend(t.Context(), part, clock.Now(),
		[]kv.Charge{{Name: "c", Cost: time.Second, Burst: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	wait := func(want ...string) {
		t.Helper()
		var got []string
		for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(10 * time.Millisecond) {
			if got = keysUnder(t, server, "verge/"); slices.Equal(got, want) {
				return
			}
		}
		t.Errorf("etcd holds\n%q\nwant\n%q", got, want)
	}

	clock.Advance(10*time.Second + grace - time.Nanosecond)
	time.Sleep(100 * time.Millisecond) // many sweeps
	if n := len(keysUnder(t, server, "verge/i p brief")); n != 100 {
		t.Errorf("%d of 100 items are left before their grace is over, want all", n)
	}
	clock.Advance(2 * grace) // past the counter's minute as well
	expiry := keysUnder(t, server, "verge/x ")
	wait("verge/format", "verge/i p forever", "verge/i p kept", "verge/i p prolonged",
		expiry[len(expiry)-2], expiry[len(expiry)-1])
	for _, name := range []string{"forever", "kept", "prolonged"} {
		if it, err := s.Get(t.Context(), kv.Key{Partition: part, Name: name}); err != nil || it.Tx != "2" {
			t.Errorf("%s: %+v, %v, want what transaction 2 wrote", name, it, err)
		}
	}
	clock.Advance(time.Hour + grace)
	wait("verge/format", "verge/i p forever", "verge/i p kept")
	// No instance may remember a counter that the sweep removed.
	before, err := s.Spend(t.Context(), part, clock.Now(),
		[]kv.Charge{{Name: "c", Cost: time.Second, Burst: time.Hour}})
	if err != nil || !before[0].IsZero() {
		t.Errorf("the swept counter stands at %v, %v, want zero", before, err)
	}
}

// The entry of a claimed task moves behind those that are due. A finished task leaves nothing.
func TestAClaimedTaskMovesOutOfTheWayOfClaims(t *testing.T) {
	server := stores.StartEtcd(t)
	clock := kvtest.NewClock()
	s := open(t, server.URL("verge"), etcd.Config{Now: clock.Now})
	now := clock.Now()
	for i := range 5 {
		commit(t, s, kv.Tx{ID: "s",
			Schedule: []kv.Task{{ID: fmt.Sprint("t", i), Due: now.Add(time.Duration(i))}}})
	}
	first := keysUnder(t, server, "verge/d p ")
	tasks, _, err := s.Claim(t.Context(), part, now.Add(time.Second), time.Minute, 3)
	if err != nil || len(tasks) != 3 {
		t.Fatal(tasks, err)
	}
	after := keysUnder(t, server, "verge/d p ")
	if !slices.Equal(after[:2], first[3:]) || len(after) != 5 {
		t.Errorf("the entries are\n%q\nwant the two that were not claimed\n%q\nto come first", after,
			first[3:])
	}
	for _, task := range tasks {
		commit(t, s, kv.Tx{
			ID:     "done",
			Held:   []kv.Held{{TaskID: task.ID, Lease: task.Lease}},
			Cancel: []string{task.ID},
		})
	}
	commit(t, s, kv.Tx{ID: "done", Cancel: []string{"t3", "t4"}})
	if left := keysUnder(t, server, "verge/"); !slices.Equal(left, []string{"verge/format"}) {
		t.Errorf("after the tasks are finished the keys are %q, want only the format", left)
	}
}

// A cancel without a lease must find the entry where a claim has moved it. The cancel looks first and writes
// later, and a claim must come between. So tasks are claimed one by one while others are cancelled. Each
// round has tasks of its own: another cancel of the same task would remove what the first one left.
func TestACancelThatMeetsAClaimLeavesNothing(t *testing.T) {
	server := stores.StartEtcd(t)
	s := open(t, server.URL("verge"), etcd.Config{SweepEvery: -1})
	due := time.Unix(1, 0)
	for round := range 40 {
		var schedule []kv.Task
		for n := range 12 {
			schedule = append(schedule, kv.Task{ID: fmt.Sprintf("t%d.%d", round, n), Due: due})
		}
		commit(t, s, kv.Tx{ID: "s", Schedule: schedule})
		var claiming, cancelling sync.WaitGroup
		for range 3 {
			claiming.Go(func() {
				for range schedule {
					if _, _, err := s.Claim(t.Context(), part, due, time.Minute, 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for _, task := range schedule {
			cancelling.Go(func() {
				if err := s.Commit(t.Context(), kv.Tx{ID: "c", Partition: part,
					Cancel: []string{task.ID}}); err != nil {
					t.Error(err)
				}
			})
		}
		cancelling.Wait()
		claiming.Wait()
	}
	if left := keysUnder(t, server, "verge/"); !slices.Equal(left, []string{"verge/format"}) {
		t.Errorf("after the cancels the keys are %q, want only the format", left)
	}
}

func TestATaskAndACounterHaveOneEntryEach(t *testing.T) {
	server := stores.StartEtcd(t)
	s := open(t, server.URL("verge"), etcd.Config{SweepEvery: -1})
	due := time.Unix(1, 0)
	for i := range 3 {
		commit(t, s, kv.Tx{ID: "s", Schedule: []kv.Task{{ID: "t", Due: due}}}) // at the same instant
		_, err := s.Spend(t.Context(), part, due.Add(time.Duration(i)*time.Hour),
			[]kv.Charge{{Name: "c", Cost: 1, Burst: 1}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"verge/d ", "verge/x "} {
		if got := keysUnder(t, server, prefix); len(got) != 1 {
			t.Errorf("entries under %q: %q, want one", prefix, got)
		}
	}
}

// A commit is one entry in the servers' log, even if it has to look first, because a look writes
// nothing.
func TestACommitIsOneWrite(t *testing.T) {
	server := stores.StartEtcd(t)
	s := open(t, server.URL("verge"), etcd.Config{SweepEvery: -1})
	c := server.Client()
	index := func() uint64 {
		t.Helper()
		status, err := c.Status(t.Context(), server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		return status.RaftIndex
	}
	due := time.Unix(1, 0)
	claim := func() (lease string) {
		tasks, _, err := s.Claim(t.Context(), part, due, time.Minute, 1)
		if err != nil || len(tasks) != 1 {
			t.Fatal(tasks, err)
		}
		return tasks[0].Lease
	}
	spend := func() {
		_, err := s.Spend(t.Context(), part, due,
			[]kv.Charge{{Name: "c", Cost: time.Second, Burst: 2 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
	}
	var lease string
	for _, step := range []struct {
		what   string
		writes uint64
		do     func()
	}{
		{"a new item with a new task", 1, func() {
			commit(t, s, kv.Tx{
				ID:       "1",
				Checks:   []kv.Check{{Name: "a"}},
				Puts:     []kv.Put{{Name: "a"}},
				Schedule: []kv.Task{{ID: "t", Due: due}},
			})
		}},
		{"an overwrite checked by Tx", 1, func() {
			commit(t, s, kv.Tx{ID: "2", Checks: []kv.Check{{Name: "a", Tx: "1"}},
				Puts: []kv.Put{{Name: "a"}}})
		}},
		{"a claim", 1, func() { lease = claim() }},
		{"a holder that finishes", 1, func() {
			commit(t, s, kv.Tx{
				ID:       "3",
				Held:     []kv.Held{{TaskID: "t", Lease: lease}},
				Cancel:   []string{"t"},
				Schedule: []kv.Task{{ID: "u", Due: due}},
			})
		}},
		{"a cancel of a task not held", 1, func() {
			commit(t, s, kv.Tx{ID: "4", Cancel: []string{"u"}, Puts: []kv.Put{{Name: "b"}}})
		}},
		{"checks alone", 0, func() {
			commit(t, s, kv.Tx{ID: "5", Checks: []kv.Check{{Name: "a", Tx: "2"}, {Name: "c"}}})
		}},
		{"a claim of nothing", 0, func() { _, _, _ = s.Claim(t.Context(), part, due, time.Minute, 1) }},
		{"a charge", 1, spend},
		{"another charge", 1, spend},
		{"a charge denied", 0, spend},
	} {
		before := index()
		step.do()
		if got := index() - before; got != step.writes {
			t.Errorf("%s made %d entries of the log, want %d", step.what, got, step.writes)
		}
	}
}
