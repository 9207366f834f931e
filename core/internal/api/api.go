// Package api is the API of publishers: start, validate and reconcile, as core/CONTRACT.md has them.
// openapi.yaml beside this file describes the same for machines.
//
// Every handler goes the same way. It finds out who calls, counts the request against the limits, checks what
// the caller may do, reads the body, decides, and gives one answer. It denies whatever it does not know for
// certain.
package api

import (
	"context"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// API answers publishers. All fields are needed.
type API struct {
	host.Host

	BaseURL    string // scheme and host, no slash at the end
	Dev        bool   // http callbacks to loopback, no readiness gate
	Partitions uint16 // over how many partitions sessions are spread, at least 1
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
	*web.Call
	ctx   context.Context
	about host.RequestInfo
}

// serve calls a handler, and then reports what the request was about.
func (a *API) serve(ctx context.Context, r *web.Call, handle func(*call) (*web.Response, error)) (
	*web.Response, error) {
	c := &call{API: a, Call: r, ctx: ctx}
	resp, err := handle(c)
	if c.about != (host.RequestInfo{}) {
		a.About(ctx, c.about)
	}
	return resp, err
}
