// Package postgres implements kv.KV on PostgreSQL 15 or later: one server, or a primary with replicas. It
// is for operators who already run one. Use [Open] with a URL.
//
// # Guarantees
//
// A commit is one transaction, sent in one round trip: it is executed completely or not at all. It first
// takes locks on all its names, always in the same order. So commits on the same name are executed one at a
// time, commits on different names do not wait for each other, and no two can deadlock. All reads go to the
// primary and see every commit that returned.
//
// A commit that returned survives kill -9 and a power cut: the server has written it to its disk. The Store
// rejects a server on which synchronous_commit is off. The loss in a failover depends on the server's
// settings: see below.
//
// A commit is sent once, except after a serialization failure or a deadlock, which the server rolls back.
// If no byte of it left this process, or the server returned an error, it returns kv.ErrUnavailable. If the
// connection breaks later, the server shuts down, or the time is over, it returns kv.ErrUnknown. It also
// does so if the server stopped waiting for its synchronous replica: the commit is then only on the
// primary.
//
// An item expires exactly when Config.Now of the instance that reads it reaches its expiry. Claims and
// charges use the times of their callers. So the clocks of all instances must differ by less than tokens
// and leases can tolerate. The server's clock does not matter.
//
// Leases of tasks are in the table, so they survive a restart of instances and servers. A lease is a random
// number per claim. Claims skip the tasks that another claim or commit has locked at that moment.
//
// # Loss in a failover
//
// With a synchronous replica (synchronous_standby_names, and synchronous_commit on or remote_apply), a
// commit returns when the replica has it too, and a rejected commit returns when the replica has the items
// that caused the rejection. If that replica is promoted, no commit is lost. With asynchronous replication,
// or if another replica is promoted, the last commits are lost: a result token that was used in those moments
// can be used again. "verge kv check" reports which case applies.
//
// The loss consists of the last commits only: there are no gaps before them, and no commit is lost in part.
// Commits that return after the failover are kept.
//
// The previous primary must be stopped before another server is promoted: otherwise it returns outdated
// reads. Failover tools take care of that. The URL names all servers; the Store uses the one that accepts
// writes, like target_session_attrs=read-write in other clients.
//
// # Costs
//
// Every call is one round trip. A commit waits for one fsync, which concurrent commits share. Rate counters
// are in an unlogged table: they cost no fsync, are empty after a crash of the server, and are not
// replicated.
//
// # Expiry
//
// Reads never return expired items. Every Config.SweepEvery the Store deletes expired rows, in separate
// transactions of 100. Several instances can do so at the same time, because each skips the rows that
// another one has locked. The tables' settings let autovacuum free their space early. Measure reports for how
// long the oldest row waits.
//
// # Tables
//
// All tables are in one schema, "verge" unless the URL names another. Times are nanoseconds since 1970.
//
//	version   the version of these tables, and the oldest one whose programs can still use them
//	items     partition, name, tx, expires, value
//	tasks     partition, id, due, ready (when it is due or, claimed, when its lease ends), lease, payload
//	counters  partition, name, tat, forget (the minute from which on it can be deleted)
//
// Open creates missing tables and migrates older ones, under a lock. Migrations only add, so instances of
// the previous version continue to work next to the new ones. If the user may not create a schema, its
// owner creates it: CREATE SCHEMA verge AUTHORIZATION user.
//
// # PgBouncer
//
// Session mode needs no settings. In transaction mode, add pooler=transaction to the URL. The Store then
// neither keeps prepared statements nor sends settings when it connects. The operator sets them for the
// user:
//
//	ALTER ROLE verge SET statement_timeout = '5s';
//	ALTER ROLE verge SET lock_timeout = '5s';
//	ALTER ROLE verge SET idle_in_transaction_session_timeout = '10s';
//
// In this mode there are no signals, because LISTEN does not work.
//
// In either mode, set server_login_retry = 1 in pgbouncer.ini. After a failed login at the server,
// PgBouncer rejects clients for that many seconds, and the default, 15, makes each outage longer by that
// time.
//
// # Signals
//
// An instance that is full or ends notifies the others of its remaining tasks: see edge.Signaler. It does
// so by NOTIFY, in a separate transaction that waits for no disk. Commits contain no NOTIFY, so they never
// wait for signals. A signal uses a connection of the pool for a moment, and all signals of an instance
// together use at most one.
//
// An instance that runs tasks listens on a separate connection, which does not count towards the pool. Its
// application_name is "verge signals". If it breaks, a new one is opened after an increasing pause, and all
// partitions are then polled immediately. Signals are not guaranteed: tasks without a signal are found by
// polling, as on every other store. The channel is "verge:" and the name of the schema. signals=off in the
// in the URL switches all of this off.
package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/verge-id/verge/core/kv"
)

