// Package hosted is the flow that a user walks through: the page behind redirect_url, its forms, and the hop
// back to the publisher (contract 22 to 24). It also has the front page, and the pages that a person gets
// instead of an error in JSON (Refusal).
//
// GET shows and POST acts, so a link scanner that follows every link changes nothing. The one exception is
// the return from another site (return.go), which acts only with the cookie of the browser that left.
//
// A browser carries the flow token, in the address and in each form, and the step of a method (step.go).
// Neither decides anything: the KV decides about attempts and the outcome. What a real method has proven in
// one browser is not handed to another that has the same flow token (contract 34).
//
// Every POST is answered by a page or by a redirect to this flow's own address. A browser leaves our site
// only by the hop page.
//
//	hosted.go   what GET shows and what POST does
//	choose.go   which method the user takes
//	ask.go      how an attempt sends once what must be sent once
//	step.go     what a form carries for a method
//	errand.go   the cookie of a browser that is at another site
//	return.go   how that browser comes back
//	box.go      where somebody else than the browser answers, such as a wallet
//	hand.go     how a phone does a step for the browser that began
//	phone.go    what that phone sees and does
//	file.go     forms with a picture
//	passkey.go  passkeys of users
//	page.go     how pages are sent
//	refusal.go  pages instead of errors in JSON
package hosted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/language"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/passkey"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// Hosted serves the pages. All fields but Count, About, Measure and Passkeys are needed.
type Hosted struct {
	Sealer host.Sealer
	Now    func() time.Time
	Log    *slog.Logger
	Count  func(event string)                            // as in host.Host
	About  func(ctx context.Context, a host.RequestInfo) // as in host.Host

	BaseURL   string // scheme and host, no slash at the end
	Directory *integration.Directory
	Lifecycle *lifecycle.Lifecycle
	Results   *result.Tokens
	Random    io.Reader
	Dev       bool                     // a method may leave for http on a loopback host
	Methods   map[string]method.Opened // by name

	// Passkeys are those of users. Nil: there are none, because the service is at an address without a name.
	Passkeys *passkey.Store
	Measure  func(m host.Measurement) // as in host.Host

	Partitions int // over how many partitions sessions are spread, at least 1
}

// Parameters of the address and of forms. In the address they choose words and pages and nothing else, so a
// user who changes one changes nothing.
const (
	shownParam   = "show"     // one of the shown constants
	reasonParam  = "why"      // the method.Reason of the last attempt
	methodParam  = "method"   // the name of a method; in a form, the one that the user chose
	stepParam    = "provider" // the step of a method (step.go)
	errandParam  = "errand"   // the handle of an errand (errand.go)
	attemptParam = "attempt"  // only in forms: the attempt that the form belongs to
	handParam    = "hand"     // only in forms: a phone shall do the step (hand.go)
	deviceParam  = "device"   // only in forms: what a phone takes a hand-off by (phone.go)
)

// The parameters that a link and a form may have for Verge. Others are ignored (web.ReadParameters).
var (
	linkParams = []string{"flow", shownParam, reasonParam, methodParam, stepParam, errandParam}
	formParams = []string{"flow", methodParam, stepParam, attemptParam, handParam, deviceParam, enrolParam,
		method.OutcomeField, method.CredentialField}
)

// What GET shows beside the method page.
const (
	shownCancelled   = "cancelled"
	shownTrouble     = "trouble"     // the other side failed, and no attempt was counted
	shownOutdated    = "outdated"    // a stored verdict no longer counts
	shownUnavailable = "unavailable" // the method named beside it cannot begin
	shownAsked       = "asked"       // the other side is being asked, for a request of this browser
	shownCode        = "code"        // of a page that waits: its code, on a phone, too
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
	offers  []method.Opened // the integration's methods, at least one
	lang    string
	version string // of the record that was read last
	box     string // the address of the box whose page this is (box.go); "": of none
	claim   string // of the attempt, for what is sent once (ask.go); "": this visit has none

	// phone is the hand-off of which this is the phone (phone.go), which has no flow token: flow names the
	// hand-off. Nil: it is the browser that began.
	phone *lifecycle.Hand

	// brought is why the attempt failed of which the visit has learned from a phone (hand.go).
	brought method.Reason

	outdated bool // a phone has brought a verdict that no longer counts
}

