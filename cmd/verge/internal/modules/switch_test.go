package modules

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/guestcode"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// hooked is an Observer that calls functions of a test.
type hooked struct {
	wasmhost.Observer
	activated  func(digest string)
	rolledBack func()
}

func (h *hooked) ModuleCompiled(time.Duration)      {}
func (h *hooked) GuestStarted(time.Duration)        {}
func (h *hooked) GuestFailed(string)                {}
func (h *hooked) ModuleActivated(d string, _ error) { h.activated(d) }
func (h *hooked) ModuleRolledBack(_, _, _ string)   { h.rolledBack() }

// unfetched is a Fetcher that reaches no server.
type unfetched struct{}

func (unfetched) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	return host.FetchResponse{}, &host.FetchError{Reason: host.FetchBlocked, Err: errors.New("nowhere")}
}

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// another returns a module that does the same and has other bytes: a section without a meaning is
// added at its end.
func another(wasm []byte, text string) []byte {
	content := append([]byte{byte(len("test"))}, "test"+text...)
	return append(append(bytes.Clone(wasm), 0, byte(len(content))), content...)
}

// badModules returns modules whose guests trap on a request for /trap.
func badModules(t *testing.T) (all [3]Module) {
	t.Helper()
	wasm := testenv.Build(t, "github.com/verge-id/verge/edge/wasmhost/testdata/badguest")
	for n := range all {
		text := string(rune('a' + n))
		m, err := New(another(wasm, text), "file "+text)
		if err != nil {
			t.Fatal(err)
		}
		all[n] = m
	}
	return all
}

