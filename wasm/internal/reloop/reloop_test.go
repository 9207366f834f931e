package reloop_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/verge-id/verge/testharness/kit"
	"github.com/verge-id/verge/wasm/internal/reloop"
)

// A program with every kind of control flow must print the same natively, as a module, and as a
// relooped module.
func TestFlow(t *testing.T) {
	t.Parallel()
	kit.Source(t)
	want, err := exec.Command("go", "run", "./testdata/flow").Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(want, []byte("\n")); n < 17 {
		t.Fatalf("the program printed %d lines", n)
	}
	module := filepath.Join(t.TempDir(), "flow.wasm")
	cmd := exec.Command("go", "build", "-o", module, "./testdata/flow")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	written, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	relooped, err := reloop.Module(written)
	if err != nil {
		t.Fatal(err)
	}
	if len(relooped) >= len(written) {
		t.Errorf("the relooped module has %d bytes, the original %d: its jumps have not changed",
			len(relooped), len(written))
	}
	for name, wasm := range map[string][]byte{"as Go wrote it": written, "relooped": relooped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, wasm)
			for i, line := range strings.Split(string(want), "\n") {
				if lines := strings.Split(got, "\n"); i >= len(lines) || lines[i] != line {
					t.Errorf("natively:\n%s\nhere:\n%s",
						line, strings.Join(lines[min(i, len(lines)):min(i+1, len(lines))], ""))
				}
			}
		})
	}
	t.Run("a relooped module does not change again", func(t *testing.T) {
		again, err := reloop.Module(relooped)
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, again); got != string(want) {
			t.Errorf("relooped twice it prints\n%s", got)
		}
	})
}

// run returns what a command prints.
func run(t *testing.T, wasm []byte) string {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithDebugInfoEnabled(false))
	defer r.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	var out bytes.Buffer
	_, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStdout(&out).WithStderr(&out).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(rand.Reader))
	if err != nil {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
	return out.String()
}
