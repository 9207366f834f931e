// Package history is what tests of single use share: a model of validate for
// porcupine, which checks histories, and a recorder of calls by clients that do
// not wait for each other.
package history

import (
	"fmt"
	"math"
	"sync"

	"github.com/anishathalye/porcupine"
)

// Exchange is the input of one call of validate. A caller who repeats a call
// under its Idempotency-Key is the same owner. Every call without a key has an
// owner of its own.
type Exchange struct{ Owner string }

// Answer is its output.
type Answer struct{ Status int }

// Unknown reports whether the token may have been used by the call, then or
// later: the store could not say, or there was no answer at all (status 0).
func (a Answer) Unknown() bool { return a.Status == 503 || a.Status == 0 }

func (a Answer) String() string {
	switch {
	case a.Status == 200:
		return "valid"
	case a.Status == 409:
		return "used"
	case a.Unknown():
		return "unknown"
	}
	return fmt.Sprint("status ", a.Status)
}

// Model is one result token: the first exchange gets it, all others are told that
// it is used.
var Model = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		owner, in, out := state.(string), input.(Exchange), output.(Answer)
		switch {
		case out.Status == 200:
			return owner == "" || owner == in.Owner, in.Owner
		case out.Status == 409:
			return owner != "" && owner != in.Owner, owner
		case out.Unknown():
			// It has no end. So porcupine may also put it after all others, where
			// it changes nothing.
			if owner == "" {
				owner = in.Owner
			}
			return true, owner
		}
		return false, owner
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("validate by %s is %s", input.(Exchange).Owner, output)
	},
}

// Recorder records the exchanges of one token. The zero Recorder is empty. It may
// be used concurrently.
type Recorder struct {
	mu      sync.Mutex
	clock   int64
	history []porcupine.Operation
}

// Call begins an exchange of a client and returns the function that ends it. An
// exchange whose outcome is unknown has no end, although its client goes on.
func (r *Recorder) Call(client int, owner string) (end func(status int)) {
	call := r.tick()
	return func(status int) {
		ret := r.tick()
		r.mu.Lock()
		defer r.mu.Unlock()
		out := Answer{status}
		if out.Unknown() {
			ret = math.MaxInt64 - int64(len(r.history))
			client = 1000 + len(r.history) // a client of porcupine does one thing after the other
		}
		r.history = append(r.history, porcupine.Operation{ClientId: client, Input: Exchange{owner},
			Output: out, Call: call, Return: ret})
	}
}

func (r *Recorder) tick() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	return r.clock
}

// History is every exchange that has ended.
func (r *Recorder) History() []porcupine.Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]porcupine.Operation(nil), r.history...)
}

// Explain returns an error if no order of the exchanges explains what the
// callers were told.
func Explain(history []porcupine.Operation) error {
	if porcupine.CheckOperations(Model, history) {
		return nil
	}
	text := "no order explains this history:"
	for _, op := range history {
		text += fmt.Sprintf("\nclient %d from %d to %d: %s", op.ClientId, op.Call, op.Return,
			Model.DescribeOperation(op.Input, op.Output))
	}
	return fmt.Errorf("%s", text)
}
