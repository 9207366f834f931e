package postgres

import (
	"context"
	"time"
)

// sweepStep is how many rows one transaction of the sweep deletes, so that nobody waits long behind it.
const sweepStep = 100

// sweepUntil removes what has expired until life ends. If a step fails, the next one tries again: nothing
// depends on when an expired item is removed.
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

// sweep makes one step and returns how many rows it deleted.
func (s *Store) sweep(ctx context.Context, sql string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	done, err := s.pool.Exec(ctx, sql, nanos(s.now().Add(-s.grace)), sweepStep)
	return done.RowsAffected(), err
}
