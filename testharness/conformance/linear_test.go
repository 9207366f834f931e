package conformance_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/history"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
)

// Single use, checked by porcupine: for every history of exchanges of one token, over two instances and a
// store that loses requests and replies, there must be an order in which the first exchange gets the result
// and all others get 409. An exchange that returned 503 may have got the result at any later time.
func TestSingleUseIsLinearizable(t *testing.T) {
	seeds := long.Pick(t, "TestSingleUseIsLinearizable", 2_000, 20_000)
	workers := min(4, runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	seen := map[string]int{}
	for w := range workers {
		t.Run(fmt.Sprintf("contract 17: every %dth seed from %d", workers, w), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			counts := map[string]int{}
			for seed := w; seed < seeds; seed += workers {
				exchanges := f.run(uint64(seed))
				for _, op := range exchanges {
					counts[op.Output.(history.Answer).String()]++
				}
				if err := history.Explain(exchanges); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range counts {
				seen[k] += n
			}
		})
	}
	t.Cleanup(func() {
		t.Logf("answers: %v", seen)
		for _, kind := range []string{"valid", "used", "unknown"} {
			if seen[kind] < seeds/10 {
				t.Errorf("%d answers were %q: the test does not test that", seen[kind], kind)
			}
		}
	})
}

// fixture is two instances on one store, run step by step: a client makes its next
// call to the store only when it is its turn. So the seed decides everything.
type fixture struct {
	random    io.Reader
	seed      func(uint64)
	services  [2]*edge.Service
	key       string
	faulty    *kvtest.Faulty
	scheduler *scheduler
	started   time.Time
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	source := rand.NewChaCha8([32]byte{})
	w := &fixture{random: source, scheduler: &scheduler{}, started: testharness.Epoch}
	w.seed = func(n uint64) { source.Seed([32]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), 1}) }
	now := func() time.Time { return w.started }
	w.faulty = &kvtest.Faulty{KV: memory.New(memory.Config{Now: now})}
	ring, err := keyring.Generate(w.random, w.started)
	must(err)
	for n := range w.services {
		w.services[n], err = edge.Open(t.Context(), edge.Config{
			Core:    core.Config{BaseURL: "https://verge.example", Dev: true, Limits: unlimitedLimits()},
			Store:   edge.Store{KV: &stepped{w.faulty, w.scheduler}},
			Keyring: ring, Now: now, Random: w.random,
			StoreBudget: time.Minute, // a client waits for its turn during its calls
		})
		must(err)
		t.Cleanup(func() { must(w.services[n].Close()) })
	}
	ctx, d := context.Background(), w.services[0].Directory()
	if err := d.PutPublisher(ctx, integration.Publisher{ID: "pub_p"}); err != nil {
		t.Fatal(err)
	}
	if err := d.PutIntegration(ctx, integration.Integration{ID: fixtureIntegration, PublisherID: "pub_p",
		Level:        "L1",
		ChallengeAge: 25, Method: sandbox.Name, Webhook: integration.Webhook{Off: true}}, ""); err != nil {
		t.Fatal(err)
	}
	if w.key, _, err = d.CreateKey(ctx, "pub_p", "", nil); err != nil {
		t.Fatal(err)
	}
	return w
}

const fixtureIntegration = "0d7a5c1e-8b1f-4e52-9d0a-4a6f0b2c3d4e"

func unlimitedLimits() web.Limits {
	var c core.Config
	unlimited(&c)
	return c.Limits
}

// run makes three clients exchange one token, twice each, and returns their results.
func (w *fixture) run(seed uint64) []porcupine.Operation {
	w.seed(seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	id, err := sessiontest.New(w.random, fixtureIntegration, "L1", w.started, 0)
	must(err)
	h := host.Host{KV: w.faulty.KV, Sealer: w.services[0].Host().Sealer, Random: w.random}
	result, err := sessiontest.Store{Host: h}.Issue(context.Background(), id, w.started)
	must(err)

	w.faulty.Decide = kvtest.Seeded(seed, map[kvtest.Fault]float64{
		kvtest.Reject: .05, kvtest.LoseRequest: .1, kvtest.LoseReply: .2, kvtest.Delay: .15})
	var recorder history.Recorder
	validate := func(client int, owner, idempotency string) {
		end := recorder.Call(client, owner)
		req := request("POST", web.ValidatePath, "", validateBody(result), "Authorization", "Bearer "+w.key)
		if idempotency != "" {
			req.Header.Set("Idempotency-Key", idempotency)
		}
		end(w.services[client%2].Engine().Handle(context.Background(), req).Status)
	}
	var clients []func()
	for c := range 3 {
		type step struct{ owner, idempotency string }
		var steps []step
		for n := range 2 {
			s := step{owner: fmt.Sprint(c, ".", n)}
			if k := rng.IntN(4); k < 2 {
				s = step{fmt.Sprint("key", k), fmt.Sprint("key", k)}
			}
			steps = append(steps, s)
		}
		clients = append(clients, func() {
			for _, s := range steps {
				validate(c, s.owner, s.idempotency)
			}
		})
	}
	w.scheduler.run(rng, clients, func() { w.faulty.Deliver(context.Background()) })
	w.faulty.Deliver(context.Background())
	w.faulty.Decide = nil
	validate(3, "last", "")
	return recorder.History()
}

// scheduler runs clients one at a time and switches between them where they
// call the store.
type scheduler struct {
	turn   map[int]chan struct{}
	parked chan int // a client that waits for its turn; negative: it has ended
	client int      // whose turn it is
}

// run returns when all clients have ended. Now and then it calls between.
func (s *scheduler) run(rng *rand.Rand, clients []func(), between func()) {
	s.turn, s.parked = map[int]chan struct{}{}, make(chan int)
	var waiting []int
	for n, run := range clients {
		turn := make(chan struct{})
		s.turn[n] = turn
		waiting = append(waiting, n)
		go func() {
			wait.For(turn)
			run()
			s.parked <- -1 - n
		}()
	}
	for len(waiting) > 0 {
		if rng.IntN(4) == 0 {
			between()
		}
		i := rng.IntN(len(waiting))
		s.client = waiting[i]
		s.turn[s.client] <- struct{}{}
		if n := wait.For(s.parked); n < 0 {
			waiting = append(waiting[:i], waiting[i+1:]...)
		}
	}
	s.turn = nil
}

// wait lets other clients run until it is this client's turn again.
func (s *scheduler) wait() {
	if s.turn == nil {
		return // no client is scheduled: before the run, or after it
	}
	n := s.client
	s.parked <- n
	wait.For(s.turn[n])
}

// stepped is a store whose callers wait for their turn before a commit and before its result.
type stepped struct {
	kv.KV
	scheduler *scheduler
}

func (s *stepped) Commit(ctx context.Context, tx kv.Tx) error {
	s.scheduler.wait()
	err := s.KV.Commit(ctx, tx)
	s.scheduler.wait()
	return err
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
