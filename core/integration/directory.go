package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
)

// Partition holds the configuration.
const Partition kv.Partition = "c"

// cacheLife is how long a read may be used, so that a revocation holds everywhere within this time
// (contract 12).
const cacheLife = 5 * time.Second

// ErrNotFound: there is no such publisher, integration or key.
var ErrNotFound = errors.New("integration: not found")

// Directory reads and writes publishers, integrations and keys.
type Directory struct {
	kv     kv.KV
	sealer host.Sealer
	now    func() time.Time
	random io.Reader
	log    *slog.Logger
	count  func(string)
	cache  *lru.Cache[string, cached]
}

type cached struct {
	value any
	read  time.Time
}

// allOrigins is the name in the cache for the browser origins of all integrations.
const allOrigins = "origins"

// NewDirectory returns the directory that h's KV holds.
func NewDirectory(h host.Host) *Directory {
	cache, err := lru.New[string, cached](4096)
	if err != nil {
		panic(err) // only for a size below 1
	}
	d := &Directory{
		kv:     h.KV,
		sealer: h.Sealer,
		now:    h.Now,
		random: h.Random,
		log:    h.Log,
		count:  h.Count,
		cache:  cache,
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.count == nil {
		d.count = func(string) {}
	}
	return d
}

// lookup reads one JSON item, through the cache.
func lookup[T any](ctx context.Context, d *Directory, name string) (*T, error) {
	now := d.now()
	if c, ok := d.cache.Get(name); ok && now.Sub(c.read).Abs() < cacheLife {
		return c.value.(*T), nil
	}
	v, _, err := read[T](ctx, d, name)
	if err != nil {
		return nil, err
	}
	// The age counts from before the read was sent, so that its own duration is included.
	d.cache.Add(name, cached{v, now})
	return v, nil
}

// read bypasses the cache. It returns the item's version besides the value. The error is
// token.ErrRecord if no instance of this service wrote the item.
func read[T any](ctx context.Context, d *Directory, name string) (*T, string, error) {
	item, err := d.kv.Get(ctx, kv.Key{Partition: Partition, Name: name})
	if errors.Is(err, kv.ErrNotFound) {
		return nil, "", ErrNotFound
	}
	if err != nil {
		return nil, "", err
	}
	v, err := decode[T](d, item)
	return v, item.Tx, err
}

// decode checks an item's MAC and reads it.
func decode[T any](d *Directory, item kv.Item) (*T, error) {
	until, err := token.CheckRecord(d.sealer, item.Key.String(), item.Value)
	// An item without a MAC is from an earlier release. Reseal has signed all of them by the time when
	// the first key seals that accepts nothing without a MAC.
	if err == nil && token.RecordedWith(item.Value) == "" && !host.Dated(d.now().Add(-unsignedLife), until) {
		err = fmt.Errorf("%w: %s", token.ErrRecord, item.Key)
	}
	if errors.Is(err, token.ErrRecord) {
		d.count(host.CountNotAuthentic)
		d.log.Error("the store holds what this service did not write",
			"kind", kindOf[T](), "item", item.Key.String())
	}
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(item.Value, v); err != nil {
		return nil, fmt.Errorf("integration: damaged item %s: %w", item.Key, err)
	}
	if i, ok := any(v).(*Integration); ok {
		d.revealURL(i)
	}
	return v, nil
}

// kindOf says in the log what a record is.
func kindOf[T any]() string {
	switch any(new(T)).(type) {
	case *Publisher:
		return "publisher"
	case *Integration:
		return "integration"
	case *Key:
		return "API key"
	case *Readiness:
		return "readiness"
	}
	return "other"
}

// unsignedLife is how long an item without a MAC is still read after the first bound key began to seal.
// The clocks' margin is added. Reseal needs seconds.
const unsignedLife = 10 * time.Minute

// write puts one JSON item. If version is given, it replaces only that version; "" means a new item.
func (d *Directory) write(ctx context.Context, name string, v any, version *string) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("integration: %w", err)
	}
	if b, err = token.SignRecord(d.sealer, kv.Key{Partition: Partition, Name: name}.String(), b); err != nil {
		return err
	}
	id, err := kv.NewTxID(d.random)
	if err != nil {
		return err
	}
	tx := kv.Tx{ID: id, Partition: Partition, Puts: []kv.Put{{Name: name, Value: b}}}
	if version != nil {
		tx.Checks = []kv.Check{{Name: name, Tx: *version}}
	}
	defer func() {
		d.cache.Remove(name)
		d.cache.Remove(allOrigins)
	}()
	return kv.CommitSurely(ctx, d.kv, tx)
}

