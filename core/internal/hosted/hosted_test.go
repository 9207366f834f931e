package hosted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const testUUID = testhost.UUID

var ctx = context.Background()

// scripted is a provider whose decisions the test sets.
type scripted struct {
	decision method.Decision
	err      error
	state    []byte // that it was handed last
	acts     int
}

func (*scripted) Begin(context.Context, method.Session) error { return nil }
func (*scripted) Show(_ method.Session, state []byte) method.View {
	if state != nil {
		return method.View{Choices: []string{"check"}, Waiting: true, Sandbox: true}
	}
	return method.View{Choices: []string{"approve"}, Sandbox: true}
}
func (p *scripted) Act(_ context.Context, _ method.Session, step method.Step) (method.Decision, error) {
	p.acts++
	p.state = step.State
	return p.decision, p.err
}

// fixture is a Hosted on a test's host.
type fixture struct {
	*Hosted
	*testhost.Host
	provider *scripted
	commits  int
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := testhost.New(t)
	w := &fixture{Host: h, provider: &scripted{}}
	life := &lifecycle.Lifecycle{Host: h.Host, Attempts: 3, OutcomeLife: time.Hour}
	w.Hosted = &Hosted{Host: h.Host, BaseURL: "https://verify.verge.example",
		Directory: integration.NewDirectory(h.Host), Lifecycle: life,
		Results: &result.Tokens{Host: h.Host, Lifecycle: life},
		Methods: h.Opened(testhost.Catalog(testhost.Kind("scripted", w.provider, true)))}
	coretest.Must(t, w.Directory.PutIntegration(ctx,
		integration.Integration{ID: testUUID, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25,
			Method: "scripted", Webhook: integration.Webhook{Off: true}}, ""))
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			w.commits++
		}
		return kvtest.Pass
	}
	return w
}

const callback = "https://www.publisher.example/return?order=1"

// flow creates a session and returns its flow token.
func (w *fixture) flow(t testing.TB, state *string) (session.ID, string) {
	t.Helper()
	id, err := session.NewID(w.Host.Random, testUUID, session.L1, 25, w.Clock.Now(), 0)
	coretest.Must(t, err)
	text, err := id.Format(w.Hosted.Sealer)
	coretest.Must(t, err)
	claims := token.FlowClaims{
		Session:  text,
		Callback: []byte(callback),
		Language: "en",
		Expires:  token.At(id.Expires()),
	}
	claims.SetState(state)
	flow, err := token.SealFlow(w.Hosted.Sealer, claims)
	coretest.Must(t, err)
	return id, flow
}

func (w *fixture) post(flow string, header web.Header, fields ...string) *web.Response {
	form := url.Values{"flow": {flow}, "outcome": {"approve"}}
	for n := 0; n < len(fields); n += 2 {
		form.Set(fields[n], fields[n+1])
	}
	h := web.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	maps.Copy(h, header)
	return w.Act(ctx, call(&web.Request{Method: "POST", Path: web.HostedPath, Header: h,
		Body: []byte(form.Encode())}))
}

func (w *fixture) get(query string) *web.Response {
	return w.Show(ctx, call(&web.Request{Method: "GET", Path: web.HostedPath, Query: query,
		Header: web.Header{}}))
}

// here returns the query of a flow's own address, to which a POST leads.
func here(flow string) string { return "flow=" + url.QueryEscape(flow) }

// hop returns the address to which a page sends the browser, or nil if the browser stays.
func hop(t testing.TB, page *web.Response) *url.URL {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(page.Body))
	coretest.Must(t, err)
	for n := range doc.Descendants() {
		if !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "data-hop" }) {
			continue
		}
		for _, a := range n.Attr {
			if a.Key == "href" {
				to, err := url.Parse(a.Val)
				coretest.Must(t, err)
				return to
			}
		}
	}
	return nil
}

