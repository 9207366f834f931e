// Package runner claims tasks when they fall due and runs them concurrently, so that a failing task does not
// delay the others.
//
// Pass an engine to [New] and [Runner.Wake] to the core as host.Observer. Then call [Runner.Run] with a
// context that ends on SIGTERM.
//
// # Guarantees
//
//   - A destination (host.Job.Destination) that hangs, fails or has a large backlog costs the others at most
//     PerDestination running jobs and a small queue. Jobs that a slow destination cannot take are postponed,
//     for longer and longer.
//   - Jobs without a destination, the timers, never wait for deliveries.
//   - A task that falls due now is claimed when Wake reports it. Apart from one claim of each partition in
//     a PollInterval and after a signal, no task is claimed before it is due.
//   - A partition that fails is claimed again, with growing pauses, until it works. It does not delay
//     the other partitions.
//   - With a [Signaler], a runner that is full or drains notifies the other instances of the tasks that it
//     leaves. If a signal is lost, they find the tasks in a PollInterval.
//   - During a drain no job begins, a running job has until DrainTimeout to end, and the leases of waiting
//     jobs are returned immediately.
//
// Not guaranteed: an order, and exactly one run per task. If a process is killed, its leases expire, and
// another process runs the jobs again.
package runner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/engine"
)

// Metrics receives events of the runner. Its methods are called concurrently.
type Metrics interface {
	JobStarted(lag time.Duration) // since the task fell due
	JobDone(took time.Duration, err error)
	JobDeferred()
	ClaimFailed()
	SignalSent()
	SignalHeard()
}

// Config configures a Runner. Engine is required. The zero value of any other field works.
type Config struct {
	Engine engine.Engine // whose tasks are claimed and run

	Concurrency    int // maximum number of running deliveries, and of running timers; 0: 256
	PerDestination int // maximum number of running jobs of one destination; 0: 24

	// MaxWait is the maximum time that a claimed job waits for its turn. After that its lease is returned. A
	// lease must be longer than MaxWait and a run together. Otherwise another instance takes over a job that
	// is running here. 0: 5 s.
	MaxWait time.Duration

	// PollInterval is the maximum time between two claims of one partition. Other instances run the tasks
	// that they schedule, but a killed instance wakes no other, and a signal can be lost. Then a task waits
	// for up to PollInterval. 0: 1 s.
	PollInterval time.Duration

	// Signaler, if not nil, notifies the other instances.
	Signaler Signaler

	// Exclusive is set if no other process schedules into the store. The runner then sleeps until the next
	// task falls due, and sends no signals.
	Exclusive bool

	// Gap is the minimum time between two claims of a partition while no task is overdue. A busy service
	// schedules many tasks during one claim, and one claim for several tasks is cheaper. 0: 2 ms.
	Gap time.Duration

	DrainTimeout time.Duration // for jobs that still run when Run's context ends; 0: 15 s

	Now     func() time.Time // nil: time.Now
	Rand    func() float64   // in [0,1), spreads postponed jobs; nil: math/rand
	Log     *slog.Logger     // nil discards
	Metrics Metrics          // nil discards
}

// DefaultPerDestination is the default of Config.PerDestination.
const DefaultPerDestination = 24

// maxPartitions limits the load of an idle runner, which claims tasks of each partition even if none are
// due.
const maxPartitions = 256

// CheckPartitions returns an error if n is not a number of partitions that a runner supports.
func CheckPartitions(n int) error {
	if n < 1 || n > maxPartitions {
		return fmt.Errorf("%d is not from 1 to %d", n, maxPartitions)
	}
	return nil
}

const (
	batchMax     = 256
	batchMin     = 32
	claimTimeout = 10 * time.Second
	backoffMin   = 100 * time.Millisecond
	backoffMax   = 5 * time.Second
	maxReturning = 64 // maximum number of leases that are returned concurrently
	emptyGap     = 10 * time.Millisecond

	// clockLook is the maximum sleep before the clock is read again. A timer does not notice that the clock
	// was set ahead or that the machine slept.
	clockLook = 5 * time.Second
)

// Runner runs jobs. Create it with New.
type Runner struct {
	cfg       Config
	watches   []*watch
	returning chan struct{} // limits the number of leases that are returned concurrently
	claims    atomic.Bool   // whether the watches run

	mu           sync.Mutex
	destinations destinations
	jobCtx       context.Context
	wg           sync.WaitGroup // goroutines of jobs and of returned leases
	leases       sync.WaitGroup // goroutines of returned leases
}

