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
	"sync"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/testharness/kit"
)

const (
	publisher     = "pub_bench"
	integration1  = "0a4e1f7c-3b5d-4c6e-8f90-a1b2c3d4e5f6"
	webhookSecret = "whsec_bench_bench_bench_bench_32"
	benchHost     = "verge.test"
)

// signs signs with private keys, as host.Host.Sign does.
type signs func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

// service is Verge as `verge serve` runs it: the same listener, log and
// limits, only that the limits are out of the way.
type service struct {
	*edge.Service
	addr      string
	key       string
	pause     func() // ends the jobs until resume
	stopServe func()
}

// ring is the key ring of all services, because they follow each other on a store.
var ring = sync.OnceValues(func() (token.Keyring, error) {
	return token.GenerateKeyring(rand.Reader, time.Now())
})

// newService runs a service over store whose integration posts its webhooks
// to sink, or sends none if sink is empty.
func newService(store kv.KV, sink string) (*service, error) { return newServiceOn(nil, store, sink) }

// newServiceOn is newService with what runs the core, nil for this process.
func newServiceOn(runs engineOf, store kv.KV, sink string) (*service, error) {
	return newServiceWith(runs, store, sink, nil, nil)
}

// newServiceWith is newServiceOn with verification methods, what signs with their keys, and changes.
func newServiceWith(
	runs engineOf, store kv.KV, sink string, methods []method.Config, sign signs,
	changes ...func(*edge.Config),
) (*service, error) {
	keys, err := ring()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	// A store that keeps rate counters is one that instances share.
	_, shared := store.(kv.Meter)
	free := ratelimit.PerMinute(1_000_000_000)
	s := &service{addr: l.Addr().String()}
	config := edge.Config{
		Core: core.Config{BaseURL: "https://" + benchHost, Dev: true, Methods: methods,
			Limits: api.Limits{PublicPerIP: free, PublicPerKey: free, StartsPerPublisher: free,
				SecretPerIP:     free,
				ReconcilePerKey: free, PagesPerIP: free, BoxesPerIP: free, BoxesPerHandle: free}},
		Store: edge.Store{KV: store, Shared: shared}, Engine: runs, Keyring: keys, Sign: sign,
		Egress: egress.Config{Dev: true}, Server: server.Config{IdleGrace: time.Millisecond},
		Public: l, Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	}
	for _, change := range changes {
		change(&config)
	}
	s.Service, err = edge.Open(context.Background(), config)
	if err != nil {
		return nil, err
	}
	if s.key, err = seed(context.Background(), s.Directory(), sink); err != nil {
		return nil, err
	}
	s.stopServe = background(s.Serve)
	s.resume()
	return s, nil
}

// resume begins to run jobs.
func (s *service) resume() {
	stop := background(s.Work)
	s.pause = func() { stop(); s.pause = func() {} }
}

func (s *service) stop() {
	s.pause()
	s.stopServe()
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// background runs f. stop ends it and waits until it has ended.
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
	h := s.Host()
	return &lifecycle.Lifecycle{KV: h.KV, Sealer: h.Sealer, Now: h.Now, Random: h.Random, Count: h.Count,
		Wake: h.Wake, Attempts: 3, OutcomeLife: 30 * 24 * time.Hour}
}

func seed(ctx context.Context, d *integration.Directory, sink string) (key string, err error) {
	if err := d.PutPublisher(ctx, integration.Publisher{ID: publisher, Name: "Bench"}); err != nil {
		return "", err
	}
	i := benchIntegration(integration1, sandbox.Name, sink)
	if err := d.PutIntegration(ctx, i, webhookSecret); err != nil {
		return "", err
	}
	key, _, err = d.CreateKey(ctx, publisher, "", nil)
	return key, err
}

func benchIntegration(id, method, sink string) integration.Integration {
	return integration.Integration{ID: id, PublisherID: publisher, Name: "Bench", Level: "L1",
		ChallengeAge: 25, Method: method, Webhook: integration.Webhook{URL: sink, Off: sink == ""}}
}

const startBody = `{"integration_id":"` + integration1 +
	`","callback_url":"https://shop.example/return?from=verge","state":"q7Zk1v0mXo2hT5c8",` +
	`"external_user_id":"customer-4711"}`

func (s *service) startRequest() []byte { return request("POST", api.StartPath, s.key, startBody) }

// session makes the id of a session that a start could have made just now.
func (s *service) session() (session.ID, string, error) {
	id, err := session.NewID(rand.Reader, integration1, session.L1, 25, time.Now(), 0)
	if err != nil {
		return id, "", err
	}
	text, err := id.Format(s.Host().Sealer)
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
		result, err := kit.Issue(context.Background(), s.Host().KV, s.Host().Sealer, id, time.Now())
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
