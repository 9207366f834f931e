package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// claims measures a claim of 10 due tasks, with few and with many timers pending.
// A store must not read the timers to find what is due.
func claims(name string, open storage, pending int) error {
	const few = 1000
	var took [2]time.Duration
	for i, n := range []int{few, pending} {
		store, closeStore, err := open()
		if err != nil {
			return err
		}
		took[i], err = claimTime(store, n)
		closeStore()
		if err != nil {
			return fmt.Errorf("claims, %s, %d timers pending: %w", name, n, err)
		}
	}
	fmt.Printf("claim of 10 due tasks, %-7s %7s with %d timers pending, %7s with %d: "+
		"ratio %.2f (goal at most 2.00)\n", name+",",
		took[0].Round(time.Microsecond), few, took[1].Round(time.Microsecond), pending,
		float64(took[1])/float64(took[0]))
	return nil
}

// claimTime is the median of many claims of 10.
func claimTime(store kv.KV, pending int) (time.Duration, error) {
	const (
		each  = 10
		times = 201
	)
	now := time.Now()
	tasks := func(n int, kind string, due func(i int) time.Time) error {
		const atOnce = 32 // tasks of one commit
		var next atomic.Int64
		var wg sync.WaitGroup
		errs := make(chan error, connections)
		for range connections {
			wg.Go(func() {
				for {
					from := int(next.Add(atOnce)) - atOnce
					if from >= n {
						return
					}
					tx := kv.Tx{ID: fmt.Sprintf("%s%d", kind, from), Partition: "p0"}
					for i := from; i < min(from+atOnce, n); i++ {
						id := fmt.Sprintf("%s%d", kind, i)
						tx.Schedule = append(tx.Schedule, kv.Task{ID: id, Due: due(i),
							Payload: make([]byte, 100)})
					}
					if err := store.Commit(context.Background(), tx); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		return <-errs
	}
	later := func(i int) time.Time { return now.Add(time.Hour + time.Duration(i)*time.Millisecond) }
	if err := tasks(pending, "timer/", later); err != nil {
		return 0, err
	}
	earlier := func(i int) time.Time { return now.Add(-time.Second - time.Duration(i)*time.Millisecond) }
	if err := tasks(each*times, "due/", earlier); err != nil {
		return 0, err
	}
	var took []float64
	for range times {
		begin := time.Now()
		got, _, err := store.Claim(context.Background(), "p0", now, time.Minute, each)
		took = append(took, float64(time.Since(begin)))
		if err != nil {
			return 0, err
		}
		if len(got) != each {
			return 0, fmt.Errorf("%d tasks are claimed, not %d", len(got), each)
		}
	}
	return time.Duration(median(took)), nil
}

// allClaims measures every store that is available.
func allClaims(redis *redisServer) error {
	lines := []struct {
		name    string
		open    storage
		pending int
	}{
		{"memory", onMemory, 1_000_000},
		{"bolt", onBolt, 1_000_000},
	}
	if redis != nil {
		lines = append(lines, lines[0])
		last := &lines[len(lines)-1]
		last.name, last.open = "redis", redis.storage
	}
	if hasPostgres() {
		lines = append(lines, lines[0])
		last := &lines[len(lines)-1]
		last.name, last.open, last.pending = "postgres", onPostgres, 100_000
	}
	for _, l := range lines {
		if err := claims(l.name, l.open, l.pending); err != nil {
			return err
		}
	}
	fmt.Println()
	return nil
}