// Config configures a Store. The zero value works.
type Config struct {
	// Now is the clock for the expiry of items. Nil: time.Now.
	Now func() time.Time

	// Random makes leases unique; each claim reads 8 bytes. It must allow concurrent reads. Nil:
	// crypto/rand.
	Random io.Reader

	// TLS has the roots and the client's certificate. If it is set, the URL's sslmode is ignored. Nil: the
	// URL's settings.
	TLS *tls.Config

	// Timeout limits every call, within the caller's context, and every statement on the server. Zero: 5 s.
	Timeout time.Duration

	// SweepEvery is the interval at which the Store removes expired items. Zero: 10 s. Negative: never;
	// another instance must do so.
	SweepEvery time.Duration

	// SweepGrace is how long expired items stay in their table, invisible. It must exceed the difference
	// between the clocks of two instances. Otherwise an instance could delete items that have not expired
	// for another one. Zero: 1 minute.
	SweepGrace time.Duration
}

// Store implements kv.KV and kv.Meter.
type Store struct {
	pool    *pgxpool.Pool
	sql     statements
	schema  string
	within  string // prefix of the names of all partitions; empty except in a Scratch
	now     func() time.Time
	random  io.Reader
	timeout time.Duration
	grace   time.Duration

	signals    bool          // enabled by the URL
	instance   string        // prefix of this Store's signals
	signalling chan struct{} // has one element while a signal is sent
	look       time.Duration // listenLook

	stop  context.CancelFunc
	swept sync.WaitGroup
	once  sync.Once
}

var (
	_ kv.KV       = (*Store)(nil)
	_ kv.Meter    = (*Store)(nil)
	_ kv.Measurer = (*Store)(nil)
)

// Valid checks a URL without connecting to a server.
func (Config) Valid(url string) error {
	_, err := parseURL(url, nil)
	return err
}

// Open connects to the servers of the URL
//
//	postgres://[user[:password]@]host[:port][,host[:port]...]/database[?options]
//
// and creates the tables if they are missing. The options are
//
//	sslmode         disable, require (without checking the certificate), verify-ca or verify-full.
//	                Without it: disable for this machine and verify-full for every other
//	sslrootcert     a file of the CAs to trust; without it the system's
//	sslcert, sslkey files of the client's certificate
//	schema          where the tables are; without it "verge"
//	pool_max_conns  maximum connections, without the listening one; without it 16
//	pooler          transaction, if a PgBouncer in transaction mode is in between
//	signals         off, to disable them; see Signals above
//	host            a directory with the server's socket
//
// If the URL has several hosts, the Store uses the one that accepts writes. After Open, the Store recovers
// from every outage automatically.
func Open(ctx context.Context, url string, c Config) (*Store, error) {
	s, err := open(ctx, url, c, "")
	if err != nil {
		return nil, err
	}
	if every := c.SweepEvery; every >= 0 {
		every = cmp.Or(every, 10*time.Second)
		life, stop := context.WithCancel(context.Background())
		s.stop = stop
		s.swept.Go(func() { s.sweepUntil(life, every) })
	}
	return s, nil
}

// open is Open without the sweep. An empty schema means the URL's.
func open(ctx context.Context, url string, c Config, schema string) (*Store, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.SweepGrace <= 0 {
		c.SweepGrace = time.Minute
	}
	at, err := parseURL(url, c.TLS)
	if err != nil {
		return nil, err
	}
	schema = cmp.Or(schema, at.schema)
	instance, err := newInstance(c.Random)
	if err != nil {
		return nil, err
	}
	at.settings(c.Timeout)
	pool, err := pgxpool.NewWithConfig(ctx, at.config)
	if err != nil {
		return nil, failed("opening", err)
	}
	s := &Store{
		pool: pool, sql: statementsFor(schema), schema: schema,
		now: c.Now, random: c.Random, timeout: c.Timeout, grace: c.SweepGrace,
		signals: at.signals, instance: instance, signalling: make(chan struct{}, 1), look: listenLook,
		stop: func() {},
	}
	if err := s.prepare(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the sweep and closes the connections. It waits for calls in progress.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.stop()
		s.swept.Wait()
		s.pool.Close()
	})
	return nil
}

// tries is the maximum number of times that one call is sent.
const tries = 8

