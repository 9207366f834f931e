package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/reply"
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

// routeNone stands for what was no request.
const routeNone = "none"

// Of session ids, no more than what tells them from other text: the prefix and
// so much base64url.
const (
	sessionsPath  = "/api/v1/verify/sessions/"
	sessionPrefix = "svc_sess_"
	minSession    = 60
	maxSession    = 200
)

// logPath is the path as the log may hold it (contract 13), "" for none: one
// that is known, or parts of it. A path is the caller's text. People paste keys,
// tokens and their users' names into it, where an id belongs and elsewhere.
func logPath(door, path string) string {
	if door == "admin" {
		return adminPath(path)
	}
	switch path {
	case "/", "/api/v1/verify/start", "/api/v1/verify/validate", "/api/v1/openapi.yaml", "/verify", "/docs", "/docs/docs.css", "/favicon.ico":
		return path
	}
	if id, ok := strings.CutPrefix(path, sessionsPath); ok {
		return sessionsPath + orElided(id, isSession(id))
	}
	return ""
}

const elided = "…"

func orElided(text string, show bool) string {
	if show {
		return text
	}
	return elided
}

// isSession reports whether text has the form of a session id, which opens
// nothing and is what operators search for.
func isSession(text string) bool {
	rest, ok := strings.CutPrefix(text, sessionPrefix)
	return ok && minSession <= len(rest) && len(rest) <= maxSession && !strings.Contains(rest, "svc_") && all(rest, isBase64URL)
}

// adminPath shows the operators' API's own words, and ids that are UUIDs.
func adminPath(path string) string {
	const prefix = "/admin/v1/"
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return ""
	}
	segments := strings.SplitN(rest, "/", 4)
	for i, s := range segments {
		switch s {
		case "integrations", "keys", "deliveries", "module", "test", "revoke", "resend":
		default:
			segments[i] = orElided(s, isUUID(strings.TrimPrefix(strings.TrimPrefix(s, "evt_"), "int_")))
		}
	}
	return prefix + strings.Join(segments, "/")
}

// logCorrelation is a correlation id as the log may hold it: as it is where it
// has the form of a UUID or of a W3C trace id, which people do not make up. Any
// other is a caller's text, which may be a user's name, and is replaced by a
// part of its SHA-256, by which whoever knows the text finds the line.
func logCorrelation(id string) string {
	if isUUID(id) || len(id) == 32 && all(id, isHex) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:8])
}

func isUUID(s string) bool {
	return len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
		all(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:], isHex)
}

func all(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func isBase64URL(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// logAccess writes one line for one answer: never the query, a body or any
// header beyond the two ids. A refusal that a crowd may cause has its line
// only now and then.
func (d *door) logAccess(r *http.Request, route string, client netip.Addr, resp *web.Response, why *refusal, took time.Duration) {
	if !d.s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("listener", d.name),
		slog.String("method", logMethod(r.Method)),
		slog.String("route", route))
	if path := logPath(d.name, r.URL.Path); path != "" {
		attrs = append(attrs, slog.String("path", path))
	}
	attrs = append(attrs,
		slog.Int("status", resp.Status),
		slog.Duration("took", took),
		slog.Int("bytes", len(resp.Body)),
		slog.String("client", client.String()),
		slog.String("request_id", resp.Header.Get("X-Request-Id")))
	if id := reply.CorrelationID(web.Header(r.Header)); id != "" {
		attrs = append(attrs, slog.String("correlation_id", logCorrelation(id)))
	}
	if why != nil && why.seldom {
		d.seldomLog(slog.LevelInfo, "request "+strconv.Itoa(why.status), "request", attrs...)
		return
	}
	d.s.log.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}

// logMethod keeps a made-up method out of the log: it is the client's text like any other.
func logMethod(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return m
	}
	return elided
}
