package hosted

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// Passkeys of users (contract 38). The user creates a passkey after a success, and uses it the next time
// instead of a method. It is not a method of package method: it has records in the store, which methods
// cannot read, and its page is a button on other pages.
//
// A challenge is 32 random bytes in a step, so it belongs to one session, attempt and browser. The method of
// the step names its purpose: these names are not valid for a configured method.
const (
	toUse    = passkey.Name             // a step that a passkey completes
	toEnrol  = passkey.Name + "/enrol"  // a passkey is created from the proof of a session
	toLook   = passkey.Name + "/look"   // the page about a passkey's data, outside of any session
	toDelete = passkey.Name + "/delete" // the record that State names
)

// Parameters of forms with a passkey.
const (
	enrolParam      = "enrol"      // the step that creates a passkey
	credentialParam = "credential" // the response of the browser's passkeys
	shownPasskey    = "passkey"    // for GET: a passkey was not accepted, for the reason in reasonParam
)

// badResponse is the reason for an invalid response. It supplements the reasons of package passkey.
const badResponse passkey.Reason = "answer"

// allowsPasskeys reports whether passkeys count in this session on this device. On a phone they do not: a
// phone brings its verdict to the browser that waits, and a passkey would complete the session on the phone
// (contract 40).
func (v *visit) allowsPasskeys() bool {
	on := v.session.Integration.Passkeys
	return v.Passkeys != nil && v.phone == nil &&
		(on == integration.PasskeysPublisher || on == integration.PasskeysService)
}

// wants returns the requirements of the session for a passkey.
func (v *visit) wants() passkey.Want {
	i := v.session.Integration
	w := passkey.Want{Level: v.session.ID.Level.String(), ChallengeAge: v.session.ID.ChallengeAge,
		MinimumAge: i.Minimum(), Settings: i.MethodSettings}
	for _, m := range v.offers {
		w.Methods = append(w.Methods, m.Name)
	}
	if i.Passkeys == integration.PasskeysPublisher {
		w.Publisher = i.PublisherID
	}
	return w
}

// standing reports whether the trust behind a passkey still holds. A sandbox verifies no user, so outside of
// dev no passkey counts by it.
func (h *Hosted) standing(ctx context.Context, p passkey.Proof) (st passkey.Standing, err error) {
	publisher, err := h.Directory.ReadPublisher(ctx, p.Publisher)
	switch {
	case errors.Is(err, integration.ErrNotFound):
		st.Archived = true
	case err != nil:
		return st, err
	default:
		st.Archived = publisher.Value.Archived != nil
	}
	m := h.Methods[p.Method]
	if h.Dev || !m.Of.Sandbox {
		err = m.Stands(ctx, p.Basis)
		if st.Trusted = err == nil; err != nil && !errors.Is(err, method.ErrOutdated) {
			return st, err
		}
	}
	st.Ended, err = h.Passkeys.Ended(ctx, p.Publisher)
	return st, err
}

// offerPasskey adds to a page the choice to continue with a passkey.
func (v *visit) offerPasskey(view *pages.View) error {
	if !v.allowsPasskeys() {
		return nil
	}
	challenge, err := v.Passkeys.NewChallenge()
	if err != nil {
		return err
	}
	s := token.StepClaims{Attempt: v.record.Attempts, Method: toUse, State: challenge}
	if s.Handle, err = method.NewHandle(v.Random); err != nil {
		return err
	}
	text, err := v.sealStep(s)
	if err != nil {
		return err
	}
	options, err := v.Passkeys.Request(challenge)
	view.Passkey = &pages.Passkey{Options: string(options), Fields: []pages.Field{v.attemptField(),
		{Name: methodParam, Value: passkey.Name}, {Name: stepParam, Value: text}}}
	return err
}

// pageWithPasskey is page, with the choice to continue with a passkey if the integration allows it.
func (v *visit) pageWithPasskey(view pages.View) page {
	if err := v.offerPasskey(&view); err != nil {
		return v.unavailable(err)
	}
	return v.page(200, view)
}

