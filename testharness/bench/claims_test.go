package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// BenchmarkClaim measures a claim of 10 due tasks with many timers pending and, for a floor, with 1,000. A
// store must not read the timers to find due tasks: the goal of the ratio is at least 0.50.
func BenchmarkClaim(b *testing.B) {
	b.Run("memory, 1000000 timers", func(b *testing.B) { claims(b, onMemory, 1_000_000) })
	b.Run("bolt, 1000000 timers", func(b *testing.B) { claims(b, onBolt, 1_000_000) })
	b.Run("redis, 1000000 timers", func(b *testing.B) {
		// Two servers: open empties its own.
		few, many := startRedis(b), startRedis(b)
		compareClaims(b, fill(b, few.open(b), fewTimers), fill(b, many.open(b), 1_000_000))
	})
	b.Run("postgres, 100000 timers", func(b *testing.B) {
		few, many := onPostgres(b), onPostgres(b)
		compareClaims(b, fill(b, few(b), fewTimers), fill(b, many(b), 100_000))
	})
}

const (
	fewTimers  = 1000
	claimedNow = 10
)

func claims(b *testing.B, open storage, timers int) {
	compareClaims(b, fill(b, open(b), fewTimers), fill(b, open(b), timers))
}

// compareClaims measures claims in both stores. Each claim is a moment after the leases of the previous one
// have expired, so it finds the same tasks.
func compareClaims(b *testing.B, few, many kv.KV) {
	now := time.Now()
	in := func(store kv.KV) work {
		return func(from, to int) error {
			for range to - from {
				now = now.Add(2 * time.Millisecond)
				got, _, err := store.Claim(context.Background(), "p0", now, time.Millisecond, claimedNow)
				if err == nil && len(got) != claimedNow {
					err = fmt.Errorf("%d tasks are claimed, not %d", len(got), claimedNow)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	b.Run("10 due", func(b *testing.B) { compare(b, busy, in(few), in(many)) })
}

// fill schedules due tasks for one claim, and a number of timers.
func fill(b *testing.B, store kv.KV, timers int) kv.KV {
	b.Helper()
	const perCommit = 32
	now := time.Now()
	schedule := func(kind string, n int, due func(i int) time.Time) {
		err := parallel(connections, (n+perCommit-1)/perCommit, func(_, part int) error {
			from := part * perCommit
			tx := kv.Tx{ID: fmt.Sprintf("%s%d", kind, from), Partition: "p0"}
			for i := from; i < min(from+perCommit, n); i++ {
				tx.Schedule = append(tx.Schedule, kv.Task{ID: fmt.Sprintf("%s%d", kind, i), Due: due(i),
					Payload: make([]byte, 100)})
			}
			return store.Commit(context.Background(), tx)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	schedule("timer/", timers, func(i int) time.Time {
		return now.Add(1000*time.Hour + time.Duration(i)*time.Millisecond)
	})
	schedule("due/", claimedNow, func(i int) time.Time {
		return now.Add(-time.Second - time.Duration(i)*time.Millisecond)
	})
	return store
}
