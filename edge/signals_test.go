package edge_test

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// working is an instance whose jobs are tasks of the test.
type working struct {
	engine.Engine
	service *edge.Service
	store   kv.KV
	holds   chan struct{} // jobs take until it is closed
	hears   atomic.Bool
	looked  atomic.Int64 // claims since it listens
	done    atomic.Int64
	stop    context.CancelFunc
	ended   chan error
}

func (w *working) Claim(ctx context.Context, p kv.Partition, n int) ([]host.Job, time.Time, error) {
	hears := w.hears.Load()
	tasks, next, err := w.store.Claim(ctx, p, time.Now(), time.Minute, n)
	var jobs []host.Job
	for _, t := range tasks {
		jobs = append(jobs, host.Job{Partition: p, Task: t})
	}
	if p == "p0" && hears {
		w.looked.Add(1)
	}
	return jobs, next, err
}

func (w *working) Run(ctx context.Context, j host.Job) error {
	wait.For(w.holds)
	err := w.record(ctx, j, kv.Tx{Cancel: []string{j.Task.ID}})
	if err == nil {
		w.done.Add(1)
	}
	return err
}

func (w *working) Defer(ctx context.Context, j host.Job, until time.Time) error {
	return w.record(ctx, j, kv.Tx{Schedule: []kv.Task{{ID: j.Task.ID, Due: until}}})
}

func (w *working) record(ctx context.Context, j host.Job, tx kv.Tx) error {
	tx.ID, tx.Partition = rand.Text(), j.Partition
	tx.Held = []kv.Held{{TaskID: j.Task.ID, Lease: j.Task.Lease}}
	return w.store.Commit(ctx, tx)
}

// schedule makes n tasks that are due now, and wakes the instance.
func (w *working) schedule(t *testing.T, n int) {
	t.Helper()
	tx := kv.Tx{ID: rand.Text(), Partition: "p0"}
	for range n {
		tx.Schedule = append(tx.Schedule, kv.Task{ID: rand.Text(), Due: time.Now()})
	}
	if err := w.store.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	w.service.Host().Wake("p0", time.Now())
}

// work opens an instance on the store and lets it work when it receives signals.
func work(t *testing.T, conf edge.Config, url string, places int) *working {
	t.Helper()
	store, err := postgres.Open(t.Context(), url, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &working{store: store, holds: make(chan struct{}), ended: make(chan error, 1)}
	conf.Store = edge.Store{KV: hearing{store, &w.hears}, Shared: true, Close: store.Close}
	conf.Runner.PollInterval, conf.Runner.MaxWait, conf.Runner.Concurrency = time.Hour, time.Hour, places
	conf.Engine = func(_ context.Context, s edge.Setup) (engine.Engine, error) {
		w.Engine = s.Native
		return w, nil
	}
	w.service = open(t, conf)
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	go func() { w.ended <- w.service.Work(ctx) }()
	reaches(t, &w.looked, 1, "it polls the tasks when it begins to listen")
	return w
}

// hearing notes when a store begins to hear.
type hearing struct {
	*postgres.Store
	hears *atomic.Bool
}

func (h hearing) Signals(ctx context.Context, heard func(p kv.Partition)) error {
	return h.Store.Signals(ctx, func(p kv.Partition) {
		h.hears.Store(true)
		heard(p)
	})
}

func reaches(t *testing.T, n *atomic.Int64, want int64, what string) {
	t.Helper()
	for start := time.Now(); n.Load() != want; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("%d after 20 s, want %d: %s", n.Load(), want, what)
		}
	}
}

// Polling is an hour away. So what an instance has no place for, leaves behind or does not run is found by
// its signals.
func TestInstancesOnPostgresWakeEachOther(t *testing.T) {
	t.Parallel()
	url := stores.StartPostgres(t).URL("verge")
	conf := config(t)
	conf.Public.Close()
	conf.Public = nil
	full, other := work(t, conf, url, 1), work(t, conf, url, 32)
	close(other.holds)

	full.schedule(t, 30)
	reaches(t, &other.done, 13, "a runner with one place has 1 job and 16 that wait, and leaves 13")
	full.stop()
	reaches(t, &other.done, 29, "the runner has given back all but the job that runs")
	close(full.holds)
	if err := wait.For(full.ended); err != nil || full.done.Load() != 1 {
		t.Errorf("the drained instance did %d jobs, want 1, and ended with %v", full.done.Load(), err)
	}
	full.schedule(t, 1)
	reaches(t, &other.done, 30, "an instance that does not work has scheduled a task")
	other.stop()
	if err := wait.For(other.ended); err != nil {
		t.Error(err)
	}
}
