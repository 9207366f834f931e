package wasmhost

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/verge-id/verge/wasm/abi"
)

// instance is one guest with its one owner, the goroutine that run is: nobody
// else calls its exports.
type instance struct {
	module api.Module
	engine *Engine
	words  *lastWords
	log    *slog.Logger // of what the guest says

	reserve, submit, complete, cancel api.Function

	events chan event
	ended  chan struct{} // closed by end: it takes no more events
	end    func()
	since  atomic.Int64 // when the export that runs was called, on the host's clock; 0: none runs

	calls  map[uint32]*call
	last   uint32
	limit  uint32 // bytes of memory from which on it is to be replaced
	memory uint32 // bytes that the engine's sum has of it

	replaced atomic.Bool
	failed   atomic.Bool
	full     func() // called by its owner, when its memory is
	stuck    func() // called when it is given up as one that does not return

	// interrupt ends the export that runs, where the module was compiled to be
	// interruptible. Nobody but its owner may close the guest: an export that
	// runs uses what is then gone.
	interrupt context.CancelFunc
}

// call is one request that an instance works on.
type call struct {
	ctx     context.Context
	id      uint32
	message []byte
	state   atomic.Int32
	result  chan result // one, if the instance begins the call and does not end before it
	stop    func() bool // ends the watch on ctx
	asking  bool        // an effect of it is under way; its owner's alone
}

// States of a call: it is the guest's as soon as it is begun, and only until
// then can it be given to another one.
const (
	waiting int32 = iota
	begun
	withdrawn
)

// result is what a request ended with.
type result struct {
	body []byte
	err  error
}

// event is what reaches an instance from outside.
type event struct {
	call   *call
	kind   eventKind
	op     uint32
	status abi.Status
	body   []byte
	err    error // why the effect cannot be one of the core
}

type eventKind uint8

const (
	submitted eventKind = iota
	completed
	cancelled
	draining // end once no request is under way
)

// send gives the instance an event; false if it has ended.
func (in *instance) send(e event) bool {
	select {
	case in.events <- e:
		return true
	case <-in.ended:
		return false
	}
}

// run owns the instance until it has drained, nil, or failed.
func (in *instance) run(ctx context.Context) (err error) {
	defer in.weigh(0)
	defer in.interrupt()
	defer in.module.Close(context.WithoutCancel(ctx))
	drain := false
	for err == nil && !(drain && len(in.calls) == 0) {
		var e event
		select {
		case <-in.ended:
		case e = <-in.events:
		}
		select {
		case <-in.ended:
			return nil // given up as one that does not return, though now it has
		default:
		}
		in.since.Store(int64(time.Since(epoch)))
		switch e.kind {
		case draining:
			drain = true
		case submitted:
			err = in.begin(ctx, e.call)
		case completed:
			e.call.asking = false
			switch {
			case e.err != nil:
				err = &failure{CauseProtocol, e.err}
			case in.calls[e.call.id] == e.call:
				err = in.message(ctx, e.call, e.body, func(n uint64) ([]uint64, error) {
					return in.complete.Call(ctx, uint64(e.call.id), uint64(e.op), uint64(e.status), n)
				})
			}
		case cancelled:
			if in.calls[e.call.id] == e.call {
				var results []uint64
				results, err = in.cancel.Call(ctx, uint64(e.call.id), uint64(reasonOf(e.call.ctx)))
				err = in.export(e.call, results, err)
				if err == nil && in.calls[e.call.id] == e.call {
					err = &failure{CauseProtocol, errDeaf}
				}
			}
		}
		in.since.Store(0)
		if err == nil {
			size := in.module.Memory().Size()
			in.weigh(size)
			if in.full != nil && size > in.limit {
				in.full()
				in.full = nil
			}
		}
	}
	for _, c := range in.calls {
		c.finish(result{err: errPoisoned}) // nothing that it still says could be trusted
	}
	in.end()
	return err
}

// errDeaf: such a request would be under way for ever, and the end of its guest
// would wait for it.
var errDeaf = errors.New("it does not answer a request that was cancelled")

// weigh keeps the engine's sum of memory.
func (in *instance) weigh(size uint32) {
	if size != in.memory {
		in.engine.memory.Add(int64(size) - int64(in.memory))
		in.memory = size
	}
}

// grace is how long a request whose context is done may take to say so, and so
// the longest that an export may run.
const grace = time.Second

// do has the instance work on a call, and returns within a moment of the end of
// the call's context. errNoGuest says that it has not begun.
func (in *instance) do(c *call) ([]byte, error) {
	in.engine.queued.Add(1)
	select {
	case in.events <- event{call: c, kind: submitted}:
	case <-in.ended:
		in.engine.queued.Add(-1)
		return nil, errNoGuest
	case <-c.ctx.Done():
		in.engine.queued.Add(-1)
		in.abandonIfStuck() // its queue is full
		return nil, errLate
	}
	var late <-chan time.Time
	over := c.ctx.Done()
	for {
		select {
		case r := <-c.result:
			return r.body, r.err
		case <-in.ended:
			if in.withdraw(c) {
				return nil, errNoGuest
			}
			select {
			case r := <-c.result: // it came in the same moment
				return r.body, r.err
			default:
				return nil, errPoisoned
			}
		case <-over:
			if in.withdraw(c) {
				in.abandonIfStuck()
				return nil, errLate
			}
			over, late = nil, time.After(grace)
		case <-late:
			in.abandonIfStuck()
			return nil, errLate
		}
	}
}

