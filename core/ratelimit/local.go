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

	// lookedAt is how many counters of a shard are checked for each new one.
	lookedAt = 8
)

// Local keeps counters in the memory of this process. It forgets counters that are at rest. Its size is
// bounded: if more clients come than it has room for, it forgets those counters first that are closest
// to rest. So a client that is at its limit stays there.
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

// NewLocal returns a Local with at most about that many counters. Zero means 131072.
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

// Meter returns the Local as a kv.Meter. It ignores the partition, because one process has only one.
func (l *Local) Meter() kv.Meter { return localMeter{l} }

type localMeter struct{ *Local }

// Spend implements kv.Meter.
func (m localMeter) Spend(
	ctx context.Context, _ kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	return m.Local.Spend(ctx, now, charges)
}

// Spend implements Store; it never fails.
func (l *Local) Spend(_ context.Context, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	of := make([]*shard, 0, 4) // on the stack, for as many charges as any request has
	var used [shards]bool
	for _, c := range charges {
		n := maphash.String(l.seed, c.Name) % shards
		of, used[n] = append(of, &l.shards[n]), true
	}
	// Lock in the shards' order, so that two calls cannot deadlock.
	for n := range used {
		if used[n] {
			l.shards[n].Lock()
		}
	}
	defer func() {
		for n := range used {
			if used[n] {
				l.shards[n].Unlock()
			}
		}
	}()

	before, fits := make([]time.Time, len(charges)), true
	for i, c := range charges {
		tat := of[i].tats[c.Name]
		// Only a clock that went back leaves a counter further ahead than a burst. The counter is cut
		// to the burst, so that the client waits for one request's cost and not until the old time
		// comes round again.
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

// makeRoom checks a few counters, which a map returns in random order. That is enough, because it checks
// several counters for each added counter.
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
