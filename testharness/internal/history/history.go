// Package history contains the common code of tests of single use: a model of validate for porcupine, which
// checks histories, and a recorder of calls by concurrent clients.
package history

import (
	"fmt"
	"math"
	"sync"

	"github.com/anishathalye/porcupine"
)

// Exchange is the input of one call of validate. Calls with the same Idempotency-Key have the same owner.
// Every call without a key has its own owner.
type Exchange struct{ Owner string }

// Answer is the output.
type Answer struct{ Status int }

// Unknown reports whether the token may have been used by the call, then or later: the store had an unknown
// result, or there was no response (status 0).
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

// Model is one result token: the first exchange uses it, and all others get 409.
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
			// The call has no end, so porcupine may also order it last, without effect.
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

// Recorder records the exchanges of one token. The zero Recorder is empty. It may be used concurrently.
type Recorder struct {
	mu      sync.Mutex
	clock   int64
	history []porcupine.Operation
}

// Call starts an exchange of a client and returns the function that ends it. An exchange whose outcome is
// unknown has no end, although its client continues.
func (r *Recorder) Call(client int, owner string) (end func(status int)) {
	call := r.tick()
	return func(status int) {
		ret := r.tick()
		r.mu.Lock()
		defer r.mu.Unlock()
		out := Answer{status}
		if out.Unknown() {
			ret = math.MaxInt64 - int64(len(r.history))
			client = 1000 + len(r.history) // a client of porcupine makes one call at a time
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

// History returns the exchanges that have ended.
func (r *Recorder) History() []porcupine.Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]porcupine.Operation(nil), r.history...)
}

// Explain returns an error if no order of the exchanges explains their results.
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
