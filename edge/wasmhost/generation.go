package wasmhost

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/wasm/abi"
)

// generation has the instances of one module. Each instance has a slot. If it fails or is full, another
// instance is put into the slot.
type generation struct {
	engine *Engine
	module *Module
	slots  []atomic.Pointer[instance]
	turn   atomic.Uint32

	mu sync.Mutex // held while an instance is put into its slot
	// the first random bytes of each slot's instance; nil until the instances are tested
	drawn  []string
	ending bool
	over   chan struct{} // closed when ending is set

	ended  sync.WaitGroup // instances that accept requests
	owners sync.WaitGroup // instances whose owner has not returned
}

// newGeneration starts instances of a module and tests them.
func (e *Engine) newGeneration(ctx context.Context, m *Module) (_ *generation, err error) {
	if err := m.hold(); err != nil {
		return nil, err
	}
	g := &generation{
		engine: e,
		module: m,
		slots:  make([]atomic.Pointer[instance], e.cfg.Instances),
		over:   make(chan struct{}),
	}
	defer func() {
		if err != nil {
			g.drain()
		}
	}()
	for i := range g.slots {
		if err := g.start(ctx, i); err != nil {
			return nil, err
		}
	}
	if err := g.selfTest(ctx); err != nil {
		return nil, fmt.Errorf("wasmhost: module %s is rejected: %w", short(m.digest), err)
	}
	return g, nil
}

// start puts a new instance into a slot. If the generation is ending, it closes the instance.
func (g *generation) start(ctx context.Context, slot int) error {
	e, begin := g.engine, time.Now()
	ctx = withSealer(ctx, e.cfg.Sealer)
	stderr := &stderrHead{}
	mod, err := g.prepare(ctx, slot, stderr)
	if err != nil {
		return err
	}
	e.cfg.Guests.GuestStarted(time.Since(begin))
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ending {
		return mod.Close(ctx)
	}
	if err := g.module.hold(); err != nil { // for its owner, which may never return
		return errors.Join(err, mod.Close(ctx))
	}
	in := e.newInstance(g.module, mod, stderr, uint32(cmp.Or(e.cfg.MemoryFull, g.module.memoryMax/4)))
	ctx, in.interrupt = context.WithCancel(context.WithoutCancel(ctx))
	in.stuck = func() { g.failed(slot, in, &failure{causeDeadline, errors.New("it does not return")}) }
	in.full = func() {
		e.cfg.Guests.GuestRecycled()
		g.replace(slot, in)
	}
	e.instances.Add(1)
	g.ended.Go(func() { <-in.ended })
	g.owners.Go(func() {
		defer g.module.release()
		defer e.instances.Add(-1)
		if err := in.run(ctx); err != nil {
			g.failed(slot, in, err)
		}
	})
	g.slots[slot].Store(in)
	e.changed.wakeAll()
	return nil
}

// prepare creates a guest and tests it. If the guest does not return in time, prepare leaves it running,
// with the goroutine that waits for it, because a guest cannot be ended from outside.
func (g *generation) prepare(ctx context.Context, slot int, stderr *stderrHead) (api.Module, error) {
	if err := g.module.hold(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, selfTestTime)
	type guest struct {
		mod api.Module
		err error
	}
	prepared := make(chan guest)
	go func() {
		defer cancel()
		mod, err := g.module.instantiate(ctx, &g.engine.cfg, stderr)
		if err == nil {
			if err = g.testReplacement(ctx, slot, mod); err != nil {
				err = errors.Join(err, mod.Close(ctx))
			}
		}
		// Release before the caller continues: the caller may close the module and expect it to be removed.
		// The guest is closed together with its module.
		g.module.release()
		select {
		case prepared <- guest{mod, err}:
		case <-ctx.Done():
			if err == nil {
				mod.Close(ctx)
			}
		}
	}()
	select {
	case p := <-prepared:
		return p.mod, p.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wasmhost: a guest of module %s does not start in time: %w",
			short(g.module.digest), ctx.Err())
	}
}

// failed replaces an instance that has failed and counts the failure against the module.
func (g *generation) failed(slot int, in *instance, err error) {
	if in.failed.Swap(true) {
		return // an abandoned export has returned late
	}
	cause := causeOf(err)
	g.engine.cfg.Guests.GuestFailed(cause)
	g.engine.cfg.Log.Error("guest failed; replacing it",
		moduleKey, short(g.module.digest), "cause", cause, "error", bounded{err}.Error())
	g.engine.guestFailed(g, cause)
	g.replace(slot, in)
}

// Pauses between attempts to replace an instance.
const (
	replaceMin = 100 * time.Millisecond
	replaceMax = 5 * time.Second
)

// replace puts another instance into the slot of a failed or full one, and ends the old one. An
// instance that is full and then fails is replaced only once. A full instance continues to work until it
// has been replaced.
func (g *generation) replace(slot int, old *instance) {
	if old.replaced.Swap(true) || g.module.hold() != nil {
		return
	}
	go func() {
		defer g.module.release()
		for pause := replaceMin; ; pause = min(2*pause, replaceMax) {
			err := g.start(context.Background(), slot)
			if err == nil {
				break
			}
			g.engine.cfg.Guests.GuestFailed(causeStart)
			g.engine.cfg.Log.Error("guest not replaced; will be tried again",
				moduleKey, short(g.module.digest), "error", bounded{err}.Error(), "within", pause)
			g.engine.guestFailed(g, causeStart)
			select {
			case <-time.After(pause):
			case <-g.over:
				return
			}
		}
		old.send(event{kind: draining})
	}()
}

