package conformance_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/courier"
	"github.com/verge-id/verge/testharness/guestcode"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/wasm/settings"
)

// onWasm is Options.Engine if the core runs as a guest, else nil.
func onWasm(t testing.TB) func(core.Config, host.Host, keyring.File) testharness.Engine {
	if !inGuest {
		return nil
	}
	return func(c core.Config, h host.Host, _ keyring.File) testharness.Engine { return newGuest(t, c, h) }
}

// With VERGE_HARNESS_ENGINE=wasm, all tests run in a guest. This one does so without it.
func TestWalkInAGuest(t *testing.T) {
	long.Skip(t, "TestWalkInAGuest")
	h := newHarness(t, &opts{Engine: func(c core.Config, on host.Host,
		_ keyring.File) testharness.Engine {
		return newGuest(t, c, on)
	}})
	started := h.Start(nil)
	back := h.Approve(started)
	wantStatus(t, h.Validate(back.ResultToken), 200)
	wantError(t, h.Validate(back.ResultToken), 409, "ALREADY_USED")
	h.Settle()
	if types := h.Sink.Types(started.SessionID); len(types) != 2 {
		t.Errorf("events %v", types)
	}
}

// sharedModule is a module that all harnesses of a run have instances of.
type sharedModule struct {
	once   sync.Once
	module *wasmhost.Module
	err    error
}

// The modules of a run: the release's, and one that includes the kind for tests.
var released, withCourier sharedModule

// compiled returns the module for these kinds.
func compiled(t testing.TB, kinds []method.Kind) *wasmhost.Module {
	t.Helper()
	shared, build := &released, testenv.Module
	if slices.ContainsFunc(kinds, func(k method.Kind) bool { return k.Name == courier.Kind.Name }) {
		shared, build = &withCourier, func(t testing.TB) []byte {
			t.Helper()
			return testenv.ModuleWith(t, "github.com/verge-id/verge/testharness/courier")
		}
	}
	wasm := build(t)
	shared.once.Do(func() {
		shared.module, shared.err = wasmhost.Compile(context.Background(), wasm,
			wasmhost.CompileConfig{Cache: guestcode.Cache(t, wasm)})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.module
}

type guest struct {
	*wasmhost.Engine
	t testing.TB
}

func newGuest(t testing.TB, c core.Config, h host.Host) *guest {
	t.Helper()
	g := &guest{t: t}
	meter, ok := h.KV.(kv.Meter)
	if !ok {
		meter = ratelimit.NewLocal(0).Meter()
	}
	var err error
	g.Engine, err = wasmhost.New(t.Context(), wasmhost.Config{Compiled: compiled(t, c.Kinds),
		Guest: settings.Config{Config: c, LogLevel: -4},
		Host:  h, Meter: meter, Instances: 1,
		Clock: wasmhost.Clock{Wall: h.Now,
			Mono: func() time.Duration { return h.Now().Sub(testharness.Epoch) }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// Forget implements testharness.Engine. New instances have read nothing yet.
func (g *guest) Forget() {
	if err := g.Renew(context.Background()); err != nil {
		g.t.Fatal(err)
	}
}
