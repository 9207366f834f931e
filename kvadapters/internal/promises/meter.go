package promises

import (
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// spend charges counters of partition p. The store must have counters.
func (r *run) spend(p kv.Partition, now time.Time, charges ...kv.Charge) []time.Time {
	r.Helper()
	tats, err := r.KV.(kv.Meter).Spend(r.ctx, p, now, charges)
	if err != nil {
		r.Fatalf("spend: %v", err)
	}
	if len(tats) != len(charges) {
		r.Fatalf("the result of %d charges has %d times", len(charges), len(tats))
	}
	return tats
}

func (r *run) wantTAT(got, want time.Time, why string) {
	r.Helper()
	if !got.Equal(want) {
		r.Errorf("the counter stood at %s, want %s: %s", stamp(got), stamp(want), why)
	}
}

var meterPromises = []Promise{
	{Counters, Meter, "a charge within its burst moves the counter and one over it does not", func(r *run) {
		charge := kv.Charge{Name: "c", Cost: 2 * second, Burst: 4 * second}
		r.wantTAT(r.spend(part, r.start, charge)[0], time.Time{}, "it was never charged")
		r.wantTAT(r.spend(part, r.start, charge)[0], r.at(2*second), "it was charged once")
		r.wantTAT(r.spend(part, r.start, charge)[0], r.at(4*second), "it was charged twice")
		r.wantTAT(r.spend(part, r.start, charge)[0], r.at(4*second), "the third charge was over the burst")
		r.wantTAT(r.spend(part, r.at(2*second), charge)[0], r.at(4*second), "nothing was charged since")
		r.wantTAT(r.spend(part, r.at(2*second), charge)[0], r.at(6*second),
			"two seconds later there was room for one charge")
	}},
	{Counters, Meter, "all charges happen or none", func(r *run) {
		narrow := kv.Charge{Name: "narrow", Cost: second, Burst: second}
		wide := kv.Charge{Name: "wide", Cost: second, Burst: 100 * second}
		r.spend(part, r.start, wide, narrow)
		r.spend(part, r.start, wide, narrow)
		tats := r.spend(part, r.start, wide, narrow)
		r.wantTAT(tats[0], r.at(second), "the second charge went over the burst of the other counter")
		r.wantTAT(tats[1], r.at(second), "the second charge was over its burst")
	}},
	{Counters, Meter, "a counter is one to all who charge it at the same time", func(r *run) {
		// One round often passes by luck, even if a store charges by a read and a later write.
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			r.chargeTogether(name)
		}
	}},
	{Counters, Meter, "counters of one name in two partitions are two", func(r *run) {
		charge := kv.Charge{Name: "c", Cost: second, Burst: second}
		r.spend("p", r.start, charge)
		r.wantTAT(r.spend("q", r.start, charge)[0], time.Time{}, "only the other partition's was charged")
		r.put("c", "an item", never)
		r.wantTAT(r.spend("p", r.start, charge)[0], r.at(second), "it was charged once")
		r.wantValue("c", "an item")
	}},
}

// chargeTogether charges a counter three times as often as its burst allows, all at the same time.
func (r *run) chargeTogether(name string) {
	const burst = 20
	charge := kv.Charge{Name: name, Cost: second, Burst: burst * second}
	var passed atomic.Int64
	parallel(3*burst, func(int) {
		tats, err := r.KV.(kv.Meter).Spend(r.ctx, part, r.start, []kv.Charge{charge})
		if err != nil || len(tats) != 1 {
			r.Errorf("spend: %v, %v", tats, err)
			return
		}
		if tat := tats[0]; tat.IsZero() || !tat.Add(charge.Cost).After(r.start.Add(charge.Burst)) {
			passed.Add(1)
		}
	})
	if n := passed.Load(); n != burst {
		r.Errorf("%d of %d concurrent charges succeeded, want the %d that the burst allows", n, 3*burst,
			burst)
	}
}
