package kvtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// beyond is how much later than its own expiry the store expires an item. No test runs that long, and the
// time is still within every store's range.
const beyond = 200 * 365 * 24 * time.Hour

// Clocked returns the store with another clock: its items expire by now. Use it in tests that move a clock
// over a store with a real clock, such as Redis. The store gets expiries that are two centuries late, so
// that it never expires an item itself. Get and List hide items that have expired by now, and checks treat
// them as absent. Read a store through Clocked if you wrote it through Clocked.
//
// A Commit reads the clock once and uses that time. If it meets an expired item, it first removes it in a
// separate transaction. Tasks are unchanged, because the time is an argument of Claim. The result is a
// kv.Meter if the store is one. The store still removes counters by its own clock.
func Clocked(store kv.KV, now func() time.Time) kv.KV {
	c := &clocked{store: store, now: now}
	if m, ok := store.(kv.Meter); ok {
		return struct {
			*clocked
			kv.Meter
		}{c, m}
	}
	return c
}

type clocked struct {
	store kv.KV
	now   func() time.Time
}

// Get implements kv.KV.
func (c *clocked) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	it, err := c.store.Get(ctx, key)
	if err != nil {
		return kv.Item{}, err
	}
	it = withCallerExpiry(it)
	if expired(it, c.now()) {
		return kv.Item{}, kv.ErrNotFound
	}
	return it, nil
}

// List implements kv.KV.
func (c *clocked) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	now := c.now()
	var items []kv.Item
	for {
		want := n - len(items)
		page, err := c.store.List(ctx, prefix, after, want)
		if err != nil {
			return nil, err
		}
		for _, it := range page {
			after = it.Key.Name
			if it = withCallerExpiry(it); !expired(it, now) {
				items = append(items, it)
			}
		}
		if len(items) == n || len(page) < want {
			return items, nil
		}
	}
}

// Commit implements kv.KV.
func (c *clocked) Commit(ctx context.Context, tx kv.Tx) error {
	now := c.now()
	puts := tx.Puts
	tx.Puts = make([]kv.Put, len(puts))
	for i, p := range puts {
		if !p.Expires.IsZero() {
			p.Expires = p.Expires.Add(beyond)
		}
		tx.Puts[i] = p
	}

	// The store still has the expired item: it would satisfy a check of its transaction and contradict a
	// check of absence.
	for _, check := range tx.Checks {
		if check.Tx == "" {
			continue
		}
		it, err := c.store.Get(ctx, kv.Key{Partition: tx.Partition, Name: check.Name})
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err == nil && expired(withCallerExpiry(it), now) {
			err = c.remove(ctx, it)
		}
		if err != nil {
			return err
		}
	}
	for {
		err := c.store.Commit(ctx, tx)
		conflict, ok := errors.AsType[*kv.Conflict](err)
		if !ok {
			return err
		}
		shown := &kv.Conflict{Lost: conflict.Lost}
		var past []kv.Item
		for _, it := range conflict.Items {
			if it = withCallerExpiry(it); expired(it, now) {
				past = append(past, it)
			} else {
				shown.Items = append(shown.Items, it)
			}
		}
		if len(past) == 0 {
			return shown
		}
		for _, it := range past {
			if err := c.remove(ctx, it); err != nil {
				return err
			}
		}
	}
}

// remove deletes the item if it has not been overwritten.
func (c *clocked) remove(ctx context.Context, it kv.Item) error {
	err := c.store.Commit(ctx, kv.Tx{
		ID: "clocked-" + rand.Text(), Partition: it.Key.Partition,
		Checks: []kv.Check{{Name: it.Key.Name, Tx: it.Tx}}, Deletes: []string{it.Key.Name},
	})
	var conflict *kv.Conflict
	if err == nil || errors.As(err, &conflict) {
		return nil
	}
	// The error is correct even if the removal has an unknown outcome: the item is invisible, and the
	// caller's transaction was not tried.
	return fmt.Errorf("kvtest: %w: removing the expired %s: %v", kv.ErrUnavailable, it.Key, err)
}

// Claim implements kv.KV.
func (c *clocked) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	return c.store.Claim(ctx, p, now, lease, n)
}

// withCallerExpiry returns the item with the expiry from the caller of Commit.
func withCallerExpiry(it kv.Item) kv.Item {
	if !it.Expires.IsZero() {
		it.Expires = it.Expires.Add(-beyond)
	}
	return it
}

func expired(it kv.Item, now time.Time) bool {
	return !it.Expires.IsZero() && !now.Before(it.Expires)
}
