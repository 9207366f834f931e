package postlink_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/wasm/internal/loopopt"
	"github.com/verge-id/verge/wasm/postlink"
)

// TestModule_Program compares the output of a program before and after. The stack of its panic contains the
// lines of its own functions, no others except the runtime's, and no arguments.
func TestModule_Program(t *testing.T) {
	t.Parallel()
	written := build(t)
	optimized, err := loopopt.Module(written)
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := postlink.Module(written)
	if err != nil {
		t.Fatal(err)
	}
	if before, after := packed(t, optimized), packed(t, shipped); after > before*85/100 {
		t.Errorf("it has %d bytes with gzip and had %d before, want 15 %% less", after, before)
	}
	before, after := run(t, optimized), run(t, shipped)
	for _, want := range []string{"zsortanyfunc.go:", "slices.insertionSortCmpFunc", "main.compare(0x"} {
		if !strings.Contains(before, want) {
			t.Fatalf("the linked program does not print %q:\n%s", want, before)
		}
	}
	for _, want := range []string{"true true true", "caught through a wrapper", "index out of range [3]",
		"main.inlined(", "main.go:25", "main.compare()", "main.go:22", "panic(", "\t?:0"} {
		if !strings.Contains(after, want) {
			t.Errorf("the shipped program does not print %q:\n%s", want, after)
		}
	}
	for _, no := range []string{"zsortanyfunc.go", "panic.go", "slices.", "runtime/debug", "(0x"} {
		if strings.Contains(after, no) {
			t.Errorf("the shipped program prints %q:\n%s", no, after)
		}
	}
	dropped := regexp.MustCompile(`(?m)^\t\S+|\([^()]*\)$|^(slices|runtime/debug)\..*\n.*\n`)
	if a, b := dropped.ReplaceAllString(before, ""), dropped.ReplaceAllString(after, ""); a != b {
		t.Errorf("more than places and arguments has changed:\n%s\nbefore:\n%s", b, a)
	}
	t.Run("a shipped module does not change again", func(t *testing.T) {
		again, err := postlink.Module(shipped)
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, again); got != after {
			t.Errorf("after a second pass it prints\n%s", got)
		}
	})
	t.Run("a table of another version keeps its lines", func(t *testing.T) {
		// The runtime does not start with it, so only the bytes are compared.
		other := bytes.Replace(optimized, []byte("\xf1\xff\xff\xff\x00\x00\x01\x08"),
			[]byte("\xf2\xff\xff\xff\x00\x00\x01\x08"), 1)
		kept, err := postlink.Module(other)
		if err != nil {
			t.Fatal(err)
		}
		if len(kept) < len(shipped) || packed(t, kept) < packed(t, shipped)+10_000 {
			t.Errorf("its lines are gone: %d bytes, and %d without lines", len(kept), len(shipped))
		}
	})
}

func TestModule_DataSections(t *testing.T) {
	t.Parallel()
	const header = "\x00asm\x01\x00\x00\x00"
	far := strings.Repeat("\x00", 300)
	for _, c := range []struct{ name, section, want, wrong string }{
		{"no segment", "\x01\x00", "\x01\x00", ""},
		{"one with zeros only", "\x08\x01\x00\x41\x08\x0b\x02\x00\x00", "\x01\x00", ""},
		{"two that are near become one, in any order",
			"\x0d\x02\x00\x41\x0c\x0b\x01b\x00\x41\x08\x0b\x01a",
			"\x0b\x01\x00\x41\x08\x0b\x05a\x00\x00\x00b", ""},
		{"two that are far apart stay two", "\x0e\x02\x00\x41\x08\x0b\x01a\x00\x41\x88\x04\x0b\x01b",
			"\x0e\x02\x00\x41\x08\x0b\x01a\x00\x41\x88\x04\x0b\x01b", ""},
		{"many zeros are left out", "\xb5\x02\x01\x00\x41\x08\x0b\xae\x02a" + far + "b",
			"\x0e\x02\x00\x41\x08\x0b\x01a\x00\x41\xb5\x02\x0b\x01b", ""},
		{"two that overlap", "\x0f\x02\x00\x41\x08\x0b\x02ab\x00\x41\x09\x0b\x01c\x00", "", "not written as"},
		{"two that overlap, no more", "\x0e\x02\x00\x41\x08\x0b\x02ab\x00\x41\x09\x0b\x01c", "", "overlap"},
		{"a passive segment", "\x04\x01\x01\x01a", "", "not written as"},
		{"one before the memory", "\x07\x01\x00\x41\x7f\x0b\x01a", "", "not written as"},
		{"one after all memory", "\x0b\x01\x00\x41\x80\x80\x80\x80\x08\x0b\x01a", "", "not written as"},
		{"a truncated one", "\x07\x01\x00\x41\x08\x0b\x02a", "", "truncated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := postlink.Module([]byte(header + "\x0b" + c.section))
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%x, %v, want an error with %q", got, err, c.wrong)
				}
				return
			}
			if err != nil || string(got) != header+"\x0b"+c.want {
				t.Errorf("%x, %v\nwant %x", got, err, header+"\x0b"+c.want)
			}
		})
	}
}

func build(t *testing.T) []byte {
	t.Helper()
	testenv.Source(t)
	module := filepath.Join(t.TempDir(), "trace.wasm")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", module, "./testdata/trace")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wasm, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func packed(t *testing.T, b []byte) int {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Len()
}

// run returns the output of a command.
func run(t *testing.T, wasm []byte) string {
	t.Helper()
	ctx := context.Background()
	// Compiling takes longer than the run.
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	var out bytes.Buffer
	_, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStdout(&out).WithStderr(&out))
	if err != nil {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
	return out.String()
}
