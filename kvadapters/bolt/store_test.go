package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/wait"
)

func testStore(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "verge.db"), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func putTx(id, name string) kv.Tx {
	return kv.Tx{ID: id, Partition: "p", Puts: []kv.Put{{Name: name, Value: []byte(id)}}}
}

// stall blocks the store's next write to the disk. entered is closed when the write has begun. Closing
// release continues it.
func stall(s *Store) (entered, release chan struct{}) {
	entered, release = make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.log.disk.Append = func(f *os.File, b []byte, at int64) error {
		once.Do(func() {
			close(entered)
			wait.For(release)
		})
		return writeAndSync(f, b, at)
	}
	return entered, release
}

// queued waits until n commits wait for the writer.
func queued(s *Store, n int) {
	for {
		s.queue.mu.Lock()
		waiting := len(s.queue.waiting)
		s.queue.mu.Unlock()
		if waiting == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCommit_SharedWrite(t *testing.T) {
	s := testStore(t, Config{})
	entered, release := stall(s)
	first := make(chan error, 1)
	go func() { first <- s.Commit(t.Context(), putTx("first", "first")) }()
	wait.For(entered)

	const names, each = 10, 10
	errs := make([]error, names*each)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			tx := putTx(fmt.Sprintf("tx-%d", i), fmt.Sprintf("n-%d", i%names))
			tx.Checks = []kv.Check{{Name: tx.Puts[0].Name}}
			errs[i] = s.Commit(t.Context(), tx)
		})
	}
	queued(s, len(errs))
	close(release)
	wg.Wait()
	if err := wait.For(first); err != nil {
		t.Fatal(err)
	}

	won := 0
	for i, err := range errs {
		var c *kv.Conflict
		switch it, _ := s.Get(t.Context(), kv.Key{Partition: "p", Name: fmt.Sprintf("n-%d", i%names)}); {
		case err == nil:
			won++
			if it.Tx != fmt.Sprintf("tx-%d", i) {
				t.Errorf("tx-%d got no error, but the store has the item of %s", i, it.Tx)
			}
		case !errors.As(err, &c):
			t.Errorf("tx-%d: %v, want a conflict", i, err)
		default:
			if found, ok := c.Item(it.Key.Name); !ok || found.Tx != it.Tx {
				t.Errorf("tx-%d got a conflict with %q, but %s won inside the same write", i, found.Tx, it.Tx)
			}
		}
	}
	if won != names {
		t.Errorf("%d commits won %d names", won, names)
	}
	if groups, mean, largest := s.Written(); groups != 2 || mean != (1.0+names)/2 || largest != names {
		t.Errorf("%d writes, mean %v, largest %d: all waiting commits must share one write", groups, mean,
			largest)
	}
}

func TestCommit_TaskInSharedWrite(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*kv.Tx)
		lost   bool
	}{
		{"cancelled", func(tx *kv.Tx) { tx.Cancel = []string{"t"} }, true},
		{"scheduled anew", func(tx *kv.Tx) { tx.Schedule = []kv.Task{{ID: "t", Due: time.Unix(9, 0)}} },
			true},
		{"another task cancelled", func(tx *kv.Tx) { tx.Cancel = []string{"u"} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testStore(t, Config{})
			due := time.Unix(1, 0)
			scheduled := kv.Tx{ID: "0", Partition: "p", Schedule: []kv.Task{{ID: "t", Due: due}}}
			if err := s.Commit(t.Context(), scheduled); err != nil {
				t.Fatal(err)
			}
			tasks, _, err := s.Claim(t.Context(), "p", due, time.Minute, 1)
			if err != nil || len(tasks) != 1 {
				t.Fatal(tasks, err)
			}
			entered, release := stall(s)
			done := make(chan error, 2)
			go func() { done <- s.Commit(t.Context(), putTx("1", "x")) }()
			wait.For(entered)
			go func() {
				tx := kv.Tx{ID: "2", Partition: "p"}
				c.change(&tx)
				done <- s.Commit(t.Context(), tx)
			}()
			queued(s, 1)
			last := make(chan error, 1)
			go func() {
				last <- s.Commit(t.Context(), kv.Tx{
					ID: "3", Partition: "p",
					Held: []kv.Held{{TaskID: "t", Lease: tasks[0].Lease}},
					Puts: []kv.Put{{Name: "y"}},
				})
			}()
			queued(s, 2)
			close(release)
			if err := errors.Join(wait.For(done), wait.For(done)); err != nil {
				t.Fatal(err)
			}
			var conflict *kv.Conflict
			if err := wait.For(last); errors.As(err, &conflict) != c.lost {
				t.Errorf("the holder's commit: %v, want lost: %v", err, c.lost)
			}
		})
	}
}

