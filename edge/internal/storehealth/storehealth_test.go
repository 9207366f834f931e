package storehealth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// fake is a store that returns err, after some time or when its context ends.
type fake struct {
	kv.KV
	err   error
	takes time.Duration
	raw   bool // errors of the context are returned unchanged, without one of package kv
	tasks int
	calls int
}

func (f *fake) answer(ctx context.Context, lost error) error {
	f.calls++
	select {
	case <-time.After(f.takes):
		return f.err
	case <-ctx.Done():
		if f.raw {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", lost, context.Cause(ctx))
	}
}

func (f *fake) Get(ctx context.Context, _ kv.Key) (kv.Item, error) {
	return kv.Item{}, f.answer(ctx, kv.ErrUnavailable)
}
func (f *fake) List(ctx context.Context, _ kv.Key, _ string, _ int) ([]kv.Item, error) {
	return nil, f.answer(ctx, kv.ErrUnavailable)
}
func (f *fake) Commit(ctx context.Context, _ kv.Tx) error { return f.answer(ctx, kv.ErrUnknown) }
func (f *fake) Claim(
	ctx context.Context, _ kv.Partition, _ time.Time, _ time.Duration, _ int,
) ([]kv.Task, time.Time, error) {
	return make([]kv.Task, f.tasks), time.Time{}, f.answer(ctx, kv.ErrUnavailable)
}

// counting is a fake that is also a kv.Meter.
type counting struct{ *fake }

func (c counting) Spend(
	ctx context.Context, _ kv.Partition, _ time.Time, _ []kv.Charge,
) ([]time.Time, error) {
	return nil, c.answer(ctx, kv.ErrUnavailable)
}

type recorded struct {
	failing  map[string]bool
	rejected map[string]int
	done     []string // operation, result and time of each call
}

func (r *recorded) StoreDone(operation, result string, took time.Duration) {
	r.done = append(r.done, fmt.Sprint(operation, " ", result, " ", took))
}

func (r *recorded) StoreFailing(what string, failing bool) { r.failing[what] = failing }
func (r *recorded) StoreRejected(what string)              { r.rejected[what]++ }

func newMonitor(store kv.KV, reportsHealth bool) (w *Monitor, log *bytes.Buffer, m *recorded) {
	log, m = new(bytes.Buffer), &recorded{failing: map[string]bool{}, rejected: map[string]int{}}
	w = New(store,
		Config{Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: m, ReportsHealth: reportsHealth})
	return w, log, m
}

func lines(log *bytes.Buffer) int { return strings.Count(log.String(), "\n") }

func TestBudget_SharedByCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: 2 * time.Second}
		w, _, _ := newMonitor(counting{f}, false)
		store := w.KV()
		begin, ctx := time.Now(), WithBudget(t.Context(), 5*time.Second)
		if _, err := store.Get(ctx, kv.Key{}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour) // spent on something other than the store
		if _, err := store.(kv.Meter).Spend(ctx, "", begin, nil); err != nil {
			t.Error(err)
		}
		waited := time.Now()
		err := store.Commit(ctx, kv.Tx{})
		if !errors.Is(err, kv.ErrUnknown) || !strings.Contains(err.Error(), "store.budget") {
			t.Errorf("a commit that runs out of the budget: %v, want ErrUnknown with the budget's name", err)
		}
		if left := time.Since(waited); left != time.Second {
			t.Errorf("after two calls of 2 s the third took %v, want 1 s, the rest of 5 s", left)
		}
		calls := f.calls
		if _, err := store.Get(ctx, kv.Key{}); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("a read after the budget: %v, want ErrUnavailable", err)
		}
		if err := store.Commit(ctx, kv.Tx{}); !errors.Is(err, kv.ErrUnavailable) ||
			errors.Is(err, kv.ErrUnknown) {
			t.Errorf("a commit after the budget: %v, want ErrUnavailable, because it was not sent", err)
		}
		if f.calls != calls {
			t.Errorf("a request without budget asked the store %d more times", f.calls-calls)
		}
		if ctx.Err() != nil {
			t.Error("the request itself has ended, so it cannot respond")
		}
		if _, err := store.Get(WithBudget(t.Context(), 5*time.Second), kv.Key{}); err != nil {
			t.Errorf("another request: %v", err)
		}
		f.takes = time.Hour
		if _, err := store.Get(t.Context(), kv.Key{}); err != nil {
			t.Errorf("a call without a budget: %v", err)
		}
	})
}

