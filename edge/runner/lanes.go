package runner

import (
	"time"

	"github.com/verge-id/verge/core/host"
)

// lanes decides which job runs when: pure state, no clock and no goroutine of
// its own. Its owner holds the lock.
//
// A lane is quick while, with all its places taken, it does at least 640 jobs a
// second, and keeps finishing them. A quick
// lane with more work than places only needs a moment, so claiming pauses for
// it: giving leases back would cost more than the jobs do. Any other lane's
// surplus is put off, 5 s first and twice as long each time it comes back to
// find the lane still full, up to 5 min, half as much again at random. So a dead receiver with a large
// backlog costs a few places and, ever more rarely, a round of leases.
type lanes struct {
	concurrency, perLane int
	maxWait              time.Duration
	rand                 func() float64

	by        map[string]*lane
	ready     []*lane // lanes with jobs waiting, in the order of their turns
	laned     int     // running jobs of lanes
	timers    int     // running jobs without one
	queued    int
	deferring int       // leases on their way back
	tight     bool      // room said 0: whoever makes room should nudge
	swept     time.Time // when idle lanes were last forgotten
	closed    bool
}

type lane struct {
	name    string
	running int
	queue   []waiting
	inReady bool

	usual time.Duration // moving average of a job's time
	alive time.Time     // last job finished or, after idleness, the next one claimed
	known bool          // a job has finished

	delay time.Duration // of the present round of putting off; 0: none yet
	until time.Time     // when the present round ends
}

type waiting struct {
	job   host.Job
	since time.Time
}

type deferral struct {
	job   host.Job
	until time.Time
}

const (
	quickPlace = time.Second / 640 // times the places: the longest a quick lane's job takes
	quickAlive = 250 * time.Millisecond
	quickNew   = 25 * time.Millisecond
	delayMin   = 5 * time.Second
	delayMax   = 5 * time.Minute
)

func newLanes(concurrency, perLane int, maxWait time.Duration, rand func() float64) lanes {
	return lanes{concurrency: concurrency, perLane: perLane, maxWait: maxWait, rand: rand, by: map[string]*lane{}}
}

func (l *lanes) running() int { return l.laned + l.timers }

func (l *lanes) quickJob() time.Duration { return quickPlace * time.Duration(l.perLane) }

// quick also takes a lane for quick that has only just begun, as most are, but
// not for long: after a restart all dead receivers look new, one after another.
func (l *lanes) quick(now time.Time, ln *lane) bool {
	grace := quickAlive
	if !ln.known {
		grace = quickNew
	}
	return ln.usual <= l.quickJob() && now.Sub(ln.alive) <= grace
}

// places is how many jobs of one lane may run. Once half of all places are
// taken, a lane gets a quarter of its usual number, so that it takes many
// hanging lanes, not a few, to leave none for the others.
func (l *lanes) places() int {
	if l.laned < l.concurrency/2 {
		return l.perLane
	}
	return max(1, l.perLane/4)
}

// room is how many jobs to claim now. 0 means to wait: for a quick lane to
// catch up, or because there is more claimed than can begin soon.
func (l *lanes) room(now time.Time) int {
	n := min(batchMax, 16*l.concurrency-l.queued, batchMax-l.deferring)
	if n > 0 {
		for _, ln := range l.ready {
			if ln.name != "" && len(ln.queue) >= 2*l.perLane && l.quick(now, ln) {
				n = 0
				break
			}
		}
	}
	l.tight = n <= 0
	return max(n, 0)
}

// add takes in a claimed job, or says until when to put it off.
func (l *lanes) add(now time.Time, j host.Job) (deferral, bool) {
	ln := l.by[j.Lane]
	if ln == nil {
		ln = &lane{name: j.Lane, alive: now}
		l.by[j.Lane] = ln
	}
	if ln.running == 0 && len(ln.queue) == 0 && ln.usual <= l.quickJob() {
		ln.alive = now // it was idle, which is no sign of slowness
	}
	if j.Lane != "" && len(ln.queue) >= l.queueMax()+max(0, l.perLane-ln.running) && !l.quick(now, ln) {
		return l.putOff(now, ln, j), false
	}
	ln.queue = append(ln.queue, waiting{j, now})
	l.queued++
	l.enqueue(ln)
	return deferral{}, true
}

// queueMax is how many jobs of a lane that is not quick may wait. Where many
// such lanes have jobs waiting already, none: they would fill the runner.
func (l *lanes) queueMax() int {
	if l.queued >= 4*l.concurrency {
		return 0
	}
	return 2 * l.perLane
}

