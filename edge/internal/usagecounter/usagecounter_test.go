package usagecounter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/testharness/wait"
)

const (
	integration = "694069ac-4d4e-475f-906b-2f11c5eca7bd"
	key         = "key_0a4e1f7c1b2d4c3e"
)

// store stores its input like the core: the last sums of each instance.
type store struct {
	mu     sync.Mutex
	days   map[host.DayTotal]host.Counts // by a total without its counts
	keys   map[host.KeyUse]int
	calls  int
	lose   bool // returns an error, and stores its input
	reject error
}

func newStore() *store {
	return &store{days: map[host.DayTotal]host.Counts{}, keys: map[host.KeyUse]int{}}
}

func (s *store) record(_ context.Context, t host.Totals) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.reject != nil {
		return s.reject
	}
	for _, d := range t.Days {
		counts := d.Counts
		d.Counts = host.Counts{}
		s.days[d] = counts
	}
	for _, k := range t.Keys {
		s.keys[k]++
	}
	if s.lose {
		return kv.ErrUnknown
	}
	return nil
}

// started returns the number of starts that all instances have counted on a day.
func (s *store) started(day host.Day) (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, counts := range s.days {
		if d.Day == day {
			n += counts.Of(host.OutcomeStarted)
		}
	}
	return n
}

type fixture struct {
	*Counter
	kept *store
	now  time.Time
	log  bytes.Buffer
}

func newFixture(most int) *fixture {
	w := &fixture{kept: newStore(), now: time.Date(2026, 11, 20, 23, 59, 0, 0, time.UTC)}
	w.Counter = New(Config{Now: func() time.Time { return w.now }, Most: most,
		Log: slog.New(slog.NewTextHandler(&w.log, nil))})
	return w
}

func (w *fixture) start(n int) {
	for range n {
		w.Add(host.UsageEvent{Integration: integration, Outcome: host.OutcomeStarted})
	}
}

func (w *fixture) must(t *testing.T) {
	t.Helper()
	if err := w.Record(t.Context(), w.kept.record); err != nil {
		t.Fatal(err)
	}
}

func (w *fixture) want(t *testing.T, day host.Day, started uint64) {
	t.Helper()
	if got := w.kept.started(day); got != started {
		t.Errorf("%d started on %s, want %d: %v", got, day, started, w.kept.days)
	}
}

func TestRecord(t *testing.T) {
	w := newFixture(0)
	day := host.DayOf(w.now)
	w.start(3)
	w.Add(host.UsageEvent{Key: key})
	w.Add(host.UsageEvent{Key: key})
	w.must(t)
	w.start(2)
	w.Add(host.UsageEvent{Integration: integration, Outcome: "other"})
	w.must(t)
	w.want(t, day, 5)
	if len(w.kept.days) != 1 || w.kept.keys[host.KeyUse{Key: key, Day: day}] != 1 || len(w.kept.keys) != 1 {
		t.Errorf("recorded: %v, %v", w.kept.days, w.kept.keys)
	}
	calls := w.kept.calls
	w.must(t)
	if w.kept.calls != calls {
		t.Error("unchanged sums were recorded again")
	}
}

