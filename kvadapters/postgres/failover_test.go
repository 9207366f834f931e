package postgres_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// written is an acknowledged commit.
type written struct {
	name, tx     string
	began, ended time.Time
}

// writers commit items under their own names, each with a task, until they are stopped.
type writers struct {
	store   kv.KV
	stop    atomic.Bool
	running sync.WaitGroup

	mu    sync.Mutex
	all   []written
	wrong []error
}

func (w *writers) begin(n int) {
	for i := range n {
		w.running.Go(func() {
			for k := 0; !w.stop.Load(); k++ {
				name := fmt.Sprintf("used/%d/%05d", i, k)
				one := written{name: name, tx: "of " + name, began: time.Now()}
				err := kv.CommitSurely(context.Background(), w.store, kv.Tx{
					ID: one.tx, Partition: part,
					Checks:   []kv.Check{{Name: name}},
					Puts:     []kv.Put{{Name: name, Value: []byte(one.tx)}},
					Schedule: []kv.Task{{ID: name, Due: time.Unix(1, 0), Payload: []byte(one.tx)}},
				})
				one.ended = time.Now()
				w.mu.Lock()
				switch {
				case err == nil:
					w.all = append(w.all, one)
				case !kv.Failed(err): // no other writer has this name, so a conflict would be wrong
					w.wrong = append(w.wrong, err)
				}
				w.mu.Unlock()
				if err != nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
}

func (w *writers) acknowledged() []written {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[:len(w.all):len(w.all)]
}

// more returns when n more commits are acknowledged.
func (w *writers) more(t *testing.T, n int) {
	t.Helper()
	before := len(w.acknowledged())
	wait.Until(t, "I10: commits are acknowledged", func() bool { return len(w.acknowledged()) >= before+n })
}

func (w *writers) end() []written {
	w.stop.Store(true)
	w.running.Wait()
	return w.all
}

// kept returns the writer of each item, and fails if an item and its task are not from the same commit.
func kept(t *testing.T, s kv.KV) map[string]string {
	t.Helper()
	payloads := claimAll(t, s)
	items := make(map[string]string)
	for after := ""; ; {
		page, err := s.List(t.Context(), kv.Key{Partition: part, Name: "used/"}, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, it := range page {
			items[it.Key.Name] = it.Tx
			if payloads[it.Key.Name] != it.Tx || string(it.Value) != it.Tx || it.Tx != "of "+it.Key.Name {
				t.Errorf("%s has %q of %q, and its task is of %q: a commit in part",
					it.Key.Name, it.Value, it.Tx, payloads[it.Key.Name])
			}
		}
		after = page[len(page)-1].Key.Name
	}
	if len(payloads) != len(items) {
		t.Errorf("%d items and %d tasks: a commit in part", len(items), len(payloads))
	}
	return items
}

// The test kills a primary whose replica does not have the last commits, and promotes that replica. The
// writers continue with the two hosts of their URL. If the commits waited for the replica, no acknowledged
// commit is lost. If not, only the last ones are lost: the remaining ones have no gap and no partial
// commit, and later acknowledged commits stay.
func TestFailover_HangingLink(t *testing.T) {
	long.Skip(t, "TestFailover_HangingLink")
	t.Parallel()
	for _, c := range []struct {
		name  string
		waits string // synchronous_standby_names
	}{
		{"a synchronous replica has all acknowledged commits", "ANY 1 (one)"},
		{"an asynchronous replica lacks only the last commits", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			primary := stores.StartPostgres(t)
			replica := primary.Replica("one")
			link := linked(t, primary, replica)
			primary.Set("synchronous_standby_names", c.waits)
			// The replica comes first, so the store has to find the server that accepts writes.
			url := strings.Replace(primary.URL("verge"), primary.Addr(), replica.Addr()+","+primary.Addr(), 1)
			w := &writers{store: open(t, url, postgres.Config{Timeout: time.Minute})}
			w.begin(8)
			w.more(t, 300)

			link.Use(faultproxy.Always(faultproxy.HangReply))
			if c.waits == "" {
				w.more(t, 300)
			} else {
				time.Sleep(500 * time.Millisecond)
				// An operator sees waiting commits, and cancels them. They are only on the primary.
				primary.Do("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
				time.Sleep(500 * time.Millisecond)
			}
			alive := time.Now()
			primary.Kill()
			dead := time.Now()
			replica.Promote()
			w.more(t, 300)
			all := w.end()

			for _, err := range w.wrong {
				t.Errorf("a commit under a name of its writer alone: %v", err)
			}
			lost := missing(t, all, kept(t, w.store), alive, dead)
			switch {
			case c.waits != "" && len(lost) > 0:
				t.Errorf("I1: %d acknowledged commits are lost, the first %+v", len(lost), lost[0])
			case c.waits == "" && len(lost) == 0:
				t.Error("the replica had all commits, so the test is void")
			}
			t.Logf("%d commits acknowledged, %d of them lost; the next one came %v after the kill",
				len(all), len(lost), firstAfter(all, dead).Round(time.Millisecond))
		})
	}
}

// linked puts a network that can hang between the primary and its replica.
func linked(t *testing.T, primary, replica *stores.Postgres) *faultproxy.Proxy {
	t.Helper()
	link := faultproxy.New(t, primary.Addr(), faultproxy.Config{})
	host, port, err := net.SplitHostPort(link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica.Set("primary_conninfo", "host="+host+" port="+port+" user=verge application_name=one")
	wait.Until(t, "the replica follows by the port of the link", func() bool {
		by := replica.Do("SELECT sender_port FROM pg_stat_wal_receiver WHERE status = 'streaming'")
		return fmt.Sprint(by) == port
	})
	return link
}

// missing returns the acknowledged commits that are lost. The primary was running at alive and killed at
// dead. It fails if a lost commit began after dead, or ended before another commit of the same primary
// began that is present.
func missing(t *testing.T, all []written, there map[string]string, alive, dead time.Time) (lost []written) {
	t.Helper()
	var first time.Time // when the first lost commit was acknowledged
	for _, one := range all {
		if there[one.name] == one.tx {
			continue
		}
		if one.began.After(dead) {
			t.Errorf("I1: %s was acknowledged by the new primary and is lost", one.name)
		}
		if lost = append(lost, one); first.IsZero() || one.ended.Before(first) {
			first = one.ended
		}
	}
	for _, one := range all {
		if len(lost) > 0 && one.ended.Before(alive) && there[one.name] == one.tx && one.began.After(first) {
			t.Errorf("%s exists, and a commit that ended before it began is lost", one.name)
		}
	}
	return lost
}

// firstAfter returns the time until the first commit was acknowledged that began after at.
func firstAfter(all []written, at time.Time) time.Duration {
	least := time.Hour
	for _, one := range all {
		if one.began.After(at) {
			least = min(least, one.ended.Sub(at))
		}
	}
	return least
}
