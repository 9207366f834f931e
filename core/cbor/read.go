package cbor

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Default limits of the input.
const (
	MaxSize = 64 << 10 // bytes of the input

	maxItems = 4096 // of all levels; limits the time for a hostile input
	maxDepth = 16   // levels; the item itself is the first
)

// manyPairs is the number of pairs above which a map's keys are stored in a Go map. With fewer pairs, a
// linear search is faster. With more, a hostile input could make the search take quadratic time.
const manyPairs = 16

// Options sets the accepted input of Read. The zero value is for general use.
type Options struct {
	// Canonical rejects input that is not in the canonical form of CTAP2, which WebAuthn requires for keys:
	// heads are as short as possible, and the keys of a map are sorted.
	Canonical bool

	// Any accepts every well-formed item of RFC 8949: tags, floats, simple values, indefinite lengths, and
	// keys of every type. It is for input with parts that the caller ignores, such as documents to which
	// issuers add their own elements. The methods of Item stay strict.
	Any bool

	// Size and Items, if not 0, replace MaxSize and the limit of 4,096 items. Signed lists are larger than
	// the messages of browsers and wallets.
	Size, Items int
}

// size returns the maximum number of bytes.
func (o Options) size() int { return cmp.Or(o.Size, MaxSize) }

// syntaxError is the place and the reason of a rejected input. It does not quote the input, which may contain
// personal data.
type syntaxError struct {
	Offset  int // in bytes
	Problem string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("cbor: not acceptable at byte %d: %s", e.Offset, e.Problem)
}

// Read parses an input that must be exactly one item. An error is a *syntaxError.
//
// The item is a span of b. The caller must not modify b while the item is in use.
func Read(b []byte, o Options) (Item, error) {
	item, rest, err := ReadFirst(b, o)
	if err != nil {
		return Item{}, err
	}
	if len(rest) > 0 {
		return Item{}, &syntaxError{len(b) - len(rest), "data behind the item"}
	}
	return item, nil
}

// ReadFirst is Read for an input with bytes after the item. rest contains these bytes.
func ReadFirst(b []byte, o Options) (item Item, rest []byte, err error) {
	if size := o.size(); len(b) > size {
		return Item{}, nil, &syntaxError{size, "too large"}
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
	simpleFalse     = 20
	simpleTrue      = 21
	simpleNull      = 22
	simpleUndefined = 23
)

// infoIndefinite, in the head of bytes, a text, an array or a map, means that a stop ends the item.
const (
	infoIndefinite = 31
	stop           = simple<<5 | infoIndefinite
)

// head is the beginning of an item.
type head struct {
	major      byte
	argument   uint64 // the value, the length, the number of the tag
	size       int    // in bytes
	indefinite bool   // the length is unknown
}

// uncommon returns the reason why a head with this first byte requires Options.Any, or "" if it does not.
func uncommon(first byte) string {
	info := first & 31
	switch major := first >> 5; {
	case info == infoIndefinite:
		return "an indefinite length"
	case major == tag:
		return "a tag"
	case major == simple && info >= 25 && info <= 27:
		return "a float"
	case major == simple && (info < simpleFalse || info > simpleNull) && info < 28:
		return "a simple value other than false, true and null"
	}
	return ""
}

// readHead returns the head of b. problem is the reason why it is invalid, or "".
func readHead(b []byte) (h head, problem string) {
	const cut = "the input ends inside an item"
	if len(b) == 0 {
		return head{}, cut
	}
	h = head{major: b[0] >> 5, size: 1}
	info := b[0] & 31
	switch {
	case info < 24:
		h.argument = uint64(info)
		return h, ""
	case info < 28:
		h.size += 1 << (info - 24)
	case info == infoIndefinite && h.major >= byteString && h.major <= mapping:
		h.indefinite = true
		return h, ""
	default:
		return head{}, "a reserved head"
	}
	if len(b) < h.size {
		return head{}, cut
	}
	switch info {
	case 24:
		h.argument = uint64(b[1])
		if h.major == simple && h.argument < 32 {
			return head{}, "a reserved head"
		}
	case 25:
		h.argument = uint64(binary.BigEndian.Uint16(b[1:]))
	case 26:
		h.argument = uint64(binary.BigEndian.Uint32(b[1:]))
	case 27:
		h.argument = binary.BigEndian.Uint64(b[1:])
	}
	return h, ""
}

// shortest reports whether no shorter head is equivalent. The canonical form has no indefinite lengths.
func (h head) shortest() bool { return !h.indefinite && h.size == headSize(h.argument) }

// checker checks b from front to back.
type checker struct {
	b     []byte
	at    int
	items int // begun so far
	Options
}

func (c *checker) fail(problem string) *syntaxError { return &syntaxError{c.at, problem} }

// head reads the head at the current position.
func (c *checker) head() (h head, problem string) {
	if c.at < len(c.b) && !c.Any {
		problem = uncommon(c.b[c.at])
	}
	if problem == "" {
		h, problem = readHead(c.b[c.at:])
	}
	return h, problem
}

// item checks the item at the current position and level, and moves after it.
func (c *checker) item(depth int) error {
	if depth > maxDepth {
		return c.fail("nested too deep")
	}
	if c.items++; c.items > cmp.Or(c.Items, maxItems) {
		return c.fail("too many items")
	}
	h, problem := c.head()
	if problem != "" {
		return c.fail(problem)
	}
	if c.Canonical && !h.shortest() {
		return c.fail("a head that is longer than needed")
	}
	left := uint64(len(c.b) - c.at - h.size)
	switch {
	case h.major == byteString || h.major == textString:
		return c.content(h, left, depth)
	case h.major == array && h.argument > left: // each element has at least one byte
		return c.fail("more elements than the input can hold")
	case h.major == mapping && h.argument > left/2:
		return c.fail("more pairs than the input can hold")
	}
	c.at += h.size
	switch h.major {
	case array:
		for range c.upTo(h) {
			if err := c.item(depth + 1); err != nil {
				return err
			}
		}
	case mapping:
		return c.pairs(h, depth)
	case tag:
		return c.item(depth + 1)
	}
	return nil
}

// upTo yields the index of each element or pair of an item, up to its stop if it has one.
func (c *checker) upTo(h head) func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for n := uint64(0); h.indefinite || n < h.argument; n++ {
			if h.indefinite && c.at < len(c.b) && c.b[c.at] == stop {
				c.at++
				return
			}
			if !yield(n) {
				return
			}
		}
	}
}