func kind(page *web.Response) string {
	_, rest, _ := strings.Cut(string(page.Body), `data-page="`)
	kind, _, _ := strings.Cut(rest, `"`)
	return kind
}

func TestCallbackHop(t *testing.T) {
	empty, state := "", "a b&c=d+ü"
	for _, given := range []*string{nil, &empty, &state} {
		w := newFixture(t)
		_, flow := w.flow(t, given)
		w.provider.decision.Verdict = method.Approved
		if r := w.post(flow, nil); r.Status != 303 ||
			r.Header.Get("Location") != web.HostedPath+"?"+here(flow) {
			t.Fatalf("contract 22: a POST does not redirect to this flow: %d to %s",
				r.Status, r.Header.Get("Location"))
		}
		w.commits = 0
		first := w.get(here(flow))
		to := hop(t, first)
		if first.Status != 200 || to == nil || !strings.HasPrefix(to.String(), callback+"&") {
			t.Fatalf("contract 22: %d leads to %s", first.Status, to)
		}
		q := to.Query()
		if q.Get("result_token") == "" || q.Get("session_id") == "" || q.Has("state") != (given != nil) ||
			given != nil && q.Get("state") != *given {
			t.Errorf("spec, Callback redirect: %v, state given %v", q, given)
		}
		if csp := first.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self';") {
			t.Errorf("contract 22: %s", csp)
		}
		if got := first.Header.Get("Referrer-Policy"); got != "no-referrer" {
			t.Errorf("contract 22: the hop's address has the flow token, its Referrer-Policy is %s", got)
		}
		w.Clock.Advance(5*time.Minute - time.Millisecond)
		w.provider.decision.Verdict = method.Rejected
		if r := w.post(flow, nil); r.Status != 303 {
			t.Errorf("contract 18: a late POST returns %d", r.Status)
		}
		again := hop(t, w.get(here(flow)))
		if again == nil {
			t.Fatal("contract 17: the hop cannot be reloaded")
		}
		a, errA := token.OpenResult(w.Hosted.Sealer, q.Get("result_token"))
		b, errB := token.OpenResult(w.Hosted.Sealer, again.Query().Get("result_token"))
		if err := errors.Join(errA, errB); err != nil || a != b {
			t.Errorf("contract 17: reloaded, the token says %+v and not %+v (%v)", b, a, err)
		}
		if w.provider.acts != 1 || w.commits != 0 {
			t.Errorf("contract 18, 22: the provider was asked %d times, and looking committed %d times",
				w.provider.acts, w.commits)
		}
		w.Clock.Advance(time.Millisecond)
		late := w.get(here(flow))
		if late.Status != 410 || hop(t, late) != nil || kind(late) != "expired" ||
			!bytes.Contains(late.Body, []byte("was confirmed")) {
			t.Errorf("contract 17: after 5 minutes it is handed out again: %d", late.Status)
		}
	}
}

func TestLink_Used(t *testing.T) {
	w := newFixture(t)
	id, flow := w.flow(t, nil)
	w.provider.decision.Verdict = method.Approved
	w.post(flow, nil)
	mark := id.UsedKey()
	coretest.Must(t, w.Store.Commit(ctx, kv.Tx{ID: "used", Partition: mark.Partition,
		Puts: []kv.Put{{Name: mark.Name, Value: []byte("{}")}}}))
	for range 2 { // within the token's 5 minutes, and after them
		r := w.post(flow, nil)
		if r.Status != 303 || r.Header.Get("Location") != web.HostedPath+"?"+here(flow) {
			t.Errorf("contract 24: a POST on a used link leads to %d %s", r.Status, r.Header.Get("Location"))
		}
		p := w.get(here(flow))
		if p.Status != 409 || kind(p) != "used" || hop(t, p) != nil ||
			bytes.Contains(p.Body, []byte(token.ResultPrefix)) {
			t.Errorf("contract 24: a used link shows %d %s", p.Status, kind(p))
		}
		if text := string(p.Body); !strings.Contains(text, "It worked") ||
			strings.Contains(text, "ry again") {
			t.Errorf("contract 24: a used link does not show that it worked: %s", text)
		}
		w.Clock.Advance(6 * time.Minute)
	}
}

