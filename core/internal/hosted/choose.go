package hosted

import (
	"net/url"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// offered returns the integration's method of that name. "" is its first one.
func (v *visit) offered(name string) (method.Opened, bool) {
	for _, m := range v.offers {
		if m.Name == name || name == "" {
			return m, true
		}
	}
	return method.Opened{}, false
}

// choose answers the form by which the user chooses a method. One that cannot begin counts no attempt
// (contract 33).
func (v *visit) choose(r session.Record, name string) *web.Response {
	m, ok := v.offered(name)
	if !ok {
		return v.page(400, pages.View{Kind: pages.Damaged})
	}
	if err := m.Begin(v.ctx, v.told(m, r)); err != nil {
		step := whyFailed(m.Name, err)
		step.Result = host.MethodUnavailable
		v.stepEnded(step, err)
		return v.seeOther(v.url(shownParam, shownUnavailable, methodParam, name))
	}
	return v.seeOther(v.url(methodParam, name))
}

// methodPage shows how a session stands that has not ended. If there are several methods and the query names
// none of them, the user chooses.
func (v *visit) methodPage(r session.Record, query url.Values) *web.Response {
	shown, name := query.Get(shownParam), query.Get(methodParam)
	n := pages.Notice{
		AttemptFailed: r.Attempts > 0,
		AttemptsLeft:  v.Lifecycle.AttemptsOf(v.session) - r.Attempts,
		Reason:        query.Get(reasonParam),
		Trouble:       shown == shownTrouble,
		Outdated:      shown == shownOutdated,
		Passkey:       passkeyNotice(query),
	}
	m, known := v.offered(name)
	if len(v.offers) > 1 && (name == "" || !known || shown == shownUnavailable) {
		return v.pageWithPasskey(r, 200, pages.View{Kind: pages.Choose, Notice: n,
			Methods: v.options(shown, name)})
	}
	if !known {
		m = v.offers[0]
	}
	return v.stepPage(r, token.StepClaims{Attempt: r.Attempts, Method: m.Name}, "", n)
}

// options returns the methods as the page offers them. The one that has just failed to begin is marked.
func (v *visit) options(shown, name string) []pages.Option {
	options := make([]pages.Option, len(v.offers))
	for n, m := range v.offers {
		options[n] = pages.Option{Name: m.Name, Title: m.TitleIn(v.lang), Words: m.Kind,
			Unavailable: shown == shownUnavailable && m.Name == name}
	}
	return options
}
