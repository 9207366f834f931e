package cli

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/modules"
	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// operator returns a program that runs commands against a process, with the files of this machine.
func operator() *program {
	p, _, _ := testProgram()
	p.FS = afero.NewOsFs()
	p.Getenv = func(name string) (string, bool) { return testToken, name == "VERGE_OPERATOR_TOKEN" }
	return p
}

// modules returns the state of the process's module.
func (in *served) modules(t *testing.T) (s admin.ModuleState) {
	t.Helper()
	code, out := asOperator(operator(), in.at, "module", "show", "--json")
	if code != exitOK || json.Unmarshal([]byte(out), &s) != nil ||
		s.Active == nil && s.Engine == engine.WASM {
		t.Fatalf("module show: exit code %d: %s", code, out)
	}
	return s
}

func (in *served) hangUp(t *testing.T) {
	t.Helper()
	if err := in.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// quietWalk does a verification. No part of it may fail.
func quietWalk(p *publisher) (id string, err error) {
	id, redirect, err := p.start(p.IntegrationID)
	if err != nil {
		return "", err
	}
	token, err := p.approve(redirect)
	if err != nil {
		return "", err
	}
	if valid, status, body := p.validate(token); !valid {
		return "", fmt.Errorf("validate: %d %s", status, body)
	}
	return id, nil
}

// TestSwapUnderLoad replaces the module again and again while clients use every endpoint. No request
// fails, and no event is lost.
func TestSwapUnderLoad(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestSwapUnderLoad")
	g := newGuests(t)
	good := testenv.Module(t)
	versions := [][]byte{good, another(good, "one")}
	used := g.path("used.wasm")
	for n, wasm := range versions {
		g.compile(g.put(fmt.Sprint("version", n, ".wasm"), wasm))
	}
	g.put("used.wasm", versions[0])
	sink := newEvents(t)
	sink.trust(testSecret)
	site := newSite(t, "bolt:"+filepath.Join(t.TempDir(), "verge.db"), sink.URL,
		unlimited+g.section(used, "module_key = \""+g.public+"\""))
	in := site.start()
	s := in.modules(t)
	if s.Active.Digest != digestOf(versions[0]) || s.Active.Source != used ||
		in.at.Engine != engine.WASM || in.at.Module != s.Active.Digest {
		t.Errorf("%+v, and the log says %+v", s.Active, in.at)
	}

	var walks atomic.Int64
	var mu sync.Mutex
	var ids []string
	var walkers sync.WaitGroup
	over := make(chan struct{})
	for n := range 6 {
		client := newPublisher(in.readyFile)
		client.http.Transport.(*http.Transport).DisableKeepAlives = n%2 == 1
		walkers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				id, err := quietWalk(client)
				if err != nil {
					t.Error(err)
					return
				}
				walks.Add(1)
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		})
	}
	some := func() {
		t.Helper()
		enough := walks.Load() + 10
		wait.Until(t, "walks", func() bool { return walks.Load() >= enough || t.Failed() })
	}
	some()
	for n := 1; n <= 4 && !t.Failed(); n++ {
		next := versions[n%2]
		digest := digestOf(next)
		if n%4 < 2 {
			g.put("used.wasm", next)
			in.hangUp(t)
			wait.Until(t, "the swap", func() bool { return in.modules(t).Active.Digest == digest })
		} else {
			code, out := asOperator(operator(), in.at, "module", "activate",
				g.path(fmt.Sprint("version", n%2, ".wasm")))
			if code != exitOK || !strings.Contains(out, digest+" is active.") ||
				!strings.Contains(out, "A restart or SIGHUP runs the configured module") {
				t.Errorf("swap %d: exit code %d: %s", n, code, out)
			}
			if s := in.modules(t); s.Active.Digest != digest {
				t.Errorf("swap %d: %+v", n, s.Active)
			}
		}
		some()
	}
	close(over)
	walkers.Wait()
	wait.Until(t, "the events", func() bool {
		for _, id := range ids {
			if !sink.has(id, "started") || !sink.has(id, "completed") {
				return false
			}
		}
		return true
	})
	for _, what := range sink.complaints() {
		t.Error(what)
	}
	in.cmd.Process.Signal(syscall.SIGTERM)
	wait.For(in.ended)
	if code := in.cmd.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(in.logs.String()) {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"level":"WARN"`) {
			t.Errorf("the log: %s", line)
		}
	}
	t.Logf("%d walks in 4 swaps", len(ids))
}

// rejecting is a server on a module that is good, which is given modules that it must reject.
type rejecting struct {
	*served
	*guests
	good, fine []byte // the module that runs, and another that was never compiled
	used       string // the file of the module that runs
	rejected   int    // how many modules the server has rejected
}

// TestModule_Rejected gives a server modules that it must reject, by each way that there is. The
// log and the operators' API report the reason, and the module in use continues.
func TestModule_Rejected(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	r := &rejecting{guests: g, good: testenv.Module(t)}
	r.fine = another(r.good, "never compiled")
	r.used = g.put("used.wasm", r.good)
	g.compile(r.used)
	sink := newEvents(t)
	sink.trust(testSecret)
	site := newSite(t, "memory", sink.URL, unlimited+g.section(r.used, "module_key = \""+g.public+"\""))
	r.served = site.start()

	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := func(path string) error { return os.Remove(modules.SignatureFile(path)) }
	othersSignature := func(path string) error {
		text := modules.Sign(g.key, digestOf(r.good), 1).String()
		return os.WriteFile(modules.SignatureFile(path), []byte(text), 0o600)
	}
	signedBy := func(path string) error { g.sign(path, stranger, 1); return nil }
	altered := func(path string) error { return os.WriteFile(path, another(r.good, "other"), 0o600) }
	for _, c := range []rejectedModule{
		{"a module that is not signed", r.fine, unsigned,
			"it is not signed, but module_key pins the key " + g.public, false},
		{"a module that another key signed", r.fine, signedBy,
			"the key of module_key", false},
		{"a module with another module's signature", r.fine, othersSignature,
			"the key of module_key", false},
		{"a module that was changed after it was signed", r.fine, altered, "did not sign", false},
		{"a module that was cut short", r.fine[:len(r.fine)/2], nil, "no WebAssembly that can be run", false},
		{"a module that is no guest", []byte("\x00asm\x01\x00\x00\x00"), nil,
			"is no guest of this version", false},
		{"a module that needs what the host does not offer", changed(t, r.good, "random_get", "random_gex"),
			nil, "random_gex", true},
		{"a module that does not answer the canary", notAnswering(t), nil,
			"it returns for the canary request status 404", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.compiles {
				long.Skip(t, "TestModule_Rejected")
				g.compile(g.put("compiled first.wasm", c.wasm))
			}
			r.rejects(t, c, "next.wasm", r.activate)
			r.rejects(t, c, "used.wasm", r.reload)
		})
	}
	t.Run("a module that is too large, or comes without a valid token", r.rejectsBefore)
	t.Run("an operator token that is not accepted gets a reason", r.rejectsStrangers)
	t.Run("the role of an operator token decides", r.judgesRoles)
	t.Run("each refusal is counted", func(t *testing.T) {
		want := "\nverge_wasm_activations_total{result=\"refused\"} " + fmt.Sprint(r.rejected) + "\n"
		if status, text := r.page(t, r.at.Ops, "/metrics"); status != 200 || !strings.Contains(text, want) {
			_, has, _ := strings.Cut(text, "\nverge_wasm_activations_total{result=\"refused\"}")
			t.Errorf("%d, the metrics do not have %q but %.10q", status, want, has)
		}
	})
	t.Run("the module in use is not activated again", func(t *testing.T) {
		code, out := asOperator(operator(), r.at, "module", "activate", r.used)
		if code != exitOK || !strings.Contains(out, "is already active since ") {
			t.Errorf("exit code %d: %s", code, out)
		}
		r.hangUp(t)
		wait.Until(t, "the log", func() bool {
			return strings.Count(r.logs.String(), "module already active") >= 2
		})
	})
	if s := r.modules(t); s.Active.Digest != digestOf(r.good) {
		t.Errorf("%+v", s.Active)
	}
}

// rejectedModule is a module, what is done to its signed file, and the reason that the server gives.
type rejectedModule struct {
	name     string
	wasm     []byte
	change   func(path string) error // nil: nothing
	says     string
	compiles bool // whether it can be compiled, which would otherwise be what is wrong
}

// rejects puts the module into a file, has the server read it, and checks that the server
// rejects it and continues. bring returns the message for the operator, or "".
func (r *rejecting) rejects(
	t *testing.T, c rejectedModule, file string, bring func(*testing.T, string, rejectedModule) (told string),
) {
	t.Helper()
	path := r.put(file, c.wasm)
	if c.change != nil {
		if err := c.change(path); err != nil {
			t.Fatal(err)
		}
	}
	told := bring(t, path, c)
	r.rejected++
	s := r.modules(t)
	if s.Rejected == nil || !strings.Contains(s.Rejected.Reason, c.says) ||
		told != "" && !strings.Contains(told, c.says) {
		t.Errorf("%s: %+v, told %q, want %q", file, s.Rejected, told, c.says)
	}
	if s.Active.Digest != digestOf(r.good) {
		t.Errorf("%s: %s runs", file, s.Active.Digest)
	}
	if _, err := quietWalk(r.publisher); err != nil {
		t.Errorf("%s: afterwards: %v", file, err)
	}
	r.put("used.wasm", r.good)
}

// activate sends the module as an operator.
func (r *rejecting) activate(t *testing.T, path string, _ rejectedModule) (told string) {
	t.Helper()
	code, out := asOperator(operator(), r.at, "module", "activate", path)
	if code != exitFailed || !strings.Contains(out, "MODULE_REFUSED") {
		t.Errorf("exit code %d: %s", code, out)
	}
	return out
}

// reload makes the server read its file of the module again, and waits for the rejection.
func (r *rejecting) reload(t *testing.T, _ string, c rejectedModule) (told string) {
	t.Helper()
	r.hangUp(t)
	wait.Until(t, "the refusal", func() bool {
		rejected := r.modules(t).Rejected
		return rejected != nil && rejected.Source != sentByOperator &&
			strings.Contains(rejected.Reason, c.says)
	})
	if !strings.Contains(r.logs.String(), "module rejected; the active one stays in use") {
		t.Error("the log does not report that the module was rejected")
	}
	return ""
}

// rejectsBefore sends modules that the server rejects before it reads them.
func (r *rejecting) rejectsBefore(t *testing.T) {
	patient := newPublisher(r.readyFile)
	patient.http.Transport.(*http.Transport).ExpectContinueTimeout = patience
	for _, c := range []struct {
		token  string
		body   io.Reader
		status int
		code   string
	}{
		{testToken, bytes.NewReader(make([]byte, largestModule+1)), 413, "PAYLOAD_TOO_LARGE"},
		// The request has no Content-Length.
		{testToken, io.LimitReader(endless{}, largestModule+1), 413, "PAYLOAD_TOO_LARGE"},
		{"not-the-operators-token", bytes.NewReader(r.fine), 401, "UNAUTHORIZED"},
		{"", bytes.NewReader(r.fine), 401, "UNAUTHORIZED"},
	} {
		req, err := http.NewRequest("POST", "http://"+r.at.Admin+admin.ModulePath, c.body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		req.Header.Set("Expect", "100-continue")
		status, header, body, err := patient.do(req)
		if err != nil || status != c.status || !strings.Contains(string(body), c.code) {
			t.Errorf("%d %s %v, want %d", status, body, err, c.status)
		}
		if status == 413 {
			r.rejected++
		}
		id := header.Get("X-Request-Id")
		if id == "" || !strings.Contains(string(body), id) {
			t.Errorf("contract 4: X-Request-Id %q, body %s", id, body)
		}
		wait.Until(t, "contract 4: the request's ID in the log", func() bool {
			return strings.Contains(r.logs.String(), id)
		})
	}
	req, err := http.NewRequest("DELETE", "http://"+r.at.Admin+admin.ModulePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	if status, header, body, err := r.do(req); status != 405 || header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("%d %v %s %v", status, header, body, err)
	}
}

func (r *rejecting) rejectsStrangers(t *testing.T) {
	stranger := operator()
	stranger.Getenv = func(name string) (string, bool) {
		return "not-the-operators-token", name == "VERGE_OPERATOR_TOKEN"
	}
	code, out := asOperator(stranger, r.at, "module", "activate", r.used)
	if code != exitFailed || !strings.Contains(out, "does not accept this operator token") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// judgesRoles asks with tokens that the store has, about which a guest of the module decides.
func (r *rejecting) judgesRoles(t *testing.T) {
	for _, c := range []struct {
		rule, role, command string
		code                int
		says                string
	}{
		{"an operator replaces the module", "operator", "activate", exitOK, "is already active since "},
		{"a viewer sees the module", "viewer", "show", exitOK, digestOf(r.good)},
		{"a viewer does not replace it", "viewer", "activate", exitFailed,
			"The role of this operator token, viewer, may not do this (FORBIDDEN"},
	} {
		code, out := asOperator(operator(), r.at, "operator", "create", "--name", "Olga", "--role", c.role)
		made := regexp.MustCompile(`vrg_op_\w+`).FindString(out)
		if code != exitOK || made == "" {
			t.Fatalf("operator create: exit code %d: %s", code, out)
		}
		p := operator()
		p.Getenv = func(name string) (string, bool) { return made, name == "VERGE_OPERATOR_TOKEN" }
		args := []string{"module", c.command}
		if c.command == "activate" {
			args = append(args, r.used)
		}
		if code, out := asOperator(p, r.at, args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("contract 42: %s: exit code %d: %s", c.rule, code, out)
		}
	}
}

// sentByOperator is the source of a module that an operator has sent.
const sentByOperator = "activated by an operator"

// largestModule is the size in bytes above which no module is read.
const largestModule = 32 << 20

// endless reads as zeros and never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestNativeSwapsNothing shows that the native engine rejects a module and gives a reason.
func TestNativeSwapsNothing(t *testing.T) {
	g := newGuests(t)
	module := g.put("module.wasm", noGuest)
	in := newSite(t, "memory", newEvents(t).URL, "").start()
	s := in.modules(t)
	if s.Engine != engine.Native || s.Active != nil || in.at.Engine != engine.Native || in.at.Module != "" {
		t.Errorf("%+v, and the log says %+v", s, in.at)
	}
	code, out := asOperator(operator(), in.at, "module", "activate", module)
	if code != exitFailed || !strings.Contains(out, "engine is native: it runs no module") {
		t.Errorf("exit code %d: %s", code, out)
	}
	in.hangUp(t)
	wait.Until(t, "the log", func() bool {
		return strings.Contains(in.logs.String(), "no module to read again: the engine is native")
	})
	if _, _, err := in.publisher.start(testIntegration); err != nil {
		t.Error(err)
	}
	// The path exists all the same, and the index lists it with the core's paths.
	status, index := in.page(t, in.at.Admin, "/")
	for _, path := range []string{
		"  GET   " + admin.ModulePath,
		"  POST  " + admin.ModulePath,
		"  GET   " + operate.ListKeys.Path,
	} {
		if status != 200 || !strings.Contains(index, path+"\n") {
			t.Errorf("%d, no %q in %s", status, path, index)
		}
	}
}

// page returns the response of one of the process's listeners.
func (in *served) page(t *testing.T, at, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest("GET", "http://"+at+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, _, b, err := in.do(req)
	if err != nil {
		t.Fatal(err)
	}
	return status, string(b)
}

// TestHangUpReadsPins shows that SIGHUP reads the pins of the file again. They hold for the module in
// the file and for modules that operators send afterwards. A file that is no longer a
// configuration is rejected.
func TestHangUpReadsPins(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	good := testenv.Module(t)
	two := another(good, "one") // as in TestSwapUnderLoad, so that it is compiled once
	one, other := digestOf(good), digestOf(two)
	first, second := g.put("first.wasm", good), g.put("second.wasm", two)
	g.compile(first)
	g.compile(second)
	site := newSite(t, "memory", newEvents(t).URL, unlimited)
	head, err := os.ReadFile(site.config)
	if err != nil {
		t.Fatal(err)
	}
	configure := func(more string) {
		t.Helper()
		if err := config.WritePrivate(afero.NewOsFs(), site.config, []byte(string(head)+more)); err != nil {
			t.Fatal(err)
		}
	}
	pin := func(digest string) string { return "module_sha256 = \"" + digest + "\"" }
	configure(g.section(first, pin(one)))
	in := site.start()

	rejected := func(what, says string) {
		t.Helper()
		in.hangUp(t)
		wait.Until(t, what, func() bool {
			r := in.modules(t).Rejected
			return r != nil && strings.Contains(r.Reason, says)
		})
		if s := in.modules(t); s.Active.Digest != one {
			t.Errorf("%s: %+v", what, s.Active)
		}
	}
	code, out := asOperator(operator(), in.at, "module", "activate", second)
	if code != exitFailed || !strings.Contains(out, "module_sha256 pins "+one) {
		t.Errorf("another module than the pinned one: exit code %d: %s", code, out)
	}
	configure(g.section(second, pin(one)))
	rejected("a pin that was left behind",
		"its SHA-256 is "+other+", but module_sha256 pins "+one)
	configure(g.section(g.path("none.wasm"), ""))
	rejected("a module that is not there", "none.wasm: no such file")
	configure("[engine]\nname = \"wasm")
	rejected("a file that is no TOML", "line ")
	configure("[engine]\nmodul = \"x\"\n")
	rejected("an unknown setting", "unknown setting \"engine.modul\"")
	configure("")
	rejected("another engine", "the engine is now native: this requires a restart")

	configure(g.section(second, pin(other)))
	in.hangUp(t)
	wait.Until(t, "the swap", func() bool { return in.modules(t).Active.Digest == other })
	code, out = asOperator(operator(), in.at, "module", "activate", first)
	if code != exitFailed || !strings.Contains(out, "module_sha256 pins "+other) {
		t.Errorf("the module that was pinned before: exit code %d: %s", code, out)
	}
	if _, _, err := in.publisher.start(testIntegration); err != nil {
		t.Error(err)
	}
}
