package hosted

import (
	"bytes"
	"cmp"
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

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/steperror"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// bank is a real method for the core. Its first step leaves for another site, and the test sets its decision
// for the browser's return.
type bank struct {
	down     error           // Begin's
	back     method.Decision // of the return
	err      error           // of the return
	away     error           // of the form that makes a browser leave
	returned int             // how often a browser came back
	query    url.Values      // what the last one brought
	told     method.Session
	state    []byte
}

// tabField has the end of the next handle in the form of a bank.
const tabField = method.CredentialField

const bankURL = "https://bank.example/authorize?client_id=verge"

func (b *bank) Begin(_ context.Context, s method.Session) error {
	b.told = s
	return b.down
}

func (b *bank) Show(method.Session, []byte) method.View {
	return method.View{Choices: []string{"begin"}}
}

func (b *bank) Act(_ context.Context, s method.Session, step method.Step) (method.Decision, error) {
	b.told = s
	if step.Back {
		b.returned++
		b.query, b.state = step.Form, step.State
		return b.back, b.err
	}
	if step.Form.Get("outcome") != "begin" {
		return method.Decision{}, method.ErrStep
	}
	if b.away != nil {
		return method.Decision{}, b.away
	}
	handle := strings.Repeat("h", handleLength-1) + step.Form.Get(tabField)
	return method.Decision{Verdict: method.Pending, State: []byte("nonce"),
		Leave: &method.Leave{URL: bankURL + "&state=" + handle, Handle: handle}}, nil
}

// bankFixture is a fixture whose integration offers the given methods, of bank, second and scripted.
func bankFixture(t testing.TB, offers ...string) (*fixture, *bank, *bank) {
	t.Helper()
	w := newFixture(t)
	first, second := &bank{}, &bank{}
	kinds := []method.Kind{testhost.Kind("bank", first, false), testhost.Kind("second", second, false)}
	w.Methods = w.Host.Opened(testhost.Catalog(append(kinds, testhost.Kind("scripted", w.provider, true))...))
	i := integration.Integration{ID: testUUID, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25,
		Method: offers[0], Webhook: integration.Webhook{Off: true}}
	if len(offers) > 1 {
		i.Methods = offers
	}
	coretest.Must(t, w.Directory.PutIntegration(ctx, i, ""))
	w.commits = 0
	return w, first, second
}

// browser is one browser: it keeps cookies.
type browser struct {
	*fixture
	t       testing.TB
	cookies map[string]string // of requests
	left    map[string]string // those that say that the browser has left on one
	ends    map[string]time.Time
}

func (w *fixture) browser(t testing.TB) *browser {
	return &browser{w, t, map[string]string{}, map[string]string{}, map[string]time.Time{}}
}

func (b *browser) header() web.Header {
	var pairs []string
	for _, jar := range []map[string]string{b.cookies, b.left} {
		for name, value := range jar {
			if b.Clock.Now().Before(b.ends[name]) {
				pairs = append(pairs, name+"="+value)
			}
		}
	}
	return web.Header{"Cookie": {strings.Join(pairs, "; ")}}
}

// keep stores the cookies of a response.
func (b *browser) keep(resp *web.Response) *web.Response {
	b.t.Helper()
	for _, line := range resp.Header["Set-Cookie"] {
		pair, attributes, _ := strings.Cut(line, ";")
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "__Host-verge-") || len(value) > 4000 ||
			!strings.Contains(attributes, " Path=/;") ||
			!strings.Contains(attributes, "; HttpOnly; SameSite=Lax; Secure") {
			b.t.Errorf("contract 34: the cookie %.80s... with %s", pair, attributes)
		}
		jar := b.cookies
		if strings.HasSuffix(name, leftMark) {
			jar = b.left
		}
		_, life, _ := strings.Cut(attributes, "Max-Age=")
		life, _, _ = strings.Cut(life, ";")
		seconds, err := strconv.Atoi(life)
		coretest.Must(b.t, err)
		if seconds == 0 {
			delete(jar, name)
			continue
		}
		jar[name], b.ends[name] = value, b.Clock.Now().Add(time.Duration(seconds)*time.Second)
	}
	return resp
}

func (b *browser) open(location string) *web.Response {
	b.t.Helper()
	u, err := url.Parse(location)
	coretest.Must(b.t, err)
	req := &web.Request{Method: "GET", Path: u.Path, Query: u.RawQuery, Header: b.header()}
	if strings.HasPrefix(u.Path, web.ReturnPath) {
		return b.keep(b.Return(ctx, call(req)))
	}
	return b.keep(b.Show(ctx, call(req)))
}

// submit posts a form of a page, with the page's step.
func (b *browser) submit(flow string, page *web.Response, fields ...string) *web.Response {
	b.t.Helper()
	h := b.header()
	return b.keep(b.post(flow, h, append([]string{"provider", hidden(page, "provider"),
		"attempt", hidden(page, "attempt")}, fields...)...))
}

