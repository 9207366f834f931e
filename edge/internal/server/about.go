package server

import (
	"context"
	"log/slog"
	"sync"

	"github.com/verge-id/verge/core/host"
)

// aboutRecorder collects the core's information about a request. An engine may still report some after the
// server stopped waiting for it.
type aboutRecorder struct {
	mu    sync.Mutex
	about host.RequestInfo
}

type aboutKey struct{}

// withAboutRecorder returns the context for a request, and the recorder that collects its information.
func withAboutRecorder(ctx context.Context) (context.Context, *aboutRecorder) {
	r := new(aboutRecorder)
	return context.WithValue(ctx, aboutKey{}, r), r
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
