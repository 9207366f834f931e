// Package cursor reads bytes and numbers from the front of a message. It is the base of the readers of the
// wire format and of WebAssembly modules.
//
// A message may come from an untrusted module. So a [Cursor] never reads beyond its end, regardless of the
// lengths in it.
package cursor

import "fmt"

// Cursor is a position in a message. Left has the rest. After the first failure, Left is empty, and all
// results of the Cursor are zero.
type Cursor struct {
	Left []byte
	err  error
}

// Malformed is the reason why a message is not in its format.
type Malformed string

func (m Malformed) Error() string { return string(m) }

// Err returns the first failure, or nil.
func (c *Cursor) Err() error { return c.err }

// Fail ends the reading with err, unless it has failed before.
func (c *Cursor) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.Left = nil
}

// Failf is Fail with a Malformed.
func (c *Cursor) Failf(format string, args ...any) { c.Fail(Malformed(fmt.Sprintf(format, args...))) }

// Take returns the next n bytes without a copy, or nil if there are fewer.
func (c *Cursor) Take(n int) []byte {
	if uint(n) > uint(len(c.Left)) {
		c.Failf("%d bytes are wanted, %d are left", n, len(c.Left))
		return nil
	}
	v := c.Left[:n:n]
	c.Left = c.Left[n:]
	return v
}

// Byte returns the next byte.
func (c *Cursor) Byte() byte {
	if b := c.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint returns the next unsigned number in LEB128, as in modules, with at most that many bits.
func (c *Cursor) Uint(bits int) uint64 {
	var v uint64
	for shift := 0; shift < bits; shift += 7 {
		b := c.Byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if c.err != nil || bits < 64 && v>>bits != 0 {
				break
			}
			return v
		}
	}
	c.Failf("a number of more than %d bits", bits)
	return 0
}

// Int returns the next signed number of at most 64 bits in LEB128.
func (c *Cursor) Int() int64 {
	var v int64
	for shift := 0; shift < 64; {
		b := c.Byte()
		v |= int64(b&0x7f) << shift
		shift += 7
		if b < 0x80 {
			if c.err != nil {
				break
			}
			if shift < 64 && b&0x40 != 0 {
				v |= -1 << shift
			}
			return v
		}
	}
	c.Failf("a number of more than 64 bits")
	return 0
}