// acts reports whether the request may change the session or the browser. HEAD may not (contract 5): it
// returns a waiting page even if the response has arrived.
func (v *visit) acts() bool { return v.req.Method != "HEAD" }

// Show answers GET on the hosted path.
func (h *Hosted) Show(ctx context.Context, c *web.Call) *web.Response {
	req := c.Request
	query, err := web.ReadParameters(req.Query, linkParams...)
	if err != nil {
		return h.plain(400, pages.Damaged, req)
	}
	v, refused := h.open(ctx, req, query.Get("flow"))
	if refused != nil {
		return refused
	}
	r, err := v.record()
	if err != nil {
		return v.unavailable(err)
	}
	if r.Terminal() {
		return v.ended(r, query.Get(stepParam))
	}
	return v.show(r, query)
}

// show returns the page of a session that has not ended.
func (v *visit) show(r session.Record, query url.Values) *web.Response {
	if handle := query.Get(errandParam); handle != "" {
		return v.leaving(r, handle, query.Get(shownParam) == shownCode)
	}
	if query.Get(shownParam) == shownCancelled {
		return v.pageWithPasskey(r, 200, pages.View{Kind: pages.Cancelled, RetryURL: v.url()})
	}
	if text := query.Get(stepParam); text != "" {
		s, err := v.openStep(text)
		if errors.Is(err, host.ErrKeyAwaited) {
			return v.unavailable(err)
		}
		if err == nil && s.Method == toUse && query.Get(shownParam) == shownAsked {
			return v.wait("", v.overtakenURL(text))
		}
		// Otherwise the step of a passkey has no page of its own.
		if err == nil && s.Attempt == r.Attempts && s.Method != toUse {
			m, ok := v.offered(s.Method)
			asked := ok && query.Get(shownParam) == shownAsked
			if asked && r.IsAsked(v.now) {
				return v.wait(m.Kind, v.waitURL(m, text))
			}
			if asked && !r.AskedUntil.IsZero() && v.acts() {
				v.interrupted(m)
			}
			// A picture that has brought nothing is a failure of the estimator. Any other form has at most
			// sent its browser elsewhere.
			asked = asked && m.Show(v.told(m, r), s.State).Camera
			return v.addressed(r, s, text, pages.Notice{Trouble: asked})
		}
	}
	return v.methodPage(r, query)
}

// Act answers POST on the hosted path.
func (h *Hosted) Act(ctx context.Context, c *web.Call) *web.Response {
	return h.actOn(ctx, c, func(url.Values) bool { return true })
}

// actOn is Act for the forms that a path takes.
func (h *Hosted) actOn(ctx context.Context, c *web.Call, takes func(url.Values) bool) *web.Response {
	req := c.Request
	if c.CheckSize() != nil {
		return h.plain(413, pages.TooLarge, req)
	}
	if web.MediaType(req.Header.Get("Content-Type")) != "application/x-www-form-urlencoded" {
		return h.plain(415, pages.NotAForm, req)
	}
	form, err := web.ReadParameters(string(req.Body), formParams...)
	if err == nil && !takes(form) {
		return h.plain(400, pages.Damaged, req)
	}
	return h.post(ctx, req, form, nil, err)
}

// post carries out a form. malformed is why it cannot be read, or nil.
func (h *Hosted) post(ctx context.Context, req *web.Request, form url.Values, file []byte,
	malformed error) *web.Response {
	if !h.sameSite(req) {
		return h.notAllowed(ctx, req, form.Get("flow"))
	}
	if malformed != nil {
		return h.plain(400, pages.Damaged, req)
	}
	if handle, ofPhone := strings.CutPrefix(form.Get("flow"), phonePrefix); ofPhone && form.Has(deviceParam) {
		return h.take(ctx, req, handle, form.Get(deviceParam))
	}
	v, refused := h.open(ctx, req, form.Get("flow"))
	if refused != nil {
		return refused
	}
	r, err := v.record()
	if err != nil {
		return v.unavailable(err)
	}
	if form.Has(enrolParam) {
		return v.enrol(r, form)
	}
	if r.Terminal() {
		// This is a second click, the back button or another browser. Whatever the form says, the outcome
		// is final and is shown again.
		v.countLate()
		return v.seeOther(v.endURL(r, form.Get(stepParam)))
	}
	switch name := form.Get(methodParam); name {
	case "":
	case passkey.Name:
		return v.usePasskey(r, form)
	default:
		return v.choose(r, name)
	}
	if form.Has(handParam) {
		return v.handOff(r, form)
	}
	return v.act(r, form, file)
}

