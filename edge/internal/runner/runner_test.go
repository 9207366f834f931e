package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/testharness/wait"
)

// outbox is a store of tasks in memory. How long a job takes depends on its destination.
type outbox struct {
	engine.Engine // nil: the runner needs only the methods below

	mu     sync.Mutex
	tasks  map[string]*task
	takes  map[string]time.Duration // by destination
	down   bool                     // Claim fails
	dead   bool                     // there is a second partition, whose claims hang and then fail
	fail   map[string]bool          // destinations whose outcome the store rejects
	panics map[string]bool
	lease  time.Duration // 0: unlimited
	off    time.Duration // added to the clock by which tasks fall due

	added   int
	claims  int
	defers  int
	ended   map[string]time.Time // by task
	began   map[string][]time.Time
	running map[string]int
	most    map[string]int
}

type task struct {
	destination string
	due         time.Time
	leased      bool
	until       time.Time // end of the lease; zero: never
}

func (t *task) free(now time.Time) bool { return !t.leased || !t.until.IsZero() && !t.until.After(now) }

func newOutbox() *outbox {
	return &outbox{
		tasks:   map[string]*task{},
		takes:   map[string]time.Duration{},
		fail:    map[string]bool{},
		panics:  map[string]bool{},
		ended:   map[string]time.Time{},
		began:   map[string][]time.Time{},
		running: map[string]int{},
		most:    map[string]int{},
	}
}

func (o *outbox) add(n int, destination string, due time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range n {
		o.added++
		o.tasks[fmt.Sprintf("%s-%06d", destination, o.added)] = &task{destination: destination, due: due}
	}
}

func (o *outbox) Partitions() []kv.Partition {
	if o.dead {
		return []kv.Partition{"dead", "p"}
	}
	return []kv.Partition{"p"}
}

func (o *outbox) Claim(
	ctx context.Context, p kv.Partition, n int,
) (jobs []host.Job, next time.Time, err error) {
	if p != "p" {
		<-ctx.Done()
		return nil, time.Time{}, kv.ErrUnavailable
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims++
	if o.down {
		return nil, time.Time{}, kv.ErrUnavailable
	}
	var ids []string
	for id, t := range o.tasks {
		if now := time.Now().Add(o.off); t.free(now) && !t.due.After(now) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		if c := o.tasks[a].due.Compare(o.tasks[b].due); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, id := range ids[:min(n, len(ids))] {
		t := o.tasks[id]
		t.leased = true
		if o.lease > 0 {
			t.until = time.Now().Add(o.lease)
		}
		jobs = append(
			jobs,
			host.Job{Partition: p, Task: kv.Task{ID: id, Due: t.due}, Destination: t.destination,
				Until: t.until},
		)
	}
	for _, t := range o.tasks {
		if !t.leased {
			next = earliest(next, t.due)
		}
	}
	return jobs, next, nil
}

func (o *outbox) Run(ctx context.Context, j host.Job) error {
	o.mu.Lock()
	o.began[j.Task.ID] = append(o.began[j.Task.ID], time.Now())
	o.running[j.Destination]++
	o.most[j.Destination] = max(o.most[j.Destination], o.running[j.Destination])
	takes, fail, panics := o.takes[j.Destination], o.fail[j.Destination], o.panics[j.Destination]
	o.mu.Unlock()
	var err error
	if takes > 0 { // two timers that are due at the same time crash the race detector in a bubble
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[j.Destination]--
	if panics {
		panic("svc_rt_secret")
	}
	if err != nil || fail {
		return errors.Join(err, kv.ErrUnavailable)
	}
	delete(o.tasks, j.Task.ID)
	o.ended[j.Task.ID] = time.Now()
	return nil
}

func (o *outbox) Defer(_ context.Context, j host.Job, until time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.defers++
	if t := o.tasks[j.Task.ID]; t != nil {
		t.leased, t.due = false, until
	}
	return nil
}

// done counts the destination's finished tasks. worst is the time of the latest one.
func (o *outbox) done(destination string) (n int, worst time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, at := range o.ended {
		if id[:len(destination)+1] == destination+"-" {
			n++
			if at.After(worst) {
				worst = at
			}
		}
	}
	return n, worst
}

func (o *outbox) count(field *int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return *field
}

// bubble runs f concurrently with a runner in fake time and then drains the runner.
func bubble(t *testing.T, c Config, f func(t *testing.T, o *outbox, r *Runner)) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		c.Engine = o
		c.Rand = func() float64 { return 0.5 }
		r := New(c)
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan error)
		go func() { out <- r.Run(ctx) }()
		defer func() { cancel(); wait.For(out) }()
		synctest.Wait()
		f(t, o, r)
	})
}

