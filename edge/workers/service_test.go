package workers_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/abi"
)

const (
	integrationID = "5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a01"
	webhookSecret = "whsec_only_for_tests"
	operatorToken = "op_only_for_tests_of_the_worker"
)

// inbox is a publisher's receiver. It records events and answers with its status.
type inbox struct {
	*httptest.Server
	now    func() time.Time // the service's clock
	delay  time.Duration    // before each answer
	mu     sync.Mutex
	status int // 0: 204, or 401 if the signature is not good
	got    []delivery
}

type delivery struct {
	event  webhook.Event
	status int
}

func newInbox(t *testing.T) *inbox {
	in := &inbox{now: time.Now}
	in.Server = httptest.NewServer(in)
	t.Cleanup(in.Close)
	return in
}

func (in *inbox) answer(status int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.status = status
}

func (in *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var d delivery
	json.Unmarshal(body, &d.event)
	in.mu.Lock()
	if d.status = in.status; d.status == 0 {
		d.status = http.StatusNoContent
		if webhook.Verify(webhookSecret, r.Header, body, in.now(), 0) != nil {
			d.status = http.StatusUnauthorized
		}
	}
	in.got = append(in.got, d)
	in.mu.Unlock()
	time.Sleep(in.delay)
	w.WriteHeader(d.status)
}

// statuses returns the response statuses to the session's events of this type, in order.
func (in *inbox) statuses(session, event string) (all []int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, d := range in.got {
		if d.event.SessionID == session && d.event.Type == event {
			all = append(all, d.status)
		}
	}
	return all
}

// service is a Verge that a test uses as a publisher and as a visitor.
type service struct {
	t           *testing.T
	client      *http.Client
	base, admin string
	key         string
}

// answer is a response that was read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) text(member string) string {
	var m map[string]any
	json.Unmarshal(a.body, &m)
	s, _ := m[member].(string)
	return s
}

func (s *service) do(method, target string, header http.Header, body []byte) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, target, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Errorf("%v", err)
		return answer{}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Errorf("%v", err)
	}
	return answer{resp.StatusCode, resp.Header, b}
}

