package testharness

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/oidctest"
)

// Epoch is the start time of every harness's clock.
var Epoch = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)

// Options are the options of New. The zero value works, and so does nil.
type Options struct {
	// Production applies production's rules: callbacks and BaseURL are https,
	// and sessions start only on integrations that are Ready (see MakeReady).
	// The sandbox stays. False: the rules of `verge dev`.
	Production bool

	// WebhookURL is where the events of both publishers go: a server of the
	// code under test. "": the Sink.
	WebhookURL string

	// WebhookTimeout is how long a receiver may take, in real time. Zero: 10 s, as in production.
	WebhookTimeout time.Duration

	// HandleTimeout is the deadline of a request, in real time. Zero: a minute.
	HandleTimeout time.Duration

	// Providers and Estimators are the names of verification methods whose other side the harness plays: an
	// OpenID provider for each of the first, an age estimator for each of the second. Tests script them by
	// Provider and Estimator. An integration has such a method after Offer.
	Providers, Estimators []string

	// Methods are further verification methods, whose other side the test plays itself. They may reach
	// loopback addresses by http.
	Methods []method.Config

	// Keys are the private keys of Methods in PEM, by method.Config.KeyName, and those of the OpenID
	// provider, by core.ProviderKeyName.
	Keys map[string][]byte

	// Configure, if not nil, may change the service's configuration before it is used.
	Configure func(*core.Config)

	// Random is the service's source of randomness. It must bear concurrent
	// use. Nil: crypto/rand.
	Random io.Reader

	// Keyring is the ring to seal with, so that two harnesses can share one.
	// The zero ring: a fresh one.
	Keyring keyring.File

	// Observe, if not nil, is called with every response that Do has read, on the goroutine of the request.
	Observe func(*Response)

	// The rest is for Verge's own tests, which run on every store and engine.

	// KV opens the store on the harness's clock. Nil: the Remote's own store
	// if there is a Remote, else an empty miniredis, a Redis in this process,
	// whose time moves with the harness's clock.
	KV func(now func() time.Time) kv.KV

	// Engine makes the engine that runs the core, with that configuration and
	// host. The host's Sealer seals with the keyring. Nil: this process runs
	// the core natively.
	Engine func(core.Config, host.Host, keyring.File) Engine

	// Remote creates a service that runs outside of this process, including its server. It has its own
	// Random. Nil: the service runs here.
	Remote func(RemoteConfig) Remote
}

// Harness is one running service. Its methods may be called concurrently,
// except Advance and Settle. A method that cannot do its work fails the test.
type Harness struct {
	BaseURL string // of the service, without a slash at the end

	Publisher *Publisher // whose keys Start, Validate and Reconcile use
	Other     *Publisher // another publisher, for which those sessions must not exist

	Sink *Sink

	// OperatorToken opens the admin API; see Admin.
	OperatorToken string

	Engine  Engine
	Service *core.Service // the core on the same store; the Engine runs it unless Options has one
	KV      kv.KV
	Keyring keyring.File

	t       testing.TB
	clock   *kvtest.Clock
	mini    *miniredis.Miniredis // nil: the store is another
	opts    Options
	log     *logBuffer
	client  *http.Client
	adminAt string
	opsAt   string // "": the service is remote
	remote  Remote // nil: it is not
	service *edge.Service

	providers  map[string]*oidctest.Server
	estimators map[string]*estimatortest.Estimator
	methods    []method.Config // of Options, all of them

	ring sync.Mutex // guards Keyring
}

// Engine runs the core.
type Engine interface {
	engine.Engine

	// Forget drops the engine's cache of publishers, integrations and keys. Without it, the engine may use
	// them for another five seconds.
	Forget()
}

// native runs the core in this process.
type native struct{ *core.Service }

// Forget implements Engine. A native service drops cached values when they are written through it.
func (native) Forget() {}

// Publisher is a seeded publisher.
type Publisher struct {
	ID        string
	SecretKey string
	L1        *Integration // challenge age 25
	L2        *Integration // challenge age 18
}

