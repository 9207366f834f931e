package bolt

import (
	"bytes"

	"github.com/tidwall/btree"
	"go.etcd.io/bbolt"
)

// table is one of the buckets with the data of a Store.
type table byte

const (
	itemTable table = iota
	expiryTable
	taskTable
	dueTable
	tables
)

var tableBuckets = [tables][]byte{bucketItems, bucketExpiry, bucketTasks, bucketDue}

// layer has changes that the file does not contain yet: the new value of each changed key, and nil for a
// removed one. Writing a layer to the file twice has the same result as writing it once.
type layer struct {
	tables [tables]btree.Map[string, []byte]
}

func (l *layer) put(t table, key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	l.tables[t].Set(string(key), value)
}

func (l *layer) remove(t table, key []byte) { l.tables[t].Set(string(key), nil) }

func (l *layer) empty() bool {
	for t := range l.tables {
		if l.tables[t].Len() > 0 {
			return false
		}
	}
	return true
}

// add applies the changes of a newer layer.
func (l *layer) add(newer *layer) {
	for t := range l.tables {
		newer.tables[t].Scan(func(key string, value []byte) bool {
			l.tables[t].Set(key, value)
			return true
		})
	}
}

// snapshot returns a copy that later changes of l do not affect. No other call may use l in the meantime.
func (l *layer) snapshot() *layer {
	c := &layer{}
	for t := range l.tables {
		c.tables[t] = *l.tables[t].Copy()
	}
	return c
}

// writeTo applies the changes to the file's buckets.
func (l *layer) writeTo(tx *bbolt.Tx) (err error) {
	for t := range l.tables {
		bucket := tx.Bucket(tableBuckets[t])
		l.tables[t].Scan(func(key string, value []byte) bool {
			if value == nil {
				err = bucket.Delete([]byte(key))
			} else {
				err = bucket.Put([]byte(key), value)
			}
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// state is a Store's data at one moment: the file, and above it the layers that it does not contain yet.
type state struct {
	tx     *bbolt.Tx
	layers []*layer // newest first
}

// get returns the value of a key, or nil if the key is missing.
func (s state) get(t table, key []byte) []byte {
	name := string(key)
	for _, l := range s.layers {
		if value, changed := l.tables[t].Get(name); changed {
			return value
		}
	}
	return s.tx.Bucket(tableBuckets[t]).Get(key)
}

// cursor walks the keys of a table in their order.
type cursor struct {
	layers []layerCursor // newest first
	file   *bbolt.Cursor
	key    []byte // the file's next key; nil: none
	value  []byte
}

type layerCursor struct {
	btree.MapIter[string, []byte]
	more bool
}

// seek returns a cursor before the first key that is not less than from.
func (s state) seek(t table, from []byte) *cursor {
	c := &cursor{file: s.tx.Bucket(tableBuckets[t]).Cursor()}
	for _, l := range s.layers {
		if l.tables[t].Len() > 0 {
			at := layerCursor{MapIter: l.tables[t].Iter()}
			at.more = at.Seek(string(from))
			c.layers = append(c.layers, at)
		}
	}
	c.key, c.value = c.file.Seek(from)
	return c
}

// next returns the next key and its value. The key is nil after the last one.
func (c *cursor) next() (key, value []byte) {
	for {
		var least *layerCursor
		for i := range c.layers {
			if l := &c.layers[i]; l.more && (least == nil || l.Key() < least.Key()) {
				least = l // of equal keys, that of the newest layer
			}
		}
		if least == nil || c.key != nil && string(c.key) < least.Key() {
			key, value = c.key, c.value
			if key != nil {
				c.key, c.value = c.file.Next()
			}
			return key, value
		}
		name, value := least.Key(), least.Value()
		for i := range c.layers {
			if l := &c.layers[i]; l.more && l.Key() == name {
				l.more = l.Next()
			}
		}
		if bytes.Equal(c.key, []byte(name)) {
			c.key, c.value = c.file.Next()
		}
		if value != nil {
			return []byte(name), value
		}
	}
}
