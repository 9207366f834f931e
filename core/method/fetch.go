package method

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/host"
)

// StepTime is how long the other side may take in one Begin or Act, over all requests. Methods need not
// count: their Fetcher shortens the timeout of a request to what is left, and sends nothing when nothing is
// left. A server gives a request 15 s, so there is time for the store and for a page that says what happened.
const StepTime = 12 * time.Second

// errNoTime is the cause of a timeout before anything was sent.
var errNoTime = errors.New("the requests before it took all the time that a step has")

// stepKey is the key of a step's time in its context.
type stepKey struct{}

// stepTime is what is left. The requests of a step follow each other, so it needs no lock.
type stepTime struct{ left time.Duration }

func withTime(ctx context.Context) context.Context {
	return context.WithValue(ctx, stepKey{}, &stepTime{StepTime})
}

// fetchFor is a Fetcher that says for which method it asks, and keeps a step within its time.
type fetchFor struct {
	host.Fetcher
	method string
	now    func() time.Time
}

func (f fetchFor) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	req.For = f.method
	step, ok := ctx.Value(stepKey{}).(*stepTime)
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
	return resp, err
}
