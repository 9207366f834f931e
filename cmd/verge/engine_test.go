package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/stores"
)

// TestEngineWasm walks through a verification in `verge dev --engine wasm` on
// every store, and once more after a restart, which finds the compiled module.
func TestEngineWasm(t *testing.T) {
	module := filepath.Join(t.TempDir(), "verge.wasm")
	if err := os.WriteFile(module, testharness.Module(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kv   string
		open func(t *testing.T) string
	}{
		{"bolt", nil}, {"memory", nil}, {"miniredis", nil},
		{"redis", func(t *testing.T) string { return stores.StartRedis(t).URL() }},
		{"etcd", func(t *testing.T) string { return stores.StartEtcd(t).URL("dev") }},
	} {
		t.Run(c.kv, func(t *testing.T) {
			t.Parallel()
			kv := c.kv
			if c.open != nil {
				kv = c.open(t)
			}
			sink, dir := newEvents(t), t.TempDir()
			for _, run := range []string{"first", "again"} {
				dev := startDev(t, dir, "--engine", "wasm", "--module", module, "--kv", kv, "--webhook-url", sink.URL, "--log-level", "warn")
				sink.trust(dev.WebhookSecret)
				if dev.Engine != "wasm" {
					t.Errorf("the ready file says engine %q", dev.Engine)
				}
				id, redirect, err := dev.start(dev.IntegrationID)
				if err != nil {
					t.Fatal(err)
				}
				token, err := dev.approve(redirect)
				if err != nil {
					t.Fatal(err)
				}
				if valid, status, body := dev.validate(token); !valid {
					t.Errorf("validate: %d %s", status, body)
				}
				if valid, status, _ := dev.validate(token); valid || status != 409 {
					t.Errorf("spec, Result token, single use: the second validation answered %d", status)
				}
				eventually(t, "its events", func() bool { return sink.has(id, "started") && sink.has(id, "completed") })
				if files, err := os.ReadDir(filepath.Join(dir, "data", "modules")); err != nil || len(files) == 0 {
					t.Errorf("%s run: no compiled module is kept: %v", run, err)
				}
				dev.cmd.Process.Signal(syscall.SIGTERM)
				if err := dev.cmd.Wait(); err != nil || strings.Contains(dev.logs.String(), "level=ERROR") {
					t.Errorf("%s run: %v: %s", run, err, dev.logs)
				}
			}
			for _, what := range sink.complaints() {
				t.Error(what)
			}
		})
	}
}

// A module is refused before anything is served.
func TestModulesThatCannotServe(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, says string }{
		"no such file":      {"", "file does not exist"},
		"no WebAssembly":    {"hello", "is no WebAssembly module"},
		"cut short":         {"\x00asm\x01\x00\x00\x00\x01", "no WebAssembly that can be run"},
		"another's exports": {"\x00asm\x01\x00\x00\x00", "is no guest of this version"},
	} {
		p, _, stderr := testProgram()
		path := filepath.Join(dir, "module.wasm")
		if c.content != "" {
			if err := writePrivate(p.fs, path, []byte(c.content)); err != nil {
				t.Fatal(err)
			}
		}
		code := run(t.Context(), []string{"dev", "--addr", "127.0.0.1:0", "--demo-addr", "127.0.0.1:0", "--kv", "memory",
			"--data", dir, "--engine", "wasm", "--module", path}, p)
		if code != exitFailed || !strings.Contains(stderr.String(), "engine wasm: ") || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
	}
}