// usePasskey handles the form with a passkey's response. If the passkey is not accepted, no attempt is
// counted, and the page shows the reason.
func (v *visit) usePasskey(form url.Values) page {
	attempt, ok := attemptOf(form)
	text, response := form.Get(stepParam), form.Get(credentialParam)
	if !ok || response == "" {
		return v.damaged()
	}
	s, err := v.openStep(text)
	switch {
	case errors.Is(err, host.ErrKeyAwaited):
		return v.unavailable(err)
	case err != nil || s.Method != toUse || s.Handle == "":
		return v.damaged()
	}
	if err := v.refresh(); err != nil {
		return v.unavailable(err)
	}
	if attempt != v.record.Attempts || s.Attempt != v.record.Attempts || !v.allowsPasskeys() {
		return v.seeOther(v.url())
	}
	record, err := v.Passkeys.Use(v.ctx, s.State, s.Issued.Time(), []byte(response))
	var rejection *webauthn.Rejection
	switch {
	case errors.As(err, &rejection):
		v.tellPasskey(metric.MethodResponseRejected, badResponse, rejection.Reason)
		if errors.Is(err, webauthn.ErrCounter) {
			return v.overtaken(text)
		}
		return v.methodPage(url.Values{shownParam: {shownPasskey}, reasonParam: {string(badResponse)}}).
			with(400)
	case errors.Is(err, passkey.ErrUnknown):
		return v.notAccepted(passkey.Unknown)
	case err != nil:
		return v.unavailable(err)
	}
	st, err := v.standing(v.ctx, record.Proof)
	if err != nil {
		return v.unavailable(err)
	}
	if reason := passkey.Accept(record, v.wants(), st, v.now); reason != "" {
		return v.notAccepted(reason)
	}
	r, err := v.Lifecycle.Fire(
		v.ctx,
		v.session,
		lifecycle.Step{Trigger: session.Succeeded, Attempt: s.Attempt,
			Browser: session.Proof(s.Handle), Proven: verdict.Basis{Method: passkey.Name},
			Entry:     entryOf(passkey.Name, method.Decision{Verdict: method.Approved}),
			Estimated: record.Proof.ChallengeAge},
	)
	if err != nil {
		return v.unavailable(err)
	}
	if !r.Terminal() {
		return v.seeOther(v.url())
	}
	v.record = r
	v.tellPasskey(metric.MethodApproved, "", "")
	return v.seeOther(v.endURL(text))
}

// overtaken handles a form whose passkey was used after the form was created, most likely because the browser
// has sent the same form twice. The form does not count. The browser waits for a moment, in which the first
// form completes the session, and continues to the current page.
func (v *visit) overtaken(step string) page {
	return v.seeOther(v.url(shownParam, shownAsked, stepParam, step))
}

// overtakenURL returns the address of that page. It has the step of the form. If the first form has
// completed the session with this step, the page continues to the callback (hasProven). Otherwise it reports
// that the passkey was not accepted.
func (v *visit) overtakenURL(step string) string {
	return v.url(stepParam, step, shownParam, shownPasskey, reasonParam, string(badResponse))
}

// notAccepted redirects the browser to the page with the reason.
func (v *visit) notAccepted(reason passkey.Reason) page {
	v.tellPasskey(metric.MethodCancelled, reason, "")
	return v.seeOther(v.url(shownParam, shownPasskey, reasonParam, string(reason)))
}

// tellPasskey counts the result of a passkey in the metrics, and logs a rejected one. why is the detail of
// the reason. Neither of them identifies a passkey.
func (v *visit) tellPasskey(event string, reason passkey.Reason, why string) {
	m := host.Measurement{Method: passkey.Name, Event: event}
	if reason != "" {
		m.Reason = "passkey_" + string(reason)
	}
	v.Measure(m)
	if reason != "" {
		v.Log.LogAttrs(v.ctx, slog.LevelWarn, "passkey not accepted", slog.String("session", v.session.Text),
			slog.String("method", passkey.Name), slog.String("reason", cmp.Or(why, string(reason))),
			slog.String("integration", v.session.Integration.ID),
			slog.String("publisher", v.session.Integration.PublisherID))
	}
}

// passkeyNotice returns the reason in an address, or "".
func passkeyNotice(query url.Values) string {
	reason := passkey.Reason(query.Get(reasonParam))
	if query.Get(shownParam) == shownPasskey &&
		(reason == badResponse || slices.Contains(passkey.Reasons, reason)) {
		return string(reason)
	}
	return ""
}

// offerEnrolment adds to the hop page of a completed session the choice to create a passkey. The integration
// must allow it, the session must not have created one, and must not have been completed by a passkey: a
// passkey never creates another one, so that none lives longer than its proof. step is the browser's own.
func (v *visit) offerEnrolment(step string, view *pages.View) error {
	if may, err := v.mayEnrol(); !may || err != nil {
		return err
	}
	if made, err := v.Lifecycle.Enrolled(v.ctx, v.session); made || err != nil {
		return err
	}
	challenge, err := v.Passkeys.NewChallenge()
	if err != nil {
		return err
	}
	text, err := v.sealStep(token.StepClaims{Method: toEnrol, State: challenge})
	if err != nil {
		return err
	}
	options, err := v.Passkeys.Creation(challenge, v.passkeyName())
	if err != nil {
		return err
	}
	fields := []pages.Field{{Name: enrolParam, Value: text}}
	if step != "" {
		fields = append(fields, pages.Field{Name: stepParam, Value: step})
	}
	view.Passkey = &pages.Passkey{Enrol: true, Options: string(options), Fields: fields,
		LookURL: PasskeysPath}
	return nil
}

