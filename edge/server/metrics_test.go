package server

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/storewatch"
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

// An idle instance never asks its store, so a failure ends only when somebody asks whether it still counts.
func TestAScrapeEndsAFailureOfTheStoreThatNoLongerCounts(t *testing.T) {
	public := listen(t)
	defer public.Close()
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics()
		watch := storewatch.New(full{}, storewatch.Config{Metrics: m})
		s := New(Config{Engine: fake{}, Public: public, Routes: core.Routes(), Metrics: m, Store: watch})
		failing := func() string {
			w := httptest.NewRecorder()
			s.ops.Handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			_, line, _ := strings.Cut(w.Body.String(), `verge_store_failing{what="writes"} `)
			value, _, _ := strings.Cut(line, "\n")
			return value
		}
		if err := watch.KV().Commit(t.Context(), kv.Tx{}); err == nil {
			t.Fatal("the store did not fail")
		}
		if got := failing(); got != "1" {
			t.Errorf("just after the error the metric is %q, want 1", got)
		}
		time.Sleep(2 * time.Minute)
		if got := failing(); got != "0" {
			t.Errorf("two minutes after the only error the metric is %q, want 0, as /healthz says ok", got)
		}
	})
}

// full is a store that cannot be written.
type full struct{ kv.KV }

func (full) Commit(context.Context, kv.Tx) error { return kv.ErrUnavailable }
