// Package bolt implements kv.KV in one file on a local disk. Use [Open] for a service that runs as one
// process.
//
// A commit that has returned is on disk: it survives kill -9 and, on a disk that honours fsync, a power
// cut. Concurrent commits share a disk write, so more callers cause more commits per second instead of
// longer waits. Only one process at a time can open the file.
//
// Leases are kept in memory. A restart frees all leased tasks immediately, and a commit with an earlier
// lease fails.
//
// # Log
//
// Next to the file is a log: "verge.db.wal" for "verge.db". Each write appends one record to the log and
// syncs it. Readers see the file and the commits of the log, which are kept in memory. A checkpoint writes
// these commits to the file in one transaction, while reads and commits continue. It runs when the log has
// 4 MiB of new records. The log has at most 16 MiB: if it is full, commits wait for the checkpoint.
//
// [Store.Close] writes all commits to the file and removes the log. After a crash the file and its log belong
// together, and Open reads both. The record of an interrupted write is dropped. Open returns an error if the
// log is missing, damaged or that of another file. Versions without a log reject a file that needs one, and
// accept a closed file.
//
// # Disk failures
//
// A write fails if the disk is full, is read-only or reports an error. The Store then stops writing and
// recovers automatically. At least every two seconds it tests the disk for writes. If the test succeeds,
// the Store opens the file again, checks that it contains every acknowledged commit, determines the outcome
// of the failed write, and continues. Leases stay valid. Until it continues:
//
//   - The callers of the failed write get ErrUnavailable if the log lacks its record. Otherwise they get
//     ErrUnknown, or the result if the first attempt to recover succeeded. Later commits get ErrUnavailable.
//   - Reads continue, unless the outcome of the failed write is unknown. Its record may be in the operating
//     system's cache only: a power cut could still remove it, and a response based on either state could be
//     wrong. Reads return ErrUnavailable until the record is written and synced again.
//   - A failed checkpoint loses no commit: the log keeps them until a later one succeeds.
//   - No task can be claimed, because the result of its work could not be recorded.
//
// A Store stops permanently if its file or its log was replaced, is damaged or lacks an acknowledged commit,
// if the log is missing, or if another process has locked the file: see [Store.Lost]. The process should then
// end with an error. The Store checks the place of the file before each write and each [Config.SweepEvery]. A
// file that was moved away counts as a failed write until it is back.
package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"github.com/verge-id/verge/core/kv"
)

// Config configures a Store. The zero value works.
type Config struct {
	// Now is the clock for the expiry of items. Nil: time.Now.
	Now func() time.Time

	// LockTimeout is how long Open waits for another process to release the file. Zero: one second.
	LockTimeout time.Duration

	// SweepEvery is the interval at which the Store removes expired items. They are invisible as soon as
	// they expire. Zero: one second.
	SweepEvery time.Duration

	// Disk is for tests of a failing disk.
	Disk Disk
}

// Store implements kv.KV.
type Store struct {
	path        string
	now         func() time.Time
	lockTimeout time.Duration
	disk        Disk
	identity    os.FileInfo // the opened file

	// opened is read-locked while a transaction reads. It is locked while the file is opened again or a layer
	// changes. db is nil if the file could not be opened again.
	opened sync.RWMutex
	db     *bbolt.DB
	active *layer // changes in the half of the log that is written; all are on disk
	frozen *layer // changes in the other half, if a checkpoint has not yet written them to the file; or nil

	snapshots []context.CancelCauseFunc // since the file was opened, including those that have ended

	log        *commitLog
	checkpoint checkpoint
	doubt      atomic.Bool // the log has a record that may not be on disk

	queue     queue
	trouble   atomic.Pointer[trouble] // nil: writes succeed
	notifying sync.Mutex              // guards notify, and trouble while it changes
	notify    func(failing error)     // set by NotifyHealth; may be nil
	lost      chan struct{}
	wedged    atomic.Bool             // closing the file would block
	beginning sync.Mutex              // held while a transaction begins
	blocked   atomic.Pointer[trouble] // each transaction would block; nil: none

	pause     time.Duration // before the next attempt to recover; only the writer uses it
	recovered time.Time     // when the last attempt succeeded

	lease struct {
		opens uint64 // distinguishes the leases of this process from earlier ones
		count atomic.Uint64
	}
	tasksMu sync.Mutex // guards the map, not the partitions in it
	tasks   map[kv.Partition]*tasks

	written struct{ groups, commits, largest atomic.Uint64 }

	closing chan struct{}
	workers sync.WaitGroup
	close   sync.Once
}

