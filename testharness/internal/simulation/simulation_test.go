package simulation

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/long"
)

func TestMain(m *testing.M) {
	CollectRarely()
	os.Exit(m.Run())
}

// TestHistories runs random histories, always the same ones. `make simulate` runs others.
func TestHistories(t *testing.T) {
	seeds := long.Pick(t, "TestHistories", uint64(50), 2_000)
	begin := time.Now()
	var next struct {
		sync.Mutex
		seed uint64
	}
	var cover Coverage
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			var r Runner
			defer r.Close()
			for !t.Failed() {
				next.Lock()
				seed := next.seed
				next.seed++
				next.Unlock()
				if seed >= seeds {
					break
				}
				if got := r.Run(seed, nil); len(got.Broke) > 0 {
					t.Errorf("%s\nRepeat it by: make simulate SEED=%d", r.Reduce(got), seed)
				}
			}
			next.Lock()
			defer next.Unlock()
			cover.Merge(&r.Cover)
		})
	}
	workers.Wait()
	t.Logf("%d histories in %s\n%s", cover.seeds, time.Since(begin).Round(time.Second), &cover)
	for _, transition := range []string{"started", "validated", "validate ALREADY_USED", "validate EXPIRED",
		"event completed", "event failed", "event expired", "reconciled COMPLETED", "reconciled FAILED",
		"reconciled EXPIRED", "setting changed", "revoked key used", "attacker denied", "proof counted",
		"status list fetched", "guest admitted", "console page", "photo estimated",
		"trusted list loaded", "archives", "restores", "key of archived publisher",
		"revoked document shown", "signed request"} {
		if !t.Failed() && cover.cells[transition] == nil {
			t.Errorf("no history had the transition %q", transition)
		}
	}
}

// TestHistories_SameSeed runs each history several times, with one processor and with two, in a new Runner
// and in a runner with earlier histories.
func TestHistories_SameSeed(t *testing.T) {
	seeds := long.Pick(t, "TestHistories_SameSeed", uint64(8), 60)
	var used Runner
	defer used.Close()
	different := map[string]bool{}
	for seed := range seeds {
		want := used.Digest(seed)
		different[want] = true
		for _, processors := range []int{1, 2} {
			before := runtime.GOMAXPROCS(processors)
			var fresh Runner
			got := fresh.Digest(seed)
			fresh.Close()
			runtime.GOMAXPROCS(before)
			if got != want {
				t.Errorf("seed %d on %d processors: its history is another one", seed, processors)
			}
		}
	}
	if len(different) != int(seeds) {
		t.Errorf("%d seeds have only %d histories", seeds, len(different))
	}
}

// The store without faults keeps the promises of the port.
func TestStore(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kvtest.Harness {
		clock := kvtest.NewClock()
		s := newStore(clock.Now)
		return kvtest.Harness{KV: &locked{KV: s, Meter: s}, Now: clock.Now, Advance: clock.Advance}
	})
}

func TestStore_FailOver(t *testing.T) {
	clock := kvtest.NewClock()
	s := newStore(clock.Now)
	commit := func(id, value string) {
		tx := kv.Tx{ID: id, Partition: "p", Puts: []kv.Put{{Name: "a", Value: []byte(value)}},
			Schedule: []kv.Task{{ID: id, Due: clock.Now()}}}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	commit("1", "old")
	clock.Advance(2 * time.Second)
	commit("2", "newer")
	commit("3", "newest")
	for _, c := range []struct {
		lose, lost  int
		value, last string
	}{{1, 1, "newer", "2"}, {5, 1, "old", "1"}, {5, 0, "old", "1"}} {
		if lost := s.failOver(c.lose); lost != c.lost {
			t.Errorf("%d writes lost, want %d", lost, c.lost)
		}
		it, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: "a"})
		if err != nil || string(it.Value) != c.value || it.Tx != c.last {
			t.Errorf("the item is %q by %s, %v, want %q by %s", it.Value, it.Tx, err, c.value, c.last)
		}
	}
	tasks, _, err := s.Claim(t.Context(), "p", clock.Now(), time.Minute, 10)
	if err != nil || len(tasks) != 1 || tasks[0].ID != "1" {
		t.Errorf("the tasks are %v, %v, want the first one alone", tasks, err)
	}
}