// Integration is a seeded integration.
type Integration struct {
	ID            string // UUID
	Level         string
	ChallengeAge  int
	PublicKey     string
	BrowserOrigin string // the one origin from which PublicKey may be used by a browser
	WebhookURL    string
	WebhookSecret string
}

// Callback is the callback_url that Start sends unless told otherwise.
const Callback = "https://shop.example/return"

const browserOrigin = "https://shop.example"

// patience is the default of the other timeouts. It is far above the time that a slow machine needs.
const patience = time.Minute

// New starts a service that ends with the test.
func New(t testing.TB, opts *Options) *Harness {
	t.Helper()
	h := &Harness{t: t, clock: kvtest.NewClock(), log: &logBuffer{}, OperatorToken: "op_" + rand.Text()}
	h.clock.Advance(Epoch.Sub(h.clock.Now()))
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.Random == nil {
		h.opts.Random = rand.Reader
	}
	h.opts.WebhookTimeout = cmp.Or(h.opts.WebhookTimeout, 10*time.Second)
	h.opts.HandleTimeout = cmp.Or(h.opts.HandleTimeout, patience)
	switch {
	case h.opts.KV != nil:
		h.KV = h.opts.KV(h.Now)
	case h.opts.Remote == nil:
		h.startRedis()
	}
	h.Sink = newSink(t, h.Now)
	h.startMethods()

	if h.opts.Remote != nil {
		h.startRemote()
	} else {
		h.startHere()
	}
	h.seed()
	h.serve()
	return h
}

// startHere makes a service that runs in this process.
func (h *Harness) startHere() {
	h.t.Helper()
	public, admin, ops := h.listen(), h.listen(), h.listen()
	h.BaseURL = cmp.Or(h.productionURL(), "http://"+public.Addr().String())
	h.adminAt, h.opsAt = "http://"+admin.Addr().String(), "http://"+ops.Addr().String()
	h.client = client(&transport{
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 128}, // and no proxy
		base:      h.BaseURL, addr: public.Addr().String(),
	})
	h.open(edge.Config{
		Core: h.config(), Public: public, Admin: admin, Ops: ops,
		Server: edge.ServerConfig{
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			HandleTimeout:  h.opts.HandleTimeout,
			IdleGrace:      time.Nanosecond,
		},
	})
}

// startEngine is edge.Config.Engine.
func (h *Harness) startEngine(_ context.Context, s edge.Setup) (engine.Engine, error) {
	h.Service = s.Native
	switch {
	case h.remote != nil:
		return s.Native, nil
	case h.opts.Engine != nil:
		h.Engine = h.opts.Engine(s.Core, s.Host, h.Keyring)
	default:
		h.Engine = native{s.Native}
	}
	return h.Engine, nil
}

// open assembles the service like `verge serve`, on the harness's store and clock. It has no background jobs:
// Settle runs due tasks, and checks the key ring.
func (h *Harness) open(c edge.Config) {
	h.t.Helper()
	c.Engine = h.startEngine
	c.Store.KV, c.Keyring, c.KeyringByHand = h.KV, h.Keyring, true
	c.KeyringFile = h.keyringFile
	c.Egress = egress.Config{Dev: true, Timeout: h.opts.WebhookTimeout, ConnectTimeout: patience}
	c.StoreBudget = patience
	c.Sign, c.Decrypt = h.signer().Sign, h.signer().Decrypt
	c.UsageEach = -1
	c.Now, c.Random = h.Now, h.opts.Random
	c.Log = slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	h.service, err = edge.Open(context.Background(), c)
	h.must(err)
}

func (h *Harness) productionURL() string {
	if h.opts.Production {
		return "https://verge.example"
	}
	return ""
}

func client(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       2 * patience,
	}
}

