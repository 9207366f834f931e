package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/signing"
)

// instance is one process of the service, from its start to its death. It has the real core, and is the
// core's host.
type instance struct {
	w           *world
	n           int // of the machine
	name        string
	dead        bool
	frozenUntil time.Time
	cutUntil    time.Time    // of the partition below
	cut         kv.Partition // which it does not reach

	random  random
	logging bool // a log line is being written, under a lock of the core

	trust   proofSettings // that it runs with
	ring    *keyset.Ring
	service *core.Service // nil until it has started

	wake   *signal   // of the runner
	wakeAt time.Time // when the runner claims again, by the instance's clock
}

var _ host.Observer = (*instance)(nil)

// clock is the clock of one machine: an instance that comes back has the same.
type clock struct {
	offset time.Duration
	drift  int // in a thousand
}

func (c *clock) at(t time.Time) time.Time {
	return t.Add(c.offset + t.Sub(epoch)*time.Duration(c.drift)/1000)
}

func newInstance(w *world, n int, seed uint64) *instance {
	return &instance{w: w, n: n, name: fmt.Sprintf("instance %d", n+1), random: random{seed}, wake: &signal{}}
}

// start creates the core on the store, as edge.Open does.
func (in *instance) start(ctx context.Context, ring keyring.File, clock *clock, trust proofSettings) error {
	now := func() time.Time {
		in.w.point(in.w)
		return clock.at(in.w.now)
	}
	log := slog.New(logHandler{in})
	if in.ring == nil {
		var err error
		in.ring, err = keyset.New(keyset.Config{Name: hostName, Keyring: ring,
			Host: host.Host{KV: port{in}, Now: now, Random: entropy{in}, Log: log}})
		if err != nil {
			return err
		}
	} else if len(ring.Keys) != len(in.ring.KeyIDs()) {
		if err := in.ring.Use(ring); err != nil {
			return err
		}
	}
	if err := in.ring.Refresh(ctx); err != nil {
		return err
	}
	if err := in.ring.Ready(); err != nil {
		return err
	}
	in.trust = trust
	service, err := core.New(
		configOf(in.w.config, trust),
		host.Host{KV: in.ring.KV(), Sealer: in.ring, Fetch: fetcher{in},
			Sign: in.sign, Verify: verify, Now: now, Random: entropy{in}, Log: log, Observer: in},
	)
	if err != nil {
		return err
	}
	in.service = service
	return nil
}

// verification is a call of host.VerifyFunc.
type verification struct{ algorithm, publicKey, message, signature string }

// verified has the results of the latest verifications in this process. Half of them are repeated, since all
// histories have the same issuers.
var verified = sync.OnceValue(func() *lru.Cache[verification, bool] {
	cache, err := lru.New[verification, bool](4096)
	must(err)
	return cache
})

// verify implements host.VerifyFunc.
func verify(ctx context.Context, algorithm string, publicKey, message, signature []byte) (bool, error) {
	this := verification{algorithm, string(publicKey), string(message), string(signature)}
	if good, ok := verified().Get(this); ok {
		return good, nil
	}
	good, err := signing.Verify(ctx, algorithm, publicKey, message, signature)
	if err == nil {
		verified().Add(this, good)
	}
	return good, err
}

// entropy is the instance's randomness as a port.
type entropy struct{ *instance }

func (e entropy) Read(p []byte) (int, error) {
	if !e.logging {
		e.w.point(e.w)
	}
	return e.random.Read(p)
}

// About implements host.Observer.
func (in *instance) About(context.Context, host.RequestInfo) {}

// Count implements host.Observer.
func (in *instance) Count(string) {}

// Measure implements host.Observer.
func (in *instance) Measure(host.Measurement) {}

// CountUsage implements host.Observer.
func (in *instance) CountUsage(host.UsageEvent) {}

// Wake implements host.Observer.
func (in *instance) Wake(_ kv.Partition, due time.Time) {
	if in.w.point(in.w) && (in.wakeAt.IsZero() || due.Before(in.wakeAt)) {
		in.wakeAt, in.wake.set = due, true
	}
}

