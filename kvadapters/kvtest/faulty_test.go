package kvtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

func TestFaultyCommit(t *testing.T) {
	key := kv.Key{Partition: "p", Name: "a"}
	for _, c := range []struct {
		fault   kvtest.Fault
		want    error // nil: none
		applied bool
		later   bool // Deliver applies it
	}{
		{kvtest.Pass, nil, true, false},
		{kvtest.Reject, kv.ErrUnavailable, false, false},
		{kvtest.LoseRequest, kv.ErrUnknown, false, false},
		{kvtest.LoseReply, kv.ErrUnknown, true, false},
		{kvtest.Delay, kv.ErrUnknown, false, true},
		{kvtest.Hang, kv.ErrUnknown, false, false},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			f := &kvtest.Faulty{KV: memory.New(memory.Config{}), Decide: kvtest.Script(c.fault)}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if c.fault == kvtest.Hang {
				time.AfterFunc(time.Millisecond, cancel)
			}
			value := []byte("1")
			err := f.Commit(ctx, kv.Tx{ID: "t1", Partition: "p", Puts: []kv.Put{{Name: "a", Value: value}}})
			if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), "injected fault") {
				t.Errorf("got %v, want %v and the name of kvtest", err, c.want)
			}
			if c.want == kv.ErrUnknown && errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("%v is both unknown and unavailable", err)
			}
			if c.fault == kvtest.Hang && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's cause in it", err)
			}
			_, err = f.Get(t.Context(), key)
			if applied := err == nil; applied != c.applied {
				t.Errorf("applied: %v, want %v", applied, c.applied)
			}
			value[0] = 'x' // after Commit the caller may modify its slice
			if n := len(f.Deliver(t.Context())); (n == 1) != c.later {
				t.Errorf("Deliver sent %d commits", n)
			}
			it, err := f.Get(t.Context(), key)
			if there := err == nil; there != (c.applied || c.later) || there && string(it.Value) != "1" {
				t.Errorf("in the end: %q, %v", it.Value, err)
			}
			if f.Calls() != 3 {
				t.Errorf("counted %d calls, want 3", f.Calls())
			}
		})
	}
}

func TestFaulty_ClaimReplyLost(t *testing.T) {
	for fault, leased := range map[kvtest.Fault]bool{
		kvtest.LoseReply:   true,
		kvtest.LoseRequest: false,
		kvtest.Reject:      false,
		kvtest.Delay:       false,
	} {
		f := &kvtest.Faulty{KV: memory.New(memory.Config{}), Decide: kvtest.Script(kvtest.Pass, fault)}
		due := time.Unix(1, 0)
		err := f.Commit(t.Context(), kv.Tx{ID: "1", Partition: "p", Schedule: []kv.Task{{ID: "t", Due: due}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Claim(t.Context(), "p", due, time.Minute, 1); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("%v: %v, want ErrUnavailable", fault, err)
		}
		tasks, _, err := f.Claim(t.Context(), "p", due, time.Minute, 1)
		if err != nil || (len(tasks) == 0) != leased {
			t.Errorf("%v: then claimed %v, %v; leased before: want %v", fault, tasks, err, leased)
		}
	}
}

func TestFaultyReads(t *testing.T) {
	for _, fault := range []kvtest.Fault{kvtest.Reject, kvtest.LoseRequest, kvtest.LoseReply, kvtest.Delay} {
		f := &kvtest.Faulty{KV: memory.New(memory.Config{}), Decide: kvtest.Script(fault, fault)}
		_, err := f.Get(t.Context(), kv.Key{Partition: "p", Name: "a"})
		if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrNotFound) {
			t.Errorf("get under %v: %v, want ErrUnavailable", fault, err)
		}
		if _, err := f.List(t.Context(), kv.Key{Partition: "p"}, "", 1); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("list under %v: %v, want ErrUnavailable", fault, err)
		}
	}
}

func TestSeeded_Deterministic(t *testing.T) {
	p := map[kvtest.Fault]float64{kvtest.Reject: 0.1, kvtest.LoseReply: 0.2, kvtest.Delay: 0.1}
	a, b, other := kvtest.Seeded(7, p), kvtest.Seeded(7, p), kvtest.Seeded(8, p)
	count := make(map[kvtest.Fault]int)
	differs := false
	for range 10_000 {
		fault := a(kvtest.Call{})
		if fault != b(kvtest.Call{}) {
			t.Fatal("one seed gave two sequences")
		}
		differs = differs || fault != other(kvtest.Call{})
		count[fault]++
	}
	if !differs {
		t.Error("two seeds gave the same ten thousand decisions")
	}
	for fault, want := range map[kvtest.Fault]int{
		kvtest.Pass:      6000,
		kvtest.Reject:    1000,
		kvtest.LoseReply: 2000,
		kvtest.Delay:     1000,
		kvtest.Hang:      0,
	} {
		if got := count[fault]; got < want-300 || got > want+300 {
			t.Errorf("%v was decided %d times of 10,000, want about %d", fault, got, want)
		}
	}
}
