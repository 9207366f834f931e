package hosted

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/steperror"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// A pending response (contract 34, 40) does not arrive through the browser that began. That browser has a
// pending authorization request with its handle, and waits on a page that loads itself again. The response is
// stored once, and has no effect until this browser collects it:
//
//   - A program on another device posts to the response_uri, or a phone does the step. The browser collects
//     the response when the page loads itself.
//   - A program on the same device posts to the address with ".s", and receives a redirect_uri. Only a
//     browser that comes back there with the cookie collects the response. So an attacker cannot have the
//     response of a victim's device collected by their own page.

// codeParam is the parameter of the redirect_uri.
const codeParam = "response_code"

// responseURI returns the address to which programs post the response of a handle.
func (h *Hosted) responseURI(handle string) string { return h.BaseURL + web.PendingPath + handle }

// waiting returns the page of a browser that waits for a pending response, or collects the response if it has
// arrived. code requests the code of the page on a phone.
func (v *visit) waiting(m method.Opened, s token.StepClaims, code bool) page {
	again := v.url(requestParam, s.Handle)
	if code {
		again = v.url(requestParam, s.Handle, shownParam, shownCode)
	}
	p, err := v.Lifecycle.Pending(v.ctx, s.Pending)
	switch {
	case s.HandOff != "" && v.outdated:
		return v.seeOther(v.againURL(m, shownOutdated))
	case errors.Is(err, lifecycle.ErrNoPending), err == nil && !v.isOf(p, s), s.HandOff != "" && v.isHere(m):
		return v.seeOther(v.methodURL(m)) // another one has replaced it, or none is allowed any longer
	case err != nil:
		return v.unavailable(err)
	case p.Arrived() && !p.Same && v.acts():
		return v.collect(m, s, p, url.Values{}, again)
	case s.HandOff != "":
		return v.waitForPhone(m, s, p)
	}
	return v.waitForResponse(m, s, p, code, again)
}

// isOf reports whether a pending response is the one of a browser's step, and still the one of its attempt.
func (v *visit) isOf(p lifecycle.Pending, s token.StepClaims) bool {
	return p.Session == s.Session && p.Method == s.Method && p.Attempt == s.Attempt &&
		v.record.Awaits(p.Pending) && p.Attempt == v.record.Attempts
}

// collect applies a pending response that has arrived. A phone has brought a verdict. A posted response is a
// step, on which the method decides. form is the query of a browser that came back from a program on the same
// device. address is the request's own.
func (v *visit) collect(m method.Opened, s token.StepClaims, p lifecycle.Pending, form url.Values,
	address string) page {
	if p.Done && !v.judged { // it has arrived since settle
		return v.seeOther(address)
	}
	if p.Done {
		return v.commit(m, s, "", p.Outcome())
	}
	step := method.Step{Form: form, Back: p.Same, State: s.State, Basis: p.Basis,
		Response: append([]byte{}, p.Kept...)} // not nil, even if it is empty: there is a response
	return v.returned(m, s, step, address)
}

// notOffered ends a pending response whose method the integration no longer offers (contract 34). The cache
// may be older than the response, so the integration is read again; if it offers the method, the response is
// collected.
func (v *visit) notOffered(s token.StepClaims, collect func(method.Opened) page) page {
	if err := v.refresh(); err != nil {
		return v.unavailable(err)
	}
	if m, ok := v.offered(s.Method); ok {
		return collect(m)
	}
	p, err := v.Lifecycle.Pending(v.ctx, s.Pending)
	switch {
	case errors.Is(err, lifecycle.ErrNoPending), err == nil && !v.isOf(p, s), !v.acts():
		return v.seeOther(v.url())
	case err != nil:
		return v.unavailable(err)
	}
	v.stepEnded(lifecycle.WhyFailed(s.Method, errGone), errGone)
	return v.discard(s, v.url(shownParam, shownOutdated))
}