func TestBudget_HangingStore(t *testing.T) {
	for name, raw := range map[string]bool{"errors of package kv": false, "errors of the context": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _, _ := newMonitor(&fake{takes: time.Hour, raw: raw}, false)
				begin := time.Now()
				err := w.KV().Commit(WithBudget(t.Context(), 5*time.Second), kv.Tx{})
				if !errors.Is(err, kv.ErrUnknown) {
					t.Errorf("%v, want ErrUnknown", err)
				}
				if took := time.Since(begin); took != 5*time.Second {
					t.Errorf("the call took %v, want 5 s", took)
				}
			})
		})
	}
}

// asked is a store that passes its context to a test.
type asked struct {
	kv.KV
	get func(ctx context.Context)
}

func (a asked) Get(ctx context.Context, _ kv.Key) (kv.Item, error) {
	a.get(ctx)
	return kv.Item{}, nil
}

// A store may wait for its context, poll it, or derive others from it.
func TestBudget_Context(t *testing.T) {
	type key struct{}
	for name, waits := range map[string]func(t *testing.T, ctx context.Context){
		"it waits": func(_ *testing.T, ctx context.Context) { <-ctx.Done() },
		"it polls it": func(t *testing.T, ctx context.Context) {
			for range 5 {
				if err := ctx.Err(); err != nil {
					t.Errorf("it ends too soon: %v", err)
				}
				time.Sleep(time.Second)
			}
		},
		"it derives another": func(t *testing.T, ctx context.Context) {
			derived, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			<-derived.Done()
			if !strings.Contains(fmt.Sprint(context.Cause(derived)), "store.budget") {
				t.Errorf("the derived context ended because of: %v", context.Cause(derived))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				request := context.WithValue(t.Context(), key{}, "of the request")
				begin, asks := time.Now(), 0
				w, _, _ := newMonitor(asked{get: func(ctx context.Context) {
					asks++
					if end, ok := ctx.Deadline(); !ok || !end.Equal(begin.Add(5*time.Second)) {
						t.Errorf("the deadline is %v, want 5 s after %v", end, begin)
					}
					if context.Cause(ctx) != nil {
						t.Errorf("it ends immediately: %v", context.Cause(ctx))
					}
					waits(t, ctx)
					if took := time.Since(begin); took != 5*time.Second {
						t.Errorf("it took %v, want 5 s", took)
					}
					if ctx.Err() != context.DeadlineExceeded {
						t.Errorf("Err: %v, want DeadlineExceeded", ctx.Err())
					}
					if !strings.Contains(fmt.Sprint(context.Cause(ctx)), "store.budget") {
						t.Errorf("the cause is %v, want the budget's name", context.Cause(ctx))
					}
					if ctx.Value(key{}) != "of the request" {
						t.Error("the value of the request is lost")
					}
				}}, false)
				w.KV().Get(WithBudget(request, 5*time.Second), kv.Key{})
				if asks != 1 {
					t.Errorf("the store was asked %d times", asks)
				}
			})
		})
	}
}

