package runner

import (
	"time"

	"github.com/verge-id/verge/core/host"
)

// destinations decides which job runs when. It has neither a clock nor a goroutine. Its owner holds the lock.
//
// A destination is quick if it completes at least 640 jobs a second with all its places taken, and keeps
// completing them. If a quick destination has more jobs than places, claiming pauses until it has caught up:
// that takes a moment, and returning the leases would cost more. The surplus of any other destination is
// postponed, at first for 5 s. The delay doubles whenever the destination is still full afterwards, up to 5
// min, plus a random part of up to half of it. So a receiver that is down with a large backlog costs a few
// places and, less and less often, a round of leases.
type destinations struct {
	concurrency, perDestination int
	maxWait                     time.Duration
	rand                        func() float64

	by         map[string]*destination
	ready      []*destination // destinations with waiting jobs, in the order of their turns
	delivering int            // running jobs with a destination
	timers     int            // running jobs without a destination
	queued     int
	returning  int       // leases that are being returned
	tight      bool      // room returned 0, so the next free place must nudge the watches
	swept      time.Time // when idle destinations were last removed
	closed     bool
}

type destination struct {
	name    string
	running int
	queue   []waiting
	inReady bool

	usual time.Duration // moving average of a job's time
	alive time.Time     // when the last job finished or, after an idle time, the next was claimed
	known bool          // a job of the destination has finished

	delay time.Duration // of the current round of postponed jobs; 0: none yet
	until time.Time     // when the current round ends
}

type waiting struct {
	job   host.Job
	since time.Time
}

type postponedJob struct {
	job   host.Job
	until time.Time
}

const (
	quickPlace = time.Second / 640 // times the number of places: maximum time of a quick destination's job
	quickAlive = 250 * time.Millisecond
	quickNew   = 25 * time.Millisecond
	delayMin   = 5 * time.Second
	delayMax   = 5 * time.Minute
)

func newDestinations(
	concurrency, perDestination int, maxWait time.Duration, rand func() float64,
) destinations {
	return destinations{
		concurrency:    concurrency,
		perDestination: perDestination,
		maxWait:        maxWait,
		rand:           rand,
		by:             map[string]*destination{},
	}
}

func (d *destinations) running() int { return d.delivering + d.timers }

func (d *destinations) quickJob() time.Duration { return quickPlace * time.Duration(d.perDestination) }

// quick reports whether the destination is quick. A destination that has just begun counts as quick, because
// most are, but only for a short time: after a restart, all destinations that are down look new, one after
// another.
func (d *destinations) quick(now time.Time, dest *destination) bool {
	grace := quickAlive
	if !dest.known {
		grace = quickNew
	}
	return dest.usual <= d.quickJob() && now.Sub(dest.alive) <= grace
}

// places returns the number of jobs of one destination that may run. When half of all places are taken, it is
// a quarter of the usual number. So many destinations must hang, not just a few, before the others have no
// place.
func (d *destinations) places() int {
	if d.delivering < d.concurrency/2 {
		return d.perDestination
	}
	return max(1, d.perDestination/4)
}

// room returns the number of jobs to claim now. It returns 0 if a quick destination has to catch up first, or
// if more jobs are claimed than can begin soon.
func (d *destinations) room(now time.Time) int {
	n := min(batchMax, 16*d.concurrency-d.queued, batchMax-d.returning)
	if n > 0 {
		for _, dest := range d.ready {
			if dest.name != "" && len(dest.queue) >= 2*d.perDestination && d.quick(now, dest) {
				n = 0
				break
			}
		}
	}
	d.tight = n <= 0
	return max(n, 0)
}

// add accepts a claimed job. If its destination is full, add returns the postponed job and false.
func (d *destinations) add(now time.Time, j host.Job) (postponedJob, bool) {
	dest := d.by[j.Destination]
	if dest == nil {
		dest = &destination{name: j.Destination, alive: now}
		d.by[j.Destination] = dest
	}
	if dest.running == 0 && len(dest.queue) == 0 && dest.usual <= d.quickJob() {
		dest.alive = now // it was idle, which does not mean that it is slow
	}
	room := d.queueMax() + max(0, d.perDestination-dest.running)
	if j.Destination != "" && len(dest.queue) >= room && !d.quick(now, dest) {
		return d.postpone(now, dest, j), false
	}
	dest.queue = append(dest.queue, waiting{j, now})
	d.queued++
	d.enqueue(dest)
	return postponedJob{}, true
}

// queueMax returns the maximum number of waiting jobs of a destination that is not quick. It is 0 if the jobs
// of many such destinations would fill the runner.
func (d *destinations) queueMax() int {
	if d.queued >= 4*d.concurrency {
		return 0
	}
	return 2 * d.perDestination
}