func TestForm_BoundToAttempt(t *testing.T) {
	attempts := func(n int) func(*fixture, string) {
		return func(w *fixture, flow string) {
			w.provider.decision.Verdict = method.AttemptFailed
			for at := range n {
				w.post(flow, nil, "attempt", strconv.Itoa(at))
			}
		}
	}
	for _, c := range []struct {
		name    string
		before  func(w *fixture, flow string)
		attempt []string // the field, if there is one
		status  int
		acts    bool
	}{
		{"the first form", attempts(0), []string{"attempt", "0"}, 303, true},
		{"the first form of an earlier release", attempts(0), nil, 303, true},
		{"a form of the attempt that holds", attempts(2), []string{"attempt", "2"}, 303, true},
		{"the same form again", attempts(1), []string{"attempt", "0"}, 303, false},
		{"an older form of an earlier release", attempts(1), nil, 303, false},
		{"a form of two attempts ago", attempts(2), []string{"attempt", "0"}, 303, false},
		{"a form of an attempt that has not begun", attempts(1), []string{"attempt", "2"}, 303, false},
		{"no number", attempts(0), []string{"attempt", ""}, 400, false},
		{"a negative number", attempts(0), []string{"attempt", "-1"}, 400, false},
		{"a number with a word", attempts(0), []string{"attempt", "0x0"}, 400, false},
		{"a number beyond all numbers", attempts(0), []string{"attempt", "99999999999999999999"}, 400, false},
	} {
		t.Run("contract 23: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			id, flow := w.flow(t, nil)
			c.before(w, flow)
			before, _, err := w.Lifecycle.Load(ctx, id)
			coretest.Must(t, err)
			w.provider.acts = 0
			w.provider.decision.Verdict = method.Approved
			r := w.post(flow, nil, c.attempt...)
			after, _, err := w.Lifecycle.Load(ctx, id)
			coretest.Must(t, err)
			if r.Status != c.status || w.provider.acts == 1 != c.acts || (after == before) == c.acts {
				t.Errorf("answered %d, the provider was asked %d times, and %+v became %+v",
					r.Status, w.provider.acts, before, after)
			}
			if r.Status != 303 || c.acts {
				return
			}
			_, query, _ := strings.Cut(r.Header.Get("Location"), "?")
			p := w.get(query)
			want := fmt.Sprintf("%d attempt", 3-before.Attempts)
			if kind(p) != "method" || !bytes.Contains(p.Body, []byte(want)) ||
				!bytes.Contains(p.Body, fmt.Appendf(nil, `name="attempt" value="%d"`, before.Attempts)) {
				t.Errorf("the current page is %s and does not contain %q: %s", kind(p), want, p.Body)
			}
		})
	}
}

// A user who opens the link again still sees that an attempt has failed and how many are left.
func TestLink_ShowsAttempts(t *testing.T) {
	w := newFixture(t)
	_, flow := w.flow(t, nil)
	w.provider.decision.Verdict = method.AttemptFailed
	for n, want := range []string{"", "You have 2 attempts left.", "You have 1 attempt left."} {
		for _, query := range []string{here(flow), here(flow) + "&show=attempt", here(flow) + "&show=x"} {
			p := w.get(query)
			failed := bytes.Contains(p.Body, []byte("That did not work"))
			if kind(p) != "method" || failed != (n > 0) || !bytes.Contains(p.Body, []byte(want)) {
				t.Errorf("contract 23: after %d failed attempts %s shows %s, that one failed %v, and not %q",
					n, query[len(here(flow)):], kind(p), failed, want)
			}
		}
		w.post(flow, nil, "attempt", strconv.Itoa(n))
	}
}

