package conformance_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
)

func containsFold(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

// snapshot returns the state that a GET must not change: the store, and the sent events.
func snapshot(t testing.TB, h *testharness.Harness) string {
	t.Helper()
	next := h.Settle()
	return strings.Join(slices.Collect(everything(t, h)), "\n") + fmt.Sprint(next, len(h.Sink.Deliveries()))
}

// stages brings sessions to every page of the flow.
func stages(t testing.TB, h *testharness.Harness) map[string]*testharness.Page {
	t.Helper()
	page := func(change body, outcomes ...string) *testharness.Page {
		p := h.Open(h.Start(change).RedirectURL)
		for _, o := range outcomes {
			p = p.Submit(o)
		}
		return p
	}
	completed := h.Start(nil)
	h.Approve(completed)
	used := h.Start(nil)
	h.Validate(h.Approve(used).ResultToken)
	return map[string]*testharness.Page{
		"method":    page(nil),
		"attempt":   page(nil, "fail_attempt"),
		"cancelled": page(nil, "cancel"),
		"progress":  page(body{"external_user_id": "sandbox:slow"}, "approve"),
		"failed":    page(nil, "reject"),
		"completed": h.Open(completed.RedirectURL),
		"used":      h.Open(used.RedirectURL),
		"damaged":   h.Open(h.BaseURL + web.HostedPath + "?flow=svc_ft_AAAA"),
		"L2":        page(body{"integration_id": h.Publisher.L2.ID}),
	}
}

func TestGETShows(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	pages := stages(t, h)
	before := snapshot(t, h)
	fetched := map[string]bool{}
	for name, p := range pages {
		title := "contract 22: " + name + ", its links and altered addresses, three times"
		t.Run(title, func(t *testing.T) {
			targets := []string{p.URL}
			for _, more := range []string{"&show=cancelled", "&show=attempt", "&show=x", "&outcome=approve",
				"&outcome=reject",
				"&provider=svc_pt_x", "&continue=1"} {
				targets = append(targets, p.URL+more)
			}
			for _, link := range p.Links {
				if strings.HasPrefix(link, "/") {
					targets = append(targets, link)
				}
			}
			for _, f := range p.Forms { // a scanner may send every form as a GET
				targets = append(targets, f.Action+"?"+f.Fields.Encode())
			}
			for _, target := range targets {
				for range 3 {
					r := h.Do("GET", target, nil, nil)
					if r.Header.Get("Location") != "" {
						t.Errorf("GET %s redirects", target)
					}
					h.Do("HEAD", target, nil, nil)
				}
				fetched[target] = true
			}
		})
	}
	if after := snapshot(t, h); after != before {
		t.Errorf("contract 22: GET has changed something:\n%s\n%s", before, after)
	}
	if len(fetched) < 60 {
		t.Errorf("only %d addresses were asked for", len(fetched))
	}
	t.Run("contract 22: reloading each page shows the same page", func(t *testing.T) {
		for name, p := range pages {
			if again := p.Reload(); again.Kind != p.Kind || again.Status != p.Status {
				t.Errorf("%s: %s %d became %s %d", name, p.Kind, p.Status, again.Kind, again.Status)
			}
		}
	})
}

func TestPageHeaders(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	check := func(t *testing.T, name string, header http.Header) {
		t.Helper()
		csp := header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'",
			"style-src 'self'", "form-action 'self';"} {
			if !strings.Contains(csp, want) {
				t.Errorf("contract 22: %s: policy %q lacks %q", name, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "script-src") ||
			strings.Contains(csp, "*") {
			t.Errorf("contract 22: %s: policy %q", name, csp)
		}
		referrer := "same-origin"
		if name == "completed" {
			referrer = "no-referrer"
		}
		for key, want := range map[string]string{"X-Frame-Options": "DENY",
			"X-Content-Type-Options": "nosniff",
			"Referrer-Policy":        referrer, "Cross-Origin-Opener-Policy": "same-origin",
			"Cache-Control": "no-store"} {
			if got := header.Get(key); got != want {
				t.Errorf("contract 22: %s: %s is %q, want %q", name, key, got, want)
			}
		}
		if !strings.Contains(header.Get("Strict-Transport-Security"), "max-age=") {
			t.Errorf("contract 22: %s: no HSTS", name)
		}
		if len(header["Set-Cookie"]) > 0 {
			t.Errorf("contract 22: %s sets a cookie", name)
		}
	}
	for name, p := range stages(t, h) {
		t.Run("contract 22: "+name, func(t *testing.T) {
			check(t, name, p.Header)
			text := string(p.Body)
			for _, bad := range []string{"<script", "onclick", "onload", "style=", "<iframe", "javascript:"} {
				if containsFold(text, bad) {
					t.Errorf("contract 22: the page has %s", bad)
				}
			}
			completed := name == "completed"
			if (p.Callback != nil) != completed || containsFold(text, "<meta http-equiv") != completed {
				t.Errorf("contract 22: the page goes on to %+v", p.Callback)
			}
			for _, link := range p.Links {
				if p.Callback != nil && link == p.Callback.URL {
					continue
				}
				if !strings.HasPrefix(link, "/") && link != "https://shop.example" {
					t.Errorf("contract 22, 24: a link to %s", link)
				}
			}
			linked := slices.Contains(p.Links, "https://shop.example")
			if want := name != "damaged" && !completed; linked != want {
				t.Errorf("contract 24: link to the plain origin: want %v, links %v", want, p.Links)
			}
			for _, f := range p.Forms {
				if f.Method != "POST" || f.Action != web.HostedPath {
					t.Errorf("contract 22: form %+v", f)
				}
			}
		})
	}
	t.Run("contract 22: the POST returns 303, to our page that continues to the callback",
		func(t *testing.T) {
			s := h.Start(nil)
			r := h.Open(s.RedirectURL).Post("approve")
			wantStatus(t, r, 303)
			check(t, "the 303", r.Header)
			if to := r.Header.Get("Location"); len(r.Body) != 0 || h.BaseURL+to != s.RedirectURL {
				t.Errorf("want an empty body and a redirect to the flow: %q, to %s", r.Body, to)
			}
			p := h.Open(s.RedirectURL)
			callback := testharness.Callback + "?result_token="
			if p.Status != 200 || p.Callback == nil || !strings.HasPrefix(p.Callback.URL, callback) {
				t.Fatalf("the page is %d and does not hop to the callback: %+v", p.Status, p.Callback)
			}
			refresh := `<meta http-equiv="refresh" content="0;url=` + html.EscapeString(p.Callback.URL) + `">`
			if !strings.Contains(string(p.Body), refresh) {
				t.Errorf("the page does not continue automatically: %s", p.Body)
			}
		})
	for _, callback := range []string{
		"https://shop.example:8443/return", "https://[2001:db8::1]/return", "https://my_shop.example/return",
	} {
		t.Run("contract 22: a page does not reveal its next address: "+callback, func(t *testing.T) {
			s := h.Start(body{"callback_url": callback})
			p := h.Open(s.RedirectURL)
			check(t, "method", p.Header)
			back := p.Submit("approve").Callback
			if back == nil || !strings.HasPrefix(back.URL, callback+"?result_token=") {
				t.Errorf("the page does not hop to the callback: %+v", back)
			}
		})
	}
}

// TestPeopleGetPages asks for paths that do not exist, as people and as programs.
func TestPeopleGetPages(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct {
		method, path, kind string
		status             int
	}{
		{"GET", "/", "home", 200},
		{"GET", "/nowhere", "not_found", 404},
		{"GET", "/verify/", "not_found", 404},
		{"GET", "/verify/x?flow=svc_ft_AAAA", "not_found", 404},
		{"POST", "/docs", "refused", 405},
		{"PUT", "/verify", "refused", 405},
	} {
		t.Run("contract 22: a person sees no JSON: "+c.method+" "+c.path, func(t *testing.T) {
			r := h.Do(c.method, c.path, headers("Accept", browser, "Accept-Language", "es",
				"X-Correlation-Id", "c-1"), nil)
			wantStatus(t, r, c.status)
			text := string(r.Body)
			if !strings.Contains(text, `data-page="`+c.kind+`"`) ||
				!strings.Contains(text, `<html lang="es">`) ||
				r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s: %s", r.Header.Get("Content-Type"), text)
			}
			if r.Header.Get("X-Request-Id") == "" || r.Header.Get("X-Correlation-Id") != "c-1" ||
				(r.Header.Get("Allow") != "") != (c.status == 405) {
				t.Errorf("contract 4, 5: %v", r.Header)
			}
			policy := r.Header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "default-src 'none'") ||
				r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("contract 22: %v", r.Header)
			}
		})
		t.Run("contract 5: a program gets JSON: "+c.method+" "+c.path, func(t *testing.T) {
			status, code := c.status, "NOT_FOUND"
			switch c.status {
			case 405:
				code = "METHOD_NOT_ALLOWED"
			case 200:
				status = 404
			}
			wantError(t, h.Do(c.method, c.path, headers("Accept", "*/*"), nil), status, code)
		})
	}
	t.Run("contract 22: never on the API", func(t *testing.T) {
		wantError(t, h.Do("GET", "/api/v1/nowhere", headers("Accept", browser), nil), 404, "NOT_FOUND")
		wantError(t, h.Do("GET", web.StartPath, headers("Accept", browser), nil), 405, "METHOD_NOT_ALLOWED")
		wantError(t, h.Do("POST", web.ValidatePath, headers("Accept", browser), nil), 401, "UNAUTHORIZED")
	})
	t.Run("contract 22: browsers find an icon", func(t *testing.T) {
		r := h.Do("GET", "/favicon.ico", nil, nil)
		wantStatus(t, r, 200)
		if r.Header.Get("Content-Type") != "image/x-icon" || len(r.Body) < 100 {
			t.Errorf("%s, %d bytes", r.Header.Get("Content-Type"), len(r.Body))
		}
	})
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, h *testharness.Harness)
	}{
		{"contract 23: cancel leaves the session started, and the page offers to retry", cancelAndRetry},
		{"spec: cancelled and not resumed, it expires", cancelAndLeave},
		{"spec: abandoned without any click, it expires", abandon},
		{"contract 23: after a failed attempt another can succeed", failAndSucceed},
		{"contract 5: initiation fails", failAtInitiation},
		{"spec: a slow provider", waitForTheProvider},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newHarness(t, nil)) })
	}
	for outcome, code := range map[string]string{
		"reject": "PROVIDER_REJECTED", "withdraw": "USER_CANCELLED", "unknown": "UNKNOWN",
	} {
		t.Run("contract 23: "+outcome+" is "+code+" at once", func(t *testing.T) {
			h := newHarness(t, nil)
			s := h.Start(nil)
			p := h.Open(s.RedirectURL).Submit(outcome)
			if p.Kind != "failed" || p.Callback != nil || len(p.Forms) != 0 {
				t.Errorf("the page is %s with the forms %v, want failed and no form", p.Kind, p.Forms)
			}
			if m := h.Reconcile(s.SessionID).JSON(); m["failure_code"] != code {
				t.Errorf("reconcile has another failure_code: %v", m)
			}
		})
	}
	for _, c := range []struct {
		name      string
		configure func(*core.Config)
		attempts  int
	}{
		{"contract 23: the third failed attempt is MAX_ATTEMPTS", nil, 3},
		{"contract 23: or the configured number", func(c *core.Config) { c.Attempts = 5 }, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			failEveryAttempt(t, newHarness(t, &opts{Configure: c.configure}), c.attempts)
		})
	}
}

