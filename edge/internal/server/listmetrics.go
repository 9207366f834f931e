package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// listMetrics are the metrics of trusted lists. The labels are methods and lists of the configuration, and
// constant reasons.
type listMetrics struct {
	nextUpdate, graceEnd, fetched, entries *prometheus.GaugeVec
	failed                                 *prometheus.CounterVec
}

func newListMetrics(f promauto.Factory) listMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"method", "list"})
	}
	return listMetrics{
		nextUpdate: gauge("verge_trust_list_next_update_seconds",
			"Time at which the next update of a stored trusted list is due; 0: no list is stored."),
		graceEnd: gauge("verge_trust_list_grace_end_seconds",
			"Time until which a stored trusted list counts; 0: no list is stored."),
		fetched: gauge("verge_trust_list_fetched_seconds",
			"Time at which a trusted list was fetched last with success, by any instance; "+
				"0: no list is stored."),
		entries: gauge("verge_trust_list_certificates",
			"Certificates of a stored trusted list that are used."),
		failed: f.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_trust_list_failures_total",
			Help: "Trusted lists that this instance could not refresh, by reason.",
		}, []string{"method", "list", "reason"}),
	}
}

// TrustList reports a stored trusted list: when its next update is due, until when it counts, when it was
// fetched, and how many of its certificates are used. The times are zero if no list is stored.
func (m *Metrics) TrustList(of, list string, nextUpdate, graceEnd, fetched time.Time, entries int) {
	for _, g := range []struct {
		gauge *prometheus.GaugeVec
		at    time.Time
	}{{m.lists.nextUpdate, nextUpdate}, {m.lists.graceEnd, graceEnd}, {m.lists.fetched, fetched}} {
		value := 0.0
		if !g.at.IsZero() {
			value = float64(g.at.Unix())
		}
		g.gauge.WithLabelValues(of, list).Set(value)
	}
	m.lists.entries.WithLabelValues(of, list).Set(float64(entries))
}

// TrustListFailed counts a list that could not be refreshed.
func (m *Metrics) TrustListFailed(of, list, reason string) {
	m.lists.failed.WithLabelValues(of, list, reason).Inc()
}
