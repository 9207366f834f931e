package core

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

const module = "github.com/verge-id/verge"

// floors are the packages of the core from bottom to top: each imports only packages before it. Add new
// packages here.
var floors = []string{
	"core/internal/coretest",
	"core/internal/strict64",
	"core/internal/uuid",
	"core/internal/timestamp",
	"core/internal/weburl",
	"core/internal/brand",
	"core/internal/fetchcache",
	"core/internal/birthdate",
	"core/internal/metric",
	"core/kv",
	"core/host",
	"core/internal/timeline",
	"core/internal/signature",
	"core/secret",
	"core/pemfile",
	"core/problem",
	"core/setting",
	"core/ratelimit",
	"core/internal/strictjson",
	"core/internal/pattern",
	"core/web",
	"core/internal/router",
	"core/internal/formdata",
	"core/internal/jws",
	"core/internal/jwe",
	"core/cbor",
	"core/internal/webauthn",
	"core/internal/mdoc",
	"core/internal/sdjwt",
	"core/internal/revocation",
	"core/internal/templrt",
	"core/internal/report",
	"core/internal/language",
	"core/internal/delivery",
	"core/webhook",
	"core/internal/troubleshooting",
	"core/internal/snippet",
	"core/internal/verdict",
	"core/internal/token",
	"core/keyring",
	"core/method",
	"core/internal/steperror",
	"core/method/sandbox",
	"core/method/estimator",
	"core/method/kinds",
	"core/internal/testhost",
	"core/internal/session",
	"core/internal/finished",
	"core/internal/audit",
	"core/integration",
	"core/internal/liststore",
	"core/internal/passkey",
	"core/internal/member",
	"core/internal/usage",
	"core/keyset",
	"core/internal/outbox",
	"core/internal/lifecycle",
	"core/sessiontest",
	"core/internal/result",
	"core/internal/hosted/pages",
	"core/internal/api",
	"core/internal/openid",
	"core/internal/hosted",
	"core/operate",
	"core/admin",
	"core/internal/console/pages",
	"core/internal/console",
	"core",
}

// assemblies are the packages of the edge that know the whole core.
var assemblies = []string{"edge", "cmd/verge/internal/modules"}

// leaves may import only these packages of Verge, and no library.
var leaves = map[string][]string{
	"core/internal/uuid":       nil,
	"core/internal/strict64":   nil,
	"core/internal/timestamp":  nil,
	"core/internal/weburl":     nil,
	"core/internal/brand":      nil,
	"core/internal/metric":     nil,
	"core/internal/birthdate":  nil,
	"core/kv":                  nil,
	"core/host":                {"core/kv", "core/internal/metric"},
	"core/internal/strictjson": nil,
	"core/internal/pattern":    nil,
	"core/web": {"core/internal/pattern", "core/internal/timestamp", "core/problem", "core/ratelimit",
		"core/setting"},
	"core/cbor": nil,
	"core/internal/webauthn": {"core/cbor", "core/host", "core/internal/signature", "core/internal/strict64",
		"core/internal/strictjson", "core/internal/weburl"},
	"core/internal/templrt":  nil,
	"core/internal/language": {"core/web"},
	"core/problem":           nil,
	"core/setting":           {"core/problem"},
	// Publishers import it.
	"core/webhook":          {"core/internal/timestamp", "core/problem", "core/internal/uuid"},
	"core/internal/verdict": nil,
	"core/secret":           nil,
	"core/pemfile":          nil,
	// Authors of a kind import it.
	"core/method": {"core/host", "core/problem", "core/internal/metric", "core/internal/verdict"},

	"core/internal/signature": {"core/host"},
	"core/internal/jws": {"core/host", "core/internal/signature", "core/internal/strict64",
		"core/internal/strictjson"},
	"core/internal/jwe": {"core/internal/strict64", "core/internal/strictjson"},
	"core/internal/mdoc": {"core/cbor", "core/host", "core/internal/jwe", "core/internal/jws",
		"core/internal/signature", "core/internal/strict64", "core/internal/strictjson", "core/pemfile"},
	"core/internal/sdjwt": {"core/internal/jws", "core/internal/mdoc", "core/internal/signature",
		"core/internal/strict64", "core/internal/strictjson"},
	"core/internal/revocation": {"core/cbor", "core/internal/jws", "core/internal/mdoc",
		"core/internal/strict64", "core/internal/strictjson"},
}