func (h *Hosted) countLate() {
	if h.Count != nil {
		h.Count(host.CountLateAnswer)
	}
}

// act asks the method what the step means and applies it.
func (v *visit) act(r session.Record, form url.Values, file []byte) *web.Response {
	m, s, refused := v.formStep(r, form)
	if refused != nil {
		return refused
	}
	if file != nil && !m.Show(v.told(m, r), s.State).Camera {
		return v.page(400, pages.View{Kind: pages.Damaged})
	}
	defer v.giveBack()
	d, err := v.ask(m, r, s, method.Step{Form: form, File: file, State: s.State})
	var wrong *method.FileError
	switch {
	case errors.Is(err, lifecycle.ErrAsked), errors.Is(err, lifecycle.ErrRepeated):
		return v.seeOther(v.waitURL(m, form.Get(stepParam)))
	case errors.Is(err, lifecycle.ErrMovedOn):
		return v.seeOther(v.url(stepParam, form.Get(stepParam)))
	case errors.As(err, &wrong):
		page := v.stepPage(r, s, form.Get(stepParam), pages.Notice{BadFile: string(wrong.Rule)})
		page.Status = 400
		return page
	case errors.Is(err, method.ErrStep):
		return v.page(400, pages.View{Kind: pages.Damaged})
	case kv.Failed(err):
		return v.unavailable(err)
	case err != nil:
		v.failed(m, err)
		page := v.addressed(r, s, form.Get(stepParam), pages.Notice{Trouble: true})
		page.Status = 503
		page.Header.Set("Retry-After", "2")
		return page
	}
	return v.decided(m, s, form.Get(stepParam), d)
}

// formStep returns the step of a form and its method, or the page in its place.
func (v *visit) formStep(r session.Record, form url.Values) (
	m method.Opened, s token.ProviderClaims, refused *web.Response) {
	attempt, ok := attemptOf(form)
	if !ok {
		return m, s, v.page(400, pages.View{Kind: pages.Damaged})
	}
	s, err := v.stepOf(form, attempt)
	switch {
	case errors.Is(err, host.ErrKeyAwaited):
		return m, s, v.unavailable(err)
	case err != nil:
		return m, s, v.page(400, pages.View{Kind: pages.Damaged})
	}
	// A form of another attempt is not evaluated (contract 23). The page shows how the session stands now.
	if attempt != r.Attempts || s.Attempt != r.Attempts {
		return m, s, v.seeOther(v.url())
	}
	m, ok = v.offered(s.Method)
	// The operator may have changed the integration's methods since the page was shown. A step without a
	// handle is the sandbox's, and what a real method proves by it would belong to no browser.
	if !ok || isBound(m) && s.Handle == "" {
		return m, s, v.seeOther(v.url())
	}
	return m, s, nil
}

// failed logs and stores that a method could not decide. Neither contains the user's input or a provider's
// response.
func (v *visit) failed(m method.Opened, err error) {
	step := whyFailed(m.Name, err)
	if errors.Is(err, method.ErrStep) { // of no step, so nothing to keep
		v.Lifecycle.LogStep(v.ctx, v.session, step, err)
		return
	}
	v.stepEnded(step, err)
}

// interrupted logs and stores a step whose instance ended before the provider's response arrived.
func (v *visit) interrupted(m method.Opened) {
	v.stepEnded(session.Step{Method: m.Name, Result: host.MethodUnavailable, Reason: "interrupted"},
		lifecycle.ErrInterrupted)
}