// watch claims the tasks of one partition as they fall due.
type watch struct {
	*Runner
	partition kv.Partition
	most      int           // tasks of one claim
	nudge     chan struct{} // "look again": a wake, a free place; holds one

	mu     sync.Mutex
	wakeAt time.Time // earliest Wake since the last claim; zero: none
	next   time.Time // when the earliest task falls due that the last claim has left; zero: none

	asked  time.Time   // when this instance or another one last signalled for the partition
	asking *time.Timer // a signal that waits for its turn; nil: none

	sending sync.Mutex // held while a signal is sent
}

// New returns a runner, which does not run yet. It panics if Config.Engine is nil.
func New(c Config) *Runner {
	if c.Engine == nil {
		panic("runner: Config.Engine is nil")
	}
	c.Concurrency = cmp.Or(c.Concurrency, 256)
	c.PerDestination = cmp.Or(c.PerDestination, DefaultPerDestination)
	c.MaxWait = cmp.Or(c.MaxWait, 5*time.Second)
	c.PollInterval = cmp.Or(c.PollInterval, time.Second)
	c.Gap = cmp.Or(c.Gap, 2*time.Millisecond)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 15*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	if c.Exclusive {
		c.Signaler = nil
	}
	r := &Runner{
		cfg:          c,
		returning:    make(chan struct{}, maxReturning),
		destinations: newDestinations(c.Concurrency, c.PerDestination, c.MaxWait, c.Rand),
	}
	partitions := c.Engine.Partitions()
	for _, p := range partitions {
		// Each partition gets a share, because all may claim at the same time.
		most := max(batchMax/len(partitions), batchMin)
		r.watches = append(r.watches, &watch{Runner: r, partition: p, most: most,
			nudge: make(chan struct{}, 1)})
	}
	return r
}

// Wake fits host.Observer: a task of p falls due at due. It never blocks. Before and after Run, it
// notifies the other instances.
func (r *Runner) Wake(p kv.Partition, due time.Time) {
	for _, w := range r.watches {
		if w.partition != p {
			continue
		}
		w.wake(due)
		// This order matters: when the watches have ended, drain considers all earlier wakes.
		if now := r.cfg.Now(); !r.claims.Load() && r.soon(now, due) {
			w.leave(now)
		}
	}
}

func (w *watch) wake(due time.Time) {
	w.mu.Lock()
	sooner := w.wakeAt.IsZero() || due.Before(w.wakeAt)
	if sooner {
		w.wakeAt = due
	}
	w.mu.Unlock()
	if sooner {
		w.look()
	}
}

func (w *watch) look() {
	select {
	case w.nudge <- struct{}{}:
	default:
	}
}

// lookAll makes all watches claim again, after places have become free.
func (r *Runner) lookAll() {
	for _, w := range r.watches {
		w.look()
	}
}

// Run claims and runs jobs until ctx is done, and then drains. It returns an error if jobs still run after
// DrainTimeout. It can be called once.
func (r *Runner) Run(ctx context.Context) error {
	// Jobs outlive ctx: if a delivery is cut in the middle, the receiver may get it twice. Claims
	// outlive ctx too: otherwise their leases would be lost until they run out.
	jobCtx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	r.jobCtx = jobCtx

	var watching, listening sync.WaitGroup
	if r.cfg.Signaler != nil {
		listening.Go(func() { r.listen(ctx) })
	}
	defer listening.Wait()
	r.claims.Store(true)
	for _, w := range r.watches {
		watching.Go(func() { w.run(ctx) })
	}
	watching.Wait()
	r.claims.Store(false)
	return r.drain(cut)
}

