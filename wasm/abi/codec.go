package abi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/verge-id/verge/wasm/cursor"
)

// ErrMalformed is returned for bytes that are not a message of this version.
var ErrMalformed = errors.New("abi: malformed message")

// writer appends the primitives of ABI.md to b.
type writer struct{ b []byte }

func (w *writer) u8(v uint8)   { w.b = append(w.b, v) }
func (w *writer) u32(v uint32) { w.b = binary.LittleEndian.AppendUint32(w.b, v) }
func (w *writer) i64(v int64)  { w.b = binary.LittleEndian.AppendUint64(w.b, uint64(v)) }

func (w *writer) bytes(v []byte) {
	w.u32(uint32(len(v)))
	w.b = append(w.b, v...)
}

func (w *writer) str(v string) {
	w.u32(uint32(len(v)))
	w.b = append(w.b, v...)
}

// noTime is the seconds of the zero time.
const noTime = math.MinInt64

func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.i64(noTime)
		w.u32(0)
		return
	}
	w.i64(t.Unix())
	w.u32(uint32(t.Nanosecond()))
}

func list[T any](w *writer, all []T, one func(T)) {
	w.u32(uint32(len(all)))
	for _, v := range all {
		one(v)
	}
}

// reader reads the primitives of a message.
type reader struct {
	cursor.Cursor

	// the message again, from its first text; texts are parts of it, so they need no separate memory
	all string
}

func read(b []byte) reader { return reader{Cursor: cursor.Cursor{Left: b}} }

// failed returns the error of the message so far.
func (r *reader) failed() error {
	if err := r.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

func (r *reader) u32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) i64() int64 {
	if b := r.Take(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// count reads a length. Each of the following elements has at least one byte, so a false length reserves no
// memory.
func (r *reader) count() int {
	n := r.u32()
	if int64(n) > int64(len(r.Left)) {
		r.Failf("a length of %d with %d bytes left", n, len(r.Left))
		return 0
	}
	return int(n)
}

// small reads a number that must fit into an int on every platform.
func (r *reader) small() int {
	n := r.u32()
	if n > math.MaxInt32 {
		r.Failf("%d is too large a number", n)
		return 0
	}
	return int(n)
}

// bytes returns a part of the message, or nil if it is empty.
func (r *reader) bytes() []byte {
	if b := r.Take(r.count()); len(b) > 0 {
		return b
	}
	return nil
}

func (r *reader) str() string {
	n := r.count()
	if n == 0 {
		return ""
	}
	if r.all == "" {
		r.all = string(r.Left)
	}
	at := len(r.all) - len(r.Left)
	r.Left = r.Left[n:]
	return r.all[at : at+n]
}

func (r *reader) time() time.Time {
	s, ns := r.i64(), r.u32()
	if s == noTime && ns == 0 {
		return time.Time{}
	}
	t := time.Unix(s, int64(ns)).UTC()
	// The zero time has only one form. A time that Unix cannot return is rejected.
	if ns >= 1e9 || t.IsZero() || t.Unix() != s {
		r.Failf("no time: %d s and %d ns", s, ns)
		return time.Time{}
	}
	return t
}

// reserved is the number of members of a list for which memory is reserved at first, because a list can
// declare more members than it has.
const reserved = 16

func readList[T any](r *reader, one func() T) []T {
	n := r.count()
	if n == 0 {
		return nil
	}
	all := make([]T, 0, min(n, reserved))
	for range n {
		v := one()
		if r.Err() != nil {
			return nil
		}
		all = append(all, v)
	}
	return all
}

// end returns the error. Remaining bytes are an error too.
func (r *reader) end() error {
	if len(r.Left) > 0 {
		r.Failf("%d bytes left over", len(r.Left))
	}
	return r.failed()
}
