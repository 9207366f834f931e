package main

import "iter"

// routine is a coroutine that runs one job after another. Creating one costs a goroutine, so they are
// reused.
type routine struct {
	job  func()
	park func()
	next func() (struct{}, bool)
}

func (g *guest) routine() *routine {
	if n := len(g.idle); n > 0 {
		r := g.idle[n-1]
		g.idle = g.idle[:n-1]
		return r
	}
	r := new(routine)
	r.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		r.park = func() { yield(struct{}{}) }
		for {
			r.job()
			r.park()
		}
	})
	return r
}

// resume runs the job and returns when it is parked or has ended.
func (r *routine) resume() { r.next() }
