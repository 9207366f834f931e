package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Spend implements kv.Meter. It counts in whole microseconds: costs are
// rounded up and bursts down. Where the reply is lost, the charges may have
// been applied: the caller denies and pays, which errs to the safe side.
func (s *Store) Spend(ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	base := s.base(p)
	at := now.UnixMicro()
	r := request{base: base, script: spendScript, args: make([]any, 1, 1+2*len(charges))}
	r.args[0] = strconv.FormatInt(at, 10)
	for _, c := range charges {
		cost, burst := int64((c.Cost+time.Microsecond-1)/time.Microsecond), int64(c.Burst/time.Microsecond)
		// Both within a duration, so the sum cannot overflow.
		if at < 0 || cost < 0 || burst < 0 || at > exact/2 || cost > exact/4 || burst > exact/4 {
			return nil, fmt.Errorf("redis: %w: charge of %v within %v to %q at %v: outside of what a counter holds exactly",
				kv.ErrUnavailable, c.Cost, c.Burst, c.Name, now)
		}
		r.keys = append(r.keys, base+"r:"+c.Name)
		r.args = append(r.args, strconv.FormatInt(cost, 10), strconv.FormatInt(burst, 10))
	}
	reply, err := s.do(ctx, r)
	if err != nil {
		return nil, err
	}
	before, _ := reply.([]any)
	if len(before) != len(charges) {
		return nil, damaged("%d charges are answered by %v", len(charges), reply)
	}
	tats := make([]time.Time, len(charges))
	for i, v := range before {
		if text(v) == "" {
			continue
		}
		us, err := strconv.ParseInt(text(v), 10, 64)
		if err != nil {
			return nil, damaged("the counter %q holds %q", charges[i].Name, text(v))
		}
		tats[i] = time.UnixMicro(us).UTC()
	}
	return tats, nil
}
