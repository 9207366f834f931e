package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/verge-id/verge/core/kv"
)

// Open opens the file at path. It creates the file and missing parent directories. Only the owner can read
// the file. Open fails if another process has the file open, or if the file is damaged or not a Store's.
// The error reports which.
func Open(path string, c Config) (*Store, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.LockTimeout == 0 {
		c.LockTimeout = time.Second
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = time.Second
	}
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("bolt: directory of %s: %w", path, err)
	}
	if c.Disk.Open == nil {
		c.Disk.Open = os.OpenFile
	}
	if c.Disk.Commit == nil {
		c.Disk.Commit = (*bbolt.Tx).Commit
	}
	if err := precheck(path); err != nil {
		return nil, fmt.Errorf("bolt: %s: %w", path, err)
	}
	db, opens, txid, err := openCurrent(path, c)
	if err != nil {
		return nil, fmt.Errorf("bolt: %s: %w", path, err)
	}
	// Syncing the file does not sync its name.
	err = syncDir(dir)
	identity, statErr := os.Stat(path)
	if err := errors.Join(err, statErr); err != nil {
		return nil, errors.Join(fmt.Errorf("bolt: directory of %s: %w", path, err), db.Close())
	}

	s := &Store{
		path:        path,
		now:         c.Now,
		lockTimeout: c.LockTimeout,
		disk:        c.Disk,
		identity:    identity,
		db:          db,
		tasks:       make(map[kv.Partition]*tasks),
		lost:        make(chan struct{}),
		closing:     make(chan struct{}),
	}
	s.committed.Store(txid)
	s.written.Store(new(make(chan struct{})))
	s.queue.wake = make(chan struct{}, 1)
	s.lease.opens = opens
	s.workers.Go(s.write)
	s.workers.Go(func() { s.sweep(c.SweepEvery) })
	return s, nil
}

// ErrLocked is returned if another process has the file open.
var ErrLocked = errors.New("another process has it open; " +
	"stop that process, or use another file")

// openDB opens the file and takes its lock.
func openDB(
	path string, timeout time.Duration, open func(string, int, os.FileMode) (*os.File, error),
) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: timeout,
		FreelistType: bbolt.FreelistMapType,
		OpenFile:     open,
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, ErrLocked
	}
	return db, err
}

// openCurrent is openChecked, again if the file was replaced before its lock was free: Compact and Restore
// keep the lock until they have renamed the new file. Otherwise the Store would write to a file without a
// name.
func openCurrent(path string, c Config) (db *bbolt.DB, opens, txid uint64, err error) {
	open := c.Disk.Open
	var opened *os.File
	c.Disk.Open = func(name string, flag int, perm os.FileMode) (f *os.File, err error) {
		opened, err = open(name, flag, perm)
		return opened, err
	}
	for range 3 {
		if db, opens, txid, err = openChecked(path, c); err != nil {
			return nil, 0, 0, err
		}
		has, err := opened.Stat()
		named, namedErr := os.Stat(path)
		if err == nil && namedErr == nil && os.SameFile(has, named) {
			return db, opens, txid, nil
		}
		if err := errors.Join(err, db.Close()); err != nil {
			return nil, 0, 0, err
		}
	}
	return nil, 0, 0, errors.New("another process replaces the file again and again; stop that process")
}

// openChecked takes the file's lock before it checks the pages.
func openChecked(path string, c Config) (db *bbolt.DB, opens, txid uint64, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
		}
		// After a panic, bbolt may still have its own lock, and Close would block. The process releases the
		// file when it ends.
		if err != nil && db != nil && !errors.Is(err, errPanicked) {
			_ = db.Close()
		}
	}()
	if db, err = openDB(path, c.LockTimeout, c.Disk.Open); err != nil {
		return nil, 0, 0, err
	}
	if err := checkFile(path); err != nil {
		return db, 0, 0, err
	}
	err = recovered(func() error {
		var err error
		opens, txid, err = count(db, c.Disk.Commit)
		return err
	})
	return db, opens, txid, err
}

// count increments the number of times that the file was opened. A file that cannot be written fails here.
// txid is the transaction of this write.
func count(db *bbolt.DB, commit func(*bbolt.Tx) error) (opens, txid uint64, err error) {
	tx, err := db.Begin(true)
	if err != nil {
		return 0, 0, err
	}
	txid = uint64(tx.ID())
	if opens, err = prepare(tx); err != nil {
		return 0, 0, errors.Join(err, tx.Rollback())
	}
	return opens, txid, commit(tx)
}

func checkFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, ok := latestMeta(f)
	if !ok {
		return damaged("no valid meta page")
	}
	return check(f, m)
}

// errPanicked marks an error that recovered created from a panic.
var errPanicked = errors.New("unreadable")

func recovered(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %w", errPanicked, damaged(r))
		}
	}()
	return f()
}

