// Package storewatch stands between an engine and its store, for native and
// guest engines alike. A [Watch] is the store, and does two things more:
//
//   - It bounds what one request may ask of the store, all its calls together:
//     see [WithBudget].
//   - It tells when the store begins to fail and when it answers again: one
//     line in the log for each, however many requests are refused meanwhile,
//     a metric, and what health checks and Retry-After go by.
//
// Reads, writes (commits and claims) and rate counters are told apart, for a
// full disk fails the one and serves the other. Failing begins with the first
// error and ends with the first success that comes at least five seconds after
// the last error: a store that fails now and then is one that fails. A store
// that knows its own state, as bolt does, says so by [Watch.Told], and is
// believed at once.
package storewatch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Metrics is told what happens. Methods are called concurrently.
type Metrics interface {
	StoreFailing(what string, failing bool)
	StoreRefused(what string)
}

// What a store is asked for.
const (
	Reads    = "reads"
	Writes   = "writes"
	Counters = "counters"
)

const (
	// settle is how long a store has to go without an error to be well again.
	settle = 5 * time.Second

	// stale is for how long an error says something of a store that nobody has
	// asked since.
	stale = time.Minute

	// retryMost bounds what callers are told to wait, in seconds.
	retryMost = 30
)

// Config: every zero value works.
type Config struct {
	Log     *slog.Logger // nil discards
	Metrics Metrics      // nil: nobody is told

	// Tells says that the store reports by Told whether it can write. Errors
	// of writes then say nothing more, unless they are that it was too slow.
	// Nor do errors of reads that meet such a trouble: the store opens its
	// file anew then, and readers are refused for a moment.
	Tells bool
}

// Watch is the store. Make it with New; hand engines what KV returns.
type Watch struct {
	store   kv.KV
	log     *slog.Logger
	metrics Metrics
	tells   bool

	reads, writes, counters state
}

// state is how one thing goes that the store is asked for.
type state struct {
	what string

	mu       sync.Mutex
	failing  bool
	told     bool      // by the store itself, which will also say when it is over
	tellings int       // how often the store has told something
	cause    error     // the first
	since    time.Time // the first error
	last     time.Time // the latest
	refused  int
}

// New returns the watch over store.
func New(store kv.KV, c Config) *Watch {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = nobody{}
	}
	w := &Watch{store: store, log: c.Log, metrics: c.Metrics, tells: c.Tells}
	w.reads.what, w.writes.what, w.counters.what = Reads, Writes, Counters
	for _, s := range w.all() {
		w.metrics.StoreFailing(s.what, false)
	}
	return w
}

func (w *Watch) all() []*state { return []*state{&w.reads, &w.writes, &w.counters} }

// KV is the watched store, and a kv.Meter if the store is one.
func (w *Watch) KV() kv.KV {
	if m, ok := w.store.(kv.Meter); ok {
		return struct {
			watched
			metered
		}{watched{w}, metered{w, m}}
	}
	return watched{w}
}

// Told is for a store that knows by itself whether it can write: why it cannot,
// or nil once it can.
func (w *Watch) Told(failing error) {
	w.writes.mu.Lock()
	defer w.writes.mu.Unlock()
	w.writes.told = failing != nil
	w.writes.tellings++
	if failing != nil {
		w.fails(&w.writes, failing)
		return
	}
	w.recovers(&w.writes)
}

// Failing is why the store cannot do all that it is for; nil if it can, as far
// as is known.
func (w *Watch) Failing() error {
	var errs []error
	for _, s := range w.all() {
		if _, cause := w.look(s); cause != nil {
			errs = append(errs, cause)
		}
	}
	return errors.Join(errs...)
}

// RetryAfter is how many seconds a caller should wait who was refused now: half
// as long as the store has failed, from one to thirty. Zero: it does not fail.
func (w *Watch) RetryAfter() int {
	seconds := 0
	for _, s := range w.all() {
		if since, cause := w.look(s); cause != nil {
			seconds = max(seconds, min(1+int(time.Since(since)/(2*time.Second)), retryMost))
		}
	}
	return seconds
}