// An untimed session counts when its lifetime is over. This instance reports it as expired unless it has
// seen its end.
func TestCounter_UntimedSessions(t *testing.T) {
	w := newFixture(0)
	w.now = w.now.Add(-time.Hour)
	day := host.DayOf(w.now)
	expired := 0
	w.config.Expired = func(id string, n int) {
		if id != integration {
			t.Errorf("expired: %q", id)
		}
		expired += n
	}
	note := func(outcome string, n int) {
		for range n {
			w.Add(host.UsageEvent{Integration: integration, Outcome: outcome})
		}
	}
	check := func(name string, untimed, ended uint64, want int) {
		t.Helper()
		w.must(t)
		var got host.Counts
		for _, counts := range w.kept.days {
			got = got.Plus(counts)
		}
		if got.Of(host.OutcomeUntimed) != untimed || got.Of(host.OutcomeUntimedEnded) != ended ||
			expired != want {
			t.Errorf("contract 44: %s: %d untimed, %d ended, %d expired, want %d, %d, %d", name,
				got.Of(host.OutcomeUntimed), got.Of(host.OutcomeUntimedEnded), expired, untimed, ended, want)
		}
	}
	note(host.OutcomeUntimed, 3)
	note(host.OutcomeUntimedEnded, 1)
	check("they are in progress", 0, 1, 0)
	w.now = w.now.Add(5 * time.Minute)
	note(host.OutcomeUntimed, 2)
	w.now = w.now.Add(4*time.Minute + 59*time.Second)
	check("a second before the first ones expire", 0, 1, 0)
	w.now = w.now.Add(2 * time.Minute)
	check("the first ones have expired", 3, 1, 2)
	w.Expire(w.now.Add(time.Hour))
	check("the process ends", 5, 1, 4)
	if host.DayOf(w.now) != day {
		t.Fatal("the test passes midnight")
	}
}

// Ends of other instances' sessions do not count for this instance.
func TestCounter_UntimedEndElsewhere(t *testing.T) {
	w := newFixture(2)
	w.config.Expired = func(string, int) { t.Error("a session that never was has expired") }
	for n := range 5 {
		w.Add(host.UsageEvent{Integration: fmt.Sprint(n), Outcome: host.OutcomeUntimedEnded})
		w.must(t)
		w.now = w.now.Add(24 * time.Hour)
		w.must(t)
	}
	if len(w.untimed) > 0 || strings.Contains(w.log.String(), "not counted") {
		t.Errorf("kept: %v, log %s", w.untimed, &w.log)
	}
}

func TestRecord_StoreFails(t *testing.T) {
	w := newFixture(0)
	day := host.DayOf(w.now)
	for n := range 6 {
		w.start(1)
		w.Add(host.UsageEvent{Key: key})
		w.kept.lose, w.kept.reject = n%3 == 1, nil
		if n%3 == 2 {
			w.kept.reject = kv.ErrUnavailable
		}
		if err := w.Record(t.Context(), w.kept.record); (err != nil) != (n%3 > 0) {
			t.Errorf("recording %d: %v", n, err)
		}
	}
	w.kept.reject = nil
	w.must(t)
	w.want(t, day, 6)
}

func TestCounter_Midnight(t *testing.T) {
	w := newFixture(0)
	day := host.DayOf(w.now)
	w.start(3)
	w.must(t)
	w.start(1)
	w.Add(host.UsageEvent{Key: key})
	w.now = w.now.Add(2 * time.Minute)
	w.start(2)
	w.Add(host.UsageEvent{Key: key})
	w.must(t)
	w.must(t)
	w.want(t, day, 4)
	w.want(t, day+1, 2)
	if w.kept.keys[host.KeyUse{Key: key, Day: day + 1}] != 1 {
		t.Errorf("keys: %v", w.kept.keys)
	}
	// The previous day is removed. A clock that is set back begins another sum, and does not replace the
	// first.
	if len(w.Counter.days) != 1 {
		t.Errorf("%d sums are kept", len(w.Counter.days))
	}
	w.now = w.now.Add(-2 * time.Minute)
	w.start(1)
	w.must(t)
	w.want(t, day, 5)
	w.want(t, day+1, 2)
}