// Two posts of one form meet in the store: the provider is asked twice, and
// one attempt counts.
func TestForm_PostedTwiceConcurrently(t *testing.T) {
	w := newFixture(t)
	id, flow := w.flow(t, nil)
	w.provider.decision.Verdict = method.AttemptFailed
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" { // the other post comes in between
			w.Store.Decide = nil
			if r := w.post(flow, nil, "attempt", "0"); r.Status != 303 {
				t.Errorf("the other form returns %d", r.Status)
			}
		}
		return kvtest.Pass
	}
	if r := w.post(flow, nil, "attempt", "0"); r.Status != 303 {
		t.Errorf("it is answered %d", r.Status)
	}
	if r, _, err := w.Lifecycle.Load(ctx, id); err != nil || r.Attempts != 1 || w.provider.acts != 2 {
		t.Errorf("contract 23: %+v after the provider was asked %d times, %v", r, w.provider.acts, err)
	}
}

func TestStepToken_BoundToAttempt(t *testing.T) {
	w := newFixture(t)
	id, flow := w.flow(t, nil)
	w.provider.decision = method.Decision{Verdict: method.Pending, State: []byte("step 1")}
	u, err := url.Parse(w.post(flow, nil, "attempt", "0").Header.Get("Location"))
	coretest.Must(t, err)
	pending := u.Query().Get("provider")
	p := w.get(u.RawQuery)
	if kind(p) != "progress" || !bytes.Contains(p.Body, []byte(`name="attempt" value="0"`)) {
		t.Errorf("its own attempt shows %s", kind(p))
	}
	w.provider.decision = method.Decision{Verdict: method.AttemptFailed}
	w.post(flow, nil, "attempt", "0")
	if p := w.get(u.RawQuery); kind(p) != "method" {
		t.Errorf("contract 23: after its attempt has failed the page that waits is still shown: %s", kind(p))
	}
	w.provider.acts, w.provider.decision.Verdict = 0, method.Approved
	for _, attempt := range []string{"0", "1"} {
		r := w.post(flow, nil, "provider", pending, "attempt", attempt)
		if r.Status != 303 || w.provider.acts != 0 {
			t.Errorf("contract 23: with a form of attempt %s, %d, and the provider was asked %d times",
				attempt, r.Status, w.provider.acts)
		}
	}
	if r, _, err := w.Lifecycle.Load(ctx, id); err != nil || r.Terminal() {
		t.Errorf("contract 23: %+v, %v", r, err)
	}
	w.provider.decision = method.Decision{Verdict: method.Pending, State: []byte("step 1")}
	u, err = url.Parse(w.post(flow, nil, "attempt", "1").Header.Get("Location"))
	coretest.Must(t, err)
	w.provider.acts = 0
	r := w.post(flow, nil, "provider", u.Query().Get("provider"), "attempt", "0")
	if r.Status != 303 || w.provider.acts != 0 {
		t.Errorf("contract 23: an older form with a newer token: %d, and the provider was asked %d times",
			r.Status, w.provider.acts)
	}
}

func TestPage_TimeLeft(t *testing.T) {
	w := newFixture(t)
	_, flow := w.flow(t, nil)
	start := w.Clock.Now()
	for _, c := range []struct {
		after time.Duration
		says  string
	}{
		{0, "About 10 minutes left"},
		{time.Minute, "About 9 minutes left"},
		{4*time.Minute + 40*time.Second, "About 5 minutes left"},
		{8*time.Minute + 45*time.Second, "About 1 minute left"},
		{9*time.Minute + 1*time.Second, "Less than a minute left"},
	} {
		w.Clock.Advance(start.Add(c.after).Sub(w.Clock.Now()))
		for _, more := range []string{"", "&show=cancelled", "&show=attempt"} {
			p := w.get(here(flow) + more)
			if !bytes.Contains(p.Body, []byte(c.says)) {
				t.Errorf("after %v the page%s does not contain %q", c.after, more, c.says)
			}
			reload, err := strconv.Atoi(p.Header.Get("Refresh"))
			if late := c.after + time.Duration(reload)*time.Second - session.Life; err != nil ||
				late <= method.StepTime || late > 20*time.Second {
				t.Errorf("contract 22: after %v the page%s is loaded again %v after the end", c.after, more,
					late)
			}
		}
	}
	w.provider.err = errors.New("no response")
	if p := w.post(flow, nil); p.Status != 503 || kind(p) != "method" || p.Header.Has("Refresh") {
		t.Errorf("contract 22: %d, a %s page, is loaded again without its form: %q", p.Status, kind(p),
			p.Header.Get("Refresh"))
	}
}

