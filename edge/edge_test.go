package edge_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/internal/server"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/wait"
)

// notes records what happened, in order.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) add(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, what)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.all, ", ")
}

// notifying is a store that is an edge.HealthNotifier.
type notifying struct {
	kv.KV
	notify func(error)
	lost   chan struct{}
	cause  error
}

func (s *notifying) NotifyHealth(notify func(error)) { s.notify = notify }
func (s *notifying) Lost() <-chan struct{}           { return s.lost }
func (s *notifying) Failing() error                  { return s.cause }

func newNotifying() *notifying {
	return &notifying{KV: memory.New(memory.Config{}), lost: make(chan struct{})}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// config returns a configuration that works.
func config(t testing.TB) edge.Config {
	t.Helper()
	ring, err := keyring.Generate(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	public := listen(t)
	return edge.Config{
		Core:    core.Config{BaseURL: "http://" + public.Addr().String(), Dev: true},
		Store:   edge.Store{KV: memory.New(memory.Config{})},
		Keyring: ring,
		Public:  public,
		Server:  server.Config{IdleGrace: time.Nanosecond},
	}
}

func open(t testing.TB, c edge.Config) *edge.Service {
	t.Helper()
	s, err := edge.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// get sends a GET to a listener.
func get(t *testing.T, l net.Listener, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + l.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func isClosed(l net.Listener) bool {
	return errors.Is(l.(*net.TCPListener).SetDeadline(time.Now()), net.ErrClosed)
}

func TestOpen_Rejected(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*edge.Config)
		says   string
	}{
		{"a malformed base URL", func(c *edge.Config) { c.Core.BaseURL = "http://[" }, "base URL"},
		{"no method in production", func(c *edge.Config) {
			c.Core.Dev, c.Core.BaseURL = false, "https://verge.example"
		}, "no verification method is configured"},
		{"no key ring", func(c *edge.Config) { c.Keyring = keyring.File{} }, "key"},
		{"an engine that does not start", func(c *edge.Config) {
			c.Engine = func(context.Context, edge.Setup) (engine.Engine, error) {
				return nil, errors.New("no such engine")
			}
		}, "no such engine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			closed := 0
			conf := config(t)
			conf.Admin, conf.Ops = listen(t), listen(t)
			conf.Store.Close = func() error { closed++; return errors.New("said by the store") }
			c.change(&conf)
			s, err := edge.Open(t.Context(), conf)
			if s != nil || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %q", err, c.says)
			}
			if !strings.Contains(err.Error(), "said by the store") {
				t.Errorf("%v, want what closing the store returned, too", err)
			}
			if closed != 1 {
				t.Errorf("the store was closed %d times", closed)
			}
			for _, l := range []net.Listener{conf.Public, conf.Admin, conf.Ops} {
				if !isClosed(l) {
					t.Errorf("%s still listens", l.Addr())
				}
			}
		})
	}
}

func TestFewerPartitionsThanTheStoreKnows(t *testing.T) {
	conf := config(t)
	conf.Core.Partitions = 4
	open(t, conf)
	conf.Core.Partitions, conf.Public = 2, listen(t)
	_, err := edge.Open(t.Context(), conf)
	if few := new(edge.PartitionsError); !errors.As(err, &few) || few.Configured != 2 || few.Used != 4 {
		t.Errorf("%v, want a PartitionsError", err)
	}
}

// noting is an engine that records its calls. It waits until the test lets it continue.
type noting struct {
	engine.Engine
	*notes
	requested, working, goOn, finished chan struct{}
	jobs                               []host.Job
}

func (e *noting) Handle(context.Context, *web.Request) *web.Response {
	close(e.requested)
	wait.For(e.goOn)
	e.add("a request is finished")
	close(e.finished)
	return &web.Response{Status: 200, Header: web.Header{}, Body: []byte("ok")}
}

