package api

import (
	"context"
	"slices"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/web"
)

// Preflight handles OPTIONS on start, the only endpoint that a browser may call (contract 7). A preflight
// does not contain the key, so it allows every origin of any integration. The request itself must come from
// an origin of the key's integration.
func (a *API) Preflight(ctx context.Context, r *router.Call) (*web.Response, error) {
	return a.serve(ctx, r, (*call).preflight)
}

func (c *call) preflight() (*web.Response, error) {
	if err := c.Take(c.ctx, c.preflightIP()); err != nil {
		return nil, err
	}
	origin := c.Header.Get("Origin")
	if origin == "" || c.Header.Get("Access-Control-Request-Method") != "POST" {
		return nil, &web.Error{Code: web.MethodNotAllowed, Message: "Use POST.",
			Allow: []string{"POST", "OPTIONS"}}
	}
	allowed, err := c.Directory.BrowserOrigin(c.ctx, origin)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, errOrigin
	}
	c.corsHeaders(origin)
	return &web.Response{Status: 204, Header: web.Header{
		"Cache-Control":                {"no-store"},
		"Access-Control-Allow-Methods": {"POST"},
		"Access-Control-Allow-Headers": {"Content-Type, Idempotency-Key, X-Correlation-Id"},
		"Access-Control-Max-Age":       {"600"},
	}}, nil
}

var errOrigin = &web.Error{Code: web.Forbidden,
	Message: "This origin is not allowed for the public key. Add it to the integration's browser origins."}

// errCallbackOrigins names the missing setting. Without it, publishers could not find out why the key is
// rejected.
var errCallbackOrigins = &web.Error{Code: web.Forbidden, Message: "A public key needs the " +
	"integration's callback origins. Add the origin of callback_url to its callback_origins."}

// publicRejection returns why the integration's public key may not start this request, or nil if it may. It
// may not if the request comes from a page whose origin the integration does not list, or if the integration
// has no callback origins. A request without Origin does not come from a page, but for example from an app.
func (c *call) publicRejection(i *integration.Integration) error {
	if c.Header.Has("Origin") && !slices.Contains(i.BrowserOrigins, c.Header.Get("Origin")) {
		return errOrigin
	}
	if !i.AllowsPublicKeys(c.Dev) {
		return errCallbackOrigins
	}
	return nil
}

// readable lets a page read an error that occurred before the page's key was known, for example to read
// Retry-After. As with a preflight, it allows every origin of any integration.
func (c *call) readable(err error) error {
	origin := c.Header.Get("Origin")
	if origin == "" {
		return err
	}
	if allowed, lookup := c.Directory.BrowserOrigin(c.ctx, origin); lookup == nil && allowed {
		c.corsHeaders(origin)
	}
	return err
}

func (c *call) corsHeaders(origin string) {
	c.SetHeader("Access-Control-Allow-Origin", origin)
	c.SetHeader("Vary", "Origin")
	c.SetHeader("Access-Control-Expose-Headers",
		"X-Request-Id, X-Correlation-Id, Retry-After, RateLimit, RateLimit-Policy")
}
