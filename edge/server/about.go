package server

import (
	"context"
	"log/slog"
	"sync"

	"github.com/verge-id/verge/core/host"
)

// aboutRecorder gathers what the core says a request is about. An engine that has given a request up may
// still say something of it.
type aboutRecorder struct {
	mu    sync.Mutex
	about host.RequestInfo
}

type aboutKey struct{}

// withAboutRecorder returns a context for a request, with the recorder that gathers its About.
func withAboutRecorder(ctx context.Context) (context.Context, *aboutRecorder) {
	r := new(aboutRecorder)
	return context.WithValue(ctx, aboutKey{}, r), r
}

// About adds to what the log says of the request of ctx (contract 48). It fits host.Observer.
func About(ctx context.Context, a host.RequestInfo) {
	r, ok := ctx.Value(aboutKey{}).(*aboutRecorder)
	if !ok {
		return // it is no request from the network
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

// aboutAttrs adds what is known to the attributes of a line.
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
