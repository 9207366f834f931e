package hosted

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/openid"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// show returns the page of a session.
func (v *visit) show(query url.Values) page {
	shown, text := query.Get(shownParam), query.Get(stepParam)
	if v.record.Terminal() && v.phone == nil {
		return v.ended(text, shown == shownLeave)
	}
	if handle := query.Get(requestParam); handle != "" {
		return v.away(handle, shown == shownCode)
	}
	if shown == shownCancelled {
		return v.pageWithPasskey(pages.View{Kind: pages.Cancelled, RetryURL: v.url()})
	}
	if text == "" {
		return v.methodPage(query)
	}
	s, err := v.openStep(text)
	switch {
	case errors.Is(err, host.ErrKeyAwaited):
		return v.unavailable(err)
	case err == nil && s.Method == toUse && shown == shownAsked:
		return v.wait("", v.overtakenURL(text))
	case err == nil && shown == shownAsked && s.Attempt+1 == v.record.Attempts: // by another request
		query.Set(reasonParam, v.reasonOf(s.Method))
		return v.methodPage(query)
	case err != nil, s.Attempt != v.record.Attempts, s.Method == toUse: // the step of a passkey has no page
		return v.methodPage(query)
	}
	m, ok := v.offered(s.Method)
	asked := ok && shown == shownAsked
	if asked && v.record.IsAsked(v.now) {
		return v.wait(m.Kind, v.waitURL(m, text))
	}
	if asked && !v.record.AskedUntil.IsZero() && v.acts() {
		v.interrupted(m)
	}
	// A picture without a result is a failure of the estimator. Any other form has at most sent its browser
	// elsewhere.
	return v.addressed(s, text, pages.Notice{Trouble: asked && v.shows(m, s).Camera})
}

// reasonOf returns the reason of the last attempt, if it failed with this method, or "".
func (v *visit) reasonOf(name string) string {
	if last := v.lastStep(name); last.Result == metric.MethodAttemptFailed {
		return last.Reason
	}
	return ""
}

// lastStep returns the last step of the session, if it was one of this method.
func (v *visit) lastStep(name string) session.Step {
	steps := v.record.Steps.All()
	if len(steps) == 0 || steps[len(steps)-1].Method != name {
		return session.Step{}
	}
	return steps[len(steps)-1]
}

// ended returns the page of an ended session. step is the step that the browser has, or "". leaves reports
// that the user has chosen to continue to the site without a passkey.
func (v *visit) ended(step string, leaves bool) page {
	switch v.record.State {
	case session.Completed:
		proven, err := v.hasProven(step)
		switch {
		case err != nil:
			return v.unavailable(err)
		case !proven:
			return v.elsewhere()
		case leaves:
			return v.completed(nil)
		}
		return v.completed(func(view *pages.View) error {
			if v.session.OpenID {
				// An authorization code expires long before the user has created a passkey. So the page
				// links to a page with a new code.
				view.HopURL = v.BaseURL + v.url(shownParam, shownLeave, stepParam, step)
			}
			return v.offerEnrolment(step, view)
		})
	case session.Failed:
		return v.page(200, pages.View{Kind: pages.Failed, FailureCode: v.record.FailureCode})
	}
	return v.page(410, pages.View{Kind: pages.Expired})
}

// elsewhere returns the page for a browser that has not proven the result of a completed session. It may be
// the browser that did, at a page before the proof. So it also shows that the result was used.
func (v *visit) elsewhere() page {
	_, err := v.Results.Claims(v.ctx, v.session, v.record, v.version, v.now)
	if errors.Is(err, result.ErrUsed) {
		return v.page(409, pages.View{Kind: pages.Used})
	}
	return v.page(200, pages.View{Kind: pages.Elsewhere, Confirmed: true})
}

// completed returns the hop page to the callback. If the result has been used or has expired, it returns a
// page with that information. more adds to the hop page, or is nil. If it fails, the page goes without.
func (v *visit) completed(more func(*pages.View) error) page {
	to, err := v.callback()
	switch {
	case errors.Is(err, result.ErrUsed):
		return v.page(409, pages.View{Kind: pages.Used})
	case errors.Is(err, result.ErrExpired):
		return v.page(410, pages.View{Kind: pages.Expired, Confirmed: true})
	case err != nil:
		return v.unavailable(err)
	}
	view := pages.View{Kind: pages.Completed}
	if more != nil {
		if err := more(&view); err != nil {
			v.Log.LogAttrs(v.ctx, slog.LevelWarn, "no passkey offered",
				slog.String("session", v.session.Text), slog.String("error", err.Error()))
			view = pages.View{Kind: pages.Completed}
		}
	}
	if view.HopURL == "" || view.Passkey == nil {
		view.HopURL = to
	}
	return v.page(200, view)
}

