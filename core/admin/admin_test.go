package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/outbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const (
	testUUID  = testhost.UUID
	otherUUID = testhost.Other
	secret    = "whsec_only_for_tests"
	operator  = "op_only_for_tests"
	testPath  = "/admin/v1/integrations/" + testUUID + "/test"
)

var ctx = context.Background()

// world is an Admin, on a store and with a receiver that do as the test says.
type world struct {
	*Admin
	*testhost.Host
	answer func(host.FetchRequest) (int, error)
}

func newWorld(t testing.TB) *world {
	t.Helper()
	h := testhost.New(t)
	w := &world{Host: h}
	h.Fetch = w
	d := integration.NewDirectory(h.Host)
	w.Admin = &Admin{Sealer: h.Sealer, Now: h.Now, Random: h.Random, Log: h.Log, Token: operator,
		Limiter: &ratelimit.Limiter{Store: ratelimit.NewLocal(0)}, Failures: ratelimit.PerMinute(1000),
		Directory: d, Partitions: []kv.Partition{"p0", "p1", "p2"},
		Outbox: &outbox.Outbox{KV: h.KV, Sealer: h.Sealer, Fetch: h.Fetch, Now: h.Now, Random: h.Random,
			Log: h.Log, Directory: d, AttemptTime: outbox.AttemptTime}}
	coretest.Must(t, d.PutPublisher(ctx, integration.Publisher{ID: "pub_a"}))
	i := integration.Integration{ID: testUUID, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25,
		Method: "sandbox", CallbackOrigins: []string{"https://www.publisher.example"},
		Webhook: integration.Webhook{URL: "https://hooks.publisher.example/"}}
	coretest.Must(t, d.PutIntegration(ctx, i, secret))
	w.answer = w.receiver
	return w
}

// receiver verifies signatures, as publishers do.
func (w *world) receiver(req host.FetchRequest) (int, error) {
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
func (w *world) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	status, err := w.answer(req)
	return host.FetchResponse{Status: status}, err
}

// ask sends a request with the operator token. The body of a 200 goes into into.
func (w *world) ask(t testing.TB, method, path, body string, into any) *reply.Error {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	resp, err := w.Handle(ctx, &web.Request{Method: method, Path: path, Query: query, Body: []byte(body),
		Header: web.Header{"Authorization": {"Bearer " + operator}}})
	if err != nil {
		return reply.AsError(err, errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown))
	}
	if resp.Status != 200 {
		t.Fatalf("status %d without an error", resp.Status)
	}
	if into != nil {
		coretest.Must(t, json.Unmarshal(resp.Body, into))
	}
	for _, never := range []string{secret, `"sealed"`} {
		if bytes.Contains(resp.Body, []byte(never)) {
			t.Errorf("contract 13: %s %s answers with %q: %s", method, path, never, resp.Body)
		}
	}
	return nil
}

func (w *world) refused(t testing.TB, code reply.Code, method, path, body string) *reply.Error {
	t.Helper()
	e := w.ask(t, method, path, body, nil)
	if e == nil || e.Code != code {
		t.Errorf("%s %s %s: %v, want %s", method, path, body, e, code)
	}
	return e
}

func TestOnlyTheOperatorTokenIsLetIn(t *testing.T) {
	w := newWorld(t)
	sk, _, err := w.Directory.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	calls := w.Store.Calls()
	for _, token := range []string{operator, ""} {
		w.Token = token
		headers := []web.Header{nil}
		for _, value := range []string{"", "Bearer", "Bearer ", operator, "bearer " + operator, "Basic " + operator,
			"Bearer " + operator + " ", "Bearer " + operator[:len(operator)-1], "Bearer x" + operator,
			"Bearer " + sk} {
			headers = append(headers, web.Header{"Authorization": {value}})
		}
		for _, header := range headers {
			for _, path := range []string{KeysPath, IntegrationsPath, DeliveriesPath, "/admin/v1/nothing"} {
				resp, err := w.Handle(ctx, &web.Request{Method: "GET", Path: path, Header: header})
				var e *reply.Error
				if !errors.As(err, &e) || e.Code != reply.Unauthorized || resp != nil {
					t.Errorf("contract 5, 401: token %q, %v on %s: %v", token, header, path, err)
				}
			}
		}
	}
	if w.Store.Calls() != calls {
		t.Error("contract 5, 401: the store was asked before the token was")
	}
}

