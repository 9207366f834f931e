package postgres

import (
	"context"
	"math"
	"time"
)

// sweepStep is the maximum number of rows per transaction of the sweep, so that other calls do not wait
// long.
const sweepStep = 100

// sweepUntil removes expired items until life ends. If a step fails, the next one tries again: the time of
// the removal does not matter.
func (s *Store) sweepUntil(life context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		for _, sql := range []string{s.sql.sweepItems, s.sql.sweepCounters} {
			for from := int64(math.MinInt64); ; {
				n, end, err := s.sweep(life, sql, from)
				if err != nil || n < sweepStep {
					break
				}
				from = end
			}
		}
	}
}

// sweep runs one step from the given place in the index on. It returns the number of deleted rows and the
// place of the last one.
func (s *Store) sweep(ctx context.Context, sql string, from int64) (n, end int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, sql, nanos(s.now().Add(-s.grace)), sweepStep, from).Scan(&n, &end)
	return n, end, err
}
