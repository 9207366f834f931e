package runner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Signaler is edge.Signaler, which describes the methods.
type Signaler interface {
	Signal(ctx context.Context, p kv.Partition) error
	Signals(ctx context.Context, heard func(p kv.Partition)) error
}

const (
	// signalEach is the minimum time between two signals for a partition. One signal leads to a claim by each
	// instance, and a shorter backlog needs no help.
	signalEach = time.Second

	// signalSpread is the maximum delay before an instance follows a signal, so that the instances do not
	// claim in the same moment. The minimum is half of it, so that a flood of signals causes at most a
	// hundred claims a second.
	signalSpread = 20 * time.Millisecond

	signalTimeout = 2 * time.Second // a drain waits for its signals, so they must not take long
	listenMost    = time.Minute     // the maximum pause before the runner listens for signals again
)

// listen follows the signals of other instances until ctx is done.
func (r *Runner) listen(ctx context.Context) {
	var pause time.Duration
	reported := false
	heard := func(p kv.Partition) {
		if p == "" {
			if reported {
				r.cfg.Log.Info("signals of other instances received again")
			}
			pause, reported = 0, false
		}
		r.onSignal(p)
	}
	for ctx.Err() == nil {
		err := r.cfg.Signaler.Signals(ctx, heard)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.cfg.Log.Info("signals off; tasks of other instances are found by polling")
			return
		case !reported:
			reported = true
			r.cfg.Log.Info("signals of other instances not received; their tasks are found by "+
				"polling", "error", err.Error())
		}
		pause = min(max(2*pause, backoffMin), listenMost)
		t := time.NewTimer(pause/2 + time.Duration(r.cfg.Rand()*float64(pause/2)))
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// onSignal schedules a claim after a signal of another instance; "" stands for all partitions.
func (r *Runner) onSignal(p kv.Partition) {
	now := r.cfg.Now()
	if p != "" {
		r.cfg.Metrics.SignalHeard()
	}
	for _, w := range r.watches {
		if p != "" && p != w.partition {
			continue
		}
		if p != "" {
			w.mu.Lock()
			w.asked = now
			w.mu.Unlock()
		}
		w.wake(now.Add(signalSpread/2 + time.Duration(r.cfg.Rand()*float64(signalSpread/2))))
	}
}

// soon reports whether the other instances should be notified of a task, because their next poll may be too
// late.
func (r *Runner) soon(now, due time.Time) bool {
	return !due.IsZero() && !due.After(now.Add(r.cfg.PollInterval))
}

// ask notifies the other instances that this instance has no place for tasks that are due, unless an
// instance has just signaled for the partition.
func (w *watch) ask(now time.Time) { w.askWithin(now, 0) }

// leave notifies the other instances of a task that this instance does not run. If they were just notified
// of the partition, leave waits, because they may have claimed before the task existed.
func (w *watch) leave(now time.Time) { w.askWithin(now, signalEach) }

// askWithin signals as soon as signalEach allows it, if that is within maxDelay.
func (w *watch) askWithin(now time.Time, maxDelay time.Duration) {
	if w.cfg.Signaler == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := time.Duration(0)
	if since := now.Sub(w.asked); since >= 0 && since < signalEach { // below 0 the clock was set back
		wait = signalEach - since
	}
	if w.asking == nil && wait <= maxDelay {
		w.asking = time.AfterFunc(wait, w.signal)
	}
}

// signal sends the signal that ask or leave has scheduled, if any. It returns when the signal is sent, even
// if another goroutine sends it.
func (w *watch) signal() {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.mu.Lock()
	asking := w.asking
	if asking != nil {
		asking.Stop()
		// This happens before the signal: a task that comes later may need another one.
		w.asking, w.asked = nil, w.cfg.Now()
	}
	w.mu.Unlock()
	if asking == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	if err := w.cfg.Signaler.Signal(ctx, w.partition); err != nil {
		w.cfg.Log.Debug("signal to other instances not sent", "partition", w.partition,
			"error", err.Error())
		return
	}
	w.cfg.Metrics.SignalSent()
}

// handOver signals immediately for partitions with tasks that the drained runner leaves: tasks that it
// returned, and tasks that fall due soon.
func (r *Runner) handOver(given []postponedJob) {
	now := r.cfg.Now()
	for _, w := range r.watches {
		w.mu.Lock()
		leaves := r.soon(now, earliest(w.next, w.wakeAt)) ||
			slices.ContainsFunc(given, func(d postponedJob) bool { return d.job.Partition == w.partition })
		switch {
		case !leaves || r.cfg.Signaler == nil:
		case w.asking == nil:
			w.asking = time.AfterFunc(0, w.signal)
		default:
			w.asking.Reset(0)
		}
		w.mu.Unlock()
	}
}

// lastSignals sends all scheduled signals and waits until they are sent.
func (r *Runner) lastSignals() {
	var all sync.WaitGroup
	for _, w := range r.watches {
		all.Go(w.signal)
	}
	all.Wait()
}
