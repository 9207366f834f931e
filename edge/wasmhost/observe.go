package wasmhost

import (
	"bytes"
	"errors"
	"time"

	"github.com/verge-id/verge/wasm/abi"
)

// Observer receives events for metrics. Its methods are called concurrently. Stats returns the current
// state.
type Observer interface {
	ModuleCompiled(took time.Duration)
	GuestStarted(took time.Duration)               // includes its configuration
	GuestRecycled()                                // replaced because its memory was full
	GuestFailed(cause string)                      // one of Causes
	EffectDone(kind string, took time.Duration)    // get, commit, claim, list, spend, fetch, sign or verify
	ModuleActivated(digest string, rejected error) // digest "": the module could not be read
	ModuleRolledBack(from, to, cause string)
}

// Causes of a guest's failure, as in metrics and logs.
const (
	causeMemory   = "out_of_memory"
	causeTrap     = "trap"     // a panic without recover, or an operation that WebAssembly forbids
	causeDeadline = "deadline" // an export did not return
	causeProtocol = "protocol" // it sent an invalid message
	causeHost     = "host"     // a function of the host failed
	causeStart    = "start"    // a replacement could not be started
)

// Causes returns all causes of a guest's failure.
func Causes() []string {
	return []string{causeMemory, causeTrap, causeDeadline, causeProtocol, causeHost, causeStart}
}

// stats is the state of an engine at one moment.
type stats struct {
	Digest    string // of the active module
	InFlight  int    // requests without a response yet
	Queued    int    // requests in flight that no guest has begun
	Instances int    // guests, including those that drain or do not return
	Memory    int64  // bytes of their linear memories
}

// failure is the reason why an instance is closed.
type failure struct {
	cause string
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func causeOf(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.cause
	}
	return causeTrap
}

// hostPanic is a panic in a function that guests import from the host.
type hostPanic struct{ value any }

func (hostPanic) Error() string { return "a function of the host panicked" }

// trapped returns the reason why an export did not return.
func (in *instance) trapped(err error) error {
	f := &failure{causeTrap, err}
	switch {
	case errors.As(err, new(hostPanic)):
		f.cause = causeHost
	case in.stderr.contains("out of memory"), in.stderr.contains("cannot allocate memory"):
		f.cause = causeMemory
	}
	return f
}

// stderrHead is the beginning of a guest's standard error, to which Go's runtime writes the reason for its
// end. It is not logged, because a panic may quote a request.
type stderrHead struct{ b []byte }

const maxStderrHead = 4 << 10

// Write implements io.Writer.
func (h *stderrHead) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), maxStderrHead-len(h.b))]...)
	return len(p), nil
}

func (h *stderrHead) contains(text string) bool {
	return bytes.Contains(h.b, []byte(text))
}

var effectNames = map[abi.Kind]string{
	abi.KVGet:    "get",
	abi.KVCommit: "commit",
	abi.KVClaim:  "claim",
	abi.KVList:   "list",
	abi.KVSpend:  "spend",
	abi.Fetch:    "fetch",
	abi.Sign:     "sign",
	abi.Decrypt:  "decrypt",
	abi.Verify:   "verify",

	abi.VerifyProof: "verify_proof",
}

// noObserver is an Observer without effect.
type noObserver struct{}

func (noObserver) ModuleCompiled(time.Duration)     {}
func (noObserver) GuestStarted(time.Duration)       {}
func (noObserver) GuestRecycled()                   {}
func (noObserver) GuestFailed(string)               {}
func (noObserver) EffectDone(string, time.Duration) {}
func (noObserver) ModuleActivated(string, error)    {}
func (noObserver) ModuleRolledBack(_, _, _ string)  {}
