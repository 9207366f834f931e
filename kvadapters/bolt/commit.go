package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Limits of the commits that wait for the disk.
const (
	maxGroup      = 1024    // commits in one write
	maxGroupBytes = 2 << 20 // estimated bytes in one write; the last commit may exceed it
	maxQueued     = 16 * 1024
	sweepStep     = 256 // expired items removed in one write

	// changeSize is the maximum size of a change in a record, besides its value, for the longest key.
	changeSize = kv.MaxName + kv.MaxName + 2*8 + 16
)

var (
	errClosed     = errors.New("closed")
	errOverloaded = fmt.Errorf("%d commits wait for the disk already", maxQueued)
)

// change is a prepared kv.Tx, or one step of the sweeper. It has copies of all data that the caller may
// modify after Commit has returned.
type change struct {
	partition kv.Partition
	checks    []kv.Check
	held      []kv.Held
	puts      []putItem
	deletes   [][]byte
	schedule  []putTask
	cancel    []string
	bytes     int // maximum size in a record
	sweep     bool

	// taken is set by the writer, which then sends the result on done, or by a caller that stops waiting:
	// by the first of the two.
	taken atomic.Bool
	done  chan error
}

type putItem struct {
	key     []byte
	expires uint64
	record  []byte
}

type putTask struct {
	id     string
	due    uint64
	dueKey []byte
	record []byte
}

func prepared(tx kv.Tx) *change {
	c := &change{
		partition: tx.Partition,
		checks:    append([]kv.Check(nil), tx.Checks...),
		held:      append([]kv.Held(nil), tx.Held...),
		cancel:    append([]string(nil), tx.Cancel...),
		done:      make(chan error, 1),
	}
	for _, p := range tx.Puts {
		var expires uint64
		if !p.Expires.IsZero() {
			expires = sortable(p.Expires)
		}
		c.puts = append(c.puts, putItem{
			key:     itemKey(tx.Partition, p.Name),
			expires: expires,
			record:  encodeItem(expires, tx.ID, p.Value),
		})
		c.bytes += len(p.Value) + len(tx.ID)
	}
	for _, name := range tx.Deletes {
		c.deletes = append(c.deletes, itemKey(tx.Partition, name))
	}
	for _, t := range tx.Schedule {
		due := sortable(t.Due)
		c.schedule = append(c.schedule, putTask{
			id:     t.ID,
			due:    due,
			dueKey: dueKey(tx.Partition, due, t.ID),
			record: encodeTask(due, t.Payload),
		})
		c.bytes += len(t.Payload)
	}
	// A put changes the item, and removes and adds an entry in the index.
	c.bytes += changeSize * (3*len(c.puts) + 2*len(c.deletes) + 3*len(c.schedule) + 2*len(c.cancel))
	return c
}

func (c *change) writes() bool {
	return c.sweep || len(c.puts)+len(c.deletes)+len(c.schedule)+len(c.cancel) > 0
}

func (c *change) touchesTasks() bool { return len(c.held)+len(c.schedule)+len(c.cancel) > 0 }

// Commit implements kv.KV.
func (s *Store) Commit(ctx context.Context, tx kv.Tx) error {
	if ctx.Err() != nil {
		return unavailable(s.path, context.Cause(ctx))
	}
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("bolt: %w", err)
	}
	return s.submit(ctx, prepared(tx))
}

func (s *Store) submit(ctx context.Context, c *change) error {
	if err := s.stopped(); err != nil {
		return err
	}
	if err := s.queue.add(c); err != nil {
		return unavailable(s.path, err)
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		if c.taken.CompareAndSwap(false, true) {
			return unavailable(s.path, context.Cause(ctx))
		}
		return unknown(s.path, context.Cause(ctx))
	}
}

// queue has the changes that wait for the writer.
type queue struct {
	mu      sync.Mutex
	waiting []*change
	closed  bool
	wake    chan struct{} // has a token while the writer has not seen a change
}

func (q *queue) add(c *change) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errClosed
	case len(q.waiting) >= maxQueued:
		return errOverloaded
	}
	q.waiting = append(q.waiting, c)
	q.signal()
	return nil
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the waiting changes without those whose callers have stopped waiting.
func (q *queue) take() (group []*change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.waiting {
		if c.taken.CompareAndSwap(false, true) {
			group = append(group, c)
		}
	}
	clear(q.waiting)
	q.waiting = q.waiting[:0]
	return group
}

// next waits for changes or the end of a checkpoint. It returns at most as many changes as fit into one
// write, without those whose callers have stopped waiting. open is false once the queue is closed and empty.
func (q *queue) next() (group []*change, open bool) {
	group, rest, closed := q.fill()
	if len(group) == 0 && rest == 0 && !closed {
		<-q.wake
		group, rest, closed = q.fill()
	}
	return group, len(group) > 0 || rest > 0 || !closed
}

// fill returns the next group, and the number of changes that wait for a later one.
func (q *queue) fill() (group []*change, rest int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size, n := 0, 0
	for n < len(q.waiting) && len(group) < maxGroup && size < maxGroupBytes {
		c := q.waiting[n]
		n++
		if c.taken.CompareAndSwap(false, true) {
			group = append(group, c)
			size += c.bytes
		}
	}
	rest = copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return group, rest, q.closed
}

