package bolt

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
)

// Disk is what a Store does to its file. A test of a failing disk replaces a member. A nil member is
// the real operation.
type Disk struct {
	// Open opens the file, when the Store opens and again after a failed write.
	Open func(name string, flag int, perm os.FileMode) (*os.File, error)

	// Commit puts a transaction on disk.
	Commit func(*bbolt.Tx) error
}

// Pauses between two attempts to recover. A failure soon after a recovery keeps the longer pause, so
// that the attempts do not wear out a disk that fails again and again.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	calm       = time.Minute
)

// room is how much the disk must take before the Store writes again. With less room, small commits
// would pass and large ones would fail.
const room = 1 << 20

// growth is by how much bbolt makes a file longer at a time.
const growth = 16 << 20

// trouble is the reason why the Store writes nothing.
type trouble struct {
	cause error
	final bool
}

func (t *trouble) err() error {
	if t.final {
		return fmt.Errorf("given up; remove the cause and restart the service: %w", t.cause)
	}
	return fmt.Errorf("nothing is written until the disk takes writes again; the next try is "+
		"in at most %v: %w",
		mostPause, t.cause)
}

// errFinal marks a failure from which the Store cannot recover alone.
var errFinal = errors.New("the store cannot go on")

// Failing returns why nothing can be written now. It returns nil if no cause is known.
func (s *Store) Failing() error {
	if t := s.trouble.Load(); t != nil {
		return s.failing(t)
	}
	return nil
}

func (s *Store) failing(t *trouble) error { return fmt.Errorf("%s: %w", s.path, t.err()) }

// Lost returns a channel that is closed when the Store can never write again: the file was replaced, is
// damaged, has lost acknowledged commits, or is held by another process. Failing returns the reason. The
// process should end.
func (s *Store) Lost() <-chan struct{} { return s.lost }

// NotifyHealth makes the Store call notify with the reason when writes begin to fail, and with nil when they
// work again. If they fail now, notify is called immediately. It must not block or call a method of the
// Store. A later call replaces notify.
func (s *Store) NotifyHealth(notify func(failing error)) {
	s.notifying.Lock()
	defer s.notifying.Unlock()
	s.notify = notify
	if failing := s.Failing(); failing != nil {
		notify(failing)
	}
}

// stop is called by the writer alone. The failure is reported before any caller is rejected because of it.
func (s *Store) stop(t *trouble) {
	s.notifying.Lock()
	notify := s.notify
	if (s.trouble.Load() == nil) == (t == nil) || notify == nil {
		notify = func(error) {}
	}
	if t != nil {
		notify(s.failing(t))
	}
	s.trouble.Store(t)
	if t == nil {
		notify(nil)
	}
	s.notifying.Unlock()
	if t != nil && t.final {
		close(s.lost)
	}
}

// recovery finds out what became of a failed write. Only the writer has one.
type recovery struct {
	*Store
	landed  bool // the write is on disk after all
	settled bool // landed is known and does not change any more
}

// begin stops writing and tries at once to recover, unless the disk also failed a moment ago.
func (r *recovery) begin(cause error) {
	r.stop(&trouble{cause: cause, final: r.wedged.Load()})
	if time.Since(r.recovered) > calm {
		r.pause = firstPause
		r.attempt()
	}
}

// finish tries to recover until the Store writes again, is closed or gives up. Meanwhile it refuses
// commits.
func (r *recovery) finish() {
	for {
		t := r.trouble.Load()
		if t == nil || t.final {
			return
		}
		over := time.NewTimer(r.pause)
		for waiting := true; waiting; {
			r.refuseQueued()
			select {
			case <-over.C:
				waiting = false
			case <-r.queue.wake:
			case <-r.closing:
				over.Stop()
				return
			}
		}
		r.pause = min(2*r.pause, mostPause)
		r.attempt()
	}
}

func (r *recovery) attempt() {
	if t := r.trouble.Load(); t.final {
		return
	}
	err := recovered(r.reopen)
	switch {
	case err == nil:
		r.recovered = time.Now()
		r.stop(nil)
	case errors.Is(err, errFinal), errors.Is(err, errDamaged):
		r.stop(&trouble{cause: err, final: true})
	}
}

// reopen makes sure that the disk takes writes and that the acknowledged commits are there. It finds
// out what became of the failed write, and then writes once. Until the disk takes writes, the file
// stays open as it is for readers.
func (r *recovery) reopen() error {
	if err := r.probe(); err != nil {
		return err
	}
	if err := r.openAnew(); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	_, txid, err := count(r.db, r.disk.Commit)
	if err != nil {
		// The next attempt finds out what the file has of this write. Nobody was promised it.
		return err
	}
	r.committed.Store(txid)
	return nil
}

// openAnew drops everything that bbolt remembers of the failed write. It holds readers up, so it does
// not wait for a write.
func (r *recovery) openAnew() error {
	r.opened.Lock()
	defer r.opened.Unlock()
	if r.db != nil {
		_ = r.db.Close() // opening the file shows whatever is wrong with it
		r.db = nil
	}
	db, err := openDB(r.path, r.lockTimeout, func(name string, flag int, perm os.FileMode) (*os.File, error) {
		return r.disk.Open(name, flag&^os.O_CREATE, perm) // a new file would have forgotten everything
	})
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("%w: %w", errFinal, err)
	}
	if err == nil {
		r.db = db
	}
	return err
}

// probe checks that the disk takes a write that makes the file larger, and walks the file's pages.
// Readers go on meanwhile.
func (r *recovery) probe() error {
	f, err := r.disk.Open(r.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, r.identity) {
		return fmt.Errorf("%w: there is another file in the place of the one that was opened", errFinal)
	}
	if err := grow(f, info.Size()); err != nil {
		return err
	}
	m, ok := latestMeta(f)
	if !ok {
		return damaged("no valid meta page")
	}
	return check(f, m)
}

// grow writes behind the end of the file as far as bbolt would extend it, and cuts that off again.
// bbolt reads nothing there, and nobody else writes.
func grow(f *os.File, size int64) error {
	if runtime.GOOS == "windows" {
		return f.Sync() // Windows cannot cut a mapped file
	}
	_, err := f.WriteAt(make([]byte, room), size+growth-room)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Truncate(size))
}

// settle makes certain what the disk holds of the failed write. After a failed fsync the operating
// system's cache may show what the disk does not have, and no later fsync writes it. A write syncs its
// pages before it writes its meta page, so only that page is in doubt. If it can be read, settle writes
// it once more and syncs it. If that write is cut off, the other meta page is valid and has all that
// was acknowledged.
func (r *recovery) settle() error {
	f, err := r.disk.Open(r.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	latest, ok := latestMeta(f)
	if !ok {
		return damaged("no valid meta page")
	}
	known := r.committed.Load()
	if latest.txid < known || latest.txid > known+1 {
		return fmt.Errorf("%w: the file is at transaction %d, but %d was written and acknowledged: "+
			"it has lost commits or was replaced; look at the disk, "+
			"and if commits are lost rotate the key ring and retire the old key by force",
			errFinal, latest.txid, known)
	}
	if latest.txid > known {
		page := make([]byte, metaAt+metaSize)
		if _, err := f.ReadAt(page, latest.at); err != nil {
			return err
		}
		if _, err := f.WriteAt(page, latest.at); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if !r.settled {
		r.settled, r.landed = true, latest.txid > known
	}
	r.committed.Store(latest.txid)
	return nil
}
