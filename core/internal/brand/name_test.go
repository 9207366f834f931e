package brand

import "testing"

// Contract 52: all characters of a name can be seen, except those that the ones next to them need.
func TestIsPrintable(t *testing.T) {
	for name, want := range map[string]bool{
		"":                   true,
		"Acme & Söhne 7":     true,
		"می\u200cخ":          true, // a joiner inside a word
		"Heart \u2764\ufe0f": true, // the form of an emoji
		"Thế giới kỳ lạ (NFD: e\u0302\u0301)":   true,
		"שָׁ\u0591לוֹם":                         true,  // four marks: points and an accent
		"a\u0301\u0302\u0303\u0304\u0306":       false, // they cover the line above
		"a\u0301\u0302\u200d\u0303\u0304\u0306": false,
		"a\nb":                                  false,
		"a\u202eb":                              false, // direction of the text
		"a\xff":                                 false,
		"Shop\u3164":                            false, // Hangul filler
		"\u115f\u1160":                          false,
		"a\u2800b":                              false,
		"a\u034fb":                              false,
		"\u200c":                                false,
		"\u200d\ufe0f":                          false,
		"\u200d \u200d":                         false,
		"\ufe0f\u00a0\ufe0f":                    false,
		"\U000e0041\U000e0042abc":               false, // tags
	} {
		if got := IsPrintable(name); got != want {
			t.Errorf("contract 52: %+q is printable: %v, want %v", name, got, want)
		}
	}
}
