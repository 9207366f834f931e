// Package edge puts Verge together: the core, its store, its key ring, the client for outbound requests,
// the network, and the runner of tasks. `verge serve` and `verge dev` are this package and a command
// line.
//
// To embed Verge in a Go program, call [Open] with a [Config]. Then call [Service.Run] with a context
// that ends on SIGTERM; see the example. Publishers and integrations are put into the store by
// [Service.Apply]. API keys are made by CreateKey of [Service.Directory]. Save the key ring
// (keyring.File.Marshal) outside of the store: a store that is not in memory opens with its own ring only.
//
// # Configuration
//
// The store is a kv.KV, from package kvadapters or your own. So a program links only the store that it
// uses. The core runs in this process unless Config.Engine says otherwise. Package wasmhost runs it
// as a WebAssembly module. A program that does not import that package links no WebAssembly runtime.
//
// The service needs its own listeners, because its limits hold for connections. Your own HTTP server can
// forward requests to one on loopback with httputil.ReverseProxy (Rewrite with SetURL and SetXForwarded), if
// Config.Server.TrustedProxies has 127.0.0.1/32. Otherwise all users share the rate limits of one address.
//
// # Guarantees
//
//   - Open serves nothing. It returns an error if the configuration is not safe, if the key ring does
//     not belong to the store, or if fewer partitions are configured than the store's sessions use.
//   - Run responds to every request that it began to read. It finishes active jobs or returns them. Then it
//     closes the engine, and the store last.
//   - A request that waits for the store for longer than its budget returns 503. If the store fails, the log
//     has one line, and another one when the store works again. If the store is lost permanently, Run returns
//     an error.
//   - If the store has the methods Signal and Signals, as kvadapters/postgres does, instances that share it
//     wake each other for tasks that one of them cannot run now.
//   - Trusted lists that methods name are fetched while Serve runs. A list that cannot be fetched is
//     reported, and the service continues.
//   - Circuits of zero-knowledge proofs that methods name are read or fetched when Serve begins. Proofs are
//     verified with half of the processors at most. If too many wait, further ones fail with an error.
//   - Usage is added up in memory and recorded at intervals, and a last time by Close. While the store fails,
//     it is kept in memory. A killed process loses usage that it has not recorded.
//   - The service is not ready while the active key of other instances is missing from its ring.
//   - Open takes over the listeners and the store. They are closed when Run returns, by Close, and if
//     Open fails.
//
// Not promised: that processes share a store correctly if Store.Shared is wrong. If two processes both
// believe that a store is theirs alone, the events of each may wait for the other.
package edge

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/internal/coalesce"
	"github.com/verge-id/verge/edge/internal/keyringfile"
	"github.com/verge-id/verge/edge/internal/listfetch"
	"github.com/verge-id/verge/edge/internal/longfellow"
	"github.com/verge-id/verge/edge/internal/runner"
	"github.com/verge-id/verge/edge/internal/server"
	"github.com/verge-id/verge/edge/internal/storehealth"
	"github.com/verge-id/verge/edge/internal/tracing"
	"github.com/verge-id/verge/edge/internal/usagecounter"
	"github.com/verge-id/verge/edge/signing"
)

