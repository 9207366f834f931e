package hosted

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/url"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/language"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// A cross-device hand-off lets a phone do a step that this device cannot do without a camera or a wallet
// (contract 40). It is a pending response: this browser waits on a page that shows the link. The phone does
// the step and stores the verdict in the hand-off. This browser collects it, so the session completes here,
// and the attempt counts here. A rejection counts even if this browser never collects it: the next request
// with the flow token applies it (settle). So users cannot save attempts by leaving the page.
//
// The phone has no flow token, so it never gets a result. It gets the pages of the method, and their forms
// carry the hand-off's handle instead of a flow token.
//
// Anyone with the link can see its page. The first device that takes the hand-off by a form owns it: a
// cookie of that device contains a random text, whose hash the hand-off stores. Every later request needs the
// cookie.

// phonePrefix precedes the handle where other pages have a flow token.
const phonePrefix = "svc_ph_"

// broughtMark follows the handle in the name of a cookie of the phone that has brought its verdict. The
// computer may collect the verdict before the phone loads its next page, which then still says that the phone
// is done. The value is the session's language.
const (
	broughtMark    = ".brought"
	broughtSeconds = 60
)

// offersHandOff reports whether a page offers to do its step on a phone.
func (v *visit) offersHandOff(m method.Opened, shows method.View) bool {
	return v.phone == nil && isBound(m) && shows.Camera && !shows.Here
}

// handOff handles the form that requests a hand-off.
func (v *visit) handOff(form url.Values) page {
	m, s, rejected := v.formStep(form)
	if rejected != nil {
		return *rejected
	}
	shows := v.shows(m, s)
	if v.phone != nil || shows.Here || !m.Receives() && !v.offersHandOff(m, shows) {
		return v.seeOther(v.againURL(m, shownOutdated))
	}
	s.Method, s.State, s.Issued = m.Name, nil, token.At(v.now)
	return v.waitFor(s, v.waitURL(m, form.Get(stepParam)), func() (token.Pending, error) {
		site, _ := weburl.Site(string(v.claims.Callback))
		return v.Lifecycle.OpenHandOff(v.ctx, v.session, token.PendingClaims{Method: m.Name,
			Attempt: s.Attempt, Site: site, Language: v.claims.Language})
	})
}

// openPhone opens the visit of the phone that has a hand-off. Every other visitor gets a page instead.
func (h *Hosted) openPhone(ctx context.Context, req *web.Request, handle string) (*visit, *page) {
	v, rejected := h.lookAt(ctx, req, handle)
	lang, brought := h.cookiesOf(req)[handle+broughtMark]
	switch {
	case rejected != nil && rejected.status == 410 && brought:
		return nil, reject(h.brought(plain(200, pages.PhoneDone, req), handle, lang))
	case rejected != nil:
		return nil, rejected
	case v.phone.Device == "":
		return nil, reject(v.introduction())
	case !v.hasTaken():
		return nil, reject(v.page(409, pages.View{Kind: pages.PhoneTaken}))
	case v.phone.Done:
		return nil, reject(h.brought(v.page(200, pages.View{Kind: pages.PhoneDone}), handle, lang))
	}
	return v, nil
}

// brought is the page of the phone that has brought its verdict. It deletes the mark of bring, so the link
// returns the current state afterwards.
func (h *Hosted) brought(p page, handle, lang string) page {
	if language.Known(lang) { // the cookie is not sealed
		p.view.Lang = lang
		p.cookies = []string{h.cookie(handle+broughtMark, "", 0)}
	}
	return p
}

// lookAt returns the visit of a device with the link of a hand-off that its session still waits for.
func (h *Hosted) lookAt(ctx context.Context, req *web.Request, handle string) (*visit, *page) {
	over := plain(410, pages.PhoneOver, req)
	parsed, ok := session.ParsePendingHandle(handle)
	if !ok || int(parsed.Partition) >= h.Partitions {
		return nil, &over
	}
	v := &visit{Hosted: h, ctx: ctx, req: req, now: h.Now(), flow: phonePrefix + handle,
		lang: languageOf(req)}
	p, err := h.Lifecycle.Pending(ctx, token.Pending{HandOff: handle})
	v.phone = &p
	v.phone.HandOff = handle
	if err == nil {
		v.session.ID, err = session.ParseID(h.Sealer, p.Session)
		if err != nil && !errors.Is(err, host.ErrKeyAwaited) {
			return nil, &over
		}
	}
	if err == nil {
		v.session.Text, v.lang = p.Session, cmp.Or(p.Language, v.lang)
		v.claims = token.FlowClaims{Session: p.Session, Callback: []byte(p.Site), Language: p.Language}
		err = v.loadIntegration()
	}
	if err == nil {
		err = v.load()
	}
	switch {
	case errors.Is(err, lifecycle.ErrNoPending), errors.Is(err, integration.ErrNotFound):
		return nil, &over
	case err != nil:
		return nil, reject(v.unavailable(err))
	case v.record.Terminal() || v.record.HandOff != handle || v.record.Attempts != p.Attempt ||
		len(v.offers) == 0 || v.isHere(v.offers[0]):
		return nil, &over
	}
	return v, nil
}

// hasTaken reports whether this is the device that has the hand-off.
func (v *visit) hasTaken() bool {
	secret := v.cookiesOf(v.req)[v.phone.HandOff]
	return secret != "" && session.Proof(secret) == v.phone.Device
}

// introduction returns the page with the site for which the phone would do the step. Its form has a new
// random text each time, so a form that is posted twice takes the hand-off once.
func (v *visit) introduction() page {
	device, err := method.NewHandle(v.Random)
	if err != nil {
		return v.unavailable(err)
	}
	return v.page(200, pages.View{Kind: pages.Phone, Number: v.phone.Number,
		Choices: []string{"begin"},
		Extra:   []pages.Field{{Name: deviceParam, Value: device}}})
}

// take handles the form of a device that takes a hand-off.
func (h *Hosted) take(ctx context.Context, req *web.Request, handle, device string) page {
	v, rejected := h.lookAt(ctx, req, handle)
	if rejected != nil {
		return *rejected
	}
	if _, err := base64.RawURLEncoding.DecodeString(device); err != nil || len(device) != handleLength {
		return v.damaged()
	}
	_, err := v.Lifecycle.Take(ctx, *v.phone, session.Proof(device), token.At(v.session.ID.Expires()))
	p := v.seeOther(v.url()) // the page of the current state, if another device was first
	switch {
	case errors.Is(err, lifecycle.ErrHandOffTaken), errors.Is(err, lifecycle.ErrNoPending):
		return p
	case err != nil:
		return v.unavailable(err)
	}
	p.cookies = []string{v.cookie(handle, device, v.secondsLeft())}
	return p
}

// bring stores the phone's decision for the browser that waits. A user who cancels on the phone may continue
// there.
func (v *visit) bring(m method.Opened, d method.Decision) page {
	if d.Verdict == method.Cancelled {
		v.stepEnded(entryOf(m.Name, d), nil)
		return v.seeOther(v.url(shownParam, shownCancelled))
	}
	err := v.Lifecycle.Bring(v.ctx, *v.phone, d, token.At(v.session.ID.Expires()))
	p := v.seeOther(v.url())
	switch {
	case errors.Is(err, lifecycle.ErrNoPending):
		return p
	case err != nil:
		return v.unavailable(err)
	}
	p.cookies = []string{v.cookie(v.phone.HandOff+broughtMark, v.lang, broughtSeconds)}
	return p
}
