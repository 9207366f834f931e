package otlp_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/otlp"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/wasm/settings"
)

// sink is a collector that stores the spans that it receives.
type sink struct {
	*httptest.Server

	mu    sync.Mutex
	spans []*trace.Span
	paths []string
	fails bool
}

func newSink(t *testing.T) *sink {
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var sent collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(b, &sent)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.paths = append(s.paths, r.URL.Path)
		if err != nil || s.fails {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, resource := range sent.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				s.spans = append(s.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// named returns the spans of that name.
func (s *sink) named(name string) (found []*trace.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.spans {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

// below reports whether a span of that name has one of the given spans as its parent.
func (s *sink) below(parents []*trace.Span, name string) bool {
	for _, span := range s.named(name) {
		for _, p := range parents {
			if bytes.Equal(span.ParentSpanId, p.SpanId) && bytes.Equal(span.TraceId, p.TraceId) {
				return true
			}
		}
	}
	return false
}

// everything returns the text of all spans and their contents.
func (s *sink) everything() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.spans)
}

const (
	integration = "5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a01"
	state       = "canary-state"
	user        = "canary-user"
	query       = "canary-query"
	path        = "canary-path"
	vendor      = "canary-vendor"
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	callerSpan  = "b7ad6b7169203331"
)

// service is a running service with a receiver of its webhooks.
type service struct {
	base, key string
	webhooks  chan http.Header
}

func serve(t *testing.T, module []byte, change func(*edge.Config)) service {
	t.Helper()
	s := service{webhooks: make(chan http.Header, 8)}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.webhooks <- r.Header
	}))
	t.Cleanup(receiver.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ring, err := keyring.Generate(rand.Reader, time.Now())
	must(t, err)
	s.base = "http://" + listener.Addr().String()
	c := edge.Config{
		Core:   core.Config{BaseURL: s.base, Dev: true},
		Store:  edge.Store{KV: memory.New(memory.Config{})},
		Engine: engineOf(module), Keyring: ring, Public: listener,
		Egress: egress.Config{Dev: true},
	}
	change(&c)
	verge, err := edge.Open(t.Context(), c)
	must(t, err)
	must(t, verge.Engine().Apply(t.Context(), fmt.Appendf(nil, `{
		"publishers": [{"id": "pub_shop", "name": "Shop"}],
		"integrations": [{"id": %q, "publisher": "pub_shop", "name": "Age check", "level": "L1",
			"challenge_age": 25, "method": "sandbox", "webhook_url": "%s/%s",
			"secret": "whsec-0123456789abcdef0123456789abcdef"}]
	}`, integration, receiver.URL, path)))
	s.key, _, err = verge.Directory().CreateKey(t.Context(), "pub_shop", "", nil)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- verge.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, wait.For(ended))
	})
	return s
}

// engineOf returns an engine that runs a module; nil, the native one, if module is nil.
func engineOf(module []byte) func(context.Context, edge.Setup) (engine.Engine, error) {
	if module == nil {
		return nil
	}
	return func(ctx context.Context, s edge.Setup) (engine.Engine, error) {
		return wasmhost.New(ctx, wasmhost.Config{Host: s.Host, Module: module, Effect: s.Trace.Effect,
			Guest: settings.Config{Config: s.Core}, Meter: ratelimit.NewLocal(0).Meter()})
	}
}

