package cbor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Limits of what is read.
const (
	MaxSize = 64 << 10 // bytes of the input

	maxItems = 4096 // of all levels; it limits the time that a hostile input takes
	maxDepth = 16   // levels; the item itself is the first
	maxPairs = 256  // of one map
)

// manyPairs is the number of pairs from which on a map's keys are kept in a Go map. With fewer pairs a search
// through all is quicker. With more, a hostile input could make the search take quadratic time.
const manyPairs = 16

// Options says what Read accepts. The zero value is for general use.
type Options struct {
	// Canonical refuses what is not in the canonical form of CTAP2, which WebAuthn demands of keys: heads
	// are as short as possible, and the keys of a map stand in order.
	Canonical bool

	// Tags are the tags that may occur. Read does not look at what a tag says of its content.
	Tags []uint64
}

// SyntaxError says where and why an input is not acceptable. It quotes nothing of the input, which may hold
// personal data.
type SyntaxError struct {
	Offset  int // in bytes
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("cbor: not acceptable at byte %d: %s", e.Offset, e.Problem)
}

// Read reads an input that must be exactly one item. An error is a *SyntaxError.
//
// The item is a span of b. The caller must not change b while the item is in use.
func Read(b []byte, o Options) (Item, error) {
	item, rest, err := ReadFirst(b, o)
	if err != nil {
		return Item{}, err
	}
	if len(rest) > 0 {
		return Item{}, &SyntaxError{len(b) - len(rest), "data behind the item"}
	}
	return item, nil
}

// ReadFirst is Read for an input that may go on behind the item. rest is what stands there.
func ReadFirst(b []byte, o Options) (item Item, rest []byte, err error) {
	if len(b) > MaxSize {
		return Item{}, nil, &SyntaxError{MaxSize, "too large"}
	}
	c := checker{b: b, Options: o}
	if err := c.item(1); err != nil {
		return Item{}, nil, err
	}
	return Item{b[:c.at:c.at]}, b[c.at:], nil
}

// The major types of RFC 8949, section 3.1.
const (
	unsigned = iota
	negative
	byteString
	textString
	array
	mapping
	tag
	simple
)

// Simple values.
const (
	simpleFalse = 20
	simpleTrue  = 21
	simpleNull  = 22
)

// head is what an item begins with.
type head struct {
	major    byte
	argument uint64 // the value, the length, the number of the tag
	size     int    // in bytes
}

// problem says what is wrong with a head, "" for nothing.
func readHead(b []byte) (h head, problem string) {
	const cut = "the input ends inside an item"
	if len(b) == 0 {
		return head{}, cut
	}
	h = head{major: b[0] >> 5, size: 1}
	info := b[0] & 31
	switch {
	case h.major == simple && info >= 25 && info <= 27:
		return head{}, "a float"
	case h.major == simple && (info < simpleFalse || info > simpleNull) && info < 28:
		return head{}, "a simple value other than false, true and null"
	case info < 24:
		h.argument = uint64(info)
		return h, ""
	case info < 28:
		h.size += 1 << (info - 24)
	case info == 31:
		return head{}, "an indefinite length"
	default:
		return head{}, "a reserved head"
	}
	if len(b) < h.size {
		return head{}, cut
	}
	switch info {
	case 24:
		h.argument = uint64(b[1])
	case 25:
		h.argument = uint64(binary.BigEndian.Uint16(b[1:]))
	case 26:
		h.argument = uint64(binary.BigEndian.Uint32(b[1:]))
	case 27:
		h.argument = binary.BigEndian.Uint64(b[1:])
	}
	return h, ""
}

// shortest reports whether no shorter head says the same.
func (h head) shortest() bool { return h.size == headSize(h.argument) }

// checker reads b from front to back.
type checker struct {
	b     []byte
	at    int
	items int // begun so far
	Options
}

func (c *checker) fail(problem string) *SyntaxError { return &SyntaxError{c.at, problem} }

// item checks the item at this place, which is at a level, and moves behind it.
func (c *checker) item(depth int) error {
	if depth > maxDepth {
		return c.fail("nested too deep")
	}
	if c.items++; c.items > maxItems {
		return c.fail("too many items")
	}
	h, problem := readHead(c.b[c.at:])
	if problem != "" {
		return c.fail(problem)
	}
	if c.Canonical && !h.shortest() {
		return c.fail("a head that is longer than needed")
	}
	left := uint64(len(c.b) - c.at - h.size)
	switch h.major {
	case byteString, textString:
		if h.argument > left {
			return c.fail("longer than the input")
		}
		end := c.at + h.size + int(h.argument)
		if h.major == textString && !utf8.Valid(c.b[c.at+h.size:end]) {
			return c.fail("invalid UTF-8")
		}
		c.at = end
	case array:
		if h.argument > left { // each element has at least one byte
			return c.fail("more elements than the input can hold")
		}
		c.at += h.size
		for range h.argument {
			if err := c.item(depth + 1); err != nil {
				return err
			}
		}
	case mapping:
		if h.argument > left/2 {
			return c.fail("more pairs than the input can hold")
		}
		if h.argument > maxPairs {
			return c.fail("a map of too many pairs")
		}
		c.at += h.size
		return c.pairs(int(h.argument), depth)
	case tag:
		if !slices.Contains(c.Tags, h.argument) {
			return c.fail("a tag that is not expected here")
		}
		c.at += h.size
		return c.item(depth + 1)
	default:
		c.at += h.size
	}
	return nil
}

// key is the key of a map, whatever head it was written with.
type key struct {
	head
	text string
}

// pairs checks so many pairs of a map.
func (c *checker) pairs(n, depth int) error {
	keys := make([]key, 0, min(n, manyPairs))
	var seen map[key]bool // nil until there are manyPairs
	var last []byte
	for range n {
		start := c.at
		h, problem := readHead(c.b[start:])
		if problem == "" && h.major != unsigned && h.major != negative && h.major != textString {
			problem = "a key that is neither an integer nor a text"
		}
		if problem != "" {
			return c.fail(problem)
		}
		if err := c.item(depth + 1); err != nil {
			return err
		}
		raw := c.b[start:c.at]
		k := key{head: h, text: string(raw[h.size:])}
		k.size = 0
		if seen[k] || seen == nil && slices.Contains(keys, k) {
			return &SyntaxError{start, "a key that was there before"}
		}
		if c.Canonical && bytes.Compare(last, raw) > 0 {
			return &SyntaxError{start, "a key that stands behind a greater one"}
		}
		last = raw
		if seen == nil && len(keys) == manyPairs {
			seen = make(map[key]bool, n)
			for _, k := range keys {
				seen[k] = true
			}
		}
		if seen != nil {
			seen[k] = true
		} else {
			keys = append(keys, k)
		}
		if err := c.item(depth + 1); err != nil {
			return err
		}
	}
	return nil
}
