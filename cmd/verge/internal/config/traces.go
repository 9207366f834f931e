package config

import "github.com/verge-id/verge/edge/otlp"

// defaultSample is the default share of traces that are recorded.
const defaultSample = 0.01

func (c *File) checkTraces(sys *System, pl *Plan, ps *problems) {
	if c.Traces.Endpoint == "" {
		if c.Traces.Sample != nil {
			ps.add("traces.sample: it needs traces.endpoint; set both, or neither")
		}
		return
	}
	pl.Traces = otlp.Config{Endpoint: c.Traces.Endpoint, Sample: defaultSample, Version: sys.Version}
	if c.Traces.Sample != nil {
		pl.Traces.Sample = *c.Traces.Sample
	}
	if err := pl.Traces.Check(); err != nil {
		ps.add("traces: %v", err)
	}
}
