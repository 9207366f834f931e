package conformance_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
)

func flowOf(t testing.TB, redirectURL string) string {
	t.Helper()
	u, err := url.Parse(redirectURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("flow")
}

// providerToken brings a session to where it waits for its provider, and returns
// the token of that page.
func providerToken(t testing.TB, h *testharness.Harness) (s testharness.Started, text string) {
	t.Helper()
	s = h.Start(body{"external_user_id": "sandbox:slow"})
	text = h.Open(s.RedirectURL).Submit("approve").Form("check").Fields.Get("provider")
	if text == "" {
		t.Fatal("no provider token on the page that waits")
	}
	return s, text
}

// call asks the core without the server, for tests that ask very often.
func call(h *testharness.Harness, method, path, query, key string, body []byte) *web.Response {
	req := &web.Request{Method: method, Path: path, Query: query, Body: body, Header: web.Header{},
		Client: netip.MustParseAddr("192.0.2.1")}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return h.Engine.Handle(context.Background(), req)
}

func validateBody(token string) []byte { return []byte(`{"result_token":"` + token + `"}`) }

// Contract 15: every kind of token at every place where another belongs.
func TestTokenKinds(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	started := h.Start(nil)
	result := h.Approve(h.Start(nil)).ResultToken
	waiting, provider := providerToken(t, h)
	flow := flowOf(t, started.RedirectURL)
	rename := func(s, from, to string) string { return to + strings.TrimPrefix(s, from) }
	kinds := map[string]string{
		"flow":           flow,
		"provider":       provider,
		"result":         result,
		"session id":     started.SessionID,
		"secret key":     h.Publisher.SecretKey,
		"public key":     h.Publisher.L1.PublicKey,
		"webhook secret": h.Publisher.L1.WebhookSecret,
	}
	for name, text := range kinds {
		if name != "result" {
			for _, text := range []string{text, rename(text, text[:strings.LastIndex(text[:10], "_")+1],
				"svc_rt_")} {
				t.Run("contract 15: "+name+" at validate",
					func(t *testing.T) { wantError(t, h.Validate(text), 400, "INVALID_TOKEN") })
			}
		}
		if name != "flow" {
			for _, text := range []string{text, rename(text, text[:strings.LastIndex(text[:10], "_")+1],
				"svc_ft_")} {
				t.Run("contract 15: "+name+" at the hosted flow", func(t *testing.T) {
					if p := h.Open(h.BaseURL + web.HostedPath + "?flow=" + text); p.Status != 400 ||
						p.Kind != "damaged" {
						t.Errorf("the page is %d %s, want 400 damaged", p.Status, p.Kind)
					}
				})
			}
		}
		if name != "session id" {
			t.Run("contract 14: "+name+" at reconcile",
				func(t *testing.T) {
					wantError(t, h.Reconcile(strings.ReplaceAll(text, "/", "%2F")), 400, "INVALID_REQUEST")
				})
		}
		if name != "provider" {
			for _, text := range []string{text, rename(text, text[:strings.LastIndex(text[:10], "_")+1],
				"svc_pt_")} {
				t.Run("contract 15: "+name+" as provider state", func(t *testing.T) {
					form := url.Values{"flow": {flowOf(t, waiting.RedirectURL)}, "outcome": {"check"},
						"provider": {text}}
					r := h.Do("POST", web.HostedPath, headers("Content-Type",
						"application/x-www-form-urlencoded"), []byte(form.Encode()))
					if r.Status != 400 {
						t.Errorf("answered %d, want 400", r.Status)
					}
				})
			}
		}
		if name != "secret key" {
			t.Run("contract 15: "+name+" as secret key", func(t *testing.T) {
				r := h.ValidateAs(testharness.Bearer(text), result)
				if r.Status != 401 && !(name == "public key" && r.Status == 403) {
					t.Errorf("answered %d %s, want 401", r.Status, r.Body)
				}
			})
		}
		if name != "public key" {
			t.Run("contract 15: "+name+" as public key", func(t *testing.T) {
				wantError(t, start(h, nil, string(h.StartBody(body{"public_key": text}))), 401,
					"UNAUTHORIZED")
			})
		}
	}
	t.Run("contract 15: a provider token belongs to its session", func(t *testing.T) {
		form := url.Values{"flow": {flow}, "outcome": {"check"}, "provider": {provider}}
		h.Advance(10 * time.Second)
		r := h.Do("POST", web.HostedPath, headers("Content-Type", "application/x-www-form-urlencoded"),
			[]byte(form.Encode()))
		wantStatus(t, r, 400)
		if status := h.Reconcile(started.SessionID).JSON()["status"]; status != "PENDING" {
			t.Errorf("another session's provider token made it %v", status)
		}
	})
	t.Run("contract 15: after these requests the result token is still valid, once", func(t *testing.T) {
		wantStatus(t, h.Validate(result), 200)
		wantError(t, h.Validate(result), 409, "ALREADY_USED")
	})
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Contract 15: a token that differs in any bit from the issued one is rejected, and all rejections are
// identical.
func TestToken_ChangedBits(t *testing.T) {
	h := newHarness(t, &opts{KV: inMemory, Configure: unlimited})
	s := h.Start(body{"state": "s", "external_user_id": "u"})
	result := h.Approve(s).ResultToken
	flow := flowOf(t, h.Start(nil).RedirectURL)

	// mutants flips every bit of the sealed bytes. It also spells the text in every
	// other way that a lenient decoder might accept.
	mutants := func(text string) []string {
		prefix := text[:strings.LastIndex(text[:10], "_")+1]
		raw, err := base64.RawURLEncoding.DecodeString(text[len(prefix):])
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for i := range raw {
			for bit := range 8 {
				changed := slices.Clone(raw)
				changed[i] ^= 1 << bit
				out = append(out, prefix+base64.RawURLEncoding.EncodeToString(changed))
			}
		}
		for i := range text {
			out = append(out, text[:i]+flip(text[i])+text[i+1:], text[:i]+text[i+1:], text[:i]+"A"+text[i:])
		}
		tail := strings.IndexByte(base64url, text[len(text)-1])
		if len(raw)%3 != 0 { // the last character has bits that mean nothing
			out = append(out, text[:len(text)-1]+string(base64url[tail^1]))
		}
		return append(out, text+"=", text+"==", text+"A", text+" ", " "+text, text+"\\n",
			text[:len(text)/2]+"\\n"+text[len(text)/2:],
			strings.ToUpper(text), strings.ReplaceAll(strings.ReplaceAll(text, "-", "+"), "_", "/"),
			text+text, "",
			prefix)
	}
	one := func(t *testing.T, name string, answers map[string]int) {
		t.Helper()
		if len(answers) != 1 {
			for a, n := range answers {
				t.Logf("%d times: %.600s", n, a)
			}
			t.Errorf("%s: %d different answers, want 1", name, len(answers))
		}
	}
	see := func(answers map[string]int, r *web.Response, status int) {
		resp := &testharness.Response{Status: r.Status, Header: map[string][]string(r.Header), Body: r.Body}
		answers[visible(resp)]++
		if r.Status != status {
			t.Errorf("status %d: %s", r.Status, r.Body)
		}
	}
	t.Run("contract 15: result token", func(t *testing.T) {
		answers := map[string]int{}
		for _, m := range mutants(result) {
			if m != result {
				see(answers, call(h, "POST", web.ValidatePath, "", h.Publisher.SecretKey, validateBody(m)),
					400)
			}
		}
		one(t, "validate", answers)
		wantStatus(t, h.Validate(result), 200)
	})
	t.Run("contract 24: flow token", func(t *testing.T) {
		answers := map[string]int{}
		for _, m := range mutants(flow) {
			if m != flow && !strings.Contains(m, "\\n") {
				see(answers, call(h, "GET", web.HostedPath, "flow="+url.QueryEscape(m), "", nil), 400)
			}
		}
		one(t, "hosted page", answers)
	})
	t.Run("contract 14: session id", func(t *testing.T) {
		malformed, forged := map[string]int{}, map[string]int{}
		for _, m := range mutants(s.SessionID) {
			if m == s.SessionID || m == "" || strings.Contains(m, "/") {
				continue // the very id, or another path
			}
			r := call(h, "GET", web.SessionsPath+m, "", h.Publisher.SecretKey, nil)
			if r.Status == 404 {
				see(forged, r, 404)
			} else {
				see(malformed, r, 400)
			}
		}
		one(t, "reconcile, malformed", malformed)
		one(t, "reconcile, forged", forged)
		if n := slices.Collect(mapsValues(forged)); len(n) == 1 && n[0] < 59*8 {
			t.Errorf("only %d of 472 flipped bits were reported as forged", n[0])
		}
	})
}

func mapsValues(m map[string]int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// Contract 15: 100,000 random mutations of good tokens, none accepted.
func TestMutatedTokens(t *testing.T) {
	h := newHarness(t, &opts{KV: inMemory, Configure: unlimited})
	count := long.Pick(t, "TestMutatedTokens", 10_000, 100_000)
	a, b := h.Approve(h.Start(nil)).ResultToken, h.Approve(h.Start(nil)).ResultToken
	flow := flowOf(t, h.Start(nil).RedirectURL)
	rnd := rand.New(rand.NewPCG(1, 2))
	mutate := func(s string) string {
		out := []byte(s)
		for range 1 + rnd.IntN(3) {
			i := len("svc_rt_") + rnd.IntN(len(out)-len("svc_rt_"))
			switch rnd.IntN(5) {
			case 0, 1:
				out[i] = base64url[rnd.IntN(64)]
			case 2:
				out = slices.Delete(out, i, i+1)
			case 3:
				out = slices.Insert(out, i, base64url[rnd.IntN(64)])
			case 4: // splice another token in
				other := []string{b, flow}[rnd.IntN(2)]
				if i < len(other) {
					out = append(out[:i:i], other[i:]...)
				}
			}
		}
		return string(out)
	}
	for n := range count {
		m := mutate(a)
		if m == a || m == b {
			continue
		}
		if r := call(h, "POST", web.ValidatePath, "", h.Publisher.SecretKey,
			validateBody(m)); r.Status != 400 {
			t.Fatalf("contract 15: mutation %d got %d: %s", n, r.Status, r.Body)
		}
	}
	wantStatus(t, h.Validate(a), 200)
	wantStatus(t, h.Validate(b), 200)
}

func TestResultIdentity(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	s := h.Start(nil)
	page := h.Open(s.RedirectURL)
	first := page.Submit("approve").Callback
	h.Advance(time.Minute)
	hop := h.Open(s.RedirectURL)
	if hop.Kind != "completed" {
		t.Fatalf("the hop shows %q", hop.Kind)
	}
	second := hop.Callback
	third := page.Submit("approve").Callback // the back button and a second click
	const title = "contract 17: a reloaded hop gives a token of the same session that validates, once"
	t.Run(title, func(t *testing.T) {
		if first.SessionID != second.SessionID || second.SessionID != third.SessionID {
			t.Error("different sessions")
		}
		wantStatus(t, h.Validate(second.ResultToken), 200)
		for _, b := range []*testharness.Return{first, second, third} {
			wantError(t, h.Validate(b.ResultToken), 409, "ALREADY_USED")
		}
	})
	t.Run("contract 24: a link whose token was used shows this", func(t *testing.T) {
		if p := h.Open(s.RedirectURL); p.Kind != "used" || p.Status != 409 {
			t.Errorf("the page is %d %s, want 409 used", p.Status, p.Kind)
		}
	})
	t.Run("contract 17: the 5 minutes run from completion, not from the reload", func(t *testing.T) {
		s := h.Start(nil)
		completed := h.Now()
		h.Approve(s)
		h.AdvanceTo(completed.Add(5*time.Minute - time.Millisecond))
		late := h.Open(s.RedirectURL).Callback
		h.AdvanceTo(completed.Add(5 * time.Minute))
		wantError(t, h.Validate(late.ResultToken), 410, "EXPIRED")
		if p := h.Open(s.RedirectURL); p.Kind != "expired" {
			t.Errorf("the hop shows %q after the token's life", p.Kind)
		}
	})
}

func TestExactExpiry(t *testing.T) {
	ms := time.Millisecond
	t.Run("spec: a result token one millisecond before its 5 minutes", func(t *testing.T) {
		h := newHarness(t, nil)
		back := h.Approve(h.Start(nil))
		h.Advance(5*time.Minute - ms)
		wantStatus(t, h.Validate(back.ResultToken), 200)
	})
	t.Run("spec: a result token at its 5 minutes", func(t *testing.T) {
		h := newHarness(t, nil)
		back := h.Approve(h.Start(nil))
		h.Advance(5 * time.Minute)
		wantError(t, h.Validate(back.ResultToken), 410, "EXPIRED")
	})
	t.Run("spec: a session one millisecond before its 10 minutes", func(t *testing.T) {
		h := newHarness(t, nil)
		s := h.Start(nil)
		h.Advance(10*time.Minute - ms)
		p := h.Open(s.RedirectURL)
		if p.Kind != "method" {
			t.Errorf("the page is %q, want method", p.Kind)
		}
		if status := h.Reconcile(s.SessionID).JSON()["status"]; status != "PENDING" {
			t.Errorf("the session is %v, want PENDING", status)
		}
		back := p.Submit("approve").Callback
		if back == nil {
			t.Fatal("the session was not approved")
		}
		h.Advance(ms)
		wantStatus(t, h.Validate(back.ResultToken), 200)
		if types := h.Sink.Types(s.SessionID); slices.Contains(types, "verification.expired") {
			t.Errorf("a completed session has sent %v", types)
		}
	})
	for _, timer := range []struct {
		name string
		move func(*testharness.Harness, time.Duration)
	}{
		{"with its timer", (*testharness.Harness).Advance},
		{"before its timer has fired", (*testharness.Harness).Pause},
	} {
		t.Run("contract 20: a session at its 10 minutes, "+timer.name, func(t *testing.T) {
			h := newHarness(t, nil)
			s := h.Start(nil)
			page := h.Open(s.RedirectURL)
			timer.move(h, 10*time.Minute)
			m := h.Reconcile(s.SessionID).JSON()
			if m["status"] != "EXPIRED" || m["failure_code"] != "TIMEOUT" ||
				m["completed_at"] != s.ExpiresAt {
				t.Errorf("the session is not EXPIRED at its end: %v", m)
			}
			if p := h.Open(s.RedirectURL); p.Kind != "expired" || p.Status != 410 {
				t.Errorf("the page is %d %s, want 410 expired", p.Status, p.Kind)
			}
			for _, outcome := range []string{"approve", "reject", "cancel", "fail_attempt"} {
				if p := page.Submit(outcome); p.Callback != nil || p.Kind != "expired" {
					t.Errorf("contract 18: a late %s leads to %+v", outcome, p)
				}
			}
			h.Advance(time.Minute)
			want := []string{"verification.started", "verification.expired"}
			if types := h.Sink.Types(s.SessionID); !slices.Equal(types, want) {
				t.Errorf("events %v", types)
			}
			if m2 := h.Reconcile(s.SessionID).JSON(); m2["status"] != "EXPIRED" ||
				m2["completed_at"] != s.ExpiresAt {
				t.Errorf("the session is no longer EXPIRED as it was: %v", m2)
			}
		})
	}
}

func TestLateAnswers(t *testing.T) {
	final := map[string]string{"approve": "COMPLETED", "reject": "FAILED", "withdraw": "FAILED",
		"unknown": "FAILED"}
	for first, status := range final {
		t.Run("contract 18: after "+first+" the state no longer changes", func(t *testing.T) {
			h := newHarness(t, &opts{Configure: unlimited})
			s := h.Start(nil)
			page := h.Open(s.RedirectURL)
			page.Submit(first)
			before := h.Reconcile(s.SessionID)
			h.Advance(time.Second)
			for _, late := range []string{"approve", "reject", "fail_attempt", "withdraw", "unknown",
				"cancel"} {
				p := page.Submit(late) // with the older flow token and page
				if (p.Callback != nil) != (first == "approve") {
					t.Errorf("a late %s leads to %+v", late, p.Callback)
				}
			}
			after := h.Reconcile(s.SessionID)
			if string(before.Body) != string(after.Body) || after.JSON()["status"] != status {
				t.Errorf("the outcome has changed:\n%s\n%s", before.Body, after.Body)
			}
			h.Advance(time.Hour)
			if types := h.Sink.Types(s.SessionID); len(types) != 2 {
				t.Errorf("events %v", types)
			}
			const late = `verge_events_total{event="late_answer_ignored"} `
			if m := h.Metrics(); !strings.Contains(m, late) || strings.Contains(m, late+"0") {
				t.Errorf("contract 18: late answers are not counted")
			}
		})
	}
	t.Run("contract 18: an older flow token gives no attempts back", func(t *testing.T) {
		h := newHarness(t, nil)
		s := h.Start(nil)
		for range 3 {
			h.Open(s.RedirectURL).Submit("fail_attempt") // always with the first flow token
		}
		if m := h.Reconcile(s.SessionID).JSON(); m["failure_code"] != "MAX_ATTEMPTS" {
			t.Errorf("reconcile does not return MAX_ATTEMPTS: %v", m)
		}
	})
}

// Contract 17: of 64 concurrent exchanges of one result, one gets 200.
func TestSingleUse(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	for range 5 {
		s := h.Start(nil)
		first := h.Approve(s)
		again := h.Open(s.RedirectURL).Callback
		codes := make([]string, 64)
		var wg sync.WaitGroup
		for n := range codes {
			wg.Go(func() {
				r := h.Validate([]string{first.ResultToken, again.ResultToken}[n%2])
				codes[n] = r.Code()
			})
		}
		wg.Wait()
		won, unknown := 0, 0
		for _, c := range codes {
			switch c {
			case "":
				won++
			case "UNAVAILABLE": // on a busy machine a commit can take longer than its request may
				unknown++
			case "ALREADY_USED":
			default:
				t.Errorf("an answer was %s", c)
			}
		}
		if won != 1 && (won > 1 || unknown == 0) {
			t.Errorf("%d of 64 responses were 200, and %d were 503", won, unknown)
		}
		wantError(t, h.Validate(first.ResultToken), 409, "ALREADY_USED")
	}
}

// Two browsers, or completion and expiry, finish one session concurrently.
func TestRaces(t *testing.T) {
	rounds := long.Pick(t, "TestRaces", 10, 60)
	terminal := func(types []string) (n int) {
		for _, typ := range types {
			if typ != "verification.started" {
				n++
			}
		}
		return n
	}
	t.Run("contract 18: concurrent approve and reject", func(t *testing.T) {
		h := newHarness(t, &opts{Configure: unlimited})
		won := map[string]int{}
		for range rounds {
			s := h.Start(nil)
			a, b := h.Open(s.RedirectURL), h.Open(s.RedirectURL)
			var approved, rejected *testharness.Page
			var wg sync.WaitGroup
			wg.Go(func() { approved = a.Submit("approve") })
			wg.Go(func() { rejected = b.Submit("reject") })
			wg.Wait()
			h.Advance(time.Second)
			status := h.Reconcile(s.SessionID).Text("status")
			won[status]++
			completed := status == "COMPLETED"
			if (approved.Callback != nil) != completed || (rejected.Callback != nil) != completed {
				t.Errorf("%s, but the browsers show another outcome", status)
			}
			types := h.Sink.Types(s.SessionID)
			want := "verification." + strings.ToLower(status)
			if terminal(types) != 1 || !slices.Contains(types, want) {
				t.Errorf("%s, events %v", status, types)
			}
		}
		t.Log(won)
	})
	t.Run("contract 18: concurrent completion and expiry", func(t *testing.T) {
		h := newHarness(t, &opts{Configure: unlimited})
		for range rounds {
			s := h.Start(nil)
			page := h.Open(s.RedirectURL)
			h.Advance(10*time.Minute - time.Millisecond)
			var p *testharness.Page
			var wg sync.WaitGroup
			wg.Go(func() { p = page.Submit("approve") })
			wg.Go(func() { h.Advance(time.Millisecond) })
			wg.Wait()
			h.Settle()
			status := h.Reconcile(s.SessionID).Text("status")
			if (p.Callback != nil) != (status == "COMPLETED") {
				t.Errorf("%s, but the browser shows another outcome", status)
			}
			types := h.Sink.Types(s.SessionID)
			want := "verification." + strings.ToLower(status)
			if terminal(types) != 1 || !slices.Contains(types, want) {
				t.Errorf("%s, events %v", status, types)
			}
		}
	})
	t.Run("contract 23: one form posted concurrently counts once", func(t *testing.T) {
		h := newHarness(t, &opts{Configure: unlimited})
		for range rounds / 2 {
			s := h.Start(nil)
			page := h.Open(s.RedirectURL)
			for attempt := 1; attempt <= 3; attempt++ {
				pages := make([]*testharness.Page, 3)
				var wg sync.WaitGroup
				for n := range pages {
					wg.Go(func() { pages[n] = page.Submit("fail_attempt") })
				}
				wg.Wait()
				want := "PENDING"
				if attempt == 3 {
					want = "FAILED"
				}
				if m := h.Reconcile(s.SessionID).JSON(); m["status"] != want {
					t.Fatalf("after attempt %d: %v", attempt, m)
				}
				for _, p := range pages {
					if left := fmt.Sprintf("%d attempt", 3-attempt); attempt < 3 &&
						!strings.Contains(string(p.Body), left) {
						t.Errorf("a page does not show that %s are left", left)
					}
				}
				page = pages[0]
			}
		}
	})
}

func TestKeyRing(t *testing.T) {
	old := newHarness(t, nil)
	pending, done := old.Start(nil), old.Approve(old.Start(nil))
	ring := old.Keyring
	ring.Keys = slices.Clone(ring.Keys)
	if err := ring.Rotate(cryptoRand, old.Now(), 0); err != nil {
		t.Fatal(err)
	}
	next := newHarness(t, &opts{KV: sharing(old), Keyring: ring, Configure: unlimited})
	next.Advance(keyset.Settle) // after this, the new key is active
	old.Pause(keyset.Settle)
	open := func(h *testharness.Harness, redirectURL string) *testharness.Page {
		return h.Open(h.BaseURL + web.HostedPath + "?flow=" + flowOf(t, redirectURL))
	}
	t.Run("contract 16: rotation never invalidates a live session or token", func(t *testing.T) {
		if p := open(next, pending.RedirectURL); p.Kind != "method" {
			t.Errorf("the page is %s, want method", p.Kind)
		}
		wantStatus(t, next.Reconcile(pending.SessionID), 200)
		wantStatus(t, next.Validate(done.ResultToken), 200)
	})
	const awaited = "contract 16: the new key is active, and an instance without it rejects none permanently"
	t.Run(awaited, func(t *testing.T) {
		s := next.Start(nil)
		if p := open(old, s.RedirectURL); p.Status != 503 {
			t.Errorf("a service that waits for the new key shows %d %q", p.Status, p.Kind)
		}
		wantError(t, old.Reconcile(s.SessionID), 503, "UNAVAILABLE")
	})
	const title = "contract 16: retiring is rejected while the key's data can be valid, unless forced"
	t.Run(title, func(t *testing.T) {
		id := ring.Keys[1].ID
		if err := ring.Retire(id, old.Now().Add(time.Hour), 30*24*time.Hour, false); err == nil {
			t.Error("the key was retired, want a refusal")
		}
		forced := ring
		forced.Keys = slices.Clone(ring.Keys)
		if err := forced.Retire(id, old.Now().Add(time.Hour), 30*24*time.Hour, true); err != nil {
			t.Error(err)
		}
		if err := ring.Retire(id, old.Now().Add(31*24*time.Hour), 30*24*time.Hour, false); err != nil {
			t.Error(err)
		}
		without := newHarness(t, &opts{KV: sharing(old), Keyring: ring})
		wantError(t, without.Reconcile(pending.SessionID), 404, "NOT_FOUND")
	})
}

// Contract 14: an id can be read without the store.
func TestSessionID(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	t.Run("contract 14: ids of one instant do not resemble each other", func(t *testing.T) {
		seen := map[string]bool{}
		for range 200 {
			id := h.Start(nil).SessionID
			if seen[id] {
				t.Fatal("the same id twice")
			}
			seen[id] = true
		}
	})
	const title = "contract 15: a token sealed for another host name, by the same keys, is none here"
	t.Run(title, func(t *testing.T) {
		ring, err := h.Keyring.Ring("staging.example", cryptoRand, h.Now)
		if err != nil {
			t.Fatal(err)
		}
		result, err := sessiontest.Forger{Sealer: ring}.Result(h.Start(nil).SessionID, h.Now(), "")
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, h.Validate(result), 400, "INVALID_TOKEN")
	})
}

// The longest redirect_url that a publisher can cause, and an ordinary one.
func TestURLLengths(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	longest := func(prefix string, n int) string { return prefix + strings.Repeat("a", n-len(prefix)) }
	for _, c := range []struct {
		name  string
		start body
		below int
	}{
		{"an ordinary one", body{"callback_url": "https://www.shop.example/checkout/age/return?order=104711",
			"state": "4f1c2d9a7b3e4c5f8a6b1d2e3f4a5b6c", "external_user_id": "customer-104711",
			"language": "de"}, 800},
		{"the longest", body{"callback_url": longest("https://shop.example/", 2048),
			"state": longest("s", 1024), "external_user_id": longest("u", 256), "language": "de"}, 8 * 1024},
		{"the longest, in bytes that JSON escapes",
			body{"callback_url": longest("https://shop.example/?&&&&", 2048),
				"state": strings.Repeat("<", 1024), "external_user_id": strings.Repeat("\"", 256),
				"language": "de"}, 8 * 1024},
		{"the longest, in Unicode", body{"callback_url": longest("https://shop.example/", 2048),
			"state":            strings.Repeat("\u2028", 341),
			"external_user_id": strings.Repeat("🦊", 64), "language": "de"}, 8 * 1024},
	} {
		t.Run("contract 15: redirect_url, "+c.name, func(t *testing.T) {
			s := h.Start(c.start)
			t.Logf("redirect_url of %d bytes", len(s.RedirectURL))
			if len(s.RedirectURL) >= c.below {
				t.Errorf("%d bytes, want less than %d", len(s.RedirectURL), c.below)
			}
			// The whole walk must work with it, including a step token in the URL.
			back := h.Approve(s)
			if back.State != c.start["state"] {
				t.Errorf("state came back otherwise")
			}
			wantStatus(t, h.Validate(back.ResultToken), 200)
		})
	}
	t.Run("contract 15: the longest flow with a provider token still fits a server's 8 KiB",
		func(t *testing.T) {
			s := h.Start(body{"callback_url": longest("https://shop.example/", 2048),
				"state": longest("s", 1024), "external_user_id": "sandbox:slow"})
			p := h.Open(s.RedirectURL).Submit("approve")
			if p.Kind != "progress" || len(p.URL) >= 8*1024 {
				t.Errorf("%s, %d bytes", p.Kind, len(p.URL))
			}
		})
}
