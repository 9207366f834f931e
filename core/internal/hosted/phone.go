package hosted

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// The phone of a hand-off (contract 40) has no flow token, so it never gets a result. Its pages are those of
// the method, and their forms carry the hand-off's handle in place of a flow token.
//
// Whoever has the link may look. The first who takes the hand-off by a form has it: a cookie of that device
// holds a random text, whose hash the hand-off keeps. Every later request needs the cookie.

// phonePrefix is before the handle where other pages have a flow token.
const phonePrefix = "svc_ph_"

// ShowPhone answers GET on the link of a hand-off.
func (h *Hosted) ShowPhone(ctx context.Context, c *web.Call) *web.Response {
	req := c.Request
	query, err := web.ReadParameters(req.Query, linkParams...)
	if err != nil {
		return h.plain(400, pages.Damaged, req)
	}
	v, refused := h.openPhone(ctx, req, c.Text)
	if refused != nil {
		return refused
	}
	r, err := v.record()
	if err != nil {
		return v.unavailable(err)
	}
	return v.show(r, query)
}

// openPhone opens the visit of the phone that has a hand-off. Every other visitor gets a page in its place.
func (h *Hosted) openPhone(ctx context.Context, req *web.Request, handle string) (*visit, *web.Response) {
	v, refused := h.lookAt(ctx, req, handle)
	if refused != nil {
		return nil, refused
	}
	switch mine := v.hasTaken(); {
	case v.phone.Device == "":
		return nil, v.introduction()
	case !mine:
		return nil, v.page(409, pages.View{Kind: pages.PhoneTaken})
	case v.phone.Done:
		return nil, v.page(200, pages.View{Kind: pages.PhoneDone})
	}
	return v, nil
}

// lookAt returns the visit of somebody who has the link of a hand-off that its session still waits for.
func (h *Hosted) lookAt(ctx context.Context, req *web.Request, handle string) (*visit, *web.Response) {
	over := func() (*visit, *web.Response) { return nil, h.plain(410, pages.PhoneOver, req) }
	parsed, ok := session.ParseBoxHandle(handle)
	if !ok || int(parsed.Partition) >= h.Partitions {
		return over()
	}
	v := &visit{Hosted: h, ctx: ctx, req: req, now: h.Now(), flow: phonePrefix + handle,
		lang: languageOf(req)}
	hand, err := h.Lifecycle.Hand(ctx, handle)
	v.phone = &hand
	v.phone.Handle = handle
	if errors.Is(err, lifecycle.ErrNoHand) {
		return over()
	}
	if err != nil {
		return nil, v.unavailable(err)
	}
	id, err := session.ParseID(h.Sealer, hand.Session)
	if errors.Is(err, host.ErrKeyAwaited) {
		return nil, v.unavailable(err)
	}
	if err != nil {
		return over()
	}
	v.session = lifecycle.Session{ID: id, Text: hand.Session}
	v.claims = token.FlowClaims{Session: hand.Session, Callback: []byte(hand.Site), Language: hand.Language}
	if hand.Language != "" {
		v.lang = hand.Language
	}
	v.session.Integration, err = h.Directory.Integration(ctx, id.Integration)
	if errors.Is(err, integration.ErrNotFound) {
		return over()
	}
	if err != nil {
		return nil, v.unavailable(err)
	}
	h.tell(ctx, v.session)
	r, err := v.record()
	if err != nil {
		return nil, v.unavailable(err)
	}
	v.findOffers()
	if r.Terminal() || r.Hand != handle || r.Attempts != hand.Attempt || len(v.offers) == 0 ||
		v.isHere(v.offers[0], r) {
		return over()
	}
	return v, nil
}

// hasTaken reports whether this is the device that has the hand-off.
func (v *visit) hasTaken() bool {
	secret := v.cookiesOf(v.req)[v.phone.Handle]
	return secret != "" && session.Proof(secret) == v.phone.Device
}

// introduction returns the page that says for whom the phone would do the step. Its form has a new random
// text each time, so a form that is posted twice takes the hand-off once.
func (v *visit) introduction() *web.Response {
	device, err := method.NewHandle(v.Random)
	if err != nil {
		return v.unavailable(err)
	}
	return v.page(200, pages.View{Kind: pages.Phone, Number: v.phone.Number,
		Choices: []pages.Choice{{Outcome: "begin"}},
		Extra:   []pages.Field{{Name: deviceParam, Value: device}}})
}

// take answers the form by which a device takes a hand-off.
func (h *Hosted) take(ctx context.Context, req *web.Request, handle, device string) *web.Response {
	v, refused := h.lookAt(ctx, req, handle)
	if refused != nil {
		return refused
	}
	if _, err := base64.RawURLEncoding.DecodeString(device); err != nil || len(device) != handleLength {
		return v.page(400, pages.View{Kind: pages.Damaged})
	}
	_, err := v.Lifecycle.TakeHand(ctx, *v.phone, session.Proof(device), token.At(v.session.ID.Expires()))
	resp := v.seeOther(v.url()) // which says what holds if another device was first
	switch {
	case errors.Is(err, lifecycle.ErrHandTaken), errors.Is(err, lifecycle.ErrNoHand):
		return resp
	case err != nil:
		return v.unavailable(err)
	}
	resp.Header["Set-Cookie"] = []string{v.cookie(handle, device, v.secondsLeft())}
	return resp
}

// bring keeps what the phone has found for the browser that waits. A user who cancels on the phone decides
// nothing, and may go on there.
func (v *visit) bring(d method.Decision) *web.Response {
	if d.Verdict == method.Cancelled {
		return v.seeOther(v.url(shownParam, shownCancelled))
	}
	err := v.Lifecycle.EndHand(v.ctx, *v.phone, d, token.At(v.session.ID.Expires()))
	if err != nil && !errors.Is(err, lifecycle.ErrNoHand) {
		return v.unavailable(err)
	}
	return v.seeOther(v.url())
}
