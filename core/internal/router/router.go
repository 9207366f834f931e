// Package router serves requests by tables of routes. It counts them against limits, and maps errors to
// responses once.
package router

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
)

// Handler serves the requests of a route. If its error contains an [web.Error], that error is the response.
type Handler func(ctx context.Context, c *Call) (*web.Response, error)

// Page returns the handler of a page, which always has a response: its errors are pages.
func Page(serve func(ctx context.Context, c *Call) *web.Response) Handler {
	return func(ctx context.Context, c *Call) (*web.Response, error) { return serve(ctx, c), nil }
}

// Call is one request on its way through a handler.
type Call struct {
	*web.Request
	Now   time.Time
	Route *Route
	Text  string   // the text of the route's placeholder
	Allow []string // the methods of the path, if Router.NoRoute serves the request

	limiter *ratelimit.Limiter
	limits  ratelimit.Result // of all limits that were asked
	charged []ratelimit.Rule // the rules that were counted
	header  []headerLine
}

// headerLine is a header of a response that does not exist yet. A map of them would cost a WASM guest more
// than the header of the response.
type headerLine struct{ name, value string }

// SetHeader sets a header of the response, even if the response is an error.
func (c *Call) SetHeader(name, value string) {
	for i := range c.header {
		if c.header[i].name == name {
			c.header[i].value = value
			return
		}
	}
	if c.header == nil {
		c.header = make([]headerLine, 0, 5)
	}
	c.header = append(c.header, headerLine{name, value})
}

// CheckSize returns a PayloadTooLarge error if the body is larger than the limit of the route.
func (c *Call) CheckSize() error {
	limit := c.Route.BodyLimit()
	if len(c.Body) <= limit {
		return nil
	}
	return &web.Error{Code: web.PayloadTooLarge, Message: LargerThan(limit)}
}

// NotAllowed returns the error for a path that has other methods than the request's.
func (c *Call) NotAllowed(allow []string) error {
	return &web.Error{Code: web.MethodNotAllowed, Allow: allow,
		Message: "This path does not support the method. Allow lists the supported methods."}
}

// Take counts the request against all rules. If one of them denies, nothing is counted and the error is
// RateLimited. The response shows the rest of the first rule. A request that the host repeats (Request.Again)
// was counted when it arrived.
func (c *Call) Take(ctx context.Context, rules ...ratelimit.Rule) error {
	if c.Again {
		return nil
	}
	result, err := c.limiter.Take(ctx, c.Now, rules)
	if err != nil {
		return err
	}
	c.limits = result
	if !result.Allowed {
		c.limitHeaders(result)
		return &web.Error{Code: web.RateLimited, RetryAfter: result.RetryAfter,
			Message: "Too many requests. Try again after the time in Retry-After."}
	}
	// Only the holder of a key may see the rest of its limit, and the caller has not proven that yet.
	c.limitHeaders(result.First())
	c.charged = append(c.charged, rules...)
	return nil
}

// TakeKey counts the request against those rules of a valid key that Take has not counted. The response shows
// the rest of all limits.
func (c *Call) TakeKey(ctx context.Context, rules []ratelimit.Rule) error {
	if c.Again {
		return nil
	}
	rules = slices.DeleteFunc(rules, func(r ratelimit.Rule) bool {
		return slices.ContainsFunc(c.charged, func(d ratelimit.Rule) bool { return d.Key == r.Key })
	})
	var err error
	if before := c.limits; len(rules) > 0 {
		if err = c.Take(ctx, rules...); c.limits != before {
			c.limits = before.And(c.limits)
		}
	}
	c.limitHeaders(c.limits)
	return err
}

func (c *Call) limitHeaders(r ratelimit.Result) {
	c.SetHeader("Ratelimit-Policy", r.Policy)
	c.SetHeader("Ratelimit", r.RateLimit)
}

// Router serves the routes of a listener. It gives each request an id (contract 4), and maps an error once:
// to the log, and to JSON (contract 5) or a page.
type Router struct {
	Host    host.Host // Now, Random, Log and About
	Limiter *ratelimit.Limiter
	Routes  Table

	// NoRoute, if not nil, serves the requests without a route. Otherwise they get 404 or 405.
	NoRoute Handler

	// ErrorPage, if not nil, returns the page with an error status for the request. text is the message of
	// the API error. If it returns nil, the response is JSON.
	ErrorPage func(status int, text string, req *web.Request) *web.Response

	// Explain, if not nil, returns the API error for an error without one, or nil.
	Explain func(error) *web.Error
}

