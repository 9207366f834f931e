package wasmhost

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/wasm/abi"
)

// generation is the instances of one module. Each has a slot, in which another
// takes its place when it fails or is full.
type generation struct {
	engine *Engine
	module *Module
	slots  []atomic.Pointer[instance]
	turn   atomic.Uint32
	ending atomic.Bool

	replacing sync.Mutex
	wg        sync.WaitGroup // instances that have not ended, and replacements under way
	owners    sync.WaitGroup
}

// newGeneration starts instances of a module and tests them.
func (e *Engine) newGeneration(ctx context.Context, m *Module) (_ *generation, err error) {
	if err := m.hold(); err != nil {
		return nil, err
	}
	g := &generation{engine: e, module: m, slots: make([]atomic.Pointer[instance], e.cfg.Instances)}
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
		return nil, fmt.Errorf("wasmhost: module %s is refused: %w", short(m.digest), err)
	}
	return g, nil
}

// start puts a new instance into a slot.
func (g *generation) start(ctx context.Context, slot int) error {
	ctx = withSealer(ctx, g.engine.cfg.Sealer)
	mod, err := g.module.instantiate(ctx, &g.engine.cfg)
	if err != nil {
		return err
	}
	in := newInstance(mod, &g.engine.ports, uint32(cmp.Or(g.engine.cfg.MemoryFull, g.module.memoryMax/4)))
	in.stuck = func() {
		g.engine.cfg.Log.Error("a guest does not return and is replaced", "module", short(g.module.digest))
		g.wg.Go(func() { g.replace(slot, in) })
	}
	in.full = func() { g.wg.Go(func() { g.replace(slot, in) }) }
	g.slots[slot].Store(in)
	if g.ending.Load() {
		go in.send(event{kind: draining}) // drain may have looked before it was there
	}
	g.wg.Go(func() { <-in.ended })
	g.owners.Go(func() {
		if err := in.run(context.WithoutCancel(ctx)); err != nil {
			g.engine.cfg.Log.Error("a guest failed and is replaced", "module", short(g.module.digest), "error", err.Error())
			g.replace(slot, in)
		}
	})
	return nil
}

// Pauses between attempts to replace an instance.
const (
	replaceMin = 100 * time.Millisecond
	replaceMax = 5 * time.Second
)

// replace puts another instance into the slot of one that has failed or is
// full, and lets that one end. A full one works on until then.
func (g *generation) replace(slot int, old *instance) {
	for pause := replaceMin; ; pause = min(2*pause, replaceMax) {
		err := g.replaceOnce(slot, old)
		if err == nil {
			break
		}
		g.engine.cfg.Log.Error("a guest cannot be replaced, will try again", "error", err.Error(), "within", pause)
		time.Sleep(pause)
	}
	old.send(event{kind: draining})
}

// replaceOnce starts one instance in the place of the old one, even if that is
// both full and has failed.
func (g *generation) replaceOnce(slot int, old *instance) error {
	g.replacing.Lock()
	defer g.replacing.Unlock()
	if g.ending.Load() || g.slots[slot].Load() != old {
		return nil
	}
	return g.start(context.Background(), slot)
}

// do has one of the instances work on a message.
func (g *generation) do(ctx context.Context, message []byte) ([]byte, error) {
	c := &call{ctx: ctx, message: message, result: make(chan result, 1)}
	first := int(g.turn.Add(1))
	for i := range g.slots {
		if in := g.slots[(first+i)%len(g.slots)].Load(); in != nil && in.send(event{call: c, kind: submitted}) {
			return in.wait(c)
		}
	}
	return nil, errNoGuest
}

// drain ends the instances once their requests are over, and then lets go of the module.
func (g *generation) drain() error {
	g.ending.Store(true)
	for i := range g.slots {
		if in := g.slots[i].Load(); in != nil {
			in.send(event{kind: draining})
		}
	}
	g.wg.Wait()
	returned := make(chan struct{})
	go func() { g.owners.Wait(); close(returned) }()
	select {
	case <-returned:
		return g.module.release()
	case <-time.After(grace):
		// The code that it still runs must stay where it is.
		return fmt.Errorf("wasmhost: a guest of module %s does not return; it ends with this process", short(g.module.digest))
	}
}

// clockOff is by how much a guest's clock may differ from the host's.
const clockOff = time.Second

// selfTest refuses a module whose instances share their randomness, go by
// another clock, or cannot answer.
func (g *generation) selfTest(ctx context.Context) error {
	seen := map[string]bool{}
	for i := range g.slots {
		for range 2 { // of one instance, too
			self, err := g.self(ctx, g.slots[i].Load())
			if err != nil {
				return err
			}
			sec, nsec := g.engine.cfg.Clock.wall()
			if off := self.Now.Sub(time.Unix(sec, int64(nsec))); off.Abs() > clockOff {
				return fmt.Errorf("its clock is off by %s", off)
			}
			if len(self.Random) != 32 || bytes.Equal(self.Random, make([]byte, 32)) || seen[string(self.Random)] {
				return errors.New("what it takes for random repeats itself")
			}
			seen[string(self.Random)] = true
		}
	}
	return g.canary(ctx)
}

func (g *generation) self(ctx context.Context, in *instance) (abi.Self, error) {
	c := &call{ctx: ctx, message: []byte{byte(abi.SelfTest)}, result: make(chan result, 1)}
	if !in.send(event{call: c, kind: submitted}) {
		return abi.Self{}, errPoisoned
	}
	b, err := in.wait(c)
	if err != nil {
		return abi.Self{}, err
	}
	return abi.ReadSelf(b)
}

// canary is a request that the core answers without the KV: if it answers this
// one as it should, it runs.
func (g *generation) canary(ctx context.Context) error {
	b, err := g.do(ctx, abi.AppendRequest([]byte{byte(abi.Handle)}, &web.Request{Method: "GET", Path: "/api/v1/openapi.yaml"}))
	if err != nil {
		return err
	}
	resp, err := abi.ReadResponse(b)
	if err != nil {
		return err
	}
	if resp.Status != 200 || len(resp.Body) == 0 {
		return fmt.Errorf("it answers the canary request with status %d and %d bytes", resp.Status, len(resp.Body))
	}
	return nil
}
