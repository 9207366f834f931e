package server

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verge-id/verge/core/host"
)

// sessionMetrics count sessions by integration. Each integration is some time series for ever, so only the
// first ones have series of their own. The core's usage (contract 44) counts them all.
type sessionMetrics struct {
	total *prometheus.CounterVec
	known *labels
}

// maxIntegrations is how many integrations have series of their own. Each has one for each outcome.
const maxIntegrations = 500

// otherIntegration is the label of all further ones.
const otherIntegration = "other"

func newSessionMetrics() sessionMetrics {
	return sessionMetrics{known: &labels{most: maxIntegrations}, total: prometheus.NewCounterVec(
		prometheus.CounterOpts{
			Name: "verge_sessions_total",
			Help: "Sessions that this instance has started or ended, by integration and outcome. " +
				"Expired: without webhooks, those that it started and nothing ended within 10 minutes. " +
				"Integration other: all beyond the first 500 that had a session since the process began.",
		}, []string{"integration", "outcome"})}
}

// Tally counts a session that has started or ended. It expects a valid tally, as host.Observer does.
func (m *Metrics) Tally(t host.Tally) {
	if t.Key != "" || !slices.Contains(host.Outcomes(), t.Outcome) { // a key's use, or of an untimed session
		return
	}
	m.sessions.total.WithLabelValues(m.sessions.known.of(t.Integration), t.Outcome).Inc()
}

// Expired counts n sessions without a timer that have expired. It fits usagecounter.Config.Expired.
func (m *Metrics) Expired(integration string, n int) {
	m.sessions.total.WithLabelValues(m.sessions.known.of(integration), host.OutcomeExpired).Add(float64(n))
}

// labels are the values that a label may have.
type labels struct {
	most int

	mu   sync.Mutex
	have map[string]string
}

// of returns the value itself if it is one of the first, and "other" if not.
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
