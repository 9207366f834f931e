package wasmhost_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/testharness/wait"
)

// panicking is a store and a fetcher that panic.
type panicking struct{ kv.KV }

func (panicking) Get(context.Context, kv.Key) (kv.Item, error) { panic("a secret") }
func (panicking) Commit(context.Context, kv.Tx) error          { panic("a secret") }
func (panicking) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	panic("a secret")
}

// sign has the signature of host.Host's Sign.
func (panicking) sign(context.Context, string, string, []byte) ([]byte, error) { panic("a secret") }

// vast is a store and a fetcher whose results are larger than a guest accepts.
type vast struct{ kv.KV }

var vastness = make([]byte, 17<<20)

func (vast) Get(_ context.Context, k kv.Key) (kv.Item, error) {
	return kv.Item{Key: k, Value: vastness}, nil
}
func (vast) Commit(context.Context, kv.Tx) error {
	return &kv.Conflict{Items: []kv.Item{{Value: vastness}}}
}
func (vast) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	return host.FetchResponse{Status: 200, Body: vastness}, nil
}
func (vast) sign(context.Context, string, string, []byte) ([]byte, error) { return vastness, nil }

// An effect that fails in the host must fail only its own request. For a commit, the outcome must
// be unknown.
func TestEffect_HostFailure(t *testing.T) {
	for _, c := range []struct {
		name string
		kv   func(kv.KV) kv.KV
		out  interface {
			host.Fetcher
			sign(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)
		}
		says string
	}{
		{"panic", func(s kv.KV) kv.KV { return panicking{s} }, panicking{}, "the host failed"},
		{"too large", func(s kv.KV) kv.KV { return vast{s} }, vast{}, "is too large for a guest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			told, clock := &observed{}, &calendar{}
			cfg := config(t, badGuest)
			cfg.KV, cfg.Fetch, cfg.Instances, cfg.Guests = c.kv(cfg.KV), c.out, 1, told
			cfg.Sign, cfg.Clock.Wall = c.out.sign, clock.wall
			cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			e := start(t, cfg)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			beside := clock.begin(t, e, ctx, "/park")
			for path, status := range map[string]string{"/get": "3", "/commit": "4", "/fetch": "5",
				"/sign": "3"} {
				r := get(e, t.Context(), path)
				body := string(r.Body)
				if r.Status != 200 || !strings.HasPrefix(body, status) || !strings.Contains(body, c.says) {
					t.Errorf("%s: %d %.80q, want the status %s of the ABI and %q", path, r.Status, body,
						status, c.says)
				}
			}
			cancel()
			if r := wait.For(beside); r.Status != 301 {
				t.Errorf("a request in progress at the same time: %d", r.Status)
			}
			if strings.Contains(log.String(), "a secret") ||
				strings.Contains(log.String(), "guest failed") {
				t.Errorf("the log: %s", &log)
			}
			if n := strings.Count(log.String(), "panic in an effect"); n != map[string]int{
				"panic": 4}[c.name] {
				t.Errorf("the log has %d panics: %s", n, &log)
			}
			for _, cause := range []string{wasmhost.CauseTrap, wasmhost.CauseProtocol, wasmhost.CauseHost} {
				if told.count("failed: "+cause) != 0 {
					t.Errorf("a guest failed by %s", cause)
				}
			}
		})
	}
}
