package memory_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/memory"
)

// The commit is like validate's: a check for absence and a mark that expires.
func BenchmarkCommit(b *testing.B) {
	store := memory.New(memory.Config{})
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			id := fmt.Sprintf("svc_sess_%020d", i)
			err := store.Commit(context.Background(), kv.Tx{
				ID: id, Partition: kv.Partition(fmt.Sprintf("p%02d", i%16)),
				Checks: []kv.Check{{Name: id}},
				Puts:   []kv.Put{{Name: id, Value: make([]byte, 200), Expires: time.Now().Add(time.Hour)}},
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkMemoryPerTask measures the memory of a pending session: an expiry timer of 200 bytes.
func BenchmarkMemoryPerTask(b *testing.B) {
	store := memory.New(memory.Config{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range b.N {
		id := fmt.Sprintf("svc_sess_%020d", i)
		if err := store.Commit(context.Background(), kv.Tx{
			ID: id, Partition: "p",
			Schedule: []kv.Task{{ID: id, Due: time.Now().Add(time.Hour), Payload: make([]byte, 200)}},
		}); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heap-B/task")
	b.ReportMetric(float64(store.Size().Bytes)/float64(b.N), "data-B/task")
}