// do runs a message in one of the instances. errNoGuest means that no instance has begun it.
func (g *generation) do(ctx context.Context, message []byte) ([]byte, error) {
	first := int(g.turn.Add(1))
	for i := range g.slots {
		in := g.slots[(first+i)%len(g.slots)].Load()
		if in == nil {
			continue
		}
		if b, err := in.do(&call{ctx: ctx, message: message,
			result: make(chan result, 1)}); err != errNoGuest {
			return b, err
		}
	}
	return nil, errNoGuest
}

// drain ends the instances after their requests have ended. The last of them releases the module.
func (g *generation) drain() error {
	g.mu.Lock()
	if g.ending {
		g.mu.Unlock()
		return nil
	}
	g.ending = true
	close(g.over)
	g.mu.Unlock()
	defer g.module.release()
	for i := range g.slots {
		if in := g.slots[i].Load(); in != nil {
			in.send(event{kind: draining})
		}
	}
	g.ended.Wait()
	returned := make(chan struct{})
	go func() { g.owners.Wait(); close(returned) }()
	select {
	case <-returned:
		return nil
	case <-time.After(g.engine.cfg.Grace):
		// The code that it still runs stays in memory, because its owner holds the module.
		return fmt.Errorf("wasmhost: a guest of module %s does not return; it ends with this process",
			short(g.module.digest))
	}
}

// selfTestTime is the time limit for all tests of a module together.
const selfTestTime = 30 * time.Second

// clockOff is the maximum difference between a guest's clock and the host's.
const clockOff = time.Second

// offset returns the difference between read and the interval from before to after: zero within it. The
// guest may have waited for a processor after it read its clock.
func offset(read, before, after time.Time) time.Duration {
	switch {
	case read.Before(before):
		return read.Sub(before)
	case read.After(after):
		return read.Sub(after)
	}
	return 0
}

// selfTest rejects a module whose instances share randomness, have a wrong clock, misread the
// rejection of a signature or cannot respond.
func (g *generation) selfTest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, selfTestTime)
	defer cancel()
	seen, drawn := map[string]bool{}, make([]string, len(g.slots))
	for i := range g.slots {
		for n := range 2 { // twice, because one instance may repeat itself as well
			before := g.engine.cfg.Clock.now()
			self, err := g.self(ctx, g.slots[i].Load())
			if err != nil {
				return err
			}
			if off := offset(self.Now, before, g.engine.cfg.Clock.now()); off.Abs() > clockOff {
				return fmt.Errorf("its clock is off by %s", off)
			}
			if self.Signed != abi.NotFound {
				return errSigned
			}
			if !random(self) || seen[string(self.Random)] {
				return errRepeats
			}
			if seen[string(self.Random)] = true; n == 0 {
				drawn[i] = string(self.Random)
			}
		}
	}
	if err := g.canary(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drawn = drawn
	return nil
}

var (
	errRepeats = errors.New("its source of randomness repeats itself")
	errSigned  = errors.New("it misreads the status of an unknown key")
)

func random(self abi.Self) bool {
	return len(self.Random) == 32 && !bytes.Equal(self.Random, make([]byte, 32))
}

// testReplacement rejects a guest whose first random bytes equal those of another guest of its generation.
// selfTest tests the first guests of a generation.
func (g *generation) testReplacement(ctx context.Context, slot int, mod api.Module) error {
	g.mu.Lock()
	tested := g.drawn != nil
	g.mu.Unlock()
	if !tested {
		return nil
	}
	self, err := draw(ctx, mod)
	if err != nil {
		return fmt.Errorf("wasmhost: testing the guest: %w", err)
	}
	if self.Signed != abi.NotFound {
		return fmt.Errorf("wasmhost: the guest is rejected: %w", errSigned)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !random(self) || slices.Contains(g.drawn, string(self.Random)) {
		return fmt.Errorf("wasmhost: the guest is rejected: %w", errRepeats)
	}
	g.drawn[slot] = string(self.Random)
	return nil
}

func (g *generation) self(ctx context.Context, in *instance) (abi.Self, error) {
	b, err := in.do(&call{ctx: ctx, message: []byte{byte(abi.SelfTest)}, result: make(chan result, 1)})
	if err != nil {
		return abi.Self{}, err
	}
	return abi.Read.Self(b)
}

// canary sends a request that the core serves without the KV. A correct response shows that the core
// works.
func (g *generation) canary(ctx context.Context) error {
	request := &web.Request{Method: "GET", Path: abi.CanaryPath}
	b, err := g.do(ctx, abi.Append.Request([]byte{byte(abi.Handle)}, request))
	if err != nil {
		return err
	}
	resp, err := abi.Read.Response(b)
	if err != nil {
		return err
	}
	if resp.Status != 200 || len(resp.Body) == 0 {
		return fmt.Errorf("it returns for the canary request status %d and %d bytes", resp.Status,
			len(resp.Body))
	}
	return nil
}
