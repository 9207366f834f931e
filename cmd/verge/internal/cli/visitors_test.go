package cli

import (
	"sync"
	"time"

	"github.com/verge-id/verge/testharness/wait"
)

// walked has the facts of one session that the service has acknowledged to the publisher.
type walked struct {
	id        string
	started   bool // start was answered 200
	completed bool // the service sent the browser back with a result token
	token     string
	valid     int // validations that were answered with valid: true
}

// walk does one verification until the process is killed. It validates twice at the same time.
func walk(p *publisher, w *walked) {
	id, redirect, err := p.start(p.IntegrationID)
	if err != nil {
		return
	}
	w.id, w.started = id, true
	token, err := p.approve(redirect)
	if err != nil || token == "" {
		return
	}
	w.completed, w.token = true, token
	twice := make(chan bool, 2)
	for range 2 {
		go func() {
			valid, _, _ := p.validate(token)
			twice <- valid
		}()
	}
	for range 2 {
		if wait.For(twice) {
			w.valid++
		}
	}
}

// visitors are four users of a service. Each does one verification after the other until stop.
type visitors struct {
	over  chan struct{}
	users sync.WaitGroup

	mu  sync.Mutex
	all []*walked // the walks that have ended
}

func startVisitors(p *publisher) *visitors {
	v := &visitors{over: make(chan struct{})}
	for range 4 {
		v.users.Go(func() { v.walk(p) })
	}
	return v
}

func (v *visitors) walk(p *publisher) {
	for {
		select {
		case <-v.over:
			return
		default:
		}
		w := new(walked)
		walk(p, w)
		v.mu.Lock()
		v.all = append(v.all, w)
		v.mu.Unlock()
		if !w.started {
			time.Sleep(5 * time.Millisecond) // rejected starts are fast, and the machine is shared
		}
	}
}

// count returns how many ended walks are as asked.
func (v *visitors) count(is func(*walked) bool) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.all {
		if is(w) {
			n++
		}
	}
	return n
}

// stop waits for the walks in progress and returns all of them.
func (v *visitors) stop() []*walked {
	close(v.over)
	v.users.Wait()
	return v.all
}
