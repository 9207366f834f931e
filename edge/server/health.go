package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

func serveAlive(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, http.StatusOK, "ok", "")
}

// readiness asks the engine at most once a second, however many ask it: on
// the public listener anyone may, and the answer costs the KV a round trip.
type readiness struct {
	check    func(context.Context) error
	draining *atomic.Bool

	mu    sync.Mutex
	asked time.Time
	err   error
}

const (
	readyKept    = time.Second
	readyTimeout = 2 * time.Second
)

func (p *readiness) now(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked.IsZero() && time.Since(p.asked) < readyKept {
		return p.err
	}
	// The answer is shared, so a caller that hangs up must not make it "no".
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	p.err = p.check(ctx)
	p.asked = time.Now()
	return p.err
}

func (p *readiness) serve(w http.ResponseWriter, r *http.Request, detail bool) {
	if p.draining.Load() {
		w.Header().Set("Connection", "close")
		writeHealth(w, http.StatusServiceUnavailable, "draining", "")
		return
	}
	if err := p.now(r.Context()); err != nil {
		cause := ""
		if detail {
			cause = err.Error()
		}
		writeHealth(w, http.StatusServiceUnavailable, "unavailable", cause)
		return
	}
	writeHealth(w, http.StatusOK, "ok", "")
}

func writeHealth(w http.ResponseWriter, status int, word, cause string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Request-Id", newRequestID())
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(struct {
		Status string `json:"status"`
		Cause  string `json:"cause,omitempty"`
	}{word, cause})
}