// look also ends a failing of which nobody has heard for long.
func (w *Watch) look(s *state) (since time.Time, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing && !s.told && time.Since(s.last) > stale {
		w.recovers(s)
	}
	return s.since, s.cause
}

// heard takes note of what the store answered. asked is the context of whoever
// asked: if they gave up, the error says nothing of the store. proof is whether
// a success shows that the store can do what s is about.
func (w *Watch) heard(asked context.Context, s *state, err error, proof bool) {
	var conflict *kv.Conflict
	well := err == nil || errors.Is(err, kv.ErrNotFound) || errors.As(err, &conflict) && !errors.Is(err, kv.ErrUnknown)
	if !well && errors.Is(asked.Err(), context.Canceled) || well && !proof {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !well:
		w.metrics.StoreRefused(s.what)
		s.refused++
		if s != &w.writes || !w.tells || asked.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			w.fails(s, err)
		}
	case s.failing && !s.told && time.Since(s.last) >= settle:
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
	w.log.Warn("the store answers again", "what", s.what, "after", time.Since(s.since).Round(time.Millisecond).String(), "refused", s.refused)
	s.failing, s.cause, s.refused = false, nil, 0
	w.metrics.StoreFailing(s.what, false)
}

// watched and metered are the store.
type watched struct{ w *Watch }

func (s watched) Get(ctx context.Context, key kv.Key) (item kv.Item, err error) {
	err = s.w.ask(ctx, &s.w.reads, func(ctx context.Context) (bool, error) {
		item, err = s.w.store.Get(ctx, key)
		return true, err
	})
	return item, err
}

func (s watched) List(ctx context.Context, prefix kv.Key, after string, n int) (items []kv.Item, err error) {
	err = s.w.ask(ctx, &s.w.reads, func(ctx context.Context) (bool, error) {
		items, err = s.w.store.List(ctx, prefix, after, n)
		return true, err
	})
	return items, err
}

func (s watched) Commit(ctx context.Context, tx kv.Tx) error {
	return s.w.ask(ctx, &s.w.writes, func(ctx context.Context) (bool, error) {
		err := s.w.store.Commit(ctx, tx)
		if err != nil && ctx.Err() != nil && !errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, kv.ErrUnknown) {
			err = errors.Join(kv.ErrUnknown, err)
		}
		return true, err
	})
}

// Claim proves that the store can write if there was something to claim.
func (s watched) Claim(ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) (tasks []kv.Task, next time.Time, err error) {
	err = s.w.ask(ctx, &s.w.writes, func(ctx context.Context) (bool, error) {
		tasks, next, err = s.w.store.Claim(ctx, p, now, lease, n)
		return len(tasks) > 0, err
	})
	return tasks, next, err
}

type metered struct {
	w     *Watch
	meter kv.Meter
}

func (s metered) Spend(ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge) (tats []time.Time, err error) {
	err = s.w.ask(ctx, &s.w.counters, func(ctx context.Context) (bool, error) {
		tats, err = s.meter.Spend(ctx, p, now, charges)
		return true, err
	})
	return tats, err
}

// ask makes one call within the budget of its request.
func (w *Watch) ask(ctx context.Context, s *state, call func(context.Context) (proof bool, err error)) error {
	within, done, err := spend(ctx)
	if err != nil {
		return err // the store was not asked
	}
	_, before := w.toldTrouble()
	proof, err := call(within)
	done()
	if s == &w.reads && err != nil {
		if trouble, now := w.toldTrouble(); trouble || now != before {
			return err // of the trouble that the store has told about
		}
	}
	w.heard(ctx, s, err, proof)
	return err
}

// toldTrouble reports whether the store says that it cannot write, and how
// often it has told something: a trouble that began and ended between two
// calls shows in the number.
func (w *Watch) toldTrouble() (trouble bool, tellings int) {
	w.writes.mu.Lock()
	defer w.writes.mu.Unlock()
	return w.writes.told, w.writes.tellings
}

type nobody struct{}

func (nobody) StoreFailing(string, bool) {}
func (nobody) StoreRefused(string)       {}
