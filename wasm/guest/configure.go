package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/provider/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/wasm/abi"
)

// configure makes the guest that a configuration describes. sealer is the
// host's, for a configuration without a key ring.
func configure(message []byte, sealer host.Sealer) (*guest, error) {
	c, err := abi.ReadConfig(message)
	if err != nil {
		return nil, err
	}
	if len(c.Keyring) > 0 {
		ring, err := token.ParseKeyring(c.Keyring)
		if err != nil {
			return nil, err
		}
		if sealer, err = ring.Ring(c.Host, rand.Reader); err != nil {
			return nil, err
		}
	}
	if sealer == nil {
		return nil, errors.New("the host does not seal, and the configuration has no key ring")
	}
	g := newGuest(nil)
	cfg := core.Config{
		BaseURL: c.BaseURL, Dev: c.Dev, Test: c.Test, OperatorToken: c.OperatorToken,
		Partitions: c.Partitions, Attempts: c.Attempts,
		OutcomeLife: c.OutcomeLife.Duration(), AttemptTime: c.AttemptTime.Duration(), Lease: c.Lease.Duration(),
		Schedule: webhook.Schedule{JitterPercent: c.JitterPercent},
	}
	if c.Retries != nil {
		cfg.Schedule.Delays = make([]time.Duration, len(c.Retries))
		for n, ms := range c.Retries {
			cfg.Schedule.Delays[n] = ms.Duration()
		}
	}
	cfg.Limits = api.Limits{PublicPerIP: perMinute(c.PublicPerIP), PublicPerKey: perMinute(c.PublicPerKey),
		SecretPerIP: perMinute(c.SecretPerIP), ReconcilePerKey: perMinute(c.ReconcilePerKey)}
	if c.Dev || c.Test {
		cfg.Providers = []provider.Provider{&sandbox.Provider{Now: time.Now}}
	}
	g.service, err = core.New(cfg, host.Host{
		KV: store{g}, Sealer: sealer, Fetch: fetcher{g},
		Now: time.Now, Random: rand.Reader,
		Log:   slog.New(logger{guest: g, level: slog.Level(c.LogLevel)}),
		Count: func(event string) { g.notice(abi.Count, []byte(event)) },
		Wake:  func(p kv.Partition, due time.Time) { g.notice(abi.Wake, abi.AppendWake(nil, p, due)) },
	})
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return g, nil
}

// perMinute leaves zero to the core, whose zero is the contract's.
func perMinute(n int) ratelimit.Limit {
	if n == 0 {
		return ratelimit.Limit{}
	}
	return ratelimit.PerMinute(n)
}
