package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/verge-id/verge/core/web"
)

func TestLargeBodiesShareARoom(t *testing.T) {
	var taken atomic.Int64
	read := func(size, limit int, large *room) (int, error) {
		body, err := readBody(&http.Request{Body: io.NopCloser(bytes.NewReader(make([]byte, size)))}, limit,
			large)
		return len(body), err
	}
	const limit = 1 << 20
	for _, c := range []struct {
		rule   string
		before int64 // taken by others
		size   int
		err    error
		takes  bool
	}{
		{"a small body needs no room", largeBodyRoom, web.MaxBody, nil, false},
		{"a large body takes what has arrived", 0, limit, nil, true},
		{"a large body finds no room", largeBodyRoom - limit/2, limit, errNoRoom, true},
		{"a body that is too large is cut, and so is what it takes", 0, 3 * limit, nil, true},
	} {
		t.Run("contract, Load: "+c.rule, func(t *testing.T) {
			taken.Store(c.before)
			large := room{of: &taken}
			n, err := read(c.size, limit, &large)
			if !errors.Is(err, c.err) || err == nil && n != min(c.size, limit+1) {
				t.Errorf("%d bytes, %v; want %v", n, err, c.err)
			}
			if (large.taken > 0) != c.takes || large.taken > limit+web.MaxBody ||
				taken.Load() != c.before+large.taken {
				t.Errorf("it took %d, and all have %d", large.taken, taken.Load())
			}
			if large.giveBack(); taken.Load() != c.before {
				t.Errorf("%d bytes are left behind", taken.Load()-c.before)
			}
		})
	}
}
