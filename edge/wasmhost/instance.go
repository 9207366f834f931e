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

// instance is one guest. The goroutine of run owns it. Only the owner calls its exports.
type instance struct {
	module api.Module
	engine *Engine
	stderr *stderrHead
	log    *slog.Logger // for the guest's own log lines

	reserve, submit, complete, cancel api.Function

	events chan event
	ended  chan struct{} // closed by end; the instance then accepts no further events
	end    func()
	since  atomic.Int64 // start of the running export on the host's clock; 0: none is running

	calls  map[uint32]*call
	last   uint32
	limit  uint32 // bytes of memory above which the instance is replaced
	memory uint32 // bytes of this instance in the engine's total

	replaced atomic.Bool
	failed   atomic.Bool
	full     func() // called by the owner when the memory is full
	stuck    func() // called when the instance is abandoned because it does not return

	// interrupt ends the running export, if the module was compiled to be interruptible. Only the owner may
	// close the guest, because closing removes data that a running export uses.
	interrupt context.CancelFunc
}

// call is one request that an instance handles.
type call struct {
	ctx     context.Context
	id      uint32
	message []byte
	state   atomic.Int32
	result  chan result // receives one result if the instance begins the call
	stop    func() bool // stops watching ctx
	asking  bool        // one of its effects is in progress; only the owner uses this
}

// States of a call. A call that a guest has begun cannot be given to another guest.
const (
	waiting int32 = iota
	begun
	withdrawn
)

// result is the result of a call.
type result struct {
	body []byte
	err  error
}

// event is an input of an instance.
type event struct {
	call   *call
	kind   eventKind
	op     uint32
	status abi.Status
	body   []byte
	err    error // reason why the effect is not one of the core's
}

type eventKind uint8

const (
	submitted eventKind = iota
	completed
	cancelled
	draining // end when no requests are in progress
)

// send passes an event to the instance. It returns false if the instance has ended.
func (in *instance) send(e event) bool {
	select {
	case in.events <- e:
		return true
	case <-in.ended:
		return false
	}
}

// run owns the instance until it has drained (it returns nil) or failed.
func (in *instance) run(ctx context.Context) (err error) {
	defer in.countMemory(0)
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
			return nil // it was abandoned, and its export has now returned
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
				err = &failure{causeProtocol, e.err}
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
					err = &failure{causeProtocol, errNoReaction}
				}
			}
		}
		in.since.Store(0)
		if err == nil {
			size := in.module.Memory().Size()
			in.countMemory(size)
			if in.full != nil && size > in.limit {
				in.full()
				in.full = nil
			}
		}
	}
	for _, c := range in.calls {
		c.finish(result{err: errPoisoned}) // all further output of the guest is untrusted
	}
	in.end()
	return err
}

// errNoReaction ends a guest with such a request: otherwise the request would never end, and the guest's
// end would wait for it.
var errNoReaction = errors.New("it does not return from a cancelled request")

// countMemory updates the engine's total memory.
func (in *instance) countMemory(size uint32) {
	if size != in.memory {
		in.engine.memory.Add(int64(size) - int64(in.memory))
		in.memory = size
	}
}

// do runs a call in the instance. It returns at most the grace period after the end of the call's context.
// errNoGuest means that the instance has not begun the call.
func (in *instance) do(c *call) ([]byte, error) {
	in.engine.queued.Add(1)
	select {
	case in.events <- event{call: c, kind: submitted}:
	case <-in.ended:
		in.engine.queued.Add(-1)
		return nil, errNoGuest
	case <-c.ctx.Done():
		in.engine.queued.Add(-1)
		in.abandonIfStuck() // the queue is full
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
			case r := <-c.result: // the result arrived at the same moment
				return r.body, r.err
			default:
				return nil, errPoisoned
			}
		case <-over:
			if in.withdraw(c) {
				in.abandonIfStuck()
				return nil, errLate
			}
			over, late = nil, time.After(in.engine.cfg.Grace)
		case <-late:
			in.abandonIfStuck()
			return nil, errLate
		}
	}
}

// withdraw withdraws a call that has not begun, and reports whether it could. The call then never begins.
func (in *instance) withdraw(c *call) bool {
	if !c.state.CompareAndSwap(waiting, withdrawn) {
		return false
	}
	in.engine.queued.Add(-1)
	return true
}

