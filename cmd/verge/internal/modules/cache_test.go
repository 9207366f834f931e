package modules

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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

// caching is a directory of compiled modules, which several servers use in turn.
type caching struct {
	t   *testing.T
	dir string
	log bytes.Buffer // of the server that runs
}

func newCaching(t *testing.T) *caching {
	t.Helper()
	return &caching{t: t, dir: filepath.Join(t.TempDir(), "modules")}
}

// run starts a module as a server does. It returns the module's result.
func (d *caching) run(wasm []byte) (result uint64) {
	d.t.Helper()
	d.log.Reset()
	ctx := context.Background()
	c := OpenCache(d.dir, time.Now, slog.New(slog.NewTextHandler(&d.log, nil)))
	if c == nil {
		d.t.Fatalf("no cache: %s", &d.log)
	}
	checked := c.before(digestOf(wasm))
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCompilationCache(c.compiled))
	defer c.compiled.Close(ctx)
	defer r.Close(ctx)
	mod, err := r.Instantiate(ctx, wasm)
	if err != nil {
		d.t.Fatal(err)
	}
	c.after(digestOf(wasm), checked)
	got, err := mod.ExportedFunction("f").Call(ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	return got[0]
}

// entries returns the files of compiled modules.
func (d *caching) entries() []string {
	d.t.Helper()
	all, err := filepath.Glob(filepath.Join(d.dir, "wazero-*", "*"))
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

// compile runs a module that is new to the cache. It returns the file of its code, and the code.
func (d *caching) compile(n byte) (path string, code []byte) {
	d.t.Helper()
	before := d.entries()
	if got := d.run(answering(n)); got != uint64(n) {
		d.t.Fatalf("the module answers %d, want %d", got, n)
	}
	for _, path := range d.entries() {
		if !slices.Contains(before, path) {
			code, err := os.ReadFile(path)
			if err != nil || len(code) == 0 {
				d.t.Fatalf("%d bytes, %v", len(code), err)
			}
			return path, code
		}
	}
	d.t.Fatal("no file is kept")
	return "", nil
}

func TestCompiledModulesAreUsedAgain(t *testing.T) {
	d := newCaching(t)
	path, _ := d.compile(1)
	if n := len(d.entries()); n != 1 {
		t.Fatalf("%d files are kept", n)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if d.run(answering(1)); d.log.Len() > 0 {
		t.Errorf("an undamaged one: %s", &d.log)
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(before, now) {
		t.Errorf("an undamaged one was compiled again: %v", err)
	}
}

// TestCompiledModules damages the cache in every way that a disk or a process that ended early can. Each
// time the module is compiled again, and the right code runs.
func TestCompiledModules(t *testing.T) {
	d := newCaching(t)
	mine, good := d.compile(1)
	_, other := d.compile(2)
	list := filepath.Join(d.dir, digestOf(answering(1))+listSuffix)
	flip := func(at int) func() error {
		return func() error {
			bad := bytes.Clone(good)
			bad[(at+len(bad))%len(bad)] ^= 1
			return os.WriteFile(mine, bad, 0o600)
		}
	}
	write := func(b []byte) func() error {
		return func() error { return os.WriteFile(mine, b, 0o600) }
	}
	for name, damage := range map[string]func() error{
		"the code is empty":                      write(nil),
		"the code is cut short":                  write(good[:len(good)-5]),
		"the code is longer":                     write(append(bytes.Clone(good), 0)),
		"the code has no such format":            write([]byte("hello")),
		"a bit of its head is flipped":           flip(0),
		"a bit of its count is flipped":          flip(len("WAZEVO") + 1 + int(good[6]) + 3),
		"a bit of a function's place is flipped": flip(len("WAZEVO") + 1 + int(good[6]) + 4),
		"a bit of its end is flipped":            flip(-1),
		"the code is another module's":           write(other),
		"its list is cut short":                  func() error { return os.Truncate(list, 10) },
		"its list is gone":                       func() error { return os.Remove(list) },
		"its list is gone and a bit is flipped": func() error {
			if err := flip(len(good) / 2)(); err != nil {
				return err
			}
			return os.Remove(list)
		},
	} {
		if err := damage(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := d.run(answering(1)); got != 1 {
			t.Errorf("%s: the module answers %d", name, got)
		}
		const says = "damaged compiled module removed"
		if said := d.log.String(); !strings.Contains(name, "list") && !strings.Contains(said, says) {
			t.Errorf("%s: the log says %q", name, said)
		}
		if now, err := os.ReadFile(mine); err != nil || !bytes.Equal(now, good) {
			t.Errorf("%s: afterwards the cache does not have it again: %v", name, err)
		}
	}
}

// The cache does not grow indefinitely, and a list cannot name a file outside of it.
func TestCompiledModulesAreRemovedInTime(t *testing.T) {
	d := newCaching(t)
	d.compile(1)
	outside := filepath.Join(filepath.Dir(d.dir), "outside")
	if err := os.WriteFile(outside, []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := digestOf([]byte("x"))
	if err := os.WriteFile(filepath.Join(d.dir, x+listSuffix), []byte(x+"  ../outside\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for n := range byte(keptModules + 3) {
		d.run(answering(10 + n))
	}
	if n := len(d.entries()); n > keptModules+1 { // the last one is removed at the next use
		t.Errorf("%d modules are kept, want %d", n, keptModules)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a file outside of it: %v", err)
	}
}

func TestCompiledModulesAreForTheirOwnerOnly(t *testing.T) {
	d := newCaching(t)
	d.compile(1)
	for _, path := range append(d.entries(), d.dir) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v", path, err)
		}
	}
	if err := os.Chmod(d.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	c := OpenCache(d.dir, time.Now, slog.New(slog.NewTextHandler(&d.log, nil)))
	if c != nil || !strings.Contains(d.log.String(), "can be written by others (mode 0777)") {
		t.Errorf("a directory that is open to others is used: %s", &d.log)
	}
}

// CheckCache rejects an unsafe directory before the start.
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
