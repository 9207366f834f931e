package redis

import (
	"context"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
)

// Measure implements kv.Measurer, by INFO of each primary. Size is the memory of the servers, including the
// data of other programs. A server removes expired items itself. If the user may not run INFO, or a server
// has no maxmemory, the numbers are unknown.
func (s *Store) Measure(ctx context.Context) (kv.Space, error) {
	var mu sync.Mutex
	var used, limit int64
	known, limited := true, true
	ask := func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, "memory").Result()
		if err != nil {
			if isForbidden(err) {
				mu.Lock()
				known = false
				mu.Unlock()
				return nil
			}
			return s.rejected(request{base: node.Options().Addr}, err)
		}
		fields := fieldsOf(info)
		u, errUsed := strconv.ParseInt(fields["used_memory"], 10, 64)
		m, errLimit := strconv.ParseInt(fields["maxmemory"], 10, 64)
		mu.Lock()
		defer mu.Unlock()
		known = known && errUsed == nil
		limited = limited && errLimit == nil && m > 0
		used, limit = used+u, limit+m
		return nil
	}
	var err error
	if cluster := s.cluster(); cluster != nil {
		err = cluster.ForEachMaster(ctx, ask)
	} else {
		err = ask(ctx, s.client.(*redis.Client))
	}
	if err != nil {
		return kv.Space{}, err
	}
	space := kv.Space{Size: -1, Unused: -1, Free: -1, Capacity: -1, DeadRows: -1}
	if known {
		space.Size = used
		if limited {
			space.Free, space.Capacity = max(0, limit-used), limit
		}
	}
	return space, nil
}
