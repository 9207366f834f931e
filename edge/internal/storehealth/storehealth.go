// Package storehealth monitors the store of an engine. A [Monitor] wraps the store and
//
//   - limits the time that all calls of one request may wait for the store: see [WithBudget]
//   - detects when the store begins to fail and when it recovers. It writes one log line for each, however
//     many requests are rejected in between, and sets a metric. Health checks and Retry-After use its state.
//
// Reads, writes (commits and claims) and rate counters have separate states, because a full disk fails writes
// but serves reads. A failure begins with the first error. It ends with the first success at least five
// seconds after the last error: a store with occasional errors counts as failing. A store that knows its own
// state, such as bolt, reports it with [Monitor.ReportHealth]. Such a report takes effect immediately.
package storehealth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Metrics receives the state and the calls of the store. Its methods are called concurrently.
type Metrics interface {
	StoreFailing(what string, failing bool)
	StoreRejected(what string)

	// StoreDone reports a call of the store: its operation, its result and its duration.
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
	resultOK       = "ok"       // the call succeeded, or the item does not exist
	resultConflict = "conflict" // a check or a lease of the commit failed
	resultRejected = "refused"  // nothing changed
	resultUnknown  = "unknown"  // the call may have changed the store
	resultGaveUp   = "gave_up"  // the caller canceled the call
)

// The kinds of calls.
const (
	reads    = "reads"
	writes   = "writes"
	counters = "counters"
)

const (
	// settle is the minimum time without an error until the store counts as recovered.
	settle = 5 * time.Second

	// stale is the maximum age of an error that counts if the store has not been called since.
	stale = time.Minute

	// retryMost is the maximum of RetryAfter, in seconds.
	retryMost = 30
)

// Config configures a Monitor. Every zero value works.
type Config struct {
	Log     *slog.Logger // nil discards
	Metrics Metrics      // nil discards

	// ReportsHealth is set if the store reports with ReportHealth whether it can write. Then errors of writes
	// do not count, except for timeouts. Errors of reads during a reported failure do not count either: the
	// store reopens its file and rejects readers for a moment.
	ReportsHealth bool
}

// Monitor monitors a store. Create it with New and pass the result of KV to engines.
type Monitor struct {
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
	reports  int       // number of reports of the store
	cause    error     // the first error
	since    time.Time // the time of the first error
	last     time.Time // the time of the latest error
	rejected int
}

// New returns a monitor of the store.
func New(store kv.KV, c Config) *Monitor {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	m := &Monitor{store: store, log: c.Log, metrics: c.Metrics, reportsHealth: c.ReportsHealth}
	m.reads.what, m.writes.what, m.counters.what = reads, writes, counters
	for _, s := range m.all() {
		m.metrics.StoreFailing(s.what, false)
	}
	return m
}

func (m *Monitor) all() []*state { return []*state{&m.reads, &m.writes, &m.counters} }

// KV returns the monitored store. The result is a kv.Meter if the store is one.
func (m *Monitor) KV() kv.KV {
	if meter, ok := m.store.(kv.Meter); ok {
		return struct {
			monitored
			metered
		}{monitored{m}, metered{m, meter}}
	}
	return monitored{m}
}

// ReportHealth records the state that the store reports: the reason why it cannot write, or nil when it can
// write again.
func (m *Monitor) ReportHealth(failing error) {
	m.writes.mu.Lock()
	defer m.writes.mu.Unlock()
	m.writes.reported = failing != nil
	m.writes.reports++
	if failing != nil {
		m.fails(&m.writes, failing)
		return
	}
	m.recovers(&m.writes)
}

// Failing returns the errors of the kinds of calls that fail, or nil.
func (m *Monitor) Failing() error {
	var errs []error
	for _, s := range m.all() {
		if _, cause := m.look(s); cause != nil {
			errs = append(errs, cause)
		}
	}
	return errors.Join(errs...)
}

// RetryAfter returns the delay in seconds for a caller that is rejected now: half the duration of the
// failure, from 1 to 30, or zero if the store does not fail.
func (m *Monitor) RetryAfter() int {
	seconds := 0
	for _, s := range m.all() {
		if since, cause := m.look(s); cause != nil {
			seconds = max(seconds, min(1+int(time.Since(since)/(2*time.Second)), retryMost))
		}
	}
	return seconds
}

// look returns the state. It ends a failure if the last error is old.
func (m *Monitor) look(s *state) (since time.Time, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing && !s.reported && time.Since(s.last) > stale {
		m.recovers(s)
	}
	return s.since, s.cause
}

