package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/liststore"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/report"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

const (
	testUUID  = testhost.UUID
	otherUUID = testhost.Other
	secret    = "whsec_only_for_tests"
	operator  = "op_only_for_tests_long_enough"
	testPath  = "/admin/v1/integrations/" + testUUID + "/test"
)

var (
	ctx  = context.Background()
	from = netip.MustParseAddr("192.0.2.1")
	root = operate.Actor{Kind: operate.KindOperator, ID: member.Configured, Name: member.Configured,
		Role: operate.RoleOperator}
)

// fixture is an Admin, on a store and with a receiver that do as the test says.
type fixture struct {
	*Admin
	*testhost.Host
	answer func(host.FetchRequest) (int, error)
}

// trustList is a trusted list of the only method.
var trustList = method.TrustList{
	Name:   "main",
	URL:    "https://lists.example/",
	Format: "vical",
	Grace:  time.Hour,
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := testhost.New(t)
	w := &fixture{Host: h}
	h.Fetch = w
	kind := sandbox.Kind
	kind.Lists = func(method.Config) []method.TrustList { return []method.TrustList{trustList} }
	catalog, partitions := testhost.Catalog(kind), []kv.Partition{"p0", "p1", "p2"}
	d := integration.NewDirectory(h.Host)
	l := &lifecycle.Lifecycle{Host: h.Host, Attempts: 3,
		OutcomeLife: 30 * 24 * time.Hour}
	starts := &api.API{Host: h.Host,
		BaseURL: "https://verify.verge.example", Partitions: 1, Directory: d, Lifecycle: l,
		Methods: h.Opened(catalog)}
	people := member.New(h.Host, member.Config{OperatorToken: operator})
	w.Admin = &Admin{Now: h.Now, People: people,
		Operations: &operate.Operations{Host: h.Host, BaseURL: "https://verify.verge.example",
			Catalog: catalog, Partitions: partitions, Directory: d,
			People: people, Lifecycle: l, StartTest: starts.StartTestSession,
			Outbox: &outbox.Outbox{Host: h.Host, Directory: d, AttemptTime: outbox.AttemptTime,
				Partitions: partitions},
			UserPasskeys: &passkey.Store{Host: h.Host},
			Lists:        &liststore.Store{Host: h.Host},
			Counted:      &usage.Usage{Host: h.Host},
			Reports:      report.Config{Key: testhost.ReportKey}}}
	w.Guard = &operate.TokenGuard{Limiter: &ratelimit.Limiter{Store: ratelimit.NewLocal(0)},
		Limit: ratelimit.PerMinute(1000), Operations: w.Operations}
	coretest.Must(t, d.PutPublisher(ctx, integration.Publisher{ID: "pub_a", Name: "Alpha"}))
	i := integration.Integration{ID: testUUID, PublisherID: "pub_a", Name: "Shop", Level: "L1",
		ChallengeAge: 25, Method: "sandbox", CallbackOrigins: []string{"https://www.publisher.example"},
		Webhook: integration.Webhook{URL: "https://hooks.publisher.example/"}}
	coretest.Must(t, d.PutIntegration(ctx, i, secret))
	w.answer = w.receiver
	return w
}

// receiver verifies signatures, as publishers do.
func (w *fixture) receiver(req host.FetchRequest) (int, error) {
	header := map[string][]string{}
	for name, value := range req.Header {
		header[name] = []string{value}
	}
	if webhook.Verify(secret, header, req.Body, w.Clock.Now(), 0) != nil {
		return 401, nil
	}
	return 200, nil
}

// Fetch implements host.Fetcher.
func (w *fixture) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	status, err := w.answer(req)
	return host.FetchResponse{Status: status}, err
}

// routes are the routes of operators, without a service.
var routes = (*Admin)(nil).Routes()

// Handle returns the result of the handler of a request.
func (w *fixture) Handle(ctx context.Context, req *web.Request) (resp *web.Response, err error) {
	keep := func(handle router.Handler) router.Handler {
		return func(ctx context.Context, c *router.Call) (*web.Response, error) {
			resp, err = handle(ctx, c)
			return resp, err
		}
	}
	router := router.Router{Host: w.Host.Host, Routes: w.Routes(), NoRoute: keep(w.NoRoute)}
	for i := range router.Routes {
		router.Routes[i].Handle = keep(router.Routes[i].Handle)
	}
	router.Serve(ctx, req)
	return resp, err
}

// question is one request.
type question struct {
	token, method, path, body string
	match                     string // If-Match
}