// listPage is how many items one request asks for.
const listPage = 200

func list[T any](ctx context.Context, d *Directory, prefix string) ([]T, error) {
	var out []T
	for after := ""; ; {
		items, err := d.kv.List(ctx, kv.Key{Partition: Partition, Name: prefix}, after, listPage)
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			after = it.Key.Name
			v, err := decode[T](d, it)
			if errors.Is(err, token.ErrRecord) {
				continue // this service did not write it
			}
			if err != nil {
				return nil, err
			}
			out = append(out, *v)
		}
		if len(items) < listPage {
			return out, nil
		}
	}
}

// Publisher returns a publisher.
func (d *Directory) Publisher(ctx context.Context, id string) (*Publisher, error) {
	return lookup[Publisher](ctx, d, "c/pub/"+id)
}

// PutPublisher adds or replaces a publisher.
func (d *Directory) PutPublisher(ctx context.Context, p Publisher) error {
	return d.write(ctx, "c/pub/"+p.ID, p, nil)
}

// Integration returns an integration, at most 5 seconds old. The caller must not change it.
func (d *Directory) Integration(ctx context.Context, id string) (*Integration, error) {
	return lookup[Integration](ctx, d, "c/int/"+id)
}

// Integrations returns all integrations.
func (d *Directory) Integrations(ctx context.Context) ([]Integration, error) {
	return list[Integration](ctx, d, "c/int/")
}

// BrowserOrigin reports whether any integration allows pages of that origin to use its public key.
func (d *Directory) BrowserOrigin(ctx context.Context, origin string) (bool, error) {
	now := d.now()
	c, ok := d.cache.Get(allOrigins)
	if !ok || now.Sub(c.read).Abs() >= cacheLife {
		all, err := d.Integrations(ctx)
		if err != nil {
			return false, err
		}
		origins := make(map[string]bool)
		for _, i := range all {
			for _, o := range i.BrowserOrigins {
				origins[o] = true
			}
		}
		c = cached{origins, now}
		d.cache.Add(allOrigins, c)
	}
	return c.value.(map[string]bool)[origin], nil
}

// PutIntegration adds or replaces an integration. A secret that is not empty is sealed and replaces the
// stored one. If it is empty, the stored one stays and is sealed again with the ring's first key.
func (d *Directory) PutIntegration(ctx context.Context, i Integration, secret string) error {
	if secret != "" {
		return d.putIntegration(ctx, i, secret, nil)
	}
	for range maxRaces {
		old, version, err := read[Integration](ctx, d, "c/int/"+i.ID)
		kept := ""
		if err == nil && old.Webhook.Sealed != "" {
			if kept, err = d.WebhookSecret(old); err != nil {
				return err
			}
		} else if errors.Is(err, token.ErrRecord) && i.Webhook.Sends() {
			return fmt.Errorf("the integration that is kept is not this key ring's; set its webhook secret again: %w",
				err)
		} else if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, token.ErrRecord) {
			return err
		}
		// The write replaces only the version whose secret it keeps. Otherwise it could undo a change
		// of the secret that another operator makes at the same time.
		err = d.putIntegration(ctx, i, kept, &version)
		if conflict := (*kv.Conflict)(nil); !errors.As(err, &conflict) {
			return err
		}
	}
	return fmt.Errorf("%w: integration %s changed %d times under one request", kv.ErrUnavailable, i.ID, maxRaces)
}

