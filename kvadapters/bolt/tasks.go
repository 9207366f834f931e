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
		prefix := partitionKey(p)
		cursor := st.seek(dueTable, frontier)
		key, _ := cursor.next()
		known := t.order.Iter()
		defer known.Release()
		more := known.First()
		for {
			// first is the earlier of the first task after the frontier and the first known one.
			var first *knownTask
			onDisk := key != nil && bytes.HasPrefix(key, prefix)
			if onDisk {
				first = &knownTask{id: string(key[len(prefix)+8:]),
					ready: binary.BigEndian.Uint64(key[len(prefix):])}
			}
			if more && (!onDisk || t.order.Less(known.Item(), first)) {
				first, onDisk = known.Item(), false
			}
			if first == nil {
				return nil
			}
			if len(taken) >= n || first.ready > sortable(now) {
				next = fromSortable(first.ready)
				return nil
			}
			body := st.get(taskTable, taskKey(p, first.id))
			if body == nil {
				return fmt.Errorf("task %q has a due time but no body: %w", first.id, damaged("index"))
			}
			due, payload := decodeTask(body)
			claimed = append(claimed, kv.Task{
				ID:      first.id,
				Due:     fromSortable(due),
				Payload: append([]byte{}, payload...),
			})
			taken = append(taken, first)
			if onDisk {
				frontier = append(bytes.Clone(key), 0) // the next possible key
				key, _ = cursor.next()
			} else {
				more = known.Next()
			}
		}
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
