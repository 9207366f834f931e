// Package coalesce lets concurrent reads of one partition share a read of the store. Verge uses it for the
// configuration: every instance reads a key or an integration again after five seconds (core/integration),
// and all requests in that moment miss the cache. Without coalescing, each of them would read the store.
//
// A shared read keeps the guarantee of kv.Get: it sees every commit that returned before the call. A caller
// never joins a read that is already in progress, because that read may have begun before the commit.
// Callers that arrive during a read wait for its end and then share the next read. Therefore any number of
// concurrent callers cause at most two reads of the store.
package coalesce

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
	// maxDelay is the maximum time that a read in progress delays the next read. A read that hangs must
	// not block reads on other connections.
	maxDelay = 100 * time.Millisecond
	// readTimeout is the timeout of a read. The read needs one because no caller's context ends it.
	readTimeout = 10 * time.Second
)

// Reads returns the store with coalesced reads of the partition. If the store is a kv.Meter, the result is
// one, too.
func Reads(store kv.KV, p kv.Partition) kv.KV {
	m := coalescing{KV: store, partition: p,
		gets: &group[kv.Key, kv.Item]{}, lists: &group[page, []kv.Item]{}}
	if meter, ok := store.(kv.Meter); ok {
		return struct {
			coalescing
			kv.Meter
		}{m, meter}
	}
	return m
}

type coalescing struct {
	kv.KV
	partition kv.Partition
	gets      *group[kv.Key, kv.Item]
	lists     *group[page, []kv.Item]
}

// page contains the arguments of List.
type page struct {
	prefix kv.Key
	after  string
	n      int
}

// Get implements kv.KV.
func (m coalescing) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	if key.Partition != m.partition {
		return m.KV.Get(ctx, key)
	}
	item, err := m.gets.do(ctx, key, func(ctx context.Context) (kv.Item, error) { return m.KV.Get(ctx, key) })
	return own(item), err
}

// List implements kv.KV.
func (m coalescing) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
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

// own returns a copy of the item that its caller may change.
func own(it kv.Item) kv.Item {
	it.Value = bytes.Clone(it.Value)
	return it
}

// group coalesces reads of the same key.
type group[K comparable, V any] struct {
	mu   sync.Mutex
	keys map[K]*reads[V]
}

// reads contains the unfinished reads of one key: sent, next, or both.
type reads[V any] struct {
	sent *read[V] // the latest read that was sent to the store
	next *read[V] // the read that new callers share; nil if no caller waits
}

// read is one read of the store and its result, for all callers that share it.
type read[V any] struct {
	done  chan struct{} // closed when value and err are set
	value V
	err   error
}

// do returns the result of a fetch that begins after the call of do. This caller or another caller starts
// the fetch. If ctx ends first, do returns kv.ErrUnavailable.
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

// join returns the read that a new caller shares: the next read, or one that join has just sent.
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

// sendAfter sends next when before has ended or maxDelay has passed.
func (g *group[K, V]) sendAfter(key K, before, next *read[V], fetch func(context.Context) (V, error)) {
	delay := time.NewTimer(maxDelay)
	defer delay.Stop()
	select {
	case <-before.done:
	case <-delay.C:
	}
	g.mu.Lock()
	rs := g.keys[key] // the entry exists as long as a caller waits
	rs.sent, rs.next = next, nil
	g.mu.Unlock()
	g.send(key, next, fetch)
}

// send reads the store for all waiting callers. The read continues even if a caller stops waiting.
func (g *group[K, V]) send(key K, r *read[V], fetch func(context.Context) (V, error)) {
	late := errors.New("the store did not respond")
	ctx, cancel := context.WithTimeoutCause(context.Background(), readTimeout, late)
	defer cancel()
	r.value, r.err = fetch(ctx)
	g.mu.Lock()
	// Otherwise another read removes the entry.
	if rs := g.keys[key]; rs != nil && rs.sent == r && rs.next == nil {
		delete(g.keys, key)
	}
	g.mu.Unlock()
	close(r.done)
}
