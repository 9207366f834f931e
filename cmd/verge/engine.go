package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/runner"
	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/edge/wasmhost"
	wasmsettings "github.com/verge-id/verge/wasm/settings"
)

// engine runs the core: *core.Service does natively, a host of guests does.
type engine interface {
	server.Engine
	runner.Outbox
	Admin(ctx context.Context, req *web.Request) *web.Response
}

// Names of engines.
const (
	nativeEngine = "native"
	wasmEngine   = "wasm"
)

// engineAt names an engine, what it is made from and what it trusts.
type engineAt struct {
	name          string
	module        string // a file; "": the module that was built into this binary
	trust         trust
	cache         string // a directory for compiled modules; "": none is kept
	interruptible bool

	loaded module // once load was called
}

func (a engineAt) check() error {
	switch {
	case a.name != nativeEngine && a.name != wasmEngine:
		return fmt.Errorf("engine %q: want %s or %s", a.name, nativeEngine, wasmEngine)
	case a.name == nativeEngine && a.module != "":
		return fmt.Errorf("a module is for the engine %s; the engine is %s", wasmEngine, a.name)
	}
	return nil
}

// String names the engine and, once it is loaded, its module.
func (a engineAt) String() string {
	if a.name != wasmEngine {
		return "engine " + a.name
	}
	return fmt.Sprintf("engine %s with module %s (%s)", a.name, a.loaded.digest, a.loaded.source)
}

// load reads the module, if there is to be one, and refuses one that is not trusted.
func (a *engineAt) load(fsys afero.Fs) error {
	switch {
	case a.name != wasmEngine:
		return nil
	case a.module == "":
		return a.take(builtInModule())
	}
	return a.take(readModule(fsys, a.module))
}

// take has the built-in module need no signature: it is trusted as the binary
// is. But it has to be the pinned one, if one is pinned.
func (a *engineAt) take(m module, err error) error {
	if err != nil {
		return err
	}
	a.loaded = m
	own := a.trust
	if a.module == "" {
		own = trust{sha256: a.trust.sha256}
	}
	if a.loaded.version, err = own.check(m.digest, m.signature); err != nil {
		return fmt.Errorf("%s: %w", m.source, err)
	}
	return nil
}

// start returns what runs the service's configuration: the service itself, or
// guests of the same configuration on the same host. modules then says which
// one they run and changes it.
func (a engineAt) start(ctx context.Context, service *core.Service, c core.Config, h host.Host, metrics *server.Metrics) (engine, *modules, error) {
	if a.name != wasmEngine {
		return service, &modules{engine: a.name, log: h.Log, now: h.Now}, nil
	}
	guest, err := wasmsettings.Pack(c)
	if err != nil {
		return nil, nil, err
	}
	meter, ok := h.KV.(kv.Meter)
	if !ok {
		meter = ratelimit.NewLocal(0).Meter()
	}
	guests := metrics.Guests()
	config := wasmhost.Config{
		Module: a.loaded.wasm, Guest: guest, KV: h.KV, Meter: meter, Fetch: h.Fetch, Sealer: h.Sealer,
		Log: h.Log, Count: h.Count, Wake: h.Wake, Random: h.Random, Interruptible: a.interruptible,
	}
	cache := openCompiledModules(a.cache, h.Now, h.Log)
	if cache != nil {
		cache.before(a.loaded.digest)
		config.Cache = cache.compiled
	}
	ctx, cancel := context.WithTimeout(ctx, activationTime)
	defer cancel()
	m := &modules{engine: a.name, cache: cache, trust: a.trust, log: h.Log, now: h.Now, origins: map[string]origin{}, Observer: guests}
	config.Observer = m
	slow := time.AfterFunc(time.Second, func() { h.Log.Info("compiling the module, which takes some seconds the first time") })
	e, err := wasmhost.New(ctx, config)
	slow.Stop()
	if err != nil {
		return nil, nil, err
	}
	guests.Watch(func() server.GuestState { return server.GuestState(e.Stats()) })
	cache.after(a.loaded.digest)
	m.host = e
	m.comesFrom(a.loaded)
	m.follow()
	return e, m, nil
}

// moduleCache is where in a data directory compiled modules are kept.
func moduleCache(dir string) string { return filepath.Join(dir, "modules") }