func (d *destinations) enqueue(dest *destination) {
	if !dest.inReady && len(dest.queue) > 0 {
		dest.inReady = true
		d.ready = append(d.ready, dest)
	}
}

// postpone ends the wait of a job. The jobs of a round come back within half of the round's delay after its
// end. Together they would overload a receiver that has recovered; before the end they would only be
// postponed again.
func (d *destinations) postpone(now time.Time, dest *destination, j host.Job) postponedJob {
	if !now.Before(dest.until) {
		if now.Sub(dest.until) > dest.delay {
			dest.delay = 0 // the jobs of the last round found places
		}
		dest.delay = min(max(2*dest.delay, delayMin), delayMax)
		dest.until = now.Add(dest.delay)
	}
	d.returning++
	return postponedJob{j, dest.until.Add(time.Duration(d.rand() * float64(dest.delay/2)))}
}

// start returns the jobs that may begin. The destinations take turns.
func (d *destinations) start() []host.Job {
	if d.closed {
		return nil
	}
	var jobs []host.Job
	for idle := 0; idle < len(d.ready); {
		dest := d.ready[0]
		d.ready = d.ready[1:]
		if !d.free(dest) {
			d.ready = append(d.ready, dest)
			idle++
			continue
		}
		idle = 0
		jobs = append(jobs, dest.queue[0].job)
		dest.queue = dest.queue[1:]
		d.queued--
		dest.running++
		if dest.name == "" {
			d.timers++
		} else {
			d.delivering++
		}
		if dest.inReady = false; len(dest.queue) > 0 {
			d.enqueue(dest)
		}
	}
	return jobs
}

func (d *destinations) free(dest *destination) bool {
	if dest.name == "" {
		return d.timers < d.concurrency
	}
	return d.delivering < d.concurrency && dest.running < d.places()
}

// done records the end of a job and its duration.
func (d *destinations) done(now time.Time, name string, took time.Duration) {
	dest := d.by[name]
	dest.running--
	if name == "" {
		d.timers--
	} else {
		d.delivering--
	}
	dest.usual = (dest.usual + took) / 2
	dest.alive, dest.known = now, true
	if took <= d.quickJob() {
		dest.delay = 0
	}
}

// late removes and returns jobs that have waited too long, and jobs beyond the queue of a destination that is
// no longer quick. It also removes idle destinations.
func (d *destinations) late(now time.Time) []postponedJob {
	var out []postponedJob
	ready := d.ready
	d.ready = nil
	for _, dest := range ready {
		keep := len(dest.queue)
		if dest.name != "" && !d.quick(now, dest) {
			keep = min(keep, 2*d.perDestination)
		}
		if len(dest.queue) == keep && now.Sub(dest.queue[0].since) < d.maxWait {
			d.ready = append(d.ready, dest)
			continue
		}
		queue := dest.queue
		dest.queue, dest.inReady = nil, false
		for i, w := range queue {
			if i >= keep || now.Sub(w.since) >= d.maxWait {
				d.queued--
				out = append(out, d.postpone(now, dest, w.job))
			} else {
				dest.queue = append(dest.queue, w)
			}
		}
		d.enqueue(dest)
	}
	if now.Sub(d.swept) > delayMin {
		d.swept = now
		for name, dest := range d.by {
			if dest.running == 0 && len(dest.queue) == 0 && now.Sub(dest.until) > dest.delay {
				delete(d.by, name)
			}
		}
	}
	return out
}

// nextLate returns when late has to be called again. Zero: after the next new job.
func (d *destinations) nextLate(now time.Time) time.Time {
	var t time.Time
	for _, dest := range d.ready {
		at := dest.queue[0].since.Add(d.maxWait)
		if len(dest.queue) >= 2*d.perDestination && d.quick(now, dest) {
			at = dest.alive.Add(quickNew + time.Millisecond)
			if dest.known {
				at = dest.alive.Add(quickAlive + time.Millisecond)
			}
		}
		if t.IsZero() || at.Before(t) {
			t = at
		}
	}
	return t
}

// waits returns the number of waiting jobs, and when the oldest of them fell due.
func (d *destinations) waits() (n int, due time.Time) {
	for _, dest := range d.ready {
		for _, w := range dest.queue {
			due = earliest(due, w.job.Task.Due)
		}
	}
	return d.queued, due
}

// close removes and returns all waiting jobs. No job starts after it.
func (d *destinations) close(now time.Time) []postponedJob {
	d.closed = true
	var out []postponedJob
	for _, dest := range d.ready {
		for _, w := range dest.queue {
			out = append(out, postponedJob{w.job, now})
		}
		dest.queue, dest.inReady = nil, false
	}
	d.returning += len(out)
	d.ready, d.queued = nil, 0
	return out
}
