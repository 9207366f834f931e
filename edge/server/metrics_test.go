package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
)

// Whatever a module counts, the host goes on and has no time series of it.
func TestCountsAreNamesOfTheList(t *testing.T) {
	m := NewMetrics()
	for _, event := range []string{host.CountWebhookDead, "\xff", "", "svc_sk_secret", strings.Repeat("x", 1<<20), "a\nverge_events_total{event=\"b\"} 1"} {
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
	got, want := strings.Join(lines, "; "), `verge_events_total{event="other"} 5; verge_events_total{event="webhook_dead"} 1`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