// whyFailed is an error of a method as the log and the record have it.
func whyFailed(name string, err error) session.Step {
	result, reason := method.WhyOf(err)
	return session.Step{Method: name, Result: result, Reason: reason}
}

// stepEnded logs and stores a step that does not end the session, and returns the claim.
func (v *visit) stepEnded(step session.Step, cause error) {
	v.Lifecycle.Ended(v.ctx, v.session, v.claim, step, cause)
	v.claim = ""
}

// logBegun logs that the user leaves for a provider or a wallet. If they do not come back, the log has their
// destination.
func (v *visit) logBegun(m method.Opened) {
	v.Lifecycle.LogStep(v.ctx, v.session, session.Step{Method: m.Name, Result: host.MethodLeft}, nil)
}

// whatOf is a decision as the log and the record have it.
func whatOf(name string, d method.Decision) session.Step {
	result, reason := d.Result()
	return session.Step{Method: name, Result: result, Reason: reason, Setting: d.Setting, Detail: d.Detail}
}

// decided applies a decision about a step. text is the step as the browser has it, or "" if it has it in a
// cookie.
func (v *visit) decided(m method.Opened, s token.ProviderClaims, text string,
	d method.Decision) *web.Response {
	if len(d.State) > method.MaxState {
		return v.unavailable(errors.New("hosted: " + m.Name + " gave a state that is too long"))
	}
	trigger, ends := triggers[d.Verdict]
	if !ends { // Pending: nothing has happened yet
		s.State, s.Issued = d.State, token.At(v.now)
		s.Leave, s.Box, s.Hand = "", "", "" // after a return the browser is back
		switch {
		case d.Leave != nil:
			s.Method = m.Name // a step of the sandbox does not name it
			v.logBegun(m)
			return v.leave(s, *d.Leave)
		case d.Box:
			s.Method = m.Name
			v.logBegun(m)
			return v.openBox(m, s)
		}
		return v.goOn(s)
	}
	if trigger == session.Cancelled {
		v.stepEnded(whatOf(m.Name, d), nil)
	}
	if v.phone != nil {
		return v.bring(d)
	}
	step := lifecycle.Step{Trigger: trigger, Attempt: s.Attempt, What: whatOf(m.Name, d)}
	if s.Handle != "" {
		step.Browser = session.Proof(s.Handle)
	}
	if trigger == session.Succeeded {
		step.Proven = v.proves(d)
	}
	r, err := v.Lifecycle.Fire(v.ctx, v.session, step)
	if err != nil {
		return v.unavailable(err)
	}
	if r.AskedUntil.IsZero() {
		v.claim = ""
	}
	switch {
	case r.Terminal():
		return v.seeOther(v.endURL(r, text))
	case trigger == session.Cancelled:
		return v.seeOther(v.url(shownParam, shownCancelled))
	}
	return v.seeOther(v.failedURL(m, d.Reason))
}

// failedURL is the address of the page after a failed attempt.
func (v *visit) failedURL(m method.Opened, why method.Reason) string {
	var params []string
	if why != "" {
		params = append(params, reasonParam, string(why))
	}
	if len(v.offers) > 1 {
		params = append(params, methodParam, m.Name)
	}
	return v.url(params...)
}

// triggers says what a method's verdict does to the session.
var triggers = map[method.Verdict]session.Trigger{
	method.Unclassified:  session.Unclassified,
	method.Approved:      session.Succeeded,
	method.Rejected:      session.Rejected,
	method.AttemptFailed: session.AttemptFailed,
	method.Withdrawn:     session.Withdrawn,
	method.Cancelled:     session.Cancelled,
}