// A reduced history breaks the same promise by fewer decisions, and its story names the seed.
func TestReduce(t *testing.T) {
	var r Runner
	defer r.Close()
	bad := r.Run(3, nil)
	if len(bad.Broke) > 0 {
		t.Fatalf("seed 3: %s", bad.Broke)
	}
	r.breakAt = "validated" // a promise that every history with a validated token breaks
	for seed := uint64(0); len(bad.Broke) == 0; seed++ {
		bad = r.Run(seed, nil)
	}
	text := r.Reduce(bad)
	first, _, _ := strings.Cut(text, "\n")
	if !strings.Contains(text, "breaks test") ||
		!strings.Contains(text, "/api/v1/verify/validate gets 200") {
		t.Errorf("the story is:\n%s", text)
	}
	if kept := strings.Count(text, "\n"); kept > 40 {
		t.Errorf("%s: the story has %d lines", first, kept)
	}
	t.Log(text)
}

// The judge sees promises that break because the store breaks its own.
func TestJudge_FlawedStore(t *testing.T) {
	for name, c := range map[string]struct {
		flaw  flaw
		seeds uint64
		want  []string // one of these promises breaks
	}{
		"checks are ignored": {flaw{checks: true}, 200, []string{"I1", "I6", "I16", "contract 11"}},
		"tasks are lost":     {flaw{tasks: true}, 20, []string{"I3", "I7", "I10"}},
		"leases are ignored": {flaw{leases: true}, 200, []string{"I4", "I5"}},
	} {
		t.Run(name, func(t *testing.T) {
			var r Runner
			defer r.Close()
			r.flawed = func(store kv.KV) kv.KV {
				c.flaw.KV = store
				return c.flaw
			}
			for seed := range c.seeds {
				if got := r.Run(seed, nil); len(got.Broke) > 0 {
					if promise := promiseOf(got); !slices.Contains(c.want, promise) {
						t.Errorf("seed %d breaks %s, want one of %s", seed, got.Broke, c.want)
					}
					t.Logf("after %d seeds: %s", seed+1, got.Broke[0])
					return
				}
			}
			t.Errorf("not found in %d seeds", c.seeds)
		})
	}
}

// flaw is a store that breaks a promise.
type flaw struct {
	kv.KV
	checks, tasks, leases bool
}

func (f flaw) Commit(ctx context.Context, tx kv.Tx) error {
	if f.checks {
		tx.Checks = nil
	}
	if f.tasks {
		tx.Schedule = nil
	}
	return f.KV.Commit(ctx, tx)
}

func (f flaw) Claim(ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) (
	[]kv.Task, time.Time, error) {
	if f.leases {
		lease = 15 * time.Millisecond
	}
	return f.KV.Claim(ctx, p, now, lease, n)
}

// locked lets concurrent tests use a store, with contexts that end. In a history the port does the same with
// the time of a request.
type locked struct {
	mu sync.Mutex
	kv.KV
	kv.Meter
}

func (l *locked) Spend(ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge) (
	[]time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return nil, kv.ErrUnavailable
	}
	return l.Meter.Spend(ctx, p, now, charges)
}

func (l *locked) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	if ctx.Err() != nil {
		return kv.Item{}, kv.ErrUnavailable
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.KV.Get(ctx, key)
}

func (l *locked) Commit(ctx context.Context, tx kv.Tx) error {
	if ctx.Err() != nil {
		return kv.ErrUnavailable
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.KV.Commit(ctx, tx)
}

func (l *locked) Claim(ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) (
	[]kv.Task, time.Time, error) {
	if ctx.Err() != nil {
		return nil, time.Time{}, kv.ErrUnavailable
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.KV.Claim(ctx, p, now, lease, n)
}

func (l *locked) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	if ctx.Err() != nil {
		return nil, kv.ErrUnavailable
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.KV.List(ctx, prefix, after, n)
}
