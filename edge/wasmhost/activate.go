package wasmhost

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Errors of an activation without effect.
var (
	ErrActive = errors.New("wasmhost: this module is active already")
	errClosed = errors.New("wasmhost: the engine is closed")
)

// Activate makes a new module handle all new requests after it has passed its tests. Requests in progress
// end in their current guests. If a test fails, the active module is unchanged.
//
// The new module is then on probation: see [Config]. If it fails, the last module that has passed its own
// probation becomes active again.
func (e *Engine) Activate(ctx context.Context, wasm []byte) error {
	digest := digestOf(wasm)
	if e.active(digest) {
		return ErrActive
	}
	begin := time.Now()
	m, err := compile(ctx, wasm, digest, CompileConfig{e.cfg.MemoryMax, e.cfg.Interruptible, e.cfg.Cache})
	if err != nil {
		e.cfg.Guests.ModuleActivated(digest, err)
		return err
	}
	defer m.Close() // the instances keep it
	e.cfg.Guests.ModuleCompiled(time.Since(begin))
	return e.ActivateCompiled(ctx, m)
}

// ActivateCompiled is Activate for a module that several engines share.
func (e *Engine) ActivateCompiled(ctx context.Context, m *Module) error {
	e.activating.Lock()
	defer e.activating.Unlock()
	if e.active(m.digest) {
		return ErrActive
	}
	next, err := e.newGeneration(ctx, m)
	if err == nil {
		err = e.install(next)
	}
	e.cfg.Guests.ModuleActivated(m.digest, err)
	return err
}

// Renew replaces all instances with new instances of the same module, whose caches are empty.
func (e *Engine) Renew(ctx context.Context) error {
	e.activating.Lock()
	defer e.activating.Unlock()
	now := e.generation.Load()
	next, err := e.newGeneration(ctx, now.module)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed():
		go next.drain()
		return errClosed
	case e.generation.Load() != now:
		go next.drain()
		return errors.New("wasmhost: the module failed while its guests were renewed")
	}
	e.take(next)
	e.retire(now)
	return nil
}

// Digest returns the SHA-256 of the active module.
func (e *Engine) Digest() string { return e.generation.Load().module.digest }

func (e *Engine) active(digest string) bool {
	g := e.generation.Load()
	return g != nil && g.module.digest == digest
}

// install makes a generation of another module active, on probation.
func (e *Engine) install(next *generation) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed() {
		go next.drain()
		return errClosed
	}
	now := e.generation.Load()
	e.take(next)
	if now == nil {
		return nil // there is no earlier module
	}
	before := e.forgetBefore()
	if before != nil {
		e.retire(now) // it has not passed its probation
	} else {
		before = now
	}
	if e.cfg.Probation < 0 {
		e.retire(before)
		return nil
	}
	e.before = before
	e.trial++
	trial := e.trial
	e.probationTimer = time.AfterFunc(e.cfg.Probation, func() { e.endProbation(trial) })
	return nil
}

// endProbation ends a probation that the module has passed.
func (e *Engine) endProbation(trial int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.before != nil && e.trial == trial {
		e.retire(e.forgetBefore())
	}
}

// guestFailed is called when a guest of g has failed. It rolls back if g is active and on probation.
func (e *Engine) guestFailed(g *generation, cause string) {
	before := e.rollBack(g)
	if before == nil {
		return
	}
	e.cfg.Log.Error("module failed on probation; previous module restored",
		"digest", g.module.digest, "cause", cause, "before", before.module.digest)
	e.cfg.Guests.ModuleRolledBack(g.module.digest, before.module.digest, cause)
}

func (e *Engine) rollBack(g *generation) (before *generation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.before == nil || e.generation.Load() != g {
		return nil
	}
	before = e.forgetBefore()
	e.take(before)
	e.retire(g)
	return before
}

// take, retire and forgetBefore are called with mu held and before Close.
func (e *Engine) take(g *generation) {
	e.generation.Store(g)
	e.changed.wakeAll()
}

func (e *Engine) retire(g *generation) {
	e.retiring.Go(func() {
		if err := g.drain(); err != nil {
			e.cfg.Log.Error(err.Error())
		}
	})
}

func (e *Engine) forgetBefore() *generation {
	before := e.before
	if e.before = nil; e.probationTimer != nil {
		e.probationTimer.Stop()
	}
	return before
}

func (e *Engine) closed() bool {
	select {
	case <-e.over:
		return true
	default:
		return false
	}
}

// broadcast wakes all receivers of its next channel.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{}
}

func (s *broadcast) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

func (s *broadcast) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}
