package strictjson

import (
	"iter"
	"slices"
	"strconv"
)

// Value is a value inside an object that Read has read. A zero Value stands for a member that is absent
// or null (contract 3).
type Value struct {
	raw     string
	foreign bool // as in Object
}

// Value returns the member of exactly that name.
func (o Object) Value(name string) Value { return Value{o.raw(name), o.foreign} }

// Has reports whether there is a field of that name, even if it is null.
func (o Object) Has(name string) bool { return place(o.members, name) >= 0 }

// All yields the members in their order. A member that is null has a zero Value.
func (o Object) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, m := range o.members {
			if !yield(m.name, valueOf(m.raw, o.foreign)) {
				return
			}
		}
	}
}

// Or returns the fields of o, followed by the fields of defaults that o does not have. A null field in o
// counts as present.
func (o Object) Or(defaults Object) Object {
	both := Object{slices.Clone(o.members), o.foreign}
	for _, m := range defaults.members {
		if !o.Has(m.name) {
			both.members = append(both.members, m)
		}
	}
	return both
}

func valueOf(raw string, foreign bool) Value {
	if raw == "null" {
		return Value{}
	}
	return Value{raw, foreign}
}

// Present reports whether there is a value that is not null.
func (v Value) Present() bool { return v.raw != "" }

// JSON returns the value's text, "null" for a zero Value. It is for values of Read.
func (v Value) JSON() string {
	if v.raw == "" {
		return "null"
	}
	return v.raw
}

// Text returns a value that is a string.
func (v Value) Text() (text string, ok bool) {
	if v.raw == "" || v.raw[0] != '"' {
		return "", false
	}
	return unescape(v.raw[1 : len(v.raw)-1]), true
}

// Bool returns a value that is true or false.
func (v Value) Bool() (value, ok bool) { return v.raw == "true", v.raw == "true" || v.raw == "false" }

// Integer returns a value that is an integer of 64 bits, without fraction and exponent.
func (v Value) Integer() (n int64, ok bool) {
	n, err := strconv.ParseInt(v.raw, 10, 64)
	return n, err == nil
}

// Number returns a value that is a number and not too large for a float64.
func (v Value) Number() (n float64, ok bool) {
	if v.raw == "" || v.raw[0] != '-' && !isDigit(v.raw[0]) {
		return 0, false
	}
	n, err := strconv.ParseFloat(v.raw, 64)
	if err != nil {
		return 0, false
	}
	return n, true
}

// Object returns a value that is an object.
func (v Value) Object() (o Object, ok bool) {
	if v.raw == "" || v.raw[0] != '{' {
		return Object{}, false
	}
	s := scanner{text: v.raw, foreign: v.foreign}
	members, err := s.object(1)
	return Object{members, v.foreign}, err == nil
}

// List returns the elements of a value that is an array.
func (v Value) List() (elements []Value, ok bool) {
	if v.raw == "" || v.raw[0] != '[' {
		return nil, false
	}
	s := scanner{text: v.raw, at: 1, foreign: v.foreign}
	if s.peek() == ']' {
		return nil, true
	}
	for {
		s.peek()
		start := s.at
		if err := s.value(1); err != nil {
			return nil, false
		}
		elements = append(elements, valueOf(s.text[start:s.at], v.foreign))
		if more, err := s.more(']'); err != nil || !more {
			return elements, err == nil
		}
	}
}
