package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/verge-id/verge/core/kv"
)

// Records are rows of one partition: of a backup, or of another store.
type Records struct {
	Partition kv.Partition
	Items     []kv.Item
	Tasks     []kv.Task // without leases

	// Names of rows that were removed after an earlier Records had them.
	RemovedItems, RemovedTasks []string
}

// WriteBackup writes a backup from the rows of another store to a new file. It calls next until next
// returns nil. A row replaces the earlier row of the same name. The file is like the one of Store.Backup:
// if it exists after WriteBackup has returned, it is complete, on disk and checked.
func WriteBackup(
	ctx context.Context, path string, next func() (*Records, error), now func() time.Time,
) (Copy, error) {
	return newBackup(path, func(temporary string) (c Copy, err error) {
		c.Bytes, err = newFile(temporary, func(db *bbolt.DB) error {
			return c.fill(ctx, db, next, now)
		})
		return c, err
	})
}

// fill writes the rows to a new file, and counts them.
func (c *Copy) fill(
	ctx context.Context, db *bbolt.DB, next func() (*Records, error), now func() time.Time,
) error {
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range append([][]byte{bucketVerge}, tableBuckets[:]...) {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketVerge).Put(keyFormat, []byte(format))
	})
	for err == nil {
		var r *Records
		if r, err = next(); err != nil || r == nil {
			break
		}
		if err = context.Cause(ctx); err == nil {
			err = db.Update(r.write)
		}
	}
	if err != nil {
		return err
	}
	c.Taken = now()
	return db.Update(func(tx *bbolt.Tx) error {
		taken := binary.BigEndian.AppendUint64(nil, sortable(c.Taken))
		c.Items, c.Tasks = tx.Bucket(bucketItems).Stats().KeyN, tx.Bucket(bucketTasks).Stats().KeyN
		return tx.Bucket(bucketVerge).Put(keyTaken, taken)
	})
}

func (r *Records) write(tx *bbolt.Tx) error {
	txs := []kv.Tx{{ID: "removed", Deletes: r.RemovedItems, Cancel: r.RemovedTasks}}
	for _, it := range r.Items {
		put := kv.Put{Name: it.Key.Name, Value: it.Value, Expires: it.Expires}
		txs = append(txs, kv.Tx{ID: it.Tx, Puts: []kv.Put{put}})
	}
	for _, task := range r.Tasks {
		txs = append(txs, kv.Tx{ID: "scheduled", Schedule: []kv.Task{task}})
	}
	g := groupState{touched: map[string]bool{}}
	rows := &layer{}
	st := state{tx: tx, layers: []*layer{rows}}
	for i, change := range txs {
		change.Partition = r.Partition
		if i > 0 { // the first one may remove many rows
			if err := change.Validate(); err != nil {
				return err
			}
		}
		g.write(st, prepared(change))
	}
	return rows.writeTo(tx)
}

// Limits of one Records of ReadBackup.
const (
	readRows  = 500
	readBytes = 256 << 10
)

// ReadBackup calls each with the rows of a backup, partition by partition: first the items, then the tasks.
// It leaves out items that have expired. It fails if another process has the file open, or if the file is
// damaged.
func ReadBackup(ctx context.Context, path string, now time.Time, each func(Records) error) (Copy, error) {
	r := recordReader{now: now, each: func(r Records) error {
		return errors.Join(context.Cause(ctx), each(r))
	}}
	db, err := readOnly(path)
	if err == nil {
		defer closeAfter(db, &err)
		err = view(db, r.read)
	}
	if err != nil {
		err = fmt.Errorf("bolt: %s: %w", path, err)
	}
	return r.copied, err
}

// recordReader collects the rows of a backup into Records, and passes them on.
type recordReader struct {
	now    time.Time
	each   func(Records) error
	copied Copy
	next   Records
	size   int // bytes of the values in next
}

func (r *recordReader) read(st state, taken time.Time) error {
	r.copied.Taken = taken
	items := st.seek(itemTable, nil)
	for key, value := items.next(); key != nil; key, value = items.next() {
		partition, name := split(key)
		item := decodeItem(value)
		if item.expired(r.now) {
			continue
		}
		if err := r.begin(partition, len(value)); err != nil {
			return err
		}
		r.next.Items = append(r.next.Items, item.export(kv.Key{Partition: partition, Name: name}))
	}
	if err := r.flush(); err != nil {
		return err
	}
	tasks := st.seek(taskTable, nil)
	for key, value := tasks.next(); key != nil; key, value = tasks.next() {
		partition, id := split(key)
		if err := r.begin(partition, len(value)); err != nil {
			return err
		}
		at, payload := decodeTask(value)
		task := kv.Task{ID: id, Due: fromSortable(at), Payload: bytes.Clone(payload)}
		r.next.Tasks = append(r.next.Tasks, task)
	}
	return r.flush()
}

// begin prepares for a row with n bytes. It passes on the collected rows if they are of another partition or
// many.
func (r *recordReader) begin(partition kv.Partition, n int) (err error) {
	rows := len(r.next.Items) + len(r.next.Tasks)
	if partition != r.next.Partition || rows >= readRows || r.size > readBytes {
		err = r.flush()
	}
	r.next.Partition = partition
	r.size += n
	return err
}

func (r *recordReader) flush() error {
	next := r.next
	if len(next.Items)+len(next.Tasks) == 0 {
		return nil
	}
	r.copied.Items, r.copied.Tasks = r.copied.Items+len(next.Items), r.copied.Tasks+len(next.Tasks)
	r.next, r.size = Records{}, 0
	return r.each(next)
}

// split returns the partition and the name of the key of an item or a task.
func split(key []byte) (kv.Partition, string) {
	partition, name, _ := bytes.Cut(key, []byte{0})
	return kv.Partition(partition), string(name)
}