func TestCommit_CancelledCaller(t *testing.T) {
	s := testStore(t, Config{})
	entered, release := stall(s)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller disconnected")
	begun, waiting := make(chan error, 1), make(chan error, 1)
	go func() { begun <- s.Commit(ctx, putTx("begun", "begun")) }()
	wait.For(entered)
	go func() { waiting <- s.Commit(ctx, putTx("waiting", "waiting")) }()
	queued(s, 1)
	cancel(why)

	err := wait.For(begun)
	if !errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, why) {
		t.Errorf("cancelled while it was written: %v, want ErrUnknown: it may have happened", err)
	}
	err = wait.For(waiting)
	if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) || !errors.Is(err, why) {
		t.Errorf("cancelled while it waited: %v, want ErrUnavailable: it never happens", err)
	}
	close(release)
	if err := s.Commit(t.Context(), putTx("after", "after")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: "begun"}); err != nil {
		t.Errorf("the commit that was being written: %v, want it to succeed", err)
	}
	if it, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: "waiting"}); !errors.Is(err,
		kv.ErrNotFound) {
		t.Errorf("the commit that returned ErrUnavailable happened afterwards: %q, %v", it.Tx, err)
	}
}

func TestClaim_HangingWrite(t *testing.T) {
	s := testStore(t, Config{})
	entered, release := stall(s)
	done := make(chan error, 1)
	go func() {
		done <- s.Commit(t.Context(), kv.Tx{
			ID:        "1",
			Partition: "p",
			Schedule:  []kv.Task{{ID: "t", Due: time.Unix(1, 0)}},
		})
	}()
	wait.For(entered)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.Claim(ctx, "p", time.Unix(2, 0), time.Second, 1); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("claim: %v, want ErrUnavailable", err)
	}
	if _, _, err := s.Claim(t.Context(), "q", time.Unix(2, 0), time.Second, 1); err != nil {
		t.Errorf("a claim in a partition that the write does not touch: %v", err)
	}
	close(release)
	if err := wait.For(done); err != nil {
		t.Fatal(err)
	}
	tasks, _, err := s.Claim(t.Context(), "p", time.Unix(2, 0), time.Second, 1)
	if err != nil || len(tasks) != 1 {
		t.Errorf("claim after the write: %v, %v", tasks, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestSweep_ExpiredItems(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1000, 0)
	s := testStore(t, Config{SweepEvery: time.Millisecond, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	const items = 3 * sweepStep
	for i := 0; i < items; i += 64 {
		tx := kv.Tx{ID: fmt.Sprint(i), Partition: "p"}
		for j := range 64 {
			expires := time.Unix(2000, 0)
			if j%2 == 1 {
				expires = time.Unix(3000, 0)
			}
			tx.Puts = append(tx.Puts, kv.Put{Name: fmt.Sprintf("%05d", i+j), Expires: expires})
		}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	now = time.Unix(2000, 0)
	mu.Unlock()
	entries := func(in table) (n int) {
		if err := s.read(nil, func(st state) error {
			c := st.seek(in, nil)
			for key, _ := c.next(); key != nil; key, _ = c.next() {
				n++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	wait.Until(t, "the items are removed that have expired, and no others", func() bool {
		return entries(itemTable) == items/2 && entries(expiryTable) == items/2
	})
	left, err := s.List(t.Context(), kv.Key{Partition: "p"}, "", 10000)
	if err != nil || len(left) != items/2 {
		t.Errorf("%d items are left, %v, want %d", len(left), err, items/2)
	}
}

// The sweep uses a separate index, which every put must update.
func TestSweep_ItemPutAgain(t *testing.T) {
	var now atomic.Int64
	s := testStore(t, Config{SweepEvery: time.Millisecond, Now: func() time.Time {
		return time.Unix(now.Load(), 0)
	}})
	for n, expires := range map[string][2]time.Time{
		"longer": {time.Unix(1000, 0), time.Unix(3000, 0)},
		"ever":   {time.Unix(1000, 0), {}},
		"gone":   {{}, time.Unix(1000, 0)},
	} {
		for i, at := range expires {
			tx := kv.Tx{ID: fmt.Sprint(n, i), Partition: "p", Puts: []kv.Put{{Name: n, Expires: at}}}
			if err := s.Commit(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
		}
	}
	now.Store(2000)
	for s.anyExpired() {
		time.Sleep(time.Millisecond)
	}
	left, err := s.List(t.Context(), kv.Key{Partition: "p"}, "", 9)
	if err != nil || len(left) != 2 || left[0].Key.Name != "ever" || left[1].Key.Name != "longer" {
		t.Errorf("after the sweep there are %v, %v; want the two items that were put again", left, err)
	}
}

// Only a power cut shows whether a write was synced. This test checks the settings that decide it.
func TestOpen_SyncIsOn(t *testing.T) {
	s := testStore(t, Config{})
	if s.db.NoSync || s.db.NoGrowSync {
		t.Errorf("bbolt's NoSync is %v, its NoGrowSync %v, want false: a commit would return "+
			"before it is on disk",
			s.db.NoSync, s.db.NoGrowSync)
	}
	if runtime.GOOS != "linux" {
		return
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0) // it accepts all writes, and cannot be synced
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if err := writeAndSync(null, []byte("x"), 0); err == nil {
		t.Error("a record is not synced")
	}
}

func TestClose_Unavailable(t *testing.T) {
	s := testStore(t, Config{})
	entered, release := stall(s)
	done := make(chan error, 2)
	go func() { done <- s.Commit(t.Context(), putTx("1", "a")) }()
	wait.For(entered)
	go func() { done <- s.Commit(t.Context(), putTx("2", "b")) }()
	queued(s, 1)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	close(release)
	if err := errors.Join(wait.For(done), wait.For(done), wait.For(closed)); err != nil {
		t.Errorf("commits in progress when the store was closed, or closing it: %v", err)
	}
	_, _, claim := s.Claim(t.Context(), "p", time.Unix(1, 0), time.Second, 1)
	for call, err := range map[string]error{
		"commit": s.Commit(t.Context(), putTx("3", "c")),
		"get":    second(s.Get(t.Context(), kv.Key{Partition: "p", Name: "a"})),
		"list":   second(s.List(t.Context(), kv.Key{Partition: "p"}, "", 9)),
		"claim":  claim,
	} {
		if !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("%s after Close: %v, want ErrUnavailable", call, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestCommit_QueueLimit(t *testing.T) {
	q := queue{wake: make(chan struct{}, 1)}
	for range maxQueued {
		if err := q.add(&change{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.add(&change{}); !errors.Is(err, errOverloaded) {
		t.Errorf("commit number %d: %v, want a refusal: a disk that hangs must not fill the memory",
			maxQueued+1, err)
	}
	group, _ := q.next()
	if n := len(group); n != maxGroup {
		t.Errorf("one write carries %d commits, want at most %d", n, maxGroup)
	}
	q.waiting = []*change{{bytes: maxGroupBytes}, {bytes: 1}}
	group, _ = q.next()
	if n := len(group); n != 1 {
		t.Errorf("one write carries %d commits behind %d bytes, want 1", n, maxGroupBytes)
	}
}

func TestSortable_Order(t *testing.T) {
	times := []time.Time{
		{}, time.Unix(-1<<40, 0), time.Unix(-1, 0), time.Unix(0, -1), time.Unix(0, 0), time.Unix(0, 1),
		time.Unix(1, 0), time.Unix(1<<33, 0), time.Unix(1<<40, 0),
	}
	for i, a := range times {
		if sortable(a) == 0 {
			t.Errorf("%v encodes to zero, which means never", a)
		}
		for _, b := range times[i:] {
			if sortable(a) > sortable(b) {
				t.Errorf("%v sorts behind %v", a, b)
			}
		}
	}
	for _, at := range times[2:8] {
		if got := fromSortable(sortable(at)); !got.Equal(at) {
			t.Errorf("%v came back as %v", at, got)
		}
	}
}
