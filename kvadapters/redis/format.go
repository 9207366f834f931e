package redis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// An item is a version, its expiry in milliseconds (0: never), the length of the transaction's id, the id,
// and the value. The commit script reads the id. A task is a version, its due time in milliseconds, and the
// payload.
const (
	version    = 1
	itemHeader = 1 + 8 + 1
	taskHeader = 1 + 8
)

func encodeItem(tx string, expires int64, value []byte) []byte {
	b := make([]byte, 0, itemHeader+len(tx)+len(value))
	b = append(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(expires))
	b = append(b, byte(len(tx)))
	b = append(b, tx...)
	return append(b, value...)
}

func decodeItem(key kv.Key, reply any) (kv.Item, error) {
	b, ok := reply.(string)
	if !ok || len(b) < itemHeader || b[0] != version || len(b) < itemHeader+int(b[9]) {
		return kv.Item{}, damaged("the item %s was written by another program or by a later version", key)
	}
	body := itemHeader + int(b[9])
	item := kv.Item{Key: key, Tx: b[itemHeader:body], Value: []byte(b[body:])}
	if ms := int64(binary.BigEndian.Uint64([]byte(b[1:9]))); ms != 0 {
		item.Expires = time.UnixMilli(ms).UTC()
	}
	return item, nil
}

func encodeTask(due int64, payload []byte) []byte {
	b := make([]byte, 0, taskHeader+len(payload))
	b = append(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(due))
	return append(b, payload...)
}

func decodeTask(id string, reply any) (kv.Task, error) {
	b, ok := reply.(string)
	if !ok || len(b) < taskHeader || b[0] != version {
		return kv.Task{}, damaged("the task %q was written by another program or by a later version", id)
	}
	return kv.Task{
		ID:      id,
		Due:     time.UnixMilli(int64(binary.BigEndian.Uint64([]byte(b[1:9])))).UTC(),
		Payload: []byte(b[taskHeader:]),
	}, nil
}

// exact is the largest integer that a score, or a number in Lua, represents exactly.
const exact = 1<<53 - 1

// floor and ceil return whole milliseconds. A time out of a score's range becomes the nearest time in it.
func floor(t time.Time) int64 {
	seconds := t.Unix()
	switch {
	case seconds > exact/1000-1:
		return exact
	case seconds < -exact/1000+1:
		return -exact
	}
	return seconds*1000 + int64(t.Nanosecond())/1e6
}

func ceil(t time.Time) int64 {
	ms := floor(t)
	if t.Nanosecond()%1e6 != 0 && ms < exact {
		ms++
	}
	return ms
}

// expiry returns the time in milliseconds, or 0 for never. An expiry before 1970 becomes one just after
// 1970: both are long past, and Redis accepts the later one as a TTL.
func expiry(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(2, ceil(t))
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("redis: %w: %s; find out whether another program writes under this prefix or the "+
		"server evicts keys", kv.ErrUnavailable, fmt.Sprintf(format, args...))
}
