package pattern

import "testing"

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, path, text string
		ok                  bool
	}{
		{"/", "/", "", true},
		{"/", "", "", false},
		{"/", "/x", "", false},
		{"/docs", "/docs", "", true},
		{"/docs", "/docs/", "", false},
		{"/docs", "/Docs", "", false},

		{"/sessions/{session}", "/sessions/x", "x", true},
		{"/sessions/{session}", "/sessions/{session}", "{session}", true},
		{"/sessions/{session}", "/sessions/\x00", "\x00", true},
		{"/sessions/{session}", "/sessions/", "", false},
		{"/sessions/{session}", "/sessions", "", false},
		{"/sessions/{session}", "/sessions/x/", "", false},
		{"/sessions/{session}", "/sessions/x/y", "", false},
		{"/assets/{}", "/assets/x.css", "x.css", true},

		{"/keys/{id}/revoke", "/keys/x/revoke", "x", true},
		{"/keys/{id}/revoke", "/keys//revoke", "", true},
		{"/keys/{id}/revoke", "/keys/revoke", "", false},
		{"/keys/{id}/revoke", "/keys/x/y/revoke", "", false},
		{"/keys/{id}/revoke", "/keys/x/revoke/", "", false},
		{"/box/{handle}.s", "/box/x.s", "x", true},
		{"/box/{handle}.s", "/box/x", "", false},

		{"/docs/{...}", "/docs", "", true},
		{"/docs/{...}", "/docs/", "", true},
		{"/docs/{...}", "/docs/x/y", "x/y", true},
		{"/docs/{...}", "/docsx", "", false},
		{"/docs/{...}", "/doc", "", false},
		{"{...}", "*", "*", true},
		{"{...}", "", "", true},
	} {
		if text, ok := Match(c.pattern, c.path); ok != c.ok || ok && text != c.text {
			t.Errorf("%q fits %q: %v, with %q, want %v, with %q", c.path, c.pattern, ok, text, c.ok, c.text)
		}
	}
}