// Only guesses are limited. An operator is let in while somebody at the same
// address guesses.
func TestWrongTokensAreLimitedByAddress(t *testing.T) {
	w := newWorld(t)
	w.Failures = ratelimit.PerMinute(20)
	ask := func(token, from string) reply.Code {
		_, err := w.Handle(ctx, &web.Request{Method: "GET", Path: KeysPath, Client: netip.MustParseAddr(from),
			Header: web.Header{"Authorization": {"Bearer " + token}}})
		var e *reply.Error
		if errors.As(err, &e) && e.Code == reply.RateLimited && e.RetryAfter < 1 {
			t.Error("contract 5, 429: no Retry-After")
		}
		if e != nil {
			return e.Code
		}
		coretest.Must(t, err)
		return ""
	}
	for range 100 {
		if got := ask(operator, "192.0.2.1"); got != "" {
			t.Fatalf("contract 30: the right token is counted: %s", got)
		}
	}
	for n := range 20 {
		if got := ask("guess", "192.0.2.1"); got != reply.Unauthorized {
			t.Fatalf("contract 30: guess %d: %s", n+1, got)
		}
	}
	for range 3 {
		for _, guess := range []string{"guess", "", operator + "x", operator[:len(operator)-1]} {
			if got := ask(guess, "192.0.2.1"); got != reply.RateLimited {
				t.Errorf("contract 30, 42: guess 21: %s", got)
			}
		}
		if got := ask(operator, "192.0.2.1"); got != "" {
			t.Errorf("contract 30: the right token from that address: %s", got)
		}
	}
	if got := ask("guess", "192.0.2.2"); got != reply.Unauthorized {
		t.Errorf("contract 30: another address: %s", got)
	}
	w.Clock.Advance(3 * time.Second)
	if got := ask("guess", "192.0.2.1"); got != reply.Unauthorized {
		t.Errorf("contract 30: 3 s later: %s", got)
	}
	if got := ask("guess", "192.0.2.1"); got != reply.RateLimited {
		t.Errorf("contract 30: 20 a minute is one in 3 s: %s", got)
	}
}

func TestTheIndexNamesEveryRouteAndNeedsNoToken(t *testing.T) {
	w := newWorld(t)
	calls := w.Store.Calls()
	resp, err := w.Handle(ctx, &web.Request{Method: "GET", Path: "/", Header: web.Header{}})
	coretest.Must(t, err)
	for _, line := range []string{"GET   " + IntegrationsPath, "POST  " + TestPath, "GET   " + KeysPath,
		"POST  " + KeysPath, "POST  " + RevokePath, "GET   " + DeliveriesPath, "POST  " + ResendPath} {
		if !strings.Contains(string(resp.Body), "\n  "+line+"\n") {
			t.Errorf("the index lacks %q:\n%s", line, resp.Body)
		}
	}
	if n := strings.Count(string(resp.Body), prefix); n != 7 {
		t.Errorf("the index has %d routes, want 7:\n%s", n, resp.Body)
	}
	if w.Store.Calls() != calls {
		t.Error("the index asked the store")
	}
	if _, err := w.Handle(ctx, &web.Request{Method: "POST", Path: "/", Header: web.Header{}}); err == nil {
		t.Error("POST is answered")
	}
}

