package server

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/verge-id/verge/core/web"
)

// routeOf sorts a path into one of a few classes: a label of metrics must
// never be something that a client can choose freely.
func routeOf(door, path string) string {
	if door != "public" {
		return door
	}
	under := func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
	switch {
	case path == "/api/v1/verify/start":
		return "start"
	case path == "/api/v1/verify/validate":
		return "validate"
	case under("/api/v1/verify/sessions"):
		return "sessions"
	case under("/verify"):
		return "verify"
	case under("/docs"):
		return "docs"
	}
	return "other"
}

const sessionPrefix = "svc_sess_"

// logPath is the path as the log may hold it: session ids stay, since they are
// what an operator searches for and open nothing, and whatever might be a
// credential, or text that a person typed, is elided. Publishers do send keys
// and tokens where an id belongs.
func logPath(path string) string {
	segs := strings.Split(path, "/")
	if len(segs) > 12 {
		segs = append(segs[:12], "…")
	}
	for i, s := range segs {
		if !loggable(s) {
			segs[i] = "…"
		}
	}
	return strings.Join(segs, "/")
}

func loggable(segment string) bool {
	limit := 40
	if rest, ok := strings.CutPrefix(segment, sessionPrefix); ok {
		segment, limit = rest, 200
	}
	if len(segment) > limit || strings.Contains(segment, "svc_") {
		return false
	}
	for i := range len(segment) {
		c := segment[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// logAccess writes one line for one answer: never the query, a body or any
// header beyond the two ids.
func (s *Server) logAccess(r *http.Request, door, route string, client netip.Addr, resp *web.Response, took time.Duration) {
	if !s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attrs := []slog.Attr{
		slog.String("listener", door),
		slog.String("method", logMethod(r.Method)),
		slog.String("route", route),
		slog.String("path", logPath(r.URL.Path)),
		slog.Int("status", resp.Status),
		slog.Duration("took", took),
		slog.Int("bytes", len(resp.Body)),
		slog.String("client", client.String()),
		slog.String("request_id", resp.Header.Get("X-Request-Id")),
	}
	if id := correlationID(r); id != "" {
		attrs = append(attrs, slog.String("correlation_id", id))
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}

// logMethod keeps a made-up method out of the log: it is the client's text like any other.
func logMethod(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return m
	}
	return "…"
}
