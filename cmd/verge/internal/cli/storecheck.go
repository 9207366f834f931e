package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/bolt"
)

// storeCheckTime bounds how long `serve --check` waits for a store.
const storeCheckTime = 5 * time.Second

// compareStore prints the active key of the ring, and whether a bolt store exists. If it exists, compareStore
// compares the ring with the store's set of keys, and store.partitions with the number that the store's
// sessions use, and lists the removals from the file. It only reads. A path without a bolt store is an error.
// A store that does not respond, or that another process has open, is not: compareStore prints it and returns
// nil.
func (pl *plan) compareStore(ctx context.Context, p *program, file string) error {
	seals := pl.Keyring.Keys[pl.Keyring.Sealing(pl.now())]
	said := fmt.Sprintf("key ring: key %s (fingerprint %s) is active", seals.ID, seals.Fingerprint())
	if !pl.storeExists(p) {
		if pl.Store.Kind == kvadapters.Bolt {
			fmt.Fprintf(p.stdout, "store: %s does not exist yet; the first start creates it\n", pl.Store.Path)
		}
		fmt.Fprintln(p.stdout, said)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeCheckTime)
	defer cancel()
	store, ring, closeStore, err := pl.storeRing(ctx)
	if err == nil {
		defer closeStore()
		err = ring.Meet(ctx)
	}
	if err == nil {
		if err := pl.misplaced(ring.Ready()); err != nil {
			return err
		}
		err = edge.CheckPartitions(ctx, store, pl.Core.Partitions)
	}
	if _, few := errors.AsType[*edge.PartitionsError](err); few {
		return usageError{err}
	}
	if errors.Is(err, bolt.ErrLocked) {
		fmt.Fprintf(p.stdout, "%s; not compared with the store's set of keys, because a "+
			"process has %s open. If that is your server, let it run: its next start compares them. "+
			"\"verge apply %s --dry-run\" lists the difference\n", said, pl.Store.Path,
			file)
		return nil
	}
	if err != nil && pl.Store.Kind == kvadapters.Bolt && !errors.Is(err, fs.ErrPermission) &&
		!errors.Is(err, kv.ErrUnavailable) {
		return usageError{err}
	}
	if err != nil {
		fmt.Fprintln(p.stdout, said)
		fmt.Fprintf(p.stderr, "warning: the store was not read, so nothing was compared with it: %v\n", err)
		return nil
	}
	if err := ring.Lags(); err != nil {
		fmt.Fprintln(p.stdout, "key ring:", err)
	}
	if ring.Unused() {
		fmt.Fprintln(p.stdout, said+"; the store has no set of keys yet, the first start creates it")
	} else {
		fmt.Fprintln(p.stdout, said+", as in the store's set of keys")
	}
	if err := pl.listTrustLists(ctx, p, store, ring); err != nil {
		fmt.Fprintf(p.stdout, "trusted lists were not read: %v\n", err)
	}
	if err := pl.listRemoved(ctx, p, store, ring, file); err != nil {
		fmt.Fprintf(p.stdout, "publishers and integrations were not compared with the store's: %v\n", err)
	}
	return nil
}

// listTrustLists prints the state of each trusted list, and warns about late, old or missing ones.
func (pl *plan) listTrustLists(ctx context.Context, p *program, store kv.KV, ring host.Sealer) error {
	all, err := operate.StoredLists(ctx,
		host.Host{KV: store, Sealer: ring, Now: pl.now, Random: pl.random}, pl.methods())
	for _, l := range all {
		out, before := p.stdout, ""
		if l.State != operate.ListGood {
			out, before = p.stderr, "warning: "
		}
		fmt.Fprintf(out, "%strusted list %s of method %s: %s\n", before, l.Name, l.Method, listState(l))
	}
	return err
}

