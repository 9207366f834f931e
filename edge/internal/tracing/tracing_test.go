package tracing_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/internal/tracing"
	"github.com/verge-id/verge/kvadapters/memory"
)

func recording() (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return tracing.New(trace.NewTracerProvider(trace.WithSpanProcessor(spans))), spans
}

// named returns the names of the spans that have ended.
func named(spans *tracetest.SpanRecorder) (names []string) {
	for _, s := range spans.Ended() {
		names = append(names, s.Name())
	}
	return names
}

// fetching returns err and stores its request.
type fetching struct {
	asked host.FetchRequest
	err   error
}

func (f *fetching) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	f.asked = req
	return host.FetchResponse{Status: 204}, f.err
}

// While tracing is off, calls are not wrapped.
func TestTracer_Nil(t *testing.T) {
	off := tracing.New(nil)
	store, fetch := kv.KV(memory.New(memory.Config{})), host.Fetcher(&fetching{})
	if off.KV(store) != store || off.Fetcher(fetch) != fetch || off.Engine(engine.Engine(nil)) != nil {
		t.Error("a value is wrapped without a tracer")
	}
	ctx, span := off.Request(t.Context(), web.Header{"Traceparent": {"x"}}, "public", "GET", "start")
	span.End(200, "req_1", host.RequestInfo{})
	within, done := off.Effect(ctx, "get")
	if done(); ctx != t.Context() || within != ctx {
		t.Error("a context is created without a tracer")
	}
}

// The provider of a verification method receives no data that could connect requests.
func TestFetcher_Traceparent(t *testing.T) {
	tracer, _ := recording()
	for name, c := range map[string]struct {
		req  host.FetchRequest
		want bool
	}{
		"a webhook": {host.FetchRequest{
			Header: map[string]string{"X-Service-Signature": "s"}}, true},
		"a webhook without a header": {host.FetchRequest{}, true},
		"a method's request":         {host.FetchRequest{For: "bankid"}, false},
		"a method's request, headers": {host.FetchRequest{For: "bankid", Header: map[string]string{"A": "b"}},
			false},
	} {
		f := &fetching{}
		ctx, span := tracer.Request(t.Context(), nil, "public", "POST", "start")
		if _, err := tracer.Fetcher(f).Fetch(ctx, c.req); err != nil {
			t.Error(err)
		}
		span.End(200, "req_1", host.RequestInfo{})
		if got := f.asked.Header["Traceparent"] != ""; got != c.want {
			t.Errorf("%s: the headers are %v", name, f.asked.Header)
		}
		if c.req.Header["Traceparent"] != "" {
			t.Errorf("%s: the caller's own header was changed", name)
		}
	}
	f := &fetching{}
	if _, err := tracer.Fetcher(f).Fetch(t.Context(), host.FetchRequest{}); err != nil ||
		len(f.asked.Header) > 0 {
		t.Errorf("outside of a trace a webhook carries %v, %v", f.asked.Header, err)
	}
}

// failing is a store whose commits fail.
type failing struct {
	kv.KV
	err error
}

func (f failing) Commit(context.Context, kv.Tx) error { return f.err }

func TestKV_Spans(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		fault bool
	}{
		"well":       {nil, false},
		"a conflict": {&kv.Conflict{}, false},
		"refused":    {kv.ErrUnavailable, true},
		"unknown":    {errors.Join(&kv.Conflict{}, kv.ErrUnknown), true},
	} {
		tracer, spans := recording()
		store := tracer.KV(failing{memory.New(memory.Config{}), c.err})
		if _, isMeter := store.(kv.Meter); isMeter {
			t.Error("a store without counters now has some")
		}
		_, _, _ = store.Claim(t.Context(), "p", time.Now(), time.Second, 1) // a runner's poll, in no trace
		ctx, span := tracer.Request(t.Context(), nil, "public", "POST", "start")
		if err := store.Commit(ctx, kv.Tx{}); !errors.Is(err, c.err) {
			t.Errorf("%s: the error became %v", name, err)
		}
		if _, err := store.Get(ctx, kv.Key{Partition: "p", Name: "n"}); !errors.Is(err, kv.ErrNotFound) {
			t.Error(err)
		}
		if _, err := store.List(ctx, kv.Key{Partition: "p"}, "", 1); err != nil {
			t.Error(err)
		}
		span.End(503, "req_1", host.RequestInfo{})
		want := []string{"store commit", "store get", "store list", "POST start"}
		if got := named(spans); !slices.Equal(got, want) {
			t.Fatalf("%s: spans %q, want %q", name, got, want)
		}
		for i, fault := range []bool{c.fault, false, false, true} {
			s := spans.Ended()[i].Status()
			if (s.Code == codes.Error) != fault || s.Description != "" {
				t.Errorf("%s: the span %s has the status %+v", name, want[i], s)
			}
		}
	}
}

// A malformed or repeated parent begins no foreign trace.
func TestRequest_BadParents(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, c := range map[string]struct {
		parents   []string
		continues bool
	}{
		"one":        {[]string{good}, true},
		"two":        {[]string{good, good}, false},
		"none":       {nil, false},
		"text":       {[]string{"john"}, false},
		"zero":       {[]string{"00-00000000000000000000000000000000-b7ad6b7169203331-01"}, false},
		"upper case": {[]string{"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"}, false},
	} {
		tracer, spans := recording()
		header := web.Header{"Tracestate": {"vendor=john"}}
		if c.parents != nil {
			header["Traceparent"] = c.parents
		}
		_, span := tracer.Request(t.Context(), header, "public", "POST", "start")
		span.End(200, "req_1", host.RequestInfo{})
		s := spans.Ended()[0]
		if s.Parent().IsValid() != c.continues || s.SpanContext().TraceState().Len() != 0 {
			t.Errorf("%s: the parent is %+v, the state %q", name, s.Parent(), s.SpanContext().TraceState())
		}
	}
}
