// Package host is the port between the core and the engine that runs it, in addition to the KV: time,
// randomness, sealing, outbound HTTP and a log. An engine fills in a [Host]. The core uses no other way to
// its environment.
package host

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Host has the ports that an engine gives to the core. Sign, Decrypt, Verify, VerifyProof, Log and Observer
// are optional: core.New completes a Host once, by WithDefaults, and passes it on to packages of the core.
type Host struct {
	KV     kv.KV
	Sealer Sealer
	Fetch  Fetcher

	// Sign signs a message with the private key of that name. The algorithm is a JWS name: ES256, RS256,
	// PS256 or EdDSA. The signature has the form that JWS gives it. The keys stay with the engine, so that
	// neither the core nor a guest ever holds one. A name that no key has is ErrNoSuchKey. Any other error
	// says that this key cannot sign so, and its text is for the log. Nil: there are no keys.
	Sign func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

	// Decrypt returns the secret of an encrypted message (JWE) by the private key of that name. An empty
	// secret means that the message was not encrypted for this key, or was altered. It returns the same
	// errors as Sign. The algorithm is a name of JWE:
	//
	//	ECDH-ES       message: the sender's ephemeral key on P-256, uncompressed; secret: the shared one
	//	RSA-OAEP-256  message: the encrypted key; secret: the content-encryption key
	//
	// Nil: there are no keys.
	Decrypt func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

	// Verify verifies signatures. Nil: each verification fails with an error, so nothing is proven.
	Verify VerifyFunc

	// VerifyProof verifies zero-knowledge proofs. Nil: this engine verifies none, and a method that asks for
	// them cannot be opened.
	VerifyProof VerifyProofFunc

	// Now is the wall clock.
	Now func() time.Time

	// Random yields cryptographically secure bytes and never fails.
	Random io.Reader

	// Log gets internal causes. Nil discards them. The core gives it no secret, token, state, external
	// user id or callback query.
	Log *slog.Logger

	// Observer, if not nil, receives the events of the core. They are metrics, usage and hints: the core
	// works the same without them.
	Observer
}

// Observer receives the events of a core. Its methods may be called concurrently, and return quickly.
type Observer interface {
	// About receives the subject of the request of ctx, as far as it is known. It may be called several times
	// for one request; each call adds to the previous ones.
	About(ctx context.Context, a RequestInfo)

	// Count receives one of CountNames, for a metric.
	Count(event string)

	// Measure receives an event of a verification method, for a metric.
	Measure(m Measurement)

	// CountUsage receives usage. The host adds it up and has the core record the sums.
	CountUsage(t UsageEvent)

	// Wake is a hint that a task of p falls due at due, so that a sleeping runner can look again. If a hint
	// is lost, the task runs later.
	Wake(p kv.Partition, due time.Time)
}

// discard is an Observer that ignores all events.
type discard struct{}

func (discard) About(context.Context, RequestInfo) {}
func (discard) Count(string)                       {}
func (discard) Measure(Measurement)                {}
func (discard) CountUsage(UsageEvent)              {}
func (discard) Wake(kv.Partition, time.Time)       {}

// VerifyFunc reports whether a signature of a message is by the private key of publicKey. False: it is not.
// An error: the engine cannot check the signature. The caller then returns an error, and neither accepts nor
// rejects.
//
// publicKey is a SubjectPublicKeyInfo in DER. The algorithm is a name of JWS, for exactly one type of key, or
// a name of X.509 (RFC 5758), for three curves:
//
//	ES256, ES384, ES512                                      ECDSA on P-256, P-384, P-521
//	RS256, RS384, RS512, PS256, PS384, PS512                 RSA, 2,048 to 8,192 bits
//	EdDSA                                                    Ed25519
//	ecdsa-with-SHA256, ecdsa-with-SHA384, ecdsa-with-SHA512  ECDSA on P-256, P-384 or P-521
//
// The signature has the form of JWS. For ECDSA, including X.509's algorithms, it is r and s, each at the full
// length of the curve's order. The salt of PS256, PS384 and PS512 is as long as the hash.
type VerifyFunc func(
	ctx context.Context, algorithm string, publicKey, message, signature []byte,
) (bool, error)

// errNoVerify is the error of a Host without Verify.
var errNoVerify = errors.New("host: this host verifies no signatures")

// WithDefaults returns h with a Log and an Observer that do nothing instead of nil, and with a Verify that
// returns an error instead of nil.
func WithDefaults(h Host) Host {
	if h.Verify == nil {
		h.Verify = func(context.Context, string, []byte, []byte, []byte) (bool, error) {
			return false, errNoVerify
		}
	}
	if h.Log == nil {
		h.Log = slog.New(slog.DiscardHandler)
	}
	if h.Observer == nil {
		h.Observer = discard{}
	}
	return h
}

// ErrNotAuthentic is the only error for a token that was not sealed with this key ring, for this
// purpose and host. A more exact error would help only an attacker who altered the token.
var ErrNotAuthentic = errors.New("host: not authentic")

// ErrKeyAwaited: other instances seal with the key of this token, and this instance does not have the key yet
// (contract 16). The token may be valid. The caller gets a 503 and may retry; no decision is made.
var ErrKeyAwaited = errors.New("host: sealed with a key that this instance has not read yet")