func TestRoutes(t *testing.T) {
	w := newWorld(t)
	event := "evt_" + testUUID
	for path, want := range map[string][]string{
		"/admin/v1/integrations":                       {"GET"},
		"/admin/v1/integrations/" + testUUID + "/test": {"POST"},
		"/admin/v1/keys":                               {"GET", "POST"},
		"/admin/v1/keys/key_0000000000000000/revoke":   {"POST"},
		"/admin/v1/deliveries":                         {"GET"},
		"/admin/v1/deliveries/" + event + "/resend":    {"POST"},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", ""} {
			if slices.Contains(want, method) {
				if e := w.ask(t, method, path, "{}", nil); e != nil && e.Code == reply.MethodNotAllowed {
					t.Errorf("contract 5, 405: %s %s", method, path)
				}
				continue
			}
			if e := w.refused(t, reply.MethodNotAllowed, method, path, ""); e != nil && !slices.Equal(e.Allow, want) {
				t.Errorf("contract 5, 405: %s allows %v, want %v", path, e.Allow, want)
			}
		}
	}
	// A placeholder between slashes may be empty: the handler says what is wrong.
	e := w.refused(t, reply.NotFound, "POST", "/admin/v1/keys//revoke", "")
	if e != nil && e.Message != "There is no such key." {
		t.Errorf("a key without an id: %v", e)
	}
	w.refused(t, reply.InvalidRequest, "POST", "/admin/v1/deliveries//resend", "")
	for _, path := range []string{"", "/admin", "/admin/v1/", "/admin/v1/keys/", "/admin/v1/keys/x",
		"/admin/v1/keys/x/test", "/admin/v1/keys/{id}/revoke/x", "/admin/v1/integrations/x/revoke",
		"/admin/v1/x/keys", "/admin/v2/keys", "/Admin/v1/keys"} {
		w.refused(t, reply.NotFound, "GET", path, "")
	}
}

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	w := newWorld(t)
	var made CreatedKey
	if e := w.ask(t, "POST", KeysPath, `{"publisher_id":"pub_a"}`, &made); e != nil {
		t.Fatal(e)
	}
	if !integration.WellFormed(integration.SecretPrefix, made.Key) || made.Info.Public() ||
		made.Info.Last4 != made.Key[len(made.Key)-4:] {
		t.Errorf("contract 12: %+v", made.Info)
	}
	var public CreatedKey
	expires := w.Clock.Now().Add(time.Hour)
	body := `{"publisher_id":"pub_a","integration_id":"` + testUUID + `",` +
		`"expires":"` + expires.Format(time.RFC3339) + `"}`
	if e := w.ask(t, "POST", KeysPath, body, &public); e != nil {
		t.Fatal(e)
	}
	if !integration.WellFormed(integration.PublicPrefix, public.Key) ||
		public.Info.Expires == nil || !public.Info.Expires.Equal(expires) {
		t.Errorf("contract 12: %+v", public.Info)
	}
	var list struct{ Keys []integration.Key }
	if e := w.ask(t, "GET", KeysPath, "", &list); e != nil || len(list.Keys) != 2 {
		t.Errorf("contract 12: listed are %+v, %v", list, e)
	}
	raw, err := w.Handle(ctx, &web.Request{Method: "GET", Path: KeysPath,
		Header: web.Header{"Authorization": {"Bearer " + operator}}})
	coretest.Must(t, err)
	for _, k := range []string{made.Key, public.Key} {
		if bytes.Contains(raw.Body, []byte(k[7:27])) {
			t.Errorf("contract 12: a key is shown a second time: %s", raw.Body)
		}
	}
	var revoked integration.Key
	e := w.ask(t, "POST", "/admin/v1/keys/"+made.Info.ID+"/revoke", "", &revoked)
	if e != nil || revoked.Revoked == nil {
		t.Errorf("contract 12: %+v, %v", revoked, e)
	}
	w.refused(t, reply.NotFound, "POST", "/admin/v1/keys/key_0000000000000000/revoke", "")
	w.refused(t, reply.NotFound, "POST", "/admin/v1/keys/x/revoke", "")
}