// send sends a request and returns the response. It compares the response with the description.
func (w *fixture) send(t testing.TB, q question) (*web.Response, *web.Error) {
	t.Helper()
	path, query, _ := strings.Cut(q.path, "?")
	req := &web.Request{Method: q.method, Path: path, Query: query, Body: []byte(q.body), Client: from,
		Header: web.Header{"Authorization": {"Bearer " + q.token}}}
	if q.match != "" {
		req.Header["If-Match"] = []string{q.match}
	}
	resp, err := w.Handle(ctx, req)
	var e *web.Error
	if err != nil {
		e = router.AsError(err)
		resp = e.Response("req_x", "")
	}
	readOpenAPI(t).hold(t, req, resp)
	for _, never := range []string{secret, `"sealed"`} {
		if bytes.Contains(resp.Body, []byte(never)) {
			t.Errorf("contract 13: %s %s answers with %q: %s", q.method, q.path, never, resp.Body)
		}
	}
	return resp, e
}

// ask sends a request with the operator token, for any version. The body of a 200 goes into
// into.
func (w *fixture) ask(t testing.TB, method, path, body string, into any) *web.Error {
	t.Helper()
	resp, e := w.send(t, question{operator, method, path, body, "*"})
	if e != nil {
		return e
	}
	if resp.Status != 200 {
		t.Fatalf("status %d without an error", resp.Status)
	}
	if into != nil {
		coretest.Must(t, json.Unmarshal(resp.Body, into))
	}
	return nil
}

// must is ask, where an error ends the test.
func (w *fixture) must(t testing.TB, method, path, body string, into any) {
	t.Helper()
	if e := w.ask(t, method, path, body, into); e != nil {
		t.Fatalf("%s %s: %v %v", method, path, e, e.Details)
	}
}

func (w *fixture) rejected(t testing.TB, code web.Code, method, path, body string) *web.Error {
	t.Helper()
	e := w.ask(t, method, path, body, nil)
	if e == nil || e.Code != code {
		t.Errorf("%s %s %s: %v, want %s", method, path, body, e, code)
	}
	return e
}

func TestOperatorToken_Required(t *testing.T) {
	w := newFixture(t)
	sk, _, err := w.Operations.Directory.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	calls := w.Store.Calls()
	for _, token := range []string{operator, ""} {
		w.People = member.New(w.Host.Host, member.Config{OperatorToken: token})
		headers := []web.Header{nil}
		for _, value := range []string{"", "Bearer", "Bearer ", operator, "Basic " + operator,
			"Bearer " + operator + " ", "Bearer " + operator[:len(operator)-1], "Bearer x" + operator,
			"Bearer " + sk} {
			headers = append(headers, web.Header{"Authorization": {value}})
		}
		for _, header := range headers {
			for _, path := range []string{operate.ListKeys.Path, operate.ListIntegrations.Path,
				operate.ListDeliveries.Path, "/admin/v1/nothing"} {
				resp, err := w.Handle(ctx, &web.Request{Method: "GET", Path: path, Header: header})
				var e *web.Error
				if !errors.As(err, &e) || e.Code != web.Unauthorized || resp != nil {
					t.Errorf("contract 5, 401: token %q, %v on %s: %v", token, header, path, err)
				}
			}
		}
	}
	if n := w.Store.Calls() - calls; n != 1 { // the entry of the audit
		t.Errorf("contract 5, 401: wrong tokens cost %d calls of the store, want 1", n)
	}
}

// The case of an authentication scheme does not matter (RFC 9110, 11.1), so such a token is not a wrong one.
func TestCaller_CaseOfScheme(t *testing.T) {
	w := newFixture(t)
	for _, scheme := range []string{"bearer ", "BEARER ", "Bearer  "} {
		_, err := w.Handle(ctx, &web.Request{Method: "GET", Path: operate.ListKeys.Path,
			Header: web.Header{"Authorization": {scheme + operator}}})
		if err != nil {
			t.Errorf("contract 42: %q: %v", scheme, err)
		}
	}
}

