package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// store is a kv.KV with the promises of the port and nothing else. Its faults are in port.go.
type store struct {
	now        func() time.Time
	partitions map[kv.Partition]*partition
	leases     uint64
	counters   map[string]time.Time // of rates, by partition and name
	undo       []undo               // of the latest writes, the earliest first
}

// partition has items and tasks that are never modified: a write replaces them.
type partition struct {
	items map[string]*kv.Item
	tasks map[string]*storedTask
}

type storedTask struct {
	kv.Task
	ready time.Time // when it can be claimed
}

// undo is the state that one write replaced. A nil item or task did not exist.
type undo struct {
	at    time.Time
	in    *partition
	items map[string]*kv.Item
	tasks map[string]*storedTask
}

// maxUndo is the number of writes that a failover can lose.
const maxUndo = 32

var (
	_ kv.KV    = (*store)(nil)
	_ kv.Meter = (*store)(nil)
)

func newStore(now func() time.Time) *store {
	return &store{now: now, partitions: map[kv.Partition]*partition{}, counters: map[string]time.Time{}}
}

// copy returns a store with the same content, and without its history.
func (s *store) copy(now func() time.Time) *store {
	c := newStore(now)
	c.leases = s.leases
	for name, p := range s.partitions {
		c.partitions[name] = &partition{maps.Clone(p.items), maps.Clone(p.tasks)}
	}
	return c
}

func (s *store) partition(name kv.Partition) *partition {
	p := s.partitions[name]
	if p == nil {
		p = &partition{map[string]*kv.Item{}, map[string]*storedTask{}}
		s.partitions[name] = p
	}
	return p
}

// live returns the item of that name, or nil if it is missing or has expired.
func (p *partition) live(name string, now time.Time) *kv.Item {
	it := p.items[name]
	if it == nil || !it.Expires.IsZero() && !now.Before(it.Expires) {
		return nil
	}
	return it
}

// Get implements kv.KV.
func (s *store) Get(_ context.Context, key kv.Key) (kv.Item, error) {
	if it := s.partition(key.Partition).live(key.Name, s.now()); it != nil {
		return export(it), nil
	}
	return kv.Item{}, kv.ErrNotFound
}

func export(it *kv.Item) kv.Item {
	c := *it
	c.Value = append([]byte{}, it.Value...)
	return c
}

// Commit implements kv.KV.
func (s *store) Commit(_ context.Context, tx kv.Tx) error {
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("simulation: %w", err)
	}
	p, now := s.partition(tx.Partition), s.now()
	if conflict := p.evaluate(tx, now); conflict != nil {
		return conflict
	}
	u := s.remember(p)
	for _, put := range tx.Puts {
		u.item(put.Name)
		p.items[put.Name] = &kv.Item{Key: kv.Key{Partition: tx.Partition, Name: put.Name},
			Value: append([]byte{}, put.Value...), Tx: tx.ID, Expires: put.Expires.Round(0)}
	}
	for _, name := range tx.Deletes {
		u.item(name)
		delete(p.items, name)
	}
	for _, t := range tx.Schedule {
		u.task(t.ID)
		t.Due, t.Payload, t.Lease = t.Due.Round(0), append([]byte{}, t.Payload...), ""
		p.tasks[t.ID] = &storedTask{t, t.Due}
	}
	for _, id := range tx.Cancel {
		u.task(id)
		delete(p.tasks, id)
	}
	return nil
}

// evaluate returns the *kv.Conflict of the checks and leases that fail, or nil.
func (p *partition) evaluate(tx kv.Tx, now time.Time) error {
	var c kv.Conflict
	failed := false
	for _, check := range tx.Checks {
		it := p.live(check.Name, now)
		switch {
		case it == nil && check.Tx == "", it != nil && it.Tx == check.Tx:
		case it == nil:
			failed = true
		default:
			failed = true
			c.Items = append(c.Items, export(it))
		}
	}
	for _, held := range tx.Held {
		if t := p.tasks[held.TaskID]; t == nil || t.Lease == "" || t.Lease != held.Lease {
			failed = true
			c.Lost = append(c.Lost, held.TaskID)
		}
	}
	if !failed {
		return nil
	}
	return &c
}