// hidden returns the value of a page's first hidden input of that name.
func hidden(page *web.Response, name string) string {
	_, rest, _ := strings.Cut(string(page.Body), `name="`+name+`" value="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// leaves walks a browser to the bank's hop page, and returns the page.
func (b *browser) leaves(flow string, fields ...string) *web.Response {
	b.t.Helper()
	page := b.open("/verify?" + here(flow) + "&method=bank")
	resp := b.submit(flow, page, append([]string{"outcome", "begin", tabField, "1"}, fields...)...)
	if resp.Status != 303 {
		b.t.Fatalf("leaving: %d", resp.Status)
	}
	return b.open(resp.Header.Get("Location"))
}

func handleOf(tab string) string { return strings.Repeat("h", handleLength-1) + tab }

func returnURL(tab string) string { return "/verify/return/bank?code=c&state=" + handleOf(tab) }

func TestPendingRequest_LeaveAndReturn(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	b := w.browser(t)
	state := "order-7"
	_, flow := w.flow(t, &state)
	page := b.leaves(flow)
	if kind(page) != "leaving" || hop(t, page).String() != bankURL+"&state="+handleOf("1") || w.commits != 0 {
		t.Fatalf("contract 22: a %s page that leads to %v, after %d commits",
			kind(page), hop(t, page), w.commits)
	}
	if page.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Error("the bank learns the flow token")
	}
	bank.back.Verdict = method.Approved
	resp := b.open(returnURL("1"))
	if resp.Status != 303 || bank.returned != 1 || string(bank.state) != "nonce" ||
		bank.query.Get("code") != "c" ||
		bank.told.ReturnURL != "https://verify.verge.example/verify/return/bank" {
		t.Fatalf("contract 35: %d; the bank received %q, %q, %v", resp.Status, bank.state, bank.query,
			bank.told)
	}
	done := b.open(resp.Header.Get("Location"))
	if to := hop(t, done); kind(done) != "completed" || to == nil || to.Query().Get("state") != "order-7" {
		t.Errorf("contract 22: a %s page that leads to %v", kind(done), to)
	}
	if again := b.open(returnURL("1")); again.Status != 303 || bank.returned != 1 || w.commits != 1 {
		t.Errorf("contract 35: loaded again: %d, the bank was asked %d times", again.Status, bank.returned)
	}
}

func TestReturn_Browsers(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change func(b *browser)
		query  string
		status int
	}{
		{"contract 34: another browser is rejected", func(b *browser) { clear(b.cookies) }, "", 403},
		{"contract 34: an unknown handle", nil, "/verify/return/bank?code=c&state=" + handleOf("2"), 403},
		{"contract 34: the return of another method", nil,
			"/verify/return/second?code=c&state=" + handleOf("1"), 403},
		{"no state", nil, "/verify/return/bank?code=c", 400},
		{"a state of another length", nil, "/verify/return/bank?code=c&state=x", 400},
		{"contract 22: a parameter of the method twice", nil, returnURL("1") + "&code=d", 400},
		{"contract 22: the state twice", nil, returnURL("1") + "&state=" + handleOf("1"), 400},
		{"contract 22: a parameter of the method in bad encoding", nil, returnURL("1") + "&error=%zz", 400},
		{"contract 22: an unknown parameter in bad encoding", nil, returnURL("1") + "&x=%zz&%zz=1", 303},
		{"contract 22: an unknown parameter twice", nil, returnURL("1") + "&x=1&x=2", 303},
		{"contract 22: an unknown parameter with a semicolon", nil, returnURL("1") + "&session_state=abc;def",
			303},
		{"contract 22: unknown parameters of other methods", nil, returnURL("1") + "&iss=1&iss=2&flow=%zz",
			303},
		{"contract 22: the parameter of wallets", nil, returnURL("1") + "&response_code=00", 303},
		{"an altered cookie", func(b *browser) {
			for name, value := range b.cookies {
				b.cookies[name] = value[:40] + "A" + value[41:]
			}
		}, "", 403},
		{"a cookie whose request is another's", func(b *browser) {
			for name, value := range maps.Clone(b.cookies) {
				other := strings.Replace(name, handleOf("1"), handleOf("3"), 1)
				delete(b.cookies, name)
				b.cookies[other], b.ends[other] = value, b.ends[name]
			}
		}, "/verify/return/bank?code=c&state=" + handleOf("3"), 403},
		{"a cookie with another session's flow token", func(b *browser) {
			_, other := b.flow(b.t, nil)
			for name, value := range b.cookies {
				request, _, _ := strings.Cut(value, ".")
				b.cookies[name] = request + "." + other
			}
		}, "", 403},
		{"contract 35: the browser that left", nil, "", 303},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w, bank, _ := bankFixture(t, "bank", "second")
			b := w.browser(t)
			_, flow := w.flow(t, nil)
			b.leaves(flow)
			bank.back.Verdict = method.Approved
			if c.change != nil {
				c.change(b)
			}
			if c.query == "" {
				c.query = returnURL("1")
			}
			resp := b.open(c.query)
			acts := c.status == 303
			if resp.Status != c.status || (bank.returned == 1) != acts || (w.commits == 1) != acts {
				t.Errorf("%d, want %d; asked %d times, %d commits",
					resp.Status, c.status, bank.returned, w.commits)
			}
			again := bytes.Contains(resp.Body, []byte(`href=""`))
			if c.status == 403 && (kind(resp) != "elsewhere" || !again) {
				t.Errorf("a %s page, or one without a link to itself", kind(resp))
			}
		})
	}
}

// The content of a cookie is only for the return. It is not valid as the step of a form.
func TestPendingRequest_IsNotAForm(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	b.leaves(flow)
	for _, value := range b.cookies {
		request, _, _ := strings.Cut(value, ".")
		resp := b.post(flow, b.header(), "provider", request, "attempt", "0", "outcome", "begin", tabField,
			"2")
		if resp.Status != 400 || kind(resp) != "damaged" || len(b.cookies) != 1 {
			t.Errorf("contract 34: %d, a %s page, %d requests", resp.Status, kind(resp), len(b.cookies))
		}
	}
	if bank.back.Verdict = method.Approved; b.open(returnURL("1")).Status != 303 || bank.returned != 1 {
		t.Error("the request itself no longer returns")
	}
}

func TestReturn_Verdicts(t *testing.T) {
	for _, c := range []struct {
		rule     string
		decision method.Decision
		err      error
		shows    string // the kind of page
		says     string
		attempts int
	}{
		{"proven", method.Decision{Verdict: method.Approved}, nil, "completed", "", 0},
		{"contract 36: the claim says no", method.Decision{Verdict: method.Rejected}, nil, "failed", "", 0},
		{"contract 36: the claim is absent",
			method.Decision{Verdict: method.AttemptFailed, Reason: method.Unconfirmed}, nil,
			"method", "did not confirm your age", 1},
		{"a decision without a verdict", method.Decision{}, nil, "failed", "", 0},
		{"contract 35: access_denied", method.Decision{Verdict: method.Cancelled}, nil, "cancelled", "", 0},
		{"contract 35: every other error counts no attempt", method.Decision{}, errors.New("server_error"),
			"method", "The other service did not respond", 0},
		{"an attempt fails", method.Decision{Verdict: method.AttemptFailed, Reason: method.Unsure}, nil,
			"method", "The estimate was not certain enough", 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w, bank, _ := bankFixture(t, "bank")
			b := w.browser(t)
			id, flow := w.flow(t, nil)
			b.leaves(flow)
			bank.back, bank.err = c.decision, c.err
			resp := b.open(returnURL("1"))
			if resp.Status != 303 {
				t.Fatalf("%d", resp.Status)
			}
			page := b.open(resp.Header.Get("Location"))
			r, _, err := w.Lifecycle.Load(ctx, id)
			if err != nil || kind(page) != c.shows || !bytes.Contains(page.Body, []byte(c.says)) ||
				r.Attempts != c.attempts {
				t.Errorf("a %s page after %d attempts, %v; want %s that says %q",
					kind(page), r.Attempts, err, c.shows, c.says)
			}
		})
	}
}

// An operator reads in one line which session, which method and why.
func TestFailure_LoggedOnce(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank", "second")
	b := w.browser(t)
	id, flow := w.flow(t, nil)
	text, err := id.Format(w.Hosted.Sealer)
	coretest.Must(t, err)
	timeout := &host.FetchError{Reason: host.FetchTimeout, Err: errors.New("cause")}
	page := b.open("/verify?" + here(flow) + "&method=bank")
	for _, c := range []struct {
		fails func()
		line  string
	}{
		{func() {
			bank.down = timeout
			b.submit(flow, &web.Response{}, "method", "bank")
		}, `msg="method failed" session=` + text + " method=bank reason=timeout "},
		{func() {
			bank.away = timeout
			if resp := b.submit(flow, page, "outcome", "begin", tabField, "1"); resp.Status != 503 {
				t.Errorf("contract 35: a form that fails: %d", resp.Status)
			}
		}, `msg="method failed" session=` + text + " method=bank reason=timeout "},
		{func() {
			bank.away, bank.err = nil, &method.Rejection{Reason: "jwt_nonce"}
			b.leaves(flow)
			w.Logged.Reset() // that the method has begun
			b.open(returnURL("1"))
		}, `msg="method failed" session=` + text + " method=bank reason=jwt_nonce "},
		{func() {
			bank.down = &method.SettingError{Reason: "certificate_validity", Setting: "certificate_file",
				Detail: "a", Err: errors.New("cause")}
			b.submit(flow, &web.Response{}, "method", "bank")
		}, `msg="method failed" session=` + text + " method=bank reason=certificate_validity " +
			"setting=certificate_file detail=a result=unavailable "},
	} {
		w.Logged.Reset()
		c.fails()
		if log := w.Logged.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, c.line) {
			t.Errorf("the log is %s\nwant one line with %s", log, c.line)
		}
	}
}

// A kind may read no parameter of its return.
func TestReturn_WithoutParameters(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	m := w.Methods["bank"]
	m.Of.Returns = nil
	w.Methods["bank"] = m
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	b.leaves(flow)
	bank.back.Verdict = method.Approved
	page := b.open(b.open(returnURL("1")).Header.Get("Location"))
	if kind(page) != "completed" || bank.query.Has("code") {
		t.Errorf("contract 34: a %s page, and the bank received %v", kind(page), bank.query)
	}
}

func TestReturn_WithoutRequest(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	b.leaves(flow)
	bank.err = fmt.Errorf("%w: %w", method.ErrStep, &method.Rejection{Reason: "return_iss_differs"})
	if resp := b.open(returnURL("1")); resp.Status != 400 || kind(resp) != "damaged" || w.commits != 0 {
		t.Errorf("contract 36: the iss of another: %d, a %s page, %d commits", resp.Status, kind(resp),
			w.commits)
	}
}

// A proof in one browser does not count for another browser with the same link.
func TestCompleted_OtherBrowser(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	prover, other := w.browser(t), w.browser(t)
	_, flow := w.flow(t, nil)
	prover.leaves(flow)
	bank.back.Verdict = method.Approved
	end := prover.open(returnURL("1")).Header.Get("Location")
	link := "/verify?" + here(flow)
	for _, at := range []string{end, link, link + "&errand=" + handleOf("1")} {
		page := other.open(at)
		if kind(page) != "elsewhere" || hop(t, page) != nil ||
			bytes.Contains(page.Body, []byte(token.ResultPrefix)) {
			t.Errorf("contract 34: another browser gets a %s page that leads to %v", kind(page),
				hop(t, page))
		}
		if page := prover.open(at); kind(page) != "completed" || hop(t, page) == nil {
			t.Errorf("the browser itself gets a %s page at %.20s", kind(page), at)
		}
	}
}

// A method that does not leave binds its outcome to the form that decided.
func TestCompleted_FormOfOtherTab(t *testing.T) {
	w, _, _ := bankFixture(t, "bank")
	w.Methods = w.Host.Opened(testhost.Catalog(testhost.Kind("bank", w.provider, false)))
	id, flow := w.flow(t, nil)
	b := w.browser(t)
	page := b.open("/verify?" + here(flow))
	theirs := b.open("/verify?" + here(flow)) // the same page in another browser has another step
	w.provider.decision.Verdict = method.Approved
	resp := b.submit(flow, &web.Response{}, "outcome", "approve")
	if resp.Status != 400 || w.provider.acts != 0 {
		t.Errorf("a form without its step: %d, asked %d times", resp.Status, w.provider.acts)
	}
	resp = b.submit(flow, page, "outcome", "approve")
	if done := b.open(resp.Header.Get("Location")); kind(done) != "completed" {
		t.Fatalf("%d, then a %s page", resp.Status, kind(done))
	}
	again := func(page *web.Response) string {
		return b.submit(flow, page, "outcome", "approve").Header.Get("Location")
	}
	for rule, c := range map[string]struct {
		location string
		want     string
	}{
		"the link alone":           {"/verify?" + here(flow), "elsewhere"},
		"the step of another page": {again(theirs), "elsewhere"},
		"the same form again":      {again(page), "completed"},
	} {
		if got := kind(b.open(c.location)); got != c.want || w.provider.acts != 1 {
			t.Errorf("contract 34: %s: a %s page, want %s; asked %d times", rule, got, c.want,
				w.provider.acts)
		}
	}
	mark := id.UsedKey()
	coretest.Must(t, w.Store.Commit(ctx, kv.Tx{ID: "used", Partition: mark.Partition,
		Puts: []kv.Put{{Name: mark.Name, Value: []byte("{}")}}}))
	back := b.open("/verify?" + here(flow))
	if back.Status != 409 || kind(back) != "used" || hop(t, back) != nil {
		t.Errorf("contract 34: back at the link after its use: %d, a %s page", back.Status, kind(back))
	}
}

// An attacker who puts their own step into the address that they send to a victim does not get the victim's
// proof.
func TestStep_OfAnotherBrowser(t *testing.T) {
	for rule, decision := range map[string]method.Decision{
		"the first step":  {},
		"one behind that": {Verdict: method.Pending, State: []byte("second")},
	} {
		t.Run(rule, func(t *testing.T) {
			w, _, _ := bankFixture(t, "bank")
			w.Methods = w.Host.Opened(testhost.Catalog(testhost.Kind("bank", w.provider, false)))
			id, flow := w.flow(t, nil)
			sender, prover := w.browser(t), w.browser(t)
			page := sender.open("/verify?" + here(flow))
			sent := "/verify?" + here(flow) + "&provider=" + hidden(page, "provider")
			if decision.Verdict == method.Pending {
				w.provider.decision = decision
				sent = sender.submit(flow, page, "outcome", "approve").Header.Get("Location")
			}
			w.provider.decision = method.Decision{Verdict: method.Approved}
			end := prover.submit(flow, prover.open(sent), "outcome", "approve").Header.Get("Location")
			if r, _, err := w.Lifecycle.Load(ctx, id); err != nil || r.State != session.Completed {
				t.Fatalf("the step is not evaluated: %+v, %v", r, err)
			}
			if got := kind(sender.open(sent)); got != "elsewhere" {
				t.Errorf("contract 34: who sent the address gets a %s page", got)
			}
			if got := kind(prover.open(end)); got != "completed" {
				t.Errorf("the browser itself gets a %s page", got)
			}
		})
	}
}

func TestTabsAndLateReturns(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	b := w.browser(t)
	id, flow := w.flow(t, nil)
	b.leaves(flow)
	b.leaves(flow, tabField, "2")
	if len(b.cookies) != 2 {
		t.Fatalf("contract 34: two requests have %d cookies", len(b.cookies))
	}
	bank.back = method.Decision{Verdict: method.AttemptFailed}
	b.open(returnURL("2"))
	if resp := b.open(returnURL("1")); resp.Status != 303 || bank.returned != 1 {
		t.Errorf("contract 23: a return of an earlier attempt: %d, asked %d times", resp.Status,
			bank.returned)
	}
	b.leaves(flow, tabField, "3")
	w.Clock.Advance(session.Life)
	resp := b.open(returnURL("3"))
	if page := b.open(resp.Header.Get("Location")); kind(page) != "expired" || bank.returned != 1 {
		t.Errorf("a return after the session's end: a %s page, asked %d times", kind(page), bank.returned)
	}
	if r, _, err := w.Lifecycle.Load(ctx, id); err != nil || r.State != session.Started || r.Attempts != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPendingRequest_Maximum(t *testing.T) {
	w, _, _ := bankFixture(t, "bank")
	b := w.browser(t)
	long := strings.Repeat("s", 1024)
	_, flow := w.flow(t, &long)
	for _, tab := range []string{"1", "2", "3", "4", "5"} {
		w.Clock.Advance(time.Second)
		if page := b.leaves(flow, tabField, tab); kind(page) != "leaving" {
			t.Fatalf("tab %s: a %s page", tab, kind(page))
		}
	}
	if requests := w.requestsOf(&web.Request{Header: b.header()}); len(requests) != maxRequests ||
		requests[handleOf("5")] == "" || requests[handleOf("3")] == "" ||
		len(b.header().Get("Cookie")) > 12<<10 {
		t.Errorf("contract 34: %d requests in %d bytes", len(requests), len(b.header().Get("Cookie")))
	}
}

func TestChoosing(t *testing.T) {
	w, bank, second := bankFixture(t, "bank", "second", "scripted")
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	page := b.open("/verify?" + here(flow))
	for _, name := range []string{"bank", "second", "scripted"} {
		form := `<form data-method="` + name + `" method="post"`
		if kind(page) != "choose" || !bytes.Contains(page.Body, []byte(form)) {
			t.Errorf("contract 33: the %s page does not offer %s", kind(page), name)
		}
	}
	choose := func(name string) *web.Response {
		resp := b.submit(flow, &web.Response{}, "method", name)
		if resp.Status != 303 {
			return resp
		}
		return b.open(resp.Header.Get("Location"))
	}
	second.down = errors.New("cause")
	page = choose("second")
	if kind(page) != "choose" || !bytes.Contains(page.Body, []byte("Not available right now")) ||
		bytes.Contains(page.Body,
			[]byte(`data-method="second"`)) || bytes.Contains(page.Body, []byte("cause")) {
		t.Errorf("contract 33: a method that cannot begin: a %s page", kind(page))
	}
	if page = choose("third"); kind(page) != "choose" || w.commits != 1 {
		t.Errorf("a method that is not offered: a %s page; %d commits, want that of the step before alone",
			kind(page), w.commits)
	}
	bank.down = nil
	page = choose("bank")
	if kind(page) != "method" || !bytes.Contains(page.Body, []byte("Choose another way")) {
		t.Errorf("contract 33: a %s page", kind(page))
	}
	w.provider.decision = method.Decision{Verdict: method.AttemptFailed}
	resp := b.submit(flow, choose("scripted"), "outcome", "approve")
	page = b.open(resp.Header.Get("Location"))
	if kind(page) != "method" || !bytes.Contains(page.Body, []byte("You have 2 attempts left")) ||
		!bytes.Contains(page.Body, []byte("Choose another way")) {
		t.Errorf("contract 33: after a failed attempt: a %s page", kind(page))
	}
	// The step of one method does not work for another that the user has chosen since.
	scripted := choose("scripted")
	bank.back.Verdict = method.Approved
	w.provider.acts = 0
	if resp := b.submit(flow, scripted, "outcome", "approve"); resp.Status != 303 || w.provider.acts != 1 {
		t.Errorf("its own step: %d", resp.Status)
	}
}

// Contract 34: a step of a method that the operator removes meanwhile ends without a result. The page and the
// log have the reason.
func TestStep_MethodNoLongerOffered(t *testing.T) {
	remove := func(w *fixture) {
		i, err := w.Directory.Integration(ctx, testUUID)
		coretest.Must(t, err)
		changed := *i
		changed.Method, changed.Methods = "second", nil
		coretest.Must(t, w.Directory.PutIntegration(ctx, changed, ""))
	}
	for name, do := range map[string]func(*fixture, *browser, string) *web.Response{
		"a return": func(w *fixture, b *browser, flow string) *web.Response {
			b.leaves(flow)
			remove(w)
			return b.open(returnURL("1"))
		},
		"a return to a method of another kind": func(w *fixture, b *browser, flow string) *web.Response {
			b.leaves(flow)
			maps.Copy(w.Methods, w.Host.Opened(testhost.Catalog(testhost.Kind("bank", &camera{}, false))))
			return b.open(returnURL("1"))
		},
		"the page that leaves": func(w *fixture, b *browser, flow string) *web.Response {
			page := b.open("/verify?" + here(flow) + "&method=bank")
			resp := b.submit(flow, page, "outcome", "begin", tabField, "1")
			remove(w)
			return b.open(resp.Header.Get("Location"))
		},
		"a form": func(w *fixture, b *browser, flow string) *web.Response {
			page := b.open("/verify?" + here(flow) + "&method=bank")
			remove(w)
			return b.submit(flow, page, "outcome", "begin", tabField, "1")
		},
	} {
		w, bank, _ := bankFixture(t, "bank")
		bank.back.Verdict = method.Approved
		b := w.browser(t)
		_, flow := w.flow(t, nil)
		resp := do(w, b, flow)
		if resp.Status != 303 || bank.returned != 0 {
			t.Fatalf("%s: %d, the bank returned %d times", name, resp.Status, bank.returned)
		}
		page := b.open(resp.Header.Get("Location"))
		r := (&pkFixture{fixture: w, t: t}).record(flow)
		steps := r.Steps.All()
		if kind(page) != "method" || !bytes.Contains(page.Body, []byte("Please do this step again")) ||
			len(steps) != 1 || steps[0].Method != "bank" || steps[0].Reason != "outdated" ||
			!slices.Contains([]string{"methods", "kind"}, steps[0].Setting) ||
			r.Attempts != 0 || !strings.Contains(w.Logged.String(), "reason=outdated") {
			t.Errorf("%s: a %s page, steps %+v\n%s", name, kind(page), steps, w.Logged.String())
		}
	}
}

// A form that was shown before a method changed leads to the present page, where the user continues.
func TestForm_MethodChanged(t *testing.T) {
	replace := func(w *fixture, name string, m method.Method) {
		maps.Copy(w.Methods, w.Host.Opened(testhost.Catalog(testhost.Kind(name, m, false))))
	}
	for name, c := range map[string]struct {
		offers []string
		change func(*fixture)
		form   []string
		want   string
	}{
		"a sandbox becomes another kind": {[]string{"scripted"},
			func(w *fixture) { replace(w, "scripted", &gullible{}) }, []string{"outcome", "approve"},
			"method"},
		"a method is added": {[]string{"scripted"}, func(w *fixture) {
			v, err := w.Directory.ReadIntegration(ctx, testUUID)
			coretest.Must(t, err)
			v.Value.Methods = []string{"scripted", "bank"}
			coretest.Must(t, w.Directory.PutIntegration(ctx, v.Value, ""))
		}, []string{"outcome", "approve"}, "choose"},
		"a phone is no longer offered": {[]string{"bank"},
			func(w *fixture) { replace(w, "bank", &gullible{}) }, []string{"hand", "open"}, "method"},
		"a choice is removed": {[]string{"scripted", "bank"}, func(w *fixture) { delete(w.Methods, "bank") },
			[]string{"method", "bank"}, "method"},
	} {
		t.Run("contract 34: "+name, func(t *testing.T) {
			w, _, _ := bankFixture(t, c.offers...)
			w.provider.decision.Verdict = method.Approved
			b := w.browser(t)
			_, flow := w.flow(t, nil)
			page := b.open("/verify?" + here(flow))
			c.change(w)
			resp := b.submit(flow, page, c.form...)
			if resp.Status != 303 {
				t.Fatalf("%d", resp.Status)
			}
			page = b.open(resp.Header.Get("Location"))
			r := (&pkFixture{fixture: w, t: t}).record(flow)
			if kind(page) != c.want || r.Terminal() || r.Attempts != 0 {
				t.Errorf("a %s page; the record is %+v", kind(page), r)
			}
		})
	}
}

func TestMethod_Request(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	i, err := w.Directory.Integration(ctx, testUUID)
	coretest.Must(t, err)
	changed := *i
	changed.MinimumAge, changed.Attempts = 16, 1
	coretest.Must(t, w.Directory.PutIntegration(ctx, changed, ""))
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	b.leaves(flow)
	if bank.told.MinimumAge != 16 || bank.told.ChallengeAge != 25 || bank.told.Level != "L1" ||
		bank.told.Language != "en" {
		t.Errorf("contract 32: %+v", bank.told)
	}
	bank.back.Verdict = method.AttemptFailed
	page := b.open(b.open(returnURL("1")).Header.Get("Location"))
	if kind(page) != "failed" {
		t.Errorf("contract 32: the only attempt of this integration failed, and the page is %s", kind(page))
	}
}

func TestLeave_InvalidAddress(t *testing.T) {
	for _, to := range []method.Leave{
		{URL: "http://bank.example/", Handle: handleOf("1")},
		{URL: "javascript:alert(1)", Handle: handleOf("1")},
		{URL: `https://bank.example/"`, Handle: handleOf("1")},
		{URL: "https://bank.example/" + strings.Repeat("x", 2048), Handle: handleOf("1")},
		{URL: bankURL, Handle: "short"},
		{URL: "", Handle: handleOf("1")},
	} {
		w, _, _ := bankFixture(t, "bank")
		w.provider.decision = method.Decision{Verdict: method.Pending, Leave: &to}
		w.Methods = w.Host.Opened(testhost.Catalog(testhost.Kind("bank", w.provider, false)))
		_, flow := w.flow(t, nil)
		b := w.browser(t)
		resp := b.submit(flow, b.open("/verify?"+here(flow)), "outcome", "approve")
		if resp.Status != 503 || resp.Header.Has("Set-Cookie") {
			t.Errorf("%.60s: %d", to.URL, resp.Status)
		}
	}
}

