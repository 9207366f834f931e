package server

import (
	"errors"
	"sync/atomic"
	"time"
)

// Large bodies, such as pictures, share a room of memory. Each takes from it what has arrived of it, so a
// peer that sends slowly takes little. Bodies of up to web.MaxBody bytes take nothing.
const (
	largeBodyRoom = 64 << 20         // bytes of all large bodies together
	largeBodyTime = 30 * time.Second // for a large body to arrive
)

// errNoRoom says that large bodies have no room left.
var errNoRoom = errors.New("server: too many large bodies at once")

// room is what one request has taken of a shared number of bytes.
type room struct {
	of    *atomic.Int64 // taken by all
	taken int64
}

// take reports whether there was room for n bytes more.
func (r *room) take(n int64) bool {
	if r.of.Add(n) > largeBodyRoom {
		r.of.Add(-n)
		return false
	}
	r.taken += n
	return true
}

// giveBack ends the request's share.
func (r *room) giveBack() { r.of.Add(-r.taken) }