// start starts a session in the caller's trace.
func (s service) start(t *testing.T) {
	t.Helper()
	req, err := http.NewRequest("POST", s.base+"/api/v1/verify/start", strings.NewReader(`{"integration_id": "`+
		integration+`", "state": "`+state+`", "callback_url": "https://shop.example/return?q=`+query+
		`", "external_user_id": "`+user+`"}`))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Traceparent", "00-"+traceID+"-"+callerSpan+"-01")
	req.Header.Set("Tracestate", "vendor="+vendor)
	req.Header.Set("Baggage", "user="+vendor)
	answer, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, answer.Body.Close())
	if answer.StatusCode != 200 {
		t.Fatalf("a start: %s", answer.Status)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The collector of the test gets one span for a request and for a job, and for their requests to others,
// natively and from guests.
func TestSpans(t *testing.T) {
	engines := map[string][]byte{"native": nil}
	if long.Run(t, "TestSpans") {
		engines["wasm"] = testenv.Module(t)
	}
	for name, module := range engines {
		t.Run(name, func(t *testing.T) {
			to := newSink(t)
			provider, err := otlp.Open(t.Context(), otlp.Config{Endpoint: to.URL, Sample: 1})
			must(t, err)
			s := serve(t, module, func(c *edge.Config) { c.Tracer = provider })
			s.start(t)
			webhook := wait.For(s.webhooks)
			wait.Until(t, "the span of the job arrives", func() bool { // a moment after the webhook
				must(t, provider.ForceFlush(t.Context()))
				return len(to.named("job deliver")) > 0
			})
			checkRequest(t, to, name == "wasm")
			checkWebhook(t, to, webhook)
			for _, secret := range []string{state, user, query, path, vendor, s.key, "svc_sk_", "whsec",
				"127.0.0.1:"} {
				if all := to.everything(); strings.Contains(all, secret) {
					t.Errorf("contract 13: a span has %q: %s", secret, all)
				}
			}
			must(t, provider.Shutdown(t.Context()))
			if to.paths[0] != "/v1/traces" {
				t.Errorf("spans are sent to %s", to.paths[0])
			}
		})
	}
}

func checkRequest(t *testing.T, to *sink, guest bool) {
	t.Helper()
	requests := to.named("POST start")
	if len(requests) != 1 {
		t.Fatalf("%d spans of the request: %s", len(requests), to.everything())
	}
	if r := requests[0]; fmt.Sprintf("%x %x", r.TraceId, r.ParentSpanId) != traceID+" "+callerSpan {
		t.Errorf("the request's span does not continue the caller's trace: %v", r)
	}
	for _, attribute := range []string{"verge.session", "verge.integration", "verge.publisher", "verge.key",
		"verge.request_id", "http.response.status_code"} {
		if !strings.Contains(fmt.Sprint(requests[0].Attributes), `"`+attribute+`"`) {
			t.Errorf("the request's span has no %s: %v", attribute, requests[0].Attributes)
		}
	}
	parents := requests
	if guest {
		if parents = to.named("effect commit"); !to.below(requests, "effect commit") {
			t.Errorf("a guest's effect has no span below its request: %s", to.everything())
		}
	}
	if !to.below(parents, "store commit") {
		t.Errorf("the commit of a start has no span where it belongs: %s", to.everything())
	}
}

var parentForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-01$`)

func checkWebhook(t *testing.T, to *sink, webhook http.Header) {
	t.Helper()
	m := parentForm.FindStringSubmatch(webhook.Get("Traceparent"))
	if m == nil || webhook.Get("Tracestate") != "" || webhook.Get("Baggage") != "" {
		t.Fatalf("the webhook carries %v", webhook)
	}
	for _, span := range to.named("fetch webhook") {
		if fmt.Sprintf("%x %x", span.TraceId, span.SpanId) == m[1]+" "+m[2] {
			return
		}
	}
	t.Errorf("the webhook's traceparent %v is of no span: %s", m, to.everything())
}

// Without a tracer, webhooks have no additional header, and no spans are sent.
func TestSpans_Off(t *testing.T) {
	s := serve(t, nil, func(*edge.Config) {})
	s.start(t)
	if webhook := wait.For(s.webhooks); webhook.Get("Traceparent") != "" {
		t.Errorf("a webhook carries %s", webhook.Get("Traceparent"))
	}
}

// A caller's flag that it records its trace must not decide whether Verge records it.
func TestSpans_CallersFlag(t *testing.T) {
	to := newSink(t)
	provider, err := otlp.Open(t.Context(), otlp.Config{Endpoint: to.URL, Sample: 0})
	must(t, err)
	s := serve(t, nil, func(c *edge.Config) { c.Tracer = provider })
	s.start(t)
	if webhook := wait.For(s.webhooks); !strings.HasSuffix(webhook.Get("Traceparent"), "-00") {
		t.Errorf("a webhook of a trace that is not recorded carries %q", webhook.Get("Traceparent"))
	}
	must(t, provider.Shutdown(t.Context()))
	if all := to.everything(); all != "[]" {
		t.Errorf("recorded although nothing is sampled: %s", all)
	}
}

// An unreachable collector causes one log line, and no request fails.
func TestOpen_FailingCollector(t *testing.T) {
	to := newSink(t)
	to.fails = true
	var log bytes.Buffer
	provider, err := otlp.Open(t.Context(), otlp.Config{Endpoint: to.URL + "/elsewhere", Sample: 1,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	span := func() {
		_, s := provider.Tracer("test").Start(context.Background(), "span")
		s.End()
		must(t, provider.ForceFlush(t.Context()))
	}
	span()
	span()
	to.mu.Lock()
	to.fails = false
	to.mu.Unlock()
	span()
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "dropped") ||
		!strings.Contains(text, "again") {
		t.Errorf("the log:\n%s", text)
	}
	if to.paths[0] != "/elsewhere" || len(to.named("span")) != 1 {
		t.Errorf("sent to %v, and %d arrived", to.paths, len(to.named("span")))
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		sample   float64
		good     bool
	}{
		{"http://127.0.0.1:4318", 0.01, true},
		{"https://collector.example/v1/traces", 1, true},
		{"", 1, false},
		{"127.0.0.1:4318", 1, false},
		{"grpc://127.0.0.1:4317", 1, false},
		{"http://user:secret@collector.example", 1, false},
		{"http://collector.example?token=secret", 1, false},
		{"http://127.0.0.1:4318", 1.01, false},
		{"http://127.0.0.1:4318", -0.01, false},
		{"http://127.0.0.1:4318", math.NaN(), false},
	} {
		config := otlp.Config{Endpoint: c.endpoint, Sample: c.sample}
		if err := config.Check(); (err == nil) != c.good {
			t.Errorf("%+v: %v", config, err)
		}
		if _, err := otlp.Open(t.Context(), config); (err == nil) != c.good {
			t.Errorf("%+v: it opens with %v", config, err)
		}
	}
}