func TestMethod_Metrics(t *testing.T) {
	w := newFixture(t)
	var events []string
	w.Host.Observer = testhost.Observer{OnMeasure: func(m host.Measurement) {
		events = append(events, strings.Trim(m.Method+" "+m.Event+" "+m.Reason, " "))
	}}
	bank := &bank{}
	w.Methods = w.Host.Opened(testhost.Catalog(testhost.Kind("scripted", w.provider, true),
		testhost.Kind("bank", bank, false)))
	coretest.Must(t, w.Directory.PutIntegration(ctx,
		integration.Integration{ID: testUUID, PublisherID: "pub_a",
			Level: "L1", ChallengeAge: 25, Method: "bank", Methods: []string{"bank", "scripted"},
			Webhook: integration.Webhook{Off: true}}, ""))
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	b.submit(flow, &web.Response{}, "method", "bank")
	bank.down = &host.FetchError{Reason: host.FetchTimeout, Err: errors.New("cause")}
	b.submit(flow, &web.Response{}, "method", "bank")
	b.leaves(flow)
	bank.err = &method.Rejection{Reason: "jwt_nonce"}
	b.open(returnURL("1"))
	bank.err = errors.New("cause")
	b.open(returnURL("1"))
	bank.err, bank.back = nil, method.Decision{Verdict: method.AttemptFailed, Reason: method.Below}
	b.open(returnURL("1"))
	page := b.open("/verify?" + here(flow) + "&method=scripted")
	w.provider.decision.Verdict = method.Rejected
	b.submit(flow, page, "outcome", "approve")
	want := []string{"bank begun", "bank unavailable timeout", "bank left",
		"bank returned", "bank refused jwt_nonce", "bank returned", "bank failed",
		"bank returned", "bank attempt_failed below"}
	if !slices.Equal(events, want) {
		t.Errorf("measured %q, want %q", events, want)
	}
}

