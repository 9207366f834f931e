// Package wasmhost runs the core as a WebAssembly guest in this process. An [Engine] has the same methods
// as *core.Service, on any kv.KV.
//
// Give [New] a [Config] with the module and the ports. [Engine.Activate] replaces the module while requests
// continue.
//
// A module can access only its ports: the Sealer, the KV, the Fetcher and the others of [Config]. If a
// guest's output is malformed, excessive or out of order, that guest is replaced. The host, other guests
// and other engines continue, and a module on probation is rolled back. outbox.go and package effect define
// the output that is accepted from a guest, shape.go the modules that may be compiled.
package wasmhost

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
	"github.com/verge-id/verge/wasm/settings"
)

// Config configures an Engine. Module or Compiled, Guest, Meter, and Host's KV and Fetch are required. All
// other zero values work.
type Config struct {
	// Host carries out the effects of the guests and receives their notices. Its Sealer keeps the keys
	// outside of the guest. If Sealer is nil, Guest.Keyring has the keys. The Sealer also seals the secrets
	// of Guest.Methods, so pass them in plain text. A nil Verify is signing.Verify, a nil Random is
	// crypto/rand. Now is not used: see Clock.
	host.Host

	Module []byte          // the guest, as `make wasm` builds it
	Guest  settings.Config // the service's configuration; zero Partitions means one

	// Compiled is the guest, instead of Module, for engines that share it. Its MemoryMax and Interruptible
	// were set when it was compiled.
	Compiled *Module

	Meter kv.Meter // rate counters; the KV's own if instances share it

	Instances int   // guests that run at the same time; 0: one per processor
	MemoryMax int64 // maximum bytes of a guest's memory; a guest that needs more fails; 0: 256 MiB
	// bytes of memory above which a guest is replaced once it has no requests; 0: a quarter of MemoryMax
	MemoryFull int64

	// Interruptible lets a deadline end a guest that does not return. It costs a guest two thirds of its
	// speed, and our own module does not need it. Without it, a guest that loops without a call stops the
	// whole process at the next garbage collection, which waits for it. So never run an untrusted module
	// without it.
	Interruptible bool

	// Probation is how long an activated module is watched. If one of its guests fails in that time or
	// cannot be started, the previous module becomes active again. Its guests are kept for that. 0: 30 s.
	// Negative: no probation.
	Probation time.Duration

	// Grace is how long a guest may take to respond after its request's context is done. So it is also the
	// maximum time for an export. 0: 1 s.
	Grace time.Duration

	Guests Observer // receives the events of the guests themselves; nil: none

	// Effect is called before each effect, with the context of its request. The effect is carried out with
	// the context that it returns, and done is called afterwards. Nil: no call.
	Effect func(ctx context.Context, kind string) (within context.Context, done func())

	Cache wazero.CompilationCache // nil: the module is compiled again at every start
	Clock Clock                   // zero: the system's
}

// Clock is the time that a guest reads.
type Clock struct {
	Wall func() time.Time     // nil: time.Now
	Mono func() time.Duration // since an arbitrary time; nil: the system's monotonic clock
}

func (c Config) withDefaults() Config {
	c.Instances = cmp.Or(c.Instances, runtime.GOMAXPROCS(0))
	c.Probation = cmp.Or(c.Probation, 30*time.Second)
	c.Grace = cmp.Or(c.Grace, time.Second)
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Guests == nil {
		c.Guests = noObserver{}
	}
	if c.Verify == nil {
		c.Verify = signing.Verify
	}
	c.Host = host.WithDefaults(c.Host)
	if c.Effect == nil {
		c.Effect = func(ctx context.Context, _ string) (context.Context, func()) { return ctx, func() {} }
	}
	return c
}

// guest returns the argument of verge_config for one guest. The secrets of methods are sealed again for
// each guest, because the key that sealed them for the first one may be gone when another one is started.
func (c *Config) guest() ([]byte, error) {
	guest := c.Guest
	guest.VerifiesProofs = c.VerifyProof != nil
	if c.Sealer != nil {
		var err error
		if guest, err = settings.SealSecrets(guest, c.Sealer); err != nil {
			return nil, fmt.Errorf("wasmhost: %w", err)
		}
	}
	b, err := guest.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("wasmhost: the guest's configuration: %w", err)
	}
	return b, nil
}

var epoch = time.Now()

func (c Clock) wall() (sec int64, nsec int32) {
	t := c.now()
	return t.Unix(), int32(t.Nanosecond())
}

