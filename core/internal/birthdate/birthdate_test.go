package birthdate_test

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/birthdate"
)

func TestAge(t *testing.T) {
	for _, c := range []struct {
		born, now string
		years     int // -1: not ok
	}{
		{"2008-11-25", "2026-11-25T00:00:00Z", 18},
		{"2008-11-25", "2026-11-24T23:59:59Z", 17},
		{"2008-11-25", "2026-11-24T23:59:59-01:00", 18}, // already the 25th in UTC
		{"2008-11-25", "2026-11-25T00:30:00+01:00", 17}, // still the 24th in UTC
		{"2008-02-29", "2026-02-28T23:59:59Z", 17},
		{"2008-02-29", "2026-03-01T00:00:00Z", 18},
		{"2008-02-29", "2028-02-29T00:00:00Z", 20},
		{"2026-11-25", "2026-11-25T00:00:00Z", 0},
		{"2026-11-26", "2026-11-25T00:00:00Z", -1},
		{"1906-11-25", "2026-11-25T00:00:00Z", 120},
		{"1905-11-25", "2026-11-25T00:00:00Z", -1},
		{"0000-11-25", "2026-11-25T00:00:00Z", -1},
	} {
		born, err := time.Parse(time.DateOnly, c.born)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		years, ok := birthdate.Age(born, now)
		if ok != (c.years >= 0) || ok && years != c.years {
			t.Errorf("contract 36, 39: born %s, at %s: %d, %v, want %d", c.born, c.now, years, ok, c.years)
		}
	}
}

func TestBirthdate(t *testing.T) {
	for text, want := range map[string]string{
		"1992-11-23": "1992-11-23", "1992": "1992-12-31", "1992-00-00": "1992-12-31",
		"1992-11-00": "1992-11-30", "1992-12-00": "1992-12-31", "1992-02-00": "1992-02-29",
		"": "", "-00": "", "-00-00": "", "0000": "", "0000-00-00": "", "0000-11-23": "", "0000-11-00": "",
		"1992-00-23": "", "1992-13-00": "", "1992-00-00-00": "", "1992-11": "", "1992-00": "", "199": "",
		"1992-11-23-00": "", "19921123": "", "1992-W47-1": "", "1992-11-31": "", " 1992": "", "-992": "",
	} {
		born, ok := birthdate.Parse(text)
		if ok != (want != "") || ok && born.Format(time.DateOnly) != want {
			t.Errorf("contract 36, 39: %q: %s, %v, want %q", text, born.Format(time.DateOnly), ok, want)
		}
	}
}
