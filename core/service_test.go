package core

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/kinds"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const testUUID = testhost.UUID

var ctx = context.Background()

// real is a kind of method that acts as the sandbox does and is not one.
var real = method.Kind{Name: "real", Level: "L2", Open: sandbox.Kind.Open}

// fixture is a Service on a test's host, with a log that has Debug, too.
type fixture struct {
	*Service
	*testhost.Host
	status int // of the webhook receiver
	posts  []string
}

func newFixture(t testing.TB, configure func(*Config)) *fixture {
	t.Helper()
	w := &fixture{Host: testhost.New(t), status: 200}
	w.Host.Fetch = w
	w.Host.Log = slog.New(slog.NewTextHandler(&w.Logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := good()
	if configure != nil {
		configure(&cfg)
	}
	var err error
	w.Service, err = New(cfg, w.Host.Host)
	coretest.Must(t, err)
	coretest.Must(t, w.Directory().PutPublisher(ctx, integration.Publisher{ID: "pub_a"}))
	coretest.Must(t, w.Directory().PutIntegration(ctx,
		integration.Integration{ID: testUUID, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25,
			Method: "real", Webhook: integration.Webhook{URL: "https://hooks.publisher.example/"}},
		"whsec_only_for_tests"))
	return w
}

func good() Config {
	return Config{BaseURL: "https://verify.verge.example", Kinds: append([]method.Kind{real}, kinds.All...),
		Methods: []method.Config{{Name: "real", Kind: "real"}}}
}

// Fetch implements host.Fetcher.
func (w *fixture) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	var e webhook.Event
	if err := json.Unmarshal(req.Body, &e); err != nil {
		return host.FetchResponse{}, err
	}
	w.posts = append(w.posts, e.Type)
	return host.FetchResponse{Status: w.status}, nil
}

// begin starts a session in a partition. That makes an event that is due, and a timer.
func (w *fixture) begin(t testing.TB, partition session.Partition) lifecycle.Session {
	t.Helper()
	id, err := session.NewID(w.Host.Random, testUUID, session.L1, 25, w.Clock.Now(), partition)
	coretest.Must(t, err)
	text, err := id.Format(w.Host.Sealer)
	coretest.Must(t, err)
	i, err := w.Directory().Integration(ctx, testUUID)
	coretest.Must(t, err)
	s := lifecycle.Session{ID: id, Text: text, Integration: i}
	coretest.Must(t, w.lifecycle.Begin(ctx, s, nil, nil, nil))
	return s
}

func (w *fixture) ask(method, path string, header web.Header, body string) *web.Response {
	if header == nil {
		header = web.Header{}
	}
	path, query, _ := strings.Cut(path, "?")
	return w.Handle(ctx, &web.Request{Method: method, Path: path, Query: query, Header: header,
		Body: []byte(body), Client: netip.MustParseAddr("192.0.2.1")})
}

// TestRoutes asks for every path with every method.
func TestRoutes(t *testing.T) {
	w := newFixture(t, nil)
	sid := w.begin(t, 0).Text
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT",
		"PROPFIND", "get", ""}
	for _, c := range []struct {
		path    string
		allow   string
		answers map[string]int // of the methods that are allowed, without credentials
	}{
		{"/api/v1/verify/start", "POST, OPTIONS", map[string]int{"POST": 401}},
		{"/api/v1/verify/validate", "POST", map[string]int{"POST": 401}},
		{"/api/v1/verify/sessions/" + sid, "GET, HEAD", map[string]int{"GET": 401, "HEAD": 401}},
		{"/api/v1/verify/sessions/x", "GET, HEAD", map[string]int{"GET": 401, "HEAD": 401}},
		{"/api/v1/verify/test-events", "GET, HEAD", map[string]int{"GET": 401, "HEAD": 401}},
		{"/verify/return/bank", "GET", map[string]int{"GET": 400}}, // a GET that acts
		{"/verify", "GET, HEAD, POST", map[string]int{"GET": 400, "HEAD": 400, "POST": 415}},
		{"/docs", "GET, HEAD", map[string]int{"GET": 200, "HEAD": 200}},
		{"/docs/docs.js", "GET, HEAD", map[string]int{"GET": 200, "HEAD": 200}},
		{"/docs/docs.css", "GET, HEAD", map[string]int{"GET": 200, "HEAD": 200}},
		{"/api/v1/openapi.yaml", "GET, HEAD", map[string]int{"GET": 200, "HEAD": 200}},
		{pages.Style().Path, "GET, HEAD", map[string]int{"GET": 200, "HEAD": 200}},
		{"/favicon.ico", "GET, HEAD", map[string]int{"GET": 200, "HEAD": 200}},
		{"/", "", nil},
		{"", "", nil},
		{"/verify/", "", nil},
		{"/Verify", "", nil},
		{"/docs/", "", nil},
		{"/api/v1/verify", "", nil},
		{"/api/v1/verify/", "", nil},
		{"/api/v1/verify/start/", "", nil},
		{"//api/v1/verify/start", "", nil},
		{"/api/v1/verify/Start", "", nil},
		{"/api/v1/verify/sessions", "", nil},
		{"/api/v1/verify/sessions/", "", nil},
		{"/api/v1/verify/sessions/" + sid + "/", "", nil},
		{"/api/v1/verify/sessions/" + sid + "/x", "", nil},
		{"/api/v2/verify/start", "", nil},
		{"/admin/v1/keys", "", nil}, // served elsewhere
		{"/metrics", "", nil},
	} {
		for _, method := range methods {
			want, code := 405, "METHOD_NOT_ALLOWED"
			if c.answers == nil {
				want, code = 404, "NOT_FOUND"
			} else if status, ok := c.answers[method]; ok {
				want, code = status, ""
			}
			t.Run(fmt.Sprintf("contract 5: %q %s is %d", method, c.path, want), func(t *testing.T) {
				resp := w.ask(method, c.path, nil, "{}")
				if resp.Status != want {
					t.Fatalf("status %d: %s", resp.Status, resp.Body)
				}
				got := resp.Header.Get("Allow")
				if want == 405 && got != c.allow || want != 405 && resp.Header.Has("Allow") {
					t.Errorf("Allow %q, want %q", got, c.allow)
				}
				if id := resp.Header.Get("X-Request-Id"); !strings.HasPrefix(id, "req_") || len(id) != 28 {
					t.Errorf("contract 4: X-Request-Id %q", id)
				}
				if code == "" {
					return
				}
				var body map[string]any
				coretest.Must(t, json.Unmarshal(resp.Body, &body))
				if body["code"] != code || body["error_code"] != code || body["error"] != body["message"] ||
					body["error"] == "" || body["request_id"] != resp.Header.Get("X-Request-Id") {
					t.Errorf("contract 5: %s", resp.Body)
				}
				if resp.Header.Get("Content-Type") != "application/json; charset=utf-8" ||
					resp.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("contract 1: header %v", resp.Header)
				}
			})
		}
	}
}

