package server

import (
	"context"
	"log/slog"
	"sync"

	"github.com/verge-id/verge/core/host"
)

// notes gathers what the core says a request is about. An engine that has given a request up may still say
// something of it.
type notes struct {
	mu    sync.Mutex
	about host.About
}

type notesKey struct{}

// withNotes returns a context for a request whose About is gathered in the notes.
func withNotes(ctx context.Context) (context.Context, *notes) {
	n := new(notes)
	return context.WithValue(ctx, notesKey{}, n), n
}

// About adds to what the log says of the request of ctx (contract 48). It fits host.Host.About.
func About(ctx context.Context, a host.About) {
	n, ok := ctx.Value(notesKey{}).(*notes)
	if !ok {
		return // it is no request from the network
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.about = n.about.With(a)
}

func (n *notes) read() host.About {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.about
}

// aboutAttrs adds what is known to the attributes of a line.
func aboutAttrs(attrs []slog.Attr, a host.About) []slog.Attr {
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
