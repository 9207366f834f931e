package hosted

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// A box is where somebody answers who is not the browser, such as a wallet (contract 34). The browser that
// opens it has an errand with the box's handle, and waits on a page that loads itself again. Whoever knows
// the box's address may answer once. The answer is kept, and decides nothing until the browser with the
// errand comes for it:
//
//   - An answer from another device is there when the page loads itself.
//   - An answer from the same device, posted to the address with ".s", is told a redirect_uri. Only the
//     browser that comes back there with the errand's cookie goes on. So nobody has the answer of a
//     victim's device come to their own page.

// codeParam is the parameter of the redirect_uri.
const codeParam = "response_code"

// Poll intervals of the page that waits.
const (
	usualPoll = 3 * time.Second
	leastPoll = time.Second
)

// boxAddress is where others post to.
func (h *Hosted) boxAddress(handle string) string { return h.BaseURL + web.BoxPath + handle }

// openBox opens a box for a step, and sends the browser to the page that waits.
func (v *visit) openBox(m method.Opened, s token.ProviderClaims) *web.Response {
	if !m.Answers() {
		return v.unavailable(errors.New("hosted: " + m.Name + " opens a box and takes no answers"))
	}
	var err error
	if s.Handle, err = method.NewHandle(v.Random); err != nil {
		return v.unavailable(err)
	}
	s.Box, err = v.Lifecycle.OpenBox(v.ctx, v.session, m.Name, s.Attempt, s.State)
	switch {
	case errors.Is(err, lifecycle.ErrMovedOn):
		return v.seeOther(v.url())
	case err != nil:
		return v.unavailable(err)
	}
	return v.sendErrand(s)
}

// waiting returns the page that waits for an answer. If the answer is there, the method decides.
// code says that a phone shows the code, too.
func (v *visit) waiting(m method.Opened, s token.ProviderClaims, r session.Record, code bool) *web.Response {
	withCode := v.url(errandParam, s.Handle, shownParam, shownCode)
	again := v.url(errandParam, s.Handle)
	if code {
		again = withCode
	}
	b, err := v.Lifecycle.Box(v.ctx, s.Box)
	switch {
	case errors.Is(err, lifecycle.ErrNoBox), err == nil && !isBoxOf(b, s, r):
		return v.seeOther(v.methodURL(m)) // another box has replaced it
	case err != nil:
		return v.unavailable(err)
	case b.Answered && !b.Same && v.acts():
		return v.returned(m, s, r, keptStep(b, s, url.Values{}, false), again)
	}
	v.box = v.boxAddress(s.Box)
	s.Box = "" // the page's forms do not wait
	return v.stepView(r, s, "", pages.Notice{}, func(view *pages.View, shows method.View) {
		poll := max(cmp.Or(shows.Poll, usualPoll), leastPoll)
		view.AgainURL, view.AgainAfter = again, poll
		if b.Answered {
			view.Answered, view.RetryURL, view.Choices = true, v.url(), nil
			return
		}
		view.Open, view.Code, view.CodeShown, view.ShowCodeURL = shows.Open, shows.Code, code, withCode
		view.Hand = v.phone == nil && shows.Open != "" && !shows.Here
		if shows.Credential != nil && v.phone == nil { // its form goes by the flow token, which no phone has
			view.Credential = &pages.Credential{Protocol: shows.Credential.Protocol,
				Data: string(shows.Credential.Data), Action: web.WalletPath}
		}
	})
}

// notOffered ends a pending response whose method the integration no longer offers (contract 34). The cache
// may be older than the box, so the integration is read again; if it offers the method, the response is
// collected.
func (v *visit) notOffered(s token.ProviderClaims, r session.Record,
	collect func(method.Opened) *web.Response) *web.Response {
	if err := v.refresh(); err != nil {
		return v.unavailable(err)
	}
	if m, ok := v.offered(s.Method); ok {
		return collect(m)
	}
	b, err := v.Lifecycle.Box(v.ctx, s.Box)
	switch {
	case errors.Is(err, lifecycle.ErrNoBox), err == nil && !isBoxOf(b, s, r), !v.acts():
		return v.seeOther(v.url())
	case err != nil:
		return v.unavailable(err)
	}
	v.stepEnded(whyFailed(s.Method, method.ErrOutdated), method.ErrOutdated)
	if _, err := v.Lifecycle.Discard(v.ctx, v.session, s.Box); err != nil {
		return v.unavailable(err)
	}
	return v.seeOther(v.url(shownParam, shownOutdated))
}

// keptStep returns the step of a browser that comes for the answer to a box. Kept is not nil, even if it is
// empty: there is an answer.
func keptStep(b lifecycle.Box, s token.ProviderClaims, form url.Values, back bool) method.Step {
	return method.Step{Form: form, Back: back, State: s.State, Basis: b.Basis,
		Kept: append([]byte{}, b.Kept...)}
}