// mayEnrol reports whether the user may create a passkey from a session's verdict. A passkey that would not
// count is not created.
func (v *visit) mayEnrol() (bool, error) {
	if !v.allowsPasskeys() || v.record.State != session.Completed ||
		v.record.Proven.Fingerprint == "" ||
		!v.now.Before(v.record.At.Add(token.ResultLife)) {
		return false, nil // no verdict was stored, or a passkey has completed the session
	}
	p := v.proof()
	st, err := v.standing(v.ctx, p)
	return err == nil && p.Counts(st), err
}

// proof returns the proof of a passkey that is created from a completed session. Its time is rounded to
// the minute, because the exact time would identify the session to readers of the store.
func (v *visit) proof() passkey.Proof {
	return passkey.Proof{Basis: v.record.Proven, Proven: v.record.At.Truncate(time.Minute),
		Publisher: v.session.Integration.PublisherID}
}

// passkeyName returns the name of a new passkey on the device. If only one publisher accepts it, it contains
// the name of the site, so that the user finds the right one.
func (v *visit) passkeyName() string {
	site := ""
	if v.session.Integration.Passkeys == integration.PasskeysPublisher {
		site = string(v.claims.Callback)
	}
	return pages.PasskeyName(v.lang, site, v.now)
}

// enrol handles the form of a new passkey. Even if it fails, the browser continues to the callback.
func (v *visit) enrol(form url.Values) page {
	step := form.Get(stepParam)
	s, err := v.openStep(form.Get(enrolParam))
	if errors.Is(err, host.ErrKeyAwaited) {
		return v.unavailable(err)
	}
	if err != nil || s.Method != toEnrol || v.record.State != session.Completed {
		return v.damaged()
	}
	proven, err := v.hasProven(step)
	switch {
	case err != nil:
		return v.unavailable(err)
	case !proven:
		return v.page(403, pages.View{Kind: pages.Elsewhere, Confirmed: true})
	}
	if may, err := v.mayEnrol(); err != nil {
		return v.notKept(err)
	} else if !may {
		return v.seeOther(v.endURL(step))
	}
	err = v.keep(s.State, form.Get(credentialParam))
	var rejection *webauthn.Rejection
	switch {
	case err == nil:
		v.tellPasskey(metric.MethodBegun, "", "")
		return v.seeOther(v.endURL(step))
	case errors.As(err, &rejection):
		v.tellPasskey(metric.MethodResponseRejected, badResponse, rejection.Reason)
	case errors.Is(err, lifecycle.ErrEnrolled), errors.Is(err, passkey.ErrKnown):
		v.tellPasskey(metric.MethodResponseRejected, badResponse, "made_before")
	default:
		return v.notKept(err)
	}
	return v.completed(nil).with(400)
}

// notKept handles the form if the service fails. The redirect to the callback does not depend on it.
func (v *visit) notKept(err error) page {
	v.Log.LogAttrs(v.ctx, slog.LevelError, "passkey not kept", slog.String("session", v.session.Text),
		slog.String("error", err.Error()))
	return v.completed(nil)
}

// keep stores a new passkey. One session creates one passkey, so the session is marked first.
func (v *visit) keep(challenge []byte, response string) error {
	made, err := v.Passkeys.Read(challenge, []byte(response))
	if err != nil {
		return err
	}
	// It identifies the form if it is sent twice. The challenge is not stored, so the mark does not
	// identify the passkey.
	mark := sha256.Sum256(append(slices.Clip(challenge), made.ID()...))
	if err := v.Lifecycle.Enrol(v.ctx, v.session, mark[:]); err != nil {
		return err
	}
	return v.Passkeys.Keep(v.ctx, made, v.proof())
}

// lookLife is the life of the forms on the page of a user's own passkey.
const lookLife = 10 * time.Minute

// ShowPasskeys handles GET on the page where users see and delete the stored data of a passkey.
func (h *Hosted) ShowPasskeys(_ context.Context, c *router.Call) *web.Response {
	return h.respond(h.passkeysPage(c.Request, 200, pages.Kept{}))
}

