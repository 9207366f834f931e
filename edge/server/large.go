package server

import (
	"errors"
	"sync"
	"time"
)

// Large bodies, such as pictures, share a room of memory. Each takes from it what has arrived of it, so a
// peer that sends slowly takes little. Bodies of up to web.MaxBody bytes take nothing. If the room is full,
// the body that has stood still for longest gives way, so peers who stop in the middle keep nobody out.
const (
	largeBodyRoom = 64 << 20         // bytes of all large bodies together
	largeBodyTime = 30 * time.Second // for a large body to arrive
	stillTime     = time.Second      // a body that has taken nothing for so long stands still
)

// errNoRoom says that large bodies have no room left, or that this one gave way.
var errNoRoom = errors.New("server: too many large bodies at once")

// room is what large bodies share.
type room struct {
	mu     sync.Mutex
	size   int64
	taken  int64
	coming map[*share]bool // those that have taken something, and of which more is to come
}

// share is what one body has taken of a room.
type share struct {
	of    *room
	stop  func() // ends the reading of the body
	taken int64
	moved time.Time // when it last took something
	gone  bool      // it gave way
}

// take reports whether there was room for n bytes more.
func (s *share) take(n int64) bool {
	r, now := s.of, time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !s.gone && r.taken+n > r.size {
		still := r.stillest(s, now)
		if still == nil {
			return false
		}
		still.leave()
		still.gone = true
		still.stop()
	}
	if s.gone {
		return false
	}
	if r.coming == nil {
		r.coming = map[*share]bool{}
	}
	r.coming[s] = true
	r.taken += n
	s.taken += n
	s.moved = now
	return true
}

// stillest returns the body that has stood still for longest, other than s. It returns nil if none does.
func (r *room) stillest(s *share, now time.Time) (still *share) {
	for other := range r.coming {
		if other != s && now.Sub(other.moved) >= stillTime &&
			(still == nil || other.moved.Before(still.moved)) {
			still = other
		}
	}
	return still
}

// leave gives back what the body has taken. The caller holds the room's mutex.
func (s *share) leave() {
	s.of.taken -= s.taken
	s.taken = 0
	delete(s.of.coming, s)
}

// small reports whether the body has taken nothing. Then no other body knows of it, and it needs no lock.
func (s *share) small() bool { return s.moved.IsZero() }

// arrived says that the body is whole. From then on it gives way to none. It returns false if it has.
func (s *share) arrived() bool {
	if s.small() {
		return true
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	delete(s.of.coming, s)
	return !s.gone
}

// gaveWay reports whether the body gave way to another.
func (s *share) gaveWay() bool {
	if s.small() {
		return false
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.gone
}

// giveBack ends the request's share.
func (s *share) giveBack() {
	if s.small() {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.leave()
}