func TestCorrelationID(t *testing.T) {
	w := newFixture(t, nil)
	for _, c := range []struct {
		name, id string
		echoed   bool
	}{
		{"one character", "x", true},
		{"128 characters", strings.Repeat("x", 128), true},
		{"129 characters", strings.Repeat("x", 129), false},
		{"space and all that prints", "a b~!\"{}", true},
		{"empty", "", false},
		{"line feed", "a\nb", false},
		{"tab", "a\tb", false},
		{"DEL", "a\x7f", false},
		{"outside ASCII", "ä", false},
		{"invalid UTF-8", "a\xff", false},
		{"NUL", "\x00", false},
	} {
		t.Run("contract 4: "+c.name, func(t *testing.T) {
			for path, isError := range map[string]bool{"/nowhere": true, "/docs": false} {
				resp := w.ask("GET", path, web.Header{"X-Correlation-Id": {c.id}}, "")
				want := c.id
				if !c.echoed {
					want = ""
				}
				got := resp.Header.Get("X-Correlation-Id")
				if got != want || resp.Header.Has("X-Correlation-Id") != c.echoed {
					t.Errorf("%s: echoed is %q, want %q", path, got, want)
				}
				if !isError {
					continue
				}
				var body struct {
					CorrelationID *string `json:"correlation_id"`
				}
				coretest.Must(t, json.Unmarshal(resp.Body, &body))
				if (body.CorrelationID != nil) != c.echoed || c.echoed && *body.CorrelationID != c.id {
					t.Errorf("in the body: %s", resp.Body)
				}
			}
		})
	}
	resp := w.ask("GET", "/nowhere", nil, "")
	if resp.Header.Has("X-Correlation-Id") || bytes.Contains(resp.Body, []byte("correlation")) {
		t.Errorf("contract 4: no id was given, and the response has %v %s", resp.Header, resp.Body)
	}
}