// aboveLeaves are the packages that a package of the edge may import in addition to the core's leaves.
var aboveLeaves = map[string][]string{
	// It reads lists in CBOR.
	"edge/internal/longfellow": {"core/cbor"},
	"edge/internal/trustlist":  {"core/cbor"},
	// It applies the core's rules for key rings.
	"edge/internal/keyringfile": {"core/keyring", "core/keyset"},
	// It fetches the lists that the methods name, and hands them to the operations.
	"edge/internal/listfetch": {"core/method", "core/operate"},
	// It runs a core, natively or as a guest.
	"edge/transcript": {"core", "core/internal/token",
		"core/keyring", "wasm/settings"},
}

// listed is a package as go list reports it, without its test files.
type listed struct {
	ImportPath string
	Name       string
	Standard   bool
	Imports    []string
	Deps       []string
}

func (p listed) ours() string {
	if p.ImportPath == module {
		return "."
	}
	short, ok := strings.CutPrefix(p.ImportPath, module+"/")
	if !ok {
		return ""
	}
	return short
}

// goList returns the packages of the patterns and everything below them.
func goList(t *testing.T, patterns ...string) map[string]listed {
	t.Helper()
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to ask for imports")
	}
	testenv.Source(t)
	args := append([]string{"list", "-deps", "-json=ImportPath,Name,Standard,Imports,Deps"}, patterns...)
	cmd := exec.Command(goCommand, args...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	packages := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
	return packages
}