// maxRaces limits how often a write is tried again after another write came first.
const maxRaces = 8

func (d *Directory) putIntegration(ctx context.Context, i Integration, secret string, version *string) error {
	i.Webhook.Sealed, i.Webhook.Hidden = "", false
	claims := secretClaims{Integration: i.ID, Secret: secret}
	if i.Webhook.URL != "" && !token.RecordsUnsigned(d.sealer, d.now()) {
		claims.URL, i.Webhook.URL, i.Webhook.Hidden = i.Webhook.URL, "", true
	}
	if len(secret) > maxSecret {
		return fmt.Errorf("integration %s: the webhook secret has %d bytes; at most %d are allowed",
			i.ID, len(secret), maxSecret)
	}
	if secret != "" || i.Webhook.Hidden {
		b, err := json.Marshal(claims)
		if err != nil {
			return fmt.Errorf("integration: %w", err)
		}
		sealed, err := d.sealer.Seal(token.Secret, b)
		if err != nil {
			return err
		}
		i.Webhook.Sealed = token.EncodeText("", sealed)
	}
	return d.write(ctx, "c/int/"+i.ID, i, version)
}

// maxSecret is the longest webhook secret in bytes.
const maxSecret = 1024

// secretClaims binds a secret to its integration: a copy in another integration's record does not open.
//
// The URL is sealed with it, because it may hold a secret of the receiver.
type secretClaims struct {
	Integration string `json:"int"`
	Secret      string `json:"sec"`
	URL         string `json:"url,omitempty"`
}

// WebhookSecret opens the integration's signing secret.
func (d *Directory) WebhookSecret(i *Integration) (string, error) {
	c, err := d.openWebhook(i)
	if err == nil && c.Secret == "" {
		err = fmt.Errorf("integration %s has no webhook secret", i.ID)
	}
	return c.Secret, err
}

// revealURL fills in a URL that is stored sealed. If it does not open, the integration still makes
// events, which wait until it does.
func (d *Directory) revealURL(i *Integration) {
	if !i.Webhook.Hidden {
		return
	}
	if c, err := d.openWebhook(i); err == nil {
		i.Webhook.URL, i.Webhook.Hidden = c.URL, false
	}
}

func (d *Directory) openWebhook(i *Integration) (c secretClaims, err error) {
	sealed, ok := token.DecodeText("", i.Webhook.Sealed)
	if !ok || len(sealed) == 0 {
		return c, fmt.Errorf("integration %s has no webhook secret", i.ID)
	}
	b, _, err := d.sealer.Open(token.Secret, sealed)
	if err != nil {
		return c, fmt.Errorf("integration %s: the webhook secret does not open with this key ring; "+
			"set it again: %w", i.ID, err)
	}
	if err := json.Unmarshal(b, &c); err != nil || c.Integration != i.ID {
		return secretClaims{}, fmt.Errorf("integration %s: the sealed webhook secret is another integration's",
			i.ID)
	}
	return c, nil
}

// Key returns the record of a key's text. It returns ErrNotFound if the text is not well formed
// (without asking the KV) or unknown. The caller checks whether the key is Active.
func (d *Directory) Key(ctx context.Context, prefix, text string) (*Key, error) {
	return d.KeyOf(ctx, Present(prefix, text))
}

// KeyOf is Key for a text that was already read.
func (d *Directory) KeyOf(ctx context.Context, p Presented) (*Key, error) {
	if p.name == "" {
		return nil, ErrNotFound
	}
	k, err := lookup[Key](ctx, d, p.name)
	if errors.Is(err, token.ErrRecord) {
		return nil, ErrNotFound // write access to the store must not be enough to make a key
	}
	if err == nil && k.Public() != p.public {
		return nil, ErrNotFound
	}
	return k, err
}