// write runs in the only writing goroutine. It commits the queued changes immediately, so an idle Store
// adds no delay. Changes that arrive during a write share the next one.
func (s *Store) write() {
	debug.SetPanicOnFault(true)
	for open := true; open; {
		var group []*change
		group, open = s.queue.next()
		s.stopIfBlocked()
		if s.checkpoint.ended() {
			s.recoverFrom(s.endCheckpoint(), nil)
		}
		if len(group) > 0 {
			s.writeGroup(group)
		}
		if s.log.used >= checkpointAfter && s.checkpoint.done == nil && s.trouble.Load() == nil {
			s.beginCheckpoint()
		}
	}
	s.recoverFrom(s.endCheckpoint(), nil)
}

// writeGroup evaluates each change against the state after the previous changes. It writes all accepted
// changes in one record of the log. It returns no result before that, not even a rejection: the rejection
// may depend on a change of the same group, which must be on disk first.
func (s *Store) writeGroup(group []*change) {
	if err := s.stopped(); err != nil {
		for _, c := range group {
			c.done <- err
		}
		return
	}
	if err := s.inPlace(); err != nil {
		s.recoverFrom(err, func() {
			err := unavailable(s.path, err)
			reply(group, make([]error, len(group)), err, err)
		})
		return
	}
	g := groupState{store: s, changes: &layer{}, locked: make(map[kv.Partition]*tasks),
		touched: make(map[string]bool)}
	defer g.unlock()
	for _, c := range group {
		if c.touchesTasks() {
			g.lock(c.partition) // before the data is read: a claim waits for the data with this lock
		}
	}

	rejected := make([]error, len(group))
	err := s.read(g.changes, func(st state) error {
		for i, c := range group {
			rejected[i] = g.apply(st, c)
		}
		return nil
	})
	if err != nil {
		reply(group, rejected, unavailable(s.path, err), unavailable(s.path, err))
		return
	}
	if !g.changes.empty() {
		record := s.log.record(g.changes)
		if err := s.makeRoom(record); err != nil {
			s.recoverFrom(err, func() {
				reply(group, rejected, unavailable(s.path, err), unavailable(s.path, err))
			})
			return
		}
		if err := s.log.write(record); err != nil {
			s.failed(&g, group, rejected, record, err)
			return
		}
		s.show(g.changes)
		s.count(group, rejected)
	}
	g.publish(group, rejected)
	reply(group, rejected, nil, nil)
}

// failed recovers from a failed write of a record. A record that the log lacks is dropped. If the log has the
// record, it may be on disk or not: the outcome is unknown until the disk has accepted the record again.
func (s *Store) failed(g *groupState, group []*change, rejected []error, record []byte, cause error) {
	r := recovery{Store: s}
	if s.log.contains(record) {
		s.doubt.Store(true)
		r.record, r.changes = record, g.changes
	}
	r.begin(cause)
	landed := r.landed
	switch {
	case landed:
		g.publish(group, rejected)
		reply(group, rejected, nil, nil)
	case r.record != nil:
		reply(group, rejected, unavailable(s.path, cause), unknown(s.path, cause))
	default:
		reply(group, rejected, unavailable(s.path, cause), unavailable(s.path, cause))
	}
	r.finish()
	if !r.landed {
		return
	}
	if !landed {
		g.publish(group, rejected)
	}
	s.count(group, rejected)
}

// recoverFrom recovers from a failed checkpoint, unless err is nil. It calls then, if it is not nil, after
// the first attempt.
func (s *Store) recoverFrom(err error, then func()) {
	if err == nil {
		return
	}
	r := recovery{Store: s}
	r.begin(err)
	if then != nil {
		then()
	}
	r.finish()
}

// show makes changes that are on disk visible to readers.
func (s *Store) show(changes *layer) {
	s.opened.Lock()
	defer s.opened.Unlock()
	s.active.add(changes)
}

// reply sends each change of the group its result: its rejection if its checks failed, wrote if it writes,
// else read. If the group failed, rejections do not count, because they may depend on changes that are not
// on disk.
func reply(group []*change, rejected []error, read, wrote error) {
	for i, c := range group {
		switch {
		case rejected[i] != nil && wrote == nil:
			c.done <- rejected[i]
		case rejected[i] == nil && c.writes():
			c.done <- wrote
		default:
			c.done <- read
		}
	}
}

// rejectQueued rejects the changes that were queued before the Store stopped writing.
func (s *Store) rejectQueued() {
	for _, c := range s.queue.take() {
		c.done <- s.stopped()
	}
}

func (s *Store) count(group []*change, rejected []error) {
	commits := uint64(0)
	for i, c := range group {
		if !c.sweep && rejected[i] == nil {
			commits++
		}
	}
	s.written.groups.Add(1)
	s.written.commits.Add(commits)
	s.written.largest.Store(max(s.written.largest.Load(), commits))
}

