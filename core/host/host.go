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

	// Count takes events worth a metric, one of the Count constants. Nil discards.
	Count func(event string)

	// Wake hints that a task now falls due in p at due, so that a runner that
	// sleeps can look again. A lost hint only delays. Nil: the runner polls.
	Wake func(p kv.Partition, due time.Time)
}

// ErrNotAuthentic is the one answer to a token that this key ring, purpose
// and host did not seal, whatever is wrong with it: telling more would help
// only whoever altered it.
var ErrNotAuthentic = errors.New("host: not authentic")

// ErrKeyAwaited says that other instances seal with the key of this token and
// that this instance does not have that key yet (contract 16). The token may be
// good: whoever asks is told to come again, and nothing is decided.
var ErrKeyAwaited = errors.New("host: sealed with a key that this instance has not read yet")

// ClockMargin is by how much the clocks of instances may differ.
const ClockMargin = 5 * time.Minute

// Dated reports whether something dated at could come from a key that sealed
// until then, zero for one that still seals. A key that was replaced opens what
// is older than its successor and nothing newer, so that a ring which leaked
// and was rotated forges nothing new (contract 16).
func Dated(at, until time.Time) bool {
	return until.IsZero() || !at.After(until.Add(ClockMargin))
}

// MACSize is the length of a MAC: the key's id in 4 bytes, and 16 of the tag.
const MACSize = 20

// Sealer keeps the keys. Natively it is token.Ring; a WASM guest is offered
// the same ring as an import, so that it holds no keys.
//
// A purpose separates: what was made for one never opens as another.
type Sealer interface {
	// Seal returns claims, a JSON object, as a sealed token.
	Seal(purpose string, claims []byte) ([]byte, error)

	// Open returns the claims of a token that Seal made for this purpose, and
	// when the successor of the key that sealed it began to seal, zero if it has
	// none: the caller holds that against the token's own date (Dated). The
	// error is ErrNotAuthentic or ErrKeyAwaited.
	Open(purpose string, sealed []byte) (claims []byte, until time.Time, err error)

	// MAC authenticates a message in MACSize bytes with the key that seals; the result names the key.
	MAC(purpose string, message []byte) ([]byte, error)

	// CheckMAC finds out in constant time whether MAC made mac, with any key of
	// the ring. until and err are as with Open. A nil mac asks about something
	// that the store holds without one: until is when every instance began to
	// write MACs, and the error says that this ring never did otherwise.
	CheckMAC(purpose string, message, mac []byte) (until time.Time, err error)
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

// Why a fetch has no answer. Events that died before there were the finer ones
// say network_error for all of those.
const (
	FetchBlocked   = "destination_not_allowed" // scheme, address or port is off limits
	FetchTimeout   = "timeout"
	FetchDNS       = "dns_error"
	FetchRefused   = "connection_refused"
	FetchTLS       = "tls_error"
	FetchMalformed = "malformed_answer" // begun, and no whole HTTP answer
	FetchNetwork   = "network_error"    // everything else, like a connection that broke
)

// FetchCause puts a Fetch constant into words for an operator, "" for any other text.
func FetchCause(reason string) string {
	switch reason {
	case FetchBlocked:
		return "its address is not a public one"
	case FetchTimeout:
		return "no whole answer came in time"
	case FetchDNS:
		return "its name was not found in the DNS"
	case FetchRefused:
		return "nothing listens at its address and port"
	case FetchTLS:
		return "no secure connection came about, look at its certificate"
	case FetchMalformed:
		return "what came back is not a whole HTTP answer"
	case FetchNetwork:
		return "the connection broke"
	}
	return ""
}

func (e *FetchError) Error() string { return "fetch: " + e.Reason + ": " + e.Err.Error() }
func (e *FetchError) Unwrap() error { return e.Err }