func TestService_StoreFails(t *testing.T) {
	w := newFixture(t, nil)
	sk, _, err := w.Directory().CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	w.Clock.Advance(5 * time.Second) // the caches have expired
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	resp := w.ask("POST", "/api/v1/verify/start", web.Header{"Authorization": {"Bearer " + sk}}, "{}")
	if resp.Status != 503 || resp.Header.Get("Retry-After") == "" ||
		!bytes.Contains(resp.Body, []byte(`"code":"UNAVAILABLE"`)) {
		t.Errorf("contract 5: %d %v %s", resp.Status, resp.Header, resp.Body)
	}
	if bytes.Contains(resp.Body, []byte("fault")) || !strings.Contains(w.Logged.String(), "injected fault") ||
		!strings.Contains(w.Logged.String(), resp.Header.Get("X-Request-Id")) {
		t.Errorf("contract 5: the cause is for the log alone, with the request id:\n%s\n%s", resp.Body,
			&w.Logged)
	}
	if got := w.Logged.String(); strings.Contains(got, "level=ERROR") ||
		!strings.Contains(got, "level=DEBUG") {
		t.Errorf("a request that the store fails writes a line above debug, "+
			"and thousands may fail in a second:\n%s", got)
	}
	if strings.Contains(w.Logged.String(), sk[:20]) {
		t.Errorf("contract 13: the log holds a key: %s", &w.Logged)
	}
	if err := w.Ready(ctx); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Ready without a store: %v", err)
	}
	w.Store.Decide = nil
	if err := w.Ready(ctx); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

// A caller gets 503 with the reason if a key of the ring is pending, or if the store has records that this
// service did not write. Neither is an internal error (500) or an unreachable store.
func TestService_UnreadableRecord(t *testing.T) {
	for _, c := range []struct {
		name, says string
		err        error
	}{
		{"a key that is awaited", "newest key of its key ring", host.ErrKeyAwaited},
		{"a planted record", "cannot trust the store's data", token.ErrRecord},
	} {
		w := newFixture(t, nil)
		router := router.Router{Host: w.host, Explain: explain, Routes: router.Table{{Methods: get,
			Pattern: "/api/x", Handle: func(context.Context, *router.Call) (*web.Response, error) {
				return nil, fmt.Errorf("reading c:c/int/x: %w", c.err)
			}}}}
		resp := router.Serve(ctx, &web.Request{Method: "GET", Path: "/api/x"})
		if resp.Status != 503 || resp.Header.Get("Retry-After") == "" ||
			!bytes.Contains(resp.Body, []byte(c.says)) || bytes.Contains(resp.Body, []byte("cannot reach")) ||
			bytes.Contains(resp.Body, []byte("c/int")) {
			t.Errorf("contract 5, 503: %s: %d %v %s", c.name, resp.Status, resp.Header, resp.Body)
		}
	}
}

func TestService_NoRandomness(t *testing.T) {
	w := newFixture(t, nil)
	h := w.Host.Host
	h.Random = bytes.NewReader(nil)
	s, err := New(good(), h)
	coretest.Must(t, err)
	resp := s.Handle(ctx, &web.Request{Method: "GET", Path: "/docs"})
	if resp.Status != 500 || !bytes.Contains(resp.Body, []byte("INTERNAL")) {
		t.Errorf("contract 5: %d %s", resp.Status, resp.Body)
	}
}

