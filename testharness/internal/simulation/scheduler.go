package simulation

import (
	"fmt"
	"iter"
	"strings"
	"time"
)

// scheduler runs coroutines, one at a time, on a clock that only it moves.
type scheduler struct {
	*choices
	now     time.Time // true time; instances see it through their own clocks
	tasks   []*task   // those that have not ended, in the order in which they paused
	current *task
	order   *stream // chooses the next task
	idle    []*coroutine
	steps   int  // calls of ports so far
	over    bool // the history has ended: every task runs to its end, and has no effect
	tell    func(who, format string, args ...any)
}

// task is one request, one job or one person.
type task struct {
	name     string
	in       *instance // whose code it runs; nil: it is outside of all instances
	act      *stream   // decisions of the person, or of the program outside
	port     *stream   // decisions at calls of ports
	deadline time.Time // of a request: after it, the store is no longer called; zero: none
	still    bool      // it stands still at a port
	brief    bool      // it stands still for seconds at most, because its calls have timeouts
	children uint64

	lists []fetchedList // that the task has fetched

	co     *coroutine
	wakeAt time.Time // when it continues; zero: it only waits for the signal
	signal *signal   // nil: it waits for its time alone
}

// signal is an event that tasks wait for.
type signal struct{ set bool }

// coroutine runs one task after another, because creating one costs a goroutine and its stack.
type coroutine struct {
	job    func()
	yield  func(struct{}) bool
	resume func() (struct{}, bool)
	stop   func()
	ended  bool
}

func (s *scheduler) coroutine() *coroutine {
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return c
	}
	c := &coroutine{}
	c.resume, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for {
			c.job()
			c.ended = true
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// spawn starts a task. It runs when the current one pauses. Its decisions depend on its parent's name and on
// how many children the parent had before.
func (s *scheduler) spawn(in *instance, name string, job func()) *task {
	t := &task{name: name, in: in, wakeAt: s.now}
	if p := s.current; p != nil {
		p.children++
		t.act, t.port = p.act.sub(2*p.children), p.act.sub(2*p.children+1)
	} else {
		t.act, t.port = s.stream(name), s.stream(name+" at ports")
	}
	t.co = s.coroutine()
	t.co.job, t.co.ended = job, false
	s.tasks = append(s.tasks, t)
	return t
}

// play runs all tasks until none is left or stop returns true, and then lets the rest run to its end without
// effect.
func (s *scheduler) play(stop func() bool) {
	for len(s.tasks) > 0 && !stop() {
		if t := s.choose(); t != nil {
			s.step(t)
		} else if !s.advance() {
			break
		}
	}
	s.over = true
	for len(s.tasks) > 0 {
		s.step(s.tasks[0])
	}
}

// choose returns a task that can continue, or nil. Tasks of a dead instance come first: they end without
// effect.
func (s *scheduler) choose() *task {
	n := 0
	for _, t := range s.tasks {
		if t.in != nil && t.in.dead {
			return t
		}
		if s.ready(t) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	nth := s.order.pick(n)
	for _, t := range s.tasks {
		if s.ready(t) {
			if nth == 0 {
				return t
			}
			nth--
		}
	}
	return nil
}

func (s *scheduler) ready(t *task) bool {
	if t.in != nil && s.now.Before(t.in.frozenUntil) {
		return false
	}
	return t.signal != nil && t.signal.set || !t.wakeAt.IsZero() && !t.wakeAt.After(s.now)
}

// advance moves the clock to the next time at which a task can continue.
func (s *scheduler) advance() bool {
	var next time.Time
	for _, t := range s.tasks {
		at := t.wakeAt
		if t.signal != nil && t.signal.set {
			at = s.now
		}
		if at.IsZero() {
			continue
		}
		if t.in != nil && at.Before(t.in.frozenUntil) {
			at = t.in.frozenUntil
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if next.IsZero() {
		return false
	}
	if next.After(s.now) {
		s.now = next
	}
	return true
}

// step continues a task until it pauses or ends.
func (s *scheduler) step(t *task) {
	s.current = t
	t.co.resume()
	s.current = nil
	at := 0
	for s.tasks[at] != t {
		at++
	}
	copy(s.tasks[at:], s.tasks[at+1:])
	s.tasks[len(s.tasks)-1] = t
	if t.co.ended {
		s.tasks = s.tasks[:len(s.tasks)-1]
		s.idle = append(s.idle, t.co)
	}
}

// pause lets other tasks run. If the history has ended, or the task's instance has died, it returns
// immediately.
func (s *scheduler) pause(until time.Time, sig *signal) {
	t := s.current
	if s.over || t.in != nil && t.in.dead {
		return
	}
	t.wakeAt, t.signal = until, sig
	t.co.yield(struct{}{})
	t.signal = nil
}

// sleep pauses the current task for d.
func (s *scheduler) sleep(d time.Duration) { s.pause(s.now.Add(d), nil) }

// wait pauses until the signal is set, for d at most. It reports whether the signal is set.
func (s *scheduler) wait(sig *signal, d time.Duration) bool {
	if !sig.set {
		s.pause(s.now.Add(d), sig)
	}
	return sig.set
}

// portCost is the time that passes with each call of a port.
const portCost = 50 * time.Microsecond

// point is a call of a port by the current task. The seed decides who continues. It returns false if the
// instance is dead: the call has no effect.
func (s *scheduler) point(w *world) bool {
	t := s.current
	if s.over || t == nil || t.in == nil || t.in.dead {
		return !s.over && (t == nil || t.in == nil || !t.in.dead)
	}
	s.steps++
	s.now = s.now.Add(portCost)
	switch {
	case s.now.Before(t.in.frozenUntil):
		s.pause(s.now, nil)
	case !w.healed && t.port.chance(w.rate[switchSlow]):
		most := len(slowness)
		if t.brief {
			most = 4
		}
		d := slowness[t.port.pick(most)]
		s.tell(t.name, "stands still for %s", d)
		w.metFor(switchSlow, d)
		t.still = true
		s.sleep(d)
		t.still = false
	case t.port.chance(w.rate[switchTurns]):
		w.met(switchTurns)
		s.pause(s.now, nil)
	}
	return !s.over && !t.in.dead
}

// slowness is how long a task can stand still at a port: up to beyond a lease, and beyond a session.
var slowness = []time.Duration{10 * time.Millisecond, time.Second, 6 * time.Second, 14 * time.Second,
	40 * time.Second, 5 * time.Minute, 11 * time.Minute}

// short shortens a path or id that ends in a long id.
func short(s string) string {
	if at := strings.Index(s, "svc_sess_"); at >= 0 && len(s)-at > 20 {
		return s[:at] + "…" + s[len(s)-5:]
	}
	return s
}

// story formats one line of a history.
func story(now time.Time, who, format string, args ...any) string {
	return now.Format("15:04:05.000") + " " + who + ": " + fmt.Sprintf(format, args...)
}
