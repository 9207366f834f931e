package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

// readiness returns the first reason why the guest is not ready: ring is the error of the key ring, and store
// the one of the KV. A KV that does not respond hides no ring that does not fit, because balancers ignore the
// KV alone.
func readiness(ring, store error) error {
	if store == nil || errors.Is(ring, keyset.ErrUnfit) {
		return ring
	}
	return store
}

// service is the part of the core that the guest calls.
type service interface {
	Handle(ctx context.Context, req *web.Request) *web.Response
	Admin(ctx context.Context, req *web.Request) *web.Response
	Ready(ctx context.Context) error
	Claim(ctx context.Context, p kv.Partition, n int) (jobs []host.Job, next time.Time, err error)
	Run(ctx context.Context, job host.Job) error
	Defer(ctx context.Context, job host.Job, until time.Time) error
	RunDue(ctx context.Context) (next time.Time, err error)
	Apply(ctx context.Context, site []byte) error
	Record(ctx context.Context, t host.Totals) error
}

var _ service = (*core.Service)(nil)

// guest runs requests concurrently on one thread. Each is a coroutine, which is parked while the host
// carries out one of its effects. The exports call its methods, one at a time.
type guest struct {
	service service
	tasks   map[uint32]*task
	running *task // the task whose coroutine has the thread
	ops     uint32
	idle    []*routine
	out     []byte // the outbox
	scratch []byte // memory for the body of the next record

	ring      *keyset.Ring // nil: the host seals, or no other guest uses the ring
	met       time.Time    // when the ring was last compared with the store's set of keys
	tended    time.Time    // time of the last attempt
	lastError string       // the last reported error of the ring
}

// task is a request in progress.
type task struct {
	id      uint32
	ctx     taskContext
	routine *routine
	op      uint32 // the effect for which it waits; 0: none
	kind    abi.Kind
	status  abi.Status // of the reply to that effect
	reply   []byte
	over    bool
}

func newGuest(s service) *guest { return &guest{service: s, tasks: map[uint32]*task{}} }

// submit begins a request and runs it until it has ended or is parked.
func (g *guest) submit(id uint32, message []byte) {
	if g.tasks[id] != nil {
		// the host has an invalid state, so its messages cannot be trusted
		panic(fmt.Sprintf("request %d is already active", id))
	}
	t := &task{id: id}
	g.tasks[id] = t
	t.routine = g.routine()
	t.routine.job = func() {
		defer g.finish(t)
		g.serve(t, message)
	}
	g.resume(t)
}

// complete gives a task the reply to its effect. If the request was cancelled in the meantime, the reply is
// dropped.
func (g *guest) complete(id, op uint32, status abi.Status, reply []byte) {
	if t := g.tasks[id]; t != nil && t.op == op && op != 0 {
		t.status, t.reply = status, reply
		g.resume(t)
	}
}

// cancel ends the context of a request. The effect for which it waits counts as lost. Its later effects are
// not sent.
func (g *guest) cancel(id uint32, reason abi.Reason) {
	t := g.tasks[id]
	if t == nil {
		return
	}
	t.ctx.end(reason)
	if t.op != 0 {
		t.status, t.reply = abandoned(t.kind, t.ctx.Err())
		g.resume(t)
	}
}

// abandoned returns the reply to an effect for which the request no longer waits.
func abandoned(k abi.Kind, err error) (abi.Status, []byte) {
	switch k {
	case abi.KVCommit:
		return abi.Unknown, []byte(err.Error())
	case abi.Fetch:
		return abi.NoResponse, abi.Append.FetchError(nil, host.FetchTimeout, err.Error())
	}
	return abi.Unavailable, []byte(err.Error())
}

// resume gives the thread to a task until it has ended or is parked.
func (g *guest) resume(t *task) {
	t.op = 0
	before := g.running
	g.running = t
	t.routine.resume()
	g.running = before
	if t.over {
		delete(g.tasks, t.id)
		t.routine.job = nil
		g.idle = append(g.idle, t.routine)
	}
}

// effect makes the host carry out an effect of the running task and returns the reply.
func (g *guest) effect(k abi.Kind, body []byte) (abi.Status, []byte) {
	t := g.running
	if err := t.ctx.Err(); err != nil {
		if k == abi.KVCommit {
			return abi.Unavailable, []byte(err.Error()) // it was not sent, so nothing changed
		}
		return abandoned(k, err)
	}
	if g.ops++; g.ops == 0 {
		g.ops = 1
	}
	t.op, t.kind = g.ops, k
	g.put(t.id, t.op, k, body)
	t.routine.park()
	reply := t.reply
	t.reply = nil
	return t.status, reply
}

// notice sends the host a notice of the running task.
func (g *guest) notice(k abi.Kind, body []byte) {
	id := uint32(0)
	if g.running != nil {
		id = g.running.id
	}
	g.put(id, 0, k, body)
}

func (g *guest) put(request, op uint32, k abi.Kind, body []byte) {
	g.out = abi.Append.Record(g.out, abi.Record{Request: request, Op: op, Kind: k, Body: body})
	if cap(body) > cap(g.scratch) && cap(body) <= maxKept {
		g.scratch = body[:0]
	}
}

// body returns an empty buffer for the body of the next record. put keeps the buffer with its size.
func (g *guest) body() []byte { return g.scratch[:0] }

// maxKept is the maximum size of a buffer that is reused, so that one large page of a list does not keep
// its memory indefinitely.
const maxKept = 64 << 10

