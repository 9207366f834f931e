// Package hosted is the flow that a user walks through: the page behind redirect_url, its forms, and the hop
// back to the publisher (contract 22 to 24). It also has the front page, and the pages that a person gets
// instead of an error in JSON (Refusal).
//
// GET shows and POST acts, so a link scanner that follows every link changes nothing. There is no cookie and
// no script. A browser carries nothing but the flow token, in the address and in each form. The token decides
// nothing: the KV decides about attempts and the outcome. The number in a form only says to which attempt the
// form belongs.
//
// Every POST is answered by a page or by a redirect to this flow's own address. A browser leaves our site
// only by the hop page, which is made from the KV's record each time that it is shown.
package hosted

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/hosted/pages"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/language"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/result"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/weburl"
)

// Hosted serves the pages. All fields but Count are needed.
type Hosted struct {
	Sealer host.Sealer
	Now    func() time.Time
	Log    *slog.Logger
	Count  func(event string) // as in host.Host

	BaseURL   string // scheme and host, no slash at the end
	Directory *integration.Directory
	Lifecycle *lifecycle.Lifecycle
	Results   *result.Tokens
	Providers map[string]provider.Provider // by method
}

// A query parameter says what GET shows beside the method page. It chooses words and nothing else, so a user
// who changes it changes nothing.
const (
	shownParam     = "show"
	shownCancelled = "cancelled"
	providerParam  = "provider"
	attemptParam   = "attempt"
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
	version  string // of the record that was read last
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
	if query.Get(shownParam) == shownCancelled {
		return v.page(200, pages.View{Kind: pages.Cancelled, RetryURL: v.url("", "")})
	}
	if pending := query.Get(providerParam); pending != "" {
		if step, err := v.providerStep(pending); err == nil && step.Attempt == r.Attempts {
			return v.page(200, pages.View{Kind: pages.Progress,
				Extra: []pages.Field{attemptField(r), {Name: providerParam, Value: pending}}})
		}
	}
	return v.method(r)
}

// Act answers POST on the hosted path, where bodies have at most maxBody bytes.
func (h *Hosted) Act(ctx context.Context, req *web.Request, maxBody int) *web.Response {
	if len(req.Body) > maxBody {
		return h.plain(413, pages.TooLarge, req)
	}
	if web.MediaType(req.Header.Get("Content-Type")) != "application/x-www-form-urlencoded" {
		return h.plain(415, pages.NotAForm, req)
	}
	form, err := url.ParseQuery(string(req.Body))
	if !h.sameSite(req) {
		return h.notAllowed(ctx, req, form.Get("flow"))
	}
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
		// This is a second click, the back button or another browser. Whatever the form says, the outcome
		// is final and is shown again.
		if h.Count != nil {
			h.Count(host.CountLateAnswer)
		}
		return v.seeOther(v.url("", ""))
	}
	return v.act(r, form)
}

