package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
	"github.com/verge-id/verge/wasm/settings"
)

// configure returns the guest for a configuration. sealer is the host's; it is used if the configuration
// has no key ring.
func configure(message []byte, sealer host.Sealer) (*guest, error) {
	c, err := settings.Read(message)
	if err != nil {
		return nil, err
	}
	g := newGuest(nil)
	h := host.Host{
		KV: effect.Store(g.effect), Sealer: sealer, Fetch: effect.Fetcher(g.effect),
		Sign: effect.Signer(g.effect).Sign, Decrypt: effect.Signer(g.effect).Decrypt,
		Verify: effect.Verifier(g.effect).Verify, Now: time.Now, Random: rand.Reader,
		Log:      slog.New(logger{guest: g, level: slog.Level(c.LogLevel)}),
		Observer: g,
	}
	if c.VerifiesProofs {
		h.VerifyProof = effect.ProofVerifier(g.effect).VerifyProof
	}
	if len(c.Keyring) > 0 {
		if err := g.seal(&h, c); err != nil {
			return nil, err
		}
	}
	if h.Sealer == nil {
		return nil, errors.New("the host does not seal, and the configuration has no key ring")
	}
	if c, err = settings.OpenSecrets(c, h.Sealer); err != nil {
		return nil, err
	}
	g.service, err = core.New(c.Config, h)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", settings.Explain(err))
	}
	return g, nil
}

// seal makes the guest seal with the configuration's key ring.
func (g *guest) seal(h *host.Host, c settings.Config) error {
	file, err := keyring.Parse(c.Keyring)
	if err != nil {
		return err
	}
	if !c.KeySet {
		h.Sealer, err = file.Ring(c.Host, rand.Reader, time.Now)
		return err
	}
	ring, err := keyset.New(keyset.Config{Host: *h, Name: c.Host, Keyring: file})
	if err != nil {
		return err
	}
	g.ring, h.Sealer, h.KV = ring, ring, g.tending(ring.KV())
	return nil
}

// tending returns a store that refreshes the ring before a call, if that is due. A guest has no timer, and
// a request that does not use the store needs no set of keys.
func (g *guest) tending(store kv.KV) kv.KV {
	t := tending{store, g}
	if m, ok := store.(kv.Meter); ok {
		return meteredTending{t, m}
	}
	return t
}

type tending struct {
	kv.KV
	g *guest
}

type meteredTending struct {
	tending
	meter kv.Meter
}

// Get implements kv.KV.
func (t tending) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	t.g.tend(ctx)
	return t.KV.Get(ctx, key)
}

// Commit implements kv.KV.
func (t tending) Commit(ctx context.Context, tx kv.Tx) error {
	t.g.tend(ctx)
	return t.KV.Commit(ctx, tx)
}

// Claim implements kv.KV.
func (t tending) Claim(ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) (
	[]kv.Task, time.Time, error) {
	t.g.tend(ctx)
	return t.KV.Claim(ctx, p, now, lease, n)
}

// Spend implements kv.Meter.
func (t meteredTending) Spend(ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge) (
	[]time.Time, error) {
	t.g.tend(ctx)
	return t.meter.Spend(ctx, p, now, charges)
}

// complaint returns the error of the ring, or "". If the ring lacks a key that is not active yet, the
// complaint is a warning.
func (g *guest) complaint() (text string, level int) {
	if err := g.ring.Ready(); err != nil {
		return err.Error(), int(slog.LevelError)
	}
	if err := g.ring.Lags(); err != nil {
		return err.Error(), int(slog.LevelWarn)
	}
	return "", 0
}

// tendEach is the interval at which the guest reads the store's set of keys. No request relies on a read
// that is twice as old. Both times are well below keyset.Settle, so the guest has a key before it becomes
// active.
const tendEach = 3 * time.Second

// tend compares the ring with the store's set of keys, if that is due. One request at a time does all of
// the work. The others use the result of the last comparison. If that is too old, as after a time without
// requests, each of them compares itself: otherwise it could treat a key as unknown that has become active
// since.
func (g *guest) tend(ctx context.Context) {
	if g.ring == nil {
		return
	}
	now := time.Now()
	look := g.ring.Refresh
	switch {
	case g.met.IsZero(): // no request may write before the ring was compared once
	case now.Sub(g.tended).Abs() >= tendEach:
	case now.Sub(g.met).Abs() >= 2*tendEach:
		look = g.ring.Meet
	default:
		return
	}
	g.tended = now
	text, level := "", int(slog.LevelError)
	if err := look(ctx); err != nil {
		text = err.Error()
	} else {
		g.met = now
		text, level = g.complaint()
	}
	if g.ring.Ready() != nil {
		g.Count(host.CountKeyMissing)
	}
	if text != g.lastError && text != "" {
		g.log(abi.LogRecord{
			Level:   int8(level),
			Message: "key ring",
			Attrs:   []abi.LogAttr{{Key: "error", Value: quoted(text)}},
		})
	}
	g.lastError = text
}
