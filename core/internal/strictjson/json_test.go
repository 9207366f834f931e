package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// nested is inner in n levels.
func nested(open, end string, n int, inner string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

// badEscape is the text for a surrogate without its other half.
const badEscape = "invalid escape, or half of a surrogate pair"

func TestReadRejects(t *testing.T) {
	const twice = "duplicate field"
	many := "{"
	for i := range 2 * manyMembers {
		many += fmt.Sprintf(`"m%d":1,`, i)
	}
	for _, c := range []struct {
		rule, body, problem string
		offset              int
	}{
		{"contract 3: an empty body is no object", ``, "empty body; expected a JSON object", 0},
		{"contract 3: white space is no object", " \n", "empty body; expected a JSON object", 2},
		{"contract 3: an array is no object", `[{}]`, "expected a JSON object", 0},
		{"contract 3: a string is no object", `"a"`, "expected a JSON object", 0},
		{"contract 3: null is no object", `null`, "expected a JSON object", 0},
		{"contract 3: a number is no object", `1`, "expected a JSON object", 0},
		{"contract 3: trailing object", `{}{}`, "unexpected data after the object", 2},
		{"contract 3: trailing letter behind white space", "{} \nx", "unexpected data after the object", 4},
		{"contract 3: trailing comma", `{},`, "unexpected data after the object", 2},
		{"contract 3: trailing NUL", "{}\x00", "unexpected data after the object", 2},
		{"contract 3: trailing bracket", `{}}`, "unexpected data after the object", 2},
		{"contract 3: byte order mark", "\ufeff{}", "unexpected byte order mark", 0},
		{"contract 3: UTF-16", "\xff\xfe{\x00}\x00", "invalid UTF-8", 0},
		{"contract 3: invalid UTF-8 in a value", "{\"a\":\"\xff\"}", "invalid UTF-8", 6},
		{"contract 3: invalid UTF-8 in a name", "{\"\xc3\":1}", "invalid UTF-8", 2},
		{"contract 3: invalid UTF-8 behind a real U+FFFD", "{\"\ufffd\xc3\":1}", "invalid UTF-8", 5},
		{"contract 3: UTF-8 of a surrogate", "{\"a\":\"\xed\xa0\x80\"}", "invalid UTF-8", 6},
		{"contract 3: overlong UTF-8", "{\"a\":\"\xc0\xaf\"}", "invalid UTF-8", 6},
		{"contract 3: duplicate member", `{"a":1,"a":1}`, twice, 7},
		{"contract 3: duplicate by escape", `{"a":1,"\u0061":1}`, twice, 7},
		{"contract 3: duplicate by escaped slash", `{"\/":1,"/":1}`, twice, 8},
		{"contract 3: duplicate empty name", `{"":1,"":1}`, twice, 6},
		{"contract 3: duplicate in a nested object", `{"a":{"b":1,"b":1}}`, twice, 12},
		{"contract 3: duplicate in an array's object", `{"a":[{"b":1,"b":1}]}`, twice, 13},
		{"contract 3: duplicate of the first among many", many + `"m0":1}`, twice, len(many)},
		{"contract 3: duplicate of the last among many", many + `"m31":1}`, twice, len(many)},
		{"contract 3: seventeen objects deep", nested(`{"a":`, `}`, 16, `{}`), "more than 16 levels", 80},
		{"contract 3: arrays seventeen deep", `{"a":` + nested("[", "]", 16, "") + `}`, "more than 16 levels", 20},
		{"contract 3: a hostile depth", `{"a":` + strings.Repeat("[", 16000), "more than 16 levels", 20},
		{"contract 3: lone high surrogate", `{"a":"\ud800"}`, badEscape, 6},
		{"contract 3: lone low surrogate", `{"a":"\udc00"}`, badEscape, 6},
		{"contract 3: high surrogate and a letter", `{"a":"\ud800x"}`, badEscape, 6},
		{"contract 3: high surrogate and another escape", `{"a":"\ud800\u0061"}`, badEscape, 6},
		{"contract 3: high surrogate twice", `{"a":"\ud800\ud800"}`, badEscape, 6},
		{"contract 3: surrogates swapped", `{"a":"\udc00\ud800"}`, badEscape, 6},
		{"contract 3: lone surrogate in a name", `{"\ud83d":1}`, badEscape, 2},
		{"unknown escape", `{"a":"\x41"}`, badEscape, 6},
		{"escape with a capital U", `{"a":"\U0041"}`, badEscape, 6},
		{"short escape", `{"a":"\u004"}`, badEscape, 6},
		{"escape at the end", `{"a":"\`, badEscape, 6},
		{"escape of no hex digit", `{"a":"\u00g0"}`, badEscape, 6},
		{"newline in a string", "{\"a\":\"\n\"}", "control character in a string", 6},
		{"newline in a long string", "{\"a\":\"0123456789abcdef0123\n\"}", "control character in a string",
			26},
		{"long string that is not closed", `{"a":"0123456789abcdef`, "string without a closing quote", 22},
		{"NUL in a string", "{\"a\":\"\x00\"}", "control character in a string", 6},
		{"string without a closing quote", `{"a":"b`, "string without a closing quote", 7},
		{"name without end", `{"a`, "string without a closing quote", 3},
		{"object without end", `{`, "expected a field name in double quotes", 1},
		{"object cut behind a name", `{"a"`, "expected a colon", 4},
		{"object cut behind a colon", `{"a":`, "expected a value", 5},
		{"object cut behind a value", `{"a":1`, "expected a comma or a closing bracket", 6},
		{"object cut behind a comma", `{"a":1,`, "expected a field name in double quotes", 7},
		{"comma before the end", `{"a":1,}`, "expected a field name in double quotes", 7},
		{"comma before an array's end", `{"a":[1,]}`, "expected a value", 8},
		{"array closed as an object", `{"a":[1}}`, "expected a comma or a closing bracket", 7},
		{"name without quotes", `{a:1}`, "expected a field name in double quotes", 1},
		{"name in single quotes", `{'a':1}`, "expected a field name in double quotes", 1},
		{"number as a name", `{1:1}`, "expected a field name in double quotes", 1},
		{"comment", `{/**/}`, "expected a field name in double quotes", 1},
		{"no-break space", "{\u00a0}", "expected a field name in double quotes", 1},
		{"form feed", "{\f}", "expected a field name in double quotes", 1},
		{"capital literal", `{"a":True}`, "expected a value", 5},
		{"cut literal", `{"a":tru}`, "expected a value", 5},
		{"long literal", `{"a":nulll}`, "expected a comma or a closing bracket", 9},
		{"NaN", `{"a":NaN}`, "expected a value", 5},
		{"plus", `{"a":+1}`, "expected a value", 5},
		{"leading zero", `{"a":01}`, "invalid number", 7},
		{"negative leading zero", `{"a":-01}`, "invalid number", 8},
		{"minus alone", `{"a":-}`, "invalid number", 6},
		{"no digit behind the point", `{"a":1.}`, "invalid number", 7},
		{"no digit before the point", `{"a":.1}`, "expected a value", 5},
		{"no exponent", `{"a":1e}`, "invalid number", 7},
		{"sign without exponent", `{"a":1e+}`, "invalid number", 8},
		{"hex number", `{"a":0x1}`, "expected a comma or a closing bracket", 6},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := Read([]byte(c.body))
			syntax, ok := errors.AsType[*SyntaxError](err)
			if !ok {
				t.Fatalf("%.80q: got %v, want a *SyntaxError", c.body, err)
			}
			if syntax.Problem != c.problem || syntax.Offset != c.offset {
				t.Errorf("%.80q: got %q at %d, want %q at %d", c.body, syntax.Problem, syntax.Offset,
					c.problem, c.offset)
			}
		})
	}
}

func TestReadErrorHidesTheBody(t *testing.T) {
	_, err := Read([]byte(`{"result_token":"svc_rt_secret","svc_rt_secret":x}`))
	if err == nil {
		t.Fatal("accepted")
	}
	if strings.Contains(err.Error(), "svc_rt") {
		t.Errorf("contract 5: the error quotes the body: %v", err)
	}
}

func TestObjectString(t *testing.T) {
	body := ` { "plain" : "text" , "empty":"", "null":null, "number":1.5e-3, "bool":true, "list":["x"],
		"object":{"plain":"inner"}, "escaped":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00z",
		"utf8":"é😀\u0000\u2028", "n\u0061me":"v", "replacement":"\ufffd` + "\ufffd" + `" } `
	o, err := Read([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want  string
		present, ok bool
	}{
		{"plain", "text", true, true},
		{"empty", "", true, true},
		{"escaped", "\"\\/\b\f\n\r\té😀z", true, true},
		{"utf8", "é😀\x00\u2028", true, true},
		{"replacement", "\ufffd\ufffd", true, true},
		{"name", "v", true, true},
		{`n\u0061me`, "", false, true},
		{"absent", "", false, true},
		{"Plain", "", false, true}, // names are exact, unlike encoding/json's
		{"null", "", false, true},  // contract 3: it counts as absent
		{"number", "", true, false},
		{"bool", "", true, false},
		{"list", "", true, false},
		{"object", "", true, false},
	} {
		value, present, ok := o.String(c.name)
		if value != c.want || present != c.present || ok != c.ok {
			t.Errorf("%s: got %q, %v, %v; want %q, %v, %v", c.name, value, present, ok, c.want, c.present,
				c.ok)
		}
	}
	if _, present, ok := (Object{}).String("a"); present || !ok {
		t.Errorf("zero Object: present %v, ok %v", present, ok)
	}
}

func TestReadAccepts(t *testing.T) {
	for _, body := range []string{
		`{}`, " \t\r\n{ } \n", `{"a":{"b":1},"b":1}`, `{"a":[{"b":1},{"b":1}]}`, `{"a":1,"A":1}`,
		"{\"e\u0301\":1,\"\u00e9\":1}",
		`{"a":[]}`, `{"a":[ ]}`, `{"a":[1 , 2]}`, `{"a":-0}`, `{"a":0.0E+10}`, `{"a":1e999}`, "{\"\x7f\":1}",
		nested(`{"a":`, `}`, 15, `{}`), `{"a":` + nested("[", "]", 15, "") + `}`,
	} {
		if _, err := Read([]byte(body)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// FuzzRead compares Read with encoding/json. A text that one of
// them accepts is accepted by the other with the same values, apart from Read's own rules.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		startBody, `{}`, `[]`, `{"a":"\ud800"}`, `{"a":"\ud83d\ude00"}`, `{"a":1,"\u0061":2}`,
		"{\"a\":\"\xff\"}", "\ufeff{}", `{"a":[1,-0.5e+3,{"b":null}]}`, `{} x`,
		`{"a":9223372036854775807,"b":-9223372036854775808,"c":9223372036854775808,"d":-0,"e":1.0,"f":"1"}`,
		`{"a":` + nested("[", "]", 15, "") + `}`, `{"a":` + nested("[", "]", 16, "") + `}`,
	} {
		f.Add([]byte(seed))
	}
	for n := range 18 { // a special byte at each of the eight places that ordinary checks together
		for _, special := range []string{`\n`, `\u00e9`, `"`, "\n", "\x1f", "é"} {
			f.Add([]byte(`{"a":"` + strings.Repeat("x", n) + special + `123456789"}`))
		}
	}
	ownRules := map[string]bool{"invalid UTF-8": true, badEscape: true,
		"more than 16 levels": true, "duplicate field": true}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := Read(body)
		var want map[string]any
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		std := json.Valid(body) && decoder.Decode(&want) == nil && want != nil

		if err != nil {
			if std && !ownRules[err.(*SyntaxError).Problem] {
				t.Fatalf("%q: encoding/json accepts it, Read says %v", body, err)
			}
			return
		}
		if !std {
			t.Fatalf("%q: Read accepts what encoding/json rejects", body)
		}
		if len(o.members) != len(want) {
			t.Fatalf("%q: %d members, encoding/json has %d", body, len(o.members), len(want))
		}
		for _, m := range o.members {
			var got any
			decoder := json.NewDecoder(strings.NewReader(m.raw))
			decoder.UseNumber()
			if err := decoder.Decode(&got); err != nil || !reflect.DeepEqual(got, want[m.name]) {
				t.Fatalf("%q: member %q is %v (%v), encoding/json has %v", body, m.name, got, err,
					want[m.name])
			}
			integer, present, ok := o.Integer(m.name)
			var n int64
			isNull := want[m.name] == nil
			isInteger := json.Unmarshal([]byte(m.raw), &n) == nil
			if present == isNull || ok != isInteger || ok && integer != n {
				t.Fatalf("%q: Integer(%q) is %d, %v, %v; encoding/json has %v",
					body, m.name, integer, present, ok, want[m.name])
			}
			value, present, ok := o.String(m.name)
			text, isText := want[m.name].(string)
			if present == isNull || ok != (isText || isNull) || value != text {
				t.Fatalf("%q: String(%q) is %q, %v, %v; encoding/json has %v",
					body, m.name, value, present, ok, want[m.name])
			}
		}
	})
}

const startBody = `{"integration_id":"3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11",` +
	`"callback_url":"https://www.publisher.example/verify/return?from=checkout","state":"q7Zk1v0mXo2hT5c8",` +
	`"external_user_id":"user-184467","language":"de","public_key":"svc_pk_abc"}`

var startMembers = []string{"integration_id", "callback_url", "state", "external_user_id", "language",
	"public_key"}

func BenchmarkRead(b *testing.B) {
	body := []byte(startBody)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		o, err := Read(body)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range startMembers {
			if _, present, ok := o.String(name); !present || !ok {
				b.Fatal(name)
			}
		}
	}
}
