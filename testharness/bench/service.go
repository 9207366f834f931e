package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/provider/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/runner"
	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/testharness/kit"
)

const (
	publisher     = "pub_bench"
	integration1  = "0a4e1f7c-3b5d-4c6e-8f90-a1b2c3d4e5f6"
	webhookSecret = "whsec_bench_bench_bench_bench_32"
)

// pollEach is how often `verge serve` looks into a partition of a store that
// it shares, on its own account.
const pollEach = 2 * time.Second

// engine runs the core: *core.Service does natively, *wasmhost.Engine in guests.
type engine interface {
	server.Engine
	runner.Outbox
}

// service is Verge as `verge serve` runs it: the same listener, log and
// limits, only that the limits are out of the way.
type service struct {
	engine
	native    *core.Service // on the same host
	host      host.Host
	ring      *token.Ring
	addr      string
	key       string
	runner    atomic.Pointer[runner.Runner]
	pause     func() // ends the runner until resume
	stopServe func()

	stopEngine func() error
}

// newService runs a service over store whose integration posts its webhooks
// to sink, or sends none if sink is empty.
func newService(store kv.KV, sink string) (*service, error) { return newServiceOn(native, store, sink) }

// newServiceOn is newService with what runs the core.
func newServiceOn(runs engineOf, store kv.KV, sink string) (*service, error) {
	kr, err := token.GenerateKeyring(rand.Reader, time.Now())
	if err != nil {
		return nil, err
	}
	ring, err := kr.Ring("verge.test", rand.Reader, time.Now)
	if err != nil {
		return nil, err
	}
	s := &service{ring: ring}
	s.host = host.Host{KV: store, Sealer: ring, Fetch: egress.New(egress.Config{Dev: true}), Now: time.Now, Random: rand.Reader,
		Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
		Wake: func(p kv.Partition, due time.Time) {
			if r := s.runner.Load(); r != nil {
				r.Wake(p, due)
			}
		}}
	free := ratelimit.PerMinute(1_000_000_000)
	c := core.Config{BaseURL: "https://verge.test", Dev: true,
		Providers: []provider.Provider{&sandbox.Provider{Now: time.Now}},
		Limits:    api.Limits{PublicPerIP: free, PublicPerKey: free, SecretPerIP: free, ReconcilePerKey: free, PagesPerIP: free}}
	if s.native, err = core.New(c, s.host); err != nil {
		return nil, err
	}
	if s.engine, s.stopEngine, err = runs(s.native, c, s.host); err != nil {
		return nil, err
	}
	if s.key, err = seed(context.Background(), s.native, sink); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.addr = l.Addr().String()
	s.stopServe = background(server.New(server.Config{Engine: s, Public: l, Log: s.host.Log, IdleGrace: time.Millisecond}).Run)
	s.resume()
	return s, nil
}

// resume starts a runner.
func (s *service) resume() {
	// As cmd/verge has it: a store that keeps rate counters is one that
	// instances share.
	_, shared := s.host.KV.(kv.Meter)
	r := runner.New(runner.Config{Outbox: s, Exclusive: !shared, PollInterval: pollEach, Log: s.host.Log})
	s.runner.Store(r)
	stop := background(r.Run)
	s.pause = func() { s.runner.Store(nil); stop(); s.pause = func() {} }
}

func (s *service) stop() {
	s.pause()
	s.stopServe()
	if err := s.stopEngine(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// background runs f and returns what ends it and waits for that.
func background(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}()
	return func() { cancel(); <-done }
}

func (s *service) lifecycle() *lifecycle.Lifecycle {
	return &lifecycle.Lifecycle{Host: s.host, Attempts: 3, OutcomeLife: 30 * 24 * time.Hour}
}

func seed(ctx context.Context, svc *core.Service, sink string) (key string, err error) {
	d := svc.Directory()
	if err := d.PutPublisher(ctx, integration.Publisher{ID: publisher, Name: "Bench"}); err != nil {
		return "", err
	}
	i := integration.Integration{ID: integration1, PublisherID: publisher, Name: "Bench", Level: "L1", ChallengeAge: 25,
		Method: sandbox.Method, Webhook: integration.Webhook{URL: sink, Off: sink == ""}}
	if err := d.PutIntegration(ctx, i, webhookSecret); err != nil {
		return "", err
	}
	key, _, err = d.CreateKey(ctx, publisher, "", nil)
	return key, err
}

const startBody = `{"integration_id":"` + integration1 +
	`","callback_url":"https://shop.example/return?from=verge","state":"q7Zk1v0mXo2hT5c8","external_user_id":"customer-4711"}`

func (s *service) startRequest() []byte { return request("POST", api.StartPath, s.key, startBody) }

// session makes the id of a session that a start could have made just now.
func (s *service) session() (session.ID, string, error) {
	id, err := session.NewID(rand.Reader, integration1, session.L1, 25, time.Now(), 0)
	if err != nil {
		return id, "", err
	}
	text, err := id.Format(s.ring)
	return id, text, err
}

// results makes n requests that validate a token of its own each.
func (s *service) results(n int) ([][]byte, error) {
	out := make([][]byte, n)
	for i := range out {
		id, _, err := s.session()
		if err != nil {
			return nil, err
		}
		result, err := kit.Issue(context.Background(), s.host.KV, s.ring, id, time.Now())
		if err != nil {
			return nil, err
		}
		out[i] = request("POST", api.ValidatePath, s.key, `{"result_token":"`+result+`"}`)
	}
	return out, nil
}

// sizeOf returns how many bytes the body of the answer to a request has.
func sizeOf(addr string, method, path, key, body string) (int, error) {
	req, err := http.NewRequest(method, "http://"+addr+path, stringReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = fmt.Errorf("%s %s: %d: %s", method, path, resp.StatusCode, b)
	}
	return len(b), err
}
