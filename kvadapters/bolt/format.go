package bolt

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// The file has five buckets. A partition's name is followed by a zero byte, which it cannot contain itself.
// Times are nanoseconds since 1970, big endian with the sign bit flipped, so that they sort as bytes.
//
//	verge   "format"              → "1"; "2": the latest commits are in the log
//	        "opens"               → how often the file was opened, 8 bytes
//	        "log"                 → id of the log (16), sequence of its last record in this file (8)
//	        "taken"               → of a backup: when it was made, 8 bytes
//	items   partition 0 name      → expires (8), length of Tx (1), Tx, value
//	expiry  expires, items key    →
//	tasks   partition 0 ID        → due (8), payload
//	due     partition 0 due, ID   →
//
// An item that never expires has zero for expires, which no time encodes to, and no entry in expiry.
//
// A Store in use has format 2, so that a version of Verge without a log rejects the file after a crash. Close
// makes it format 1 again, in which "log" is the id of the removed log.
const (
	format       = "1"
	formatLogged = "2"
)

var (
	bucketVerge  = []byte("verge")
	bucketItems  = []byte("items")
	bucketExpiry = []byte("expiry")
	bucketTasks  = []byte("tasks")
	bucketDue    = []byte("due")

	keyFormat = []byte("format")
	keyOpens  = []byte("opens")
	keyTaken  = []byte("taken")
	keyLog    = []byte("log")
)

var (
	minTime = time.Unix(0, math.MinInt64+1)
	maxTime = time.Unix(0, math.MaxInt64)
)

// sortable encodes t. It replaces times before 1677 or after 2262 by that limit.
func sortable(t time.Time) uint64 {
	switch {
	case t.Before(minTime):
		t = minTime
	case t.After(maxTime):
		t = maxTime
	}
	return uint64(t.UnixNano()) ^ 1<<63
}

func fromSortable(u uint64) time.Time { return time.Unix(0, int64(u^1<<63)).UTC() }

func partitionKey(p kv.Partition) []byte {
	return append(append(make([]byte, 0, len(p)+1+8+kv.MaxName), p...), 0)
}

func itemKey(p kv.Partition, name string) []byte { return append(partitionKey(p), name...) }
func taskKey(p kv.Partition, id string) []byte   { return append(partitionKey(p), id...) }

func dueKey(p kv.Partition, due uint64, id string) []byte {
	return append(binary.BigEndian.AppendUint64(partitionKey(p), due), id...)
}

func expiryKey(expires uint64, item []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(item)), expires), item...)
}

// record is a stored item; its slices belong to the bolt transaction.
type record struct {
	expires uint64 // zero: never
	tx      []byte
	value   []byte
}

func encodeItem(expires uint64, tx string, value []byte) []byte {
	b := make([]byte, 0, 9+len(tx)+len(value))
	b = binary.BigEndian.AppendUint64(b, expires)
	b = append(b, byte(len(tx)))
	b = append(b, tx...)
	return append(b, value...)
}

// decodeItem panics on a record that encodeItem did not write, as bbolt does on a damaged page. Callers
// recover from both.
func decodeItem(b []byte) record {
	n := 9 + int(b[8])
	return record{expires: binary.BigEndian.Uint64(b), tx: b[9:n], value: b[n:]}
}

func getItem(st state, key []byte, now time.Time) (record, bool) {
	v := st.get(itemTable, key)
	if v == nil {
		return record{}, false
	}
	rec := decodeItem(v)
	return rec, !rec.expired(now)
}

func (r record) expired(now time.Time) bool {
	return r.expires != 0 && r.expires <= sortable(now)
}

func (r record) export(key kv.Key) kv.Item {
	it := kv.Item{Key: key, Value: append([]byte{}, r.value...), Tx: string(r.tx)}
	if r.expires != 0 {
		it.Expires = fromSortable(r.expires)
	}
	return it
}

func encodeTask(due uint64, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(payload)), due), payload...)
}

func decodeTask(b []byte) (due uint64, payload []byte) {
	return binary.BigEndian.Uint64(b), b[8:]
}