// open takes the flow token apart, or returns the page that says what is wrong with it.
func (h *Hosted) open(ctx context.Context, req *web.Request, flow string) (*visit, *web.Response) {
	if handle, ofPhone := strings.CutPrefix(flow, phonePrefix); ofPhone {
		return h.openPhone(ctx, req, handle)
	}
	claims, until, err := token.OpenFlow(h.Sealer, flow)
	var id session.ID
	if err == nil {
		id, err = session.ParseID(h.Sealer, claims.Session)
	}
	if errors.Is(err, host.ErrKeyAwaited) {
		return nil, h.awaited(req, flow)
	}
	// A token is as old as its session. If it says otherwise, or if its key was replaced before the session
	// began, somebody with an old key has made it.
	if err != nil || claims.Expires != token.At(id.Expires()) || !host.ValidAt(id.Created, until) {
		return nil, h.plain(400, pages.Damaged, req)
	}
	v := &visit{Hosted: h, ctx: ctx, req: req, now: h.Now(), flow: flow, claims: claims,
		lang: claims.Language}
	if v.lang == "" {
		v.lang = languageOf(req)
	}
	v.session = lifecycle.Session{ID: id, Text: claims.Session,
		User: claims.UserText(), State: claims.StateText()}
	v.session.Integration, err = h.Directory.Integration(ctx, id.Integration)
	if errors.Is(err, integration.ErrNotFound) {
		return nil, h.plain(400, pages.Damaged, req)
	}
	if err != nil {
		return nil, v.unavailable(err)
	}
	h.tell(ctx, v.session)
	if v.findOffers(); len(v.offers) == 0 {
		return nil, v.unavailable(fmt.Errorf("hosted: this service has no method of integration %s: %s",
			v.session.Integration.ID, strings.Join(v.session.Integration.Offers(), ", ")))
	}
	return v, nil
}

// findOffers finds the integration's methods.
func (v *visit) findOffers() {
	v.offers = nil
	for _, name := range v.session.Integration.Offers() {
		if m, ok := v.Methods[name]; ok && (v.phone == nil || name == v.phone.Method) {
			v.offers = append(v.offers, m)
		}
	}
}

// refresh reads the integration as it is now. A verdict that was reached before is compared with that, since
// what the cache has may be as old as the verdict (contract 34).
func (v *visit) refresh() error {
	now, err := v.Directory.ReadIntegration(v.ctx, v.session.ID.Integration)
	if err == nil {
		v.session.Integration = &now.Value
		v.findOffers()
	}
	return err
}

// tell says which session a request is about.
func (h *Hosted) tell(ctx context.Context, s lifecycle.Session) {
	if h.About != nil {
		h.About(ctx, host.RequestInfo{Session: s.Text, Integration: s.Integration.ID,
			Publisher: s.Integration.PublisherID})
	}
}

// record returns the record of the session as it holds now.
func (v *visit) record() (session.Record, error) {
	r, version, err := v.Lifecycle.Load(v.ctx, v.session.ID)
	v.version = version
	r = r.As(v.now, v.session.ID.Expires())
	if err == nil && v.phone == nil && r.Hand != "" && v.acts() {
		return v.settle(r)
	}
	return r, err
}

// ended returns the page that says how a session has ended. step is the step that the browser has, or "".
func (v *visit) ended(r session.Record, step string) *web.Response {
	switch r.State {
	case session.Completed:
		proven, err := v.hasProven(r, step)
		switch {
		case err != nil:
			return v.unavailable(err)
		case !proven:
			return v.page(200, pages.View{Kind: pages.Elsewhere, Confirmed: true})
		}
		return v.completed(r, func(view *pages.View) error { return v.offerEnrolment(r, step, view) })
	case session.Failed:
		return v.page(200, pages.View{Kind: pages.Failed, FailureCode: r.FailureCode})
	}
	return v.page(410, pages.View{Kind: pages.Expired})
}

// completed returns the hop page to the callback. If the result has been used or has expired, it returns a
// page that says so. more adds to the hop page, or is nil. If it fails, the page goes without.
func (v *visit) completed(r session.Record, more func(*pages.View) error) *web.Response {
	text, err := v.Results.Issue(v.ctx, v.session, r, v.version, v.now)
	switch {
	case errors.Is(err, result.ErrUsed):
		return v.page(409, pages.View{Kind: pages.Used})
	case errors.Is(err, result.ErrExpired):
		return v.page(410, pages.View{Kind: pages.Expired, Confirmed: true})
	case err != nil:
		return v.unavailable(err)
	}
	params := [][2]string{{"result_token", text}, {"session_id", v.session.Text}}
	if v.claims.HasState {
		params = append(params, [2]string{"state", string(v.claims.State)})
	}
	view := pages.View{Kind: pages.Completed}
	if more != nil {
		if err := more(&view); err != nil {
			v.Log.LogAttrs(v.ctx, slog.LevelWarn, "no passkey offered",
				slog.String("session", v.session.Text), slog.String("error", err.Error()))
			view = pages.View{Kind: pages.Completed}
		}
	}
	return v.hop(view, weburl.AppendQuery(string(v.claims.Callback), params))
}