func TestANullMemberOfAKeyRequestCountsAsAbsent(t *testing.T) {
	w := newWorld(t)
	var made CreatedKey
	const body = `{"publisher_id":"pub_a","integration_id":null,"expires":null}`
	if e := w.ask(t, "POST", KeysPath, body, &made); e != nil {
		t.Fatal(e)
	}
	if made.Info.Public() || made.Info.Expires != nil {
		t.Errorf("contract 3: %+v", made.Info)
	}
}

// A body that is sent as something else than JSON is refused, as it is by the publishers' API.
func TestABodyMustBeSentAsJSON(t *testing.T) {
	w := newWorld(t)
	event := "/admin/v1/deliveries/evt_" + testUUID + "/resend"
	const key = `{"publisher_id":"pub_a"}`
	for _, c := range []struct {
		path, body string
		types      []string
		refused    bool
	}{
		{KeysPath, key, nil, false},
		{KeysPath, key, []string{"application/json"}, false},
		{KeysPath, key, []string{"Application/JSON; charset=utf-8"}, false},
		{KeysPath, key, []string{"application/problem+json"}, false},
		{KeysPath, key, []string{"application/x-www-form-urlencoded"}, true},
		{KeysPath, key, []string{"text/plain"}, true},
		{KeysPath, key, []string{""}, true},
		{KeysPath, key, []string{"application/json", "text/plain"}, true},
		{testPath, "{}", []string{"text/plain"}, true},
		{"/admin/v1/keys/key_0000000000000000/revoke", "{}", []string{"text/plain"}, true},
		{event, "{}", []string{"text/plain"}, true},
		{event, "", []string{"text/plain"}, false}, // there is no body
	} {
		header := web.Header{"Authorization": {"Bearer " + operator}}
		if c.types != nil {
			header["Content-Type"] = c.types
		}
		_, err := w.Handle(ctx, &web.Request{Method: "POST", Path: c.path, Body: []byte(c.body), Header: header})
		var e *reply.Error
		if errors.As(err, &e) && e.Code == reply.UnsupportedMediaType != c.refused {
			t.Errorf("contract 5, 415: POST %s as %q: %v, want refused %v", c.path, c.types, e, c.refused)
		} else if e == nil && c.refused {
			t.Errorf("contract 5, 415: POST %s as %q was accepted", c.path, c.types)
		}
	}
	all, err := w.Directory.Keys(ctx)
	coretest.Must(t, err)
	if len(all) != 4 {
		t.Errorf("contract 5, 415: %d keys were made, want 4", len(all))
	}
}

// A request must never get a key that can do more than the one it asked for.
func TestARequestMakesTheKeyItAsksForOrNone(t *testing.T) {
	w := newWorld(t)
	now := w.Clock.Now().Format(time.RFC3339)
	for _, c := range []struct {
		name, body string
		code       reply.Code
	}{
		{"no body", ``, reply.InvalidRequest},
		{"no object", `[]`, reply.InvalidRequest},
		{"no publisher", `{}`, reply.InvalidRequest},
		{"a publisher that is null", `{"publisher_id":null}`, reply.InvalidRequest},
		{"a publisher that is not there", `{"publisher_id":"pub_x"}`, reply.NotFound},
		{"a publisher that is a number", `{"publisher_id":5}`, reply.InvalidRequest},
		{"an integration that is not there",
			`{"publisher_id":"pub_a","integration_id":"` + otherUUID + `"}`, reply.NotFound},
		{"an integration that is a number", `{"publisher_id":"pub_a","integration_id":5}`, reply.InvalidRequest},
		{"an integration that is empty", `{"publisher_id":"pub_a","integration_id":""}`, reply.InvalidRequest},
		{"a name twice", `{"publisher_id":"pub_a","publisher_id":"pub_a"}`, reply.InvalidRequest},
		{"expiry in the past", `{"publisher_id":"pub_a","expires":"2020-01-01T00:00:00Z"}`, reply.InvalidRequest},
		{"expiry that is now", `{"publisher_id":"pub_a","expires":"` + now + `"}`, reply.InvalidRequest},
		{"expiry that is a number", `{"publisher_id":"pub_a","expires":1795212600}`, reply.InvalidRequest},
		{"a list with null for an integration",
			`{"publisher_id":"pub_a","integration_id":[null]}`, reply.InvalidRequest},
		{"expiry without zone", `{"publisher_id":"pub_a","expires":"2030-01-01T00:00:00"}`, reply.InvalidRequest},
		{"too long", `{"publisher_id":"pub_a"}` + strings.Repeat(" ", web.MaxBody), reply.PayloadTooLarge},
	} {
		t.Run("contract 12: "+c.name, func(t *testing.T) { w.refused(t, c.code, "POST", KeysPath, c.body) })
	}
	if keys, err := w.Directory.Keys(ctx); err != nil || len(keys) != 0 {
		t.Errorf("contract 12: a refused request has made %+v, %v", keys, err)
	}
}

