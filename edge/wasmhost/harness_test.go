package wasmhost_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/wasm/settings"
)

// holding is a store. While it holds, commits of a publisher's requests are executed, but their results are
// delayed.
type holding struct {
	kv.KV
	hold     atomic.Bool
	happened chan struct{}
	release  chan struct{}
}

func (h *holding) Commit(ctx context.Context, tx kv.Tx) error {
	err := h.KV.Commit(ctx, tx)
	if h.hold.CompareAndSwap(true, false) {
		h.happened <- struct{}{}
		wait.For(h.release)
	}
	return err
}

// breaking is a Sealer that panics on demand.
type breaking struct {
	host.Sealer
	now atomic.Bool
}

func (b *breaking) Open(purpose string, token []byte) ([]byte, time.Time, error) {
	if b.now.CompareAndSwap(true, false) {
		panic("it breaks")
	}
	return b.Sealer.Open(purpose, token)
}

// forgetful is a testharness.Engine.
type forgetful struct{ *wasmhost.Engine }

func (f forgetful) Forget() { f.Renew(context.Background()) }

// inGuest returns a function that creates a harness's engine with one guest.
func inGuest(
	t *testing.T, m *wasmhost.Module, change func(*wasmhost.Config),
) func(core.Config, host.Host, keyring.File) testharness.Engine {
	return func(cfg core.Config, on host.Host, _ keyring.File) testharness.Engine {
		c := wasmhost.Config{
			Compiled:  m,
			Guest:     settings.Config{Config: cfg},
			Host:      on,
			Meter:     ratelimit.NewLocal(0).Meter(),
			Instances: 1,
			Clock:     wasmhost.Clock{Wall: on.Now},
		}
		c.Random = nil // the system's
		change(&c)
		return forgetful{start(t, c)}
	}
}

// leaving is a store during whose commits the caller disconnects.
type leaving struct {
	kv.KV
	leave   atomic.Pointer[context.CancelFunc]
	commits atomic.Int32
}

func (l *leaving) Commit(ctx context.Context, tx kv.Tx) error {
	leave := l.leave.Load()
	if leave == nil {
		return l.KV.Commit(ctx, tx)
	}
	l.commits.Add(1)
	(*leave)()
	return kv.ErrUnknown
}

// After the caller has disconnected, no further effect of a request may reach the store. The guest is
// notified a moment later and would otherwise ask for the outcome of its commit.
func TestEffect_CallerGone(t *testing.T) {
	store := &leaving{}
	h := testharness.New(t, &testharness.Options{
		KV: func(now func() time.Time) kv.KV {
			store.KV = memory.New(memory.Config{Now: now})
			return store
		},
		// Within the grace a guest receives the end of its request. A slow machine needs more than a second.
		Engine: inGuest(t, shared(t, goodGuest), func(c *wasmhost.Config) { c.Grace = patience }),
	})
	const requests = 300
	for n := range requests {
		ctx, leave := context.WithCancel(t.Context())
		store.leave.Store(&leave)
		r := h.Engine.Handle(ctx, &web.Request{Method: "POST", Path: web.StartPath, Body: h.StartBody(nil),
			Client: netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}),
			Header: web.Header{
				"Authorization":   {"Bearer " + h.Publisher.SecretKey},
				"Content-Type":    {"application/json"},
				"Idempotency-Key": {fmt.Sprint("key-", n)},
			}})
		if r.Status != 503 || r.Header.Get("Retry-After") == "" {
			t.Fatalf("answered %d %s", r.Status, r.Body)
		}
	}
	store.leave.Store(nil)
	if got := store.commits.Load(); got != requests {
		t.Errorf("%d commits were begun for %d requests", got, requests)
	}
}

// patience is the limit of each wait in these tests. It is far above the time that a slow machine needs.
const patience = 2 * time.Minute

// within returns the next value of a channel, and fails the test if none comes.
func within[T any](t *testing.T, from <-chan T, name string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen within %s", name, patience)
		panic("unreachable")
	}
}

// deadline is a context whose deadline passes when the test closes it, not after a time that a slow machine
// needs for the request itself.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A request that fails after its commit has granted nothing. But the commit counts: its event is delivered,
// and a second request returns the same session.
func TestEngine_FailureAfterCommit(t *testing.T) {
	m := shared(t, goodGuest)
	for _, c := range []struct {
		name  string
		cause string // of the guest's failure; "": it does not fail
		fail  func(t *testing.T, h *testharness.Harness, sealer *breaking, limit deadline)
	}{
		{"contract 5: the guest traps during the commit", wasmhost.CauseHost,
			func(t *testing.T, h *testharness.Harness, sealer *breaking, _ deadline) {
				sealer.now.Store(true)
				flow := "svc_ft_" + strings.Repeat("A", 200)
				if r := h.Do("GET", web.HostedPath+"?flow="+flow, nil, nil); r.Status != 503 {
					t.Errorf("the request in which the guest trapped: %d %s", r.Status, r.Body)
				}
			}},
		{"contract 5: the deadline passes during the commit", "",
			func(_ *testing.T, _ *testharness.Harness, _ *breaking, limit deadline) { close(limit.passed) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &holding{happened: make(chan struct{}, 1), release: make(chan struct{})}
			var sealer breaking
			told := &observed{}
			h := testharness.New(t, &testharness.Options{
				KV: func(now func() time.Time) kv.KV {
					store.KV = memory.New(memory.Config{Now: now})
					return store
				},
				Engine: inGuest(t, m, func(c *wasmhost.Config) {
					sealer.Sealer = c.Sealer
					c.Sealer, c.Guests = &sealer, told
				}),
			})
			ask := func(ctx context.Context) *web.Response {
				return h.Engine.Handle(ctx, &web.Request{Method: "POST", Path: web.StartPath,
					Body: h.StartBody(nil), Client: netip.MustParseAddr("192.0.2.1"), Header: web.Header{
						"Authorization":   {"Bearer " + h.Publisher.SecretKey},
						"Content-Type":    {"application/json"},
						"Idempotency-Key": {"one"},
					}})
			}

			store.hold.Store(true)
			limit := deadline{t.Context(), make(chan struct{})}
			answer := make(chan *web.Response, 1)
			go func() { answer <- ask(limit) }()
			within(t, store.happened, "the commit")
			c.fail(t, h, &sealer, limit)
			if r := within(t, answer, "the response"); r.Status != 503 ||
				strings.Contains(string(r.Body), "redirect_url") {
				t.Errorf("the request whose commit happened: %d %s", r.Status, r.Body)
			}
			close(store.release)
			h.Settle()
			events := h.Sink.Events()
			if len(events) != 1 || events[0].Type != "verification.started" {
				t.Fatalf("events %v, want the started one", events)
			}
			again := ask(t.Context())
			if again.Status != 200 || !strings.Contains(string(again.Body), events[0].SessionID) {
				t.Errorf("the second request: %d %s, but the event was of %s",
					again.Status, again.Body, events[0].SessionID)
			}
			h.Settle()
			if n := len(h.Sink.Events()); n != 1 {
				t.Errorf("%d events, want one", n)
			}
			got, want := told.count("failed: "+wasmhost.CauseHost), map[bool]int{true: 1}[c.cause != ""]
			if got != want {
				t.Errorf("%d guests failed, want %d", got, want)
			}
		})
	}
}