func TestBudget_RequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("the client has disconnected")
		request, cancel := context.WithCancelCause(t.Context())
		asks := 0
		w, _, _ := newMonitor(asked{get: func(ctx context.Context) {
			asks++
			cancel(gone)
			if ctx.Err() != context.Canceled || context.Cause(ctx) != gone {
				t.Errorf("before it waits: %v, because of %v", ctx.Err(), context.Cause(ctx))
			}
			<-ctx.Done()
			if ctx.Err() != context.Canceled || context.Cause(ctx) != gone {
				t.Errorf("after it waited: %v, because of %v", ctx.Err(), context.Cause(ctx))
			}
		}}, false)
		w.KV().Get(WithBudget(request, 5*time.Second), kv.Key{})
		if asks != 1 {
			t.Errorf("the store was asked %d times", asks)
		}
	})
}

func TestKV_Meter(t *testing.T) {
	if _, ok := New(&fake{}, Config{}).KV().(kv.Meter); ok {
		t.Error("the watch of a store without counters is a meter: instances would not share limits")
	}
	if _, ok := New(counting{&fake{}}, Config{}).KV().(kv.Meter); !ok {
		t.Error("the watch of a store with counters is not a meter")
	}
}

func TestMonitor_LogsStateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		w, log, m := newMonitor(f, false)
		store := w.KV()
		full := fmt.Errorf("%w: the disk is full", kv.ErrUnavailable)
		for range 1000 {
			f.err = full
			store.Commit(t.Context(), kv.Tx{})
			f.err = kv.ErrNotFound
			store.Get(t.Context(), kv.Key{})
			f.err = &kv.Conflict{}
			store.Commit(t.Context(), kv.Tx{}) // a single success does not end the failure
			time.Sleep(10 * time.Millisecond)
		}
		got := log.String()
		if lines(log) != 1 {
			t.Errorf("a thousand rejections made the log:\n%.600s", got)
		}
		for _, part := range []string{"the disk is full", "what=writes", "level=ERROR"} {
			if !strings.Contains(got, part) {
				t.Errorf("the log has no %q:\n%.600s", part, got)
			}
		}
		if !m.failing[writes] || m.failing[reads] || m.rejected[writes] != 1000 {
			t.Errorf("metrics: %+v, want writes failing, a thousand times", m)
		}
		if err := w.Failing(); !errors.Is(err, full) {
			t.Errorf("Failing: %v, want the cause", err)
		}
		if n := w.RetryAfter(); n != 5 && n != 6 {
			t.Errorf("after 10 s Retry-After is %d, want half of that", n)
		}

		f.err = nil
		store.Claim(t.Context(), "", time.Now(), time.Minute, 1)
		time.Sleep(settle)
		store.Claim(t.Context(), "", time.Now(), time.Minute, 1)
		if w.Failing() == nil {
			t.Error("a claim that found nothing, and so wrote nothing, ended the failure of writes")
		}
		store.Commit(t.Context(), kv.Tx{})
		got = log.String()
		told := lines(log) == 2 && strings.Contains(got, "refused=1000")
		if !told || w.Failing() != nil || w.RetryAfter() != 0 || m.failing[writes] {
			t.Errorf("the store works again, but Failing is %v, and the log is:\n%.600s", w.Failing(), got)
		}
	})
}

func TestMonitor_CanceledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log, _ := newMonitor(&fake{takes: time.Hour}, false)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.KV().Get(gone, kv.Key{}); err == nil {
			t.Error("no error")
		}
		if w.Failing() != nil || lines(log) > 0 {
			t.Errorf("a client that disconnected made the store count as failing: %s", log)
		}
	})
}

func TestMonitor_StaleError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{err: kv.ErrUnavailable}
		w, _, _ := newMonitor(f, false)
		w.KV().Commit(t.Context(), kv.Tx{})
		time.Sleep(stale + time.Second)
		if err := w.Failing(); err != nil {
			t.Errorf("a minute after the only error: %v", err)
		}
	})
}

func TestReportHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		w, log, _ := newMonitor(f, true)
		w.ReportHealth(errors.New("the disk is full"))
		time.Sleep(time.Hour)
		w.KV().Commit(t.Context(), kv.Tx{})
		if w.Failing() == nil {
			t.Error("the store reports a failure, but the monitor does not")
		}
		w.ReportHealth(nil)
		f.err = kv.ErrUnavailable // from a commit that was rejected before
		w.KV().Commit(t.Context(), kv.Tx{})
		if err := w.Failing(); err != nil || lines(log) != 2 {
			t.Errorf("the store reports that it works, but Failing is %v:\n%s", err, log)
		}
		f.err, f.takes = nil, time.Hour
		w.KV().Commit(WithBudget(t.Context(), time.Second), kv.Tx{})
		if w.Failing() == nil {
			t.Error("the store hangs, which it cannot report, but does not count as failing")
		}
	})
}

// meanwhile is a fake to which something happens during a read.
type meanwhile struct {
	*fake
	does func()
}

func (m *meanwhile) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	m.does()
	return m.fake.Get(ctx, key)
}

// A store that reports its state rejects readers for a moment while it reopens its file.
func TestReportHealth_RejectedReads(t *testing.T) {
	rejected := errors.New("the file is being reopened")
	for _, c := range []struct {
		name   string
		during func(w *Monitor)
		failed bool // whether reads count as failing, besides the reported failure
	}{
		{"a failure has begun and continues", func(w *Monitor) { w.ReportHealth(rejected) }, false},
		{"a failure began and ended during the call",
			func(w *Monitor) { w.ReportHealth(rejected); w.ReportHealth(nil) },
			false},
		{"no failure", func(*Monitor) {}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{err: fmt.Errorf("%w: %w", kv.ErrUnavailable, rejected)}
			store := &meanwhile{fake: f}
			w, _, m := newMonitor(store, true)
			store.does = func() { c.during(w) }
			if _, err := w.KV().Get(t.Context(), kv.Key{}); err == nil {
				t.Fatal("the error was lost")
			}
			if m.failing[reads] != c.failed {
				t.Errorf("reads count as failing: %v, want %v", m.failing[reads], c.failed)
			}
		})
	}
}

func TestMonitor_Metrics(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		gone   bool   // the caller has disconnected
		commit string // the metric of a commit
	}{
		{"an answer", nil, false, "commit ok 2s"},
		{"a missing item", kv.ErrNotFound, false, "commit ok 2s"},
		{"a check that fails", &kv.Conflict{}, false, "commit conflict 2s"},
		{"a refusal", kv.ErrUnavailable, false, "commit refused 2s"},
		{"no answer", kv.ErrUnknown, false, "commit unknown 2s"},
		{"an unknown outcome with a conflict", errors.Join(&kv.Conflict{}, kv.ErrUnknown), false,
			"commit unknown 2s"},
		{"a caller that disconnected", nil, true, "commit gave_up 0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, _, m := newMonitor(counting{&fake{err: c.err, takes: 2 * time.Second}}, false)
			store := w.KV()
			ctx, goAway := context.WithCancel(t.Context())
			defer goAway()
			if c.gone {
				goAway()
			}
			// Other tests cover the results of calls.
			_ = store.Commit(ctx, kv.Tx{})
			_, _ = store.Get(ctx, kv.Key{})
			_, _ = store.List(ctx, kv.Key{}, "", 1)
			_, _, _ = store.Claim(ctx, "p", time.Now(), 0, 1)
			_, _ = store.(kv.Meter).Spend(ctx, "p", time.Now(), nil)
			if len(m.done) != 5 || m.done[0] != c.commit {
				t.Fatalf("%s: measured %q, want %q first", c.name, m.done, c.commit)
			}
			_, rest, _ := strings.Cut(c.commit, " ")
			for i, operation := range []string{"commit", "get", "list", "claim", "spend"} {
				if m.done[i] != operation+" "+rest {
					t.Errorf("%s: measured %q, want %s", c.name, m.done[i], operation+" "+rest)
				}
			}
		})
	}
}