// Anybody can read a public key, and who chooses the callback gets the result token.
func TestNoPublicKeyWithoutCallbackOrigins(t *testing.T) {
	for _, dev := range []bool{false, true} {
		w := newWorld(t)
		w.Dev = dev
		i, err := w.Directory.Integration(ctx, testUUID)
		coretest.Must(t, err)
		open := *i
		open.CallbackOrigins = nil
		coretest.Must(t, w.Directory.PutIntegration(ctx, open, ""))
		const body = `{"publisher_id":"pub_a","integration_id":"` + testUUID + `"}`
		if dev {
			if e := w.ask(t, "POST", KeysPath, body, nil); e != nil {
				t.Errorf("contract 8: dev mode allows any callback, but got %v", e)
			}
			continue
		}
		e := w.refused(t, reply.Forbidden, "POST", KeysPath, body)
		if e != nil && !strings.Contains(e.Message, "callback_origins") {
			t.Errorf("contract 8: %q does not say what to configure", e.Message)
		}
		if keys, err := w.Directory.Keys(ctx); err != nil || len(keys) != 0 {
			t.Errorf("contract 8: a refused request has made %+v, %v", keys, err)
		}
		w.refused(t, reply.NotFound, "POST", KeysPath, `{"publisher_id":"pub_b","integration_id":"`+testUUID+`"}`)
		if e := w.ask(t, "POST", KeysPath, `{"publisher_id":"pub_a"}`, nil); e != nil {
			t.Errorf("contract 8: a secret key: %v", e)
		}
	}
}

func TestIntegrations(t *testing.T) {
	w := newWorld(t)
	var list struct{ Integrations []IntegrationView }
	if e := w.ask(t, "GET", IntegrationsPath, "", &list); e != nil || len(list.Integrations) != 1 ||
		list.Integrations[0].ID != testUUID || list.Integrations[0].Ready {
		t.Errorf("listed are %+v, %v", list, e)
	}
}