// finish ends a request that panicked with a response that denies. The other requests are unaffected.
func (g *guest) finish(t *task) {
	if v := recover(); v != nil {
		// The value may quote the request, so only its type and its stack are logged.
		g.log(abi.LogRecord{Level: 8, Message: "panic in a request", Attrs: []abi.LogAttr{
			{Key: "type", Value: quoted(fmt.Sprintf("%T", v))},
			{Key: "stack", Value: quoted(string(debug.Stack()))}}})
		g.put(t.id, 0, abi.Respond, nil)
	}
	t.over = true
}

// serve runs the entry of a request and writes its result to the outbox. An empty result means that there
// is no result.
func (g *guest) serve(t *task, message []byte) {
	result, err := g.enter(t, message)
	if err != nil {
		g.log(abi.LogRecord{
			Level:   8,
			Message: "the host submitted what is no entry",
			Attrs:   []abi.LogAttr{{Key: "error", Value: quoted(err.Error())}},
		})
	}
	g.put(t.id, 0, abi.Respond, result)
}

// enter runs an entry and returns its result. It returns an error if the message is malformed.
func (g *guest) enter(t *task, message []byte) ([]byte, error) {
	if len(message) == 0 {
		return nil, errors.New("it is empty")
	}
	entry, body := abi.Entry(message[0]), message[1:]
	switch entry {
	case abi.Handle, abi.HandleAgain, abi.Admin:
		req, err := abi.Read.Request(body)
		if err != nil {
			return nil, err
		}
		req.Again = entry == abi.HandleAgain
		handle := g.service.Handle
		if entry == abi.Admin {
			handle = g.service.Admin
		}
		resp := handle(&t.ctx, req)
		return abi.Append.Response(g.body(), resp), nil
	case abi.Ready:
		err := g.service.Ready(&t.ctx)
		if g.ring != nil {
			err = readiness(g.ring.Ready(), err)
		}
		return outcome(err), nil
	case abi.ClaimDue:
		c, err := abi.Read.ClaimJobs(body)
		if err != nil {
			return nil, err
		}
		jobs, next, err := g.service.Claim(&t.ctx, c.Partition, c.N)
		return abi.Append.Jobs(nil, abi.Jobs{Jobs: jobs, Next: next, Outcome: abi.OutcomeOf(err)}), nil
	case abi.Run, abi.Defer:
		job, until, err := abi.Read.Job(body)
		if err != nil {
			return nil, err
		}
		if entry == abi.Run {
			return outcome(g.service.Run(&t.ctx, job)), nil
		}
		return outcome(g.service.Defer(&t.ctx, job, until)), nil
	case abi.RunDue:
		next, err := g.service.RunDue(&t.ctx)
		return abi.Append.Jobs(nil, abi.Jobs{Next: next, Outcome: abi.OutcomeOf(err)}), nil
	case abi.Apply:
		g.tend(&t.ctx) // the site must be marked with the active key of the whole fleet
		return outcome(g.service.Apply(&t.ctx, body)), nil
	case abi.RecordUsage:
		totals, err := abi.Read.Totals(body)
		if err != nil {
			return nil, err
		}
		return outcome(g.service.Record(&t.ctx, totals)), nil
	case abi.SelfTest:
		return g.selfTest(&t.ctx), nil
	}
	return nil, fmt.Errorf("there is no entry %d", entry)
}

// outcome returns the result of an entry that only succeeds or fails.
func outcome(err error) []byte { return abi.Append.Outcome(nil, abi.OutcomeOf(err)) }

// selfTest returns random bytes, the time, and whether the host signs.
func (g *guest) selfTest(ctx context.Context) []byte {
	random := make([]byte, 32)
	rand.Read(random) // it never fails
	// The clock is read before the effect, since a host compares it with its own at the submit.
	self := abi.Self{Random: random, Now: time.Now(), Signed: abi.Failed}
	switch _, err := effect.Signer(g.effect).Sign(ctx, abi.TestKey, "ES256", []byte(abi.TestKey)); {
	case err == nil:
		self.Signed = abi.OK
	case errors.Is(err, host.ErrNoSuchKey):
		self.Signed = abi.NotFound
	}
	return abi.Append.Self(nil, self)
}

// take returns the content of the outbox. It is valid until the next export is called.
func (g *guest) take() []byte {
	out := g.out
	if g.out = g.out[:0]; cap(out) > maxKept {
		g.out = nil
	}
	return out
}

func (g *guest) log(l abi.LogRecord) { g.notice(abi.Log, abi.Append.Log(nil, l)) }

// Count implements host.Observer.
func (g *guest) Count(event string) { g.notice(abi.Count, []byte(event)) }

// CountUsage implements host.Observer.
func (g *guest) CountUsage(t host.UsageEvent) {
	g.notice(abi.UsageEvent, abi.Append.UsageEvent(g.body(), t))
}

// About implements host.Observer.
func (g *guest) About(_ context.Context, a host.RequestInfo) {
	g.notice(abi.About, abi.Append.About(g.body(), a))
}

// Wake implements host.Observer.
func (g *guest) Wake(p kv.Partition, due time.Time) { g.notice(abi.Wake, abi.Append.Wake(nil, p, due)) }

// Measure implements host.Observer.
func (g *guest) Measure(m host.Measurement) {
	g.notice(abi.Measure, abi.Append.MethodEvent(nil,
		abi.MethodEvent{Method: m.Method, Event: m.Event, Reason: m.Reason}))
}
