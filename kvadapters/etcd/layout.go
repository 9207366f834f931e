package etcd

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// format is the value of the key "format" under the prefix.
const format = "1"

// minute is the step of the entry by which the sweep finds a counter. So a counter that is charged all
// the time rewrites its entry once a minute at most.
const minute = time.Minute

var (
	minTime = time.Unix(0, math.MinInt64+1)
	maxTime = time.Unix(0, math.MaxInt64-1)
)

// never is the expiry of an item without one: later than any time.
const never = math.MaxUint64

// sortable encodes t. It moves a time before 1677 or after 2262 to that limit.
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

// layout makes the keys. A space separates their parts: no partition, name or ID contains one, and an
// operator can read the keys in etcdctl.
type layout struct{ prefix string }

func (l layout) format() string { return l.prefix + "format" }
func (l layout) item(p kv.Partition, name string) string {
	return l.prefix + "i " + string(p) + " " + name
}
func (l layout) meter(p kv.Partition, name string) string {
	return l.prefix + "m " + string(p) + " " + name
}
func (l layout) task(p kv.Partition, id string) string { return l.prefix + "t " + string(p) + " " + id }
func (l layout) lease(p kv.Partition, id string) string {
	return l.prefix + "l " + string(p) + " " + id
}

func (l layout) due(p kv.Partition, ready uint64, id string) string {
	return l.dueFrom(p, ready) + " " + id
}

// dueFrom sorts before the entries of all tasks of the partition that are ready at that instant or
// later, and after all others.
func (l layout) dueFrom(p kv.Partition, ready uint64) string {
	return fmt.Sprintf("%sd %s %016x", l.prefix, p, ready)
}

// dueEnd sorts after all entries of the partition.
func (l layout) dueEnd(p kv.Partition) string { return l.prefix + "d " + string(p) + " g" }

// splitDue takes apart an entry of the partition.
func (l layout) splitDue(p kv.Partition, key string) (ready uint64, id string, err error) {
	rest, ok := strings.CutPrefix(key, l.prefix+"d "+string(p)+" ")
	if !ok || len(rest) < 18 || rest[16] != ' ' {
		return 0, "", damaged(key, "is no entry of a task")
	}
	ready, ok = hex16(rest[:16])
	if !ok {
		return 0, "", damaged(key, "is no entry of a task")
	}
	return ready, rest[17:], nil
}

// expiry returns the entry by which the sweep finds the item or counter of that key.
func (l layout) expiry(at uint64, key string) string {
	return l.expiryFrom(at) + " " + strings.TrimPrefix(key, l.prefix)
}

func (l layout) expiryFrom(at uint64) string { return fmt.Sprintf("%sx %016x", l.prefix, at) }

// splitExpiry returns the key of the item or counter that the entry is for.
func (l layout) splitExpiry(entry string) (string, error) {
	rest, ok := strings.CutPrefix(entry, l.prefix+"x ")
	if !ok || len(rest) < 20 || rest[16] != ' ' || rest[17] != 'i' && rest[17] != 'm' || rest[18] != ' ' {
		return "", damaged(entry, "is no entry of what expires")
	}
	return l.prefix + rest[17:], nil
}

func hex16(s string) (uint64, bool) {
	var b [8]byte
	if len(s) != 16 {
		return 0, false
	}
	if _, err := hex.Decode(b[:], []byte(s)); err != nil {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[:]), true
}

// record is a stored item:
//
//	length of Tx (1)  Tx  expires (8)  0x01  value
//
// Tx and expiry come first, so that etcd can decide a Check by comparing bytes. The item was written by
// Tx and has not expired at now exactly if its record lies between aliveAfter(Tx, now) and lastOf(Tx).
type record struct {
	tx      string
	expires uint64
	value   []byte
}

func encodeItem(tx string, expires uint64, value []byte) string {
	b := make([]byte, 0, 10+len(tx)+len(value))
	b = append(b, byte(len(tx)))
	b = append(b, tx...)
	b = binary.BigEndian.AppendUint64(b, expires)
	b = append(b, 1)
	return string(append(b, value...))
}

func bound(tx string, expires uint64) string {
	b := append([]byte{byte(len(tx))}, tx...)
	return string(append(binary.BigEndian.AppendUint64(b, expires), 2))
}

// aliveAfter is greater than every record of tx that expires at now or before, and less than every
// record that expires later.
func aliveAfter(tx string, now uint64) string { return bound(tx, now) }

// lastOf is greater than every record of tx.
func lastOf(tx string) string { return bound(tx, never) }

func decodeItem(b []byte) (record, bool) {
	if len(b) == 0 {
		return record{}, false
	}
	n := 1 + int(b[0])
	if len(b) < n+9 || b[n+8] != 1 {
		return record{}, false
	}
	return record{tx: string(b[1:n]), expires: binary.BigEndian.Uint64(b[n:]), value: b[n+9:]}, true
}

func (r record) expired(now uint64) bool { return r.expires <= now }

func (r record) export(key kv.Key) kv.Item {
	it := kv.Item{Key: key, Value: append([]byte{}, r.value...), Tx: r.tx}
	if r.expires != never {
		it.Expires = fromSortable(r.expires)
	}
	return it
}

func encodeTask(due uint64, payload []byte) string {
	return string(append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(payload)), due), payload...))
}

func decodeTask(b []byte) (due uint64, payload []byte, ok bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(b), b[8:], true
}

// newLease returns a lease that begins with the instant when it ends. That tells where the entry of its
// task is, so the holder finishes the task without reading first.
func newLease(ends uint64, claim string, n int) string {
	return fmt.Sprintf("%016x-%s-%d", ends, claim, n)
}

func leaseEnds(lease string) (uint64, bool) {
	if len(lease) < 17 || lease[16] != '-' {
		return 0, false
	}
	ready, ok := hex16(lease[:16])
	// Accept only one encoding: an upper-case lease names another entry's key.
	return ready, ok && fmt.Sprintf("%016x", ready) == lease[:16]
}

func encodeCounter(tat uint64) string {
	return string(binary.BigEndian.AppendUint64(nil, tat))
}

func decodeCounter(b []byte) (uint64, bool) {
	if len(b) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(b), true
}

// counterExpiry returns the end of the minute in which the counter is back at rest.
func counterExpiry(tat uint64) uint64 {
	return sortable(fromSortable(tat).Truncate(minute).Add(minute))
}