// logHandler looks for secrets in the log (contract 13).
type logHandler struct{ in *instance }

func (h logHandler) Enabled(context.Context, slog.Level) bool {
	h.in.logging = true
	return true
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	h.in.logging = false
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		h.in.w.judge.logged(h.in.name, a.Value.String())
		switch a.Key {
		case "session",
			"method",
			"reason",
			"result",
			"state",
			"code",
			"type",
			"last",
			"error",
			"operation":
			line += " " + a.Key + "=" + short(a.Value.String())
		}
		return true
	})
	h.in.w.judge.logged(h.in.name, r.Message)
	if r.Level >= slog.LevelInfo && !h.in.dead {
		h.in.w.tell(h.in.name, "logs %s", line)
	}
	return nil
}

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h logHandler) WithGroup(string) slog.Handler      { return h }

// port is the store as the instance reaches it.
type port struct{ in *instance }

var (
	_ kv.KV    = port{}
	_ kv.Meter = port{}
)

var errFault = errors.New("simulation: fault of the store")

// fault chooses the fault of a call, before it is made.
func (p port) fault(partition kv.Partition, what string) faultSwitch {
	w := p.in.w
	t := w.current
	switch {
	case t == nil:
		return switches
	case !t.deadline.IsZero() && w.now.After(t.deadline):
		return switchReject // the adapters of stores begin no call after the request's time
	case w.healed:
		return switches
	}
	if partition == p.in.cut && w.now.Before(p.in.cutUntil) {
		w.met(switchCut)
		return switchReject
	}
	faults := []faultSwitch{switchReject, switchLoseRequest, switchLoseReply, switchLate}
	switch what { // each of them fails in the same way
	case "claim":
		faults = []faultSwitch{switchReject, switchLoseReply}
	case "get", "list", "spend":
		faults = faults[:1]
	}
	for _, f := range faults {
		if w.rate[f] > 0 && t.port.chance(w.rate[f]) {
			w.met(f)
			w.tell(t.name, "%s of %s: %s", what, partition, switchInfo[f].name)
			return f
		}
	}
	return switches
}

// Get implements kv.KV.
func (p port) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	w := p.in.w
	if !w.point(w) || p.fault(key.Partition, "get") != switches {
		return kv.Item{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	}
	it, err := w.kv.Get(ctx, key)
	if !w.point(w) {
		return kv.Item{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	}
	return it, err
}

// List implements kv.KV.
func (p port) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	w := p.in.w
	if !w.point(w) || p.fault(prefix.Partition, "list") != switches {
		return nil, fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	}
	items, err := w.kv.List(ctx, prefix, after, n)
	if !w.point(w) {
		return nil, fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	}
	return items, err
}

// Claim implements kv.KV.
func (p port) Claim(
	ctx context.Context, partition kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	w := p.in.w
	if !w.point(w) {
		return nil, time.Time{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	}
	f := p.fault(partition, "claim")
	if f != switches && f != switchLoseReply {
		return nil, time.Time{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	}
	if w.current != nil && !w.healed && w.current.port.chance(w.rate[switchPassOver]) {
		w.met(switchPassOver)
		n = 1
	}
	tasks, next, err := w.kv.Claim(ctx, partition, now, lease, n)
	if !w.point(w) || f == switchLoseReply {
		return nil, time.Time{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	}
	return tasks, next, err
}

// Spend implements kv.Meter.
func (p port) Spend(
	ctx context.Context, partition kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	w := p.in.w
	if !w.point(w) || p.fault(partition, "spend") != switches {
		return nil, fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	}
	times, err := w.store.Spend(ctx, partition, now, charges)
	if !w.point(w) {
		return nil, fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	}
	return times, err
}

// Commit implements kv.KV.
func (p port) Commit(ctx context.Context, tx kv.Tx) error {
	w := p.in.w
	if !w.point(w) {
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errFault)
	}
	switch p.fault(tx.Partition, "commit") {
	case switchReject:
		return fmt.Errorf("%w: %w", kv.ErrUnavailable, errFault)
	case switchLoseRequest:
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errFault)
	case switchLate:
		after := slowness[w.current.port.pick(len(slowness)-1)]
		w.metFor(switchLate, after)
		w.spawn(nil, "late commit of "+p.in.name, func() {
			w.sleep(after)
			if !w.over {
				_ = w.kv.Commit(ctx, tx)
			}
		})
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errFault)
	case switchLoseReply:
		_ = w.kv.Commit(ctx, tx)
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errFault)
	}
	err := w.kv.Commit(ctx, tx)
	w.note(p.in.name, tx, err)
	if !w.point(w) {
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errFault)
	}
	return err
}

