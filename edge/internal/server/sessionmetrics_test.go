package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
)

// A publisher with many integrations must not fill the operator's Prometheus.
func TestSessionMetrics_Limit(t *testing.T) {
	m := NewMetrics()
	id := func(n int) string { return fmt.Sprintf("0a4e1f7c-1b2d-4c3e-8f4a-%012d", n) }
	for n := range maxIntegrations + 7 {
		for range 2 {
			m.CountUsage(host.UsageEvent{Integration: id(n), Outcome: host.OutcomeStarted})
		}
	}
	m.CountUsage(host.UsageEvent{Integration: id(0), Outcome: host.OutcomeExpired})
	m.CountUsage(host.UsageEvent{Key: "key_0a4e1f7c1b2d4c3e"})
	lines := strings.Split(scraped(m, "verge_sessions_total"), "; ")
	if len(lines) != maxIntegrations+2 {
		t.Errorf("%d series, want the series of %d integrations, one more outcome and the rest", len(lines),
			maxIntegrations)
	}
	for _, want := range []string{
		`verge_sessions_total{integration="` + id(0) + `",outcome="started"} 2`,
		`verge_sessions_total{integration="` + id(0) + `",outcome="expired"} 1`,
		`verge_sessions_total{integration="other",outcome="started"} 14`,
	} {
		if !strings.Contains(strings.Join(lines, "; "), want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
}

func TestMetrics_TasksAndKeys(t *testing.T) {
	m := NewMetrics()
	const waiting, oldest = "verge_runner_tasks_waiting", "verge_runner_oldest_task_seconds"
	if got := scraped(m, waiting, oldest); got != oldest+" 0; "+waiting+" 0" {
		t.Errorf("without a runner: %s", got)
	}
	m.Tasks(func() (int, time.Duration) { return 3, 90 * time.Second })
	if got := scraped(m, waiting, oldest); got != oldest+" 90; "+waiting+" 3" {
		t.Errorf("with a runner: %s", got)
	}
	m.Keyring(0, "b", []string{"a", "b"}, false)
	m.Keyring(1, "c", []string{"b", "c"}, true)
	const want = `verge_keyring_key_info{key="b"} 1; verge_keyring_key_info{key="c"} 1; ` +
		`verge_keyring_missing_keys 1; verge_keyring_sealing_key{key="c"} 1; verge_keyring_unreadable 1`
	if got := scraped(m, "verge_keyring"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	m.StoreDone("get", "ok", 3*time.Millisecond)
	const seconds = `verge_store_operation_seconds_sum{operation="get",result="ok"} 0.003`
	if got := scraped(m, "verge_store_operation_seconds_sum"); got != seconds {
		t.Errorf("%s\nwant %s", got, seconds)
	}
}
