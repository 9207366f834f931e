package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/verge-id/verge/core/kv"
)

// maxTries bounds how often one call can lose to others. Each try that fails means that another call
// succeeded.
const maxTries = 64

// change is a kv.Tx without repetitions, as etcd demands. If parts contradict each other, the later
// kind counts: a delete over a put, a cancel over a schedule.
type change struct {
	s      *Store
	tx     kv.Tx
	puts   map[string]kv.Put
	tasks  map[string]*kv.Task // nil: to be cancelled
	leases map[string]string   // of the tasks held
	gets   []clientv3.Op       // all that the checks and tasks depend on
}

// seen is what a change's gets found at one instant; nil before the first.
type seen map[string]*mvccpb.KeyValue

func (s *Store) change(tx kv.Tx) *change {
	c := &change{
		s:      s,
		tx:     tx,
		puts:   make(map[string]kv.Put),
		tasks:  make(map[string]*kv.Task),
		leases: make(map[string]string),
	}
	for _, p := range tx.Puts {
		c.puts[p.Name] = p
	}
	for _, name := range tx.Deletes {
		delete(c.puts, name)
	}
	for i := range tx.Schedule {
		c.tasks[tx.Schedule[i].ID] = &tx.Schedule[i]
	}
	for _, id := range tx.Cancel {
		c.tasks[id] = nil
	}
	for _, h := range tx.Held {
		c.leases[h.TaskID] = h.Lease
	}

	keys := make(map[string]bool)
	for _, check := range tx.Checks {
		keys[s.item(tx.Partition, check.Name)] = true
	}
	for id := range c.leases {
		keys[s.lease(tx.Partition, id)] = true
	}
	for id := range c.tasks {
		if _, known := c.entryOfHeld(id); !known {
			keys[s.task(tx.Partition, id)] = true
			keys[s.lease(tx.Partition, id)] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		c.gets = append(c.gets, clientv3.OpGet(key))
	}
	return c
}

// entryOfHeld returns the time when the task is ready again, as its lease says. It is right if the
// lease is still valid.
func (c *change) entryOfHeld(id string) (uint64, bool) {
	lease, ok := c.leases[id]
	if !ok {
		return 0, false
	}
	return leaseEnds(lease)
}

// Commit implements kv.KV. It makes one round trip if it involves only absent items, items by Tx, held
// tasks and new tasks. It makes two if it cancels or replaces a task that it does not hold, or writes
// where an expired item lies.
func (s *Store) Commit(ctx context.Context, tx kv.Tx) error {
	if err := cancelled(ctx, "commit"); err != nil {
		return err
	}
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	c := s.change(tx)
	var found seen
	if c.looksFirst() {
		read, err := s.read(ctx, c.gets)
		if err != nil {
			return failed("commit", err)
		}
		found = read
		if conflict, err := c.evaluate(found, sortable(s.now())); conflict != nil || err != nil {
			return orConflict(conflict, err)
		}
	}
	for range maxTries {
		if err := cancelled(ctx, "commit"); err != nil {
			return err // the servers refused every try so far
		}
		now := sortable(s.now())
		cmps, ops, err := c.plan(found, now)
		if err != nil {
			return err
		}
		if size := c.size(cmps, ops); size > s.maxRequest {
			return fmt.Errorf("etcd: %w: transaction %q takes %d bytes, the servers accept %d: "+
				"split it, or raise --max-request-bytes and Config.MaxRequest",
				kv.ErrUnavailable, tx.ID, size, s.maxRequest)
		}
		then, otherwise := nested(ops.list, c.gets)
		resp, left, err := s.txn(ctx, cmps, then, otherwise)
		if err != nil {
			return commitFailed(err, left)
		}
		if resp.Succeeded {
			return nil
		}
		found = ranged(resp)
		if conflict, err := c.evaluate(found, now); conflict != nil || err != nil {
			return orConflict(conflict, err)
		}
	}
	return fmt.Errorf("etcd: %w: transaction %q lost to %d others on its tasks and items in a row; "+
		"nothing changed", kv.ErrUnavailable, tx.ID, maxTries)
}

func orConflict(c *kv.Conflict, err error) error {
	if err != nil {
		return err
	}
	return c
}

// looksFirst reports whether a try without a look would most likely fail. In most cases a task that is
// to be cancelled exists, and its place is not known. A look costs the servers less than a write that
// they refuse.
func (c *change) looksFirst() bool {
	for id, task := range c.tasks {
		if _, known := c.entryOfHeld(id); task == nil && !known {
			return true
		}
	}
	return false
}

// evaluate decides tx against what was found at one instant.
func (c *change) evaluate(found seen, now uint64) (*kv.Conflict, error) {
	var conflict kv.Conflict
	refused := false
	for _, check := range c.tx.Checks {
		rec, there, err := c.live(found, check.Name, now)
		switch {
		case err != nil:
			return nil, err
		case !there && check.Tx == "", there && rec.tx == check.Tx:
		case !there:
			refused = true
		default:
			refused = true
			conflict.Items = append(conflict.Items,
				rec.export(kv.Key{Partition: c.tx.Partition, Name: check.Name}))
		}
	}
	for _, held := range c.tx.Held {
		lease := found[c.s.lease(c.tx.Partition, held.TaskID)]
		if lease == nil || string(lease.Value) != held.Lease {
			refused = true
			conflict.Lost = append(conflict.Lost, held.TaskID)
		}
	}
	if !refused {
		return nil, nil
	}
	return &conflict, nil
}

func (c *change) live(found seen, name string, now uint64) (record, bool, error) {
	key := c.s.item(c.tx.Partition, name)
	stored := found[key]
	if stored == nil {
		return record{}, false, nil
	}
	rec, ok := decodeItem(stored.Value)
	if !ok {
		return record{}, false, damaged(key, "holds no item")
	}
	return rec, !rec.expired(now), nil
}

// ops collects operations, and their bytes.
type ops struct {
	list  []clientv3.Op
	bytes int
}

func (o *ops) put(key, value string) {
	o.list = append(o.list, clientv3.OpPut(key, value))
	o.bytes += len(key) + len(value)
}

func (o *ops) delete(key string) {
	o.list = append(o.list, clientv3.OpDelete(key))
	o.bytes += len(key)
}

// plan returns the compares that must hold and the operations to do then. They follow from what was
// found or, without a look, from the guess that nothing is in the way.
func (c *change) plan(found seen, now uint64) ([]clientv3.Cmp, *ops, error) {
	var (
		s    = c.s
		p    = c.tx.Partition
		cmps []clientv3.Cmp
		o    ops
	)
	is := func(key string, revision int64) {
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", revision))
	}
	for _, check := range c.tx.Checks {
		key := s.item(p, check.Name)
		switch stored := found[key]; {
		case check.Tx != "":
			cmps = append(cmps,
				clientv3.Compare(clientv3.Value(key), ">", aliveAfter(check.Tx, now)),
				clientv3.Compare(clientv3.Value(key), "<", lastOf(check.Tx)))
		case stored == nil:
			is(key, 0)
		default:
			is(key, stored.ModRevision) // it has expired; otherwise evaluate would have refused
		}
	}
	for _, held := range c.tx.Held {
		cmps = append(cmps, clientv3.Compare(clientv3.Value(s.lease(p, held.TaskID)), "=", held.Lease))
	}

	for _, name := range slices.Sorted(maps.Keys(c.puts)) {
		put := c.puts[name]
		expires := uint64(never)
		if !put.Expires.IsZero() {
			expires = sortable(put.Expires)
			o.put(s.expiry(expires, s.item(p, name)), "")
		}
		o.put(s.item(p, name), encodeItem(c.tx.ID, expires, put.Value))
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(c.tx.Deletes))) {
		o.delete(s.item(p, name))
	}

	for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
		task := c.tasks[id]
		ready, there := c.entryOfHeld(id)
		if !there {
			var err error
			ready, there, err = c.entry(found, id)
			switch {
			case err != nil:
				return nil, nil, err
			case there:
				// The entry moves whenever the task changes hands. So it is enough to check that it is
				// in its place.
				cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(s.due(p, ready, id)), ">", 0))
			default:
				is(s.task(p, id), 0)
			}
		}
		if there {
			if task == nil || sortable(task.Due) != ready {
				o.delete(s.due(p, ready, id))
			}
			o.delete(s.lease(p, id))
		}
		if task != nil {
			o.put(s.task(p, id), encodeTask(sortable(task.Due), task.Payload))
			o.put(s.due(p, sortable(task.Due), id), "")
		} else if there {
			o.delete(s.task(p, id))
		}
	}
	return cmps, &o, nil
}

// entry returns the time when the task that was found is ready.
func (c *change) entry(found seen, id string) (ready uint64, there bool, err error) {
	key := c.s.task(c.tx.Partition, id)
	stored := found[key]
	if stored == nil {
		return 0, false, nil
	}
	if lease := found[c.s.lease(c.tx.Partition, id)]; lease != nil {
		ready, ok := leaseEnds(string(lease.Value))
		if !ok {
			return 0, false, damaged(string(lease.Key), "holds no lease")
		}
		return ready, true, nil
	}
	due, _, ok := decodeTask(stored.Value)
	if !ok {
		return 0, false, damaged(key, "holds no task")
	}
	return due, true, nil
}

// size returns at least the number of bytes of the request on the wire.
func (c *change) size(cmps []clientv3.Cmp, o *ops) int {
	const each = 24 // tags and lengths of one operation or compare
	size := o.bytes + each*(len(o.list)+len(cmps)+len(c.gets)) + 512
	for i := range cmps {
		size += len(cmps[i].KeyBytes()) + len(cmps[i].ValueBytes())
	}
	for i := range c.gets {
		size += len(c.gets[i].KeyBytes())
	}
	return size
}
