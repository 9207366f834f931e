package cursor

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

func TestCursor_End(t *testing.T) {
	for _, c := range []struct {
		name, says string
		read       func(*Cursor) bool // whether it returned zero
	}{
		{"more bytes than there are", "4 bytes are wanted, 3 are left",
			func(c *Cursor) bool { return c.Take(4) == nil }},
		{"a number of bytes that has overflowed", "-1 bytes are wanted, 3 are left",
			func(c *Cursor) bool { return c.Take(-1) == nil }},
		{"a number whose end is missing", "1 bytes are wanted, 0 are left",
			func(c *Cursor) bool { return c.Uint(64) == 0 }},
		{"a signed number whose end is missing", "1 bytes are wanted, 0 are left",
			func(c *Cursor) bool { return c.Int() == 0 }},
		{"a number of too many bits", "a number of more than 14 bits",
			func(c *Cursor) bool { return c.Uint(14) == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Cursor{Left: []byte{0x81, 0x81, 0x81}}
			zero := c.read(r)
			var wrong Malformed
			if !errors.As(r.Err(), &wrong) || wrong.Error() != c.says {
				t.Errorf("%v, want %q", r.Err(), c.says)
			}
			if !zero || r.Left != nil || r.Byte() != 0 || r.Take(1) != nil {
				t.Error("bytes are read after the failure")
			}
			r.Fail(errors.New("another"))
			if r.Err() != error(wrong) {
				t.Errorf("the first failure is lost: %v", r.Err())
			}
		})
	}
}

func TestCursor_Numbers(t *testing.T) {
	for _, n := range []uint64{0, 1, 127, 128, 300, math.MaxUint32, math.MaxUint32 + 1, math.MaxUint64} {
		b := binary.AppendUvarint(nil, n)
		r := &Cursor{Left: append(b, 0xff)}
		if got := r.Uint(64); got != n || r.Err() != nil || len(r.Left) != 1 {
			t.Errorf("%d is read as %d, %v, with %d bytes left", n, got, r.Err(), len(r.Left))
		}
		r = &Cursor{Left: b}
		if got := r.Uint(32); n <= math.MaxUint32 && got != n || (r.Err() == nil) != (n <= math.MaxUint32) {
			t.Errorf("%d in 32 bits is read as %d, %v", n, got, r.Err())
		}
	}
	for n, b := range map[int64]string{0: "\x00", 2: "\x02", -2: "\x7e", 127: "\xff\x00", -127: "\x81\x7f",
		-128: "\x80\x7f", math.MinInt64: "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f"} {
		r := &Cursor{Left: []byte(b)}
		if got := r.Int(); got != n || r.Err() != nil || len(r.Left) != 0 {
			t.Errorf("%x is read as %d, %v, want %d", b, got, r.Err(), n)
		}
	}
}

func TestTake_NoCopy(t *testing.T) {
	message := []byte("abcdef")
	r := &Cursor{Left: message}
	part := r.Take(3)
	if string(part) != "abc" || &part[0] != &message[0] {
		t.Errorf("took %q, a copy: %v", part, &part[0] != &message[0])
	}
	if _ = append(part, 'X'); string(r.Left) != "def" {
		t.Errorf("appending to a part changes the bytes after it: %q", r.Left)
	}
}
