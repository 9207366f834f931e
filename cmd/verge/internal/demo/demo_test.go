package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/wallettest"
)

const (
	secretKey     = "svc_sk_for_tests"
	webhookSecret = "whsec_for_tests"
	l1            = "11111111-1111-4111-8111-111111111111"
	l2            = "22222222-2222-4222-8222-222222222222"
)

var offers = []Offer{{IntegrationID: l1, Title: "Estimate my age", Text: "Level L1"},
	{IntegrationID: l2, Title: "Check a document", Text: "Level L2"}}

// fakeVerge answers the three calls as the spec says, unless a test wants another answer.
type fakeVerge struct {
	*httptest.Server
	mu        sync.Mutex
	starts    []map[string]any
	validates []*http.Request
	reject    func(w http.ResponseWriter) // if set, answers every call
	facts     func(map[string]any)        // if set, changes the response of validate
}

func (v *fakeVerge) set(change func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change()
}

func newFakeVerge(t *testing.T) *fakeVerge {
	v := &fakeVerge{}
	v.Server = httptest.NewServer(v)
	t.Cleanup(v.Server.Close)
	return v
}

func (v *fakeVerge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if v.reject != nil {
		v.reject(w)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+secretKey || r.Header.Get("Origin") != "" {
		apiRejection(401, "UNAUTHORIZED")(w)
		return
	}
	var in map[string]any
	json.NewDecoder(r.Body).Decode(&in)
	var out map[string]any
	switch r.URL.Path {
	case "/api/v1/verify/start":
		v.starts = append(v.starts, in)
		out = map[string]any{
			"session_id": fmt.Sprintf("svc_sess_%d", len(v.starts)),
			// http.Redirect would change these addresses.
			"redirect_url": v.URL + "/v/../v?t=a%2Fb&u=%20x#é",
			"expires_at":   "2026-11-20T22:20:00.000Z",
		}
	case "/api/v1/verify/validate":
		v.validates = append(v.validates, r)
		out = map[string]any{
			"valid": true, "verified": true, "level": "L1", "challenge_age": 25,
			"session_id":     strings.TrimPrefix(in["result_token"].(string), "svc_rt_for_"),
			"integration_id": l1,
			"validated_at":   "2026-11-20T22:11:12.345Z",
		}
		if v.facts != nil {
			v.facts(out)
		}
	default:
		id := strings.TrimPrefix(r.URL.Path, "/api/v1/verify/sessions/")
		if !strings.HasPrefix(id, "svc_sess_") {
			apiRejection(404, "NOT_FOUND")(w)
			return
		}
		out = map[string]any{
			"session_id": id, "status": "FAILED", "verified": false,
			"failure_code": "MAX_ATTEMPTS", "failure_reason": "too many", "level": "L1", "challenge_age": 25,
			"completed_at": "2026-11-20T22:11:00.000Z", "expires_at": "2026-11-20T22:20:00.000Z",
			"result_available": false,
		}
	}
	json.NewEncoder(w).Encode(out)
}

func apiRejection(status int, code string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if status == 429 {
			w.Header().Set("Retry-After", "7")
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"code":%q,"error_code":%q,"error":"m <script>","message":"m","request_id":"req_1",`+
			`"details":[{"field":"language","code":"x","message":"unknown"}]}`, code, code)
	}
}

type visitor struct {
	*http.Client
	t    *testing.T
	site string
}

type fixture struct {
	*Site
	verge *fakeVerge
	URL   string
	t     *testing.T
}

var testNow = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)

func newFixture(t *testing.T) *fixture {
	verge := newFakeVerge(t)
	server := httptest.NewUnstartedServer(nil)
	demoURL := "http://" + server.Listener.Addr().String()
	site := New(Config{
		BaseURL: verge.URL, DemoURL: demoURL,
		SecretKey: secretKey, WebhookSecret: webhookSecret, Offers: offers,
		Counterparts: &Secrets{Bank: "bank secret", Camera: "camera-token",
			Issuer: wallettest.NewIssuer(wallettest.IssuerConfig{Now: testNow})},
		Now: func() time.Time { return testNow },
	})
	server.Config.Handler = site
	server.Config.RegisterOnShutdown(site.Close)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(site.Close)
	return &fixture{site, verge, demoURL, t}
}

func (f *fixture) visitor() *visitor {
	jar, _ := cookiejar.New(nil)
	return &visitor{&http.Client{
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, f.t, f.URL}
}

func (v *visitor) do(req *http.Request) (*http.Response, string) {
	v.t.Helper()
	resp, err := v.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp, string(body)
}

func (v *visitor) get(path string) (*http.Response, string) {
	v.t.Helper()
	req, err := http.NewRequest("GET", v.site+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.do(req)
}

func (v *visitor) post(path string, form url.Values) (*http.Response, string) {
	v.t.Helper()
	req, err := http.NewRequest("POST", v.site+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.do(req)
}

func (f *fixture) lastStart() map[string]any {
	f.verge.mu.Lock()
	defer f.verge.mu.Unlock()
	return f.verge.starts[len(f.verge.starts)-1]
}

func (f *fixture) validates() int {
	f.verge.mu.Lock()
	defer f.verge.mu.Unlock()
	return len(f.verge.validates)
}

// begin starts a verification and returns the query of the callback after a success.
func (f *fixture) begin(v *visitor, form url.Values) (sessionID string, callback url.Values) {
	f.t.Helper()
	if resp, body := v.post("/start", form); resp.StatusCode != 303 {
		f.t.Fatalf("start: %d %s", resp.StatusCode, body)
	}
	f.verge.mu.Lock()
	id := fmt.Sprintf("svc_sess_%d", len(f.verge.starts))
	f.verge.mu.Unlock()
	return id, url.Values{
		"session_id":   {id},
		"state":        {f.lastStart()["state"].(string)},
		"result_token": {"svc_rt_for_" + id},
	}
}

func TestStart(t *testing.T) {
	for _, tc := range []struct {
		rule string
		form url.Values
		want map[string]any // beside state and callback_url
	}{
		{"spec Start: nothing chosen", url.Values{}, map[string]any{"integration_id": l1}},
		{"spec Start: L2 is another integration",
			url.Values{"integration": {l2}, "language": {""}, "external_user_id": {""}},
			map[string]any{"integration_id": l2}},
		{"spec Start: language and user go along",
			url.Values{"integration": {l1}, "language": {"pt"}, "external_user_id": {"sandbox:init_error"}},
			map[string]any{"integration_id": l1, "language": "pt", "external_user_id": "sandbox:init_error"}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			f := newFixture(t)
			resp, _ := f.visitor().post("/start", tc.form)
			if resp.StatusCode != 303 {
				t.Fatalf("status %d, want 303", resp.StatusCode)
			}
			if got, want := resp.Header.Get("Location"), f.verge.URL+"/v/../v?t=a%2Fb&u=%20x#é"; got != want {
				t.Errorf("spec: redirect_url is used exactly as returned: %q, want %q", got, want)
			}
			got := f.lastStart()
			if state, _ := got["state"].(string); len(state) < 32 {
				t.Errorf("state %q is too short to be unguessable", state)
			}
			delete(got, "state")
			tc.want["callback_url"] = f.URL + "/callback"
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("sent %v, want %v", got, tc.want)
			}
			c := resp.Cookies()
			if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteLaxMode {
				t.Errorf("the cookie must be HttpOnly and SameSite=Lax: %v", c)
			}
		})
	}
}

// A visitor sees one button. The choices are for developers, and closed.
func TestShop_OneButton(t *testing.T) {
	f := newFixture(t)
	_, page := f.visitor().get("/")
	_, form, _ := strings.Cut(page, `<form method="post" action="/start">`)
	form, _, _ = strings.Cut(form, "</form>")
	_, closed, _ := strings.Cut(form, `<details class="more">`)
	closed, after, _ := strings.Cut(closed, "</details>")
	if n := strings.Count(form, "<button"); n != 1 || !strings.Contains(after, ">Verify my age</button>") {
		t.Errorf("%d buttons, want one after the options: %s", n, form)
	}
	if all := strings.Count(form, `name="integration"`); all != len(offers) ||
		strings.Count(closed, `name="integration"`) != all {
		t.Errorf("%d choices, want %d, all of them in the closed options: %s", all, len(offers), form)
	}
}

// The shop has the brand that Verge shows to its customers.
func TestShop_Brand(t *testing.T) {
	f := newFixture(t)
	v := f.visitor()
	if _, page := v.get("/"); !strings.Contains(page, `src="/static/mark.png"`) {
		t.Errorf("the shop does not show its logo: %s", page)
	}
	if _, logo := v.get("/static/mark.png"); logo != string(Logo()) {
		t.Error("contract 52: Verge shows another logo than the shop")
	}
	if _, css := v.get("/static/demo.css"); !strings.Contains(css, "--accent: light-dark("+Accent+",") {
		t.Errorf("contract 52: the shop has another accent than %s", Accent)
	}
}

func TestCallbackAccepts(t *testing.T) {
	f := newFixture(t)
	v := f.visitor()
	id, callback := f.begin(v, nil)
	for range 2 {
		resp, body := v.get("/callback?" + callback.Encode())
		if resp.StatusCode != 303 || resp.Header.Get("Location") != "/result" {
			t.Fatalf("callback: %d to %q: %s", resp.StatusCode, resp.Header.Get("Location"), body)
		}
	}
	for range 2 {
		resp, body := v.get("/result")
		for _, want := range []string{
			"Your age is verified", id, l1, "25", "L1",
			"2026-11-20T22:11:12.345Z", "2026-11-20T22:10:00.000Z",
		} {
			if !strings.Contains(body, want) {
				t.Errorf("the result page (%d) does not contain %q", resp.StatusCode, want)
			}
		}
	}
	if n := f.validates(); n != 1 {
		t.Errorf("validate was called %d times: reloading must not validate again", n)
	}
	if _, body := v.get("/"); !strings.Contains(body, "You can order") {
		t.Error("the shop does not recognise its verified customer")
	}
	if _, body := f.visitor().get("/"); strings.Contains(body, "You can order") {
		t.Error("the shop takes another browser for the verified customer")
	}

	v.post("/forget", nil)
	if _, body := v.get("/"); strings.Contains(body, "You can order") {
		t.Error("the shop still remembers a browser after /forget")
	}
	if resp, _ := v.get("/result"); resp.Header.Get("Location") != "/" {
		t.Error("the shop shows a result to a browser that it does not know")
	}
}

func TestCallbackRejects(t *testing.T) {
	type values = url.Values
	for _, tc := range []struct {
		rule    string
		alter   func(callback values)
		other   bool // in another browser
		facts   func(map[string]any)
		reject  func(http.ResponseWriter)
		status  int
		says    string
		noCalls bool
	}{
		{rule: "spec Authentication 7: another state", status: 400, says: "STATE_MISMATCH", noCalls: true,
			alter: func(c values) { c.Set("state", "x") }},
		{rule: "spec Authentication 7: no state", status: 400, says: "STATE_MISMATCH", noCalls: true,
			alter: func(c values) { c.Del("state") }},
		{rule: "spec Authentication 7: empty state", status: 400, says: "STATE_MISMATCH", noCalls: true,
			alter: func(c values) { c.Set("state", "") }},
		{rule: "spec Authentication 7: an unknown state", other: true,
			status: 400, says: "STATE_MISMATCH", noCalls: true},
		{rule: "spec Authentication 7: a session not started here",
			status: 400, says: "STATE_MISMATCH", noCalls: true,
			alter: func(c values) { c.Set("session_id", "svc_sess_9") }},
		{rule: "spec Authentication 7: no state matches no session",
			status: 400, says: "STATE_MISMATCH", noCalls: true,
			alter: func(c values) { c.Set("session_id", "svc_sess_9"); c.Set("state", "") }},
		{rule: "two states", status: 400, says: "once each", noCalls: true,
			alter: func(c values) { c.Add("state", "x") }},
		{rule: "no result token", status: 400, says: "once each", noCalls: true,
			alter: func(c values) { c.Del("result_token") }},
		{rule: "the facts are of another session", status: 502, says: "Nothing was granted",
			facts: func(f map[string]any) { f["session_id"] = "svc_sess_9" }},
		{rule: "the facts are of another integration", status: 502, says: "Nothing was granted",
			facts: func(f map[string]any) { f["integration_id"] = l2 }},
		{rule: "not verified", status: 502, says: "Nothing was granted",
			facts: func(f map[string]any) { f["verified"] = false }},
		{rule: "not valid", status: 502, says: "Nothing was granted",
			facts: func(f map[string]any) { f["valid"] = false }},
		{rule: "contract 5: ALREADY_USED", status: 409, says: "already used",
			reject: apiRejection(409, "ALREADY_USED")},
		{rule: "contract 5: EXPIRED", status: 410, says: "five minutes",
			reject: apiRejection(410, "EXPIRED")},
		{rule: "contract 5: INVALID_TOKEN", status: 400, says: "altered",
			reject: apiRejection(400, "INVALID_TOKEN")},
		{rule: "contract 5: UNAUTHORIZED is the shop's fault", status: 502, says: "secret key",
			reject: apiRejection(401, "UNAUTHORIZED")},
		{rule: "a response that is not JSON", status: 502, says: "not the expected JSON",
			reject: func(w http.ResponseWriter) { io.WriteString(w, "<html>") }},
		{rule: "a redirect is no answer", status: 502, says: "not from the API",
			reject: func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(302) }},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			f := newFixture(t)
			v := f.visitor()
			_, callback := f.begin(v, nil)
			if tc.alter != nil {
				tc.alter(callback)
			}
			f.verge.set(func() { f.verge.facts, f.verge.reject = tc.facts, tc.reject })
			if tc.other {
				v = f.visitor()
			}
			resp, body := v.get("/callback?" + callback.Encode())
			if resp.StatusCode != tc.status || !strings.Contains(body, tc.says) {
				t.Errorf("%d, want %d saying %q: %s", resp.StatusCode, tc.status, tc.says, body)
			}
			if tc.noCalls && f.validates() != 0 {
				t.Error("the token was consumed, but the state was wrong")
			}
			if strings.Contains(body, "svc_rt_") || strings.Contains(body, "m <script>") {
				t.Errorf("the page repeats text that it must not show: %s", body)
			}
			if _, body := v.get("/"); strings.Contains(body, "You can order") {
				t.Error("something was granted")
			}
		})
	}
}

// TestCallback_OwnCall returns from sessions that the shop did not start, and from its own session.
func TestCallback_OwnCall(t *testing.T) {
	f := newFixture(t)
	v := f.visitor()
	_, callback := f.begin(v, nil)
	const call = "/api/v1/verify/validate -H"
	callback.Set("state", "x")
	if _, body := v.get("/callback?" + callback.Encode()); strings.Contains(body, call) {
		t.Errorf("the shop's own session has another state: the page shows a call: %s", body)
	}
	callback.Set("session_id", "svc_sess_9")
	callback.Del("state")
	_, body := v.get("/callback?" + callback.Encode())
	for _, want := range []string{f.verge.URL + call, "Bearer $SECRET_KEY", "result_token"} {
		if !strings.Contains(body, want) {
			t.Errorf("a session by a call to the API: the page has no %s: %s", want, body)
		}
	}
	if f.validates() != 0 || strings.Contains(body, secretKey) {
		t.Error("the token was consumed, or the page has the secret key")
	}
}

// TestSite_Localhost opens the site as localhost. Its callback goes to 127.0.0.1, where cookies of localhost
// are missing.
func TestSite_Localhost(t *testing.T) {
	f := newFixture(t)
	port := f.URL[strings.LastIndex(f.URL, ":"):]
	for _, tc := range []struct {
		rule, method, host, path, to string
		status                       int
	}{
		{"a page", "GET", "localhost" + port, "/inbox?a=b", f.URL + "/inbox?a=b", 307},
		{"a path with two slashes", "GET", "localhost" + port, "//x.example", f.URL + "//x.example", 307},
		{"a webhook", "POST", "localhost" + port, "/webhooks", "", 401},
		{"its own host", "GET", "127.0.0.1" + port, "/inbox", "", 200},
		{"another port", "GET", "localhost:1", "/inbox", "", 200},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, "http://"+tc.host+tc.path, nil)
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code != tc.status || w.Header().Get("Location") != tc.to {
				t.Errorf("%d to %q, want %d to %q", w.Code, w.Header().Get("Location"), tc.status, tc.to)
			}
		})
	}
}

func TestCallbackSurvivesALostAnswer(t *testing.T) {
	f := newFixture(t)
	v := f.visitor()
	_, callback := f.begin(v, nil)
	f.verge.set(func() { f.verge.facts = func(map[string]any) { panic(http.ErrAbortHandler) } })
	if resp, _ := v.get("/callback?" + callback.Encode()); resp.StatusCode != 502 {
		t.Fatalf("lost answer: %d, want 502", resp.StatusCode)
	}
	f.verge.set(func() { f.verge.facts = nil })
	if resp, _ := v.get("/callback?" + callback.Encode()); resp.StatusCode != 303 {
		t.Fatalf("reloading after a lost answer: %d, want 303", resp.StatusCode)
	}
	f.verge.set(func() {
		first := f.verge.validates[0].Header.Get("Idempotency-Key")
		last := f.verge.validates[len(f.verge.validates)-1].Header.Get("Idempotency-Key")
		if first == "" || first != last {
			t.Errorf("contract 11: the keys were %q and %q, want one", first, last)
		}
	})
}

func TestStartShowsTheAPIsRejection(t *testing.T) {
	for _, tc := range []struct {
		status int
		code   string
		want   int
	}{
		{400, "INVALID_REQUEST", 400}, {401, "UNAUTHORIZED", 502}, {403, "FORBIDDEN", 502},
		{409, "INTEGRATION_NOT_READY", 409}, {429, "RATE_LIMITED", 429},
		{502, "PROVIDER_UNAVAILABLE", 502}, {503, "UNAVAILABLE", 502},
	} {
		t.Run("contract 5: "+tc.code, func(t *testing.T) {
			f := newFixture(t)
			f.verge.set(func() { f.verge.reject = apiRejection(tc.status, tc.code) })
			resp, body := f.visitor().post("/start", nil)
			if resp.StatusCode != tc.want {
				t.Errorf("status %d, want %d", resp.StatusCode, tc.want)
			}
			for _, want := range []string{tc.code, "req_1", "language: unknown"} {
				if !strings.Contains(body, want) {
					t.Errorf("the page does not contain %q: %s", want, body)
				}
			}
			if tc.status == 429 && resp.Header.Get("Retry-After") != "7" {
				t.Error("the response has no Retry-After")
			}
		})
	}
	t.Run("the service is down", func(t *testing.T) {
		f := newFixture(t)
		f.verge.Close()
		resp, body := f.visitor().post("/start", nil)
		if resp.StatusCode != 502 || !strings.Contains(body, "could not be reached") ||
			strings.Contains(body, secretKey) {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	})
}

func TestSessionPage(t *testing.T) {
	f := newFixture(t)
	_, body := f.visitor().get("/sessions/svc_sess_7")
	for _, want := range []string{
		"svc_sess_7", "FAILED", "MAX_ATTEMPTS", "too many", "2026-11-20T22:11:00.000Z",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	for _, path := range []string{"/sessions/nope", "/sessions/..%2F..%2Fstart"} {
		if resp, _ := f.visitor().get(path); resp.StatusCode != 404 {
			t.Errorf("%s: %d, want 404", path, resp.StatusCode)
		}
	}
}

func TestGuard(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"/", "/inbox", "/inbox.json", "/nowhere", "/callback", "/static/inbox.js"} {
		resp, body := f.visitor().get(path)
		policy := resp.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") ||
			!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if strings.Contains(body, " style=") || strings.Contains(body, "<script>") ||
			strings.Contains(body, "<style") {
			t.Errorf("%s has content that its own policy forbids", path)
		}
		if strings.Contains(body, secretKey) || strings.Contains(body, webhookSecret) {
			t.Errorf("%s shows a secret", path)
		}
	}
	resp, _ := f.visitor().get("/")
	if !strings.HasSuffix(resp.Header.Get("Content-Security-Policy"), "form-action 'self' "+f.verge.URL) {
		t.Error("contract 22: form-action must name the service, or Chromium stops the redirect to it")
	}
	req, _ := http.NewRequest("POST", f.URL+"/start", nil)
	req.Header.Set("Origin", "https://elsewhere.example")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp, _ := f.visitor().do(req); resp.StatusCode != 403 {
		t.Errorf("another site's form started a verification: %d", resp.StatusCode)
	}
}

func TestBrowsersAreBounded(t *testing.T) {
	f := newFixture(t)
	v := f.visitor()
	for range maxAttempts + 5 {
		f.begin(v, nil)
	}
	for range maxBrowsers {
		f.begin(f.visitor(), nil)
	}
	f.browsers.mu.Lock()
	defer f.browsers.mu.Unlock()
	if n := len(f.browsers.byID); n != maxBrowsers {
		t.Errorf("%d browsers are remembered, want %d", n, maxBrowsers)
	}
	for _, b := range f.browsers.byID {
		if len(b.attempts) > maxAttempts {
			t.Errorf("%d attempts of one browser are remembered", len(b.attempts))
		}
	}
}

// post delivers body as the service would. change may alter the headers.
func (f *fixture) deliver(body []byte, change func(http.Header)) int {
	f.t.Helper()
	req, err := http.NewRequest("POST", f.URL+"/webhooks", strings.NewReader(string(body)))
	if err != nil {
		f.t.Fatal(err)
	}
	for name, value := range webhook.Headers("evt_1", testNow, body, webhookSecret) {
		req.Header.Set(name, value)
	}
	if change != nil {
		change(req.Header)
	}
	resp, _ := f.visitor().do(req)
	return resp.StatusCode
}

func (f *fixture) list() (list []delivery) {
	f.t.Helper()
	_, body := f.visitor().get("/inbox.json")
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		f.t.Fatalf("%v: %s", err, body)
	}
	return list
}

func event(session string) []byte {
	return webhook.Started(webhook.Head{
		ID: "evt_1", CreatedAt: testNow, PublisherID: "pub_1", IntegrationID: l1, SessionID: session,
	}, testNow.Add(10*time.Minute)).Body()
}

func TestWebhooks(t *testing.T) {
	body := event("svc_sess_<b>")
	for _, tc := range []struct {
		rule   string
		body   []byte
		change func(http.Header)
		status int
		step   int
	}{
		{"spec Signature: as the service signs", body, nil, 200, 0},
		{"spec Signature 1: no signature", body, func(h http.Header) { h.Del(webhook.HeaderSignature) }, 401,
			1},
		{"spec Signature 2: another timestamp", body, func(h http.Header) {
			h.Set(webhook.HeaderTimestamp, "1")
		}, 401, 2},
		{"spec Signature 5: another secret", body, func(h http.Header) {
			h.Set(webhook.HeaderSignature, webhook.Sign("x", testNow, body))
		}, 401, 5},
		{"spec Signature 6: too old", body, func(h http.Header) {
			h.Set(webhook.HeaderSignature, webhook.Sign(webhookSecret, testNow.Add(-301*time.Second), body))
			h.Del(webhook.HeaderTimestamp)
		}, 401, 6},
		{"signed, but not an event", []byte("\r\nhello"), nil, 400, 0},
		{"larger than any event", make([]byte, webhook.MaxBody+1), nil, 413, -1},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			f := newFixture(t)
			if got := f.deliver(tc.body, tc.change); got != tc.status {
				t.Errorf("answered %d, want %d", got, tc.status)
			}
			list := f.list()
			if tc.step < 0 {
				if len(list) != 0 {
					t.Errorf("kept %+v", list)
				}
				return
			}
			if len(list) != 1 {
				t.Fatalf("%d deliveries in the inbox, want 1", len(list))
			}
			d := list[0]
			if d.Step != tc.step || d.Verified != (tc.step == 0) || d.Body != string(tc.body) ||
				d.ReceivedAt != "2026-11-20T22:10:00.000Z" {
				t.Errorf("the inbox says %+v", d)
			}
			_, page := f.visitor().get("/inbox")
			says := "Signature verified"
			if tc.step > 0 {
				says = fmt.Sprintf("Refused at step %d", tc.step)
			}
			if !strings.Contains(page, says) || strings.Contains(page, "<b>") {
				t.Errorf("the page does not contain %q, or does not escape: %s", says, page)
			}
		})
	}
}

func TestReadiness(t *testing.T) {
	f := newFixture(t)
	event := webhook.ReadinessEvent(webhook.Head{ID: "evt_1", CreatedAt: testNow, SessionID: "svc_sess_1"})
	var results []webhook.ProbeResult
	for _, p := range webhook.Probes(webhookSecret, event, testNow) {
		status := f.deliver(p.Body, func(h http.Header) {
			for name, value := range p.Header {
				h.Set(name, value)
			}
		})
		results = append(results, webhook.ProbeResult{Name: p.Name, Status: status})
	}
	if ready, reasons := webhook.Judge(results); !ready {
		t.Errorf("contract 29: the demo is not ready: %q", reasons)
	}
}

func TestDuplicates(t *testing.T) {
	f := newFixture(t)
	first, other := event("svc_sess_1"), event("svc_sess_2")
	altered := append([]byte(" "), first...)
	for _, body := range [][]byte{first, other, first, altered} {
		if got := f.deliver(body, nil); got != 200 {
			t.Fatalf("spec Delivery 2: a duplicate gets %d, want 200", got)
		}
	}
	if got := f.deliver(first, func(h http.Header) { h.Set(webhook.HeaderTimestamp, "1") }); got != 401 {
		t.Errorf("a forged request with a known key: %d, want 401", got)
	}
	want := []struct {
		attempt   int
		duplicate bool
		same      bool
	}{{1, false, true}, {1, false, true}, {2, true, true}, {3, true, false}, {0, false, false}}
	list := f.list()
	if len(list) != len(want) {
		t.Fatalf("%d deliveries, want %d", len(list), len(want))
	}
	for i, d := range list {
		if d.Attempt != want[i].attempt || d.Duplicate != want[i].duplicate ||
			d.SameBytes != want[i].same || d.Seq != i+1 {
			t.Errorf("delivery %d: %+v, want %+v", i, d, want[i])
		}
	}
	_, page := f.visitor().get("/inbox")
	if !strings.Contains(page, "Attempt 2, same bytes") || !strings.Contains(page, "Attempt 3, other bytes") {
		t.Errorf("the page does not mark duplicates: %s", page)
	}
}

func TestForgeriesAreNoAttempts(t *testing.T) {
	f := newFixture(t)
	body := event("svc_sess_1")
	forged := append([]byte(" "), body...)
	for _, real := range []bool{false, true, false, true} {
		if real {
			f.deliver(body, nil)
		} else {
			f.deliver(forged, func(h http.Header) {
				h.Set(webhook.HeaderSignature, webhook.Sign("x", testNow, forged))
			})
		}
	}
	list := f.list()
	if d := list[1]; d.Duplicate || d.Attempt != 1 || !d.SameBytes {
		t.Errorf("an earlier forgery replaced the event: %+v", d)
	}
	if d := list[3]; !d.Duplicate || d.Attempt != 2 || !d.SameBytes {
		t.Errorf("a forgery in between hid the duplicate: %+v", d)
	}
	for _, i := range []int{0, 2} {
		if d := list[i]; d.Verified || d.Attempt != 0 {
			t.Errorf("a forgery counts as an attempt: %+v", d)
		}
	}
}

func TestInboxKeepsTheLast(t *testing.T) {
	in := newInbox("r")
	for i := range keptDeliveries + 3 {
		in.add(delivery{Verified: true, IdempotencyKey: fmt.Sprint(i)})
	}
	all, _ := in.after(0)
	if len(all) != keptDeliveries || all[0].Seq != 4 || all[len(all)-1].Seq != keptDeliveries+3 {
		t.Errorf("%d kept, from %d to %d", len(all), all[0].Seq, all[len(all)-1].Seq)
	}
	if some, _ := in.after(keptDeliveries + 1); len(some) != 2 {
		t.Errorf("%d deliveries after the third last, want 2", len(some))
	}
}

func TestMarks(t *testing.T) {
	in := newInbox("run")
	for mark, want := range map[string]int{
		in.mark(7): 7, "run-0": 0, "other-7": 0, "": 0, "run": 0, "run-": 0, "run--1": 0, "run-x": 0, "7": 0,
	} {
		if got := in.parseMark(mark); got != want {
			t.Errorf("%q is %d, want %d", mark, got, want)
		}
	}
}

// stream reads n events from the stream: their ids and rows.
func (f *fixture) stream(query, lastEventID string, n int, ready func()) (ids, rows []string) {
	f.t.Helper()
	// If the stream stays silent, the test fails.
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", f.URL+"/inbox/stream"+query, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		f.t.Fatalf("Content-Type %q", got)
	}
	if ready != nil {
		ready()
	}
	lines := bufio.NewScanner(resp.Body)
	var row strings.Builder
	for len(rows) < n && lines.Scan() {
		if strings.Contains(lines.Text(), "\r") {
			f.t.Fatalf("a carriage return, which ends a line for a browser: %q", lines.Text())
		}
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "id":
			ids = append(ids, value)
		case "data":
			row.WriteString(value + "\n")
		case "":
			if row.Len() > 0 {
				rows = append(rows, row.String())
				row.Reset()
			}
		}
	}
	if len(rows) < n {
		f.t.Fatalf("the stream ended after %d of %d events: %v", len(rows), n, lines.Err())
	}
	return ids, rows
}

func TestStream(t *testing.T) {
	f := newFixture(t)
	f.deliver(event("svc_sess_1"), nil)
	f.deliver(event("svc_sess_2"), nil)

	// From the page's mark on, the stream has every delivery exactly once.
	ids, rows := f.stream("?after="+f.inbox.mark(1), "", 2, func() { f.deliver(event("svc_sess_3"), nil) })
	if !strings.Contains(rows[0], "svc_sess_2") || !strings.Contains(rows[1], "svc_sess_3") {
		t.Errorf("after the mark came %q", rows)
	}

	// A browser that connects again names the last event that it saw. The query is still the page's.
	f.deliver(event("svc_sess_4"), nil)
	_, rows = f.stream("?after="+f.inbox.mark(1), ids[1], 1, nil)
	if !strings.Contains(rows[0], "svc_sess_4") {
		t.Errorf("after reconnecting came %q", rows)
	}

	// A mark from before a restart hides no later delivery.
	_, rows = f.stream("", "00000000-99", 4, nil)
	if !strings.Contains(rows[0], "svc_sess_1") {
		t.Errorf("after a restart came %q", rows)
	}

	// A delivery's text cannot add lines of its own to the stream.
	f.deliver([]byte("a\r\rid: x\r\rdata: y"), nil)
	ids, rows = f.stream("", f.inbox.mark(4), 1, nil)
	if len(ids) != 1 || ids[0] != f.inbox.mark(5) || !strings.Contains(rows[0], "id: x") {
		t.Errorf("a body forged a line: %q %q", ids, rows)
	}
}

func TestCloseEndsStreams(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // ends a stream that continues
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", f.URL+"/inbox/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	f.Close()
	f.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the stream did not end well: %v", err)
	}
}