// returnWithCode handles GET on the redirect_uri that a program on the same device has received. It collects
// the pending response with that code, if this browser has its pending authorization request.
func (h *Hosted) returnWithCode(ctx context.Context, req *web.Request, name string, query url.Values) page {
	code := query.Get(codeParam)
	if len(code) != handleLength {
		return plain(400, pages.Damaged, req)
	}
	other := otherBrowser(req) // than the page of a response that was found
	over := false              // other is the page of an attempt that is decided
	for _, handle := range slices.Sorted(maps.Keys(h.requestsOf(req))) {
		s, flow, err := h.requestIn(req, handle)
		if errors.Is(err, host.ErrKeyAwaited) {
			return h.awaited(req, flow)
		}
		if err != nil || s.Method != name || s.Response == "" {
			continue
		}
		v, rejected := h.open(ctx, req, flow)
		switch {
		case rejected != nil && rejected.status == 503:
			return *rejected
		case rejected != nil:
			if strings.HasPrefix(flow, phonePrefix) && !over { // the phone has brought its verdict
				other = *rejected
			}
			continue
		case s.Session != v.session.Text:
			continue
		}
		if err := v.load(); err != nil {
			return v.unavailable(err)
		}
		p, err := v.Lifecycle.Pending(ctx, s.Pending)
		m, offered := v.offered(name)
		switch {
		case errors.Is(err, lifecycle.ErrNoPending), v.record.Terminal(), err == nil && !v.isOf(p, s):
			over, other = true, v.seeOther(v.url())
		case err != nil:
			return v.unavailable(err)
		case p.Returns(code):
			collect := func(m method.Opened) page {
				return v.collect(m, s, p, query, req.Path+"?"+query.Encode())
			}
			if !offered {
				return v.notOffered(s, collect)
			}
			return collect(m)
		case !offered:
			over, other = true, v.seeOther(v.url())
		}
	}
	return other
}

// Errors of a response_uri. They do not reveal whether a pending response existed.
var (
	errNoResponse = &web.Error{Code: web.NotFound, Message: "No response is expected at this address."}
	errOver       = &web.Error{Code: web.TokenExpired,
		Message: "A response is no longer expected at this address."}
	errSecond = &web.Error{Code: web.AlreadyUsed,
		Message: "Another response arrived first. This one was ignored."}
	errMismatch = &web.Error{Code: web.InvalidRequest,
		Message: "This response does not match the request. You can send another one."}
	errFetch = &web.Error{Code: web.InvalidRequest,
		Message: "The request object is not served for this form. wallet_nonce must occur at most once and " +
			"have 1 to 256 printable characters of ASCII."}
	errMedia = &web.Error{Code: web.UnsupportedMediaType,
		Message: "This Content-Type is not supported for a response."}
	errLater = &web.Error{Code: web.Unavailable, RetryAfter: 2,
		Message: "The response could not be checked. Send it again."}
)

// taken is the response to a program whose response was stored.
type taken struct {
	RedirectURI string `json:"redirect_uri,omitempty"`
}

// Receive handles POST on a response_uri, always in JSON and never by a redirect. same reports that it is the
// address for the browser's own device. The sender is not the browser, so a browser's headers do not matter.
func (h *Hosted) Receive(ctx context.Context, c *router.Call, handle session.PendingHandle, same bool) (
	*web.Response, error) {
	req := c.Request
	if err := c.CheckSize(); err != nil {
		return nil, err
	}
	p, s, m, err := h.awaiting(ctx, handle)
	if err != nil {
		return nil, err
	}
	if call := h.callOf(req, p, same); m.Fetches(call) {
		return h.requestObject(ctx, s, m, p, call)
	}
	posted := lifecycle.Response{Same: same, Raw: req.Body}
	if p.Posted && !p.Is(posted) {
		return nil, errOver
	}
	if !p.Posted {
		if p, err = h.judge(ctx, req, s, m, p, posted); err != nil {
			return nil, err
		}
	}
	if !same {
		return web.JSON(200, taken{}), nil
	}
	return web.JSON(200, taken{h.BaseURL + web.ReturnPath + m.Name + "?" + codeParam + "=" + p.Code}), nil
}

// RequestObject handles GET on a response_uri: it serves the request object until a response is stored.
func (h *Hosted) RequestObject(ctx context.Context, c *router.Call, handle session.PendingHandle, same bool) (
	*web.Response, error) {
	p, s, m, err := h.awaiting(ctx, handle)
	if err != nil {
		return nil, err
	}
	call := h.callOf(c.Request, p, same)
	call.Body = nil
	return h.requestObject(ctx, s, m, p, call)
}

// requestObject serves the request object of a pending response, for GET and POST. It can be read repeatedly,
// since a wallet whose first request fails sends it again. One response is still stored.
func (h *Hosted) requestObject(ctx context.Context, s lifecycle.Session, m method.Opened, p lifecycle.Pending,
	call method.Call) (*web.Response, error) {
	if p.Posted {
		return nil, errOver
	}
	q, err := m.Request(ctx, h.sessionOf(s, m, p), p.State, call)
	if errors.Is(err, method.ErrStep) {
		return nil, errNoResponse
	}
	if err != nil {
		h.responseFailed(ctx, s, m, err)
		var rejection *method.Rejection
		if errors.Is(err, method.ErrOutdated) {
			return nil, errOver
		}
		if errors.As(err, &rejection) {
			return nil, errFetch
		}
		return nil, errLater
	}
	return &web.Response{Status: 200, Body: q.Body, Header: web.Header{
		"Content-Type":           {q.ContentType},
		"Cache-Control":          {"no-store"},
		"X-Content-Type-Options": {"nosniff"},
	}}, nil
}