// camera is a method that takes a picture.
type camera struct{ files [][]byte }

func (*camera) Begin(context.Context, method.Session) error { return nil }

func (*camera) Show(method.Session, []byte) method.View { return method.View{Camera: true} }

func (c *camera) Act(_ context.Context, _ method.Session, step method.Step) (method.Decision, error) {
	if string(step.File) != "picture" {
		return method.Decision{}, &steperror.File{Rule: steperror.Type}
	}
	c.files = append(c.files, step.File)
	return method.Decision{Verdict: method.Approved}, nil
}

// gullible is a method without a picture that approves every form.
type gullible struct{ bank }

func (*gullible) Act(context.Context, method.Session, method.Step) (method.Decision, error) {
	return method.Decision{Verdict: method.Approved}, nil
}

func TestPicture_Posted(t *testing.T) {
	const boundary = "----x"
	body := func(page *web.Response, flow, file string) string {
		var b strings.Builder
		part := func(name, more, value string) {
			fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=%q%s\r\n\r\n%s\r\n",
				boundary, name, more, value)
		}
		part("flow", "", flow)
		part("attempt", "", hidden(page, "attempt"))
		part("provider", "", hidden(page, "provider"))
		part("image", "; filename=\"a.jpg\"\r\nContent-Type: image/jpeg", file)
		return b.String() + "--" + boundary + "--\r\n"
	}
	for _, c := range []struct {
		rule, contentType, file string
		status                  int
		kind, says              string
		method                  method.Method // nil: the camera
	}{
		{"a picture that can be used", "", "picture", 303, "", "", nil},
		{"no picture", "", "", 400, "method", "must be a JPEG file", nil},
		{"what is no picture", "", "GIF89a", 400, "method", "must be a JPEG file", nil},
		{"a picture that is too large", "", strings.Repeat("x", method.MaxFile+1), 413, "photo_too_large",
			"at most 1 MB", nil},
		{"a form that is not of files", "application/x-www-form-urlencoded", "picture", 415, "not_a_form", "",
			nil},
		{"a boundary that is not there", "multipart/form-data; boundary=y", "picture", 400, "damaged", "",
			nil},
		{"a picture for a method that takes none", "", "picture", 303, "", "", &gullible{}},
	} {
		t.Run("contract 37: "+c.rule, func(t *testing.T) {
			w, cam := newFixture(t), &camera{}
			var m method.Method = cam
			if c.method != nil {
				m = c.method
			}
			w.Methods = w.Host.Opened(testhost.Catalog(testhost.Kind("scripted", m, false)))
			_, flow := w.flow(t, nil)
			b := w.browser(t)
			page := b.open("/verify?" + here(flow))
			if policy := page.Header.Get("Content-Security-Policy"); c.method == nil &&
				(!strings.Contains(policy, "script-src 'self'") ||
					!strings.Contains(page.Header.Get("Permissions-Policy"), "camera=(self)")) {
				t.Errorf("the page cannot use the camera: %s", policy)
			}
			contentType := cmp.Or(c.contentType, "multipart/form-data; boundary="+boundary)
			resp := w.ActFile(ctx, call(&web.Request{Method: "POST", Path: FilePath,
				Header: web.Header{"Content-Type": {contentType}}, Body: []byte(body(page, flow, c.file))}))
			if resp.Status != c.status || len(cam.files) == 1 != (c.status == 303 && c.method == nil) {
				t.Errorf("%d, and %d pictures were checked", resp.Status, len(cam.files))
			}
			if c.kind != "" && (kind(resp) != c.kind || !bytes.Contains(resp.Body, []byte(c.says))) {
				t.Errorf("a %s page that does not contain %q", kind(resp), c.says)
			}
		})
	}
}

