package postgres

import (
	"context"
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
			for {
				n, err := s.sweep(life, sql)
				if err != nil || n < sweepStep {
					break
				}
			}
		}
	}
}

// sweep runs one step and returns the number of deleted rows.
func (s *Store) sweep(ctx context.Context, sql string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	done, err := s.pool.Exec(ctx, sql, nanos(s.now().Add(-s.grace)), sweepStep)
	return done.RowsAffected(), err
}
