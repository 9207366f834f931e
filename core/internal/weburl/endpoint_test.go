package weburl

import (
	"strings"
	"testing"
)

func TestIsEndpoint(t *testing.T) {
	for _, c := range []struct {
		rule, url  string
		https, dev bool
	}{
		{"https", "https://id.example/token", true, true},
		{"a port", "https://id.example:8443/token", true, true},
		{"a query", "https://id.example/authorize?tenant=1", true, true},
		{"no path", "https://id.example", true, true},
		{"http to a loopback address", "http://127.0.0.1:9000/token", false, true},
		{"http to a loopback name", "http://localhost:9000/token", false, true},
		{"http to another host", "http://id.example/token", false, false},
		{"another scheme", "javascript://id.example/%0aalert(1)", false, false},
		{"no scheme", "id.example/token", false, false},
		{"no host", "https:///token", false, false},
		{"empty", "", false, false},
		{"a user name", "https://user@id.example/token", false, false},
		{"a fragment", "https://id.example/token#x", false, false},
		{"a space", "https://id.example/to ken", false, false},
		{"a line break", "https://id.example/to\nken", false, false},
		{"an address that browsers read differently", "https://2130706433/token", false, false},
		{"2049 bytes", "https://id.example/" + strings.Repeat("x", 2049-19), false, false},
	} {
		if got := IsEndpoint(c.url, false); got != c.https {
			t.Errorf("%s: IsEndpoint(%.60q, false) = %v", c.rule, c.url, got)
		}
		if got := IsEndpoint(c.url, true); got != c.dev {
			t.Errorf("%s: IsEndpoint(%.60q, true) = %v", c.rule, c.url, got)
		}
	}
}