// withdraw takes back a call that has not begun, and then never will.
func (in *instance) withdraw(c *call) bool {
	if !c.state.CompareAndSwap(waiting, withdrawn) {
		return false
	}
	in.engine.queued.Add(-1)
	return true
}

// abandonIfStuck gives up an instance that does not return from an export.
func (in *instance) abandonIfStuck() {
	since := in.since.Load()
	if since == 0 || time.Since(epoch)-time.Duration(since) < grace {
		return
	}
	select {
	case <-in.ended:
		return
	default:
	}
	in.end()
	in.stuck()
	in.interrupt()
}

func reasonOf(ctx context.Context) abi.Reason {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return abi.DeadlineExceeded
	}
	return abi.Canceled
}

func (in *instance) begin(ctx context.Context, c *call) error {
	if !c.state.CompareAndSwap(waiting, begun) {
		return nil
	}
	in.engine.queued.Add(-1)
	c.stop = func() bool { return true }
	switch {
	case c.ctx.Err() != nil:
		c.finish(result{err: errLate}) // its answer would reach nobody
		return nil
	case len(c.message) > abi.MaxInbox:
		c.finish(result{err: errTooLarge})
		return nil
	}
	for in.last++; in.last == 0 || in.calls[in.last] != nil; in.last++ {
	}
	c.id = in.last
	in.calls[c.id] = c
	c.stop = context.AfterFunc(c.ctx, func() { in.send(event{call: c, kind: cancelled}) })
	return in.message(ctx, c, c.message, func(n uint64) ([]uint64, error) {
		return in.submit.Call(ctx, uint64(c.id), n)
	})
}

// message puts b into the inbox and calls an export with its length, for c.
func (in *instance) message(ctx context.Context, c *call, b []byte, export func(n uint64) ([]uint64, error)) error {
	at, err := in.reserve.Call(ctx, uint64(len(b)))
	if err != nil {
		return in.trapped(err)
	}
	if at[0] == 0 || !in.module.Memory().Write(uint32(at[0]), b) {
		return &failure{CauseProtocol, fmt.Errorf("it grants no room for %d bytes", len(b))}
	}
	results, err := export(uint64(len(b)))
	return in.export(c, results, err)
}

// export hears the outbox that an export has returned which was called for c.
func (in *instance) export(c *call, results []uint64, err error) error {
	if err != nil {
		return in.trapped(err)
	}
	out, err := outbox(in.module, uint32(results[0]))
	if err == nil {
		err = in.hear(c, out)
	}
	if err != nil {
		return &failure{CauseProtocol, err}
	}
	return nil
}

// carryOut does what a request asks for.
func (in *instance) carryOut(c *call, rec abi.Record) {
	begin := time.Now()
	done := event{call: c, kind: completed, op: rec.Op}
	defer func() {
		if v := recover(); v != nil {
			// The value may quote what was asked; its type and place are enough.
			in.engine.cfg.Log.Error("panic in an effect", "type", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
			done.status, done.body = lost(rec.Kind, "the host failed")
		}
		in.send(done)
	}()
	if err := c.ctx.Err(); err != nil {
		// Nobody waits for it, as the guest hears next. It is not begun, so
		// that nothing of a request reaches the store after its answer.
		if done.status, done.body = lost(rec.Kind, err.Error()); rec.Kind == abi.KVCommit {
			done.status = abi.Unavailable
		}
		return
	}
	done.status, done.body, done.err = in.engine.ports.Carry(c.ctx, rec.Kind, rec.Body)
	if len(done.body) > abi.MaxInbox {
		done.status, done.body = lost(rec.Kind, fmt.Sprintf("a reply of %d bytes is too large for a guest", len(done.body)))
	}
	if name := effectNames[rec.Kind]; name != "" {
		in.engine.cfg.Observer.EffectDone(name, time.Since(begin))
	}
}

// outbox copies what the header points to: the next export changes it.
func outbox(m api.Module, header uint32) ([]byte, error) {
	h, ok := m.Memory().Read(header, 12)
	if !ok {
		return nil, errors.New("its header lies outside of its memory")
	}
	at, n := binary.LittleEndian.Uint32(h), binary.LittleEndian.Uint32(h[4:])
	if live := binary.LittleEndian.Uint32(h[8:]); n > abi.MaxOutbox {
		return nil, fmt.Errorf("an outbox of %d bytes, with %d requests", n, live)
	}
	out, ok := m.Memory().Read(at, n)
	if !ok {
		return nil, errors.New("its outbox lies outside of its memory")
	}
	return append([]byte(nil), out...), nil
}

func (c *call) finish(r result) {
	c.stop()
	c.result <- r
}

// newInstance returns the guest as one that takes requests once run is called.
func (e *Engine) newInstance(m *Module, mod api.Module, words *lastWords, limit uint32) *instance {
	in := &instance{
		module: mod, engine: e, words: words, log: e.cfg.Log.With(moduleKey, short(m.digest)),
		reserve: mod.ExportedFunction("verge_reserve"), submit: mod.ExportedFunction("verge_submit"),
		complete: mod.ExportedFunction("verge_complete"), cancel: mod.ExportedFunction("verge_cancel"),
		events: make(chan event, 256), ended: make(chan struct{}), calls: map[uint32]*call{}, limit: limit,
	}
	in.end = sync.OnceFunc(func() { close(in.ended) })
	in.weigh(mod.Memory().Size())
	return in
}