// Config has the parts of a service. Core.BaseURL, Store.KV and Keyring are required. Every other zero value
// works.
type Config struct {
	// Core is the configuration of the service itself.
	Core core.Config

	// Store keeps all state.
	Store Store

	// Engine opens the engine that runs the core. Nil: the native one.
	Engine func(ctx context.Context, s Setup) (engine.Engine, error)

	// Keyring seals sessions and tokens. Every instance on the store has the same.
	Keyring keyring.File

	// KeyringFile reads the file of Keyring again, so that a rotation needs no restart. Nil: the ring
	// never changes.
	KeyringFile func() ([]byte, error)

	// KeyringEach is set if KeyringFile takes long, because it runs a program or asks another server. It is
	// then called in the background, at this interval, and earlier while other instances use a key that this
	// one lacks. Zero: every few seconds.
	KeyringEach time.Duration

	// KeyringByHand is set if the program calls Service.RefreshKeyring itself. Otherwise Serve calls it every
	// few seconds, as instances that share a store need it.
	KeyringByHand bool

	// Egress configures the client for requests to webhook receivers and providers. The zero value
	// has the limits of the contract.
	Egress egress.Config

	// Fetch sends outbound requests instead of the client that Egress configures. Nil: that client
	// does.
	Fetch host.Fetcher

	// ReadFile reads at most limit bytes of a file that the settings of a method name, such as a trusted
	// list. Nil: of the machine's files.
	ReadFile func(path string, limit int) ([]byte, error)

	// Sign signs with the private keys of verification methods, such as (*signing.Signer).Sign. Nil: there
	// are no keys.
	Sign func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

	// Decrypt decrypts with the same keys, such as (*signing.Signer).Decrypt. Nil: there are no keys.
	Decrypt func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

	// CheckKeys signs with the private keys that are outside of this process, such as
	// (*signing.Signer).Check, and returns the error of each by its name, or nil. Serve calls it once a
	// minute, for the metrics and the log. Nil: all keys are files.
	CheckKeys func(ctx context.Context) map[string]error

	// Server has limits, timeouts, TLS, proxies and everything else for the network. Open fills in
	// the engine, the store, the listeners and the log. It fills in the metrics and the page if they
	// are nil, and an AdminTimeout of zero so that a webhook test fits into it.
	Server ServerConfig

	// AdminEndpoints has the paths of the operators' API that this process serves itself, by path. Nil: none.
	AdminEndpoints map[string]AdminEndpoint

	// Tracer gets spans of requests and jobs, and of their calls to the store and to other servers; see
	// package tracing. Nil: no spans.
	Tracer trace.TracerProvider

	// Runner configures how jobs run, and how often the service looks for tasks of other instances.
	Runner RunnerConfig

	// StoreBudget is how long all calls of one request to the store may take together. Zero: 5 s.
	StoreBudget time.Duration

	// UsageEach is how often the sums of usage are recorded. Zero: every 30 s. Serve and Work do so while
	// they run, and Close does so a last time. Negative: only Service.RecordUsage does.
	UsageEach time.Duration

	// Public serves users and publishers. Nil: the service has no network, for a program that only works
	// jobs, or that calls Service.Engine itself. Admin serves the operators' API, which requires
	// Core.OperatorToken; nil: no operators' API. Ops serves health and metrics, which need no credential;
	// nil: neither. Both need Public.
	Public, Admin, Ops net.Listener

	Log    *slog.Logger     // nil discards; a handler of package jsonlog writes requests fastest
	Now    func() time.Time // nil: time.Now
	Random io.Reader        // nil: crypto/rand
}

// Store is a KV with the facts about it that Open needs. If KV is a HealthNotifier or a Signaler, Open
// uses it as such.
type Store struct {
	KV kv.KV

	// Shared means that other processes may use the store, too. Then the service looks for their tasks and
	// exchanges signals with them. It also coalesces concurrent reads of the configuration, because each
	// read costs a round trip.
	Shared bool

	// Close is called when the KV is no longer used. May be nil.
	Close func() error
}

// healthNotifier is a KV that knows whether it can be written.
type healthNotifier interface {
	// NotifyHealth makes the store call notify with the reason when it can no longer be written, and with nil
	// when it can be written again. notify does not block.
	NotifyHealth(notify func(failing error))

	// Lost returns a channel that is closed when the store can never be written again. Failing returns the
	// reason why it cannot be written now.
	Lost() <-chan struct{}
	Failing() error
}

// Setup has the values from which Config.Engine creates an engine.
type Setup struct {
	Core    core.Config     // of the service
	Host    host.Host       // that the engine runs on
	Native  *core.Service   // the same service, run by this process
	Metrics *Metrics        // that the engine may add its own to
	Trace   *tracing.Tracer // for effects of guests; nil: there are no spans
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Fetch == nil {
		// A connection becomes idle a moment after its job has ended. The next job of the destination may
		// have begun by then and would open a new connection if none were idle.
		places := cmp.Or(c.Runner.PerDestination, DefaultPerDestination)
		c.Egress.IdlePerHost = cmp.Or(c.Egress.IdlePerHost, places*4/3)
		c.Fetch = egress.New(c.Egress)
	}
	if c.ReadFile == nil {
		c.ReadFile = readFile
	}
	c.Core.HostFetchesLists = true
	if c.Engine == nil {
		c.Engine = func(_ context.Context, s Setup) (engine.Engine, error) { return s.Native, nil }
	}
	if c.Core.AttemptTime == 0 && c.Core.Lease == 0 {
		c.Core.FetchesWithin(max(c.Egress.Timeout, 10*time.Second))
	}
	if c.Server.AdminTimeout == 0 && c.Egress.Timeout > 0 {
		c.Server.AdminTimeout = server.AdminTimeoutFor(c.Egress.Timeout)
	}
	if c.Server.Metrics == nil {
		c.Server.Metrics = server.NewMetrics()
	}
	if c.Server.Page == nil {
		c.Server.Page = c.Core.ErrorPage
	}
	c.Server.Routes, c.Server.AdminRoutes = core.Routes(c.Core), core.AdminRoutes()
	c.UsageEach = cmp.Or(c.UsageEach, 30*time.Second)
	// shorter than a request, to leave time for a response
	c.StoreBudget = cmp.Or(c.StoreBudget, 5*time.Second)
	return c
}