// content checks bytes or a text. With an indefinite length, it consists of parts with known lengths.
func (c *checker) content(h head, left uint64, depth int) error {
	if h.indefinite {
		c.at += h.size
		for range c.upTo(h) {
			if piece, _ := readHead(c.b[c.at:]); piece.major != h.major || piece.indefinite {
				return c.fail("a piece of another type")
			}
			if err := c.item(depth + 1); err != nil {
				return err
			}
		}
		return nil
	}
	if h.argument > left {
		return c.fail("longer than the input")
	}
	end := c.at + h.size + int(h.argument)
	if h.major == textString && !utf8.Valid(c.b[c.at+h.size:end]) {
		return c.fail("invalid UTF-8")
	}
	c.at = end
	return nil
}

// key is the key of a map. The encodings of one integer are the same key.
type key struct {
	head
	content string
}

// pairs checks the pairs of a map.
func (c *checker) pairs(m head, depth int) error {
	keys := make([]key, 0, min(m.argument, manyPairs))
	var seen map[key]bool // nil until there are manyPairs
	var last []byte
	for range c.upTo(m) {
		start := c.at
		h, problem := c.head()
		if problem == "" && !c.Any && h.major != unsigned && h.major != negative && h.major != textString {
			problem = "a key that is neither an integer nor a text"
		}
		if problem != "" {
			return c.fail(problem)
		}
		if err := c.item(depth + 1); err != nil {
			return err
		}
		raw := c.b[start:c.at]
		k := key{head: h, content: string(raw[h.size:])}
		if h.major != simple { // the size of a float is part of its value
			k.size = 0
		}
		if seen[k] || seen == nil && slices.Contains(keys, k) {
			return &syntaxError{start, "a key that was there before"}
		}
		if c.Canonical && bytes.Compare(last, raw) > 0 {
			return &syntaxError{start, "a key that stands behind a greater one"}
		}
		last = raw
		if seen == nil && len(keys) == manyPairs {
			seen = make(map[key]bool, min(m.argument, maxItems/2))
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
