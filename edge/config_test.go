package edge

import (
	"cmp"
	"testing"
)

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
