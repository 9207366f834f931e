package api

import (
	"strings"
	"testing"
	"unicode"
)

// The tables and loops over characters are held against the plain statement of
// what they say.
func TestCharacters(t *testing.T) {
	for r := range rune(0x3000) {
		text := "ä" + string(r) + "z"
		if got, want := hasControl(text), unicode.IsControl(r); got != want {
			t.Errorf("contract 8: a text with %U has a control character: %v, want %v", r, got, want)
		}
	}
	if hasControl("") || hasControl("\xff") {
		t.Error("contract 8: no text and broken UTF-8 have no control character")
	}
	for c := range 256 {
		b := string([]byte{byte(c)})
		want := c > ' ' && c <= '~' && !strings.Contains("#%\"<>\\^`{|}", b)
		if problem := checkURLText("https://a" + b); (problem == "") != want {
			t.Errorf("contract 8: a URL with byte %#x: %q", c, problem)
		}
		if got, want := isHost("a"+b+"a"), c == '.' || strings.Contains("abcdefghijklmnopqrstuvwxyz0123456789-_", b); got != want {
			t.Errorf("contract 8: a host with byte %#x is one: %v, want %v", c, got, want)
		}
		if got, want := isNumber("1"+b), '0' <= c && c <= '9'; got != want {
			t.Errorf("contract 8: a label with byte %#x is a number: %v, want %v", c, got, want)
		}
	}
}
