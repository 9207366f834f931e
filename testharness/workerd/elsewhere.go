package workerd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

// carryOut serves a store's effects until the test ends and returns the URL to
// which they are posted: a kind and the body, answered by a status and the reply.
func carryOut(t testing.TB, store kv.KV) (url string) {
	t.Helper()
	meter, ok := store.(kv.Meter)
	if !ok {
		meter = ratelimit.NewLocal(0).Meter()
	}
	ports := effect.Ports{KV: store, Meter: meter}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, abi.MaxOutbox))
		if err != nil || len(message) == 0 || abi.Kind(message[0]) == abi.Fetch {
			http.Error(w, "no effect of a store", http.StatusBadRequest)
			return
		}
		status, reply := ports.Do(r.Context(), abi.Kind(message[0]), message[1:])
		w.Write(append([]byte{byte(status)}, reply...))
	}))
	t.Cleanup(s.Close)
	return s.URL
}
