package runner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/wait"
)

// wire is a Signaler without a store. Its other ends are the test or other runners.
type wire struct {
	others []*wire
	hangs  bool // a signal takes until its time is over

	mu       sync.Mutex
	sent     []time.Time
	fails    error // of listening
	off      bool  // signals are disabled
	listened []time.Time
	heard    func(p kv.Partition) // nil: not listening
}

func (w *wire) Signal(ctx context.Context, p kv.Partition) error {
	if w.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	w.mu.Lock()
	w.sent = append(w.sent, time.Now())
	w.mu.Unlock()
	for _, o := range w.others {
		o.say(p)
	}
	return nil
}

func (w *wire) Signals(ctx context.Context, heard func(p kv.Partition)) error {
	w.mu.Lock()
	w.listened = append(w.listened, time.Now())
	fails, off := w.fails, w.off
	if fails == nil && !off {
		w.heard = heard
		heard("")
	}
	w.mu.Unlock()
	if fails == nil && !off {
		<-ctx.Done()
	}
	return fails
}

// say sends the runner a signal.
func (w *wire) say(p kv.Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard != nil {
		w.heard(p)
	}
}

// signals returns the number of sent signals, and when the last one was sent.
func (w *wire) signals() (n int, last time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n = len(w.sent); n > 0 {
		last = w.sent[n-1]
	}
	return n, last
}

// A runner asks for help only while it has no place for due tasks, and at most once a second.
func TestSignals_FullRunner(t *testing.T) {
	for _, c := range []struct {
		rule        string
		exclusive   bool
		tasks       int
		told        time.Duration // how often another instance signals; 0: never
		least, most int
	}{
		{"a backlog of 2.5 s", false, 625 * places, 0, 3, 3},
		{"a backlog that another instance signals", false, 10_000, 500 * time.Millisecond, 0, 1},
		{"what has places", false, 32, 0, 0, 0},
		{"an exclusive store", true, 10_000, 0, 0, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := &wire{}
			cfg := Config{Signaler: w, PollInterval: time.Hour, Exclusive: c.exclusive}
			bubble(t, cfg, func(t *testing.T, o *outbox, r *Runner) {
				time.Sleep(time.Minute)
				o.takes["quick"] = 4 * time.Millisecond
				o.add(c.tasks, "quick", time.Now())
				r.Wake("p", time.Now())
				if c.told > 0 {
					for range 8 {
						time.Sleep(c.told)
						w.say("p")
					}
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if n, _ := o.done("quick"); n != c.tasks {
					t.Errorf("%d of %d done", n, c.tasks)
				}
				if n, _ := w.signals(); n < c.least || n > c.most {
					t.Errorf("%d signals, want %d to %d", n, c.least, c.most)
				}
				if c.exclusive && len(w.listened) > 0 {
					t.Error("it listens")
				}
			})
		})
	}
}

// A signal causes a claim soon, for any PollInterval, and a flood of signals only a few.
func TestSignals_Followed(t *testing.T) {
	w := &wire{}
	bubble(t, Config{Signaler: w, PollInterval: time.Hour}, func(t *testing.T, o *outbox, r *Runner) {
		time.Sleep(time.Minute)
		claims := o.count(&o.claims)
		o.add(1, "a", time.Now())
		w.say("another")
		time.Sleep(time.Minute)
		if n := o.count(&o.claims); n != claims {
			t.Errorf("%d claims after a signal for another partition", n-claims)
		}
		begin := time.Now()
		w.say("p")
		time.Sleep(time.Second)
		if n, at := o.done("a"); n != 1 || at.Sub(begin) > signalSpread || at.Sub(begin) < signalSpread/2 {
			t.Errorf("%d done, %v after the signal, want within %v and not immediately", n, at.Sub(begin),
				signalSpread)
		}
		claims = o.count(&o.claims)
		for range 10_000 {
			w.say("p")
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Second)
		if n := o.count(&o.claims) - claims; n > 100 {
			t.Errorf("%d claims in a second of signals, want at most 100", n)
		}
		if n, _ := w.signals(); n != 0 {
			t.Errorf("%d signals from a runner without tasks", n)
		}
	})
}

