package cli

import (
	"context"
	"time"

	"github.com/verge-id/verge/edge/otlp"
)

// lastSpans bounds how long an end waits for a collector to take the last spans.
const lastSpans = 3 * time.Second

// openTraces opens the way to the collector, if there is one. end sends what is left.
func (pl *plan) openTraces(ctx context.Context) (end func(), err error) {
	if pl.Traces.Endpoint == "" {
		return func() {}, nil
	}
	pl.Traces.Log = pl.log
	provider, err := otlp.Open(ctx, pl.Traces)
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