func TestRunDue(t *testing.T) {
	w := newFixture(t, func(c *Config) { c.Partitions = 3 })
	if next, err := w.RunDue(ctx); err != nil || !next.IsZero() {
		t.Errorf("nothing is scheduled: next %v, %v", next, err)
	}
	sessions := []lifecycle.Session{w.begin(t, 0), w.begin(t, 1), w.begin(t, 2)}
	expires := sessions[0].ID.Expires()
	next, err := w.RunDue(ctx)
	coretest.Must(t, err)
	if len(w.posts) != 3 || !next.Equal(expires) {
		t.Errorf("posted %v, next %v, want 3 and %s", w.posts, next, expires)
	}
	w.Clock.Advance(time.Minute)
	_, err = w.lifecycle.Fire(ctx, sessions[1], lifecycle.Step{Trigger: session.Succeeded})
	coretest.Must(t, err)
	w.Clock.Advance(session.Life)
	next, err = w.RunDue(ctx)
	coretest.Must(t, err)
	slices.Sort(w.posts)
	want := []string{webhook.TypeCompleted, webhook.TypeExpired, webhook.TypeExpired, webhook.TypeStarted,
		webhook.TypeStarted, webhook.TypeStarted}
	if !slices.Equal(w.posts, want) || !next.IsZero() {
		t.Errorf("posted %v, next %v", w.posts, next)
	}
	if _, err := w.RunDue(ctx); err != nil || len(w.posts) != 6 {
		t.Errorf("a second run posted %v, %v", w.posts, err)
	}
}

func TestRunDueReturnsTheNextAttempt(t *testing.T) {
	w := newFixture(t, nil)
	w.status = 503
	w.begin(t, 0)
	next, err := w.RunDue(ctx)
	coretest.Must(t, err)
	if d := next.Sub(w.Clock.Now()); len(w.posts) != 1 || d < 4*time.Second || d > 6*time.Second {
		t.Errorf("contract 26: after %d posts the next one is in %s", len(w.posts), d)
	}
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Claim" {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	if _, err := w.RunDue(ctx); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("the store does not answer: got %v", err)
	}
}

// If the integration is gone, its session's timer ends the session and makes no event.
func TestTimer_DeletedIntegration(t *testing.T) {
	w := newFixture(t, nil)
	s := w.begin(t, 0)
	_, err := w.RunDue(ctx)
	coretest.Must(t, err)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: "c",
		Deletes: []string{"c/int/" + testUUID}}))
	w.Clock.Advance(session.Life)
	next, err := w.RunDue(ctx)
	if err != nil || !next.IsZero() || len(w.posts) != 1 {
		t.Errorf("posted %v, next %v, %v", w.posts, next, err)
	}
	if r, _, err := w.lifecycle.Load(ctx, s.ID); err != nil || r.State != session.Expired {
		t.Errorf("contract 20: %+v, %v", r, err)
	}
}

// A lease ends by the clock that other claimants have. A monotonic reading would make it seem to hold after
// the clock was set ahead, or after the machine has slept.
func TestLease_WallClock(t *testing.T) {
	w := newFixture(t, nil)
	w.begin(t, session.Partition(0))
	off := time.Until(w.Clock.Now())
	w.host.Now = func() time.Time { return time.Now().Add(off) }
	if now := w.host.Now(); now == now.Round(0) {
		t.Fatal("the test's clock has no monotonic reading")
	}
	jobs, _, err := w.Claim(ctx, session.Partition(0).Name(), 1)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	if until := jobs[0].Until; until != until.Round(0) {
		t.Errorf("host.Job, Until: %v has a monotonic reading, which others do not have", until)
	}
}

