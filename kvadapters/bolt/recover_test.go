package bolt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/wait"
)

// fakeDisk is a disk with faults. Its zero value works.
type fakeDisk struct {
	mu     sync.Mutex
	commit func(*bbolt.Tx) error // nil: commits succeed
	away   error                 // error of opening the file to write
}

func (d *fakeDisk) set(commit func(*bbolt.Tx) error, away error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commit, d.away = commit, away
}

func (d *fakeDisk) disk() Disk {
	return Disk{
		Open: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.away != nil && flag&os.O_RDWR != 0 {
				return nil, d.away
			}
			return os.OpenFile(name, flag, perm)
		},
		Commit: func(tx *bbolt.Tx) error {
			d.mu.Lock()
			commit := d.commit
			d.mu.Unlock()
			if commit == nil {
				commit = (*bbolt.Tx).Commit
			}
			return commit(tx)
		},
	}
}

// once makes only the next commit fail.
func (d *fakeDisk) once(fail func(*bbolt.Tx) error) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		d.mu.Lock()
		d.commit = nil
		d.mu.Unlock()
		return fail(tx)
	}
}

// The three functions below are the ways in which a write fails.
func notWritten(tx *bbolt.Tx) error { return errors.Join(syscall.ENOSPC, tx.Rollback()) }

func writtenNotSynced(tx *bbolt.Tx) error { return errors.Join(tx.Commit(), syscall.EIO) }

// onlyInTheCache writes as if the disk had lost the meta page.
func onlyInTheCache(tx *bbolt.Tx) error {
	path := tx.DB().Path()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	metas := make([]byte, 2*os.Getpagesize())
	if _, err := f.ReadAt(metas, 0); err != nil {
		return err
	}
	err = tx.Commit()
	_, restored := f.WriteAt(metas, 0)
	return errors.Join(err, restored, syscall.EIO)
}

func onDisk(t *testing.T, d *fakeDisk) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "verge.db")
	s, err := Open(path, Config{Disk: d.disk(), LockTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Commit(t.Context(), putTx("before", "before")); err != nil {
		t.Fatal(err)
	}
	return s, path
}

func get(t *testing.T, s *Store, name string) error {
	t.Helper()
	_, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: name})
	return err
}

func recovers(t *testing.T, s *Store) {
	t.Helper()
	wait.Until(t, "the store works again, like the disk", func() bool { return s.Failing() == nil })
}

func TestRecovery_ImmediateResult(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*bbolt.Tx) error
		want error
		then error // of a later read
	}{
		"no data reached the disk":                 {notWritten, kv.ErrUnavailable, kv.ErrNotFound},
		"all data reached it, and its fsync fails": {writtenNotSynced, nil, nil},
		"the disk has lost the meta page":          {onlyInTheCache, kv.ErrUnavailable, kv.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDisk{}
			s, path := onDisk(t, d)
			d.set(d.once(c.fail), nil)
			err := s.Commit(t.Context(), putTx("failed", "failed"))
			if !errors.Is(err, c.want) || errors.Is(err, kv.ErrUnknown) {
				t.Errorf("the commit: %v, want %v: the file shows its outcome", err, c.want)
			}
			if err := s.Failing(); err != nil {
				t.Errorf("it is still failing: %v", err)
			}
			if err := get(t, s, "failed"); !errors.Is(err, c.then) {
				t.Errorf("reading it: %v, want %v", err, c.then)
			}
			if err := s.Commit(t.Context(), putTx("later", "later")); err != nil {
				t.Errorf("a later commit: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			s, err = Open(path, Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for name, want := range map[string]error{"before": nil, "failed": c.then, "later": nil} {
				if err := get(t, s, name); !errors.Is(err, want) {
					t.Errorf("after a restart, %s: %v, want %v", name, err, want)
				}
			}
		})
	}
}

func TestRecovery_DiskAway(t *testing.T) {
	for name, c := range map[string]struct {
		fail   func(*bbolt.Tx) error
		hidden error // result of reading data that may not be on disk
		after  error
	}{
		"no data reached the disk":                       {notWritten, nil, kv.ErrNotFound},
		"all data reached it, and the store cannot know": {writtenNotSynced, kv.ErrUnavailable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDisk{}
			s, _ := onDisk(t, d)
			held := leased(t, s)
			due := kv.Tx{ID: "due", Partition: "q", Schedule: []kv.Task{{ID: "due", Due: time.Unix(1, 0)}}}
			if err := s.Commit(t.Context(), due); err != nil {
				t.Fatal(err)
			}
			d.set(c.fail, syscall.EROFS)

			tx := putTx("failed", "failed")
			tx.Schedule = []kv.Task{{ID: "new", Due: time.Unix(1, 0)}}
			err := s.Commit(t.Context(), tx)
			if !errors.Is(err, kv.ErrUnknown) || !strings.Contains(err.Error(), s.path) {
				t.Errorf("the commit whose write failed: %v, want ErrUnknown with the path", err)
			}
			if err := get(t, s, "before"); !errors.Is(err, c.hidden) {
				t.Errorf("reading data on disk: %v, want %v", err, c.hidden)
			}
			if err := get(t, s, "failed"); err == nil {
				t.Error("a reader gets data that may not be on disk")
			}
			err = s.Commit(t.Context(), putTx("later", "later"))
			if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) {
				t.Errorf("a later commit: %v, want ErrUnavailable", err)
			}
			claimed, _, err := s.Claim(t.Context(), "q", time.Unix(9, 0), time.Minute, 9)
			if !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("a claim: %v, %v, want ErrUnavailable: its result could not be recorded", claimed,
					err)
			}

			d.set(nil, nil)
			recovers(t, s)
			for name, want := range map[string]error{"before": nil, "failed": c.after,
				"later": kv.ErrNotFound} {
				if err := get(t, s, name); !errors.Is(err, want) {
					t.Errorf("afterwards, %s: %v, want %v", name, err, want)
				}
			}
			tasks, _, err := s.Claim(t.Context(), "p", time.Unix(9, 0), time.Minute, 9)
			landed := c.after == nil
			hasNew := len(tasks) == 1 && tasks[0].ID == "new"
			if err != nil || landed != hasNew || !landed && len(tasks) > 0 {
				t.Errorf("afterwards, a claim returns %v, %v", tasks, err)
			}
			done := kv.Tx{ID: "done", Partition: "p", Held: []kv.Held{held}, Cancel: []string{held.TaskID}}
			if err := s.Commit(t.Context(), done); err != nil {
				t.Errorf("an earlier lease: %v, want it to be valid: its holder is still at work", err)
			}
		})
	}
}

