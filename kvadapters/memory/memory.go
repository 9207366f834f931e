// Package memory implements kv.KV in the memory of the process. Use [New] in tests, in development and to
// measure the core without a disk.
//
// A commit is atomic, but all data is lost with the process. A service that must remember used tokens
// cannot run on it.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/verge-id/verge/core/kv"
)

// Config configures a Store. The zero value works.
type Config struct {
	// Now is the clock for the expiry of items. Nil: time.Now.
	Now func() time.Time
}

// Store implements kv.KV. Partitions do not wait for each other.
type Store struct {
	now    func() time.Time
	leases atomic.Uint64

	mu         sync.RWMutex // guards the map, not the partitions in it
	partitions map[kv.Partition]*partition
}

var _ kv.KV = (*Store)(nil)

// New returns an empty Store.
func New(c Config) *Store {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Store{now: c.Now, partitions: make(map[kv.Partition]*partition)}
}

// partition has every item by name, in the order of names for List and, if it ever expires, by expiry. It
// has every task twice: by id and by the time when it can next be claimed.
type partition struct {
	mu     sync.Mutex
	items  map[string]*item
	names  *btree.Map[string, *item]
	expiry *btree.BTreeG[*item]
	tasks  map[string]*task
	ready  *btree.BTreeG[*task]
}

// item and its value are never modified: a put replaces the item.
type item struct {
	name    string
	value   []byte
	tx      string
	expires time.Time
}

type task struct {
	id      string
	due     time.Time
	payload []byte
	lease   string    // of the latest claim, even if expired; empty: never claimed
	ready   time.Time // when it can be claimed: due, or the end of the lease
}

func newPartition() *partition {
	unlocked := btree.Options{NoLocks: true} // partition.mu already guards them
	return &partition{
		items: make(map[string]*item),
		names: new(btree.Map[string, *item]),
		expiry: btree.NewBTreeGOptions(func(a, b *item) bool {
			return cmp.Or(a.expires.Compare(b.expires), strings.Compare(a.name, b.name)) < 0
		}, unlocked),
		tasks: make(map[string]*task),
		ready: btree.NewBTreeGOptions(func(a, b *task) bool {
			return cmp.Or(a.ready.Compare(b.ready), strings.Compare(a.id, b.id)) < 0
		}, unlocked),
	}
}

// existing returns nil for a partition without a commit, so that reading a partition uses no memory.
func (s *Store) existing(p kv.Partition) *partition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.partitions[p]
}

func (s *Store) partition(p kv.Partition) *partition {
	if part := s.existing(p); part != nil {
		return part
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	part := s.partitions[p]
	if part == nil {
		part = newPartition()
		s.partitions[p] = part
	}
	return part
}

// Get implements kv.KV.
func (s *Store) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	if err := cancelled(ctx); err != nil {
		return kv.Item{}, err
	}
	p := s.existing(key.Partition)
	if p == nil {
		return kv.Item{}, kv.ErrNotFound
	}
	p.mu.Lock()
	it := p.live(key.Name, s.now())
	p.mu.Unlock()
	if it == nil {
		return kv.Item{}, kv.ErrNotFound
	}
	return it.export(key.Partition), nil
}

// Commit implements kv.KV.
func (s *Store) Commit(ctx context.Context, tx kv.Tx) error {
	if err := cancelled(ctx); err != nil {
		return err
	}
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	// Copy the values before taking the lock: this is most of the work of a commit.
	puts := make([]*item, len(tx.Puts))
	for i, put := range tx.Puts {
		puts[i] = &item{name: put.Name, value: clone(put.Value), tx: tx.ID, expires: put.Expires.Round(0)}
	}
	tasks := make([]*task, len(tx.Schedule))
	for i, t := range tx.Schedule {
		due := t.Due.Round(0)
		tasks[i] = &task{id: t.ID, due: due, payload: clone(t.Payload), ready: due}
	}

	p := s.partition(tx.Partition)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := s.now()
	if conflict := p.evaluate(tx, now); conflict != nil {
		return conflict
	}
	for _, it := range puts {
		p.put(it)
	}
	for _, name := range tx.Deletes {
		p.delete(name)
	}
	for _, t := range tasks {
		p.cancel(t.id)
		p.schedule(t)
	}
	for _, id := range tx.Cancel {
		p.cancel(id)
	}
	// Sweep more items than this commit puts, so that expired items cannot accumulate, but only a few more,
	// so that no commit takes long.
	p.sweep(now, len(puts)+2)
	return nil
}