func TestClaimIsOfOnePartition(t *testing.T) {
	const partitions, each = 4, 8
	w := newFixture(t, func(c *Config) { c.Partitions = partitions })
	for p := range partitions {
		for range each {
			w.begin(t, session.Partition(p))
		}
	}
	if got := w.Partitions(); !slices.Equal(got, []kv.Partition{"p0", "p1", "p2", "p3"}) {
		t.Errorf("partitions %v", got)
	}
	for _, p := range w.Partitions() {
		jobs, next, err := w.Claim(ctx, p, 1000)
		if err != nil || len(jobs) != each {
			t.Errorf("%s: %d jobs, %v", p, len(jobs), err)
		}
		for _, j := range jobs {
			if !j.Until.Equal(w.Clock.Now().Add(27*time.Second)) || j.Destination != testUUID ||
				j.Task.Lease == "" || j.Partition != p {
				t.Errorf("%s: job %s of %s until %s, lane %s, lease %q", p, j.Task.ID, j.Partition, j.Until,
					j.Destination, j.Task.Lease)
			}
		}
		if want := w.Clock.Now().Add(session.Life); !next.Equal(want) {
			t.Errorf("%s: next is %v, want the timers of the sessions, %v", p, next, want)
		}
	}
}

// A backlog in one partition does not keep the others waiting.
func TestRunDueTakesAFewOfEachPartition(t *testing.T) {
	w := newFixture(t, func(c *Config) { c.Partitions = 2 })
	var claimed []kv.Partition
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Claim" {
			claimed = append(claimed, c.Partition)
		}
		return kvtest.Pass
	}
	for range 40 {
		w.begin(t, 0)
	}
	w.begin(t, 1)
	if _, err := w.RunDue(ctx); err != nil || len(w.posts) != 41 {
		t.Errorf("%d of 41 posted, %v", len(w.posts), err)
	}
	if len(claimed) < 6 || !slices.Equal(claimed[:4], []kv.Partition{"p0", "p1", "p0", "p1"}) {
		t.Errorf("claimed from %v, want the partitions in turn", claimed)
	}
}

// Tasks of the partitions that answer run, even if another partition does not answer.
func TestRunDueRunsTheOtherPartitionsBesideAnError(t *testing.T) {
	w := newFixture(t, func(c *Config) { c.Partitions = 2 })
	w.begin(t, 0)
	w.begin(t, 1)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Claim" && c.Partition == "p0" {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	if _, err := w.RunDue(ctx); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("err %v", err)
	}
	if len(w.posts) != 1 {
		t.Errorf("posted %v", w.posts)
	}
}

func TestTimersHaveNoDestination(t *testing.T) {
	w := newFixture(t, nil)
	w.begin(t, 0)
	w.Clock.Advance(session.Life)
	jobs, _, err := w.Claim(ctx, "p0", 10)
	coretest.Must(t, err)
	lanes := map[string]string{}
	for _, j := range jobs {
		m, _, err := outbox.Read(j.Task)
		coretest.Must(t, err)
		lanes[string(m.Kind)] = j.Destination
	}
	if len(jobs) != 2 || lanes["deliver"] != testUUID || lanes["expire"] != "" {
		t.Errorf("lanes of %d jobs: %v", len(jobs), lanes)
	}
}

func TestDeferGivesAJobBack(t *testing.T) {
	w := newFixture(t, nil)
	w.begin(t, 0)
	jobs, _, err := w.Claim(ctx, "p0", 1)
	coretest.Must(t, err)
	until := w.Clock.Now().Add(90 * time.Second)
	coretest.Must(t, w.Defer(ctx, jobs[0], until))
	jobs, next, err := w.Claim(ctx, "p0", 1)
	if err != nil || len(jobs) != 0 || !next.Equal(until) {
		t.Errorf("%d jobs, next %v, %v", len(jobs), next, err)
	}
}

