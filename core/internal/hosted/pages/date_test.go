package pages

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/language"
)

func TestDay(t *testing.T) {
	for _, c := range []struct {
		lang        string
		first, late string
	}{
		{"en", "1 March 2027", "31 December 2026"},
		{"de", "1. März 2027", "31. Dezember 2026"},
		{"es", "1 de marzo de 2027", "31 de diciembre de 2026"},
		{"fr", "1er mars 2027", "31 décembre 2026"},
		{"it", "1º marzo 2027", "31 dicembre 2026"},
		{"pt", "1 de março de 2027", "31 de dezembro de 2026"},
	} {
		if got := day(c.lang, time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)); got != c.first {
			t.Errorf("%s: %q, want %q", c.lang, got, c.first)
		}
		west := time.FixedZone("west", -5*3600)
		if got := day(c.lang, time.Date(2026, 12, 30, 23, 0, 0, 0, west)); got != c.late {
			t.Errorf("%s: %q, want %q: dates are in UTC", c.lang, got, c.late)
		}
	}
	for _, lang := range language.All {
		seen := map[string]bool{}
		for month := time.January; month <= time.December; month++ {
			seen[day(lang, time.Date(2027, month, 2, 0, 0, 0, 0, time.UTC))] = true
		}
		if len(seen) != 12 {
			t.Errorf("%s has %d months", lang, len(seen))
		}
	}
}
