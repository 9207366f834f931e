package config

import "github.com/verge-id/verge/edge/otlp"

// defaultSample is the part of all traces that is recorded unless the configuration says otherwise.
const defaultSample = 0.01

func (c *File) checkTraces(sys *System, pl *Plan, ps *problems) {
	if c.Traces.Endpoint == "" {
		if c.Traces.Sample != nil {
			ps.add("traces.sample: there is nothing to sample; set traces.endpoint as well, or neither")
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
