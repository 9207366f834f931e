package transcript

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
	"github.com/verge-id/verge/wasm/settings"
)

// Engine selects the engine that runs the core. The zero value runs it in this process.
type Engine struct {
	// Guest is the module that runs the core. Nil: the core runs natively.
	Guest *wasmhost.Module

	// HostSeals keeps the keys outside the guest, as a server does. False: the guest has the keys.
	HostSeals bool
}

func (e Engine) String() string {
	switch {
	case e.Guest == nil:
		return "native"
	case e.HostSeals:
		return "wasm, the host seals"
	}
	return "wasm"
}

// stage is the host of a core. Its clock is constant during a step, and its randomness restarts with each
// step. Effects and notices go to the functions effect and notice.
type stage struct {
	now     time.Time
	start   time.Time
	entropy entropy

	effect func(k abi.Kind, body []byte) (abi.Status, []byte)
	notice func(k abi.Kind, body []byte)
}

func (s *stage) clock() time.Time { return s.now }

// Count implements host.Observer.
func (s *stage) Count(event string) { s.notice(abi.Count, []byte(event)) }

// Wake implements host.Observer.
func (s *stage) Wake(p kv.Partition, due time.Time) { s.notice(abi.Wake, abi.Append.Wake(nil, p, due)) }

// Measure passes on an event of a method in the form of a guest's notice. host.NewMeasurement replaces an
// event or a reason that is not in its lists.
func (s *stage) Measure(m host.Measurement) {
	m = host.NewMeasurement(m.Method, m.Event, m.Reason)
	s.notice(abi.Measure, abi.Append.MethodEvent(nil,
		abi.MethodEvent{Method: m.Method, Event: m.Event, Reason: m.Reason}))
}

// About implements host.Observer.
func (s *stage) About(_ context.Context, a host.RequestInfo) {
	s.notice(abi.About, abi.Append.About(nil, a))
}

// CountUsage implements host.Observer.
func (s *stage) CountUsage(t host.UsageEvent) {
	s.notice(abi.UsageEvent, abi.Append.UsageEvent(nil, t))
}

// Write implements io.Writer: a line of the log is a notice.
func (s *stage) Write(line []byte) (int, error) {
	s.notice(abi.Log, append([]byte(nil), line[:len(line)-1]...))
	return len(line), nil
}

func (s *stage) logger() *slog.Logger {
	// The host of a guest adds the module to each line. The core does not have it.
	leaveOut := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == "module") {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug,
		ReplaceAttr: leaveOut}))
}

// start starts a core on the stage. end closes it.
func (e Engine) start(
	ctx context.Context, c settings.Config, s *stage,
) (r engine.Engine, end func() error, err error) {
	c.LogLevel = int8(slog.LevelDebug)
	keys, err := keyring.Parse(c.Keyring)
	if err != nil {
		return nil, nil, err
	}
	ring, err := keys.Ring(c.Host, &s.entropy, s.clock)
	if err != nil {
		return nil, nil, err
	}
	store, fetch, signer := effect.Store(s.effect), effect.Fetcher(s.effect), effect.Signer(s.effect)
	verify := effect.Verifier(s.effect).Verify
	h := host.Host{KV: store, Fetch: fetch, Sealer: ring, Sign: signer.Sign, Decrypt: signer.Decrypt,
		Verify: verify, Now: s.clock, Random: &s.entropy, Log: s.logger(), Observer: s}
	if e.Guest == nil {
		r, err = core.New(c.Config, h)
		return r, func() error { return nil }, err
	}
	if e.HostSeals {
		c.Keyring = nil
	} else {
		h.Sealer = nil
	}
	g, err := wasmhost.New(ctx, wasmhost.Config{
		Host: h, Compiled: e.Guest, Guest: c, Meter: store,
		// never replaced: a new instance would read data again that this one has cached
		Instances: 1, MemoryFull: 1 << 31,
		Clock: wasmhost.Clock{Wall: s.clock, Mono: func() time.Duration { return s.now.Sub(s.start) }},
	})
	if err != nil {
		return nil, nil, err
	}
	return g, g.Close, nil
}

// run executes a step in the core and returns the result.
func (s *stage) run(ctx context.Context, r engine.Engine, step Step) (answer []byte, err error) {
	s.now, s.entropy = step.Now, entropy{seed: step.Seed}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	switch step.Entry {
	case abi.Handle, abi.HandleAgain, abi.Admin:
		req, err := abi.Read.Request(step.Body)
		if err != nil {
			return nil, err
		}
		req.Again = step.Entry == abi.HandleAgain
		if step.Entry == abi.Admin {
			return abi.Append.Response(nil, r.Admin(ctx, req)), nil
		}
		return abi.Append.Response(nil, r.Handle(ctx, req)), nil
	case abi.Ready:
		return abi.Append.Outcome(nil, abi.OutcomeOf(r.Ready(ctx))), nil
	case abi.ClaimDue:
		c, err := abi.Read.ClaimJobs(step.Body)
		if err != nil {
			return nil, err
		}
		jobs, next, err := r.Claim(ctx, c.Partition, c.N)
		return abi.Append.Jobs(nil, abi.Jobs{Jobs: jobs, Next: next, Outcome: abi.OutcomeOf(err)}), nil
	case abi.Run, abi.Defer:
		job, until, err := abi.Read.Job(step.Body)
		if err != nil {
			return nil, err
		}
		if step.Entry == abi.Run {
			return abi.Append.Outcome(nil, abi.OutcomeOf(r.Run(ctx, job))), nil
		}
		return abi.Append.Outcome(nil, abi.OutcomeOf(r.Defer(ctx, job, until))), nil
	case abi.RunDue:
		next, err := r.RunDue(ctx)
		return abi.Append.Jobs(nil, abi.Jobs{Next: next, Outcome: abi.OutcomeOf(err)}), nil
	case abi.Apply:
		return abi.Append.Outcome(nil, abi.OutcomeOf(r.Apply(ctx, step.Body))), nil
	case abi.RecordUsage:
		t, err := abi.Read.Totals(step.Body)
		if err != nil {
			return nil, err
		}
		return abi.Append.Outcome(nil, abi.OutcomeOf(r.Record(ctx, t))), nil
	}
	return nil, errors.New("there is no such entry")
}

// Entropy returns the randomness of a step with that seed. It never changes.
func Entropy(seed uint64) io.Reader { return &entropy{seed: seed} }

type entropy struct {
	seed, count uint64
	rest        []byte
}

// Read implements io.Reader.
func (e *entropy) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		if len(e.rest) == 0 {
			b := binary.LittleEndian.AppendUint64([]byte("verge transcript"), e.seed)
			sum := sha256.Sum256(binary.LittleEndian.AppendUint64(b, e.count))
			e.rest = sum[:]
			e.count++
		}
		took := copy(p[n:], e.rest)
		n, e.rest = n+took, e.rest[took:]
	}
	return len(p), nil
}
