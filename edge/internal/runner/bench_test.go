package runner

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/testharness/wait"
)

// endless is an outbox that always has another job. Each job takes 4 ms. The jobs are in 8 destinations.
type endless struct {
	engine.Engine // nil

	left atomic.Int64
	done chan struct{}
}

func (e *endless) Partitions() []kv.Partition { return []kv.Partition{"p"} }

func (e *endless) Claim(
	_ context.Context, _ kv.Partition, n int,
) (jobs []host.Job, next time.Time, err error) {
	for range n {
		jobs = append(jobs,
			host.Job{Task: kv.Task{Due: time.Now()}, Destination: string(rune('a' + len(jobs)%8))})
	}
	return jobs, time.Time{}, nil
}

func (e *endless) Run(context.Context, host.Job) error {
	time.Sleep(4 * time.Millisecond)
	if e.left.Add(-1) == 0 {
		close(e.done)
	}
	return nil
}

func (e *endless) Defer(context.Context, host.Job, time.Time) error { return nil }

func BenchmarkRunner(b *testing.B) {
	e := &endless{done: make(chan struct{})}
	e.left.Store(int64(b.N))
	ctx, cancel := context.WithCancel(b.Context())
	out := make(chan error)
	go func() { out <- New(Config{Engine: e}).Run(ctx) }()
	wait.For(e.done)
	cancel()
	wait.For(out)
}
