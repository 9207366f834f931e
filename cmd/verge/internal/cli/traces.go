package cli

import (
	"context"
	"time"

	"github.com/verge-id/verge/edge/otlp"
)

// defaultSample is the part of all traces that is recorded unless the configuration says otherwise.
const defaultSample = 0.01

func (c *config) checkTraces(pl *plan, ps *problems) {
	if c.Traces.Endpoint == "" {
		if c.Traces.Sample != nil {
			ps.add("traces.sample: there is nothing to sample; set traces.endpoint as well, or neither")
		}
		return
	}
	pl.traces = otlp.Config{Endpoint: c.Traces.Endpoint, Sample: defaultSample, Version: thisBuild().Version}
	if c.Traces.Sample != nil {
		pl.traces.Sample = *c.Traces.Sample
	}
	if err := pl.traces.Check(); err != nil {
		ps.add("traces: %v", err)
	}
}

// lastSpans bounds how long an end waits for a collector to take the last spans.
const lastSpans = 3 * time.Second

// openTraces opens the way to the collector, if there is one. end sends what is left.
func (pl *plan) openTraces(ctx context.Context) (end func(), err error) {
	if pl.traces.Endpoint == "" {
		return func() {}, nil
	}
	pl.traces.Log = pl.log
	provider, err := otlp.Open(ctx, pl.traces)
	if err != nil {
		return nil, err
	}
	pl.tracer = provider
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			pl.log.Warn("the last traces did not reach the collector", "error", err.Error())
		}
	}, nil
}
