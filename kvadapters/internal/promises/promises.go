// Package promises contains the promises of package kv, each with its proof. Package kvtest runs all of
// them in the tests of adapters. The command "verge kv check" runs those that are safe on an operator's own
// store, so this package must not import package testing.
package promises

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// T receives the findings of a proof. A *testing.T implements it.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any) // ends the calling goroutine
	Failed() bool
}

// Harness is an empty store with its clock.
type Harness struct {
	KV kv.KV

	// Now returns the time of the clock that the store uses to expire items.
	Now func() time.Time

	// Advance moves that clock. If the clock cannot be moved, Advance sleeps and ClockRuns is true.
	Advance func(time.Duration)

	// ClockRuns is set if the clock moves between calls of Advance. Then the exact time of expiry is not
	// tested.
	ClockRuns bool

	// Reopen, if not nil, closes and opens the store, or restarts its server, and returns the store again.
	// Data that the store does not promise to keep is lost. If nil, durability is not tested.
	Reopen func() kv.KV
}

// Promise is one sentence of package kv and its proof.
type Promise struct {
	About Subject
	Needs Needs
	Name  string
	prove func(*run)
}

// Subject is the subject of a promise, in an operator's words.
type Subject string

// The subjects, in reading order.
const (
	Atomicity  Subject = "atomicity"
	Visibility Subject = "read your writes"
	Values     Subject = "values"
	Order      Subject = "order"
	Expiry     Subject = "expiry"
	Leases     Subject = "leases"
	Counters   Subject = "rate counters"
	Durability Subject = "durability"
)

// Needs are the requirements of a proof in addition to a store. A proof without needs takes seconds and is
// safe on a store that is in use, if it has a separate place there.
type Needs uint

const (
	StillClock Needs = 1 << iota // a clock that only Advance moves
	Restart                      // a restart of the store
	Idle                         // a store without other users, because the proof keeps it busy
	Meter                        // a store with the capability kv.Meter

	nothing Needs = 0
)

// Lacking returns the reason why the promise cannot be proven with h, or "" if it can.
func (p Promise) Lacking(h Harness) string {
	_, meter := h.KV.(kv.Meter)
	switch {
	case p.Needs&StillClock != 0 && h.ClockRuns:
		return "needs a clock that stands still"
	case p.Needs&Restart != 0 && h.Reopen == nil:
		return "the store promises no durability"
	case p.Needs&Meter != 0 && !meter:
		return "the store has no rate counters that instances share"
	}
	return ""
}

// Prove reports all violations of the promise to t. The store must be empty and Lacking must return "".
// Calls end with ctx.
func (p Promise) Prove(ctx context.Context, t T, h Harness) {
	t.Helper()
	p.prove(&run{T: t, Harness: h, ctx: ctx, start: h.Now().Truncate(time.Millisecond)})
}

// Group has the promises about one part of the port.
type Group struct {
	Name     string
	Promises []Promise
}

// Groups returns every promise of package kv.
func Groups() []Group {
	return []Group{
		{"items", slices.Clone(itemPromises)},
		{"list", slices.Clone(listPromises)},
		{"commit", slices.Clone(commitPromises)},
		{"tasks", slices.Clone(taskPromises)},
		{"leases", slices.Clone(leasePromises)},
		{"meter", slices.Clone(meterPromises)},
		{"durability", slices.Clone(durabilityPromises)},
	}
}

// run is one running proof.
type run struct {
	T
	Harness
	ctx   context.Context
	start time.Time // in whole milliseconds, for expiries and due times

	mu  sync.Mutex
	txs int
}

// part is the default partition.
const part = kv.Partition("p0")

// second is the unit of all expiries and leases. A store with a real clock sleeps for it, and a store that
// counts in seconds can still express it.
const second = time.Second

func (r *run) at(d time.Duration) time.Time { return r.start.Add(d) }

func (r *run) nextID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.txs++
	return fmt.Sprintf("tx-%d", r.txs)
}

// try commits tx. The default partition is part, the default id a new one.
func (r *run) try(tx kv.Tx) (string, error) {
	if tx.ID == "" {
		tx.ID = r.nextID()
	}
	if tx.Partition == "" {
		tx.Partition = part
	}
	return tx.ID, r.KV.Commit(r.ctx, tx)
}

// commit commits a transaction that must succeed.
func (r *run) commit(tx kv.Tx) (id string) {
	r.Helper()
	id, err := r.try(tx)
	if err != nil {
		r.Fatalf("a commit without a conflict failed: %v", err)
	}
	return id
}

// conflict commits a transaction that must be rejected, and returns the conflict.
func (r *run) conflict(why string, tx kv.Tx) *kv.Conflict {
	r.Helper()
	_, err := r.try(tx)
	var c *kv.Conflict
	if err == nil {
		r.Fatalf("the commit succeeded, but %s", why)
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
	it, err := r.KV.Get(r.ctx, kv.Key{Partition: part, Name: name})
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
	it, err := r.KV.Get(r.ctx, kv.Key{Partition: part, Name: name})
	switch {
	case err == nil:
		r.Errorf("%q holds %q of %s, want ErrNotFound, because %s", name, it.Value, it.Tx, why)
	case !errors.Is(err, kv.ErrNotFound):
		r.Errorf("get %q: %v, want ErrNotFound, because %s", name, err, why)
	}
}

func (r *run) claim(now time.Time, lease time.Duration, n int) ([]kv.Task, time.Time) {
	r.Helper()
	tasks, next, err := r.KV.Claim(r.ctx, part, now, lease, n)
	if err != nil {
		r.Fatalf("claim: %v", err)
	}
	if len(tasks) > n {
		r.Fatalf("claim returned %d tasks, asked for at most %d", len(tasks), n)
	}
	return tasks, next
}

// claimOne claims and checks that exactly the task of that id is returned.
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
	same := got.Key == want.Key && bytes.Equal(got.Value, want.Value) &&
		got.Tx == want.Tx && got.Expires.Equal(want.Expires)
	if !same {
		r.Errorf("got item %v = %q of %s until %s,\nwant     %v = %q of %s until %s",
			got.Key, got.Value, got.Tx, stamp(got.Expires), want.Key, want.Value, want.Tx,
			stamp(want.Expires))
	}
}

// parallel calls f(0) to f(n-1) at the same time and waits for all. f must report only by Errorf.
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