// do calls f with a connection, again after errors that allow it, until Config.Timeout is over.
func (s *Store) do(
	ctx context.Context, again func(error) bool, f func(ctx context.Context, c *pgx.Conn) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for try := 1; ; try++ {
		err := s.one(ctx, f)
		if err == nil || try == tries || ctx.Err() != nil || !again(err) {
			return err
		}
		select { // separates two calls that block each other
		case <-ctx.Done():
		case <-time.After(time.Duration(try*try) * time.Millisecond):
		}
	}
}

func (s *Store) one(ctx context.Context, f func(ctx context.Context, c *pgx.Conn) error) error {
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		if stat := s.pool.Stat(); stat.AcquiredConns() >= stat.MaxConns() {
			err = fmt.Errorf("all %d connections are in use; raise pool_max_conns in the URL, within what "+
				"the server's max_connections allows to all instances: %w", stat.MaxConns(), err)
		}
		return &unsentError{err}
	}
	defer c.Release()
	err = f(ctx, c.Conn())
	if isReadOnly(err) { // the server is no longer a primary
		c.Conn().Close(ctx)
	}
	if c.Conn().IsClosed() && ctx.Err() == nil {
		// In most cases the other connections broke at the same time. Their next users are spared the
		// error.
		s.pool.Reset()
	}
	return err
}

func (s *Store) partition(p kv.Partition) string { return s.within + string(p) }

// never is the expiry of items that do not expire. It is later than every time.
const never = math.MaxInt64

// nanos returns a time as stored in the tables. Times out of range become the nearest valid one.
func nanos(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case !t.Before(time.Unix(0, never)):
		return never - 1
	}
	return t.UnixNano()
}

func expiry(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return nanos(t)
}

func item(key kv.Key, tx []byte, expires int64, value []byte) kv.Item {
	it := kv.Item{Key: key, Tx: string(tx), Value: value}
	if expires != never {
		it.Expires = time.Unix(0, expires)
	}
	return it
}

// Get implements kv.KV.
func (s *Store) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	if err := cancelled(ctx, "get"); err != nil {
		return kv.Item{}, err
	}
	var it kv.Item
	err := s.do(ctx, readsAgain, func(ctx context.Context, c *pgx.Conn) error {
		var tx, value []byte
		var expires int64
		err := c.QueryRow(ctx, s.sql.get, s.partition(key.Partition), key.Name, nanos(s.now())).
			Scan(&tx, &expires, &value)
		it = item(key, tx, expires, value)
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return kv.Item{}, kv.ErrNotFound
	case err != nil:
		return kv.Item{}, failed("get", err)
	}
	return it, nil
}

// List implements kv.KV.
func (s *Store) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	if err := cancelled(ctx, "list"); err != nil {
		return nil, err
	}
	var items []kv.Item
	err := s.do(ctx, readsAgain, func(ctx context.Context, c *pgx.Conn) error {
		items = nil
		// No name has a byte above '~'.
		rows, err := c.Query(ctx, s.sql.list, s.partition(prefix.Partition), prefix.Name, prefix.Name+"\x7f",
			after, nanos(s.now()), max(0, n))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			key := kv.Key{Partition: prefix.Partition}
			var tx, value []byte
			var expires int64
			if err := rows.Scan(&key.Name, &tx, &expires, &value); err != nil {
				return err
			}
			items = append(items, item(key, tx, expires, value))
		}
		return rows.Err()
	})
	if err != nil {
		return nil, failed("list", err)
	}
	return items, nil
}

// Claim implements kv.KV. It is one statement.
func (s *Store) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) (tasks []kv.Task, next time.Time, err error) {
	if err := cancelled(ctx, "claim"); err != nil {
		return nil, time.Time{}, err
	}
	var drawn [8]byte
	if _, err := io.ReadFull(s.random, drawn[:]); err != nil {
		return nil, time.Time{}, failed("claim", err)
	}
	number := int64(binary.BigEndian.Uint64(drawn[:])>>1) | 1 // never 0, which is no lease
	err = s.do(ctx, writesAgain, func(ctx context.Context, c *pgx.Conn) error {
		tasks, next = nil, time.Time{}
		rows, err := c.Query(ctx, s.sql.claim,
			s.partition(p), nanos(now), nanos(now.Add(lease)), number, max(0, n))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id *string // nil: the row has the time when the next task is ready
			var due int64
			var payload []byte
			if err := rows.Scan(&id, &due, &payload); err != nil {
				return err
			}
			if id == nil {
				next = time.Unix(0, due)
				continue
			}
			tasks = append(tasks, kv.Task{
				ID: *id, Due: time.Unix(0, due), Payload: payload, Lease: formatLease(number),
			})
		}
		return rows.Err()
	})
	if err != nil {
		return nil, time.Time{}, failed("claim", err)
	}
	return tasks, next, nil
}
