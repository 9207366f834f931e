package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/afero"
	"github.com/tetratelabs/wazero"

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

// engineAt names an engine and what it is made from.
type engineAt struct {
	name   string
	module string // a file; "": the module that was built into this binary
	cache  string // a directory for compiled modules; "": none is kept
}

func parseEngine(name, module, cache string) (engineAt, error) {
	switch {
	case name != nativeEngine && name != wasmEngine:
		return engineAt{}, fmt.Errorf("engine %q: want %s or %s", name, nativeEngine, wasmEngine)
	case name == nativeEngine && module != "":
		return engineAt{}, fmt.Errorf("a module is for the engine %s; the engine is %s", wasmEngine, name)
	}
	return engineAt{name, module, cache}, nil
}

// start returns what runs the service's configuration: the service itself, or
// guests of the same configuration on the same host.
func (a engineAt) start(ctx context.Context, fsys afero.Fs, service *core.Service, c core.Config, h host.Host) (engine, func() error, error) {
	if a.name != wasmEngine {
		return service, func() error { return nil }, nil
	}
	module, err := a.read(fsys)
	if err != nil {
		return nil, nil, err
	}
	guest, err := wasmsettings.Pack(c)
	if err != nil {
		return nil, nil, err
	}
	meter, ok := h.KV.(kv.Meter)
	if !ok {
		meter = ownCounters{ratelimit.NewLocal(0)}
	}
	var cache wazero.CompilationCache
	if a.cache != "" {
		if cache, err = wazero.NewCompilationCacheWithDir(a.cache); err != nil {
			return nil, nil, fmt.Errorf("cache of compiled modules: %w", err)
		}
	}
	e, err := wasmhost.New(ctx, wasmhost.Config{
		Module: module, Guest: guest, KV: h.KV, Meter: meter, Fetch: h.Fetch, Sealer: h.Sealer,
		Log: h.Log, Count: h.Count, Wake: h.Wake, Cache: cache, Random: h.Random,
	})
	if err != nil {
		return nil, nil, err
	}
	return e, e.Close, nil
}

// ownCounters are the rate counters of a store that no other process shares.
type ownCounters struct{ *ratelimit.Local }

// Spend implements kv.Meter; one process has one partition of them.
func (o ownCounters) Spend(ctx context.Context, _ kv.Partition, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	return o.Local.Spend(ctx, now, charges)
}

// builtIn holds the module that `make wasm` has put there, if it has.
//
//go:embed all:module
var builtIn embed.FS

const builtInModule = "module/verge.wasm.gz"

// read returns the module's bytes.
func (a engineAt) read(fsys afero.Fs) ([]byte, error) {
	if a.module != "" {
		wasm, err := afero.ReadFile(fsys, a.module)
		if err != nil {
			return nil, fmt.Errorf("module: %w", err)
		}
		return wasm, nil
	}
	packed, err := builtIn.ReadFile(builtInModule)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("this binary has no module built in: `make build` builds one that has, or name a file with --module")
	}
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("built-in module: %w", err)
	}
	return io.ReadAll(z)
}

// moduleCache is where in a data directory compiled modules are kept.
func moduleCache(dir string) string { return filepath.Join(dir, "modules") }
