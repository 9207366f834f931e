package testenv

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// keptFor is the time for which the cache keeps modules.
const keptFor = 3 * 24 * time.Hour

// cacheDir returns the directory where tests keep modules and their machine code, next to Go's build cache.
// Building them takes seconds, and a dozen packages need them. Tests of several processes share the
// directory, so files appear there atomically. Each version of Go and wazero has its own. cacheDir is "" if
// there is no cache directory.
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

// forget removes old modules. A process that has one open can keep reading it.
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

// CompiledIn returns the directory of a compilation cache that has the machine code of a module, or "" if
// there is no cache directory. Package guestcode opens it.
func CompiledIn(t testing.TB, module []byte) string {
	t.Helper()
	parent := cacheDir()
	if parent == "" {
		return ""
	}
	dir := filepath.Join(parent, compiledDir)
	key := fmt.Sprintf("compiled %x", sha256.Sum256(module))
	once, _ := compiledOf.LoadOrStore(key, sync.OnceValue(func() error {
		_, err := cached(key, func(made string) error { return compileInto(dir, made, module, nil) })
		return err
	}))
	if err := once.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return dir
}

var compiledOf sync.Map // func() error, by module

// CompiledFiles returns a directory that contains only the machine code of a module. options are the compiler
// program's options: "interruptible" allows stopping a guest at its deadline.
func CompiledFiles(t testing.TB, module []byte, options ...string) string {
	t.Helper()
	key := fmt.Sprintf("files %x %s", sha256.Sum256(module), strings.Join(options, " "))
	once, _ := filesOf.LoadOrStore(key, sync.OnceValues(func() (string, error) {
		return cached(key, func(dir string) error {
			temp, err := os.MkdirTemp("", "verge-compile-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(temp)
			return compileInto(dir, temp, module, options)
		})
	}))
	dir, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var filesOf sync.Map // func() (string, error), which returns the directory with the result

// compileInto compiles a module in a separate process, without a race detector even if the test has it. It
// leaves the code in dir and a copy of the module in temp.
func compileInto(dir, temp string, module []byte, options []string) error {
	path := filepath.Join(temp, moduleFile)
	if err := os.WriteFile(path, module, 0o600); err != nil {
		return err
	}
	const program = "github.com/verge-id/verge/testharness/testenv/internal/compile"
	args := append([]string{"run", program, dir, path}, options...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("testenv: %w: %s", err, out)
	}
	return nil
}

// cached returns a directory that make has filled, now or in an earlier run. All that make depends on is in
// key.
func cached(key string, make func(dir string) error) (string, error) {
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
