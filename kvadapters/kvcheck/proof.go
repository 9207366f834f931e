package kvcheck

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/internal/promises"
)

// proof tries one promise and returns a violation, or "".
type proof struct {
	about promises.Subject
	name  string
	try   func(context.Context) string
}

// prove returns the first violation of the promise.
func prove(ctx context.Context, p promises.Promise, h promises.Harness) string {
	ctx, end := context.WithCancel(ctx)
	defer end()
	h.KV = finishing(h.KV)
	if reopen := h.Reopen; reopen != nil {
		h.Reopen = func() kv.KV { return finishing(reopen()) }
	}
	h.Advance = func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	w := &witness{end: end}
	done := make(chan struct{})
	go func() { // a separate goroutine, because Fatalf ends it
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				w.Errorf("panic: %v", v)
			}
		}()
		if ctx.Err() != nil {
			w.Fatalf("%v", ctx.Err())
		}
		p.Prove(ctx, w, h)
	}()
	<-done
	return w.seen()
}

// witness keeps the first violation that a proof reports, and ends the proof: later ones are mostly
// consequences of the first.
type witness struct {
	end   func()
	mu    sync.Mutex
	first string
}

var _ promises.T = (*witness)(nil)

func (w *witness) Helper() {}

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == "" {
		w.first = fmt.Sprintf(format, args...)
		w.end()
	}
}

func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}

func (w *witness) Failed() bool { return w.seen() != "" }

func (w *witness) seen() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first
}

// finishing returns a store whose writes do not end with their caller's context. Otherwise a write in
// progress while the scratch place is erased could arrive afterwards and stay.
func finishing(store kv.KV) kv.KV {
	if m, ok := store.(kv.Meter); ok {
		return finishingMeter{finishingKV{store}, m}
	}
	return finishingKV{store}
}

type finishingKV struct{ kv.KV }

func (f finishingKV) Commit(ctx context.Context, tx kv.Tx) error {
	return f.KV.Commit(toTheEnd(ctx), tx)
}

func (f finishingKV) Claim(ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) (
	[]kv.Task, time.Time, error) {
	return f.KV.Claim(toTheEnd(ctx), p, now, lease, n)
}

type finishingMeter struct {
	finishingKV
	meter kv.Meter
}

func (f finishingMeter) Spend(ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge) (
	[]time.Time, error) {
	return f.meter.Spend(toTheEnd(ctx), p, now, charges)
}

// toTheEnd returns a context that never ends, unless ctx has ended already. Adapters limit the time of
// every call themselves.
func toTheEnd(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}