// The page of the camera still shows the failure when the link is opened again.
func TestCamera_OpenedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		step method.Method
		last session.Step
		want bool
	}{
		"contract 37: no response":  {&camera{}, session.Step{Result: metric.MethodUnavailable}, true},
		"contract 37: a bad one":    {&camera{}, session.Step{Result: metric.MethodFailed}, true},
		"contract 23: cancelled":    {&camera{}, session.Step{Result: metric.MethodCancelled}, false},
		"contract 35: not a camera": {&bank{}, session.Step{Result: metric.MethodUnavailable}, false},
		"contract 33: another method": {&camera{}, session.Step{Result: metric.MethodUnavailable,
			Method: "bank"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Methods = w.Host.Opened(testhost.Catalog(testhost.Kind("scripted", c.step, false)))
			id, flow := w.flow(t, nil)
			text, err := id.Format(w.Hosted.Sealer)
			coretest.Must(t, err)
			c.last.Method = cmp.Or(c.last.Method, "scripted")
			w.Lifecycle.Ended(ctx, lifecycle.Session{ID: id, Text: text,
				Integration: &integration.Integration{ID: testUUID}}, "", c.last, nil)
			page := w.get(here(flow))
			shows := bytes.Contains(page.Body, []byte("did not respond"))
			if page.Status != 200 || shows != c.want {
				t.Errorf("%d, shows the failure: %v", page.Status, shows)
			}
		})
	}
}

