package web

import "testing"

func TestPlaceholder(t *testing.T) {
	for pattern, want := range map[string][3]string{
		"/docs":             {"/docs", "", ""},
		"/keys/{id}/revoke": {"/keys/", "id", "/revoke"},
		"/s/{session...}":   {"/s/", "session", ""},
		"{...}":             {"", "", ""},
	} {
		if before, name, after := Placeholder(pattern); want != [3]string{before, name, after} {
			t.Errorf("%q: %q %q %q, want %q", pattern, before, name, after, want)
		}
	}
}
