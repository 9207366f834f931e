package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/verge-id/verge/core/kv"
)

// Measure implements kv.Measurer, in one query: the server's file sizes and statistics, and the first entry
// of an index. The server does not report the free space of its disk.
func (s *Store) Measure(ctx context.Context) (kv.Space, error) {
	space := kv.Space{Unused: -1, Free: -1, Capacity: -1}
	err := s.do(ctx, readsAgain, func(ctx context.Context, c *pgx.Conn) error {
		var oldest *int64
		err := c.QueryRow(ctx, s.sql.measure, s.schema).Scan(&space.Size, &space.DeadRows, &oldest)
		if err == nil && oldest != nil {
			space.Overdue = max(0, s.now().Sub(time.Unix(0, *oldest)))
		}
		return err
	})
	if err != nil {
		return kv.Space{}, failed("measure", err)
	}
	return space, nil
}
