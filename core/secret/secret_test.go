package secret

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const good = "whsec_0123456789abcdef"
	for _, c := range []struct{ rule, text, want, problem string }{
		{"contract 13: a secret", good, good, ""},
		{"contract 13: a newline behind it", good + "\n", good, ""},
		{"contract 13: CRLF behind it", good + "\r\n\r\n", good, ""},
		{"contract 13: white space at both ends", " \t\n" + good + "\u00a0\u2028 ", good, ""},
		{"contract 13: a byte order mark", "\ufeff" + good + "\n", good, ""},
		{"contract 13: a byte order mark and white space", "\ufeff \ufeff" + good, good, ""},
		{"contract 13: a space inside", "correct horse", "correct horse", ""},
		{"contract 13: every sign", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
			"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", ""},
		{"contract 13: nothing", "", "", "empty"},
		{"contract 13: white space alone", " \ufeff\n", "", "empty"},
		{"contract 13: two lines", good + "\nsecond", "", "more than one line"},
		{"contract 13: lines of an old Mac", good + "\rsecond", "", "more than one line"},
		{"contract 13: a tab inside", "a\tb", "", "byte 2 of it is not printable ASCII"},
		{"contract 13: a NUL", good + "\x00", "", "not printable ASCII"},
		{"contract 13: a zero-width space", good + "\u200b", "", "not printable ASCII"},
		{"contract 13: an umlaut", "größe", "", "byte 3 of it is not printable ASCII"},
		{"contract 13: bytes that are no UTF-8", "a\xe9", "", "byte 2 of it is not printable ASCII"},
		{"contract 13: UTF-16", "\xff\xfew\x00h\x00", "", "UTF-16"},
		{"contract 13: UTF-16, big end first", "\xfe\xff\x00w\x00h", "", "UTF-16"},
	} {
		got, problem := Read(c.text)
		if got != c.want || (problem == "") != (c.problem == "") || !strings.Contains(problem, c.problem) ||
			strings.Contains(problem, good) {
			t.Errorf("%s: %q, %q", c.rule, got, problem)
		}
	}
	if Problem(good+"\n") == "" || Problem(" "+good) != "" {
		t.Error("contract 13: a secret that is used byte for byte is trimmed or not judged")
	}
}
