package api

import (
	"testing"
	"unicode"
)

// A loop over characters must say the same as the plain statement of its rule.
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
}
