package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/provider/sandbox"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/runner"
	"github.com/verge-id/verge/edge/server"
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

	// keyringFile is where keyring was read and is followed. Empty: it never changes.
	keyringFile string
	fs          afero.Fs // of that file

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
	closeStore func() error // the engine before it
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
	// The name without the port: a token is good on another port of the same
	// host, which in dev is what a restart may bring.
	ring, err := newLiveRing(base.Hostname(), s.random, s.keyring)
	if err != nil {
		return nil, err
	}
	store, closeStore, err := s.store.open(ctx, s.now)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := keepPartitions(ctx, store, s.random, max(s.core.Partitions, 1)); err != nil {
		return nil, errors.Join(err, closeStore())
	}
	in := &instance{closeStore: closeStore, followRing: func(context.Context) {}}
	metrics := server.NewMetrics()
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
	if s.keyringFile != "" {
		in.followRing = func(ctx context.Context) {
			ring.follow(ctx, s.fs, s.keyringFile, s.log, in.service.Directory().Reseal)
		}
	}
	in.runner = runner.New(runner.Config{
		Outbox:       engine,
		Exclusive:    !s.store.shared(),
		PollInterval: min(pollEach*time.Duration(len(engine.Partitions())), pollMost),
		Now:          s.now, Log: s.log, Metrics: metrics,
	})

	s.server.Engine, s.server.Public = engine, s.public
	if s.admin != nil {
		s.server.Admin, s.server.AdminListener = in.modules.listed(engine.Admin), s.admin
		s.server.AdminStreams = map[string]server.Stream{modulePath: in.modules.serve}
	}
	s.server.Ops, s.server.Log, s.server.Metrics = s.ops, s.log, metrics
	in.server = server.New(s.server)
	return in, nil
}

// providers are the methods that this release has.
func providers(s settings) (all []provider.Provider) {
	if s.core.Dev || s.core.Test {
		all = append(all, &sandbox.Provider{Now: s.now})
	}
	return all
}

// serve runs until ctx is done, then lets go in the order of dependence:
// requests are answered, jobs in hand finish or are given back, and only then
// does the store close.
func (in *instance) serve(ctx context.Context) error {
	jobs, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go in.followRing(jobs)
	ran := make(chan error, 1)
	go func() { ran <- in.runner.Run(jobs) }()
	err := in.server.Run(ctx)
	stop()
	return errors.Join(err, <-ran, in.closeStore())
}

// close lets go of an instance that never served.
func (in *instance) close() error { return in.closeStore() }
