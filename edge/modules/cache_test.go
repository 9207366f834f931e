package modules

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/tetratelabs/wazero"
)

// answering is a module whose function "f" returns n.
func answering(n byte) []byte {
	return []byte("\x00asm\x01\x00\x00\x00" + // type () -> i32, function, export, code
		"\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" +
		"\x07\x05\x01\x01f\x00\x00" + "\x0a\x06\x01\x04\x00\x41" + string(n) + "\x0b")
}

// TestCompiledModules damages the cache in every way that a disk or a process that ended early can. Each
// time the module is compiled again, and the right code runs.
func TestCompiledModules(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "modules")
	var log bytes.Buffer
	// run does with a module what a server does when it starts.
	run := func(wasm []byte) (result uint64) {
		t.Helper()
		log.Reset()
		ctx := context.Background()
		c := OpenCache(dir, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
		if c == nil {
			t.Fatalf("no cache: %s", &log)
		}
		c.before(digestOf(wasm))
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCompilationCache(c.compiled))
		defer c.compiled.Close(ctx)
		defer r.Close(ctx)
		mod, err := r.Instantiate(ctx, wasm)
		if err != nil {
			t.Fatal(err)
		}
		c.after(digestOf(wasm))
		got, err := mod.ExportedFunction("f").Call(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	entries := func() []string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(dir, "wazero-*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if got := run(answering(1)); got != 1 {
		t.Fatalf("%d", got)
	}
	mine := entries()
	if len(mine) != 1 {
		t.Fatalf("%d files are kept", len(mine))
	}
	good, err := os.ReadFile(mine[0])
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(mine[0])
	if err != nil {
		t.Fatal(err)
	}
	if run(answering(1)); log.Len() > 0 {
		t.Errorf("an undamaged one: %s", &log)
	}
	if now, err := os.Stat(mine[0]); err != nil || !os.SameFile(before, now) {
		t.Errorf("an undamaged one was compiled anew: %v", err)
	}

	another := run(answering(2)) // a later case puts its code in place of the first one's
	var other []byte
	for _, path := range entries() {
		if path != mine[0] {
			if other, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if another != 2 || other == nil {
		t.Fatalf("%d, %d bytes", another, len(other))
	}
	list := filepath.Join(dir, digestOf(answering(1))+listSuffix)
	flip := func(at int) func() error {
		return func() error {
			bad := bytes.Clone(good)
			bad[(at+len(bad))%len(bad)] ^= 1
			return os.WriteFile(mine[0], bad, 0o600)
		}
	}
	for name, damage := range map[string]func() error{
		"empty":     func() error { return os.Truncate(mine[0], 0) },
		"cut short": func() error { return os.Truncate(mine[0], int64(len(good)-5)) },
		"longer": func() error {
			return os.WriteFile(mine[0], append(bytes.Clone(good), 0), 0o600)
		},
		"no such format":              func() error { return os.WriteFile(mine[0], []byte("hello"), 0o600) },
		"a bit of its head":           flip(0),
		"a bit of its count":          flip(len("WAZEVO") + 1 + int(good[6]) + 3),
		"a bit of a function's place": flip(len("WAZEVO") + 1 + int(good[6]) + 4),
		"a bit of its end":            flip(-1),
		"another module's code":       func() error { return os.WriteFile(mine[0], other, 0o600) },
		"its list cut short":          func() error { return os.Truncate(list, 10) },
		"its list gone":               func() error { return os.Remove(list) },
		"its list and a bit of it": func() error {
			if err := flip(len(good) / 2)(); err != nil {
				return err
			}
			return os.Remove(list)
		},
	} {
		if err := damage(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := run(answering(1)); got != 1 {
			t.Errorf("%s: the module answers %d", name, got)
		}
		const says = "a compiled module was damaged and is compiled anew"
		if said := log.String(); !strings.Contains(name, "list") && !strings.Contains(said, says) {
			t.Errorf("%s: the log says %q", name, said)
		}
		if now, err := os.ReadFile(mine[0]); err != nil || !bytes.Equal(now, good) {
			t.Errorf("%s: afterwards the cache does not have it again: %v", name, err)
		}
	}

	// The cache does not grow for ever, and a list cannot name a file outside of it.
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := os.WriteFile(outside, []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := digestOf([]byte("x"))
	if err := os.WriteFile(filepath.Join(dir, x+listSuffix), []byte(x+"  ../outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range byte(keptModules + 3) {
		run(answering(10 + n))
	}
	if n := len(entries()); n > keptModules+1 { // the last one is removed at the next use
		t.Errorf("%d modules are kept, want %d", n, keptModules)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a file outside of it: %v", err)
	}
	for _, path := range append(entries(), dir) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v", path, err)
		}
	}

	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	c := OpenCache(dir, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
	if c != nil || !strings.Contains(log.String(), "can be written by others (mode 0777)") {
		t.Errorf("a directory that is open to others is used: %s", &log)
	}
}

// CheckCache refuses a wrong directory before anything starts.
func TestCheckCache(t *testing.T) {
	fsys := afero.NewMemMapFs()
	if err := fsys.Mkdir("/open", 0o770); err != nil {
		t.Fatal(err)
	}
	if err := afero.WriteFile(fsys, "/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fsys.MkdirAll("/open/below", 0o700); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"/open":       "can be written by others (mode 0770)",
		"/open/below": "is in /open, which can be written by others (mode 0770)",
		"/open/none":  "is in /open, which can be written by others (mode 0770)",
		"/file":       "is not a directory",
	} {
		if err := CheckCache(fsys, path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	if err := CheckCache(fsys, "/none"); err != nil {
		t.Errorf("a directory that does not exist yet: %v", err)
	}
}
