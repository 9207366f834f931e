package kit

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
)

// keptFor is how long the cache keeps what was made.
const keptFor = 3 * 24 * time.Hour

// cacheDir returns the directory where tests keep modules and their machine code, beside the build cache of Go.
// Making them takes seconds, and a dozen packages need them. Tests of several processes share the directory, so
// what is put there appears at once and as a whole. Each Go and each wazero has one of its own. It is "" where
// there is none.
var cacheDir = sync.OnceValue(func() string {
	user, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	wazero, err := exec.Command("go", "list", "-f={{.Module.Version}}",
		"github.com/tetratelabs/wazero").Output()
	if err != nil {
		return ""
	}
	dir := filepath.Join(user, "verge-test", runtime.Version()+" wazero "+strings.TrimSpace(string(wazero)))
	if err := os.MkdirAll(filepath.Join(dir, compiledDir), 0o700); err != nil {
		return ""
	}
	forget(filepath.Dir(dir))
	return dir
})

const compiledDir = "compiled"

// forget removes what was made long ago. Whoever has it open goes on reading it.
func forget(dir string) {
	made, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	compiled, _ := filepath.Glob(filepath.Join(dir, "*", compiledDir, "*", "*"))
	for _, path := range append(made, compiled...) {
		info, err := os.Stat(path)
		if err == nil && filepath.Base(path) != compiledDir && time.Since(info.ModTime()) > keptFor {
			os.RemoveAll(path)
		}
	}
}

// Compiled is the cache of machine code for wazero that the tests of all packages share, so that a module is
// compiled once. It is for modules that Module, ModuleWith and Build return. A test that makes hundreds of
// modules keeps their code to itself.
var Compiled = sync.OnceValue(func() wazero.CompilationCache {
	if dir := cacheDir(); dir != "" {
		if cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, compiledDir)); err == nil {
			return cache
		}
	}
	return wazero.NewCompilationCache()
})

// Cached returns a directory that make has filled, now or in an earlier run. All that make depends on is in key.
func Cached(key string, make func(dir string) error) (string, error) {
	parent := cacheDir()
	dir := filepath.Join(parent, fmt.Sprintf("made-%x", sha256.Sum256([]byte(key))))
	if _, err := os.Stat(dir); parent != "" && err == nil {
		return dir, nil
	}
	filling, err := os.MkdirTemp(parent, "filling-")
	if err != nil {
		return "", err
	}
	if err := make(filling); err != nil {
		os.RemoveAll(filling)
		return "", err
	}
	if parent == "" {
		return filling, nil
	}
	if err := os.Rename(filling, dir); err != nil {
		os.RemoveAll(filling)
		if _, there := os.Stat(dir); there != nil { // otherwise another process was quicker
			return "", err
		}
	}
	return dir, nil
}
