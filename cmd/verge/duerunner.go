package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/kv"
)

type dueRunner struct {
	service *core.Service
	log     *slog.Logger
	woken   chan struct{}
}

func newDueRunner(log *slog.Logger) *dueRunner {
	return &dueRunner{log: log, woken: make(chan struct{}, 1)}
}

func (r *dueRunner) wake(kv.Partition, time.Time) {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

func (r *dueRunner) run(ctx context.Context) error {
	for {
		next, err := r.service.RunDue(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			r.log.Error("runner", "error", err)
		}
		wait := time.Second
		if !next.IsZero() && time.Until(next) < wait {
			wait = max(time.Until(next), 5*time.Millisecond)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.woken:
		case <-time.After(wait):
		}
	}
}