func (e *noting) Claim(context.Context, kv.Partition, int) ([]host.Job, time.Time, error) {
	jobs := e.jobs
	e.jobs = nil
	return jobs, time.Time{}, nil
}

func (e *noting) Run(context.Context, host.Job) error {
	close(e.working)
	wait.For(e.goOn)
	wait.For(e.finished)
	e.add("a job is done")
	return nil
}

func (e *noting) Close() error { e.add("the engine is closed"); return nil }

// Run ends everything in the order of dependence: it closes nothing that is still used.
func TestRun_ClosingOrder(t *testing.T) {
	n := &notes{}
	e := &noting{
		notes:     n,
		requested: make(chan struct{}),
		working:   make(chan struct{}),
		goOn:      make(chan struct{}),
		finished:  make(chan struct{}),
	}
	e.jobs = []host.Job{{
		Partition: "p0",
		Task:      kv.Task{ID: "t", Due: time.Now()},
		Until:     time.Now().Add(time.Minute),
	}}
	conf := config(t)
	conf.Engine = func(_ context.Context, s edge.Setup) (engine.Engine, error) {
		e.Engine = s.Native
		return e, nil
	}
	conf.Store.Close = func() error { n.add("the store is closed"); return nil }
	s := open(t, conf)
	ctx, stop := context.WithCancel(t.Context())
	ended, answered := make(chan error), make(chan int)
	go func() { ended <- s.Run(ctx) }()
	go func() {
		status := 0
		if resp, err := http.Get("http://" + conf.Public.Addr().String() + "/anything"); err == nil {
			resp.Body.Close()
			status = resp.StatusCode
		}
		answered <- status
	}()
	wait.For(e.requested)
	wait.For(e.working)
	stop()
	select {
	case err := <-ended:
		t.Fatalf("it ended with an active request and job: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(e.goOn)
	if status := wait.For(answered); status != 200 {
		t.Errorf("the active request returned %d", status)
	}
	if err := wait.For(ended); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing it again: %v", err)
	}
	const want = "a request is finished, a job is done, the engine is closed, the store is closed"
	if got := n.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestRun_StoreLost(t *testing.T) {
	store, n := newNotifying(), &notes{}
	conf := config(t)
	conf.Store = edge.Store{KV: store, Close: func() error { n.add("closed"); return nil }}
	s := open(t, conf)
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context()) }()
	get(t, conf.Public, "/healthz")
	store.cause = errors.New("the file is another one")
	close(store.lost)
	if err := wait.For(ended); !errors.Is(err, store.cause) || !strings.HasPrefix(err.Error(), "store: ") {
		t.Errorf("%v, want the store's cause", err)
	}
	if n.String() != "closed" {
		t.Errorf("the store: %q", n)
	}
}

func TestRun_StoreSignals(t *testing.T) {
	store, conf := newNotifying(), config(t)
	conf.Store, conf.Ops = edge.Store{KV: store}, listen(t)
	s := open(t, conf)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	for _, c := range []struct {
		failing error
		word    string
	}{{nil, `"ok"`}, {errors.New("the disk is full"), "the disk is full"}, {nil, `"ok"`}} {
		store.notify(c.failing)
		if status, body := get(t, conf.Ops, "/healthz"); status != 200 || !strings.Contains(body, c.word) {
			t.Errorf("told %v, it says %d %s", c.failing, status, body)
		}
	}
	stop()
	if err := wait.For(ended); err != nil {
		t.Error(err)
	}
}

// hanging is a store that the test can make hang.
type hanging struct {
	kv.KV
	hangs chan struct{}
}

func (h *hanging) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	select {
	case <-h.hangs:
		<-ctx.Done()
		return kv.Item{}, kv.ErrUnavailable
	default:
		return h.KV.Get(ctx, key)
	}
}

func (h *hanging) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	select {
	case <-h.hangs:
		<-ctx.Done()
		return nil, kv.ErrUnavailable
	default:
		return h.KV.List(ctx, prefix, after, n)
	}
}

