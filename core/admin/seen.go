package admin

import (
	"net/netip"
	"sync"
	"time"
)

// useStep is how often the use of a token from one address goes into the audit.
const useStep = time.Hour

// maxSeen bounds what seen remembers. When it is full it begins anew, and some uses are entered twice.
const maxSeen = 1024

// seen remembers which operator tokens were used from where.
type seen struct {
	mu   sync.Mutex
	last map[use]time.Time
}

type use struct {
	token string
	from  netip.Addr
}

// first reports whether this is the first use of a token from an address for an hour.
func (s *seen) first(token string, from netip.Addr, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := use{token, from}
	if last, ok := s.last[key]; ok && now.Sub(last).Abs() < useStep {
		return false
	}
	if s.last == nil || len(s.last) >= maxSeen {
		s.last = map[use]time.Time{}
	}
	s.last[key] = now
	return true
}
