package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/web"
)

// routeNone is the label of connections that sent no request.
const routeNone = "none"

// logPath returns the loggable form of a path (contract 13), or "" if it has none. A path is the caller's
// text: users paste keys, tokens and names into it, instead of an id or elsewhere. So the log contains the
// text of the route's pattern. The text at a placeholder is logged only if it has the form of an id.
func logPath(pattern, path string) string {
	before, name, after := web.Placeholder(pattern)
	if before == pattern {
		return path
	}
	text, ok := strings.CutPrefix(path, before)
	if !ok || name == "" {
		return ""
	}
	text = strings.TrimSuffix(text, after)
	isID := idForms[name]
	return before + orElided(text, isID != nil && isID(text)) + after
}

// idForms maps a placeholder to the check of its id's form.
var idForms = map[string]func(string) bool{"session": isSession, "id": isItem, "endpoint": isWords}

const elided = "…"

func orElided(text string, show bool) string {
	if show {
		return text
	}
	return elided
}

// A session id is recognised by its prefix and by the length of the base64url text that follows.
const (
	sessionPrefix = "svc_sess_"
	minSession    = 60
	maxSession    = 200
)

// isSession reports whether text has the form of a session id. Session ids are logged because they grant no
// access and operators search for them.
func isSession(text string) bool {
	rest, ok := strings.CutPrefix(text, sessionPrefix)
	if !ok || len(rest) > maxSession {
		return false
	}
	return minSession <= len(rest) && !strings.Contains(rest, "svc_") && all(rest, isBase64URL)
}

// isItem reports whether text has the form of an integration id or an event id.
func isItem(text string) bool {
	return isUUID(strings.TrimPrefix(strings.TrimPrefix(text, "evt_"), "int_"))
}

// isWords reports whether text consists of words only, as in the OpenID Connect endpoints. No token has
// that form.
func isWords(text string) bool {
	return len(text) <= 40 && all(text, func(c byte) bool {
		return 'a' <= c && c <= 'z' || c == '.' || c == '/' || c == '-'
	})
}

// pathWords returns the segments that occur in our own patterns and paths.
func pathWords(routes web.Table, streams map[string]Stream) map[string]bool {
	all := map[string]bool{}
	add := func(path string) {
		for word := range strings.SplitSeq(path, "/") {
			if word != "" && !strings.Contains(word, "{") {
				all[word] = true
			}
		}
	}
	for _, r := range routes {
		add(r.Pattern)
	}
	for path := range streams {
		add(path)
	}
	return all
}

// mostSegments is the number of segments that are checked separately. The rest of a path counts as one
// segment.
const mostSegments = 7

// operatorsPath is logPath for the operators' API, where a path without a route is logged as well. It shows
// our own words and ids.
func operatorsPath(words map[string]bool, path string) string {
	segments := strings.SplitN(path, "/", mostSegments)
	if segments[0] != "" || len(segments) < 2 || !words[segments[1]] {
		return ""
	}
	for i, s := range segments[1:] {
		segments[1+i] = orElided(s, words[s] || isItem(s) || isSession(s))
	}
	return strings.Join(segments, "/")
}

// logCorrelation returns the loggable form of a correlation id. A UUID or a W3C trace id is logged
// unchanged, because people do not choose such ids. Any other id is the caller's text and may contain a
// user's name. It is replaced by a part of its SHA-256, so that anyone who knows the text can find the
// line.
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

func (l *listener) logPath(pattern, path string) string {
	if l.pathWords != nil {
		return operatorsPath(l.pathWords, path)
	}
	return logPath(pattern, path)
}

// logAccess logs one response. The line has no query, no body and no header except the two ids. Rejections
// that many clients can cause at the same time are sampled.
func (l *listener) logAccess(req *web.Request, route *web.Route, resp *web.Response,
	about host.RequestInfo, why *rejection, took time.Duration) {
	if !l.s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 14)
	attrs = append(attrs,
		slog.String("listener", l.name),
		slog.String("method", logMethod(req.Method)),
		slog.String("route", route.Label))
	if path := l.logPath(route.Pattern, req.Path); path != "" {
		attrs = append(attrs, slog.String("path", path))
	}
	attrs = append(attrs,
		slog.Int("status", resp.Status),
		slog.Float64("took_ms", milliseconds(took)),
		slog.Int("bytes", len(resp.Body)),
		slog.String("request_id", resp.Header.Get("X-Request-Id")))
	attrs = l.s.clientAttrs(attrs, req.Client, req.Client.String())
	attrs = aboutAttrs(attrs, about)
	if id := web.CorrelationID(req.Header); id != "" {
		attrs = append(attrs, slog.String("correlation_id", logCorrelation(id)))
	}
	if why != nil && why.sampled {
		l.logSampled(slog.LevelInfo, "request "+strconv.Itoa(why.status), "request", attrs...)
		return
	}
	l.s.log.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}

// milliseconds returns d in milliseconds with three decimals, the format of all log lines.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// logMethod keeps unknown methods out of the log, because they are the client's text.
func logMethod(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return m
	}
	return elided
}
