package kvtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// beyond is how far Clocked puts every expiry off: no test runs into it, and
// no store's range of times ends before it.
const beyond = 200 * 365 * 24 * time.Hour

// Clocked returns the store as one whose items expire by now, for tests that
// move a clock over a store whose own clock runs, such as a real Redis. The
// store is told expiries two centuries late, so that nothing really expires in
// it; what has expired by now is hidden from Get and List and absent to
// checks. Stores of which one is written through Clocked are read through it.
//
// A Commit that meets an expired item takes it out first, in a transaction of
// its own, and reads the clock once: it happens at that instant. Tasks are
// untouched, since Claim is told the time. The result is a kv.Meter if the
// store is one; the store still forgets counters by its own clock.
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
	it = told(it)
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
			if it = told(it); !expired(it, now) {
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

	// To the store an expired item is still there: it would satisfy a check of
	// its transaction, and contradict a check of absence.
	for _, check := range tx.Checks {
		if check.Tx == "" {
			continue
		}
		it, err := c.store.Get(ctx, kv.Key{Partition: tx.Partition, Name: check.Name})
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err == nil && expired(told(it), now) {
			err = c.remove(ctx, it)
		}
		if err != nil {
			return err
		}
	}
	for {
		err := c.store.Commit(ctx, tx)
		var conflict *kv.Conflict
		if !errors.As(err, &conflict) {
			return err
		}
		shown := &kv.Conflict{Lost: conflict.Lost}
		var past []kv.Item
		for _, it := range conflict.Items {
			if it = told(it); expired(it, now) {
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

// remove deletes the item if it is still the one that was seen.
func (c *clocked) remove(ctx context.Context, it kv.Item) error {
	err := c.store.Commit(ctx, kv.Tx{
		ID: "clocked-" + rand.Text(), Partition: it.Key.Partition,
		Checks: []kv.Check{{Name: it.Key.Name, Tx: it.Tx}}, Deletes: []string{it.Key.Name},
	})
	var conflict *kv.Conflict
	if err == nil || errors.As(err, &conflict) {
		return nil
	}
	// Even if it is unknown whether that happened: nobody can see it, and the
	// caller's transaction was not tried.
	return fmt.Errorf("kvtest: %w: removing the expired %s: %v", kv.ErrUnavailable, it.Key, err)
}

// Claim implements kv.KV.
func (c *clocked) Claim(ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) ([]kv.Task, time.Time, error) {
	return c.store.Claim(ctx, p, now, lease, n)
}

// told is the item with the expiry that Commit was told.
func told(it kv.Item) kv.Item {
	if !it.Expires.IsZero() {
		it.Expires = it.Expires.Add(-beyond)
	}
	return it
}

func expired(it kv.Item, now time.Time) bool {
	return !it.Expires.IsZero() && !now.Before(it.Expires)
}