func TestTheWebhookTest(t *testing.T) {
	bad := func(probe string, status int) func(*world) func(host.FetchRequest) (int, error) {
		n := slices.Index([]string{webhook.ProbeGood, webhook.ProbeBadSignature, webhook.ProbeStaleTimestamp,
			webhook.ProbeDifferingTimestamp, webhook.ProbeAlteredBody}, probe)
		return func(w *world) func(host.FetchRequest) (int, error) {
			at := 0
			return func(req host.FetchRequest) (int, error) {
				if at++; at == n+1 {
					return status, nil
				}
				return w.receiver(req)
			}
		}
	}
	for _, c := range []struct {
		name   string
		answer func(*world) func(host.FetchRequest) (int, error)
		reason string // in the one reason, "" for Ready
	}{
		{"a receiver that verifies", func(w *world) func(host.FetchRequest) (int, error) { return w.receiver }, ""},
		{"refuses the good one", bad(webhook.ProbeGood, 401), webhook.ProbeGood},
		{"redirects the good one", bad(webhook.ProbeGood, 302), "redirect"},
		{"takes a bad signature", bad(webhook.ProbeBadSignature, 200), webhook.ProbeBadSignature},
		{"answers a bad signature with 403", bad(webhook.ProbeBadSignature, 403), "403"},
		{"takes a stale timestamp", bad(webhook.ProbeStaleTimestamp, 200), webhook.ProbeStaleTimestamp},
		{"takes a differing timestamp", bad(webhook.ProbeDifferingTimestamp, 200), webhook.ProbeDifferingTimestamp},
		{"takes an altered body", bad(webhook.ProbeAlteredBody, 204), webhook.ProbeAlteredBody},
	} {
		t.Run("contract 29: "+c.name, func(t *testing.T) {
			w := newWorld(t)
			w.answer = c.answer(w)
			var report TestReport
			if e := w.ask(t, "POST", testPath, "", &report); e != nil {
				t.Fatal(e)
			}
			if report.Ready != (c.reason == "") || len(report.Probes) != 5 {
				t.Errorf("report %+v", report)
			}
			if c.reason != "" && (len(report.Reasons) != 1 || !strings.Contains(report.Reasons[0], c.reason)) {
				t.Errorf("reasons %v, want one that says %q", report.Reasons, c.reason)
			}
			i, err := w.Directory.Integration(ctx, testUUID)
			coretest.Must(t, err)
			if ready, err := w.Directory.Ready(ctx, i); err != nil || ready != report.Ready {
				t.Errorf("the store says ready %v, %v", ready, err)
			}
		})
	}
}

func TestTheWebhookTestSaysWhyThereWasNoAnswer(t *testing.T) {
	for _, reason := range []string{host.FetchBlocked, host.FetchTimeout, host.FetchDNS, host.FetchRefused,
		host.FetchTLS, host.FetchMalformed, host.FetchNetwork} {
		w := newWorld(t)
		sent := 0
		w.answer = func(host.FetchRequest) (int, error) {
			sent++
			return 0, &host.FetchError{Reason: reason, Err: errors.New("x")}
		}
		var report TestReport
		e := w.ask(t, "POST", testPath, "", &report)
		if e != nil || report.Ready || report.Status != NotReady {
			t.Errorf("contract 29: %+v, %v", report, e)
		}
		want := "good: wanted 2xx, but there was no answer (" + reason + ": " + host.FetchCause(reason) + ")"
		if !slices.Equal(report.Reasons, []string{want}) || sent != 1 {
			t.Errorf("contract 29: %d probes were sent; %q, want %q alone", sent, report.Reasons, want)
		}
		if len(report.Probes) != 1 || report.Probes[0].Reason != reason {
			t.Errorf("contract 29: %+v", report.Probes)
		}
	}
}

// A receiver that fails after the first probe gets the other probes, too.
func TestTheWebhookTestGoesOnAfterAnAnswer(t *testing.T) {
	w := newWorld(t)
	sent := 0
	w.answer = func(req host.FetchRequest) (int, error) {
		if sent++; sent > 1 {
			return 0, &host.FetchError{Reason: host.FetchNetwork, Err: errors.New("x")}
		}
		return w.receiver(req)
	}
	var report TestReport
	e := w.ask(t, "POST", testPath, "", &report)
	const want = "bad_signature, stale_timestamp, differing_timestamp, altered_body: "
	if e != nil || sent != 5 || len(report.Reasons) != 1 || !strings.HasPrefix(report.Reasons[0], want) {
		t.Errorf("contract 29: %d probes were sent; %+v, %v", sent, report, e)
	}
}

// An integration that was ready is not ready any more after a test that fails.
func TestAFailedTestEndsReadiness(t *testing.T) {
	w := newWorld(t)
	for _, want := range []bool{true, false, true} {
		w.answer = w.receiver
		if !want {
			w.answer = func(host.FetchRequest) (int, error) { return 200, nil }
		}
		var report TestReport
		if e := w.ask(t, "POST", testPath, "", &report); e != nil || report.Ready != want {
			t.Fatalf("contract 29: %+v, %v", report, e)
		}
		i, err := w.Directory.Integration(ctx, testUUID)
		coretest.Must(t, err)
		if ready, err := w.Directory.Ready(ctx, i); err != nil || ready != want {
			t.Errorf("contract 29: ready %v, %v, want %v", ready, err, want)
		}
	}
}

