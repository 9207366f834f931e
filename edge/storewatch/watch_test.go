package storewatch

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

// fake is a store that answers err, after so long or when it is told to give up.
type fake struct {
	kv.KV
	err   error
	takes time.Duration
	raw   bool // its error says nothing of kv
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
func (f *fake) Claim(ctx context.Context, _ kv.Partition, _ time.Time, _ time.Duration, _ int) ([]kv.Task, time.Time, error) {
	return make([]kv.Task, f.tasks), time.Time{}, f.answer(ctx, kv.ErrUnavailable)
}

// counting is a fake that is a kv.Meter, too.
type counting struct{ *fake }

func (c counting) Spend(ctx context.Context, _ kv.Partition, _ time.Time, _ []kv.Charge) ([]time.Time, error) {
	return nil, c.answer(ctx, kv.ErrUnavailable)
}

type recorded struct {
	failing map[string]bool
	refused map[string]int
}

func (r *recorded) StoreFailing(what string, failing bool) { r.failing[what] = failing }
func (r *recorded) StoreRefused(what string)               { r.refused[what]++ }

func watching(store kv.KV, tells bool) (w *Watch, log *bytes.Buffer, m *recorded) {
	log, m = new(bytes.Buffer), &recorded{map[string]bool{}, map[string]int{}}
	return New(store, Config{Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: m, Tells: tells}), log, m
}

func lines(log *bytes.Buffer) int { return strings.Count(log.String(), "\n") }

func TestOneBudgetForAllThatARequestAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: 2 * time.Second}
		w, _, _ := watching(counting{f}, false)
		store := w.KV()
		begin, ctx := time.Now(), WithBudget(t.Context(), 5*time.Second)
		if _, err := store.Get(ctx, kv.Key{}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour) // at something else, which is not the store's
		if _, err := store.(kv.Meter).Spend(ctx, "", begin, nil); err != nil {
			t.Error(err)
		}
		waited := time.Now()
		if err := store.Commit(ctx, kv.Tx{}); !errors.Is(err, kv.ErrUnknown) || !strings.Contains(err.Error(), "store.budget") {
			t.Errorf("a commit that runs out of the budget: %v, want ErrUnknown with the budget's name", err)
		}
		if left := time.Since(waited); left != time.Second {
			t.Errorf("after two calls of 2 s the third was waited for %v, want 1 s of 5", left)
		}
		calls := f.calls
		if _, err := store.Get(ctx, kv.Key{}); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("a read after the budget: %v, want ErrUnavailable", err)
		}
		if err := store.Commit(ctx, kv.Tx{}); !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) {
			t.Errorf("a commit after the budget: %v, want ErrUnavailable: it was not begun", err)
		}
		if f.calls != calls {
			t.Errorf("the store was asked %d times more by a request that has no time left for it", f.calls-calls)
		}
		if ctx.Err() != nil {
			t.Error("the request itself was ended, which has to say what became of it")
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

func TestAStoreThatHangsIsLeftWhenTheBudgetIsOver(t *testing.T) {
	for name, raw := range map[string]bool{"errors of package kv": false, "errors of the context": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _, _ := watching(&fake{takes: time.Hour, raw: raw}, false)
				begin := time.Now()
				if err := w.KV().Commit(WithBudget(t.Context(), 5*time.Second), kv.Tx{}); !errors.Is(err, kv.ErrUnknown) {
					t.Errorf("%v, want ErrUnknown", err)
				}
				if took := time.Since(begin); took != 5*time.Second {
					t.Errorf("it was waited for %v, want 5 s", took)
				}
			})
		})
	}
}

func TestAMeterIsPassedThroughOnlyWhereThereIsOne(t *testing.T) {
	if _, ok := New(&fake{}, Config{}).KV().(kv.Meter); ok {
		t.Error("a store that cannot count is taken for one that can: instances would not share limits")
	}
	if _, ok := New(counting{&fake{}}, Config{}).KV().(kv.Meter); !ok {
		t.Error("a store that counts is taken for one that cannot")
	}
}

func TestOneLineForEachStateAndNotForEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		w, log, m := watching(f, false)
		store := w.KV()
		full := fmt.Errorf("%w: the disk is full", kv.ErrUnavailable)
		for range 1000 {
			f.err = full
			store.Commit(t.Context(), kv.Tx{})
			f.err = kv.ErrNotFound
			store.Get(t.Context(), kv.Key{})
			f.err = &kv.Conflict{}
			store.Commit(t.Context(), kv.Tx{}) // a success now and then does not make it well
			time.Sleep(10 * time.Millisecond)
		}
		if got := log.String(); lines(log) != 1 || !strings.Contains(got, "the disk is full") || !strings.Contains(got, "what=writes") || !strings.Contains(got, "level=ERROR") {
			t.Errorf("a thousand refusals made the log:\n%.600s", got)
		}
		if !m.failing[Writes] || m.failing[Reads] || m.refused[Writes] != 1000 {
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
			t.Error("a claim that found nothing, and so wrote nothing, made the writes well")
		}
		store.Commit(t.Context(), kv.Tx{})
		if got := log.String(); lines(log) != 2 || !strings.Contains(got, "refused=1000") || w.Failing() != nil || w.RetryAfter() != 0 || m.failing[Writes] {
			t.Errorf("the store is well again, %v, and the log is:\n%.600s", w.Failing(), got)
		}
	})
}

func TestWhoGivesUpSaysNothingOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log, _ := watching(&fake{takes: time.Hour}, false)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.KV().Get(gone, kv.Key{}); err == nil {
			t.Error("no error")
		}
		if w.Failing() != nil || lines(log) > 0 {
			t.Errorf("a client that went away made the store failing: %s", log)
		}
	})
}

func TestAnOldErrorIsNotHeldAgainstAStoreThatNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{err: kv.ErrUnavailable}
		w, _, _ := watching(f, false)
		w.KV().Commit(t.Context(), kv.Tx{})
		time.Sleep(stale + time.Second)
		if err := w.Failing(); err != nil {
			t.Errorf("a minute after the only error: %v", err)
		}
	})
}

func TestAStoreThatTellsIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		w, log, _ := watching(f, true)
		w.Told(errors.New("the disk is full"))
		time.Sleep(time.Hour)
		w.KV().Commit(t.Context(), kv.Tx{})
		if w.Failing() == nil {
			t.Error("it says that it fails, and is not believed")
		}
		w.Told(nil)
		f.err = kv.ErrUnavailable // of a commit that was refused before that
		w.KV().Commit(t.Context(), kv.Tx{})
		if err := w.Failing(); err != nil || lines(log) != 2 {
			t.Errorf("it says that it is well, and Failing is %v:\n%s", err, log)
		}
		f.err, f.takes = nil, time.Hour
		w.KV().Commit(WithBudget(t.Context(), time.Second), kv.Tx{})
		if w.Failing() == nil {
			t.Error("it hangs, which it cannot know, and is taken for well")
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

// A store that tells refuses readers for a moment while it opens its file anew.
func TestReadersWhoMeetATroubleThatWasToldAreNoFailureOfTheirOwn(t *testing.T) {
	refused := errors.New("the file is opened anew")
	for _, c := range []struct {
		name   string
		during func(w *Watch)
		failed bool // by the reads, besides what was told
	}{
		{"it has begun and goes on", func(w *Watch) { w.Told(refused) }, false},
		{"it began and ended during the call", func(w *Watch) { w.Told(refused); w.Told(nil) }, false},
		{"there was none", func(*Watch) {}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{err: fmt.Errorf("%w: %w", kv.ErrUnavailable, refused)}
			store := &meanwhile{fake: f}
			w, _, m := watching(store, true)
			store.does = func() { c.during(w) }
			if _, err := w.KV().Get(t.Context(), kv.Key{}); err == nil {
				t.Fatal("the error was swallowed")
			}
			if m.failing[Reads] != c.failed {
				t.Errorf("reads are said to fail: %v, want %v", m.failing[Reads], c.failed)
			}
		})
	}
}