// run claims jobs and starts them until ctx is done.
func (w *watch) run(ctx context.Context) {
	var (
		r       = w.Runner
		backoff time.Duration
		due     = r.cfg.Now() // when to claim next; zero: when woken
		floor   time.Time     // no claim before this time, even after a wake
		last    time.Time     // the time of the last look
	)
	for ctx.Err() == nil {
		now := r.cfg.Now()
		if now.Round(0).Before(last) {
			// the clock was set back; otherwise the watch would wait for the old time to come again
			due, floor = now, now
		}
		last = now.Round(0)
		n, again := r.postponeLate(now)
		n = min(n, w.most)
		at := w.woken(due)
		if !at.IsZero() && at.Before(floor) {
			at = floor
		}
		if n == 0 {
			// The runner is full. A job that ends nudges this watch. Jobs that wait too long are
			// postponed.
			if !at.IsZero() && !at.After(now) {
				w.ask(now)
			}
			w.wait(ctx, now, again)
			continue
		}
		if at.IsZero() || at.After(now) {
			w.wait(ctx, now, earliest(at, again))
			continue
		}
		jobs, next, err := w.claim(n)
		now = r.cfg.Now()
		if err != nil {
			r.cfg.Metrics.ClaimFailed()
			backoff = min(max(2*backoff, backoffMin), backoffMax)
			r.warn(err, "cannot claim tasks, will try again", "partition", w.partition,
				"error", err.Error(), "within", backoff.String())
			due = now
			floor = now.Add(backoff/2 + time.Duration(r.cfg.Rand()*float64(backoff/2)))
			continue
		}
		w.leaves(next)
		backoff, due, floor = 0, now, now
		if len(jobs) < n {
			due, floor = r.nextClaim(now, jobs, next), now.Add(r.cfg.Gap)
		}
		r.admit(now, jobs)
	}
}

// nextClaim returns when to claim again after a claim that left nothing due.
func (r *Runner) nextClaim(now time.Time, jobs []host.Job, next time.Time) time.Time {
	for _, j := range jobs {
		// A job that has not finished by then comes free, and no wake reports that.
		next = earliest(next, j.Until)
	}
	if len(jobs) == 0 && !next.IsZero() && next.Before(now.Add(emptyGap)) {
		// A store without tasks must not be asked in a loop, even if it returns such a next.
		next = now.Add(emptyGap)
	}
	if !r.cfg.Exclusive {
		next = earliest(next, now.Add(r.cfg.PollInterval))
	}
	return next
}

// earliest returns the earlier of two times. Zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// woken returns the time of the next claim. It considers the wakes since the last claim.
func (w *watch) woken(due time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return earliest(due, w.wakeAt)
}

// leaves records when the earliest task falls due that a claim has left.
func (w *watch) leaves(next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = next
}

// Backlog returns the number of claimed tasks that wait, and for how long the oldest task that has not begun
// has been due. It knows only the oldest unclaimed task of each partition, as of the last claim.
func (r *Runner) Backlog() (waiting int, oldest time.Duration) {
	now := r.cfg.Now()
	r.mu.Lock()
	waiting, due := r.destinations.waits()
	r.mu.Unlock()
	if r.claims.Load() { // otherwise they are for the other instances
		for _, w := range r.watches {
			w.mu.Lock()
			due = earliest(due, w.next)
			w.mu.Unlock()
		}
	}
	if due.IsZero() {
		return waiting, 0
	}
	return waiting, max(0, now.Sub(due))
}

func (w *watch) claim(n int) ([]host.Job, time.Time, error) {
	w.mu.Lock()
	// This happens before the claim: a wake that arrives during the claim may be for a task that the
	// claim does not see.
	w.wakeAt = time.Time{}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.jobCtx, claimTimeout)
	defer cancel()
	return w.cfg.Engine.Claim(ctx, w.partition, n)
}

// postponeLate postpones jobs that have waited too long. It returns how many jobs to claim, and when to call
// it again at the latest.
func (r *Runner) postponeLate(now time.Time) (n int, again time.Time) {
	r.mu.Lock()
	late := r.destinations.late(now)
	n, again = r.destinations.room(now), r.destinations.nextLate(now)
	r.mu.Unlock()
	r.postpone(late)
	return n, again
}

func (r *Runner) admit(now time.Time, jobs []host.Job) {
	r.mu.Lock()
	var over []postponedJob
	for _, j := range jobs {
		if d, ok := r.destinations.add(now, j); !ok {
			over = append(over, d)
		}
	}
	start := r.destinations.start()
	r.mu.Unlock()
	r.postpone(over)
	r.begin(now, start)
}

func (r *Runner) begin(now time.Time, jobs []host.Job) {
	for _, j := range jobs {
		r.cfg.Metrics.JobStarted(now.Sub(j.Task.Due))
		r.wg.Go(func() { r.work(now, j) })
	}
}

