package wasmhost_test

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/kvadapters/memory"
)

const anIntegration = "0a4e1f7c-1b2d-4c3e-8f4a-5b6c7d8e9f00"

// A guest records the usage that its host has added up. A module of an earlier release reports that it
// cannot, and continues.
func TestRecord(t *testing.T) {
	day := host.DayOf(time.Now())
	totals := host.Totals{
		Days: []host.DayTotal{{Integration: anIntegration, Day: day, Instance: "a",
			Counts: host.Counts{3, 1}}},
		Keys: []host.KeyUse{{Key: "key_0a4e1f7c1b2d4c3e", Day: day}},
	}
	store := memory.New(memory.Config{})
	cfg := config(t, goodGuest)
	cfg.KV = store
	good := start(t, cfg)
	for range 2 {
		if err := good.Record(t.Context(), totals); err != nil {
			t.Fatal(err)
		}
	}
	found := 0
	for _, p := range []kv.Partition{"u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7"} {
		items, err := store.List(t.Context(), kv.Key{Partition: p, Name: "u/" + anIntegration}, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		found += len(items)
	}
	used, err := store.Get(t.Context(), kv.Key{Partition: "c", Name: "c/use/key_0a4e1f7c1b2d4c3e"})
	if found != 1 || err != nil || len(used.Value) == 0 {
		t.Errorf("%d items of the day, and of the key %s, %v", found, used.Value, err)
	}

	old := start(t, config(t, badGuest))
	if err := old.Record(t.Context(), totals); !errors.Is(err, engine.ErrNoUsage) {
		t.Errorf("an old module: %v", err)
	}
	if r := get(old, t.Context(), "/"); r.Status != 200 {
		t.Errorf("afterwards it answers %d", r.Status)
	}
}
