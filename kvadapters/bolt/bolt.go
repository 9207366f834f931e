// Package bolt keeps a kv.KV in one file on a local disk. It is the store of a service that runs as one
// process.
//
// It promises that a commit which returned is on disk: it survives kill -9 and, on a disk that honours
// fsync, a power cut. Commits that are made at the same time share a disk write, so more callers mean
// more commits per second instead of longer waits. Only one process at a time can open the file.
//
// Leases are kept in memory. A restart frees every leased task at once, and the holder of a lease finds
// it lost.
//
// # A disk that fails
//
// A write can fail because the disk is full, is read-only or reports an error. After that the Store
// writes nothing more and recovers by itself. At least every two seconds it tries whether the disk
// takes writes again. If it does, the Store opens the file anew, makes sure that every commit it
// acknowledged is there, finds out what became of the failed write, and goes on. Leases stay valid
// meanwhile. Until it goes on,
//
//   - the callers of the failed write get ErrUnknown, or the result if the first attempt to recover
//     succeeded; later commits get ErrUnavailable;
//   - reads are answered only from what is known to be on disk. The failed write may have left pages in
//     the operating system's cache. Nobody sees them before they are written and synced again: a power
//     cut could still take them back, but not an answer that was given from them;
//   - no task can be claimed, because the result of its work could not be recorded.
//
// A Store gives up if it finds another file in the place of its own, a damaged file, a file that lacks
// an acknowledged commit, or a file that another process holds: see Lost. The process should then end
// with an error.
package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/verge-id/verge/core/kv"
)

// Config of a Store. The zero value works.
type Config struct {
	// Now is the clock by which items expire. Nil: time.Now.
	Now func() time.Time

	// LockTimeout is how long Open waits for another process to release the file. Zero: one second.
	LockTimeout time.Duration

	// SweepEvery is how often the Store looks for expired items. They are invisible as soon as they
	// expire. Zero: one second.
	SweepEvery time.Duration

	// Disk is for tests of a disk that fails.
	Disk Disk
}

// Store implements kv.KV.
type Store struct {
	path        string
	now         func() time.Time
	lockTimeout time.Duration
	disk        Disk
	identity    os.FileInfo // of the file that was opened

	// opened is held for reading while a transaction reads, and for writing while the file is opened
	// anew. db is nil if that failed.
	opened sync.RWMutex
	db     *bbolt.DB

	// committed is the latest transaction that is certainly on disk. bbolt shows a later one to readers
	// as soon as its meta page is written, before that page is synced. When a write ends, the writer
	// closes written and puts a new channel in its place.
	committed atomic.Uint64
	written   atomic.Pointer[chan struct{}]

	queue     queue
	trouble   atomic.Pointer[trouble] // nil: writes go well
	notifying sync.Mutex              // guards notify, and trouble while it changes
	notify    func(failing error)     // set by NotifyHealth; may be nil
	lost      chan struct{}
	wedged    atomic.Bool // closing the file would block

	pause     time.Duration // before the next attempt to recover; only the writer uses it
	recovered time.Time     // when the last attempt succeeded

	lease struct {
		opens uint64 // tells the leases of this process from those of earlier ones
		count atomic.Uint64
	}
	tasksMu sync.Mutex // guards the map, not the partitions in it
	tasks   map[kv.Partition]*tasks

	statsMu sync.Mutex
	stats   Stats

	closing chan struct{}
	workers sync.WaitGroup
	close   sync.Once
}

var _ kv.KV = (*Store)(nil)

// Stats counts since Open.
type Stats struct {
	Transactions uint64 // writes to the disk
	Commits      uint64 // commits that they carried
	Conflicts    uint64 // commits refused by a check or a lease
	Largest      int    // most commits carried by one write
	Swept        uint64 // expired items removed
}

// Mean is how many commits shared a write to the disk.
func (s Stats) Mean() float64 {
	if s.Transactions == 0 {
		return 0
	}
	return float64(s.Commits) / float64(s.Transactions)
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	return s.stats
}

// Get implements kv.KV.
func (s *Store) Get(ctx context.Context, key kv.Key) (item kv.Item, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		rec, ok := getItem(tx, itemKey(key.Partition, key.Name), s.now())
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
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		now := s.now()
		names := itemKey(prefix.Partition, "")
		begin, behind := itemKey(prefix.Partition, prefix.Name), itemKey(prefix.Partition, after)
		c := tx.Bucket(bucketItems).Cursor()
		from := begin
		if bytes.Compare(behind, begin) > 0 {
			from = behind
		}
		for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, begin) && len(items) < n; k, v = c.Next() {
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

// view runs f in a read transaction of what is on disk.
func (s *Store) view(ctx context.Context, f func(*bbolt.Tx) error) error {
	for {
		if ctx.Err() != nil {
			return unavailable(s.path, context.Cause(ctx))
		}
		written := *s.written.Load() // loaded before the transaction begins, so that its end is not missed
		err := s.read(f)
		switch {
		case err == nil, errors.Is(err, kv.ErrNotFound):
			return err
		case !errors.Is(err, errUnsynced):
			return unavailable(s.path, err)
		case s.trouble.Load() != nil:
			return unavailable(s.path, errors.Join(err, s.stopped()))
		}
		select {
		case <-written:
		case <-ctx.Done():
		}
	}
}

var (
	errUnsynced  = errors.New("what the file shows is not known to be on disk")
	errNotOpened = errors.New("the file could not be opened again")
)

// read runs f in a read transaction, unless the transaction shows what may not be on disk. A damaged
// page can make a reader panic, or fault in the mapped file. read turns both into an error, so that one
// bad page does not end a process that can still serve all others.
func (s *Store) read(f func(*bbolt.Tx) error) (err error) {
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
	return s.db.View(func(tx *bbolt.Tx) error {
		if uint64(tx.ID()) > s.committed.Load() {
			return errUnsynced
		}
		return f(tx)
	})
}

// Close finishes the commits that are under way, refuses all later ones and releases the file.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		s.queue.close()
		close(s.closing)
		s.workers.Wait()
		switch {
		case s.wedged.Load():
			err = s.stopped()
		case s.db != nil:
			err = s.db.Close()
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
	return fmt.Errorf("bolt: %s: %w: %w", path, kv.ErrUnavailable, cause)
}

func unknown(path string, cause error) error {
	return fmt.Errorf("bolt: %s: %w: %w", path, kv.ErrUnknown, cause)
}

var errDamaged = errors.New("the file is damaged")

func damaged(r any) error {
	return fmt.Errorf("%w (%v); restore it from a copy", errDamaged, r)
}
