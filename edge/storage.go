package edge

import (
	"context"
	"time"

	"github.com/verge-id/verge/core/kv"
)

const (
	// storageEach is the interval between two samples of the store's size and of undelivered events. All
	// instances take them, so that the metrics of each are complete.
	storageEach = time.Minute

	storageTime = 10 * time.Second // the maximum duration of one sample
)

// sampleStorage takes samples until ctx is done. The function that it returns waits for the end.
func (s *Service) sampleStorage(ctx context.Context) (wait func()) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(storageEach)
		defer tick.Stop()
		for {
			s.SampleStorage(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		stop()
		<-done
	}
}

// SampleStorage updates the metrics of the store's size and of undelivered events. Serve calls it once a
// minute. If the store fails, the metrics keep their values: the monitor of the store reports the failure.
func (s *Service) SampleStorage(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storageTime)
	defer cancel()
	if measurer, ok := s.config.Store.KV.(kv.Measurer); ok {
		if space, err := measurer.Measure(ctx); err == nil {
			s.config.Server.Metrics.Storage(space)
		} else {
			s.config.Log.Debug("store not measured", "error", err.Error())
		}
	}
	waiting, dead, oldest, err := s.native.CountUndelivered(ctx)
	if err != nil {
		s.config.Log.Debug("undelivered events not counted", "error", err.Error())
		return
	}
	age := time.Duration(0)
	if !oldest.IsZero() { // an expired session's event may have been sent before the session's end
		age = max(0, s.config.Now().Sub(oldest))
	}
	s.config.Server.Metrics.Undelivered(waiting, dead, age)
}
