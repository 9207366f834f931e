package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/wasm/settings"
)

// hosted is an engine of guests without a server around it, and a publisher
// that its store knows.
type hosted struct {
	*wasmhost.Engine
	ring *token.Ring
	key  string
}

func newHosted(module []byte, instances int, store func(kv.KV) kv.KV) (*hosted, error) {
	ctx := context.Background()
	kr, err := token.GenerateKeyring(rand.Reader, time.Now())
	if err != nil {
		return nil, err
	}
	h := &hosted{}
	if h.ring, err = kr.Ring("verge.test", rand.Reader, time.Now); err != nil {
		return nil, err
	}
	at := host.Host{KV: memory.New(memory.Config{}), Sealer: h.ring,
		Fetch: egress.New(egress.Config{Dev: true}),
		Now:   time.Now, Random: rand.Reader, Log: slog.New(slog.NewJSONHandler(io.Discard, nil))}
	free := ratelimit.PerMinute(1_000_000_000)
	c := core.Config{BaseURL: "https://verge.test", Dev: true,
		Limits: api.Limits{PublicPerIP: free, PublicPerKey: free, StartsPerPublisher: free,
			SecretPerIP: free, ReconcilePerKey: free,
			PagesPerIP: free}}
	d := integration.NewDirectory(at)
	if err := d.PutPublisher(ctx, integration.Publisher{ID: publisher, Name: "Bench"}); err != nil {
		return nil, err
	}
	if err := d.PutIntegration(ctx, integration.Integration{ID: integration1, PublisherID: publisher,
		Name: "Bench", Level: "L1", ChallengeAge: 25,
		Method: sandbox.Name, Webhook: integration.Webhook{Off: true}}, ""); err != nil {
		return nil, err
	}
	if h.key, _, err = d.CreateKey(ctx, publisher, "", nil); err != nil {
		return nil, err
	}
	packed, err := settings.Pack(c)
	if err != nil {
		return nil, err
	}
	h.Engine, err = wasmhost.New(ctx, wasmhost.Config{Module: module, Guest: packed, KV: store(at.KV),
		Meter: ratelimit.NewLocal(0).Meter(), Fetch: at.Fetch, Sealer: h.ring, Log: at.Log, Cache: compiled(),
		Instances: instances})
	return h, err
}

// ask sends a request and returns an error unless its answer has the status.
func (h *hosted) ask(want int, method, path, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	resp := h.Handle(ctx, &web.Request{Method: method, Path: path, Body: []byte(body),
		Client: netip.MustParseAddr("192.0.2.1"),
		Header: web.Header{"Authorization": {"Bearer " + h.key}, "Content-Type": {"application/json"},
			"User-Agent": {"bench"}, "Accept": {"*/*"}}})
	if resp.Status != want {
		return fmt.Errorf("%s %s: %d: %s", method, path, resp.Status, resp.Body)
	}
	return nil
}

func (h *hosted) session() (string, error) {
	id, err := session.NewID(rand.Reader, integration1, session.L1, 25, time.Now(), 0)
	if err != nil {
		return "", err
	}
	return id.Format(h.ring)
}

// behind is a store that answers a read only after a while.
type behind struct {
	kv.KV
	time.Duration
}

// Get implements kv.KV.
func (b behind) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	time.Sleep(b.Duration)
	return b.KV.Get(ctx, key)
}

// parked prints what many requests cost that wait for a slow store: all of them in
// as many guests as there are processors, and each in a guest of its own.
func parked(module []byte) error {
	const storeTime, requests, ownGuests = 100 * time.Millisecond, 1000, 50
	var perOwn int64
	for _, v := range []struct{ n, instances int }{{requests, 0}, {ownGuests, ownGuests}} {
		var took []float64
		var stats wasmhost.Stats
		for range rounds {
			began := time.Now()
			h, err := newHosted(module, v.instances, func(k kv.KV) kv.KV { return behind{k, storeTime} })
			if err != nil {
				return err
			}
			made := time.Since(began)
			text, err := h.session()
			if err != nil {
				return err
			}
			errs := make([]error, v.n)
			var all sync.WaitGroup
			began = time.Now()
			for i := range v.n {
				all.Go(func() { errs[i] = h.ask(200, "GET", api.SessionsPath+text, "") })
			}
			all.Wait()
			each := time.Since(began)
			if v.instances > 0 {
				each += made // the instance of a request has to be made first
			}
			took = append(took, each.Seconds())
			stats = h.Stats()
			if err := errors.Join(append(errs, h.Close())...); err != nil {
				return err
			}
		}
		rate := float64(v.n) / median(took)
		if v.instances == 0 {
			fmt.Printf("%d requests parked on a store of %s: %d guests, %.1f MiB of linear memory, "+
				"%.0f answers/s (%.2f s; the store alone takes %.1f s for its 3 reads)\n", v.n,
				storeTime, stats.Instances, float64(stats.Memory)/(1<<20), rate, median(took),
				3*storeTime.Seconds())
			continue
		}
		perOwn = stats.Memory / int64(stats.Instances)
		fmt.Printf("a guest for each request, %d of them: %.1f MiB, so %.0f MiB for %d; "+
			"%.0f answers/s, the making of the guests included\n", v.n,
			float64(stats.Memory)/(1<<20), float64(perOwn*requests)/(1<<20), requests, rate)
	}
	fmt.Println()
	return nil
}