// Serve returns the response to a request.
func (rt *Router) Serve(ctx context.Context, req *web.Request) *web.Response {
	requestID, err := newRequestID(rt.Host.Random)
	c := &Call{Request: req, Now: rt.Host.Now(), limiter: rt.Limiter}
	var resp *web.Response
	if err == nil {
		resp, err = rt.handle(ctx, c)
	}
	correlation := web.CorrelationID(req.Header)
	if err != nil {
		resp = rt.errorResponse(ctx, req, err, requestID, correlation)
	}
	c.SetHeader("X-Request-Id", requestID)
	if correlation != "" {
		c.SetHeader("X-Correlation-Id", correlation)
	}
	values := make([]string, len(c.header)) // of all headers, in one allocation
	for i, line := range c.header {
		values[i] = line.value
		resp.Header[line.name] = values[i : i+1 : i+1]
	}
	return resp
}

// handle finds the route of a request and calls its handler.
func (rt *Router) handle(ctx context.Context, c *Call) (*web.Response, error) {
	if len(c.Body) > 0 && c.IsEncoded() {
		return nil, web.ErrEncoded
	}
	c.Route, c.Text, c.Allow = rt.Routes.Find(c.Request)
	switch {
	case c.Route != nil:
		return c.Route.Handle(ctx, c)
	case rt.NoRoute != nil:
		return rt.NoRoute(ctx, c)
	case c.Allow != nil:
		return nil, c.NotAllowed(c.Allow)
	}
	return nil, web.ErrNoPath
}

// errorResponse logs an error of the service or of its store in full, and returns its response.
func (rt *Router) errorResponse(ctx context.Context, req *web.Request, err error,
	requestID, correlation string) *web.Response {
	if rt.Explain != nil {
		if e := rt.Explain(err); e != nil {
			err = errors.Join(e, err)
		}
	}
	e := AsError(err)
	if e.Code == web.Internal || e.Code == web.Unavailable {
		level := slog.LevelError
		if kv.Failed(err) || errors.Is(err, host.ErrKeyAwaited) {
			level = slog.LevelDebug // the watchers of the store and the ring report it once
		}
		rt.Host.Log.LogAttrs(ctx, level, "request failed", slog.String("request_id", requestID),
			slog.String("code", string(e.Code)), slog.String("error", err.Error()))
	}
	rt.Host.About(ctx, host.RequestInfo{Code: string(e.Code)})
	resp := e.Response(requestID, correlation)
	if rt.ErrorPage == nil {
		return resp
	}
	page := rt.ErrorPage(resp.Status, e.Message, req)
	if page == nil {
		return resp
	}
	for _, name := range []string{"Allow", "Retry-After", "Accept-Encoding"} {
		if resp.Header.Has(name) {
			page.Header.Set(name, resp.Header.Get(name))
		}
	}
	return page
}

// retryUnavailable is the Retry-After of a store failure, in seconds.
const retryUnavailable = 1

// AsError returns the error response for err: the *web.Error in it, else Unavailable for a failure of the
// store and for a request that was canceled, else Internal. The text of any other error is for the log alone.
func AsError(err error) *web.Error {
	var e *web.Error
	switch {
	case errors.As(err, &e):
		return e
	case kv.Failed(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &web.Error{Code: web.Unavailable, RetryAfter: retryUnavailable,
			Message: "The service cannot reach its store just now; nothing was granted. Try again."}
	}
	return &web.Error{Code: web.Internal,
		Message: "Something went wrong on our side. The request id helps us to find it."}
}

func newRequestID(random io.Reader) (string, error) {
	var b [12]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "req_none", fmt.Errorf("reading randomness: %w", err)
	}
	const prefix = "req_"
	var id [len(prefix) + 2*len(b)]byte
	hex.Encode(id[copy(id[:], prefix):], b[:])
	return string(id[:]), nil
}
