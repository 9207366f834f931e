package hosted

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/language"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// visit is one request of a user whose flow token is authentic.
type visit struct {
	*Hosted
	ctx     context.Context
	req     *web.Request
	now     time.Time
	flow    string // token text
	claims  token.FlowClaims
	session lifecycle.Session
	offers  []method.Opened // the integration's methods; after load at least one, if the session is active
	lang    string

	publisher pages.Publisher

	record  session.Record // as of now, after load
	version string         // of the record

	responseURI string // of the pending response whose page this is; "": of none
	claim       string // of the attempt, for a request that is sent once; "": this visit has none

	// phone, if not nil, is the hand-off that this phone has. A phone has no flow token: flow names the
	// hand-off.
	phone *lifecycle.Pending

	brought  method.Reason // the reason of a failed attempt that a phone has brought
	outdated bool          // a phone has brought a verdict that no longer counts
	judged   bool          // a phone has brought a verdict that counts, by the settings of now
}

// acts reports whether the request may change the session or the browser. HEAD may not (contract 5): it
// returns a waiting page even if the response has arrived.
func (v *visit) acts() bool { return v.req.Method != "HEAD" }

// open returns the visit of a flow token, or the page for an invalid token.
func (h *Hosted) open(ctx context.Context, req *web.Request, flow string) (*visit, *page) {
	if handle, ofPhone := strings.CutPrefix(flow, phonePrefix); ofPhone {
		return h.openPhone(ctx, req, handle)
	}
	claims, until, err := token.OpenFlow(h.Sealer, flow)
	var id session.ID
	if err == nil {
		id, err = session.ParseID(h.Sealer, claims.Session)
	}
	if errors.Is(err, host.ErrKeyAwaited) {
		return nil, reject(h.awaited(req, flow))
	}
	// A token is as old as its session. If its time differs, or if its key was replaced before the session
	// began, it was forged with an old key.
	if err != nil || claims.Expires != token.At(id.Expires()) || !host.ValidAt(id.Created, until) {
		return nil, reject(plain(400, pages.Damaged, req))
	}
	v := &visit{Hosted: h, ctx: ctx, req: req, now: h.Now(), flow: flow, claims: claims,
		lang: claims.Language}
	if v.lang == "" {
		v.lang = languageOf(req)
	}
	v.session = lifecycle.Session{ID: id, Text: claims.Session,
		User: claims.UserText(), State: claims.StateText(), OpenID: len(claims.OpenID) > 0,
		Untimed: claims.Untimed}
	err = v.loadIntegration()
	switch {
	case errors.Is(err, integration.ErrNotFound):
		return nil, reject(plain(400, pages.Damaged, req))
	case err != nil:
		return nil, reject(v.unavailable(err))
	}
	return v, nil
}

func reject(p page) *page { return &p }

// sameSite reports whether a POST came from our own page, by the headers of the browser. Current browsers
// send Sec-Fetch-Site, over https and on loopback. Without it, "Origin: null" is no evidence: an extension or
// a proxy that withholds referrers (Referrer-Policy: no-referrer) makes browsers send it with our own forms,
// too. A request with neither header is accepted: it has the flow token, which other sites do not know.
func (h *Hosted) sameSite(req *web.Request) bool {
	if site := req.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	origin := req.Header.Get("Origin")
	return origin == "" || origin == "null" || origin == h.BaseURL
}

// notAllowed returns the page for a form of another site, which has no effect. If its flow token is
// authentic, the page offers the user the way back.
func (h *Hosted) notAllowed(ctx context.Context, req *web.Request, flow string) page {
	v, rejected := h.open(ctx, req, flow)
	if rejected != nil {
		return plain(403, pages.NotAllowed, req)
	}
	return v.page(403, pages.View{Kind: pages.NotAllowed, RetryURL: v.url()})
}

