package memory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

func TestKV(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		clock := kvtest.NewClock()
		store := memory.New(memory.Config{Now: clock.Now})
		return kvtest.Harness{KV: store, Now: clock.Now, Advance: clock.Advance}
	})
}

func put(t *testing.T, s *memory.Store, name string, expires time.Time) {
	t.Helper()
	err := s.Commit(context.Background(), kv.Tx{
		ID:        "id",
		Partition: "p",
		Puts:      []kv.Put{{Name: name, Value: make([]byte, 100), Expires: expires}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSweep_ExpiredItemsLimited(t *testing.T) {
	clock := kvtest.NewClock()
	s := memory.New(memory.Config{Now: clock.Now})
	for i := range 10_000 {
		put(t, s, fmt.Sprint(i), clock.Now().Add(10*time.Second))
		clock.Advance(time.Second)
	}
	if got := s.Size(); got.Items > 20 {
		t.Errorf("the store keeps %d items; each of the 10,000 expired after nine more puts, so "+
			"want at most 20",
			got.Items)
	}

	for i := range 1000 {
		put(t, s, fmt.Sprint(i), clock.Now().Add(10*time.Second))
	}
	clock.Advance(time.Minute)
	for range 1000 {
		if _, _, err := s.Claim(t.Context(), "p", clock.Now(), time.Second, 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Size(); got != (memory.Size{}) {
		t.Errorf("a partition whose only calls are claims still has %+v, want no data", got)
	}
}

func TestSize(t *testing.T) {
	s := memory.New(memory.Config{})
	put(t, s, "a", time.Time{})
	put(t, s, "a", time.Time{})
	task := kv.Task{ID: "t", Due: time.Unix(1, 0), Payload: make([]byte, 9)}
	if err := s.Commit(t.Context(), kv.Tx{ID: "id", Partition: "p", Schedule: []kv.Task{task}}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Size(), (memory.Size{Items: 1, Tasks: 1, Bytes: 111}); got != want {
		t.Errorf("size %+v, want %+v", got, want)
	}
	if _, err := s.Get(t.Context(), kv.Key{Partition: "q", Name: "a"}); err == nil {
		t.Error("get found an item in a partition that has no commit")
	}
}
