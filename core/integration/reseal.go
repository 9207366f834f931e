package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
)

// resigned are the prefixes of items that other packages keep in the directory's partition. Each is an object
// that token.SignRecord signed under its own name. Reseal only signs it again. A package
// that keeps such items adds their prefix here.
var resigned = []string{
	"c/mem/",  // members
	"c/inv/",  // invitations
	"c/link/", // sign-in links
	"c/con/",  // sessions of the console
	"c/op/",   // operator tokens
	"c/list/", // trusted lists
}

// history are the prefixes of items that become many and are only read by people.
var history = []string{audit.Entries, audit.Belonging}

// Reseal signs all records in the directory, and seals every webhook secret, with the active key, so that
// older keys are no longer needed. It skips records that already use that key. A secret that no key of the
// ring opens is already lost. It is kept and is not an error.
func (d *Directory) Reseal(ctx context.Context) error {
	return d.reseal(ctx, slices.Concat(resigned, history))
}

// reseal is Reseal for publishers, integrations, keys, readiness, and the items with these prefixes.
func (d *Directory) reseal(ctx context.Context, prefixes []string) error {
	mac, err := d.sealer.MAC(token.Secret, nil)
	if err != nil {
		return err
	}
	r := resealing{d, token.MACedWith(mac)}
	errs := []error{
		r.each(ctx, publisherItems, rewrite[Publisher]),
		r.each(ctx, keyItems, rewrite[Key]),
		r.each(ctx, integrationItems, r.integration),
		r.each(ctx, readinessItems, r.readiness),
	}
	for _, prefix := range prefixes {
		errs = append(errs, r.resign(ctx, itemKey(prefix), nil))
	}
	return errors.Join(errs...)
}

// Resign signs items of other partitions again as Reseal does: those whose names begin with the prefix.
// accept returns token.ErrRecord for an item that must not be signed.
func Resign(ctx context.Context, h host.Host, prefix kv.Key, accept func(kv.Item) error) error {
	d := &Directory{kv: h.KV, sealer: h.Sealer, random: h.Random}
	mac, err := d.sealer.MAC(token.Secret, nil)
	if err != nil {
		return err
	}
	return resealing{d, token.MACedWith(mac)}.resign(ctx, prefix, accept)
}

type resealing struct {
	*Directory
	key string // that seals
}

// each calls do for every item that another key has signed.
func (r resealing) each(ctx context.Context, prefix string,
	do func(context.Context, *Directory, kv.Item) error) error {
	return r.Directory.each(ctx, prefix, func(it kv.Item) error {
		if r.key != "" && token.RecordedWith(it.Value) == r.key && prefix != integrationItems {
			return nil
		}
		err := do(ctx, r.Directory, it)
		if err != nil && !kv.IsConflict(err) && !errors.Is(err, token.ErrRecord) {
			return fmt.Errorf("%s: %w", it.Key, err)
		}
		return nil
	})
}

