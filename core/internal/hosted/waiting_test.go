package hosted

import (
	"net/url"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// head sends HEAD to an address, with the cookies of the browser.
func (a *asked) head(address string) *web.Response {
	a.t.Helper()
	u, err := url.Parse(address)
	coretest.Must(a.t, err)
	return a.Show(ctx, call(&web.Request{Method: "HEAD", Path: u.Path, Query: u.RawQuery,
		Header: a.header()}))
}

func TestHead_CollectsNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(a *asked) (waits string)
		end     session.State
	}{
		{"contract 5: a wallet's response", func(a *asked) string {
			a.answered("mint", false)
			return a.wait
		}, session.Completed},
		{"contract 5: a wallet's no", func(a *asked) string {
			a.answered("no", false)
			return a.wait
		}, session.Failed},
		{"contract 5: a phone's verdict", func(a *asked) string {
			phone, waits := a.phone()
			phone.brings(a, "mint")
			return waits
		}, session.Completed},
		{"contract 5: a phone's no, at the session's link", func(a *asked) string {
			phone, _ := a.phone()
			phone.brings(a, "no")
			return "/verify?" + here(a.flow)
		}, session.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newPostFixture(t).begins()
			waits := c.prepare(a)
			before := a.w.record(a.flow)
			if resp := a.head(waits); resp.Status != 200 {
				t.Errorf("HEAD: %d", resp.Status)
			}
			if after := a.w.record(a.flow); after.State != before.State ||
				after.Response != before.Response ||
				after.HandOff != before.HandOff {
				t.Fatalf("HEAD changes the session from %+v to %+v", before, after)
			}
			a.goes(waits)
			if r := a.w.record(a.flow); r.State != c.end {
				t.Errorf("GET after it: the session is %s, want %s", r.State, c.end)
			}
		})
	}
}

// Settings can make the request of a wallet longer than any QR code. The other ways to respond remain.
func TestWaiting_LongCode(t *testing.T) {
	for _, c := range []struct {
		length int
		shown  bool
	}{{method.MaxCode, true}, {method.MaxCode + 1, false}} {
		w := newPostFixture(t)
		w.letters.code = strings.Repeat("a", c.length)
		a := w.begins()
		page := string(a.open(a.wait).Body)
		if strings.Contains(page, "data-qr") != c.shown ||
			!strings.Contains(page, `data-wallet href="post://a"`) ||
			!strings.Contains(page, "data-hand") {
			t.Errorf("contract 39: a code of %d bytes: %s", c.length, page)
		}
	}
}

// The page of a form whose instance ended logs the step once, for any form.
func TestAsked_Interrupted(t *testing.T) {
	w := newPostFixture(t)
	a := &asked{w.browser(t), w, w.session(session.L2, 25), ""}
	page := a.open("/verify?" + here(a.flow))
	claims, _, err := token.OpenFlow(w.Hosted.Sealer, a.flow)
	coretest.Must(t, err)
	id, err := session.ParseID(w.Hosted.Sealer, claims.Session)
	coretest.Must(t, err)
	_, err = w.Lifecycle.Claim(ctx, lifecycle.Session{ID: id, Text: claims.Session,
		Integration: &integration.Integration{ID: testUUID}}, lifecycle.Asking{}, claimLife)
	coretest.Must(t, err)
	w.Clock.Advance(claimLife)
	waits := "/verify?" + here(a.flow) + "&show=asked&method=post&provider=" +
		url.QueryEscape(hidden(page, "provider"))
	for n, load := range []func(string) *web.Response{a.head, a.open, a.open} {
		load(waits)
		if lines := strings.Count(w.Logged.String(), "reason=interrupted"); lines != min(n, 1) {
			t.Errorf("contract 48: load %d leaves %d lines", n, lines)
		}
	}
	if steps := w.record(a.flow).Steps.All(); len(steps) != 1 || steps[0].Method != "post" {
		t.Errorf("contract 48: the record has the steps %+v", steps)
	}
}

