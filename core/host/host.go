// Package host is what the core asks of whoever runs it, beside the KV:
// time, randomness, sealing, outbound HTTP and a place for logs. An engine
// fills in a Host; nothing in the core reaches past it.
package host

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Host is handed to the core once. Fields marked optional may be zero.
type Host struct {
	KV     kv.KV
	Sealer Sealer
	Fetch  Fetcher

	// Now is the wall clock.
	Now func() time.Time

	// Random yields cryptographically secure bytes and never fails.
	Random io.Reader

	// Log takes internal causes. Nil discards. The core hands it no secret,
	// token, state, external user id or callback query.
	Log *slog.Logger

	// Count takes events worth a metric, a fixed small set of names. Nil discards.
	Count func(event string)

	// Wake hints that a task now falls due in p at due, so that a runner that
	// sleeps can look again. A lost hint only delays. Nil: the runner polls.
	Wake func(p kv.Partition, due time.Time)
}

// ErrNotAuthentic is the one answer to a token that this key ring, purpose
// and host did not seal, whatever is wrong with it: telling more would help
// only whoever altered it.
var ErrNotAuthentic = errors.New("host: not authentic")

// Sealer keeps the keys. Natively it is token.Ring; a WASM guest is offered
// the same ring as an import, so that it holds no keys.
//
// A purpose separates: what was made for one never opens as another.
type Sealer interface {
	// Seal returns claims, a JSON object, as a sealed token.
	Seal(purpose string, claims []byte) ([]byte, error)

	// Open returns the claims of a token that Seal made for this purpose, or ErrNotAuthentic.
	Open(purpose string, sealed []byte) ([]byte, error)

	// MAC authenticates a message with the first key; the result names the key.
	MAC(purpose string, message []byte) ([]byte, error)

	// CheckMAC reports in constant time whether MAC made mac, with any key of the ring.
	CheckMAC(purpose string, message, mac []byte) bool
}

// Fetcher is the guarded way out (contract 26, 28): https to public addresses
// only, no redirects, no proxies, the whole exchange within its limits.
type Fetcher interface {
	// Fetch returns the answer, whatever its status, or a *FetchError.
	Fetch(ctx context.Context, req FetchRequest) (FetchResponse, error)
}

// FetchRequest is one outbound request.
type FetchRequest struct {
	Method string
	URL    string
	Header map[string]string
	Body   []byte
}

// FetchResponse is what came back. Body is cut at the fetcher's limit.
type FetchResponse struct {
	Status int
	Header map[string]string // canonical names, first value of each
	Body   []byte
}

// FetchError says why there is no answer, in words that may be shown to an
// operator: Reason is one of the Fetch constants.
type FetchError struct {
	Reason string
	Err    error
}

// Why a fetch has no answer.
const (
	FetchBlocked = "destination_not_allowed" // scheme, address or port is off limits
	FetchTimeout = "timeout"
	FetchNetwork = "network_error" // name resolution, connection, TLS, reset
)

func (e *FetchError) Error() string { return "fetch: " + e.Reason + ": " + e.Err.Error() }
func (e *FetchError) Unwrap() error { return e.Err }
