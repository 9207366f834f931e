package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

const part = kv.Partition("p")

func used(id string) kv.Tx {
	return kv.Tx{
		ID:        id,
		Partition: part,
		Checks:    []kv.Check{{Name: "used"}},
		Puts:      []kv.Put{{Name: "used", Expires: time.Now().Add(time.Hour)}},
	}
}

func commit(t *testing.T, s kv.KV, tx kv.Tx) {
	t.Helper()
	tx.Partition = part
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
}

func wantUnknown(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("%v, want ErrUnknown and not ErrUnavailable", err)
	}
}

func wantUnavailable(t *testing.T, err error, says ...string) {
	t.Helper()
	if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) {
		t.Errorf("%v, want ErrUnavailable and not ErrUnknown", err)
	}
	for _, text := range says {
		if !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%v, want it to contain %q", err, text)
		}
	}
}

// eventually waits until the store accepts writes again. Recovery must need no restart.
func eventually(t *testing.T, s kv.KV) {
	t.Helper()
	wait.Until(t, "I10: a restarted store accepts writes again", func() bool {
		err := s.Commit(t.Context(), kv.Tx{ID: "back", Partition: part, Puts: []kv.Put{{Name: "back"}}})
		return err == nil
	})
}

// events writes n events, each a used token and its task, from several concurrent callers, and calls during
// after half of them. It checks that every acknowledged event exists exactly once, and that none exists in
// part.
func events(t *testing.T, s kv.KV, n int, during func()) {
	t.Helper()
	var next, told atomic.Int64
	var callers sync.WaitGroup
	winners := make([]string, n)
	half := make(chan struct{})
	for range 16 {
		callers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				name := fmt.Sprintf("used/%05d", i)
				for try := 0; winners[i] == ""; try++ {
					id := fmt.Sprintf("%s/%d", name, try)
					err := kv.CommitSurely(context.Background(), s, kv.Tx{
						ID: id, Partition: part,
						Checks:   []kv.Check{{Name: name}},
						Puts:     []kv.Put{{Name: name, Value: []byte(id)}},
						Schedule: []kv.Task{{ID: name, Due: time.Unix(1, 0), Payload: []byte(id)}},
					})
					var conflict *kv.Conflict
					switch {
					case err == nil:
						winners[i] = id
					case errors.As(err, &conflict): // an earlier attempt of this event
						if it, ok := conflict.Item(name); ok {
							winners[i] = it.Tx
						}
					default:
						time.Sleep(10 * time.Millisecond)
					}
				}
				if told.Add(1) == int64(n/2) {
					close(half)
				}
			}
		})
	}
	wait.For(half)
	during()
	callers.Wait()

	payloads := claimAll(t, s)
	items, err := s.List(t.Context(), kv.Key{Partition: part, Name: "used/"}, "", 2*n)
	if err != nil || len(items) != n || len(payloads) != n {
		t.Fatalf("I3: %d items and %d tasks, %v, want %d of each", len(items), len(payloads), err, n)
	}
	for i, it := range items {
		if it.Tx != winners[i] || payloads[it.Key.Name] != it.Tx {
			t.Errorf("I1: %s is of %s, its task of %s, and %s returned nil",
				it.Key.Name, it.Tx, payloads[it.Key.Name], winners[i])
		}
	}
}

// The server is stopped for 2 s during 1,000 events, and none is lost.
func TestKill9_ThousandEvents(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	s := open(t, server.URL("verge"), postgres.Config{Timeout: time.Minute})
	events(t, s, 1000, func() {
		server.Kill()
		time.Sleep(2 * time.Second)
		server.Start()
	})
}

// A promoted synchronous replica has every acknowledged commit.
func TestFailover_SynchronousReplica(t *testing.T) {
	t.Parallel()
	primary := stores.StartPostgres(t)
	replica := primary.Replica("one")
	primary.Set("synchronous_standby_names", "one")
	// The replica comes first, so the store has to find the server that accepts writes.
	url := strings.Replace(primary.URL("verge"), primary.Addr(), replica.Addr()+","+primary.Addr(), 1)
	s := open(t, url, postgres.Config{Timeout: time.Minute})
	events(t, s, 300, func() {
		primary.Kill()
		replica.Promote()
	})
}

