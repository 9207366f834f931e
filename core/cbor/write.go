package cbor

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// These functions write an item in one form: heads as short as possible, and the keys of a map sorted. This
// is the canonical form of CTAP2 and the deterministic one of RFC 8949, section 4.2. Items that Read
// returned are written unchanged.

// Integer writes an integer.
func Integer(n int64) Item {
	if n < 0 {
		return Item{appendHead(nil, negative, uint64(-1-n))}
	}
	return Item{appendHead(nil, unsigned, uint64(n))}
}

// Bytes writes a byte string.
func Bytes(b []byte) Item { return Item{append(appendHead(nil, byteString, uint64(len(b))), b...)} }

// Text writes a text, which must be valid UTF-8.
func Text(s string) Item { return Item{append(appendHead(nil, textString, uint64(len(s))), s...)} }

// Bool writes true or false.
func Bool(value bool) Item {
	if value {
		return Item{appendHead(nil, simple, simpleTrue)}
	}
	return Item{appendHead(nil, simple, simpleFalse)}
}

// Null writes null.
func Null() Item { return Item{appendHead(nil, simple, simpleNull)} }

// Tagged writes an item with a tag.
func Tagged(number uint64, content Item) Item {
	return Item{append(appendHead(nil, tag, number), content.raw...)}
}

// Array writes an array.
func Array(elements ...Item) Item {
	b := appendHead(nil, array, uint64(len(elements)))
	for _, e := range elements {
		b = append(b, e.raw...)
	}
	return Item{b}
}

// Map writes a map with its pairs sorted. It panics on a duplicate key.
func Map(pairs ...Pair) Item {
	pairs = slices.Clone(pairs)
	slices.SortFunc(pairs, func(a, b Pair) int { return bytes.Compare(a.Key.raw, b.Key.raw) })
	b := appendHead(nil, mapping, uint64(len(pairs)))
	for n, p := range pairs {
		if n > 0 && bytes.Equal(pairs[n-1].Key.raw, p.Key.raw) {
			panic("cbor: a map to write has a key twice")
		}
		b = append(append(b, p.Key.raw...), p.Value.raw...)
	}
	return Item{b}
}

// headSize returns the size of the shortest head with an argument.
func headSize(argument uint64) int {
	switch {
	case argument < 24:
		return 1
	case argument < 1<<8:
		return 2
	case argument < 1<<16:
		return 3
	case argument < 1<<32:
		return 5
	}
	return 9
}

func appendHead(b []byte, major byte, argument uint64) []byte {
	major <<= 5
	switch headSize(argument) {
	case 1:
		return append(b, major|byte(argument))
	case 2:
		return append(b, major|24, byte(argument))
	case 3:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(argument))
	case 5:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(argument))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), argument)
}
