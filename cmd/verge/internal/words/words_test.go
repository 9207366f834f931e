package words

import "testing"

func TestPlural_Forms(t *testing.T) {
	for _, c := range []struct {
		n           int
		thing, want string
	}{
		{0, "problem", "0 problems"}, {1, "problem", "1 problem"}, {2, "problem", "2 problems"},
		{1, "entry", "1 entry"}, {2, "entry", "2 entries"}, {2, "key", "2 keys"},
	} {
		if got := HowMany(c.n, c.thing); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
