package server

import (
	"errors"
	"sync"
	"time"
)

// Large bodies, such as pictures, share an amount of memory. Each reserves of it what has arrived, so a peer
// that sends slowly takes little. Bodies of up to web.MaxBody bytes reserve nothing. If all is in use, the
// body that has stalled for longest gives way, so peers who stop in the middle keep nobody out.
const (
	largeBodyMemory  = 64 << 20         // bytes of all large bodies together
	largeBodyTimeout = 30 * time.Second // for a large body to arrive
	stallTime        = time.Second      // a body of which nothing has come for so long has stalled
)

// errNoBodyMemory says that large bodies have no memory left, or that this one gave way.
var errNoBodyMemory = errors.New("server: too many large bodies at once")

// bodyMemory is what large bodies share.
type bodyMemory struct {
	mu       sync.Mutex
	limit    int64
	used     int64
	arriving map[*largeBody]bool // those that have reserved something, and of which more is to come
}

// largeBody is one body with what it has reserved.
type largeBody struct {
	memory   *bodyMemory
	cancel   func() // ends the reading of the body
	reserved int64
	lastRead time.Time // when it last reserved something
	evicted  bool      // it gave way
}

// reserve reports whether there was memory for n bytes more.
func (b *largeBody) reserve(n int64) bool {
	m, now := b.memory, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for !b.evicted && m.used+n > m.limit {
		stalled := m.longestStalled(b, now)
		if stalled == nil {
			return false
		}
		stalled.releaseLocked()
		stalled.evicted = true
		stalled.cancel()
	}
	if b.evicted {
		return false
	}
	if m.arriving == nil {
		m.arriving = map[*largeBody]bool{}
	}
	m.arriving[b] = true
	m.used += n
	b.reserved += n
	b.lastRead = now
	return true
}

// longestStalled returns the body that has stalled for longest, other than b. It returns nil if none does.
func (m *bodyMemory) longestStalled(b *largeBody, now time.Time) (stalled *largeBody) {
	for other := range m.arriving {
		if other != b && now.Sub(other.lastRead) >= stallTime &&
			(stalled == nil || other.lastRead.Before(stalled.lastRead)) {
			stalled = other
		}
	}
	return stalled
}

// releaseLocked gives back what the body has reserved. The caller holds the mutex of the memory.
func (b *largeBody) releaseLocked() {
	b.memory.used -= b.reserved
	b.reserved = 0
	delete(b.memory.arriving, b)
}

// reservedNothing reports whether the body has reserved nothing yet. Then no other body knows of it, and it
// needs no lock.
func (b *largeBody) reservedNothing() bool { return b.lastRead.IsZero() }

// complete says that the body is whole. From then on it gives way to none. It returns false if it has.
func (b *largeBody) complete() bool {
	if b.reservedNothing() {
		return true
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	delete(b.memory.arriving, b)
	return !b.evicted
}

// wasEvicted reports whether the body gave way to another.
func (b *largeBody) wasEvicted() bool {
	if b.reservedNothing() {
		return false
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	return b.evicted
}

// release gives back what the body has reserved, at the end of its request.
func (b *largeBody) release() {
	if b.reservedNothing() {
		return
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	b.releaseLocked()
}
