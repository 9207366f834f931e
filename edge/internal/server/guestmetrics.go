package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// guestMetrics has the metrics of an engine that runs the core in WebAssembly guests. The engine calls its
// methods.
type guestMetrics struct {
	reg *prometheus.Registry

	compile     prometheus.Histogram
	start       prometheus.Histogram
	recycled    prometheus.Counter
	failures    *prometheus.CounterVec
	effects     *prometheus.HistogramVec
	activations *prometheus.CounterVec
	rollbacks   *prometheus.CounterVec
}

// Guests adds the metrics of an engine with guests, which fail for these causes. It is called at most once.
func (m *Metrics) Guests(causes []string) *guestMetrics {
	g := &guestMetrics{
		reg: m.reg,
		compile: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "verge_wasm_compile_seconds", Help: "Time to compile a module, or to load it compiled.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		start: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "verge_wasm_guest_start_seconds", Help: "Time to start a guest of a compiled module.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}),
		recycled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "verge_wasm_guests_recycled_total",
			Help: "Guests replaced because their memory had grown; no request fails by it.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_wasm_guest_failures_total",
			Help: "Guests that failed, by cause: out_of_memory, trap, deadline (it did not return), " +
				"protocol (what it said cannot be relied on), host (a function that it imports failed), " +
				"start (it could not be started).",
		}, []string{"cause"}),
		effects: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verge_wasm_effect_seconds",
			Help: "Time the host took for what guests asked for, by kind: " +
				"get, commit, claim, list, spend, fetch, sign or verify.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5,
				5, 10},
		}, []string{"kind"}),
		activations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_wasm_activations_total",
			Help: "Modules that were to take the requests, the first one included, by result: ok or " +
				"refused (it could not be read, is not trusted or failed a test).",
		}, []string{"result"}),
		rollbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_wasm_rollbacks_total",
			Help: "Modules that failed on probation, so that the previous module was restored, " +
				"by cause, as of failures.",
		}, []string{"cause"}),
	}
	for _, cause := range causes {
		g.failures.WithLabelValues(cause) // counters start at 0: see NewMetrics
	}
	m.reg.MustRegister(g.compile, g.start, g.recycled, g.failures, g.effects, g.activations, g.rollbacks)
	return g
}

// GuestState is the state of such an engine at one moment.
type GuestState struct {
	Digest    string // SHA-256 of the module that takes requests
	InFlight  int
	Queued    int
	Instances int
	Memory    int64
}

// Watch adds metrics of the state. Each scrape calls read.
func (g *guestMetrics) Watch(read func() GuestState) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	g.reg.MustRegister(&guestState{read: read,
		inFlight: desc("verge_wasm_requests_in_flight",
			"Requests and jobs in progress in guests."),
		queued: desc("verge_wasm_requests_queued", "Those in flight that no guest has begun."),
		instances: desc("verge_wasm_guests",
			"Guests, those included that end with their last request and those that do not return."),
		memory: desc("verge_wasm_memory_bytes", "Linear memory of all guests."),
		module: desc("verge_wasm_module_info", "1, of the module that takes requests.", "sha256"),
	})
}

type guestState struct {
	read                                        func() GuestState
	inFlight, queued, instances, memory, module *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *guestState) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect implements prometheus.Collector.
func (c *guestState) Collect(to chan<- prometheus.Metric) {
	s := c.read()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.inFlight, float64(s.InFlight))
	gauge(c.queued, float64(s.Queued))
	gauge(c.instances, float64(s.Instances))
	gauge(c.memory, float64(s.Memory))
	gauge(c.module, 1, s.Digest)
}

// ModuleCompiled and the methods below are called by an engine with guests.
func (g *guestMetrics) ModuleCompiled(took time.Duration) { g.compile.Observe(took.Seconds()) }
func (g *guestMetrics) GuestStarted(took time.Duration)   { g.start.Observe(took.Seconds()) }
func (g *guestMetrics) GuestRecycled()                    { g.recycled.Inc() }
func (g *guestMetrics) GuestFailed(cause string)          { g.failures.WithLabelValues(cause).Inc() }
func (g *guestMetrics) EffectDone(kind string, took time.Duration) {
	g.effects.WithLabelValues(kind).Observe(took.Seconds())
}
func (g *guestMetrics) ModuleRolledBack(_, _, cause string) { g.rollbacks.WithLabelValues(cause).Inc() }

func (g *guestMetrics) ModuleActivated(_ string, rejected error) {
	result := "ok"
	if rejected != nil {
		result = "refused"
	}
	g.activations.WithLabelValues(result).Inc()
}
