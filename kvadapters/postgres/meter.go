package postgres

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/verge-id/verge/core/kv"
)

// Spend implements kv.Meter, in one round trip.
func (s *Store) Spend(
	ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	if err := cancelled(ctx, "spend"); err != nil {
		return nil, err
	}
	var names []string
	var costs, bounds, locks []int64
	for _, charge := range charges {
		names = append(names, charge.Name)
		// Costs above 73 years are reduced, so that the sum of a request's charges cannot overflow.
		costs = append(costs, min(int64(charge.Cost), math.MaxInt64/(4*kv.MaxTx)))
		bounds = append(bounds, nanos(now.Add(charge.Burst)))
		locks = append(locks, lockOf(s.schema, "counter", s.partition(p), charge.Name))
	}
	slices.Sort(locks)
	var before []time.Time
	err := s.do(ctx, writesAgain, func(ctx context.Context, c *pgx.Conn) error {
		before = make([]time.Time, 0, len(charges))
		var b pgx.Batch
		b.Queue(lockSQL, slices.Compact(locks))
		b.Queue(s.sql.spend, s.partition(p), nanos(now), names, costs, bounds)
		return s.send(ctx, c, &b, func(rows pgx.Rows) error {
			var tat *int64
			if err := rows.Scan(&tat); err != nil {
				return err
			}
			if tat == nil {
				before = append(before, time.Time{})
			} else {
				before = append(before, time.Unix(0, *tat))
			}
			return nil
		})
	})
	if err != nil {
		return nil, failed("spend", err)
	}
	return before, nil
}