func TestTheWebhookTestNeedsSomethingToTest(t *testing.T) {
	w := newWorld(t)
	w.refused(t, reply.NotFound, "POST", "/admin/v1/integrations/"+otherUUID+"/test", "")
	put := func(hook integration.Webhook) {
		i := integration.Integration{ID: otherUUID, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25,
			Webhook: hook}
		coretest.Must(t, w.Directory.PutIntegration(ctx, i, ""))
	}
	for _, hook := range []integration.Webhook{{}, {Off: true}, {URL: "https://hooks.publisher.example/"}} {
		put(hook)
		w.refused(t, reply.InvalidRequest, "POST", "/admin/v1/integrations/"+otherUUID+"/test", "")
	}
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Refuse }
	w.Directory = integration.NewDirectory(w.Host.Host)
	w.refused(t, reply.Unavailable, "POST", "/admin/v1/integrations/"+testUUID+"/test", "")
}

// bury makes n dead events of a partition.
func (w *world) bury(t testing.TB, p kv.Partition, n int) (ids []string) {
	t.Helper()
	return w.try(t, p, n, func(host.FetchRequest) (int, error) { return 400, nil })
}

// try makes n events of a partition and attempts each of them once.
func (w *world) try(t testing.TB, p kv.Partition, n int, answer func(host.FetchRequest) (int, error)) (
	ids []string) {
	t.Helper()
	w.answer = answer
	for range n {
		head := webhook.Head{ID: webhook.NewID(w.Random), CreatedAt: w.Clock.Now(), IntegrationID: testUUID,
			SessionID: "svc_sess_x"}
		e := webhook.Started(head, w.Clock.Now())
		task, err := outbox.Event(w.Sealer, e, testUUID, w.Clock.Now())
		coretest.Must(t, err)
		coretest.Must(t, w.Host.KV.Commit(ctx, kv.Tx{ID: e.ID, Partition: p, Schedule: []kv.Task{task}}))
		ids = append(ids, e.ID)
	}
	tasks, _, err := w.Host.KV.Claim(ctx, p, w.Clock.Now(), time.Minute, n)
	coretest.Must(t, err)
	for _, task := range tasks {
		m, body, err := outbox.Read(task)
		coretest.Must(t, err)
		job := host.Job{Partition: p, Task: task, Until: w.Clock.Now().Add(time.Minute)}
		coretest.Must(t, w.Outbox.Deliver(ctx, job, m, body))
	}
	return ids
}

