package testharness

import (
	"net/http"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge"
)

// Remote is a service outside of this process: an engine and the server in
// front of it. It is for Verge's own tests.
type Remote interface {
	Engine

	// PublicURL and AdminURL have no slash at the end. Transport reaches both,
	// and the BaseURL of RemoteConfig.
	PublicURL() string
	AdminURL() string
	Transport() http.RoundTripper

	// KV is its own store, which it uses if RemoteConfig has none.
	KV() kv.KV

	SetClock(now time.Time)
	SetKeyring(ring keyring.File)
	RecordUsage() error
	Logs() string    // one JSON object a line
	Metrics() string // the core's counters, in the format of /metrics
}

// RemoteConfig is the configuration of a Remote.
type RemoteConfig struct {
	Core    core.Config // an empty BaseURL is the remote's own
	KV      kv.KV       // nil: the remote's own
	Now     time.Time   // the time of its clock
	Keyring keyring.File
	Host    string            // the host to which the key ring's tokens are bound
	Keys    map[string][]byte // as in Options

	WebhookTimeout time.Duration
	HandleTimeout  time.Duration
}

// ringHost is the host to which the tokens of every Remote are bound, so that Remotes with the same ring
// share tokens although each has its own BaseURL.
const ringHost = "verge.example"

// startRemote starts the service elsewhere. A service without a network, on the same store, writes the
// publishers.
func (h *Harness) startRemote() {
	h.t.Helper()
	h.BaseURL = h.productionURL()
	cfg := h.config()
	r := h.opts.Remote(RemoteConfig{
		Core: cfg, KV: h.KV, Now: h.Now(), Keyring: h.Keyring, Host: ringHost, Keys: h.opts.Keys,
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
	cfg.BaseURL = "https://" + ringHost
	h.open(edge.Config{Core: cfg})
}
