package main

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// walked is what a publisher knows of one session: what the service has
// acknowledged, whatever happened afterwards.
type walked struct {
	id        string
	started   bool // start was answered 200
	completed bool // the browser was sent back with a result token
	token     string
	valid     int // validations that were answered with valid: true
}

// TestKill kills the process at random points of many walks, restarts it on
// the same data directory, and holds it to what it had acknowledged:
//
//   - core doc, "An event whose transition was acknowledged ends delivered":
//     every started session's started event and every completed one's
//     completed event arrive at last, with the same bytes each time.
//   - spec, Result token, single use: none validates twice, neither at the
//     same time nor before and after a crash.
func TestKill(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	sink, dir := newEvents(t), t.TempDir()
	var all []*walked
	for round := range rounds {
		dev := startDev(t, dir, "--webhook-url", sink.URL, "--log-level", "error")
		sink.trust(dev.WebhookSecret)

		// What the earlier rounds validated stays validated.
		for _, w := range all {
			if w.valid == 0 {
				continue
			}
			if valid, status, body := dev.validate(w.token); valid || status != 409 {
				t.Fatalf("round %d: a token that was validated before the crash: %d %s", round, status, body)
			}
		}

		var mu sync.Mutex
		var walkers sync.WaitGroup
		fresh := 0
		for range 4 {
			walkers.Add(1)
			go func() {
				defer walkers.Done()
				for range 12 { // under the rate limit of one process's life, with room for the checks
					w := new(walked)
					walk(dev.publisher, w)
					mu.Lock()
					all = append(all, w)
					fresh++
					mu.Unlock()
				}
			}()
		}
		quota := 1 + rand.IntN(40) // walks begun before the kill
		eventually(t, "walks", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return fresh >= quota
		})
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		if err := dev.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		dev.cmd.Wait()
		walkers.Wait()
	}

	dev := startDev(t, dir, "--webhook-url", sink.URL)
	var started, completed, validated int
	for _, w := range all {
		if w.token != "" {
			// One more at the end, for the tokens whose validation was cut off.
			if valid, _, _ := dev.validate(w.token); valid {
				w.valid++
			}
		}
		if w.valid > 1 {
			t.Errorf("the token of %s validated %d times", w.id, w.valid)
		}
		if w.started {
			started++
			eventually(t, "the started event of "+w.id, func() bool { return sink.has(w.id, "started") })
		}
		if w.completed {
			completed++
			eventually(t, "the completed event of "+w.id, func() bool { return sink.has(w.id, "completed") })
		}
		validated += w.valid
	}
	for _, what := range sink.complaints() {
		t.Error(what)
	}
	if started == 0 || completed == 0 || validated == 0 {
		t.Errorf("nothing was put to the test: %d started, %d completed, %d validated", started, completed, validated)
	}
	t.Logf("%d kills: %d sessions started, %d completed, %d validated", rounds, started, completed, validated)
}

// walk goes through one verification as far as the process lives, and
// validates twice at once.
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
		if <-twice {
			w.valid++
		}
	}
}