func wantTypes(t testing.TB, h *testharness.Harness, session string, want ...string) {
	t.Helper()
	if types := h.Sink.Types(session); !slices.Equal(types, want) {
		t.Errorf("spec: the events are %v, want %v", types, want)
	}
}

func cancelAndRetry(t *testing.T, h *testharness.Harness) {
	s := h.Start(nil)
	h.Advance(time.Second)
	p := h.Open(s.RedirectURL).Submit("cancel")
	if p.Kind != "cancelled" || p.Status != 200 {
		t.Fatalf("the page is %d %s, want 200 cancelled", p.Status, p.Kind)
	}
	h.Settle()
	wantTypes(t, h, s.SessionID, "verification.started") // and no terminal one
	retry := ""
	for _, link := range p.Links {
		if strings.HasPrefix(link, web.HostedPath) {
			retry = link
		}
	}
	again := h.Open(h.BaseURL + retry)
	if again.Kind != "method" {
		t.Fatalf("the retry leads to %q", again.Kind)
	}
	h.Advance(time.Second)
	back := again.Submit("approve").Callback
	wantStatus(t, h.Validate(back.ResultToken), 200)
	h.Settle()
	wantTypes(t, h, s.SessionID, "verification.started", "verification.completed")
}

func cancelAndLeave(t *testing.T, h *testharness.Harness) {
	s := h.Start(nil)
	h.Open(s.RedirectURL).Submit("cancel").Reload()
	h.Advance(10 * time.Minute)
	wantTypes(t, h, s.SessionID, "verification.started", "verification.expired")
	if p := h.Open(s.RedirectURL); p.Kind != "expired" {
		t.Errorf("the page is %s, want expired", p.Kind)
	}
}

