package weburl

import (
	"strings"
	"testing"
)

// TestDecodePunycode has samples of RFC 3492, section 7.1, in lower case, and texts that are not Punycode.
// testdata/callback_urls.json contains whole callbacks with such labels, as Node's URL and Chromium parse
// them.
func TestDecodePunycode(t *testing.T) {
	for _, c := range []struct{ encoded, want string }{
		{"egbpdaj6bu4bxfgehfvwxn", "ليهمابتكلموشعربي؟"},
		{"ihqwcrb4cv8a8dqg056pqjye", "他们为什么不说中文"},
		{"ihqwctvzc91f659drss3x8bo0yb", "他們爲什麽不說中文"},
		{"4dbcagdahymbxekheh6e0a7fei0b", "למההםפשוטלאמדבריםעברית"},
		{"n8jok5ay5dzabd5bym9f0cm5685rrjetr6pdxa", "なぜみんな日本語を話してくれないのか"},
		{"b1abfaaepdrnnbgefbadotcwatmq2g4l", "почемужеонинеговорятпорусски"},
		{"2-u9tlzr9756bt3uc0v", "ひとつ屋根の下2"},
		{"mnchen-3ya", "münchen"},
		{"", ""}, {"-", ""}, {"abc-", ""}, {"a", "\u0080"}, {"a-b", ""}, {"zzzz", ""},
		{"mnchen-3ya0", ""},
		{"A", ""}, {"mnchen-3YA", ""}, {"a.b", ""}, {"3yä", ""},
		{"99999999", ""},              // beyond Unicode
		{strings.Repeat("9", 59), ""}, // beyond 32 bits
		{"ib9b", ""},                  // half a pair of UTF-16
	} {
		got, ok := decodePunycode(c.encoded)
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("contract 8: %q is %q, %v; want %q", c.encoded, string(got), ok, c.want)
		}
		if back := encodePunycode(got); ok && back != c.encoded {
			t.Errorf("RFC 3492: %q is encoded as %q, want %q", c.want, back, c.encoded)
		}
	}
}