func TestTask_Unreadable(t *testing.T) {
	w := newFixture(t, nil)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: "p0", Schedule: []kv.Task{
		{ID: "damaged", Due: w.Clock.Now().Add(-time.Second), Payload: []byte("?")},
		{ID: "x/forged", Due: w.Clock.Now().Add(-time.Second),
			Payload: []byte(`{"k":"expire","sid":"svc_sess_x"}` + "\n")},
	}}))
	w.begin(t, 0)
	if _, err := w.RunDue(ctx); err != nil {
		t.Error(err)
	}
	if len(w.posts) != 1 {
		t.Errorf("posted %v", w.posts)
	}
	w.Clock.Advance(24 * time.Hour) // past the session's timer, and the leases of claimed tasks
	if _, err := w.RunDue(ctx); err != nil {
		t.Error(err)
	}
	left, _, err := w.Memory.Claim(ctx, "p0", w.Clock.Now().Add(1000*time.Hour), time.Hour, 10)
	coretest.Must(t, err)
	if len(left) != 0 {
		t.Errorf("%d tasks are never removed", len(left))
	}
}

// A rejected user sees the reason, in their language (contract 22, 30).
func TestPagesOverTheirRateAreRejectedWithAPage(t *testing.T) {
	w := newFixture(t, func(c *Config) { c.Limits.PagesPerIP = ratelimit.PerMinute(4) })
	german := web.Header{
		"Accept":          {"text/html"},
		"Accept-Language": {"de"},
		"Content-Type":    {"application/x-www-form-urlencoded"},
	}
	for n, method := range []string{"GET", "POST", "HEAD", "GET"} {
		r := w.ask(method, web.HostedPath+"?flow=x", german, "flow=x")
		if r.Status != 400 || !strings.HasPrefix(r.Header.Get("Ratelimit-Policy"), `"page-ip";q=4;w=60`) {
			t.Errorf("contract 30: %s, number %d: %d %v", method, n+1, r.Status, r.Header)
		}
	}
	for _, method := range []string{"GET", "POST", "HEAD"} {
		r := w.ask(method, web.HostedPath+"?flow=x", german, "flow=x")
		if r.Status != 429 || r.Header.Get("Retry-After") != "15" ||
			!strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") ||
			r.Header.Get("Content-Language") != "de" || r.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("contract 22, 30: %s: %d %v", method, r.Status, r.Header)
		}
	}
	r := w.ask("PUT", web.HostedPath, german, "")
	if r.Status != 405 || r.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("contract 5, 405: %d %v", r.Status, r.Header)
	}
	for _, path := range []string{"/docs", "/"} {
		if r := w.ask("GET", path, german, ""); r.Status != 200 {
			t.Errorf("contract 30: %s costs the store nothing and is not limited: %d", path, r.Status)
		}
	}
}

// shared is a store that instances share, and that can count.
type shared struct {
	kv.KV
	ratelimit.Store
	names []string
}

func (m *shared) Spend(
	ctx context.Context, _ kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	for _, c := range charges {
		m.names = append(m.names, c.Name)
	}
	return m.Store.Spend(ctx, now, charges)
}

// A reader of the store finds no client's address in it (contract 13).
func TestCountersNameNoClientAddress(t *testing.T) {
	w := newFixture(t, nil)
	m := &shared{KV: w.Store, Store: ratelimit.NewLocal(0)}
	w.Host.KV = m
	var err error
	w.Service, err = New(good(), w.Host.Host)
	coretest.Must(t, err)
	w.ask("OPTIONS", web.StartPath, nil, "")
	w.ask("POST", web.StartPath, nil, "{}")
	w.ask("POST", web.ValidatePath, nil, "{}")
	w.ask("GET", web.HostedPath, nil, "")
	w.Admin(ctx, &web.Request{Method: "GET", Path: "/admin/v1/keys",
		Client: netip.MustParseAddr("192.0.2.1"), Header: web.Header{"Authorization": {"Bearer wrong"}}})
	var policies []string
	for _, name := range m.names {
		policy, who, _ := strings.Cut(name, "/")
		who, _, _ = strings.Cut(who, "/") // without the minute
		policies = append(policies, policy)
		if strings.Contains(name, "192.0.2") || len(who) != len("#")+22 {
			t.Errorf("contract 13: a counter is named %s", name)
		}
	}
	// The operators' count is read before the token is checked, and charged after it.
	const want = "preflight-ip public-ip secret-ip page-ip operator-ip operator-ip"
	if strings.Join(policies, " ") != want {
		t.Errorf("counted are %v, want %s", policies, want)
	}
}
