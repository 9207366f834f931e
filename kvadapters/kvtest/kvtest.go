// Package kvtest proves that a store keeps the promises of package kv. Use
// Run in an adapter's test, and Faulty to give other tests a store that
// fails in every way a store can.
//
// An adapter's own test is a few lines:
//
//	func TestKV(t *testing.T) {
//		kvtest.Run(t, func(t *testing.T) kvtest.Harness {
//			clock := kvtest.NewClock()
//			store := memory.New(memory.Config{Now: clock.Now})
//			return kvtest.Harness{KV: store, Now: clock.Now, Advance: clock.Advance}
//		})
//	}
//
// Every subtest is named by the promise it guards. The suite uses times of
// whole milliseconds only: a store may keep no finer ones.
package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Harness is one empty store with its clock.
type Harness struct {
	KV kv.KV

	// Now is the clock by which the store expires items.
	Now func() time.Time

	// Advance moves that clock. Where it cannot be moved, Advance sleeps and
	// ClockRuns is true.
	Advance func(time.Duration)

	// ClockRuns says that the clock does not stand still between calls of
	// Advance. The exact instant of expiry is then not tested.
	ClockRuns bool

	// Reopen loses everything that the store does not promise to keep (it
	// closes and opens it, or restarts its server) and returns it again.
	// Nil: the store promises no durability.
	Reopen func() kv.KV
}

// Clock is a clock that stands still until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at an arbitrary whole second.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)}
}

// Now returns where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Run checks every promise of package kv. open is called once for each
// subtest and returns a store that holds nothing; it closes it by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, group := range []struct {
		name  string
		cases []promise
	}{
		{"items", itemPromises},
		{"list", listPromises},
		{"commit", commitPromises},
		{"tasks", taskPromises},
		{"leases", leasePromises},
		{"durability", durabilityPromises},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					h := open(t)
					c.test(&run{T: t, Harness: h, start: h.Now().Truncate(time.Millisecond)})
				})
			}
		})
	}
}

// promise is one sentence of package kv and its proof.
type promise struct {
	name string
	test func(*run)
}

// run is one proof under way.
type run struct {
	*testing.T
	Harness
	start time.Time // in whole milliseconds, for expiries and due times

	mu  sync.Mutex
	txs int
}

// part is the partition where nothing else is said.
const part = kv.Partition("p0")

// second is the unit of all expiries and leases: a store on a real clock
// sleeps through it, one that counts in seconds can still express it.
const second = time.Second

func (r *run) at(d time.Duration) time.Time { return r.start.Add(d) }

func (r *run) nextID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.txs++
	return fmt.Sprintf("tx-%d", r.txs)
}

// try commits in partition part, unless tx names another, under a new ID,
// unless tx has one.
func (r *run) try(tx kv.Tx) (string, error) {
	if tx.ID == "" {
		tx.ID = r.nextID()
	}
	if tx.Partition == "" {
		tx.Partition = part
	}
	return tx.ID, r.KV.Commit(context.Background(), tx)
}

// commit commits what nothing stands against.
func (r *run) commit(tx kv.Tx) (id string) {
	r.Helper()
	id, err := r.try(tx)
	if err != nil {
		r.Fatalf("a commit against which nothing stands failed: %v", err)
	}
	return id
}

// conflict commits what must be refused.
func (r *run) conflict(why string, tx kv.Tx) *kv.Conflict {
	r.Helper()
	_, err := r.try(tx)
	var c *kv.Conflict
	if err == nil {
		r.Fatalf("the commit went through, but %s", why)
	} else if !errors.As(err, &c) {
		r.Fatalf("the commit failed with %v, want a *kv.Conflict, because %s", err, why)
	}
	return c
}

func (r *run) put(name, value string, expires time.Time) (id string) {
	r.Helper()
	return r.commit(kv.Tx{Puts: []kv.Put{{Name: name, Value: []byte(value), Expires: expires}}})
}

func (r *run) schedule(tasks ...kv.Task) {
	r.Helper()
	r.commit(kv.Tx{Schedule: tasks})
}

func (r *run) get(name string) kv.Item {
	r.Helper()
	it, err := r.KV.Get(context.Background(), kv.Key{Partition: part, Name: name})
	if err != nil {
		r.Fatalf("get %q: %v, though a commit that returned wrote it", name, err)
	}
	return it
}

func (r *run) wantValue(name, value string) {
	r.Helper()
	if it := r.get(name); string(it.Value) != value {
		r.Errorf("%q holds %q, want %q", name, it.Value, value)
	}
}

func (r *run) wantAbsent(name, why string) {
	r.Helper()
	it, err := r.KV.Get(context.Background(), kv.Key{Partition: part, Name: name})
	switch {
	case err == nil:
		r.Errorf("%q holds %q of %s, want ErrNotFound, because %s", name, it.Value, it.Tx, why)
	case !errors.Is(err, kv.ErrNotFound):
		r.Errorf("get %q: %v, want ErrNotFound, because %s", name, err, why)
	}
}

func (r *run) claim(now time.Time, lease time.Duration, n int) ([]kv.Task, time.Time) {
	r.Helper()
	tasks, next, err := r.KV.Claim(context.Background(), part, now, lease, n)
	if err != nil {
		r.Fatalf("claim: %v", err)
	}
	if len(tasks) > n {
		r.Fatalf("claim returned %d tasks, asked for at most %d", len(tasks), n)
	}
	return tasks, next
}

// claimOne claims and expects exactly the task of that ID.
func (r *run) claimOne(id string, now time.Time, lease time.Duration) kv.Task {
	r.Helper()
	tasks, _ := r.claim(now, lease, 10)
	if len(tasks) != 1 || tasks[0].ID != id {
		r.Fatalf("claim returned %v, want only the task %q", ids(tasks), id)
	}
	if tasks[0].Lease == "" {
		r.Fatalf("the claimed task %q carries no lease, so no commit can prove that it holds it", id)
	}
	return tasks[0]
}

func (r *run) wantNoneDue(now time.Time, why string) {
	r.Helper()
	if tasks, _ := r.claim(now, second, 10); len(tasks) > 0 {
		r.Errorf("claim returned %v, want none, because %s", ids(tasks), why)
	}
}

func (r *run) wantNext(got, want time.Time, why string) {
	r.Helper()
	if !got.Equal(want) {
		r.Errorf("next is %s, want %s: %s", stamp(got), stamp(want), why)
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "zero"
	}
	return t.UTC().Format("15:04:05.000")
}

func ids(tasks []kv.Task) []string {
	out := make([]string, len(tasks))
	for i, t := range tasks {
		out[i] = t.ID
	}
	return out
}

func names(items []kv.Item) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = it.Key.Name
	}
	return out
}

func (r *run) wantItem(got, want kv.Item) {
	r.Helper()
	if got.Key != want.Key || !bytes.Equal(got.Value, want.Value) || got.Tx != want.Tx || !got.Expires.Equal(want.Expires) {
		r.Errorf("got item %v = %q of %s until %s,\nwant     %v = %q of %s until %s",
			got.Key, got.Value, got.Tx, stamp(got.Expires), want.Key, want.Value, want.Tx, stamp(want.Expires))
	}
}

// parallel calls f(0) to f(n-1) at the same time and waits. f reports by
// Errorf only.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}
