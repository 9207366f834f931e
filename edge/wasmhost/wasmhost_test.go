package wasmhost_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/guestcode"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/wasm/settings"
)

const (
	goodGuest = "github.com/verge-id/verge/wasm/guest"
	badGuest  = "github.com/verge-id/verge/edge/wasmhost/testdata/badguest"
)

// config returns a working configuration of a guest with its own keys.
func config(t testing.TB, pkg string) wasmhost.Config {
	module := testenv.Build(t, pkg)
	return wasmhost.Config{
		Module: module,
		Guest: settings.Config{
			Config: core.Config{BaseURL: "https://verge.example", Test: true},
			Host:   "verge.example",
			Keyring: []byte(`{"version":1,"keys":[{"id":"9f02ab31",` +
				`"secret":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8","created":"2026-11-20T22:10:00Z"}]}`),
		},
		Host:  host.Host{KV: memory.New(memory.Config{}), Fetch: nowhere{}},
		Meter: free{}, Cache: guestcode.Cache(t, module),
	}
}

// free is a meter that allows all requests.
type free struct{}

func (free) Spend(_ context.Context, _ kv.Partition, _ time.Time, charges []kv.Charge) ([]time.Time, error) {
	return make([]time.Time, len(charges)), nil
}

type nowhere struct{}

func (nowhere) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	return host.FetchResponse{}, &host.FetchError{Reason: host.FetchBlocked, Err: errors.New("nowhere")}
}

