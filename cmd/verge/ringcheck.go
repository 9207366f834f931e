package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/kvadapters"
)

// ringCheckTime bounds how long `serve --check` waits for a store.
const ringCheckTime = 5 * time.Second

// checkRing prints which key of the ring seals, and whether a bolt store is there yet. If other instances may
// share the store, it compares the ring with the store's set of keys and changes nothing there. A store that
// does not answer is not an error of the configuration: checkRing prints it and returns nil.
func (pl *plan) checkRing(ctx context.Context, p *program) error {
	out := p.stdout
	seals := pl.keyring.Keys[pl.keyring.Sealing(pl.now())]
	said := fmt.Sprintf("key ring: key %s (fingerprint %s) seals", seals.ID, seals.Fingerprint())
	if !pl.store.Shared() {
		if pl.store.Kind == kvadapters.Bolt {
			if _, err := p.fs.Stat(pl.store.Path); isMissing(err) {
				fmt.Fprintf(out, "store: there is no file %s yet; the first start makes it\n", pl.store.Path)
			}
		}
		fmt.Fprintln(out, said)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ringCheckTime)
	defer cancel()
	ring, closeStore, err := pl.storeRing(ctx)
	if err == nil {
		err = ring.Meet(ctx)
		defer closeStore()
	}
	if err != nil {
		fmt.Fprintf(out, "%s; it was not compared with the store's set of keys: %v\n", said, err)
		return nil
	}
	if err := pl.misplaced(ring.Ready()); err != nil {
		return err
	}
	if err := ring.Lags(); err != nil {
		fmt.Fprintln(out, "key ring:", err)
	}
	if ring.Unused() {
		fmt.Fprintln(out, said+"; the store has no set of keys yet, and the first start puts it there")
	} else {
		fmt.Fprintln(out, said+", as in the store's set of keys")
	}
	return nil
}

// misplaced turns the error that the key ring does not fit the store into a mistake of the
// configuration. It returns every other error as it is.
func (pl *plan) misplaced(err error) error {
	if errors.Is(err, keyset.ErrUnfit) {
		return usagef("%s is no place for this key ring: %w", pl.store, err)
	}
	return err
}

// storeRing opens the plan's store and returns the ring on it.
func (pl *plan) storeRing(ctx context.Context) (*keyset.Ring, func() error, error) {
	store, closeStore, err := pl.store.Open(ctx, kvadapters.OpenConfig{Now: pl.now, Disk: boltDisk})
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	ring, err := keyset.New(keyset.Config{
		Host:    host.Host{KV: store, Now: pl.now, Random: pl.random, Log: slog.New(slog.DiscardHandler)},
		Keyring: pl.keyring,
	})
	if err != nil {
		return nil, nil, errors.Join(err, closeStore())
	}
	return ring, closeStore, nil
}

type keyringAdoptCmd struct {
	Config string `type:"path" required:"" placeholder:"FILE" env:"VERGE_CONFIG" help:"The configuration of the service, as for serve."`
}

// Help is shown by `verge keyring adopt --help`.
func (keyringAdoptCmd) Help() string {
	return `The store remembers which keys its instances use, and an instance with another
ring does not start. If the ring is lost, this command makes the store accept a
new one. Stop every instance first.

What the old ring sealed or signed is lost with it: sessions under way, events
that wait, outcomes, and API keys, which have to be created again. Publishers,
integrations and webhook secrets come from the configuration again. The log then
names what the store still holds of the old ring.

Example:

    verge keyring adopt --config /etc/verge/verge.toml`
}

func (c *keyringAdoptCmd) Run(ctx context.Context, p *program) error {
	pl, _, err := (&serveCmd{Config: c.Config}).plan(p)
	if err != nil {
		return err
	}
	ring, closeStore, err := pl.storeRing(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	if err := ring.Meet(ctx); err != nil {
		return err
	}
	if ring.Ready() == nil {
		fmt.Fprintf(p.stdout, "%s is used with this key ring already; nothing was changed.\n", pl.store)
		return nil
	}
	if err := ring.Adopt(ctx); err != nil {
		return fmt.Errorf("the store's set of keys: %w", err)
	}
	fmt.Fprintf(p.stdout, "%s now takes this key ring, and refuses the one before.\n", pl.store)
	return nil
}