func TestRequest_StoreBudget(t *testing.T) {
	store := &hanging{memory.New(memory.Config{}), make(chan struct{})}
	conf := config(t)
	conf.Core.OperatorToken = "the-operator-token-of-tests"
	conf.Store, conf.StoreBudget = edge.Store{KV: store}, 50*time.Millisecond
	s := open(t, conf)
	key, err := integration.GenerateKey(integration.SecretPrefix, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	close(store.hangs)
	for name, ask := range map[string]func() *web.Response{
		"a publisher's": func() *web.Response {
			return s.Engine().Handle(t.Context(), &web.Request{Method: "GET", Path: web.SessionsPath + "x",
				Header: web.Header{"Authorization": {"Bearer " + key}}})
		},
		"an operator's": func() *web.Response {
			return s.Engine().Admin(t.Context(), &web.Request{Method: "GET",
				Path:   operate.ListIntegrations.Path,
				Header: web.Header{"Authorization": {"Bearer " + conf.Core.OperatorToken}}})
		},
	} {
		answer := make(chan *web.Response)
		go func() { answer <- ask() }()
		select {
		case resp := <-answer:
			if resp.Status != 503 {
				t.Errorf("%s request: %d %s, want 503", name, resp.Status, resp.Body)
			}
		case <-time.After(5 * time.Minute):
			t.Errorf("%s request still waits", name)
		}
	}
}

// Work can end and begin again while Serve answers requests all the time.
func TestWorkCanBeginAgain(t *testing.T) {
	s := open(t, config(t))
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Work(ctx) }()
		s.Host().Wake("p0", time.Now())
		stop()
		if err := wait.For(ended); err != nil {
			t.Error(err)
		}
		s.Host().Wake("p0", time.Now()) // no runner runs, and the call does no harm
	}
}

func TestOpen_WithoutNetwork(t *testing.T) {
	conf := config(t)
	conf.Public.Close()
	conf.Public = nil
	s := open(t, conf)
	if r := s.Engine().Handle(t.Context(), &web.Request{Method: "GET", Path: "/none"}); r.Status != 404 {
		t.Errorf("its engine answers %d, want 404", r.Status)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case err := <-ended:
		t.Fatalf("it ended before its context: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	stop()
	if err := wait.For(ended); err != nil {
		t.Error(err)
	}

	for name, change := range map[string]func(*edge.Config){
		"operators' API": func(c *edge.Config) { c.Admin = listen(t) },
		"health":         func(c *edge.Config) { c.Ops = listen(t) },
	} {
		t.Run(name+" without a public listener is a mistake in the program", func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("Open did not panic")
				}
			}()
			c := config(t)
			c.Public.Close()
			c.Public = nil
			change(&c)
			edge.Open(t.Context(), c)
		})
	}
}

// A program that tends the key ring by hand decides when a rotation is seen.
func TestKeyring_ByHand(t *testing.T) {
	conf := config(t)
	conf.KeyringByHand = true
	file, err := conf.Keyring.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var reads atomic.Int32
	conf.KeyringFile = func() ([]byte, error) { reads.Add(1); return file, nil }
	s := open(t, conf)
	opened := reads.Load()
	next := conf.Keyring
	next.Keys = slices.Clone(next.Keys)
	if err := next.Rotate(rand.Reader, time.Now(), 0); err != nil {
		t.Fatal(err)
	}
	if file, err = next.Marshal(); err != nil {
		t.Fatal(err)
	}
	if err := s.RefreshKeyring(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := reads.Load() - opened; n != 1 {
		t.Errorf("the file was read %d times, want once", n)
	}
	item, err := conf.Store.KV.Get(t.Context(), kv.Key{Partition: integration.Partition, Name: "c/ring"})
	if err != nil || !strings.Contains(string(item.Value), next.Keys[0].ID) {
		t.Errorf("the store's set is %s, %v; want the new key %s in it", item.Value, err, next.Keys[0].ID)
	}
}
