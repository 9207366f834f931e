package runner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/testharness/wait"
)

// An alarm on the age of the oldest task must see tasks that wait for a place, and tasks that are still in
// the store.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		r := New(Config{Engine: o, Concurrency: 1, PerDestination: 1, MaxWait: time.Hour})
		if waiting, oldest := r.Backlog(); waiting != 0 || oldest != 0 {
			t.Errorf("before anything is due: %d tasks, %v", waiting, oldest)
		}
		o.takes["slow"] = time.Minute
		o.add(1, "slow", time.Now())
		o.add(2, "slow", time.Now().Add(time.Second))
		ctx, end := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- r.Run(ctx) }()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if waiting, oldest := r.Backlog(); waiting != 2 || oldest != 10*time.Second {
			t.Errorf("two tasks wait behind a slow one: %d tasks, %v; want 2 and 10s", waiting, oldest)
		}
		time.Sleep(200 * time.Second)
		synctest.Wait()
		if waiting, oldest := r.Backlog(); waiting != 0 || oldest != 0 {
			t.Errorf("after all have run: %d tasks, %v", waiting, oldest)
		}
		o.mu.Lock()
		o.down = true // the store rejects claims
		o.mu.Unlock()
		r.watches[0].leaves(time.Now())
		time.Sleep(30 * time.Second)
		if _, oldest := r.Backlog(); oldest != 30*time.Second {
			t.Errorf("a task that the store does not give: %v, want 30s", oldest)
		}
		end()
		if err := wait.For(ran); err != nil {
			t.Error(err)
		}
	})
}
