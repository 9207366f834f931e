package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
)

// Reseal signs everything in the directory, and seals every webhook secret, with the key that seals
// now, so that no older key is needed. It leaves what that key has already made. A secret that no key
// of the ring opens is already lost. It stays and is no error.
func (d *Directory) Reseal(ctx context.Context) error {
	mac, err := d.sealer.MAC(token.Secret, nil)
	if err != nil {
		return err
	}
	r := resealing{d, token.MACedWith(mac)}
	return errors.Join(
		r.each(ctx, "c/pub/", rewrite[Publisher]),
		r.each(ctx, keyItems, rewrite[Key]),
		r.each(ctx, "c/int/", r.integration),
		r.each(ctx, "c/ready/", r.readiness),
	)
}

type resealing struct {
	*Directory
	key string // that seals
}

// each calls do for every item that another key has signed.
func (r resealing) each(ctx context.Context, prefix string,
	do func(context.Context, *Directory, kv.Item) error) error {
	for after := ""; ; {
		items, err := r.kv.List(ctx, kv.Key{Partition: Partition, Name: prefix}, after, listPage)
		if err != nil {
			return err
		}
		for _, it := range items {
			after = it.Key.Name
			if r.key != "" && token.RecordedWith(it.Value) == r.key && prefix != "c/int/" {
				continue
			}
			err := do(ctx, r.Directory, it)
			conflict := (*kv.Conflict)(nil)
			if err != nil && !errors.As(err, &conflict) && !errors.Is(err, token.ErrRecord) {
				return fmt.Errorf("%s: %w", it.Key, err)
			}
		}
		if len(items) < listPage {
			return nil
		}
	}
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
	sealed, _ := token.DecodeText("", i.Webhook.Sealed)
	signed := r.key != "" && token.RecordedWith(it.Value) == r.key
	if signed && (len(sealed) == 0 || token.SealedWith(sealed) == r.key) {
		return nil
	}
	if _, err := d.openWebhook(i); err != nil && len(sealed) > 0 {
		return nil
	}
	return d.PutIntegration(ctx, *i, "")
}

// readiness keeps the test's result, under the MAC of the key that seals.
func (r resealing) readiness(ctx context.Context, d *Directory, it kv.Item) error {
	v, err := decode[Readiness](d, it)
	if err != nil {
		return err
	}
	i, _, err := read[Integration](ctx, d, "c/int/"+it.Key.Name[len("c/ready/"):])
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	secret, err := d.WebhookSecret(i)
	if err != nil || !d.tested(v.Tested, i.Webhook.URL, secret) {
		return nil // it counts for nothing in its present state
	}
	if v.Tested, err = d.fingerprint(i.Webhook.URL, secret); err != nil {
		return err
	}
	return d.write(ctx, it.Key.Name, v, &it.Tx)
}

// Belongs reports whether the directory belongs to this key ring: a key of the ring signed or sealed
// something in it, or no other key did.
func (d *Directory) Belongs(ctx context.Context) (bool, error) {
	ours, others := false, false
	r := resealing{Directory: d}
	for _, prefix := range []string{"c/pub/", keyItems, "c/int/"} {
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
			_, err := d.openWebhook(&i)
			ours, others = ours || err == nil, others || err != nil
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return ours || !others, nil
}