// SeenKey returns the record of a key as it was last read, however long ago, without asking the KV. It
// is nil if the key was never read. The caller must not change it.
func (d *Directory) SeenKey(p Presented) *Key {
	if c, ok := d.cache.Peek(p.name); ok && p.name != "" {
		return c.value.(*Key)
	}
	return nil
}

// SeenIntegration returns the integration as it was last read, however long ago, without asking the KV.
// It is nil if the integration was never read. The caller must not change it.
func (d *Directory) SeenIntegration(id string) *Integration {
	if c, ok := d.cache.Peek("c/int/" + id); ok {
		return c.value.(*Integration)
	}
	return nil
}

// CreateKey makes a key of the publisher, a public one if integrationID is not empty. It returns the
// key's text, which is not stored.
func (d *Directory) CreateKey(
	ctx context.Context, publisherID, integrationID string, expires *time.Time,
) (string, Key, error) {
	if _, err := d.Publisher(ctx, publisherID); err != nil {
		return "", Key{}, err
	}
	prefix := SecretPrefix
	if integrationID != "" {
		prefix = PublicPrefix
		i, err := d.Integration(ctx, integrationID)
		if err != nil {
			return "", Key{}, err
		}
		if i.PublisherID != publisherID {
			return "", Key{}, ErrNotFound
		}
	}
	text, err := GenerateKey(prefix, d.random)
	if err != nil {
		return "", Key{}, err
	}
	k := Key{ID: keyID(text), PublisherID: publisherID, IntegrationID: integrationID,
		Last4: text[len(text)-4:], Created: d.now().UTC().Truncate(time.Second), Expires: expires}
	// The key is written as a new item, so that a commit that arrives late cannot undo a revocation.
	return text, k, d.putKey(ctx, text, k, new(string))
}

// ImportKey stores a key whose text GenerateKey made elsewhere.
func (d *Directory) ImportKey(ctx context.Context, text string, k Key) error {
	prefix := SecretPrefix
	if k.Public() {
		prefix = PublicPrefix
	}
	if !WellFormed(prefix, text) {
		return errors.New("integration: not a well-formed key of its kind")
	}
	k.ID, k.Last4 = keyID(text), text[len(text)-4:]
	return d.putKey(ctx, text, k, nil)
}

func (d *Directory) putKey(ctx context.Context, text string, k Key, version *string) error {
	return d.write(ctx, itemName(text), k, version)
}

func keyID(text string) string { return keyIDOf(itemName(text)) }

func keyIDOf(item string) string { return "key_" + item[len(keyItems):][:16] }

// Keys lists the records of all keys.
func (d *Directory) Keys(ctx context.Context) ([]Key, error) {
	return list[Key](ctx, d, keyItems)
}

// RevokeKey ends a key by its id. That holds here at once, and everywhere within 5 seconds.
func (d *Directory) RevokeKey(ctx context.Context, id string) (Key, error) {
	hash, ok := trimKeyID(id)
	if !ok {
		return Key{}, ErrNotFound
	}
	items, err := d.kv.List(ctx, kv.Key{Partition: Partition, Name: keyItems + hash}, "", 2)
	if err != nil {
		return Key{}, err
	}
	if len(items) != 1 {
		return Key{}, ErrNotFound
	}
	name := items[0].Key.Name
	k, version, err := read[Key](ctx, d, name)
	if err != nil {
		return Key{}, err
	}
	if k.Revoked == nil {
		now := d.now().UTC().Truncate(time.Second)
		k.Revoked = &now
		if err := d.write(ctx, name, k, &version); err != nil {
			return Key{}, err
		}
	}
	return *k, nil
}

func trimKeyID(id string) (string, bool) {
	const prefix = "key_"
	if len(id) != len(prefix)+16 || id[:len(prefix)] != prefix {
		return "", false
	}
	return id[len(prefix):], true
}
