package bolt

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
)

// Disk is what a Store does to its file. Tests of a disk that fails replace a
// member; each that is nil is the real thing.
type Disk struct {
	// Open opens the file, at first and again after a failed write.
	Open func(name string, flag int, perm os.FileMode) (*os.File, error)

	// Commit puts a transaction on disk.
	Commit func(*bbolt.Tx) error
}

// Pauses between two attempts to recover. A failure soon after a recovery
// keeps the longer pause: a disk that fails again and again is not worn out
// by attempts.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	calm       = time.Minute
)

// room is what the disk must take before the Store writes again. Less would
// let small commits through and refuse large ones, in turns.
const room = 1 << 20

// growth is by how much bbolt makes a file longer at a time.
const growth = 16 << 20

// trouble is why nothing is written.
type trouble struct {
	cause error
	final bool
}

func (t *trouble) err() error {
	if t.final {
		return fmt.Errorf("given up, restart the service once its cause is mended: %w", t.cause)
	}
	return fmt.Errorf("nothing is written until the disk takes it again, which is tried every %v or sooner: %w", mostPause, t.cause)
}

// errFinal marks what only another process, or a person, can mend.
var errFinal = errors.New("the store cannot go on")

// Failing is why nothing can be written now; nil if nothing is known to be in
// the way.
func (s *Store) Failing() error {
	if t := s.trouble.Load(); t != nil {
		return s.failing(t)
	}
	return nil
}

func (s *Store) failing(t *trouble) error { return fmt.Errorf("%s: %w", s.path, t.err()) }

// GaveUp is closed once the Store can never write again: the file is another
// one, is damaged, has lost commits that were acknowledged, or is held by
// another process. Failing says which. The process should end.
func (s *Store) GaveUp() <-chan struct{} { return s.gaveUp }

// Tell has the Store call told when writes begin to fail, with the reason, and
// with nil when they go well again. If they fail already, it is called at once.
// told must return soon and call no method of the Store. There is one told: the
// last.
func (s *Store) Tell(told func(failing error)) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.told = told
	if failing := s.Failing(); failing != nil {
		told(failing)
	}
}

// stop is called by the writer alone. Whoever is refused for a trouble can rely
// on it having been told before.
func (s *Store) stop(t *trouble) {
	s.telling.Lock()
	tell := s.told
	if (s.trouble.Load() == nil) == (t == nil) || tell == nil {
		tell = func(error) {}
	}
	if t != nil {
		tell(s.failing(t))
	}
	s.trouble.Store(t)
	if t == nil {
		tell(nil)
	}
	s.telling.Unlock()
	if t != nil && t.final {
		close(s.gaveUp)
	}
}

// recovery is what becomes of a write that failed. Only the writer has one.
type recovery struct {
	*Store
	landed  bool // the write is on disk after all
	settled bool // it is known whether it landed: it is not written later
}

// begin stops the writing and tries at once to go on, unless the disk failed a
// moment ago as well.
func (r *recovery) begin(cause error) {
	r.stop(&trouble{cause: cause, final: r.wedged.Load()})
	if time.Since(r.recovered) > calm {
		r.pause = firstPause
		r.attempt()
	}
}

// finish tries until the Store writes again, is closed or gives up. Whoever
// wants to write meanwhile is refused.
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

// reopen makes sure that the disk takes writes, that what was acknowledged is
// there, and what became of the write that failed; then it writes. Until the
// disk takes writes, the file stays open as it is, for those who read.
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
		// What the file has of this write, the next attempt finds out: nobody
		// was promised it.
		return err
	}
	r.committed.Store(txid)
	return nil
}

// openAnew leaves nothing of what bbolt remembers of the write that failed.
// Readers wait for it, so it waits for no write.
func (r *recovery) openAnew() error {
	r.opened.Lock()
	defer r.opened.Unlock()
	if r.db != nil {
		_ = r.db.Close() // what can be wrong with it shows when it is opened
		r.db = nil
	}
	db, err := openDB(r.path, r.lockTimeout, func(name string, flag int, perm os.FileMode) (*os.File, error) {
		return r.disk.Open(name, flag&^os.O_CREATE, perm) // a new file would have forgotten everything
	})
	if errors.Is(err, errLocked) {
		return fmt.Errorf("%w: %w", errFinal, err)
	}
	if err == nil {
		r.db = db
	}
	return err
}

// probe reports whether the disk takes a write that makes the file larger, and
// walks the file's pages. Both are done beside those who read.
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

// grow writes behind the end of the file as far as bbolt would make it longer,
// and cuts that off again. bbolt reads nothing there, and nobody else writes.
func grow(f *os.File, size int64) error {
	if runtime.GOOS == "windows" {
		return f.Sync() // a file that is mapped cannot be cut there
	}
	_, err := f.WriteAt(make([]byte, room), size+growth-room)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Truncate(size))
}

// settle makes certain what the disk holds of the write that failed. After a
// failed fsync the operating system's cache may show what the disk has not got,
// and no later fsync puts it there. A write's pages were synced before its meta
// page was written, so only that one is in doubt: if it can be read, it is
// written once more and synced. If that is cut off, the other meta page holds,
// with all that was acknowledged.
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
		return fmt.Errorf("%w: the file is at transaction %d, but %d was written and acknowledged: it has lost commits or was replaced; "+
			"look at the disk, and if commits are lost rotate the key ring and retire the old key by force", errFinal, latest.txid, known)
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
