// Package hosted is the flow that a user walks through: the page behind
// redirect_url, its forms, and the hop back to the publisher (contract 22 to 24).
//
// GET shows, POST acts: a link scanner that follows every link changes
// nothing. There is no cookie and no script; the flow token in the address
// and in each form is all that a browser carries, and it decides nothing:
// attempts and the outcome are the KV's.
package hosted

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/hosted/pages"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// Hosted serves the pages. All fields are needed.
type Hosted struct {
	host.Host
	BaseURL   string // scheme and host, no slash at the end
	Directory *integration.Directory
	Lifecycle *lifecycle.Lifecycle
	Providers map[string]provider.Provider // by method
}

// What GET shows beside the method page is asked for by a query parameter: it
// is a matter of words alone, and changing it changes nothing.
const (
	shownParam     = "show"
	shownCancelled = "cancelled"
	shownAttempt   = "attempt"
	providerParam  = "provider"
)

// visit is one request of a user whose flow token is authentic.
type visit struct {
	*Hosted
	ctx      context.Context
	now      time.Time
	flow     string // token text
	claims   token.FlowClaims
	session  lifecycle.Session
	provider provider.Provider
	lang     string
}

// Show answers GET on the hosted path.
func (h *Hosted) Show(ctx context.Context, req *web.Request) *web.Response {
	query, err := url.ParseQuery(req.Query)
	if err != nil {
		return h.plain(400, pages.Damaged, req)
	}
	v, refused := h.open(ctx, req, query.Get("flow"))
	if refused != nil {
		return refused
	}
	r, err := v.record()
	if err != nil {
		return v.unavailable(err)
	}
	if r.Terminal() {
		return v.ended(r)
	}
	switch query.Get(shownParam) {
	case shownCancelled:
		return v.page(200, pages.View{Kind: pages.Cancelled, RetryURL: v.url("", "")})
	case shownAttempt:
		return v.method(pages.Notice{AttemptFailed: r.Attempts > 0, AttemptsLeft: v.Lifecycle.Attempts - r.Attempts})
	}
	if pending := query.Get(providerParam); pending != "" {
		if _, err := v.providerState(pending); err == nil {
			return v.page(200, pages.View{Kind: pages.Progress, Extra: []pages.Field{{Name: providerParam, Value: pending}}})
		}
	}
	return v.method(pages.Notice{})
}

// Act answers POST on the hosted path.
func (h *Hosted) Act(ctx context.Context, req *web.Request) *web.Response {
	if len(req.Body) > web.MaxBody {
		return h.plain(413, pages.Damaged, req)
	}
	if web.MediaType(req.Header.Get("Content-Type")) != "application/x-www-form-urlencoded" {
		return h.plain(415, pages.Damaged, req)
	}
	if !h.sameSite(req) {
		return h.plain(403, pages.NotAllowed, req)
	}
	form, err := url.ParseQuery(string(req.Body))
	if err != nil {
		return h.plain(400, pages.Damaged, req)
	}
	v, refused := h.open(ctx, req, form.Get("flow"))
	if refused != nil {
		return refused
	}
	r, err := v.record()
	if err != nil {
		return v.unavailable(err)
	}
	if r.Terminal() {
		// The second click, the back button, the other browser: what is
		// final is shown again, whatever the form wanted.
		if h.Count != nil {
			h.Count("late_answer_ignored")
		}
		return v.finish(r)
	}
	return v.act(form)
}

// act asks the provider what the step means and applies it.
func (v *visit) act(form url.Values) *web.Response {
	var state []byte
	if text := form.Get(providerParam); text != "" {
		var err error
		if state, err = v.providerState(text); err != nil {
			return v.page(400, pages.View{Kind: pages.Damaged})
		}
	}
	d, err := v.provider.Act(v.ctx, v.provided(), form, state)
	if errors.Is(err, provider.ErrStep) {
		return v.page(400, pages.View{Kind: pages.Damaged})
	}
	if err != nil {
		return v.unavailable(err)
	}
	trigger, ok := triggers[d.Verdict]
	if !ok { // Pending: nothing has happened yet
		text, err := token.SealProvider(v.Sealer, token.ProviderClaims{Session: v.session.Text, State: d.State, Issued: token.At(v.now)})
		if err != nil {
			return v.unavailable(err)
		}
		return v.seeOther(v.url(providerParam, text))
	}
	r, err := v.Lifecycle.Fire(v.ctx, v.session, trigger)
	if err != nil {
		return v.unavailable(err)
	}
	switch {
	case r.Terminal():
		return v.finish(r)
	case trigger == session.Cancelled:
		return v.seeOther(v.url(shownParam, shownCancelled))
	}
	return v.seeOther(v.url(shownParam, shownAttempt))
}

// triggers says what a provider's verdict does to the session.
var triggers = map[provider.Verdict]session.Trigger{
	provider.Unclassified:  session.Unclassified,
	provider.Approved:      session.Succeeded,
	provider.Rejected:      session.Rejected,
	provider.AttemptFailed: session.AttemptFailed,
	provider.Withdrawn:     session.Withdrawn,
	provider.Cancelled:     session.Cancelled,
}

