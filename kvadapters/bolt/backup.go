package bolt

import (
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

// Copy describes the content of a backup.
type Copy struct {
	Taken time.Time // zero: unknown, because Backup did not write the file
	Items int       // including expired ones that are not removed yet
	Tasks int
	Bytes int64 // size of the file
}

// Backup writes a consistent snapshot of the Store to a new file, while the Store continues. The file has
// mode 0600. Restore and Open accept it. It contains no deleted data. If it exists after Backup has
// returned, it is complete, on disk and checked.
//
// Other calls continue during the backup, with one exception: a checkpoint for which the file outgrows its
// memory mapping waits until the copy is complete, and all later calls wait, too. The mapping doubles as
// the file grows, so this is rare. A backup ends with an error if the Store opens its file again after a
// failed write.
func (s *Store) Backup(ctx context.Context, path string) (Copy, error) {
	return newBackup(path, func(temporary string) (Copy, error) {
		return copyTo(temporary, s.now(), func(copy func(context.Context, state) error) error {
			return s.snapshot(ctx, copy)
		})
	})
}

// newBackup calls write with the name of a new file next to path, and gives the file its name afterwards.
func newBackup(path string, write func(temporary string) (Copy, error)) (c Copy, err error) {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return c, fmt.Errorf("bolt: backup: %s already exists and was not changed", path)
	case !errors.Is(err, os.ErrNotExist):
		return c, fmt.Errorf("bolt: backup: %w", err)
	}
	err = written(path, func(temporary string) error {
		if c, err = write(temporary); err != nil {
			return err
		}
		return os.Rename(temporary, path)
	})
	if err != nil {
		return Copy{}, fmt.Errorf("bolt: backup to %s: %w", path, err)
	}
	return c, nil
}

// Restored is the result of Restore.
type Restored struct {
	Copy
	Replaced string // new name of the previous file; "": no file existed
}

// Restore replaces a Store's file with the copy of a backup. The backup is read and checked completely
// before anything changes, and is not modified. The previous file is kept next to it under a new name, even
// if it is damaged. The copy has the owner and the permissions of the previous file. A link stays one: the
// copy replaces the file behind it. Restore fails if another process has one of the two files open.
//
// The Store loses the commits since the backup. The caller must handle the consequences for tokens and
// keys.
func Restore(ctx context.Context, backup, path string, now time.Time) (Restored, error) {
	var r Restored
	err := func() error {
		names, err := namesOf(path)
		if err != nil {
			return err
		}
		path := names[0]
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s: %w", path, errNotFile)
		}
		release, err := unused(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer release()
		return written(path, func(temporary string) error {
			if r.Copy, err = copyFile(ctx, backup, temporary); err != nil {
				return fmt.Errorf("%s: %w", backup, err)
			}
			if previous, err := os.Stat(path); err == nil {
				if err := sameAccess(temporary, previous); err != nil {
					return err
				}
			}
			suffix := ".replaced-" + now.UTC().Format("20060102T150405Z")
			// Both names exist for a moment, so that after a crash no start finds the file missing and
			// creates an empty store.
			if r.Replaced, err = keep(path, path+suffix); err != nil {
				return err
			}
			for _, name := range names {
				if _, err := keep(name+logSuffix, name+suffix+logSuffix); err != nil {
					return err
				}
			}
			if runtime.GOOS == "windows" {
				release() // Windows cannot replace an open file
			}
			if err := os.Rename(temporary, path); err != nil {
				return err
			}
			return removeLogs(names)
		})
	}()
	if err != nil {
		return Restored{}, fmt.Errorf("bolt: restore: %w", err)
	}
	return r, nil
}

// namesOf returns the name of the file behind path, which may be a link or a missing file, and then path
// itself if it is another name. A Store's log is next to the name that the Store had.
func namesOf(path string) ([]string, error) {
	file, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return []string{path}, nil
	case err != nil:
		return nil, err
	case file == path:
		return []string{path}, nil
	}
	return []string{file, path}, nil
}

func removeLogs(names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, remove(name+logSuffix))
	}
	return err
}

// keep gives a file a second name and returns it, or "" if the file is missing.
func keep(path, name string) (string, error) {
	switch _, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	if err := os.Link(path, name); err != nil {
		return "", fmt.Errorf("the file that is there cannot be kept: %w; move it away, and try again", err)
	}
	return name, nil
}

// written calls write with the name of a new file next to path, and write renames it. written removes the
// file if write fails.
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

// unused takes the lock of the file at path, so that no process begins to use it before release is called.
// A missing or damaged file has no lock: bbolt takes the lock before it reads, so any error other than
// ErrLocked means that no other process has it. The file is not checked before: a server may have it open
// although it was damaged since.
func unused(path string) (release func(), err error) {
	db, err := openReadOnly(path)
	if errors.Is(err, ErrLocked) {
		return nil, err
	}
	if err != nil {
		return func() {}, nil
	}
	return func() { _ = db.Close() }, nil // closing twice is not an error
}