// callback returns the address after a completed session: the callback with a result token, or the
// redirect URI with an authorization code. The error is one of result.Tokens.Claims.
func (v *visit) callback() (string, error) {
	claims, err := v.Results.Claims(v.ctx, v.session, v.record, v.version, v.now)
	if err != nil {
		return "", err
	}
	if v.session.OpenID {
		return openid.Callback(v.Sealer, v.BaseURL, &v.claims, claims, v.record.Age, v.now)
	}
	text, err := token.SealResult(v.Sealer, claims)
	if err != nil {
		return "", err
	}
	params := [][2]string{{"result_token", text}, {"session_id", v.session.Text}}
	if v.claims.HasState {
		params = append(params, [2]string{"state", string(v.claims.State)})
	}
	return weburl.AppendQuery(string(v.claims.Callback), params), nil
}

// methodPage returns the page of a session that has not ended. If there are several methods and the query
// names none of them, the user chooses.
func (v *visit) methodPage(query url.Values) page {
	shown, name := query.Get(shownParam), query.Get(methodParam)
	n := pages.Notice{
		AttemptFailed: v.record.Attempts > 0,
		AttemptsLeft:  v.Lifecycle.AttemptsOf(v.session) - v.record.Attempts,
		Reason:        query.Get(reasonParam),
		Trouble:       shown == shownTrouble,
		Outdated:      shown == shownOutdated,
		Passkey:       passkeyNotice(query),
	}
	m, known := v.offered(name)
	if len(v.offers) > 1 && (name == "" || !known || shown == shownUnavailable) {
		return v.pageWithPasskey(pages.View{Kind: pages.Choose, Notice: n, Methods: v.options(shown, name)})
	}
	if !known {
		m = v.offers[0]
	}
	s := token.StepClaims{Attempt: v.record.Attempts, Method: m.Name}
	// Only a picture's result is certainly the latest step: other forms send their browser elsewhere, and the
	// record does not have that.
	if last := v.lastStep(m.Name); shown == "" && !n.AttemptFailed && v.shows(m, s).Camera {
		n.Trouble = last.Result == metric.MethodUnavailable || last.Result == metric.MethodFailed
	}
	return v.stepPage(s, "", n)
}

// options returns the methods as the page offers them. A method that has just failed to begin is marked.
func (v *visit) options(shown, name string) []pages.Option {
	options := make([]pages.Option, len(v.offers))
	for n, m := range v.offers {
		options[n] = pages.Option{Name: m.Name, Title: m.TitleIn(v.lang), Words: m.Kind,
			Unavailable: shown == shownUnavailable && m.Name == name}
	}
	return options
}

// stepPage returns the page of a step. text is the step as the browser has it. If it is "" and the form needs
// a step, stepPage seals one.
func (v *visit) stepPage(s token.StepClaims, text string, n pages.Notice) page {
	return v.stepView(s, text, n, func(*pages.View, method.View) {})
}

// stepView is stepPage with more on the page.
func (v *visit) stepView(s token.StepClaims, text string, n pages.Notice,
	more func(*pages.View, method.View)) page {
	m, ok := v.offered(s.Method)
	if !ok {
		return v.pageWithPasskey(pages.View{Kind: pages.Choose, Methods: v.options("", "")})
	}
	if text == "" && (isBound(m) || len(v.offers) > 1) {
		var err error
		if isBound(m) {
			s.Handle, err = method.NewHandle(v.Random)
		} else {
			s.Handle = "" // nothing real is proven
		}
		if err == nil {
			text, err = v.sealStep(s)
		}
		if err != nil {
			return v.unavailable(err)
		}
	}
	shows := v.shows(m, s)
	view := pages.View{Kind: pages.Method, Notice: n, Words: m.Kind, Title: m.TitleIn(v.lang),
		MinimumAge: v.session.Integration.Minimum(), Camera: shows.Camera, Here: shows.Here,
		Choices: append([]string(nil), shows.Choices...), Sandbox: shows.Sandbox,
		Extra: []pages.Field{v.attemptField()}}
	if shows.Waiting {
		view.Kind = pages.Progress
	}
	if text != "" {
		view.Extra = append(view.Extra, pages.Field{Name: stepParam, Value: text})
	}
	if len(v.offers) > 1 && !shows.Waiting {
		view.AnotherURL = v.url()
	}
	view.Hand = v.offersHandOff(m, shows)
	more(&view, shows)
	// a page that loads itself again would end the dialog
	if view.Kind == pages.Method && view.AgainURL == "" {
		return v.pageWithPasskey(view)
	}
	return v.page(200, view)
}