// isBoxOf reports whether a box is the one of an errand, and still the one of its attempt.
func isBoxOf(b lifecycle.Box, s token.ProviderClaims, r session.Record) bool {
	return b.Session == s.Session && b.Method == s.Method && b.Attempt == s.Attempt && r.Box == b.Handle &&
		b.Attempt == r.Attempts
}

// methodURL is the address of a method's page.
func (v *visit) methodURL(m method.Opened) string {
	if len(v.offers) > 1 {
		return v.url(methodParam, m.Name)
	}
	return v.url()
}

// returnWithCode answers GET on the redirect_uri that an answer from the same device was told. Of the
// errands of this browser, it is the one whose box has that code. Without it nothing is decided.
func (h *Hosted) returnWithCode(ctx context.Context, req *web.Request, name string,
	query url.Values) *web.Response {
	code := query.Get(codeParam)
	if len(code) != handleLength {
		return h.plain(400, pages.Damaged, req)
	}
	var over *visit        // of an errand whose attempt is decided
	var done *web.Response // for a phone that has brought its verdict
	for _, handle := range slices.Sorted(maps.Keys(h.errandsOf(req))) {
		s, flow, err := h.errandIn(req, handle)
		if errors.Is(err, host.ErrKeyAwaited) {
			return h.awaited(req, flow)
		}
		if err != nil || s.Method != name || s.Box == "" {
			continue
		}
		v, refused := h.open(ctx, req, flow)
		if refused != nil && refused.Status == 503 {
			return refused
		}
		if refused != nil && strings.HasPrefix(flow, phonePrefix) {
			done = refused
		}
		if refused != nil || s.Session != v.session.Text {
			continue
		}
		r, err := v.record()
		if err != nil {
			return v.unavailable(err)
		}
		b, err := v.Lifecycle.Box(ctx, s.Box)
		m, offered := v.offered(name)
		switch {
		case errors.Is(err, lifecycle.ErrNoBox), r.Terminal(), err == nil && !isBoxOf(b, s, r):
			over = v
		case err != nil:
			return v.unavailable(err)
		case b.Returns(code):
			collect := func(m method.Opened) *web.Response {
				return v.returned(m, s, r, keptStep(b, s, query, true), hereWith(req, query))
			}
			if !offered {
				return v.notOffered(s, r, collect)
			}
			return collect(m)
		case !offered:
			over = v
		}
	}
	switch {
	case over != nil:
		return over.seeOther(over.url())
	case done != nil:
		return done
	}
	return h.plain(403, pages.Elsewhere, req)
}

// Errors of a box. They say nothing of what is or was there.
var (
	errNoBox = &web.Error{Code: web.NotFound, Message: "There is nothing to answer at this address."}
	errOver  = &web.Error{Code: web.TokenExpired,
		Message: "There is nothing to answer at this address any more."}
	errSecond = &web.Error{Code: web.AlreadyUsed,
		Message: "Another answer came first. This one counts for nothing."}
	errAnswer = &web.Error{Code: web.InvalidRequest,
		Message: "This is no answer to what was asked. The address still takes one."}
	errMedia = &web.Error{Code: web.UnsupportedMediaType,
		Message: "An answer is not sent as this type of content."}
	errLarge = &web.Error{Code: web.PayloadTooLarge, Message: "An answer has at most 64 KiB."}
	errLater = &web.Error{Code: web.Unavailable, RetryAfter: 2,
		Message: "The answer could not be checked just now. Send it again."}
)

// taken is what somebody is told whose answer was taken.
type taken struct {
	RedirectURI string `json:"redirect_uri,omitempty"`
}

// Answer answers POST on the address of a box, always in JSON and never by a redirect. same says that it
// was posted to the address for the browser's own device. Whoever posts is not the browser, so nothing of a
// browser's headers matters.
func (h *Hosted) Answer(ctx context.Context, c *web.Call, handle session.BoxHandle, same bool) (
	*web.Response, error) {
	req := c.Request
	if c.CheckSize() != nil {
		return nil, errLarge
	}
	b, s, m, err := h.asked(ctx, handle)
	if err != nil {
		return nil, err
	}
	answer := lifecycle.Answer{Same: same, Raw: req.Body}
	if b.Answered && !b.IsAnswer(answer) {
		return nil, errOver
	}
	if !b.Answered {
		if b, err = h.close(ctx, req, s, m, b, answer); err != nil {
			return nil, err
		}
	}
	if !same {
		return web.JSON(200, taken{}), nil
	}
	return web.JSON(200, taken{h.BaseURL + web.ReturnPath + m.Name + "?" + codeParam + "=" + b.Code}), nil
}