// callOf returns a request to a response_uri as the method sees it.
func (h *Hosted) callOf(req *web.Request, p lifecycle.Pending, same bool) method.Call {
	call := method.Call{Address: h.responseURI(p.Response), Same: same, Body: req.Body,
		ContentType: req.Header.Get("Content-Type"), Accept: strings.Join(req.Header["Accept"], ",")}
	if same {
		call.Address += method.SameDevice
	}
	return call
}

// sessionOf returns the session of a pending response as its method sees it.
func (h *Hosted) sessionOf(s lifecycle.Session, m method.Opened, p lifecycle.Pending) method.Session {
	asked := s.ForMethod(m.Name, "", p.Attempt, h.BaseURL+web.ReturnPath+m.Name)
	asked.ResponseURI = h.responseURI(p.Response)
	return asked
}

// awaiting returns the pending response of a handle, with its session and method, if the session still waits
// for it.
func (h *Hosted) awaiting(ctx context.Context, handle session.PendingHandle) (
	p lifecycle.Pending, s lifecycle.Session, m method.Opened, err error) {
	if int(handle.Partition) >= h.Partitions {
		return p, s, m, errNoResponse
	}
	p, err = h.Lifecycle.Pending(ctx, token.Pending{Response: handle.String()})
	if errors.Is(err, lifecycle.ErrNoPending) {
		err = errNoResponse
	}
	if err == nil {
		s, m, err = h.asks(ctx, p)
	}
	return p, s, m, err
}

// asks returns the session and the method of a pending response, if the session still waits for it.
func (h *Hosted) asks(ctx context.Context, p lifecycle.Pending) (
	s lifecycle.Session, m method.Opened, err error) {
	id, err := session.ParseID(h.Sealer, p.Session)
	if err != nil {
		return s, m, err
	}
	i, err := h.Directory.Integration(ctx, id.Integration)
	if errors.Is(err, integration.ErrNotFound) {
		return s, m, errOver
	}
	if err != nil {
		return s, m, err
	}
	s = lifecycle.Session{ID: id, Text: p.Session, Integration: i}
	h.requestInfo(ctx, s)
	r, _, err := h.Lifecycle.Load(ctx, id)
	if err != nil {
		return s, m, err
	}
	m = h.Methods[p.Method]
	r = r.As(h.Now(), id.Expires())
	if r.Terminal() {
		h.countLate()
	}
	if r.Terminal() || r.Attempts != p.Attempt || !r.Awaits(p.Pending) || !m.Receives() ||
		!slices.Contains(i.Offers(), p.Method) {
		return s, m, errOver
	}
	return s, m, nil
}

// judge has the method judge a response, and stores it.
func (h *Hosted) judge(ctx context.Context, req *web.Request, s lifecycle.Session, m method.Opened,
	p lifecycle.Pending, a lifecycle.Response) (lifecycle.Pending, error) {
	asked := h.sessionOf(s, m, p)
	kept, basis, err := m.Receive(ctx, asked, p.State, h.callOf(req, p, a.Same))
	if err != nil {
		h.responseFailed(ctx, s, m, err)
		var rejection *method.Rejection
		if errors.Is(err, steperror.ErrMediaType) {
			return p, errMedia
		}
		if errors.Is(err, method.ErrOutdated) {
			return p, errOver
		}
		if errors.Is(err, method.ErrStep) || errors.As(err, &rejection) {
			return p, errMismatch
		}
		return p, errLater
	}
	a.Kept, a.Basis = kept, basis
	if a.Same {
		if a.Code, err = method.NewHandle(h.Random); err != nil {
			return p, err
		}
	}
	p, err = h.Lifecycle.Receive(ctx, p, a, token.At(s.ID.Expires()))
	switch {
	case errors.Is(err, lifecycle.ErrSecondResponse):
		err = errSecond
	case errors.Is(err, lifecycle.ErrNoPending):
		err = errOver
	}
	return p, err
}

// responseFailed logs and stores the reason why a response was rejected. Neither contains data of the
// response.
func (h *Hosted) responseFailed(ctx context.Context, s lifecycle.Session, m method.Opened, err error) {
	if step := lifecycle.WhyFailed(m.Name, err); errors.Is(err, method.ErrStep) {
		h.Lifecycle.LogStep(ctx, s, step, err)
	} else {
		h.Lifecycle.Ended(ctx, s, "", step, err)
	}
}
