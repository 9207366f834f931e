package edge

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/host"
)

// measured is a Fetcher that reports how long the provider of a verification method takes, and whether it
// responds. It is in front of the client of every engine, so that a guest cannot report anything else.
type measured struct {
	host.Fetcher
	report func(m host.Measurement)
}

// Fetch implements host.Fetcher.
func (f measured) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	if req.For == "" { // a webhook, which has metrics of its own
		return f.Fetcher.Fetch(ctx, req)
	}
	begin := time.Now()
	resp, err := f.Fetcher.Fetch(ctx, req)
	m := host.Measurement{Method: req.For, Event: host.MethodFetched, Took: time.Since(begin)}
	if err != nil {
		m.Event, m.Reason = host.MethodFetchFailed, host.FetchNetwork
		if failed, ok := errors.AsType[*host.FetchError](err); ok {
			m.Reason = failed.Reason
		}
	} else if resp.Status >= 500 {
		m.Event, m.Reason = host.MethodFetchFailed, host.FetchUnavailable
	}
	f.report(m)
	return resp, err
}