// addressed returns the page of a step that the address has, or that has asked without a result. The author
// of the address knows the step, too, and may have sent it to another person. So the form of a real method
// gets a new handle here, and its proof belongs to this page's browser (contract 34). A step without a handle
// is the sandbox's.
func (v *visit) addressed(s token.StepClaims, text string, n pages.Notice) page {
	if s.Handle != "" {
		text = ""
	}
	return v.stepPage(s, text, n)
}

// away returns the page of a pending authorization request: the page that leaves for a method's site, or the
// page that waits for a pending response. code requests the code of that page on a phone.
//
// The page that leaves is shown once. A user who comes back to it with the Back button, or loads it again,
// gets the method's page, whose button begins again. Otherwise the page would send them away immediately, and
// to an address that may be valid for one use, as with a pushed request (RFC 9126, 2.2).
func (v *visit) away(handle string, code bool) page {
	s, _, err := v.requestIn(v.req, handle)
	switch {
	case errors.Is(err, host.ErrKeyAwaited):
		return v.unavailable(err)
	case err != nil || s.Session != v.session.Text:
		return v.page(403, pages.View{Kind: pages.Elsewhere, RetryURL: v.url()})
	case s.Attempt != v.record.Attempts && (s.HandOff == "" || v.brought == ""):
		return v.seeOther(v.url())
	}
	m, ok := v.offered(s.Method)
	switch {
	case !ok && s.Response != "" && s.Attempt == v.record.Attempts:
		return v.notOffered(s, func(m method.Opened) page { return v.waiting(m, s, code) })
	case !ok && v.acts() && s.Attempt == v.record.Attempts:
		return v.gone(s.Method)
	case !ok:
		return v.seeOther(v.url())
	case s.Attempt != v.record.Attempts: // the phone has just brought the reason
		return v.seeOther(v.failedURL(m, v.brought))
	case s.Leave == "":
		return v.waiting(m, s, code)
	case v.hasLeft(handle):
		return v.seeOther(v.methodURL(m))
	}
	p := v.page(200, pages.View{Kind: pages.Leaving, Words: m.Kind, Title: m.TitleIn(v.lang),
		RetryURL: v.url(), HopURL: s.Leave})
	if v.acts() {
		p.cookies = []string{v.cookie(handle+leftMark, "1", v.secondsLeft())}
	}
	return p
}

// Poll intervals of the pages that wait.
const (
	usualPoll    = 3 * time.Second
	leastPoll    = time.Second
	waitInterval = 2 * time.Second // for another request of this browser
)

// wait returns a page that continues to the address automatically. kind is the kind of the method, or "".
func (v *visit) wait(kind, address string) page {
	return v.page(200, pages.View{Kind: pages.Asked, Words: kind, AgainURL: address,
		AgainAfter: waitInterval})
}

// waitForResponse returns the page that waits for a posted response. again is its address. If no response can
// be accepted, it returns the page on which the step begins again.
func (v *visit) waitForResponse(m method.Opened, s token.StepClaims, p lifecycle.Pending, code bool,
	again string) page {
	withCode := v.url(requestParam, s.Handle, shownParam, shownCode)
	v.responseURI = v.Hosted.responseURI(s.Response)
	if !p.Posted && v.shows(m, s).Outdated {
		return v.seeOther(v.againURL(m, shownOutdated))
	}
	s.Pending = token.Pending{} // the page's forms do not wait
	return v.stepView(s, "", pages.Notice{}, func(view *pages.View, shows method.View) {
		view.AgainURL, view.AgainAfter = again, max(cmp.Or(shows.Poll, usualPoll), leastPoll)
		if p.Posted {
			view.Answered, view.RetryURL, view.Choices = true, v.url(), nil
			return
		}
		if view.Open = shows.Open; len(shows.Code) <= method.MaxCode {
			view.Code, view.CodeShown, view.ShowCodeURL = shows.Code, code, withCode
		}
		view.Hand = v.phone == nil && shows.Open != "" && !shows.Here
		// Its form goes by the flow token, which no phone has.
		if len(shows.Credentials) > 0 && v.phone == nil {
			view.Credential = &pages.Credential{Action: WalletPath}
			for _, c := range shows.Credentials {
				view.Credential.Requests = append(view.Credential.Requests,
					pages.CredentialRequest{Protocol: c.Protocol, Data: string(c.Data)})
			}
		}
	})
}