// runModules runs a module on a host in this process.
func runModules(t *testing.T, first Module, told *hooked) *Switch {
	t.Helper()
	told.activated, told.rolledBack = func(string) {}, func() {}
	s := NewSwitch(Config{Module: &first})
	s.log, s.now, s.observer = slog.New(slog.DiscardHandler), time.Now, told
	var err error
	s.host, err = wasmhost.New(t.Context(), wasmhost.Config{
		Module: first.WASM, Instances: 1, Probation: time.Hour, Cache: guestcode.Cache(t, first.WASM),
		Host:  host.Host{KV: memory.New(memory.Config{}), Fetch: unfetched{}},
		Meter: ratelimit.NewLocal(0).Meter(), Guests: observer{told, s},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.comesFrom(first)
	s.follow()
	t.Cleanup(func() { running{s.host, s}.Close() })
	return s
}

func trap(t *testing.T, m *Switch) {
	t.Helper()
	req := &web.Request{Method: "GET", Path: "/trap", Header: web.Header{}}
	if r := m.host.Handle(t.Context(), req); r.Status != 503 {
		t.Errorf("the request in the guest that trapped: %d", r.Status)
	}
}

// The switch reports a rollback correctly, whenever the host reports it.
func TestRollbacksAreNoted(t *testing.T) {
	all := badModules(t)
	t.Run("before the activation is over", func(t *testing.T) {
		told := &hooked{}
		m := runModules(t, all[0], told)
		told.activated = func(string) {
			trap(t, m)
			wait.Until(t, "the state has the rollback", func() bool { return m.State().Rejected != nil })
		}
		if _, err := m.activate(t.Context(), all[1]); err != nil {
			t.Fatal(err)
		}
		s := m.State()
		if s.Active.Digest != all[0].Digest || s.Active.Source != "file a" {
			t.Errorf("active is %+v, want the first one", s.Active)
		}
		if s.Rejected == nil || s.Rejected.Digest != all[1].Digest || s.Rejected.Source != "file b" {
			t.Errorf("rejected is %+v, want the second one and where it came from", s.Rejected)
		}
	})
	t.Run("after another activation", func(t *testing.T) {
		told := &hooked{}
		m := runModules(t, all[0], told)
		if _, err := m.activate(t.Context(), all[1]); err != nil {
			t.Fatal(err)
		}
		begun, late := make(chan struct{}), make(chan struct{})
		told.rolledBack = func() { close(begun); wait.For(late) }
		trap(t, m)
		wait.For(begun)
		if _, err := m.activate(t.Context(), all[2]); err != nil {
			t.Fatal(err)
		}
		close(late)
		wait.Until(t, "the state has the rollback", func() bool { return m.State().Rejected != nil })
		s := m.State()
		if s.Active.Digest != all[2].Digest || s.Active.Source != "file c" ||
			m.host.Digest() != all[2].Digest {
			t.Errorf("active is %+v, the host runs %s, want the third one", s.Active, m.host.Digest())
		}
	})
}

// The source of a module that runs already is the configured one, even if an operator sends it again.
func TestSwitch_Sources(t *testing.T) {
	all := badModules(t)
	m := runModules(t, all[0], &hooked{})
	again := all[0]
	again.Source = sent
	changed, err := m.activate(t.Context(), again)
	if changed || err != nil || m.State().Active.Source != "file a" {
		t.Errorf("sent again by an operator: %v, %v, %+v", changed, err, m.State().Active)
	}
	moved := all[0]
	moved.Source = "file d"
	changed, err = m.activate(t.Context(), moved)
	if changed || err != nil || m.State().Active.Source != "file d" {
		t.Errorf("configured as another file: %v, %v, %+v", changed, err, m.State().Active)
	}
}

// answered returns the response to an authorized operator. Package edge checks the authorization.
func answered(t *testing.T, s *Switch, req *web.Request, body io.Reader) *web.Response {
	resp, _ := changed(t, s, req, body)
	return resp
}

// changed is like answered, and also returns the change for the audit.
func changed(t *testing.T, s *Switch, req *web.Request, body io.Reader) (resp *web.Response, what string) {
	c := &edge.Call{Request: req, Stream: body, ID: "req_x", Operator: "op_x"}
	v, e := s.AdminEndpoint().Handle(t.Context(), c)
	if e != nil {
		return e.Response("req_x", ""), c.Changed
	}
	return web.JSON(200, v), c.Changed
}

// opening is a body that reports its first read and then waits until the test lets it continue.
type opening struct {
	io.Reader
	read, open chan struct{}
}

func (o *opening) Read(p []byte) (int, error) {
	select {
	case o.read <- struct{}{}:
	default:
	}
	wait.For(o.open)
	return o.Reader.Read(p)
}

// While an operator sends a module slowly, others can change the module.
func TestSwitch_SlowUpload(t *testing.T) {
	all := badModules(t)
	m := runModules(t, all[0], &hooked{})
	body := &opening{bytes.NewReader(all[1].WASM), make(chan struct{}, 1), make(chan struct{})}
	req := &web.Request{Method: "POST", Path: Path, Header: web.Header{}}
	answer := make(chan *web.Response)
	go func() { answer <- answered(t, m, req, body) }()
	wait.For(body.read)
	reloaded := make(chan struct{})
	go func() {
		m.Reload(t.Context(), func() (Config, error) {
			return Config{Module: &all[2], Trust: Trust{SHA256: all[2].Digest}}, nil
		})
		close(reloaded)
	}()
	select {
	case <-reloaded:
	case <-time.After(patience):
		t.Error("SIGHUP waits for the upload")
	}
	r := answered(t, m, req, strings.NewReader(""))
	if r.Status != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("another upload at the same time: %d %v", r.Status, r.Header)
	}
	close(body.open)
	if r := wait.For(answer); r.Status != 409 || !strings.Contains(string(r.Body),
		"module_sha256 pins "+all[2].Digest) {
		t.Errorf("the new pins do not allow the upload: %d %s", r.Status, r.Body)
	}
	if d := m.host.Digest(); d != all[2].Digest {
		t.Errorf("%s runs", d)
	}
}

// The operator token alone cannot reinstall an older module. A module that fails is rolled back
// automatically, and a change of the configuration can roll back on purpose.
func TestOlderModulesAreRejected(t *testing.T) {
	all := badModules(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pins := Trust{Key: public, Pinned: true, MinVersion: 2}
	at := func(m Module, version int64) Config {
		t.Helper()
		m.Signature = Sign(private, m.Digest, version)
		if m.Version, err = pins.Check(m); err != nil {
			t.Fatal(err)
		}
		return Config{Module: &m, Trust: pins}
	}
	told := &hooked{}
	m := runModules(t, *at(all[0], 3).Module, told)
	m.trust = pins
	send := func(next Module, version int64) *web.Response {
		header := web.Header{}
		if version >= 0 {
			header.Set(admin.ModuleSignatureHeader, Sign(private, next.Digest, version).String())
		}
		req := &web.Request{Method: "POST", Path: Path, Header: header}
		before := m.State().Active.Digest
		resp, what := changed(t, m, req, bytes.NewReader(next.WASM))
		want := ""
		if resp.Status == 200 && before != next.Digest {
			want = next.Digest
		}
		if what != want {
			t.Errorf("contract 42: version %d returns %d, and the audit has %q, want %q", version,
				resp.Status, what, want)
		}
		return resp
	}
	rejected := func(next Module, version int64, says string) {
		t.Helper()
		runs := *m.State().Active
		r := send(next, version)
		if r.Status != 409 || !strings.Contains(string(r.Body), says) || *m.State().Active != runs {
			t.Errorf("version %d: %d %s, and %+v runs", version, r.Status, r.Body, m.State().Active)
		}
	}
	runs := func(want Module, version int64) {
		t.Helper()
		if s := m.State().Active; s.Digest != want.Digest || s.Version != version {
			t.Errorf("%+v runs, want version %d of %s", s, version, want.Digest)
		}
	}
	runs(all[0], 3)
	rejected(all[1], -1, "it is not signed")
	rejected(all[1], 0, "its signature says no version, but module_min_version is 2")
	rejected(all[1], 1, "its signature says version 1, but module_min_version is 2")
	rejected(all[1], 2, "its signature has version 2, and the active module has version 3: "+
		"to go back, configure")
	if r := send(all[1], 4); r.Status != 200 || !strings.Contains(string(r.Body), `"version":4`) {
		t.Errorf("a later version: %d %s", r.Status, r.Body)
	}
	runs(all[1], 4)
	if r := send(all[1], 4); r.Status != 200 || !strings.Contains(string(r.Body), `"changed":false`) {
		t.Errorf("the module that runs: %d %s", r.Status, r.Body)
	}
	rejected(all[2], 3, "the active module has version 4")

	trap(t, m)
	wait.Until(t, "the module before runs again", func() bool {
		return m.State().Rejected != nil && m.State().Active.Digest == all[0].Digest
	})
	runs(all[0], 3)
	if r := send(all[2], 3); r.Status != 200 {
		t.Errorf("the same version as of the module that runs again: %d %s", r.Status, r.Body)
	}
	if r := send(all[1], 4); r.Status != 200 {
		t.Errorf("a later version: %d %s", r.Status, r.Body)
	}
	m.Reload(t.Context(), func() (Config, error) { return at(all[2], 2), nil })
	runs(all[2], 2)

	m.trust = Trust{Pinned: true}
	rejected(all[1], 4, "nothing says that it may run")
}