// now returns the wall time without a monotonic reading, which a guest's time lacks.
func (c Clock) now() time.Time {
	if c.Wall != nil {
		return c.Wall().Round(0)
	}
	return time.Now().Round(0)
}

func (c Clock) nano() int64 {
	if c.Mono != nil {
		return int64(c.Mono()) + 1 // Go's runtime treats 0 as a broken clock
	}
	return int64(time.Since(epoch))
}

var _ engine.Engine = (*Engine)(nil)

// Engine runs the guests. Its methods may be called concurrently.
type Engine struct {
	cfg        Config
	ports      ports
	partitions []kv.Partition

	activating sync.Mutex // held by the current activation

	mu         sync.Mutex // held while one generation replaces another
	generation atomic.Pointer[generation]
	// becomes active again if the current one fails on probation; nil: no probation
	before         *generation
	trial          int         // counts probations
	probationTimer *time.Timer // ends the current probation
	retiring       sync.WaitGroup
	over           chan struct{} // closed by Close
	changed        broadcast     // signals that a guest may have become available

	inFlight, queued, instances, memory atomic.Int64
}

// New compiles the module, tests it and starts the guests.
func New(ctx context.Context, c Config) (*Engine, error) {
	if c.KV == nil || c.Meter == nil || c.Fetch == nil {
		return nil, errors.New("wasmhost: KV, Meter and Fetch are needed")
	}
	c = c.withDefaults()
	e := &Engine{
		cfg: c,
		ports: ports{
			Ports: effect.Ports{KV: c.KV, Meter: c.Meter, Fetch: c.Fetch, Sign: c.Sign,
				Decrypt: c.Decrypt, Verify: c.Verify, VerifyProof: c.VerifyProof},
			Observer: c.Host.Observer,
		},
		over: make(chan struct{}),
	}
	for n := range max(c.Guest.Partitions, 1) {
		e.partitions = append(e.partitions, kv.Partition(fmt.Sprint("p", n)))
	}
	var err error
	if c.Compiled != nil {
		err = e.ActivateCompiled(ctx, c.Compiled)
	} else {
		err = e.Activate(ctx, c.Module)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Reasons why a request has no result.
var (
	errNoResult = errors.New("wasmhost: the guest failed on this request")
	errPoisoned = errors.New("wasmhost: the guest failed") // all requests of that guest failed
	errNoGuest  = errors.New("wasmhost: no guest takes requests")
	errLate     = errors.New("wasmhost: the guest did not respond in time")
	errTooLarge = errors.New("wasmhost: the request is too large for a guest")
)

// noGuestTime is how long a request waits if no guest is available or working.
const noGuestTime = 5 * time.Second

// do runs an entry in a guest and returns the result.
func (e *Engine) do(ctx context.Context, entry abi.Entry, body func([]byte) []byte) ([]byte, error) {
	message := []byte{byte(entry)}
	if body != nil {
		message = body(message)
	}
	e.inFlight.Add(1)
	defer e.inFlight.Add(-1)
	var enough <-chan time.Time
	for {
		changed := e.changed.next()
		result, err := e.generation.Load().do(ctx, message)
		if err != errNoGuest {
			return result, err
		}
		// No guest has begun the request, so another guest may run it when one becomes available.
		if enough == nil {
			enough = time.After(noGuestTime)
		}
		select {
		case <-changed:
		case <-enough:
			return nil, errNoGuest
		case <-ctx.Done():
			return nil, errNoGuest
		case <-e.over:
			return nil, errNoGuest
		}
	}
}

// Handle responds to a request of the public API or of a hosted page. If the guest fails, the response is a
// status without a body, and the server adds the text: 503 if the request may be retried, 500 if the core
// failed because of this request.
func (e *Engine) Handle(ctx context.Context, req *web.Request) *web.Response {
	if !req.Again {
		return e.answered(e.ask(ctx, abi.Handle, req))
	}
	resp, err := e.ask(ctx, abi.HandleAgain, req)
	if errors.Is(err, errNoResult) { // an active module of an earlier release; it counts the request
		resp, err = e.ask(ctx, abi.Handle, req)
	}
	return e.answered(resp, err)
}

// Admin responds to a request of the operators' API, like Handle.
func (e *Engine) Admin(ctx context.Context, req *web.Request) *web.Response {
	return e.answered(e.ask(ctx, abi.Admin, req))
}

func (e *Engine) ask(ctx context.Context, entry abi.Entry, req *web.Request) (*web.Response, error) {
	b, err := e.do(ctx, entry, func(b []byte) []byte { return abi.Append.Request(b, req) })
	if err != nil {
		return nil, err
	}
	resp, err := abi.Read.Response(b)
	if err != nil {
		return nil, err
	}
	return resp, checkResponse(resp)
}

func (e *Engine) answered(resp *web.Response, err error) *web.Response {
	if err == nil {
		return resp
	}
	e.cfg.Log.Error("no response from the guest", "error", err.Error())
	if errors.Is(err, errNoResult) {
		return &web.Response{Status: 500}
	}
	return &web.Response{Status: 503}
}

// Ready reports whether the KV is reachable.
func (e *Engine) Ready(ctx context.Context) error {
	return e.outcome(ctx, abi.Ready, nil)
}

// Run runs a claimed task.
func (e *Engine) Run(ctx context.Context, job host.Job) error {
	return e.outcome(ctx, abi.Run, func(b []byte) []byte { return abi.Append.Job(b, job, time.Time{}) })
}

// Defer postpones a claimed task until the given time.
func (e *Engine) Defer(ctx context.Context, job host.Job, until time.Time) error {
	return e.outcome(ctx, abi.Defer, func(b []byte) []byte { return abi.Append.Job(b, job, until) })
}

// Apply writes a site, integration.Site as JSON, to the store.
func (e *Engine) Apply(ctx context.Context, site []byte) error {
	return e.outcome(ctx, abi.Apply, func(b []byte) []byte { return append(b, site...) })
}

// Record writes totals of the usage that guests have reported. It returns engine.ErrNoUsage if the guest
// fails or does not know the entry.
func (e *Engine) Record(ctx context.Context, t host.Totals) error {
	err := e.outcome(ctx, abi.RecordUsage, func(b []byte) []byte { return abi.Append.Totals(b, t) })
	if errors.Is(err, errNoResult) {
		return fmt.Errorf("%w: %w", engine.ErrNoUsage, err)
	}
	return err
}

func (e *Engine) outcome(ctx context.Context, entry abi.Entry, body func([]byte) []byte) error {
	b, err := e.do(ctx, entry, body)
	if err != nil {
		return fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	}
	o, err := abi.Read.Outcome(b)
	if err != nil {
		return fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	}
	return outcomeOf(o)
}

// outcomeOf returns the error that a guest reports. Its text is the guest's.
func outcomeOf(o abi.Outcome) error {
	o.Text = cut(o.Text, maxMessage)
	return o.Err()
}

// Claim leases up to n due tasks of the partition.
func (e *Engine) Claim(ctx context.Context, p kv.Partition, n int) ([]host.Job, time.Time, error) {
	return e.jobs(ctx, abi.ClaimDue, abi.ClaimJobs{Partition: p, N: n})
}

// RunDue runs all due tasks, one at a time.
func (e *Engine) RunDue(ctx context.Context) (next time.Time, err error) {
	_, next, err = e.jobs(ctx, abi.RunDue, abi.ClaimJobs{})
	return next, err
}

// jobs runs one of the entries that return jobs. For RunDue, wanted is zero, because that entry has no
// argument.
func (e *Engine) jobs(
	ctx context.Context, entry abi.Entry, wanted abi.ClaimJobs,
) ([]host.Job, time.Time, error) {
	var body func([]byte) []byte
	if entry == abi.ClaimDue {
		body = func(b []byte) []byte { return abi.Append.ClaimJobs(b, wanted) }
	}
	b, err := e.do(ctx, entry, body)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	}
	j, err := abi.Read.Jobs(b)
	if err == nil {
		err = checkJobs(j, wanted.Partition, wanted.N)
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	}
	return j.Jobs, j.Next, outcomeOf(j.Outcome)
}

// Partitions returns the partitions with tasks.
func (e *Engine) Partitions() []kv.Partition { return e.partitions }

// Stats returns the state of the engine.
func (e *Engine) Stats() stats {
	return stats{Digest: e.Digest(), InFlight: int(e.inFlight.Load()), Queued: int(e.queued.Load()),
		Instances: int(e.instances.Load()), Memory: e.memory.Load()}
}

// Close ends the guests after their requests have ended. An activation in progress has no effect.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed() {
		e.mu.Unlock()
		return nil
	}
	close(e.over)
	before := e.forgetBefore()
	e.mu.Unlock()
	err := e.generation.Load().drain()
	if before != nil {
		err = errors.Join(err, before.drain())
	}
	e.retiring.Wait()
	return err
}
