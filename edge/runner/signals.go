package runner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Signaler is a store over which instances tell each other that a partition has tasks that fall due and that
// the sender does not run. A signal is a hint. It may be lost or come twice, so no task may depend on it.
type Signaler interface {
	// Signal tells the other instances to look at the partition.
	Signal(ctx context.Context, p kv.Partition) error

	// Signals calls heard with the partition of each signal of another instance, one after the other. It
	// calls heard with "" when it begins to hear, because it may have missed signals before. It returns nil
	// soon after ctx is done, and an error if it can hear no more or not yet. If it returns nil before ctx
	// is done, there will never be signals.
	Signals(ctx context.Context, heard func(p kv.Partition)) error
}

const (
	// signalEach is the least time between two signals for a partition. One signal leads to a claim by each
	// instance, and a backlog that lasts shorter is worked off without help.
	signalEach = time.Second

	// signalSpread is how long an instance waits at most before it follows a signal, so that a fleet does
	// not claim in the same moment. It waits half of it at least, so that a flood of signals costs no more
	// than a hundred claims a second.
	signalSpread = 20 * time.Millisecond

	signalTimeout = 2 * time.Second // a drain waits for its signals, so they must not take long
	listenMost    = time.Minute     // the longest pause before the runner tries again to hear signals
)

// listen follows the signals of other instances until ctx is done.
func (r *Runner) listen(ctx context.Context) {
	var pause time.Duration
	told := false
	heard := func(p kv.Partition) {
		if p == "" {
			if told {
				r.cfg.Log.Info("signals of other instances are heard again")
			}
			pause, told = 0, false
		}
		r.onSignal(p)
	}
	for ctx.Err() == nil {
		err := r.cfg.Signaler.Signals(ctx, heard)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.cfg.Log.Info("signals are off, so tasks that other instances leave are found by polling")
			return
		case !told:
			told = true
			r.cfg.Log.Info("signals of other instances are not heard, so tasks that they leave are found by "+
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

// onSignal follows a signal of another instance; "" is one for each partition.
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

// soon reports whether the other instances should be told of a task, because their next poll may come too
// late for it.
func (r *Runner) soon(now, due time.Time) bool {
	return !due.IsZero() && !due.After(now.Add(r.cfg.PollInterval))
}

// ask tells the other instances that this one has no place for tasks that are due. If any instance has just
// told them of the partition, they know.
func (w *watch) ask(now time.Time) { w.askWithin(now, 0) }

// leave tells the other instances of a task that this one does not run. If they were just told of the
// partition, it waits, because they may have looked before the task was there.
func (w *watch) leave(now time.Time) { w.askWithin(now, signalEach) }

// askWithin signals as soon as signalEach allows it, if that is not later than patience.
func (w *watch) askWithin(now time.Time, patience time.Duration) {
	if w.cfg.Signaler == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := time.Duration(0)
	if since := now.Sub(w.asked); since >= 0 && since < signalEach { // below 0 the clock was set back
		wait = signalEach - since
	}
	if w.asking == nil && wait <= patience {
		w.asking = time.AfterFunc(wait, w.signal)
	}
}

// signal tells the other instances to look at the partition, if that was asked for. It returns when that is
// done, even if another goroutine does it.
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
		w.cfg.Log.Debug("a signal to other instances was not sent", "partition", w.partition,
			"error", err.Error())
		return
	}
	w.cfg.Metrics.SignalSent()
}

// handOver tells the other instances at once of the partitions with tasks that the drained runner leaves to
// them: those that it gave back, and those that fall due soon.
func (r *Runner) handOver(given []deferral) {
	now := r.cfg.Now()
	for _, w := range r.watches {
		w.mu.Lock()
		leaves := r.soon(now, earliest(w.next, w.wakeAt)) ||
			slices.ContainsFunc(given, func(d deferral) bool { return d.job.Partition == w.partition })
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

// lastSignals sends what waits for its turn, and waits until all signals are sent.
func (r *Runner) lastSignals() {
	var all sync.WaitGroup
	for _, w := range r.watches {
		all.Go(w.signal)
	}
	all.Wait()
}
