package strictjson

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

const valueBody = `{"text":"a\u00e9","one":1,"half":0.5,"minus":-3,"over":1e309,"yes":true,
	"no":false,"null":null,
	"list":[ 1 , "b",null,[true],{"c":2} ],"none":[ ],"object":{"inner":{"deep":"x"},"null":null},"empty":{}}`

func TestValue(t *testing.T) {
	o, err := Read([]byte(valueBody))
	if err != nil {
		t.Fatal(err)
	}
	type read struct {
		present, text, boolean, integer, number, object, list bool
	}
	for _, c := range []struct {
		name string
		want read
	}{
		{"text", read{present: true, text: true}},
		{"one", read{present: true, integer: true, number: true}},
		{"half", read{present: true, number: true}},
		{"minus", read{present: true, integer: true, number: true}},
		{"over", read{present: true}},
		{"yes", read{present: true, boolean: true}},
		{"no", read{present: true, boolean: true}},
		{"null", read{}},
		{"absent", read{}},
		{"Text", read{}},
		{"list", read{present: true, list: true}},
		{"none", read{present: true, list: true}},
		{"object", read{present: true, object: true}},
		{"empty", read{present: true, object: true}},
	} {
		v := o.Value(c.name)
		got := read{present: v.Present()}
		_, got.text = v.Text()
		_, got.boolean = v.Bool()
		_, got.integer = v.Integer()
		_, got.number = v.Number()
		_, got.object = v.Object()
		_, got.list = v.List()
		if got != c.want {
			t.Errorf("%s is read as %+v, want %+v", c.name, got, c.want)
		}
	}

	if s, _ := o.Value("text").Text(); s != "aé" {
		t.Errorf("the text is %q", s)
	}
	if yes, _ := o.Value("yes").Bool(); !yes {
		t.Error("true is read as false")
	}
	if no, _ := o.Value("no").Bool(); no {
		t.Error("false is read as true")
	}
	if n, _ := o.Value("minus").Integer(); n != -3 {
		t.Errorf("the integer is %d", n)
	}
	if n, _ := o.Value("half").Number(); n != .5 {
		t.Errorf("the number is %v", n)
	}
	inner, _ := o.Value("object").Object()
	deep, _ := inner.Value("inner").Object()
	if s, ok := deep.Value("deep").Text(); !ok || s != "x" {
		t.Errorf("an object in an object has %q, %v", s, ok)
	}
	if !o.Has("null") || o.Has("absent") {
		t.Errorf("Has: null %v, absent %v", o.Has("null"), o.Has("absent"))
	}
}

func TestValueList(t *testing.T) {
	o, err := Read([]byte(valueBody))
	if err != nil {
		t.Fatal(err)
	}
	list, _ := o.Value("list").List()
	var got []string
	for _, v := range list {
		got = append(got, v.JSON())
	}
	if want := []string{"1", `"b"`, "null", "[true]", `{"c":2}`}; !slices.Equal(got, want) {
		t.Errorf("the elements are %q, want %q", got, want)
	}
	if list[2].Present() {
		t.Error("contract 3: an element that is null is present")
	}
	if none, ok := o.Value("none").List(); !ok || len(none) != 0 {
		t.Errorf("an empty list has %d elements, %v", len(none), ok)
	}
}

func TestObjectAll(t *testing.T) {
	o, err := Read([]byte(`{"b":1,"a":null,"n\u0061me":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, v := range o.All() {
		names = append(names, name)
		if (name == "a") == v.Present() {
			t.Errorf("%s: present %v", name, v.Present())
		}
	}
	if !slices.Equal(names, []string{"b", "a", "name"}) {
		t.Errorf("the members are %q", names)
	}
	for name := range o.All() {
		if name != "b" {
			t.Error("it continues after a break")
		}
		break
	}
}

func TestObjectOr(t *testing.T) {
	o, err := Read([]byte(`{"a":1,"b":null}`))
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := Read([]byte(`{"a":2,"b":2,"c":3}`))
	if err != nil {
		t.Fatal(err)
	}
	both := o.Or(defaults)
	for name, want := range map[string]string{"a": "1", "b": "null", "c": "3"} {
		if got := both.Value(name).JSON(); got != want || !both.Has(name) {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if o.Has("c") {
		t.Error("it changes the object that it is called on")
	}
}

// FuzzValue compares the results of Value with encoding/json.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{`1`, `-0.5e3`, `"a\u00e9"`, `true`, `null`, `[1,[2],{"a":null}]`, `{"a":[]}`,
		` [ ] `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		body := append(append([]byte(`{"v":`), raw...), '}')
		o, err := Read(body)
		if err != nil || len(o.members) != 1 {
			return
		}
		v := o.Value("v")
		var got any
		if err := json.Unmarshal([]byte(v.JSON()), &got); err != nil {
			return // a number that is too large
		}
		switch want := got.(type) {
		case nil:
			if v.Present() {
				t.Fatal("null is present")
			}
		case string:
			if s, ok := v.Text(); !ok || s != want {
				t.Fatalf("%s: %q, %v", raw, s, ok)
			}
		case bool:
			if b, ok := v.Bool(); !ok || b != want {
				t.Fatalf("%s: %v, %v", raw, b, ok)
			}
		case float64:
			if n, ok := v.Number(); !ok || n != want {
				t.Fatalf("%s: %v, %v", raw, n, ok)
			}
		case []any:
			list, ok := v.List()
			if !ok || len(list) != len(want) {
				t.Fatalf("%s: %d elements, %v", raw, len(list), ok)
			}
			for i, e := range list {
				var element any
				if json.Unmarshal([]byte(e.JSON()), &element) != nil || !reflect.DeepEqual(element, want[i]) {
					t.Fatalf("%s: element %d is %s", raw, i, e.JSON())
				}
			}
		case map[string]any:
			inner, ok := v.Object()
			if !ok || len(inner.members) != len(want) {
				t.Fatalf("%s: %d members, %v", raw, len(inner.members), ok)
			}
		}
	})
}