var (
	_ kv.KV       = (*Store)(nil)
	_ kv.Measurer = (*Store)(nil)
)

// Written returns the number of writes to the disk since Open, the mean number of commits in one, and the
// largest. Tests and benchmarks use it.
func (s *Store) Written() (groups uint64, mean float64, largest uint64) {
	groups = s.written.groups.Load()
	return groups, float64(s.written.commits.Load()) / float64(max(1, groups)), s.written.largest.Load()
}

// Get implements kv.KV.
func (s *Store) Get(ctx context.Context, key kv.Key) (item kv.Item, err error) {
	err = s.view(ctx, func(st state) error {
		rec, ok := getItem(st, itemKey(key.Partition, key.Name), s.now())
		if !ok {
			return kv.ErrNotFound
		}
		item = rec.export(key)
		return nil
	})
	return item, err
}

// List implements kv.KV.
func (s *Store) List(ctx context.Context, prefix kv.Key, after string, n int) (items []kv.Item, err error) {
	err = s.view(ctx, func(st state) error {
		now := s.now()
		names := itemKey(prefix.Partition, "")
		begin, behind := itemKey(prefix.Partition, prefix.Name), itemKey(prefix.Partition, after)
		from := begin
		if bytes.Compare(behind, begin) > 0 {
			from = behind
		}
		c := st.seek(itemTable, from)
		for k, v := c.next(); k != nil && bytes.HasPrefix(k, begin) && len(items) < n; k, v = c.next() {
			if bytes.Equal(k, behind) {
				continue
			}
			if rec := decodeItem(v); !rec.expired(now) {
				items = append(items,
					rec.export(kv.Key{Partition: prefix.Partition, Name: string(k[len(names):])}))
			}
		}
		return nil
	})
	return items, err
}

// view calls f with the current data. All of it is on disk.
func (s *Store) view(ctx context.Context, f func(state) error) error {
	if ctx.Err() != nil {
		return unavailable(s.path, context.Cause(ctx))
	}
	err := s.readable()
	if err == nil {
		err = s.read(nil, f)
	}
	if err == nil || errors.Is(err, kv.ErrNotFound) {
		return err
	}
	return unavailable(s.path, err)
}

var (
	errUnsynced  = errors.New("what the log shows is not known to be on disk")
	errNotOpened = errors.New("the file could not be opened again")
)

// readable returns an error if the outcome of a write is unknown. A read without its data could be wrong
// later, and one with them, too.
func (s *Store) readable() error {
	if s.doubt.Load() {
		return errors.Join(errUnsynced, s.stopped())
	}
	return nil
}

// read calls f with the current data, and the changes in newer, if it is not nil, above it. A damaged page
// can make a reader panic, or fault in the mapped file. read turns both into an error, so that one bad page
// does not end a process that can still serve all others.
func (s *Store) read(newer *layer, f func(state) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
		}
	}()
	s.opened.RLock()
	defer s.opened.RUnlock()
	if s.db == nil {
		return errors.Join(errNotOpened, s.stopped())
	}
	tx, err := s.begin(false)
	if err != nil {
		return err
	}
	defer s.end(tx)
	st := state{tx: tx, layers: make([]*layer, 0, 3)}
	for _, l := range []*layer{newer, s.active, s.frozen} {
		if l != nil {
			st.layers = append(st.layers, l)
		}
	}
	return f(st)
}