func abandon(t *testing.T, h *testharness.Harness) {
	s := h.Start(nil)
	h.Advance(10*time.Minute - time.Millisecond)
	wantTypes(t, h, s.SessionID, "verification.started")
	h.Advance(time.Millisecond)
	wantTypes(t, h, s.SessionID, "verification.started", "verification.expired")
}

func failAndSucceed(t *testing.T, h *testharness.Harness) {
	p := h.Open(h.Start(nil).RedirectURL).Submit("fail_attempt").Submit("fail_attempt")
	wantStatus(t, h.Validate(p.Submit("approve").Callback.ResultToken), 200)
}

func failAtInitiation(t *testing.T, h *testharness.Harness) {
	r := h.TryStart(body{"external_user_id": "sandbox:init_error", "state": "s"})
	wantError(t, r, 502, "PROVIDER_UNAVAILABLE")
	id := r.Text("session_id")
	m := h.Reconcile(id).JSON()
	if m["status"] != "FAILED" || m["failure_code"] != "UNKNOWN" ||
		m["completed_at"] != "2026-11-20T22:10:00.000Z" {
		t.Errorf("reconcile says %v", m)
	}
	h.Advance(time.Hour)
	types := h.Sink.Types(id)
	slices.Sort(types)
	if !slices.Equal(types, []string{"verification.failed", "verification.started"}) {
		t.Errorf("the events are %v", types)
	}
}

