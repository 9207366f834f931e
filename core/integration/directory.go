package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
)

// Partition holds the configuration.
const Partition kv.Partition = "c"

// cacheLife is how long a read may be used, so that a revocation holds everywhere within this time
// (contract 12).
const cacheLife = 5 * time.Second

// cacheMost is how long a read may be used if the generation shows that it is still current. Without a limit,
// a change by a program that does not write the generation would never be noticed.
const cacheMost = time.Minute

// Prefixes of the directory's items.
const (
	publisherItems   = "c/pub/"
	integrationItems = "c/int/"
	keyItems         = "c/key/"
	readinessItems   = "c/ready/"
)

// generationItem is written with every change of a record. While its version is the same, no record has
// changed. So an instance reads one item every few seconds, and not each publisher, integration and key that
// is in use.
const generationItem = "c/generation"

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

	generation atomic.Pointer[generation] // nil before the first read
}

type cached struct {
	value      any
	checked    time.Time // when it was certainly current
	read       time.Time // when it was read; for current
	generation string    // the generation before it was read; for current
}

// generation is the version of all records together.
type generation struct {
	version string // "" if no record was ever written
	read    time.Time
}

// allOrigins is the name in the cache for the browser origins of all integrations.
const allOrigins = "origins"

// NewDirectory returns the directory that h's KV holds.
func NewDirectory(h host.Host) *Directory {
	cache, err := lru.New[string, cached](8192)
	if err != nil {
		panic(err) // only for a size below 1
	}
	h = host.WithDefaults(h)
	return &Directory{kv: h.KV, sealer: h.Sealer, now: h.Now, random: h.Random, log: h.Log, count: h.Count,
		cache: cache}
}

// lookup reads one JSON item, through the cache. It checks the item again every cacheLife, because a key of
// its MAC may have been retired.
func lookup[T any](ctx context.Context, d *Directory, name string) (*T, error) {
	now := d.now()
	if c, ok := d.cache.Get(name); ok && fresh(c.checked, now) {
		return c.value.(*T), nil
	}
	item, checked, err := current(ctx, d, itemOf+name, func() (kv.Item, error) {
		return d.kv.Get(ctx, itemKey(name))
	})
	if errors.Is(err, kv.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	v, err := decode[T](d, item)
	if errors.Is(err, token.ErrRecord) { // it may have been signed again since the generation was read
		d.forget(name)
		v, _, err = read[T](ctx, d, name)
		checked = now
	}
	if err != nil {
		return nil, err
	}
	d.cache.Add(name, cached{value: v, checked: checked})
	return v, nil
}

// fresh reports whether a read at that time may be used at now, whose clock may have gone back.
func fresh(read, now time.Time) bool { return now.Sub(read).Abs() < cacheLife }

// itemOf is the prefix of the cache key of an item; its name follows.
const itemOf = "item "

// current returns the value of that name from the cache, or else from read. checked is when the value was
// certainly current, less than cacheLife ago.
func current[T any](ctx context.Context, d *Directory, name string, read func() (T, error)) (
	v T, checked time.Time, err error) {
	now := d.now()
	c, ok := d.cache.Get(name)
	if ok && fresh(c.checked, now) {
		return c.value.(T), c.checked, nil
	}
	g, err := d.currentGeneration(ctx)
	if err != nil {
		return v, now, err
	}
	if ok && c.generation == g.version && now.Sub(c.read).Abs() < cacheMost {
		c.checked = g.read
		d.cache.Add(name, c)
		return c.value.(T), g.read, nil
	}
	if v, err = read(); err != nil {
		return v, now, err
	}
	// The age counts from before the read was sent, so that its own duration is included.
	d.cache.Add(name, cached{v, now, now, g.version})
	return v, now, nil
}

// forget removes a record from the cache.
func (d *Directory) forget(name string) {
	d.cache.Remove(name)
	d.cache.Remove(itemOf + name)
}

// currentGeneration returns a generation that is at most cacheLife old.
func (d *Directory) currentGeneration(ctx context.Context) (*generation, error) {
	now := d.now()
	if g := d.generation.Load(); g != nil && fresh(g.read, now) {
		return g, nil
	}
	item, err := d.kv.Get(ctx, itemKey(generationItem))
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return nil, err
	}
	g := &generation{item.Tx, now}
	d.generation.Store(g)
	return g, nil
}

