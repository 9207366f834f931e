package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// TestReadForeign: members that Verge does not use may be there twice, and those that it uses may not.
func TestReadForeign(t *testing.T) {
	o, err := ReadForeign([]byte(`{"x":1,"x":2,"a":"b","y":{"z":1,"z":2},"x":null,"t":"1","t":"1",` +
		`"n":1,"n":2,"o":{"p":1,"p":2,"q":[{"r":1,"r":2,"s":true,"s":true,"v":3}]},"o2":{},"o2":{},` +
		`"l":[],"l":[],"z":null,"z":null,"\u0061b":1,"ab":2,"last":"c"}`))
	if err != nil {
		t.Fatal(err)
	}
	if text, present, ok := o.String("a"); text != "b" || !present || !ok {
		t.Error("contract 22: a member before a repeated one is not read")
	}
	if text, _ := o.Value("last").Text(); text != "c" {
		t.Error("contract 22: a member after a repeated one is not read")
	}
	for _, name := range []string{"x", "t", "n", "o2", "l", "z", "ab"} {
		if !o.IsRepeated("a", name) || !o.Has(name) || !o.Value(name).Present() || hasType(o, name) {
			t.Errorf("contract 22: %q occurs twice and is read", name)
		}
	}
	if o.IsRepeated("a", "last", "none") {
		t.Error("contract 22: a member that occurs once counts as repeated")
	}
	if o, err := ReadForeign([]byte("\ufeff {\"a\":1}")); err != nil || o.Raw("a") != "1" {
		t.Errorf("contract 22: an object behind a byte order mark: %v, %v", o, err)
	}
	inner, _, ok := o.Object("o")
	list, okList := inner.Value("q").List()
	if !ok || !okList || !inner.IsRepeated("p") || len(list) != 1 {
		t.Fatalf("contract 22: in an object: %v, %v, %v", ok, okList, list)
	}
	element, ok := list[0].Object()
	if n, okN := element.Value("v").Integer(); !ok || !okN || n != 3 || hasType(element, "r") ||
		hasType(element, "s") {
		t.Error("contract 22: in an object of a list")
	}
	for _, body := range []string{``, `[]`, `{"a":1}{}`, `{"a":01}`, "{\"a\":\"\xff\"}", "\ufeff\ufeff{}", " \ufeff{}",
		"\ufeff", `{"a":"\ud800"}`,
		`{"a":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `}`} {
		if _, err := ReadForeign([]byte(body)); err == nil {
			t.Errorf("contract 22: %q is read", body)
		}
	}
}

// hasType reports whether a member is of any type.
func hasType(o Object, name string) bool {
	v := o.Value(name)
	_, text := v.Text()
	_, boolean := v.Bool()
	_, integer := v.Integer()
	_, number := v.Number()
	_, object := v.Object()
	_, list := v.List()
	_, _, text2 := o.String(name)
	_, _, boolean2 := o.Bool(name)
	_, _, integer2 := o.Integer(name)
	_, _, number2 := o.Number(name)
	_, _, object2 := o.Object(name)
	return text || boolean || integer || number || object || list || text2 || boolean2 || integer2 ||
		number2 ||
		object2
}

// TestReadForeignMany: the same among so many members that their names are in a map.
func TestReadForeignMany(t *testing.T) {
	body := "{"
	for n := range 3 * manyMembers {
		body += `"m` + strconv.Itoa(n) + `":` + strconv.Itoa(n) + `,`
	}
	o, err := ReadForeign([]byte(body + `"m1":0,"m40":0,"m40":0}`))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 * manyMembers {
		name := "m" + strconv.Itoa(n)
		got, _, ok := o.Integer(name)
		if twice := n == 1 || n == 40; ok == twice || !twice && got != int64(n) ||
			o.IsRepeated(name) != twice {
			t.Errorf("contract 22: %s is %d, %v", name, got, ok)
		}
	}
}

// FuzzReadForeign: an object without a repeated name is read as Read reads it, and every other accepted
// object is JSON.
func FuzzReadForeign(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"a":2}`, `{"a":{"b":[1,{"c":null,"c":"d"}]}}`, `{"a":tru}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		strict, strictErr := Read(body)
		loose, err := ReadForeign(body)
		text := bytes.TrimPrefix(body, []byte(byteOrderMark))
		if strictErr == nil && err != nil || err == nil && !json.Valid(text) {
			t.Fatalf("%q: %v, Read: %v", body, err, strictErr)
		}
		if strictErr != nil {
			return
		}
		for _, name := range strict.Names() {
			if strict.Raw(name) != loose.Raw(name) {
				t.Fatalf("%q: %s is %q, Read: %q", body, name, loose.Raw(name), strict.Raw(name))
			}
		}
	})
}