func waitForTheProvider(t *testing.T, h *testharness.Harness) {
	s := h.Start(body{"external_user_id": "sandbox:slow"})
	p := h.Open(s.RedirectURL).Submit("approve")
	if p.Kind != "progress" || len(p.Forms) != 1 {
		t.Fatalf("the page is %s with the forms %v, want progress and one form", p.Kind, p.Forms)
	}
	if again := p.Submit("check"); again.Kind != "progress" {
		t.Errorf("too early: %s", again.Kind)
	}
	if m := h.Reconcile(s.SessionID).JSON(); m["status"] != "PENDING" {
		t.Errorf("reconcile does not return PENDING: %v", m)
	}
	h.Advance(3 * time.Second)
	if again := p.Reload(); again.Kind != "progress" {
		t.Errorf("contract 22: looking at it has changed it: %s", again.Kind)
	}
	back := p.Submit("check").Callback
	if back == nil {
		t.Fatal("the session was not approved")
	}
	wantStatus(t, h.Validate(back.ResultToken), 200)
}

// failEveryAttempt fails until no attempt is left. The page shows the number of attempts left.
func failEveryAttempt(t *testing.T, h *testharness.Harness, attempts int) {
	s := h.Start(nil)
	p := h.Open(s.RedirectURL)
	for n := 1; n < attempts; n++ {
		if p = p.Submit("fail_attempt"); p.Kind != "method" {
			t.Fatalf("after attempt %d: %s", n, p.Kind)
		}
		left := fmt.Sprintf("%d attempts left", attempts-n)
		if attempts-n == 1 {
			left = "1 attempt left"
		}
		if !strings.Contains(string(p.Body), left) {
			t.Errorf("after attempt %d the page lacks %q", n, left)
		}
	}
	if p = p.Submit("fail_attempt"); p.Kind != "failed" {
		t.Errorf("after the last: %s", p.Kind)
	}
	if m := h.Reconcile(s.SessionID).JSON(); m["failure_code"] != "MAX_ATTEMPTS" {
		t.Errorf("reconcile does not return MAX_ATTEMPTS: %v", m)
	}
}

