package kvtest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/stores"
)

func TestClocked_Promises(t *testing.T) {
	t.Run("over memory whose clock stands still", func(t *testing.T) {
		kvtest.Run(t, func(*testing.T) kvtest.Harness {
			clock, still := kvtest.NewClock(), kvtest.NewClock()
			store := kvtest.Clocked(memory.New(memory.Config{Now: still.Now}), clock.Now)
			return kvtest.Harness{KV: store, Now: clock.Now, Advance: clock.Advance}
		})
	})
	t.Run("over a real Redis whose clock runs", func(t *testing.T) {
		server := stores.StartRedis(t, stores.Durable...)
		var stands atomic.Int64
		kvtest.Run(t, func(t *testing.T) kvtest.Harness {
			clock := kvtest.NewClock()
			prefix := fmt.Sprint("clocked", stands.Add(1))
			open := func() kv.KV {
				s, err := redis.Open(t.Context(), server.URL(), redis.Config{Prefix: prefix})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return kvtest.Clocked(s, clock.Now)
			}
			return kvtest.Harness{KV: open(), Now: clock.Now, Advance: clock.Advance, Reopen: func() kv.KV {
				server.Kill()
				server.Start()
				return open()
			}}
		})
	})
}

var ctx, itemA = context.Background(), kv.Key{Partition: "p", Name: "a"}

// putA returns a transaction that writes itemA.
func putA(id string, expires time.Time, checks ...kv.Check) kv.Tx {
	return kv.Tx{
		ID:        id,
		Partition: "p",
		Checks:    checks,
		Puts:      []kv.Put{{Name: "a", Value: []byte(id), Expires: expires}},
	}
}

func commit(t *testing.T, s kv.KV, tx kv.Tx) {
	t.Helper()
	if err := s.Commit(ctx, tx); err != nil {
		t.Fatal(err)
	}
}

// TestClocked covers the behaviour that the promises of kv do not distinguish.
func TestClocked(t *testing.T) {
	t.Run("items do not expire by the store's own clock", func(t *testing.T) {
		clock, own := kvtest.NewClock(), kvtest.NewClock()
		s := kvtest.Clocked(memory.New(memory.Config{Now: own.Now}), clock.Now)
		commit(t, s, putA("t1", clock.Now().Add(time.Second)))
		own.Advance(100 * 365 * 24 * time.Hour)
		if it, err := s.Get(ctx, itemA); err != nil || !it.Expires.Equal(clock.Now().Add(time.Second)) {
			t.Errorf("got an item until %v, %v", it.Expires, err)
		}
	})
	t.Run("the caller's transaction is not changed", func(t *testing.T) {
		clock := kvtest.NewClock()
		s := kvtest.Clocked(memory.New(memory.Config{Now: clock.Now}), clock.Now)
		tx := putA("t1", clock.Now().Add(time.Second))
		commit(t, s, tx)
		if want := clock.Now().Add(time.Second); !tx.Puts[0].Expires.Equal(want) {
			t.Errorf("its put expires at %v, want %v", tx.Puts[0].Expires, want)
		}
	})
	t.Run("a conflict has the current item and not the expired one", func(t *testing.T) {
		clock := kvtest.NewClock()
		s := kvtest.Clocked(memory.New(memory.Config{Now: clock.Now}), clock.Now)
		commit(t, s, putA("t1", clock.Now().Add(time.Second)))
		commit(t, s, kv.Tx{ID: "t2", Partition: "p", Puts: []kv.Put{{Name: "b"}}})
		clock.Advance(time.Second)
		err := s.Commit(ctx, putA("t3", time.Time{}, kv.Check{Name: "a"}, kv.Check{Name: "b"}))
		var c *kv.Conflict
		if !errors.As(err, &c) || len(c.Items) != 1 || c.Items[0].Key.Name != "b" {
			t.Errorf("%v, want a conflict on b only", err)
		}
	})
	t.Run("it is a meter if the store is one", func(t *testing.T) {
		clock := kvtest.NewClock()
		if _, is := kvtest.Clocked(memory.New(memory.Config{}), clock.Now).(kv.Meter); is {
			t.Error("Clocked over memory is a meter, though memory is not")
		}
		s, is := kvtest.Clocked(meter{}, clock.Now).(kv.Meter)
		if !is {
			t.Fatal("Clocked over a meter is not a meter")
		}
		if tats, err := s.Spend(ctx, "p", clock.Now(), []kv.Charge{{}}); len(tats) != 1 || err != nil {
			t.Errorf("Clocked does not ask the meter: %v, %v", tats, err)
		}
	})
}

// Clocked removes an expired item before it writes. That may fail, and another commit may be faster.
func TestClocked_RemovesExpired(t *testing.T) {
	t.Run("if an expired item cannot be removed nothing changes", func(t *testing.T) {
		clock := kvtest.NewClock()
		f := &kvtest.Faulty{KV: memory.New(memory.Config{Now: clock.Now})}
		s := kvtest.Clocked(f, clock.Now)
		commit(t, s, putA("t1", clock.Now().Add(time.Second)))
		clock.Advance(time.Second)
		commits := 0
		f.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method == "Commit" {
				if commits++; commits == 2 {
					return kvtest.LoseReply
				}
			}
			return kvtest.Pass
		}
		err := s.Commit(ctx, putA("t2", time.Time{}, kv.Check{Name: "a"}))
		if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) {
			t.Errorf("%v, want kv.ErrUnavailable and not kv.ErrUnknown: the transaction was not tried", err)
		}
		if _, err := s.Get(ctx, itemA); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("then Get returns %v", err)
		}
	})
	t.Run("an item that replaces an expired one stays", func(t *testing.T) {
		clock := kvtest.NewClock()
		under := memory.New(memory.Config{Now: clock.Now})
		f := &kvtest.Faulty{KV: under}
		s := kvtest.Clocked(f, clock.Now)
		other := kvtest.Clocked(under, clock.Now)
		commit(t, s, putA("t1", clock.Now().Add(time.Second)))
		clock.Advance(time.Second)
		commits := 0
		f.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method == "Commit" {
				if commits++; commits == 2 { // s is about to remove t1
					commit(t, other, putA("t2", time.Time{}))
				}
			}
			return kvtest.Pass
		}
		err := s.Commit(ctx, putA("t3", time.Time{}, kv.Check{Name: "a"}))
		var c *kv.Conflict
		if !errors.As(err, &c) || len(c.Items) != 1 || c.Items[0].Tx != "t2" {
			t.Errorf("%v, want a conflict with t2", err)
		}
		if it, err := s.Get(ctx, itemA); err != nil || it.Tx != "t2" {
			t.Errorf("then it has the item of %q, %v", it.Tx, err)
		}
	})
}

// meter is a store with counters only.
type meter struct{ kv.KV }

func (meter) Spend(_ context.Context, _ kv.Partition, _ time.Time, charges []kv.Charge) ([]time.Time, error) {
	return make([]time.Time, len(charges)), nil
}
