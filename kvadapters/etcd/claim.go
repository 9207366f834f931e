package etcd

import (
	"context"
	"encoding/hex"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/verge-id/verge/core/kv"
)

// maxClaim is the most tasks of one claim, because each is a transaction of its own inside one request.
// If more are due, next is a time that has passed.
const maxClaim = 100

// Claim implements kv.KV. It makes one round trip if nothing is due and a task falls due within a
// second, and up to two more to find next if none does. It makes one more to take what is due. It
// returns at most 100 tasks.
//
// Each task is taken by a transaction of its own. So of two claims at the same time each gets the tasks
// that the other does not get, and neither has to start over.
func (s *Store) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) (claimed []kv.Task, next time.Time, err error) {
	if err := cancelled(ctx, "claim"); err != nil {
		return nil, time.Time{}, err
	}
	n = max(0, min(n, maxClaim))
	mine := make(map[string]bool)
	for range maxTries {
		var free []entry
		free, next, err = s.ready(ctx, p, now, n-len(claimed), mine)
		if err != nil {
			return claimed, time.Time{}, err
		}
		if len(free) == 0 {
			return claimed, next, nil
		}
		taken, err := s.take(ctx, p, free, sortable(now.Add(lease)))
		for _, task := range taken {
			mine[task.ID] = true
		}
		claimed = append(claimed, taken...)
		if err != nil {
			return claimed, time.Time{}, err
		}
		if len(taken) == len(free) {
			return claimed, next, nil
		}
		// Other claims took some. When those come free again is not known yet.
	}
	return claimed, now, nil
}

// entry is a task's place in the order of claims.
type entry struct {
	id       string
	ready    uint64
	revision int64
}

// windows are how far a claim looks ahead for next before it looks at all tasks. etcd counts every key
// of a range even if it is asked only for the first. So a look at all tasks costs in proportion to the
// tasks that wait.
var windows = [...]time.Duration{time.Second, time.Minute}

// ready returns up to n tasks that are ready at now, and the time when the first other task is ready.
// It leaves out the caller's own tasks.
func (s *Store) ready(
	ctx context.Context, p kv.Partition, now time.Time, n int, mine map[string]bool,
) (free []entry, next time.Time, err error) {
	rest, end := s.dueFrom(p, sortable(now)+1), s.dueFrom(p, sortable(now.Add(windows[0])))
	look := func(from, end string, n int) clientv3.Op {
		return clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(int64(n+len(mine))))
	}
	resp, _, err := s.txn(ctx, nil, []clientv3.Op{look(s.dueFrom(p, 0), rest, n+1), look(rest, end, 1)}, nil)
	if err != nil {
		return nil, time.Time{}, failed("claim", err)
	}
	free, err = s.entries(p, resp.Responses[0].GetResponseRange().GetKvs(), mine)
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(free) > n {
		return free[:n], fromSortable(free[n].ready), nil
	}
	later, err := s.entries(p, resp.Responses[1].GetResponseRange().GetKvs(), mine)
	for i := 1; err == nil && len(later) == 0 && i <= len(windows); i++ {
		rest, end = end, s.dueEnd(p)
		if i < len(windows) {
			end = s.dueFrom(p, sortable(now.Add(windows[i])))
		}
		var page *clientv3.GetResponse
		page, err = s.get(ctx, rest, clientv3.WithRange(end), clientv3.WithLimit(int64(1+len(mine))))
		if err != nil {
			return nil, time.Time{}, failed("claim", err)
		}
		later, err = s.entries(p, page.Kvs, mine)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(later) > 0 {
		next = fromSortable(later[0].ready)
	}
	return free, next, nil
}

func (s *Store) entries(p kv.Partition, found []*mvccpb.KeyValue, mine map[string]bool) ([]entry, error) {
	var out []entry
	for _, stored := range found {
		ready, id, err := s.splitDue(p, string(stored.Key))
		if err != nil {
			return nil, err
		}
		if !mine[id] {
			out = append(out, entry{id: id, ready: ready, revision: stored.ModRevision})
		}
	}
	return out, nil
}

// take leases those of the tasks that have not moved since they were seen.
func (s *Store) take(ctx context.Context, p kv.Partition, free []entry, ends uint64) ([]kv.Task, error) {
	var random [8]byte
	if _, err := io.ReadFull(s.random, random[:]); err != nil {
		return nil, failed("claim: reading randomness", err)
	}
	claim := hex.EncodeToString(random[:])
	each := make([]clientv3.Op, len(free))
	for i, e := range free {
		was, becomes := s.due(p, e.ready, e.id), s.due(p, ends, e.id)
		ops := []clientv3.Op{
			clientv3.OpGet(s.task(p, e.id)),
			clientv3.OpPut(s.lease(p, e.id), newLease(ends, claim, i)),
			clientv3.OpPut(becomes, ""),
		}
		if was != becomes {
			ops = append(ops, clientv3.OpDelete(was))
		}
		each[i] = clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(was), "=", e.revision)},
			ops, nil)
	}
	resp, _, err := s.txn(ctx, nil, each, nil)
	if err != nil {
		return nil, failed("claim", err)
	}
	var taken []kv.Task
	for i, e := range free {
		one := resp.Responses[i].GetResponseTxn()
		if !one.GetSucceeded() {
			continue
		}
		key := s.task(p, e.id)
		found := one.Responses[0].GetResponseRange().GetKvs()
		if len(found) == 0 {
			return taken, damaged(key, "is missing, though its task is due")
		}
		due, payload, ok := decodeTask(found[0].Value)
		if !ok {
			return taken, damaged(key, "holds no task")
		}
		taken = append(taken, kv.Task{
			ID:      e.id,
			Due:     fromSortable(due),
			Payload: append([]byte{}, payload...),
			Lease:   newLease(ends, claim, i),
		})
	}
	return taken, nil
}
