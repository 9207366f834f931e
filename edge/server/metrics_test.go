package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
)

// A name that a module makes up does no harm, and becomes no time series.
func TestCountsAreNamesOfTheList(t *testing.T) {
	m := NewMetrics()
	for _, event := range []string{host.CountWebhookDead, "\xff", "", "svc_sk_secret",
		strings.Repeat("x", 1<<20), "a\nverge_events_total{event=\"b\"} 1"} {
		m.Count(event)
	}
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "verge_events_total") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	const want = `verge_events_total{event="other"} 5; verge_events_total{event="webhook_dead"} 1`
	if got := strings.Join(lines, "; "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
