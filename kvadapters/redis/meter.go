package redis

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Spend implements kv.Meter. It counts whole microseconds: it rounds costs up and bursts down. If the reply
// is lost, the charges may have been applied. The caller then denies although it was charged, which is the
// safe side.
//
// On a Cluster, the counters of a partition are on all nodes. Charges on several shards are applied one shard
// after the other, in the order of the charges. If one denies, those before it are given back, unless their
// node is down: that is again the safe side.
func (s *Store) Spend(
	ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	at := now.UnixMicro()
	var parts []*part
	for i, c := range charges {
		cost, burst := int64((c.Cost+time.Microsecond-1)/time.Microsecond), int64(c.Burst/time.Microsecond)
		// Both times are within a Duration, so their sum cannot overflow.
		if at < 0 || cost < 0 || burst < 0 || at > exact/2 || cost > exact/4 || burst > exact/4 {
			return nil, fmt.Errorf("redis: %w: charge of %v within %v to %q at %v: a counter cannot "+
				"hold this exactly",
				kv.ErrUnavailable, c.Cost, c.Burst, c.Name, now)
		}
		base := s.counterBase(p, c.Name)
		n := slices.IndexFunc(parts, func(g *part) bool { return g.base == base })
		if n < 0 {
			n, parts = len(parts), append(parts, &part{base: base})
		}
		parts[n].places = append(parts[n].places, i)
		parts[n].charges = append(parts[n].charges, charge{base + "r:" + c.Name, cost, burst})
	}
	tats := make([]time.Time, len(charges))
	for i, g := range parts {
		fits, err := s.spendPart(ctx, g, at, tats)
		if err != nil {
			s.giveBack(ctx, parts[:i], at)
			return nil, err
		}
		if !fits {
			s.giveBack(ctx, parts[:i], at)
			return tats, s.readParts(ctx, parts[i+1:], at, tats)
		}
	}
	return tats, nil
}

// part is the charges of one call of Spend that are on the same shard.
type part struct {
	base    string
	charges []charge
	places  []int   // of the charges in the call
	before  []int64 // the counters before the charges; -1 for a new one
}

// spendPart applies the charges of a part, if all of them fit. It stores the previous counters in the part
// and in tats.
func (s *Store) spendPart(ctx context.Context, g *part, at int64, tats []time.Time) (fits bool, err error) {
	asked := &spend{at: at, charges: g.charges}
	reply, err := s.do(ctx, request{base: g.base, script: spendScript, share: asked,
		size: 64 * len(g.charges)})
	if err != nil {
		return false, err
	}
	before, _ := reply.([]any)
	if len(before) != len(g.charges) {
		return false, damaged("the reply to %d charges is %v", len(g.charges), reply)
	}
	fits = true
	for i, v := range before {
		c := g.charges[i]
		us, ok := v.(int64)
		if !ok {
			return false, damaged("the reply for the counter %q is %v", c.key, v)
		}
		if us >= 0 {
			tats[g.places[i]] = time.UnixMicro(us).UTC()
		}
		g.before = append(g.before, us)
		fits = fits && max(us, at)+c.cost <= at+c.burst
	}
	return fits, nil
}

// giveBack reverses the charges of parts, even if ctx is done. A failure leaves them applied.
func (s *Store) giveBack(ctx context.Context, parts []*part, at int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	for _, g := range parts {
		r := request{base: g.base, script: giveBackScript, args: []any{decimal(at)}}
		for i, c := range g.charges {
			r.keys = append(r.keys, c.key)
			r.args = append(r.args, decimal(g.before[i]), decimal(max(g.before[i], at)+c.cost))
		}
		_, _ = s.do(ctx, r)
	}
}

// readParts stores the counters of parts in tats and charges none.
func (s *Store) readParts(ctx context.Context, parts []*part, at int64, tats []time.Time) error {
	for _, g := range parts {
		for i := range g.charges {
			g.charges[i].cost, g.charges[i].burst = 0, -1 // never fits
		}
		if _, err := s.spendPart(ctx, g, at, tats); err != nil {
			return err
		}
	}
	return nil
}

// counterShards is the number of hash tags over which a Cluster spreads the counters of a partition. Each
// node has several of them.
const counterShards = 64

// counterBase returns the prefix of a counter's key, which is its hash tag. On a Cluster, the tag has the
// number of the counter's shard. An escaped partition has no "%s", so the tag is not that of a partition.
func (s *Store) counterBase(p kv.Partition, name string) string {
	base := s.base(p)
	if s.cluster() == nil {
		return base
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return strings.TrimSuffix(base, "}") + "%s" + strconv.Itoa(int(h.Sum32()%counterShards)) + "}"
}

// spend is one call of Spend as input of the script, in microseconds.
type spend struct {
	at      int64
	charges []charge
}

type charge struct {
	key         string
	cost, burst int64
}

func (s *spend) run(string) run { return &spends{s} }

func (s *spend) replies() int { return len(s.charges) }

// spends is a run of the script with several calls of Spend, executed in order.
type spends []*spend

func (all *spends) take(other shareable) bool {
	s, ok := other.(*spend)
	if ok {
		*all = append(*all, s)
	}
	return ok
}

// harmless returns true: a repeated charge denies sooner, which is the safe side.
func (all *spends) harmless() bool { return true }

func (all *spends) words() (keys []string, args []any) {
	args = make([]any, 0, 5*len(*all))
	number := func(n int64) { args = append(args, decimal(n)) }
	for _, s := range *all {
		number(s.at)
		number(int64(len(s.charges)))
		for _, c := range s.charges {
			i := slices.Index(keys, c.key)
			if i < 0 {
				i = len(keys)
				keys = append(keys, c.key)
			}
			number(int64(i + 1))
			number(c.cost)
			number(c.burst)
		}
	}
	return keys, args
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
