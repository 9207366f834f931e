package postgres

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/verge-id/verge/core/kv"
)

// change is a kv.Tx as the parameters of its statements, without duplicates: a statement can change a row
// only once. If parts contradict each other, the later kind counts: a delete over a put, a cancel over a
// schedule.
type change struct {
	locks []int64  // of all its names, sorted
	tasks []string // ids of all its tasks

	checks   []string
	checkTxs [][]byte
	held     []string
	leases   []int64
	puts     []string
	values   [][]byte
	expires  []int64
	deletes  []string
	schedule []string
	due      []int64
	payloads [][]byte
	cancel   []string
}

func (s *Store) change(tx kv.Tx) change {
	var c change
	p := s.partition(tx.Partition)
	locks := make(map[int64]bool)
	lock := func(kind, name string) { locks[lockOf(s.schema, kind, p, name)] = true }
	puts := make(map[string]kv.Put)
	for _, put := range tx.Puts {
		puts[put.Name] = put
	}
	deletes := make(map[string]bool)
	for _, name := range tx.Deletes {
		delete(puts, name)
		deletes[name] = true
	}
	schedule := make(map[string]kv.Task)
	for _, task := range tx.Schedule {
		schedule[task.ID] = task
	}
	cancel := make(map[string]bool)
	for _, id := range tx.Cancel {
		delete(schedule, id)
		cancel[id] = true
	}
	tasks := make(map[string]bool)

	for _, check := range tx.Checks {
		lock("item", check.Name)
		c.checks, c.checkTxs = append(c.checks, check.Name), append(c.checkTxs, bytesOf(check.Tx))
	}
	for _, held := range tx.Held {
		tasks[held.TaskID] = true
		c.held, c.leases = append(c.held, held.TaskID), append(c.leases, parseLease(held.Lease))
	}
	for _, name := range slices.Sorted(maps.Keys(puts)) {
		lock("item", name)
		put := puts[name]
		c.puts, c.values = append(c.puts, name), append(c.values, notNil(put.Value))
		c.expires = append(c.expires, expiry(put.Expires))
	}
	c.deletes = slices.Sorted(maps.Keys(deletes))
	for _, name := range c.deletes {
		lock("item", name)
	}
	for _, id := range slices.Sorted(maps.Keys(schedule)) {
		tasks[id] = true
		task := schedule[id]
		c.schedule, c.payloads = append(c.schedule, id), append(c.payloads, notNil(task.Payload))
		c.due = append(c.due, nanos(task.Due))
	}
	c.cancel = slices.Sorted(maps.Keys(cancel))
	for _, id := range c.cancel {
		tasks[id] = true
	}
	c.tasks = slices.Sorted(maps.Keys(tasks))
	for _, id := range c.tasks {
		lock("task", id)
	}
	c.locks = slices.Sorted(maps.Keys(locks))
	return c
}

// Commit implements kv.KV. Its statements are sent in one piece, and the server runs them as one
// transaction, which it commits after reading all of them. So no connection ever waits for Verge inside of
// a transaction.
//
// The last statement sees all commits before its start. It starts when the locks are held, so the rows that
// it reads cannot change until the transaction ends.
func (s *Store) Commit(ctx context.Context, tx kv.Tx) error {
	if err := cancelled(ctx, "commit"); err != nil {
		return err
	}
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	ch := s.change(tx)
	var conflict kv.Conflict
	var rejected bool
	err := s.do(ctx, writesAgain, func(ctx context.Context, c *pgx.Conn) error {
		conflict, rejected = kv.Conflict{}, false
		p := s.partition(tx.Partition)
		var b pgx.Batch
		b.Queue(lockSQL, ch.locks)
		if len(ch.tasks) > 0 {
			b.Queue(s.sql.lockTasks, p, ch.tasks)
		}
		b.Queue(s.sql.commit, p, []byte(tx.ID), nanos(s.now()), ch.checks, ch.checkTxs, ch.held, ch.leases,
			ch.puts, ch.values, ch.expires, ch.deletes, ch.schedule, ch.due, ch.payloads, ch.cancel)
		beginCommit(c)
		err := s.send(ctx, c, &b, func(rows pgx.Rows) error {
			rejected = true
			var lost bool
			var name string
			var by, value []byte
			var expires *int64 // nil: the item is missing
			if err := rows.Scan(&lost, &name, &by, &expires, &value); err != nil {
				return err
			}
			switch {
			case lost:
				conflict.Lost = append(conflict.Lost, name)
			case expires != nil:
				key := kv.Key{Partition: tx.Partition, Name: name}
				conflict.Items = append(conflict.Items, item(key, by, *expires, value))
			}
			return nil
		})
		return cmp.Or(err, warned(c))
	})
	switch {
	case err != nil:
		return commitFailed(err)
	case rejected:
		return &conflict
	}
	return nil
}

// send runs a batch, whose last statement returns the rows. If it returns nil, the server has committed.
func (s *Store) send(ctx context.Context, c *pgx.Conn, b *pgx.Batch, row func(pgx.Rows) error) error {
	results := c.SendBatch(ctx, b)
	for range b.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			results.Close()
			return err
		}
	}
	rows, err := results.Query()
	for err == nil && rows.Next() {
		err = row(rows)
	}
	if rows != nil {
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
	}
	// Only the end of the response confirms that the server has committed.
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

// lockOf returns the number of the lock for a name. Two names can have the same number: one then waits for
// the other unnecessarily.
func lockOf(schema, kind, partition, name string) int64 {
	h := fnv.New64a()
	io.WriteString(h, schema+"\x00"+kind+"\x00"+partition+"\x00"+name)
	return int64(h.Sum64())
}

func formatLease(n int64) string { return strconv.FormatInt(n, 36) }

// parseLease returns 0, which no task has, for text that formatLease did not write.
func parseLease(s string) int64 {
	n, err := strconv.ParseInt(s, 36, 64)
	if err != nil || n <= 0 || formatLease(n) != s {
		return 0
	}
	return n
}

func bytesOf(s string) []byte { return notNil([]byte(s)) }

// notNil is for parameters, where nil would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
