package listfetch

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/operate"
)

// The times of a Refresher.
const (
	leastEach  = time.Hour     // between two fetches of a good list, and
	mostEach   = 6 * time.Hour // at most
	firstRetry = time.Minute   // after a failure; twice as long after each further one, and
	mostRetry  = 15 * time.Minute
	lookEach   = 5 * time.Minute // between two reads of the stored lists
	claimTime  = 90 * time.Second
)

// store is the access of a host to the stored lists (operate.HostLists).
type store interface {
	All(ctx context.Context) ([]operate.TrustList, error)
	Load(ctx context.Context, in operate.TrustListInput) (operate.TrustList, error)
	Claim(ctx context.Context, of, name string, until time.Time) (bool, error)
}

// Metrics gets the state of the lists. Its methods may be called concurrently.
type Metrics interface {
	// TrustList reports a stored list. The times are zero if no list is stored.
	TrustList(of, list string, nextUpdate, graceEnd, fetched time.Time, entries int)

	// TrustListFailed reports that a list was not refreshed. The reason is a constant text.
	TrustListFailed(of, list, reason string)
}

// Config has the parts of a Refresher. All fields are required.
type Config struct {
	Methods method.Catalog
	Store   store
	Get     func(ctx context.Context, of string, l method.TrustList) (operate.TrustListInput, error)
	Now     func() time.Time
	Jitter  func() float64 // returns a number from 0 to 1
	Log     *slog.Logger
	Metrics Metrics
}

// Refresher keeps the stored lists of a service fresh, each at its own times: a server that does not respond
// delays its own list alone. Several instances may share the store: one of them fetches a list, and the
// others see the result there.
type Refresher struct {
	config Config
	lists  []*refreshed
}

// refreshed is a list with its state at this instance.
type refreshed struct {
	of       string
	index    int           // among all lists of the configuration
	ask      chan struct{} // an operator asks for it
	list     method.TrustList
	state    string    // as it was seen last; "": not yet
	failures int       // since the last success
	retry    time.Time // not before, after a failure
	force    bool      // fetch although it is not due, until it succeeds
	asked    bool      // fetch although another request was just sent, once
}

// New returns the Refresher of all lists.
func New(c Config) *Refresher {
	r := &Refresher{config: c}
	for _, e := range c.Methods {
		for _, l := range e.Lists() {
			// A file may have changed while the service was down, and another instance may have another one.
			r.lists = append(r.lists, &refreshed{of: e.Name, index: len(r.lists), ask: make(chan struct{}, 1),
				list: l, force: l.File != ""})
		}
	}
	return r
}

// Ask makes Run fetch all lists now. It does not block.
func (r *Refresher) Ask() {
	for _, l := range r.lists {
		select {
		case l.ask <- struct{}{}:
		default:
		}
	}
}

// Run refreshes the lists until ctx is done. Without lists it returns immediately.
func (r *Refresher) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, l := range r.lists {
		running.Go(func() { r.keep(ctx, l) })
	}
	running.Wait()
}

// keep refreshes a list until ctx is done.
func (r *Refresher) keep(ctx context.Context, l *refreshed) {
	for {
		timer := time.NewTimer(r.round(ctx, l))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-l.ask:
			l.force, l.asked, l.retry = true, true, time.Time{}
		}
		timer.Stop()
	}
}

// round reads the stored list and fetches it if it is due. It returns the time until the next round.
func (r *Refresher) round(ctx context.Context, l *refreshed) time.Duration {
	stored, err := r.config.Store.All(ctx)
	if err != nil {
		if ctx.Err() == nil && !kv.Failed(err) { // the monitor of the store reports its failures
			r.config.Log.Warn("trusted lists not read", "error", err.Error())
		}
		return firstRetry
	}
	return min(max(r.refresh(ctx, l, stored[l.index]), time.Second), lookEach)
}

