package wasmhost

import (
	"bytes"
	"errors"
	"time"

	"github.com/verge-id/verge/wasm/abi"
)

// Observer learns what happens, for metrics. Its methods are called concurrently. Stats has what can be
// read at any time.
type Observer interface {
	ModuleCompiled(took time.Duration)
	GuestStarted(took time.Duration)              // includes its configuration
	GuestRecycled()                               // it was replaced because its memory was full
	GuestFailed(cause string)                     // one of the causes
	EffectDone(kind string, took time.Duration)   // get, commit, claim, list, spend, fetch or sign
	ModuleActivated(digest string, refused error) // digest "": it could not be read
	ModuleRolledBack(from, to, cause string)
}

// Causes of a guest's failure.
const (
	CauseMemory   = "out_of_memory"
	CauseTrap     = "trap"     // a panic without recover, or an operation that WebAssembly forbids
	CauseDeadline = "deadline" // an export did not return
	CauseProtocol = "protocol" // it said something that cannot be relied on
	CauseHost     = "host"     // a function that it imports failed
	CauseStart    = "start"    // it could not be started to replace another guest
)

// Causes returns all of them.
func Causes() []string {
	return []string{CauseMemory, CauseTrap, CauseDeadline, CauseProtocol, CauseHost, CauseStart}
}

// Stats is the state of an engine at one moment.
type Stats struct {
	Digest    string // of the module that takes requests
	InFlight  int    // requests that the engine got and has not answered
	Queued    int    // those of them that no guest has begun
	Instances int    // guests, including those that drain or do not return
	Memory    int64  // bytes of their linear memories
}

// failure is why an instance is given up.
type failure struct {
	cause string
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func causeOf(err error) string {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f.cause
	}
	return CauseTrap
}

// hostPanic is a panic in a function of the host that guests import.
type hostPanic struct{ value any }

func (hostPanic) Error() string { return "a function of the host panicked" }

// trapped returns why an export did not return.
func (in *instance) trapped(err error) error {
	f := &failure{CauseTrap, err}
	switch {
	case errors.As(err, new(hostPanic)):
		f.cause = CauseHost
	case in.words.says("out of memory"), in.words.says("cannot allocate memory"):
		f.cause = CauseMemory
	}
	return f
}

// lastWords is the beginning of what a guest writes to standard error, where Go's runtime writes why it
// ends. It is not logged, because a panic may quote a request.
type lastWords struct{ b []byte }

const maxLastWords = 4 << 10

// Write implements io.Writer.
func (w *lastWords) Write(p []byte) (int, error) {
	w.b = append(w.b, p[:min(len(p), maxLastWords-len(w.b))]...)
	return len(p), nil
}

func (w *lastWords) says(text string) bool {
	return bytes.Contains(w.b, []byte(text))
}

var effectNames = map[abi.Kind]string{
	abi.KVGet:    "get",
	abi.KVCommit: "commit",
	abi.KVClaim:  "claim",
	abi.KVList:   "list",
	abi.KVSpend:  "spend",
	abi.Fetch:    "fetch",
	abi.Sign:     "sign",
}

// nobody is an Observer that does nothing.
type nobody struct{}

func (nobody) ModuleCompiled(time.Duration)     {}
func (nobody) GuestStarted(time.Duration)       {}
func (nobody) GuestRecycled()                   {}
func (nobody) GuestFailed(string)               {}
func (nobody) EffectDone(string, time.Duration) {}
func (nobody) ModuleActivated(string, error)    {}
func (nobody) ModuleRolledBack(_, _, _ string)  {}