// ErrNoSuchKey is returned by Sign and Decrypt if no private key has that name.
var ErrNoSuchKey = errors.New("host: there is no private key of that name")

// MethodSecret is the purpose under which a host seals the secrets of methods for a guest.
const MethodSecret = "method-secret"

// ClockMargin is the largest difference that the clocks of instances may have.
const ClockMargin = 5 * time.Minute

// ValidAt reports whether data dated at can come from a key that was active until the given time. A zero
// until means that the key is still active. A replaced key is valid only for data older than its successor,
// so that an attacker with a leaked and then rotated ring cannot forge new data (contract 16).
func ValidAt(at, until time.Time) bool {
	return until.IsZero() || !at.After(until.Add(ClockMargin))
}

// MACSize is the length of a MAC: 4 bytes of the key's id and 16 bytes of the tag.
const MACSize = 20

// Sealer keeps the keys. Natively it is token.Ring. A WASM guest gets the same ring as an import, so
// that it holds no keys.
//
// Purposes are separate: a token for one purpose never opens for another.
type Sealer interface {
	// Seal returns claims, a JSON object, as a sealed token.
	Seal(purpose string, claims []byte) ([]byte, error)

	// Open returns the claims of a token that Seal created for this purpose. until is the time at which the
	// key's successor became active, or zero. The caller compares it with the token's own date (ValidAt).
	// Open returns ErrNotAuthentic or ErrKeyAwaited.
	Open(purpose string, sealed []byte) (claims []byte, until time.Time, err error)

	// MAC authenticates a message in MACSize bytes, with the active key. The result names the key.
	MAC(purpose string, message []byte) ([]byte, error)

	// CheckMAC checks in constant time whether MAC made mac with any key of the ring. until and err are
	// as in Open. A nil mac is a question about an item that the store holds without a MAC. Then until
	// is when every instance began to write MACs, and an error says that this ring has always written
	// them.
	CheckMAC(purpose string, message, mac []byte) (until time.Time, err error)
}

// Fetcher is the guarded way to other servers (contract 26, 28). It allows only https to public
// addresses, follows no redirects, uses no proxies, and keeps the whole exchange within its limits.
type Fetcher interface {
	// Fetch returns the response, of any status, or a *FetchError.
	Fetch(ctx context.Context, req FetchRequest) (FetchResponse, error)
}

// FetchRequest is one outbound request.
type FetchRequest struct {
	Method string
	URL    string
	Header map[string]string
	Body   []byte

	// For is the name of the verification method that asks, or "" for a webhook. The operator may allow a
	// method a private CA and private addresses.
	For string

	// Timeout bounds the whole exchange. Zero, or more than the fetcher's own limit: that limit.
	Timeout time.Duration

	// MaxBody allows a larger response, such as a trusted list, and with it more time. The host sets it, and
	// no guest. Zero: the fetcher's limit.
	MaxBody int
}

// FetchResponse is the response. Body is cut at the fetcher's limit.
type FetchResponse struct {
	Status int
	Header map[string]string // canonical names, first value of each
	Body   []byte
}

// FetchError is the reason why there is no response. Reason is one of the Fetch constants, which operators
// may see.
type FetchError struct {
	Reason string
	Err    error
}

// Reasons why a fetch has no response. Events that died before some of these reasons existed have
// network_error for all of those.
const (
	FetchBlocked = "destination_not_allowed" // scheme, address or port is not allowed
	FetchTimeout = "timeout"
	FetchDNS     = "dns_error"
	FetchRefused = "connection_refused"
	FetchTLS     = "tls_error"
	FetchNetwork = "network_error" // everything else, such as a broken connection

	// The response began, and is not a whole HTTP response.
	FetchStatusLine = "malformed_status"
	FetchHeaderLine = "malformed_header"
	FetchHeaderSize = "header_too_large"
	FetchCut        = "incomplete_answer"
	FetchMalformed  = "malformed_answer" // for another reason

	// FetchUnavailable is a response 5xx of a method's provider, or a list of revoked documents that a
	// method cannot use. Only methods have it: a webhook's status is in its log.
	FetchUnavailable = "unavailable"
)

// FetchCause returns a sentence for an operator about a Fetch constant, or "" for any other text.
func FetchCause(reason string) string {
	switch reason {
	case FetchBlocked:
		return "its address is not a public one"
	case FetchTimeout:
		return "no whole response came in time"
	case FetchDNS:
		return "its name was not found in the DNS"
	case FetchRefused:
		return "nothing listens at its address and port"
	case FetchTLS:
		return "no secure connection, check its certificate"
	case FetchStatusLine:
		return "its response does not begin with an HTTP status line"
	case FetchHeaderLine:
		return "a header line of its response is malformed"
	case FetchHeaderSize:
		return "the header of its response is larger than 64 KiB"
	case FetchCut:
		return "the connection ended before the whole response had arrived"
	case FetchMalformed:
		return "the response is not a whole HTTP response"
	case FetchNetwork:
		return "the connection broke"
	case FetchUnavailable:
		return "it reports an internal error (status 500 to 599)"
	}
	return ""
}

func (e *FetchError) Error() string { return "fetch: " + e.Reason + ": " + e.Err.Error() }
func (e *FetchError) Unwrap() error { return e.Err }