// waitForPhone returns the page that waits for a phone.
func (v *visit) waitForPhone(m method.Opened, s token.StepClaims, p lifecycle.Pending) page {
	view := pages.View{Kind: pages.PhoneWait, Number: p.Number, Taken: p.Device != "",
		AgainURL: v.url(requestParam, s.Handle), AgainAfter: usualPoll, RetryURL: v.methodURL(m)}
	if !view.Taken {
		view.Code = v.BaseURL + PhonePath + p.HandOff
	}
	return v.page(200, view)
}

// url returns the address of this flow, with further parameters: name, value, name, value.
func (v *visit) url(params ...string) string {
	u, next := web.HostedPath+"?flow="+url.QueryEscape(v.flow), "&"
	if v.phone != nil {
		u, next = PhonePath+v.phone.HandOff, "?"
	}
	for n := 0; n < len(params); n += 2 {
		u += next + params[n] + "=" + url.QueryEscape(params[n+1])
		next = "&"
	}
	return u
}

// named returns the address of this flow with params, and with the method's name if there are several.
func (v *visit) named(m method.Opened, params ...string) string {
	if len(v.offers) > 1 {
		params = append(params, methodParam, m.Name)
	}
	return v.url(params...)
}

// methodURL returns the address of a method's page.
func (v *visit) methodURL(m method.Opened) string { return v.named(m) }

// againURL returns the address of a method's page with the reason why the user begins again.
func (v *visit) againURL(m method.Opened, shown string) string { return v.named(m, shownParam, shown) }

// failedURL returns the address of the page after a failed attempt.
func (v *visit) failedURL(m method.Opened, why method.Reason) string {
	if why == "" {
		return v.named(m)
	}
	return v.named(m, reasonParam, string(why))
}

// waitURL returns the address of the page that waits for the result of another request of this browser.
func (v *visit) waitURL(m method.Opened, step string) string {
	return v.url(shownParam, shownAsked, stepParam, step, methodParam, m.Name)
}

// endURL returns the address of an ended session. It has the browser's step if the step may have completed
// the session (hasProven).
func (v *visit) endURL(step string) string {
	if v.record.Browser == "" || step == "" {
		return v.url()
	}
	return v.url(stepParam, step)
}

// page is the response to a browser: a page, or a redirect to another page of this service.
type page struct {
	status  int
	view    pages.View
	to      string   // the address, instead of a page
	cookies []string // Set-Cookie lines
	reload  string   // the header Refresh; "": none
}

// with returns the page with that status instead of 200.
func (p page) with(status int) page {
	if p.status == 200 {
		p.status = status
	}
	return p
}

// page returns a page of this visit.
func (v *visit) page(status int, view pages.View) page {
	view.Lang = v.lang
	view.Action, view.FileAction, view.Flow = web.HostedPath, FilePath, v.flow
	view.Level, view.ChallengeAge = v.session.ID.Level.String(), v.session.ID.ChallengeAge
	view.Now, view.ExpiresAt = v.now, v.session.ID.Expires()
	view.SiteOrigin, _ = weburl.Site(string(v.claims.Callback))
	// After a success, an error would contradict the client's result.
	if v.session.OpenID && v.record.State != session.Completed && view.Kind != pages.Elsewhere {
		view.BackURL = openid.Denied(v.BaseURL, &v.claims)
	}
	view.Publisher = v.publisher
	view.Sandbox = view.Sandbox || v.onlySandbox()
	view.Dev = v.Dev
	view.OnPhone = v.phone != nil
	return page{status: status, view: view, reload: v.reload(&view)}
}

// damaged returns the page for a form that this service has not created.
func (v *visit) damaged() page { return v.page(400, pages.View{Kind: pages.Damaged}) }

// seeOther sends the browser to another page of this service.
func (v *visit) seeOther(location string) page { return page{to: location} }

// unavailable returns the page for an internal error or one of the store. The user may try again.
func (v *visit) unavailable(err error) page {
	level := slog.LevelError
	if kv.Failed(err) {
		level = slog.LevelDebug
	}
	v.Log.LogAttrs(v.ctx, level, "hosted page unavailable",
		slog.String("session", v.session.Text), slog.String("error", err.Error()))
	return v.page(503, pages.View{Kind: pages.Unavailable, RetryURL: v.url()})
}

