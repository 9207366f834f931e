package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Fault is the fault of one call of a store.
type Fault int

const (
	// Pass is no fault.
	Pass Fault = iota

	// Reject returns ErrUnavailable without calling the store.
	Reject

	// LoseRequest is a lost request. The store is not called. Commit returns ErrUnknown, the other methods
	// return ErrUnavailable.
	LoseRequest

	// LoseReply calls the store and loses its result. Commit returns ErrUnknown, though it may have
	// succeeded or met a conflict. The other methods return ErrUnavailable. Tasks that Claim leased stay
	// leased.
	LoseReply

	// Delay makes Commit return ErrUnknown immediately. The commit reaches the store only with Deliver: it
	// is the "later" in "may or may not have happened, now or later". For the other methods, Delay is
	// LoseRequest.
	Delay

	// Hang waits until the context is done, and is then LoseRequest.
	Hang
)

func (f Fault) String() string {
	if f < Pass || f > Hang {
		return fmt.Sprintf("Fault(%d)", int(f))
	}
	return [...]string{"Pass", "Refuse", "LoseRequest", "LoseReply", "Delay", "Hang"}[f]
}

// Call is one call before it is made. Only the fields of its method are set.
type Call struct {
	N      int    // number of the call in this store, from 1
	Method string // "Get", "Commit", "Claim" or "List"

	Context context.Context // of the call, so that a test can distinguish its own calls from others

	Key       kv.Key // of Get; the prefix of List
	Tx        *kv.Tx // of Commit; must not be modified
	Partition kv.Partition
}

// errFault is wrapped by every error of Faulty, so that a test can distinguish them from the store's own
// errors.
var errFault = errors.New("kvtest: injected fault")

// Faulty is a store with the faults that Decide returns. If Decide is nil, every call passes.
type Faulty struct {
	KV kv.KV

	// Decide is called before each call, concurrently if the calls are.
	Decide func(Call) Fault

	mu      sync.Mutex
	calls   int
	delayed []kv.Tx
}

var _ kv.KV = (*Faulty)(nil)

// Seeded decides at random: each fault has its probability, otherwise the call passes. The decisions are
// the same for the same seed and order of calls.
func Seeded(seed uint64, probability map[Fault]float64) func(Call) Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(Call) Fault {
		mu.Lock()
		x := rng.Float64()
		mu.Unlock()
		for f := Reject; f <= Hang; f++ {
			if x -= probability[f]; x < 0 {
				return f
			}
		}
		return Pass
	}
}

// Script returns the faults in order, one for each call. All later calls pass.
func Script(faults ...Fault) func(Call) Fault {
	return func(c Call) Fault {
		if c.N <= len(faults) {
			return faults[c.N-1]
		}
		return Pass
	}
}

// Get implements kv.KV.
func (f *Faulty) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	fault := f.decide(Call{Method: "Get", Context: ctx, Key: key, Partition: key.Partition})
	if fault == Pass {
		return f.KV.Get(ctx, key)
	}
	if fault == LoseReply {
		_, _ = f.KV.Get(ctx, key)
	}
	return kv.Item{}, failed(ctx, fault, kv.ErrUnavailable)
}

// List implements kv.KV.
func (f *Faulty) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	fault := f.decide(Call{Method: "List", Context: ctx, Key: prefix, Partition: prefix.Partition})
	if fault == Pass {
		return f.KV.List(ctx, prefix, after, n)
	}
	if fault == LoseReply {
		_, _ = f.KV.List(ctx, prefix, after, n)
	}
	return nil, failed(ctx, fault, kv.ErrUnavailable)
}

// Claim implements kv.KV.
func (f *Faulty) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	fault := f.decide(Call{Method: "Claim", Context: ctx, Partition: p})
	if fault == Pass {
		return f.KV.Claim(ctx, p, now, lease, n)
	}
	if fault == LoseReply {
		_, _, _ = f.KV.Claim(ctx, p, now, lease, n)
	}
	return nil, time.Time{}, failed(ctx, fault, kv.ErrUnavailable)
}

// Commit implements kv.KV.
func (f *Faulty) Commit(ctx context.Context, tx kv.Tx) error {
	fault := f.decide(Call{Method: "Commit", Context: ctx, Tx: &tx, Partition: tx.Partition})
	switch fault {
	case Pass:
		return f.KV.Commit(ctx, tx)
	case Reject:
		return failed(ctx, fault, kv.ErrUnavailable)
	case LoseReply:
		_ = f.KV.Commit(ctx, tx)
	case Delay:
		f.mu.Lock()
		f.delayed = append(f.delayed, copyTx(tx))
		f.mu.Unlock()
	}
	return failed(ctx, fault, kv.ErrUnknown)
}

// Deliver sends the delayed commits to the store in their order and returns the result of each: nil, a
// *kv.Conflict or the store's error.
func (f *Faulty) Deliver(ctx context.Context) []error {
	f.mu.Lock()
	delayed := f.delayed
	f.delayed = nil
	f.mu.Unlock()
	errs := make([]error, len(delayed))
	for i, tx := range delayed {
		errs[i] = f.KV.Commit(ctx, tx)
	}
	return errs
}

// Calls returns the number of calls so far.
func (f *Faulty) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *Faulty) decide(c Call) Fault {
	f.mu.Lock()
	f.calls++
	c.N = f.calls
	f.mu.Unlock()
	if f.Decide == nil {
		return Pass
	}
	return f.Decide(c)
}

func failed(ctx context.Context, fault Fault, as error) error {
	if fault == Hang {
		<-ctx.Done()
		return fmt.Errorf("%w: %w: %s: %w", as, errFault, fault, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w: %s", as, errFault, fault)
}

// copyTx copies all data that the caller may modify after Commit has returned.
func copyTx(tx kv.Tx) kv.Tx {
	tx.Checks = append([]kv.Check(nil), tx.Checks...)
	tx.Held = append([]kv.Held(nil), tx.Held...)
	tx.Deletes = append([]string(nil), tx.Deletes...)
	tx.Cancel = append([]string(nil), tx.Cancel...)
	tx.Puts = append([]kv.Put(nil), tx.Puts...)
	for i := range tx.Puts {
		tx.Puts[i].Value = append([]byte(nil), tx.Puts[i].Value...)
	}
	tx.Schedule = append([]kv.Task(nil), tx.Schedule...)
	for i := range tx.Schedule {
		tx.Schedule[i].Payload = append([]byte(nil), tx.Schedule[i].Payload...)
	}
	return tx
}
