package bolt

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
)

// Disk has the file operations of a Store. Tests of a failing disk replace a field. A nil field is the real
// operation.
type Disk struct {
	// Open opens the file, when the Store opens and after a failed write.
	Open func(name string, flag int, perm os.FileMode) (*os.File, error)

	// Commit writes a transaction to disk.
	Commit func(*bbolt.Tx) error

	// Append writes to the log at an offset, and syncs it.
	Append func(f *os.File, b []byte, at int64) error
}

func writeAndSync(f *os.File, b []byte, at int64) error {
	if _, err := f.WriteAt(b, at); err != nil {
		return err
	}
	return syncData(f)
}

// Pauses between two attempts to recover. A failure soon after a recovery keeps the longer pause, so that
// the attempts do not wear out a disk that fails repeatedly.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	calm       = time.Minute
)

// room is the number of bytes that the disk must accept before the Store writes again. With less room,
// small commits would pass and large ones would fail.
const room = 1 << 20

// growth is the number of bytes by which bbolt extends a file at a time.
const growth = 16 << 20

// trouble is the reason why the Store does not write.
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

// errFinal marks a failure from which the Store cannot recover automatically.
var errFinal = errors.New("the store cannot recover")

// Failing returns the reason why writes fail now, or nil if it is unknown or they succeed.
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

// stopIfBlocked stops the Store permanently if its transactions would block. Only the writer calls it.
func (s *Store) stopIfBlocked() {
	t := s.blocked.Load()
	if before := s.trouble.Load(); t != nil && (before == nil || !before.final) {
		s.stop(t)
	}
}

// recovery makes the Store write again after a failed write of a record or a checkpoint. Only the writer uses
// it.
type recovery struct {
	*Store
	record  []byte // the record that may be on disk or not; nil: none
	changes *layer // of the record
	landed  bool   // the record is on disk
}

// begin stops writing and tries to recover immediately, unless the disk also failed a moment ago. A
// checkpoint in progress ends first, because it uses the open file.
func (r *recovery) begin(cause error) {
	cause = errors.Join(cause, r.endCheckpoint())
	r.stop(&trouble{cause: cause, final: r.wedged.Load()})
	if time.Since(r.recovered) > calm {
		r.pause = firstPause
		r.attempt()
	}
}

// finish tries to recover until the Store writes again, is closed or stops permanently. In the meantime it
// rejects commits.
func (r *recovery) finish() {
	for {
		t := r.trouble.Load()
		if t == nil || t.final {
			return
		}
		over := time.NewTimer(r.pause)
		for waiting := true; waiting; {
			r.rejectQueued()
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

// reopen checks that the disk accepts writes and that the acknowledged commits exist. It writes the record
// that is in doubt again, and then a checkpoint. Until the disk accepts writes, the file stays open for
// readers.
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
	if err := r.reopenLog(); err != nil {
		return err
	}
	if r.record != nil && !r.landed {
		if err := r.log.write(r.record); err != nil {
			return err
		}
		r.show(r.changes)
		r.landed = true
		r.doubt.Store(false)
	}
	if r.frozen == nil {
		return r.writeCheckpoint(&layer{}, r.checkpoint.written, false)
	}
	if err := r.writeCheckpoint(r.frozen, r.checkpoint.frozen, false); err != nil {
		return err
	}
	r.thaw()
	return nil
}

// reopenLog opens the log again, and checks that it has all acknowledged records that the file lacks.
func (r *recovery) reopenLog() error {
	var at logState
	if err := r.read(nil, func(st state) (err error) {
		at, err = readLogState(st.tx)
		return err
	}); err != nil {
		return err
	}
	if err := r.log.check(at.written); err != nil {
		return err
	}
	return r.log.open()
}

// openAnew discards bbolt's state of the failed write. It blocks readers, so it does not wait for a write.
func (r *recovery) openAnew() error {
	r.opened.Lock()
	defer r.opened.Unlock()
	if t := r.blocked.Load(); t != nil {
		return t.cause
	}
	r.endSnapshots()
	if r.db != nil {
		_ = r.db.Close() // opening the file reports any fault
		r.db = nil
	}
	db, err := openDB(r.path, r.lockTimeout, func(name string, flag int, perm os.FileMode) (*os.File, error) {
		return r.disk.Open(name, flag&^os.O_CREATE, perm) // a new file would be empty
	})
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("%w: %w", errFinal, err)
	}
	if err == nil {
		r.db = db
	}
	return err
}

var (
	errRemoved = errors.New("the opened file was removed; move it back, or stop the service and restore " +
		"a backup")
	errNotInPlace = fmt.Errorf("%w: the opened file was replaced by another one; stop the service before "+
		"you replace its file", errFinal)
)

// inPlace returns an error if the path no longer names the opened file. Commits would be lost when it is
// closed, and another process could open the path.
func (s *Store) inPlace() error {
	info, err := os.Stat(s.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errRemoved
	case err == nil && !os.SameFile(info, s.identity):
		return errNotInPlace
	}
	return nil // any other error does not affect the opened file
}

// probe checks that the disk accepts a write that extends the file, and walks the file's pages. Readers
// continue.
func (r *recovery) probe() error {
	if err := r.inPlace(); err != nil {
		return err
	}
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
		return errNotInPlace
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

// grow writes beyond the end of the file as far as bbolt would extend it, and truncates it again. bbolt
// does not read there, and no other process writes.
func grow(f *os.File, size int64) error {
	if runtime.GOOS == "windows" {
		return f.Sync() // Windows cannot truncate a mapped file
	}
	_, err := f.WriteAt(make([]byte, room), size+growth-room)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Truncate(size))
}

// settle determines which transaction the file is at. After a failed fsync, the operating system's cache may
// show data that is not on disk, and no later fsync writes it. A write syncs its pages before it writes its
// meta page, so only that page is in doubt. If it is readable, settle writes it again and syncs it. If that
// write is interrupted, the other meta page is valid, and the log has the commits that it lacks.
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
	known := r.checkpoint.txid
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
		r.checkpoint.txid = latest.txid
	}
	return nil
}
