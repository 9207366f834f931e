package core

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
)

func TestZeroConfigIsTheContract(t *testing.T) {
	coretest.Must(t, good().Validate().Err())
	c := good().withDefaults()
	want := good()
	want.Partitions, want.Attempts, want.OutcomeLife = 1, 3, 30*24*time.Hour
	want.PasskeyDays, want.ServiceName = 365, "Verge"
	want.AttemptTime, want.Lease, want.Console = 13*time.Second, 27*time.Second, ConsolePublic
	want.Limits = web.Limits{PublicPerIP: ratelimit.PerMinute(60), PublicPerKey: ratelimit.PerMinute(600),
		PublicPerNetwork: ratelimit.PerMinute(240), StartsPerPublisher: ratelimit.PerMinute(10_000),
		SecretPerIP: ratelimit.PerMinute(600), ReconcilePerKey: ratelimit.PerMinute(120),
		PreflightsPerIP: ratelimit.PerMinute(600), PagesPerIP: ratelimit.PerMinute(600),
		PendingPerIP: ratelimit.PerMinute(600), PendingPerHandle: ratelimit.PerMinute(20),
		FailedOperatorsPerIP: ratelimit.PerMinute(20)}
	c.Kinds, want.Kinds = nil, nil // functions cannot be compared
	if !reflect.DeepEqual(c, want) {
		t.Errorf("spec, Limits; contract 21, 23, 26:\n%+v, want\n%+v", c, want)
	}
	if n := len(c.Schedule.Waits()) + 1; n != 10 {
		t.Errorf("contract 26: an event has %d attempts, want 10", n)
	}
}

var aSandbox = method.Config{Name: sandbox.Name, Kind: sandbox.Name}

// base sets the address of a service, and whether it is in dev mode.
func base(url string, dev bool) func(*Config) {
	return func(c *Config) { c.BaseURL, c.Dev = url, dev }
}

