package hosted

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/steperror"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
)

// choose handles the form with the method that the user has chosen. A method that cannot begin counts no
// attempt (contract 33).
func (v *visit) choose(name string) page {
	m, ok := v.offered(name)
	if !ok {
		return v.seeOther(v.url(shownParam, shownOutdated))
	}
	if err := m.Begin(v.ctx, v.sessionFor(m)); err != nil {
		step := lifecycle.WhyFailed(m.Name, err)
		step.Result = metric.MethodUnavailable
		v.stepEnded(step, err)
		return v.seeOther(v.url(shownParam, shownUnavailable, methodParam, name))
	}
	return v.seeOther(v.url(methodParam, name))
}

// submit lets the method decide about a form, and commits the decision.
func (v *visit) submit(form url.Values, file []byte) page {
	m, s, rejected := v.formStep(form)
	if rejected != nil {
		return *rejected
	}
	text := form.Get(stepParam)
	if file != nil && !v.shows(m, s).Camera {
		return v.seeOther(v.againURL(m, shownOutdated))
	}
	defer v.giveBack()
	d, err := v.ask(m, s, method.Step{Form: form, File: file, State: s.State})
	var wrong *steperror.File
	switch {
	case err == nil:
		return v.commit(m, s, text, d)
	case errors.Is(err, lifecycle.ErrAsked), errors.Is(err, lifecycle.ErrRepeated):
		return v.seeOther(v.waitURL(m, text))
	case errors.Is(err, lifecycle.ErrMovedOn):
		return v.seeOther(v.url(stepParam, text))
	case errors.As(err, &wrong):
		return v.stepPage(s, text, pages.Notice{BadFile: string(wrong.Rule)}).with(400)
	case isOtherKind(err):
		return v.seeOther(v.againURL(m, shownOutdated))
	case errors.Is(err, method.ErrStep):
		return v.damaged()
	case kv.Failed(err):
		return v.unavailable(err)
	}
	v.failed(m, err)
	if errors.Is(err, method.ErrOutdated) {
		return v.seeOther(v.againURL(m, shownOutdated))
	}
	return v.addressed(s, text, pages.Notice{Trouble: true}).with(503)
}

// returned lets the method decide about a browser that has returned, or that collects a response, and
// commits the decision. address is the request's own: during another request of the attempt, the browser
// waits and then loads it again.
func (v *visit) returned(m method.Opened, s token.StepClaims, step method.Step, address string) page {
	if step.Response != nil {
		if err := v.refresh(); err != nil {
			return v.unavailable(err)
		}
	}
	defer v.giveBack()
	d, err := method.Decision{}, errGone
	if _, ok := v.offered(m.Name); ok {
		d, err = v.ask(m, s, step)
	}
	switch {
	case err == nil:
		return v.commit(m, s, "", d)
	case errors.Is(err, lifecycle.ErrAsked): // by another load of this address, or by another tab
		return v.wait(m.Kind, address)
	case errors.Is(err, lifecycle.ErrMovedOn):
		return v.seeOther(v.url())
	case errors.Is(err, lifecycle.ErrInterrupted):
		v.interrupted(m)
		return v.seeOther(v.againURL(m, shownTrouble))
	case errors.Is(err, lifecycle.ErrRepeated): // the first request had no result
		return v.seeOther(v.againURL(m, shownTrouble))
	case kv.Failed(err):
		return v.unavailable(err)
	}
	if isOtherKind(err) {
		err = errKind
	}
	v.failed(m, err)
	switch {
	case errors.Is(err, method.ErrStep): // the return belongs to another request
		return v.damaged()
	case !errors.Is(err, method.ErrOutdated):
		return v.seeOther(v.againURL(m, shownTrouble))
	}
	return v.discard(s, v.againURL(m, shownOutdated))
}

// isOtherKind reports whether a method has no such step at all. It was of another kind when the page was
// shown or the user left, or the form is forged. The user begins again (contract 34).
func isOtherKind(err error) bool { return errors.Is(err, method.ErrStep) && method.ReasonOf(err) == "" }

// discard ends a pending response whose verdict no longer counts (contract 34).
func (v *visit) discard(s token.StepClaims, to string) page {
	if _, err := v.Lifecycle.Discard(v.ctx, v.session, s.Pending); err != nil {
		return v.unavailable(err)
	}
	return v.seeOther(to)
}

// commit carries out a decision about a step. text is the step as the browser has it, or "" if it has it in a
// cookie.
func (v *visit) commit(m method.Opened, s token.StepClaims, text string, d method.Decision) page {
	if len(d.State) > method.MaxState {
		return v.unavailable(errors.New("hosted: " + m.Name + " gave a state that is too long"))
	}
	switch e := v.decide(m, s, d); {
	case e.leave:
		v.logBegun(m)
		return v.leave(e.step)
	case e.await:
		v.logBegun(m)
		return v.await(m, e.step)
	case e.stay:
		return v.stay(e.step)
	case e.bring:
		return v.bring(m, d)
	default:
		return v.fire(m, *e.fire, text, d.Reason)
	}
}

// fire ends an attempt, or notes that the user has cancelled it.
func (v *visit) fire(m method.Opened, step lifecycle.Step, text string, why method.Reason) page {
	cancelled := step.Trigger == session.Cancelled
	if cancelled {
		v.stepEnded(step.Entry, nil)
	}
	r, err := v.Lifecycle.Fire(v.ctx, v.session, step)
	if err != nil {
		return v.unavailable(err)
	}
	v.record = r
	if r.AskedUntil.IsZero() {
		v.claim = ""
	}
	switch {
	case r.Terminal():
		return v.seeOther(v.endURL(text))
	case cancelled:
		return v.seeOther(v.url(shownParam, shownCancelled))
	}
	return v.seeOther(v.failedURL(m, why))
}

