package bench

import (
	"runtime"
	"testing"

	"github.com/verge-id/verge/kvadapters/memory"
)

// BenchmarkPendingSession measures the memory of pending sessions. With a webhook, each also has its started
// event, which is not delivered yet.
func BenchmarkPendingSession(b *testing.B) {
	for _, c := range []struct{ name, sink string }{{"without webhook", ""}, {"with webhook", noSink}} {
		b.Run(c.name, func(b *testing.B) {
			store := memory.New(memory.Config{})
			s := newService(b, store, c.sink)
			s.pause()
			before, heap := store.Size(), heapInUse()
			b.ResetTimer()
			s.begin(b, b.N)
			b.StopTimer()
			b.ReportMetric(float64(store.Size().Bytes-before.Bytes)/float64(b.N), "store-B/session")
			b.ReportMetric(float64(max(heapInUse()-heap, 0))/float64(b.N), "heap-B/session")
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