// leased schedules a task and claims it.
func leased(t *testing.T, s *Store) kv.Held {
	t.Helper()
	old := kv.Tx{ID: "old", Partition: "p", Schedule: []kv.Task{{ID: "old", Due: time.Unix(1, 0)}}}
	if err := s.Commit(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	tasks, _, err := s.Claim(t.Context(), "p", time.Unix(2, 0), time.Minute, 1)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%v, %v", tasks, err)
	}
	return kv.Held{TaskID: "old", Lease: tasks[0].Lease}
}

func TestRecovery_ForeignFile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string, early []byte)
		says   string
	}{
		"a replaced file": {func(t *testing.T, path string, early []byte) {
			if err := errors.Join(os.Rename(path, path+".old"),
				os.WriteFile(path, early, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, "another one"},
		"an earlier state of the file": {func(t *testing.T, path string, early []byte) {
			overwrite(t, path, early)
		}, "lost commits"},
		"a page that is damaged": {func(t *testing.T, path string, _ []byte) {
			overwrite(t, path, make([]byte, 2*os.Getpagesize()))
		}, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDisk{}
			s, path := onDisk(t, d)
			early, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"one", "two", "three"} {
				if err := s.Commit(t.Context(), putTx(name, name)); err != nil {
					t.Fatal(err)
				}
			}
			d.set(notWritten, syscall.EIO)
			if err := s.Commit(t.Context(), putTx("failed", "failed")); !errors.Is(err, kv.ErrUnknown) {
				t.Fatal(err)
			}
			c.change(t, path, early)
			d.set(nil, nil)
			select {
			case <-s.Lost():
			case <-time.After(5 * time.Minute):
				t.Fatalf("it does not stop permanently: %v", s.Failing())
			}
			err = s.Commit(t.Context(), putTx("later", "later"))
			if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("a commit: %v, want an error with %q", err, c.says)
			}
		})
	}
}

func overwrite(t *testing.T, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNotifyHealth_Changes(t *testing.T) {
	told, late := make(chan error, 9), make(chan error, 9)
	d := &fakeDisk{}
	s, err := Open(filepath.Join(t.TempDir(), "verge.db"), Config{Disk: d.disk()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.NotifyHealth(func(failing error) { told <- failing })
	d.set(notWritten, syscall.EIO)
	for range 5 {
		if err := s.Commit(t.Context(), putTx("failed", "failed")); err == nil {
			t.Error("a commit succeeded on a failing disk")
		}
	}
	s.NotifyHealth(func(failing error) { late <- failing; told <- failing })
	if len(late) != 1 || len(told) != 2 {
		t.Fatalf("a receiver that registers while writes fail is notified %d times, want once", len(late))
	}
	wait.For(told)
	d.set(nil, nil)
	recovers(t, s)
	if err := s.Commit(t.Context(), putTx("later", "later")); err != nil {
		t.Error(err)
	}
	if len(told) != 2 {
		t.Fatalf("Changed was called %d times, want 2", len(told))
	}
	if failing, well := wait.For(told), wait.For(told); !errors.Is(failing, syscall.ENOSPC) || well != nil {
		t.Errorf("Changed was called with %v, then %v; want the cause, then nil", failing, well)
	}
}

// A reader sees a write once it is on disk, not as soon as it is in the file.
func TestGet_WaitsForSync(t *testing.T) {
	d := &fakeDisk{}
	s, _ := onDisk(t, d)
	written, release := make(chan struct{}), make(chan struct{})
	d.set(d.once(func(tx *bbolt.Tx) error {
		err := tx.Commit()
		close(written)
		wait.For(release)
		return err
	}), nil)
	committed, read := make(chan error, 1), make(chan error, 1)
	go func() { committed <- s.Commit(t.Context(), putTx("new", "new")) }()
	wait.For(written)
	go func() { read <- get(t, s, "new") }()
	select {
	case err := <-read:
		t.Errorf("a reader got %v before the write was synced", err)
		read <- err
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := errors.Join(wait.For(committed), wait.For(read)); err != nil {
		t.Error(err)
	}
}
