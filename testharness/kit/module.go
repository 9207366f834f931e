package kit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/verge-id/verge/wasm/reloop"
)

// Module returns the core as a WASM guest. It is built from this source by the Go
// that runs the test, and relooped, as make wasm does it.
func Module(t testing.TB) []byte {
	t.Helper()
	return Build(t, "github.com/verge-id/verge/wasm/guest")
}

// Build returns a package as a WASM reactor.
func Build(t testing.TB, pkg string) []byte {
	t.Helper()
	built, _ := modules.LoadOrStore(pkg, sync.OnceValues(func() ([]byte, error) { return build(pkg) }))
	wasm, err := built.(func() ([]byte, error))()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

var modules sync.Map // func() ([]byte, error), by package

func build(pkg string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "verge-module-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("kit: building %s: %w\n%s", pkg, err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	return reloop.Module(wasm)
}
