package strictjson

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how many levels of objects and arrays a body may have. The body
// itself is the first level.
const maxDepth = 16

// manyMembers is the number of members from which on an object's names are kept
// in a map. With fewer members a search through all is quicker. With more, a
// hostile body could make the search take quadratic time.
const manyMembers = 16

// Object is a JSON object that Read or ReadForeign has read. The zero value has no members.
type Object struct {
	members []member
	foreign bool // ReadForeign has read it
}

type member struct {
	name string // unescaped
	raw  string // the value's text, which is valid JSON, or repeated
}

// repeated is the text of a member that a foreign object has more than once. It is no JSON, so it is a value
// of no type, and the reader of the member rejects it.
const repeated = "!"

// SyntaxError is the position and the reason why a body is not one strict JSON object. It contains no part of
// the body, which may hold a secret.
type SyntaxError struct {
	Offset  int // in bytes
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("body is not acceptable JSON at byte %d: %s", e.Offset, e.Problem)
}

// Read reads a body that must be exactly one JSON object (contract 3).
//
// It is stricter than encoding/json, so that no two readers interpret a body differently. These are errors of
// type *SyntaxError: invalid UTF-8, an escape of half a surrogate pair, a name that occurs twice in one
// object (at any depth, even if the two are escaped differently), and more than 16 levels. encoding/json
// accepts every body that Read accepts, and reads the same.
func Read(body []byte) (Object, error) { return readObject(body, false) }

// ReadOptional is Read, except that an empty body is an object without members.
func ReadOptional(body []byte) (Object, error) {
	if len(body) == 0 {
		return Object{}, nil
	}
	return Read(body)
}

// byteOrderMark is the one of UTF-8.
const byteOrderMark = "\ufeff"

// ReadForeign is Read for a message of a provider, a wallet or a browser. It may begin with a byte order
// mark, which most readers of JSON ignore (RFC 8259, 8.1), and may have members that Verge does not use. A
// name may occur more than once, at any depth. That member is present, and its value is of no type: no method
// of Object or Value returns it, and those that return ok return false.
func ReadForeign(body []byte) (Object, error) { return readObject(body, true) }

func readObject(body []byte, foreign bool) (Object, error) {
	s := scanner{text: string(body), foreign: foreign}
	if !utf8.ValidString(s.text) {
		return Object{}, &SyntaxError{firstInvalid(s.text), "invalid UTF-8"}
	}
	switch marked := strings.HasPrefix(s.text, byteOrderMark); {
	case marked && foreign:
		s.at = len(byteOrderMark)
	case marked:
		return Object{}, s.fail("unexpected byte order mark")
	}
	if s.peek() != '{' && s.at == len(s.text) {
		return Object{}, s.fail("empty body; expected a JSON object")
	}
	if s.peek() != '{' {
		return Object{}, s.fail("expected a JSON object")
	}
	members, err := s.object(1)
	if err != nil {
		return Object{}, err
	}
	if s.peek(); s.at < len(s.text) {
		return Object{}, s.fail("unexpected data after the object")
	}
	return Object{members, foreign}, nil
}

// IsRepeated reports whether a foreign object has one of the members more than once.
func (o Object) IsRepeated(names ...string) bool {
	for _, name := range names {
		if o.raw(name) == repeated {
			return true
		}
	}
	return false
}

// raw returns the text of a field's value, or "" if the field is absent or null. A null counts as absent only
// here: an object with a duplicate name is rejected, even if one of the values is null.
func (o Object) raw(name string) string {
	for _, m := range o.members {
		if m.name == name && m.raw != "null" {
			return m.raw
		}
	}
	return ""
}

// scanner reads text, which is valid UTF-8, from front to back.
type scanner struct {
	text    string
	at      int
	foreign bool // a name may occur twice
}

func (s *scanner) fail(problem string) *SyntaxError { return &SyntaxError{s.at, problem} }

// peek skips white space and returns the byte behind it, 0 at the end. A NUL in
// the text is an error wherever peek is used, so it need not differ from the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '"':
		return s.quoted()
	case c == '{':
		_, err := s.object(depth + 1)
		return err
	case c == '[':
		return s.array(depth + 1)
	case c == '-' || isDigit(c):
		return s.number()
	}
	for _, literal := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(s.text[s.at:], literal) {
			s.at += len(literal)
			return nil
		}
	}
	return s.fail("expected a value")
}

