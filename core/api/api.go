// Package api is the API of publishers: start, validate and reconcile. What
// publishers rely on is core/CONTRACT.md; openapi.yaml beside this file
// describes the same API in a form that machines read.
//
// Every handler goes the same way: limit, credential, body, decision, one
// answer. What is not known for certain is denied.
package api

import (
	"context"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/ratelimit"
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
	Limiter    *ratelimit.Limiter
	Limits     Limits
	Providers  map[string]provider.Provider // by method
}

// Limits are the rates (spec, Limits; contract 21 and 30).
type Limits struct {
	PublicPerIP     ratelimit.Limit
	PublicPerKey    ratelimit.Limit
	SecretPerIP     ratelimit.Limit
	ReconcilePerKey ratelimit.Limit

	PreflightsPerIP      ratelimit.Limit
	PagesPerIP           ratelimit.Limit // of hosted pages, shown and posted
	FailedOperatorsPerIP ratelimit.Limit // of operators' tokens that are wrong
}

// WithDefaults returns the limits with the contract's in place of each that is zero.
func (l Limits) WithDefaults() Limits {
	for _, d := range []struct {
		limit *ratelimit.Limit
		count int
	}{
		{&l.PublicPerIP, 60}, {&l.PublicPerKey, 600}, {&l.SecretPerIP, 600}, {&l.ReconcilePerKey, 120},
		{&l.PreflightsPerIP, 600}, {&l.PagesPerIP, 600}, {&l.FailedOperatorsPerIP, 20},
	} {
		if *d.limit == (ratelimit.Limit{}) {
			*d.limit = ratelimit.PerMinute(d.count)
		}
	}
	return l
}

// All are the limits, one after the other.
func (l Limits) All() []ratelimit.Limit {
	return []ratelimit.Limit{l.PublicPerIP, l.PublicPerKey, l.SecretPerIP, l.ReconcilePerKey,
		l.PreflightsPerIP, l.PagesPerIP, l.FailedOperatorsPerIP}
}

// Paths.
const (
	StartPath    = "/api/v1/verify/start"
	ValidatePath = "/api/v1/verify/validate"
	SessionsPath = "/api/v1/verify/sessions/" // and the session id
	HostedPath   = "/verify"                  // where redirect_url leads
)

// call is one request on its way through a handler, with the headers that
// its answer gets whatever it will be.
type call struct {
	*API
	ctx    context.Context
	req    *web.Request
	now    time.Time
	header Lines

	limits  ratelimit.Result // the answer of all limits that were asked
	charged string           // the key that was counted beside the address
}

// Lines are headers for an answer that is not there yet. They are few, and
// gathered by every request: a map of them costs a WASM guest more than the
// answer's own.
type Lines []Line

// Line is one of them.
type Line struct{ Name, Value string }

// Set adds a line, in place of the one of that name.
func (l *Lines) Set(name, value string) {
	for i := range *l {
		if (*l)[i].Name == name {
			(*l)[i].Value = value
			return
		}
	}
	*l = append(*l, Line{name, value})
}

// Get returns the value of a line, "" if there is none of that name.
func (l Lines) Get(name string) string {
	for _, line := range l {
		if line.Name == name {
			return line.Value
		}
	}
	return ""
}

// Handler answers the requests to one path.
type Handler func(*call) (*web.Response, error)

// Page is a hosted page within the rate of its address. What pages load and the
// documentation are not counted: they cost the store nothing.
func Page(serve func() *web.Response) Handler {
	return func(c *call) (*web.Response, error) {
		if err := c.take(c.pageIP()); err != nil {
			return nil, err
		}
		return serve(), nil
	}
}

// Serve runs a handler. The header goes on the answer, an error's too.
func (a *API) Serve(ctx context.Context, req *web.Request, h Handler) (*web.Response, Lines, error) {
	c := &call{API: a, ctx: ctx, req: req, now: a.Now(), header: make(Lines, 0, 5)}
	resp, err := h(c)
	return resp, c.header, err
}

// timestamp is the wire form of a time (contract 2). RFC 3339 is the layout
// that package time need not take apart, which a guest pays 5 µs for.
func timestamp(t time.Time) string {
	t = t.UTC()
	b := t.AppendFormat(make([]byte, 0, len("2006-01-02T15:04:05.000Z")), time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return string(append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z'))
}
