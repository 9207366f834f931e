// Package kvmerge merges reads of one partition that are asked for at the same
// time. It is for the configuration: every instance reads a key or an integration anew every five
// seconds (core/integration), and all requests that come meanwhile miss at once:
// without this each of them asks the store.
//
// A merged read keeps kv.Get's promise: it sees every commit that returned
// before it was called. For it is answered by a read that was sent after it was
// called, never by one that is under way: those who come while one is under way
// wait for it to end, and then share the next. So of any number at once, two
// reach the store.
package kvmerge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

const (
	// patience is how long a read under way keeps the next from being sent: one
	// that hangs must not hold up those on other connections.
	patience = 100 * time.Millisecond
	// longest is how long a read may take that nobody's context ends.
	longest = 10 * time.Second
)

// Over returns the store with its reads of the partition merged, a kv.Meter if
// the store is one.
func Over(store kv.KV, p kv.Partition) kv.KV {
	m := merging{KV: store, partition: p, gets: &group[kv.Key, kv.Item]{}, lists: &group[page, []kv.Item]{}}
	if meter, ok := store.(kv.Meter); ok {
		return struct {
			merging
			kv.Meter
		}{m, meter}
	}
	return m
}

type merging struct {
	kv.KV
	partition kv.Partition
	gets      *group[kv.Key, kv.Item]
	lists     *group[page, []kv.Item]
}

// page is what a List asks for.
type page struct {
	prefix kv.Key
	after  string
	n      int
}

// Get implements kv.KV.
func (m merging) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	if key.Partition != m.partition {
		return m.KV.Get(ctx, key)
	}
	item, err := m.gets.do(ctx, key, func(ctx context.Context) (kv.Item, error) { return m.KV.Get(ctx, key) })
	return own(item), err
}

// List implements kv.KV.
func (m merging) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	if prefix.Partition != m.partition {
		return m.KV.List(ctx, prefix, after, n)
	}
	shared, err := m.lists.do(ctx, page{prefix, after, n}, func(ctx context.Context) ([]kv.Item, error) { return m.KV.List(ctx, prefix, after, n) })
	var items []kv.Item
	for _, it := range shared {
		items = append(items, own(it))
	}
	return items, err
}

// own is an item that its caller may change.
func own(it kv.Item) kv.Item {
	it.Value = bytes.Clone(it.Value)
	return it
}

// group merges reads of the same key.
type group[K comparable, V any] struct {
	mu   sync.Mutex
	keys map[K]*reads[V]
}

// reads are those of one key that have not ended: at least one of the two.
type reads[V any] struct {
	sent *read[V] // the latest that reached the store
	next *read[V] // the one that those who come now share; nil: nobody waits
}

// read is one read for all who share it.
type read[V any] struct {
	done  chan struct{} // closed once value and err are there
	value V
	err   error
}

// do returns what fetch returns, called by whoever, after do was.
func (g *group[K, V]) do(ctx context.Context, key K, fetch func(context.Context) (V, error)) (V, error) {
	r := g.join(key, fetch)
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var none V
		return none, fmt.Errorf("%w: %w", kv.ErrUnavailable, context.Cause(ctx))
	}
}

// join returns the read that whoever comes now shares. It is not sent yet, or
// has just been, by this caller.
func (g *group[K, V]) join(key K, fetch func(context.Context) (V, error)) *read[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.keys == nil {
		g.keys = map[K]*reads[V]{}
	}
	rs := g.keys[key]
	switch {
	case rs == nil:
		r := &read[V]{done: make(chan struct{})}
		g.keys[key] = &reads[V]{sent: r}
		go g.send(key, r, fetch)
		return r
	case rs.next == nil:
		rs.next = &read[V]{done: make(chan struct{})}
		go g.sendAfter(key, rs.sent, rs.next, fetch)
	}
	return rs.next
}

// sendAfter sends next once before has ended, or has had its time.
func (g *group[K, V]) sendAfter(key K, before, next *read[V], fetch func(context.Context) (V, error)) {
	patient := time.NewTimer(patience)
	defer patient.Stop()
	select {
	case <-before.done:
	case <-patient.C:
	}
	g.mu.Lock()
	rs := g.keys[key] // it is kept as long as somebody waits
	rs.sent, rs.next = next, nil
	g.mu.Unlock()
	g.send(key, next, fetch)
}

// send reads for everybody who waits, whoever of them gives up.
func (g *group[K, V]) send(key K, r *read[V], fetch func(context.Context) (V, error)) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), longest, errors.New("the store did not answer"))
	defer cancel()
	r.value, r.err = fetch(ctx)
	g.mu.Lock()
	if rs := g.keys[key]; rs != nil && rs.sent == r && rs.next == nil { // else it is another's to end
		delete(g.keys, key)
	}
	g.mu.Unlock()
	close(r.done)
}
