package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/verge-id/verge/core/web"
)

// Paths of health checks. The public listener answers them itself.
const (
	AlivePath = "/healthz"
	ReadyPath = "/readyz"
)

// serveAlive answers 200 as long as the process runs. If the store fails, the
// process recovers by itself or ends. The word in the answer says whether the store
// fails.
func (s *Server) serveAlive(w http.ResponseWriter, detail bool) {
	var failing error
	if s.cfg.Store != nil {
		failing = s.cfg.Store.Failing()
	}
	switch {
	case failing == nil:
		writeHealth(w, http.StatusOK, "ok", "")
	case detail:
		writeHealth(w, http.StatusOK, "degraded", failing.Error())
	default:
		writeHealth(w, http.StatusOK, "degraded", "")
	}
}

// putOff raises Retry-After to the store's own value while the store fails.
func (s *Server) putOff(resp *web.Response) {
	if resp.Status != http.StatusServiceUnavailable || s.cfg.Store == nil {
		return
	}
	said, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	if wait := s.cfg.Store.RetryAfter(); wait > said {
		resp.Header.Set("Retry-After", strconv.Itoa(wait))
	}
}

// readiness asks the engine at most once a second, however often it is asked itself:
// anybody may ask on the public listener, and each answer costs the KV a round trip.
type readiness struct {
	check func(context.Context) error

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
	// Others get this answer as well, so it must not fail because one caller hangs up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	p.err = p.check(ctx)
	p.asked = time.Now()
	return p.err
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request, detail bool) {
	if s.draining.Load() {
		w.Header().Set("Connection", "close")
		writeHealth(w, http.StatusServiceUnavailable, "draining", "")
		return
	}
	if err := s.ready.now(r.Context()); err != nil {
		cause := ""
		if detail {
			cause = err.Error()
		}
		writeHealth(w, http.StatusServiceUnavailable, "unavailable", cause)
		return
	}
	s.serveAlive(w, detail)
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