// awaited returns the page for a link that another instance has sealed with a key that this one has not read
// yet. The link may be valid, and then it works in a moment.
func (h *Hosted) awaited(req *web.Request, flow string) page {
	h.Log.LogAttrs(context.Background(), slog.LevelWarn, "hosted page waits for a key of the ring")
	return page{status: 503, view: pages.View{Kind: pages.Unavailable, Lang: languageOf(req),
		RetryURL: web.HostedPath + "?flow=" + url.QueryEscape(flow)}}
}

// plain returns a page for a visitor without a valid flow token.
func plain(status int, kind pages.Kind, req *web.Request) page {
	return page{status: status, view: pages.View{Kind: kind, Lang: languageOf(req)}}
}

// lateFor is how long after the end of a session a browser loads an open page again. The response to a form
// that was sent in time arrives earlier, so the browser does not drop it.
const lateFor = 15 * time.Second

// reload returns the seconds after which a browser loads the page again, since the session is over, or its
// result if the page waits for a user who may create a passkey. It returns "" for other pages, and for those
// that load themselves anyway. A response to a form has no address that can be loaded.
func (v *visit) reload(view *pages.View) string {
	end := v.session.ID.Expires()
	switch {
	case v.req.Method == "POST" || view.AgainURL != "":
		return ""
	case view.Kind == pages.Completed && view.Passkey != nil:
		end = v.record.At.Add(token.ResultLife)
	case !view.ShowsTime():
		return ""
	}
	return strconv.Itoa(int((end.Sub(v.now) + lateFor) / time.Second))
}

// respond renders a page of this service.
func (h *Hosted) respond(p page) *web.Response {
	p.view.Service = h.Service
	return p.response()
}

// response renders the page.
func (p page) response() *web.Response {
	var resp *web.Response
	if p.to != "" {
		resp = &web.Response{Status: 303, Header: router.PageHeader("")}
		resp.Header.Set("Location", p.to)
	} else {
		resp = render(p.status, p.view)
	}
	if p.status == 503 {
		resp.Header.Set("Retry-After", "2")
	}
	if p.reload != "" {
		resp.Header.Set("Refresh", p.reload)
	}
	if len(p.cookies) > 0 {
		resp.Header["Set-Cookie"] = p.cookies
	}
	return resp
}

func render(status int, view pages.View) *web.Response {
	body, err := pages.Render(view)
	if err != nil {
		panic(err) // our own View
	}
	script := ""
	if view.Camera || view.Credential != nil || view.Passkey != nil || view.AgainURL != "" {
		script = "script-src 'self'; "
	}
	if view.AgainURL != "" {
		script += "connect-src 'self'; "
	}
	header := router.PageHeader(script)
	if view.Camera {
		header.Set("Permissions-Policy", "camera=(self), microphone=(), geolocation=(), payment=()")
	}
	if view.Credential != nil {
		header.Set("Permissions-Policy",
			"camera=(), microphone=(), geolocation=(), payment=(), digital-credentials-get=(self)")
	}
	if view.Passkey != nil {
		header.Set("Permissions-Policy", header.Get("Permissions-Policy")+
			", publickey-credentials-get=(self), publickey-credentials-create=(self)")
	}
	// The browser leaves our site only by the hop (contract 22): a page that continues to the address
	// automatically and also has it as a link. A redirect after the POST is no alternative: form-action would
	// have to allow it, and each further redirect of the publisher as well. The page sends no referrer, since
	// its own address contains the flow token.
	if view.HopURL != "" {
		header.Set("Referrer-Policy", "no-referrer")
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Language", view.Lang)
	return &web.Response{Status: status, Header: header, Body: body}
}

var assets = []pages.Asset{pages.Style(), pages.Icon(), pages.CameraScript(), pages.CredentialScript(),
	pages.PasskeyScript(), pages.WaitScript()}

// HasAsset reports whether pages load a file from this path.
func HasAsset(path string) bool {
	_, ok := findAsset(path)
	return ok
}

func findAsset(path string) (pages.Asset, bool) {
	for _, a := range assets {
		if path == a.Path {
			return a, true
		}
	}
	return pages.FindAccent(path)
}

// Asset handles GET on a file that pages load; nil if there is no such file.
func Asset(path string) *web.Response {
	a, ok := findAsset(path)
	if !ok {
		return nil
	}
	return &web.Response{Status: 200, Body: a.Body, Header: web.Header{
		"Content-Type":           {a.ContentType},
		"Etag":                   {a.ETag},
		"Cache-Control":          {a.CacheControl},
		"X-Content-Type-Options": {"nosniff"},
	}}
}
