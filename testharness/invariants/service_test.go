package invariants_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/testharness/wait"
)

const (
	publisherID   = "pub_shop"
	integrationID = "5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a01"
	otherID       = "5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a02" // a test may send its webhooks elsewhere
	webhookSecret = "whsec_invariants_invariants_0032"
)

// setup contains the options of a test. Only Store is required.
type setup struct {
	Store      kv.KV
	Shared     bool // other instances use the store, too
	Partitions int
	Standard   bool // times of attempts and leases as in production; false: short ones
	Schedule   webhook.Schedule
	Clock      *clock
	Sink       *sink
	Keyring    keyring.File // zero: a new one
	Key        string       // an existing secret key, configured by another service on the store

	BaseURL string          // shared by several services; "": its own address
	Methods []method.Config // in addition to the sandbox

	BeforePost func(webhook.Event) // between the decision to post and the POST; may be nil
}

// service is Verge as `verge serve` runs it, with a witness of its store and receiver calls.
type service struct {
	*edge.Service
	*witness
	t       testing.TB
	url     string
	key     string
	sink    *sink
	clock   *clock
	keyring keyring.File

	pause func() // stops the jobs, like drain, until resume
	log   *logBuffer

	forgot bool // its store has lost all data once
}

// standardAttempt is the longest attempt of a service with the standard times: 10 s for the response of the
// receiver (contract 26), and 3 s to record it.
const standardAttempt = 13 * time.Second

// Times that are short enough for a test to wait for the end of a lease. A lease is longer than two attempts,
// and longer than a job waits and runs.
const (
	shortAttempt = time.Second
	shortLease   = 2500 * time.Millisecond
)

func newService(t testing.TB, c setup) *service {
	t.Helper()
	s := &service{t: t, log: &logBuffer{}, sink: c.Sink, clock: c.Clock, keyring: c.Keyring, key: c.Key}
	if s.clock == nil {
		s.clock = &clock{}
	}
	if s.sink == nil {
		s.sink = newSink(t)
	}
	var err error
	if len(s.keyring.Keys) == 0 {
		s.keyring, err = keyring.Generate(rand.Reader, s.clock.Now())
		must(t, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.url = "http://" + l.Addr().String()
	out := egress.Config{Dev: true}
	conf := edge.Config{
		Core: core.Config{BaseURL: cmp.Or(c.BaseURL, s.url), Dev: true, Limits: unlimited(),
			Methods: c.Methods, Partitions: c.Partitions, Schedule: c.Schedule},
		Keyring: s.keyring, Public: l, Now: s.clock.Now,
		Server: edge.ServerConfig{IdleGrace: time.Nanosecond},
		Log:    slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if c.Standard {
		conf.StoreBudget = time.Minute // no test waits for its end
	} else {
		out.ConnectTimeout, out.Timeout = 500*time.Millisecond, 700*time.Millisecond
		conf.Core.AttemptTime, conf.Core.Lease = shortAttempt, shortLease
		conf.Runner.MaxWait = 500 * time.Millisecond
	}
	s.witness = newWitness(t, c.Store, egress.New(out), s.clock.Now,
		cmp.Or(conf.Core.AttemptTime, standardAttempt))
	s.witness.before = c.BeforePost
	conf.Store, conf.Fetch = edge.Store{KV: s.witness.store(), Shared: c.Shared}, s.witness
	s.Service, err = edge.Open(t.Context(), conf)
	must(t, err)
	if s.key == "" {
		s.key = "svc_sk_"
		s.seed()
	}
	stop := background(t, s.Serve)
	s.resume()
	t.Cleanup(func() {
		s.pause()
		stop()
		must(t, s.Close())
		if t.Failed() {
			t.Logf("the service's log, its end:\n%s", s.log.tail(1500))
		}
	})
	return s
}

func (s *service) resume() {
	stop := background(s.t, s.Work)
	s.pause = func() { stop(); s.pause = func() {} }
}

// seed configures the clients' data. It is called again after the store has lost that data, and uses the same
// key.
func (s *service) seed() {
	s.t.Helper()
	ctx, d := context.Background(), s.Directory()
	must(s.t, d.PutPublisher(ctx, integration.Publisher{ID: publisherID, Name: "Shop"}))
	s.configure(integrationID, s.sink.URL)
	s.configure(otherID, s.sink.URL)
	if s.key == "svc_sk_" {
		var err error
		s.key, _, err = d.CreateKey(ctx, publisherID, "", nil)
		must(s.t, err)
		return
	}
	must(s.t, d.ImportKey(ctx, s.key, integration.Key{PublisherID: publisherID}))
}

func (s *service) configure(id, url string) {
	s.t.Helper()
	must(s.t, s.Directory().PutIntegration(context.Background(),
		integration.Integration{ID: id, PublisherID: publisherID, Name: id, Level: "L1",
			ChallengeAge: 25, Method: sandbox.Name, Webhook: integration.Webhook{URL: url}}, webhookSecret))
}

func unlimited() web.Limits {
	free := ratelimit.PerMinute(1_000_000_000)
	return web.Limits{
		PublicPerIP:        free,
		PublicPerKey:       free,
		PublicPerNetwork:   free,
		StartsPerPublisher: free,
		SecretPerIP:        free,
		ReconcilePerKey:    free,
		PagesPerIP:         free,
	}
}

// background runs f; stop ends it and waits.
func background(t testing.TB, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil {
			t.Errorf("it ended with an error: %v", err)
		}
	}()
	return func() { cancel(); wait.For(done) }
}

// clock is the real clock with an offset. The zero clock is correct.
type clock struct{ off atomic.Int64 }

func (c *clock) Now() time.Time       { return time.Now().Round(0).Add(time.Duration(c.off.Load())) }
func (c *clock) Jump(d time.Duration) { c.off.Add(int64(d)) }

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf.Bytes()[max(0, b.buf.Len()-n):])
}

// count returns the number of lines with the words.
func (b *logBuffer) count(words string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), words)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within polls until ok returns true. It returns false on timeout.
func within(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(20 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
