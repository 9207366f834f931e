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
// # Disk failures
//
// A write fails if the disk is full, is read-only or reports an error. The Store then stops writing and
// recovers automatically. At least every two seconds it tests the disk for writes. If the test succeeds,
// the Store opens the file again, checks that it contains every acknowledged commit, determines the outcome
// of the failed write, and continues. Leases stay valid. Until it continues:
//
//   - The callers of the failed write get ErrUnknown, or the result if the first attempt to recover
//     succeeded. Later commits get ErrUnavailable.
//   - Reads return only data that is known to be on disk. The failed write may have left pages in the
//     operating system's cache. They are not visible until they are written and synced again: a power cut
//     could still remove them, and a response based on them would be wrong.
//   - No task can be claimed, because the result of its work could not be recorded.
//
// A Store stops permanently if its file was replaced, is damaged, lacks an acknowledged commit, or is
// locked by another process: see [Store.Lost]. The process should then end with an error.
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

	// opened is read-locked while a transaction reads, and locked while the file is opened again. db is nil
	// if that failed.
	opened sync.RWMutex
	db     *bbolt.DB

	// committed is the latest transaction that is certainly on disk. bbolt shows a later one to readers as
	// soon as its meta page is written, before that page is synced. When a write ends, the writer closes
	// written and replaces it with a new channel.
	committed atomic.Uint64
	written   atomic.Pointer[chan struct{}]

	queue     queue
	trouble   atomic.Pointer[trouble] // nil: writes succeed
	notifying sync.Mutex              // guards notify, and trouble while it changes
	notify    func(failing error)     // set by NotifyHealth; may be nil
	lost      chan struct{}
	wedged    atomic.Bool // closing the file would block

	pause     time.Duration // before the next attempt to recover; only the writer uses it
	recovered time.Time     // when the last attempt succeeded

	lease struct {
		opens uint64 // distinguishes the leases of this process from earlier ones
		count atomic.Uint64
	}
	tasksMu sync.Mutex // guards the map, not the partitions in it
	tasks   map[kv.Partition]*tasks

	statsMu sync.Mutex
	stats   storeStats

	closing chan struct{}
	workers sync.WaitGroup
	close   sync.Once
}

var (
	_ kv.KV       = (*Store)(nil)
	_ kv.Measurer = (*Store)(nil)
)

// storeStats are counters since Open.
type storeStats struct {
	Transactions uint64 // writes to the disk
	Commits      uint64 // commits in these writes
	Conflicts    uint64 // commits rejected by a check or a lease
	Largest      int    // most commits carried by one write
	Swept        uint64 // expired items removed
}

// Mean returns the mean number of commits per write.
func (s storeStats) Mean() float64 {
	if s.Transactions == 0 {
		return 0
	}
	return float64(s.Commits) / float64(s.Transactions)
}

// storeStats returns the current counters.
func (s *Store) Stats() storeStats {
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

// view runs f in a read transaction of the data on disk.
func (s *Store) view(ctx context.Context, f func(*bbolt.Tx) error) error {
	for {
		if ctx.Err() != nil {
			return unavailable(s.path, context.Cause(ctx))
		}
		written := *s.written.Load() // loaded before the transaction begins, to notice its end
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

// read runs f in a read transaction, unless the transaction shows data that may not be on disk. A damaged
// page can make a reader panic, or fault in the mapped file. read turns both into an error, so that one bad
// page does not end a process that can still serve all others.
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

// Close finishes the commits in progress, rejects later ones and releases the file.
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
