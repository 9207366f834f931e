package settings_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/setting"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/wasm/settings"
)

// full has a value in every setting. A setting of a new type needs a case.
var full = func() core.Config {
	c := core.Config{Methods: []method.Config{{
		Name: "bankid", Kind: "oidc", Level: "L2", Title: "Bank ID",
		Titles:   map[string]string{"de": "Bankausweis"},
		Settings: json.RawMessage(`{"issuer":"https://id.example"}`),
		Secrets:  map[string]string{"client_secret": "hush"},
		Keys:     []string{"client", "client-next"},
	}, {Name: "sandbox", Kind: "sandbox"}}}
	for n, s := range setting.Of(&c) {
		switch v := s.Value.(type) {
		case *string:
			*v = s.Name
		case *[]string:
			*v = []string{s.Name}
		case *bool:
			*v = true
		case *int:
			*v = n + 1
		case *time.Duration:
			*v = time.Duration(n+1) * time.Millisecond
		case *[]time.Duration:
			*v = []time.Duration{5 * time.Second}
		case *ratelimit.Limit:
			*v = ratelimit.PerMinute(n + 1)
		}
	}
	return c
}()

func TestConfig_RoundTrip(t *testing.T) {
	for name, c := range map[string]core.Config{
		"everything": full,
		"nothing":    {BaseURL: "x"},
		"no retries": {Schedule: webhook.Schedule{Delays: []time.Duration{}}},
	} {
		text, err := json.Marshal(settings.Config{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		if back, err := settings.Read(text); err != nil || !reflect.DeepEqual(back.Config, c) {
			t.Errorf("%s: %+v\ncame back as %+v, %v", name, c, back, err)
		}
	}
	// A new field of the core or of a method must be encoded as well.
	allSet(t, full, "Kinds")
	allSet(t, full.Limits)
	allSet(t, full.Methods[0], "Dev")
}

// allSet checks that v sets every field except those that are not encoded.
func allSet(t *testing.T, of any, except ...string) {
	t.Helper()
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != slices.Contains(except, name) {
			t.Errorf("%T: the test does not set %s, or sets a field that is not encoded", of, name)
		}
	}
}

func TestConfig_InexpressibleValue(t *testing.T) {
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
		var wrong problem.List
		_, err := json.Marshal(settings.Config{Config: c})
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

// A problem in a guest's configuration has the ABI's name of the field.
func TestExplain_FieldNames(t *testing.T) {
	fields := map[string]bool{}
	for _, s := range setting.Of(new(settings.Config)) {
		fields[s.Name] = true
	}
	wrong := core.Config{Partitions: -1, OperatorToken: "short", Console: "x",
		Attempts: -1, OutcomeLife: 1, AttemptTime: -1, PasskeyDays: -1,
		Limits: web.Limits{PublicPerIP: none, PublicPerKey: none, SecretPerIP: none, ReconcilePerKey: none,
			PreflightsPerIP: none, PagesPerIP: none, FailedOperatorsPerIP: none,
			PendingPerIP: none, PendingPerHandle: none},
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
				t.Errorf("%q is not a field of the ABI's configuration", p.Member)
			}
		}
	}
	other := errors.New("the host does not seal")
	if settings.Explain(other) != other {
		t.Error("an error of another kind was changed")
	}
}

// none is a limit that allows nothing.
var none = ratelimit.PerMinute(-1)
