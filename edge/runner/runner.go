// Package runner drives an outbox. It claims tasks when they fall due and runs them side by side, so
// that one task's trouble does not become another's.
//
// Give [New] an engine and the core [Runner.Wake] as host.Host.Wake. Then call [Runner.Run] with a
// context that ends on SIGTERM.
//
// # What is promised
//
//   - If a lane (see host.Job) hangs, fails or has a large backlog, it costs the others at most PerLane
//     running jobs and a small queue. Jobs that a slow lane cannot take go back to the store, for
//     longer and longer.
//   - Jobs without a lane, the timers, never wait for a lane.
//   - If Wake reports a task that falls due now, it is claimed now. Apart from one claim of each
//     partition in a PollInterval and after a signal, nothing is claimed before it is due.
//   - A partition that fails is asked again, with growing pauses and without end. When it answers
//     again, the runner goes on. It does not hold up the other partitions.
//   - With a [Signaler], a runner that is full or drains tells the other instances of the tasks that it
//     leaves, and they look at once. If a signal is lost, they find the tasks in a PollInterval.
//   - During a drain no job begins, no running job is cut before DrainTimeout, and the leases of jobs
//     that have not begun are returned at once.
//
// Not promised: an order, and exactly one run per task. If a process is killed, its leases run out, and
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

// Metrics is told what happens. Methods are called concurrently.
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

	Concurrency int // how many jobs with lanes run at once, and how many timers; 0: 256
	PerLane     int // how many jobs of one lane run at once; 0: 24

	// MaxWait is how long a claimed job may wait for its turn before its lease is returned. A lease
	// must be longer than MaxWait and a run together. Otherwise another instance takes over a job that
	// is running here. 0: 5 s.
	MaxWait time.Duration

	// PollInterval limits the sleep between claims of one partition, because other instances schedule
	// tasks too. They run what they schedule themselves. A killed instance wakes nobody, and a signal can
	// be lost. So PollInterval is how long tasks that others leave wait at most. 0: 1 s.
	PollInterval time.Duration

	// Signaler is how instances wake each other. Nil: they do not.
	Signaler Signaler

	// Exclusive says that no other process schedules into the store, so that the runner may sleep until
	// the next task falls due. There are no signals then.
	Exclusive bool

	// Gap is the least time between two claims of a partition while nothing is overdue. A busy service
	// schedules many tasks in the time of one claim, and one claim for several tasks is cheaper. 0: 2
	// ms.
	Gap time.Duration

	DrainTimeout time.Duration // for jobs that still run when Run's context ends; 0: 15 s

	Now     func() time.Time // nil: time.Now
	Rand    func() float64   // in [0,1), spreads jobs that are put off; nil: math/rand
	Log     *slog.Logger     // nil discards
	Metrics Metrics          // nil: none
}

// Lane returns how many jobs of one lane run at once.
//
// The default keeps two processors busy with one quick receiver, and five receivers that hang still take less
// than half of all places.
func (c Config) Lane() int { return cmp.Or(c.PerLane, 24) }

// maxPartitions limits the load of an idle runner, which makes claims of each partition even if nothing
// is due.
const maxPartitions = 256

// CheckPartitions refuses more partitions than a runner can look after.
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
	deferring    = 64 // how many leases are returned at once
	emptyGap     = 10 * time.Millisecond

	// clockLook is how often a sleeper looks at the clock. A timer does not notice a clock that was set
	// ahead or a machine that slept.
	clockLook = 5 * time.Second
)

