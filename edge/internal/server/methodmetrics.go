package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/verge-id/verge/core/host"
)

// methodMetrics are the metrics of verification methods. Their labels come from the configured methods and
// from the lists of core/host.
type methodMetrics struct {
	events *prometheus.CounterVec
	fetch  *prometheus.HistogramVec
}

// otherMethod is the label of all methods that are not configured.
const otherMethod = "other"

func newMethodMetrics(f promauto.Factory) methodMetrics {
	return methodMetrics{
		events: f.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_method_total",
			Help: "Events of verification methods, by method, event and reason; reason " +
				"empty: no further detail; other: unknown to this release, of a module that " +
				"is newer or lies.",
		}, []string{"method", "event", "reason"}),
		fetch: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verge_method_fetch_seconds",
			Help: "Time that the provider of a verification method took, whether or not it " +
				"responded, by method.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"method"}),
	}
}

// Methods sets the configured methods. All others share one label: a module may report any name, and each
// label is a time series that is never removed.
func (m *Metrics) Methods(names []string) {
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	m.known.Store(&known)
}

// Measure counts an event of a method. It implements host.Observer.
func (m *Metrics) Measure(e host.Measurement) {
	e = e.Listed()
	if known := m.known.Load(); known == nil || !(*known)[e.Method] {
		e.Method = otherMethod
	}
	m.methods.events.WithLabelValues(e.Method, e.Event, e.Reason).Inc()
	if e.Event == host.MethodFetched || e.Event == host.MethodFetchFailed {
		m.methods.fetch.WithLabelValues(e.Method).Observe(e.Took.Seconds())
	}
}
