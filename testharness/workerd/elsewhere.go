package workerd

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

// entering is a store of this process that a site uses, and the contexts of the active entries. When such a
// context ends, so do the calls to the store.
type entering struct {
	here bool // there is such a store

	mu       sync.Mutex
	contexts map[int]context.Context
	last     int
}

func (e *entering) begin(ctx context.Context) (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	n := e.last
	e.contexts[n] = ctx
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.contexts, n)
	}
}

// within returns a context that ends with the request, or with an active entry.
func (e *entering) within(request context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(request)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, entry := range e.contexts {
		if entry.Err() != nil { // AfterFunc would only tell a moment later
			cancel()
		}
		context.AfterFunc(entry, cancel)
	}
	return ctx, cancel
}

// carryOut serves a store's effects until the test ends. It returns the URL to which they are posted. A
// request contains a kind and the body, a response a status and the reply.
func (e *entering) carryOut(t testing.TB, store kv.KV) (url string) {
	t.Helper()
	e.here, e.contexts = true, map[int]context.Context{}
	meter, ok := store.(kv.Meter)
	if !ok {
		meter = ratelimit.NewLocal(0).Meter()
	}
	ports := effect.Ports{KV: store, Meter: meter}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, abi.MaxOutbox))
		if err != nil || len(message) == 0 || abi.Kind(message[0]) >= abi.Fetch {
			http.Error(w, "no effect of a store", http.StatusBadRequest)
			return
		}
		ctx, cancel := e.within(r.Context())
		defer cancel()
		status, reply := ports.Do(ctx, abi.Kind(message[0]), message[1:])
		w.Write(append([]byte{byte(status)}, reply...))
	}))
	t.Cleanup(s.Close)
	return s.URL
}
