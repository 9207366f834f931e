package wasmhost_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
)

// publisher is a publisher in an engine's store, with its requests.
type publisher struct {
	t     testing.TB
	store kv.KV
	ring  host.Sealer
	key   string
}

const integrationID = "0a4e1f7c-3b5d-4c6e-8f90-a1b2c3d4e5f6"

func newPublisher(t testing.TB, c wasmhost.Config) *publisher {
	t.Helper()
	kr, err := keyring.Parse(c.Guest.Keyring)
	if err != nil {
		t.Fatal(err)
	}
	p := &publisher{t: t, store: c.KV}
	if p.ring, err = kr.Ring(c.Guest.Host, rand.Reader, time.Now); err != nil {
		t.Fatal(err)
	}
	d := integration.NewDirectory(host.Host{KV: c.KV, Sealer: p.ring, Now: time.Now, Random: rand.Reader})
	if err := d.PutPublisher(t.Context(), integration.Publisher{ID: "pub", Name: "P"}); err != nil {
		t.Fatal(err)
	}
	if err := d.PutIntegration(t.Context(), integration.Integration{
		ID:           integrationID,
		PublisherID:  "pub",
		Name:         "I",
		Level:        "L1",
		ChallengeAge: 25,
		Method:       sandbox.Name,
		Webhook:      integration.Webhook{Off: true},
	}, ""); err != nil {
		t.Fatal(err)
	}
	if p.key, _, err = d.CreateKey(t.Context(), "pub", "", nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *publisher) ask(e *wasmhost.Engine, method, path, body string) int {
	return e.Handle(p.t.Context(), &web.Request{Method: method, Path: path, Body: []byte(body),
		Header: web.Header{
			"Authorization": {"Bearer " + p.key},
			"Content-Type":  {"application/json"},
			"User-Agent":    {"a test"},
		}}).Status
}

func (p *publisher) id() sessiontest.ID {
	id, err := sessiontest.New(rand.Reader, integrationID, "L1", time.Now(), 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p *publisher) session() string {
	text, err := p.id().Format(p.ring)
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

func (p *publisher) reconcile(e *wasmhost.Engine, session string) int {
	return p.ask(e, "GET", "/api/v1/verify/sessions/"+session, "")
}

func (p *publisher) start(e *wasmhost.Engine) int {
	return p.ask(e, "POST", "/api/v1/verify/start",
		`{"integration_id":"`+integrationID+`","callback_url":"https://shop.example/return",`+
			`"state":"q7Zk1v0mXo2hT5c8"}`)
}

func (p *publisher) validate(e *wasmhost.Engine) int {
	h := host.Host{KV: p.store, Sealer: p.ring, Random: rand.Reader}
	result, err := sessiontest.Store{Host: h}.Issue(p.t.Context(), p.id(), time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	return p.ask(e, "POST", "/api/v1/verify/validate", `{"result_token":"`+result+`"}`)
}

// slow is a store that delays reads. It returns the first n reads only when all of them have arrived.
type slow struct {
	kv.KV
	n    int
	all  chan struct{}
	open sync.Once // closes all

	mu                  sync.Mutex
	came, waiting, most int
}

func (s *slow) answer() { s.open.Do(func() { close(s.all) }) }

const storeTime = 100 * time.Millisecond

func (s *slow) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	s.mu.Lock()
	s.came++
	s.waiting++
	s.most = max(s.most, s.waiting)
	if s.came == s.n {
		s.answer()
	}
	s.mu.Unlock()
	select {
	case <-s.all:
	case <-ctx.Done():
	}
	time.Sleep(storeTime)
	s.mu.Lock()
	s.waiting--
	s.mu.Unlock()
	return s.KV.Get(ctx, key)
}

// A thousand requests wait for the store at the same time, in two guests. None may wait for another's
// result, and they may use only little memory while they wait.
func TestLoad_ThousandWaitingRequests(t *testing.T) {
	const n = 1000
	c := config(t, goodGuest)
	p := newPublisher(t, c)
	store := &slow{KV: c.KV, n: n, all: make(chan struct{})}
	c.KV, c.Instances = store, 2
	e := start(t, c)
	var all sync.WaitGroup
	status := make(chan int, n)
	session := p.session()
	for range n {
		all.Go(func() { status <- p.reconcile(e, session) })
	}
	select {
	case <-store.all:
	case <-time.After(5 * time.Minute):
		t.Errorf("not all of %d requests reach the store; %d have a response", n, len(status))
		store.answer()
	}
	parked := e.Stats()
	all.Wait()
	for range n {
		if s := wait.For(status); s != 200 {
			t.Fatalf("a request was answered %d", s)
		}
	}
	if store.most != n || parked.InFlight != n || parked.Instances != 2 {
		t.Errorf("%d requests at the store at the same time, %d in flight, in %d guests; want %d, %d, 2",
			store.most, parked.InFlight, parked.Instances, n, n)
	}
	over := e.Stats().Memory
	t.Logf("%d requests parked in %d guests: %.1f MiB of linear memory, %.1f MiB after all responses",
		n, parked.Instances, float64(parked.Memory)/(1<<20), float64(over)/(1<<20))
	if most := int64(64 << 20); parked.Memory > most || over > most {
		t.Errorf("%d and then %d bytes of linear memory, want at most %d", parked.Memory, over, most)
	}
}

// If a request leaked only a hundred bytes, that would be a megabyte by the end of the test.
func TestLoad_FlatMemory(t *testing.T) {
	half := long.Pick(t, "TestLoad_FlatMemory", 2_000, 10_000)
	c := config(t, goodGuest)
	p := newPublisher(t, c)
	c.Instances = 1
	e := start(t, c)
	some := func() {
		for i := range half {
			var status int
			switch i % 8 {
			case 0:
				status = p.start(e)
			case 1:
				status = p.validate(e)
			case 2:
				status = p.reconcile(e, p.session())
			default:
				if status = get(e, t.Context(), "/nowhere").Status; status == 404 {
					status = 200
				}
			}
			if status != 200 {
				t.Fatalf("request %d was answered %d", i, status)
			}
		}
	}
	// The heap may still grow by a page. A leak grows with every round.
	const rounds = 6
	var sizes []uint64
	for len(sizes) < rounds {
		some()
		sizes = append(sizes, uint64(e.Stats().Memory))
		if n := len(sizes); n > 1 && sizes[n-1] == sizes[n-2] {
			break
		}
	}
	t.Logf("bytes after each %d requests: %d", half, sizes)
	if len(sizes) == rounds {
		t.Errorf("the guest's memory grows with every %d requests: %d bytes", half, sizes)
	}
}
