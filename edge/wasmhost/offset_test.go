package wasmhost

import (
	"testing"
	"time"
)

// A loaded machine may pause a guest for longer than the tolerated difference of its clock.
func TestOffset(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, c := range []struct {
		name                string
		read, before, after int
		want                time.Duration
	}{
		{"read within a long call", 11, 10, 30, 0},
		{"read at its beginning", 10, 10, 30, 0},
		{"a clock that is late", 7, 10, 30, -3 * time.Second},
		{"a clock that is early", 33, 10, 30, 3 * time.Second},
	} {
		if got := offset(at(c.read), at(c.before), at(c.after)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
