// Package tracing creates OpenTelemetry spans: one for each request and each job, and below them one for
// each call of the store, each outbound request and each effect of a guest. It uses only OpenTelemetry's
// API; package otlp sends the spans to a collector.
//
// [New] creates a [Tracer] from a provider. Every method also works on a nil Tracer: it then returns its
// argument unchanged, so disabled tracing has no cost.
//
// # Guarantees
//
//   - A request with a valid traceparent (W3C Trace Context) continues that trace. Its tracestate and its
//     baggage are not read.
//   - A webhook carries the traceparent of the job that sends it. Requests of verification methods carry
//     none.
//   - No span contains a query, a body, a header, a path, a client's address, a key, a token or a name of
//     the store's items. Attributes are contract 48's, and texts from fixed sets.
package tracing

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/engine"
)

// Tracer creates spans. Its methods may be called concurrently.
type Tracer struct{ spans trace.Tracer }

// New returns a tracer whose spans go to the provider, or nil if the provider is nil.
func New(p trace.TracerProvider) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{p.Tracer("github.com/verge-id/verge")}
}

// traceHeader propagates a span to another process (W3C Trace Context).
const traceHeader = "Traceparent"

// Request is the span of a request.
type Request struct{ span trace.Span }

// Request begins the span of a request. method and route are our own texts.
func (t *Tracer) Request(ctx context.Context, header web.Header, listener, method, route string) (
	context.Context, Request) {
	if t == nil {
		return ctx, Request{}
	}
	if parents := header[traceHeader]; len(parents) == 1 {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parents[0]})
	}
	ctx, span := t.spans.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", method),
			attribute.String("http.route", route), attribute.String("verge.listener", listener)))
	return ctx, Request{span}
}

// End ends the span of a request.
func (r Request) End(status int, requestID string, about host.RequestInfo) {
	if r.span == nil {
		return
	}
	if r.span.IsRecording() {
		r.span.SetAttributes(attribute.Int("http.response.status_code", status),
			attribute.String("verge.request_id", requestID))
		for _, m := range []struct{ name, value string }{
			{"verge.session", about.Session}, {"verge.integration", about.Integration},
			{"verge.publisher", about.Publisher}, {"verge.key", about.Key}, {"verge.code", about.Code},
		} {
			if m.value != "" {
				r.span.SetAttributes(attribute.String(m.name, m.value))
			}
		}
		if status >= 500 {
			r.span.SetStatus(codes.Error, "")
		}
	}
	r.span.End()
}

