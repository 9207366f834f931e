// Package hosted implements the flow of a user: the page at redirect_url, its forms, and the hop back to
// the publisher (contract 22 to 24). It also contains the front page, and the pages that people see instead
// of an error in JSON.
//
// A request to a page passes five stages, each in its own file:
//
//	open.go    flow token, cookies and steps -> a visit, or the page of a request that is not authentic
//	load.go    integration, methods, the session's record -> the visit
//	decide.go  the step and the method's decision -> an effect; pure
//	commit.go  the effect -> one compare-and-set
//	show.go    the visit -> a page
//
// hosted.go has the requests and passes them through the stages. A response can arrive in five ways, which
// differ at the first stages only:
//
//	hosted.go      from the browser, as a form
//	authrequest.go from the browser, as the return from another site
//	pending.go     from another program, such as a wallet, on the same or on another device
//	handoff.go     from a phone, which does the step for the browser that began
//	passkey.go     from a passkey of the user
//
// GET shows and POST acts, so a link scanner that follows every link does not change a session. The
// exceptions are the return from another site and the page that collects a pending response. Both act only
// with the cookie of the browser that began.
//
// A browser carries the flow token, in the address and in each form, and the step of a method. Neither
// determines the result: attempts and the outcome are in the KV. A proof by a real method in one browser does
// not count for another browser with the same flow token (contract 34).
//
// Every POST returns a page or a redirect to this flow's own address. A browser leaves our site only by the
// hop page.
package hosted