// abandonIfStuck abandons an instance whose export does not return.
func (in *instance) abandonIfStuck() {
	since := in.since.Load()
	if since == 0 || time.Since(epoch)-time.Duration(since) < in.engine.cfg.Grace {
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
		c.finish(result{err: errLate}) // the caller has disconnected, so no one would receive the response
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

// message writes b to the inbox and calls an export for c with the length of b.
func (in *instance) message(
	ctx context.Context, c *call, b []byte, export func(n uint64) ([]uint64, error),
) error {
	at, err := in.reserve.Call(ctx, uint64(len(b)))
	if err != nil {
		return in.trapped(err)
	}
	if at[0] == 0 || !in.module.Memory().Write(uint32(at[0]), b) {
		return &failure{causeProtocol, fmt.Errorf("it grants no room for %d bytes", len(b))}
	}
	results, err := export(uint64(len(b)))
	return in.export(c, results, err)
}

// export reads the outbox that an export returned for c.
func (in *instance) export(c *call, results []uint64, err error) error {
	if err != nil {
		return in.trapped(err)
	}
	out, err := outbox(in.module, uint32(results[0]))
	if err == nil {
		err = in.handleOutbox(c, out)
	}
	if err != nil {
		return &failure{causeProtocol, err}
	}
	return nil
}

// carryOut carries out an effect for a request.
func (in *instance) carryOut(c *call, rec abi.Record) {
	begin := time.Now()
	done := event{call: c, kind: completed, op: rec.Op}
	defer func() {
		if v := recover(); v != nil {
			// The value may quote the effect, so only its type and its stack are logged.
			in.engine.cfg.Log.Error("panic in an effect", "type", fmt.Sprintf("%T", v), "stack",
				string(debug.Stack()))
			done.status, done.body = lost(rec.Kind, "the host failed")
		}
		in.send(done)
	}()
	if err := c.ctx.Err(); err != nil {
		// The caller has disconnected, and the guest's next event is the cancellation. The effect is not
		// begun, so that no effect of a request reaches the store after its response.
		if done.status, done.body = lost(rec.Kind, err.Error()); rec.Kind == abi.KVCommit {
			done.status = abi.Unavailable
		}
		return
	}
	name := effectNames[rec.Kind]
	ctx, ended := in.engine.cfg.Effect(c.ctx, name)
	defer ended()
	done.status, done.body, done.err = in.engine.ports.Carry(ctx, rec.Kind, rec.Body)
	if len(done.body) > abi.MaxInbox {
		done.status, done.body = lost(rec.Kind, fmt.Sprintf("a reply of %d bytes is too large for a guest",
			len(done.body)))
	}
	if name != "" {
		in.engine.cfg.Guests.EffectDone(name, time.Since(begin))
	}
}

// outbox returns a copy of the bytes at the header's address, because the next export changes them.
func outbox(m api.Module, header uint32) ([]byte, error) {
	h, ok := m.Memory().Read(header, 12)
	if !ok {
		return nil, errors.New("its header is outside of its memory")
	}
	at, n := binary.LittleEndian.Uint32(h), binary.LittleEndian.Uint32(h[4:])
	if live := binary.LittleEndian.Uint32(h[8:]); n > abi.MaxOutbox {
		return nil, fmt.Errorf("an outbox of %d bytes, with %d requests", n, live)
	}
	out, ok := m.Memory().Read(at, n)
	if !ok {
		return nil, errors.New("its outbox is outside of its memory")
	}
	return append([]byte(nil), out...), nil
}

func (c *call) finish(r result) {
	c.stop()
	c.result <- r
}

// newInstance returns an instance of the guest. It handles requests when run is called.
func (e *Engine) newInstance(m *Module, mod api.Module, stderr *stderrHead, limit uint32) *instance {
	in := &instance{
		module: mod, engine: e, stderr: stderr, log: e.cfg.Log.With(moduleKey, short(m.digest)),
		reserve: mod.ExportedFunction("verge_reserve"), submit: mod.ExportedFunction("verge_submit"),
		complete: mod.ExportedFunction("verge_complete"), cancel: mod.ExportedFunction("verge_cancel"),
		events: make(chan event, 256), ended: make(chan struct{}), calls: map[uint32]*call{}, limit: limit,
	}
	in.end = sync.OnceFunc(func() { close(in.ended) })
	in.countMemory(mod.Memory().Size())
	return in
}
