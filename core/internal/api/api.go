// Package api implements the API of publishers: start, validate and reconcile, as specified in
// core/CONTRACT.md. openapi.yaml in this folder describes it for programs.
//
// Every handler has the same steps: it authenticates the caller, counts the request against the rate limits,
// checks the caller's rights, reads the body, decides, and returns one response. It denies a request if it
// cannot be certain.
package api

import (
	"context"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// API handles the requests of publishers. All fields are required.
type API struct {
	host.Host

	BaseURL    string // scheme and host, no slash at the end
	Dev        bool   // http callbacks to loopback, no readiness gate
	Partitions uint16 // number of partitions for sessions, at least 1
	Directory  *integration.Directory
	Lifecycle  *lifecycle.Lifecycle
	Results    *result.Tokens
	Limits     web.Limits
	Methods    map[string]method.Opened // by name
	Outbox     *outbox.Outbox           // for test events
}

// call is one request to the API.
type call struct {
	*API
	*router.Call
	ctx   context.Context
	about host.RequestInfo
}

// serve calls a handler, and then reports the request info.
func (a *API) serve(ctx context.Context, r *router.Call, handle func(*call) (*web.Response, error)) (
	*web.Response, error) {
	c := &call{API: a, Call: r, ctx: ctx}
	resp, err := handle(c)
	if c.about != (host.RequestInfo{}) {
		a.About(ctx, c.about)
	}
	return resp, err
}