// If a step's provider fails, there is no verdict. The user sees the method's page with the reason, and can
// choose another one.
func TestStep_ProviderFails(t *testing.T) {
	w, _, _ := bankFixture(t, "bank", "second")
	w.Methods = w.Host.Opened(testhost.Catalog(testhost.Kind("bank", w.provider, false),
		testhost.Kind("second", &bank{}, false)))
	_, flow := w.flow(t, nil)
	b := w.browser(t)
	page := b.open("/verify?" + here(flow) + "&method=bank")
	w.provider.err = errors.New("status 500")
	resp := b.submit(flow, page, "outcome", "approve")
	for _, want := range []string{"The other service did not respond", "Choose another way"} {
		if resp.Status != 503 || kind(resp) != "method" || !bytes.Contains(resp.Body, []byte(want)) {
			t.Errorf("contract 37: %d, a %s page that does not contain %q", resp.Status, kind(resp), want)
		}
	}
	if resp.Header.Get("Retry-After") == "" || w.commits != 1 ||
		strings.Contains(w.Logged.String(), "level=ERROR") {
		t.Errorf("it is our own fault in the log, or %d commits were made: %s", w.commits, &w.Logged)
	}
	w.provider.err, w.provider.decision.Verdict = nil, method.Approved
	if again := b.submit(flow, resp, "outcome", "approve"); again.Status != 303 {
		t.Errorf("the same form again: %d", again.Status)
	}
}

