package bolt_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
)

func benchStore(b *testing.B) *bolt.Store {
	b.Helper()
	s, err := bolt.Open(filepath.Join(b.TempDir(), "verge.db"), bolt.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// A commit as validate makes it: a check for absence, and a mark that expires.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store := benchStore(b)
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						id := fmt.Sprintf("svc_sess_%020d", i*7919%1000003)
						err := store.Commit(context.Background(), kv.Tx{
							ID: id, Partition: kv.Partition(fmt.Sprintf("p%02d", i%16)),
							Puts: []kv.Put{{Name: id, Value: make([]byte, 200),
								Expires: time.Now().Add(time.Hour)}},
						})
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			_, mean, _ := store.Written()
			b.ReportMetric(mean, "commits/write")
		})
	}
}

func BenchmarkCommitParallel(b *testing.B) {
	store := benchStore(b)
	var n atomic.Int64
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := fmt.Sprintf("svc_sess_%020d", n.Add(1))
			err := store.Commit(context.Background(), kv.Tx{
				ID: id, Partition: "p",
				Checks:   []kv.Check{{Name: id}},
				Puts:     []kv.Put{{Name: id, Value: make([]byte, 200), Expires: time.Now().Add(time.Hour)}},
				Schedule: []kv.Task{{ID: id, Due: time.Now().Add(time.Hour), Payload: make([]byte, 200)}},
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	_, mean, _ := store.Written()
	b.ReportMetric(mean, "commits/write")
}

// A claim of one task while a million timers wait and ten thousand tasks are leased.
func BenchmarkClaimAmongAMillion(b *testing.B) {
	store := benchStore(b)
	const pending, leased = 1_000_000, 10_000
	start := time.Now()
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for at := w * 64; at < pending+leased; at += 64 * 64 {
				tx := kv.Tx{ID: fmt.Sprint(at), Partition: "p"}
				for i := at; i < min(at+64, pending+leased); i++ {
					due := start.Add(time.Hour)
					if i < leased {
						due = start.Add(-time.Hour)
					}
					tx.Schedule = append(tx.Schedule, kv.Task{
						ID:      fmt.Sprintf("svc_sess_%020d", i),
						Due:     due,
						Payload: make([]byte, 100),
					})
				}
				if err := store.Commit(context.Background(), tx); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	tasks, _, err := store.Claim(context.Background(), "p", start, 24*time.Hour, leased)
	if err != nil || len(tasks) != leased {
		b.Fatal(len(tasks), err)
	}
	b.ResetTimer()
	for i := range b.N {
		// After an hour all are due; each claim takes the next one.
		tasks, _, err := store.Claim(context.Background(), "p", start.Add(time.Hour), 24*time.Hour, 1)
		if err != nil || len(tasks) != 1 && i < pending {
			b.Fatal(len(tasks), err)
		}
	}
}
