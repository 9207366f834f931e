package edge_test

import (
	"crypto/rand"
	"net/netip"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
)

const (
	benchPublisher   = "pub_bench"
	benchIntegration = "0a4e1f7c-3b5d-4c6e-8f90-a1b2c3d4e5f6"
)

// BenchmarkHandle measures the cost of a response to a publisher behind the network, on a store in memory.
// Its allocations are the same in every run, even on a busy machine, where times are not.
func BenchmarkHandle(b *testing.B) {
	b.Run("start", func(b *testing.B) {
		s, key := benched(b)
		req := publisherRequest(key, "POST", web.StartPath, `{"integration_id":"`+benchIntegration+
			`","callback_url":"https://shop.example/return","state":"q7Zk1v0mXo2hT5c8"}`)
		handle(b, s, func(int) *web.Request { return req })
	})
	b.Run("validate", func(b *testing.B) {
		s, key := benched(b)
		reqs := make([]*web.Request, b.N)
		for i := range reqs {
			_, token := completed(b, s)
			reqs[i] = publisherRequest(key, "POST", web.ValidatePath, `{"result_token":"`+token+`"}`)
		}
		handle(b, s, func(i int) *web.Request { return reqs[i] })
	})
	b.Run("reconcile", func(b *testing.B) {
		s, key := benched(b)
		id, _ := completed(b, s)
		req := publisherRequest(key, "GET", web.SessionsPath+id, "")
		handle(b, s, func(int) *web.Request { return req })
	})
}

// benched returns a service whose limits are out of the way, and a secret key.
func benched(b *testing.B) (s *edge.Service, key string) {
	b.Helper()
	free := ratelimit.PerMinute(1_000_000_000)
	c := config(b)
	c.Core.Limits = web.Limits{SecretPerIP: free, StartsPerPublisher: free, ReconcilePerKey: free}
	s = open(b, c)
	d := s.Directory()
	if err := d.PutPublisher(b.Context(), integration.Publisher{ID: benchPublisher,
		Name: "Bench"}); err != nil {
		b.Fatal(err)
	}
	i := integration.Integration{ID: benchIntegration, PublisherID: benchPublisher, Name: "Bench",
		Level: "L1", ChallengeAge: 25, Method: sandbox.Name, Webhook: integration.Webhook{Off: true}}
	if err := d.PutIntegration(b.Context(), i, ""); err != nil {
		b.Fatal(err)
	}
	key, _, err := d.CreateKey(b.Context(), benchPublisher, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	return s, key
}

// completed makes a completed session and returns its id and its result token.
func completed(b *testing.B, s *edge.Service) (text, token string) {
	b.Helper()
	now := time.Now()
	id, err := sessiontest.New(rand.Reader, benchIntegration, "L1", now, 0)
	if err != nil {
		b.Fatal(err)
	}
	if text, err = id.Format(s.Host().Sealer); err != nil {
		b.Fatal(err)
	}
	if token, err = (sessiontest.Store{Host: s.Host()}).Issue(b.Context(), id, now); err != nil {
		b.Fatal(err)
	}
	return text, token
}

func publisherRequest(key, method, path, body string) *web.Request {
	return &web.Request{Method: method, Path: path, Body: []byte(body),
		Client: netip.MustParseAddr("192.0.2.1"),
		Header: web.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}}
}

func handle(b *testing.B, s *edge.Service, request func(i int) *web.Request) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if resp := s.Engine().Handle(b.Context(), request(i)); resp.Status != 200 {
			b.Fatalf("%d: %s", resp.Status, resp.Body)
		}
	}
}
