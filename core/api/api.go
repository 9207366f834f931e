// Package api is the API of publishers: start, validate and reconcile, as core/CONTRACT.md has them.
// openapi.yaml beside this file describes the same for machines.
//
// Every handler goes the same way. It finds out who calls, counts the request against the limits, checks what
// the caller may do, reads the body, decides, and gives one answer. It denies whatever it does not know for
// certain.
package api

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/outbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
)

// API answers publishers. All fields are needed.
type API struct {
	KV     kv.KV // for answers that are repeated
	Sealer host.Sealer
	Now    func() time.Time
	Random io.Reader
	Log    *slog.Logger
	Tally  func(t host.Tally)                      // as in host.Host, and may be nil
	About  func(ctx context.Context, a host.About) // as in host.Host, and may be nil

	BaseURL    string // scheme and host, no slash at the end
	Dev        bool   // http callbacks to loopback, no readiness gate
	Partitions uint16 // over how many partitions sessions are spread, at least 1
	Directory  *integration.Directory
	Lifecycle  *lifecycle.Lifecycle
	Results    *result.Tokens
	Limiter    *ratelimit.Limiter
	Limits     Limits
	Methods    map[string]method.Opened // by name
	Outbox     *outbox.Outbox           // for test events
}

// Paths.
const (
	StartPath    = "/api/v1/verify/start"
	ValidatePath = "/api/v1/verify/validate"
	SessionsPath = "/api/v1/verify/sessions/" // and the session id
	TestsPath    = "/api/v1/verify/test-events"
	HostedPath   = "/verify"                // where redirect_url leads
	FilePath     = HostedPath + "/file"     // where a form with a picture is posted
	WalletPath   = HostedPath + "/wallet"   // where a form with the answer of a browser's wallet is posted
	PasskeysPath = HostedPath + "/passkeys" // where users see what is kept of their passkeys
	ReturnPath   = HostedPath + "/return/"  // and the name of the method that sent the browser away
	PhonePath    = HostedPath + "/phone/"   // and the handle of a hand-off, which a phone opens
	BoxPath      = HostedPath + "/box/"     // and the handle of a box, where others than the browser answer
)

// call is one request on its way through a handler. Its header goes on the answer, whatever the answer will
// be.
type call struct {
	*API
	ctx    context.Context
	req    *web.Request
	now    time.Time
	header Lines
	about  host.About

	maxBody int // bytes that the route takes

	limits  ratelimit.Result // the answer of all limits that were asked
	charged []string         // the keys of the rules that were counted
}

// Lines are headers for an answer that is not there yet. Every request gathers a few of them. A map for them
// would cost a WASM guest more than the answer's own header does.
type Lines []line

// line is one header line.
type line struct{ Name, Value string }

// set adds a line. It replaces a line of the same name.
func (l *Lines) set(name, value string) {
	for i := range *l {
		if (*l)[i].Name == name {
			(*l)[i].Value = value
			return
		}
	}
	*l = append(*l, line{name, value})
}

// Handler answers the requests to one path.
type Handler func(*call) (*web.Response, error)

// Page is a hosted page within the rate of its address. What pages load is not counted, nor is the
// documentation: neither costs the store anything.
func Page(serve func() *web.Response) Handler {
	return func(c *call) (*web.Response, error) {
		if err := c.take(c.pageIP()); err != nil {
			return nil, err
		}
		return serve(), nil
	}
}

// Box is an answer to a box within the rates of its address and of the box. handle is "" if the path has
// none.
func Box(handle string, serve func() (*web.Response, error)) Handler {
	return func(c *call) (*web.Response, error) {
		var ofBox []ratelimit.Rule
		if handle != "" {
			ofBox = append(ofBox, ratelimit.Rule{Name: "box", Key: handle, Limit: c.Limits.BoxesPerHandle})
		}
		if err := c.take(ratelimit.ClientRule("box-ip", c.req.Client, c.Limits.BoxesPerIP),
			ofBox...); err != nil {
			return nil, err
		}
		return serve()
	}
}

// Serve runs a handler on a route whose bodies have at most maxBody bytes. The
// header goes on the answer, an error's too.
func (a *API) Serve(
	ctx context.Context, req *web.Request, maxBody int, h Handler,
) (*web.Response, Lines, error) {
	c := &call{API: a, ctx: ctx, req: req, maxBody: maxBody, now: a.Now(), header: make(Lines, 0, 5)}
	resp, err := h(c)
	if a.About != nil && c.about != (host.About{}) {
		a.About(ctx, c.about)
	}
	return resp, c.header, err
}
