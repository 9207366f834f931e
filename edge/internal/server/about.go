package server

import (
	"context"
	"log/slog"
	"sync"

	"github.com/verge-id/verge/core/host"
)

// aboutRecorder is the context of a request. It collects the core's information about the request. An engine
// may still report some after the server stopped waiting for it.
type aboutRecorder struct {
	context.Context
	mu    sync.Mutex
	about host.RequestInfo
}

type aboutKey struct{}

// Value returns the recorder itself for its key.
func (r *aboutRecorder) Value(key any) any {
	if key == (aboutKey{}) {
		return r
	}
	return r.Context.Value(key)
}

// About adds information to the log line of the request of ctx (contract 48). It has the signature of
// host.Observer's method.
func About(ctx context.Context, a host.RequestInfo) {
	r, ok := ctx.Value(aboutKey{}).(*aboutRecorder)
	if !ok {
		return // ctx is not that of a network request
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.about = r.about.With(a)
}

func (r *aboutRecorder) read() host.RequestInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about
}

// aboutAttrs appends the known fields of a to the attributes of a log line.
func aboutAttrs(attrs []slog.Attr, a host.RequestInfo) []slog.Attr {
	for _, m := range []struct{ key, value string }{
		{"session", a.Session}, {"integration", a.Integration}, {"publisher", a.Publisher}, {"key", a.Key},
		{"code", a.Code},
	} {
		if m.value != "" {
			attrs = append(attrs, slog.String(m.key, m.value))
		}
	}
	return attrs
}