// groupState has the changes of a group so far. The data in memory is updated only when the group is on
// disk.
type groupState struct {
	store   *Store
	changes *layer
	locked  map[kv.Partition]*tasks
	touched map[string]bool // keys of the tasks whose lease a change of the group ended
}

func (g *groupState) lock(p kv.Partition) {
	if g.locked[p] == nil {
		t := g.store.tasksOf(p)
		t.lock <- struct{}{}
		g.locked[p] = t
	}
}

func (g *groupState) unlock() {
	for _, t := range g.locked {
		<-t.lock
	}
}

// apply adds c to the changes if its checks and leases pass. If they do not, rejected is the *kv.Conflict.
func (g *groupState) apply(st state, c *change) (rejected error) {
	now := g.store.now()
	if c.sweep {
		g.sweep(st, now)
		return nil
	}
	if rejected := g.evaluate(st, c, now); rejected != nil {
		return rejected
	}
	g.write(st, c)
	return nil
}

// write adds c to the newest layer of st.
func (g *groupState) write(st state, c *change) {
	changes := st.layers[0]
	for _, p := range c.puts {
		deleteItem(st, p.key)
		changes.put(itemTable, p.key, p.record)
		if p.expires != 0 {
			changes.put(expiryTable, expiryKey(p.expires, p.key), nil)
		}
	}
	for _, key := range c.deletes {
		deleteItem(st, key)
	}
	for _, t := range c.schedule {
		g.deleteTask(st, c.partition, t.id)
		changes.put(taskTable, taskKey(c.partition, t.id), t.record)
		changes.put(dueTable, t.dueKey, nil)
	}
	for _, id := range c.cancel {
		g.deleteTask(st, c.partition, id)
	}
}

// evaluate returns nil if all checks and leases of c pass.
func (g *groupState) evaluate(st state, c *change, now time.Time) error {
	var conflict kv.Conflict
	failed := false
	for _, check := range c.checks {
		rec, ok := getItem(st, itemKey(c.partition, check.Name), now)
		switch {
		case !ok && check.Tx == "", ok && string(rec.tx) == check.Tx:
		case !ok:
			failed = true
		default:
			failed = true
			conflict.Items = append(conflict.Items,
				rec.export(kv.Key{Partition: c.partition, Name: check.Name}))
		}
	}
	if c.touchesTasks() {
		t := g.locked[c.partition]
		for _, h := range c.held {
			if g.touched[string(taskKey(c.partition, h.TaskID))] || !t.holds(h.TaskID, h.Lease) {
				failed = true
				conflict.Lost = append(conflict.Lost, h.TaskID)
			}
		}
	}
	if !failed {
		return nil
	}
	return &conflict
}

// publish updates the tasks in memory from the group, which is now on disk, in the order of its changes.
func (g *groupState) publish(group []*change, rejected []error) {
	for i, c := range group {
		if rejected[i] != nil || !c.touchesTasks() {
			continue
		}
		t := g.locked[c.partition]
		for _, task := range c.schedule {
			t.scheduled(task.id, task.due, task.dueKey)
		}
		for _, id := range c.cancel {
			t.cancelled(id)
		}
	}
}

func (g *groupState) deleteTask(st state, p kv.Partition, id string) {
	key := taskKey(p, id)
	g.touched[string(key)] = true
	old := st.get(taskTable, key)
	if old == nil {
		return
	}
	due, _ := decodeTask(old)
	st.layers[0].remove(dueTable, dueKey(p, due, id))
	st.layers[0].remove(taskTable, key)
}

func deleteItem(st state, key []byte) {
	old := st.get(itemTable, key)
	if old == nil {
		return
	}
	if rec := decodeItem(old); rec.expires != 0 {
		st.layers[0].remove(expiryTable, expiryKey(rec.expires, key))
	}
	st.layers[0].remove(itemTable, key)
}

// sweep removes at most sweepStep items, the earliest expired first.
func (g *groupState) sweep(st state, now time.Time) {
	limit := sortable(now)
	var keys [][]byte // collected first, because a change invalidates the cursor
	c := st.seek(expiryTable, nil)
	for k, _ := c.next(); k != nil && len(keys) < sweepStep; k, _ = c.next() {
		if binary.BigEndian.Uint64(k) > limit {
			break
		}
		keys = append(keys, k)
	}
	for _, k := range keys {
		st.layers[0].remove(expiryTable, k)
		st.layers[0].remove(itemTable, k[8:])
	}
}

// sweep asks the writer at each tick to remove expired items, in steps that share a write with commits. It
// does so only if there are expired items, so that an idle Store does not write, or if the file is not in
// place, so that an idle Store notices that.
func (s *Store) sweep(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
		}
		for s.anyExpired() || s.inPlace() != nil {
			c := &change{sweep: true, bytes: 2 * sweepStep * changeSize, done: make(chan error, 1)}
			if s.submit(context.Background(), c) != nil {
				break // the next commit reports the cause
			}
		}
	}
}

func (s *Store) anyExpired() bool {
	found := false
	err := s.view(context.Background(), func(st state) error {
		k, _ := st.seek(expiryTable, nil).next()
		found = k != nil && binary.BigEndian.Uint64(k) <= sortable(s.now())
		return nil
	})
	return err == nil && found
}