import (
	"context"
	"net/url"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// Hosted serves the pages. All fields except Passkeys are required.
type Hosted struct {
	host.Host

	BaseURL   string // scheme and host, no slash at the end
	Directory *integration.Directory
	Lifecycle *lifecycle.Lifecycle
	Results   *result.Tokens
	Service   pages.Service
	Dev       bool                     // a method may leave for http on a loopback host
	Methods   map[string]method.Opened // by name

	// Passkeys stores the passkeys of users. It is nil if the service has no host name, only an IP address.
	Passkeys *passkey.Store

	Partitions int // the number of partitions of sessions, at least 1
}

// Parameters of the address and of forms. In the address they only choose words and pages, so changing one
// does not change the session.
const (
	shownParam   = "show"     // one of the shown constants
	reasonParam  = "why"      // the method.Reason of the last attempt
	methodParam  = "method"   // the name of a method; in a form, the chosen method
	stepParam    = "provider" // the step of a method
	requestParam = "errand"   // the handle of a pending authorization request
	attemptParam = "attempt"  // only in forms: the attempt that the form belongs to
	handParam    = "hand"     // only in forms: a phone shall do the step
	deviceParam  = "device"   // only in forms: the secret of the device that takes a hand-off
)

// The parameters that a link and a form may have for Verge. Others are ignored (formdata.ReadParameters).
var (
	linkParams = []string{"flow", shownParam, reasonParam, methodParam, stepParam, requestParam}
	formParams = []string{"flow", methodParam, stepParam, attemptParam, handParam, deviceParam, enrolParam,
		method.OutcomeField, method.CredentialField}
)

// Values of shownParam: the content that GET shows instead of, or on, the method's page.
const (
	shownCancelled   = "cancelled"
	shownTrouble     = "trouble"     // the provider failed, and no attempt was counted
	shownOutdated    = "outdated"    // a stored verdict no longer counts
	shownUnavailable = "unavailable" // the method in methodParam cannot begin
	shownAsked       = "asked"       // a request of this browser to the provider is in progress
	shownLeave       = "leave"       // of a completed session: the page that leaves immediately
	shownCode        = "code"        // of a page that waits: its code, on a phone, too
)

// Show handles GET on the hosted path.
func (h *Hosted) Show(ctx context.Context, c *router.Call) *web.Response {
	return h.respond(h.get(c.Request, func(flow string) (*visit, *page) {
		return h.open(ctx, c.Request, flow)
	}))
}

// ShowPhone handles GET on the link of a hand-off.
func (h *Hosted) ShowPhone(ctx context.Context, c *router.Call) *web.Response {
	return h.respond(h.get(c.Request, func(string) (*visit, *page) {
		return h.openPhone(ctx, c.Request, c.Text)
	}))
}

// get passes a link through the stages.
func (h *Hosted) get(req *web.Request, open func(flow string) (*visit, *page)) page {
	query, err := formdata.ReadParameters(req.Query, linkParams...)
	if err != nil {
		return plain(400, pages.Damaged, req)
	}
	v, rejected := open(query.Get("flow"))
	if rejected != nil {
		return *rejected
	}
	if err := v.load(); err != nil {
		return v.unavailable(err)
	}
	return v.show(query)
}

// Act handles POST on the hosted path.
func (h *Hosted) Act(ctx context.Context, c *router.Call) *web.Response {
	return h.respond(h.actOn(ctx, c, func(url.Values) bool { return true }))
}

// ActCredential handles POST on the path of forms with the response of a browser's wallet. It is Act with
// another limit of the body, and rejects other forms.
func (h *Hosted) ActCredential(ctx context.Context, c *router.Call) *web.Response {
	return h.respond(h.actOn(ctx, c, func(form url.Values) bool { return form.Has(method.CredentialField) }))
}

// actOn is Act for the forms that a path takes.
func (h *Hosted) actOn(ctx context.Context, c *router.Call, takes func(url.Values) bool) page {
	req := c.Request
	if c.CheckSize() != nil {
		return plain(413, pages.TooLarge, req)
	}
	if web.MediaType(req.Header.Get("Content-Type")) != "application/x-www-form-urlencoded" {
		return plain(415, pages.NotAForm, req)
	}
	form, err := formdata.ReadParameters(string(req.Body), formParams...)
	if err == nil && !takes(form) {
		return plain(400, pages.Damaged, req)
	}
	return h.post(ctx, req, form, nil, err)
}

// MaxFileBody is the maximum number of bytes of a form with a picture.
const MaxFileBody = method.MaxFile + web.MaxBody

// ActFile handles POST on the path of forms with a picture. Apart from the encoding of the form it is Act.
func (h *Hosted) ActFile(ctx context.Context, c *router.Call) *web.Response {
	return h.respond(h.actOnFile(ctx, c))
}

func (h *Hosted) actOnFile(ctx context.Context, c *router.Call) page {
	req := c.Request
	if c.CheckSize() != nil {
		return plain(413, pages.PhotoTooLarge, req)
	}
	contentType := req.Header.Get("Content-Type")
	if web.MediaType(contentType) != "multipart/form-data" {
		return plain(415, pages.NotAForm, req)
	}
	form, file, err := formdata.ReadFile(contentType, req.Body, pages.FileField, formParams...)
	if len(file) > method.MaxFile {
		return plain(413, pages.PhotoTooLarge, req)
	}
	return h.post(ctx, req, form, file, err)
}

// post passes a form through the stages. malformed is the error of reading it, or nil.
func (h *Hosted) post(ctx context.Context, req *web.Request, form url.Values, file []byte,
	malformed error) page {
	if !h.sameSite(req) {
		return h.notAllowed(ctx, req, form.Get("flow"))
	}
	if malformed != nil {
		return plain(400, pages.Damaged, req)
	}
	if handle, ofPhone := strings.CutPrefix(form.Get("flow"), phonePrefix); ofPhone && form.Has(deviceParam) {
		return h.take(ctx, req, handle, form.Get(deviceParam))
	}
	v, rejected := h.open(ctx, req, form.Get("flow"))
	if rejected != nil {
		return *rejected
	}
	if err := v.load(); err != nil {
		return v.unavailable(err)
	}
	return v.act(form, file)
}

// act carries out the action of a form.
func (v *visit) act(form url.Values, file []byte) page {
	switch name := form.Get(methodParam); {
	case form.Has(enrolParam):
		return v.enrol(form)
	case v.record.Terminal():
		// This is a second click, the Back button or another browser. The outcome is final and is shown
		// again.
		v.countLate()
		return v.seeOther(v.endURL(form.Get(stepParam)))
	case name == passkey.Name:
		return v.usePasskey(form)
	case name != "":
		return v.choose(name)
	case form.Has(handParam):
		return v.handOff(form)
	}
	return v.submit(form, file)
}

func (h *Hosted) countLate() { h.Count(metric.LateAnswer) }