// stay sends the browser to the page of the next step.
func (v *visit) stay(s token.StepClaims) page {
	text, err := v.sealStep(s)
	if err != nil {
		return v.unavailable(err)
	}
	return v.seeOther(v.url(stepParam, text))
}

// leave sends the browser to another site, by the hop page.
func (v *visit) leave(s token.StepClaims) page {
	if len(s.Handle) != handleLength || !weburl.IsLeave(s.Leave, v.Dev) {
		return v.unavailable(errors.New("hosted: " + s.Method + " sends the browser to a bad address"))
	}
	return v.keepRequest(s)
}

// await opens a pending response for a step, and sends the browser to the page that waits.
func (v *visit) await(m method.Opened, s token.StepClaims) page {
	if !m.Receives() {
		return v.unavailable(errors.New("hosted: " + m.Name + " awaits a response and does not receive any"))
	}
	return v.waitFor(s, v.url(), func() (token.Pending, error) {
		return v.Lifecycle.OpenResponse(v.ctx, v.session, token.PendingClaims{Method: m.Name,
			Attempt: s.Attempt, State: s.State})
	})
}

// waitFor opens a pending response, and gives the browser the cookie of the step that waits for it. asked is
// the address for a browser with another request in progress.
func (v *visit) waitFor(s token.StepClaims, asked string, open func() (token.Pending, error)) page {
	var err error
	if s.Handle, err = method.NewHandle(v.Random); err != nil {
		return v.unavailable(err)
	}
	s.Pending, err = open()
	switch {
	case errors.Is(err, lifecycle.ErrAsked):
		return v.seeOther(asked)
	case errors.Is(err, lifecycle.ErrMovedOn):
		return v.seeOther(v.url())
	case err != nil:
		return v.unavailable(err)
	}
	return v.keepRequest(s)
}

// A request that a form sends once, such as a photo or a pushed request, needs a claim of the attempt first
// (contract 37). A form that is posted several times at the same time finds the claim of the first post. Its
// browser then waits on a page that updates automatically, until it can show the result of the first post. A
// form that has asked does not ask again: its user gets a new one.

// claimLife is the life of a claim whose holder crashed: the time of a step, and a margin for the store
// and for differing clocks.
const claimLife = method.StepTime + 8*time.Second

// ask lets the method decide. The error is from Method.Act or Lifecycle.Claim. The caller defers giveBack.
func (v *visit) ask(m method.Opened, s token.StepClaims, step method.Step) (method.Decision, error) {
	asking := lifecycle.Asking{Attempt: v.record.Attempts, Picture: step.File != nil}
	if s.Handle != "" {
		asking.Form = session.Proof(s.Handle)
	}
	return m.Act(v.ctx, v.sessionFor(m), step, func(ctx context.Context) (err error) {
		v.claim, err = v.Lifecycle.Claim(ctx, v.session, asking, claimLife)
		return err
	})
}

// giveBack ends a claim after which the attempt is not decided. If the store fails, the claim ends by its
// time.
func (v *visit) giveBack() {
	if v.claim == "" {
		return
	}
	if err := v.Lifecycle.GiveBack(v.ctx, v.session, v.claim); err != nil {
		v.Log.LogAttrs(v.ctx, slog.LevelDebug, "claim of an attempt not given back",
			slog.String("session", v.session.Text), slog.String("error", err.Error()))
	}
}

// failed logs and stores that a method could not decide. Neither contains the user's input or a provider's
// response.
func (v *visit) failed(m method.Opened, err error) {
	step := lifecycle.WhyFailed(m.Name, err)
	if errors.Is(err, method.ErrStep) { // of no step, so nothing to keep
		v.Lifecycle.LogStep(v.ctx, v.session, step, err)
		return
	}
	v.stepEnded(step, err)
}

// interrupted logs and stores a step whose instance ended before the provider's response arrived.
func (v *visit) interrupted(m method.Opened) {
	v.stepEnded(session.Step{Method: m.Name, Result: metric.MethodUnavailable, Reason: "interrupted"},
		lifecycle.ErrInterrupted)
}

// stepEnded logs and stores a step that does not end the session, and returns the claim.
func (v *visit) stepEnded(step session.Step, cause error) {
	v.Lifecycle.Ended(v.ctx, v.session, v.claim, step, cause)
	v.claim = ""
}

// These errors name the setting whose change ended a step (contract 34).
var (
	errGone error = &method.SettingError{Setting: "methods", Err: method.ErrOutdated} // no longer offered
	errKind error = &method.SettingError{Setting: "kind", Err: method.ErrOutdated}
	errHere error = &method.SettingError{Setting: "cross_device", Err: method.ErrOutdated} // no phone
)

// gone ends a step whose method the integration no longer offers (contract 34), and asks the user to begin
// again.
func (v *visit) gone(name string) page {
	v.stepEnded(lifecycle.WhyFailed(name, errGone), errGone)
	return v.seeOther(v.url(shownParam, shownOutdated))
}

// logBegun logs that the user leaves for a provider or a wallet. If they do not return, the log contains
// their destination.
func (v *visit) logBegun(m method.Opened) {
	v.Lifecycle.LogStep(v.ctx, v.session, session.Step{Method: m.Name, Result: metric.MethodLeft}, nil)
}
