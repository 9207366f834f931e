package wasmhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/wasm/abi"
)

// module is a compiled guest and what its instances are made with.
type module struct {
	digest   string
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	random   io.Reader
	clock    Clock
	config   []byte // argument of verge_config
}

// exports are the functions that a guest must have, with their results and
// parameters, all i32.
var exports = map[string]struct{ params, results int }{
	"verge_abi":      {0, 1},
	"verge_reserve":  {1, 1},
	"verge_config":   {1, 1},
	"verge_submit":   {2, 1},
	"verge_complete": {4, 1},
	"verge_cancel":   {2, 1},
	"verge_idle":     {0, 0},
	"_initialize":    {0, 0},
}

// compile makes a module of its bytes and checks what can be seen from outside.
func compile(ctx context.Context, c *Config, wasm []byte) (_ *module, err error) {
	sum := sha256.Sum256(wasm)
	m := &module{digest: hex.EncodeToString(sum[:]), random: c.Random, clock: c.Clock, config: c.guest}
	rc := wazero.NewRuntimeConfigCompiler().
		WithMemoryLimitPages(uint32(c.MemoryMax / pageSize)).
		WithCloseOnContextDone(c.Interruptible)
	if c.Cache != nil {
		rc = rc.WithCompilationCache(c.Cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, rc)
	defer func() {
		if err != nil {
			m.runtime.Close(ctx)
		}
	}()
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, fmt.Errorf("wasmhost: %w", err)
	}
	if err := offerSealing(ctx, m.runtime, c.Sealer); err != nil {
		return nil, fmt.Errorf("wasmhost: %w", err)
	}
	if m.compiled, err = m.runtime.CompileModule(ctx, wasm); err != nil {
		return nil, fmt.Errorf("wasmhost: module %s is no WebAssembly that can be run: %w", short(m.digest), err)
	}
	var wrong []string
	has := m.compiled.ExportedFunctions()
	for name, want := range exports {
		f, ok := has[name]
		if !ok {
			wrong = append(wrong, "it does not export "+name)
		} else if !i32s(f.ParamTypes(), want.params) || !i32s(f.ResultTypes(), want.results) {
			wrong = append(wrong, "its "+name+" has another signature")
		}
	}
	if _, ok := m.compiled.ExportedMemories()["memory"]; !ok {
		wrong = append(wrong, "it does not export its memory")
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("wasmhost: module %s is no guest of this version: %s", short(m.digest), strings.Join(wrong, "; "))
	}
	return m, nil
}

func i32s(types []api.ValueType, n int) bool {
	for _, t := range types {
		if t != api.ValueTypeI32 {
			return false
		}
	}
	return len(types) == n
}

func short(digest string) string { return digest[:12] }

// pageSize is WebAssembly's.
const pageSize = 64 << 10

// instantiate makes a guest that is configured and takes requests.
func (m *module) instantiate(ctx context.Context) (api.Module, error) {
	mc := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").
		WithRandSource(m.random).
		WithWalltime(m.clock.wall, sys.ClockResolution(1)).
		WithNanotime(m.clock.nano, sys.ClockResolution(1))
	mod, err := m.runtime.InstantiateModule(ctx, m.compiled, mc)
	if err != nil {
		return nil, fmt.Errorf("wasmhost: starting the guest: %w", err)
	}
	if err := configure(ctx, mod, m.config); err != nil {
		mod.Close(ctx)
		return nil, fmt.Errorf("wasmhost: %w", err)
	}
	return mod, nil
}

func configure(ctx context.Context, mod api.Module, config []byte) error {
	version, err := mod.ExportedFunction("verge_abi").Call(ctx)
	if err != nil {
		return err
	}
	if version[0] != abi.Version {
		return fmt.Errorf("the guest speaks version %d of the ABI, this host %d", version[0], abi.Version)
	}
	at, err := mod.ExportedFunction("verge_reserve").Call(ctx, uint64(len(config)))
	if err != nil {
		return err
	}
	if at[0] == 0 || !mod.Memory().Write(uint32(at[0]), config) {
		return errors.New("the guest has no room for its configuration")
	}
	refusal, err := mod.ExportedFunction("verge_config").Call(ctx, uint64(len(config)))
	if err != nil {
		return err
	}
	if refusal[0] == 0 {
		return nil
	}
	in := instance{module: mod}
	text, err := in.outbox(uint32(refusal[0]))
	if err != nil {
		return err
	}
	return fmt.Errorf("the guest refuses its configuration: %s", text)
}

// offerSealing makes the module "verge" that guests import. Without a Sealer
// its functions say that there is none.
func offerSealing(ctx context.Context, r wazero.Runtime, s host.Sealer) error {
	read := func(m api.Module, at, n uint32) ([]byte, bool) { return m.Memory().Read(at, n) }
	transform := func(do func(purpose string, in []byte) ([]byte, error)) func(context.Context, api.Module, uint32, uint32, uint32, uint32, uint32, uint32) int32 {
		return func(_ context.Context, m api.Module, p, pn, in, n, out, room uint32) int32 {
			if s == nil {
				return abi.SealNotOffered
			}
			purpose, ok1 := read(m, p, pn)
			message, ok2 := read(m, in, n)
			if !ok1 || !ok2 {
				return abi.SealFailed
			}
			result, err := do(string(purpose), message)
			switch {
			case errors.Is(err, host.ErrNotAuthentic):
				return abi.SealNotAuthentic
			case err != nil:
				return abi.SealFailed
			case uint64(len(result)) > uint64(room):
				return abi.SealTooSmall
			case !m.Memory().Write(out, result):
				return abi.SealFailed
			}
			return int32(len(result))
		}
	}
	check := func(_ context.Context, m api.Module, p, pn, in, n, mac, macLen uint32) int32 {
		if s == nil {
			return abi.SealNotOffered
		}
		purpose, ok1 := read(m, p, pn)
		message, ok2 := read(m, in, n)
		sum, ok3 := read(m, mac, macLen)
		if ok1 && ok2 && ok3 && s.CheckMAC(string(purpose), message, sum) {
			return 1
		}
		return 0
	}
	b := r.NewHostModuleBuilder("verge")
	b.NewFunctionBuilder().WithFunc(transform(func(p string, in []byte) ([]byte, error) { return s.Seal(p, in) })).Export("seal")
	b.NewFunctionBuilder().WithFunc(transform(func(p string, in []byte) ([]byte, error) { return s.Open(p, in) })).Export("open")
	b.NewFunctionBuilder().WithFunc(transform(func(p string, in []byte) ([]byte, error) { return s.MAC(p, in) })).Export("mac")
	b.NewFunctionBuilder().WithFunc(check).Export("check_mac")
	_, err := b.Instantiate(ctx)
	return err
}
