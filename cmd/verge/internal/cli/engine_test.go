package cli

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/modules"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// TestEngineWasm does a verification in `verge dev --engine wasm` on every store, and another after a
// restart, which finds the compiled module.
func TestEngineWasm(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	module := g.put("verge.wasm", testenv.Module(t))
	g.compile(module)
	for _, c := range []struct {
		kv   string
		open func(t *testing.T) string
	}{
		{"bolt", nil}, {"memory", nil}, {"miniredis", nil},
		{"redis", func(t *testing.T) string { return stores.StartRedis(t).URL() }},
		{"postgres", func(t *testing.T) string { return stores.StartPostgres(t).URL("dev") }},
	} {
		t.Run(c.kv, func(t *testing.T) {
			t.Parallel()
			if c.kv != "bolt" {
				long.Skip(t, "TestEngineWasm")
			}
			kv := c.kv
			if c.open != nil {
				kv = c.open(t)
			}
			sink, dir := newEvents(t), t.TempDir()
			// Only the one on memory compiles: with the race detector that takes half a minute.
			if c.kv != "memory" {
				if err := os.CopyFS(moduleCache(filepath.Join(dir, "data")),
					os.DirFS(g.cache())); err != nil {
					t.Fatal(err)
				}
			}
			for _, run := range []string{"first", "again"} {
				dev := startDev(t, dir, "--engine", "wasm", "--module", module, "--kv", kv,
					"--webhook-url", sink.URL, "--log-level", "warn")
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
				wantGuestMetrics(t, dev.OpsURL)
				wait.Until(t, "its events", func() bool {
					return sink.has(id, "started") &&
						sink.has(id, "completed")
				})
				if files, err := os.ReadDir(filepath.Join(dir, "data", "modules")); err != nil ||
					len(files) == 0 {
					t.Errorf("%s run: no compiled module is kept: %v", run, err)
				}
				wantCompiledAlike(t, moduleCache(filepath.Join(dir, "data")), g.cache())
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

// wantCompiledAlike checks that a process has compiled the same module as the tests.
func wantCompiledAlike(t *testing.T, process, tests string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(process, "wazero-*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the process has compiled %q, want one module: %v", files, err)
	}
	version, name := filepath.Base(filepath.Dir(files[0])), filepath.Base(files[0])
	got, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(tests, version, name))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the process has compiled %d bytes, testenv.CompiledFiles %d: they compile differently",
			len(got), len(want))
	}
}

// noGuest is a WebAssembly module that is not a guest.
var noGuest = []byte("\x00asm\x01\x00\x00\x00")

// The built-in module needs no signature, because it is part of the binary. But if a SHA-256 is pinned,
// it must have that one.
func TestBuiltInModule(t *testing.T) {
	if _, err := builtInOf(fstest.MapFS{}); err != errNotBuiltIn {
		t.Errorf("a binary without one: %v", err)
	}
	for _, damaged := range []string{"", "hello", "\x1f\x8b\x08"} {
		if m, err := builtInOf(fstest.MapFS{builtInFile: {Data: []byte(damaged)}}); err == nil {
			t.Errorf("%q was read as the module %+v", damaged, m)
		}
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(noGuest); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := builtInOf(fstest.MapFS{builtInFile: {Data: packed.Bytes()}})
	if err != nil || m.Digest != digestOf(noGuest) || m.Source != builtInSource {
		t.Errorf("%+v, %v", m, err)
	}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		trust modules.Trust
		says  string
	}{
		{"nothing pinned, where something has to be", modules.Trust{Pinned: true}, ""},
		{"a key pinned", modules.Trust{Key: public}, ""},
		{"its digest pinned", modules.Trust{SHA256: m.Digest, Key: public}, ""},
		{"another digest pinned", modules.Trust{SHA256: digestOf(nil)},
			"built in: its SHA-256 is " + m.Digest},
	} {
		at := config.Engine{Name: engine.WASM, Trust: c.trust}
		err := at.Load(&config.System{Module: func() (modules.Module, error) { return m, nil }})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// The command rejects a module before it serves requests.
func TestModulesThatCannotServe(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, says string }{
		"no such file":      {"", "file does not exist"},
		"no WebAssembly":    {"hello", "is not a WebAssembly module"},
		"cut short":         {"\x00asm\x01\x00\x00\x00\x01", "no WebAssembly that can be run"},
		"another's exports": {"\x00asm\x01\x00\x00\x00", "is no guest of this version"},
	} {
		p, _, stderr := testProgram()
		path := filepath.Join(dir, "module.wasm")
		if c.content != "" {
			if err := config.WritePrivate(p.FS, path, []byte(c.content)); err != nil {
				t.Fatal(err)
			}
		}
		code := run(t.Context(), []string{"dev", "--addr", "127.0.0.1:0", "--demo-addr", "127.0.0.1:0",
			"--kv", "memory", "--data", dir, "--engine", "wasm", "--module", path}, p)
		said := stderr.String()
		if code != exitFailed || !strings.Contains(said, "engine wasm: ") || !strings.Contains(said, c.says) {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
	}
}

// TestServeWasm does verifications in `verge serve --engine wasm` with the module's SHA-256 pinned, and
// again after a restart, which finds the compiled module and the state.
func TestServeWasm(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	module, digest := g.put("verge.wasm", testenv.Module(t)), digestOf(testenv.Module(t))
	g.compile(module)
	for _, c := range []struct {
		store string
		open  func(t *testing.T) string
	}{
		{"bolt", func(t *testing.T) string { return "bolt:" + filepath.Join(t.TempDir(), "verge.db") }},
		{"redis", func(t *testing.T) string { return stores.StartRedis(t).URL() }},
	} {
		t.Run(c.store, func(t *testing.T) {
			if c.store != "bolt" {
				long.Skip(t, "TestServeWasm")
			}
			t.Parallel()
			sink := newEvents(t)
			sink.trust(testSecret)
			site := newSite(t, c.open(t), sink.URL,
				g.section(module, "module_sha256 = \""+digest+"\""))
			var token string
			for _, run := range []string{"first", "again"} {
				in := site.start()
				if in.at.Engine != engine.WASM || in.at.Module != digest {
					t.Errorf("%s run: the log says engine %q, module %q", run, in.at.Engine, in.at.Module)
				}
				if token != "" {
					if valid, status, body := in.validate(token); valid || status != 409 {
						t.Errorf("I1: a token that was validated before the restart: %d %s", status, body)
					}
				}
				id, redirect, err := in.publisher.start(testIntegration)
				if err != nil {
					t.Fatal(err)
				}
				if token, err = in.approve(redirect); err != nil {
					t.Fatal(err)
				}
				if valid, status, body := in.validate(token); !valid {
					t.Errorf("validate: %d %s", status, body)
				}
				p := operator()
				code, out := asOperator(p, in.at, "integration", "list")
				if code != exitOK || !strings.Contains(out, testIntegration) {
					t.Errorf("an operator's command: exit code %d: %s", code, out)
				}
				wait.Until(t, "its events", func() bool {
					return sink.has(id, "started") &&
						sink.has(id, "completed")
				})
				in.cmd.Process.Signal(syscall.SIGTERM)
				wait.For(in.ended)
				code = in.cmd.ProcessState.ExitCode()
				if code != exitOK || strings.Contains(in.logs.String(), `"level":"ERROR"`) {
					t.Errorf("%s run: exit code %d: %s", run, code, in.logs)
				}
			}
			for _, what := range sink.complaints() {
				t.Error(what)
			}
		})
	}
}

// wantGuestMetrics checks the metrics of a server whose guests have served requests without a failure.
func wantGuestMetrics(t *testing.T, ops string) {
	t.Helper()
	resp, err := http.Get(ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`verge_wasm_module_info{sha256="`, "verge_wasm_compile_seconds_count 1",
		"verge_wasm_guest_start_seconds_count ", "verge_wasm_requests_in_flight ",
		"verge_wasm_requests_queued 0", "verge_wasm_guests ", "verge_wasm_memory_bytes ",
		"verge_wasm_guests_recycled_total 0", `verge_wasm_activations_total{result="ok"} 1`,
		`verge_wasm_effect_seconds_count{kind="commit"} `, `verge_wasm_effect_seconds_count{kind="get"} `,
	} {
		if !strings.Contains(string(text), "\n"+want) {
			t.Errorf("the metrics do not have %s:\n%s", want, text)
		}
	}
	if failed := regexp.MustCompile(`(?m)^(verge_wasm_(?:guest_failures|rollbacks)_total\{.* [1-9]` +
		`|verge_wasm_memory_bytes 0)`).Find(text); failed != nil {
		t.Errorf("the metrics have %s:\n%s", failed, text)
	}
}
