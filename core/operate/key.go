package operate

import (
	"context"
	"errors"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/web"
)

// Keys lists a publisher's keys.
func (o *Operations) Keys(ctx context.Context, who Actor, publisher string, c Cursor) (Page[Key], error) {
	return o.keys(ctx, who, publisher, c, nil)
}

// SecretKeys lists a publisher's active secret keys. Public, revoked and expired ones may precede them in the
// list of all.
func (o *Operations) SecretKeys(ctx context.Context, who Actor, publisher string, c Cursor) (
	Page[Key], error) {
	return o.keys(ctx, who, publisher, c, func(k integration.Key) bool {
		return !k.Public() && k.Active(o.Now())
	})
}

func (o *Operations) keys(
	ctx context.Context, who Actor, publisher string, c Cursor, keep func(integration.Key) bool,
) (Page[Key], error) {
	if err := who.may(keyList, publisher); err != nil {
		return Page[Key]{}, err
	}
	found, next, err := find(c, keep, func(after string, n int) ([]integration.Key, string, error) {
		return o.Directory.ListKeys(ctx, publisher, after, n)
	}, func(k integration.Key) string { return k.ID })
	if err != nil {
		return Page[Key]{}, o.apiError(err)
	}
	ids := make([]string, len(found))
	for n, k := range found {
		ids[n] = k.ID
	}
	used, err := o.Counted.LastUse(ctx, ids)
	if err != nil {
		return Page[Key]{}, err
	}
	page := Page[Key]{Next: next}
	for _, k := range found {
		shown := Key{Key: k}
		if day, ok := used[k.ID]; ok {
			shown.LastUsed = day.String()
		}
		page.Items = append(page.Items, shown)
	}
	return page, nil
}

// CreateKey creates a key. Only this response contains it.
func (o *Operations) CreateKey(ctx context.Context, who Actor, in KeyInput) (CreatedKey, error) {
	if err := who.may(keyCreate, in.Publisher); err != nil {
		return CreatedKey{}, err
	}
	wrong := o.wrong()
	if in.Expires != nil && !in.Expires.After(o.Now()) {
		wrong.add("expires", "value", "It must be a time in the future.")
	}
	if err := wrong.err(); err != nil {
		return CreatedKey{}, err
	}
	if err := o.keyOwner(ctx, in); err != nil {
		return CreatedKey{}, err
	}
	kind := "secret"
	if in.Integration != "" {
		kind = "public"
	}
	entry, err := o.auditEntry(who, keyCreate, in.Publisher, in.Integration, change{Field: "kind", To: kind})
	if err != nil {
		return CreatedKey{}, err
	}
	text, k, err := o.Directory.CreateKey(ctx, in.Publisher, in.Integration, in.Expires, entry...)
	return CreatedKey{text, Key{Key: k}}, o.apiError(err)
}

// keyOwner rejects a key that would have no use.
func (o *Operations) keyOwner(ctx context.Context, in KeyInput) error {
	if err := o.inUse(ctx, in.Publisher); err != nil || in.Integration == "" {
		return err
	}
	i, err := o.Directory.ReadIntegration(ctx, in.Integration)
	switch {
	case err != nil:
		return o.apiError(err)
	case i.Value.PublisherID != in.Publisher:
		return web.ErrNotFound
	case i.Value.Archived != nil:
		return ErrArchived
	case !i.Value.AllowsPublicKeys(o.Dev):
		return ErrNeedsOrigins
	}
	return nil
}

// RevokeKey ends a key. That holds everywhere within 5 seconds (contract 12).
func (o *Operations) RevokeKey(ctx context.Context, who Actor, id string) (Key, error) {
	k, err := o.Directory.FindKey(ctx, id)
	if errors.Is(err, integration.ErrNotFound) {
		return Key{}, web.ErrNotFound
	}
	if err != nil {
		return Key{}, err
	}
	if err := who.may(keyRevoke, k.PublisherID); err != nil {
		return Key{}, err
	}
	entry, err := o.auditEntry(who, keyRevoke, k.PublisherID, id, change{Field: "last4", To: k.Last4})
	if err != nil {
		return Key{}, err
	}
	revoked, err := o.Directory.RevokeKey(ctx, id, entry...)
	return Key{Key: revoked}, o.apiError(err)
}
