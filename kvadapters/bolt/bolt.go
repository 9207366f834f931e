// Package bolt keeps a kv.KV in one file on a local disk: the store of a
// service that runs as one process.
//
// It promises that a commit which returned is on disk and survives kill -9
// and, on a disk that honours fsync, a power cut. Commits that are made at
// the same time share a disk write, so more callers mean more commits per
// second and not longer waits. One process at a time can open the file.
//
// Leases are kept in memory: a restart frees every leased task at once, and
// whoever held one finds it lost.
//
// A failed disk write stops the Store for good: every call then returns
// ErrUnavailable until the file is opened anew. What such a write left in the
// operating system's cache can be read but need not be on the disk, so to go
// on would be to grant on the strength of what a power cut takes back.
package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

	// LockTimeout is how long Open waits for another process to let go of
	// the file. Zero: one second.
	LockTimeout time.Duration

	// SweepEvery is how often expired items are looked for. They are
	// invisible long before. Zero: one second.
	SweepEvery time.Duration
}

// Store implements kv.KV.
type Store struct {
	path string
	now  func() time.Time
	db   *bbolt.DB

	queue  queue
	failed atomic.Pointer[error] // why the Store stopped for good
	wedged atomic.Bool           // closing the file would wait for ever

	lease struct {
		opens uint64 // sets the leases of this process apart from those before it
		count atomic.Uint64
	}
	tasksMu sync.Mutex // guards the map, not the partitions in it
	tasks   map[kv.Partition]*tasks

	statsMu sync.Mutex
	stats   Stats

	closing chan struct{}
	workers sync.WaitGroup
	close   sync.Once

	commit func(*bbolt.Tx) error // (*bbolt.Tx).Commit, but for tests of a failing disk
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
				items = append(items, rec.export(kv.Key{Partition: prefix.Partition, Name: string(k[len(names):])}))
			}
		}
		return nil
	})
	return items, err
}

// view runs f in a read transaction. It turns what a damaged page does to a
// reader, a panic or a fault in the mapped file, into an error: one bad page
// must not take down a process that can serve all others.
func (s *Store) view(ctx context.Context, f func(*bbolt.Tx) error) (err error) {
	if ctx.Err() != nil {
		return unavailable(s.path, context.Cause(ctx))
	}
	if err := s.stopped(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = unavailable(s.path, damaged(r))
		}
	}()
	err = s.db.View(f)
	if err == nil || errors.Is(err, kv.ErrNotFound) {
		return err
	}
	return unavailable(s.path, err)
}

// Close finishes the commits that are under way, refuses all later ones and
// releases the file.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		s.queue.close()
		close(s.closing)
		s.workers.Wait()
		if s.wedged.Load() {
			err = s.stopped()
			return
		}
		err = s.db.Close()
	})
	return err
}

// stop ends the Store's service because of a failed write.
func (s *Store) stop(cause error) {
	err := fmt.Errorf("stopped by a failed write, restart the service once its cause is mended: %w", cause)
	s.failed.CompareAndSwap(nil, &err)
}

func (s *Store) stopped() error {
	if cause := s.failed.Load(); cause != nil {
		return unavailable(s.path, *cause)
	}
	return nil
}

func unavailable(path string, cause error) error {
	return fmt.Errorf("bolt: %s: %w: %w", path, kv.ErrUnavailable, cause)
}

func unknown(path string, cause error) error {
	return fmt.Errorf("bolt: %s: %w: %w", path, kv.ErrUnknown, cause)
}

func damaged(r any) error {
	return fmt.Errorf("the file is damaged (%v); restore it from a copy", r)
}
