package admin

import (
	"net/netip"
	"sync"
	"time"
)

// useStep is the interval at which the use of a token from one address is recorded in the audit.
const useStep = time.Hour

// maxSeen is the maximum number of entries of seen. When it is full it is emptied, and some uses are recorded
// twice.
const maxSeen = 1024

// seen stores the last use of operator tokens by address.
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
