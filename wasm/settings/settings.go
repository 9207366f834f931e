// Package settings transfers the core's configuration to a guest. Hosts turn their configuration into
// the ABI's with Pack. The guest turns it back with Unpack. So a service has the same configuration
// whatever runs it.
package settings

import (
	"errors"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/wasm/abi"
)

// Pack returns the configuration that Unpack turns back into c. The caller adds what is needed for
// sealing. Pack returns an error for what the ABI cannot express: times of less than a millisecond,
// limits that are not per minute, and providers, since a guest has its own.
func Pack(c core.Config) (abi.Config, error) {
	var wrong problem.List
	ms := func(member string, d time.Duration) abi.Milliseconds {
		if d%time.Millisecond != 0 {
			wrong.Add(member, "%s is not a whole number of milliseconds, in which a guest counts", d)
		}
		return abi.MillisecondsOf(d)
	}
	perMinute := func(member string, l ratelimit.Limit) int {
		if l != (ratelimit.Limit{}) && l.Per != time.Minute {
			wrong.Add("Limits."+member, "%d per %s; a guest counts per minute", l.Count, l.Per)
		}
		return l.Count
	}
	a := abi.Config{
		BaseURL: c.BaseURL, Dev: c.Dev, Test: c.Test, OperatorToken: c.OperatorToken,
		Console:    c.Console,
		Partitions: c.Partitions, Attempts: c.Attempts, Methods: packMethods(c.Methods),
		PasskeyDays: c.PasskeyDays, SecurityContact: c.SecurityContact,
		OutcomeLife: ms("OutcomeLife", c.OutcomeLife), AttemptTime: ms("AttemptTime", c.AttemptTime),
		Lease:                ms("Lease", c.Lease),
		PublicPerIP:          perMinute("PublicPerIP", c.Limits.PublicPerIP),
		PublicPerKey:         perMinute("PublicPerKey", c.Limits.PublicPerKey),
		PublicPerNetwork:     perMinute("PublicPerNetwork", c.Limits.PublicPerNetwork),
		StartsPerPublisher:   perMinute("StartsPerPublisher", c.Limits.StartsPerPublisher),
		SecretPerIP:          perMinute("SecretPerIP", c.Limits.SecretPerIP),
		ReconcilePerKey:      perMinute("ReconcilePerKey", c.Limits.ReconcilePerKey),
		PreflightsPerIP:      perMinute("PreflightsPerIP", c.Limits.PreflightsPerIP),
		PagesPerIP:           perMinute("PagesPerIP", c.Limits.PagesPerIP),
		BoxesPerIP:           perMinute("BoxesPerIP", c.Limits.BoxesPerIP),
		BoxesPerHandle:       perMinute("BoxesPerHandle", c.Limits.BoxesPerHandle),
		FailedOperatorsPerIP: perMinute("FailedOperatorsPerIP", c.Limits.FailedOperatorsPerIP),
		JitterPercent:        c.Schedule.JitterPercent,
	}
	if c.Schedule.Delays != nil {
		a.Retries = make([]abi.Milliseconds, len(c.Schedule.Delays))
		for n, d := range c.Schedule.Delays {
			a.Retries[n] = ms("Schedule.Delays", d)
		}
	}
	return a, wrong.Err()
}

// names are the ABI's for the members of core.Config.
var names = map[string]string{
	"BaseURL": "base_url", "OperatorToken": "operator_token", "Console": "console",
	"Partitions": "partitions", "Attempts": "attempts", "PasskeyDays": "passkey_days",
	"SecurityContact": "security_contact",
	"OutcomeLife":     "outcome_life_ms", "AttemptTime": "attempt_time_ms", "Lease": "lease_ms",
	"Limits.PublicPerIP": "public_per_ip", "Limits.PublicPerKey": "public_per_key",
	"Limits.PublicPerNetwork": "public_per_network", "Limits.StartsPerPublisher": "starts_per_publisher",
	"Limits.SecretPerIP": "secret_per_ip", "Limits.ReconcilePerKey": "reconcile_per_key",
	"Limits.PreflightsPerIP": "preflights_per_ip", "Limits.PagesPerIP": "pages_per_ip",
	"Limits.BoxesPerIP": "boxes_per_ip", "Limits.BoxesPerHandle": "boxes_per_handle",
	"Limits.FailedOperatorsPerIP": "failed_operators_per_ip",
	"Schedule.Delays":             "retries_ms", "Schedule.JitterPercent": "jitter_percent",
}

// Explain puts the ABI's names into an error that core.New returned, since
// whoever configures a guest knows no others.
func Explain(err error) error {
	var wrong problem.List
	if errors.As(err, &wrong) {
		return wrong.Rename(names)
	}
	return err
}

// Unpack returns the core's configuration.
func Unpack(a abi.Config) core.Config {
	c := core.Config{
		BaseURL:       a.BaseURL,
		Dev:           a.Dev,
		Test:          a.Test,
		OperatorToken: a.OperatorToken,
		Console:       a.Console,
		Partitions:    a.Partitions,
		Attempts:      a.Attempts,
		PasskeyDays:   a.PasskeyDays,

		SecurityContact: a.SecurityContact,

		Methods:     unpackMethods(a.Methods),
		OutcomeLife: a.OutcomeLife.Duration(),
		AttemptTime: a.AttemptTime.Duration(),
		Lease:       a.Lease.Duration(),
		Limits: web.Limits{
			PublicPerIP:          perMinute(a.PublicPerIP),
			PublicPerKey:         perMinute(a.PublicPerKey),
			PublicPerNetwork:     perMinute(a.PublicPerNetwork),
			StartsPerPublisher:   perMinute(a.StartsPerPublisher),
			SecretPerIP:          perMinute(a.SecretPerIP),
			ReconcilePerKey:      perMinute(a.ReconcilePerKey),
			PreflightsPerIP:      perMinute(a.PreflightsPerIP),
			PagesPerIP:           perMinute(a.PagesPerIP),
			BoxesPerIP:           perMinute(a.BoxesPerIP),
			BoxesPerHandle:       perMinute(a.BoxesPerHandle),
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
	return c
}

// perMinute keeps zero, which the core replaces with the contract's value.
func perMinute(n int) ratelimit.Limit {
	if n == 0 {
		return ratelimit.Limit{}
	}
	return ratelimit.PerMinute(n)
}
