package demo

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// browser is what the shop remembers of one browser, bound to it by a cookie:
// the verifications it was sent away for, and the last one it came back from.
type browser struct {
	seen     time.Time
	attempts map[string]attempt // by session id
	verified *verified
}

// attempt is one verification under way.
type attempt struct {
	State         string
	IntegrationID string
	StartedAt     time.Time
	ExpiresAt     string

	// IdempotencyKey goes with validate, so that a repeated callback repeats
	// the answer instead of finding the token used.
	IdempotencyKey string
}

// verified is one verification that the shop accepted.
type verified struct {
	Facts     facts
	StartedAt time.Time
}

// Bounds of what is remembered. The oldest goes first.
const (
	maxBrowsers = 1000
	maxAttempts = 20 // of one browser; a tab each
)

type browsers struct {
	mu   sync.Mutex
	byID map[string]*browser
}

const cookieName = "demo_shop"

// remembered returns a copy of what is known of r's browser; empty if nothing.
func (s *Site) remembered(r *http.Request) (b browser) {
	s.browsers.mu.Lock()
	defer s.browsers.mu.Unlock()
	c, err := r.Cookie(cookieName)
	if err != nil {
		return browser{}
	}
	known := s.browsers.byID[c.Value]
	if known == nil {
		return browser{}
	}
	b = *known
	b.attempts = make(map[string]attempt, len(known.attempts))
	for id, a := range known.attempts {
		b.attempts[id] = a
	}
	return b
}

// remember changes what is known of r's browser. One that is not known yet
// gets a cookie with an id of our choice, never the one it came with.
func (s *Site) remember(w http.ResponseWriter, r *http.Request, change func(*browser)) {
	s.browsers.mu.Lock()
	defer s.browsers.mu.Unlock()
	all := s.browsers.byID
	var b *browser
	if c, err := r.Cookie(cookieName); err == nil {
		b = all[c.Value]
	}
	if b == nil {
		if len(all) >= maxBrowsers {
			delete(all, oldest(all, func(b *browser) time.Time { return b.seen }))
		}
		id := s.random(16)
		b = &browser{attempts: map[string]attempt{}}
		all[id] = b
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: id, Path: "/",
			HttpOnly: true,
			// Lax and not Strict: the way back from the service is a
			// navigation that another site began.
			SameSite: http.SameSiteLaxMode,
			Secure:   strings.HasPrefix(s.conf.DemoURL, "https:"),
		})
	}
	b.seen = s.conf.Now()
	change(b)
	if len(b.attempts) > maxAttempts {
		delete(b.attempts, oldest(b.attempts, func(a attempt) time.Time { return a.StartedAt }))
	}
}

func oldest[V any](m map[string]V, when func(V) time.Time) (key string) {
	var first time.Time
	for k, v := range m {
		if t := when(v); key == "" || t.Before(first) {
			key, first = k, t
		}
	}
	return key
}