// read bypasses the cache. It returns the item's version besides the value. The error is
// token.ErrRecord if no instance of this service wrote the item.
func read[T any](ctx context.Context, d *Directory, name string) (*T, string, error) {
	item, err := d.kv.Get(ctx, itemKey(name))
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
	until, err := token.CheckLongLived(d.sealer, item.Key.String(), item.Value)
	// An item without a MAC is from an earlier release. Reseal has signed all of them by the time when
	// the first key seals that accepts nothing without a MAC.
	if err == nil && token.RecordedWith(item.Value) == "" &&
		!host.ValidAt(d.now().Add(-unsignedLife), until) {
		err = fmt.Errorf("%w: %s", token.ErrRecord, item.Key)
	}
	if errors.Is(err, token.ErrRecord) {
		d.count(metric.NotAuthentic)
		d.log.Error(token.Rejection(err), "kind", kindOf[T](), "item", item.Key.String())
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

// kindOf returns the kind of a record for the log.
func kindOf[T any]() string {
	switch any(new(T)).(type) {
	case *Publisher:
		return "publisher"
	case *Integration:
		return "integration"
	case *Key:
		return "API key"
	case *readiness:
		return "readiness"
	}
	return "other"
}

// unsignedLife is how long an item without a MAC is still read after the first bound key began to seal.
// The clocks' margin is added. Reseal needs seconds.
const unsignedLife = 10 * time.Minute

// record is a value to be kept under a name.
type record struct {
	name  string
	value any
}

// write puts one JSON item. If version is given, it replaces only that version; "" means a new item.
func (d *Directory) write(ctx context.Context, name string, v any, version *string, extra ...kv.Put) error {
	_, err := d.commit(ctx, version, extra, record{name, v})
	return err
}

// commit writes records and the items in extra, all or nothing. If version is given, the first
// record replaces only that version; "" means a new item. The new version is returned.
func (d *Directory) commit(ctx context.Context, version *string, extra []kv.Put, records ...record) (
	string, error) {
	var checks []kv.Check
	if version != nil {
		checks = []kv.Check{{Name: records[0].name, Tx: *version}}
	}
	return d.commitIf(ctx, checks, extra, records...)
}

// commitIf is commit under any conditions. Every change of a record comes here, so that the generation
// changes with it.
func (d *Directory) commitIf(ctx context.Context, checks []kv.Check, extra []kv.Put, records ...record) (
	string, error) {
	id, err := kv.NewTxID(d.random)
	if err != nil {
		return "", err
	}
	tx := kv.Tx{ID: id, Partition: Partition, Checks: checks}
	for _, r := range records {
		put, err := d.signed(r)
		if err != nil {
			return "", err
		}
		tx.Puts = append(tx.Puts, put)
	}
	tx.Puts = append(append(tx.Puts, extra...), kv.Put{Name: generationItem})
	defer func() {
		for _, r := range records {
			d.forget(r.name)
		}
		d.cache.Remove(allOrigins)
	}()
	return id, kv.CommitSurely(ctx, d.kv, tx)
}

func (d *Directory) signed(r record) (kv.Put, error) {
	b, err := json.Marshal(r.value)
	if err != nil {
		return kv.Put{}, fmt.Errorf("integration: %w", err)
	}
	b, err = token.SignRecord(d.sealer, itemKey(r.name).String(), b)
	return kv.Put{Name: r.name, Value: b}, err
}

func itemKey(name string) kv.Key { return kv.Key{Partition: Partition, Name: name} }

// listPage is how many items one request asks for.
const listPage = 200

// each calls do for every item whose name begins with the prefix.
func (d *Directory) each(ctx context.Context, prefix string, do func(kv.Item) error) error {
	return eachOf(ctx, d.kv, itemKey(prefix), do)
}

func eachOf(ctx context.Context, store kv.KV, prefix kv.Key, do func(kv.Item) error) error {
	for after := ""; ; {
		items, err := store.List(ctx, prefix, after, listPage)
		if err != nil {
			return err
		}
		for _, it := range items {
			after = it.Key.Name
			if err := do(it); err != nil {
				return err
			}
		}
		if len(items) < listPage {
			return nil
		}
	}
}

func listAll[T any](ctx context.Context, d *Directory, prefix string) ([]T, error) {
	var out []T
	err := d.each(ctx, prefix, func(it kv.Item) error {
		v, err := decode[T](d, it)
		if errors.Is(err, token.ErrRecord) {
			return nil // this service did not write it
		}
		if err == nil {
			out = append(out, *v)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Publisher returns a publisher.
func (d *Directory) Publisher(ctx context.Context, id string) (*Publisher, error) {
	return lookup[Publisher](ctx, d, publisherItems+id)
}

// PutPublisher adds or replaces a publisher.
func (d *Directory) PutPublisher(ctx context.Context, p Publisher) error {
	return d.write(ctx, publisherItems+p.ID, p, nil)
}

// Integration returns an integration, at most 5 seconds old. The caller must not change it.
func (d *Directory) Integration(ctx context.Context, id string) (*Integration, error) {
	return lookup[Integration](ctx, d, integrationItems+id)
}

// Integrations returns all integrations.
func (d *Directory) Integrations(ctx context.Context) ([]Integration, error) {
	return listAll[Integration](ctx, d, integrationItems)
}

// BrowserOrigin reports whether any integration allows pages of that origin to use its public key.
func (d *Directory) BrowserOrigin(ctx context.Context, origin string) (bool, error) {
	origins, _, err := current(ctx, d, allOrigins, func() (map[string]bool, error) {
		all, err := d.Integrations(ctx)
		origins := make(map[string]bool)
		for _, i := range all {
			if i.Archived != nil {
				continue
			}
			for _, o := range i.BrowserOrigins {
				origins[o] = true
			}
		}
		return origins, err
	})
	return origins[origin], err
}

// PutIntegration adds or replaces an integration, without a version check. A secret that is not empty is
// sealed and replaces the stored one; a staged change is then dropped. If the secret is empty, the stored
// secret and the secret of a staged change are kept, and sealed again with the ring's first key.
func (d *Directory) PutIntegration(ctx context.Context, i Integration, secret string) error {
	if secret != "" {
		i.Staged = nil
		return d.putIntegration(ctx, i, nil, Secrets{Set: &secret}, nil)
	}
	for range maxRaces {
		old, version, err := read[Integration](ctx, d, integrationItems+i.ID)
		if errors.Is(err, token.ErrRecord) && i.Webhook.Sends() {
			return fmt.Errorf("the stored integration is not of this key ring; set its webhook "+
				"secret again: %w", err)
		} else if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, token.ErrRecord) {
			return err
		}
		// The write replaces only the version whose secret it keeps. Otherwise it could undo a change
		// of the secret that another operator makes at the same time.
		err = d.putIntegration(ctx, i, old, Secrets{}, &version)
		if !kv.IsConflict(err) {
			return err
		}
	}
	return d.raced("integration", i.ID)
}

// maxRaces limits how often a write is tried again after another write came first.
const maxRaces = 8

func (d *Directory) raced(kind, id string) error {
	return fmt.Errorf("%w: %s %s changed %d times under one request", kv.ErrUnavailable, kind, id, maxRaces)
}

// putIntegration writes an integration with its secrets, see sealed.
func (d *Directory) putIntegration(ctx context.Context, i Integration, old *Integration, s Secrets,
	version *string) error {
	i, err := d.sealed(i, old, s)
	if err != nil {
		return err
	}
	return d.write(ctx, integrationItems+i.ID, i, version, indexIntegration(i))
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
		return nil, ErrNotFound // write access to the store must not be enough to create a key
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
	if c, ok := d.cache.Peek(integrationItems + id); ok {
		return c.value.(*Integration)
	}
	return nil
}

// CreateKey creates a key of the publisher, a public one if integrationID is not empty. It returns the
// key's text, which is not stored.
//
// The items in extra are written in the same commit. The error is ErrArchived if the publisher or the
// integration is archived.
func (d *Directory) CreateKey(
	ctx context.Context, publisherID, integrationID string, expires *time.Time, extra ...kv.Put,
) (string, Key, error) {
	p, err := d.Publisher(ctx, publisherID)
	if err != nil {
		return "", Key{}, err
	}
	if p.Archived != nil {
		return "", Key{}, ErrArchived
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
		if i.Archived != nil {
			return "", Key{}, ErrArchived
		}
	}
	text, err := GenerateKey(prefix, d.random)
	if err != nil {
		return "", Key{}, err
	}
	k := Key{ID: keyID(text), PublisherID: publisherID, IntegrationID: integrationID,
		Last4: text[len(text)-4:], Created: d.now().UTC().Truncate(time.Second), Expires: expires}
	// The key is written as a new item, so that a commit that arrives late cannot undo a revocation.
	return text, k, d.putKey(ctx, text, k, new(string), extra...)
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

func (d *Directory) putKey(ctx context.Context, text string, k Key, version *string, extra ...kv.Put) error {
	name := itemName(text)
	return d.write(ctx, name, k, version, append([]kv.Put{indexKey(name, k)}, extra...)...)
}

func keyID(text string) string { return keyIDOf(itemName(text)) }

func keyIDOf(item string) string { return "key_" + item[len(keyItems):][:16] }

// FindKey returns the record of a key by the key's id, bypassing the cache.
func (d *Directory) FindKey(ctx context.Context, id string) (Key, error) {
	_, k, _, err := d.findKey(ctx, id)
	return k, err
}

// findKey returns a key's item by the key's id.
func (d *Directory) findKey(ctx context.Context, id string) (name string, k Key, version string, err error) {
	hash, ok := trimKeyID(id)
	if !ok {
		return "", k, "", ErrNotFound
	}
	items, err := d.kv.List(ctx, itemKey(keyItems+hash), "", 2)
	if err != nil {
		return "", k, "", err
	}
	if len(items) != 1 {
		return "", k, "", ErrNotFound
	}
	name = items[0].Key.Name
	found, version, err := read[Key](ctx, d, name)
	if err != nil {
		return "", k, "", err
	}
	return name, *found, version, nil
}

// RevokeKey ends a key by its id. It takes effect here immediately, and everywhere within 5 seconds. The
// items in extra are written in the same commit, unless the key was revoked before.
func (d *Directory) RevokeKey(ctx context.Context, id string, extra ...kv.Put) (Key, error) {
	for range maxRaces {
		name, k, version, err := d.findKey(ctx, id)
		if err != nil || k.Revoked != nil {
			return k, err
		}
		now := d.now().UTC().Truncate(time.Second)
		k.Revoked = &now
		if err := d.write(ctx, name, k, &version, extra...); !kv.IsConflict(err) {
			return k, err
		}
	}
	return Key{}, d.raced("key", id)
}

func trimKeyID(id string) (string, bool) {
	const prefix = "key_"
	if len(id) != len(prefix)+16 || id[:len(prefix)] != prefix {
		return "", false
	}
	return id[len(prefix):], true
}
