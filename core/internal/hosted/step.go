package hosted

import (
	"errors"
	"net/url"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// A step is what a form carries for its method: a provider token, bound to session, method and attempt. The
// form of a real method always has one, with a handle that only the browser with that page knows. The sandbox
// needs none on its first page, unless it is one of several methods.

// isBound reports whether what a method proves belongs to one browser.
func isBound(m method.Opened) bool { return !m.Of.Sandbox }

// stepPage shows the page of a step. text is the step as the browser has it. If it is "" and the form needs a
// step, stepPage seals one.
func (v *visit) stepPage(r session.Record, s token.StepClaims, text string,
	n pages.Notice) *web.Response {
	return v.stepView(r, s, text, n, func(*pages.View, method.View) {})
}

// stepView is stepPage with something more on the page.
func (v *visit) stepView(r session.Record, s token.StepClaims, text string, n pages.Notice,
	more func(*pages.View, method.View)) *web.Response {
	m, ok := v.offered(s.Method)
	if !ok {
		return v.pageWithPasskey(r, 200, pages.View{Kind: pages.Choose, Methods: v.options("", "")})
	}
	if text == "" && (isBound(m) || len(v.offers) > 1) {
		var err error
		if s.Handle, err = v.newHandle(m); err == nil {
			text, err = v.sealStep(s)
		}
		if err != nil {
			return v.unavailable(err)
		}
	}
	shows := m.Show(v.told(m, r), s.State)
	view := pages.View{Kind: pages.Method, Notice: n, Words: m.Kind, Title: m.TitleIn(v.lang),
		MinimumAge: v.session.Integration.Minimum(), Camera: shows.Camera, Here: shows.Here,
		Sandbox: shows.Sandbox, Extra: []pages.Field{attemptField(r)}}
	if shows.Waiting {
		view.Kind = pages.Progress
	}
	for _, c := range shows.Choices {
		view.Choices = append(view.Choices, pages.Choice{Outcome: c})
	}
	if text != "" {
		view.Extra = append(view.Extra, pages.Field{Name: stepParam, Value: text})
	}
	if len(v.offers) > 1 && !shows.Waiting {
		view.AnotherURL = v.url()
	}
	view.Hand = v.goesToPhone(m, shows)
	more(&view, shows)
	// a page that loads itself again would end the dialog
	if view.Kind == pages.Method && view.AgainURL == "" {
		return v.pageWithPasskey(r, 200, view)
	}
	return v.page(200, view)
}

// addressed shows the page of a step that the address has, or that has asked without a result. The author of
// the address knows the step, too, and may have sent it to another person. So the form of a real method gets
// a new handle here, and its proof belongs to this page's browser (contract 34). A step without a handle is
// the sandbox's.
func (v *visit) addressed(r session.Record, s token.StepClaims, text string,
	n pages.Notice) *web.Response {
	if s.Handle != "" {
		text = ""
	}
	return v.stepPage(r, s, text, n)
}

// newHandle returns the handle of a new step, which is "" where nothing real is proven.
func (v *visit) newHandle(m method.Opened) (string, error) {
	if !isBound(m) {
		return "", nil
	}
	return method.NewHandle(v.Random)
}

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
		// It belongs in a cookie, where only its errand uses it.
		if err == nil && s.Waits() {
			err = host.ErrNotAuthentic
		}
		return s, err
	}
	if len(v.offers) > 1 || isBound(v.offers[0]) {
		return token.StepClaims{}, host.ErrNotAuthentic
	}
	return token.StepClaims{Attempt: attempt}, nil
}

// goOn answers a step that has not decided. It sends the browser to the page of the next step.
func (v *visit) goOn(s token.StepClaims) *web.Response {
	text, err := v.sealStep(s)
	if err != nil {
		return v.unavailable(err)
	}
	return v.seeOther(v.url(stepParam, text))
}

// endURL is the address of an ended session. It has the browser's step where that may be the one that
// completed the session (hasProven).
func (v *visit) endURL(r session.Record, step string) string {
	if r.Browser == "" || step == "" {
		return v.url()
	}
	return v.url(stepParam, step)
}

// hasProven reports whether this browser is the one that has completed the session: it has the step that did,
// in its address or as the cookie of an errand. The only error is host.ErrKeyAwaited.
func (v *visit) hasProven(r session.Record, step string) (bool, error) {
	if r.Browser == "" {
		return true, nil
	}
	s, err := v.openStep(step)
	if err == nil && session.Proof(s.Handle) == r.Browser {
		return true, nil
	}
	for handle := range v.errands() {
		if session.Proof(handle) == r.Browser {
			s, _, err = v.openErrand(handle)
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
