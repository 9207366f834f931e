package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/hosted"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/provider/sandbox"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/keyring"
	"github.com/verge-id/verge/edge/kvmerge"
	"github.com/verge-id/verge/edge/runner"
	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/edge/storewatch"
	"github.com/verge-id/verge/kvadapters/bolt"
)

// settings are what dev and serve have in common: everything that makes a
// running service, read and checked.
type settings struct {
	core    core.Config // without Providers
	egress  egress.Config
	server  server.Config // limits, TLS and proxies; the rest is filled in
	store   storeAt
	engine  engineAt
	keyring token.Keyring
	budget  time.Duration // of a request with the store; zero: 5 s

	// keyringFile reads the file that keyring is from again. Nil: it never changes.
	keyringFile func() ([]byte, error)

	public, admin, ops net.Listener // nil admin or ops: none

	log    *slog.Logger
	now    func() time.Time
	random io.Reader
}

// instance is the service with its store, its way out, its runner and its
// listeners: assembled, not yet serving.
type instance struct {
	service    *core.Service // for its directory; the engine serves
	modules    *modules      // that the engine runs
	server     *server.Server
	runner     *runner.Runner
	closeStore func() error    // the engine before it
	lost       <-chan struct{} // closed if the store can never write again
	failing    func() error    // why
	followRing func(context.Context)
}

// pollEach is how long an instance that shares its store leaves between two
// looks for tasks that another one has left behind: seldom enough that hundreds
// of idle instances are no load, often enough that what a dead one had in hand
// is taken over within a minute. No partition waits longer than pollMost.
const (
	pollEach = 2 * time.Second
	pollMost = 30 * time.Second
)

// assemble opens the store and puts the instance together. Whoever gets one calls serve or close.
func assemble(ctx context.Context, s settings) (*instance, error) {
	base, err := url.Parse(s.core.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	metrics := server.NewMetrics()
	var watch atomic.Pointer[storewatch.Watch]
	opened, closeStore, err := s.store.openTold(ctx, s.now, func(failing error) {
		if w := watch.Load(); w != nil {
			w.Told(failing)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	merged := opened
	if s.store.shared() { // across a network a read costs more than merging it
		merged = kvmerge.Over(opened, integration.Partition)
	}
	watch.Store(storewatch.New(merged, storewatch.Config{Log: s.log, Metrics: metrics, Tells: s.store.tells()}))
	ring, err := keyring.Open(ctx, keyring.Config{
		Host: host.Host{KV: watch.Load().KV(), Now: s.now, Random: s.random, Log: s.log},
		// The name without the port: a token is good on another port of the
		// same host, which in dev is what a restart may bring.
		Name: base.Hostname(), Keyring: s.keyring, File: s.keyringFile, Observe: metrics.Keyring,
	})
	if err != nil {
		return nil, errors.Join(err, closeStore())
	}
	store := ring.KV()
	if err := keepPartitions(ctx, store, s.random, max(s.core.Partitions, 1)); err != nil {
		return nil, errors.Join(err, closeStore())
	}
	in := &instance{closeStore: closeStore, followRing: ring.Run}
	if b, ok := opened.(*bolt.Store); ok {
		in.lost, in.failing = b.GaveUp(), b.Failing
	}
	s.core.Providers = providers(s)
	on := host.Host{
		KV: store, Sealer: ring, Fetch: egress.New(s.egress),
		Now: s.now, Random: s.random, Log: s.log, Count: metrics.Count,
		// The runner needs the service, which needs this: nothing is
		// scheduled before both are there.
		Wake: func(p kv.Partition, due time.Time) { in.runner.Wake(p, due) },
	}
	in.service, err = core.New(s.core, on)
	if err != nil {
		return nil, errors.Join(err, closeStore())
	}
	var engine engine
	engine, in.modules, err = s.engine.start(ctx, in.service, s.core, on, metrics)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("engine %s: %w", s.engine.name, err), closeStore())
	}
	in.modules.token = s.core.OperatorToken
	in.closeStore = func() error { return errors.Join(in.modules.close(), closeStore()) }
	in.runner = runner.New(runner.Config{
		Outbox:       engine,
		Exclusive:    !s.store.shared(),
		PollInterval: min(pollEach*time.Duration(len(engine.Partitions())), pollMost),
		Now:          s.now, Log: s.log, Metrics: metrics,
	})

	budgeted := budgeted{engine, cmp.Or(s.budget, storeBudget)}
	s.server.Page = hosted.Refusal
	s.server.Routes, s.server.AdminRoutes = core.Routes(), core.AdminRoutes()
	s.server.Engine, s.server.Public, s.server.Store = whole{budgeted, ring}, s.public, watch.Load()
	if s.admin != nil {
		s.server.Admin, s.server.AdminListener = in.modules.listed(budgeted.Admin), s.admin
		s.server.AdminStreams = map[string]server.Stream{modulePath: in.modules.serve}
	}
	s.server.Ops, s.server.Log, s.server.Metrics = s.ops, s.log, metrics
	in.server = server.New(s.server)
	return in, nil
}

// whole is an engine that is ready only while its instance has every key that
// the fleet uses.
type whole struct {
	engine
	ring *keyring.Live
}

// Ready implements server.Engine.
func (w whole) Ready(ctx context.Context) error {
	return errors.Join(w.ring.Ready(), w.engine.Ready(ctx))
}

// storeBudget is what a request may wait for the store where nobody says: less
// than it may take as a whole, so that who waits gets an answer.
const storeBudget = 5 * time.Second

// budgeted is an engine each of whose requests may wait for the store for so
// long, all of its calls together.
type budgeted struct {
	engine
	time time.Duration
}

func (b budgeted) Handle(ctx context.Context, req *web.Request) *web.Response {
	return b.engine.Handle(storewatch.WithBudget(ctx, b.time), req)
}

func (b budgeted) Admin(ctx context.Context, req *web.Request) *web.Response {
	return b.engine.Admin(storewatch.WithBudget(ctx, b.time), req)
}

// providers are the methods that this release has.
func providers(s settings) (all []provider.Provider) {
	if s.core.Dev || s.core.Test {
		all = append(all, &sandbox.Provider{Now: s.now})
	}
	return all
}

// serve runs until ctx is done or the store is lost, then lets go in the order of dependence:
// requests are answered, jobs in hand finish or are given back, and only then
// does the store close.
func (in *instance) serve(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var lost atomic.Pointer[error]
	go func() {
		select {
		case <-in.lost:
			lost.Store(new(fmt.Errorf("store: %w", in.failing())))
			end()
		case <-ctx.Done():
		}
	}()
	jobs, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go in.followRing(jobs)
	ran := make(chan error, 1)
	go func() { ran <- in.runner.Run(jobs) }()
	err := in.server.Run(ctx)
	stop()
	if cause := lost.Load(); cause != nil {
		err = errors.Join(*cause, err)
	}
	return errors.Join(err, <-ran, in.closeStore())
}

// close lets go of an instance that never served.
func (in *instance) close() error { return in.closeStore() }