// fetcher is the way to receivers.
type fetcher struct{ in *instance }

var _ host.Fetcher = fetcher{}

// Fetch implements host.Fetcher.
func (f fetcher) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	w := f.in.w
	if !w.point(w) {
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchNetwork, Err: errFault}
	}
	resp, err := w.fetch(f.in, req)
	if !w.point(w) {
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchNetwork, Err: errFault}
	}
	return resp, err
}

// poll is the time after which a runner looks for tasks without a wake-up.
const poll = 20 * time.Second

// run claims and runs due tasks until the instance dies, as edge's runner does.
func (in *instance) run() {
	w := in.w
	if w.rate[switchRotation] > 0 {
		w.spawn(in, in.name+" follows its key ring", in.follow).brief = true
	}
	for !in.dead && !w.over {
		in.wake.set, in.wakeAt = false, time.Time{}
		until := w.now.Add(poll)
		if w.healed {
			until = w.now.Add(24 * time.Hour)
		}
		for _, p := range in.service.Partitions() {
			jobs, next, err := in.service.Claim(context.Background(), p, 16)
			if err != nil {
				until = w.now.Add(time.Second)
				continue
			}
			for _, job := range jobs {
				w.spawn(in, in.name+" job "+job.Task.ID[:2], func() {
					_ = in.service.Run(context.Background(), job) // its lease ends
				})
			}
			if !next.IsZero() {
				until = earlier(until, in.trueTime(next))
			}
		}
		for !in.dead && !w.over && w.now.Before(until) {
			if in.wake.set {
				in.wake.set = false
				until = earlier(until, in.trueTime(in.wakeAt))
				continue
			}
			w.wait(in.wake, until.Sub(w.now))
		}
		if !w.point(w) {
			return
		}
	}
}

// settled is the time after which a rotation has no more effects: the new key seals after a minute, and is
// alone six minutes later (contract 16).
const settled = 9 * time.Minute

// follow reads the file of the key ring and the store's set of keys every few seconds, as edge does.
func (in *instance) follow() {
	w := in.w
	for w.point(w) && !(w.healed && w.now.After(w.rotated.Add(settled))) {
		if !w.rotating.set && w.healed {
			return
		}
		w.wait(w.rotating, time.Minute) // before that, each look finds the same
		if w.now.Before(w.rotated.Add(2 * time.Minute)) {
			w.sleep(3 * time.Second)
		} else { // a history must not consist of looks
			w.sleep(12 * time.Second)
		}
		if file := w.rings[in.n]; len(file.Keys) != len(in.ring.KeyIDs()) {
			_ = in.ring.Use(file)
		}
		_ = in.ring.Refresh(context.Background()) // the next look tries again
	}
}

// trueTime returns when the instance's clock shows t, or now.
func (in *instance) trueTime(t time.Time) time.Time {
	c := in.w.clocks[in.name]
	at := in.w.now.Add(t.Sub(c.at(in.w.now)))
	if at.Before(in.w.now) {
		return in.w.now
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// handle runs a request in the instance.
func (in *instance) handle(admin bool, req *web.Request) *web.Response {
	if admin {
		return in.service.Admin(context.Background(), req)
	}
	return in.service.Handle(context.Background(), req)
}
