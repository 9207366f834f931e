package otlp

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// A caller chooses its trace id and sets the flag that it records the trace. Verge still samples at random.
func TestByLot_CallersTraceID(t *testing.T) {
	low := oteltrace.TraceID{15: 0, 0: 1} // in a fraction of any size
	ctx := oteltrace.ContextWithRemoteSpanContext(context.Background(), oteltrace.NewSpanContext(
		oteltrace.SpanContextConfig{TraceID: low, SpanID: oteltrace.SpanID{1},
			TraceFlags: oteltrace.FlagsSampled}))
	draws := []float64{0.009, 0.01, 0.5, 0}
	at := 0
	lot := byLot{part: 0.01, draw: func() float64 { at++; return draws[at-1] }}
	sampler := trace.ParentBased(trace.AlwaysSample(), trace.WithRemoteParentSampled(lot))
	var got []bool
	for range draws {
		r := sampler.ShouldSample(trace.SamplingParameters{ParentContext: ctx, TraceID: low})
		got = append(got, r.Decision == trace.RecordAndSample)
	}
	if want := []bool{true, false, false, true}; !slices.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
}

// Open uses the sampler of the test above for callers' requests.
func TestOpen_SamplesAtRandom(t *testing.T) {
	p, err := Open(t.Context(), Config{Endpoint: "http://127.0.0.1:1", Sample: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	low := oteltrace.TraceID{0: 1}
	recorded := 0
	for range 1000 {
		ctx := oteltrace.ContextWithRemoteSpanContext(context.Background(), oteltrace.NewSpanContext(
			oteltrace.SpanContextConfig{TraceID: low, SpanID: oteltrace.SpanID{1},
				TraceFlags: oteltrace.FlagsSampled}))
		_, span := p.Tracer("test").Start(ctx, "request")
		if span.IsRecording() {
			recorded++
		}
	}
	if recorded > 100 { // 10 are expected
		t.Errorf("%d of 1,000 requests of a caller are recorded, want about 10", recorded)
	}
}