func TestForm_RejectedLinksBack(t *testing.T) {
	w := newFixture(t)
	_, flow := w.flow(t, nil)
	foreign := web.Header{"Sec-Fetch-Site": {"cross-site"}}
	r := w.post(flow, foreign)
	for _, want := range []string{`href="https://www.publisher.example"`, `href="/verify?flow=`, "Try again"} {
		if r.Status != 403 || !bytes.Contains(r.Body, []byte(want)) {
			t.Errorf("contract 22: %d, the page lacks %s: %s", r.Status, want, r.Body)
		}
	}
	r = w.post(flow[:len(flow)-2], foreign)
	if r.Status != 403 || kind(r) != "not_allowed" || bytes.Contains(r.Body, []byte("publisher.example")) {
		t.Errorf("contract 24: a link to the site, though the token is not authentic: %d %s", r.Status,
			r.Body)
	}
	if w.provider.acts != 0 || w.commits != 0 {
		t.Error("contract 22: a form of another site has done something")
	}
}

func TestRejection(t *testing.T) {
	for status, want := range map[int]string{400: "refused", 404: "not_found", 405: "refused",
		408: "too_slow",
		413: "too_large", 414: "too_long", 415: "not_a_form", 417: "refused", 429: "too_often",
		431: "too_long",
		500: "unavailable", 501: "unavailable", 503: "unavailable", 505: "unavailable"} {
		for lang, header := range map[string]web.Header{"fr": {"Accept-Language": {"fr-CA,fr;q=0.9"}},
			"en": nil} {
			r := ErrorPage(pages.Service{}, status, "",
				&web.Request{Method: "GET", Path: "/x", Header: header})
			if r.Status != status || kind(r) != want || r.Header.Get("Content-Language") != lang ||
				r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("contract 22: %d is shown as %d %s in %s",
					status, r.Status, kind(r), r.Header.Get("Content-Language"))
			}
			if !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") ||
				r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("contract 22: %d has the headers %v", status, r.Header)
			}
		}
	}
	var service pages.Service
	if r := ErrorPage(service, 503, "", nil); r.Status != 503 || r.Header.Get("Content-Language") != "en" {
		t.Errorf("contract 22: a request of which nothing could be read: %d", r.Status)
	}
	again := func(method string, status int) bool {
		return bytes.Contains(
			ErrorPage(service, status, "", &web.Request{Method: method}).Body,
			[]byte(`href=""`),
		)
	}
	if !again("GET", 503) || !again("GET", 408) || !again("GET", 429) || again("POST", 503) ||
		again("GET", 404) {
		t.Error("contract 22: what can be tried again is offered again, and nothing else is")
	}
}

// A malformed form does not mean that the link is damaged, so its page must not claim it.
func TestForm_Malformed(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct {
		name, contentType, want string
		size, status            int
	}{
		{"too large", "application/x-www-form-urlencoded", "too_large", web.MaxBody + 1, 413},
		{"not a form", "application/json", "not_a_form", 2, 415},
	} {
		r := w.Act(
			ctx,
			call(&web.Request{Method: "POST", Path: "/verify", Body: bytes.Repeat([]byte("a"), c.size),
				Header: web.Header{"Content-Type": {c.contentType}}}),
		)
		if r.Status != c.status || kind(r) != c.want || bytes.Contains(r.Body, []byte("damaged")) {
			t.Errorf("contract 22: a form that is %s is shown as %d %s: %s", c.name, r.Status, kind(r),
				r.Body)
		}
	}
}