// withoutReplica calls commit, and cancels each wait for a replica until commit returns.
func withoutReplica(t *testing.T, server *stores.Postgres, commit func() error) (err error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- commit() }()
	wait.Until(t, "the commit returns", func() bool {
		server.Do(`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	return err
}

// A commit whose wait for the replica was cancelled is only on the primary. The server reports the commit
// with a warning.
func TestCommit_NoReplica(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	s := open(t, server.URL("verge"), postgres.Config{Timeout: 20 * time.Second})
	server.Set("synchronous_standby_names", "nobody")
	wantUnknown(t, withoutReplica(t, server, func() error { return s.Commit(t.Context(), used("alone")) }))
	it, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "used"})
	if err != nil || it.Tx != "alone" {
		t.Errorf("%v, %v: the primary has not committed, so the test is void", it, err)
	}
}

// A commit that finds an item which only the primary has is not rejected before a replica has the item.
// Otherwise the second try of a caller would find its own item, and be granted.
func TestCommitSurely_NoReplica(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	s := open(t, server.URL("verge"), postgres.Config{Timeout: 20 * time.Second})
	server.Set("synchronous_standby_names", "nobody")
	var conflict *kv.Conflict
	for _, try := range []string{"alone", "alone", "other"} {
		err := withoutReplica(t, server, func() error { return kv.CommitSurely(t.Context(), s, used(try)) })
		if !errors.Is(err, kv.ErrUnknown) || errors.As(err, &conflict) {
			t.Errorf("%s: %v, want only ErrUnknown", try, err)
		}
	}
	it, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "used"})
	if err != nil || it.Tx != "alone" {
		t.Errorf("%v, %v: the primary has not committed, so the test is void", it, err)
	}
	server.Set("synchronous_standby_names", "")
	if err := s.Commit(t.Context(), used("other")); !errors.As(err, &conflict) {
		t.Errorf("with no replica required: %v, want a conflict", err)
	}
}

func TestCommit_LostReply(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	p := faultproxy.New(t, server.Addr(), faultproxy.Config{})
	url := strings.Replace(server.URL("verge"), server.Addr(), p.Addr(), 1)
	s := open(t, url, postgres.Config{Timeout: time.Minute})
	commit(t, s, kv.Tx{ID: "first", Puts: []kv.Put{{Name: "first"}}}) // prepares the statements
	p.Use(faultproxy.Script(faultproxy.DropReply))
	wantUnknown(t, s.Commit(t.Context(), used("lost")))
	it, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "used"})
	if err != nil || it.Tx != "lost" {
		t.Fatalf("%v, %v: the commit whose reply was lost was not executed, so the test is void", it, err)
	}
	commit(t, s, kv.Tx{ID: "clear", Deletes: []string{"used"}})
	p.Use(faultproxy.Script(faultproxy.DropReply))
	if err := kv.CommitSurely(t.Context(), s, used("surely")); err != nil {
		t.Errorf("CommitSurely: %v, want nil, because it wrote the item", err)
	}
}

// An operator's trigger, or another program on the tables, can make transactions collide.
func TestCommit_RetriesCollisions(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	s := open(t, server.URL("verge"), postgres.Config{})
	server.Do("CREATE SEQUENCE verge.collisions")
	server.Do(`CREATE FUNCTION verge.collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		CASE nextval('verge.collisions')
			WHEN 1 THEN RAISE EXCEPTION 'serialization' USING ERRCODE = '40001';
			WHEN 2 THEN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01';
			ELSE RETURN NEW;
		END CASE; END $$`)
	server.Do(`CREATE TRIGGER collide BEFORE INSERT ON verge.items
		FOR EACH ROW EXECUTE FUNCTION verge.collide()`)
	commit(t, s, used("third try"))
	if n := server.Do("SELECT last_value FROM verge.collisions"); n != int64(3) {
		t.Errorf("the commit was tried %v times, want 3", n)
	}
	// If the collisions do not end, the store fails, and no data has changed.
	server.Do(`CREATE OR REPLACE FUNCTION verge.collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'serialization' USING ERRCODE = '40001'; END $$`)
	wantUnavailable(t,
		s.Commit(t.Context(), kv.Tx{ID: "never", Partition: part, Puts: []kv.Put{{Name: "a"}}}))
}

func TestPool_Exhausted(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	s := open(t, server.URL("verge")+"&pool_max_conns=2", postgres.Config{Timeout: 5 * time.Second})
	// A program that holds the lock of a row makes both connections wait.
	commit(t, s, kv.Tx{ID: "task", Schedule: []kv.Task{{ID: "t", Due: time.Unix(1, 0)}}})
	release := server.Hold("SELECT FROM verge.tasks FOR UPDATE")
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() {
			err := s.Commit(t.Context(), kv.Tx{ID: "waits", Partition: part, Cancel: []string{"t"}})
			if !kv.Failed(err) {
				t.Errorf("a commit that waits for a lock: %v, want a failure of the store", err)
			}
		})
	}
	wait.Until(t, "both connections wait", func() bool {
		return server.Do("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == int64(2)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := s.Get(ctx, kv.Key{Partition: part, Name: "a"})
	wantUnavailable(t, err, "all 2 connections are in use", "pool_max_conns")
	waiting.Wait()
	release()
	eventually(t, s)
}

// A transaction of a silent client holds its locks until the server ends it.
func TestTransaction_IdleEnded(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t, "idle_in_transaction_session_timeout=300ms")
	s := open(t, server.URL("verge"), postgres.Config{})
	commit(t, s, kv.Tx{ID: "task", Schedule: []kv.Task{{ID: "t", Due: time.Unix(1, 0)}}})
	release := server.Hold("SELECT FROM verge.tasks FOR UPDATE")
	defer release()
	commit(t, s, kv.Tx{ID: "after", Cancel: []string{"t"}})
	// Verge's own connections are never idle in a transaction, and have a limit anyway.
	limits := server.Do(`SELECT count(*) FROM pg_stat_activity
		WHERE application_name = 'verge' AND state LIKE 'idle in transaction%'`)
	if limits != int64(0) {
		t.Errorf("%v connections of the store are idle in a transaction", limits)
	}
}

func TestStore_Unreachable(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	s := open(t, server.URL("verge"), postgres.Config{Timeout: time.Minute})
	server.Kill()
	_ = s.Commit(t.Context(), used("broken")) // discards the broken connections
	wantUnavailable(t, s.Commit(t.Context(), used("down")), "connection refused")
	_, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "a"})
	wantUnavailable(t, err)
	_, err = s.List(t.Context(), kv.Key{Partition: part}, "", 1)
	wantUnavailable(t, err)
	_, _, err = s.Claim(t.Context(), part, time.Now(), time.Second, 1)
	wantUnavailable(t, err)
	_, err = s.Spend(t.Context(), part, time.Now(), []kv.Charge{{Name: "a", Cost: 1, Burst: 1}})
	wantUnavailable(t, err)
	_, err = postgres.Open(t.Context(), server.URL("verge"), postgres.Config{})
	wantUnavailable(t, err, "connection refused")
	server.Start()
	eventually(t, s)
}

// An idle connection breaks when the server restarts. A read gets another one.
func TestGet_ServerRestart(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	s := open(t, server.URL("verge"), postgres.Config{})
	commit(t, s, used("before"))
	server.Stop()
	server.Start()
	if it, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "used"}); err != nil || it.Tx != "before" {
		t.Errorf("%v, %v, want the item", it, err)
	}
}

func TestOpen_UnsafeServer(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	rejected := func(url string, says ...string) {
		t.Helper()
		_, err := postgres.Open(t.Context(), url, postgres.Config{})
		for _, text := range says {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("open: %v, want it to contain %q", err, text)
			}
		}
	}
	url := func(user string) string { return strings.Replace(server.URL("verge"), "verge@", user+"@", 1) }
	server.Do("CREATE ROLE forgetful LOGIN SUPERUSER")
	server.Do("ALTER ROLE forgetful SET synchronous_commit = off")
	rejected(url("forgetful"), "synchronous_commit is off")
	server.Do("CREATE ROLE guest LOGIN")
	rejected(url("guest"), "permission denied", "CREATE SCHEMA")
	rejected(url("nobody"), `role "nobody" does not exist`)
	rejected(strings.Replace(server.URL("verge"), "/verge?", "/other?", 1), "create the database")

	// A user who owns only the schema is sufficient.
	server.Do("CREATE SCHEMA theirs AUTHORIZATION guest")
	s := open(t, strings.Replace(url("guest"), "schema=verge", "schema=theirs", 1), postgres.Config{})
	commit(t, s, used("guest"))
	// A user who may only use existing tables is sufficient, too.
	server.Do("CREATE ROLE reader LOGIN")
	server.Do("GRANT USAGE ON SCHEMA theirs TO reader")
	server.Do("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA theirs TO reader")
	s = open(t, strings.Replace(url("reader"), "schema=verge", "schema=theirs", 1), postgres.Config{})
	commit(t, s, kv.Tx{ID: "reader", Deletes: []string{"used"}})

	// Tables of a later version are used if they allow this version.
	server.Do("UPDATE theirs.version SET version = 9")
	s = open(t, strings.Replace(url("reader"), "schema=verge", "schema=theirs", 1), postgres.Config{})
	commit(t, s, used("older"))
	server.Do("UPDATE theirs.version SET oldest = 8")
	rejected(strings.Replace(url("reader"), "schema=verge", "schema=theirs", 1),
		"version 9", "version 8 and later")
}

// Instances that start at the same time create the tables once.
func TestOpen_Concurrent(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), server.URL("verge")+"&pool_max_conns=2", postgres.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	all.Wait()
	if n := server.Do("SELECT count(*) FROM verge.version"); n != int64(1) {
		t.Errorf("the tables have %v versions", n)
	}
}

func TestSweep_OnlyExpired(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	s := open(t, server.URL("verge"), postgres.Config{
		SweepEvery: 20 * time.Millisecond, SweepGrace: time.Minute,
	})
	now := time.Now()
	for i := range 5 {
		tx := kv.Tx{ID: fmt.Sprint(i)}
		for n := range kv.MaxTx {
			old := kv.Put{Name: fmt.Sprintf("old%d/%d", i, n), Expires: now.Add(-2 * time.Minute)}
			tx.Puts = append(tx.Puts, old)
		}
		commit(t, s, tx)
	}
	commit(t, s, kv.Tx{ID: "kept", Puts: []kv.Put{
		{Name: "never"}, {Name: "later", Expires: now.Add(time.Hour)},
		{Name: "grace", Expires: now.Add(-time.Second)},
	}})
	for _, at := range []time.Time{now.Add(-time.Hour), now} {
		charge := kv.Charge{Name: at.String(), Cost: time.Second, Burst: time.Minute}
		if _, err := s.Spend(t.Context(), part, at, []kv.Charge{charge}); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() string {
		return server.Do(`SELECT (SELECT count(*) FROM verge.items) || ' ' ||
			(SELECT count(*) FROM verge.counters)`).(string)
	}
	wait.Until(t, "there are 3 items and 1 counter", func() bool { return rows() == "3 1" })
	time.Sleep(100 * time.Millisecond) // some sweeps
	if got := rows(); got != "3 1" {
		t.Errorf("items and counters: %s, want 3 1", got)
	}
}

// claimAll claims all due tasks and returns their payloads. No task may be returned twice.
func claimAll(t *testing.T, s kv.KV) map[string]string {
	t.Helper()
	payloads := make(map[string]string)
	for {
		claimed, _, err := s.Claim(t.Context(), part, time.Now(), time.Hour, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed) == 0 {
			return payloads
		}
		for _, task := range claimed {
			if _, twice := payloads[task.ID]; twice {
				t.Errorf("the task %s was claimed twice", task.ID)
			}
			payloads[task.ID] = string(task.Payload)
		}
	}
}