// A runner that drains signals its returned tasks as soon as they can be claimed, while its own jobs still
// run.
func TestSignals_Drain(t *testing.T) {
	for _, c := range []struct {
		rule    string
		tasks   int           // due now, of 5 s each
		later   time.Duration // until another one falls due; 0: no such task
		spawns  bool          // a job schedules another one when it ends
		defers  time.Duration // time to return a lease
		hangs   bool
		signals int
		after   time.Duration // the last signal, after the drain began
		ends    time.Duration
	}{
		{rule: "leases that are returned", tasks: 40, signals: 1, ends: 4 * time.Second},
		{rule: "leases that are returned slowly", tasks: 40, defers: time.Second, signals: 1,
			after: time.Second, ends: 4 * time.Second},
		{rule: "a task that falls due soon", later: 30 * time.Minute, signals: 1},
		{rule: "a task that others find by polling", later: 3 * time.Hour},
		{rule: "nothing"},
		{rule: "jobs that have places", tasks: 16, ends: 4 * time.Second},
		{rule: "a job that schedules another one", tasks: 1, spawns: true, signals: 1,
			after: 4 * time.Second, ends: 4 * time.Second},
		{rule: "a store that does not answer", tasks: 40, hangs: true, ends: 4 * time.Second},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, w := newOutbox(), &wire{hangs: c.hangs}
				o.takes["a"] = 5 * time.Second
				o.add(c.tasks, "a", time.Now())
				if c.later > 0 {
					o.add(1, "b", time.Now().Add(c.later))
				}
				e := spawning{outbox: o, defers: c.defers}
				r := New(Config{Engine: &e, Signaler: w, PollInterval: time.Hour})
				if c.spawns {
					e.wake = r.Wake
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				begin := time.Now().Add(time.Second)
				if err := r.Run(ctx); err != nil || time.Since(begin) != c.ends {
					t.Errorf("the drain ended with %v after %v, want %v", err, time.Since(begin), c.ends)
				}
				n, last := w.signals()
				if n != c.signals || n > 0 && last.Sub(begin) != c.after {
					t.Errorf("%d signals, the last %v after the drain began; want %d, and %v", n,
						last.Sub(begin), c.signals, c.after)
				}
			})
		})
	}
}

// spawning is an outbox whose jobs may wake the runner when they end.
type spawning struct {
	*outbox
	wake   func(p kv.Partition, due time.Time) // nil: no wakes
	defers time.Duration
}

func (s *spawning) Defer(ctx context.Context, j host.Job, until time.Time) error {
	time.Sleep(s.defers)
	return s.outbox.Defer(ctx, j, until)
}

func (s *spawning) Run(ctx context.Context, j host.Job) error {
	err := s.outbox.Run(ctx, j)
	if s.wake != nil {
		s.wake(j.Partition, time.Now())
	}
	return err
}

// An instance without a runner signals each task, at most once a second.
func TestSignals_WithoutRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		r := New(Config{Engine: newOutbox(), Signaler: w, PollInterval: time.Minute})
		wake := func(due time.Duration) { r.Wake("p", time.Now().Add(due)); synctest.Wait() }
		want := func(n int, what string) {
			t.Helper()
			if got, _ := w.signals(); got != n {
				t.Errorf("%d signals, want %d: %s", got, n, what)
			}
		}
		wake(time.Hour)
		want(0, "others find it by polling")
		wake(0)
		want(1, "it is due now")
		for range 100 {
			wake(time.Second)
		}
		want(1, "others were just notified")
		time.Sleep(time.Second)
		synctest.Wait()
		want(2, "others may have claimed before the last task existed")
		time.Sleep(time.Minute)
		want(2, "nothing new")

		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan error)
		go func() { out <- r.Run(ctx) }()
		synctest.Wait()
		wake(0)
		time.Sleep(time.Minute)
		want(2, "this runner runs it")
		cancel()
		wait.For(out)
		before, _ := w.signals()
		wake(0)
		time.Sleep(signalEach)
		synctest.Wait()
		want(before+1, "this runner has ended")
	})
}