// Service is Verge, put together. Its methods may be called concurrently.
type Service struct {
	config Config
	health *storehealth.Monitor
	ring   *keyringfile.Live
	host   host.Host
	native *core.Service
	usage  *usagecounter.Counter
	lists  *listfetch.Refresher
	proofs *longfellow.Set               // nil: no method asks for proofs
	trace  *tracing.Tracer               // nil: there are no spans
	opened engine.Engine                 // nil if Open failed before it made one
	engine engine.Engine                 // the same with the limits for requests from the network
	server *server.Server                // nil: there is no network
	runner atomic.Pointer[runner.Runner] // one that runs, ran or will never run; nil while Open works
	close  func() error

	circuits []string // names of those that the methods accept

	keyFailed chan struct{} // receives if a signature has failed
}

// Open puts a service together. The caller must call Run or Close. Open panics without Store.KV, and with
// Admin or Ops but no Public, because that is a mistake in the program.
func Open(ctx context.Context, c Config) (*Service, error) {
	switch {
	case c.Store.KV == nil:
		panic("edge: Config.Store.KV is nil")
	case c.Public == nil && (c.Admin != nil || c.Ops != nil):
		panic("edge: Config.Public is nil, but Admin or Ops is not; pass a listener")
	}
	s := &Service{config: c.withDefaults(), trace: tracing.New(c.Tracer), keyFailed: make(chan struct{}, 1)}
	s.close = sync.OnceValue(s.closeAll)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Service) open(ctx context.Context) error {
	c := &s.config
	var wrong problem.List
	wrong.AddWithin("Egress.", c.Egress.Validate())
	wrong.AddWithin("Server.", c.Server.Validate())
	if err := wrong.Err(); err != nil {
		return fmt.Errorf("edge: %w", err)
	}
	base, err := url.Parse(c.Core.BaseURL)
	if err != nil {
		return fmt.Errorf("base URL: %w", err)
	}
	s.monitorStore()
	// A token is bound to the host's name without the port, because in dev the port may change with
	// a restart.
	s.ring, err = keyringfile.Open(ctx, keyringfile.Config{
		Host: host.Host{KV: s.health.KV(), Now: c.Now, Random: c.Random, Log: c.Log},
		Name: base.Hostname(), Keyring: c.Keyring, File: c.KeyringFile, FileEach: c.KeyringEach,
		Observe: c.Server.Metrics.Keyring,
	})
	if err != nil {
		return err
	}
	store := s.ring.KV()
	if err := keepPartitions(ctx, store, c.Random, max(c.Core.Partitions, 1)); err != nil {
		return err
	}
	c.Server.Metrics.Tasks(s.backlog)
	s.usage = usagecounter.New(usagecounter.Config{Now: c.Now, Log: c.Log,
		Expired: c.Server.Metrics.Expired})
	s.host = host.Host{
		KV: s.trace.KV(store), Sealer: s.ring, Sign: s.sign(), Decrypt: c.Decrypt,
		Verify: signing.Verify,
		Fetch:  s.trace.Fetcher(measured{c.Fetch, c.Server.Metrics.Measure}),
		Now:    c.Now, Random: c.Random,
		Log:      slog.New(core.AuditLog(c.Log.Handler(), c.Random)),
		Observer: observer{c.Server.Metrics, s},
	}
	methods, _ := c.Core.Catalog() // New returns its error
	s.openProofs(methods)
	if s.native, err = core.New(c.Core, s.host); err != nil {
		return err
	}
	c.Server.Metrics.Methods(append(methods.Names(), method.Passkey))
	s.lists = listfetch.New(s.listConfig(methods))
	opened, err := c.Engine(ctx, Setup{Core: c.Core, Host: s.host, Native: s.native,
		Metrics: c.Server.Metrics, Trace: s.trace})
	if err != nil {
		return err
	}
	s.opened = opened
	s.runner.Store(runner.New(s.runnerConfig()))
	s.engine = served{s.opened, s.ring, c.StoreBudget, c.AdminEndpoints}
	if c.Public != nil {
		s.server = server.New(s.serverConfig())
	}
	return nil
}