// wantPage sends the GET of a browser, and checks the page that the handler returns (contract 22). The path
// may be malformed.
func (s *service) wantPage(base, path string, header http.Header, status int, title string) answer {
	s.t.Helper()
	to, err := url.Parse(base)
	if err != nil {
		s.t.Fatal(err)
	}
	to.Opaque = path // is sent unchanged
	req := &http.Request{Method: "GET", URL: to, Header: header.Clone()}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Accept", "text/html,*/*;q=0.8")
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != status || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
		resp.Header.Get("Content-Language") != "en" || resp.Header.Get("X-Request-Id") == "" ||
		!strings.Contains(string(body), "<h1>"+title+"</h1>") ||
		strings.Contains(string(body), `class="button"`) != (status >= 500) {
		s.t.Errorf("contract 22: %s: %d %v %s, want %d and a page", path, resp.StatusCode, resp.Header, body,
			status)
	}
	return answer{resp.StatusCode, resp.Header, body}
}

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

func (s *service) post(path, key string, body any) answer {
	s.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	at := s.base
	if strings.HasPrefix(path, "/admin/") {
		at = s.admin
	}
	return s.do("POST", at+path, bearer(key), b)
}

// makeKey asks the admin API for a secret key.
func (s *service) makeKey() {
	s.t.Helper()
	a := s.post("/admin/v1/keys", operatorToken, map[string]any{"publisher_id": "pub_shop"})
	if s.key = a.text("key"); a.status != http.StatusOK && a.status != http.StatusCreated || s.key == "" {
		s.t.Fatalf("key: %d %s", a.status, a.body)
	}
}

func (s *service) start() (id, redirect string) {
	s.t.Helper()
	return s.startOn(integrationID)
}

func (s *service) askForStart(integration string) answer {
	s.t.Helper()
	return s.post(web.StartPath, s.key, map[string]any{"integration_id": integration,
		"callback_url": "https://shop.example/return", "state": "s-1"})
}

func (s *service) startOn(integration string) (id, redirect string) {
	s.t.Helper()
	a := s.askForStart(integration)
	if a.status != http.StatusOK {
		s.t.Fatalf("start: %d %s", a.status, a.body)
	}
	return a.text("session_id"), a.text("redirect_url")
}

var (
	formOf = regexp.MustCompile(`(?s)<form[^>]*data-outcome="approve".*?</form>`)
	hidden = regexp.MustCompile(`<input[^>]*name="([^"]*)"[^>]*value="([^"]*)"`)

	hopLink = regexp.MustCompile(`<a data-hop[^>]* href="([^"]*)"`)
)

// approve opens the page and posts its form, and returns the result token.
func (s *service) approve(redirect string) string {
	s.t.Helper()
	page := s.do("GET", redirect, nil, nil)
	form := formOf.FindString(string(page.body))
	if page.status != http.StatusOK || form == "" {
		s.t.Fatalf("page: %d %s", page.status, page.body)
	}
	fields := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(form, -1) {
		fields.Add(m[1], html.UnescapeString(m[2]))
	}
	at, err := url.Parse(redirect)
	if err != nil {
		s.t.Fatal(err)
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {s.base}}
	back := s.do("POST", at.Scheme+"://"+at.Host+at.Path, header, []byte(fields.Encode()))
	if back.status != http.StatusSeeOther {
		s.t.Fatalf("approve: %d %s %s", back.status, back.header, back.body)
	}
	shown := s.do("GET", at.Scheme+"://"+at.Host+back.header.Get("Location"), nil, nil)
	hop := hopLink.FindStringSubmatch(string(shown.body))
	if shown.status != http.StatusOK || hop == nil {
		s.t.Fatalf("the page after approve: %d %s %s", shown.status, shown.header, shown.body)
	}
	to, err := url.Parse(html.UnescapeString(hop[1]))
	if err != nil || to.Host != "shop.example" || to.Query().Get("state") != "s-1" {
		s.t.Fatalf("the hop leads to %s", hop[1])
	}
	return to.Query().Get("result_token")
}

func (s *service) validate(token string) answer {
	s.t.Helper()
	return s.post(web.ValidatePath, s.key, map[string]any{"result_token": token})
}

func (s *service) want(a answer, status int, code string) {
	s.t.Helper()
	if a.status != status || a.text("code") != code {
		s.t.Errorf("%d %s, want %d %s", a.status, a.body, status, code)
	}
}

func newKeyring(t *testing.T) []byte {
	t.Helper()
	ring, err := keyring.Generate(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ring.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shop is the configuration of publishers and integrations. secret is the member that
// has the webhook's secret or its name.
func shop(in *inbox, secret, value string) map[string]any {
	return map[string]any{
		"publishers": []any{map[string]any{"id": "pub_shop", "name": "Shop"}},
		"integrations": []any{map[string]any{"id": integrationID, "publisher": "pub_shop", "name": "Checkout",
			"level": "L1", "challenge_age": 25, "method": "sandbox", "webhook_url": in.URL + "/hooks",
			secret: value}},
	}
}

// newSite is a service on a site whose clock runs.
func newSite(t *testing.T, in *inbox, c workerd.Config) (*service, *workerd.Site) {
	t.Helper()
	return newSiteOn(t, workerd.Shared(t), in, withRing(t, c))
}

// withRing completes the configuration of a site.
func withRing(t *testing.T, c workerd.Config) workerd.Config {
	t.Helper()
	c.Guest.Dev, c.Guest.OperatorToken, c.Guest.Host = true, operatorToken, "verge.example"
	c.Guest.Keyring, c.Guest.Schedule.JitterPercent = newKeyring(t), -1
	return c
}

func newSiteOn(t *testing.T, server *workerd.Server, in *inbox, c workerd.Config) (*service, *workerd.Site) {
	t.Helper()
	site := server.Site(t, c)
	in.now = site.Now
	apply(t, site, shop(in, "secret", webhookSecret))
	s := &service{t: t, client: site.Client(), base: site.BaseURL, admin: site.AdminURL}
	s.makeKey()
	return s, site
}

// apply puts publishers and integrations into a site's store.
func apply(t *testing.T, site *workerd.Site, shop map[string]any) {
	t.Helper()
	b, err := json.Marshal(shop)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := site.Entry(t.Context(), abi.Apply, b)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := abi.Read.Outcome(reply); err != nil || o.Status != abi.OK {
		t.Fatalf("apply: %+v, %v", o, err)
	}
}
