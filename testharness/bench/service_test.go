package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/jsonlog"
	"github.com/verge-id/verge/testharness/wait"
)

const (
	publisher     = "pub_bench"
	integration1  = "0a4e1f7c-3b5d-4c6e-8f90-a1b2c3d4e5f6"
	webhookSecret = "whsec_bench_bench_bench_bench_32"
	benchHost     = "verge.test"
	operatorToken = "vrg_op_for_the_bench_alone"

	// noSink is the URL of a receiver that does not exist. Deliveries to it are not run.
	noSink = "https://sink.invalid/"
)

// service is Verge as `verge serve` runs it, with the same listener and log, and with limits that no
// benchmark reaches.
type service struct {
	*edge.Service
	addr  string
	key   string
	pause func() // ends the jobs until resume
}

// keys is the key ring of all services, because they follow each other on a store.
var keys = sync.OnceValues(func() (keyring.File, error) {
	return keyring.Generate(rand.Reader, time.Now())
})

// newService runs a service over store whose integration posts its webhooks to sink. It sends none if sink is
// empty, and runs no jobs if sink is noSink.
func newService(b *testing.B, store kv.KV, sink string, changes ...func(*edge.Config)) *service {
	b.Helper()
	keyring, err := keys()
	if err != nil {
		b.Fatal(err)
	}
	l := listen(b)
	_, shared := store.(kv.Meter) // instances share a store that keeps rate counters
	free := ratelimit.PerMinute(1_000_000_000)
	s := &service{addr: l.Addr().String()}
	config := edge.Config{
		Core: core.Config{BaseURL: "https://" + benchHost, Dev: true,
			Limits: web.Limits{PublicPerIP: free, PublicPerKey: free, StartsPerPublisher: free,
				SecretPerIP: free, ReconcilePerKey: free, PagesPerIP: free, PendingPerIP: free,
				PendingPerHandle: free}},
		Store: edge.Store{KV: store, Shared: shared}, Keyring: keyring,
		Egress: egress.Config{Dev: true}, Server: edge.ServerConfig{IdleGrace: time.Millisecond},
		Public: l, Log: slog.New(jsonlog.New(io.Discard, slog.LevelInfo)),
	}
	for _, change := range changes {
		change(&config)
	}
	if s.Service, err = edge.Open(context.Background(), config); err != nil {
		b.Fatal(err)
	}
	s.seed(b, sink)
	stopServe := background(s.Serve)
	s.resume()
	if sink == noSink {
		s.pause()
	}
	b.Cleanup(func() {
		s.pause()
		stopServe()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// resume begins to run jobs.
func (s *service) resume() {
	stop := background(s.Work)
	s.pause = func() { stop(); s.pause = func() {} }
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
	return func() { cancel(); wait.For(done) }
}

// seed creates the publisher with its integration and its key.
func (s *service) seed(b *testing.B, sink string) {
	b.Helper()
	d := s.Directory()
	err := d.PutPublisher(b.Context(), integration.Publisher{ID: publisher, Name: "Bench"})
	if err == nil {
		err = d.PutIntegration(b.Context(), benchIntegration(integration1, sandbox.Name, sink), webhookSecret)
	}
	if err == nil {
		s.key, _, err = d.CreateKey(b.Context(), publisher, "", nil)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func benchIntegration(id, method, sink string) integration.Integration {
	return integration.Integration{ID: id, PublisherID: publisher, Name: "Bench", Level: "L1",
		ChallengeAge: 25, Method: method, Webhook: integration.Webhook{URL: sink, Off: sink == ""}}
}

const startBody = `{"integration_id":"` + integration1 +
	`","callback_url":"https://shop.example/return?from=verge","state":"q7Zk1v0mXo2hT5c8",` +
	`"external_user_id":"customer-4711"}`

func (s *service) startRequest() []byte { return request("POST", web.StartPath, s.key, startBody) }

// startOnce starts a session and returns its id.
func (s *service) startOnce(c *conn) (id string, err error) {
	body, err := c.ask(s.startRequest())
	if err != nil {
		return "", err
	}
	var started struct {
		Session string `json:"session_id"`
	}
	err = json.Unmarshal(body, &started)
	return started.Session, err
}

// begin creates n sessions with a started event each, by many at a time as requests would.
func (s *service) begin(b *testing.B, n int) {
	b.Helper()
	i, err := s.Directory().Integration(b.Context(), integration1)
	if err != nil {
		b.Fatal(err)
	}
	h := s.Host()
	err = parallel(connections, n, func(int, int) error {
		id, _, err := newSession(h.Sealer, 0)
		if err != nil {
			return err
		}
		return sessiontest.Store{Host: h}.Begin(context.Background(), id, i)
	})
	if err != nil {
		b.Fatal(err)
	}
}

// newSession returns the id of a session that a start could have created now, in a partition.
func newSession(sealer host.Sealer, partition int) (id sessiontest.ID, text string, err error) {
	if id, err = sessiontest.New(rand.Reader, integration1, "L1", time.Now(), partition); err == nil {
		text, err = id.Format(sealer)
	}
	return id, text, err
}

// reconcile returns a request for the state of a new session.
func (s *service) reconcile(b *testing.B) func(int) []byte {
	b.Helper()
	_, text, err := newSession(s.Host().Sealer, 0)
	if err != nil {
		b.Fatal(err)
	}
	return always(request("GET", web.SessionsPath+text, s.key, ""))
}

// validations returns requests that validate tokens of their own, b.N and one more.
func (s *service) validations(b *testing.B) func(i int) []byte {
	b.Helper()
	h := s.Host()
	return validations(b, h.KV, h.Sealer, s.key, 1)
}

// validations completes b.N+1 sessions in a store, and returns requests for their results.
func validations(b *testing.B, store kv.KV, sealer host.Sealer, key string,
	partitions int) func(i int) []byte {
	b.Helper()
	all := make([][]byte, b.N+1)
	err := parallel(connections, len(all), func(_, i int) error {
		id, _, err := newSession(sealer, i%partitions)
		if err != nil {
			return err
		}
		h := host.Host{KV: store, Sealer: sealer, Random: rand.Reader}
		result, err := sessiontest.Store{Host: h}.Issue(context.Background(), id, time.Now())
		all[i] = request("POST", web.ValidatePath, key, `{"result_token":"`+result+`"}`)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return func(i int) []byte { return all[i] }
}

// webRequest returns a request for an engine, without a network.
func webRequest(method, path, body string, header web.Header) *web.Request {
	path, query, _ := strings.Cut(path, "?")
	return &web.Request{Method: method, Path: path, Query: query, Body: []byte(body), Header: header,
		Client: netip.MustParseAddr("192.0.2.1")}
}
