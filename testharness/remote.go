package testharness

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/edge/server"
)

// Remote is a service outside of this process: an engine and what stands in
// front of it.
type Remote interface {
	Engine

	// PublicURL and AdminURL have no slash at the end. Transport finds both,
	// and the URL that RemoteConfig has.
	PublicURL() string
	AdminURL() string
	Transport() http.RoundTripper

	// KV is where it keeps its things if RemoteConfig has no place.
	KV() kv.KV

	SetClock(now time.Time)
	Logs() string    // one JSON object a line
	Metrics() string // what the core has counted, as /metrics says it
}

// RemoteConfig is what a Remote serves with.
type RemoteConfig struct {
	Core    core.Config // an empty BaseURL is the remote's own
	KV      kv.KV       // nil: the remote's own
	Now     time.Time   // where its clock stands
	Keyring token.Keyring
	Host    string // what the key ring's tokens are bound to

	WebhookTimeout time.Duration
	HandleTimeout  time.Duration // 0: 15 s
}

// startRemote has the service run elsewhere. The native one on the same store
// seeds it.
func (h *Harness) startRemote(log *slog.Logger, metrics *server.Metrics) {
	h.t.Helper()
	h.BaseURL = h.productionURL()
	cfg := h.config()
	r := h.opts.Remote(RemoteConfig{
		Core: cfg, KV: h.KV, Now: h.Now(), Keyring: h.Keyring, Host: ringHost,
		WebhookTimeout: h.opts.WebhookTimeout, HandleTimeout: h.opts.HandleTimeout,
	})
	if h.BaseURL == "" {
		h.BaseURL = r.PublicURL()
	}
	h.adminAt, h.client = r.AdminURL(), client(r.Transport())
	h.remote, h.Engine = r, r
	if h.KV == nil {
		h.KV = r.KV()
	}

	cfg.BaseURL = h.BaseURL
	var err error
	h.Service, err = core.New(cfg, h.host(log, metrics))
	h.must(err)
}
