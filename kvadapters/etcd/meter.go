package etcd

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/verge-id/verge/core/kv"
)

// counter is a rate counter as the servers last answered it. The zero counter means that they do not
// hold it.
type counter struct {
	revision int64
	tat      uint64
}

// Spend implements kv.Meter by compare-and-set. It remembers what the last charge left, so it makes one
// round trip as long as no other instance charges the same counters. A denial makes one more, which
// writes nothing. After 64 lost races the error is ErrUnavailable and nothing was charged. After a lost
// reply it is ErrUnavailable too, and the charge may have been made.
func (s *Store) Spend(
	ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	if err := cancelled(ctx, "spend"); err != nil {
		return nil, err
	}
	keys := make([]string, len(charges))
	known := make(map[string]counter, len(charges))
	var gets []clientv3.Op
	for i, charge := range charges {
		keys[i] = s.meter(p, charge.Name)
		if _, twice := known[keys[i]]; !twice {
			gets = append(gets, clientv3.OpGet(keys[i]))
		}
		known[keys[i]], _ = s.counters.Get(keys[i])
	}
	if len(gets) > maxOps/4 {
		return nil, fmt.Errorf("etcd: %w: %d counters in one charge, want at most %d",
			kv.ErrUnavailable, len(gets), maxOps/4)
	}
	current := false // whether the servers confirmed the state within this call
	for range maxTries {
		before, after, ok := spend(keys, known, now, charges)
		if !ok {
			if current {
				return before, nil
			}
			found, err := s.read(ctx, gets)
			if err != nil {
				return nil, failed("spend", err)
			}
			if known, err = s.learn(keys, found); err != nil {
				return nil, err
			}
			current = true
			continue
		}
		var cmps []clientv3.Cmp
		var puts []clientv3.Op
		for key, tat := range after {
			was := known[key]
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", was.revision))
			puts = append(puts, clientv3.OpPut(key, encodeCounter(tat)))
			if is := counterExpiry(tat); was.revision == 0 || is != counterExpiry(was.tat) {
				puts = append(puts, clientv3.OpPut(s.expiry(is, key), ""))
				if was.revision != 0 {
					puts = append(puts, clientv3.OpDelete(s.expiry(counterExpiry(was.tat), key)))
				}
			}
		}
		resp, _, err := s.txn(ctx, cmps, puts, gets)
		if err != nil {
			return nil, failed("spend", err)
		}
		if resp.Succeeded {
			for key, tat := range after {
				s.counters.Add(key, counter{revision: resp.Header.Revision, tat: tat})
			}
			return before, nil
		}
		if known, err = s.learn(keys, ranged(resp)); err != nil {
			return nil, err
		}
		current = true
	}
	return nil, fmt.Errorf(
		"etcd: %w: %d others in a row charged the same counters first; nothing was charged",
		kv.ErrUnavailable, maxTries)
}

// spend decides the charges. It returns the TATs before and, if no charge exceeds its burst, after.
func spend(
	keys []string, known map[string]counter, now time.Time, charges []kv.Charge,
) (before []time.Time, after map[string]uint64, ok bool) {
	before = make([]time.Time, len(charges))
	after = make(map[string]uint64, len(charges))
	ok = true
	for i, charge := range charges {
		was := known[keys[i]]
		tat := now
		if was.revision != 0 {
			before[i] = fromSortable(was.tat)
			if before[i].After(tat) {
				tat = before[i]
			}
		}
		if earlier, twice := after[keys[i]]; twice {
			tat = fromSortable(earlier)
		}
		tat = tat.Add(charge.Cost)
		if tat.After(now.Add(charge.Burst)) {
			ok = false
		}
		after[keys[i]] = sortable(tat)
	}
	return before, after, ok
}

func (s *Store) learn(keys []string, found map[string]*mvccpb.KeyValue) (map[string]counter, error) {
	known := make(map[string]counter, len(keys))
	for _, key := range keys {
		stored := found[key]
		if stored == nil {
			s.counters.Remove(key)
			continue
		}
		tat, ok := decodeCounter(stored.Value)
		if !ok {
			return nil, damaged(key, "holds no counter")
		}
		known[key] = counter{revision: stored.ModRevision, tat: tat}
		s.counters.Add(key, known[key])
	}
	return known, nil
}