// The page that waits for another request of its form shows the reason of that request's failed attempt.
func TestAsked_AttemptFailed(t *testing.T) {
	for _, c := range []struct {
		rule, method string
		attempts     int // failed, the last one for its reason
		shown        bool
	}{
		{"contract 37: the attempt of the form", "post", 1, true},
		{"contract 37: an attempt by another method", "scripted", 1, false},
		{"contract 37: a later attempt", "post", 2, false},
	} {
		w := newPostFixture(t)
		a := &asked{w.browser(t), w, w.session(session.L2, 25), ""}
		page := a.open("/verify?" + here(a.flow))
		claims, _, err := token.OpenFlow(w.Hosted.Sealer, a.flow)
		coretest.Must(t, err)
		id, err := session.ParseID(w.Hosted.Sealer, claims.Session)
		coretest.Must(t, err)
		for n := range c.attempts {
			_, err = w.Lifecycle.Fire(ctx, lifecycle.Session{ID: id, Text: claims.Session,
				Integration: &integration.Integration{ID: testUUID}}, lifecycle.Step{
				Trigger: session.AttemptFailed, Attempt: n, Entry: session.Step{At: w.Clock.Now(),
					Method: c.method, Result: metric.MethodAttemptFailed, Reason: string(method.NoFace)}})
			coretest.Must(t, err)
		}
		got := a.open("/verify?" + here(a.flow) + "&show=asked&method=post&provider=" +
			url.QueryEscape(hidden(page, "provider")))
		if got.Status != 200 || strings.Contains(string(got.Body), "The photo shows no face") != c.shown {
			t.Errorf("%s: %d %s", c.rule, got.Status, got.Body)
		}
	}
}

// A browser leaves once, and HEAD does not count as leaving.
func TestHead_OfLeavingPage(t *testing.T) {
	w, _, _ := bankFixture(t, "bank")
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	page := b.open("/verify?" + here(flow))
	leaves := b.submit(flow, page, "outcome", "begin", tabField, "1").Header.Get("Location")
	a := &asked{b, nil, flow, ""}
	if resp := a.head(leaves); resp.Status != 200 || len(resp.Header["Set-Cookie"]) != 0 {
		t.Errorf("contract 5: HEAD: %d %q", resp.Status, resp.Header["Set-Cookie"])
	}
	if resp := b.open(leaves); len(resp.Header["Set-Cookie"]) != 1 {
		t.Errorf("contract 34: GET: %d %q", resp.Status, resp.Header["Set-Cookie"])
	}
}

// A pending response ends with its method, even if the integration offers the method again later.
func TestPendingResponse_MethodNoLongerOffered(t *testing.T) {
	for _, same := range []bool{false, true} {
		w := newPostFixture(t)
		a := w.begins()
		a.answered("mint", same)
		w.asks(func(i *integration.Integration) { i.Method, i.Methods = "scripted", nil })
		page := a.goes(a.wait)
		if !strings.Contains(string(page.Body), "Please do this step again") ||
			!strings.Contains(w.Logged.String(), "reason=outdated") || w.record(a.flow).Response != "" {
			t.Errorf("contract 34: the page is %s\n%s", page.Body, w.Logged.String())
		}
		w.asks(func(*integration.Integration) {})
		if page := a.goes(a.wait); hop(t, page) != nil || w.record(a.flow).State == session.Completed {
			t.Errorf("contract 34: the old response counts: %s", kind(page))
		}
	}
}

// The limit of a response depends on the methods (contract 56), and the error names it.
func TestReceive_TooLarge(t *testing.T) {
	a := newPostFixture(t).begins()
	handle, _ := session.ParsePendingHandle(a.w.record(a.flow).Response)
	c := call(&web.Request{Method: "POST", Header: web.Header{}, Body: make([]byte, 1<<20+1)})
	c.Route.MaxBody = 1 << 20
	_, err := a.Receive(ctx, c, handle, false)
	if e := router.AsError(err); e.Code != web.PayloadTooLarge || e.Message != router.LargerThan(1<<20) {
		t.Errorf("contract 5, 413: %+v", e)
	}
}