// Contract 30: after 20 wrong tokens of an address, no token of it is checked until the minute ends.
func TestWrongTokens_LockTheAddress(t *testing.T) {
	w := newFixture(t)
	w.Guard.Limit = ratelimit.PerMinute(20)
	w.Clock.Advance(time.Minute - w.Clock.Now().Sub(w.Clock.Now().Truncate(time.Minute)) + 10*time.Second)
	ask := func(token, from string) (web.Code, int) {
		header := web.Header{}
		switch {
		case strings.HasPrefix(token, "Basic "):
			header.Set("Authorization", token)
		case token != "none":
			header.Set("Authorization", "Bearer "+token)
		}
		_, err := w.Handle(ctx, &web.Request{Method: "GET", Path: operate.ListKeys.Path, Header: header,
			Client: netip.MustParseAddr(from)})
		if e, ok := errors.AsType[*web.Error](err); ok {
			return e.Code, e.RetryAfter
		}
		coretest.Must(t, err)
		return "", 0
	}
	const address, another = "2001:db8::1", "2001:db8:0:1::1"
	for range 100 {
		if got, _ := ask(operator, address); got != "" {
			t.Fatalf("contract 30: the right token is counted: %s", got)
		}
		for _, token := range []string{"none", "", "Basic " + operator} {
			if got, _ := ask(token, address); got != web.Unauthorized {
				t.Fatalf("contract 30: a request without a token is counted (%.5s): %s", token, got)
			}
		}
	}
	for n, guess := range []string{"x" + operator, operator + "x", operator[:len(operator)-1]} {
		if got, _ := ask(guess, address); got != web.Unauthorized {
			t.Fatalf("contract 30: guess %d: %s", n+1, got)
		}
	}
	for n := range 17 {
		if got, _ := ask("guess", address); got != web.Unauthorized {
			t.Fatalf("contract 30: guess %d: %s", n+4, got)
		}
		w.Clock.Advance(2 * time.Second) // as a rate of 20 a minute this would give back some
	}
	reads := w.Store.Calls()
	for range 3000 {
		for _, token := range []string{"guess", operator} {
			if got, wait := ask(token, address); got != web.RateLimited || wait != 16 {
				t.Fatalf("contract 30: %.5s… behind 20 guesses: %s, %d s", token, got, wait)
			}
		}
	}
	if w.Store.Calls() != reads {
		t.Error("contract 30: tokens of a locked address are checked")
	}
	if got, _ := ask(operator, "2001:db8::ffff"); got != web.RateLimited {
		t.Errorf("contract 30: the same /64: %s", got)
	}
	if got, _ := ask(operator, another); got != "" {
		t.Errorf("contract 30: another address: %s", got)
	}
	entries := func() (n int) {
		var page struct{ Audit []operate.AuditEntry }
		if e := w.ask(t, "GET", operate.ListAudit.Path, "", &page); e != nil {
			t.Fatal(e)
		}
		for _, entry := range page.Audit {
			if entry.Operation == "operator.refused" {
				n++
				if len(entry.Changes) != 1 || entry.Changes[0].To != address {
					t.Errorf("contract 30: the entry has %+v", entry.Changes)
				}
			}
		}
		return n
	}
	if n := entries(); n != 1 {
		t.Errorf("contract 30: the audit has %d entries, want 1", n)
	}
	w.Clock.Advance(16 * time.Second)
	if got, _ := ask(operator, address); got != "" {
		t.Errorf("contract 30: the right token after the minute: %s", got)
	}
	for range 2 {
		if got, _ := ask("guess", address); got != web.Unauthorized {
			t.Errorf("contract 30: a guess after the minute: %s", got)
		}
	}
	if n := entries(); n != 2 {
		t.Errorf("contract 30: the audit has %d entries of two minutes, want 2", n)
	}
}

// Contract 30: at most 20 of the tokens that are looked up concurrently have a result, even if a later one is
// right. After that, no token is looked up.
func TestWrongTokens_Concurrent(t *testing.T) {
	from := netip.MustParseAddr("192.0.2.1")
	for name, found := range map[string]error{"right": nil, "wrong": web.ErrNotFound} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Guard.Limit = ratelimit.PerMinute(20)
			rejected := 0
			var check func(n int) error
			check = func(n int) error { // each lookup ends after all later ones
				return w.Guard.Check(ctx, from, func() error {
					if n == 0 {
						return web.ErrNotFound
					}
					if errors.Is(check(n-1), web.ErrNotFound) {
						rejected++
					}
					if n == 30 {
						return found
					}
					return web.ErrNotFound
				})
			}
			var e *web.Error
			if err := check(30); !errors.As(err, &e) || e.Code != web.RateLimited || e.RetryAfter == 0 {
				t.Errorf("contract 30: the token that was looked up last has the result %v", err)
			}
			if rejected != 20 {
				t.Errorf("contract 30: %d wrong tokens have a result, want 20", rejected)
			}
			if err := w.Guard.Check(ctx, from, func() error {
				t.Error("contract 30: a token from a locked address is looked up")
				return nil
			}); !errors.As(err, &e) || e.Code != web.RateLimited {
				t.Errorf("contract 30: a token from a locked address has the result %v", err)
			}
		})
	}
}

func TestIndex(t *testing.T) {
	w := newFixture(t)
	calls := w.Store.Calls()
	resp, err := w.Handle(ctx, &web.Request{Method: "GET", Path: "/", Header: web.Header{}})
	coretest.Must(t, err)
	lines := 0
	for _, r := range routes {
		for _, method := range r.Methods {
			if method == "HEAD" || !strings.HasPrefix(r.Pattern, operate.Prefix) {
				continue
			}
			lines++
			line := (method + "     ")[:5] + " " + r.Pattern
			if !strings.Contains(string(resp.Body), "\n  "+line+"\n") {
				t.Errorf("the index lacks %q:\n%s", line, resp.Body)
			}
		}
	}
	if n := strings.Count(string(resp.Body), operate.Prefix); n != lines || n < 40 {
		t.Errorf("the index has %d routes, want %d:\n%s", n, lines, resp.Body)
	}
	if w.Store.Calls() != calls {
		t.Error("the index asked the store")
	}
	if _, err := w.Handle(ctx, &web.Request{Method: "POST", Path: "/", Header: web.Header{}}); err == nil {
		t.Error("POST is answered")
	}
}

