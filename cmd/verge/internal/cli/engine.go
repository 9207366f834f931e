package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/modules"
)

// Names of engines.
const (
	nativeEngine = engine.Native
	wasmEngine   = engine.WASM
)

// engineAt names an engine, what it is made from and what it trusts.
type engineAt struct {
	name          string
	module        string // a file; "": the module that was built into this binary
	trust         modules.Trust
	cache         string // a directory for compiled modules; "": none is kept
	interruptible bool

	loaded modules.Module // once load was called
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
	return fmt.Sprintf("engine %s with module %s (%s)", a.name, a.loaded.Digest, a.loaded.Source)
}

// load reads the module, if there is to be one, and refuses one that is not trusted.
func (a *engineAt) load(fsys afero.Fs) error {
	switch {
	case a.name != wasmEngine:
		return nil
	case a.module == "":
		return a.take(builtInModule())
	}
	return a.take(modules.Read(fsys, a.module))
}

// take checks a module that was read. The built-in module needs no signature, because it is trusted
// as the binary is. But if a SHA-256 is pinned, the module must have it.
func (a *engineAt) take(m modules.Module, err error) error {
	if err != nil {
		return err
	}
	a.loaded = m
	own := a.trust
	if a.module == "" {
		own = modules.Trust{SHA256: a.trust.SHA256}
	}
	if a.loaded.Version, err = own.Check(m); err != nil {
		return fmt.Errorf("%s: %w", m.Source, err)
	}
	return nil
}

// config returns what edge/modules needs to run the engine.
func (a engineAt) config() modules.Config {
	if a.name != wasmEngine {
		return modules.Config{}
	}
	return modules.Config{Module: &a.loaded, Trust: a.trust, Cache: a.cache, Interruptible: a.interruptible}
}

// moduleCache returns the directory for compiled modules within a data directory.
func moduleCache(dir string) string { return filepath.Join(dir, "modules") }

// defaultModuleCache returns the directory for compiled modules if none is configured. It is in the
// cache of the user. If the user has no cache, it is "", and no compiled module is kept.
func defaultModuleCache(getenv func(string) (string, bool)) string {
	if dir, _ := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "verge", "modules")
	}
	if home, _ := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "verge", "modules")
	}
	return ""
}
