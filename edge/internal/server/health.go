package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/verge-id/verge/core/web"
)

// Paths of health checks. The public listener handles them itself.
const (
	AlivePath = "/healthz"
	ReadyPath = "/readyz"
)

// health is the result of a health check.
type health struct {
	status int
	word   string
	cause  error // only for responses that may include the reason
}

// alive always returns 200: the process runs. If the store fails, the process recovers automatically or
// exits. The word reports whether the store fails.
func (s *Server) alive() health {
	if s.cfg.Store != nil {
		if failing := s.cfg.Store.Failing(); failing != nil {
			return health{http.StatusOK, "degraded", failing}
		}
	}
	return health{http.StatusOK, "ok", nil}
}

// readyNow returns 503 if a balancer should send no requests. Without withStore, only faults of this
// instance count.
func (s *Server) readyNow(ctx context.Context, withStore bool) health {
	if s.draining.Load() {
		return health{http.StatusServiceUnavailable, "draining", nil}
	}
	check := s.cfg.ReadyAlone
	if withStore {
		check = s.ready.now
	}
	if err := check(ctx); err != nil {
		return health{http.StatusServiceUnavailable, "unavailable", err}
	}
	return s.alive()
}

// raiseRetryAfter raises Retry-After to the store's own value while the store fails.
func (s *Server) raiseRetryAfter(resp *web.Response) {
	if resp.Status != http.StatusServiceUnavailable || s.cfg.Store == nil {
		return
	}
	current, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	if wait := s.cfg.Store.RetryAfter(); wait > current {
		resp.Header.Set("Retry-After", strconv.Itoa(wait))
	}
}

// readiness asks the engine at most once a second, regardless of the number of checks: anyone can send them
// to the public listener, and each costs the KV a round trip.
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
	// Other callers get this result as well, so it must not fail because one of them disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	p.err = p.check(ctx)
	p.asked = time.Now()
	return p.err
}

// serveHealth responds to a health check of a listener. detail includes the reason in the response. Checks
// are logged only at level DEBUG, because balancers send one every few seconds.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request, listener string, client netip.Addr,
	detail bool) {
	begin := time.Now()
	id, h := newRequestID(), w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Request-Id", id)
	correlation := web.CorrelationID(web.Header(r.Header))
	if correlation != "" {
		h.Set("X-Correlation-Id", correlation)
	}
	var status int
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		status = s.writeHealth(w, r, detail)
	} else {
		status = http.StatusMethodNotAllowed
		e := web.Error{Code: web.MethodNotAllowed, Message: "Use GET or HEAD."}
		h.Set("Allow", "GET, HEAD")
		w.WriteHeader(status)
		w.Write(e.Body(id, correlation))
	}

	if !s.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "request", s.clientAttrs([]slog.Attr{
		slog.String("listener", listener), slog.String("method", logMethod(r.Method)),
		slog.String("path", r.URL.Path), slog.Int("status", status),
		slog.Float64("took_ms", milliseconds(time.Since(begin))), slog.String("request_id", id),
	}, client, client.String())...)
}

// writeHealth writes the result of a health check and returns its status.
func (s *Server) writeHealth(w http.ResponseWriter, r *http.Request, detail bool) (status int) {
	found := s.alive()
	if r.URL.Path == ReadyPath {
		found = s.readyNow(r.Context(), r.URL.Query().Get("store") != "ignore")
	}
	response := struct {
		Status string `json:"status"`
		Cause  string `json:"cause,omitempty"`
	}{Status: found.word}
	if detail && found.cause != nil {
		response.Cause = found.cause.Error()
	}
	if found.word == "draining" {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(found.status)
	json.NewEncoder(w).Encode(response)
	return found.status
}
