package web

import "testing"

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		rule  string
		lines []string
		want  bool
	}{
		{"RFC 9110: the tag", []string{`"a"`}, true},
		{"RFC 9110: compared weakly", []string{`W/"a"`}, true},
		{"RFC 9110: any", []string{" * "}, true},
		{"RFC 9110: in a list", []string{`"b", W/"a","c"`}, true},
		{"RFC 9110: empty elements of a list", []string{`, ,"b" ,, "a"`}, true},
		{"RFC 9110: a comma in a tag", []string{`"b,", "a"`}, true},
		{"RFC 9110: over two lines", []string{`"b"`, `"a"`}, true},
		{"RFC 9110: another tag", []string{`"b"`}, false},
		{"RFC 9110: in another tag", []string{`"b, ", "a, "`}, false},
		{"RFC 9110: case counts", []string{`"A"`}, false},
		{"no header", nil, false},
		{"an empty header", []string{""}, false},
		{"no quotes", []string{"a"}, false},
		{"no end", []string{`"a`}, false},
		{"w is no W", []string{`w/"a"`}, false},
		{"any among others", []string{`"b", *`}, false},
		{"a mistake before it", []string{`"b" "a"`}, false},
	} {
		for _, tag := range []string{`"a"`, `W/"a"`} {
			if got := (Header{"If-None-Match": c.lines}).Matches(tag); got != c.want {
				t.Errorf("%s: %q matches %s: %v", c.rule, c.lines, tag, got)
			}
		}
	}
}
