package wasmhost_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/testharness/guestcode"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// ours returns the stacks of the goroutines that run code of this package.
func ours() [][]byte {
	b := make([]byte, 4<<20)
	var all [][]byte
	for g := range bytes.SplitSeq(b[:runtime.Stack(b, true)], []byte("\n\n")) {
		if bytes.Contains(g, []byte("edge/wasmhost.(")) {
			all = append(all, g)
		}
	}
	return all
}

// Requests, guests that fail or are full, activations, rollbacks and renewals happen at the same time, and
// Close comes in the middle. Every request must get a response, and no goroutine may be left running.
func TestStress_AllEvents(t *testing.T) {
	var modules []*wasmhost.Module
	for n := range 3 {
		wasm := version(t, badGuest, byte(n))
		m, err := wasmhost.Compile(t.Context(), wasm,
			wasmhost.CompileConfig{Cache: guestcode.Cache(t, wasm), MemoryMax: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		modules = append(modules, m)
	}
	for range 3 {
		cfg := config(t, badGuest)
		cfg.Module, cfg.Compiled, cfg.Instances = nil, modules[0], 2
		cfg.MemoryFull, cfg.Probation, cfg.Grace = 16<<20, 20*time.Millisecond, patience
		e := start(t, cfg)
		over := make(chan struct{})
		var all sync.WaitGroup
		loop := func(do func()) {
			all.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						do()
					}
				}
			})
		}
		for range 8 {
			loop(func() {
				ctx, cancel := context.WithTimeout(t.Context(),
					time.Duration(1+rand.IntN(20))*time.Millisecond)
				defer cancel()
				path := []string{"/", "/park", "/effect", "/grow", "/junk", "/"}[rand.IntN(6)]
				if r := get(e, ctx, path); r == nil || r.Status == 0 {
					t.Errorf("%s: %v", path, r)
				}
			})
		}
		loop(func() {
			get(e, t.Context(), []string{"/trap", "/record", "/stranger"}[rand.IntN(3)])
			time.Sleep(5 * time.Millisecond)
		})
		loop(func() {
			err := e.ActivateCompiled(t.Context(), modules[rand.IntN(3)])
			if err != nil && !errors.Is(err, wasmhost.ErrActive) && !errors.Is(err, wasmhost.ErrClosed) {
				// its guest may have got a request that makes it trap during its tests
				t.Logf("an activation: %v", err)
			}
			e.Renew(t.Context())
		})
		time.Sleep(300 * time.Millisecond)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if r := get(e, t.Context(), "/"); r.Status != 503 {
			t.Errorf("after Close: %d", r.Status)
		}
		close(over)
		all.Wait()
		wait.Until(t, "nothing is left running", func() bool {
			s := e.Stats()
			return len(ours()) == 0 && s.Instances == 0 && s.InFlight == 0 && s.Queued == 0 && s.Memory == 0
		})
	}
}

// If a guest is busy, requests that have ended must leave its queue automatically, regardless of the
// queue's length, and never reach the guest.
func TestQueue_EndedRequests(t *testing.T) {
	cfg, clock := config(t, badGuest), &calendar{}
	cfg.Instances, cfg.Clock.Wall = 1, clock.wall
	e := start(t, cfg)
	began := time.Now()
	busy := clock.begin(t, e, t.Context(), "/slow")
	ctx, cancel := context.WithCancel(t.Context())
	const n = 400 // more than the queue holds
	answers := make(chan int, n)
	for range n {
		go func() { answers <- get(e, ctx, "/grow").Status }()
	}
	wait.Until(t, "all wait", func() bool { return e.Stats().Queued == n })
	cancel()
	for range n {
		if status := wait.For(answers); status != 503 {
			t.Errorf("a request that was over before it began: %d", status)
		}
	}
	if time.Since(began) > 900*time.Millisecond {
		t.Log("this machine is too slow for the rest: a guest that is busy for a second is abandoned")
		return
	}
	if s := e.Stats(); s.InFlight != 1 || s.Queued != 0 {
		t.Errorf("the guest is still busy: %+v", s)
	}
	if r := wait.For(busy); r.Status != 200 {
		t.Errorf("the previous one: %d", r.Status)
	}
	if r := get(e, t.Context(), "/"); r.Status != 200 {
		t.Errorf("the next one: %d", r.Status)
	}
	if s := e.Stats(); s.Memory > 32<<20 {
		t.Errorf("ended requests have grown the guest to %d bytes", s.Memory)
	}
}

func TestClose_WhileActivating(t *testing.T) {
	long.Skip(t, "TestClose_WhileActivating")
	e := start(t, config(t, goodGuest))
	done := make(chan error, 1)
	go func() {
		done <- e.Activate(t.Context(), append(bytes.Clone(testenv.Module(t)), 0, 3, 1, 'v',
			byte(rand.IntN(256))))
	}()
	time.Sleep(50 * time.Millisecond) // compiling takes longer than that
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := wait.For(done); !errors.Is(err, wasmhost.ErrClosed) {
		t.Errorf("the activation: %v", err)
	}
	if err := e.Activate(t.Context(), testenv.Build(t, badGuest)); !errors.Is(err, wasmhost.ErrClosed) {
		t.Errorf("an activation afterwards: %v", err)
	}
	wait.Until(t, "no guest is left", func() bool {
		s := e.Stats()
		return s.Instances == 0 && s.Memory == 0 && len(ours()) == 0
	})
}