// Claim implements kv.KV.
func (s *Store) Claim(
	ctx context.Context, name kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	if err := cancelled(ctx); err != nil {
		return nil, time.Time{}, err
	}
	p := s.existing(name)
	if p == nil {
		return nil, time.Time{}, nil
	}
	now = now.Round(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(s.now(), 64) // a partition without commits must lose its expired items too

	var claimed []*task
	var next time.Time
	p.ready.Scan(func(t *task) bool {
		if len(claimed) < n && !t.ready.After(now) {
			claimed = append(claimed, t)
			return true
		}
		next = t.ready
		return false
	})
	tasks := make([]kv.Task, len(claimed))
	for i, t := range claimed {
		p.ready.Delete(t)
		t.ready = now.Add(lease)
		t.lease = strconv.FormatUint(s.leases.Add(1), 36)
		p.ready.Set(t)
		tasks[i] = kv.Task{ID: t.id, Due: t.due, Payload: clone(t.payload), Lease: t.lease}
	}
	return tasks, next, nil
}

// List implements kv.KV.
func (s *Store) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	p := s.existing(prefix.Partition)
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := s.now()
	var items []kv.Item
	p.names.Ascend(max(prefix.Name, after), func(name string, it *item) bool {
		if len(items) >= n || !strings.HasPrefix(name, prefix.Name) {
			return false
		}
		if name > after && !it.expired(now) {
			items = append(items, it.export(prefix.Partition))
		}
		return true
	})
	return items, nil
}

// Size is the amount of data in a Store. It includes expired items that are not swept yet.
type Size struct {
	Items int
	Tasks int
	Bytes int64 // of names, values, ids and payloads, without indexes
}

// Size adds up all partitions, one at a time.
func (s *Store) Size() Size {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var size Size
	for _, p := range s.partitions {
		p.mu.Lock()
		size.Items += len(p.items)
		size.Tasks += len(p.tasks)
		for _, it := range p.items {
			size.Bytes += int64(len(it.name) + len(it.value))
		}
		for _, t := range p.tasks {
			size.Bytes += int64(len(t.id) + len(t.payload))
		}
		p.mu.Unlock()
	}
	return size
}

// evaluate returns nil if all checks and leases of tx pass.
func (p *partition) evaluate(tx kv.Tx, now time.Time) error {
	var c kv.Conflict
	failed := false
	for _, check := range tx.Checks {
		it := p.live(check.Name, now)
		switch {
		case it == nil && check.Tx == "", it != nil && it.tx == check.Tx:
		case it == nil:
			failed = true
		default:
			failed = true
			c.Items = append(c.Items, it.export(tx.Partition))
		}
	}
	for _, held := range tx.Held {
		if t := p.tasks[held.TaskID]; t == nil || t.lease == "" || t.lease != held.Lease {
			failed = true
			c.Lost = append(c.Lost, held.TaskID)
		}
	}
	if !failed {
		return nil
	}
	return &c
}

// live returns the item of that name, or nil if it is missing or has expired.
func (p *partition) live(name string, now time.Time) *item {
	it := p.items[name]
	if it == nil || it.expired(now) {
		return nil
	}
	return it
}

func (p *partition) put(it *item) {
	p.delete(it.name)
	p.items[it.name] = it
	p.names.Set(it.name, it)
	if !it.expires.IsZero() {
		p.expiry.Set(it)
	}
}

func (p *partition) delete(name string) {
	it := p.items[name]
	if it == nil {
		return
	}
	delete(p.items, name)
	p.names.Delete(it.name)
	if !it.expires.IsZero() {
		p.expiry.Delete(it)
	}
}

func (p *partition) schedule(t *task) {
	p.tasks[t.id] = t
	p.ready.Set(t)
}

func (p *partition) cancel(id string) {
	t := p.tasks[id]
	if t == nil {
		return
	}
	delete(p.tasks, id)
	p.ready.Delete(t)
}

// sweep removes up to n expired items, the earliest expired first.
func (p *partition) sweep(now time.Time, n int) {
	for range n {
		it, ok := p.expiry.Min()
		if !ok || !it.expired(now) {
			return
		}
		p.delete(it.name)
	}
}

func (it *item) expired(now time.Time) bool {
	return !it.expires.IsZero() && !now.Before(it.expires)
}

func (it *item) export(p kv.Partition) kv.Item {
	return kv.Item{
		Key:     kv.Key{Partition: p, Name: it.name},
		Value:   clone(it.value),
		Tx:      it.tx,
		Expires: it.expires,
	}
}

// clone returns a copy of exactly the needed size. The copy of a nil value is empty, not nil.
func clone(b []byte) []byte {
	c := make([]byte, len(b))
	copy(c, b)
	return c
}

func cancelled(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("memory: %w: %w", kv.ErrUnavailable, context.Cause(ctx))
}