// Contract 27: a receiver that hangs never delays another's events.
func TestRunner_HangingDestination(t *testing.T) {
	for _, hanging := range []int{1, 20} {
		t.Run(fmt.Sprintf("%d hanging destinations", hanging), func(t *testing.T) {
			bubble(t, Config{Exclusive: true}, func(t *testing.T, o *outbox, r *Runner) {
				o.takes["good"] = 5 * time.Millisecond
				for i := range hanging {
					destination := fmt.Sprintf("dead%02d", i)
					o.takes[destination] = 10 * time.Second
					o.add(200, destination, time.Now())
				}
				r.Wake("p", time.Now())
				time.Sleep(2 * time.Second) // the runner then knows the dead destinations

				sent := 0
				for end := time.Now().Add(15 * time.Second); time.Now().Before(end); sent++ {
					due := time.Now()
					o.add(1, "good", due)
					r.Wake("p", due)
					time.Sleep(50 * time.Millisecond)
					if n, at := o.done("good"); n != sent+1 || at.Sub(due) > 10*time.Millisecond {
						t.Fatalf("contract 27: event %d: %d done, the last %v after it was due", sent, n,
							at.Sub(due))
					}
				}
				synctest.Wait()
				for destination, most := range o.most {
					if most > places {
						t.Errorf("%d jobs of destination %s ran at the same time", most, destination)
					}
				}
			})
		})
	}
}

// A destination that hangs from the start may delay the others only once.
func TestRunner_NewHangingDestination(t *testing.T) {
	bubble(t, Config{Exclusive: true}, func(t *testing.T, o *outbox, r *Runner) {
		o.takes["dead"] = 10 * time.Second
		o.add(1000, "dead", time.Now())
		o.add(10, "good", time.Now().Add(time.Millisecond))
		r.Wake("p", time.Now())
		time.Sleep(2 * quickNew)
		if n, _ := o.done("good"); n != 10 {
			t.Errorf("contract 27: %d of 10 events done", n)
		}
	})
}

// A dead receiver with a large backlog must use few leases, and fewer over time.
func TestRunner_BacklogOfHangingDestination(t *testing.T) {
	bubble(t, Config{Exclusive: true}, func(t *testing.T, o *outbox, r *Runner) {
		o.takes["dead"] = 10 * time.Second
		o.fail["dead"] = true // the job keeps its lease, and only postponed jobs come back
		o.add(1000, "dead", time.Now())
		r.Wake("p", time.Now())
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		// Rounds of about 5, 10, 20, … 300 s: 8 in ten minutes at most.
		if n := o.count(&o.defers); n < 1000 || n > 8*1000 {
			t.Errorf("%d leases returned in ten minutes", n)
		}
		before := o.count(&o.claims)
		time.Sleep(time.Minute)
		if n := o.count(&o.claims) - before; n > 600 {
			t.Errorf("%d claims in a minute", n)
		}
	})
}

// When the receiver has recovered, its backlog must be delivered at full speed.
func TestRunner_DestinationRecovers(t *testing.T) {
	bubble(t, Config{Exclusive: true}, func(t *testing.T, o *outbox, r *Runner) {
		o.takes["dead"] = 10 * time.Second
		o.add(1000, "dead", time.Now())
		r.Wake("p", time.Now())
		time.Sleep(time.Minute)
		o.mu.Lock()
		o.takes["dead"] = 5 * time.Millisecond
		o.mu.Unlock()
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if n, _ := o.done("dead"); n != 1000 {
			t.Errorf("%d of 1000 done, %d leases returned", n, o.defers)
		}
	})
}

// places is the default number of concurrent jobs of a destination.
const places = 24

// A burst of a quick destination must be run and not postponed.
func TestRunner_QuickDestination(t *testing.T) {
	bubble(t, Config{Exclusive: true}, func(t *testing.T, o *outbox, r *Runner) {
		o.takes["quick"] = 4 * time.Millisecond
		begin := time.Now()
		o.add(10_000, "quick", begin)
		r.Wake("p", begin)
		time.Sleep(time.Minute)
		synctest.Wait()
		n, last := o.done("quick")
		if want := 10_000 * 4 * time.Millisecond / places; n != 10_000 || last.Sub(begin) > want+want/10 {
			t.Errorf("%d done in %v, want 10000 in about %v", n, last.Sub(begin), want)
		}
		if o.defers != 0 || o.most["quick"] != places {
			t.Errorf("%d leases returned, %d ran at the same time", o.defers, o.most["quick"])
		}
	})
}