// refresh fetches a list if it is due. It returns the time until it is due again.
func (r *Refresher) refresh(ctx context.Context, l *refreshed, stored operate.TrustList) time.Duration {
	now := r.config.Now()
	if wait := due(stored, now, r.config.Jitter()); wait > 0 && !l.force {
		r.report(l, stored)
		return wait
	}
	if wait := l.retry.Sub(now); wait > 0 {
		r.report(l, stored)
		return wait
	}
	// An operator who asks may have changed the list since the last request, whose claim still counts.
	if l.list.URL != "" && !l.asked {
		ours, err := r.config.Store.Claim(ctx, l.of, l.list.Name, now.Add(claimTime))
		if err != nil || !ours { // another instance fetches it, or the store does not respond
			r.report(l, stored)
			return firstRetry
		}
	}
	l.asked = false
	in, err := r.config.Get(ctx, l.of, l.list)
	if err == nil {
		var loaded operate.TrustList
		if loaded, err = r.config.Store.Load(ctx, in); err == nil {
			l.force, l.failures, l.retry = false, 0, time.Time{}
			r.loaded(l, stored, loaded)
			return due(loaded, now, r.config.Jitter())
		}
	}
	r.report(l, stored)
	if ctx.Err() != nil {
		return firstRetry
	}
	wait := time.Duration(float64(backoff(l.failures)) * (1 - r.config.Jitter()/4))
	l.failures, l.retry = l.failures+1, now.Add(wait)
	reason := reasonOf(err)
	r.config.Metrics.TrustListFailed(l.of, l.list.Name, reason)
	r.config.Log.Warn("trusted list not refreshed", "method", l.of, "list", l.list.Name, "reason", reason,
		"state", l.state, "error", err.Error())
	return wait
}

// backoff returns the time until a list is tried again after a failure that follows this number of failures.
func backoff(failures int) time.Duration {
	return min(time.Duration(float64(firstRetry)*math.Pow(2, float64(min(failures, 10)))), mostRetry)
}

// due returns the time until a stored list is fetched again: after half of the time that was left until its
// next update, within leastEach and mostEach, and up to a tenth earlier, so that instances do not fetch
// together.
func due(stored operate.TrustList, now time.Time, jitter float64) time.Duration {
	if stored.Fetched == nil || stored.NextUpdate == nil {
		return 0
	}
	each := min(max(stored.NextUpdate.Sub(*stored.Fetched)/2, leastEach), mostEach)
	each -= time.Duration(jitter * float64(each) / 10)
	since := now.Sub(*stored.Fetched)
	if since < 0 { // the clock was set back; the list is fetched soon
		since = 0
	}
	return max(each-since, 0)
}

// loaded reports a list that was refreshed.
func (r *Refresher) loaded(l *refreshed, before, loaded operate.TrustList) {
	if before.Document != loaded.Document {
		r.config.Log.Info("trusted list loaded", "method", l.of, "list", l.list.Name,
			"sequence", loaded.Sequence, "signer", loaded.Fingerprint, "next_update", loaded.NextUpdate,
			"entries", loaded.Entries, "skipped", loaded.Skipped)
	}
	if loaded.Entries == 0 {
		r.config.Log.Warn("trusted list without certificates", "method", l.of, "list", l.list.Name,
			"skipped", loaded.Skipped)
	}
	r.report(l, loaded)
}

// report reports the state of a list.
func (r *Refresher) report(l *refreshed, stored operate.TrustList) {
	var next, end, fetched time.Time
	if stored.Fetched != nil && stored.NextUpdate != nil {
		next, fetched = *stored.NextUpdate, *stored.Fetched
		end = next.Add(time.Duration(stored.Grace) * time.Second)
	}
	r.config.Metrics.TrustList(l.of, l.list.Name, next, end, fetched, stored.Entries)
	if stored.State == l.state {
		return
	}
	l.state = stored.State
	switch stored.State {
	case operate.ListLate:
		r.config.Log.Warn("trusted list late", "method", l.of, "list", l.list.Name,
			"next_update", stored.NextUpdate, "grace_seconds", stored.Grace)
	case operate.ListTooOld:
		r.config.Log.Error("trusted list too old", "method", l.of, "list", l.list.Name,
			"next_update", stored.NextUpdate, "grace_seconds", stored.Grace)
	}
}