func TestFrontPage(t *testing.T) {
	r := new(Hosted).Home(t.Context(), call(&web.Request{Header: web.Header{"Accept-Language": {"it"}}}))
	if r.Status != 200 || kind(r) != "home" || r.Header.Get("Content-Language") != "it" ||
		!strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("contract 22: %d %s %v", r.Status, kind(r), r.Header)
	}
}

func TestAssets(t *testing.T) {
	for path, c := range map[string]struct{ contentType, cache, begins string }{
		pages.Style().Path: {"text/css; charset=utf-8", "immutable", "/*"},
		"/favicon.ico":     {"image/x-icon", "max-age=86400", "\x00\x00\x01\x00\x01\x00"},
	} {
		r := Asset(path)
		if r == nil || r.Status != 200 || r.Header.Get("Content-Type") != c.contentType ||
			!strings.Contains(r.Header.Get("Cache-Control"), c.cache) ||
			r.Header.Get("Etag") == "" || !bytes.HasPrefix(r.Body, []byte(c.begins)) {
			t.Errorf("contract 22: %s is %+v", path, r)
		}
	}
	if Asset("/verify/assets/verge.css") != nil {
		t.Error("a file that there is not")
	}
}

func TestResultToken_OnlyAfterApproval(t *testing.T) {
	for verdict := method.Unclassified; verdict <= method.Pending+3; verdict++ {
		w := newFixture(t)
		_, flow := w.flow(t, nil)
		w.provider.decision = method.Decision{Verdict: verdict, State: []byte("s")}
		resp := w.post(flow, nil)
		if strings.Contains(resp.Header.Get("Location"), token.ResultPrefix) ||
			bytes.Contains(resp.Body, []byte(token.ResultPrefix)) {
			t.Errorf("contract 22: the response of the POST has the token: %d to %s",
				resp.Status, resp.Header.Get("Location"))
		}
		shown := w.get(here(flow))
		if got := bytes.Contains(shown.Body,
			[]byte(token.ResultPrefix)); got != (verdict == method.Approved) {
			t.Errorf("spec, What the service does: verdict %d: %d with %s", verdict, shown.Status,
				hop(t, shown))
		}
	}
	w := newFixture(t)
	id, flow := w.flow(t, nil)
	w.provider.decision.Verdict, w.provider.err = method.Approved, errors.New("cause")
	resp := w.post(flow, nil)
	r, _, err := w.Lifecycle.Load(ctx, id)
	coretest.Must(t, err)
	if resp.Status != 503 || w.commits != 1 || r.State != session.Started ||
		r.Attempts != 0 || bytes.Contains(resp.Body, []byte("cause")) {
		t.Errorf("method.Act: an error decides something, or more is kept than the step: %d, %d commits, %+v",
			resp.Status, w.commits, r)
	}
	// The method was of another kind when the page was shown, or this is an attack. It is not an internal
	// error and is not logged.
	w.provider.err = fmt.Errorf("%w: cause", method.ErrStep)
	w.Logged.Reset()
	resp = w.post(flow, nil)
	if to := resp.Header.Get("Location"); resp.Status != 303 || !strings.HasSuffix(to, "&show=outdated") ||
		w.commits != 1 || w.Logged.Len() > 0 {
		t.Errorf("contract 34: a form that no page has: %d to %s, %d commits, log %s",
			resp.Status, to, w.commits, &w.Logged)
	}
	w.provider.err = fmt.Errorf("%w: %w", method.ErrStep, &method.Rejection{Reason: "cause"})
	if resp = w.post(flow, nil); resp.Status != 400 || w.commits != 1 || w.Logged.Len() > 0 ||
		bytes.Contains(resp.Body, []byte("cause")) {
		t.Errorf("contract 5, 400: a form of another request: %d, %d commits, log %s",
			resp.Status, w.commits, &w.Logged)
	}
}

