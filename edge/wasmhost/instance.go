package wasmhost

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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
	ports  *ports

	reserve, submit, complete, cancel api.Function

	events chan event
	ended  chan struct{} // closed by end: it takes no more events
	end    func()
	since  atomic.Int64 // when the export that runs was called, on the host's clock; 0: none runs

	calls map[uint32]*call
	last  uint32
	limit uint32 // bytes of memory from which on it is to be replaced
	full  func() // called once, when it is
	stuck func() // called when it is given up
}

func newInstance(mod api.Module, p *ports, limit uint32) *instance {
	in := &instance{
		module: mod, ports: p,
		reserve: mod.ExportedFunction("verge_reserve"), submit: mod.ExportedFunction("verge_submit"),
		complete: mod.ExportedFunction("verge_complete"), cancel: mod.ExportedFunction("verge_cancel"),
		events: make(chan event, 256), ended: make(chan struct{}), calls: map[uint32]*call{}, limit: limit,
	}
	in.end = sync.OnceFunc(func() { close(in.ended) })
	return in
}

// call is one request that an instance works on.
type call struct {
	ctx     context.Context
	id      uint32
	message []byte
	result  chan result // one, unless the instance ends before it is begun
	stop    func() bool // ends the watch on ctx
}

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
	defer in.module.Close(ctx)
	drain := false
	for err == nil && !(drain && len(in.calls) == 0) {
		var e event
		select {
		case e = <-in.events:
		case <-in.ended:
			return nil // given up as one that does not return, though now it has
		}
		in.since.Store(int64(time.Since(epoch)))
		switch e.kind {
		case draining:
			drain = true
		case submitted:
			err = in.begin(ctx, e.call)
		case completed:
			if in.calls[e.call.id] == e.call {
				err = in.message(ctx, e.body, func(n uint64) ([]uint64, error) {
					return in.complete.Call(ctx, uint64(e.call.id), uint64(e.op), uint64(e.status), n)
				})
			}
		case cancelled:
			if in.calls[e.call.id] == e.call {
				err = in.export(in.cancel.Call(ctx, uint64(e.call.id), uint64(reasonOf(e.call.ctx))))
			}
		}
		in.since.Store(0)
		if err == nil && in.full != nil && in.module.Memory().Size() > in.limit {
			in.full()
			in.full = nil
		}
	}
	for _, c := range in.calls {
		c.finish(result{err: errPoisoned}) // nothing that it still says could be trusted
	}
	in.end()
	return err
}

// grace is how long a request whose context is done may take to say so, and so
// the longest that an export may run.
const grace = time.Second

// wait returns the result of a request that was sent to the instance, within a
// moment of the end of the request's context.
func (in *instance) wait(c *call) ([]byte, error) {
	var late <-chan time.Time
	over := c.ctx.Done()
	for {
		select {
		case r := <-c.result:
			return r.body, r.err
		case <-in.ended:
			select {
			case r := <-c.result: // it came in the same moment
				return r.body, r.err
			default:
				return nil, errPoisoned
			}
		case <-over:
			over, late = nil, time.After(grace)
		case <-late:
			if since := in.since.Load(); since != 0 && time.Since(epoch)-time.Duration(since) >= grace {
				in.abandon()
			}
			return nil, errLate
		}
	}
}

// abandon gives up an instance that does not return from an export.
func (in *instance) abandon() {
	select {
	case <-in.ended:
		return
	default:
	}
	in.end()
	in.stuck()
	// Ends the export where the module was compiled to be interruptible.
	go in.module.CloseWithExitCode(context.Background(), 1)
}

func reasonOf(ctx context.Context) abi.Reason {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return abi.DeadlineExceeded
	}
	return abi.Canceled
}

func (in *instance) begin(ctx context.Context, c *call) error {
	for in.last++; in.last == 0 || in.calls[in.last] != nil; in.last++ {
	}
	c.id = in.last
	in.calls[c.id] = c
	c.stop = context.AfterFunc(c.ctx, func() { in.send(event{call: c, kind: cancelled}) })
	return in.message(ctx, c.message, func(n uint64) ([]uint64, error) {
		return in.submit.Call(ctx, uint64(c.id), n)
	})
}

// message puts b into the inbox and calls an export with its length.
func (in *instance) message(ctx context.Context, b []byte, export func(n uint64) ([]uint64, error)) error {
	at, err := in.reserve.Call(ctx, uint64(len(b)))
	if err != nil {
		return fmt.Errorf("%w: %w", errPoisoned, err)
	}
	if at[0] == 0 || !in.module.Memory().Write(uint32(at[0]), b) {
		return fmt.Errorf("%w: it grants no room for %d bytes", errPoisoned, len(b))
	}
	return in.export(export(uint64(len(b))))
}

// export reads the outbox that an export has returned.
func (in *instance) export(results []uint64, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errPoisoned, err)
	}
	out, err := in.outbox(uint32(results[0]))
	for err == nil && len(out) > 0 {
		var rec abi.Record
		if rec, out, err = abi.ReadRecord(out); err != nil {
			break
		}
		c := in.calls[rec.Request]
		switch {
		case rec.Kind == abi.Respond && c != nil:
			delete(in.calls, rec.Request)
			if rec.Body == nil {
				c.finish(result{err: errNoResult})
			} else {
				c.finish(result{body: rec.Body})
			}
		case rec.Kind >= abi.Respond:
			in.ports.heed(rec)
		case c != nil:
			go in.carryOut(c, rec)
		default:
			err = fmt.Errorf("an effect of request %d, which is not under way", rec.Request)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errPoisoned, err)
	}
	return nil
}

// carryOut does what a request asks for.
func (in *instance) carryOut(c *call, rec abi.Record) {
	status, body := in.ports.Do(c.ctx, rec.Kind, rec.Body)
	in.send(event{call: c, kind: completed, op: rec.Op, status: status, body: body})
}

// outbox copies what the header points to: the next export changes it.
func (in *instance) outbox(header uint32) ([]byte, error) {
	h, ok := in.module.Memory().Read(header, 12)
	if !ok {
		return nil, errors.New("its header lies outside of its memory")
	}
	at, n := binary.LittleEndian.Uint32(h), binary.LittleEndian.Uint32(h[4:])
	if live := binary.LittleEndian.Uint32(h[8:]); n > abi.MaxOutbox {
		return nil, fmt.Errorf("an outbox of %d bytes, with %d requests", n, live)
	}
	out, ok := in.module.Memory().Read(at, n)
	if !ok {
		return nil, errors.New("its outbox lies outside of its memory")
	}
	return append([]byte(nil), out...), nil
}

func (c *call) finish(r result) {
	c.stop()
	c.result <- r
}
