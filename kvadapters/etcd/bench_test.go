package etcd_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/testharness/stores"
)

func benchStore(b *testing.B) *etcd.Store {
	b.Helper()
	s, err := etcd.Open(b.Context(), stores.StartEtcd(b).URL("verge"), etcd.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkCommit measures what one start costs: an item and a task, both new.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := benchStore(b)
			var n atomic.Int64
			b.SetParallelism(callers)
			one := func() {
				id := fmt.Sprint(n.Add(1))
				err := s.Commit(b.Context(), kv.Tx{
					ID: id, Partition: part,
					Checks: []kv.Check{{Name: id}},
					Puts: []kv.Put{{Name: id, Value: make([]byte, 200),
						Expires: time.Now().Add(time.Hour)}},
					Schedule: []kv.Task{{ID: id, Due: time.Now().Add(time.Hour), Payload: make([]byte, 500)}},
				})
				if err != nil {
					b.Error(err)
				}
			}
			b.ResetTimer()
			if callers == 1 {
				for range b.N {
					one()
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					one()
				}
			})
		})
	}
}

func BenchmarkSpend(b *testing.B) {
	s := benchStore(b)
	for i := range b.N {
		_, err := s.Spend(b.Context(), part, time.Now(), []kv.Charge{
			{Name: "ip", Cost: time.Millisecond, Burst: time.Hour},
			{Name: fmt.Sprint("k", i%100), Cost: time.Millisecond, Burst: time.Hour},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkClaim measures what it costs to find out that nothing is due while many tasks wait, spread
// over ten minutes.
func BenchmarkClaim(b *testing.B) {
	for _, pending := range []int{1000, 50_000} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			s := benchStore(b)
			now := time.Now()
			for at := 0; at < pending; at += kv.MaxTx {
				tx := kv.Tx{ID: "s", Partition: part}
				for i := at; i < min(at+kv.MaxTx, pending); i++ {
					tx.Schedule = append(tx.Schedule, kv.Task{
						ID:  fmt.Sprint(i),
						Due: now.Add(time.Duration(i+1) * 10 * time.Minute / time.Duration(pending)),
					})
				}
				if err := s.Commit(b.Context(), tx); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			for range b.N {
				if _, next, err := s.Claim(b.Context(), part, now, time.Minute, 10); err != nil ||
					next.IsZero() {
					b.Fatal(next, err)
				}
			}
		})
	}
}
