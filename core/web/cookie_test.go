package web

import (
	"maps"
	"testing"
)

func TestCookies(t *testing.T) {
	type values = map[string]string
	for _, c := range []struct {
		rule  string
		lines []string
		want  values
	}{
		{"a cookie", []string{"__Host-verge-a=1"}, values{"a": "1"}},
		{"several", []string{"__Host-verge-a=1; b=2; __Host-verge-c=3"}, values{"a": "1", "c": "3"}},
		{"several lines, as HTTP/2 has them", []string{"__Host-verge-a=1", "__Host-verge-b=2"},
			values{"a": "1", "b": "2"}},
		{"space and tab around a pair", []string{" \t__Host-verge-a=1 \t;\t__Host-verge-b=2"},
			values{"a": "1", "b": "2"}},
		{"no space between pairs", []string{"x=1;__Host-verge-a=1"}, values{"a": "1"}},
		{"an empty value", []string{"__Host-verge-a="}, values{"a": ""}},
		{"a value with signs", []string{`__Host-verge-a="b=c" d`}, values{"a": `"b=c" d`}},
		{"contract 34: U+2000 before the name", []string{
			"\u2000__Host-verge-a=1; x=\u2000; \u2000__Host-verge-b=2"},
			values{}},
		{"contract 34: other white space of Unicode", []string{
			"\u00a0__Host-verge-a=1; \u0085__Host-verge-b=2; " +
				"\u3000__Host-verge-c=3; \u2028__Host-verge-d=4; \ufeff__Host-verge-e=5"}, values{}},
		{"contract 34: control characters", []string{
			"\v__Host-verge-a=1;\f__Host-verge-b=2;\r__Host-verge-c=3;" +
				"\n__Host-verge-d=4;\x00__Host-verge-e=5;\x85__Host-verge-f=6;" +
				"\xa0__Host-verge-g=7"}, values{}},
		{"contract 34: white space before the sign", []string{"__Host-verge-a =1; __Host-verge-b\u2000=2"},
			values{"a ": "1", "b\u2000": "2"}},
		{"contract 34: white space around the value", []string{
			"__Host-verge-a=\u20001\u2000; __Host-verge-b= 2"},
			values{"a": "\u20001\u2000", "b": " 2"}},
		{"contract 34: case counts", []string{"__host-verge-a=1; __HOST-verge-b=2"}, values{}},
		{"contract 34: percent signs stay", []string{"%5F_Host-verge-a=1"}, values{}},
		{"contract 34: quotes", []string{`"__Host-verge-a=1"; "__Host-verge-b"=2`}, values{}},
		{"contract 34: a comma separates nothing", []string{"x=1, __Host-verge-a=1"}, values{}},
		{"contract 34: without a sign", []string{"__Host-verge-a"}, values{}},
		{"contract 34: without a name", []string{"=__Host-verge-a=1"}, values{}},
		{"contract 34: a name twice", []string{"__Host-verge-a=1; __Host-verge-a=2; __Host-verge-b=3"},
			values{"b": "3"}},
		{"contract 34: a name three times", []string{"__Host-verge-a=1; __Host-verge-a=2",
			"__Host-verge-a=3"},
			values{}},
		{"contract 34: a name twice with one value", []string{"__Host-verge-a=1; __Host-verge-a=1"},
			values{}},
		{"contract 34: a name twice, once empty", []string{"__Host-verge-a=; __Host-verge-a=1"}, values{}},
		{"no header", nil, values{}},
		{"an empty header", []string{"", ";;"}, values{}},
	} {
		if got := (Header{"Cookie": c.lines}).Cookies("__Host-verge-"); !maps.Equal(got, c.want) {
			t.Errorf("%s: %q gives %q, want %q", c.rule, c.lines, got, c.want)
		}
	}
}

func TestCookie(t *testing.T) {
	for _, c := range []struct{ rule, line, want string }{
		{"contract 43: the cookie", "__Host-verge-console=a", "a"},
		{"contract 43: beside another one that begins like it",
			"__Host-verge-console=a; __Host-verge-consoles=b", "a"},
		{"contract 43: another one alone", "__Host-verge-consoles=b", ""},
		{"contract 43: planted and its own", "\u2000__Host-verge-console=b; __Host-verge-console=a", "a"},
		{"contract 43: two", "__Host-verge-console=a; __Host-verge-console=b", ""},
	} {
		if got := (Header{"Cookie": {c.line}}).Cookie("__Host-verge-console"); got != c.want {
			t.Errorf("%s: %q, want %q", c.rule, got, c.want)
		}
	}
}
