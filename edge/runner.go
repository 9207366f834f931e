package edge

import (
	"context"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/internal/runner"
)

// DefaultPerDestination is the default of [RunnerConfig.PerDestination]. It keeps two CPUs busy with one
// quick receiver, and five receivers that hang use less than half of the default Concurrency.
const DefaultPerDestination = runner.DefaultPerDestination

// RunnerConfig configures how jobs run. Every zero value works.
type RunnerConfig struct {
	// Concurrency is the maximum number of deliveries that run at the same time, and of timers. 0: 256.
	Concurrency int

	// PerDestination is the maximum number of deliveries to one destination that run at the same time.
	// 0: DefaultPerDestination.
	PerDestination int

	// MaxWait is the maximum time that a claimed job waits for its turn. After that its lease is returned.
	// A lease must be longer than MaxWait and a run together. Otherwise another instance takes over a job
	// that is running here. 0: 5 s.
	MaxWait time.Duration

	// PollInterval is the maximum time between two searches for tasks of other instances in one partition.
	// 0: two seconds times the number of partitions, at most 30 s.
	PollInterval time.Duration

	// DrainTimeout is the maximum time for running jobs after the context of Run has ended. 0: 15 s.
	DrainTimeout time.Duration
}

// signaler is a KV whose instances notify each other of tasks that fall due and that the sender does not run.
// A signal is a hint: it may be lost or delivered twice, so no task may depend on it.
type signaler interface {
	// Signal asks the other instances to claim tasks of the partition.
	Signal(ctx context.Context, p kv.Partition) error

	// Signals calls received with the partition of each signal of another instance, one at a time. It calls
	// received with "" when it begins to listen, because earlier signals may have been lost. Signals returns
	// nil soon after ctx is done, and an error if it cannot listen now. If it returns nil before ctx is
	// done, the store never delivers signals.
	Signals(ctx context.Context, received func(p kv.Partition)) error
}

// CheckPartitionCount returns an error if a Config.Core.Partitions is too small or too large for the runner.
func CheckPartitionCount(n int) error { return runner.CheckPartitions(n) }
