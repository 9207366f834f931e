package invariants_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/internal/history"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
)

// I1 over HTTP, on every engine: clients race for one token at a time, some under a shared Idempotency-Key,
// while requests and replies between Verge and its store are lost. Some order must explain their responses.
var (
	lossy = faultproxy.Odds{
		faultproxy.DropReply:   .1,
		faultproxy.DropRequest: .05,
		faultproxy.Delay:       .1,
		faultproxy.HangReply:   .002,
	}
	lossyCalls = map[kvtest.Fault]float64{
		kvtest.Reject:      .05,
		kvtest.LoseRequest: .1,
		kvtest.LoseReply:   .15,
		kvtest.Delay:       .1,
	}
)

// overFaults opens a store that fails by a seed after on is called. Each call of open returns an instance's
// own connection.
type overFaults func(t *testing.T, seed uint64) (open func() kv.KV, on func())

func inProcess(store func(testing.TB) kv.KV) overFaults {
	return func(t *testing.T, seed uint64) (open func() kv.KV, on func()) {
		f := newFaulty(store(t), seed, lossyCalls)
		return func() kv.KV { return f }, func() {
			f.on.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			go func() { // delayed requests arrive some time later
				for ctx.Err() == nil {
					time.Sleep(5 * time.Millisecond)
					f.Deliver(context.Background())
				}
			}()
		}
	}
}

func proxied(addr func(*testing.T) string) overFaults {
	return func(t *testing.T, seed uint64) (open func() kv.KV, on func()) {
		p := faultproxy.New(t, addr(t), faultproxy.Config{Seed: seed, Odds: lossy,
			Delay: 5 * time.Millisecond})
		return func() kv.KV { return openRedis(t, "redis://"+p.Addr()+"?"+impatient) }, p.On
	}
}

// movingSlot returns a Cluster whose slot of the sessions moves from node to node.
func movingSlot(t *testing.T, _ uint64) (open func() kv.KV, on func()) {
	nodes := stores.StartCluster(t, 3)
	stop := make(chan struct{})
	var moving sync.WaitGroup
	t.Cleanup(func() { close(stop); moving.Wait() })
	return func() kv.KV { return openRedis(t, nodes.URL()+"&"+impatient) }, func() {
		moving.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					nodes.Move("{verge:p0}", time.Millisecond)
				}
			}
		})
	}
}

func postgresOverFaults(t *testing.T, seed uint64) (open func() kv.KV, on func()) {
	server := stores.StartPostgres(t)
	p := faultproxy.New(t, server.Addr(), faultproxy.Config{Seed: seed, Odds: lossy,
		Delay: 5 * time.Millisecond})
	url := strings.Replace(server.URL("verge"), server.Addr(), p.Addr(), 1)
	return func() kv.KV { return openPostgres(t, url, faultTimeout) }, p.On
}

func TestI1ValidateIsLinearizable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		engine    string
		instances int
		tokens    int
		prepare   overFaults
	}{
		{"memory", 1, 60, inProcess(openMemory)},
		{"bolt", 1, 40, inProcess(openBolt)},
		{"miniredis", 2, 40, proxied(func(t *testing.T) string { return startMiniredis(t).Addr() })},
		{"redis", 2, 60, proxied(func(t *testing.T) string { return stores.StartRedis(t).Addr() })},
		{"cluster", 2, 40, movingSlot},
		{"postgres", 2, 40, postgresOverFaults},
	} {
		t.Run(c.engine, func(t *testing.T) {
			t.Parallel()
			seed := faultproxy.Seed(t, 1)
			open, on := c.prepare(t, seed)
			first := newService(t, setup{Store: open(), Shared: c.instances > 1})
			all := []*service{first}
			for range c.instances - 1 {
				all = append(all, newService(t, setup{Store: open(), Shared: true, Keyring: first.keyring,
					Key:  first.key,
					Sink: first.sink}))
			}
			on()
			seen := map[string]int{}
			tokens := long.Pick(t, "TestI1ValidateIsLinearizable", c.tokens/4, c.tokens*times())
			for n := range tokens {
				exchanges := race(t, all, mrand.New(mrand.NewPCG(seed, uint64(n))))
				for _, op := range exchanges.History() {
					seen[op.Output.(history.Answer).String()]++
				}
				if err := history.Explain(exchanges.History()); err != nil {
					t.Fatalf("I1: seed %d, token %d: %v", seed, n, err)
				}
			}
			t.Logf("answers: %v", seen)
			// On a Cluster whose slot moves, only some requests meet the move.
			if seen["valid"] < tokens/4 || seen["used"] < tokens ||
				seen["unknown"] == 0 && c.engine != "cluster" {
				t.Errorf("too few requests met a fault for this test: %v", seen)
			}
			if len(seen) > 3 {
				t.Errorf("I2: forbidden answers: %v", seen)
			}
		})
	}
}

// issue completes a session on a store that may fail. After a failure it tries another session.
func issue(t *testing.T, s *service) (result string) {
	t.Helper()
	var last error
	if !within(recovery, func() bool {
		id, err := sessiontest.New(rand.Reader, integrationID, "L1", s.clock.Now(), 0)
		must(t, err)
		result, last = sessiontest.Store{Host: s.Host()}.Issue(t.Context(), id, s.clock.Now())
		return last == nil
	}) {
		t.Fatal(last)
	}
	return result
}

// race makes four clients exchange one token, each twice, over all instances.
func race(t *testing.T, all []*service, rng *mrand.Rand) *history.Recorder {
	t.Helper()
	s := all[0]
	result := issue(t, s)
	var exchanges history.Recorder
	var wg sync.WaitGroup
	for client := range 4 {
		var keys [2]string
		for i := range keys {
			if k := rng.IntN(5); k < 2 {
				keys[i] = fmt.Sprint("key", k)
			}
		}
		pause := time.Duration(rng.IntN(3)) * time.Millisecond
		wg.Go(func() {
			time.Sleep(pause)
			for i, key := range keys {
				owner := key
				if key == "" {
					owner = fmt.Sprint(client, ".", i)
				}
				end := exchanges.Call(client, owner)
				end(all[(client+i)%len(all)].validateAs(result, key))
			}
		})
	}
	wg.Wait()
	return &exchanges
}

// validateAs calls validate with an Idempotency-Key. It returns only the status.
func (s *service) validateAs(resultToken, key string) int {
	req, err := http.NewRequest("POST", s.url+web.ValidatePath,
		strings.NewReader(`{"result_token":"`+resultToken+`"}`))
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := browser.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