// monitorStore wraps the store with read coalescing, if it is shared, and with the health monitor.
func (s *Service) monitorStore() {
	c := &s.config
	notifier, notifies := c.Store.KV.(healthNotifier)
	store := c.Store.KV
	if c.Store.Shared { // a read across a network costs more than coalescing it
		store = coalesce.Reads(store, integration.Partition)
	}
	s.health = storehealth.New(store,
		storehealth.Config{Log: c.Log, Metrics: c.Server.Metrics, ReportsHealth: notifies})
	if notifies {
		notifier.NotifyHealth(s.health.ReportHealth)
	}
}

func (s *Service) serverConfig() server.Config {
	c := s.config.Server
	c.Engine, c.Store, c.Log, c.Trace = s.engine, s.health, s.config.Log, s.trace
	c.ReadyAlone = func(context.Context) error { return s.ring.Ready() }
	c.Public, c.Ops = s.config.Public, s.config.Ops
	c.Admin, c.AdminListener = nil, nil
	if s.config.Admin != nil {
		c.Admin, c.AdminListener = s.engine.Admin, s.config.Admin
		c.AdminStreams = maps.Clone(c.AdminStreams)
		for path, endpoint := range s.config.AdminEndpoints {
			if c.AdminStreams == nil {
				c.AdminStreams = map[string]server.Stream{}
			}
			c.AdminStreams[path] = s.stream(endpoint)
		}
	}
	return c
}

// An instance that shares its store waits pollEach between two looks for tasks that another instance has
// left behind. That is rare enough that hundreds of idle instances are no load. It is frequent enough
// that the tasks of an instance that died are taken over within a minute. No partition waits longer than
// pollMost. Instances that can signal look as often, because signals may be lost.
const (
	pollEach = 2 * time.Second
	pollMost = 30 * time.Second
)

func (s *Service) runnerConfig() runner.Config {
	c := s.config.Runner
	signaler, _ := s.config.Store.KV.(signaler)
	return runner.Config{
		Engine: s.trace.Engine(s.opened), Exclusive: !s.config.Store.Shared, Signaler: signaler,
		Concurrency: c.Concurrency, PerDestination: c.PerDestination, MaxWait: c.MaxWait,
		PollInterval: cmp.Or(c.PollInterval,
			min(pollEach*time.Duration(len(s.opened.Partitions())), pollMost)),
		DrainTimeout: c.DrainTimeout,
		Now:          s.config.Now, Log: s.config.Log, Metrics: s.config.Server.Metrics,
	}
}

// observer passes the events of the core on to the metrics, the usage, the log and the runner.
type observer struct {
	*server.Metrics
	s *Service
}

// About adds to the log line of a request.
func (o observer) About(ctx context.Context, a host.RequestInfo) { server.About(ctx, a) }

// CountUsage counts usage that the core reports.
func (o observer) CountUsage(t host.UsageEvent) {
	o.s.usage.Add(t)
	o.Metrics.CountUsage(t)
}

// backlog returns the runner's number and age of waiting tasks.
func (s *Service) backlog() (waiting int, oldest time.Duration) {
	if r := s.runner.Load(); r != nil {
		return r.Backlog()
	}
	return 0, 0
}

// Wake notifies the runner of a task. A runner that does not run notifies other instances.
func (o observer) Wake(p kv.Partition, due time.Time) {
	if r := o.s.runner.Load(); r != nil {
		r.Wake(p, due)
	}
}

// Directory returns the directory of publishers, integrations and keys.
func (s *Service) Directory() *integration.Directory { return s.native.Directory() }

// Usage returns the recorded usage of the service, by all instances.
func (s *Service) Usage() *core.Usage { return s.native.Usage() }

// Apply checks a site and puts it into the store (contract 46), unless it was applied last. Its error has one
// line for each problem. Publishers and integrations of an earlier site that the new one lacks continue to
// work.
func (s *Service) Apply(ctx context.Context, site integration.Site) error {
	b, err := json.Marshal(site)
	if err != nil {
		return err
	}
	return s.engine.Apply(ctx, b)
}

