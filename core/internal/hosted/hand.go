package hosted

import (
	"errors"
	"net/url"

	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// A hand-off has a phone do a step that this device cannot, for want of a camera or a wallet (contract 40).
// This browser has an errand with the hand-off's handle, and waits on a page that shows the link and loads
// itself again. The phone does the step and keeps the verdict in the hand-off. This browser comes for it and
// applies it, so the session completes here, and the attempt counts here.
//
// A no counts even if this browser never comes for it: the next request with the flow token applies it. So
// nobody gets attempts for nothing by leaving the page.

// goesToPhone reports whether a page offers to do its step on a phone.
func (v *visit) goesToPhone(m method.Opened, shows method.View) bool {
	return v.phone == nil && isBound(m) && shows.Camera && !shows.Here
}

// isHere reports whether no phone may do the step of a method. The operator can change that at any time.
func (v *visit) isHere(m method.Opened, r session.Record) bool { return m.Show(v.told(m, r), nil).Here }

// handOff answers the form that asks for a hand-off.
func (v *visit) handOff(r session.Record, form url.Values) *web.Response {
	m, s, refused := v.formStep(r, form)
	if refused != nil {
		return refused
	}
	shows := m.Show(v.told(m, r), s.State)
	if v.phone != nil || shows.Here || !m.Answers() && !v.goesToPhone(m, shows) {
		return v.page(400, pages.View{Kind: pages.Damaged})
	}
	var err error
	if s.Handle, err = method.NewHandle(v.Random); err != nil {
		return v.unavailable(err)
	}
	site, _ := weburl.Site(string(v.claims.Callback))
	s.Method, s.State, s.Issued = m.Name, nil, token.At(v.now)
	s.Hand, err = v.Lifecycle.OpenHand(v.ctx, v.session, token.HandClaims{Method: m.Name, Attempt: s.Attempt,
		Site: site, Language: v.claims.Language})
	switch {
	case errors.Is(err, lifecycle.ErrAsked):
		return v.seeOther(v.waitURL(m, form.Get(stepParam)))
	case errors.Is(err, lifecycle.ErrMovedOn):
		return v.seeOther(v.url())
	case err != nil:
		return v.unavailable(err)
	}
	return v.sendErrand(s)
}

// waitForPhone returns the page that waits for a phone. If the phone is done, its verdict is applied.
func (v *visit) waitForPhone(m method.Opened, s token.ProviderClaims, r session.Record) *web.Response {
	hand, err := v.Lifecycle.Hand(v.ctx, s.Hand)
	switch {
	case v.outdated:
		return v.seeOther(v.againURL(m, shownOutdated))
	case errors.Is(err, lifecycle.ErrNoHand), err == nil && !isHandOf(hand, s, r), v.isHere(m, r):
		return v.seeOther(v.methodURL(m)) // another hand-off has replaced it, or none is allowed any longer
	case err != nil:
		return v.unavailable(err)
	case hand.Done && v.acts():
		return v.decided(m, s, "", hand.Outcome())
	}
	view := pages.View{Kind: pages.PhoneWait, Number: hand.Number, Taken: hand.Device != "",
		AgainURL: v.url(errandParam, s.Handle), AgainAfter: usualPoll, RetryURL: v.methodURL(m)}
	if !view.Taken {
		view.Code = v.BaseURL + web.PhonePath + hand.Handle
	}
	return v.page(200, view)
}

// isHandOf reports whether a hand-off is the one of an errand, and still the one of its attempt.
func isHandOf(h lifecycle.Hand, s token.ProviderClaims, r session.Record) bool {
	return h.Session == s.Session && h.Method == s.Method && h.Attempt == s.Attempt && r.Hand == h.Handle &&
		h.Attempt == r.Attempts
}

// settle applies a no that a phone has brought, and returns the record that holds then. A yes belongs to the
// browser that waits for it. An outdated verdict ends the hand-off (contract 34).
func (v *visit) settle(r session.Record) (session.Record, error) {
	hand, err := v.Lifecycle.Hand(v.ctx, r.Hand)
	if errors.Is(err, lifecycle.ErrNoHand) {
		return r, nil
	}
	if err != nil || r.Terminal() || !hand.Done || hand.Attempt != r.Attempts {
		return r, err
	}
	if err := v.refresh(); err != nil {
		return r, err
	}
	d := hand.Outcome()
	if m, ok := v.offered(hand.Method); !ok || !m.Holds(v.told(m, r), d) || v.isHere(m, r) {
		v.outdated = true
		v.stepEnded(whyFailed(hand.Method, method.ErrOutdated), method.ErrOutdated)
		return v.Lifecycle.Discard(v.ctx, v.session, hand.Handle)
	}
	if d.Verdict == method.Approved {
		return r, nil
	}
	v.brought = d.Reason
	step := lifecycle.Step{Trigger: triggers[d.Verdict], Attempt: hand.Attempt, What: whatOf(hand.Method, d)}
	if _, err := v.Lifecycle.Fire(v.ctx, v.session, step); err != nil {
		return r, err
	}
	r, v.version, err = v.Lifecycle.Load(v.ctx, v.session.ID)
	return r.As(v.now, v.session.ID.Expires()), err
}