func TestGETChangesNothing(t *testing.T) {
	w := newFixture(t)
	_, flow := w.flow(t, nil)
	w.provider.decision.Verdict = method.Approved
	f := "flow=" + url.QueryEscape(flow)
	for _, query := range []string{f, f + "&outcome=approve", f + "&show=cancelled", f + "&show=attempt",
		f + "&show=x", f + "&provider=x"} {
		resp := w.get(query)
		if resp.Status != 200 || resp.Header.Get("Cache-Control") != "no-store" ||
			!strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("contract 22: %d %v", resp.Status, resp.Header)
		}
	}
	if w.provider.acts != 0 || w.commits != 0 {
		t.Errorf("contract 22: GET asked the provider %d times and committed %d times", w.provider.acts,
			w.commits)
	}
	for _, query := range []string{"", "flow=", "flow=x", "flow=%zz", "flow=" + flow[:len(flow)-2],
		"flow=" + token.ResultPrefix + strings.TrimPrefix(flow, token.FlowPrefix)} {
		if resp := w.get(query); resp.Status != 400 ||
			bytes.Contains(resp.Body, []byte("publisher.example")) {
			t.Errorf("contract 24: %q returns %d: %s", query, resp.Status, resp.Body)
		}
	}
}

func TestStepToken_BoundToSession(t *testing.T) {
	w := newFixture(t)
	_, flow := w.flow(t, nil)
	_, other := w.flow(t, nil)
	w.provider.decision = method.Decision{Verdict: method.Pending, State: []byte("step 1")}
	resp := w.post(flow, nil)
	u, err := url.Parse(resp.Header.Get("Location"))
	coretest.Must(t, err)
	pending := u.Query().Get("provider")
	if resp.Status != 303 || pending == "" || w.commits != 0 {
		t.Fatalf("pending: %d to %s, %d commits", resp.Status, u, w.commits)
	}
	w.provider.decision.Verdict = method.Approved
	for _, stolen := range []string{pending, "x", flow, token.StepPrefix} {
		if resp := w.post(other, nil, "provider", stolen); resp.Status != 400 || w.provider.acts != 1 {
			t.Errorf("contract 15: another session's provider token: %d", resp.Status)
		}
	}
	resp = w.post(flow, nil, "provider", pending)
	if resp.Status != 303 || string(w.provider.state) != "step 1" {
		t.Errorf("its own: %d, the provider was handed %q", resp.Status, w.provider.state)
	}
}

func TestPostsOfOtherSitesAreRejected(t *testing.T) {
	for _, c := range []struct {
		name   string
		header web.Header
		ok     bool
	}{
		{"a browser without this header", nil, true},
		{"our own page",
			web.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"https://verify.verge.example"}}, true},
		{"our own page in an old browser that withholds referrers", web.Header{"Origin": {"null"}}, true},
		{"our own page in a browser that withholds referrers",
			web.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"null"}}, true},
		{"another site that hides in a sandboxed frame",
			web.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"null"}}, false},
		{"our own page in an old browser", web.Header{"Origin": {"https://verify.verge.example"}}, true},
		{"the address bar", web.Header{"Sec-Fetch-Site": {"none"}}, true},
		{"another site", web.Header{"Sec-Fetch-Site": {"cross-site"}}, false},
		{"another host of our site", web.Header{"Sec-Fetch-Site": {"same-site"}}, false},
		{"another site that forges Origin cannot forge both",
			web.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://verify.verge.example"}}, false},
		{"another site in an old browser", web.Header{"Origin": {"https://evil.example"}}, false},
		{"our host over http", web.Header{"Origin": {"http://verify.verge.example"}}, false},
		{"a host that begins like ours", web.Header{"Origin": {"https://verify.verge.example.evil"}}, false},
		{"another Content-Type", web.Header{"Content-Type": {"text/plain"}}, false},
	} {
		t.Run("contract 22: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			_, flow := w.flow(t, nil)
			w.provider.decision.Verdict = method.Approved
			resp := w.post(flow, c.header)
			if (resp.Status == 303) != c.ok || (w.provider.acts == 1) != c.ok {
				t.Errorf("%d after the provider was asked %d times", resp.Status, w.provider.acts)
			}
		})
	}
}