// begin begins a transaction. If both meta pages are damaged, bbolt panics and keeps its locks: each later
// transaction would block, and so would closing the file. begin then makes the writer stop the Store
// permanently. Transactions begin one at a time, so that none waits for these locks.
func (s *Store) begin(writable bool) (tx *bbolt.Tx, err error) {
	s.beginning.Lock()
	defer s.beginning.Unlock()
	if t := s.blocked.Load(); t != nil {
		return nil, t.err()
	}
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
			s.blocked.Store(&trouble{cause: err, final: true})
			s.wedged.Store(true)
			s.queue.signal()
		}
	}()
	return s.db.Begin(writable)
}

// end ends a transaction that reads.
func (s *Store) end(tx *bbolt.Tx) {
	if s.blocked.Load() == nil {
		_ = tx.Rollback() // it fails only if the transaction has ended
	}
}

// errReopening is the reason why a snapshot ends early.
var errReopening = errors.New("the store opens its file again after a failed write; try again")

// snapshot calls f with the current data, which stays the same while the Store changes. bbolt cannot close
// a file that is read, so f must end soon after its context.
func (s *Store) snapshot(ctx context.Context, f func(context.Context, state) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
		}
	}()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var st state
	err = func() (err error) {
		if err := s.readable(); err != nil {
			return err
		}
		s.opened.Lock()
		defer s.opened.Unlock()
		if s.db == nil {
			return errors.Join(errNotOpened, s.stopped())
		}
		if st.tx, err = s.begin(false); err != nil {
			return err
		}
		st.layers = append(st.layers, s.active.snapshot())
		if s.frozen != nil {
			st.layers = append(st.layers, s.frozen) // it does not change
		}
		s.snapshots = append(s.snapshots, end)
		return nil
	}()
	if err != nil {
		return err
	}
	defer s.end(st.tx)
	return f(ctx, st)
}

// endSnapshots ends all snapshots, without waiting for them. The caller holds opened.
func (s *Store) endSnapshots() {
	for _, end := range s.snapshots {
		end(errReopening)
	}
	s.snapshots = nil
}

// Close finishes the commits in progress, rejects later ones, writes the log's changes to the file, removes
// the log and releases the file. If the file cannot be written, Close returns an error and keeps the log: the
// next Open reads it.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		s.queue.close()
		close(s.closing)
		s.workers.Wait()
		if s.wedged.Load() {
			err = errors.Join(s.stopped(), s.log.close())
			return
		}
		clean := s.db != nil && s.trouble.Load() == nil
		if clean {
			err = s.writeCheckpoint(s.active, s.log.last, true)
			if err == nil {
				// A second transaction writes the other meta page: a closed file has no log, and survives the
				// loss of one meta page.
				err = s.writeCheckpoint(&layer{}, s.log.last, true)
			}
			if err != nil {
				clean, err = false, unavailable(s.path, err)
			}
		}
		err = errors.Join(err, s.log.close())
		if clean {
			// Another process cannot open the file before db.Close, so this is not its log.
			err = errors.Join(err, remove(s.log.path), syncDir(filepath.Dir(s.path)))
		}
		if s.db != nil && !s.wedged.Load() {
			err = errors.Join(err, s.db.Close())
		}
	})
	return err
}

func (s *Store) stopped() error {
	if t := s.trouble.Load(); t != nil {
		return unavailable(s.path, t.err())
	}
	return nil
}

func unavailable(path string, cause error) error {
	return fmt.Errorf("bolt: %s: %w: %w", path, kv.ErrUnavailable, withAdvice(cause))
}

// withAdvice adds the fix to the error of a full disk.
func withAdvice(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w; free at least %d MiB on its disk", err, (growth+2*logHalf)>>20)
	}
	return err
}

func unknown(path string, cause error) error {
	return fmt.Errorf("bolt: %s: %w: %w", path, kv.ErrUnknown, cause)
}

var errDamaged = errors.New("the file is damaged")

func damaged(r any) error {
	return fmt.Errorf("%w (%v); restore it from a copy", errDamaged, r)
}
