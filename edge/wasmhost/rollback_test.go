package wasmhost_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/wasm/abi"
)

// version returns the guest with another digest: it has another, meaningless section.
func version(t testing.TB, pkg string, n byte) []byte {
	return append(bytes.Clone(testenv.Build(t, pkg)), 0, 3, 1, 'v', n)
}

// observed is an Observer that records its events.
type observed struct {
	mu  sync.Mutex
	all []string
}

func (o *observed) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf(format, args...))
}

func (o *observed) count(what string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.all {
		if s == what {
			n++
		}
	}
	return n
}

func (o *observed) ModuleCompiled(time.Duration)            { o.note("compiled") }
func (o *observed) GuestStarted(time.Duration)              { o.note("started") }
func (o *observed) GuestRecycled()                          { o.note("recycled") }
func (o *observed) GuestFailed(cause string)                { o.note("failed: %s", cause) }
func (o *observed) EffectDone(kind string, _ time.Duration) { o.note("effect: %s", kind) }
func (o *observed) ModuleActivated(_ string, rejected error) {
	o.note("activated: %v", rejected == nil)
}
func (o *observed) ModuleRolledBack(from, to, cause string) { o.note("rolled back: %s", cause) }

// calendar is the clock of badguest. It can be set to years in which badguest does not start. Its monotonic
// time passes so slowly that /slow lasts until the test ends it.
type calendar struct {
	wrong, slowEnded atomic.Bool
	reads            atomic.Int64 // of the wall clock; badguest begins each request with one
}

