package config

import (
	"fmt"
	"path/filepath"

	"github.com/verge-id/verge/cmd/verge/internal/modules"
	"github.com/verge-id/verge/edge/engine"
)

// Engine is an engine to run: its name, its module, and which modules it trusts.
type Engine struct {
	Name          string
	Module        string // a file; "": the module that was built into this binary
	Trust         modules.Trust
	Cache         string // a directory for compiled modules; "": none is kept
	interruptible bool

	Loaded modules.Module // by Load
}

// Check returns an error unless the names fit together.
func (a Engine) Check() error {
	switch {
	case a.Name != engine.Native && a.Name != engine.WASM:
		return fmt.Errorf("engine %q: want %s or %s", a.Name, engine.Native, engine.WASM)
	case a.Name == engine.Native && a.Module != "":
		return fmt.Errorf("a module is for the engine %s; the engine is %s", engine.WASM, a.Name)
	}
	return nil
}

// String names the engine and, once it is loaded, its module.
func (a Engine) String() string {
	if a.Name != engine.WASM {
		return "engine " + a.Name
	}
	return fmt.Sprintf("engine %s with module %s (%s)", a.Name, a.Loaded.Digest, a.Loaded.Source)
}

// Load reads the module of the engine wasm. It returns an error if the module is not trusted.
func (a *Engine) Load(sys *System) error {
	switch {
	case a.Name != engine.WASM:
		return nil
	case a.Module == "":
		return a.take(sys.Module())
	}
	return a.take(modules.Read(sys.FS, a.Module))
}

// take checks a module that was read. The built-in module needs no signature, because it is trusted like the
// binary. But if a SHA-256 is pinned, the module must have it.
func (a *Engine) take(m modules.Module, err error) error {
	if err != nil {
		return err
	}
	a.Loaded = m
	own := a.Trust
	if a.Module == "" {
		own = modules.Trust{SHA256: a.Trust.SHA256}
	}
	if a.Loaded.Version, err = own.Check(m); err != nil {
		return fmt.Errorf("%s: %w", m.Source, err)
	}
	return nil
}

// Config returns the settings with which cmd/verge/internal/modules runs the engine.
func (a Engine) Config() modules.Config {
	if a.Name != engine.WASM {
		return modules.Config{}
	}
	return modules.Config{Module: &a.Loaded, Trust: a.Trust, Cache: a.Cache, Interruptible: a.interruptible}
}

// defaultModuleCache returns the default directory for compiled modules, in the user's cache. If the user has
// no cache, it returns "", and compiled modules are not kept.
func defaultModuleCache(getenv func(string) (string, bool)) string {
	if dir, _ := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "verge", "modules")
	}
	if home, _ := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "verge", "modules")
	}
	return ""
}