// object reads from '{' to '}'.
func (s *scanner) object(depth int) ([]member, error) {
	if depth > maxDepth {
		return nil, s.fail("more than 16 levels")
	}
	s.at++
	if s.peek() == '}' {
		s.at++
		return nil, nil
	}
	members := make([]member, 0, 8)
	var seen map[string]int // places in members; nil until there are manyMembers
	for {
		if s.peek() != '"' {
			return nil, s.fail("expected a field name in double quotes")
		}
		start := s.at
		if err := s.quoted(); err != nil {
			return nil, err
		}
		name := unescape(s.text[start+1 : s.at-1])
		before, isThere := seen[name]
		if seen == nil {
			before = place(members, name)
			isThere = before >= 0
		}
		if isThere && !s.foreign {
			return nil, &SyntaxError{start, "duplicate field"}
		}

		if s.peek() != ':' {
			return nil, s.fail("expected a colon")
		}
		s.at++
		s.peek()
		start = s.at
		if err := s.value(depth); err != nil {
			return nil, err
		}
		if isThere {
			members[before].raw = repeated
		} else if members = append(members, member{name, s.text[start:s.at]}); seen != nil {
			seen[name] = len(members) - 1
		} else if len(members) == manyMembers {
			seen = make(map[string]int, 4*manyMembers)
			for n, m := range members {
				seen[m.name] = n
			}
		}

		if more, err := s.more('}'); err != nil || !more {
			return members, err
		}
	}
}

// place returns where the member of that name is, or -1.
func place(members []member, name string) int {
	return slices.IndexFunc(members, func(m member) bool { return m.name == name })
}

// array reads from '[' to ']'.
func (s *scanner) array(depth int) error {
	if depth > maxDepth {
		return s.fail("more than 16 levels")
	}
	s.at++
	if s.peek() == ']' {
		s.at++
		return nil
	}
	for {
		if err := s.value(depth); err != nil {
			return err
		}
		if more, err := s.more(']'); err != nil || !more {
			return err
		}
	}
}

// more reads the comma or the closing bracket after a member or an element.
func (s *scanner) more(closing byte) (bool, error) {
	switch s.peek() {
	case ',':
		s.at++
		return true, nil
	case closing:
		s.at++
		return false, nil
	}
	return false, s.fail("expected a comma or a closing bracket")
}

// quoted reads a string from quote to quote and leaves it escaped.
func (s *scanner) quoted() error {
	s.at++
	for s.at += ordinary(s.text[s.at:]); s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c < ' ':
			return s.fail("control character in a string")
		case c == '\\':
			_, n := escape(s.text[s.at:])
			if n == 0 {
				return s.fail("invalid escape, or half of a surrogate pair")
			}
			s.at += n - 1
		}
	}
	return s.fail("string without a closing quote")
}

// ordinary returns the number of bytes at the start of a text that certainly need no escape in a string. It
// checks eight at a time, because each iteration has a cost in a WASM guest.
func ordinary(text string) (n int) {
	for ; len(text) >= 8; text = text[8:] {
		if special[text[0]]|special[text[1]]|special[text[2]]|special[text[3]]|
			special[text[4]]|special[text[5]]|special[text[6]]|special[text[7]] != 0 {
			break
		}
		n += 8
	}
	return n
}

// special is 1 for each byte that does not stand for itself in a string.
var special = func() (t [256]uint8) {
	for c := range ' ' {
		t[c] = 1
	}
	t['"'], t['\\'] = 1, 1
	return t
}()

// number reads a number of JSON's grammar, which has no leading zero or plus.
func (s *scanner) number() error {
	if s.text[s.at] == '-' {
		s.at++
	}
	leadingZero := s.next() == '0'
	if n := s.digits(); n == 0 || n > 1 && leadingZero {
		return s.fail("invalid number")
	}
	if s.next() == '.' {
		s.at++
		if s.digits() == 0 {
			return s.fail("invalid number")
		}
	}
	if c := s.next(); c == 'e' || c == 'E' {
		s.at++
		if c := s.next(); c == '+' || c == '-' {
			s.at++
		}
		if s.digits() == 0 {
			return s.fail("invalid number")
		}
	}
	return nil
}

// next returns the byte at this place, 0 at the end.
func (s *scanner) next() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) digits() (n int) {
	for ; isDigit(s.next()); n++ {
		s.at++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// unescape returns the text of a string that quoted has accepted.
func unescape(raw string) string {
	i := strings.IndexByte(raw, '\\')
	if i < 0 {
		return raw
	}
	var b strings.Builder
	b.Grow(len(raw))
	for ; i >= 0; i = strings.IndexByte(raw, '\\') {
		r, n := escape(raw[i:])
		b.WriteString(raw[:i])
		b.WriteRune(r)
		raw = raw[i+n:]
	}
	b.WriteString(raw)
	return b.String()
}

// escape decodes the escape at the beginning of text and returns its length, 0 if
// the escape is invalid. The two halves of a surrogate pair are one escape.
func escape(text string) (r rune, n int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch c := text[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	r, ok := escapedUnit(text)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, ok := escapedUnit(text[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// escapedUnit decodes the \uXXXX at the beginning of text.
func escapedUnit(text string) (r rune, ok bool) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, false
	}
	for _, c := range []byte(text[2:6]) {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func firstInvalid(text string) int {
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") {
			return i
		}
	}
	return len(text)
}