func TestPage_StoreErrorDenies(t *testing.T) {
	for _, fail := range []kvtest.Fault{kvtest.Reject, kvtest.LoseRequest, kvtest.LoseReply} {
		w := newFixture(t)
		id, flow := w.flow(t, nil)
		w.provider.decision.Verdict = method.Approved
		w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method == "Commit" {
				return fail
			}
			return kvtest.Pass
		}
		resp := w.post(flow, nil)
		if resp.Status != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Has("Location") ||
			bytes.Contains(resp.Body, []byte(token.ResultPrefix)) {
			t.Errorf("contract 5, 503: %v: %d %v", fail, resp.Status, resp.Header)
		}
		w.Store.Decide = nil
		r, _, err := w.Lifecycle.Load(ctx, id)
		if err != nil || (r.State == session.Completed) != (fail == kvtest.LoseReply) {
			t.Errorf("%v: kept is %+v, %v", fail, r, err)
		}
		if strings.Contains(w.Logged.String(), "level=ERROR") {
			t.Errorf("a page that fails with the store logs a separate line, and thousands may fail in "+
				"a second:\n%s", &w.Logged)
		}
		// The same click again gets the true answer.
		if resp := w.post(flow, nil); resp.Status != 303 || hop(t, w.get(here(flow))) == nil {
			t.Errorf("%v, then well: %d", fail, resp.Status)
		}
		for _, never := range []string{flow, "order=1", token.ResultPrefix} {
			if strings.Contains(w.Logged.String(), never) {
				t.Errorf("contract 13: the log holds %q: %s", never, &w.Logged)
			}
		}
	}
}

// A photo that is too large for the service is rejected before it is read, and the page names that rule.
func TestRejection_Photo(t *testing.T) {
	r := ErrorPage(pages.Service{}, 413, "", &web.Request{Method: "POST", Path: FilePath})
	if kind(r) != "photo_too_large" || !bytes.Contains(r.Body, []byte("at most 1 MB")) ||
		bytes.Contains(r.Body, []byte("JPEG")) {
		t.Errorf("contract 37: a %s page: %s", kind(r), r.Body)
	}
}

// Only a page that waits may ask the service for something, and only its own service.
func TestRender_PolicyOfScripts(t *testing.T) {
	const begins, ends = "default-src 'none'; style-src 'self'; img-src 'self'; ",
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	waits := pages.View{Kind: pages.Asked, AgainURL: "/verify?flow=a", AgainAfter: time.Second}
	for want, view := range map[string]pages.View{
		begins + "script-src 'self'; connect-src 'self'; " + ends: waits,
		begins + ends: {Kind: pages.Expired},
	} {
		if got := render(200, view).Header.Get("Content-Security-Policy"); got != want {
			t.Errorf("contract 22: a %s page has the policy %s", view.Kind, got)
		}
	}
	if !HasAsset(pages.WaitScript().Path) || Asset(pages.WaitScript().Path) == nil {
		t.Error("the script of a page that waits is not served")
	}
}

// call is a request at its route.
func call(req *web.Request) *router.Call {
	route := &router.Route{}
	switch {
	case req.Path == FilePath:
		route.MaxBody = MaxFileBody
	case req.Path == WalletPath:
		route.MaxBody = method.MaxCall + web.MaxBody
	}
	text := strings.TrimPrefix(strings.TrimPrefix(req.Path, PhonePath), web.ReturnPath)
	return &router.Call{Request: req, Route: route, Text: text}
}
