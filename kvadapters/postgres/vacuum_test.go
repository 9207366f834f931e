package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// work schedules, claims and completes n tasks, and returns the median time of the last claims.
func work(t *testing.T, s *postgres.Store, label string, n int) time.Duration {
	t.Helper()
	const batch = 20
	var took []time.Duration
	for i := 0; i < n; i += batch {
		scheduled := kv.Tx{ID: fmt.Sprint("s", label, i)}
		for j := range batch {
			scheduled.Schedule = append(scheduled.Schedule,
				kv.Task{ID: fmt.Sprint(label, i+j), Due: time.Now(), Payload: make([]byte, 500)})
		}
		commit(t, s, scheduled)
		begin := time.Now()
		tasks, _, err := s.Claim(t.Context(), part, time.Now(), time.Minute, 2*batch)
		took = append(took, time.Since(begin))
		if err != nil || len(tasks) != batch {
			t.Fatalf("%d tasks claimed: %v", len(tasks), err)
		}
		done := kv.Tx{ID: fmt.Sprint("d", label, i)}
		for _, task := range tasks {
			done.Held = append(done.Held, kv.Held{TaskID: task.ID, Lease: task.Lease})
			done.Cancel = append(done.Cancel, task.ID)
		}
		commit(t, s, done)
	}
	took = took[max(0, len(took)-25):]
	slices.Sort(took)
	return took[len(took)/2]
}

// snapshot opens a transaction that sees the present rows, as pg_dump does, until end is called.
func snapshot(t *testing.T, url string) (end func()) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := c.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT count(*) FROM verge.tasks")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { c.Close(context.Background()) }
}

// A backup by pg_dump, or a query on a replica with hot_standby_feedback, keeps deleted rows. Every task is
// still claimed, the metric shows the rows, and autovacuum removes them after the end of the snapshot.
func TestLongSnapshot(t *testing.T) {
	long.Skip(t, "TestLongSnapshot")
	for _, c := range []struct {
		name    string
		replica bool
	}{{"pg_dump", false}, {"hot_standby_feedback", true}} {
		t.Run(c.name, func(t *testing.T) {
			const tasks = 3_000
			server := stores.StartPostgres(t, "autovacuum=on", "autovacuum_naptime=1s")
			s := open(t, server.URL("verge"), postgres.Config{})
			url := server.URL("verge")
			if c.replica {
				replica := server.Replica("r", "hot_standby_feedback=on", "wal_receiver_status_interval=1s")
				url = replica.URL("verge")
			}
			before := work(t, s, "a", tasks)
			end := snapshot(t, baseURL(url))
			defer end()
			time.Sleep(3 * time.Second) // a replica reports its snapshot once a second
			during := []time.Duration{work(t, s, "b", tasks), work(t, s, "c", tasks),
				work(t, s, "d", 2*tasks)}
			wait.Until(t, "the deleted rows are reported", func() bool {
				return measure(t, s).DeadRows >= tasks
			})
			dead := measure(t, s).DeadRows
			end()
			wait.Until(t, "autovacuum removes the rows", func() bool {
				return measure(t, s).DeadRows < tasks
			})
			after := work(t, s, "e", tasks/10)
			t.Logf("a claim takes %v; with a snapshot of 3,000, 6,000 and 12,000 tasks ago %v; "+
				"%d deleted rows; afterwards %v", before, during, dead, after)
		})
	}
}

// baseURL removes the options of the store from a URL.
func baseURL(url string) string {
	for i, c := range url {
		if c == '?' {
			return url[:i]
		}
	}
	return url
}

// Tables of version 1 get the settings of autovacuum while a backup reads them.
func TestMigrate_Autovacuum(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	options := func() any {
		return server.Do("SELECT array_to_string(reloptions, ' ') FROM pg_class " +
			"WHERE oid = 'verge.tasks'::regclass")
	}
	const want = "autovacuum_vacuum_scale_factor=0 autovacuum_vacuum_threshold=1000 " +
		"autovacuum_vacuum_cost_delay=0"
	open(t, server.URL("verge"), postgres.Config{})
	if got := options(); got != want {
		t.Errorf("new tables have %v", got)
	}
	server.Do("ALTER TABLE verge.tasks RESET (autovacuum_vacuum_cost_delay)")
	server.Do("UPDATE verge.version SET version = 1")
	end := snapshot(t, baseURL(server.URL("verge")))
	defer end()
	open(t, server.URL("verge"), postgres.Config{})
	if got := options(); got != want {
		t.Errorf("migrated tables have %v", got)
	}
}

// The time of the sweep grows with the number of expired items, and not with its square.
func TestSweep_LongSnapshot(t *testing.T) {
	t.Parallel()
	items := long.Pick(t, "TestSweep_LongSnapshot", 4_000, 20_000)
	clock := kvtest.NewClock()
	server := stores.StartPostgres(t)
	s := open(t, server.URL("verge"), postgres.Config{Now: clock.Now, SweepEvery: 100 * time.Millisecond})
	for i := 0; i < items; {
		tx := kv.Tx{ID: fmt.Sprint("s", i)}
		for range 50 {
			tx.Puts = append(tx.Puts, kv.Put{Name: fmt.Sprint("a", i), Value: []byte("v"),
				Expires: clock.Now().Add(time.Minute + time.Duration(i)*time.Millisecond)})
			i++
		}
		commit(t, s, tx)
	}
	end := snapshot(t, baseURL(server.URL("verge")))
	defer end()
	clock.Advance(time.Hour)
	begin := time.Now()
	if overdue := measure(t, s).Overdue; overdue < 50*time.Minute {
		t.Errorf("expired for %v before the sweep, want almost an hour", overdue)
	}
	wait.Until(t, "the expired items are removed", func() bool { return measure(t, s).Overdue == 0 })
	t.Logf("%d items removed in %v under a snapshot", items, time.Since(begin))
}