func TestDeliveriesArePagedOverPartitions(t *testing.T) {
	for _, counts := range [][3]int{{0, 0, 0}, {1, 2, 3}, {200, 0, 1}, {200, 200, 0}, {0, 201, 0},
		{150, 100, 199}, {0, 0, 200}} {
		t.Run(fmt.Sprintf("contract 27: %v dead events", counts), func(t *testing.T) {
			w := newWorld(t)
			want := map[string]bool{}
			for n, count := range counts {
				for _, id := range w.bury(t, w.Partitions[n], count) {
					want[id] = true
				}
			}
			cursor := ""
			for pages := 0; ; pages++ {
				if pages > 5 {
					t.Fatal("the pages do not end")
				}
				path := DeliveriesPath
				if cursor != "" {
					path += "?after=" + cursor
				}
				var page DeliveryPage[outbox.Dead]
				if e := w.ask(t, "GET", path, "", &page); e != nil {
					t.Fatal(e)
				}
				if page.Deliveries == nil || len(page.Deliveries) > 200 {
					t.Fatalf("a page has %d events; null: %v", len(page.Deliveries), page.Deliveries == nil)
				}
				for _, d := range page.Deliveries {
					if !want[d.Event] {
						t.Errorf("%s is shown twice or was never there", d.Event)
					}
					delete(want, d.Event)
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			if len(want) != 0 {
				t.Errorf("%d events are not shown", len(want))
			}
		})
	}
}

func TestEventsThatWaitAreListedApartFromTheDead(t *testing.T) {
	w := newWorld(t)
	dead := w.bury(t, "p0", 2)
	waiting := map[string]kv.Partition{}
	for _, p := range []kv.Partition{"p0", "p2"} {
		w.try(t, p, 1, func(host.FetchRequest) (int, error) {
			return 0, &host.FetchError{Reason: host.FetchTLS, Err: errors.New("x")}
		})
		page, err := w.Outbox.Waiting(ctx, p, "", 5)
		coretest.Must(t, err)
		waiting[page[0].Event] = p
	}
	var shown DeliveryPage[outbox.Waiting]
	e := w.ask(t, "GET", DeliveriesPath+"?state=waiting", "", &shown)
	if e != nil || len(shown.Deliveries) != 2 {
		t.Fatalf("contract 27: %+v, %v", shown, e)
	}
	for _, d := range shown.Deliveries {
		if waiting[d.Event] == "" || d.Last != host.FetchTLS || d.Attempts != 1 || !d.Due.After(w.Clock.Now()) {
			t.Errorf("contract 27: %+v", d)
		}
	}
	for _, state := range []string{"", "?state=dead"} {
		var shown DeliveryPage[outbox.Dead]
		if e := w.ask(t, "GET", DeliveriesPath+state, "", &shown); e != nil || len(shown.Deliveries) != len(dead) {
			t.Errorf("contract 27: %s: %+v, %v", state, shown, e)
		}
	}
	w.refused(t, reply.InvalidRequest, "GET", DeliveriesPath+"?state=delivered", "")
}

func TestResend(t *testing.T) {
	w := newWorld(t)
	id := w.bury(t, "p2", 1)[0]
	path := "/admin/v1/deliveries/" + id + "/resend"
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Partition == "p1" {
			return kvtest.Refuse
		}
		return kvtest.Pass
	}
	w.refused(t, reply.Unavailable, "POST", path, "") // it may be in the partition that does not answer
	w.Store.Decide = nil
	if e := w.ask(t, "POST", path, "", nil); e != nil {
		t.Errorf("contract 27: %v", e)
	}
	w.refused(t, reply.NotFound, "POST", path, "")
	for _, bad := range []string{"x", "evt_", "evt_x", testUUID, "evt_" + testUUID + "0"} {
		w.refused(t, reply.InvalidRequest, "POST", "/admin/v1/deliveries/"+bad+"/resend", "")
	}
	tasks, _, err := w.Host.KV.Claim(ctx, "p2", w.Clock.Now(), time.Minute, 5)
	if err != nil || len(tasks) != 1 {
		t.Errorf("contract 27: %d tasks, %v", len(tasks), err)
	}
}

// To a receiver the event looks like any other, but its session does not exist.
func TestTheTestEventHasNoSession(t *testing.T) {
	w := newWorld(t)
	var bodies [][]byte
	w.answer = func(req host.FetchRequest) (int, error) {
		bodies = append(bodies, req.Body)
		return w.receiver(req)
	}
	if e := w.ask(t, "POST", testPath, "", nil); e != nil {
		t.Fatal(e)
	}
	var e webhook.Event
	coretest.Must(t, json.Unmarshal(bodies[0], &e))
	if e.Type != webhook.TypeStarted || !e.Test ||
		e.IntegrationID != "int_"+testUUID || e.PublisherID != "pub_a" ||
		!strings.HasPrefix(e.SessionID, session.Prefix) {
		t.Errorf("contract 29: %+v", e)
	}
	if _, err := session.ParseID(w.Sealer, e.SessionID); !errors.Is(err, session.ErrForged) {
		t.Errorf("contract 29: the test's session id parses: %v", err)
	}
	if e.Data.Message == nil || !strings.Contains(*e.Data.Message, "No session stands behind it") {
		t.Errorf("contract 29: the event does not say that it has no session: %s", bodies[0])
	}
}
