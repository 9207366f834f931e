package strictjson

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
)

// Writer writes one JSON object, member by member. The result equals, byte for
// byte, the output of encoding/json for a struct with these members. Use it for the
// few small objects that nearly every request writes, because reflection costs a
// WASM guest as much as the rest of such a response. Use encoding/json for all else.
//
// Names are constants of the caller, of letters and underscores. Values may be
// anything.
type Writer struct{ b []byte }

// NewWriter returns a writer with room for so many bytes. It grows if it
// needs more.
func NewWriter(room int) Writer { return Writer{make([]byte, 0, room)} }

// End returns the object. The writer must not be used afterwards.
func (w *Writer) End() []byte {
	if len(w.b) == 0 {
		w.b = append(w.b, '{')
	}
	return append(w.b, '}')
}

func (w *Writer) name(name string) {
	before := byte(',')
	if len(w.b) == 0 {
		before = '{'
	}
	w.b = append(w.b, before, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

// Text writes a string.
func (w *Writer) Text(name, value string) {
	w.name(name)
	if !plain(value) {
		escaped, err := json.Marshal(value)
		if err != nil {
			panic(err) // every string marshals
		}
		w.b = append(w.b, escaped...)
		return
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, value...)
	w.b = append(w.b, '"')
}

// Optional writes a string, or null for none.
func (w *Writer) Optional(name string, value *string) {
	if value == nil {
		w.Null(name)
		return
	}
	w.Text(name, *value)
}

// Base64 writes bytes as encoding/json does: null for nil, else a string of
// padded base64.
func (w *Writer) Base64(name string, value []byte) {
	if value == nil {
		w.Null(name)
		return
	}
	w.name(name)
	w.b = append(w.b, '"')
	w.b = base64.StdEncoding.AppendEncode(w.b, value)
	w.b = append(w.b, '"')
}

// Number writes an integer.
func (w *Writer) Number(name string, value int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, value, 10)
}

// Bool writes true or false.
func (w *Writer) Bool(name string, value bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, value)
}

// Null writes null.
func (w *Writer) Null(name string) {
	w.name(name)
	w.b = append(w.b, "null"...)
}

// escaped is 1 for each byte for which encoding/json may write something other
// than the byte itself.
var escaped = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c < ' ', c >= 0x80, c == '"', c == '\\', c == '<', c == '>', c == '&':
			t[c] = 1
		}
	}
	return t
}()

// plain reports whether a string needs no escapes in JSON.
func plain(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		if escaped[s[0]]|escaped[s[1]]|escaped[s[2]]|escaped[s[3]]|
			escaped[s[4]]|escaped[s[5]]|escaped[s[6]]|escaped[s[7]] != 0 {
			return false
		}
	}
	for i := range len(s) {
		if escaped[s[i]] != 0 {
			return false
		}
	}
	return true
}