// act asks the provider what the step means and applies it.
func (v *visit) act(r session.Record, form url.Values) *web.Response {
	attempt, ok := attemptOf(form)
	if !ok {
		return v.page(400, pages.View{Kind: pages.Damaged})
	}
	step := token.ProviderClaims{Attempt: attempt}
	if text := form.Get(providerParam); text != "" {
		var err error
		if step, err = v.providerStep(text); errors.Is(err, host.ErrKeyAwaited) {
			return v.unavailable(err)
		} else if err != nil {
			return v.page(400, pages.View{Kind: pages.Damaged})
		}
	}
	// A form of another attempt is not evaluated (contract 23). The page shows how the session stands now.
	if attempt != r.Attempts || step.Attempt != r.Attempts {
		return v.seeOther(v.url("", ""))
	}
	d, err := v.provider.Act(v.ctx, v.provided(), form, step.State)
	if errors.Is(err, provider.ErrStep) {
		return v.page(400, pages.View{Kind: pages.Damaged})
	}
	if err != nil {
		return v.unavailable(err)
	}
	trigger, ok := triggers[d.Verdict]
	if !ok { // Pending: nothing has happened yet
		text, err := token.SealProvider(v.Sealer, token.ProviderClaims{Session: v.session.Text,
			Attempt: attempt, State: d.State, Issued: token.At(v.now)})
		if err != nil {
			return v.unavailable(err)
		}
		return v.seeOther(v.url(providerParam, text))
	}
	r, err = v.Lifecycle.Fire(v.ctx, v.session, trigger, attempt)
	if err != nil {
		return v.unavailable(err)
	}
	if trigger == session.Cancelled && !r.Terminal() {
		return v.seeOther(v.url(shownParam, shownCancelled))
	}
	return v.seeOther(v.url("", ""))
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

// open takes the flow token apart, or returns the page that says what is wrong with it.
func (h *Hosted) open(ctx context.Context, req *web.Request, flow string) (*visit, *web.Response) {
	claims, until, err := token.OpenFlow(h.Sealer, flow)
	var id session.ID
	if err == nil {
		id, err = session.ParseID(h.Sealer, claims.Session)
	}
	if errors.Is(err, host.ErrKeyAwaited) {
		return nil, h.awaited(req, flow)
	}
	// A token is as old as its session. If it says otherwise, or if its key was replaced before the session
	// began, somebody with an old key has made it.
	if err != nil || claims.Expires != token.At(id.Expires()) || !host.Dated(id.Created, until) {
		return nil, h.plain(400, pages.Damaged, req)
	}
	v := &visit{Hosted: h, ctx: ctx, now: h.Now(), flow: flow, claims: claims, lang: claims.Language}
	if v.lang == "" {
		v.lang = languageOf(req)
	}
	v.session = lifecycle.Session{ID: id, Text: claims.Session,
		User: claims.UserText(), State: claims.StateText()}
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

// record returns the record of the session as it holds now.
func (v *visit) record() (session.Record, error) {
	r, version, err := v.Lifecycle.Load(v.ctx, v.session.ID)
	v.version = version
	return r.As(v.now, v.session.ID.Expires()), err
}

// ended returns the page that says how a session has ended.
func (v *visit) ended(r session.Record) *web.Response {
	switch r.State {
	case session.Completed:
		return v.completed(r)
	case session.Failed:
		return v.page(200, pages.View{Kind: pages.Failed, FailureCode: r.FailureCode})
	}
	return v.page(410, pages.View{Kind: pages.Expired})
}

// completed returns the hop page to the callback. If the result has been used or has expired, it returns a
// page that says so.
func (v *visit) completed(r session.Record) *web.Response {
	text, err := v.Results.Issue(v.ctx, v.session, r, v.version, v.now)
	switch {
	case errors.Is(err, result.ErrUsed):
		return v.page(409, pages.View{Kind: pages.Used})
	case errors.Is(err, result.ErrExpired):
		return v.page(410, pages.View{Kind: pages.Expired, Confirmed: true})
	case err != nil:
		return v.unavailable(err)
	}
	params := [][2]string{{"result_token", text}, {"session_id", v.session.Text}}
	if v.claims.HasState {
		params = append(params, [2]string{"state", string(v.claims.State)})
	}
	return v.hop(pages.View{Kind: pages.Completed}, weburl.AppendQuery(string(v.claims.Callback), params))
}

// method returns the page on which the user chooses what to do. As long as the session is under way, it says
// that attempts have failed, whenever it is opened.
func (v *visit) method(r session.Record) *web.Response {
	prompt := v.provider.Prompt(v.provided())
	choices := make([]pages.Choice, len(prompt.Choices))
	for i, c := range prompt.Choices {
		choices[i].Outcome = c
	}
	notice := pages.Notice{AttemptFailed: r.Attempts > 0, AttemptsLeft: v.Lifecycle.Attempts - r.Attempts}
	return v.page(200, pages.View{Kind: pages.Method, Notice: notice, Choices: choices,
		Extra: []pages.Field{attemptField(r)}})
}

// attemptField returns the hidden input that says to which attempt a form belongs.
func attemptField(r session.Record) pages.Field {
	return pages.Field{Name: attemptParam, Value: strconv.Itoa(r.Attempts)}
}

// attemptOf reads that input. A form without it was made by an older version of ours, and a browser still
// shows it. It belongs to the first attempt.
func attemptOf(form url.Values) (attempt int, ok bool) {
	text := form.Get(attemptParam)
	if !form.Has(attemptParam) {
		text = "0"
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

func (v *visit) provided() provider.Session {
	return provider.Session{ID: v.session.Text, Level: v.session.ID.Level.String(),
		ChallengeAge: v.session.ID.ChallengeAge, Language: v.lang,
		ExpiresAt: v.session.ID.Expires(), User: v.session.User}
}

// providerStep opens a provider token of this very session.
func (v *visit) providerStep(text string) (token.ProviderClaims, error) {
	c, err := token.OpenProvider(v.Sealer, text)
	if err == nil && c.Session != v.session.Text {
		err = host.ErrNotAuthentic
	}
	return c, err
}

// url is the address of this flow, with one more parameter if name is not empty.
func (v *visit) url(name, value string) string {
	u := api.HostedPath + "?flow=" + url.QueryEscape(v.flow)
	if name != "" {
		u += "&" + name + "=" + url.QueryEscape(value)
	}
	return u
}

// unavailable answers an error that decides nothing. The user may try again.
func (v *visit) unavailable(err error) *web.Response {
	level := slog.LevelError
	if kv.Failed(err) {
		level = slog.LevelDebug
	}
	v.Log.LogAttrs(v.ctx, level, "hosted page unavailable",
		slog.String("session", v.session.Text), slog.String("error", err.Error()))
	resp := v.page(503, pages.View{Kind: pages.Unavailable, RetryURL: v.url("", "")})
	resp.Header.Set("Retry-After", "2")
	return resp
}

// awaited answers a link that another instance has sealed with a key that this one has not read yet. The link
// may be good, and then it works in a moment.
func (h *Hosted) awaited(req *web.Request, flow string) *web.Response {
	h.Log.LogAttrs(context.Background(), slog.LevelWarn, "hosted page waits for a key of the ring")
	resp := render(503, pages.View{Kind: pages.Unavailable, Lang: languageOf(req),
		RetryURL: api.HostedPath + "?flow=" + url.QueryEscape(flow)})
	resp.Header.Set("Retry-After", "2")
	return resp
}

// notAllowed answers a form of another site, and does nothing of what the form says. If its flow token is
// authentic, the page offers the user the way back.
func (h *Hosted) notAllowed(ctx context.Context, req *web.Request, flow string) *web.Response {
	v, refused := h.open(ctx, req, flow)
	if refused != nil {
		return h.plain(403, pages.NotAllowed, req)
	}
	return v.page(403, pages.View{Kind: pages.NotAllowed, RetryURL: v.url("", "")})
}

// sameSite reports whether a POST came from a page of ours, as far as the browser says. Browsers of today
// send Sec-Fetch-Site, over https and on loopback. Without it, "Origin: null" says nothing: an extension or
// a proxy that withholds referrers (Referrer-Policy: no-referrer) makes browsers send it with our own forms,
// too. A browser that says nothing is let through: it has the flow token, which no other site knows.
func (h *Hosted) sameSite(req *web.Request) bool {
	if site := req.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	origin := req.Header.Get("Origin")
	return origin == "" || origin == "null" || origin == h.BaseURL
}

func languageOf(req *web.Request) string {
	if req == nil {
		return language.Match("")
	}
	return language.Match(strings.Join(req.Header["Accept-Language"], ","))
}