// configs are changes of a good configuration.
var configs = []struct {
	name   string
	change func(*Config)
	want   string // the rejected field, and a part of the reason; "" for none
}{
	{"with a port", base("https://verify.verge.example:8443", false), ""},
	{"an address", base("https://[2001:db8::1]:8443", false), ""},
	{"http in dev", base("http://127.0.0.1:8080", true), ""},
	{"http in production", base("http://verify.verge.example", false), "BaseURL: "},
	{"another scheme in dev", base("ftp://verify.verge.example", true), "BaseURL: "},
	{"none", base("", false), "BaseURL: not set"},
	{"no scheme", base("verify.verge.example", false), "BaseURL: "},
	{"no host", base("https://", false), "BaseURL: "},
	{"a port alone", base("https://:8443", false), "BaseURL: "},
	{"a colon without port", base("https://verify.verge.example:", false), "BaseURL: "},
	{"the default port", base("https://verify.verge.example:443", false), "BaseURL: "},
	{"http's default port in dev", base("http://localhost:80", true), "BaseURL: "},
	{"upper case", base("https://Verify.verge.example", false), "BaseURL: "},
	{"a slash", base("https://verify.verge.example/", false), "BaseURL: "},
	{"a path", base("https://verify.verge.example/x", false), "BaseURL: "},
	{"a query", base("https://verify.verge.example?x", false), "BaseURL: "},
	{"a user name", base("https://u@verify.verge.example", false), "BaseURL: "},
	{"a wildcard", base("https://*.verge.example", false), "BaseURL: "},
	{"a dot at the end", base("https://verify.verge.example.", false), "BaseURL: "},
	{"port 0", base("https://verify.verge.example:0", false), "BaseURL: "},
	{"a name in Unicode", base("https://größe.example", false), "write it as https://xn--gre-6ka8i.example"},
	{"a zero-width space", base("https://verify\u200b.verge.example", false), "BaseURL: "},
	{"a space", base("https://verify verge.example", false), "BaseURL: "},
	{"contract 31: no method in production", func(c *Config) { c.Methods = nil },
		"Methods: no verification method"},
	{"contract 31: no method in test is the sandbox", func(c *Config) { c.Methods, c.Test = nil, true },
		""},
	{"contract 31: a kind that does not exist", func(c *Config) { c.Methods[0].Kind = "retina" },
		`methods.real.kind: "retina" is not known; this release has: `},
	{"contract 31: two methods of one name",
		func(c *Config) { c.Methods = append(c.Methods, c.Methods[0]) },
		"methods.real: it occurs twice"},
	{"contract 31: a method without a name", func(c *Config) { c.Methods[0].Name = "Bank ID" },
		"methods: "},
	{"contract 31: a level that does not exist", func(c *Config) { c.Methods[0].Level = "L3" },
		"methods.real.level: "},
	{"contract 31: the sandbox in production",
		func(c *Config) { c.Methods = append(c.Methods, aSandbox) },
		"methods.sandbox: sandbox verifies no user"},
	{"contract 31: nothing but the sandbox in production",
		func(c *Config) { c.Methods = []method.Config{aSandbox} },
		"methods.sandbox: sandbox verifies no user"},
	{"contract 31: the sandbox in test",
		func(c *Config) { c.Test, c.Methods = true, append(c.Methods, aSandbox) }, ""},
	{"contract 31: the sandbox in dev",
		func(c *Config) { c.Dev, c.Methods = true, append(c.Methods, aSandbox) }, ""},
	{"contract 31: kinds without the sandbox in dev",
		func(c *Config) { c.Dev, c.Kinds = true, []method.Kind{real} }, ""},
	{"contract 31: a kind without Open",
		func(c *Config) { c.Kinds = append(c.Kinds, method.Kind{Name: "club", Level: "L1"}) },
		`Kinds: "club"`},
	{"contract 31: a kind without a level",
		func(c *Config) { c.Kinds = append(c.Kinds, method.Kind{Name: "club", Open: real.Open}) },
		`Kinds: "club" needs Open, and L1 or L2 as its Level`},
	{"test allows no http",
		func(c *Config) { c.Test = true; c.BaseURL = "http://127.0.0.1:8080" }, "BaseURL: "},
	{"contract 42: an operator token that can be guessed",
		func(c *Config) { c.OperatorToken = strings.Repeat("x", 23) },
		"OperatorToken: the operator token has 23 characters; it must have at least 24"},
	{"contract 42: a token that is long enough",
		func(c *Config) { c.OperatorToken = strings.Repeat("x", 24) }, ""},
	{"contract 42: no token: all are rejected", func(c *Config) { c.OperatorToken = "" }, ""},
	{"negative partitions", func(c *Config) { c.Partitions = -1 }, "Partitions: "},
	{"as many partitions as an id can name", func(c *Config) { c.Partitions = 65535 }, ""},
	{"more partitions", func(c *Config) { c.Partitions = 65536 }, "Partitions: "},
	{"negative attempts", func(c *Config) { c.Attempts = -1 }, "Attempts: -1 "},
	{"a negative outcome life", func(c *Config) { c.OutcomeLife = -1 }, "OutcomeLife: "},
	{"outcomes kept for less than an hour",
		func(c *Config) { c.OutcomeLife = time.Hour - 1 }, "OutcomeLife: "},
	{"outcomes kept for an hour", func(c *Config) { c.OutcomeLife = time.Hour }, ""},
	{"a jitter of more than all",
		func(c *Config) { c.Schedule.JitterPercent = 101 }, "Schedule.JitterPercent: 101 "},
	{"no jitter", func(c *Config) { c.Schedule.JitterPercent = -1 }, ""},
	{"a retry before the attempt",
		func(c *Config) { c.Schedule.Delays = []time.Duration{-1} }, "Schedule.Delays: "},
	{"a negative attempt time", func(c *Config) { c.AttemptTime = -1 }, "AttemptTime: "},
	{"a lease of twice the attempt time", func(c *Config) { c.Lease = 26 * time.Second }, "Lease: "},
	{"a lease of a little more", func(c *Config) { c.Lease = 26*time.Second + 1 }, ""},
	{"a long attempt time for the standard lease",
		func(c *Config) { c.AttemptTime = 30 * time.Second }, "Lease: "},
	{"one limit alone", func(c *Config) { c.Limits.PublicPerIP = ratelimit.PerMinute(1) }, ""},
	{"a limit of nothing",
		func(c *Config) { c.Limits.SecretPerIP = ratelimit.Limit{Per: time.Minute} },
		"Limits.SecretPerIP: 0 "},
	{"a negative limit",
		func(c *Config) { c.Limits.ReconcilePerKey = ratelimit.PerMinute(-1) },
		"Limits.ReconcilePerKey: -1 "},
	{"a negative limit of pages",
		func(c *Config) { c.Limits.PagesPerIP = ratelimit.PerMinute(-1) }, "Limits.PagesPerIP: -1 "},
	{"a limit in no time",
		func(c *Config) { c.Limits.PublicPerKey = ratelimit.Limit{Count: 5} }, "Limits.PublicPerKey: 5 "},
}