func TestRoutes(t *testing.T) {
	w := newFixture(t)
	event := "evt_" + testUUID
	for path, want := range map[string][]string{
		"/admin/v1/publishers":                         {"GET", "HEAD", "POST"},
		"/admin/v1/publishers/pub_x":                   {"GET", "HEAD", "PATCH"},
		"/admin/v1/integrations":                       {"GET", "HEAD", "POST"},
		"/admin/v1/integrations/" + testUUID + "/test": {"POST"},
		"/admin/v1/keys":                               {"GET", "HEAD", "POST"},
		"/admin/v1/keys/key_0000000000000000/revoke":   {"POST"},
		"/admin/v1/deliveries":                         {"GET", "HEAD"},
		"/admin/v1/deliveries/" + event + "/resend":    {"POST"},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", ""} {
			if slices.Contains(want, method) {
				if e := w.ask(t, method, path, "{}", nil); e != nil && e.Code == web.MethodNotAllowed {
					t.Errorf("contract 5, 405: %s %s", method, path)
				}
				continue
			}
			if e := w.rejected(t, web.MethodNotAllowed, method, path, ""); e != nil &&
				!slices.Equal(e.Allow, want) {
				t.Errorf("contract 5, 405: %s allows %v, want %v", path, e.Allow, want)
			}
		}
	}
	// A placeholder between slashes may be empty: the handler returns the error.
	e := w.rejected(t, web.NotFound, "POST", "/admin/v1/keys//revoke", "")
	if e != nil && e.Message != "There is no such key." {
		t.Errorf("a key without an id: %v", e)
	}
	w.rejected(t, web.InvalidRequest, "POST", "/admin/v1/deliveries//resend", "")
	for _, path := range []string{"", "/admin", "/admin/v1/", "/admin/v1/keys/", "/admin/v1/keys/x",
		"/admin/v1/keys/x/test", "/admin/v1/keys/{id}/revoke/x", "/admin/v1/integrations/x/revoke",
		"/admin/v1/x/keys", "/admin/v2/keys", "/Admin/v1/keys"} {
		w.rejected(t, web.NotFound, "GET", path, "")
	}
}

// A body with another content type than JSON is rejected, as in the publishers' API.
func TestBody_ContentType(t *testing.T) {
	w := newFixture(t)
	event := "/admin/v1/deliveries/evt_" + testUUID + "/resend"
	const key = `{"publisher_id":"pub_a"}`
	for _, c := range []struct {
		path, body string
		types      []string
		rejected   bool
	}{
		{operate.ListKeys.Path, key, nil, false},
		{operate.ListKeys.Path, key, []string{"application/json"}, false},
		{operate.ListKeys.Path, key, []string{"Application/JSON; charset=utf-8"}, false},
		{operate.ListKeys.Path, key, []string{"application/problem+json"}, false},
		{operate.ListKeys.Path, key, []string{"application/x-www-form-urlencoded"}, true},
		{operate.ListKeys.Path, key, []string{"text/plain"}, true},
		{operate.ListKeys.Path, key, []string{""}, true},
		{operate.ListKeys.Path, key, []string{"application/json", "text/plain"}, true},
		{testPath, "{}", []string{"text/plain"}, true},
		{"/admin/v1/keys/key_0000000000000000/revoke", "{}", []string{"text/plain"}, true},
		{event, "{}", []string{"text/plain"}, true},
		{event, "", []string{"text/plain"}, false}, // there is no body
	} {
		header := web.Header{"Authorization": {"Bearer " + operator}}
		if c.types != nil {
			header["Content-Type"] = c.types
		}
		_, err := w.Handle(ctx, &web.Request{Method: "POST", Path: c.path, Body: []byte(c.body),
			Header: header})
		if e, ok := errors.AsType[*web.Error](err); ok && e.Code == web.UnsupportedMediaType != c.rejected {
			t.Errorf("contract 5, 415: POST %s as %q: %v, want refused %v", c.path, c.types, e, c.rejected)
		} else if e == nil && c.rejected {
			t.Errorf("contract 5, 415: POST %s as %q was accepted", c.path, c.types)
		}
	}
	all, _, err := w.Operations.Directory.ListKeys(ctx, "", "", 100)
	coretest.Must(t, err)
	if len(all) != 4 {
		t.Errorf("contract 5, 415: %d keys were made, want 4", len(all))
	}
}
