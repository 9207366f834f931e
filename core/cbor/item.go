package cbor

import "math"

// Item is a data item: an item that Read has accepted, a part of it, or an item that was written here. A
// zero Item represents a missing item, such as a member that a map does not have.
type Item struct{ raw []byte }

// Pair is a key of a map with its value.
type Pair struct{ Key, Value Item }

// Raw returns the item's original bytes, or nil for a zero Item. They are not a copy.
func (i Item) Raw() []byte { return i.raw }

// Present reports whether the item exists. Null exists.
func (i Item) Present() bool { return len(i.raw) > 0 }

// content returns the head and the bytes after it. ok is false for an item of indefinite length.
func (i Item) content() (h head, content []byte, ok bool) {
	if len(i.raw) == 0 {
		return head{}, nil, false
	}
	h, problem := readHead(i.raw)
	return h, i.raw[h.size:], problem == "" && !h.indefinite
}

// Integer returns an integer of 64 bits. ok is false for larger ones, which CBOR can represent.
func (i Item) Integer() (n int64, ok bool) {
	h, _, ok := i.content()
	if !ok || h.argument > math.MaxInt64 {
		return 0, false
	}
	switch h.major {
	case unsigned:
		return int64(h.argument), true
	case negative:
		return -1 - int64(h.argument), true
	}
	return 0, false
}

// Float returns a float of 32 or 64 bits. ok is false for an integer.
func (i Item) Float() (f float64, ok bool) {
	h, _, ok := i.content()
	switch {
	case !ok || h.major != simple:
	case h.size == 5:
		return float64(math.Float32frombits(uint32(h.argument))), true
	case h.size == 9:
		return math.Float64frombits(h.argument), true
	}
	return 0, false
}

// Bytes returns the content of a byte string. ok is false for a text.
func (i Item) Bytes() (content []byte, ok bool) {
	h, content, ok := i.content()
	if !ok || h.major != byteString {
		return nil, false
	}
	return content, true
}

// Text returns the content of a text. ok is false for a byte string.
func (i Item) Text() (content string, ok bool) {
	h, b, ok := i.content()
	if !ok || h.major != textString {
		return "", false
	}
	return string(b), true
}

// Bool returns the value of an item that is true or false.
func (i Item) Bool() (value, ok bool) {
	value = i.is(simpleTrue)
	return value, value || i.is(simpleFalse)
}

// Null reports whether the item is null. A zero Item is not null.
func (i Item) Null() bool { return i.is(simpleNull) }

// is reports whether the item is a simple value. A float with the same argument is longer.
func (i Item) is(value uint64) bool {
	h, _, ok := i.content()
	return ok && h.major == simple && h.size == 1 && h.argument == value
}

// Tag returns the number and the content of a tagged item.
func (i Item) Tag() (number uint64, content Item, ok bool) {
	h, b, ok := i.content()
	if !ok || h.major != tag {
		return 0, Item{}, false
	}
	return h.argument, Item{b}, true
}

// List returns the elements of an array.
func (i Item) List() (elements []Item, ok bool) {
	h, b, ok := i.content()
	if !ok || h.major != array {
		return nil, false
	}
	elements = make([]Item, h.argument)
	for n := range elements {
		elements[n], b = first(b)
	}
	return elements, true
}

// Pairs returns the pairs of a map in their order.
func (i Item) Pairs() (pairs []Pair, ok bool) {
	h, b, ok := i.content()
	if !ok || h.major != mapping {
		return nil, false
	}
	pairs = make([]Pair, h.argument)
	for n := range pairs {
		pairs[n].Key, b = first(b)
		pairs[n].Value, b = first(b)
	}
	return pairs, true
}

// Member returns the value of a map for a text key. It returns a zero Item if the map has no such key, if
// the value is undefined, or if i is not a map.
func (i Item) Member(name string) Item {
	return i.find(func(key Item) bool {
		text, ok := key.Text()
		return ok && text == name
	})
}

// Label is Member for an integer key.
func (i Item) Label(label int64) Item {
	return i.find(func(key Item) bool {
		n, ok := key.Integer()
		return ok && n == label
	})
}

func (i Item) find(is func(key Item) bool) Item {
	h, b, ok := i.content()
	if !ok || h.major != mapping {
		return Item{}
	}
	for range h.argument {
		var key, value Item
		key, b = first(b)
		value, b = first(b)
		if is(key) && !value.is(simpleUndefined) {
			return value
		}
	}
	return Item{}
}

// first splits the first item off b, which has been checked.
func first(b []byte) (item Item, rest []byte) {
	n := sizeOf(b)
	return Item{b[:n:n]}, b[n:]
}

// sizeOf returns the number of bytes of the first item of b, which has been checked.
func sizeOf(b []byte) (n int) {
	h, _ := readHead(b)
	n = h.size
	left := uint64(0) // items inside
	switch h.major {
	case byteString, textString:
		n += int(h.argument)
	case array:
		left = h.argument
	case mapping:
		left = 2 * h.argument
	case tag:
		left = 1
	}
	for ; left > 0; left-- {
		n += sizeOf(b[n:])
	}
	if h.indefinite {
		for b[n] != stop {
			n += sizeOf(b[n:])
		}
		n++
	}
	return n
}
