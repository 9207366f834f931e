// Package kvmerge merges reads of one partition that are asked for at the same time. It is for the
// configuration. Every five seconds every instance reads a key or an integration again
// (core/integration), and all requests that come meanwhile miss the cache. Without this package each of
// them would ask the store.
//
// A merged read keeps kv.Get's promise: it sees every commit that returned before it was called. The
// reason is that its answer comes from a read that was sent after it was called, never from one that is
// under way. Callers that come during a read wait for its end and then share the next read. So two of
// any number of concurrent reads reach the store.
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
	// patience is how long a read under way keeps the next from being sent. A read that hangs must not
	// hold up reads on other connections.
	patience = 100 * time.Millisecond
	// longest is how long a read may take, because no caller's context ends it.
	longest = 10 * time.Second
)

// Over returns the store with its reads of the partition merged. It is a kv.Meter if the store is one.
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

// page holds the arguments of a List.
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
	shared, err := m.lists.do(ctx, page{prefix, after, n}, func(ctx context.Context) ([]kv.Item, error) {
		return m.KV.List(ctx, prefix, after, n)
	})
	var items []kv.Item
	for _, it := range shared {
		items = append(items, own(it))
	}
	return items, err
}

// own returns a copy of the item, which its caller may change.
func own(it kv.Item) kv.Item {
	it.Value = bytes.Clone(it.Value)
	return it
}

// group merges reads of the same key.
type group[K comparable, V any] struct {
	mu   sync.Mutex
	keys map[K]*reads[V]
}

// reads are the reads of one key that have not ended: sent, next, or both.
type reads[V any] struct {
	sent *read[V] // the latest that was sent to the store
	next *read[V] // the read that new callers share; nil: nobody waits
}

// read is one read for all callers that share it.
type read[V any] struct {
	done  chan struct{} // closed when value and err are set
	value V
	err   error
}

// do returns the result of a fetch that begins after do was called. This caller or another one begins
// it.
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

// join returns the read that a new caller shares. It has not been sent yet, or this caller has just
// sent it.
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

// sendAfter sends next when before has ended or has taken too long.
func (g *group[K, V]) sendAfter(key K, before, next *read[V], fetch func(context.Context) (V, error)) {
	patient := time.NewTimer(patience)
	defer patient.Stop()
	select {
	case <-before.done:
	case <-patient.C:
	}
	g.mu.Lock()
	rs := g.keys[key] // the entry exists as long as a caller waits
	rs.sent, rs.next = next, nil
	g.mu.Unlock()
	g.send(key, next, fetch)
}

// send reads for all callers that wait. A caller that gives up does not end the read.
func (g *group[K, V]) send(key K, r *read[V], fetch func(context.Context) (V, error)) {
	late := errors.New("the store did not answer")
	ctx, cancel := context.WithTimeoutCause(context.Background(), longest, late)
	defer cancel()
	r.value, r.err = fetch(ctx)
	g.mu.Lock()
	// otherwise another read removes the entry
	if rs := g.keys[key]; rs != nil && rs.sent == r && rs.next == nil {
		delete(g.keys, key)
	}
	g.mu.Unlock()
	close(r.done)
}