func TestRunner_Timers(t *testing.T) {
	conf := Config{Exclusive: true, Concurrency: 8, PerDestination: 8}
	bubble(t, conf, func(t *testing.T, o *outbox, r *Runner) {
		for i := range 8 {
			destination := fmt.Sprintf("dead%d", i)
			o.takes[destination] = 10 * time.Second
			o.add(2, destination, time.Now())
		}
		r.Wake("p", time.Now())
		time.Sleep(time.Second)
		due := time.Now()
		o.add(100, "", due)
		r.Wake("p", due)
		time.Sleep(100 * time.Millisecond)
		if n, last := o.done(""); n != 100 || last.Sub(due) > 10*time.Millisecond {
			t.Errorf("%d of 100 timers done, the last after %v", n, last.Sub(due))
		}
	})
}

func TestRunner_Wake(t *testing.T) {
	for _, c := range []struct {
		rule string
		cfg  Config
		in   time.Duration // time until the task is due
		wake bool
		want time.Duration // between its due time and its run
	}{
		{"due now and woken: immediately", Config{Exclusive: true}, 0, true, 2 * time.Millisecond},
		{"due later and woken: when due", Config{Exclusive: true}, time.Hour, true, 0},
		{"a lost wake delays by a poll interval", Config{}, 0, false, time.Second},
		{"a lost wake for later causes no delay", Config{}, time.Hour, false, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			bubble(t, c.cfg, func(t *testing.T, o *outbox, r *Runner) {
				time.Sleep(300 * time.Millisecond)
				due := time.Now().Add(c.in)
				o.add(1, "a", due)
				if c.wake {
					r.Wake("p", due)
				}
				time.Sleep(c.in + 2*time.Second)
				if n, at := o.done("a"); n != 1 || at.Sub(due) > c.want || at.Before(due) {
					t.Errorf("%d done, %v after due, want within %v", n, at.Sub(due), c.want)
				}
			})
		})
	}
}

// A clock may be set, and a machine may sleep. A task that is due by the new time must run soon, and none
// may wait until the old time comes again.
func TestRunner_ClockJumps(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		for _, c := range []struct {
			rule string
			jump time.Duration
			due  time.Duration // of a task, by the clock before the change
		}{
			{"set ahead, past the due time", time.Hour, 30 * time.Minute},
			{"set back, with a task that falls due soon", -time.Hour, -time.Hour + time.Second},
		} {
			t.Run(fmt.Sprintf("%s, exclusive: %v", c.rule, exclusive), func(t *testing.T) {
				var off atomic.Int64
				// Without the monotonic reading, which a clock that is set does not have.
				now := func() time.Time { return time.Now().Round(0).Add(time.Duration(off.Load())) }
				bubble(t, Config{Exclusive: exclusive, Now: now}, func(t *testing.T, o *outbox, r *Runner) {
					o.add(1, "later", now().Add(24*time.Hour)) // for which the runner sleeps
					r.Wake("p", now())
					time.Sleep(time.Minute)
					due := now().Add(c.due)
					if c.jump > 0 {
						o.add(1, "a", due)
						r.Wake("p", due)
						time.Sleep(time.Minute)
					}
					o.mu.Lock()
					o.off = c.jump
					o.mu.Unlock()
					off.Store(int64(c.jump))
					if c.jump < 0 {
						o.add(1, "a", due)
						r.Wake("p", due)
					}
					time.Sleep(7 * time.Second)
					if n, _ := o.done("a"); n != 1 {
						t.Error("the task has not run 7 s later")
					}
				})
			})
		}
	}
}

// An idle runner may make one claim in a PollInterval, and none if it is exclusive.
func TestRunner_Idle(t *testing.T) {
	for exclusive, most := range map[bool]int{true: 1, false: 61} {
		bubble(t, Config{Exclusive: exclusive}, func(t *testing.T, o *outbox, r *Runner) {
			o.add(1, "a", time.Now().Add(time.Hour))
			time.Sleep(time.Minute)
			if n := o.count(&o.claims); n > most {
				t.Errorf("exclusive %v: %d claims in an idle minute, want at most %d", exclusive, n, most)
			}
		})
	}
}

// A job whose result the store rejected is released with its lease. No wake reports that, and the claim of
// the job did not return the time.
func TestRunner_OutcomeNotRecorded(t *testing.T) {
	bubble(t, Config{Exclusive: true}, func(t *testing.T, o *outbox, r *Runner) {
		o.lease, o.fail["a"] = time.Minute, true
		o.add(1, "a", time.Now())
		o.add(1, "later", time.Now().Add(10*time.Minute))
		r.Wake("p", time.Now())
		time.Sleep(59 * time.Second)
		o.mu.Lock()
		o.fail["a"] = false
		o.mu.Unlock()
		time.Sleep(2 * time.Second)
		if n, _ := o.done("a"); n != 1 {
			t.Errorf("%d done a second after the lease ran out, want 1", n)
		}
	})
}

