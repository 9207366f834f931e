package server

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/verge-id/verge/core/host"
)

// sessionMetrics count sessions by integration. Each integration creates several permanent time series, so
// only the first ones have their own. The core's usage (contract 44) counts all of them.
type sessionMetrics struct {
	total *prometheus.CounterVec
	known *labels
}

// maxIntegrations is the maximum number of integrations with their own series. Each has one series per
// outcome.
const maxIntegrations = 500

// otherIntegration is the label of all further integrations.
const otherIntegration = "other"

func newSessionMetrics(f promauto.Factory) sessionMetrics {
	return sessionMetrics{known: &labels{most: maxIntegrations}, total: f.NewCounterVec(
		prometheus.CounterOpts{
			Name: "verge_sessions_total",
			Help: "Sessions that this instance has started or ended, by integration and outcome. " +
				"Expired: without webhooks, those that it started and nothing ended within 10 minutes. " +
				"Integration other: all beyond the first 500 that had a session since the process began.",
		}, []string{"integration", "outcome"})}
}

// CountUsage counts a session that has started or ended. The event must be valid, as host.Observer requires.
func (m *Metrics) CountUsage(t host.UsageEvent) {
	if t.Key != "" || !slices.Contains(host.Outcomes(), t.Outcome) { // a key's use, or of an untimed session
		return
	}
	m.sessions.total.WithLabelValues(m.sessions.known.of(t.Integration), t.Outcome).Inc()
}

// Expired counts n expired sessions without a timer. It has the type of usagecounter.Config.Expired.
func (m *Metrics) Expired(integration string, n int) {
	m.sessions.total.WithLabelValues(m.sessions.known.of(integration), host.OutcomeExpired).Add(float64(n))
}

// labels are the values of a label, limited in number.
type labels struct {
	most int

	mu   sync.Mutex
	have map[string]string
}

// of returns the value itself if it is one of the first, else "other".
func (l *labels) of(value string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if has, ok := l.have[value]; ok {
		return has
	}
	if len(l.have) >= l.most {
		return otherIntegration
	}
	if l.have == nil {
		l.have = map[string]string{}
	}
	value = strings.Clone(value) // it may be a part of a large message
	l.have[value] = value
	return value
}
