package conformance_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/settings"
)

// worker is a service in workerd: the harness' requests go to the Worker, and
// no part of edge/internal/server is between.
type worker struct {
	*workerd.Site
	unasked
	config workerd.Config
}

// unasked are the methods of an engine that only a runner asks for. A Worker
// claims its tasks itself, so a test that calls one of them panics.
type unasked struct{ testharness.Engine }

var _ testharness.Remote = worker{}

// onWorker returns Options.Remote if the core runs in workerd, else nil. A harness without its own store gets
// the site's Durable Objects.
func onWorker(t testing.TB) func(testharness.RemoteConfig) testharness.Remote {
	if !inWorker {
		return nil
	}
	return func(c testharness.RemoteConfig) testharness.Remote {
		t.Helper()
		// as the deployed Worker sets it
		guest := settings.Config{Config: c.Core, LogLevel: -4, Host: c.Host, KeySet: true}
		var err error
		if guest.Keyring, err = c.Keyring.Marshal(); err != nil {
			t.Fatal(err)
		}
		site := workerd.Config{Guest: guest, Store: c.KV, Now: c.Now, HandleTimeout: c.HandleTimeout,
			FetchTimeout: c.WebhookTimeout, Keys: map[string]string{}}
		for name, key := range c.Keys {
			site.Keys[name] = string(key)
		}
		return worker{Site: workerd.Shared(t).Site(t, site), config: site}
	}
}

// SetKeyring implements testharness.Remote: it is a deployment with another ring.
func (w worker) SetKeyring(ring keyring.File) {
	c := w.config
	var err error
	if c.Guest.Keyring, err = ring.Marshal(); err != nil {
		panic(err) // it was marshalled before
	}
	c.Now = w.Site.Now()
	w.Configure(c)
}

// durableObjects is a store whose items expire by now. It is in a site that does
// nothing else and whose own clock stands still.
func durableObjects(t testing.TB) func(now func() time.Time) kv.KV {
	t.Helper()
	objects := workerd.Shared(t).Site(t, workerd.Config{Now: testharness.Epoch}).KV()
	return func(now func() time.Time) kv.KV { return kvtest.Clocked(objects, now) }
}

func (w worker) PublicURL() string            { return w.Site.BaseURL }
func (w worker) AdminURL() string             { return w.Site.AdminURL }
func (w worker) KV() kv.KV                    { return w.Site.KV() }
func (w worker) Transport() http.RoundTripper { return w.Client().Transport }

// RecordUsage implements testharness.Remote.
func (w worker) RecordUsage() error { return w.Site.RecordUsage() }

// Metrics implements testharness.Remote.
func (w worker) Metrics() string {
	var b strings.Builder
	for event, n := range w.Counts() {
		fmt.Fprintf(&b, "verge_events_total{event=%q} %d\n", event, n)
	}
	return b.String()
}

// Handle implements testharness.Engine, for tests that ask without the server.
func (w worker) Handle(ctx context.Context, req *web.Request) *web.Response {
	if req.Again {
		return w.answer(ctx, abi.HandleAgain, req)
	}
	return w.answer(ctx, abi.Handle, req)
}

// Admin implements testharness.Engine.
func (w worker) Admin(ctx context.Context, req *web.Request) *web.Response {
	return w.answer(ctx, abi.Admin, req)
}

func (w worker) answer(ctx context.Context, e abi.Entry, req *web.Request) *web.Response {
	b, err := w.Entry(ctx, e, abi.Append.Request(nil, req))
	if err != nil {
		return &web.Response{Status: 503}
	}
	resp, err := abi.Read.Response(b)
	if err != nil {
		return &web.Response{Status: 500}
	}
	return resp
}
