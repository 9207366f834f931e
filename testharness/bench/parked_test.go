package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/wasmhost"
)

// slow is a store whose reads take a while.
type slow struct {
	kv.KV
	time.Duration
}

// Get implements kv.KV.
func (s slow) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	time.Sleep(s.Duration)
	return s.KV.Get(ctx, key)
}

// forgetful is a store that keeps no commit, so that only the engine can grow.
type forgetful struct{ kv.KV }

// Commit implements kv.KV.
func (forgetful) Commit(context.Context, kv.Tx) error { return nil }

// guestService is a service whose engine gets requests without a network.
type guestService struct {
	*service
	engine *wasmhost.Engine
}

// onGuests runs a service whose guests use the store that wrap returns. 0 instances are as many as
// processors.
func onGuests(b *testing.B, instances int, wrap func(kv.KV) kv.KV) (s guestService) {
	b.Helper()
	store := onMemory(b)
	inGuests := guests(b, func(c *wasmhost.Config) { c.Instances, c.KV = instances, wrap(store) })
	s.service = newService(b, store, "", inGuests, func(c *edge.Config) {
		open := c.Engine
		c.Engine = func(ctx context.Context, at edge.Setup) (engine.Engine, error) {
			opened, err := open(ctx, at)
			s.engine, _ = opened.(*wasmhost.Engine)
			return opened, err
		}
	})
	s.pause()
	return s
}

// ask returns an error if the response has another status.
func (s guestService) ask(want int, method, path, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	resp := s.engine.Handle(ctx, webRequest(method, path, body, web.Header{
		"Authorization": {"Bearer " + s.key}, "Content-Type": {"application/json"}, "User-Agent": {"bench"},
		"Accept": {"*/*"}}))
	if resp.Status != want {
		return fmt.Errorf("%s %s: %d: %s", method, path, resp.Status, resp.Body)
	}
	return nil
}

// BenchmarkParked measures requests that wait for a store. A read takes 100 ms, and a request needs 3 reads.
// 1,000 requests share as many guests as there are processors. 50 requests have a separate guest each, and
// their time includes the start of the guests.
func BenchmarkParked(b *testing.B) {
	for _, c := range []struct {
		name                string
		requests, instances int
	}{{"1000 requests", 1000, 0}, {"a guest for each request", 50, 50}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				if c.instances > 0 {
					b.StartTimer()
				}
				s := onGuests(b, c.instances, func(k kv.KV) kv.KV { return slow{k, 100 * time.Millisecond} })
				_, text, err := newSession(s.Host().Sealer, 0)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				err = parallel(c.requests, c.requests, func(int, int) error {
					return s.ask(200, "GET", web.SessionsPath+text, "")
				})
				if err != nil {
					b.Fatal(err)
				}
				stats := s.engine.Stats()
				b.ReportMetric(float64(stats.Instances), "guests")
				b.ReportMetric(float64(stats.Memory)/(1<<20), "guest-MiB")
			}
		})
	}
}

// BenchmarkFlat sends requests of every kind through one guest, and reports its linear memory and the heap of
// this process. Neither grows with the number of requests: compare -benchtime 10000x with 1000000x.
func BenchmarkFlat(b *testing.B) {
	s := onGuests(b, 1, func(k kv.KV) kv.KV { return forgetful{k} })
	b.ResetTimer()
	for i := range b.N {
		if err := s.any(i); err != nil {
			b.Fatalf("request %d: %v", i, err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(s.engine.Stats().Memory)/(1<<20), "guest-MiB")
	b.ReportMetric(float64(heapInUse())/(1<<20), "heap-MiB")
}

// any sends a start, a validation, a reconciliation, or a request that is rejected.
func (s guestService) any(i int) error {
	_, text, err := newSession(s.Host().Sealer, 0)
	if err != nil {
		return err
	}
	switch i % 5 {
	case 0:
		return s.ask(200, "POST", web.StartPath, startBody)
	case 1:
		// The store discards each commit without a check, so any outcome is valid.
		result, err := sessiontest.Forger{Sealer: s.Host().Sealer}.Result(text, time.Now(), "any")
		if err != nil {
			return err
		}
		return s.ask(200, "POST", web.ValidatePath, `{"result_token":"`+result+`"}`)
	case 2:
		return s.ask(200, "GET", web.SessionsPath+text, "")
	case 3:
		return s.ask(400, "POST", web.StartPath, `{"integration_id":`)
	}
	return s.ask(404, "GET", fmt.Sprintf("/nowhere/%d", i), "")
}