// readOnly opens a file that no process writes, and checks its pages.
func readOnly(path string) (db *bbolt.DB, err error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() == 0 {
		err = errEmpty // bbolt would write to it
	}
	if err == nil {
		err = precheck(path)
	}
	if err != nil {
		return nil, err
	}
	if db, err = openReadOnly(path); err != nil {
		return nil, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := recovered(func() error { return checkFile(path) }); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openReadOnly opens a file that no process writes. It returns ErrLocked if one does.
func openReadOnly(path string) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	err = recovered(func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		err = ErrLocked
	}
	return db, err
}

// copyFile copies the file of a backup.
func copyFile(ctx context.Context, from, to string) (c Copy, err error) {
	db, err := readOnly(from)
	if err != nil {
		return c, err
	}
	defer closeAfter(db, &err)
	var taken time.Time
	// A Store in use is not a backup, so its file contains no time of a backup.
	c, err = copyTo(to, time.Time{}, func(copy func(context.Context, state) error) error {
		return view(db, func(st state, at time.Time) error {
			taken = at
			return copy(ctx, st)
		})
	})
	c.Taken = taken
	return c, err
}

// view calls read with the data of a file of Verge, including the commits in its log. taken is the time of a
// backup, and zero for the file of a store. A damaged file is an error.
func view(db *bbolt.DB, read func(st state, taken time.Time) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return recovered(func() error { return db.View(viewer(db, read)) })
}

// closeAfter closes a file that view has read with this result. After a panic, bbolt may still have its own
// lock, and closing would block. The process releases that file when it ends.
func closeAfter(db *bbolt.DB, result *error) {
	if !errors.Is(*result, errPanicked) {
		_ = db.Close()
	}
}

// viewer returns the transaction of view.
func viewer(db *bbolt.DB, read func(st state, taken time.Time) error) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		verge := tx.Bucket(bucketVerge)
		if verge == nil {
			return errors.New("it is no file of Verge")
		}
		at, err := readLogState(tx)
		if err != nil {
			return err
		}
		st := state{tx: tx}
		if at.used {
			log := db.Path() + logSuffix
			changes, _, err := readCommits(log, Disk{Open: os.OpenFile}, at)
			if err != nil {
				return fmt.Errorf("its log %s: %w", log, err)
			}
			st.layers = []*layer{changes}
		}
		var taken time.Time
		if v := verge.Get(keyTaken); len(v) == 8 {
			taken = fromSortable(binary.BigEndian.Uint64(v))
		}
		return read(st, taken)
	}
}

// copyStep is the number of bytes of keys and values per transaction of a copy.
const copyStep = 4 << 20

// copyTo calls read, which passes a state to copy, and writes every record of the state to a new file. It
// stores taken in the file unless it is zero. read has returned when the file is synced and checked.
func copyTo(path string, taken time.Time,
	read func(copy func(context.Context, state) error) error) (c Copy, err error) {
	c.Taken = taken
	c.Bytes, err = newFile(path, func(db *bbolt.DB) error {
		return read(func(ctx context.Context, st state) error {
			w := copier{ctx: ctx, db: db}
			if err := w.begin(st.tx.Bucket(bucketVerge), taken); err != nil {
				return err
			}
			var rows [tables]int
			for t, name := range tableBuckets {
				if st.tx.Bucket(name) == nil {
					return damaged(fmt.Sprintf("bucket %q is missing", name))
				}
				if rows[t], err = w.table(table(t), st); err != nil {
					return err
				}
			}
			c.Items, c.Tasks = rows[itemTable], rows[taskTable]
			return nil
		})
	})
	return c, err
}

// newFile writes a file by fill, syncs and checks it, and returns its size. The file is missing or empty
// before.
func newFile(path string, fill func(*bbolt.DB) error) (int64, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return 0, err
	}
	defer db.Close() // fill may panic
	if err = fill(db); err == nil {
		err = db.Sync()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return 0, err
	}
	if err := checkFile(path); err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// copier writes to a file that is not in use yet.
type copier struct {
	ctx context.Context
	db  *bbolt.DB
}

// begin copies the file's own bucket, without the log and the time of another backup.
func (w *copier) begin(from *bbolt.Bucket, taken time.Time) error {
	return w.db.Update(func(tx *bbolt.Tx) error {
		to, err := tx.CreateBucket(bucketVerge)
		if err != nil {
			return err
		}
		if opens := from.Get(keyOpens); opens != nil {
			if err := to.Put(keyOpens, opens); err != nil {
				return err
			}
		}
		if !taken.IsZero() {
			if err := to.Put(keyTaken, binary.BigEndian.AppendUint64(nil, sortable(taken))); err != nil {
				return err
			}
		}
		return to.Put(keyFormat, []byte(format))
	})
}

// table copies one table and returns the number of its records.
func (w *copier) table(t table, st state) (n int, err error) {
	from := st.seek(t, nil)
	key, value := from.next()
	for first := true; first || key != nil; first = false {
		if w.ctx.Err() != nil {
			return n, context.Cause(w.ctx)
		}
		err = w.db.Update(func(tx *bbolt.Tx) error {
			to, err := tx.CreateBucketIfNotExists(tableBuckets[t])
			if err != nil {
				return err
			}
			to.FillPercent = 1 // keys are sorted, and the next step only appends
			for size := 0; key != nil && size < copyStep; key, value = from.next() {
				if err := to.Put(key, value); err != nil {
					return err
				}
				n++
				size += len(key) + len(value)
			}
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