// A user who goes back to the page that has left sees the method's page (contract 34).
func TestLeavePage_ShownOnce(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	b.leaves(flow)
	at := "/verify?" + here(flow) + "&errand=" + handleOf("1")
	resp := b.open(at)
	if resp.Status != 303 || strings.Contains(resp.Header.Get("Location"), "errand") {
		t.Fatalf("shown again: %d to %s", resp.Status, resp.Header.Get("Location"))
	}
	if page := b.open(resp.Header.Get("Location")); kind(page) != "method" {
		t.Errorf("it leads to a %s page", kind(page))
	}
	clear(b.left)
	if page := b.open(at); kind(page) != "leaving" {
		t.Errorf("a browser that has not left gets a %s page (%d)", kind(page), page.Status)
	}
	for _, tab := range []string{"2", "3", "4"} { // only the three newest requests are kept
		w.Clock.Advance(time.Second)
		b.leaves(flow, tabField, tab)
	}
	if len(b.left) != 3 || b.left["__Host-verge-"+handleOf("1")+leftMark] != "" {
		t.Errorf("the browser keeps the marks %v", slices.Sorted(maps.Keys(b.left)))
	}
	bank.back.Verdict = method.Approved
	if resp := b.open(returnURL("4")); resp.Status != 303 || bank.returned != 1 {
		t.Errorf("the return: %d", resp.Status)
	}
}