// Runner runs jobs. Make it with New.
type Runner struct {
	cfg     Config
	watches []*watch
	gaveUp  chan struct{} // limits how many leases are returned at once
	claims  atomic.Bool   // whether the watches run

	mu     sync.Mutex
	lanes  lanes
	jobCtx context.Context
	wg     sync.WaitGroup // goroutines of jobs and deferrals
	leases sync.WaitGroup // goroutines of deferrals
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
	c.PerLane = c.Lane()
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
		cfg:    c,
		gaveUp: make(chan struct{}, deferring),
		lanes:  newLanes(c.Concurrency, c.PerLane, c.MaxWait, c.Rand),
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

// Wake can be used as host.Host.Wake: it says that a task of p falls due at due. It never blocks. It may
// be called before Run and after it. Then the other instances are told.
func (r *Runner) Wake(p kv.Partition, due time.Time) {
	for _, w := range r.watches {
		if w.partition != p {
			continue
		}
		w.wake(due)
		// This order matters: when the watches have ended, drain looks at all wakes that came before.
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

// lookAll makes all watches look again. It is called after room was made.
func (r *Runner) lookAll() {
	for _, w := range r.watches {
		w.look()
	}
}

// Run claims and runs jobs until ctx is done, and then drains. It returns nil, or an error if jobs
// still ran when DrainTimeout was over. It can be called once.
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
		n, again := r.tend(now)
		n = min(n, w.most)
		at := w.woken(due)
		if !at.IsZero() && at.Before(floor) {
			at = floor
		}
		if n == 0 {
			// The runner is full. A job that ends nudges this watch, and jobs that wait too long are
			// put off.
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
		// A store without tasks must not be asked in a loop, whatever next it returns.
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

// woken returns the time of the next claim, with the wakes since the last claim taken into account.
func (w *watch) woken(due time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return earliest(due, w.wakeAt)
}

// leaves notes when the earliest task falls due that a claim has left.
func (w *watch) leaves(next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = next
}

// Backlog returns how many claimed tasks wait for their turn, and for how long the oldest task has been due
// that has not begun. It knows of tasks that nobody has claimed only the oldest one of each partition, as of
// the last claim.
func (r *Runner) Backlog() (waiting int, oldest time.Duration) {
	now := r.cfg.Now()
	r.mu.Lock()
	waiting, due := r.lanes.waits()
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

// tend puts off jobs that have waited too long. It returns how many jobs to claim, and when to tend
// again at the latest.
func (r *Runner) tend(now time.Time) (n int, again time.Time) {
	r.mu.Lock()
	late := r.lanes.late(now)
	n, again = r.lanes.room(now), r.lanes.nextLate(now)
	r.mu.Unlock()
	r.putOff(late)
	return n, again
}

func (r *Runner) admit(now time.Time, jobs []host.Job) {
	r.mu.Lock()
	var over []deferral
	for _, j := range jobs {
		if d, ok := r.lanes.add(now, j); !ok {
			over = append(over, d)
		}
	}
	start := r.lanes.start(now)
	r.mu.Unlock()
	r.putOff(over)
	r.begin(now, start)
}

func (r *Runner) begin(now time.Time, jobs []host.Job) {
	for _, j := range jobs {
		r.cfg.Metrics.JobStarted(now.Sub(j.Task.Due))
		r.wg.Go(func() { r.work(now, j) })
	}
}

// work does a job, and then one of those for which it made place, until there is none. A goroutine that
// goes on has the stack that it needs. A new one would have to grow its stack for each job.
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

// run does one job and returns those for which it made place.
func (r *Runner) run(began time.Time, j host.Job) (next []host.Job) {
	err := r.guard(j)
	now := r.cfg.Now()
	took := now.Sub(began)
	r.cfg.Metrics.JobDone(took, err)
	if err != nil {
		r.warn(err, "a job's outcome was not recorded, it will run again", "task", j.Task.ID, "error",
			err.Error())
	}
	r.mu.Lock()
	r.lanes.done(now, j.Lane, took)
	next = r.lanes.start(now)
	tight := r.lanes.tight
	r.mu.Unlock()
	if tight {
		r.lookAll()
	}
	return next
}

// warn logs what could not be done. If the store fails, the store's watch logs that once, so it is not
// logged for every partition and job.
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

func (r *Runner) putOff(ds []deferral) {
	for _, d := range ds {
		r.cfg.Metrics.JobDeferred()
		r.leases.Add(1)
		r.wg.Go(func() {
			defer r.leases.Done()
			r.gaveUp <- struct{}{}
			defer func() { <-r.gaveUp }()
			if err := r.cfg.Engine.Defer(r.jobCtx, d.job, d.until); err != nil {
				r.warn(err, "a lease was not given back, it will run out", "task", d.job.Task.ID, "error",
					err.Error())
			}
			r.mu.Lock()
			r.lanes.deferring--
			tight := r.lanes.tight
			r.mu.Unlock()
			if tight {
				r.lookAll()
			}
		})
	}
}

// wait sleeps until the given time (zero: for ever), a nudge, or the end of ctx, but at most for
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
	waiting := r.lanes.close(r.cfg.Now())
	running := r.lanes.running()
	r.mu.Unlock()
	r.cfg.Log.Info("draining jobs", "running", running, "given_back", len(waiting))
	r.putOff(waiting)
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
	// The jobs' contexts have ended. Those that react should still find the store open.
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