func TestConfig(t *testing.T) {
	for _, c := range configs {
		t.Run("Config: "+c.name, func(t *testing.T) {
			cfg := good()
			c.change(&cfg)
			wrong := cfg.Validate()
			if c.want != "" {
				if len(wrong) != 1 || !strings.Contains(wrong.Error(), c.want) {
					t.Errorf("%v, want one problem that says %q", wrong.Err(), c.want)
				}
				return
			}
			if wrong != nil {
				t.Fatalf("refused: %v", wrong)
			}
			if l := cfg.withDefaults().Limits; l.SecretPerIP != ratelimit.PerMinute(600) {
				t.Errorf("the limits that were left out became %+v", l)
			}
		})
	}
}

func TestNewRejectsABadConfig(t *testing.T) {
	if s, err := New(Config{}, host.Host{}); err == nil || s != nil {
		t.Errorf("%v, %v", s, err)
	}
}

// Validate reports all problems together, each with its field.
func TestConfigSaysAllThatIsWrong(t *testing.T) {
	c := Config{BaseURL: "http://verify.verge.example", OperatorToken: "short", Partitions: -1, Attempts: -1,
		OutcomeLife: time.Second, Lease: time.Second}
	c.Limits.PagesPerIP, c.Schedule.JitterPercent = ratelimit.PerMinute(-1), 400
	want := []string{"BaseURL", "Methods", "OperatorToken", "Partitions", "Attempts", "OutcomeLife",
		"Limits.PagesPerIP", "Schedule.JitterPercent", "Lease"}
	var got []string
	for _, p := range c.Validate() {
		got = append(got, p.Member)
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems with %q, want %q", got, want)
	}
	if _, err := New(c, host.Host{}); err == nil || strings.Count(err.Error(), "\n")+1 != len(want) {
		t.Errorf("New says %v, want a line for each problem", err)
	}
}

// A Fetcher that waits longer needs a longer lease, and a Config that has one is good.
func TestFetchesWithin(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, 10 * time.Second, 2 * time.Minute} {
		c := good()
		c.FetchesWithin(timeout)
		if wrong := c.Validate(); wrong != nil || c.AttemptTime <= timeout {
			t.Errorf("%s: %+v: %v", timeout, c, wrong)
		}
	}
	c, standard := good(), good().withDefaults()
	c.FetchesWithin(10 * time.Second)
	if c.AttemptTime != standard.AttemptTime || c.Lease != standard.Lease {
		t.Errorf("contract 26: for 10 s they are %s and %s, want the standard %s and %s",
			c.AttemptTime, c.Lease, standard.AttemptTime, standard.Lease)
	}
}
