package bolt

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
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
	append appending              // nil: writes to the log succeed
	commit func(*bbolt.Tx) error  // nil: writes to the file succeed
	away   error                  // error of opening a file to write
	before func(operation string) // called before each write, if not nil
	one    sync.Mutex             // held by a write, if before is set
}

type appending func(f *os.File, b []byte, at int64) error

// set makes all later writes fail, and opening a file fail with away.
func (d *fakeDisk) set(appending appending, commit func(*bbolt.Tx) error, away error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.append, d.commit, d.away = appending, commit, away
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
		Append: func(f *os.File, b []byte, at int64) error {
			d.mu.Lock()
			write := d.append
			d.mu.Unlock()
			defer d.watch("write to the log")()
			if write == nil {
				write = writeAndSync
			}
			return write(f, b, at)
		},
		Commit: func(tx *bbolt.Tx) error {
			d.mu.Lock()
			commit := d.commit
			d.mu.Unlock()
			defer d.watch("write to the file")()
			if commit == nil {
				commit = (*bbolt.Tx).Commit
			}
			return commit(tx)
		},
	}
}

// watch calls before. If it is set, one write follows another.
func (d *fakeDisk) watch(operation string) (end func()) {
	if d.before == nil {
		return func() {}
	}
	d.one.Lock()
	d.before(operation)
	return d.one.Unlock
}

// once makes only the next write to the log fail.
func (d *fakeDisk) once(fail appending) {
	d.set(func(f *os.File, b []byte, at int64) error {
		d.set(nil, nil, nil)
		return fail(f, b, at)
	}, nil, nil)
}

// commitOnce makes only the next write to the file fail.
func (d *fakeDisk) commitOnce(fail func(*bbolt.Tx) error) {
	d.set(nil, func(tx *bbolt.Tx) error {
		d.set(nil, nil, nil)
		return fail(tx)
	}, nil)
}

// The three functions below are the ways in which a write to the log fails.
func notAppended(*os.File, []byte, int64) error { return syscall.ENOSPC }

func partlyAppended(f *os.File, b []byte, at int64) error {
	return errors.Join(writeAndSync(f, b[:logBlock/2], at), syscall.EIO)
}

func appendedNotSynced(f *os.File, b []byte, at int64) error {
	return errors.Join(writeAndSync(f, b, at), syscall.EIO)
}

// The three functions below are the ways in which a write to the file fails.
func notWritten(tx *bbolt.Tx) error { return errors.Join(syscall.ENOSPC, tx.Rollback()) }

// stalled waits for release, and then writes or fails.
func stalled(entered, release chan struct{}, failure error) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		close(entered)
		wait.For(release)
		if failure != nil {
			return errors.Join(failure, tx.Rollback())
		}
		return tx.Commit()
	}
}

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