// startRedis makes the store where Options has none.
func (h *Harness) startRedis() {
	h.t.Helper()
	h.mini = miniredis.NewMiniRedis()
	h.move(0)
	h.mini.ClockTTL(true)
	h.must(h.mini.Start())
	h.t.Cleanup(h.mini.Close)
	store, err := redis.Open(context.Background(), "redis://"+h.mini.Addr()+
		"?read_timeout=1m&write_timeout=1m&dial_timeout=1m&pool_timeout=1m", redis.Config{})
	h.must(err)
	h.t.Cleanup(func() { store.Close() })
	h.KV = store
}

// move moves the clock; nothing else does. Miniredis is kept a millisecond
// behind: it drops a key at its time, Redis only after it.
func (h *Harness) move(d time.Duration) {
	h.clock.Advance(d)
	if h.mini != nil {
		h.mini.SetTime(h.Now().Add(-time.Millisecond))
	}
	if h.remote != nil {
		h.remote.SetClock(h.Now())
	}
}

func (h *Harness) listen() net.Listener {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	h.must(err)
	return l
}

// config is the service's configuration.
func (h *Harness) config() core.Config {
	h.t.Helper()
	h.Keyring = h.opts.Keyring
	if len(h.Keyring.Keys) == 0 {
		var err error
		h.Keyring, err = keyring.Generate(rand.Reader, h.Now())
		h.must(err)
	}
	c := core.Config{
		BaseURL:       h.BaseURL,
		Dev:           !h.opts.Production,
		Test:          true,
		OperatorToken: h.OperatorToken,
		Methods:       h.methods,
	}
	keys := h.signer()
	for n := 1; ; n++ { // of the OpenID provider
		spki, err := keys.Public(core.ProviderKeyName(n))
		if err != nil {
			break
		}
		c.ProviderKeys = append(c.ProviderKeys, base64.StdEncoding.EncodeToString(spki))
	}
	if h.opts.Configure != nil {
		h.opts.Configure(&c)
	}
	return c
}

func (h *Harness) seed() {
	h.t.Helper()
	h.Publisher = h.seedPublisher("pub_shop", "5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a", "/shop")
	h.Other = h.seedPublisher("pub_other", "c3d1a6b2-47e8-4f19-b6aa-90de4b7c51", "/other")
}

func (h *Harness) seedPublisher(id, uuid, path string) *Publisher {
	h.t.Helper()
	ctx, d := context.Background(), h.Service.Directory()
	h.must(d.PutPublisher(ctx, integration.Publisher{ID: id, Name: id}))
	p := &Publisher{ID: id}
	p.L1 = &Integration{ID: uuid + "01", Level: "L1", ChallengeAge: 25, WebhookURL: path + "/l1"}
	p.L2 = &Integration{ID: uuid + "02", Level: "L2", ChallengeAge: 18, WebhookURL: path + "/l2"}
	h.seedIntegration(p, p.L1)
	h.seedIntegration(p, p.L2)
	var err error
	p.SecretKey, _, err = d.CreateKey(ctx, id, "", nil)
	h.must(err)
	return p
}

// seedIntegration stores an integration and fills in the fields that the store sets.
func (h *Harness) seedIntegration(p *Publisher, i *Integration) {
	h.t.Helper()
	ctx, d := context.Background(), h.Service.Directory()
	var err error
	i.BrowserOrigin = browserOrigin
	i.WebhookSecret, err = integration.GenerateSecret(rand.Reader)
	h.must(err)
	h.Sink.expect(i.WebhookURL, i.WebhookSecret)
	if i.WebhookURL = h.Sink.URL + i.WebhookURL; h.opts.WebhookURL != "" {
		i.WebhookURL = h.opts.WebhookURL
	}
	h.must(d.PutIntegration(ctx, integration.Integration{
		ID: i.ID, PublisherID: p.ID, Name: p.ID + " " + i.Level,
		Level: i.Level, ChallengeAge: i.ChallengeAge, Method: sandbox.Name,
		BrowserOrigins: []string{i.BrowserOrigin}, Webhook: integration.Webhook{URL: i.WebhookURL},
	}, i.WebhookSecret))
	i.PublicKey, _, err = d.CreateKey(ctx, p.ID, i.ID, nil)
	h.must(err)
}

