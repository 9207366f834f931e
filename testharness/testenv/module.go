package testenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/verge-id/verge/wasm/postlink"
)

// Module returns the core as a WASM guest. It is built from this source by the Go
// that runs the test, and optimized by postlink, as make module does it.
func Module(t testing.TB) []byte {
	t.Helper()
	return Build(t, "github.com/verge-id/verge/wasm/guest")
}

// ModuleWith is Module with one more kind of method, which is for tests: the Kind of that package.
func ModuleWith(t testing.TB, kind string) []byte {
	t.Helper()
	const guest = "github.com/verge-id/verge/wasm/guest"
	return built(t, guest+" with "+kind, func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "verge-overlay-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		overlay, err := overlayKinds(dir, kind)
		if err != nil {
			return nil, err
		}
		return build(guest, "-overlay", overlay)
	})
}

// overlayKinds writes the file by which go build takes another list of kinds, and returns its path.
func overlayKinds(dir, kind string) (string, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("testenv: finding the module: %w", err)
	}
	list := filepath.Join(strings.TrimSpace(string(module)), "core", "method", "kinds", "kinds.go")
	source, err := os.ReadFile(list)
	if err != nil {
		return "", err
	}
	const imports, all = "import (\n", "All = []method.Kind{\n"
	text := string(source)
	if strings.Count(text, imports) != 1 || strings.Count(text, all) != 1 {
		return "", fmt.Errorf("testenv: %s has an unknown format", list)
	}
	text = strings.Replace(text, imports, imports+strconv.Quote(kind)+"\n", 1)
	text = strings.Replace(text, all, all+path.Base(kind)+".Kind,\n", 1)
	replacement, overlay := filepath.Join(dir, "kinds.go"), filepath.Join(dir, "overlay.json")
	paths, err := json.Marshal(map[string]any{"Replace": map[string]string{list: replacement}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(replacement, []byte(text), 0o600),
		os.WriteFile(overlay, paths, 0o600))
}

// Build returns a package as a WASM reactor.
func Build(t testing.TB, pkg string) []byte {
	t.Helper()
	return built(t, pkg, func() ([]byte, error) { return build(pkg) })
}

// built returns the result of make, which it calls once for each name.
func built(t testing.TB, name string, make func() ([]byte, error)) []byte {
	t.Helper()
	built, _ := modules.LoadOrStore(name, sync.OnceValues(make))
	wasm, err := built.(func() ([]byte, error))()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

var modules sync.Map // func() ([]byte, error), by name

// build builds a package. more are further arguments of go build.
func build(pkg string, more ...string) ([]byte, error) {
	if err := openSource(); err != nil {
		return nil, err
	}
	args := append(append([]string{"-buildmode=c-shared", "-trimpath"}, postlink.Gcflags()...), more...)
	key, err := buildIDs(pkg, args)
	if err != nil {
		return nil, err
	}
	dir, err := cached("module "+key, func(dir string) error {
		out := filepath.Join(dir, moduleFile)
		if _, err := guestGo(append(append([]string{"build", "-ldflags=-s -w", "-o", out}, args...),
			pkg)); err != nil {
			return err
		}
		wasm, err := os.ReadFile(out)
		if err != nil {
			return err
		}
		if wasm, err = postlink.Module(wasm); err != nil {
			return err
		}
		return os.WriteFile(out, wasm, 0o600)
	})
	if err != nil {
		return nil, fmt.Errorf("testenv: building %s: %w", pkg, err)
	}
	return os.ReadFile(filepath.Join(dir, moduleFile))
}

const moduleFile = "guest.wasm"

// buildIDs returns the present build IDs of a package and all its imports. It is fast: Go links from its
// build cache. Package postlink is part of the test, so its build ID counts too.
func buildIDs(pkg string, args []string) (string, error) {
	guest, err := guestGo(append(append([]string{"list", "-deps", "-export", "-f={{.BuildID}}"}, args...),
		pkg))
	if err != nil {
		return "", err
	}
	pass, err := exec.Command("go", "list", "-deps", "-export", "-f={{.BuildID}}", "-trimpath",
		"github.com/verge-id/verge/wasm/postlink").Output()
	return guest + string(pass), err
}

// guestGo runs the go command for guests and returns its output.
func guestGo(args []string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, &said)
	}
	return string(out), nil
}
