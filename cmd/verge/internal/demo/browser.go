package demo

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// browser is the shop's data about one browser, which it recognises by a cookie: the active verifications,
// and the last accepted one.
type browser struct {
	seen     time.Time
	attempts map[string]attempt // by session id
	verified *verified
}

// attempt is one active verification.
type attempt struct {
	State         string
	IntegrationID string
	StartedAt     time.Time
	ExpiresAt     string

	// IdempotencyKey is sent with validate. With it, a repeated callback gets the same response, not the
	// error for a used token.
	IdempotencyKey string
}

// verified is one verification that the shop accepted.
type verified struct {
	Facts     facts
	StartedAt time.Time
}

// Limits of this data. The oldest entry is dropped first.
const (
	maxBrowsers = 1000
	maxAttempts = 20 // of one browser, for example one in each tab
)

type browsers struct {
	mu   sync.Mutex
	byID map[string]*browser
}

const cookieName = "demo_shop"

// remembered returns a copy of the data about r's browser, which may be empty.
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
	maps.Copy(b.attempts, known.attempts)
	return b
}

// remember changes the data about r's browser. An unknown browser gets a cookie with a new id. The shop never
// adopts an id that a browser sends.
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
			// With Strict, the browser would not send the cookie on its return, because another site, the
			// service, begins that navigation.
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
