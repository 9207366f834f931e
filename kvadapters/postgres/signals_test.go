package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// ear receives a store's signals. "" means that it has begun to listen.
type ear chan kv.Partition

// listens makes the store listen until the test ends, restarts it when it stops, and returns when it
// listens.
func listens(t *testing.T, s *postgres.Store) ear {
	t.Helper()
	e := make(ear, 1000)
	ctx, end := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() {
		for ctx.Err() == nil {
			err := s.Signals(ctx, func(p kv.Partition) { e <- p })
			if (err == nil) != (ctx.Err() != nil) {
				t.Errorf("listening ended with %v, and the context's end is %v", err, ctx.Err())
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	t.Cleanup(func() { end(); listening.Wait() })
	e.want(t, "")
	return e
}

func (e ear) want(t *testing.T, p kv.Partition) {
	t.Helper()
	if got := wait.For[kv.Partition](e); got != p {
		t.Errorf("heard %q, want %q", got, p)
	}
}

func signal(t *testing.T, s *postgres.Store, p kv.Partition) {
	t.Helper()
	if err := s.Signal(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// Signals arrive in order. So a store that receives the last one first has not received the earlier ones.
func TestSignals_SameTables(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	a := open(t, server.URL("verge"), postgres.Config{})
	b := open(t, server.URL("verge"), postgres.Config{})
	other := open(t, server.URL("other"), postgres.Config{})
	hearsA, hearsB, hearsOther := listens(t, a), listens(t, b), listens(t, other)
	signal(t, a, "p0")
	hearsB.want(t, "p0")
	signal(t, b, `p 1"'\`)
	hearsA.want(t, `p 1"'\`)
	last := open(t, server.URL("other"), postgres.Config{})
	signal(t, last, "last")
	hearsOther.want(t, "last")

	a.Close()
	if err := a.Signal(t.Context(), "p0"); err == nil {
		t.Error("a closed store sends signals")
	}
}

func TestSignals_AfterFaults(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	a := open(t, server.URL("verge"), postgres.Config{Timeout: time.Minute})
	b := open(t, server.URL("verge"), postgres.Config{Timeout: time.Minute})
	hears := listens(t, b)
	for name, fault := range map[string]func(){
		"kill -9 of the server": func() { server.Kill(); server.Start() },
		"the connection is closed": func() {
			server.Do(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'verge signals'`)
		},
	} {
		fault()
		hears.want(t, "") // signals in the meantime are lost, so the runner has to poll all partitions
		eventually(t, a)
		signal(t, a, kv.Partition(name))
		hears.want(t, kv.Partition(name))
	}
}

// A store that cannot listen returns an error, and a store with signals off does not listen.
func TestSignals_Off(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	nothing := func(p kv.Partition) { t.Errorf("heard %q", p) }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, option := range []string{"signals=off", "pooler=transaction"} {
		s := open(t, server.URL("verge")+"&"+option, postgres.Config{})
		if err := s.Signals(ctx, nothing); err != nil || ctx.Err() != nil {
			t.Errorf("%s: %v, want nil immediately", option, err)
		}
		if err := s.Signal(t.Context(), "p0"); err == nil {
			t.Errorf("%s: it signals", option)
		}
	}
	if n := server.Do(`SELECT count(*) FROM pg_stat_activity
		WHERE application_name = 'verge signals'`); n != int64(0) {
		t.Errorf("%v connections listen", n)
	}
	s := open(t, server.URL("verge"), postgres.Config{})
	server.Kill()
	wantUnavailable(t, s.Signals(ctx, nothing), "connection refused")
}

// A signal must not keep its lock while it waits for a disk or a replica.
func TestSignal_NoReplicaWait(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	a, b := open(t, server.URL("verge"), postgres.Config{}), open(t, server.URL("verge"), postgres.Config{})
	hears := listens(t, b)
	server.Set("synchronous_standby_names", "nobody")
	signal(t, a, "p0")
	hears.want(t, "p0")
}

// Another program holds the lock for which all transactions with a NOTIFY wait: its commit waits for a
// replica that does not respond. Commits must not wait with it, and signals must leave a connection of the
// smallest pool free.
func TestCommit_NoSignalWait(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	server.Do("ALTER ROLE verge SET synchronous_commit = local")
	s := open(t, server.URL("verge")+"&pool_max_conns=2", postgres.Config{Timeout: 30 * time.Second})
	server.Set("synchronous_standby_names", "nobody")
	c, err := pgx.Connect(t.Context(), server.URL("")+"?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	stuck := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(),
			"SET synchronous_commit = on; CREATE TABLE theirs (); NOTIFY theirs")
		stuck <- err
	}()
	const held = `SELECT count(*) FROM pg_locks
		WHERE granted AND locktype = 'object' AND classid = 'pg_database'::regclass AND objid = 0`
	wait.Until(t, "a program holds the lock", func() bool { return server.Do(held) == int64(1) })

	ctx, end := context.WithTimeout(t.Context(), 5*time.Minute)
	var signals atomic.Int64
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for ctx.Err() == nil {
				err := s.Signal(ctx, "p0")
				if ctx.Err() == nil && !strings.Contains(fmt.Sprint(err), "lock timeout") {
					t.Errorf("a signal that cannot have the lock: %v", err)
				}
				signals.Add(1)
			}
		})
	}
	for signals.Load() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	const n = 200
	signals.Store(0)
	for i := range n {
		commit(t, s, kv.Tx{ID: fmt.Sprint(i), Puts: []kv.Put{{Name: "a"}}})
	}
	if ctx.Err() != nil || signals.Load() > n/2 {
		t.Errorf("%d signals were sent during %d commits; the test's time is over: %v",
			signals.Load(), n, ctx.Err())
	}
	end()
	senders.Wait()
	server.Do("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	wait.For(stuck)
	c.Close(t.Context())
	signal(t, s, "p0")
}
