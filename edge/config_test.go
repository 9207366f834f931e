package edge

import (
	"cmp"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/kvadapters/memory"
)

// TestOpen_UnsafeNetwork requires that Open checks the parts of a Config that packages of edge define.
func TestOpen_UnsafeNetwork(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"Server.TrustedProxies: 0.0.0.0/0": func(c *Config) {
			c.Server.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
		},
		`Server.ProxyHeader: "X-Real-IP"`: func(c *Config) { c.Server.ProxyHeader = "X-Real-IP" },
		`Server.LogClient: "none"`:        func(c *Config) { c.Server.LogClient = "none" },
		"Egress.Timeout: 3m0s":            func(c *Config) { c.Egress.Timeout = 3 * time.Minute },
	} {
		c := Config{Core: core.Config{BaseURL: "http://localhost", Dev: true},
			Store: Store{KV: memory.New(memory.Config{})}}
		change(&c)
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestConfig_AttemptTime requires time for an attempt that takes the whole Egress.Timeout.
func TestConfig_AttemptTime(t *testing.T) {
	var c Config
	c.Egress.Timeout = time.Minute
	if core := c.withDefaults().Core; core.AttemptTime <= time.Minute || core.Lease <= 2*core.AttemptTime {
		t.Errorf("attempts of %s with leases of %s", core.AttemptTime, core.Lease)
	}
	c.Egress.Timeout = time.Second
	if core := c.withDefaults().Core; core.AttemptTime != 13*time.Second || core.Lease != 27*time.Second {
		t.Errorf("attempts of %s with leases of %s, want those of the contract", core.AttemptTime, core.Lease)
	}
}

// TestConfig_IdleConnections requires more idle connections than jobs of a destination. Otherwise a job that
// begins before the last connection is idle opens a new one.
func TestConfig_IdleConnections(t *testing.T) {
	for _, places := range []int{0, 3, 100} {
		var c Config
		c.Runner.PerDestination = places
		jobs := cmp.Or(places, DefaultPerDestination)
		if c = c.withDefaults(); c.Egress.IdlePerHost <= jobs {
			t.Errorf("%d connections are kept for %d jobs", c.Egress.IdlePerHost, jobs)
		}
	}
	var c Config
	c.Egress.IdlePerHost = 5
	if got := c.withDefaults().Egress.IdlePerHost; got != 5 {
		t.Errorf("%d connections are kept, want the 5 that the configuration names", got)
	}
}
