package method

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
)

// StepTime is the maximum time for the provider in one Begin or Act, over all requests. Methods need not
// measure it: their Fetcher limits the timeout of a request to the time left, and sends no request after
// that. A server gives a request 15 s, which leaves time for the store and for an error page.
const StepTime = 12 * time.Second

// errNoTime is the cause of a timeout before anything was sent.
var errNoTime = errors.New("the requests before it took all the time that a step has")

// stepKey is the key of a running step in its context.
type stepKey struct{}

// running is a step on its way. Its requests follow each other, so it needs no lock.
type running struct {
	left  time.Duration               // of StepTime
	claim func(context.Context) error // of Opened.Act; nil: nothing has to be claimed, or it has been
	err   error                       // claim's: why nothing may be sent that is sent once
}

// ErrTooMany means that the session has sent as many pictures as it may.
var ErrTooMany = errors.New("method: the session has sent as many pictures as it may")

// begin gives a step its time. claim may be nil.
func begin(ctx context.Context, claim func(context.Context) error) (context.Context, *running) {
	step := &running{left: StepTime, claim: claim}
	return context.WithValue(ctx, stepKey{}, step), step
}

// FetchOnce is Fetch.Fetch for a request of an Act that a form or a return causes once, such as a user's
// picture, a code that is good for one use or a pushed request. Before the first such request the core claims
// the attempt, which costs a commit. While one Act has the claim, another sends no request, and its user
// waits for the result of the first. If Act then returns an error, or a Decision without a verdict, the user
// may send it again by a new form.
func (h Host) FetchOnce(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	if step, ok := ctx.Value(stepKey{}).(*running); ok {
		if step.claim != nil && step.err == nil {
			step.err = step.claim(ctx)
			step.claim = nil
		}
		if step.err != nil { // Opened.Act returns it, even if the method drops this error
			return host.FetchResponse{}, &host.FetchError{Reason: host.FetchTimeout, Err: step.err}
		}
	}
	return h.Fetch.Fetch(ctx, req)
}

// fetchFor is a Fetcher that adds the method's name, and keeps a step within its time.
type fetchFor struct {
	host.Fetcher
	method string
	now    func() time.Time
}

func (f fetchFor) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	req.For = f.method
	step, ok := ctx.Value(stepKey{}).(*running)
	if !ok {
		return f.Fetcher.Fetch(ctx, req)
	}
	if step.left <= 0 {
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchTimeout, Err: errNoTime}
	}
	if req.Timeout <= 0 || req.Timeout > step.left {
		req.Timeout = step.left
	}
	// A request costs no more than its timeout, because a wall clock may be set while it runs.
	began := f.now()
	resp, err := f.Fetcher.Fetch(ctx, req)
	step.left -= min(max(f.now().Sub(began), 0), req.Timeout)
	// A 5xx counts as no response: the provider is not available, even if there is a body. A probe is no
	// step: its operator sees the status.
	if err == nil && resp.Status >= 500 {
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchUnavailable,
			Err: fmt.Errorf("status %d", resp.Status)}
	}
	return resp, err
}
