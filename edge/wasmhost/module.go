package wasmhost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/verge-id/verge/wasm/abi"
)

// Module is a compiled guest. Several engines may run the same module at the same time. Compiling takes
// seconds, starting an instance milliseconds.
type Module struct {
	digest    string
	runtime   wazero.Runtime
	compiled  wazero.CompiledModule
	memoryMax int64

	mu    sync.Mutex
	users int // 1 for the caller of Compile until Close, and 1 for each generation of instances
	close func() error
}

// CompileConfig has the settings of a module, not of an engine. The zero value works.
type CompileConfig struct {
	MemoryMax     int64                   // see Config
	Interruptible bool                    // see Config
	Cache         wazero.CompilationCache // see Config
}

// exports are the required functions of a guest, with the number of their parameters and results, all i32.
var exports = map[string]struct{ params, results int }{
	"verge_abi":      {0, 1},
	"verge_reserve":  {1, 1},
	"verge_config":   {1, 1},
	"verge_submit":   {2, 1},
	"verge_complete": {4, 1},
	"verge_cancel":   {2, 1},
	"_initialize":    {0, 0},
}

// Compile compiles a module and checks its structure and exports. The caller must call Close.
func Compile(ctx context.Context, wasm []byte, c CompileConfig) (*Module, error) {
	return compile(ctx, wasm, digestOf(wasm), c)
}

// digestOf returns the SHA-256 of a module.
func digestOf(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

func compile(ctx context.Context, wasm []byte, digest string, c CompileConfig) (_ *Module, err error) {
	c.MemoryMax = cmp.Or(c.MemoryMax, memoryMax)
	m := &Module{digest: digest, memoryMax: c.MemoryMax, users: 1}
	m.close = sync.OnceValue(m.release)
	// Debug information is off: with it, wazero gives each memory access a separate exit with its line, and
	// a request takes 1.8 times as long.
	rc := wazero.NewRuntimeConfigCompiler().
		WithMemoryLimitPages(uint32(c.MemoryMax / pageSize)).
		WithCloseOnContextDone(c.Interruptible).
		WithCoreFeatures(features).
		WithDebugInfoEnabled(false)
	if c.Cache != nil {
		rc = rc.WithCompilationCache(c.Cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, rc)
	defer func() {
		if err != nil {
			m.runtime.Close(ctx)
			err = bounded{err}
		}
	}()
	if err := checkShape(wasm); err != nil {
		return nil, fmt.Errorf("wasmhost: module %s is no WebAssembly that can be run: %w", short(m.digest),
			err)
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, fmt.Errorf("wasmhost: %w", err)
	}
	if err := offerSealing(ctx, m.runtime); err != nil {
		return nil, fmt.Errorf("wasmhost: %w", err)
	}
	if m.compiled, err = m.runtime.CompileModule(ctx, wasm); err != nil {
		return nil, fmt.Errorf("wasmhost: module %s is no WebAssembly that can be run: %w", short(m.digest),
			err)
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
		return nil, fmt.Errorf("wasmhost: module %s is no guest of this version: %s",
			short(m.digest), strings.Join(wrong, "; "))
	}
	return m, nil
}

// Digest returns the SHA-256 of the module's bytes.
func (m *Module) Digest() string { return m.digest }

// Close releases the module. Engines that use it continue, and the last one removes it.
func (m *Module) Close() error { return m.close() }

// hold keeps the module until release.
func (m *Module) hold() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users == 0 {
		return fmt.Errorf("wasmhost: module %s is closed", short(m.digest))
	}
	m.users++
	return nil
}

func (m *Module) release() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users--; m.users > 0 {
		return nil
	}
	return m.runtime.Close(context.Background())
}

func i32s(types []api.ValueType, n int) bool {
	return len(types) == n &&
		!slices.ContainsFunc(types, func(t api.ValueType) bool { return t != api.ValueTypeI32 })
}

func short(digest string) string { return digest[:12] }

// features are WebAssembly's without growing tables, because no memory limit counts the content of tables.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureReferenceTypes

const (
	pageSize  = 64 << 10  // WebAssembly's
	memoryMax = 256 << 20 // the default
)

// instantiate returns a configured guest that accepts requests. Its exports must be called with a context
// from withSealer.
func (m *Module) instantiate(ctx context.Context, c *Config, stderr *stderrHead) (api.Module, error) {
	config, err := c.guest()
	if err != nil {
		return nil, err
	}
	mc := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").
		WithStderr(stderr).
		WithRandSource(c.Random).
		WithWalltime(c.Clock.wall, sys.ClockResolution(1)).
		WithNanotime(c.Clock.nano, sys.ClockResolution(1))
	mod, err := m.runtime.InstantiateModule(ctx, m.compiled, mc)
	if err != nil {
		return nil, bounded{fmt.Errorf("wasmhost: starting the guest: %w", err)}
	}
	if err := configure(ctx, mod, config); err != nil {
		mod.Close(ctx)
		return nil, bounded{fmt.Errorf("wasmhost: %w", err)}
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
	rejection, err := mod.ExportedFunction("verge_config").Call(ctx, uint64(len(config)))
	if err != nil {
		return err
	}
	if rejection[0] == 0 {
		return nil
	}
	text, err := outbox(mod, uint32(rejection[0]))
	if err != nil {
		return err
	}
	return fmt.Errorf("the guest rejects its configuration: %s", text)
}

// draw runs the self-test of a guest that has no work yet. The guest may ask for a signature with
// abi.TestKey, which is never the name of a key. It must then respond immediately.
func draw(ctx context.Context, mod api.Module) (abi.Self, error) {
	at, err := mod.ExportedFunction("verge_reserve").Call(ctx, 1)
	if err != nil {
		return abi.Self{}, err
	}
	if at[0] == 0 || !mod.Memory().WriteByte(uint32(at[0]), byte(abi.SelfTest)) {
		return abi.Self{}, errors.New("it grants no room")
	}
	header, err := mod.ExportedFunction("verge_submit").Call(ctx, 1, 1)
	if err != nil {
		return abi.Self{}, err
	}
	rec, err := tested(mod, header[0])
	if err != nil {
		return abi.Self{}, err
	}
	if rec.Kind == abi.Sign {
		if _, err := mod.ExportedFunction("verge_reserve").Call(ctx, 0); err != nil {
			return abi.Self{}, err
		}
		complete := mod.ExportedFunction("verge_complete")
		if header, err = complete.Call(ctx, 1, uint64(rec.Op), uint64(abi.NotFound), 0); err != nil {
			return abi.Self{}, err
		}
		if rec, err = tested(mod, header[0]); err != nil {
			return abi.Self{}, err
		}
	}
	if rec.Kind != abi.Respond {
		return abi.Self{}, errors.New("it does not respond to its test")
	}
	return abi.Read.Self(rec.Body)
}

// tested returns the first record of an outbox that is not a notice.
func tested(mod api.Module, header uint64) (abi.Record, error) {
	out, err := outbox(mod, uint32(header))
	for err == nil && len(out) > 0 {
		var rec abi.Record
		if rec, out, err = abi.Read.Record(out); err == nil && rec.Kind <= abi.Respond {
			return rec, nil
		}
	}
	return abi.Record{}, err
}