// A partition whose claims hang must not delay the others.
func TestRunner_FailingPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		o.dead = true
		r := New(Config{Engine: o, Exclusive: true})
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan error)
		go func() { out <- r.Run(ctx) }()
		time.Sleep(time.Second)
		due := time.Now()
		o.add(1000, "a", due)
		r.Wake("p", due)
		time.Sleep(time.Second)
		if n, last := o.done("a"); n != 1000 || last.Sub(due) > 50*time.Millisecond {
			t.Errorf("%d of 1000 done, the last after %v", n, last.Sub(due))
		}
		cancel()
		wait.For(out)
	})
}

// I10: full recovery within 30 s of the store's return, without a restart.
func TestRunner_StoreFailsAndReturns(t *testing.T) {
	bubble(t, Config{Exclusive: true}, func(t *testing.T, o *outbox, r *Runner) {
		o.mu.Lock()
		o.down = true
		o.mu.Unlock()
		o.add(100, "a", time.Now())
		r.Wake("p", time.Now())
		go func() { // wakes during the outage must not shorten the pauses
			for range 600 {
				r.Wake("p", time.Now())
				time.Sleep(100 * time.Millisecond)
			}
		}()
		time.Sleep(time.Minute)
		if n := o.count(&o.claims); n < 12 || n > 40 {
			t.Errorf("%d claims in a minute of outage", n)
		}
		o.mu.Lock()
		o.down = false
		o.mu.Unlock()
		back := time.Now()
		time.Sleep(30 * time.Second)
		if n, last := o.done("a"); n != 100 || last.Sub(back) > backoffMax+time.Second {
			t.Errorf("I10: %d of 100 done, the last %v after the store's return", n, last.Sub(back))
		}
	})
}

func TestRunner_Panic(t *testing.T) {
	bubble(t, Config{Exclusive: true}, func(t *testing.T, o *outbox, r *Runner) {
		o.panics["bad"] = true
		o.add(50, "bad", time.Now())
		o.add(50, "good", time.Now())
		r.Wake("p", time.Now())
		time.Sleep(time.Second)
		synctest.Wait()
		if n, _ := o.done("good"); n != 50 || r.destinations.running() != 0 {
			t.Errorf("%d of 50 done, %d still count as running", n, r.destinations.running())
		}
	})
}

func TestRunner_Drain(t *testing.T) {
	for _, c := range []struct {
		rule      string
		takes     time.Duration
		done      int
		wantErr   bool
		wantAfter time.Duration
	}{
		{
			"running jobs finish, and the leases of the others are returned",
			10 * time.Second,
			places,
			false,
			9 * time.Second,
		},
		{"a job that outlasts DrainTimeout is cut and reported", time.Minute, 0, true, 15 * time.Second},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutbox()
				o.takes["a"] = c.takes
				o.add(40, "a", time.Now())
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				begin := time.Now().Add(time.Second)
				err := New(Config{Engine: o}).Run(ctx)
				if took := time.Since(begin); (err != nil) != c.wantErr || took != c.wantAfter {
					t.Errorf("got %v after %v, want an error: %v, after %v", err, took, c.wantErr,
						c.wantAfter)
				}
				synctest.Wait()
				leased := 0
				for _, tk := range o.tasks {
					if tk.leased {
						leased++
					}
				}
				if n, _ := o.done("a"); n != c.done || len(o.began) != places || leased != places-c.done {
					t.Errorf("%d done, %d begun, %d still leased", n, len(o.began), leased)
				}
			})
		})
	}
}

// Jobs that fall due at the same time must run once each, for any batch size.
func TestRunner_EachJobRunsOnce(t *testing.T) {
	bubble(t, Config{Concurrency: 20, PerDestination: 3}, func(t *testing.T, o *outbox, r *Runner) {
		for i := range 30 {
			destination := fmt.Sprintf("destination%d", i)
			o.takes[destination] = time.Duration(i) * 10 * time.Millisecond
			o.add(40, destination, time.Now())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(o.ended) != 1200 {
			t.Errorf("%d of 1200 done", len(o.ended))
		}
		for id, at := range o.began {
			if len(at) != 1 {
				t.Errorf("%s ran %d times", id, len(at))
			}
		}
	})
}
