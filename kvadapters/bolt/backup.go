package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// A Copy says what a backup holds.
type Copy struct {
	Taken time.Time // when the backup was made; zero: not by Backup, so it is not known
	Items int       // with those that have expired and are not removed yet
	Tasks int
	Bytes int64 // of the file
}

// Backup writes what the Store holds at one instant to a new file, while the Store goes on. The file has the
// mode 0600 and is a Store's: Restore takes it, and so does Open. It holds nothing of what was deleted. If it
// is there when Backup returns, it is whole, on disk, and has been checked.
//
// All else goes on meanwhile, but for one case: a commit for which the file outgrows what is mapped into
// memory waits until the copy is made, and everything after it waits, too. The mapping doubles as the file
// grows, so that is rare.
func (s *Store) Backup(ctx context.Context, path string) (Copy, error) {
	var c Copy
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("bolt: backup: %s is there already and is left as it is", path)
	}
	err := written(path, func(temporary string) (err error) {
		err = s.view(ctx, func(tx *bbolt.Tx) error {
			c, err = copyTo(ctx, tx, temporary, s.now())
			return err
		})
		if err != nil {
			return err
		}
		return os.Rename(temporary, path)
	})
	if err != nil {
		return Copy{}, fmt.Errorf("bolt: backup to %s: %w", path, err)
	}
	return c, nil
}

// Restored says what Restore did.
type Restored struct {
	Copy
	Replaced string // where the file is now that was there before; "": there was none
}

// Restore puts the copy of a backup in the place of a Store's file. The backup is read whole and checked
// before anything changes, and stays as it is. The file that is there is kept beside it under a new name,
// even if it is damaged. Restore fails if another process has one of the two files open.
//
// The Store forgets what was committed since the backup. What that means for tokens and keys, and what to do,
// is the caller's to know.
func Restore(ctx context.Context, backup, path string, now time.Time) (Restored, error) {
	var r Restored
	err := func() error {
		release, err := unused(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer release()
		return written(path, func(temporary string) error {
			if r.Copy, err = copyFile(ctx, backup, temporary); err != nil {
				return fmt.Errorf("%s: %w", backup, err)
			}
			if _, err := os.Lstat(path); err == nil {
				r.Replaced = path + ".replaced-" + now.UTC().Format("20060102T150405Z")
				// Both names stand for a moment, so that no crash leaves a place where a start makes an empty
				// store.
				if err := os.Link(path, r.Replaced); err != nil {
					return fmt.Errorf(
						"the file that is there cannot be kept: %w; move it away, and try again", err)
				}
			}
			if runtime.GOOS == "windows" {
				release() // it replaces no file that is open
			}
			return os.Rename(temporary, path)
		})
	}()
	if err != nil {
		return Restored{}, fmt.Errorf("bolt: restore: %w", err)
	}
	return r, nil
}

// written calls write with the name of a new file beside path, which write gives its final name. It removes
// what a failure leaves behind.
func written(path string, write func(temporary string) error) error {
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // with mode 0600
	if err != nil {
		return err
	}
	err = errors.Join(f.Close(), write(f.Name()))
	if err != nil {
		return errors.Join(err, remove(f.Name()))
	}
	return syncDir(dir)
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// unused takes the lock of the file at path, so that no process begins to use it before release is called. A
// file that is missing or damaged has no lock to take: bbolt takes the lock before it reads, so any error but
// ErrLocked says that nobody else has it.
func unused(path string) (release func(), err error) {
	db, err := readOnly(path)
	if errors.Is(err, ErrLocked) {
		return nil, err
	}
	if err != nil {
		return func() {}, nil
	}
	return func() { _ = db.Close() }, nil // closing twice is no error
}

// readOnly opens a file that nobody writes to, and checks its pages.
func readOnly(path string) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
		}
	}()
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	if err := precheck(path); err != nil {
		return nil, err
	}
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	if err := checkFile(path); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// copyFile copies the file of a backup.
func copyFile(ctx context.Context, from, to string) (c Copy, err error) {
	db, err := readOnly(from)
	if err != nil {
		return c, err
	}
	defer db.Close()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
		}
	}()
	err = db.View(func(tx *bbolt.Tx) error {
		verge := tx.Bucket(bucketVerge)
		if verge == nil {
			return errors.New("it is no file of Verge")
		}
		if err := checkFormat(verge); err != nil {
			return err
		}
		// A Store that goes on is no backup, so its file does not say when one was made.
		c, err = copyTo(ctx, tx, to, time.Time{})
		if v := verge.Get(keyTaken); len(v) == 8 {
			c.Taken = fromSortable(binary.BigEndian.Uint64(v))
		}
		return err
	})
	return c, err
}

// copyStep is how many bytes of keys and values one transaction of a copy writes.
const copyStep = 4 << 20

// copyTo writes every record that tx shows to the file, and checks the file. If taken is not zero, the file
// says so.
func copyTo(ctx context.Context, tx *bbolt.Tx, path string, taken time.Time) (c Copy, err error) {
	c.Taken = taken
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return c, err
	}
	defer db.Close() // a damaged page of tx may panic
	w := copier{ctx: ctx, db: db}
	err = func() error {
		for _, name := range [][]byte{bucketVerge, bucketItems, bucketExpiry, bucketTasks, bucketDue} {
			from := tx.Bucket(name)
			if from == nil {
				return damaged(fmt.Sprintf("bucket %q is missing", name))
			}
			n, err := w.bucket(name, from, taken)
			if err != nil {
				return err
			}
			switch {
			case bytes.Equal(name, bucketItems):
				c.Items = n
			case bytes.Equal(name, bucketTasks):
				c.Tasks = n
			}
		}
		return db.Sync()
	}()
	if err = errors.Join(err, db.Close()); err != nil {
		return c, err
	}
	if err := checkFile(path); err != nil {
		return c, err
	}
	info, err := os.Stat(path)
	if err == nil {
		c.Bytes = info.Size()
	}
	return c, err
}

// copier writes into a file that nobody else knows yet.
type copier struct {
	ctx context.Context
	db  *bbolt.DB
}

// bucket copies one bucket and returns how many records it has.
func (w *copier) bucket(name []byte, from *bbolt.Bucket, taken time.Time) (n int, err error) {
	cursor := from.Cursor()
	key, value := cursor.First()
	for first := true; first || key != nil; first = false {
		if w.ctx.Err() != nil {
			return n, context.Cause(w.ctx)
		}
		err = w.db.Update(func(tx *bbolt.Tx) error {
			to, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			to.FillPercent = 1 // keys come in order, and the next step only adds behind them
			for size := 0; key != nil && size < copyStep; key, value = cursor.Next() {
				if bytes.Equal(name, bucketVerge) && bytes.Equal(key, keyTaken) {
					continue
				}
				if err := to.Put(key, value); err != nil {
					return err
				}
				n++
				size += len(key) + len(value)
			}
			if bytes.Equal(name, bucketVerge) && !taken.IsZero() {
				return to.Put(keyTaken, binary.BigEndian.AppendUint64(nil, sortable(taken)))
			}
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
