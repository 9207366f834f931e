package loopopt_test

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

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/wasm/internal/loopopt"
)

// TestModule_Flow runs a program with every kind of control flow natively, as a module, and as an optimized
// module. The output must be the same.
func TestModule_Flow(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestModule_Flow")
	testenv.Source(t)
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
	optimized, err := loopopt.Module(written)
	if err != nil {
		t.Fatal(err)
	}
	if len(optimized) >= len(written) {
		t.Errorf("the optimized module has %d bytes, the original %d: its jumps have not changed",
			len(optimized), len(written))
	}
	for name, wasm := range map[string][]byte{"as Go wrote it": written, "optimized": optimized} {
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
	t.Run("an optimized module does not change again", func(t *testing.T) {
		again, err := loopopt.Module(optimized)
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, again); got != string(want) {
			t.Errorf("after a second pass it prints\n%s", got)
		}
	})
}

// run returns the output of a command.
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
