package edge_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/wait"
)

// metric returns the value of a metric. known is false if it has no series.
func metric(t *testing.T, metrics, series string) (value float64, known bool) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(metrics)
	if line == nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(line[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value, true
}

// Contract 58: the first sample is taken when the service starts.
func TestStorageMetrics_Bolt(t *testing.T) {
	store, err := bolt.Open(filepath.Join(t.TempDir(), "verge.db"), bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	conf := config(t)
	conf.Store, conf.Ops = edge.Store{KV: store, Close: store.Close}, listen(t)
	ops := conf.Ops
	s := open(t, conf)
	run(t, s)
	var metrics string
	wait.Until(t, "the store is measured", func() bool {
		_, metrics = get(t, ops, "/metrics")
		_, known := metric(t, metrics, "verge_store_size_bytes")
		return known
	})
	size, _ := metric(t, metrics, "verge_store_size_bytes")
	free, _ := metric(t, metrics, "verge_store_free_bytes")
	capacity, _ := metric(t, metrics, "verge_store_capacity_bytes")
	if size < 4096 || free <= 0 || capacity <= free {
		t.Errorf("size %v, free %v of %v", size, free, capacity)
	}
	if _, known := metric(t, metrics, "verge_store_dead_rows"); known {
		t.Error("bolt reports dead rows, which it does not have")
	}
	if ready, _ := metric(t, metrics, "verge_ready"); ready != 1 {
		t.Errorf("verge_ready is %v, want 1", ready)
	}
}

// Contract 58: waiting and dead events are counted.
func TestEventMetrics_WaitingAndDead(t *testing.T) {
	h := testharness.New(t, nil)
	expect := func(when string, waiting, dead float64, atLeast time.Duration) {
		t.Helper()
		metrics := h.Metrics()
		w, _ := metric(t, metrics, `verge_events_undelivered{state="waiting"}`)
		d, _ := metric(t, metrics, `verge_events_undelivered{state="dead"}`)
		age, known := metric(t, metrics, "verge_events_oldest_waiting_seconds")
		if w != waiting || d != dead || !known || age < atLeast.Seconds() || atLeast == 0 && age != 0 {
			t.Errorf("%s: %v waiting, %v dead, the oldest for %v s; want %v, %v, at least %v", when, w, d,
				age, waiting, dead, atLeast)
		}
	}
	expect("before", 0, 0, 0)
	h.Sink.Always(testharness.Reply{Status: http.StatusServiceUnavailable})
	h.Start(nil)
	h.Settle()
	h.Advance(time.Second)
	expect("after the first attempt", 1, 0, time.Second)
	h.Advance(4 * 24 * time.Hour) // the session expires, and both events die
	expect("after the last attempt", 0, 2, 0)
}
