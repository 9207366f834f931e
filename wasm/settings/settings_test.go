package settings_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/wasm/settings"
)

// full sets every member except the providers.
var full = core.Config{
	BaseURL: "https://verge.example", Test: true, Dev: true, OperatorToken: "op", Partitions: 3, Attempts: 2,
	OutcomeLife: time.Hour, AttemptTime: 1500 * time.Millisecond, Lease: 29 * time.Second,
	Limits: api.Limits{
		PublicPerIP:          ratelimit.PerMinute(1),
		PublicPerKey:         ratelimit.PerMinute(2),
		SecretPerIP:          ratelimit.PerMinute(3),
		ReconcilePerKey:      ratelimit.PerMinute(4),
		PreflightsPerIP:      ratelimit.PerMinute(5),
		PagesPerIP:           ratelimit.PerMinute(6),
		FailedOperatorsPerIP: ratelimit.PerMinute(7),
	},
	Schedule: webhook.Schedule{Delays: []time.Duration{5 * time.Second}, JitterPercent: -1},
}

func TestUnpackReturnsWhatWasPacked(t *testing.T) {
	for name, c := range map[string]core.Config{
		"everything": full,
		"nothing":    {BaseURL: "x"},
		"no retries": {Schedule: webhook.Schedule{Delays: []time.Duration{}}},
	} {
		a, err := settings.Pack(c)
		if err != nil {
			t.Fatal(err)
		}
		back := settings.Unpack(a, time.Now)
		if (len(back.Providers) > 0) != (c.Dev || c.Test) {
			t.Errorf("%s: providers %v", name, back.Providers)
		}
		back.Providers = nil
		if !reflect.DeepEqual(back, c) {
			t.Errorf("%s: %+v\ncame back as %+v", name, c, back)
		}
	}
	// If the core gets a new member, it must be transferred as well.
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != (name == "Providers") {
			t.Errorf("the test does not set %s", name)
		}
	}
}

func TestPackRefusesWhatTheABICannotExpress(t *testing.T) {
	for says, change := range map[string]func(*core.Config){
		"lease of 1.0005s": func(c *core.Config) {
			c.Lease = time.Second + 500*time.Microsecond
		},
		"limit secret per IP of 5 per 1h0m0s": func(c *core.Config) {
			c.Limits.SecretPerIP = ratelimit.Limit{Count: 5, Per: time.Hour}
		},
		"retry of 1ns: a guest counts in milliseconds": func(c *core.Config) {
			c.Schedule.Delays = []time.Duration{1}
		},
	} {
		c := full
		change(&c)
		if _, err := settings.Pack(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