// bigTx returns a commit after which a checkpoint begins.
func bigTx(id string) kv.Tx {
	tx := putTx(id, id)
	tx.Puts[0].Value = make([]byte, kv.MaxValue)
	for i := range kv.MaxTx - 1 {
		tx.Puts = append(tx.Puts, kv.Put{Name: fmt.Sprintf("big/%d", i), Value: make([]byte, kv.MaxValue)})
	}
	return tx
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

// reopened closes the store and opens it again.
func reopened(t *testing.T, s *Store) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(s.path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestRecovery_ImmediateResult(t *testing.T) {
	for name, c := range map[string]struct {
		fail appending
		want error
		then error // of a later read
	}{
		"no data reached the disk":                 {notAppended, kv.ErrUnavailable, kv.ErrNotFound},
		"a part reached it":                        {partlyAppended, kv.ErrUnavailable, kv.ErrNotFound},
		"all data reached it, and its fsync fails": {appendedNotSynced, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDisk{}
			s, _ := onDisk(t, d)
			d.once(c.fail)
			tx := putTx("failed", "failed")
			tx.Puts[0].Value = bytes.Repeat([]byte("x"), 2*logBlock)
			err := s.Commit(t.Context(), tx)
			if !errors.Is(err, c.want) || errors.Is(err, kv.ErrUnknown) {
				t.Errorf("the commit: %v, want %v: the log shows its outcome", err, c.want)
			}
			if err := s.Failing(); err != nil {
				t.Errorf("it is still failing: %v", err)
			}
			if err := s.Commit(t.Context(), putTx("later", "later")); err != nil {
				t.Errorf("a later commit: %v", err)
			}
			crashed := crashedCopy(t, s.path)
			for when, s := range map[string]*Store{"before a restart": s,
				"after a crash": openAt(t, crashed)} {
				for name, want := range map[string]error{"before": nil, "failed": c.then, "later": nil} {
					if err := get(t, s, name); !errors.Is(err, want) {
						t.Errorf("%s, %s: %v, want %v", when, name, err, want)
					}
				}
			}
		})
	}
}

// A backup that takes long must not keep the Store from opening its file again: all calls wait for that.
func TestRecovery_EndsBackup(t *testing.T) {
	d := &fakeDisk{}
	s, _ := onDisk(t, d)
	copying, ended, failed := make(chan bool), make(chan error), make(chan error)
	go func() {
		ended <- s.snapshot(t.Context(), func(ctx context.Context, _ state) error {
			copying <- true
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(20 * time.Second): // so that a Store which waits for it continues
				return nil
			}
		})
	}()
	wait.For(copying)
	d.once(notAppended)
	go func() { failed <- s.Commit(t.Context(), putTx("failed", "failed")) }()
	if err := wait.For(ended); !errors.Is(err, errReopening) {
		t.Errorf("the backup: %v, want %v", err, errReopening)
	}
	if err := wait.For(failed); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("the commit: %v", err)
	}
	if err := get(t, s, "before"); err != nil {
		t.Error(err)
	}
}

