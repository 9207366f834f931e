package server

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/internal/storehealth"
)

// A name that a module invents is harmless, and creates no time series.
func TestMetrics_UnknownNames(t *testing.T) {
	m := NewMetrics()
	for _, event := range []string{"webhook_dead", "\xff", "", "svc_sk_secret",
		strings.Repeat("x", 1<<20), "a\nverge_events_total{event=\"b\"} 1"} {
		m.Count(event)
	}
	const want = `verge_events_total{event="other"} 5; verge_events_total{event="webhook_dead"} 1`
	lines := slices.DeleteFunc(strings.Split(scraped(m, "verge_events_total"), "; "),
		func(line string) bool { return strings.HasSuffix(line, " 0") })
	if got := strings.Join(lines, "; "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// An alert checks the increase of a counter. A counter that appears with the value 1 has no increase, so
// each one that an alert on the first event needs must exist at 0 before.
func TestMetrics_CountersStartAtZero(t *testing.T) {
	m := NewMetrics()
	m.Guests([]string{"trap"})
	admin := listen(t)
	New(
		Config{
			Engine:        fake{},
			Public:        listen(t),
			Routes:        core.Routes(core.Config{}),
			Metrics:       m,
			AdminListener: admin,
			AdminRoutes:   core.AdminRoutes(),
			Admin:         func(context.Context, *web.Request) *web.Response { return nil },
		},
	)
	at := scraped(m, "verge_")
	want := []string{`verge_wasm_guest_failures_total{cause="trap"} 0`}
	for _, event := range host.CountNames() {
		want = append(want, `verge_events_total{event="`+event+`"} 0`)
	}
	for _, route := range append(core.Routes(core.Config{}), core.AdminRoutes()...) {
		want = append(want, `verge_http_requests_total{route="`+route.Label+`",status="500"} 0`)
	}
	for _, line := range want {
		if !strings.Contains(at, line) {
			t.Errorf("nothing says %s", line)
		}
	}
}

// scraped returns the lines of the metrics that begin with one of the names.
func scraped(m *Metrics, names ...string) string {
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		for _, name := range names {
			if strings.HasPrefix(line, name) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(lines, "; ")
}

// Only configured methods become labels. Names that a module invents create no time series.
func TestMetrics_ConfiguredMethods(t *testing.T) {
	const total, seconds = "verge_method_total", "verge_method_fetch_seconds_"
	m := NewMetrics()
	m.Measure(host.Measurement{Method: "bankid", Event: "begun"})
	const before = total + `{event="begun",method="other",reason=""} 1`
	if got := scraped(m, total); got != before {
		t.Errorf("before the methods are set: %s\nwant %s", got, before)
	}

	m = NewMetrics()
	m.Methods([]string{"bankid", "face"})
	for _, e := range []host.Measurement{
		{Method: "bankid", Event: "begun"},
		{Method: "face", Event: "attempt_failed", Reason: "below"},
		{Method: "bankid", Event: host.MethodFetched, Took: 30 * time.Millisecond},
		{Method: "bankid", Event: host.MethodFetchFailed, Reason: host.FetchTimeout, Took: 5 * time.Second},
		{Method: "\xff", Event: "\xff", Reason: "\xff"},
		{Method: strings.Repeat("x", 1<<20), Event: "svc_sk_secret", Reason: "4711"},
		{Method: "a\n" + total + "{} 1", Event: "", Reason: ""},
	} {
		m.Measure(e)
	}
	for want, got := range map[string]string{
		total + `{event="attempt_failed",method="face",reason="below"} 1; ` +
			total + `{event="begun",method="bankid",reason=""} 1; ` +
			total + `{event="fetch_failed",method="bankid",reason="timeout"} 1; ` +
			total + `{event="fetched",method="bankid",reason=""} 1; ` +
			total + `{event="other",method="other",reason=""} 1; ` +
			total + `{event="other",method="other",reason="other"} 2`: scraped(m, total),
		seconds + `sum{method="bankid"} 5.03; ` + seconds + `count{method="bankid"} 2`: scraped(m, seconds+"sum",
			seconds+"count"),
	} {
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// An idle instance never asks its store, so only a check of its health can end a failure.
func TestMetrics_StoreFailureEnds(t *testing.T) {
	public := listen(t)
	defer public.Close()
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics()
		health := storehealth.New(full{}, storehealth.Config{Metrics: m})
		s := New(
			Config{
				Engine:  fake{},
				Public:  public,
				Routes:  core.Routes(core.Config{}),
				Metrics: m,
				Store:   health,
			},
		)
		failing := func() string {
			w := httptest.NewRecorder()
			s.ops.Handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			_, line, _ := strings.Cut(w.Body.String(), `verge_store_failing{what="writes"} `)
			value, _, _ := strings.Cut(line, "\n")
			return value
		}
		if err := health.KV().Commit(t.Context(), kv.Tx{}); err == nil {
			t.Fatal("the store did not fail")
		}
		if got := failing(); got != "1" {
			t.Errorf("just after the error the metric is %q, want 1", got)
		}
		time.Sleep(2 * time.Minute)
		if got := failing(); got != "0" {
			t.Errorf("two minutes after the only error the metric is %q, want 0, like /healthz", got)
		}
	})
}

// full is a store that rejects writes.
type full struct{ kv.KV }

func (full) Commit(context.Context, kv.Tx) error { return kv.ErrUnavailable }