// Listening is retried indefinitely, with growing pauses. The log has one line when it fails and one when
// it works.
func TestSignals_ListeningFails(t *testing.T) {
	var text bytes.Buffer
	w := &wire{fails: errors.New("no way through")}
	cfg := Config{Signaler: w, PollInterval: 24 * time.Hour, Log: slog.New(slog.NewTextHandler(&text, nil))}
	bubble(t, cfg, func(t *testing.T, o *outbox, r *Runner) {
		time.Sleep(time.Hour)
		w.mu.Lock()
		n := len(w.listened)
		w.fails = nil
		w.mu.Unlock()
		if n < 60 || n > 100 {
			t.Errorf("%d attempts in an hour, want about one in %v", n, listenMost)
		}
		o.add(1, "a", time.Now()) // its signal was lost
		time.Sleep(listenMost + signalSpread)
		if n, _ := o.done("a"); n != 1 {
			t.Error("a task whose signal was missed has not run")
		}
	})
	for what, want := range map[string]int{
		"level=": 3, "level=INFO": 3, "no way through": 1, "received again": 1,
	} {
		if n := strings.Count(text.String(), what); n != want {
			t.Errorf("%q %d times, want a line for the failure, its end and the drain:\n%s", what, n, &text)
		}
	}

	text.Reset()
	off := &wire{off: true}
	cfg.Signaler = off
	bubble(t, cfg, func(t *testing.T, o *outbox, r *Runner) { time.Sleep(time.Hour) })
	if len(off.listened) != 1 || strings.Count(text.String(), "signals off") != 1 {
		t.Errorf("signals that are off: %d attempts, and the log has:\n%s", len(off.listened), &text)
	}
}

// counted is an outbox that counts the jobs of one runner.
type counted struct {
	*outbox
	runner *Runner
	ran    atomic.Int64
}

// Defer wakes the runner, as the core does.
func (c *counted) Defer(ctx context.Context, j host.Job, until time.Time) error {
	defer c.runner.Wake(j.Partition, until)
	return c.outbox.Defer(ctx, j, until)
}

func (c *counted) Run(ctx context.Context, j host.Job) error {
	c.ran.Add(1)
	return c.outbox.Run(ctx, j)
}

// Two runners share an outbox, and polling is an hour away. They share a backlog that is too large for one
// of them, and the tasks of a draining runner are immediately taken over by the other.
func TestSignals_TwoRunners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		o.takes["quick"], o.takes["slow"] = 4*time.Millisecond, 5*time.Second
		wires := [2]*wire{{}, {}}
		wires[0].others, wires[1].others = wires[1:], wires[:1]
		var runs [2]*counted
		var ends [2]context.CancelFunc
		var running sync.WaitGroup
		for i := range runs {
			runs[i] = &counted{outbox: o}
			runs[i].runner = New(Config{Engine: runs[i], Signaler: wires[i], PollInterval: time.Hour})
			var ctx context.Context
			ctx, ends[i] = context.WithCancel(t.Context())
			running.Go(func() {
				if err := runs[i].runner.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute)
		begin := time.Now()
		o.add(10_000, "quick", begin)
		runs[0].runner.Wake("p", begin)
		time.Sleep(time.Minute)
		n, last := o.done("quick")
		if alone := 10_000 * 4 * time.Millisecond / places; n != 10_000 || last.Sub(begin) > alone*6/10 {
			t.Errorf("%d done after %v; one runner alone takes %v", n, last.Sub(begin), alone)
		}
		if share := runs[1].ran.Load(); share < 4000 {
			t.Errorf("the other runner did %d of 10000", share)
		}

		o.add(64, "slow", time.Now())
		runs[0].runner.Wake("p", time.Now())
		time.Sleep(time.Second)
		before := runs[1].ran.Load()
		ends[0]()
		time.Sleep(signalSpread)
		synctest.Wait()
		if n := runs[1].ran.Load() - before; n != places {
			t.Errorf("%d jobs of the runner that drains have begun elsewhere, want %d", n, places)
		}
		time.Sleep(10 * time.Minute)
		if n, _ := o.done("slow"); n != 64 {
			t.Errorf("%d of 64 done", n)
		}
		ends[1]()
		running.Wait()
	})
}
