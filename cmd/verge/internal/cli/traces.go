package cli

import (
	"context"
	"time"

	"github.com/verge-id/verge/edge/otlp"
)

// lastSpans is the maximum wait at shutdown for a collector to accept the last spans.
const lastSpans = 3 * time.Second

// openTraces connects to the collector, if one is configured. end sends the remaining spans.
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
			pl.log.Warn("last traces not sent to the collector", "error", err.Error())
		}
	}, nil
}