// work runs a job, and then jobs that can begin because it has ended. Reusing the goroutine avoids growing a
// new stack for each job.
func (r *Runner) work(began time.Time, j host.Job) {
	for {
		next := r.run(began, j)
		if len(next) == 0 {
			return
		}
		began, j = r.cfg.Now(), next[0]
		r.begin(began, next[1:])
		r.cfg.Metrics.JobStarted(began.Sub(j.Task.Due))
	}
}

// run runs one job and returns the jobs that can begin because it has ended.
func (r *Runner) run(began time.Time, j host.Job) (next []host.Job) {
	err := r.guard(j)
	now := r.cfg.Now()
	took := now.Sub(began)
	r.cfg.Metrics.JobDone(took, err)
	if err != nil {
		r.warn(err, "job outcome not recorded; the job will run again", "task", j.Task.ID, "error",
			err.Error())
	}
	r.mu.Lock()
	r.destinations.done(now, j.Destination, took)
	next = r.destinations.start()
	tight := r.destinations.tight
	r.mu.Unlock()
	if tight {
		r.lookAll()
	}
	return next
}

// warn logs a failed operation. Package storehealth reports a failure of the store once, so warn does not
// log it for each partition and job.
func (r *Runner) warn(err error, message string, args ...any) {
	level := slog.LevelWarn
	if kv.Failed(err) {
		level = slog.LevelDebug
	}
	r.cfg.Log.Log(context.Background(), level, message, args...)
}

func (r *Runner) guard(j host.Job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			// The value may quote the event, so only its type and its place are logged.
			err = fmt.Errorf("runner: the job panicked with a %T", v)
			r.cfg.Log.Error("panic in a job", "task", j.Task.ID, "stack", string(debug.Stack()))
		}
	}()
	return r.cfg.Engine.Run(r.jobCtx, j)
}

func (r *Runner) postpone(ds []postponedJob) {
	for _, d := range ds {
		r.cfg.Metrics.JobDeferred()
		r.leases.Add(1)
		r.wg.Go(func() {
			defer r.leases.Done()
			r.returning <- struct{}{}
			defer func() { <-r.returning }()
			if err := r.cfg.Engine.Defer(r.jobCtx, d.job, d.until); err != nil {
				r.warn(err, "lease not returned; it will expire", "task", d.job.Task.ID, "error",
					err.Error())
			}
			r.mu.Lock()
			r.destinations.returning--
			tight := r.destinations.tight
			r.mu.Unlock()
			if tight {
				r.lookAll()
			}
		})
	}
}

// wait sleeps until the given time (zero: no limit), a nudge, or the end of ctx, but at most for
// clockLook.
func (w *watch) wait(ctx context.Context, now, until time.Time) {
	var c <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(min(until.Sub(now), clockLook))
		defer t.Stop()
		c = t.C
	}
	select {
	case <-c:
	case <-w.nudge:
	case <-ctx.Done():
	}
}

func (r *Runner) drain(cut context.CancelFunc) error {
	r.mu.Lock()
	waiting := r.destinations.close(r.cfg.Now())
	running := r.destinations.running()
	r.mu.Unlock()
	r.cfg.Log.Info("draining jobs", "running", running, "given_back", len(waiting))
	r.postpone(waiting)
	r.wg.Go(func() {
		r.leases.Wait()
		r.handOver(waiting)
	})
	defer r.lastSignals()

	done := make(chan struct{})
	go func() { r.wg.Wait(); close(done) }()
	if within(done, r.cfg.DrainTimeout) {
		return nil
	}
	cut()
	// The jobs' contexts have ended. Jobs that react should still find the store open.
	within(done, time.Second)
	return fmt.Errorf("runner: jobs still running after %v were cut and will run again: "+
		"raise DrainTimeout, or find out what holds them up", r.cfg.DrainTimeout)
}

func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

type noMetrics struct{}

func (noMetrics) JobStarted(time.Duration)     {}
func (noMetrics) JobDone(time.Duration, error) {}
func (noMetrics) JobDeferred()                 {}
func (noMetrics) ClaimFailed()                 {}
func (noMetrics) SignalSent()                  {}
func (noMetrics) SignalHeard()                 {}