// checkFormat rejects a file whose format this version cannot read.
func checkFormat(verge *bbolt.Bucket) error {
	if got := verge.Get(keyFormat); !bytes.Equal(got, []byte(format)) {
		return fmt.Errorf("written in format %q, this version reads format %q only; "+
			"use the version that wrote it", got, format)
	}
	return nil
}

// prepare turns an empty file into a Store's, or checks that the file is one. It increments the number of
// opens.
func prepare(tx *bbolt.Tx) (opens uint64, err error) {
	verge := tx.Bucket(bucketVerge)
	if verge == nil {
		if name, _ := tx.Cursor().First(); name != nil {
			return 0, fmt.Errorf("a bolt file of another program (it begins with bucket %q); "+
				"name another path", name)
		}
		for _, name := range [][]byte{bucketVerge, bucketItems, bucketExpiry, bucketTasks, bucketDue} {
			if _, err := tx.CreateBucket(name); err != nil {
				return 0, err
			}
		}
		verge = tx.Bucket(bucketVerge)
		if err := verge.Put(keyFormat, []byte(format)); err != nil {
			return 0, err
		}
	}
	if err := checkFormat(verge); err != nil {
		return 0, err
	}
	for _, name := range [][]byte{bucketItems, bucketExpiry, bucketTasks, bucketDue} {
		b := tx.Bucket(name)
		if b == nil {
			return 0, damaged(fmt.Sprintf("bucket %q is missing", name))
		}
		b.Cursor().First()
		b.Cursor().Last()
	}
	if v := verge.Get(keyOpens); len(v) == 8 {
		opens = binary.BigEndian.Uint64(v)
	}
	opens++
	return opens, verge.Put(keyOpens, binary.BigEndian.AppendUint64(nil, opens))
}

// Offsets in bbolt's file format that precheck reads, in bytes from the beginning of a page, and the
// required values.
const (
	metaAt       = 16 // after the page header
	metaSize     = 64
	metaMagic    = 0xED0CDAED
	metaVersion  = 2
	smallestFile = 2 * 1024 // two pages of the smallest size
)

// precheck detects a file that is not a bolt file, or is truncated, before bbolt maps it: a read beyond the
// end of a mapped file kills the process. It needs no lock. A process that has the file open keeps one of
// the two meta pages valid at all times and only ever extends the file.
func precheck(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file; name a file, it is created if it is not there")
	}
	if info.Size() == 0 {
		return nil
	}
	if info.Size() < smallestFile {
		return fmt.Errorf("%d bytes are too few for a bolt file: not one, or cut off; "+
			"restore it from a copy or name another path", info.Size())
	}
	latest, ok := latestMeta(f)
	if !ok {
		return errors.New("neither of its two meta pages is valid: not a bolt file, or damaged; " +
			"restore it from a copy or name another path")
	}
	// Read the size again: the file may have grown together with the meta page.
	if info, err = f.Stat(); err != nil {
		return err
	}
	if need := latest.pages * uint64(latest.pageSize); uint64(info.Size()) < need {
		return fmt.Errorf("cut off: it has %d bytes of %d; restore it from a copy", info.Size(), need)
	}
	return nil
}

type meta struct {
	at       int64 // offset of the page in the file
	pageSize uint32
	root     uint64
	pages    uint64
	txid     uint64
}

// latestMeta returns the valid meta page of the later transaction. The second page follows the first, and
// only a valid first page contains the page size. So latestMeta tries all page sizes that bbolt uses.
func latestMeta(r io.ReaderAt) (latest meta, ok bool) {
	latest, ok = readMeta(r, 0)
	for size := int64(1024); size <= 16<<20; size *= 2 {
		if m, valid := readMeta(r, size); valid && (!ok || m.txid > latest.txid) {
			latest, ok = m, true
		}
	}
	return latest, ok
}

// readMeta reads the meta page at the offset. The layout: magic (4), version (4), page size (4), flags (4),
// root bucket's page (8) and sequence (8), freelist (8), number of pages (8), txid (8), FNV-1a of the
// preceding fields (8), in the machine's byte order.
func readMeta(r io.ReaderAt, at int64) (meta, bool) {
	var b [metaSize]byte
	if _, err := r.ReadAt(b[:], at+metaAt); err != nil {
		return meta{}, false
	}
	order := binary.NativeEndian
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	valid := order.Uint32(b[0:]) == metaMagic && order.Uint32(b[4:]) == metaVersion &&
		order.Uint64(b[56:]) == sum.Sum64()
	if !valid {
		return meta{}, false
	}
	return meta{
		at:       at,
		pageSize: order.Uint32(b[8:]),
		root:     order.Uint64(b[16:]),
		pages:    order.Uint64(b[40:]),
		txid:     order.Uint64(b[48:]),
	}, true
}

// makeDir creates dir and its missing parents. Each name is on disk before the next one is created in it.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync a directory
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
