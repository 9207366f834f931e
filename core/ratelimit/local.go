package ratelimit

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

const (
	shards = 16

	// defaultCounters is how many counters a Local keeps unless told
	// otherwise: twice the /64s of a /48, in some 20 MB.
	defaultCounters = 1 << 17

	// lookedAt is how many counters of a shard are looked at for each new one.
	lookedAt = 8
)

// Local keeps counters in this process. It forgets those that are full again,
// and is bounded: when more clients come than it has room for, it forgets a
// counter that owes little before one that owes much, so that whoever is at
// the limit stays there.
type Local struct {
	seed   maphash.Seed
	max    int // per shard
	shards [shards]shard
}

var _ Store = (*Local)(nil)

type shard struct {
	sync.Mutex
	tats map[string]time.Time
}

// NewLocal returns a Local of at most about so many counters, zero for 131072.
func NewLocal(counters int) *Local {
	if counters == 0 {
		counters = defaultCounters
	}
	l := &Local{seed: maphash.MakeSeed(), max: max(1, counters/shards)}
	for i := range l.shards {
		l.shards[i].tats = map[string]time.Time{}
	}
	return l
}

// Meter is the same for who asks for a partition: one process has one.
func (l *Local) Meter() kv.Meter { return localMeter{l} }

type localMeter struct{ *Local }

// Spend implements kv.Meter.
func (m localMeter) Spend(ctx context.Context, _ kv.Partition, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	return m.Local.Spend(ctx, now, charges)
}

// Spend implements Store; it never fails.
func (l *Local) Spend(_ context.Context, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	of := make([]*shard, len(charges))
	var used [shards]bool
	for i, c := range charges {
		n := maphash.String(l.seed, c.Name) % shards
		of[i], used[n] = &l.shards[n], true
	}
	// In the shards' order, so that no two calls wait for one another.
	for n := range used {
		if used[n] {
			l.shards[n].Lock()
			defer l.shards[n].Unlock()
		}
	}

	before, fits := make([]time.Time, len(charges)), true
	for i, c := range charges {
		tat := of[i].tats[c.Name]
		// Further ahead than a burst is only what a clock that went back has
		// left behind. Cut, a client waits for one request's worth and not
		// until the old time comes round again.
		if limit := now.Add(c.Burst); tat.After(limit) {
			tat = limit
			of[i].tats[c.Name] = tat
		}
		before[i] = tat
		fits = fits && later(tat, now).Add(c.Cost).Sub(now) <= c.Burst
	}
	if fits {
		for i, c := range charges {
			of[i].put(c.Name, later(before[i], now).Add(c.Cost), now, l.max)
		}
	}
	return before, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *shard) put(name string, tat, now time.Time, most int) {
	if _, known := s.tats[name]; !known {
		s.makeRoom(now, most)
	}
	s.tats[name] = tat
}

// makeRoom looks at a few counters, which a map offers in no foreseeable
// order. That is enough: as many more are looked at as are ever added.
func (s *shard) makeRoom(now time.Time, most int) {
	var leastName string
	var least time.Time
	n := 0
	for name, tat := range s.tats {
		if !tat.After(now) {
			delete(s.tats, name)
		} else if least.IsZero() || tat.Before(least) {
			leastName, least = name, tat
		}
		if n++; n == lookedAt {
			break
		}
	}
	if len(s.tats) >= most {
		delete(s.tats, leastName)
	}
}