// Engine returns the engine that serves requests and runs jobs. Its requests have the same budget as
// those that come over the network.
func (s *Service) Engine() engine.Engine { return s.engine }

// Host returns the host of the core: the observed store, the key ring, and the client for outbound requests.
func (s *Service) Host() host.Host { return s.host }

// Run serves requests and runs tasks until ctx is done or the store is lost. Then it stops in the order of
// dependence: it responds to requests, finishes active jobs or returns them, closes the engine, and closes
// the store last. It must be called only once.
func (s *Service) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go s.endIfLost(ctx, end)
	jobs, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	worked := make(chan error, 1)
	go func() { worked <- s.Work(jobs) }()
	err := s.Serve(ctx)
	stop()
	if lost := (lostError{}); errors.As(context.Cause(ctx), &lost) {
		err = errors.Join(lost, err)
	}
	return errors.Join(err, <-worked, s.Close())
}

// lostError is the reason why the store is permanently lost.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// endIfLost ends Run if the store is lost while it serves.
func (s *Service) endIfLost(ctx context.Context, end context.CancelCauseFunc) {
	store, ok := s.config.Store.KV.(healthNotifier)
	if !ok {
		return
	}
	select {
	case <-store.Lost():
		end(lostError{fmt.Errorf("store: %w", store.Failing())})
	case <-ctx.Done():
	}
}

// Serve serves requests and follows the key ring until ctx is done, and then drains; see
// server.Server.Run. It is Run without jobs, for a program whose jobs run elsewhere. A service without a
// network follows the key ring only. Serve must be called only once. Call Close after it.
func (s *Service) Serve(ctx context.Context) error {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if !s.config.KeyringByHand {
		go s.ring.Run(following)
	}
	s.recordUsageUntil(following)
	defer s.refreshLists(ctx)()
	go s.openCircuits(following)
	defer s.sampleStorage(ctx)()
	go s.checkKeys(following)
	if s.server == nil {
		<-ctx.Done()
		return nil
	}
	return s.server.Run(ctx)
}

// RefreshKeyring reads the key ring's file again and compares the ring with the store. It is for programs
// that know that the file has changed, or that have set KeyringByHand. With KeyringEach it starts to read the
// file, and does not wait for it.
func (s *Service) RefreshKeyring(ctx context.Context) error { return s.ring.Look(ctx) }

// Work runs tasks as they fall due until ctx is done, and then drains. It is the other half of
// Run. After it has returned, it may be called again.
func (s *Service) Work(ctx context.Context) error {
	r := runner.New(s.runnerConfig())
	s.runner.Store(r)
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.recordUsageUntil(recording)
	return r.Run(ctx)
}

// recordUsageUntil starts to record the sums of usage at intervals, until ctx is done. If it is started
// twice, each does a part of the work.
func (s *Service) recordUsageUntil(ctx context.Context) {
	if s.config.UsageEach > 0 {
		go s.usage.Run(ctx, s.config.UsageEach, usageTime, s.opened.Record)
	}
}

// usageTime bounds one recording of usage, the last one too.
const usageTime = 5 * time.Second

// RecordUsage records the usage that this instance has counted. If that fails, the usage is recorded the
// next time.
func (s *Service) RecordUsage(ctx context.Context) error { return s.usage.Record(ctx, s.opened.Record) }

// Close closes everything that Open took over. It is for a service that does not run, or whose Serve and
// Work have returned. Run calls it itself.
func (s *Service) Close() error { return s.close() }

func (s *Service) closeAll() error {
	for _, l := range []net.Listener{s.config.Public, s.config.Admin, s.config.Ops} {
		if l != nil {
			l.Close() // a listener that has served is closed already; that is no error here
		}
	}
	var errs []error
	if s.opened != nil && s.config.UsageEach > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), usageTime)
		s.usage.Expire(s.config.Now().Add(time.Hour))
		if err := s.RecordUsage(ctx); err != nil {
			s.config.Log.Warn("latest usage lost", "error", err.Error())
		}
		cancel()
	}
	if closer, ok := s.opened.(io.Closer); ok {
		errs = append(errs, closer.Close())
	}
	if s.config.Store.Close != nil {
		errs = append(errs, s.config.Store.Close())
	}
	return errors.Join(errs...)
}
