// Package settings transfers the core's configuration to a guest. Hosts turn their configuration into
// the ABI's with Pack. The guest turns it back with Unpack. So a service has the same configuration
// whatever runs it.
package settings

import (
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/provider/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/wasm/abi"
)

// Pack returns the configuration that Unpack turns back into c. The caller adds what is needed for
// sealing. Pack returns an error for what the ABI cannot express: times of less than a millisecond,
// limits that are not per minute, and providers, since a guest has its own.
func Pack(c core.Config) (abi.Config, error) {
	var bad error
	ms := func(what string, d time.Duration) abi.Milliseconds {
		if d%time.Millisecond != 0 {
			bad = errors.Join(bad, fmt.Errorf("%s of %s: a guest counts in milliseconds", what, d))
		}
		return abi.MillisecondsOf(d)
	}
	perMinute := func(what string, l ratelimit.Limit) int {
		if l != (ratelimit.Limit{}) && l.Per != time.Minute {
			bad = errors.Join(bad, fmt.Errorf("limit %s of %d per %s: a guest counts per minute",
				what, l.Count, l.Per))
		}
		return l.Count
	}
	a := abi.Config{
		BaseURL:              c.BaseURL,
		Dev:                  c.Dev,
		Test:                 c.Test,
		OperatorToken:        c.OperatorToken,
		Partitions:           c.Partitions,
		Attempts:             c.Attempts,
		OutcomeLife:          ms("outcome life", c.OutcomeLife),
		AttemptTime:          ms("attempt time", c.AttemptTime),
		Lease:                ms("lease", c.Lease),
		PublicPerIP:          perMinute("public per IP", c.Limits.PublicPerIP),
		PublicPerKey:         perMinute("public per key", c.Limits.PublicPerKey),
		SecretPerIP:          perMinute("secret per IP", c.Limits.SecretPerIP),
		ReconcilePerKey:      perMinute("reconcile per key", c.Limits.ReconcilePerKey),
		PreflightsPerIP:      perMinute("preflights per IP", c.Limits.PreflightsPerIP),
		PagesPerIP:           perMinute("pages per IP", c.Limits.PagesPerIP),
		FailedOperatorsPerIP: perMinute("failed operators per IP", c.Limits.FailedOperatorsPerIP),
		JitterPercent:        c.Schedule.JitterPercent,
	}
	if c.Schedule.Delays != nil {
		a.Retries = make([]abi.Milliseconds, len(c.Schedule.Delays))
		for n, d := range c.Schedule.Delays {
			a.Retries[n] = ms("retry", d)
		}
	}
	return a, bad
}

// Unpack returns the core's configuration, with the providers that a guest has. Their clock is now.
func Unpack(a abi.Config, now func() time.Time) core.Config {
	c := core.Config{
		BaseURL:       a.BaseURL,
		Dev:           a.Dev,
		Test:          a.Test,
		OperatorToken: a.OperatorToken,
		Partitions:    a.Partitions,
		Attempts:      a.Attempts,
		OutcomeLife:   a.OutcomeLife.Duration(),
		AttemptTime:   a.AttemptTime.Duration(),
		Lease:         a.Lease.Duration(),
		Limits: api.Limits{
			PublicPerIP:          perMinute(a.PublicPerIP),
			PublicPerKey:         perMinute(a.PublicPerKey),
			SecretPerIP:          perMinute(a.SecretPerIP),
			ReconcilePerKey:      perMinute(a.ReconcilePerKey),
			PreflightsPerIP:      perMinute(a.PreflightsPerIP),
			PagesPerIP:           perMinute(a.PagesPerIP),
			FailedOperatorsPerIP: perMinute(a.FailedOperatorsPerIP),
		},
		Schedule: webhook.Schedule{JitterPercent: a.JitterPercent},
	}
	if a.Retries != nil {
		c.Schedule.Delays = make([]time.Duration, len(a.Retries))
		for n, ms := range a.Retries {
			c.Schedule.Delays[n] = ms.Duration()
		}
	}
	if a.Dev || a.Test {
		c.Providers = []provider.Provider{&sandbox.Provider{Now: now}}
	}
	return c
}

// perMinute keeps zero, which the core replaces with the contract's value.
func perMinute(n int) ratelimit.Limit {
	if n == 0 {
		return ratelimit.Limit{}
	}
	return ratelimit.PerMinute(n)
}
