package redis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/redis"
)

// The index of names for List is swept by a separate index, which every put must update.
func TestSweep_ItemPutAgain(t *testing.T) {
	m, clock, advance := mini(t)
	s := open(t, "redis://"+m.Addr(), redis.Config{})
	soon, late := clock.Now().Add(time.Second), clock.Now().Add(time.Hour)
	for name, expires := range map[string][]time.Time{
		"ever":   {soon, {}},
		"longer": {soon, late},
		"gone":   {{}, soon},
		"anew":   {{}, soon, {}},
	} {
		for _, at := range expires {
			commit(t, s, kv.Tx{ID: "id", Partition: "p", Puts: []kv.Put{{Name: name, Expires: at}}})
		}
	}
	advance(time.Minute)
	for range 50 { // not every claim sweeps
		if _, _, err := s.Claim(t.Context(), "p", clock.Now(), time.Second, 1); err != nil {
			t.Fatal(err)
		}
	}
	if names, _ := m.ZMembers("{verge:p}n"); len(names) != 3 {
		t.Errorf("the index holds %q after the sweep, want the three names that were put again", names)
	}
	items, err := s.List(t.Context(), kv.Key{Partition: "p"}, "", 9)
	var listed []string
	for _, it := range items {
		listed = append(listed, it.Key.Name)
	}
	if err != nil || !slices.Equal(listed, []string{"anew", "ever", "longer"}) {
		t.Errorf("the list holds %v, %v; want the three items that were put again", items, err)
	}
}