// attemptField returns the hidden input that says to which attempt a form belongs.
func attemptField(r session.Record) pages.Field {
	return pages.Field{Name: attemptParam, Value: strconv.Itoa(r.Attempts)}
}

// attemptOf reads that input. A form without it was made by an older version of ours, and a browser still
// shows it. It belongs to the first attempt.
func attemptOf(form url.Values) (attempt int, ok bool) {
	text := form.Get(attemptParam)
	if !form.Has(attemptParam) {
		text = "0"
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

// told is what the visit's session tells a method.
func (v *visit) told(m method.Opened, r session.Record) method.Session {
	s := v.session.ForMethod(m.Name, v.lang, r.Attempts, v.BaseURL+web.ReturnPath+m.Name)
	s.Box = v.box
	return s
}

// url is the address of this flow, with further parameters: name, value, name, value.
func (v *visit) url(params ...string) string {
	u, next := web.HostedPath+"?flow="+url.QueryEscape(v.flow), "&"
	if v.phone != nil {
		u, next = web.PhonePath+v.phone.Handle, "?"
	}
	for n := 0; n < len(params); n += 2 {
		u += next + params[n] + "=" + url.QueryEscape(params[n+1])
		next = "&"
	}
	return u
}

// unavailable answers an error that decides nothing. The user may try again.
func (v *visit) unavailable(err error) *web.Response {
	level := slog.LevelError
	if kv.Failed(err) {
		level = slog.LevelDebug
	}
	v.Log.LogAttrs(v.ctx, level, "hosted page unavailable",
		slog.String("session", v.session.Text), slog.String("error", err.Error()))
	resp := v.page(503, pages.View{Kind: pages.Unavailable, RetryURL: v.url()})
	resp.Header.Set("Retry-After", "2")
	return resp
}

// awaited answers a link that another instance has sealed with a key that this one has not read yet. The link
// may be good, and then it works in a moment.
func (h *Hosted) awaited(req *web.Request, flow string) *web.Response {
	h.Log.LogAttrs(context.Background(), slog.LevelWarn, "hosted page waits for a key of the ring")
	resp := render(503, pages.View{Kind: pages.Unavailable, Lang: languageOf(req),
		RetryURL: web.HostedPath + "?flow=" + url.QueryEscape(flow)})
	resp.Header.Set("Retry-After", "2")
	return resp
}

// notAllowed answers a form of another site, and does nothing of what the form says. If its flow token is
// authentic, the page offers the user the way back.
func (h *Hosted) notAllowed(ctx context.Context, req *web.Request, flow string) *web.Response {
	v, refused := h.open(ctx, req, flow)
	if refused != nil {
		return h.plain(403, pages.NotAllowed, req)
	}
	return v.page(403, pages.View{Kind: pages.NotAllowed, RetryURL: v.url()})
}

// sameSite reports whether a POST came from a page of ours, as far as the browser says. Browsers of today
// send Sec-Fetch-Site, over https and on loopback. Without it, "Origin: null" says nothing: an extension or
// a proxy that withholds referrers (Referrer-Policy: no-referrer) makes browsers send it with our own forms,
// too. A browser that says nothing is let through: it has the flow token, which no other site knows.
func (h *Hosted) sameSite(req *web.Request) bool {
	if site := req.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	origin := req.Header.Get("Origin")
	return origin == "" || origin == "null" || origin == h.BaseURL
}

func languageOf(req *web.Request) string {
	if req == nil {
		return language.Match("")
	}
	return language.Match(strings.Join(req.Header["Accept-Language"], ","))
}