func openAt(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// crashedCopy copies the file and the log of an open store, as they are after a crash.
func crashedCopy(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "verge.db")
	for _, suffix := range []string{"", logSuffix} {
		b, err := os.ReadFile(path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(to+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A first commit that returns an error may be on disk. The next start finds the log in both cases.
func TestOpen_FailedCommit(t *testing.T) {
	good := filled(t)
	for name, make := range map[string]func(*testing.T, string){
		"a file":   writing(good),
		"no file":  func(*testing.T, string) {},
		"an empty": writing(nil),
	} {
		for failure, fail := range map[string]func(*bbolt.Tx) error{
			"not written": notWritten, "not synced": writtenNotSynced, "not in the file": onlyInTheCache,
		} {
			path := filepath.Join(t.TempDir(), "verge.db")
			make(t, path)
			d := &fakeDisk{}
			d.commitOnce(fail)
			if s, err := Open(path, Config{Disk: d.disk()}); err == nil {
				s.Close()
				t.Fatalf("%s, %s: open succeeded", name, failure)
			}
			s, err := Open(path, Config{})
			if err != nil {
				t.Errorf("%s, %s: %v", name, failure, err)
				continue
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if name == "a file" && len(content(t, path)) == 0 {
				t.Errorf("%s, %s: the records are lost", name, failure)
			}
		}
	}
}

func TestRecovery_DiskAway(t *testing.T) {
	for name, c := range map[string]struct {
		fail   appending
		want   error
		hidden error // result of reading data in the meantime
		after  error // result of reading its data afterwards, or after a crash
	}{
		"no data reached the disk": {notAppended, kv.ErrUnavailable, nil, kv.ErrNotFound},
		"a part reached it":        {partlyAppended, kv.ErrUnavailable, nil, kv.ErrNotFound},
		"all data reached it, and the store cannot know": {appendedNotSynced, kv.ErrUnknown,
			kv.ErrUnavailable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDisk{}
			s, path := onDisk(t, d)
			held := leased(t, s)
			due := kv.Tx{ID: "due", Partition: "q", Schedule: []kv.Task{{ID: "due", Due: time.Unix(1, 0)}}}
			if err := s.Commit(t.Context(), due); err != nil {
				t.Fatal(err)
			}
			d.set(c.fail, nil, syscall.EROFS)

			tx := putTx("failed", "failed")
			tx.Puts[0].Value = bytes.Repeat([]byte("x"), 2*logBlock)
			tx.Schedule = []kv.Task{{ID: "new", Due: time.Unix(1, 0)}}
			err := s.Commit(t.Context(), tx)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), s.path) {
				t.Errorf("the commit whose write failed: %v, want %v with the path", err, c.want)
			}
			if err := get(t, s, "before"); !errors.Is(err, c.hidden) {
				t.Errorf("reading data on disk: %v, want %v", err, c.hidden)
			}
			if err := get(t, s, "failed"); !errors.Is(err, cmp.Or(c.hidden, c.after)) {
				t.Errorf("reading data that may not be on disk: %v", err)
			}
			if _, err := s.Backup(t.Context(), path+".backup"); (err == nil) != (c.hidden == nil) {
				t.Errorf("a backup: %v", err)
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
			crashed := openAt(t, crashedCopy(t, path))
			for name, want := range map[string]error{"before": nil, "failed": c.after} {
				if err := get(t, crashed, name); !errors.Is(err, want) {
					t.Errorf("after a crash, %s: %v, want %v", name, err, want)
				}
			}

			d.set(nil, nil, nil)
			recovers(t, s)
			for name, want := range map[string]error{"before": nil, "failed": c.after,
				"later": kv.ErrNotFound} {
				if err := get(t, s, name); !errors.Is(err, want) {
					t.Errorf("afterwards, %s: %v, want %v", name, err, want)
				}
			}
			tasks, _, err := s.Claim(t.Context(), "p", time.Unix(9, 0), time.Minute, 9)
			hasNew := len(tasks) == 1 && tasks[0].ID == "new"
			if err != nil || hasNew != (c.after == nil) || !hasNew && len(tasks) > 0 {
				t.Errorf("afterwards, a claim returns %v, %v", tasks, err)
			}
			done := kv.Tx{ID: "done", Partition: "p", Held: []kv.Held{held}, Cancel: []string{held.TaskID}}
			if err := s.Commit(t.Context(), done); err != nil {
				t.Errorf("an earlier lease: %v, want it to be valid: its holder is still at work", err)
			}
		})
	}
}

// A failed write to the file keeps all commits, because the log has them.
func TestRecovery_FailedCheckpoint(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*bbolt.Tx) error
		away error
	}{
		"no data reached the disk":                              {notWritten, nil},
		"all data reached it, and its fsync fails":              {writtenNotSynced, nil},
		"the disk has lost the meta page":                       {onlyInTheCache, nil},
		"no data reached it, and the disk is away":              {notWritten, syscall.EIO},
		"all data reached it, and the disk is away":             {writtenNotSynced, syscall.EIO},
		"the disk has lost the meta page, and the disk is away": {onlyInTheCache, syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDisk{}
			s, path := onDisk(t, d)
			troubles := make(chan error, 9)
			s.NotifyHealth(func(failing error) { troubles <- failing })
			d.commitOnce(c.fail)
			if c.away != nil {
				d.set(nil, c.fail, c.away)
			}
			if err := s.Commit(t.Context(), bigTx("big")); err != nil {
				t.Fatal(err)
			}
			if err := wait.For(troubles); err == nil {
				t.Error("the failure was not reported")
			}
			if c.away != nil {
				for _, name := range []string{"before", "big"} {
					if err := get(t, s, name); err != nil {
						t.Errorf("while the disk is away, %s: %v", name, err)
					}
				}
				err := s.Commit(t.Context(), putTx("later", "later"))
				if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) {
					t.Errorf("a commit while the disk is away: %v, want ErrUnavailable", err)
				}
				d.set(nil, nil, nil)
			}
			recovers(t, s)
			if err := s.Commit(t.Context(), putTx("later", "later")); err != nil {
				t.Errorf("a later commit: %v", err)
			}
			for when, s := range map[string]*Store{"after a crash": openAt(t, crashedCopy(t, path)),
				"after a restart": reopened(t, s)} {
				for _, name := range []string{"before", "big", "big/62", "later"} {
					if err := get(t, s, name); err != nil {
						t.Errorf("%s, %s: %v", when, name, err)
					}
				}
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
	replace := func(t *testing.T, path string, b []byte) {
		if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, path string, file, log []byte)
		says   string
	}{
		"a replaced file": {func(t *testing.T, path string, file, _ []byte) {
			replace(t, path, file)
		}, "another one"},
		"an earlier state of the file": {func(t *testing.T, path string, file, _ []byte) {
			overwrite(t, path, file)
		}, "lost commits"},
		"a page that is damaged": {func(t *testing.T, path string, _, _ []byte) {
			overwrite(t, path, make([]byte, 2*os.Getpagesize()))
		}, "damaged"},
		"a replaced log": {func(t *testing.T, path string, _, _ []byte) {
			b, err := os.ReadFile(path + logSuffix)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, path+logSuffix, b)
		}, "another one"},
		"the log of another file": {func(t *testing.T, path string, _, _ []byte) {
			overwrite(t, path+logSuffix, encodeHeader(logID{1}))
		}, "another one"},
		"an earlier state of the log": {func(t *testing.T, path string, _, log []byte) {
			overwrite(t, path+logSuffix, append(log, make([]byte, logBlock+2*logHalf-len(log))...))
		}, "lost commits"},
		"a log without a record in the middle": {func(t *testing.T, path string, _, _ []byte) {
			b, err := os.ReadFile(path + logSuffix)
			if err != nil {
				t.Fatal(err)
			}
			clear(b[logBlock+logHalf:][:10]) // the checkpoint has turned to this half
			overwrite(t, path+logSuffix, b)
		}, "is unreadable"},
		"a missing log": {func(t *testing.T, path string, _, _ []byte) {
			if err := os.Remove(path + logSuffix); err != nil {
				t.Fatal(err)
			}
		}, "the log is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDisk{}
			s, path := onDisk(t, d)
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), bigTx("big")); err != nil {
				t.Fatal(err)
			}
			checkpointed(t, s)
			log, err := os.ReadFile(path + logSuffix)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"one", "two", "three"} {
				if err := s.Commit(t.Context(), putTx(name, name)); err != nil {
					t.Fatal(err)
				}
			}
			d.set(notAppended, nil, syscall.EIO)
			if err := s.Commit(t.Context(), putTx("failed", "failed")); err == nil {
				t.Fatal(err)
			}
			c.change(t, path, file, log)
			d.set(nil, nil, nil)
			wait.Until(t, "the store stops permanently, or works again", func() bool {
				select {
				case <-s.Lost():
					return true
				default:
					return s.Failing() == nil
				}
			})
			err = s.Commit(t.Context(), putTx("later", "later"))
			if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("a commit: %v, want an error with %q", err, c.says)
			}
		})
	}
}