func (l *lanes) enqueue(ln *lane) {
	if !ln.inReady && len(ln.queue) > 0 {
		ln.inReady = true
		l.ready = append(l.ready, ln)
	}
}

// putOff spreads the jobs of a round over half its length behind its end:
// coming back all at once they would find a receiver that has recovered full
// again. None comes back before the end, where it would only be put off again.
func (l *lanes) putOff(now time.Time, ln *lane, j host.Job) deferral {
	if !now.Before(ln.until) {
		if now.Sub(ln.until) > ln.delay {
			ln.delay = 0 // the last round came back and found place
		}
		ln.delay = min(max(2*ln.delay, delayMin), delayMax)
		ln.until = now.Add(ln.delay)
	}
	l.deferring++
	return deferral{j, ln.until.Add(time.Duration(l.rand() * float64(ln.delay/2)))}
}

// start picks the jobs that may begin, the lanes taking turns.
func (l *lanes) start(now time.Time) []host.Job {
	if l.closed {
		return nil
	}
	var jobs []host.Job
	for idle := 0; idle < len(l.ready); {
		ln := l.ready[0]
		l.ready = l.ready[1:]
		if !l.free(ln) {
			l.ready = append(l.ready, ln)
			idle++
			continue
		}
		idle = 0
		jobs = append(jobs, ln.queue[0].job)
		ln.queue = ln.queue[1:]
		l.queued--
		ln.running++
		if ln.name == "" {
			l.timers++
		} else {
			l.laned++
		}
		if ln.inReady = false; len(ln.queue) > 0 {
			l.enqueue(ln)
		}
	}
	return jobs
}

func (l *lanes) free(ln *lane) bool {
	if ln.name == "" {
		return l.timers < l.concurrency
	}
	return l.laned < l.concurrency && ln.running < l.places()
}

// done notes that a job of the lane finished.
func (l *lanes) done(now time.Time, name string, took time.Duration) {
	ln := l.by[name]
	ln.running--
	if name == "" {
		l.timers--
	} else {
		l.laned--
	}
	ln.usual = (ln.usual + took) / 2
	ln.alive, ln.known = now, true
	if took <= l.quickJob() {
		ln.delay = 0
	}
}

// late takes out what has waited too long or stands in a queue that is too
// long for a lane that is quick no more, and forgets lanes that are idle.
func (l *lanes) late(now time.Time) []deferral {
	var out []deferral
	ready := l.ready
	l.ready = nil
	for _, ln := range ready {
		keep := len(ln.queue)
		if ln.name != "" && !l.quick(now, ln) {
			keep = min(keep, 2*l.perLane)
		}
		if len(ln.queue) == keep && now.Sub(ln.queue[0].since) < l.maxWait {
			l.ready = append(l.ready, ln)
			continue
		}
		queue := ln.queue
		ln.queue, ln.inReady = nil, false
		for i, w := range queue {
			if i >= keep || now.Sub(w.since) >= l.maxWait {
				l.queued--
				out = append(out, l.putOff(now, ln, w.job))
			} else {
				ln.queue = append(ln.queue, w)
			}
		}
		l.enqueue(ln)
	}
	if now.Sub(l.swept) > delayMin {
		l.swept = now
		for name, ln := range l.by {
			if ln.running == 0 && len(ln.queue) == 0 && now.Sub(ln.until) > ln.delay {
				delete(l.by, name)
			}
		}
	}
	return out
}

// nextLate is when late may have something to do; zero: not without a new job.
func (l *lanes) nextLate(now time.Time) time.Time {
	var t time.Time
	for _, ln := range l.ready {
		at := ln.queue[0].since.Add(l.maxWait)
		if len(ln.queue) >= 2*l.perLane && l.quick(now, ln) {
			at = ln.alive.Add(quickNew + time.Millisecond)
			if ln.known {
				at = ln.alive.Add(quickAlive + time.Millisecond)
			}
		}
		if t.IsZero() || at.Before(t) {
			t = at
		}
	}
	return t
}

// close gives up all that waits; nothing starts any more.
func (l *lanes) close(now time.Time) []deferral {
	l.closed = true
	var out []deferral
	for _, ln := range l.ready {
		for _, w := range ln.queue {
			out = append(out, deferral{w.job, now})
		}
		ln.queue, ln.inReady = nil, false
	}
	l.deferring += len(out)
	l.ready, l.queued = nil, 0
	return out
}
