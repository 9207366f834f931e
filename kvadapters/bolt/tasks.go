package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/verge-id/verge/core/kv"
)

// tasks is the state of one partition's tasks in memory. The file has all tasks ordered by their due times.
// Claims walk this order once. The frontier is their position: every task before it is in known, leased or
// not, and no task after it has ever been leased. So a claim checks only the first task of known and the
// first one after the frontier. It never passes the same leased task twice, and memory grows with the tasks
// in work, not with those that wait.
type tasks struct {
	// lock is held by a claim while it runs. The writer holds it from the evaluation of a commit that
	// changes the partition's tasks until that commit is on disk: otherwise a claim could return a task
	// that the commit is about to remove. It is a channel, so that a claim can stop waiting.
	lock chan struct{}

	frontier []byte // a key of bucketDue
	known    map[string]*knownTask
	order    *btree.BTreeG[*knownTask]
}

type knownTask struct {
	id    string
	ready uint64 // when it can be claimed: its due time, or the end of the lease
	lease string // of the latest claim, even if expired; empty: never claimed
}

func (s *Store) tasksOf(p kv.Partition) *tasks {
	s.tasksMu.Lock()
	defer s.tasksMu.Unlock()
	t := s.tasks[p]
	if t == nil {
		t = &tasks{
			lock:     make(chan struct{}, 1),
			frontier: partitionKey(p),
			known:    make(map[string]*knownTask),
			order: btree.NewBTreeGOptions(func(a, b *knownTask) bool {
				return cmp.Or(cmp.Compare(a.ready, b.ready), strings.Compare(a.id, b.id)) < 0
			}, btree.Options{NoLocks: true}),
		}
		s.tasks[p] = t
	}
	return t
}

// Claim implements kv.KV. It does not write to the disk.
func (s *Store) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) (claimed []kv.Task, next time.Time, err error) {
	if ctx.Err() != nil {
		return nil, time.Time{}, unavailable(s.path, context.Cause(ctx))
	}
	if err := s.stopped(); err != nil {
		return nil, time.Time{}, err // the result of a task could not be recorded
	}
	t := s.tasksOf(p)
	select {
	case t.lock <- struct{}{}:
		defer func() { <-t.lock }()
	case <-ctx.Done():
		return nil, time.Time{}, unavailable(s.path, context.Cause(ctx))
	}

	var taken []*knownTask
	frontier := t.frontier
	err = s.view(ctx, func(st state) error {
		due := t.walk(st, partitionKey(p))
		defer due.known.Release()
		for first := due.first(); first != nil; first = due.first() {
			if len(taken) >= n || first.ready > sortable(now) {
				next = fromSortable(first.ready)
				return nil
			}
			body := st.get(taskTable, taskKey(p, first.id))
			if body == nil {
				return fmt.Errorf("task %q has a due time but no body: %w", first.id, damaged("index"))
			}
			at, payload := decodeTask(body)
			claimed = append(claimed, kv.Task{
				ID:      first.id,
				Due:     fromSortable(at),
				Payload: append([]byte{}, payload...),
			})
			taken = append(taken, first)
			frontier = due.skip(frontier)
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	t.frontier = frontier
	for i, k := range taken {
		t.order.Delete(k)
		k.ready = sortable(now.Add(lease))
		k.lease = fmt.Sprintf("%d-%d", s.lease.opens, s.lease.count.Add(1))
		t.known[k.id] = k
		t.order.Set(k)
		claimed[i].Lease = k.lease
	}
	return claimed, next, nil
}

// dueTasks walks the tasks of a partition by the time when they are ready: those after the frontier in the
// file, and the known ones.
type dueTasks struct {
	prefix []byte
	file   *cursor
	key    []byte // of the next task in the file; nil at the end
	known  btree.IterG[*knownTask]
	less   func(a, b *knownTask) bool
	more   bool // known has an item
	inFile bool // the first task is in the file
}

// walk returns the tasks. The caller releases known.
func (t *tasks) walk(st state, prefix []byte) *dueTasks {
	d := &dueTasks{prefix: prefix, file: st.seek(dueTable, t.frontier), known: t.order.Iter(),
		less: t.order.Less}
	d.key, _ = d.file.next()
	d.more = d.known.First()
	return d
}

// first returns the first task, or nil at the end.
func (d *dueTasks) first() (first *knownTask) {
	if d.inFile = d.key != nil && bytes.HasPrefix(d.key, d.prefix); d.inFile {
		first = &knownTask{id: string(d.key[len(d.prefix)+8:]),
			ready: binary.BigEndian.Uint64(d.key[len(d.prefix):])}
	}
	if d.more && (!d.inFile || d.less(d.known.Item(), first)) {
		first, d.inFile = d.known.Item(), false
	}
	return first
}

// skip continues after the first task, and returns the frontier after it.
func (d *dueTasks) skip(frontier []byte) []byte {
	if !d.inFile {
		d.more = d.known.Next()
		return frontier
	}
	frontier = append(bytes.Clone(d.key), 0) // the next possible key
	d.key, _ = d.file.next()
	return frontier
}

// holds reports whether the task's latest claim has this lease.
func (t *tasks) holds(id, lease string) bool {
	k := t.known[id]
	return k != nil && k.lease != "" && k.lease == lease
}

// cancelled removes a task that is no longer in the file.
func (t *tasks) cancelled(id string) {
	if k := t.known[id]; k != nil {
		t.order.Delete(k)
		delete(t.known, id)
	}
}

// scheduled adds a task that is now in the file under that key.
func (t *tasks) scheduled(id string, due uint64, key []byte) {
	t.cancelled(id)
	if bytes.Compare(key, t.frontier) < 0 {
		k := &knownTask{id: id, ready: due}
		t.known[id] = k
		t.order.Set(k)
	}
}