func TestStore_FileNotInPlace(t *testing.T) {
	move := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	replace := func(t *testing.T, path string) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".new", b, 0o600); err != nil {
			t.Fatal(err)
		}
		move(t, path+".new", path)
	}
	if !t.Run("replaced", func(t *testing.T) {
		s, path := onDisk(t, &fakeDisk{})
		replace(t, path)
		err := s.Commit(t.Context(), putTx("one", "one"))
		if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "another one") {
			t.Errorf("a commit: %v", err)
		}
	}) {
		return
	}
	t.Run("replaced, and idle", func(t *testing.T) {
		s, path := onDisk(t, &fakeDisk{})
		replace(t, path)
		wait.For(s.Lost())
	})
	t.Run("removed, and moved back", func(t *testing.T) {
		s, path := onDisk(t, &fakeDisk{})
		move(t, path, path+".old")
		err := s.Commit(t.Context(), putTx("one", "one"))
		if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "was removed") {
			t.Errorf("a commit: %v", err)
		}
		move(t, path+".old", path)
		recovers(t, s)
		if err := s.Commit(t.Context(), putTx("two", "two")); err != nil {
			t.Error(err)
		}
	})
	t.Run("removed, and closed", func(t *testing.T) {
		s, path := onDisk(t, &fakeDisk{})
		move(t, path, path+".old")
		_ = s.Close() // it may or may not have noticed before
		move(t, path+".old", path)
		if err := get(t, openAt(t, path), "before"); err != nil {
			t.Errorf("an acknowledged commit: %v", err)
		}
	})
}

