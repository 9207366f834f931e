package wasmhost_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/wasm/settings"
)

// either is two engines that are used in turn.
type either struct {
	engine.Engine // one of them, for calls that do not depend on the sealer

	both [2]*wasmhost.Engine
	now  *atomic.Int32
}

func (e either) Handle(ctx context.Context, r *web.Request) *web.Response {
	return e.both[e.now.Load()].Handle(ctx, r)
}
func (e either) Admin(ctx context.Context, r *web.Request) *web.Response {
	return e.both[e.now.Load()].Admin(ctx, r)
}
func (e either) Ready(ctx context.Context) error { return e.both[e.now.Load()].Ready(ctx) }
func (e either) RunDue(ctx context.Context) (time.Time, error) {
	return e.both[e.now.Load()].RunDue(ctx)
}
func (e either) Forget() {
	for _, one := range e.both {
		one.Renew(context.Background())
	}
}

// Tokens and sealed data of a guest with its own keys and of a guest whose host seals must be
// interchangeable: flow, provider and result tokens, session ids, and sealed data in the store.
func TestSealing_GuestAndHost(t *testing.T) {
	m := shared(t, goodGuest)
	const byHost, byGuest = 0, 1
	var now atomic.Int32
	h := testharness.New(t, &testharness.Options{Engine: func(
		cfg core.Config, on host.Host, ring keyring.File,
	) testharness.Engine {
		e := either{now: &now}
		for who := range e.both {
			c := wasmhost.Config{
				Compiled:  m,
				Guest:     settings.Config{Config: cfg},
				Host:      on,
				Meter:     ratelimit.NewLocal(0).Meter(),
				Instances: 1,
				Clock:     wasmhost.Clock{Wall: on.Now},
			}
			if meter, ok := on.KV.(kv.Meter); ok {
				c.Meter = meter
			}
			c.Random = nil // the system's
			if who == byGuest {
				c.Sealer = nil
				var err error
				if c.Guest.Keyring, err = ring.Marshal(); err != nil {
					t.Fatal(err)
				}
				c.Guest.Host = "127.0.0.1" // the harness's
			}
			e.both[who] = start(t, c)
		}
		e.Engine = e.both[byHost]
		return e
	}})
	for _, c := range []struct {
		name        string
		first, then int32
	}{
		{"begun by a guest with keys, ended by one without", byGuest, byHost},
		{"begun by a guest without keys, ended by one with keys", byHost, byGuest},
	} {
		t.Run(c.name, func(t *testing.T) {
			now.Store(c.first)
			s := h.Start(nil)
			now.Store(c.then) // opens the flow token, checks the session's MAC, seals the result
			if r := h.Reconcile(s.SessionID); r.Status != 200 {
				t.Errorf("the session's id is not accepted: %d %s", r.Status, r.Body)
			}
			back := h.Approve(s)
			now.Store(c.first) // opens the result, and the secret that the event is signed with
			if r := h.Validate(back.ResultToken); r.Status != 200 || r.JSON()["valid"] != true {
				t.Errorf("the result is not accepted: %d %s", r.Status, r.Body)
			}
			h.Settle()
			types := h.Sink.Types(s.SessionID) // both are due at the same time, so their order may differ
			if slices.Sort(types); !slices.Equal(types,
				[]string{"verification.completed", "verification.started"}) {
				t.Errorf("events %v", types)
			}
		})
	}
}