func start(t testing.TB, c wasmhost.Config) *wasmhost.Engine {
	t.Helper()
	e, err := wasmhost.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func get(e *wasmhost.Engine, ctx context.Context, path string) *web.Response {
	return e.Handle(ctx, &web.Request{Method: "GET", Path: path, Header: web.Header{}})
}

func TestEngine_CoreResponds(t *testing.T) {
	e := start(t, config(t, goodGuest))
	r := get(e, t.Context(), "/nowhere")
	if r.Status != 404 || !strings.Contains(string(r.Body), "NOT_FOUND") ||
		r.Header.Get("X-Request-Id") == "" {
		t.Errorf("%d %v %s", r.Status, r.Header, r.Body)
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
}

// shared returns a module that the tests of a process compile once.
func shared(t testing.TB, pkg string) *wasmhost.Module {
	t.Helper()
	module := testenv.Build(t, pkg)
	m, err := wasmhost.Compile(t.Context(), module, wasmhost.CompileConfig{Cache: guestcode.Cache(t, module)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// counting is a Sealer that counts its calls and never succeeds.
type counting struct{ asked *atomic.Int32 }

func (c counting) Open(string, []byte) ([]byte, time.Time, error) {
	c.asked.Add(1)
	return nil, time.Time{}, host.ErrNotAuthentic
}
func (c counting) Seal(_ string, claims []byte) ([]byte, error) { return claims, nil }
func (c counting) MAC(string, []byte) ([]byte, error)           { return make([]byte, 32), nil }
func (c counting) CheckMAC(string, []byte, []byte) (time.Time, error) {
	return time.Time{}, host.ErrNotAuthentic
}

func TestEngine_SharedModule(t *testing.T) {
	m := shared(t, goodGuest)
	var asked [2]atomic.Int32
	engines := make([]*wasmhost.Engine, len(asked))
	for i := range engines {
		c := config(t, goodGuest)
		c.Module, c.Compiled = nil, m
		c.Guest.Keyring, c.Sealer = nil, counting{&asked[i]}
		engines[i] = start(t, c)
	}
	engines[1].Handle(t.Context(), &web.Request{
		Method: "GET",
		Path:   web.HostedPath,
		Query:  "flow=" + "svc_ft_" + strings.Repeat("A", 200),
		Header: web.Header{},
	})
	if asked[0].Load() != 0 || asked[1].Load() == 0 {
		t.Errorf("the sealers were asked %d and %d times, want only the one of the engine that was",
			asked[0].Load(), asked[1].Load())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := engines[0].Close(); err != nil {
		t.Fatal(err)
	}
	if r := get(engines[1], t.Context(), "/nowhere"); r.Status != 404 {
		t.Errorf("with the other engine and the module closed: %d", r.Status)
	}
	if err := engines[1].Renew(t.Context()); err != nil {
		t.Errorf("renewing instances of a module that is in use: %v", err)
	}
	if err := engines[1].Close(); err != nil {
		t.Fatal(err)
	}
	c := config(t, goodGuest)
	c.Compiled = m
	if _, err := wasmhost.New(t.Context(), c); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("a new engine of a closed module: %v", err)
	}
}

// parked is a store whose calls block until it is opened.
type parked struct {
	kv.KV
	open chan struct{}
}

func (p *parked) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	select {
	case <-p.open:
		return p.KV.Get(ctx, key)
	case <-ctx.Done():
		return kv.Item{}, errors.Join(kv.ErrUnavailable, context.Cause(ctx))
	}
}

func TestInstance_ManyRequests(t *testing.T) {
	c := config(t, goodGuest)
	store := &parked{c.KV, make(chan struct{})}
	c.KV, c.Instances = store, 1
	e := start(t, c)
	const n = 1000
	var all sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		all.Go(func() { errs <- e.Ready(t.Context()) })
	}
	time.Sleep(100 * time.Millisecond) // by then, requests in progress are parked
	if len(errs) != 0 {
		t.Errorf("%d requests have ended without a result of the store", len(errs))
	}
	if r := get(e, t.Context(), "/nowhere"); r.Status != 404 {
		t.Errorf("a request in progress at the same time: %d", r.Status)
	}
	close(store.open)
	all.Wait()
	for range n {
		if err := wait.For(errs); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInstance_Deadline(t *testing.T) {
	c := config(t, goodGuest)
	store := &parked{c.KV, make(chan struct{})}
	c.KV, c.Instances = store, 1
	e := start(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.Ready(ctx); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("%v, want unavailable", err)
	}
	close(store.open)
	if err := e.Ready(t.Context()); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// Requests of each hostile guest must fail, and the next request must succeed.
func TestInstance_Failures(t *testing.T) {
	for _, c := range []struct {
		path          string
		status        int
		cause         string // of the guest's failure; "": only this request fails
		leaves        bool   // the client leaves after the guest has begun the request
		interruptible bool
	}{
		{path: "/trap", status: 503, cause: wasmhost.CauseTrap},
		{path: "/memory", status: 503, cause: wasmhost.CauseMemory},
		{path: "/header", status: 503, cause: wasmhost.CauseProtocol},
		{path: "/outbox", status: 503, cause: wasmhost.CauseProtocol},
		{path: "/huge", status: 503, cause: wasmhost.CauseProtocol},
		{path: "/record", status: 503, cause: wasmhost.CauseProtocol},
		{path: "/stranger", status: 503, cause: wasmhost.CauseProtocol},
		{
			path:          "/loop",
			status:        503,
			cause:         wasmhost.CauseDeadline,
			leaves:        true,
			interruptible: true,
		},
		{path: "/slow", status: 503, cause: wasmhost.CauseDeadline, leaves: true},
		{path: "/deaf", status: 503, cause: wasmhost.CauseProtocol, leaves: true},
		{path: "/junk", status: 503},
		{path: "/empty", status: 500},
		{path: "/effect", status: 200}, // an effect unknown to all hosts
	} {
		t.Run(c.path[1:], func(t *testing.T) {
			t.Parallel()
			cfg, told, clock := config(t, badGuest), &observed{}, &calendar{}
			cfg.Instances, cfg.MemoryMax, cfg.Interruptible, cfg.Guests = 1, 64<<20, c.interruptible, told
			cfg.Clock = wasmhost.Clock{Wall: clock.wall, Mono: clock.mono}
			e := start(t, cfg)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			beside := clock.begin(t, e, ctx, "/park")

			own, leave := context.WithCancel(t.Context())
			defer leave()
			response := clock.begin(t, e, own, c.path)
			if c.leaves {
				leave()
			}
			r := wait.For(response)
			clock.slowEnded.Store(true)
			if r.Status != c.status || (r.Body != nil) != (c.status == 200) {
				t.Errorf("%d %s, want %d", r.Status, r.Body, c.status)
			}
			want := 503
			if c.cause == "" {
				cancel()
				want = 301
			}
			if r := wait.For(beside); r.Status != want {
				t.Errorf("a request in the same guest: %d, want %d", r.Status, want)
			}
			if r := get(e, t.Context(), "/"); r.Status != 200 {
				t.Errorf("the next request: %d", r.Status)
			}
			for _, cause := range []string{
				wasmhost.CauseTrap,
				wasmhost.CauseMemory,
				wasmhost.CauseProtocol,
				wasmhost.CauseDeadline,
				wasmhost.CauseHost,
				wasmhost.CauseStart,
			} {
				n := 0
				if cause == c.cause {
					n = 1
				}
				if got := told.count("failed: " + cause); got != n {
					t.Errorf("%d failures by %s, want %d", got, cause, n)
				}
			}
			wait.Until(t, "the failed guest has ended", func() bool {
				s := e.Stats()
				return s.Instances == 1 && s.InFlight == 0 && s.Queued == 0 && s.Memory < 32<<20
			})
		})
	}
}

func TestInstance_Full(t *testing.T) {
	cfg, clock := config(t, badGuest), &calendar{}
	cfg.Instances, cfg.MemoryMax, cfg.MemoryFull = 1, 256<<20, 32<<20
	cfg.Clock.Wall = clock.wall
	e := start(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	beside := clock.begin(t, e, ctx, "/park")
	for n := range 60 { // 480 MiB in one instance
		if r := get(e, t.Context(), "/grow"); r.Status != 200 {
			t.Fatalf("request %d: %d", n, r.Status)
		}
	}
	cancel()
	if r := wait.For(beside); r.Status != 301 {
		t.Errorf("a request in progress: %d", r.Status)
	}
}

func TestModule_Rejected(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*wasmhost.Config)
		says   string
	}{
		{"bytes without a module", func(c *wasmhost.Config) { c.Module = []byte("MZ") }, "no WebAssembly"},
		{"a module without our exports", func(c *wasmhost.Config) {
			c.Module = []byte("\x00asm\x01\x00\x00\x00")
		}, "does not export verge_submit"},
		{"a configuration that the core rejects", func(c *wasmhost.Config) {
			c.Guest.BaseURL = "http://x"
		}, "rejects its configuration"},
		{"no way to seal", func(c *wasmhost.Config) { c.Guest.Keyring = nil }, "does not seal"},
		{"the version of the ABI before this one", func(c *wasmhost.Config) {
			c.Module = ofVersion(3)
		}, "the guest speaks version 3 of the ABI, this host 4"},
		{"a later version of the ABI", func(c *wasmhost.Config) {
			c.Module = ofVersion(5)
		}, "the guest speaks version 5 of the ABI, this host 4"},
		{"a guest that accepts a rejected signature", func(c *wasmhost.Config) {
			c.Module, c.Guest.Host = testenv.Build(t, badGuest), "misled.example"
		}, "misreads the status of an unknown key"},
		{"a clock that is off", func(c *wasmhost.Config) {
			c.Clock.Wall = moving(-2 * time.Second)
		}, "its clock is off by -"},
		{"randomness that is always the same", func(c *wasmhost.Config) { c.Random = zeros{} },
			"repeats itself"},
		{"randomness that the instances share", func(c *wasmhost.Config) {
			c.Random = &sameForAll{}
		}, "repeats itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t, goodGuest)
			c.change(&cfg)
			e, err := wasmhost.New(t.Context(), cfg)
			if err == nil {
				e.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// sameForAll returns the same 32 bytes to each caller that reads that many.
type sameForAll struct{}

func (sameForAll) Read(p []byte) (int, error) {
	rand.NewChaCha8([32]byte{1}).Read(p)
	return len(p), nil
}

// moving is a clock that moves at each read. If it moves backwards, the guest reads a time before the
// host's earlier read.
func moving(by time.Duration) func() time.Time {
	var reads atomic.Int64
	begin := time.Now()
	return func() time.Time { return begin.Add(time.Duration(reads.Add(1)) * by) }
}

// ofVersion returns a module that has all exports of a guest and reports the given version of the ABI.
func ofVersion(version byte) []byte {
	counted := func(parts ...[]byte) []byte {
		return append([]byte{byte(len(parts))}, bytes.Join(parts, nil)...)
	}
	type function struct {
		name         string
		params       int
		instructions []byte
	}
	constant := func(n byte) []byte { return []byte{0x41, n} }
	var types, kinds, exports, bodies [][]byte
	for i, f := range []function{
		{"verge_abi", 0, constant(version)},
		{"verge_reserve", 1, constant(0)},
		{"verge_config", 1, constant(0)},
		{"verge_submit", 2, constant(0)},
		{"verge_complete", 4, constant(0)},
		{"verge_cancel", 2, constant(0)},
		{"_initialize", 0, nil},
	} {
		i32s := func(n int) []byte { return append([]byte{byte(n)}, bytes.Repeat([]byte{0x7f}, n)...) }
		results := 1
		if f.instructions == nil {
			results = 0
		}
		types = append(types, slices.Concat([]byte{0x60}, i32s(f.params), i32s(results)))
		kinds = append(kinds, []byte{byte(i)})
		exports = append(exports, slices.Concat([]byte{byte(len(f.name))}, []byte(f.name),
			[]byte{0, byte(i)}))
		bodies = append(bodies,
			slices.Concat([]byte{byte(len(f.instructions) + 2), 0}, f.instructions, []byte{0x0b}))
	}
	exports = append(exports, []byte("\x06memory\x02\x00"))
	module := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range []struct {
		id   byte
		body []byte
	}{
		{1, counted(types...)},
		{3, counted(kinds...)},
		{5, []byte{1, 0, 1}},
		{7, counted(exports...)},
		{10, counted(bodies...)},
	} {
		module = append(binary.AppendUvarint(append(module, s.id), uint64(len(s.body))), s.body...)
	}
	return module
}