func (c *calendar) wall() time.Time {
	c.reads.Add(1)
	if c.wrong.Load() {
		return time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Now()
}

func (c *calendar) mono() time.Duration {
	now := time.Duration(time.Now().UnixMicro())
	if c.slowEnded.Load() {
		now += time.Hour
	}
	return now
}

// begin sends a request, and returns when badguest has begun it. The channel receives the response.
func (c *calendar) begin(t *testing.T, e *wasmhost.Engine, ctx context.Context, path string,
) <-chan *web.Response {
	t.Helper()
	before, response := c.reads.Load(), make(chan *web.Response, 1)
	go func() { response <- get(e, ctx, path) }()
	wait.Until(t, "the guest begins "+path, func() bool { return c.reads.Load() > before })
	return response
}

func TestProbation_RollBack(t *testing.T) {
	for _, c := range []struct {
		cause string
		fail  func(t *testing.T, e *wasmhost.Engine, clock *calendar)
	}{
		{wasmhost.CauseTrap, func(t *testing.T, e *wasmhost.Engine, _ *calendar) {
			if r := get(e, t.Context(), "/trap"); r.Status != 503 {
				t.Errorf("the request in the guest that trapped: %d", r.Status)
			}
		}},
		{wasmhost.CauseProtocol, func(t *testing.T, e *wasmhost.Engine, _ *calendar) {
			if r := say(e, t.Context(), record(abi.Log, []byte{1})); r.Status != 503 {
				t.Errorf("the request in the guest whose log could not be read: %d", r.Status)
			}
		}},
		{wasmhost.CauseDeadline, func(t *testing.T, e *wasmhost.Engine, clock *calendar) {
			ctx, cancel := context.WithCancel(t.Context())
			response := clock.begin(t, e, ctx, "/slow")
			cancel()
			if r := wait.For(response); r.Status != 503 {
				t.Errorf("the request in the guest that did not return: %d", r.Status)
			}
			clock.slowEnded.Store(true)
		}},
		{wasmhost.CauseStart, func(t *testing.T, e *wasmhost.Engine, clock *calendar) {
			clock.wrong.Store(true)
			for range 5 { // the guest is full and continues to work
				if r := get(e, t.Context(), "/grow"); r.Status != 200 {
					t.Errorf("a request that fills a guest: %d", r.Status)
				}
			}
		}},
	} {
		t.Run(c.cause, func(t *testing.T) {
			before, next := version(t, badGuest, 1), version(t, badGuest, 2)
			told, clock := &observed{}, &calendar{}
			cfg := config(t, badGuest)
			cfg.Module, cfg.Instances, cfg.MemoryFull = before, 1, 24<<20
			cfg.Guests, cfg.Clock = told, wasmhost.Clock{Wall: clock.wall, Mono: clock.mono}
			cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
			e := start(t, cfg)
			first := e.Digest()
			if err := e.Activate(t.Context(), before); !errors.Is(err, wasmhost.ErrActive) {
				t.Errorf("the same module again: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			beside := clock.begin(t, e, ctx, "/park")

			if err := e.Activate(t.Context(), next); err != nil || e.Digest() == first {
				t.Fatalf("%v, the digest is %s", err, e.Digest())
			}
			c.fail(t, e, clock)
			wait.Until(t, "the previous module is active again",
				func() bool { return e.Digest() == first })
			if r := get(e, t.Context(), "/"); r.Status != 200 {
				t.Errorf("the next request: %d", r.Status)
			}
			clock.wrong.Store(false)
			wait.Until(t, "it is told", func() bool { return told.count("rolled back: "+c.cause) == 1 })
			if told.count("rolled back: "+c.cause) != 1 || told.count("activated: true") != 2 {
				t.Errorf("told of %q", told.all)
			}
			cancel()
			if r := wait.For(beside); r.Status != 301 {
				t.Errorf("a request from before the activation does not continue: %d", r.Status)
			}
			// The previous module is not on probation, so a failed guest of it is replaced.
			get(e, t.Context(), "/trap")
			if r := get(e, t.Context(), "/"); r.Status != 200 || e.Digest() != first {
				t.Errorf("after a trap of the previous module: %d, digest %s", r.Status, e.Digest())
			}
		})
	}
}

func TestProbation(t *testing.T) {
	modules := [][]byte{version(t, badGuest, 1), version(t, badGuest, 2), version(t, badGuest, 3)}
	engine := func(t *testing.T, probation time.Duration) (*wasmhost.Engine, *observed) {
		told := &observed{}
		cfg := config(t, badGuest)
		cfg.Module, cfg.Instances, cfg.Guests, cfg.Probation = modules[0], 1, told, probation
		return start(t, cfg), told
	}
	for name, probation := range map[string]time.Duration{"is over": time.Millisecond, "there is none": -1} {
		t.Run(name, func(t *testing.T) {
			e, told := engine(t, probation)
			if err := e.Activate(t.Context(), modules[1]); err != nil {
				t.Fatal(err)
			}
			second := e.Digest()
			wait.Until(t, "the guests of the previous module have ended",
				func() bool { return e.Stats().Instances == 1 })
			get(e, t.Context(), "/trap")
			r := get(e, t.Context(), "/")
			if r.Status != 200 || e.Digest() != second || told.count("rolled back: trap") != 0 {
				t.Errorf("%d, told of %q", r.Status, told.all)
			}
		})
	}
	t.Run("several modules: the last with a passed probation becomes active", func(t *testing.T) {
		e, _ := engine(t, 0)
		first := e.Digest()
		for _, m := range modules[1:] {
			if err := e.Activate(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the guests in between have ended", func() bool { return e.Stats().Instances == 2 })
		get(e, t.Context(), "/trap")
		wait.Until(t, "the first one is active", func() bool { return e.Digest() == first })
	})
	t.Run("Close also ends the guests of the previous module", func(t *testing.T) {
		e, _ := engine(t, 0)
		if err := e.Activate(t.Context(), modules[1]); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil || e.Stats().Instances != 0 {
			t.Errorf("%v, %d guests are left", err, e.Stats().Instances)
		}
	})
	t.Run("a rejected module has no probation", func(t *testing.T) {
		e, told := engine(t, 0)
		first := e.Digest()
		err := e.Activate(t.Context(), []byte("MZ"))
		if err == nil || e.Digest() != first || told.count("activated: false") != 1 {
			t.Errorf("%v, told of %q", err, told.all)
		}
		get(e, t.Context(), "/trap")
		if r := get(e, t.Context(), "/"); r.Status != 200 || slices.Contains(told.all, "rolled back: trap") {
			t.Errorf("%d, told of %q", r.Status, told.all)
		}
	})
}

// turning is a source of randomness that a test can replace.
type turning struct{ now atomic.Pointer[io.Reader] }

func (r *turning) turn(to io.Reader) { r.now.Store(&to) }

func (r *turning) Read(p []byte) (int, error) { return (*r.now.Load()).Read(p) }

// The randomness of a replacement guest must also be its own.
func TestReplacement_Randomness(t *testing.T) {
	for _, c := range []struct {
		name   string
		bad    io.Reader
		passes int // number of guests that start before one repeats another's randomness
	}{
		{"no randomness", zeros{}, 0},
		{"the randomness of another guest", &sameForAll{}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			told, random := &observed{}, &turning{}
			random.turn(crand.Reader)
			cfg := config(t, badGuest)
			cfg.Instances, cfg.Guests, cfg.Random = 2, told, random
			e := start(t, cfg)
			random.turn(c.bad)
			for n := range c.passes + 1 {
				if r := get(e, t.Context(), "/trap"); r.Status != 503 {
					t.Errorf("trap %d: %d", n, r.Status)
				}
				wait.Until(t, "another guest is started", func() bool {
					return told.count("started") > 2+n || told.count("failed: "+wasmhost.CauseStart) > 0
				})
			}
			wait.Until(t, "it is refused",
				func() bool { return told.count("failed: "+wasmhost.CauseStart) > 0 })
			if r := get(e, t.Context(), "/"); r.Status != 200 {
				t.Errorf("the other guest: %d", r.Status)
			}
			if s := e.Stats(); s.Instances != 1 {
				t.Errorf("%d guests, want one", s.Instances)
			}
			random.turn(crand.Reader)
			wait.Until(t, "a good module replaces it", func() bool { return e.Stats().Instances == 2 })
		})
	}
}

// Only requests that a guest has begun may be lost with it.
func TestReplacement_WaitingRequests(t *testing.T) {
	cfg := config(t, badGuest)
	cfg.Instances = 1
	e := start(t, cfg)
	over := make(chan struct{})
	var asking sync.WaitGroup
	var answered, rejected atomic.Int64
	for range 8 {
		asking.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if get(e, t.Context(), "/").Status == 200 {
					answered.Add(1)
				} else {
					rejected.Add(1)
				}
			}
		})
	}
	for range 5 {
		enough := answered.Load() + 20
		wait.Until(t, "answers", func() bool { return answered.Load() >= enough })
		if r := get(e, t.Context(), "/trap"); r.Status != 503 {
			t.Errorf("/trap: %d", r.Status)
		}
	}
	close(over)
	asking.Wait()
	if n := rejected.Load(); n != 0 {
		t.Errorf("%d requests failed, though no guest had begun them", n)
	}
	if s := e.Stats(); s.InFlight != 0 || s.Queued != 0 {
		t.Errorf("at the end: %+v", s)
	}
}