// Claim implements kv.KV.
func (s *store) Claim(
	_ context.Context, name kv.Partition, now time.Time, lease time.Duration, n int,
) (tasks []kv.Task, next time.Time, err error) {
	p := s.partition(name)
	all := make([]*storedTask, 0, len(p.tasks))
	for _, t := range p.tasks {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *storedTask) int {
		return cmp.Or(a.ready.Compare(b.ready), strings.Compare(a.ID, b.ID))
	})
	var u *undo
	for _, t := range all {
		if len(tasks) == n || t.ready.After(now) {
			return tasks, t.ready, nil
		}
		if u == nil {
			u = s.remember(p)
		}
		u.task(t.ID)
		s.leases++
		leased := &storedTask{t.Task, now.Add(lease)}
		leased.Lease = strconv.FormatUint(s.leases, 36)
		p.tasks[t.ID] = leased
		claimed := leased.Task
		claimed.Payload = append([]byte{}, t.Payload...)
		tasks = append(tasks, claimed)
	}
	return tasks, time.Time{}, nil
}

// List implements kv.KV.
func (s *store) List(_ context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	p, now := s.partition(prefix.Partition), s.now()
	var names []string
	for name := range p.items {
		if name > after && strings.HasPrefix(name, prefix.Name) && p.live(name, now) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var items []kv.Item
	for _, name := range names[:min(n, len(names))] {
		items = append(items, export(p.items[name]))
	}
	return items, nil
}

// Spend implements kv.Meter. The counter of the core, for a store without this, forgets some at random.
func (s *store) Spend(
	_ context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	before, after := make([]time.Time, len(charges)), make([]time.Time, len(charges))
	allowed := true
	for i, c := range charges {
		before[i] = s.counters[string(p)+"/"+c.Name]
		after[i] = now.Add(c.Cost)
		if before[i].After(now) {
			after[i] = before[i].Add(c.Cost)
		}
		allowed = allowed && !after[i].After(now.Add(c.Burst))
	}
	for i, c := range charges {
		if allowed {
			s.counters[string(p)+"/"+c.Name] = after[i]
		}
	}
	return before, nil
}

func (s *store) remember(p *partition) *undo {
	if len(s.undo) == maxUndo {
		s.undo = append(s.undo[:0], s.undo[1:]...)
	}
	s.undo = append(s.undo, undo{at: s.now(), in: p})
	return &s.undo[len(s.undo)-1]
}

func (u *undo) item(name string) {
	if u.items == nil {
		u.items = map[string]*kv.Item{}
	}
	if _, known := u.items[name]; !known {
		u.items[name] = u.in.items[name]
	}
}

func (u *undo) task(id string) {
	if u.tasks == nil {
		u.tasks = map[string]*storedTask{}
	}
	if _, known := u.tasks[id]; !known {
		u.tasks[id] = u.in.tasks[id]
	}
}

// failOver loses the latest writes, n at most, and none that is older than a second. It returns their number.
func (s *store) failOver(n int) (lost int) {
	for lost < n && len(s.undo) > 0 {
		u := s.undo[len(s.undo)-1]
		if s.now().Sub(u.at) > time.Second {
			break
		}
		for name, it := range u.items {
			if it == nil {
				delete(u.in.items, name)
			} else {
				u.in.items[name] = it
			}
		}
		for id, t := range u.tasks {
			if t == nil {
				delete(u.in.tasks, id)
			} else {
				u.in.tasks[id] = t
			}
		}
		s.undo = s.undo[:len(s.undo)-1]
		lost++
	}
	return lost
}