// A module that reports a million names uses limited memory, and the log reports it once.
func TestCounter_Limit(t *testing.T) {
	w := newFixture(100)
	day := host.DayOf(w.now)
	name := func(n int) string { return fmt.Sprintf("%08x%s", n, integration[8:]) }
	for n := range 1_000_000 {
		w.Add(host.UsageEvent{Integration: name(n), Outcome: host.OutcomeStarted})
		w.Add(host.UsageEvent{Key: fmt.Sprintf("key_%016x", n)})
	}
	if len(w.Counter.days) != 100 || len(w.Counter.keys) != 100 {
		t.Errorf("%d sums and %d keys are kept, want 100", len(w.Counter.days), len(w.Counter.keys))
	}
	w.must(t)
	w.want(t, day, 100)
	if log := w.log.String(); strings.Count(log, "\n") != 1 ||
		!strings.Contains(log, "usage_events=1999800 most=100") {
		t.Errorf("the log says: %s", log)
	}
	// There is room again, and earlier counts are not counted twice.
	for n := range 100 {
		w.Add(host.UsageEvent{Integration: name(n + 50), Outcome: host.OutcomeStarted})
	}
	w.must(t)
	w.want(t, day, 200)
}

func TestRecord_Batches(t *testing.T) {
	w := newFixture(0)
	for n := range 2*batch + 1 {
		w.Add(host.UsageEvent{Integration: fmt.Sprintf("%08x%s", n, integration[8:]),
			Outcome: host.OutcomeStarted})
	}
	w.must(t)
	if w.kept.calls != 3 || len(w.kept.days) != 2*batch+1 {
		t.Errorf("%d sums in %d calls", len(w.kept.days), w.kept.calls)
	}
}

// Usage that an old module cannot record waits for a new one, and the old one is not asked repeatedly.
func TestRecord_ModuleWithoutUsage(t *testing.T) {
	w := newFixture(0)
	day := host.DayOf(w.now)
	w.start(2)
	w.kept.reject = fmt.Errorf("%w: what else", engine.ErrNoUsage)
	if err := w.Record(t.Context(), w.kept.record); !errors.Is(err, engine.ErrNoUsage) {
		t.Errorf("the first time: %v", err)
	}
	for range 3 {
		w.must(t)
	}
	if w.kept.calls != 1 {
		t.Errorf("it was asked %d times", w.kept.calls)
	}
	w.kept.reject = nil
	w.start(1) // by the new one
	w.must(t)
	w.want(t, day, 3)
}

func TestRecord_Concurrent(t *testing.T) {
	w := newFixture(0)
	day := host.DayOf(w.now)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { w.start(5000) })
		all.Go(func() {
			for range 50 {
				if err := w.Record(context.Background(), w.kept.record); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.must(t)
	w.want(t, day, 20_000)
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(0)
		day := host.DayOf(w.now)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		record := func(ctx context.Context, totals host.Totals) error {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > 5*time.Second {
				t.Errorf("a recording may take until %s", end)
			}
			return w.kept.record(ctx, totals)
		}
		go func() { w.Run(ctx, 30*time.Second, 5*time.Second, record); close(done) }()
		w.start(1)
		time.Sleep(29 * time.Second)
		w.want(t, day, 0)
		time.Sleep(2 * time.Second)
		w.want(t, day, 1)
		w.kept.mu.Lock()
		w.kept.reject = errors.New("it does not fit")
		w.kept.mu.Unlock()
		w.start(1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := strings.Count(w.log.String(), "usage not recorded"); n != 1 {
			t.Errorf("the log has it %d times: %s", n, &w.log)
		}
		w.kept.mu.Lock()
		w.kept.reject = nil
		w.kept.mu.Unlock()
		time.Sleep(31 * time.Second)
		w.want(t, day, 2)
		stop()
		wait.For(done)
	})
}

// Two instances that began at the same time have different names.
func TestNew_InstanceName(t *testing.T) {
	a, b := newFixture(0), newFixture(0)
	b.kept = a.kept
	day := host.DayOf(a.now)
	a.start(1)
	b.start(2)
	a.must(t)
	b.must(t)
	a.want(t, day, 3)
	for d := range maps.Keys(a.kept.days) {
		if len(d.Instance) != 16 || d.Integration != integration {
			t.Errorf("%+v", d)
		}
	}
}

func BenchmarkNote(b *testing.B) {
	counter := New(Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	for b.Loop() {
		counter.Add(host.UsageEvent{Integration: integration, Outcome: host.OutcomeStarted})
	}
}