// The first write of a start needs room. The error has the fix, and the next start finds all commits.
func TestOpen_FullDisk(t *testing.T) {
	s, path := onDisk(t, &fakeDisk{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Config{Disk: Disk{Commit: notWritten}})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free at least 32 MiB on its disk") {
		t.Errorf("a start on a full disk: %v", err)
	}
	s = openAt(t, path)
	if err := get(t, s, "before"); err != nil {
		t.Errorf("after the disk has room: %v", err)
	}
	if err := unavailable(path, syscall.ENOSPC); !strings.Contains(err.Error(), "free at least 32 MiB") {
		t.Errorf("a write to a full disk: %v", err)
	}
}

// bbolt keeps its locks if it finds no valid meta page at the beginning of a transaction.
func TestStore_DamagedMetaPages(t *testing.T) {
	for found, find := range map[string]func(s *Store) error{
		"by a read": func(s *Store) error { return get(t, s, "before") },
		"by a snapshot": func(s *Store) error {
			return s.snapshot(t.Context(), func(context.Context, state) error { return nil })
		},
		"by a checkpoint": func(s *Store) error { return s.writeCheckpoint(&layer{}, s.log.last, false) },
	} {
		t.Run(found, func(t *testing.T) {
			s, path := onDisk(t, &fakeDisk{})
			endRead := beginRead(t, s)
			if found == "by a snapshot" { // it waits for earlier reads
				endRead()
			}
			overwrite(t, path, make([]byte, 2*os.Getpagesize()))
			if err := find(s); !errors.Is(err, errDamaged) {
				t.Errorf("the first transaction: %v", err)
			}
			reads := make(chan error)
			for range 3 {
				go func() { reads <- get(t, s, "before") }()
			}
			for range 3 {
				err := wait.For(reads)
				if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, errDamaged) {
					t.Errorf("a later read: %v", err)
				}
			}
			wait.For(s.Lost())
			if found != "by a snapshot" {
				endRead()
			}
			if err := s.Commit(t.Context(), putTx("later", "later")); !errors.Is(err, errDamaged) {
				t.Errorf("a later commit: %v", err)
			}
			if err := s.Close(); !errors.Is(err, errDamaged) {
				t.Errorf("closing: %v", err)
			}
		})
	}
}

// The same for a file that no Store has open, as for a restore, an import and a compaction.
func TestView_DamagedMetaPages(t *testing.T) {
	s, path := onDisk(t, &fakeDisk{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := readOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, make([]byte, 2*os.Getpagesize()))
	ended := make(chan error)
	go func() {
		err := view(db, func(state, time.Time) error { return nil })
		closeAfter(db, &err)
		ended <- err
	}()
	if err := wait.For(ended); !errors.Is(err, errDamaged) {
		t.Errorf("a file without a valid meta page: %v", err)
	}
}

// beginRead begins a read of the store, and returns a function that lets it end.
func beginRead(t *testing.T, s *Store) (end func()) {
	t.Helper()
	begun, over, ended := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		ended <- s.read(nil, func(state) error {
			close(begun)
			wait.For(over)
			return nil
		})
	}()
	wait.For(begun)
	return func() {
		close(over)
		if err := wait.For(ended); err != nil {
			t.Errorf("a read that began before: %v", err)
		}
	}
}

// checkpointed waits until the file has the changes of a checkpoint.
func checkpointed(t *testing.T, s *Store) {
	t.Helper()
	wait.Until(t, "the checkpoint ends", func() bool {
		s.opened.RLock()
		defer s.opened.RUnlock()
		return s.frozen == nil && s.active.empty()
	})
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
	d.set(notAppended, nil, syscall.EIO)
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
	d.set(nil, nil, nil)
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

// A reader sees a write once it is on disk, not as soon as it is in the log.
func TestGet_WaitsForSync(t *testing.T) {
	d := &fakeDisk{}
	s, _ := onDisk(t, d)
	written, release := make(chan struct{}), make(chan struct{})
	d.once(func(f *os.File, b []byte, at int64) error {
		err := writeAndSync(f, b, at)
		close(written)
		wait.For(release)
		return err
	})
	committed := make(chan error, 1)
	go func() { committed <- s.Commit(t.Context(), putTx("new", "new")) }()
	wait.For(written)
	if err := get(t, s, "new"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("a reader got %v before the write was synced", err)
	}
	close(release)
	if err := errors.Join(wait.For(committed), get(t, s, "new")); err != nil {
		t.Error(err)
	}
}