// record updates the state with the result of a call. asked is the caller's context: after a cancellation the
// error does not show that the store fails. proof is set if a success shows that the store can do the calls
// of s.
func (m *Monitor) record(asked context.Context, s *state, err error, proof bool) {
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
		m.metrics.StoreRejected(s.what)
		s.rejected++
		if s != &m.writes || !m.reportsHealth || asked.Err() != nil ||
			errors.Is(err, context.DeadlineExceeded) {
			m.fails(s, err)
		}
	case s.failing && !s.reported && time.Since(s.last) >= settle:
		m.recovers(s)
	}
}

func (m *Monitor) fails(s *state, cause error) {
	s.last = time.Now()
	if s.failing {
		return
	}
	s.failing, s.cause, s.since = true, cause, s.last
	m.metrics.StoreFailing(s.what, true)
	m.log.Error("the store fails", "what", s.what, "error", cause.Error())
}

func (m *Monitor) recovers(s *state) {
	if !s.failing {
		return
	}
	m.log.Warn("the store works again",
		"what", s.what, "after", time.Since(s.since).Round(time.Millisecond).String(), "refused", s.rejected)
	s.failing, s.cause, s.rejected = false, nil, 0
	m.metrics.StoreFailing(s.what, false)
}

// monitored and metered form the store that KV returns.
type monitored struct{ m *Monitor }

func (s monitored) Get(ctx context.Context, key kv.Key) (item kv.Item, err error) {
	err = s.m.ask(ctx, &s.m.reads, get, func(ctx context.Context) (bool, error) {
		item, err = s.m.store.Get(ctx, key)
		return true, err
	})
	return item, err
}

func (s monitored) List(
	ctx context.Context, prefix kv.Key, after string, n int,
) (items []kv.Item, err error) {
	err = s.m.ask(ctx, &s.m.reads, list, func(ctx context.Context) (bool, error) {
		items, err = s.m.store.List(ctx, prefix, after, n)
		return true, err
	})
	return items, err
}

func (s monitored) Commit(ctx context.Context, tx kv.Tx) error {
	return s.m.ask(ctx, &s.m.writes, commit, func(ctx context.Context) (bool, error) {
		err := s.m.store.Commit(ctx, tx)
		if err != nil && ctx.Err() != nil && !errors.Is(err, kv.ErrUnavailable) &&
			!errors.Is(err, kv.ErrUnknown) {
			err = errors.Join(kv.ErrUnknown, err)
		}
		return true, err
	})
}

// Claim shows that the store can write, if it claimed a task.
func (s monitored) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) (tasks []kv.Task, next time.Time, err error) {
	err = s.m.ask(ctx, &s.m.writes, claim, func(ctx context.Context) (bool, error) {
		tasks, next, err = s.m.store.Claim(ctx, p, now, lease, n)
		return len(tasks) > 0, err
	})
	return tasks, next, err
}

type metered struct {
	m     *Monitor
	meter kv.Meter
}

func (s metered) Spend(
	ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) (tats []time.Time, err error) {
	err = s.m.ask(ctx, &s.m.counters, charge, func(ctx context.Context) (bool, error) {
		tats, err = s.meter.Spend(ctx, p, now, charges)
		return true, err
	})
	return tats, err
}

// ask makes one call within the budget of its request.
func (m *Monitor) ask(ctx context.Context, s *state, operation string,
	call func(context.Context) (proof bool, err error)) error {
	within, done, err := spend(ctx)
	if err != nil {
		return err // the store was not asked
	}
	_, before := m.reportedFailure()
	begin := time.Now()
	proof, err := call(within)
	m.metrics.StoreDone(operation, resultOf(ctx, err), time.Since(begin))
	done()
	if s == &m.reads && err != nil {
		if failing, now := m.reportedFailure(); failing || now != before {
			return err // it belongs to the failure that the store has reported
		}
	}
	m.record(ctx, s, err, proof)
	return err
}

// resultOf returns the result of an operation for metrics. asked is the caller's context.
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
	return resultRejected
}

// reportedFailure returns whether the store has reported that it cannot write, and the number of its reports.
// A changed number reveals a failure that began and ended between two calls.
func (m *Monitor) reportedFailure() (failing bool, reports int) {
	m.writes.mu.Lock()
	defer m.writes.mu.Unlock()
	return m.writes.reported, m.writes.reports
}

type noMetrics struct{}

func (noMetrics) StoreFailing(string, bool) {}
func (noMetrics) StoreRejected(string)      {}

func (noMetrics) StoreDone(string, string, time.Duration) {}
