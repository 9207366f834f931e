package server

import (
	"errors"
	"sync"
	"time"
)

// Large bodies, such as pictures, share a limited memory. Each reserves as much of it as has arrived, so a
// slow sender uses little. Bodies of up to web.MaxBody bytes reserve none. If the memory is full, the body
// that has stalled for longest is evicted, so senders that stop halfway cannot block others.
const (
	largeBodyMemory  = 64 << 20         // total bytes of all large bodies
	largeBodyTimeout = 30 * time.Second // for a large body to arrive
	stallTime        = time.Second      // a body is stalled if no bytes arrive for this long
)

// errNoBodyMemory is returned if large bodies have no memory left, or if this one was evicted.
var errNoBodyMemory = errors.New("server: no memory for large bodies")

// bodyMemory is the memory that large bodies share.
type bodyMemory struct {
	mu       sync.Mutex
	limit    int64
	used     int64
	arriving map[*largeBody]bool // bodies with a reservation that are still arriving
}

// largeBody is one body and its reservation.
type largeBody struct {
	memory   *bodyMemory
	cancel   func() // ends the reading of the body
	reserved int64
	lastRead time.Time // time of the last reservation
	evicted  bool      // another body has its memory
}

// reserve reports whether n more bytes could be reserved.
func (b *largeBody) reserve(n int64) bool {
	if b == nil {
		return false
	}
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

// longestStalled returns the body other than b that has stalled for longest, or nil if none has stalled.
func (m *bodyMemory) longestStalled(b *largeBody, now time.Time) (stalled *largeBody) {
	for other := range m.arriving {
		if other != b && now.Sub(other.lastRead) >= stallTime &&
			(stalled == nil || other.lastRead.Before(stalled.lastRead)) {
			stalled = other
		}
	}
	return stalled
}

// releaseLocked releases the body's reservation. The caller holds the mutex of the memory.
func (b *largeBody) releaseLocked() {
	b.memory.used -= b.reserved
	b.reserved = 0
	delete(b.memory.arriving, b)
}

// reservedNothing reports whether the body has no reservation yet, or is nil. No other body then refers to
// it, and it needs no lock.
func (b *largeBody) reservedNothing() bool { return b == nil || b.lastRead.IsZero() }

// complete marks the body as complete, which prevents its eviction. It returns false if it was evicted
// before.
func (b *largeBody) complete() bool {
	if b.reservedNothing() {
		return true
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	delete(b.memory.arriving, b)
	return !b.evicted
}

// wasEvicted reports whether the body was evicted for another.
func (b *largeBody) wasEvicted() bool {
	if b.reservedNothing() {
		return false
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	return b.evicted
}

// release releases the body's reservation at the end of its request.
func (b *largeBody) release() {
	if b.reservedNothing() {
		return
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	b.releaseLocked()
}
