package strictjson

import (
	"math"
	"slices"
	"testing"
)

const objectBody = `{"text":"1","null":null,"yes":true,"no":false,"one":1,"half":0.5,"tiny":-1e-3,
	"huge":1e308,"over":1e309,"list":[1],"object":{"a":{"b":[true]},"n\u0061me":2},"empty":{}}`

func readTestObject(t *testing.T) Object {
	t.Helper()
	o, err := Read([]byte(objectBody))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestObjectNumber(t *testing.T) {
	o := readTestObject(t)
	for _, c := range []struct {
		name        string
		want        float64
		present, ok bool
	}{
		{"one", 1, true, true},
		{"half", .5, true, true},
		{"tiny", -.001, true, true},
		{"huge", 1e308, true, true},
		{"absent", 0, false, true},
		{"null", 0, false, true},
		{"over", 0, true, false},
		{"text", 0, true, false},
		{"yes", 0, true, false},
		{"list", 0, true, false},
		{"object", 0, true, false},
	} {
		value, present, ok := o.Number(c.name)
		if value != c.want || present != c.present || ok != c.ok || math.IsInf(value, 0) {
			t.Errorf("%s: got %v, %v, %v; want %v, %v, %v", c.name, value, present, ok, c.want, c.present,
				c.ok)
		}
	}
}

func TestObjectBool(t *testing.T) {
	o := readTestObject(t)
	for _, c := range []struct {
		name              string
		want, present, ok bool
	}{
		{"yes", true, true, true},
		{"no", false, true, true},
		{"absent", false, false, true},
		{"null", false, false, true},
		{"text", false, true, false},
		{"one", false, true, false},
		{"object", false, true, false},
	} {
		value, present, ok := o.Bool(c.name)
		if value != c.want || present != c.present || ok != c.ok {
			t.Errorf("%s: got %v, %v, %v; want %v, %v, %v", c.name, value, present, ok, c.want, c.present,
				c.ok)
		}
	}
}

func TestObjectObject(t *testing.T) {
	o := readTestObject(t)
	inner, present, ok := o.Object("object")
	if !present || !ok || !slices.Equal(inner.Names(), []string{"a", "name"}) {
		t.Errorf("the object has the members %q, %v, %v", inner.Names(), present, ok)
	}
	if n, _, ok := inner.Number("name"); n != 2 || !ok {
		t.Errorf("its name is %v, %v", n, ok)
	}
	if _, present, ok := inner.Object("a"); !present || !ok {
		t.Error("an object in an object is not read")
	}
	for _, c := range []struct {
		name        string
		present, ok bool
	}{
		{"empty", true, true}, {"absent", false, true}, {"null", false, true},
		{"text", true, false}, {"list", true, false}, {"one", true, false},
	} {
		value, present, ok := o.Object(c.name)
		if len(value.Names()) > 0 || present != c.present || ok != c.ok {
			t.Errorf("%s: got %q, %v, %v; want none, %v, %v", c.name, value.Names(), present, ok, c.present,
				c.ok)
		}
	}
}

func TestObjectRaw(t *testing.T) {
	o := readTestObject(t)
	for name, want := range map[string]string{"absent": "", "null": "", "text": `"1"`, "tiny": "-1e-3",
		"object": `{"a":{"b":[true]},"n\u0061me":2}`} {
		if got := o.Raw(name); got != want {
			t.Errorf("the text of %q is %s, want %s", name, got, want)
		}
	}
	inner, _, _ := o.Object("object")
	if got := inner.Raw("name"); got != "2" {
		t.Errorf("a name that is escaped in the text: %s", got)
	}
}
