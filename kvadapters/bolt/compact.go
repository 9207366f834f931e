package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// Compacted is the result of Compact.
type Compacted struct {
	Before int64 // size of the file before, in bytes
	Copy         // content and size of the file now
}

// Compact replaces a Store's file with a copy without unused space. A file never shrinks otherwise: a Store
// only reuses the space of removed items. The copy has the owner and the permissions of the file. Compact
// fails if another process has the file open.
//
// The copy is complete, checked and on disk before it takes the file's name. If Compact is interrupted, the
// file is either the previous or the compacted one, and both have all records. The next Compact removes an
// unfinished copy, which is next to the file. The disk needs room for the copy.
func Compact(ctx context.Context, path string) (Compacted, error) {
	c, err := compact(ctx, path)
	if err != nil {
		return Compacted{}, fmt.Errorf("bolt: compact: %s: %w", path, err)
	}
	return c, nil
}

func compact(ctx context.Context, path string) (c Compacted, err error) {
	names, err := namesOf(path) // a link stays one: the copy replaces the file behind it
	if err != nil {
		return c, err
	}
	path = names[0]
	info, err := os.Stat(path)
	if err != nil {
		return c, err
	}
	if info.Size() == 0 {
		return c, errEmpty
	}
	if err := precheck(path); err != nil {
		return c, err
	}
	for _, name := range names {
		if err := absorbLog(name); err != nil {
			return c, err
		}
	}
	db, err := openExclusively(path)
	if err != nil {
		return c, err
	}
	defer closeAfter(db, &err)
	// Only the owner of the lock is here, so an earlier copy has no owner.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-compact")
	if err := remove(temporary); err != nil {
		return c, err
	}
	c.Before = info.Size()
	if c.Copy, err = compactTo(ctx, db, temporary); err == nil {
		err = sameAccess(temporary, info)
	}
	if err == nil && runtime.GOOS == "windows" {
		err = db.Close() // Windows cannot replace an open file
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return c, errors.Join(err, remove(temporary))
	}
	return c, syncDir(filepath.Dir(path))
}

// absorbLog writes the commits in the log of a file that was not closed cleanly to the file.
func absorbLog(path string) error {
	if _, err := os.Lstat(path + logSuffix); errors.Is(err, os.ErrNotExist) {
		return nil // if the file needs one, reading it fails
	}
	s, err := Open(path, Config{})
	if err != nil {
		return err
	}
	return s.Close()
}

// openExclusively opens a file that no process has open, and checks its pages. It keeps other processes from
// opening the file.
func openExclusively(path string) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
		}
	}()
	db, err = openDB(path, time.Second, func(name string, flag int, perm os.FileMode) (*os.File, error) {
		return os.OpenFile(name, flag&^os.O_CREATE, perm)
	})
	if err != nil {
		return nil, err
	}
	if err := checkFile(path); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// compactTo copies all records to a new file.
func compactTo(ctx context.Context, db *bbolt.DB, to string) (Copy, error) {
	return copyTo(to, time.Time{}, func(copy func(context.Context, state) error) error {
		return view(db, func(st state, _ time.Time) error { return copy(ctx, st) })
	})
}

// sameAccess gives a file the permissions and the owner of another one, and syncs it.
func sameAccess(path string, as os.FileInfo) error {
	if err := sameOwner(path, as); err != nil {
		return fmt.Errorf("the copy cannot have the file's owner: %w; "+
			"run the command as root or as that user", err)
	}
	if err := os.Chmod(path, as.Mode().Perm()); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