// open takes the flow token apart, or returns the page that says what is
// wrong with it.
func (h *Hosted) open(ctx context.Context, req *web.Request, flow string) (*visit, *web.Response) {
	claims, err := token.OpenFlow(h.Sealer, flow)
	if err != nil {
		return nil, h.plain(400, pages.Damaged, req)
	}
	id, err := session.ParseID(h.Sealer, claims.Session)
	if err != nil {
		return nil, h.plain(400, pages.Damaged, req)
	}
	v := &visit{Hosted: h, ctx: ctx, now: h.Now(), flow: flow, claims: claims, lang: claims.Language}
	if v.lang == "" {
		v.lang = language(req)
	}
	v.session = lifecycle.Session{ID: id, Text: claims.Session, User: claims.UserText(), State: claims.StateText()}
	v.session.Integration, err = h.Directory.Integration(ctx, id.Integration)
	if errors.Is(err, integration.ErrNotFound) {
		return nil, h.plain(400, pages.Damaged, req)
	}
	if err != nil {
		return nil, v.unavailable(err)
	}
	var ok bool
	if v.provider, ok = h.Providers[v.session.Integration.Method]; !ok {
		return nil, v.unavailable(errors.New("hosted: no such method: " + v.session.Integration.Method))
	}
	return v, nil
}

// record returns what holds of the session now.
func (v *visit) record() (session.Record, error) {
	r, _, err := v.Lifecycle.Load(v.ctx, v.session.ID)
	return r.As(v.now, v.session.ID.Expires()), err
}

// finish answers the POST after which, or before which, the session ended:
// straight to the callback if it succeeded (contract 22).
func (v *visit) finish(r session.Record) *web.Response {
	if r.State != session.Completed {
		return v.seeOther(v.url("", ""))
	}
	claims := token.ResultClaims{Session: v.session.Text, Completed: token.At(r.At)}
	if !v.now.Before(claims.Expires()) {
		return v.ended(r)
	}
	result, err := token.SealResult(v.Sealer, claims)
	if err != nil {
		return v.unavailable(err)
	}
	params := [][2]string{{"result_token", result}, {"session_id", v.session.Text}}
	if v.claims.HasState {
		params = append(params, [2]string{"state", string(v.claims.State)})
	}
	return v.seeOther(api.AppendQuery(string(v.claims.Callback), params))
}

// ended says how a session has ended. Of one that was completed it is the hop
// again, unless its result has been used or nobody fetched it in time.
func (v *visit) ended(r session.Record) *web.Response {
	switch r.State {
	case session.Failed:
		return v.page(200, pages.View{Kind: pages.Failed, FailureCode: r.FailureCode})
	case session.Expired:
		return v.page(410, pages.View{Kind: pages.Expired})
	}
	_, err := v.KV.Get(v.ctx, v.session.ID.UsedKey(lifecycle.Partition(v.session.ID.Partition)))
	switch {
	case err == nil:
		return v.page(409, pages.View{Kind: pages.Used})
	case !errors.Is(err, kv.ErrNotFound):
		return v.unavailable(err)
	}
	if claims := (token.ResultClaims{Completed: token.At(r.At)}); !v.now.Before(claims.Expires()) {
		return v.page(410, pages.View{Kind: pages.Expired})
	}
	return v.page(200, pages.View{Kind: pages.Completed})
}

func (v *visit) method(n pages.Notice) *web.Response {
	prompt := v.provider.Prompt(v.provided())
	choices := make([]pages.Choice, len(prompt.Choices))
	for i, c := range prompt.Choices {
		choices[i].Outcome = c
	}
	return v.page(200, pages.View{Kind: pages.Method, Notice: n, Choices: choices})
}

func (v *visit) provided() provider.Session {
	return provider.Session{ID: v.session.Text, Level: v.session.ID.Level.String(), ChallengeAge: v.session.ID.ChallengeAge,
		Language: v.lang, ExpiresAt: v.session.ID.Expires(), User: v.session.User}
}

// providerState opens a provider token of this very session.
func (v *visit) providerState(text string) ([]byte, error) {
	c, err := token.OpenProvider(v.Sealer, text)
	if err != nil {
		return nil, err
	}
	if c.Session != v.session.Text {
		return nil, host.ErrNotAuthentic
	}
	return c.State, nil
}

// url is the address of this flow, with one more parameter if name is not empty.
func (v *visit) url(name, value string) string {
	u := api.HostedPath + "?flow=" + url.QueryEscape(v.flow)
	if name != "" {
		u += "&" + name + "=" + url.QueryEscape(value)
	}
	return u
}

// unavailable says that nothing is known and nothing has been decided.
func (v *visit) unavailable(err error) *web.Response {
	v.Log.LogAttrs(v.ctx, slog.LevelError, "hosted page unavailable", slog.String("session", v.session.Text), slog.String("error", err.Error()))
	resp := v.page(503, pages.View{Kind: pages.Unavailable, RetryURL: v.url("", "")})
	resp.Header.Set("Retry-After", "2")
	return resp
}

// sameSite reports whether a POST came from a page of ours, as far as the
// browser says. One that says nothing is let through: who posts has the flow
// token, which no other site knows.
func (h *Hosted) sameSite(req *web.Request) bool {
	if site := req.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	origin := req.Header.Get("Origin")
	return origin == "" || origin == "null" || origin == h.BaseURL
}

func language(req *web.Request) string {
	return pages.Match(strings.Join(req.Header["Accept-Language"], ","))
}
