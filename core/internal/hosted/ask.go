package hosted

import (
	"context"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// A request that a form sends once, such as a photo or a pushed request, needs a claim of the attempt first
// (contract 37). A form that is posted several times at the same time finds the claim of the first post. Its
// browser then waits on a page that updates automatically, until it can show the result of the first post. A
// form that has asked does not ask again: its user gets a new one.
const (
	// claimLife is how long a claim holds if whoever has it dies: the time of a step, and a margin for the
	// store and for clocks that differ.
	claimLife = method.StepTime + 8*time.Second

	waitInterval = 2 * time.Second // of the page that looks again
)

// ask has the method decide. The error is Method.Act's, or one of Lifecycle.Claim's. The caller defers
// giveBack.
func (v *visit) ask(m method.Opened, r session.Record, s token.StepClaims, step method.Step) (
	method.Decision, error) {
	asking := lifecycle.Asking{Attempt: r.Attempts, Picture: step.File != nil}
	if s.Handle != "" {
		asking.Form = session.Proof(s.Handle)
	}
	return m.Act(v.ctx, v.told(m, r), step, func(ctx context.Context) (err error) {
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

// waitURL is the address of the page that waits for what another request of this browser brings.
func (v *visit) waitURL(m method.Opened, step string) string {
	return v.url(shownParam, shownAsked, stepParam, step, methodParam, m.Name)
}

// wait returns a page that goes on to the address by itself. kind is that of the method that is asked, or "".
func (v *visit) wait(kind, address string) *web.Response {
	return v.page(200, pages.View{Kind: pages.Asked, Words: kind, AgainURL: address,
		AgainAfter: waitInterval})
}
