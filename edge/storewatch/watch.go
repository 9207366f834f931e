// Package storewatch stands between an engine and its store, for native and guest engines alike. A
// [Watch] is the store, and does two more things:
//
//   - It limits how long all calls of one request may together wait for the store: see [WithBudget].
//   - It reports when the store begins to fail and when it answers again. There is one line in the log
//     for each, however many requests are refused meanwhile, and a metric. Health checks and
//     Retry-After use its state.
//
// Reads, writes (commits and claims) and rate counters are separate, because a full disk fails writes
// but serves reads. Failing begins with the first error. It ends with the first success that comes at
// least five seconds after the last error: a store that fails now and then is failing. A store that
// knows its own state, as bolt does, reports it with [Watch.ReportHealth]. That counts at once.
package storewatch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Metrics learns what happens. Its methods are called concurrently.
type Metrics interface {
	StoreFailing(what string, failing bool)
	StoreRefused(what string)

	// StoreDone tells of each call of the store: one of the operations, and one of the results.
	StoreDone(operation, result string, took time.Duration)
}

// The operations of a store.
const (
	get    = "get"
	list   = "list"
	commit = "commit"
	claim  = "claim"
	charge = "spend"
)

// The results of an operation.
const (
	resultOK       = "ok"       // it answered; that there is no such item is an answer, too
	resultConflict = "conflict" // a check or a lease of the commit failed
	resultRefused  = "refused"  // nothing changed
	resultUnknown  = "unknown"  // whether anything changed cannot be known
	resultGaveUp   = "gave_up"  // the caller did not wait for the answer
)

// The kinds of calls.
const (
	reads    = "reads"
	writes   = "writes"
	counters = "counters"
)

const (
	// settle is how long a store must be without an error until it counts as working again.
	settle = 5 * time.Second

	// stale is how long an error counts if nobody has asked the store since.
	stale = time.Minute

	// retryMost limits how long callers are told to wait, in seconds.
	retryMost = 30
)

// Config configures a Watch. Every zero value works.
type Config struct {
	Log     *slog.Logger // nil discards
	Metrics Metrics      // nil: none

	// ReportsHealth says that the store reports with ReportHealth whether it can write. Then errors of writes
	// do not count, except for those that say that the store was too slow. Errors of reads during such a
	// failure do not count either: the store opens its file anew then and refuses readers for a moment.
	ReportsHealth bool
}

// Watch is the store. Make it with New, and give engines what KV returns.
type Watch struct {
	store         kv.KV
	log           *slog.Logger
	metrics       Metrics
	reportsHealth bool

	reads, writes, counters state
}

// state is the state of one kind of call.
type state struct {
	what string

	mu       sync.Mutex
	failing  bool
	reported bool      // the store itself reported the failure and will report its end
	reports  int       // how often the store has reported something
	cause    error     // the first error
	since    time.Time // the time of the first error
	last     time.Time // the time of the latest error
	refused  int
}

// New returns the watch of store.
func New(store kv.KV, c Config) *Watch {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	w := &Watch{store: store, log: c.Log, metrics: c.Metrics, reportsHealth: c.ReportsHealth}
	w.reads.what, w.writes.what, w.counters.what = reads, writes, counters
	for _, s := range w.all() {
		w.metrics.StoreFailing(s.what, false)
	}
	return w
}

func (w *Watch) all() []*state { return []*state{&w.reads, &w.writes, &w.counters} }

// KV returns the watched store. It is a kv.Meter if the store is one.
func (w *Watch) KV() kv.KV {
	if m, ok := w.store.(kv.Meter); ok {
		return struct {
			watched
			metered
		}{watched{w}, metered{w, m}}
	}
	return watched{w}
}

// ReportHealth is called by a store that knows whether it can write: with the reason why it cannot, or with
// nil when it can again.
func (w *Watch) ReportHealth(failing error) {
	w.writes.mu.Lock()
	defer w.writes.mu.Unlock()
	w.writes.reported = failing != nil
	w.writes.reports++
	if failing != nil {
		w.fails(&w.writes, failing)
		return
	}
	w.recovers(&w.writes)
}

// Failing returns why the store cannot do all its work. It returns nil if no reason is known.
func (w *Watch) Failing() error {
	var errs []error
	for _, s := range w.all() {
		if _, cause := w.look(s); cause != nil {
			errs = append(errs, cause)
		}
	}
	return errors.Join(errs...)
}

// RetryAfter returns how many seconds a caller should wait that is refused now: half as long as the
// store has failed, from one to thirty. Zero: the store does not fail.
func (w *Watch) RetryAfter() int {
	seconds := 0
	for _, s := range w.all() {
		if since, cause := w.look(s); cause != nil {
			seconds = max(seconds, min(1+int(time.Since(since)/(2*time.Second)), retryMost))
		}
	}
	return seconds
}

// look returns the state. It ends a failure if the last error is old.
func (w *Watch) look(s *state) (since time.Time, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing && !s.reported && time.Since(s.last) > stale {
		w.recovers(s)
	}
	return s.since, s.cause
}

