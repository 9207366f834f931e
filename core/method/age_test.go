package method_test

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
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
		years, ok := method.Age(born, now)
		if ok != (c.years >= 0) || ok && years != c.years {
			t.Errorf("contract 36, 39: born %s, at %s: %d, %v, want %d", c.born, c.now, years, ok, c.years)
		}
	}
}