// resign signs items again, many in one commit. Items that no instance of this service signed stay unchanged.
// If an item was changed in the meantime, its new writer has signed it, and the others of its commit are
// signed one by one. A nil accept accepts all items.
func (r resealing) resign(ctx context.Context, prefix kv.Key, accept func(kv.Item) error) error {
	var batch []kv.Item
	err := eachOf(ctx, r.kv, prefix, func(it kv.Item) error {
		if by := token.RecordedWith(it.Value); by == "" || by == r.key {
			return nil
		}
		if accept != nil {
			if err := accept(it); errors.Is(err, token.ErrRecord) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if batch = append(batch, it); len(batch) < kv.MaxTx/2 {
			return nil
		}
		full := batch
		batch = nil
		return r.resignAll(ctx, full)
	})
	if err != nil {
		return err
	}
	return r.resignAll(ctx, batch)
}

func (r resealing) resignAll(ctx context.Context, items []kv.Item) error {
	if len(items) == 0 {
		return nil
	}
	id, err := kv.NewTxID(r.random)
	if err != nil {
		return err
	}
	tx := kv.Tx{ID: id, Partition: items[0].Key.Partition}
	for _, it := range items {
		value, err := token.ResignRecord(r.sealer, it.Key.String(), it.Value)
		if errors.Is(err, token.ErrRecord) {
			continue
		}
		if err != nil {
			return err
		}
		tx.Checks = append(tx.Checks, kv.Check{Name: it.Key.Name, Tx: it.Tx})
		tx.Puts = append(tx.Puts, kv.Put{Name: it.Key.Name, Value: value, Expires: it.Expires})
	}
	if len(tx.Puts) == 0 {
		return nil
	}
	err = kv.CommitSurely(ctx, r.kv, tx)
	switch {
	case !kv.IsConflict(err):
		return err
	case len(items) == 1:
		return nil
	}
	for _, it := range items {
		if err := r.resignAll(ctx, []kv.Item{it}); err != nil {
			return err
		}
	}
	return nil
}

// rewrite writes an item again unchanged, with a new signature.
func rewrite[T any](ctx context.Context, d *Directory, it kv.Item) error {
	v, err := decode[T](d, it)
	if err != nil {
		return err
	}
	return d.write(ctx, it.Key.Name, v, &it.Tx)
}

func (r resealing) integration(ctx context.Context, d *Directory, it kv.Item) error {
	i, err := decode[Integration](d, it)
	if err != nil {
		return err
	}
	stale := r.key == "" || token.RecordedWith(it.Value) != r.key
	for n, w := range []*Webhook{&i.Webhook, i.Staged} {
		if w == nil || w.Sealed == "" {
			continue
		}
		sealed, _ := token.DecodeText("", w.Sealed)
		if _, err := d.open(i, w.Sealed, n == 1); err == nil {
			stale = stale || token.SealedWith(sealed) != r.key
		} else if n == 0 {
			return r.asItIs(ctx, it)
		}
	}
	if !stale {
		return nil
	}
	next, err := d.sealed(*i, i, Secrets{})
	if err != nil {
		return err
	}
	return d.write(ctx, it.Key.Name, next, &it.Tx)
}

// asItIs signs an item again without a check of its content, which is no longer used. Without a new
// signature, each read of the item would return an error.
func (r resealing) asItIs(ctx context.Context, it kv.Item) error {
	if r.key == "" || token.RecordedWith(it.Value) == r.key {
		return nil
	}
	return r.resignAll(ctx, []kv.Item{it})
}

// readiness keeps the test's result, with the MAC of the active key.
func (r resealing) readiness(ctx context.Context, d *Directory, it kv.Item) error {
	v, err := decode[readiness](d, it)
	if err != nil {
		return err
	}
	i, _, err := read[Integration](ctx, d, integrationItems+it.Key.Name[len(readinessItems):])
	if errors.Is(err, ErrNotFound) {
		return r.asItIs(ctx, it)
	}
	if err != nil {
		return err
	}
	secret, err := d.WebhookSecret(i)
	if err != nil || !d.tested(v.Tested, i.Webhook.URL, secret) {
		return r.asItIs(ctx, it) // it counts for nothing in its present state
	}
	if v.Tested, err = d.fingerprint(i.Webhook.URL, secret); err != nil {
		return err
	}
	return d.write(ctx, it.Key.Name, v, &it.Tx)
}

// SignedWith reports whether the key with that id, which the ring has, signed something in the directory.
func (d *Directory) SignedWith(ctx context.Context, id string) (bool, error) {
	for _, prefix := range slices.Concat([]string{publisherItems, keyItems, integrationItems, readinessItems},
		resigned) {
		err := d.each(ctx, prefix, func(it kv.Item) error {
			if token.RecordedWith(it.Value) != id {
				return nil
			}
			_, err := token.CheckRecord(d.sealer, it.Key.String(), it.Value)
			if err == nil {
				return errFound
			}
			if errors.Is(err, token.ErrRecord) {
				return nil
			}
			return err
		})
		if errors.Is(err, errFound) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// errFound ends a search.
var errFound = errors.New("found")

// Belongs reports whether the directory belongs to this key ring: a key of the ring signed or sealed
// something in it, or no other key did.
func (d *Directory) Belongs(ctx context.Context) (bool, error) {
	ours, others := false, false
	r := resealing{Directory: d}
	for _, prefix := range []string{publisherItems, keyItems, integrationItems} {
		err := r.each(ctx, prefix, func(_ context.Context, _ *Directory, it kv.Item) error {
			if token.RecordedWith(it.Value) != "" {
				_, err := token.CheckRecord(d.sealer, it.Key.String(), it.Value)
				ours, others = ours || err == nil, others || err != nil
				return nil
			}
			var i Integration // the only items that an earlier release has sealed
			if json.Unmarshal(it.Value, &i) != nil || i.Webhook.Sealed == "" {
				return nil
			}
			_, err := d.open(&i, i.Webhook.Sealed, false)
			ours, others = ours || err == nil, others || err != nil
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return ours || !others, nil
}
