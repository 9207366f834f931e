package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/verge-id/verge/core/kv"
)

// storageMetrics are the metrics of the store's size and of the events in it. The service sets them about
// once a minute, so that a scrape reads no store. A number that the store does not know has no series.
type storageMetrics struct {
	size, unused, free, capacity, deadRows, overdue *prometheus.GaugeVec
	events, oldest                                  *prometheus.GaugeVec
}

func newStorageMetrics(f promauto.Factory) storageMetrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	return storageMetrics{
		size: gauge("verge_store_size_bytes", "Size of the store: bolt's file, PostgreSQL's tables with "+
			"indexes, or the memory of Redis."),
		unused: gauge("verge_store_unused_bytes", "Bytes of bolt's file that new data can reuse."),
		free: gauge("verge_store_free_bytes", "Bytes that the disk of bolt's file still accepts, or "+
			"Redis below maxmemory."),
		capacity: gauge("verge_store_capacity_bytes", "Size of the disk of bolt's file, or maxmemory of "+
			"Redis."),
		deadRows: gauge("verge_store_dead_rows", "Deleted rows of PostgreSQL's tasks table that autovacuum "+
			"has not removed."),
		overdue: gauge("verge_store_expired_seconds", "How long the oldest expired item waits for its "+
			"removal."),
		events: gauge("verge_events_undelivered", "Events by state, of all instances: waiting for a retry, "+
			"or failed (dead). At least: counting stops at 1,000, and at 250 of one integration.", "state"),
		oldest: gauge("verge_events_oldest_waiting_seconds", "Age of the oldest event that waits for a "+
			"retry, of all instances; 0: none."),
	}
}

// Storage reports the storage of the store.
func (m *Metrics) Storage(s kv.Space) {
	for _, g := range []struct {
		gauge *prometheus.GaugeVec
		value int64
	}{{m.storage.size, s.Size}, {m.storage.unused, s.Unused}, {m.storage.free, s.Free},
		{m.storage.capacity, s.Capacity}, {m.storage.deadRows, s.DeadRows}} {
		if g.value < 0 {
			g.gauge.Reset()
			continue
		}
		g.gauge.WithLabelValues().Set(float64(g.value))
	}
	m.storage.overdue.WithLabelValues().Set(s.Overdue.Seconds())
}

// Undelivered reports the number of waiting and of dead events, and the age of the oldest waiting one.
func (m *Metrics) Undelivered(waiting, dead int, oldest time.Duration) {
	m.storage.events.WithLabelValues("waiting").Set(float64(waiting))
	m.storage.events.WithLabelValues("dead").Set(float64(dead))
	m.storage.oldest.WithLabelValues().Set(oldest.Seconds())
}