// passkeysPage returns that page before a passkey has responded. kept is the result of the last action.
func (h *Hosted) passkeysPage(req *web.Request, status int, kept pages.Kept) page {
	if h.Passkeys == nil {
		return plain(404, pages.NotFound, req)
	}
	view := pages.View{Kind: pages.Passkeys, Lang: languageOf(req), Action: PasskeysPath, Kept: kept}
	if kept.Deleted {
		return page{status: status, view: view} // there is nothing left to see of it
	}
	challenge, err := h.Passkeys.NewChallenge()
	if err != nil {
		return h.passkeysFailed(req, err)
	}
	options, err := h.Passkeys.Request(challenge)
	if err != nil {
		return h.passkeysFailed(req, err)
	}
	text, err := h.sealOwn(toLook, challenge)
	if err != nil {
		return h.passkeysFailed(req, err)
	}
	view.Passkey = &pages.Passkey{Options: string(options),
		Fields: []pages.Field{{Name: stepParam, Value: text}}}
	return page{status: status, view: view}
}

// sealOwn returns a step that belongs to no session.
func (h *Hosted) sealOwn(to string, state []byte) (string, error) {
	return token.SealStep(h.Sealer, token.StepClaims{Method: to, State: state,
		Issued: token.At(h.Now())})
}

func (h *Hosted) passkeysFailed(req *web.Request, err error) page {
	level := slog.LevelError
	if kv.Failed(err) || errors.Is(err, host.ErrKeyAwaited) {
		level = slog.LevelDebug
	}
	h.Log.LogAttrs(context.Background(), level, "page of passkeys unavailable",
		slog.String("error", err.Error()))
	return plain(503, pages.Unavailable, req)
}

// ActPasskeys handles POST on that page: a passkey has responded, or its record is to be deleted.
func (h *Hosted) ActPasskeys(ctx context.Context, c *router.Call) *web.Response {
	return h.respond(h.actOnPasskeys(ctx, c))
}

func (h *Hosted) actOnPasskeys(ctx context.Context, c *router.Call) page {
	req := c.Request
	switch {
	case h.Passkeys == nil:
		return plain(404, pages.NotFound, req)
	case c.CheckSize() != nil:
		return plain(413, pages.TooLarge, req)
	case web.MediaType(req.Header.Get("Content-Type")) != "application/x-www-form-urlencoded":
		return plain(415, pages.NotAForm, req)
	case !h.sameSite(req):
		return plain(403, pages.NotAllowed, req)
	}
	form, err := formdata.ReadParameters(string(req.Body), formParams...)
	if err != nil {
		return plain(400, pages.Damaged, req)
	}
	s, err := token.OpenStep(h.Sealer, form.Get(stepParam))
	if errors.Is(err, host.ErrKeyAwaited) {
		return h.passkeysFailed(req, err)
	}
	age := h.Now().Sub(s.Issued.Time())
	switch {
	case err != nil || s.Session != "" || s.Method != toLook && s.Method != toDelete:
		return plain(400, pages.Damaged, req)
	case age >= lookLife || age < -host.ClockMargin:
		return h.passkeysPage(req, 400, pages.Kept{Late: true})
	case s.Method == toDelete:
		if err := h.Passkeys.Delete(ctx, string(s.State)); err != nil {
			return h.passkeysFailed(req, err)
		}
		return h.passkeysPage(req, 200, pages.Kept{Deleted: true})
	}
	return h.look(ctx, req, s, form.Get(credentialParam))
}

// look shows the stored data of the passkey that has responded.
func (h *Hosted) look(ctx context.Context, req *web.Request, s token.StepClaims, response string) page {
	r, err := h.Passkeys.Use(ctx, s.State, s.Issued.Time(), []byte(response))
	var rejection *webauthn.Rejection
	switch {
	case errors.As(err, &rejection):
		return h.passkeysPage(req, 400, pages.Kept{Rejected: true})
	case errors.Is(err, passkey.ErrUnknown):
		return h.passkeysPage(req, 200, pages.Kept{Unknown: true})
	case err != nil:
		return h.passkeysFailed(req, err)
	}
	kept := pages.Kept{Level: r.Level, Estimate: r.ChallengeAge > 0, Age: max(r.ChallengeAge, r.MinimumAge),
		Made: r.Made, Until: r.Until}
	p, err := h.Directory.Publisher(ctx, r.Publisher)
	switch {
	case err == nil:
		kept.Publisher = p.Name
	case !errors.Is(err, integration.ErrNotFound):
		return h.passkeysFailed(req, err)
	}
	kept.Publisher = cmp.Or(kept.Publisher, r.Publisher)
	st, err := h.standing(ctx, r.Proof)
	if err != nil {
		return h.passkeysFailed(req, err)
	}
	kept.Blocked = !r.Blocked.IsZero()
	kept.Over = !r.Counts(st, h.Now())
	text, err := h.sealOwn(toDelete, []byte(r.ID()))
	if err != nil {
		return h.passkeysFailed(req, err)
	}
	return page{
		status: 200,
		view: pages.View{Kind: pages.Passkeys, Lang: languageOf(req), Action: PasskeysPath,
			Kept: kept, Extra: []pages.Field{{Name: stepParam, Value: text}}},
	}
}