func TestClicks(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	one := func(t *testing.T, s testharness.Started, typ string) {
		t.Helper()
		h.Advance(time.Second)
		if types := h.Sink.Types(s.SessionID); !slices.Equal(types, []string{"verification.started", typ}) {
			t.Errorf("events %v", types)
		}
	}
	for outcome, typ := range map[string]string{
		"approve": "verification.completed", "reject": "verification.failed",
	} {
		t.Run("contract 22: a double click on "+outcome, func(t *testing.T) {
			s := h.Start(nil)
			h.Advance(time.Second)
			p := h.Open(s.RedirectURL)
			answers := make([]*testharness.Response, 8)
			var wg sync.WaitGroup
			for n := range answers {
				wg.Go(func() { answers[n] = p.Post(outcome) })
			}
			wg.Wait()
			for _, r := range answers {
				if r.Status != 303 || h.BaseURL+r.Header.Get("Location") != s.RedirectURL {
					t.Errorf("answered %d, redirected to %s; want 303 and the flow", r.Status,
						r.Header.Get("Location"))
				}
			}
			if now := p.Reload(); (now.Callback != nil) != (outcome == "approve") {
				t.Errorf("they lead to %s", now.Kind)
			}
			one(t, s, typ)
		})
	}
	t.Run("contract 22: back button after the end, then another button", func(t *testing.T) {
		s := h.Start(nil)
		h.Advance(time.Second)
		p := h.Open(s.RedirectURL)
		p.Submit("reject")
		if again := p.Submit("approve"); again.Callback != nil || again.Kind != "failed" {
			t.Errorf("a rejected session can still be approved: %+v", again)
		}
		one(t, s, "verification.failed")
	})
	t.Run("contract 23: a double click on a failed attempt costs one", func(t *testing.T) {
		s := h.Start(nil)
		p := h.Open(s.RedirectURL)
		for range 4 {
			next := p.Submit("fail_attempt")
			if next.Kind != "method" || !strings.Contains(string(next.Body), "2 attempts left") {
				t.Errorf("want the method page with 2 attempts left:\n%s", next.Body)
			}
		}
		if m := h.Reconcile(s.SessionID).JSON(); m["status"] != "PENDING" {
			t.Errorf("reconcile does not return PENDING: %v", m)
		}
	})
	for _, outcome := range []string{"approve", "reject", "withdraw", "unknown", "cancel"} {
		t.Run("contract 23: back button after a failed attempt, then "+outcome, func(t *testing.T) {
			s := h.Start(nil)
			p := h.Open(s.RedirectURL)
			p.Submit("fail_attempt")
			next := p.Submit(outcome)
			if next.Kind != "method" || !strings.Contains(string(next.Body), "2 attempts left") {
				t.Errorf("the form of an earlier attempt leads to %s", next.Kind)
			}
			if m := h.Reconcile(s.SessionID).JSON(); m["status"] != "PENDING" {
				t.Errorf("the form of an earlier attempt is evaluated: %v", m)
			}
		})
	}
	t.Run("contract 24: a form on a used link shows that it was used, and worked", func(t *testing.T) {
		s := h.Start(nil)
		p := h.Open(s.RedirectURL)
		wantStatus(t, h.Validate(p.Submit("approve").Callback.ResultToken), 200)
		for range 2 {
			next := p.Submit("approve")
			if next.Kind != "used" || next.Status != 409 || next.Callback != nil ||
				!strings.Contains(string(next.Body), "It worked") {
				t.Errorf("the page is %d %s and hops to %+v, want 409 used and no hop",
					next.Status, next.Kind, next.Callback)
			}
			h.Advance(6 * time.Minute)
		}
	})
}

func TestForeignPosts(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	s := h.Start(nil)
	form := h.Open(s.RedirectURL).Form("cancel").Fields.Encode()
	approve := h.Open(s.RedirectURL).Form("approve").Fields.Encode()
	const formType = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		name   string
		header http.Header
		body   string
		status int
	}{
		{"contract 22: from our own page", headers("Content-Type", formType, "Sec-Fetch-Site", "same-origin",
			"Origin", h.BaseURL), form, 303},
		{"contract 22: from an old browser", headers("Content-Type", formType), form, 303},
		{"contract 22: from another site", headers("Content-Type", formType, "Sec-Fetch-Site", "cross-site"),
			approve, 403},
		{"contract 22: from a sibling", headers("Content-Type", formType, "Sec-Fetch-Site", "same-site"),
			approve, 403},
		{"contract 22: from another site in an old browser",
			headers("Content-Type", formType, "Origin", "https://evil.example"), approve, 403},
		{"contract 22: as JSON", headers("Content-Type", "application/json"), `{}`, 415},
		{"contract 22: as text", headers("Content-Type", "text/plain"), approve, 415},
		{"contract 22: too large", headers("Content-Type", formType),
			approve + "&x=" + strings.Repeat("a", 17000), 413},
		{"contract 22: not a form", headers("Content-Type", formType), "flow=%zz", 400},
		{"contract 22: without a flow token", headers("Content-Type", formType), "outcome=approve", 400},
		{"contract 22: with two flow tokens, the first of another kind", headers("Content-Type", formType),
			"flow=x&" + approve, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantStatus(t, h.Do("POST", web.HostedPath, c.header, []byte(c.body)),
				c.status)
		})
	}
	t.Run("contract 22: an outcome that the page does not offer is ignored", func(t *testing.T) {
		f, _ := url.ParseQuery(approve)
		for _, outcome := range []string{"", "APPROVE", "completed", "approve ", "check"} {
			f.Set("outcome", outcome)
			r := h.Do("POST", web.HostedPath, headers("Content-Type", formType), []byte(f.Encode()))
			if to := r.Header.Get("Location"); r.Status != 303 || !strings.HasSuffix(to, "&show=outdated") {
				t.Errorf("%q: %d to %s", outcome, r.Status, to)
			}
		}
	})
	if m := h.Reconcile(s.SessionID).JSON(); m["status"] != "PENDING" {
		t.Errorf("contract 22: after these requests the session is %v", m)
	}
}

