package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// sweepStep bounds what one request of the sweep removes, so that no other request waits long behind
// it.
const sweepStep = 32

// sweepUntil removes what has expired until life ends. If a step fails, the next one tries again:
// nothing depends on when an expired item is removed.
func (s *Store) sweepUntil(life context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		for {
			n, err := s.sweep(life)
			if err != nil || n < sweepStep {
				break
			}
		}
	}
}

// sweep makes one step and returns how many entries it looked at. Several instances may sweep at the
// same time: each entry is deleted together with its item, if both are still as they were seen.
func (s *Store) sweep(ctx context.Context) (int, error) {
	// The limit is read once: it must be the same for the entries and for the items below.
	limit := sortable(s.now().Add(-s.grace))
	page, err := s.get(ctx, s.expiryFrom(0),
		clientv3.WithRange(s.expiryFrom(limit)), clientv3.WithLimit(sweepStep))
	if err != nil || len(page.Kvs) == 0 {
		return 0, err
	}
	keys := make([]string, len(page.Kvs))
	gets := make([]clientv3.Op, len(page.Kvs))
	for i, entry := range page.Kvs {
		if keys[i], err = s.splitExpiry(string(entry.Key)); err != nil {
			return 0, err
		}
		gets[i] = clientv3.OpGet(keys[i])
	}
	found, err := s.read(ctx, gets)
	if err != nil {
		return 0, err
	}
	// An item that was put several times has several entries and is deleted with the first. The
	// transaction of the second must not demand that the item exists, or that entry would stay until
	// the next sweep.
	gone := make(map[string]bool)
	each := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		entry := string(page.Kvs[i].Key)
		// A put of the same item with the same expiry writes the entry again. Then it is no longer the
		// one that was seen.
		cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(entry), "=", page.Kvs[i].ModRevision)}
		ops := []clientv3.Op{clientv3.OpDelete(entry)}
		if stored := found[key]; stored != nil && !gone[key] && s.dead(key, stored.Value, limit) {
			gone[key] = true
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", stored.ModRevision))
			ops = append(ops, clientv3.OpDelete(key))
		}
		each[i] = clientv3.OpTxn(cmps, ops, nil)
	}
	_, _, err = s.txn(ctx, nil, each, nil)
	return len(keys), err
}

// dead reports whether the item or counter of that key may be deleted.
func (s *Store) dead(key string, value []byte, limit uint64) bool {
	if key[len(s.prefix)] == 'm' {
		tat, ok := decodeCounter(value)
		return ok && tat <= limit
	}
	rec, ok := decodeItem(value)
	return ok && rec.expired(limit)
}
