package testharness_test

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness"
)

// Without options the store is a miniredis, whose time is the harness's.
func TestDefaultEngine(t *testing.T) {
	h := testharness.New(t, nil)
	if _, ok := h.KV.(*redis.Store); !ok {
		t.Fatalf("the store is a %T", h.KV)
	}
	key := kv.Key{Partition: "own", Name: "a"}
	for name, move := range map[string]func(time.Duration){
		"Advance":   h.Advance,
		"AdvanceTo": func(d time.Duration) { h.AdvanceTo(h.Now().Add(d)) },
		"Pause":     h.Pause,
	} {
		t.Run(name, func(t *testing.T) {
			err := h.KV.Commit(t.Context(), kv.Tx{ID: name, Partition: key.Partition,
				Puts: []kv.Put{{Name: key.Name, Expires: h.Now().Add(time.Hour)}}})
			if err != nil {
				t.Fatal(err)
			}
			move(time.Hour - time.Millisecond)
			if _, err := h.KV.Get(t.Context(), key); err != nil {
				t.Errorf("a millisecond before its expiry: %v", err)
			}
			move(time.Millisecond)
			if _, err := h.KV.Get(t.Context(), key); !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("at its expiry: %v", err)
			}
		})
	}
}
