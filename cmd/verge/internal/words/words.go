package words

import (
	"fmt"
	"strings"
	"time"
)

// When returns a time as tables and messages show it.
func When(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// HowMany returns a number of things: 1 problem, 2 problems, 2 entries.
func HowMany(n int, thing string) string {
	switch stem, y := strings.CutSuffix(thing, "ry"); {
	case n == 1:
	case y:
		thing = stem + "ries"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Roughly returns a duration in whole days or hours if it is long.
func Roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return d.Round(time.Second).String()
}

// Distance returns how many characters have to be inserted, removed or replaced to turn a into b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1) // the distance from the part of a seen so far to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
