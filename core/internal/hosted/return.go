package hosted

import (
	"context"
	"errors"
	"net/url"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// MaxReturnURL is the maximum number of bytes of a return's path and query: a code of 8 KiB (contract 36),
// each of whose bytes may be escaped as three, and 2 KiB for everything else.
const MaxReturnURL = 26 << 10

// Return answers GET on the path to which the site of a method sends the browser back (contract 35). It acts,
// although it is a GET, and only in the browser that left: a link scanner or another browser has no cookie.
// It answers with a redirect to the flow, so a reload of what is then shown asks nobody again. If the address
// of the return itself is loaded again, the other side refuses the second use, and the page shows what holds
// now.
func (h *Hosted) Return(ctx context.Context, c *web.Call) *web.Response {
	req, name := c.Request, c.Text
	names := append([]string{"state", codeParam}, h.Methods[name].Of.Returns...)
	query, err := web.ReadParameters(req.Query, names...)
	if err == nil && query.Has(codeParam) {
		return h.returnWithCode(ctx, req, name, query)
	}
	if err != nil || len(query.Get("state")) != handleLength {
		return h.plain(400, pages.Damaged, req)
	}
	s, flow, err := h.errandIn(req, query.Get("state"))
	if errors.Is(err, host.ErrKeyAwaited) {
		return h.awaited(req, flow)
	}
	if err != nil || s.Method != name || s.Leave == "" {
		return h.plain(403, pages.Elsewhere, req)
	}
	v, refused := h.open(ctx, req, flow)
	if refused != nil {
		return refused
	}
	if s.Session != v.session.Text {
		return h.plain(403, pages.Elsewhere, req)
	}
	r, err := v.record()
	if err != nil {
		return v.unavailable(err)
	}
	m, ok := v.offered(name)
	if r.Terminal() {
		v.countLate()
	}
	// Nothing is asked for a return that comes too late, or whose method the operator took away meanwhile.
	if r.Terminal() || s.Attempt != r.Attempts || !ok {
		return v.seeOther(v.url())
	}
	return v.returned(m, s, r, method.Step{Form: query, Back: true, State: s.State}, hereWith(req, query))
}

// hereWith is the address of a return, with the parameters that were read.
func hereWith(req *web.Request, query url.Values) string { return req.Path + "?" + query.Encode() }

// returned asks the method what it means that a browser has come back, or comes for an answer. If another
// request asks just now, the browser waits and then loads the address again.
func (v *visit) returned(m method.Opened, s token.ProviderClaims, r session.Record, step method.Step,
	address string) *web.Response {
	if step.Kept != nil {
		if err := v.refresh(); err != nil {
			return v.unavailable(err)
		}
	}
	defer v.giveBack()
	d, err := method.Decision{}, method.ErrOutdated
	if _, ok := v.offered(m.Name); ok {
		d, err = v.ask(m, r, s, step)
	}
	switch {
	case errors.Is(err, lifecycle.ErrAsked): // by another load of this address, or by another tab
		return v.wait(m.Kind, address)
	case errors.Is(err, lifecycle.ErrMovedOn):
		return v.seeOther(v.url())
	case errors.Is(err, lifecycle.ErrInterrupted):
		v.interrupted(m)
		return v.seeOther(v.againURL(m, shownTrouble))
	case errors.Is(err, lifecycle.ErrRepeated): // it brought nothing the first time
		return v.seeOther(v.againURL(m, shownTrouble))
	case err == nil:
		return v.decided(m, s, "", d)
	case kv.Failed(err):
		return v.unavailable(err)
	case errors.Is(err, method.ErrStep): // it is the return of no errand of this method
		v.failed(m, err)
		return v.page(400, pages.View{Kind: pages.Damaged})
	}
	v.failed(m, err)
	if !errors.Is(err, method.ErrOutdated) {
		return v.seeOther(v.againURL(m, shownTrouble))
	}
	if _, err := v.Lifecycle.Discard(v.ctx, v.session, s.Box); err != nil {
		return v.unavailable(err)
	}
	return v.seeOther(v.againURL(m, shownOutdated))
}

// againURL is the address of a method's page with the reason why the user begins again.
func (v *visit) againURL(m method.Opened, shown string) string {
	params := []string{shownParam, shown}
	if len(v.offers) > 1 {
		params = append(params, methodParam, m.Name)
	}
	return v.url(params...)
}
