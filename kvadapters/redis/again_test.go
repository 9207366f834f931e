package redis_test

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/redis"
)

// The names in List's order are swept by an index of their own, which has to
// follow every put.
func TestAnItemThatIsPutAgainStaysInTheList(t *testing.T) {
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
		t.Errorf("the index holds %q after the sweep", names)
	}
	items, err := s.List(t.Context(), kv.Key{Partition: "p"}, "", 9)
	if err != nil || len(items) != 3 || items[0].Key.Name != "anew" || items[1].Key.Name != "ever" || items[2].Key.Name != "longer" {
		t.Errorf("the list holds %v, %v; want what was put again to last", items, err)
	}
}
