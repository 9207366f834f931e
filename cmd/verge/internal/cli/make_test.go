package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

// The first build takes minutes, so `make run` prints its steps with their time, and the output of a failed
// step.
func TestMake_PrintsSteps(t *testing.T) {
	t.Parallel()
	program := testenv.Program(t, "make")
	makefile, err := os.ReadFile("../../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule, compiler string
		good           bool
		want, not      string
	}{
		{"a step that works", "[ $1 = build ] && echo wasm > dist/verge.wasm; echo chatter; exit 0", true,
			"  Building the WebAssembly module ... done in ", "chatter"},
		{"a step that fails", "echo undefined: x >&2; exit 1", false,
			"  Building the WebAssembly module ... failed\nundefined: x\n", "done in"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			dir := t.TempDir()
			compiler := filepath.Join(dir, "compiler")
			for name, text := range map[string]string{filepath.Join(dir, "Makefile"): string(makefile),
				compiler: "#!/bin/sh\n[ $1 = env ] && exit 0\n" + c.compiler + "\n"} {
				if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.MkdirAll(filepath.Join(dir, "cmd/verge/internal/cli/module"), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, "module", "GO="+compiler)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			said := string(out)
			if (err == nil) != c.good || !strings.Contains(said, c.want) || strings.Contains(said, c.not) {
				t.Errorf("make ends with %v: %s\nwant %q", err, out, c.want)
			}
		})
	}
}

// A first `make run` leaves out the module, which takes two fifths of the time and which dev does not use. It
// keeps the module of an earlier build up to date.
func TestMake_RunLeavesOutTheModule(t *testing.T) {
	t.Parallel()
	program := testenv.Program(t, "make")
	makefile, err := os.ReadFile("../../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule          string
		target        string
		module, build bool
	}{
		{"a fresh clone", "run", false, false},
		{"a clone with a built module", "run", true, true},
		{"the binary has the module", "build", false, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			dir := t.TempDir()
			folder := filepath.Join(dir, "cmd/verge/internal/cli/module")
			err := errors.Join(os.MkdirAll(folder, 0o700),
				os.WriteFile(filepath.Join(dir, "Makefile"), makefile, 0o600))
			if c.module {
				err = errors.Join(err, os.WriteFile(filepath.Join(folder, "verge.wasm.gz"), nil, 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, "-n", c.target, "GO=true")
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			steps := string(out)
			module := strings.Index(steps, "Building the WebAssembly module")
			command := strings.Index(steps, "Building the command")
			if err != nil || command < 0 || (module >= 0) != c.build || module > command {
				t.Errorf("make ends with %v: the module is at %d and the command at %d of %s", err, module,
					command, steps)
			}
		})
	}
}