// The button of a method has the title in the user's language (contract 31).
func TestChoosePage_TitleByLanguage(t *testing.T) {
	w, _, _ := bankFixture(t, "bank", "second")
	catalog := testhost.Catalog(testhost.Kind("bank", w.provider, false),
		testhost.Kind("second", &bank{}, false))
	catalog[0].Titles = map[string]string{"en": "Bank ID", "de": "Bankausweis"}
	w.Methods = w.Host.Opened(catalog)
	_, flow := w.flow(t, nil)
	claims, _, err := token.OpenFlow(w.Hosted.Sealer, flow)
	coretest.Must(t, err)
	for lang, want := range map[string]string{"de": "Bankausweis", "fr": "Bank ID", "en": "Bank ID"} {
		claims.Language = lang
		flow, err = token.SealFlow(w.Hosted.Sealer, claims)
		coretest.Must(t, err)
		if page := w.browser(t).open("/verify?" + here(flow)); !bytes.Contains(page.Body, []byte(want)) {
			t.Errorf("contract 31: the %s page in %s does not contain %q", kind(page), lang, want)
		}
	}
}

// A browser that completes late in the session gets its result as long as the result token is valid.
func TestCookie_LivesAsLongAsResult(t *testing.T) {
	for _, openID := range []bool{false, true} {
		w, bank, _ := bankFixture(t, "bank")
		_, flow := w.flow(t, nil)
		if openID {
			_, flow = w.openIDFlow(t)
		}
		b := w.browser(t)
		w.Clock.Advance(session.Life - time.Minute)
		b.leaves(flow)
		bank.back = method.Decision{Verdict: method.Approved}
		w.Clock.Advance(30 * time.Second)
		b.open(web.ReturnPath + "bank?code=c&state=" + handleOf("1"))
		for _, later := range []time.Duration{0, 35 * time.Second, 4 * time.Minute} {
			w.Clock.Advance(later)
			if page := b.open("/verify?" + here(flow)); kind(page) != "completed" || hop(t, page) == nil {
				t.Errorf("contract 17: OpenID %v: the page is %s after %v", openID, kind(page), later)
			}
		}
	}
}