// within begins a span below the span of ctx, if that is recorded. A call outside of requests and jobs,
// such as a poll for tasks, has no span: it would be a separate trace, several times a second.
func (t *Tracer) within(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (
	context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	return t.spans.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// end ends a span that within has begun. The text of err is not sent to a collector.
func end(span trace.Span, err error, attrs ...attribute.KeyValue) {
	if span == nil {
		return
	}
	span.SetAttributes(attrs...)
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Effect begins the span of a guest's effect. The caller ends it.
func (t *Tracer) Effect(ctx context.Context, kind string) (within context.Context, done func()) {
	if t == nil {
		return ctx, func() {}
	}
	ctx, span := t.within(ctx, "effect "+kind, trace.SpanKindInternal)
	return ctx, func() { end(span, nil) }
}

// Engine returns e with a span for each job that it runs.
func (t *Tracer) Engine(e engine.Engine) engine.Engine {
	if t == nil {
		return e
	}
	return traced{e, t}
}

type traced struct {
	engine.Engine
	t *Tracer
}

// Run implements engine.Engine.
func (e traced) Run(ctx context.Context, job host.Job) error {
	name, attrs := "job expire", []attribute.KeyValue(nil)
	if job.Destination != "" {
		name, attrs = "job deliver", append(attrs, attribute.String("verge.integration", job.Destination))
	}
	ctx, span := e.t.spans.Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(attrs...))
	err := e.Engine.Run(ctx, job)
	end(span, err)
	return err
}

// Fetcher returns f with a span for each request. A webhook propagates the trace.
func (t *Tracer) Fetcher(f host.Fetcher) host.Fetcher {
	if t == nil {
		return f
	}
	return fetcher{f, t}
}

type fetcher struct {
	host.Fetcher
	t *Tracer
}

// Fetch implements host.Fetcher.
func (f fetcher) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	name, attrs := "fetch webhook", []attribute.KeyValue{attribute.String("http.request.method", req.Method)}
	if req.For != "" {
		name, attrs = "fetch method", append(attrs, attribute.String("verge.method", req.For))
	}
	if u, err := url.Parse(req.URL); err == nil {
		attrs = append(attrs, attribute.String("server.address", u.Hostname()))
	}
	ctx, span := f.t.within(ctx, name, trace.SpanKindClient, attrs...)
	if req.For == "" {
		carried := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(ctx,
			trace.SpanContextFromContext(ctx).WithTraceState(trace.TraceState{})), carried)
		if parent := carried["traceparent"]; parent != "" {
			req.Header = maps.Clone(req.Header)
			if req.Header == nil {
				req.Header = map[string]string{}
			}
			req.Header[traceHeader] = parent
		}
	}
	resp, err := f.Fetcher.Fetch(ctx, req)
	var failed *host.FetchError
	switch {
	case errors.As(err, &failed):
		end(span, err, attribute.String("error.type", failed.Reason))
	case err != nil:
		end(span, err)
	default:
		end(span, nil, attribute.Int("http.response.status_code", resp.Status))
	}
	return resp, err
}

// KV returns the store with a span for each call. It is a kv.Meter if the store is one.
func (t *Tracer) KV(store kv.KV) kv.KV {
	if t == nil {
		return store
	}
	if m, ok := store.(kv.Meter); ok {
		return struct {
			tracedKV
			meter
		}{tracedKV{store, t}, meter{m, t}}
	}
	return tracedKV{store, t}
}

type tracedKV struct {
	store kv.KV
	t     *Tracer
}

func (s tracedKV) begin(ctx context.Context, operation string) (context.Context, trace.Span) {
	return s.t.within(ctx, "store "+operation, trace.SpanKindClient,
		attribute.String("db.operation.name", operation))
}

// failed returns err, or nil if err is not a failure of the store.
func failed(err error) error {
	var conflict *kv.Conflict
	if errors.Is(err, kv.ErrNotFound) || errors.As(err, &conflict) && !errors.Is(err, kv.ErrUnknown) {
		return nil
	}
	return err
}

// Get implements kv.KV.
func (s tracedKV) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	ctx, span := s.begin(ctx, "get")
	item, err := s.store.Get(ctx, key)
	end(span, failed(err))
	return item, err
}

// Commit implements kv.KV.
func (s tracedKV) Commit(ctx context.Context, tx kv.Tx) error {
	ctx, span := s.begin(ctx, "commit")
	err := s.store.Commit(ctx, tx)
	end(span, failed(err))
	return err
}

// Claim implements kv.KV.
func (s tracedKV) Claim(ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) (
	[]kv.Task, time.Time, error) {
	ctx, span := s.begin(ctx, "claim")
	tasks, next, err := s.store.Claim(ctx, p, now, lease, n)
	end(span, failed(err))
	return tasks, next, err
}

// List implements kv.KV.
func (s tracedKV) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	ctx, span := s.begin(ctx, "list")
	items, err := s.store.List(ctx, prefix, after, n)
	end(span, failed(err))
	return items, err
}

type meter struct {
	kv.Meter
	t *Tracer
}

// Spend implements kv.Meter.
func (m meter) Spend(ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge) (
	[]time.Time, error) {
	ctx, span := m.t.within(ctx, "store spend", trace.SpanKindClient,
		attribute.String("db.operation.name", "spend"))
	tats, err := m.Meter.Spend(ctx, p, now, charges)
	end(span, failed(err))
	return tats, err
}
