package cli

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/modules"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/wasm/postlink"
)

// guests is a directory of modules, with a key that signs them and a cache for compiled ones.
type guests struct {
	t      *testing.T
	dir    string
	key    ed25519.PrivateKey
	public string
}

func newGuests(t *testing.T) *guests {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &guests{t, t.TempDir(), private, modules.FormatPublicKey(public)}
}

func (g *guests) path(name string) string { return filepath.Join(g.dir, name) }
func (g *guests) cache() string           { return g.path("compiled") }

// put writes a module and its signature.
func (g *guests) put(name string, wasm []byte) (path string) {
	g.t.Helper()
	path = g.path(name)
	fs := afero.NewOsFs() // writePrivate replaces a module in use as a whole, as operators have to
	if err := config.WritePrivate(fs, path, wasm); err != nil {
		g.t.Fatal(err)
	}
	g.sign(path, g.key, 1)
	return path
}

func (g *guests) sign(path string, key ed25519.PrivateKey, version int64) {
	g.t.Helper()
	wasm, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	text := modules.Sign(key, digestOf(wasm), version).String()
	if err := config.WritePrivate(afero.NewOsFs(), modules.SignatureFile(path), []byte(text)); err != nil {
		g.t.Fatal(err)
	}
}

// compile puts the machine code of a module into the cache.
func (g *guests) compile(path string, options ...string) {
	g.t.Helper()
	wasm, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	dir := testenv.CompiledFiles(g.t, wasm, options...)
	if err := os.CopyFS(g.cache(), os.DirFS(dir)); err != nil {
		g.t.Fatal(err)
	}
	// A server trusts only compiled modules that this list names.
	files, err := filepath.Glob(filepath.Join(g.cache(), "wazero-*", "*"))
	if err != nil {
		g.t.Fatal(err)
	}
	var list []byte
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			g.t.Fatal(err)
		}
		list = fmt.Appendf(list, "%s  wazero-%s\n", digestOf(content), strings.SplitN(file, "wazero-", 2)[1])
	}
	if err := os.WriteFile(filepath.Join(g.cache(), digestOf(wasm)+".sha256"), list, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// digestOf is the SHA-256 of bytes, as module_sha256 pins it.
func digestOf(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// section returns the section of a configuration file for the module at path.
func (g *guests) section(path, more string) string {
	return fmt.Sprintf("\n[engine]\nname = \"wasm\"\nmodule = %q\nmodule_cache = %q\n%s\n",
		path, g.cache(), more)
}

// another returns a module that does the same and has other bytes: a section without a meaning is
// added at its end.
func another(wasm []byte, text string) []byte {
	content := append([]byte{byte(len("test"))}, "test"+text...)
	return append(append(bytes.Clone(wasm), 0, byte(len(content))), content...)
}

// changed returns a module in which one text replaces another of the same length.
func changed(t *testing.T, wasm []byte, from, to string) []byte {
	t.Helper()
	if len(from) != len(to) || !bytes.Contains(wasm, []byte(from)) {
		t.Fatalf("%q cannot replace %q", to, from)
	}
	return bytes.ReplaceAll(wasm, []byte(from), []byte(to))
}

// notAnswering returns a module that does not answer its canary request correctly.
func notAnswering(t *testing.T) []byte {
	return changed(t, testenv.Module(t), "/api/v1/openapi.yaml", "/api/v1/openapi.yamx")
}

// failing returns the core as a guest that fails in the middle of a request if the name of the
// external user requests it.
func failing(t *testing.T) []byte {
	t.Helper()
	wasm, err := builtToFail()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

var builtToFail = sync.OnceValues(func() ([]byte, error) {
	sandbox, err := filepath.Abs("../../../../core/method/sandbox/sandbox.go")
	if err != nil {
		return nil, err
	}
	source, err := os.ReadFile(sandbox)
	if err != nil {
		return nil, err
	}
	text := string(source)
	for _, change := range [][2]string{
		{"import (\n", "import (\n\t\"sync\"\n"},
		{") Begin(_ context.Context, s method.Session) error {\n", "$0\tfail(s, \"start\")\n"},
		{"\tswitch outcome := step.Form.Get(\"outcome\"); outcome {\n", "\tfail(s, \"act\")\n$0"},
	} {
		if strings.Count(text, change[0]) != 1 {
			return nil, fmt.Errorf("the sandbox has changed: where is %q?", change[0])
		}
		text = strings.Replace(text, change[0], strings.Replace(change[1], "$0", change[0], 1), 1)
	}
	text += `
func fail(s method.Session, when string) {
	if s.User == nil {
		return
	}
	switch *s.User {
	case "trap:" + when:
		new(sync.Mutex).Unlock() // no panic, which the guest would survive
	case "memory:" + when:
		for {
			hoard = append(hoard, make([]byte, 1<<20))
		}
	case "loop:" + when:
		for n := uint(1); n != 0; n |= 1 {
		}
	case "panic:" + when:
		panic("asked to")
	}
}

var hoard [][]byte
`
	dir, err := os.MkdirTemp(shared, "failing")
	if err != nil {
		return nil, err
	}
	overlay, err := json.Marshal(map[string]any{
		"Replace": map[string]string{sandbox: filepath.Join(dir, "sandbox.go")},
	})
	if err != nil {
		return nil, err
	}
	for name, content := range map[string]string{"sandbox.go": text, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	args := append([]string{"build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w",
		"-overlay", filepath.Join(dir, "overlay.json"),
		"-o", filepath.Join(dir, "failing.wasm")}, postlink.Gcflags()...)
	cmd := exec.Command("go", append(args, "github.com/verge-id/verge/wasm/guest")...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	wasm, err := os.ReadFile(filepath.Join(dir, "failing.wasm"))
	if err != nil {
		return nil, err
	}
	return postlink.Module(wasm)
})