// listRemoved warns about removals from the file. Their integrations stay in use after a start (contract 46).
func (pl *plan) listRemoved(ctx context.Context, p *program, store kv.KV, ring host.Sealer,
	file string) error {
	d := integration.NewDirectory(host.Host{KV: store, Sealer: ring, Now: pl.now, Random: pl.random})
	all, err := d.Plan(ctx, pl.Site, integration.KeepRemoved)
	for _, each := range all {
		if each.Removed {
			fmt.Fprintf(p.stderr, "warning: %s %s is no longer in the file and continues to work; "+
				"add it again, or archive it with \"verge apply %s\"\n", each.Kind, each.ID, file)
		}
	}
	if err != nil {
		return err
	}
	return pl.listUnusable(ctx, p, d)
}

// listUnusable warns about integrations in the store with methods that the configuration lacks.
func (pl *plan) listUnusable(ctx context.Context, p *program, d *integration.Directory) error {
	stored, err := d.Integrations(ctx)
	catalog, _ := pl.Core.Catalog() // the plan has no problems here
	for _, i := range stored {
		for _, name := range i.Offers() {
			if _, known := catalog.Find(name); !known && i.Archived == nil {
				fmt.Fprintf(p.stderr, "warning: integration %s uses the method %q, which this "+
					"configuration does not have: users cannot use it; add the method or change the "+
					"integration\n", i.ID, name)
			}
		}
	}
	return err
}

// storeExists reports whether there may be a store. Opening a missing or empty bolt file would create a
// store.
func (pl *plan) storeExists(p *program) bool {
	if pl.Store.Kind == kvadapters.Bolt {
		file, err := p.FS.Stat(pl.Store.Path)
		return err == nil && file.Size() > 0
	}
	return pl.Store.Shared()
}

// misplaced returns the error of a key ring that does not fit the store as a mistake in the configuration. It
// returns other errors unchanged.
func (pl *plan) misplaced(err error) error {
	if errors.Is(err, keyset.ErrUnfit) {
		return usagef("%s has another key ring: %w", pl.Store, err)
	}
	return err
}

// storeRing opens the plan's store and returns it with the ring.
func (pl *plan) storeRing(ctx context.Context) (kv.KV, *keyset.Ring, func() error, error) {
	store, closeStore, err := pl.openStore(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	ring, err := keyset.New(keyset.Config{
		Host:    host.Host{KV: store, Now: pl.now, Random: pl.random, Log: slog.New(slog.DiscardHandler)},
		Keyring: pl.Keyring,
	})
	if err != nil {
		return nil, nil, nil, errors.Join(err, closeStore())
	}
	return store, ring, closeStore, nil
}

type keyringAdoptCmd struct{ configFlags }

// Help is shown by `verge keyring adopt --help`.
func (keyringAdoptCmd) Help() string {
	return `The store remembers the keys of its instances, and an instance with another ring
does not start. If the ring is lost, this command makes the store accept a new one.
Stop every instance first. Give the configuration of the service, with the same
flags and variables as for serve.

All data that the old ring encrypted or signed is lost: active sessions, waiting
events, outcomes, and API keys, which must be created again. Publishers,
integrations and webhook secrets are read from the configuration again. The log then
lists the data of the old ring that is still in the store.

Example:

    verge keyring adopt --config /etc/verge/verge.toml`
}

func (c *keyringAdoptCmd) Run(ctx context.Context, p *program) error {
	pl, _, err := c.plan(p)
	if err != nil {
		return err
	}
	_, ring, closeStore, err := pl.storeRing(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	if err := ring.Meet(ctx); err != nil {
		return err
	}
	if ring.Ready() == nil {
		fmt.Fprintf(p.stdout, "%s already uses this key ring; no changes.\n", pl.Store)
		return nil
	}
	if err := ring.Adopt(ctx); err != nil {
		return fmt.Errorf("the store's set of keys: %w", err)
	}
	fmt.Fprintf(p.stdout, "%s now accepts this key ring, and rejects the previous one.\n", pl.Store)
	return nil
}
