package kvadapters

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/kvadapters/redis"
)

// OpenTimeout is how long Open waits for a server to respond.
const OpenTimeout = 10 * time.Second

// OpenConfig has the settings of stores that are not part of an address.
type OpenConfig struct {
	// Now is the clock of stores without their own clock. Nil: time.Now.
	Now func() time.Time

	// Disk is for tests of Bolt on a failing disk.
	Disk bolt.Disk
}

// Open opens the store and checks that it is usable. Call closeStore when the store is no longer used.
// Errors contain no password.
func (a Address) Open(ctx context.Context, c OpenConfig) (store kv.KV, closeStore func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, OpenTimeout)
	defer cancel()
	switch a.Kind {
	case Memory:
		return memory.New(memory.Config{Now: c.Now}), func() error { return nil }, nil
	case Bolt:
		s, err := bolt.Open(a.Path, bolt.Config{Now: c.Now, Disk: c.Disk})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	case Miniredis:
		return a.openMiniredis(ctx)
	case Redis:
		s, err := redis.Open(ctx, a.URL, a.RedisConfig())
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	case Postgres:
		s, err := postgres.Open(ctx, a.URL, postgres.Config{Now: c.Now, TLS: a.TLS})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	return nil, nil, fmt.Errorf("kv: there is no store of kind %q: make the address with ParseAddress",
		a.Kind)
}

func (a Address) openMiniredis(ctx context.Context) (kv.KV, func() error, error) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	if err := server.Start(); err != nil {
		return nil, nil, err
	}
	s, err := redis.Open(ctx, "redis://"+server.Addr(), a.RedisConfig())
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return s, func() error { defer server.Close(); return s.Close() }, nil
}