func TestCore_AmbientImports(t *testing.T) {
	packages := goList(t, "./core/...")
	banned := []string{"net", "net/http", "os", "os/exec", "os/signal", "syscall", "unsafe", "math/rand",
		"math/rand/v2", "crypto/rand", "testing"}
	cores := 0
	var reachable []string
	for _, p := range packages {
		if !inCore(p.ours()) || forTests(p.ours()) {
			continue
		}
		cores++
		for _, i := range p.Imports {
			if slices.Contains(banned, i) {
				t.Errorf("architecture, core: %s imports %s; use the host's function instead", p.ours(), i)
			}
		}
		for _, i := range p.Deps {
			if i == "net/http" || i == "os/exec" {
				t.Errorf("architecture, core: %s depends on %s", p.ours(), i)
			}
			if strings.HasPrefix(i, "github.com/golang-jwt/") {
				t.Errorf("contract 41: %s depends on %s; it brings all of RSA and ECDSA into the module",
					p.ours(), i)
			}
		}
		reachable = append(reachable, append(p.Deps, p.ImportPath)...)
	}
	if cores < 15 {
		t.Fatalf("go list shows %d packages of the core", cores)
	}

	// The one way to net is X.509: certificates of documents. The test of the source below bans the functions
	// of X.509 that reach the network or files.
	x509Users := []string{module + "/core/pemfile", module + "/core/method/openid4vp",
		module + "/core/internal/mdoc", module + "/core/internal/revocation"}
	slices.Sort(reachable)
	for _, path := range slices.Compact(reachable) {
		p := packages[path]
		if p.Standard {
			continue
		}
		for _, i := range p.Imports {
			std, ok := packages[i]
			if !ok || !std.Standard || i != "net" && !slices.Contains(std.Deps, "net") {
				continue
			}
			if !slices.Contains(x509Users, p.ImportPath) || i != "crypto/x509" {
				t.Errorf("architecture, core: %s imports %s and so brings in net", path, i)
			}
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	packages := goList(t, "./...")
	floor := func(name string) int {
		kind, ok := strings.CutPrefix(name, "core/method/")
		if ok && kind != "kinds" && !strings.Contains(kind, "/") {
			name = "core/method/sandbox" // all kinds stand side by side
		}
		return slices.Index(floors, name)
	}
	seen := map[string]bool{}
	for _, p := range packages {
		name := p.ours()
		if name == "" {
			continue
		}
		seen[name] = true
		for _, i := range p.Imports {
			of, known := packages[i]
			imported := of.ours()
			if known && !of.Standard && imported == "" {
				if _, leaf := leaves[name]; leaf {
					t.Errorf("architecture: %s imports the library %s; a leaf is for everyone to import",
						name, i)
				}
				continue
			}
			if imported == "" {
				continue
			}
			if why := forbidden(name, imported, floor); why != "" {
				t.Errorf("architecture: %s imports %s: %s", name, imported, why)
			}
		}
		if inCore(name) && floor(name) < 0 {
			t.Errorf("architecture: %s is not in floors of layers_test.go; put it where its imports allow",
				name)
		}
	}
	for _, name := range floors {
		if !seen[name] {
			t.Errorf("architecture: %s is in floors, but there is no such package", name)
		}
	}
}

// forTests reports whether a package of the core is only for tests.
func forTests(name string) bool {
	return slices.Contains(
		[]string{"core/internal/coretest", "core/internal/testhost", "core/sessiontest"},
		name,
	)
}

func inCore(name string) bool { return name == "core" || strings.HasPrefix(name, "core/") }

// forbidden returns the reason why a package of Verge may not import another one, or "".
func forbidden(name, imported string, floor func(string) int) string {
	root, _, _ := strings.Cut(name, "/")
	importedRoot, _, _ := strings.Cut(imported, "/")
	under := func(prefix string) bool { return imported == prefix || strings.HasPrefix(imported, prefix+"/") }
	switch root {
	case "core":
		if forTests(name) && importedRoot == "kvadapters" {
			return "" // a test needs a store
		}
		if forTests(name) && imported == "edge/signing" {
			return "" // and a host that verifies signatures
		}
		if forTests(imported) && !forTests(name) {
			return "that is for tests alone"
		}
		if !inCore(imported) {
			return "the core imports no outer package"
		}
		if allowed, leaf := leaves[name]; leaf && !slices.Contains(allowed, imported) {
			return "a leaf imports nothing"
		}
		if floor(imported) >= floor(name) {
			return "it points up"
		}
	case "edge":
		if slices.Contains(assemblies, name) && (inCore(imported) || imported == "wasm/settings") {
			return "" // it puts the core together with the edge
		}
		if imported == "wasm/settings" && name == "edge/wasmhost" {
			return "" // it writes the configuration of guests
		}
		if slices.Contains(aboveLeaves[name], imported) {
			return ""
		}
		if !under("edge") && !under("wasm/abi") && !under("wasm/effect") && !under("wasm/cursor") &&
			!slices.Contains([]string{"core/web", "core/host", "core/kv", "core/problem",
				"core/pemfile"},
				imported) {
			return "the edge knows the core by its leaves alone"
		}
	case "kvadapters":
		if (name == "kvadapters" || name == "kvadapters/kvcheck") && importedRoot == "kvadapters" {
			return "" // the first chooses an adapter, the second checks any
		}
		if name == "kvadapters/kvtest" && imported == "kvadapters/internal/promises" ||
			imported == "kvadapters/internal/network" { // both decide which hosts are this machine
			return ""
		}
		if imported != "core/kv" && !under(name) && !strings.HasPrefix(name, imported+"/internal") {
			return "an adapter imports core/kv and nothing else"
		}
	case "wasm":
		if name == "wasm/cursor" {
			return "a leaf imports nothing"
		}
		if name == "wasm/abi" && !under("wasm/cursor") &&
			!slices.Contains([]string{"core/web", "core/host", "core/kv"}, imported) {
			return "both sides share the wire format and nothing else"
		}
		if name == "wasm/effect" && !under("wasm/abi") &&
			!slices.Contains([]string{"core/host", "core/kv"}, imported) {
			return "both sides share the ports and nothing else"
		}
		if !inCore(imported) && !under("wasm") {
			return "a guest is the core and its wire format"
		}
	case "cmd", "testharness":
		if importedRoot == "cmd" && root != "cmd" {
			return "it points up"
		}
	}
	return ""
}

// A program that embeds Verge hands in the store, and links no other one. Only a program that runs modules
// links the runtime for WebAssembly.
func TestLayers_EdgeLinksNoAdapter(t *testing.T) {
	const wazero = "github.com/tetratelabs/wazero"
	runModules := []string{"edge/transcript", "edge/wasmhost"}
	linked := map[string]bool{}
	for _, p := range goList(t, "./edge/...") {
		name := p.ours()
		if name != "edge" && !strings.HasPrefix(name, "edge/") {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, module+"/kvadapters/") {
				t.Errorf("architecture: %s links %s; a store is handed in", name, dep)
			}
			if dep == wazero {
				linked[name] = true
			}
		}
		if linked[name] != slices.Contains(runModules, name) {
			t.Errorf("architecture: %s links %s: %v; those that do are %v", name, wazero, linked[name],
				runModules)
		}
	}
	if len(linked) != len(runModules) {
		t.Errorf("architecture: %v link %s, want %v: is it still there by that name?", linked, wazero,
			runModules)
	}
}

// Publishers' tests import the harness. They link the runtime for WebAssembly only if they ask for it.
func TestLayers_HarnessWithoutWazero(t *testing.T) {
	packages := goList(t, "./testharness")
	if _, ok := packages[module+"/edge"]; !ok {
		t.Error("architecture: the harness does not put its service together by package edge")
	}
	for path := range packages {
		if strings.HasPrefix(path, "github.com/tetratelabs/wazero") || path == module+"/edge/wasmhost" {
			t.Errorf("architecture: testharness links %s", path)
		}
	}
}

// TestCore_ClockAndGoroutines reads the source: what a package
// imports does not tell time.Now from time.Duration.
func TestCore_ClockAndGoroutines(t *testing.T) {
	ambient := map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick",
			"Local", "LoadLocation"},
		"crypto/rand":  {"Read", "Reader", "Int", "Prime", "Text"},
		"math/rand":    nil,
		"math/rand/v2": nil,
		"log":          nil,
		"log/slog":     {"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log"},
		// A certificate's Verify, which takes VerifyOptions, reads the system's roots.
		"crypto/x509": {"VerifyOptions", "SystemCertPool"},
		"context":     {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
		// The host verifies signatures (contract 41), with keys of package signature.
		"crypto/ecdsa":   {"Verify", "VerifyASN1"},
		"crypto/rsa":     nil,
		"crypto/ed25519": nil,
	}
	// of a certificate
	verifies := []string{"CheckSignature", "CheckSignatureFrom", "CheckCRLSignature"}
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		if file.Name.Name == "main" {
			return nil
		}
		files++
		names := map[string]string{} // local name of each import that has something ambient
		for _, i := range file.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if _, ok := ambient[imported]; !ok {
				continue
			}
			name := strings.TrimSuffix(imported, "/v2")
			name = name[strings.LastIndexByte(name, '/')+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			if name == "." {
				t.Errorf("%s imports %s by a dot, which this test cannot read", path, imported)
			}
			names[name] = imported
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("architecture, core: %s starts a goroutine", set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if slices.Contains(verifies, n.Sel.Name) {
					t.Errorf("contract 41: %s verifies by %s; the host does that",
						set.Position(n.Pos()), n.Sel.Name)
				}
				x, ok := n.X.(*ast.Ident)
				if !ok {
					break
				}
				imported, ok := names[x.Name]
				if list := ambient[imported]; ok && (list == nil || slices.Contains(list, n.Sel.Name)) {
					t.Errorf("architecture, core: %s uses %s.%s; time, randomness, trust and "+
						"verification are handed in",
						set.Position(n.Pos()), imported, n.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 40 {
		t.Fatalf("read %d files of the core", files)
	}
}

func TestCore_BuildsForWASM(t *testing.T) {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to build with")
	}
	testenv.Source(t)
	// The flags of the module, so that Go finds most of it in its cache.
	flags, err := os.ReadFile("../wasm/postlink/gcflags.txt")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(goCommand, append(append([]string{"build", "-trimpath"},
		strings.Fields(string(flags))...), "./core/...")...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("architecture, core: %v\n%s", err, out)
	}
}
