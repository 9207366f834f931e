package keyset

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// KV returns the store for this instance. It rejects every write while Ready returns an error, and
// while the ring is stale. It is a kv.Meter if the store is one.
func (r *Ring) KV() kv.KV {
	g := guard{KV: r.cfg.KV, ring: r}
	if m, ok := r.cfg.KV.(kv.Meter); ok {
		return meteredGuard{g, m}
	}
	return g
}

type guard struct {
	kv.KV
	ring *Ring
}

type meteredGuard struct {
	guard
	meter kv.Meter
}

func (g guard) rejection() error {
	if err := g.ring.Ready(); err != nil {
		return fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	}
	return g.ring.stale()
}

// Commit implements kv.KV.
func (g guard) Commit(ctx context.Context, tx kv.Tx) error {
	if err := g.rejection(); err != nil {
		return err
	}
	return g.KV.Commit(ctx, tx)
}

// Claim implements kv.KV.
func (g guard) Claim(ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) (
	[]kv.Task, time.Time, error) {
	if err := g.rejection(); err != nil {
		return nil, time.Time{}, err
	}
	return g.KV.Claim(ctx, p, now, lease, n)
}

// Spend implements kv.Meter.
func (g meteredGuard) Spend(ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge) (
	[]time.Time, error) {
	if err := g.rejection(); err != nil {
		return nil, err
	}
	return g.meter.Spend(ctx, p, now, charges)
}
