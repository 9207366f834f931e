package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
	"github.com/verge-id/verge/wasm/settings"
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
	g.service, err = core.New(settings.Unpack(c, time.Now), host.Host{
		KV: effect.Store(g.effect), Sealer: sealer, Fetch: effect.Fetcher(g.effect),
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
