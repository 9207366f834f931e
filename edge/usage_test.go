package edge_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/wait"
)

const anIntegration = "694069ac-4d4e-475f-906b-2f11c5eca7bd"

// note has a core note a start.
func note(s *edge.Service) {
	s.Host().CountUsage(host.UsageEvent{Integration: anIntegration, Outcome: host.OutcomeStarted})
}

func started(t *testing.T, s *edge.Service) uint64 {
	t.Helper()
	today := host.DayOf(time.Now())
	days, err := s.Usage().Read(t.Context(), anIntegration, today-1, today) // it may be midnight
	if err != nil {
		t.Fatal(err)
	}
	return days[0].Counts.Of(host.OutcomeStarted) + days[1].Counts.Of(host.OutcomeStarted)
}

func TestUsageIsRecordedAtIntervalsAndAtTheEnd(t *testing.T) {
	store := memory.New(memory.Config{})
	conf := config(t)
	conf.Store, conf.UsageEach = edge.Store{KV: store}, 10*time.Millisecond
	s := open(t, conf)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	note(s)
	wait.Until(t, "a start is recorded while the service runs", func() bool { return started(t, s) > 0 })
	stop()
	if err := wait.For(ended); err != nil {
		t.Fatal(err)
	}

	conf.Public, conf.UsageEach = listen(t), time.Hour // another process
	s = open(t, conf)
	note(s)
	if n := started(t, s); n != 1 {
		t.Errorf("%d started before the end, want 1", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := started(t, s); n != 2 {
		t.Errorf("%d started after the end, want 2", n)
	}
}

func TestUsageByHand(t *testing.T) {
	conf := config(t)
	conf.UsageEach = -1
	s := open(t, conf)
	note(s)
	if err := s.RecordUsage(t.Context()); err != nil || started(t, s) != 1 {
		t.Errorf("%d started, %v", started(t, s), err)
	}
	note(s)
	if err := s.Close(); err != nil || started(t, s) != 1 {
		t.Errorf("%d started after the end, %v", started(t, s), err)
	}
}

// rejecting is an engine whose core cannot write, until it can.
type rejecting struct {
	engine.Engine
	can   atomic.Bool
	tried atomic.Int32
}

func (e *rejecting) Record(ctx context.Context, t host.Totals) error {
	if e.tried.Add(1); !e.can.Load() {
		return kv.ErrUnavailable
	}
	return e.Engine.Record(ctx, t)
}

func TestUsage_StoreFails(t *testing.T) {
	e := &rejecting{}
	conf := config(t)
	conf.UsageEach = -1
	conf.Engine = func(_ context.Context, s edge.Setup) (engine.Engine, error) {
		e.Engine = s.Native
		return e, nil
	}
	s := open(t, conf)
	for range 3 {
		note(s)
		if err := s.RecordUsage(t.Context()); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
	e.can.Store(true)
	if err := s.RecordUsage(t.Context()); err != nil || started(t, s) != 3 || e.tried.Load() != 4 {
		t.Errorf("%d started, %v, tried %d times", started(t, s), err, e.tried.Load())
	}
}