func languageOf(req *web.Request) string {
	if req == nil {
		return language.Match("")
	}
	return language.Match(strings.Join(req.Header["Accept-Language"], ","))
}

// A step is the data that a form carries for its method: a step token, bound to session, method and attempt.
// The form of a real method always has one, with a handle that only the browser with that page knows. The
// sandbox needs none on its first page, unless it is one of several methods.

// sealStep returns the text of a step of this session.
func (v *visit) sealStep(s token.StepClaims) (string, error) {
	s.Session = v.session.Text
	if s.Issued == 0 {
		s.Issued = token.At(v.now)
	}
	return token.SealStep(v.Sealer, s)
}

// openStep opens the text of a step. The error is one of Sealer.Open's.
func (v *visit) openStep(text string) (token.StepClaims, error) {
	s, err := token.OpenStep(v.Sealer, text)
	if err == nil && s.Session != v.session.Text {
		err = host.ErrNotAuthentic
	}
	return s, err
}

// stepOf returns the step of a form of that attempt. The error is one of Sealer.Open's.
func (v *visit) stepOf(form url.Values, attempt int) (token.StepClaims, error) {
	if text := form.Get(stepParam); text != "" {
		s, err := v.openStep(text)
		if err == nil && s.Waits() { // it belongs in a cookie
			err = host.ErrNotAuthentic
		}
		return s, err
	}
	return token.StepClaims{Attempt: attempt}, nil
}

// formStep returns the step of a form and its method, or the page instead.
func (v *visit) formStep(form url.Values) (m method.Opened, s token.StepClaims, rejected *page) {
	attempt, ok := attemptOf(form)
	if !ok {
		return m, s, reject(v.damaged())
	}
	s, err := v.stepOf(form, attempt)
	switch {
	case errors.Is(err, host.ErrKeyAwaited):
		return m, s, reject(v.unavailable(err))
	case err != nil:
		return m, s, reject(v.damaged())
	}
	// A form of another attempt is not evaluated (contract 23). The page shows the current state of the
	// session.
	if attempt != v.record.Attempts || s.Attempt != v.record.Attempts {
		return m, s, reject(v.seeOther(v.url()))
	}
	// The operator may have changed the methods since the page was shown. A step without a handle is the
	// sandbox's, and the proof of a real method would then belong to no browser. A form without a step is of
	// the sandbox as the only method.
	switch m, ok = v.offered(s.Method); {
	case !ok && s.Method != "":
		return m, s, reject(v.gone(s.Method))
	case !ok, s.Handle == "" && (isBound(m) || s.Method == "" && len(v.offers) > 1):
		return m, s, reject(v.seeOther(v.url()))
	}
	return m, s, nil
}

// attemptField returns the hidden input with the attempt that a form belongs to.
func (v *visit) attemptField() pages.Field {
	return pages.Field{Name: attemptParam, Value: strconv.Itoa(v.record.Attempts)}
}

// attemptOf reads that input. A form without it is from an older release, and a browser still shows it. It
// belongs to the first attempt.
func attemptOf(form url.Values) (attempt int, ok bool) {
	text := form.Get(attemptParam)
	if !form.Has(attemptParam) {
		text = "0"
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

// hasProven reports whether this browser has completed the session: it has the completing step, in its
// address or in a cookie. The only error is host.ErrKeyAwaited.
func (v *visit) hasProven(step string) (bool, error) {
	if v.record.Browser == "" {
		return true, nil
	}
	s, err := v.openStep(step)
	if err == nil && session.Proof(s.Handle) == v.record.Browser {
		return true, nil
	}
	for handle := range v.requestsOf(v.req) {
		if session.Proof(handle) == v.record.Browser {
			s, _, err = v.requestIn(v.req, handle)
			if err == nil && s.Session == v.session.Text {
				return true, nil
			}
		}
	}
	if errors.Is(err, host.ErrKeyAwaited) {
		return false, err
	}
	return false, nil
}
