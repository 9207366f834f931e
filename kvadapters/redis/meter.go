package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Spend implements kv.Meter. It counts whole microseconds: it rounds costs up and bursts down. If the reply
// is lost, the charges may have been applied. The caller then denies although it was charged, which is the
// safe side.
func (s *Store) Spend(
	ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	base := s.base(p)
	at := now.UnixMicro()
	asked := &spend{at: at, charges: make([]charge, len(charges))}
	for i, c := range charges {
		cost, burst := int64((c.Cost+time.Microsecond-1)/time.Microsecond), int64(c.Burst/time.Microsecond)
		// Both times are within a Duration, so their sum cannot overflow.
		if at < 0 || cost < 0 || burst < 0 || at > exact/2 || cost > exact/4 || burst > exact/4 {
			return nil, fmt.Errorf("redis: %w: charge of %v within %v to %q at %v: a counter cannot "+
				"hold this exactly",
				kv.ErrUnavailable, c.Cost, c.Burst, c.Name, now)
		}
		asked.charges[i] = charge{base + "r:" + c.Name, cost, burst}
	}
	reply, err := s.do(ctx, request{base: base, script: spendScript, share: asked, size: 64 * len(charges)})
	if err != nil {
		return nil, err
	}
	before, _ := reply.([]any)
	if len(before) != len(charges) {
		return nil, damaged("the reply to %d charges is %v", len(charges), reply)
	}
	tats := make([]time.Time, len(charges))
	for i, v := range before {
		us, ok := v.(int64)
		if !ok {
			return nil, damaged("the reply for the counter %q is %v", charges[i].Name, v)
		}
		if us >= 0 {
			tats[i] = time.UnixMicro(us).UTC()
		}
	}
	return tats, nil
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
	number := func(n int64) { args = append(args, strconv.FormatInt(n, 10)) }
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
