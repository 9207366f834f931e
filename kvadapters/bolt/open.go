package bolt

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
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
	c.LockTimeout = cmp.Or(c.LockTimeout, time.Second)
	c.SweepEvery = cmp.Or(c.SweepEvery, time.Second)
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
	if c.Disk.Append == nil {
		c.Disk.Append = writeAndSync
	}
	if err := precheck(path); err != nil {
		return nil, openError(path, err)
	}
	o, err := openCurrent(path, c)
	if err != nil {
		return nil, openError(path, err)
	}
	// Syncing the file does not sync its name.
	if err := syncDir(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("bolt: directory of %s: %w", path, err), o.close())
	}

	s := &Store{
		path:        path,
		now:         c.Now,
		lockTimeout: c.LockTimeout,
		disk:        c.Disk,
		identity:    o.identity,
		db:          o.db,
		active:      &layer{},
		log:         o.log,
		checkpoint:  checkpoint{txid: o.txid, written: o.log.last},
		tasks:       make(map[kv.Partition]*tasks),
		lost:        make(chan struct{}),
		closing:     make(chan struct{}),
	}
	s.queue.wake = make(chan struct{}, 1)
	s.lease.opens = o.opens
	s.workers.Go(s.write)
	s.workers.Go(func() { s.sweep(c.SweepEvery) })
	return s, nil
}

// openError returns the error of a file that Open cannot use. Root may have restored it for a server of
// another user.
func openError(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("bolt: %s: %w; give the file to the user that the server runs as, for example by "+
			"`chown verge: %s`", path, err, path)
	}
	return fmt.Errorf("bolt: %s: %w", path, withAdvice(err))
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

// opening is a file that Open has opened.
type opening struct {
	db       *bbolt.DB
	identity os.FileInfo
	log      *commitLog
	opens    uint64 // how often the file was opened
	txid     uint64 // the last transaction
}

func (o *opening) close() error {
	var err error
	if o.log != nil {
		err = o.log.close()
	}
	return errors.Join(err, o.db.Close())
}

// errReplaced is the error of a file that was replaced before its lock was free.
var errReplaced = errors.New("another process replaces the file again and again; stop that process")

// openCurrent is openChecked, again if the file was replaced before its lock was free: Compact and Restore
// keep the lock until they have renamed the new file. Otherwise the Store would write to a file without a
// name.
func openCurrent(path string, c Config) (o *opening, err error) {
	for range 3 {
		if o, err = openChecked(path, c); !errors.Is(err, errReplaced) {
			break
		}
	}
	return o, err
}

// openChecked takes the file's lock before it checks the pages.
func openChecked(path string, c Config) (o *opening, err error) {
	o = &opening{}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
		}
		// After a panic, bbolt may still have its own lock, and Close would block. The process releases the
		// file when it ends.
		if err != nil && o.db != nil && !errors.Is(err, errPanicked) {
			_ = o.close()
		}
	}()
	var opened *os.File
	open := func(name string, flag int, perm os.FileMode) (_ *os.File, err error) {
		opened, err = c.Disk.Open(name, flag, perm)
		return opened, err
	}
	o.db, err = openDB(path, c.LockTimeout, open)
	if err != nil {
		return o, err
	}
	has, err := opened.Stat()
	if err != nil {
		return o, err
	}
	if o.identity, err = os.Stat(path); err != nil || !os.SameFile(has, o.identity) {
		return o, errors.Join(errReplaced, err)
	}
	if err := checkFile(path); err != nil {
		return o, err
	}
	return o, recovered(func() error { return o.readLog(path, c.Disk) })
}

// readLog writes the commits of the log to the file, and begins a log if the file has none. A file that
// cannot be written fails here.
func (o *opening) readLog(path string, disk Disk) (err error) {
	var at logState
	if err := o.db.View(func(tx *bbolt.Tx) (err error) {
		at, err = readLogState(tx)
		return err
	}); err != nil {
		return err
	}
	log, changes := path+logSuffix, &layer{}
	if at.used {
		if o.log, changes, err = continueLog(log, disk, at); err != nil {
			return fmt.Errorf("its log %s: %w", log, err)
		}
	} else {
		if err := checkUnused(log, disk, at); err != nil {
			return fmt.Errorf("the log %s: %w", log, err)
		}
		if o.log, err = createLog(log, disk, o.identity); err != nil {
			return fmt.Errorf("creating the log: %w", err)
		}
	}
	tx, err := o.db.Begin(true)
	if err == nil {
		o.txid = uint64(tx.ID())
		if o.opens, err = prepare(tx); err == nil {
			err = changes.writeTo(tx)
		}
		if err == nil {
			err = logState{used: true, id: o.log.id, written: o.log.last}.writeTo(tx)
		}
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		} else {
			// After a failed commit, the file may name the log: then it cannot be opened without it. If it
			// does not, the next start replaces the log, which is empty.
			return disk.Commit(tx)
		}
	}
	if !at.used {
		err = errors.Join(err, o.log.close(), remove(log))
	}
	return err
}

// continueLog opens the log of a file that was not closed cleanly, and returns the changes that the file
// lacks.
func continueLog(path string, disk Disk, at logState) (*commitLog, *layer, error) {
	changes, last, err := readCommits(path, disk, at)
	if err != nil {
		return nil, nil, err
	}
	// A number is left out, so that the record of an interrupted write never gets the number of a later one.
	l := &commitLog{path: path, disk: disk, id: at.id, last: last + 1}
	return l, changes, l.open()
}

// readCommits returns the changes in the log of a file that was not closed cleanly, and the sequence of the
// last record.
func readCommits(path string, disk Disk, at logState) (changes *layer, last uint64, err error) {
	id, content, err := readLog(path, disk)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, 0, errors.New("it is missing, and it has the latest commits, because the file was not " +
			"closed cleanly; move it back next to the file, or restore a backup")
	case err != nil:
		return nil, 0, err
	case id != at.id:
		return nil, 0, errors.New("it belongs to another file, and the one of this file has its latest " +
			"commits; move that one back, or restore a backup")
	}
	if changes, last, err = replay(id, content, at.written); err != nil {
		err = fmt.Errorf("%w; restore a backup", err)
	}
	return changes, last, err
}

// checkUnused checks that a log next to a file that needs none has no commits that the file may lack: a
// crash before the file's first commit or after its last one leaves such a log.
func checkUnused(path string, disk Disk, at logState) error {
	id, content, err := readLog(path, disk)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; move it away", err)
	}
	written := at.written
	if id != at.id {
		written = 0
	}
	changes, _, err := replay(id, content, written)
	if err != nil || !changes.empty() {
		return errors.New("it has commits of another file, or of a later state of this one; restore the " +
			"file that belongs to it, or move the log away if the commits may be lost")
	}
	return nil
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

// fileFormat rejects a file whose format this version cannot read. logged reports whether the latest commits
// are in a log.
func fileFormat(verge *bbolt.Bucket) (logged bool, err error) {
	switch got := string(verge.Get(keyFormat)); got {
	case format:
		return false, nil
	case formatLogged:
		return true, nil
	default:
		return false, fmt.Errorf("written in format %q, this version reads formats %q and %q only; "+
			"use the version that wrote it", got, format, formatLogged)
	}
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
	if _, err := fileFormat(verge); err != nil {
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

var (
	errNotFile = errors.New("not a regular file, but a directory or a device; name a file")
	errEmpty   = errors.New("the file is empty, so it is no store")
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
		return errNotFile
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