func TestPageLanguage(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	for _, c := range []struct{ name, asked, accept, want string }{
		{"contract 10: the start's language", "de", "fr", "de"},
		{"contract 10: if absent, Accept-Language", "", "fr", "fr"},
		{"contract 10: by its weights", "", "nl, it;q=0.5, pt-BR;q=0.9, en;q=0.1", "pt"},
		{"contract 10: none that we have, then en", "", "nl,ja", "en"},
		{"contract 10: none at all, then en", "", "", "en"},
		{"contract 10: nonsense, then en", "", ";;q=,,=*", "en"},
	} {
		t.Run(c.name, func(t *testing.T) {
			change, header := body{}, http.Header{}
			if c.asked != "" {
				change["language"] = c.asked
			}
			if c.accept != "" {
				header.Set("Accept-Language", c.accept)
			}
			p := h.OpenWith(header, h.Start(change).RedirectURL)
			if p.Lang != c.want || p.Header.Get("Content-Language") != c.want {
				t.Errorf("the page is %q (%s), want %q", p.Lang, p.Header.Get("Content-Language"), c.want)
			}
			if next := p.Submit("cancel"); next.Lang != c.want {
				t.Errorf("the next page is %q", next.Lang)
			}
		})
	}
	t.Run("contract 10: every language speaks on every page", func(t *testing.T) {
		seen := map[string]string{}
		for _, lang := range []string{"en", "de", "es", "fr", "pt", "it"} {
			for _, outcome := range []string{"cancel", "reject", "withdraw", "unknown", "fail_attempt"} {
				p := h.Open(h.Start(body{"language": lang}).RedirectURL).Submit(outcome)
				text := string(p.Body)
				title := text[strings.Index(text, "<title>"):strings.Index(text, "</title>")]
				if other, twice := seen[title+outcome]; twice {
					t.Errorf("%s and %s have the same title on %s", lang, other, outcome)
				}
				seen[title+outcome] = lang
				if p.Lang != lang {
					t.Errorf("%s after %s is in %s", lang, outcome, p.Lang)
				}
			}
		}
	})
}

func TestEndedLinks(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	s := h.Start(body{"language": "de", "callback_url": "https://shop.example/return?order=7&session=secret"})
	used := h.Start(body{"language": "fr"})
	h.Validate(h.Approve(used).ResultToken)
	forgotten := h.Start(body{"language": "pt"})
	h.Approve(forgotten)
	h.Advance(10 * time.Minute)
	for _, c := range []struct {
		name, url, kind, lang string
		status                int
		link                  bool
	}{
		{"contract 24: expired", s.RedirectURL, "expired", "de", 410, true},
		{"contract 24: used", used.RedirectURL, "used", "fr", 409, true},
		{"contract 24: verified, but never fetched by the publisher",
			forgotten.RedirectURL, "expired", "pt", 410, true},
		{"contract 24: damaged", s.RedirectURL[:len(s.RedirectURL)-2], "damaged", "it", 400, false},
		{"contract 24: no token", h.BaseURL + web.HostedPath, "damaged", "it", 400, false},
		{"contract 24: an empty token", h.BaseURL + web.HostedPath + "?flow=", "damaged", "it", 400, false},
		{"contract 24: a malformed query", h.BaseURL + web.HostedPath + "?flow=%zz",
			"damaged", "it", 400, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := h.OpenWith(headers("Accept-Language", "it"), c.url)
			if p.Kind != c.kind || p.Status != c.status || p.Lang != c.lang || len(p.Forms) != 0 {
				t.Errorf("%d %s in %s, forms %v", p.Status, p.Kind, p.Lang, p.Forms)
			}
			if slices.Contains(p.Links, "https://shop.example") != c.link {
				t.Errorf("links %v", p.Links)
			}
			if strings.Contains(string(p.Body), "order=7") || strings.Contains(string(p.Body), "/return") {
				t.Error("the page holds the callback's path or parameters")
			}
		})
	}
}
