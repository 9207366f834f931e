package settings_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/settings"
)

// full sets every member except the kinds.
var full = core.Config{
	BaseURL: "https://verge.example", Test: true, Dev: true, OperatorToken: "op", Console: "operators",
	Partitions: 3, Attempts: 2, PasskeyDays: 90, SecurityContact: "mailto:security@example.com",
	OutcomeLife: time.Hour, AttemptTime: 1500 * time.Millisecond, Lease: 29 * time.Second,
	Limits: web.Limits{
		PublicPerIP:          ratelimit.PerMinute(1),
		PublicPerKey:         ratelimit.PerMinute(2),
		SecretPerIP:          ratelimit.PerMinute(3),
		ReconcilePerKey:      ratelimit.PerMinute(4),
		PreflightsPerIP:      ratelimit.PerMinute(5),
		PagesPerIP:           ratelimit.PerMinute(6),
		FailedOperatorsPerIP: ratelimit.PerMinute(7),
		BoxesPerIP:           ratelimit.PerMinute(8),
		BoxesPerHandle:       ratelimit.PerMinute(9),
	},
	Schedule: webhook.Schedule{Delays: []time.Duration{5 * time.Second}, JitterPercent: -1},
	Methods:  []method.Config{{Name: "bankid", Kind: "oidc"}},
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
		back := settings.Unpack(a)
		if !reflect.DeepEqual(back, c) {
			t.Errorf("%s: %+v\ncame back as %+v", name, c, back)
		}
	}
	// If the core gets a new member, it must be transferred as well.
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != (name == "Kinds") {
			t.Errorf("the test does not set %s", name)
		}
	}
}

func TestPackRefusesWhatTheABICannotExpress(t *testing.T) {
	for says, change := range map[string]func(*core.Config){
		"Lease: 1.0005s is not a whole number of milliseconds": func(c *core.Config) {
			c.Lease = time.Second + 500*time.Microsecond
		},
		"Limits.SecretPerIP: 5 per 1h0m0s; a guest counts per minute": func(c *core.Config) {
			c.Limits.SecretPerIP = ratelimit.Limit{Count: 5, Per: time.Hour}
		},
		"Schedule.Delays: 1ns is not a whole number": func(c *core.Config) {
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

// A problem in a guest's configuration is told by the ABI's name of the member.
func TestProblemsHaveTheNamesOfTheABI(t *testing.T) {
	fields := map[string]bool{}
	for f := range reflect.TypeFor[abi.Config]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = true
	}
	wrong := core.Config{Partitions: -1, OperatorToken: "short", Console: "x",
		Attempts: -1, OutcomeLife: 1, AttemptTime: -1, PasskeyDays: -1,
		Limits: web.Limits{PublicPerIP: none, PublicPerKey: none, SecretPerIP: none, ReconcilePerKey: none,
			PreflightsPerIP: none, PagesPerIP: none, FailedOperatorsPerIP: none,
			BoxesPerIP: none, BoxesPerHandle: none},
		Schedule: webhook.Schedule{Delays: []time.Duration{-1}, JitterPercent: 101}, Test: true}
	short := wrong
	short.AttemptTime, short.Lease = 0, 1
	for _, c := range []core.Config{wrong, short} {
		_, err := core.New(c, host.Host{})
		var told problem.List
		if !errors.As(settings.Explain(err), &told) || len(told) < 15 {
			t.Fatalf("told %v of %v", told, err)
		}
		for _, p := range told {
			if !fields[p.Member] {
				t.Errorf("%q is no member of the ABI's configuration", p.Member)
			}
		}
	}
	other := errors.New("the host does not seal")
	if settings.Explain(other) != other {
		t.Error("an error of another kind was changed")
	}
}

// none allows nothing.
var none = ratelimit.PerMinute(-1)
