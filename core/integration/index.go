package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/kv"
)

// The index lists the integrations and keys of a publisher, so that a list of them reads no others. Its items
// have no content. An entry counts only if the record has the same publisher, so a superfluous item reveals
// no data.
//
// An item is written in the commit of the record. Index adds the items that an earlier release did not write.
// All items of a kind are adjacent, so that they are compared in one pass.
const (
	integrationIndex = "c/of/int/" // then the publisher, "/" and the id
	keyIndex         = "c/of/key/" // then the publisher, "/" and the hash
)

func indexIntegration(i Integration) kv.Put {
	return indexed(integrationIndex + i.PublisherID + "/" + i.ID)
}

// indexKey is for the key that is stored under the name.
func indexKey(name string, k Key) kv.Put {
	return indexed(keyIndex + k.PublisherID + "/" + strings.TrimPrefix(name, keyItems))
}

func indexed(name string) kv.Put { return kv.Put{Name: name, Value: []byte("1")} }

// Index adds the items of the index that are missing, because an earlier release wrote their records. It
// reads every integration, every key and the whole index once, and writes only missing items.
func (d *Directory) Index(ctx context.Context) error {
	return errors.Join(
		index(ctx, d, integrationItems, integrationIndex,
			func(_ string, i Integration) kv.Put { return indexIntegration(i) }),
		index(ctx, d, keyItems, keyIndex, indexKey),
	)
}

func index[T any](ctx context.Context, d *Directory, records, index string,
	of func(name string, v T) kv.Put) error {
	known := map[string]bool{}
	if err := d.each(ctx, index, func(it kv.Item) error {
		known[it.Key.Name] = true
		return nil
	}); err != nil {
		return err
	}
	var missing []kv.Put
	if err := d.each(ctx, records, func(it kv.Item) error {
		v, err := decode[T](d, it)
		if errors.Is(err, token.ErrRecord) {
			return nil
		}
		if err != nil {
			return err
		}
		if put := of(it.Key.Name, *v); !known[put.Name] {
			missing = append(missing, put)
		}
		return nil
	}); err != nil {
		return err
	}
	for len(missing) > 0 {
		id, err := kv.NewTxID(d.random)
		if err != nil {
			return err
		}
		n := min(len(missing), kv.MaxTx)
		tx := kv.Tx{ID: id, Partition: Partition, Puts: missing[:n]}
		if err := kv.CommitSurely(ctx, d.kv, tx); err != nil {
			return fmt.Errorf("index of the directory: %w", err)
		}
		missing = missing[n:]
	}
	return nil
}

// ErrCursor is the error for a cursor that is not of this list.
var ErrCursor = errors.New("integration: this is not a cursor of the list")

// ListPublishers returns up to n publishers in the order of their ids, beginning behind the id after ("" for
// the first page). next is the cursor of the next page, or "". A page can be shorter than n, because items
// that this service did not write are omitted.
func (d *Directory) ListPublishers(ctx context.Context, after string, n int) (
	page []Versioned[Publisher], next string, err error) {
	if after != "" && (Publisher{ID: after}).Validate() != nil {
		return nil, "", ErrCursor
	}
	return listPageOf[Publisher](ctx, d, publisherItems, behind(publisherItems, after), n)
}

// ListIntegrations is ListPublishers for the integrations of a publisher, or of all publishers if publisher
// is "".
func (d *Directory) ListIntegrations(ctx context.Context, publisher, after string, n int) (
	page []Versioned[Integration], next string, err error) {
	if after != "" {
		if _, err := uuid.Parse(after); err != nil {
			return nil, "", ErrCursor
		}
	}
	if publisher == "" {
		return listPageOf[Integration](ctx, d, integrationItems, behind(integrationItems, after), n)
	}
	prefix := integrationIndex + publisher + "/"
	return listIndexed(ctx, d, prefix, behind(prefix, after), integrationItems, n,
		func(i *Integration) bool { return i.PublisherID == publisher })
}

// ListKeys is ListPublishers for the keys of a publisher, or of all publishers if publisher is "". The cursor
// is a key's id.
func (d *Directory) ListKeys(ctx context.Context, publisher, after string, n int) (
	page []Key, next string, err error) {
	if after != "" {
		hash, ok := trimKeyID(after)
		if !ok || !isToken(hash) {
			return nil, "", ErrCursor
		}
		after = hash + "~" // behind every hash that begins like this
	}
	var found []Versioned[Key]
	if publisher == "" {
		found, next, err = listPageOf[Key](ctx, d, keyItems, behind(keyItems, after), n)
	} else {
		prefix := keyIndex + publisher + "/"
		found, next, err = listIndexed(ctx, d, prefix, behind(prefix, after), keyItems, n,
			func(k *Key) bool { return k.PublisherID == publisher })
	}
	if next != "" {
		next = keyIDOf(keyItems + next)
	}
	for _, k := range found {
		page = append(page, k.Value)
	}
	return page, next, err
}

// behind returns the name after which a page begins.
func behind(prefix, after string) string {
	if after == "" {
		return ""
	}
	return prefix + after
}

// listPageOf returns one page of records. next is the last name without the prefix.
func listPageOf[T any](ctx context.Context, d *Directory, prefix, after string, n int) (
	page []Versioned[T], next string, err error) {
	items, err := d.kv.List(ctx, itemKey(prefix), after, n)
	if err != nil {
		return nil, "", err
	}
	for _, it := range items {
		v, err := decode[T](d, it)
		if errors.Is(err, token.ErrRecord) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		page = append(page, Versioned[T]{*v, it.Tx})
	}
	return page, nextOf(items, prefix, n), nil
}

// listIndexed returns the records that one page of an index names, if they are the publisher's.
func listIndexed[T any](ctx context.Context, d *Directory, index, after, records string, n int,
	owned func(*T) bool) (page []Versioned[T], next string, err error) {
	items, err := d.kv.List(ctx, itemKey(index), after, n)
	if err != nil {
		return nil, "", err
	}
	for _, it := range items {
		v, version, err := read[T](ctx, d, records+strings.TrimPrefix(it.Key.Name, index))
		if errors.Is(err, token.ErrRecord) || errors.Is(err, ErrNotFound) || err == nil && !owned(v) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		page = append(page, Versioned[T]{*v, version})
	}
	return page, nextOf(items, index, n), nil
}

func nextOf(items []kv.Item, prefix string, n int) string {
	if len(items) == 0 || len(items) < n {
		return ""
	}
	return strings.TrimPrefix(items[len(items)-1].Key.Name, prefix)
}