// record notes what the store answered. asked is the caller's context: if the caller gave up, the error
// says nothing about the store. proof says whether a success shows that the store can do the calls of
// s.
func (w *Watch) record(asked context.Context, s *state, err error, proof bool) {
	var conflict *kv.Conflict
	well := err == nil || errors.Is(err, kv.ErrNotFound) ||
		errors.As(err, &conflict) && !errors.Is(err, kv.ErrUnknown)
	if !well && errors.Is(asked.Err(), context.Canceled) || well && !proof {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !well:
		w.metrics.StoreRefused(s.what)
		s.refused++
		if s != &w.writes || !w.reportsHealth || asked.Err() != nil ||
			errors.Is(err, context.DeadlineExceeded) {
			w.fails(s, err)
		}
	case s.failing && !s.reported && time.Since(s.last) >= settle:
		w.recovers(s)
	}
}

func (w *Watch) fails(s *state, cause error) {
	s.last = time.Now()
	if s.failing {
		return
	}
	s.failing, s.cause, s.since = true, cause, s.last
	w.metrics.StoreFailing(s.what, true)
	w.log.Error("the store fails", "what", s.what, "error", cause.Error())
}

func (w *Watch) recovers(s *state) {
	if !s.failing {
		return
	}
	w.log.Warn("the store answers again",
		"what", s.what, "after", time.Since(s.since).Round(time.Millisecond).String(), "refused", s.refused)
	s.failing, s.cause, s.refused = false, nil, 0
	w.metrics.StoreFailing(s.what, false)
}

// watched and metered are the store that engines get.
type watched struct{ w *Watch }

func (s watched) Get(ctx context.Context, key kv.Key) (item kv.Item, err error) {
	err = s.w.ask(ctx, &s.w.reads, get, func(ctx context.Context) (bool, error) {
		item, err = s.w.store.Get(ctx, key)
		return true, err
	})
	return item, err
}

func (s watched) List(ctx context.Context, prefix kv.Key, after string, n int) (items []kv.Item, err error) {
	err = s.w.ask(ctx, &s.w.reads, list, func(ctx context.Context) (bool, error) {
		items, err = s.w.store.List(ctx, prefix, after, n)
		return true, err
	})
	return items, err
}

func (s watched) Commit(ctx context.Context, tx kv.Tx) error {
	return s.w.ask(ctx, &s.w.writes, commit, func(ctx context.Context) (bool, error) {
		err := s.w.store.Commit(ctx, tx)
		if err != nil && ctx.Err() != nil && !errors.Is(err, kv.ErrUnavailable) &&
			!errors.Is(err, kv.ErrUnknown) {
			err = errors.Join(kv.ErrUnknown, err)
		}
		return true, err
	})
}

// Claim shows that the store can write, if there was something to claim.
func (s watched) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) (tasks []kv.Task, next time.Time, err error) {
	err = s.w.ask(ctx, &s.w.writes, claim, func(ctx context.Context) (bool, error) {
		tasks, next, err = s.w.store.Claim(ctx, p, now, lease, n)
		return len(tasks) > 0, err
	})
	return tasks, next, err
}

type metered struct {
	w     *Watch
	meter kv.Meter
}

func (s metered) Spend(
	ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) (tats []time.Time, err error) {
	err = s.w.ask(ctx, &s.w.counters, charge, func(ctx context.Context) (bool, error) {
		tats, err = s.meter.Spend(ctx, p, now, charges)
		return true, err
	})
	return tats, err
}

// ask makes one call within the budget of its request.
func (w *Watch) ask(ctx context.Context, s *state, operation string,
	call func(context.Context) (proof bool, err error)) error {
	within, done, err := spend(ctx)
	if err != nil {
		return err // the store was not asked
	}
	_, before := w.reportedFailure()
	begin := time.Now()
	proof, err := call(within)
	w.metrics.StoreDone(operation, resultOf(ctx, err), time.Since(begin))
	done()
	if s == &w.reads && err != nil {
		if failing, now := w.reportedFailure(); failing || now != before {
			return err // it belongs to the trouble that the store has reported
		}
	}
	w.record(ctx, s, err, proof)
	return err
}

// resultOf returns what came of an operation. asked is the caller's context.
func resultOf(asked context.Context, err error) string {
	var conflict *kv.Conflict
	switch {
	case err == nil, errors.Is(err, kv.ErrNotFound):
		return resultOK
	case errors.Is(asked.Err(), context.Canceled):
		return resultGaveUp
	case errors.Is(err, kv.ErrUnknown):
		return resultUnknown
	case errors.As(err, &conflict):
		return resultConflict
	}
	return resultRefused
}

// reportedFailure returns whether the store says that it cannot write, and how often it has reported
// something. The number shows a failure that began and ended between two calls.
func (w *Watch) reportedFailure() (failing bool, reports int) {
	w.writes.mu.Lock()
	defer w.writes.mu.Unlock()
	return w.writes.reported, w.writes.reports
}

type noMetrics struct{}

func (noMetrics) StoreFailing(string, bool) {}
func (noMetrics) StoreRefused(string)       {}

func (noMetrics) StoreDone(string, string, time.Duration) {}
