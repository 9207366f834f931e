package edge

import "testing"

// With as many connections as jobs, a job that begins before the last connection is back makes a new one.
func TestThereIsAConnectionToSpareForEachLane(t *testing.T) {
	for _, places := range []int{0, 3, 100} {
		var c Config
		c.Runner.PerLane = places
		if c = c.withDefaults(); c.Egress.IdlePerHost <= c.Runner.Lane() {
			t.Errorf("%d connections are kept for %d jobs", c.Egress.IdlePerHost, c.Runner.Lane())
		}
	}
	var c Config
	c.Egress.IdlePerHost = 5
	if got := c.withDefaults().Egress.IdlePerHost; got != 5 {
		t.Errorf("%d connections are kept, want the 5 that the configuration names", got)
	}
}
