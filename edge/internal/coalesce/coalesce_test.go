package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/internal/coalesce"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

// TestKV runs the suite for stores with every partition coalesced.
func TestKV(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		clock := kvtest.NewClock()
		store := kv.KV(memory.New(memory.Config{Now: clock.Now}))
		for n := range 4 {
			store = coalesce.Reads(store, kv.Partition(fmt.Sprint("p", n)))
		}
		return kvtest.Harness{KV: store, Now: clock.Now, Advance: clock.Advance}
	})
}

// slow is a store whose reads take a second or end with their context.
type slow struct {
	kv.KV
	gets, lists atomic.Int32
	hang        atomic.Int32 // number of next reads that hang
}

func (s *slow) wait(ctx context.Context) error {
	took := time.Second
	if s.hang.Add(-1) >= 0 {
		took = time.Hour
	}
	select {
	case <-time.After(took):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", kv.ErrUnavailable, ctx.Err())
	}
}

// Get reads before the pause, so it returns the item at the time of the call.
func (s *slow) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	s.gets.Add(1)
	it, err := s.KV.Get(ctx, key)
	return it, errors.Join(err, s.wait(ctx))
}

func (s *slow) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	s.lists.Add(1)
	its, err := s.KV.List(ctx, prefix, after, n)
	return its, errors.Join(err, s.wait(ctx))
}

var (
	ctx  = context.Background()
	name = kv.Key{Partition: "c", Name: "c/int/x"}
)

func put(t *testing.T, store kv.KV, p kv.Partition, value string) {
	t.Helper()
	err := store.Commit(ctx, kv.Tx{
		ID:        "tx-" + value,
		Partition: p,
		Puts:      []kv.Put{{Name: name.Name, Value: []byte(value)}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func open() (*slow, kv.KV) {
	s := &slow{KV: memory.New(memory.Config{Now: time.Now})}
	return s, coalesce.Reads(s, "c")
}

func TestReads_Concurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := open()
		put(t, store, "c", "1")
		began := time.Now()
		var wait sync.WaitGroup
		for range 100 {
			wait.Go(func() {
				it, err := store.Get(ctx, name)
				if err != nil || string(it.Value) != "1" || it.Tx != "tx-1" {
					t.Errorf("contract 30: %q, %v", it.Value, err)
				}
				it.Value[0] = 'x' // each caller has its own copy
			})
			wait.Go(func() {
				its, err := store.List(ctx, kv.Key{Partition: "c", Name: "c/"}, "", 10)
				if err != nil || len(its) != 1 || string(its[0].Value) != "1" {
					t.Errorf("contract 30: %v, %v", its, err)
				}
			})
		}
		wait.Wait()
		if gets, lists := s.gets.Load(), s.lists.Load(); gets != 2 || lists != 2 {
			t.Errorf("contract 30: 100 concurrent misses asked the store %d and %d times", gets, lists)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("they took %s, though a read takes 1 s", took)
		}
		if it, err := store.Get(ctx, name); err != nil || s.gets.Load() != 3 || string(it.Value) != "1" {
			t.Errorf("a single read: %v", err)
		}
	})
}

// A read must see every commit that returned before it, even if an older read is in progress.
func TestReads_EarlierCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store := open()
		put(t, store, "c", "0")
		var wait sync.WaitGroup
		for n := range 9 {
			for range 3 {
				wait.Go(func() {
					it, err := store.Get(ctx, name)
					its, listErr := store.List(ctx, kv.Key{Partition: "c", Name: "c/"}, "", 10)
					if err != nil || listErr != nil {
						t.Errorf("kv.Get: %v, kv.List: %v", err, listErr)
						return
					}
					if string(it.Value) < fmt.Sprint(n) || string(its[0].Value) < fmt.Sprint(n) {
						t.Errorf("kv.Get: %q and %q are older than %d", it.Value, its[0].Value, n)
					}
				})
			}
			synctest.Wait()
			time.Sleep(300 * time.Millisecond)
			put(t, store, "c", fmt.Sprint(n+1))
		}
		wait.Wait()
	})
}

// A read that hangs must not delay later reads. A caller that stops waiting must not affect others that
// wait for the same read.
func TestReads_Hanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := open()
		put(t, store, "c", "1")
		s.hang.Store(1)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err := store.Get(short, name)
			if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a caller that stops waiting: %v", err)
			}
		})
		synctest.Wait()
		began := time.Now()
		wait.Go(func() {
			if _, err := store.Get(short, name); !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("a caller that stops waiting: %v", err)
			}
		})
		for range 10 {
			wait.Go(func() {
				if it, err := store.Get(ctx, name); err != nil || string(it.Value) != "1" {
					t.Errorf("%q, %v", it.Value, err)
				}
			})
		}
		wait.Wait()
		if took := time.Since(began); took > 1200*time.Millisecond || s.gets.Load() != 2 {
			t.Errorf("%d reads, %s", s.gets.Load(), took)
		}
		time.Sleep(time.Minute) // the hanging read has timed out
		if it, err := store.Get(ctx, name); err != nil || string(it.Value) != "1" {
			t.Errorf("%q, %v", it.Value, err)
		}
	})
}

func TestReads_OtherPartitionAndError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := open()
		other := kv.Key{Partition: "p0", Name: name.Name}
		put(t, store, "p0", "1")
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() {
				if it, err := store.Get(ctx, other); err != nil || string(it.Value) != "1" {
					t.Error(err)
				}
			})
			wait.Go(func() {
				if _, err := store.Get(ctx, name); !errors.Is(err, kv.ErrNotFound) {
					t.Errorf("%v, want not found", err)
				}
			})
		}
		wait.Wait()
		if got := s.gets.Load(); got != 5+2 {
			t.Errorf("%d reads, want 7", got)
		}
	})
	if _, ok := coalesce.Reads(&slow{}, "c").(kv.Meter); ok {
		t.Error("the result is a meter, though the store is not")
	}
	if _, ok := coalesce.Reads(struct {
		kv.KV
		kv.Meter
	}{}, "c").(kv.Meter); !ok {
		t.Error("the result is not a meter, though the store is")
	}
}
