package cbor

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

type vector struct {
	Name          string `json:"name"`
	Hex           string `json:"hex"`
	Any           bool   `json:"any"`
	Diagnostic    string `json:"diagnostic"`
	Canonical     *bool  `json:"canonical"`
	Problem       string `json:"problem"`
	Offset        int    `json:"offset"`
	CanonicalOnly bool   `json:"canonical_only"`
	AcceptedByAny bool   `json:"accepted_by_any"`
}

func (v vector) input(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func vectors(t testing.TB) []vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About   []string `json:"about"`
		Vectors []vector `json:"vectors"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

// diagnostic returns an item in diagnostic notation, using its methods.
func diagnostic(i Item) string {
	var parts []string
	if n, ok := i.Integer(); ok {
		return fmt.Sprint(n)
	} else if b, ok := i.Bytes(); ok {
		return fmt.Sprintf("h'%x'", b)
	} else if s, ok := i.Text(); ok {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	} else if v, ok := i.Bool(); ok {
		return fmt.Sprint(v)
	} else if i.Null() {
		return "null"
	} else if number, content, ok := i.Tag(); ok {
		return fmt.Sprintf("%d(%s)", number, diagnostic(content))
	} else if list, ok := i.List(); ok {
		for _, e := range list {
			parts = append(parts, diagnostic(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	} else if pairs, ok := i.Pairs(); ok {
		for _, p := range pairs {
			parts = append(parts, diagnostic(p.Key)+": "+diagnostic(p.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	if h, problem := readHead(i.Raw()); problem != "" || h.major > negative {
		return fmt.Sprintf("%x", i.Raw()) // only with Options.Any
	}
	return "an integer beyond 64 bits"
}

// again writes an item again, using its methods.
func again(i Item) Item {
	var parts []Item
	if n, ok := i.Integer(); ok {
		return Integer(n)
	} else if b, ok := i.Bytes(); ok {
		return Bytes(b)
	} else if s, ok := i.Text(); ok {
		return Text(s)
	} else if v, ok := i.Bool(); ok {
		return Bool(v)
	} else if i.Null() {
		return Null()
	} else if number, content, ok := i.Tag(); ok {
		return Tagged(number, again(content))
	} else if list, ok := i.List(); ok {
		for _, e := range list {
			parts = append(parts, again(e))
		}
		return Array(parts...)
	} else if pairs, ok := i.Pairs(); ok {
		for n := range pairs {
			pairs[n] = Pair{again(pairs[n].Key), again(pairs[n].Value)}
		}
		return Map(pairs...)
	}
	return i // an integer beyond 64 bits, or an item that only Options.Any accepts
}

func TestVectors(t *testing.T) {
	rejected := 0
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			b := v.input(t)
			item, err := Read(b, Options{Any: v.Any, Canonical: v.CanonicalOnly})
			if v.Problem != "" {
				rejected++
				var syntax *syntaxError
				if !errors.As(err, &syntax) || syntax.Problem != v.Problem || syntax.Offset != v.Offset {
					t.Fatalf("got %v, want %q at byte %d", err, v.Problem, v.Offset)
				}
				if _, err := Read(b, Options{Any: v.Any}); (err == nil) != v.CanonicalOnly {
					t.Errorf("without Canonical: %v", err)
				}
				any, err := Read(b, Options{Any: true})
				if (err == nil) != (v.AcceptedByAny || v.CanonicalOnly) {
					t.Errorf("with Any: %v", err)
				} else if err == nil && !bytes.Equal(any.Raw(), b) {
					t.Errorf("with Any, Raw is %x, want %x", any.Raw(), b)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := diagnostic(item); got != v.Diagnostic {
				t.Errorf("read %s, want %s", got, v.Diagnostic)
			}
			if !bytes.Equal(item.Raw(), b) {
				t.Errorf("Raw is %x, want %x", item.Raw(), b)
			}
			canonical := v.Canonical == nil || *v.Canonical
			if _, err := Read(b, Options{Any: v.Any, Canonical: true}); (err == nil) != canonical {
				t.Errorf("with Canonical: %v, but canonical is %v", err, canonical)
			}
			if got := again(item).Raw(); bytes.Equal(got, b) != canonical {
				t.Errorf("written again it is %x", got)
			}
		})
	}
	if rejected < 80 {
		t.Errorf("%d vectors are rejected; there are more", rejected)
	}
}

// The caller checks the bytes after the first item.
func TestReadFirst(t *testing.T) {
	b := []byte{0x82, 1, 2, 0xff, 0xff}
	item, rest, err := ReadFirst(b, Options{})
	if err != nil || diagnostic(item) != "[1, 2]" || !bytes.Equal(rest, b[3:]) {
		t.Fatalf("got %s, % x, %v", diagnostic(item), rest, err)
	}
	if _, _, err := ReadFirst(b[:2], Options{}); err == nil {
		t.Error("it accepted a truncated array")
	}
}

func TestRead_ItemLimit(t *testing.T) {
	full := make([]Item, maxItems-2) // the arrays around them count as well
	for i := range full {
		full[i] = Bool(true)
	}
	inner := Array(full...)
	if _, err := Read(Array(inner).Raw(), Options{}); err != nil {
		t.Errorf("%d items: %v", maxItems, err)
	}
	_, err := Read(Array(inner, Null()).Raw(), Options{})
	if err == nil || !strings.HasSuffix(err.Error(), "too many items") {
		t.Errorf("%d items: %v", maxItems+1, err)
	}
}

func TestRead_SizeLimit(t *testing.T) {
	full := Bytes(make([]byte, MaxSize-3)).Raw()
	if _, err := Read(full, Options{}); err != nil {
		t.Errorf("%d bytes: %v", len(full), err)
	}
	if _, err := Read(append(full, 0), Options{}); err == nil ||
		!strings.HasSuffix(err.Error(), "too large") {
		t.Errorf("%d bytes: %v", len(full)+1, err)
	}
}

func TestRead_OtherLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		b       []byte
		o       Options
		problem string // "": it is accepted
	}{
		{"more bytes than MaxSize", Bytes(make([]byte, MaxSize)).Raw(), Options{Size: MaxSize + 5}, ""},
		{"one byte more than Size", Bytes(make([]byte, MaxSize)).Raw(), Options{Size: MaxSize + 4},
			"too large"},
		{"as many items as Items", Array(Null(), Null()).Raw(), Options{Items: 3}, ""},
		{"an item too many", Array(Null(), Null(), Null()).Raw(), Options{Items: 3}, "too many items"},
	} {
		_, err := Read(c.b, c.o)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, c.problem) || (got == "") != (c.problem == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.problem)
		}
	}
}

// A hostile input must not make the search for a duplicate key slow, or pass it.
func TestRead_ManyKeys(t *testing.T) {
	for _, n := range []int{manyPairs - 1, manyPairs, manyPairs + 1, 300} {
		var pairs []Pair
		for i := range n {
			pairs = append(pairs, Pair{Integer(int64(i)), Null()})
		}
		whole := Map(pairs...)
		if item, err := Read(whole.Raw(), Options{Canonical: true}); err != nil ||
			!item.Label(int64(n-1)).Null() {
			t.Errorf("%d keys: %v", n, err)
		}
		for i := range n - 1 {
			twice := slices.Clone(pairs)
			twice[n-1] = twice[i]
			// The same head, and unsorted, so that Map would reject it.
			b := whole.Raw()[:len(whole.Raw())-len(pairs[n-1].Key.Raw())-1]
			b = slices.Concat(b, twice[i].Key.Raw(), Null().Raw())
			if _, err := Read(b, Options{}); err == nil || !strings.Contains(err.Error(), "before") {
				t.Fatalf("%d keys, key %d twice: %v", n, i, err)
			}
		}
	}
}

func TestItem_Float(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []byte
		want float64
		ok   bool
	}{
		"32 bits":          {[]byte{0xfa, 0x47, 0xc3, 0x50, 0}, 100000, true},
		"64 bits":          {[]byte{0xfb, 0x3f, 0xf1, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a}, 1.1, true},
		"16 bits":          {[]byte{0xf9, 0x3c, 0}, 0, false},
		"an integer":       {[]byte{0x1a, 0, 0, 0, 1}, 0, false},
		"a simple value":   {[]byte{0xf8, 255}, 0, false},
		"true":             {[]byte{0xf5}, 0, false},
		"a tag of a float": {[]byte{0xc1, 0xfa, 0x47, 0xc3, 0x50, 0}, 0, false},
	} {
		i, err := Read(c.raw, Options{Any: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := i.Float(); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	if _, ok := (Item{}).Float(); ok {
		t.Error("a missing item is a float")
	}
}

// No method but Float accepts an item that needs Options.Any. The parts around it are readable.
func TestRead_Any(t *testing.T) {
	for name, raw := range map[string][]byte{
		"a float of 16 bits with the argument of true": {0xf9, 0, simpleTrue},
		"a float of 32 bits with the argument of null": {0xfa, 0, 0, 0, simpleNull},
		"a float of 64 bits":                           {0xfb, 0x3f, 0xf1, 0, 0, 0, 0, 0, 0},
		"simple(16)":                                   {0xf0},
		"simple(255)":                                  {0xf8, 255},
		"undefined":                                    {0xf7},
		"bytes of indefinite length":                   {0x5f, 0x41, 1, 0x40, 0xff},
		"a text of indefinite length":                  {0x7f, 0x61, 'a', 0x60, 0xff},
		"an array of indefinite length":                {0x9f, 1, 0x9f, 0xff, 0xff},
		"a map of indefinite length":                   {0xbf, 0x61, 'a', 0xbf, 0xff, 1, 1, 0xff},
	} {
		i, err := Read(raw, Options{Any: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := diagnostic(i); got != fmt.Sprintf("%x", raw) {
			t.Errorf("%s is read as %s", name, got)
		}
		if i.Member("a").Present() || i.Label(1).Present() {
			t.Errorf("%s has a member", name)
		}
		around := slices.Concat([]byte{0xa3, 0x61, 'b'}, raw, []byte{0x61, 'c', 0x07, 0x42, 0, 0}, raw)
		if i, err = Read(around, Options{Any: true}); err != nil {
			t.Errorf("%s in a map: %v", name, err)
		} else if n, ok := i.Member("c").Integer(); !ok || n != 7 {
			t.Errorf("%s hides the member after it", name)
		}
		if _, err = Read(around, Options{}); err == nil {
			t.Errorf("%s is accepted without Any", name)
		}
	}
}

// A member whose value is undefined counts as missing, and one whose value is null does not.
func TestMember_Undefined(t *testing.T) {
	i, err := Read([]byte{0xa3, 0x61, 'a', 0xf7, 1, 0xf7, 0x61, 'b', 0xf6}, Options{Any: true})
	if err != nil || i.Member("a").Present() || i.Label(1).Present() || !i.Member("b").Null() {
		t.Errorf("%s, %v", diagnostic(i), err)
	}
}

// No item is accepted as another type, and a missing one has no type.
func TestItem_Types(t *testing.T) {
	const nothing, integer, isBytes, text, boolean, null, tagged, list, pairs = -1, 0, 1, 2, 3, 4, 5, 6, 7
	for _, c := range []struct {
		name string
		item Item
		is   int
	}{
		{"none", Item{}, nothing},
		{"an integer", Integer(1), integer},
		{"a negative integer", Integer(-1), integer},
		{"bytes", Bytes([]byte("a")), isBytes},
		{"a text", Text("a"), text},
		{"true", Bool(true), boolean},
		{"null", Null(), null},
		{"a tagged integer", Tagged(24, Integer(1)), tagged},
		{"tagged bytes", Tagged(24, Bytes(nil)), tagged},
		{"an array", Array(Integer(1)), list},
		{"a map", Map(Pair{Text("a"), Integer(1)}), pairs},
	} {
		var got [8]bool
		_, got[integer] = c.item.Integer()
		_, got[isBytes] = c.item.Bytes()
		_, got[text] = c.item.Text()
		_, got[boolean] = c.item.Bool()
		got[null] = c.item.Null()
		_, _, got[tagged] = c.item.Tag()
		_, got[list] = c.item.List()
		_, got[pairs] = c.item.Pairs()
		for i, ok := range got {
			if ok != (i == c.is) {
				t.Errorf("%s: as type %d: %v", c.name, i, ok)
			}
		}
		if c.item.Present() != (c.is != nothing) {
			t.Errorf("%s: Present is %v", c.name, c.item.Present())
		}
		if c.is != pairs && (c.item.Member("a").Present() || c.item.Label(1).Present()) {
			t.Errorf("%s: it has a member", c.name)
		}
	}
}

func TestItem_Members(t *testing.T) {
	m := Map(
		Pair{Text("1"), Text("text")}, Pair{Integer(1), Text("one")}, Pair{Integer(-1), Text("minus one")},
		Pair{Text("inner"), Map(Pair{Text("x"), Bool(false)})}, Pair{Text("null"), Null()},
	)
	for _, c := range []struct{ name, want, got string }{
		{"a text", `"text"`, diagnostic(m.Member("1"))},
		{"a label", `"one"`, diagnostic(m.Label(1))},
		{"a negative label", `"minus one"`, diagnostic(m.Label(-1))},
		{"a member of a member", "false", diagnostic(m.Member("inner").Member("x"))},
		{"null", "null", diagnostic(m.Member("null"))},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
	// Only the inner map has the key "x".
	inner := m.Member("inner")
	for _, absent := range []Item{m.Member("x"), m.Member(""), m.Label(0), m.Label(2), inner.Label(1)} {
		if absent.Present() {
			t.Errorf("a missing key has the value %s", diagnostic(absent))
		}
	}
}

func TestMap_Deterministic(t *testing.T) {
	a, b, c := Pair{Integer(24), Null()}, Pair{Integer(-1), Null()}, Pair{Text("a"), Null()}
	want := []byte{0xa3, 0x18, 0x18, 0xf6, 0x20, 0xf6, 0x61, 'a', 0xf6}
	given := []Pair{c, b, a}
	if got := Map(given...).Raw(); !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
	if !bytes.Equal(given[0].Key.Raw(), c.Key.Raw()) {
		t.Error("Map changed the order of its arguments")
	}
	for _, n := range []int64{
		0, 23, 24, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64,
	} {
		for _, n := range []int64{n, -n, -1 - n} {
			item, err := Read(Integer(n).Raw(), Options{Canonical: true})
			if got, ok := item.Integer(); err != nil || !ok || got != n {
				t.Errorf("%d: got %d, %v, %v", n, got, ok, err)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Map wrote a duplicate key")
		}
	}()
	Map(a, b, Pair{Integer(24), Bool(true)})
}

// A part of an item has the original bytes, and appending to it does not change the bytes after it.
func TestRaw_OriginalBytes(t *testing.T) {
	sent := []byte{0xa2, 0x18, 0x01, 0x98, 0x01, 0x1b, 0, 0, 0, 0, 0, 0, 0, 7, 0x02, 0x41, 0xaa}
	item, err := Read(sent, Options{})
	if err != nil {
		t.Fatal(err)
	}
	part := item.Label(1)
	if !bytes.Equal(part.Raw(), sent[3:14]) {
		t.Fatalf("got % x, want % x", part.Raw(), sent[3:14])
	}
	if got := Tagged(24, Bytes(part.Raw())).Raw(); !bytes.Equal(got[3:], part.Raw()) || got[0] != 0xd8 {
		t.Errorf("in a new item: % x", got)
	}
	if got := Array(part, part).Raw(); !bytes.Equal(got[1:], slices.Concat(part.Raw(), part.Raw())) {
		t.Errorf("in a new array: % x", got)
	}
	_ = append(part.Raw(), 0xff)
	if n, ok := item.Label(2).Bytes(); !ok || !bytes.Equal(n, []byte{0xaa}) {
		t.Error("appending to a part changed the whole")
	}
}

// FuzzRead checks that nothing panics, that accepted input is read to its end, and that the canonical form
// is exactly the written one.
func FuzzRead(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.input(f), v.Any)
	}
	f.Fuzz(func(t *testing.T, b []byte, anything bool) {
		o := Options{Any: anything}
		item, rest, err := ReadFirst(b, o)
		if err != nil {
			var syntax *syntaxError
			if !errors.As(err, &syntax) || syntax.Offset > len(b) || syntax.Problem == "" {
				t.Fatalf("error %v", err)
			}
			return
		}
		if !bytes.Equal(slices.Concat(item.Raw(), rest), b) {
			t.Fatal("item and rest are not the input")
		}
		_ = diagnostic(item)
		written := again(item)
		if anything {
			return // the writers here have no such form
		}
		o.Canonical = true
		_, err = Read(item.Raw(), o)
		if bytes.Equal(written.Raw(), item.Raw()) != (err == nil) {
			t.Fatalf("% x is written as % x, but Canonical says %v", item.Raw(), written.Raw(), err)
		}
		once, err := Read(written.Raw(), o)
		if err != nil {
			t.Fatalf("the written item is rejected: %v", err)
		}
		if got := again(once); !bytes.Equal(got.Raw(), written.Raw()) {
			t.Fatalf("% x is written as % x", written.Raw(), got.Raw())
		}
	})
}
