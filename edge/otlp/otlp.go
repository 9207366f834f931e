// Package otlp sends spans to a collector, by OTLP over HTTP. [Open] returns the provider for tracing.New.
//
// Requests go only to the configured endpoint, without the environment's proxies and without redirects. A
// collector's credentials are read from OTEL_EXPORTER_OTLP_HEADERS.
//
// Delivery is not guaranteed. Spans are sent in batches, with a delay. If the collector is unreachable or
// too slow, they are dropped and logged once.
package otlp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	lots "math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Config configures the destination of spans. Endpoint is required.
type Config struct {
	// Endpoint is the collector's address, such as http://127.0.0.1:4318. The default path is /v1/traces.
	Endpoint string

	// Sample is the fraction of all traces that is recorded, from 0 to 1.
	Sample float64

	Version string       // of the service, for the collector
	Log     *slog.Logger // nil discards
}

// Check returns an error if the configuration is invalid.
func (c Config) Check() error {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" {
		return fmt.Errorf("%q is no address like http://127.0.0.1:4318", c.Endpoint)
	}
	if !(c.Sample >= 0 && c.Sample <= 1) { // rejects NaN, too
		return fmt.Errorf("the sampled part is %v, which is not from 0 to 1", c.Sample)
	}
	return nil
}

// Open returns a provider whose spans go to the collector. Its Shutdown sends the remaining ones.
//
// A caller that records a trace does not decide whether Verge does: Verge samples each of its requests at
// random. The trace id would not be suitable, because the caller has chosen it. A trace that its caller
// does not record is not recorded here either.
func Open(ctx context.Context, c Config) (*trace.TracerProvider, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	u, _ := url.Parse(c.Endpoint) // Check has parsed it
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport:     &http.Transport{ForceAttemptHTTP2: true}, // without a proxy
			Timeout:       10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}))
	if err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	sampled := trace.TraceIDRatioBased(c.Sample)
	remote := byLot{part: c.Sample, draw: lots.Float64}
	return trace.NewTracerProvider(
		trace.WithBatcher(&telling{SpanExporter: exporter, log: c.Log}),
		trace.WithSampler(trace.ParentBased(sampled, trace.WithRemoteParentSampled(remote))),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "verge"),
			attribute.String("service.version", c.Version),
			attribute.String("service.instance.id", rand.Text()))),
	), nil
}

// byLot records a random fraction of the requests that come with a trace.
type byLot struct {
	part float64
	draw func() float64 // at least 0 and less than 1
}

// ShouldSample implements trace.Sampler.
func (b byLot) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	r := trace.SamplingResult{Decision: trace.Drop,
		Tracestate: oteltrace.SpanContextFromContext(p.ParentContext).TraceState()}
	if b.draw() < b.part {
		r.Decision = trace.RecordAndSample
	}
	return r
}

// Description implements trace.Sampler.
func (b byLot) Description() string { return fmt.Sprintf("ByLot{%v}", b.part) }

// telling is an exporter that logs when it begins to fail, and when it works again.
type telling struct {
	trace.SpanExporter
	log     *slog.Logger
	failing atomic.Bool
}

// ExportSpans implements trace.SpanExporter.
func (t *telling) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		if !t.failing.Swap(true) {
			t.log.Warn("traces not sent to the collector; dropped", "error", err.Error())
		}
	case err == nil && t.failing.Swap(false):
		t.log.Info("traces sent to the collector again")
	}
	return nil // already logged; OpenTelemetry would print each failure
}
