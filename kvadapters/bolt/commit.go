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

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/verge-id/verge/core/kv"
)

// Limits of the commits that wait for the disk.
const (
	maxGroup      = 1024     // commits in one write
	maxGroupBytes = 16 << 20 // bytes of values and payloads in one write; the last commit may exceed it
	maxQueued     = 16 * 1024
	sweepStep     = 256 // expired items removed in one write
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
	bytes     int
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
		c.bytes += len(p.Value)
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

// next waits for changes and returns at most as many as fit into one write, without those whose callers
// have stopped waiting. It returns nil once the queue is closed and empty.
func (q *queue) next() []*change {
	for {
		q.mu.Lock()
		var group []*change
		size, n := 0, 0
		for n < len(q.waiting) && len(group) < maxGroup && size < maxGroupBytes {
			c := q.waiting[n]
			n++
			if c.taken.CompareAndSwap(false, true) {
				group = append(group, c)
				size += c.bytes
			}
		}
		rest := copy(q.waiting, q.waiting[n:])
		clear(q.waiting[rest:])
		q.waiting = q.waiting[:rest]
		closed := q.closed
		q.mu.Unlock()
		if len(group) > 0 {
			return group
		}
		if rest > 0 {
			continue
		}
		if closed {
			return nil
		}
		<-q.wake
	}
}

// write runs in the only writing goroutine. It commits the queued changes immediately, so an idle Store
// adds no delay. Changes that arrive during a write share the next one.
func (s *Store) write() {
	debug.SetPanicOnFault(true)
	for group := s.queue.next(); group != nil; group = s.queue.next() {
		s.writeGroup(group)
	}
}

// writeGroup evaluates each change against the state after the previous changes. It writes all accepted
// changes in one bolt transaction. It returns no result before that, not even a rejection: the rejection
// may depend on a change of the same group, which must be on disk first.
func (s *Store) writeGroup(group []*change) {
	if err := s.stopped(); err != nil {
		for _, c := range group {
			c.done <- err
		}
		return
	}
	defer s.wakeReaders()
	g := groupState{store: s, locked: make(map[kv.Partition]*tasks), touched: make(map[string]bool)}
	defer g.unlock()

	rejected := make([]error, len(group))
	committing := false
	var txid uint64
	err := func() (err error) {
		var tx *bbolt.Tx
		defer func() {
			if r := recover(); r != nil {
				err = damaged(r)
			}
			if tx == nil || err == nil {
				return
			}
			// A failed commit has rolled itself back. If the rollback fails too, bbolt may never release
			// its own lock.
			if e := recovered(tx.Rollback); e != nil && !errors.Is(e, berrors.ErrTxClosed) {
				err = errors.Join(err, e)
				s.wedged.Store(true)
			}
		}()
		if tx, err = s.db.Begin(true); err != nil {
			return err
		}
		wrote := 0
		for i, c := range group {
			if rejected[i], err = g.apply(tx, c); err != nil {
				return err
			}
			if rejected[i] == nil && c.writes() {
				wrote++
			}
		}
		if wrote == 0 {
			return tx.Rollback()
		}
		committing = true
		txid = uint64(tx.ID())
		return s.disk.Commit(tx)
	}()
	if err == nil {
		if committing {
			s.committed.Store(txid)
		}
		g.publish(group, rejected)
		s.count(group, rejected, committing, g.swept)
		answer(group, rejected, nil, nil)
		return
	}
	if !committing && !s.wedged.Load() {
		answer(group, rejected, unavailable(s.path, err), unavailable(s.path, err))
		return
	}

	r := recovery{Store: s}
	r.begin(err)
	s.wakeReaders()
	switch {
	case !committing, r.settled && !r.landed:
		answer(group, rejected, unavailable(s.path, err), unavailable(s.path, err))
	case r.landed:
		answer(group, rejected, nil, nil)
	default:
		answer(group, rejected, unavailable(s.path, err), unknown(s.path, err))
	}
	r.finish()
	if r.landed {
		g.publish(group, rejected)
		s.count(group, rejected, true, g.swept)
	}
}

// answer sends each change of the group its result: its rejection if its checks failed, wrote if it writes,
// else read. If the group failed, rejections do not count, because they may depend on changes that are not
// on disk.
func answer(group []*change, rejected []error, read, wrote error) {
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

// wakeReaders wakes readers that found a write in progress.
func (s *Store) wakeReaders() {
	close(*s.written.Swap(new(make(chan struct{}))))
}

// rejectQueued rejects the changes that were queued before the Store stopped writing.
func (s *Store) rejectQueued() {
	for _, c := range s.queue.take() {
		c.done <- s.stopped()
	}
}

func (s *Store) count(group []*change, rejected []error, wrote bool, swept int) {
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	commits := 0
	for i, c := range group {
		switch {
		case c.sweep:
		case rejected[i] != nil:
			s.stats.Conflicts++
		default:
			commits++
		}
	}
	if wrote {
		s.stats.Transactions++
		s.stats.Commits += uint64(commits)
		s.stats.Largest = max(s.stats.Largest, commits)
		s.stats.Swept += uint64(swept)
	}
}

// groupState has the changes of a group so far. The maps in memory are updated only when the group is on
// disk.
type groupState struct {
	store   *Store
	locked  map[kv.Partition]*tasks
	touched map[string]bool // keys of the tasks whose lease a change of the group ended
	swept   int
}

func (g *groupState) lock(p kv.Partition) *tasks {
	t := g.locked[p]
	if t == nil {
		t = g.store.tasksOf(p)
		t.lock <- struct{}{}
		g.locked[p] = t
	}
	return t
}

func (g *groupState) unlock() {
	for _, t := range g.locked {
		<-t.lock
	}
}

// apply writes c to tx if its checks and leases pass. If they do not, rejected is the *kv.Conflict. If err
// is not nil, the whole group failed.
func (g *groupState) apply(tx *bbolt.Tx, c *change) (rejected, err error) {
	now := g.store.now()
	if c.sweep {
		return nil, g.sweep(tx, now)
	}
	if rejected := g.evaluate(tx, c, now); rejected != nil {
		return rejected, nil
	}
	return nil, g.write(tx, c)
}

// write writes c to tx.
func (g *groupState) write(tx *bbolt.Tx, c *change) error {
	for _, p := range c.puts {
		if err := deleteItem(tx, p.key); err != nil {
			return err
		}
		if err := tx.Bucket(bucketItems).Put(p.key, p.record); err != nil {
			return err
		}
		if p.expires != 0 {
			if err := tx.Bucket(bucketExpiry).Put(expiryKey(p.expires, p.key), nil); err != nil {
				return err
			}
		}
	}
	for _, key := range c.deletes {
		if err := deleteItem(tx, key); err != nil {
			return err
		}
	}
	for _, t := range c.schedule {
		if err := g.deleteTask(tx, c.partition, t.id); err != nil {
			return err
		}
		if err := tx.Bucket(bucketTasks).Put(taskKey(c.partition, t.id), t.record); err != nil {
			return err
		}
		if err := tx.Bucket(bucketDue).Put(t.dueKey, nil); err != nil {
			return err
		}
	}
	for _, id := range c.cancel {
		if err := g.deleteTask(tx, c.partition, id); err != nil {
			return err
		}
	}
	return nil
}

// evaluate returns nil if all checks and leases of c pass.
func (g *groupState) evaluate(tx *bbolt.Tx, c *change, now time.Time) error {
	var conflict kv.Conflict
	failed := false
	for _, check := range c.checks {
		rec, ok := getItem(tx, itemKey(c.partition, check.Name), now)
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
		t := g.lock(c.partition)
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

func (g *groupState) deleteTask(tx *bbolt.Tx, p kv.Partition, id string) error {
	key := taskKey(p, id)
	g.touched[string(key)] = true
	bodies := tx.Bucket(bucketTasks)
	old := bodies.Get(key)
	if old == nil {
		return nil
	}
	due, _ := decodeTask(old)
	if err := tx.Bucket(bucketDue).Delete(dueKey(p, due, id)); err != nil {
		return err
	}
	return bodies.Delete(key)
}

func deleteItem(tx *bbolt.Tx, key []byte) error {
	items := tx.Bucket(bucketItems)
	old := items.Get(key)
	if old == nil {
		return nil
	}
	if rec := decodeItem(old); rec.expires != 0 {
		if err := tx.Bucket(bucketExpiry).Delete(expiryKey(rec.expires, key)); err != nil {
			return err
		}
	}
	return items.Delete(key)
}

// sweep removes at most sweepStep items, the earliest expired first.
func (g *groupState) sweep(tx *bbolt.Tx, now time.Time) error {
	expiry := tx.Bucket(bucketExpiry)
	limit := sortable(now)
	var keys [][]byte // collected first, because deletes invalidate a cursor
	c := expiry.Cursor()
	for k, _ := c.First(); k != nil && len(keys) < sweepStep; k, _ = c.Next() {
		if binary.BigEndian.Uint64(k) > limit {
			break
		}
		keys = append(keys, append([]byte(nil), k...))
	}
	for _, k := range keys {
		if err := expiry.Delete(k); err != nil {
			return err
		}
		if err := tx.Bucket(bucketItems).Delete(k[8:]); err != nil {
			return err
		}
	}
	g.swept += len(keys)
	return nil
}

// sweep asks the writer at each tick to remove expired items, in steps that share a write with commits. It
// does so only if there are expired items, so that an idle Store does not write.
func (s *Store) sweep(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
		}
		for s.anyExpired() {
			if s.submit(context.Background(), &change{sweep: true, done: make(chan error, 1)}) != nil {
				break // the next commit reports the cause
			}
		}
	}
}

func (s *Store) anyExpired() bool {
	found := false
	err := s.view(context.Background(), func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket(bucketExpiry).Cursor().First()
		found = k != nil && binary.BigEndian.Uint64(k) <= sortable(s.now())
		return nil
	})
	return err == nil && found
}