func (h *Harness) serve() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.service.Serve(ctx) }()
	h.t.Cleanup(func() {
		h.client.CloseIdleConnections()
		stop()
		if err := errors.Join(<-done, h.service.Close()); err != nil {
			h.t.Errorf("testharness: the server did not end well: %v", err)
		}
		if h.t.Failed() {
			h.t.Logf("the service's log:\n%s", h.Logs())
		}
	})
}

func (h *Harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("testharness: %v", err)
	}
}

// Reconfigure changes an integration like an operator. change receives the current integration. A secret of
// "" keeps the current one.
func (h *Harness) Reconfigure(i *Integration, secret string, change func(*integration.Integration)) {
	h.t.Helper()
	ctx, d := context.Background(), h.Service.Directory()
	now, err := d.Integration(ctx, i.ID)
	h.must(err)
	next := *now
	change(&next)
	h.must(d.PutIntegration(ctx, next, secret))
	h.Engine.Forget()
}

// Now returns the clock's time.
func (h *Harness) Now() time.Time { return h.clock.Now() }

// Settle runs all tasks that are due now: it delivers webhooks, ends sessions and checks the key ring. It
// returns the time of the next task, or zero if there is no other.
//
// An error of the store fails the test. A test of such errors calls
// Engine.RunDue instead.
func (h *Harness) Settle() (next time.Time) {
	h.t.Helper()
	h.must(h.service.RefreshKeyring(context.Background()))
	next, err := h.Engine.RunDue(context.Background())
	h.must(err)
	return next
}

// RecordUsage makes the service write its usage counts, which it otherwise does at intervals.
func (h *Harness) RecordUsage() error {
	if h.remote != nil {
		return h.remote.RecordUsage()
	}
	return h.service.RecordUsage(context.Background())
}

// Advance moves the clock by d. Tasks that are due on the way run at their time.
func (h *Harness) Advance(d time.Duration) {
	h.t.Helper()
	h.AdvanceTo(h.Now().Add(d))
}

// maxPassedOver is how often AdvanceTo asks again for a task that is due. A store may pass over one that
// another commit holds at that moment, as PostgreSQL does.
const maxPassedOver = 1000

// AdvanceTo is Advance to a time.
func (h *Harness) AdvanceTo(end time.Time) {
	h.t.Helper()
	for passedOver := 0; ; {
		next := h.Settle()
		now := h.Now()
		if next.IsZero() || next.After(end) {
			if end.After(now) {
				h.move(end.Sub(now))
				h.Settle()
			}
			return
		}
		if !next.After(now) && passedOver < maxPassedOver {
			passedOver++
			time.Sleep(time.Millisecond)
			continue
		}
		if !next.After(now) {
			h.t.Fatalf("testharness: a task is due at %v, it is %v, and it does not run", next, now)
		}
		h.move(next.Sub(now))
		passedOver = 0
	}
}

// Pause moves the clock and runs nothing, as if no instance were up.
func (h *Harness) Pause(d time.Duration) { h.move(d) }

// Logs returns the service's log, one JSON object per line.
func (h *Harness) Logs() string {
	if h.remote != nil {
		return h.remote.Logs() + h.log.String()
	}
	return h.log.String()
}

// Metrics returns the response of /metrics.
func (h *Harness) Metrics() string {
	h.t.Helper()
	if h.remote != nil {
		return h.remote.Metrics()
	}
	h.service.SampleStorage(h.t.Context())
	resp, err := http.Get(h.opsAt + "/metrics")
	h.must(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	h.must(err)
	return string(b)
}

// transport sends requests for the service's BaseURL to its listener, as a
// proxy would that ends TLS in front of it.
type transport struct {
	*http.Transport
	base, addr string
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(t.base, "https:") && r.URL.Scheme+"://"+r.URL.Host == t.base {
		r = r.Clone(r.Context())
		r.Host = r.URL.Host
		r.URL.Scheme, r.URL.Host = "http", t.addr
	}
	return t.Transport.RoundTrip(r)
}