// Question answers GET on the address of a box: it serves what is asked there, for as long as an answer is
// taken. It is read as often as somebody asks, since who has the address may read it, and a wallet whose
// first request fails asks again. Each answer of it is still taken once.
func (h *Hosted) Question(ctx context.Context, _ *web.Call, handle session.BoxHandle, same bool) (
	*web.Response, error) {
	b, s, m, err := h.asked(ctx, handle)
	if err != nil {
		return nil, err
	}
	if b.Answered {
		return nil, errOver
	}
	q, err := m.Request(ctx, h.tellBox(s, m, b), b.State, same)
	if errors.Is(err, method.ErrStep) {
		return nil, errNoBox
	}
	if err != nil {
		h.answerFailed(ctx, s, m, err)
		return nil, errLater
	}
	return &web.Response{Status: 200, Body: q.Body, Header: web.Header{
		"Content-Type":           {q.ContentType},
		"Cache-Control":          {"no-store"},
		"X-Content-Type-Options": {"nosniff"},
	}}, nil
}

// tellBox is what a method is told of the session of a box.
func (h *Hosted) tellBox(s lifecycle.Session, m method.Opened, b lifecycle.Box) method.Session {
	told := s.ForMethod(m.Name, "", b.Attempt, h.BaseURL+web.ReturnPath+m.Name)
	told.Box = h.boxAddress(b.Handle)
	return told
}

// asked returns the box of a handle whose method still waits for it, with its session and the method.
func (h *Hosted) asked(ctx context.Context, handle session.BoxHandle) (
	b lifecycle.Box, s lifecycle.Session, m method.Opened, err error) {
	if int(handle.Partition) >= h.Partitions {
		return b, s, m, errNoBox
	}
	b, err = h.Lifecycle.Box(ctx, handle.String())
	if errors.Is(err, lifecycle.ErrNoBox) {
		err = errNoBox
	}
	if err == nil {
		s, m, err = h.asks(ctx, b)
	}
	return b, s, m, err
}

// asks returns the session of a box that its method still waits for, and the method.
func (h *Hosted) asks(ctx context.Context, b lifecycle.Box) (
	s lifecycle.Session, m method.Opened, err error) {
	id, err := session.ParseID(h.Sealer, b.Session)
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
	s = lifecycle.Session{ID: id, Text: b.Session, Integration: i}
	h.tell(ctx, s)
	r, _, err := h.Lifecycle.Load(ctx, id)
	if err != nil {
		return s, m, err
	}
	m, ok := h.Methods[b.Method]
	r = r.As(h.Now(), id.Expires())
	if r.Terminal() {
		h.countLate()
	}
	if r.Terminal() || r.Attempts != b.Attempt || r.Box != b.Handle || !ok ||
		!slices.Contains(i.Offers(), b.Method) {
		return s, m, errOver
	}
	return s, m, nil
}

// close has the method judge an answer, and closes the box with it.
func (h *Hosted) close(ctx context.Context, req *web.Request, s lifecycle.Session, m method.Opened,
	b lifecycle.Box, a lifecycle.Answer) (lifecycle.Box, error) {
	told := h.tellBox(s, m, b)
	call := method.Call{Address: told.Box, Same: a.Same, Body: req.Body,
		ContentType: req.Header.Get("Content-Type")}
	if a.Same {
		call.Address += method.SameDevice
	}
	kept, basis, err := m.Answer(ctx, told, b.State, call)
	if err != nil {
		h.answerFailed(ctx, s, m, err)
		var refusal *method.Refusal
		if errors.Is(err, method.ErrMediaType) {
			return b, errMedia
		}
		if errors.Is(err, method.ErrStep) || errors.As(err, &refusal) {
			return b, errAnswer
		}
		return b, errLater
	}
	a.Kept, a.Basis = kept, basis
	if a.Same {
		if a.Code, err = method.NewHandle(h.Random); err != nil {
			return b, err
		}
	}
	b, err = h.Lifecycle.CloseBox(ctx, b, a, token.At(s.ID.Expires()))
	switch {
	case errors.Is(err, lifecycle.ErrAnswered):
		err = errSecond
	case errors.Is(err, lifecycle.ErrNoBox):
		err = errOver
	}
	return b, err
}

// answerFailed logs and stores the reason why a response was rejected. Neither contains data of the response.
func (h *Hosted) answerFailed(ctx context.Context, s lifecycle.Session, m method.Opened, err error) {
	if step := whyFailed(m.Name, err); errors.Is(err, method.ErrStep) {
		h.Lifecycle.LogStep(ctx, s, step, err)
	} else {
		h.Lifecycle.Ended(ctx, s, "", step, err)
	}
}
