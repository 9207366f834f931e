package runner

import (
	"time"

	"github.com/verge-id/verge/core/host"
)

// lanes decides which job runs when. It is pure state, without a clock or a goroutine of its own. Its
// owner holds the lock.
//
// A lane is quick if it does at least 640 jobs a second while all its places are taken, and keeps
// finishing them. If a quick lane has more jobs than places, it needs only a moment, so claiming pauses
// for it: returning the leases would cost more than the jobs. The surplus of any other lane is put off,
// at first for 5 s. Each time it comes back and the lane is still full, it is put off for twice as
// long, up to 5 min, with up to half as much again at random. So a dead receiver with a large backlog
// costs a few places and, more and more rarely, a round of leases.
type lanes struct {
	concurrency, perLane int
	maxWait              time.Duration
	rand                 func() float64

	by        map[string]*lane
	ready     []*lane // lanes with waiting jobs, in the order of their turns
	laned     int     // running jobs that have a lane
	timers    int     // running jobs without a lane
	queued    int
	deferring int       // leases that are being returned
	tight     bool      // room returned 0, so whoever makes room should nudge the watches
	swept     time.Time // when idle lanes were last forgotten
	closed    bool
}

type lane struct {
	name    string
	running int
	queue   []waiting
	inReady bool

	usual time.Duration // moving average of a job's time
	alive time.Time     // when the last job finished or, after an idle time, the next was claimed
	known bool          // a job of the lane has finished

	delay time.Duration // of the current round of putting off; 0: none yet
	until time.Time     // when the current round ends
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
	quickPlace = time.Second / 640 // times the number of places: the longest time of a quick lane's job
	quickAlive = 250 * time.Millisecond
	quickNew   = 25 * time.Millisecond
	delayMin   = 5 * time.Second
	delayMax   = 5 * time.Minute
)

func newLanes(concurrency, perLane int, maxWait time.Duration, rand func() float64) lanes {
	return lanes{
		concurrency: concurrency,
		perLane:     perLane,
		maxWait:     maxWait,
		rand:        rand,
		by:          map[string]*lane{},
	}
}

func (l *lanes) running() int { return l.laned + l.timers }

func (l *lanes) quickJob() time.Duration { return quickPlace * time.Duration(l.perLane) }

// quick also counts a lane as quick that has only just begun, since most lanes are quick. It does so
// only for a short time: after a restart all dead receivers look new, one after another.
func (l *lanes) quick(now time.Time, ln *lane) bool {
	grace := quickAlive
	if !ln.known {
		grace = quickNew
	}
	return ln.usual <= l.quickJob() && now.Sub(ln.alive) <= grace
}

// places returns how many jobs of one lane may run. When half of all places are taken, a lane gets a
// quarter of its usual number. So many lanes must hang, not just a few, before the others get no place.
func (l *lanes) places() int {
	if l.laned < l.concurrency/2 {
		return l.perLane
	}
	return max(1, l.perLane/4)
}

// room returns how many jobs to claim now. 0 means to wait: for a quick lane to catch up, or because
// more is claimed than can begin soon.
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

// add accepts a claimed job, or returns until when to put it off.
func (l *lanes) add(now time.Time, j host.Job) (deferral, bool) {
	ln := l.by[j.Lane]
	if ln == nil {
		ln = &lane{name: j.Lane, alive: now}
		l.by[j.Lane] = ln
	}
	if ln.running == 0 && len(ln.queue) == 0 && ln.usual <= l.quickJob() {
		ln.alive = now // it was idle, which does not mean that it is slow
	}
	if j.Lane != "" && len(ln.queue) >= l.queueMax()+max(0, l.perLane-ln.running) && !l.quick(now, ln) {
		return l.putOff(now, ln, j), false
	}
	ln.queue = append(ln.queue, waiting{j, now})
	l.queued++
	l.enqueue(ln)
	return deferral{}, true
}

// queueMax returns how many jobs of a lane that is not quick may wait. It is 0 if many such lanes have
// waiting jobs, because their jobs would fill the runner.
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

// putOff spreads the jobs of a round over a time after the round's end that is half as long as the
// round. If all came back at once, they would overload a receiver that has recovered. None comes back
// before the end, because it would only be put off again.
func (l *lanes) putOff(now time.Time, ln *lane, j host.Job) deferral {
	if !now.Before(ln.until) {
		if now.Sub(ln.until) > ln.delay {
			ln.delay = 0 // the jobs of the last round found places
		}
		ln.delay = min(max(2*ln.delay, delayMin), delayMax)
		ln.until = now.Add(ln.delay)
	}
	l.deferring++
	return deferral{j, ln.until.Add(time.Duration(l.rand() * float64(ln.delay/2)))}
}

// start picks the jobs that may begin. The lanes take turns.
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

// late removes jobs that have waited too long, or whose lane is no longer quick and has too long a
// queue. It also forgets idle lanes.
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

// nextLate returns when late may have something to do. Zero: not before a new job comes.
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

// waits returns how many jobs wait, and when the oldest of them fell due.
func (l *lanes) waits() (n int, due time.Time) {
	for _, ln := range l.ready {
		for _, w := range ln.queue {
			due = earliest(due, w.job.Task.Due)
		}
	}
	return l.queued, due
}

// close gives up all waiting jobs. No job starts after it.
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
