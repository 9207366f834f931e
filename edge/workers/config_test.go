package workers_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/edge/workers"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/settings"
)

var comment = regexp.MustCompile(`(?m)^\s*//.*$`)

// The configuration that operators begin with is one that Verge accepts.
func TestWranglerConfig(t *testing.T) {
	b, err := os.ReadFile("wrangler.jsonc")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Main  string
		Date  string   `json:"compatibility_date"`
		Flags []string `json:"compatibility_flags"`
		Vars  map[string]json.RawMessage
		Bound struct {
			Bindings []struct{ Name, Class_name string }
		} `json:"durable_objects"`
		Moves []struct{ New_sqlite_classes []string } `json:"migrations"`
		Rules []struct {
			Type        string
			Fallthrough *bool
		}
		Limits struct{ CPU_ms int }
		Logs   struct {
			Logs struct {
				Invocation_logs *bool
			}
		} `json:"observability"`
	}
	if err := json.Unmarshal(comment.ReplaceAll(b, nil), &c); err != nil {
		t.Fatal(err)
	}
	if _, err := workers.Source.ReadFile(c.Main); err != nil {
		t.Error(err)
	}
	if c.Date != workerd.Compatibility {
		t.Errorf("the date is %s, and the tests' %s", c.Date, workerd.Compatibility)
	}
	if !slices.Equal(c.Flags, []string{workerd.Flag}) {
		t.Errorf("the flags are %q, and the tests' %s", c.Flags, workerd.Flag)
	}
	// Each class has its binding and its migration, in the order in which they were
	// deployed. An earlier migration is never changed.
	classes := []string{"Partition", "Limits"}
	if len(c.Bound.Bindings) != len(classes) || len(c.Moves) != len(classes) {
		t.Fatalf("%+v %+v, want one of each for %v", c.Bound.Bindings, c.Moves, classes)
	}
	for i, class := range classes {
		b, added := c.Bound.Bindings[i], c.Moves[i].New_sqlite_classes
		if b.Name != strings.ToUpper(class) || b.Class_name != class ||
			!slices.Equal(added, []string{class}) {
			t.Errorf("%+v %+v, want those of %s", b, c.Moves[i], class)
		}
	}
	if on := c.Logs.Logs.Invocation_logs; on == nil || *on {
		t.Error("contract 13: the platform logs URLs, and with them tokens")
	}
	for _, r := range c.Rules {
		if r.Fallthrough == nil { // wrangler warns of it at each deployment
			t.Errorf("the rule of %s does not state whether wrangler's own rules follow", r.Type)
		}
	}
	if c.Limits.CPU_ms < 10_000 {
		t.Errorf("an alarm that runs 200 jobs has %d ms for them", c.Limits.CPU_ms)
	}
	config, err := settings.Read(c.Vars["VERGE_CONFIG"])
	if err != nil {
		t.Fatal(err)
	}
	methods, wrong := config.Catalog()
	if wrong != nil || len(methods) == 0 || config.Dev {
		t.Errorf("contract 41: the methods of the configuration: %+v, %v", config, wrong)
	}
	named := regexp.MustCompile(`"secret_env": "[A-Z_]+"`)
	withSecret := named.ReplaceAll(c.Vars["VERGE_SITE"], []byte(`"secret": "9f4c1be07d2a8653"`))
	site, err := integration.ReadSite(withSecret)
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Validate(methods, false); err != nil || len(site.Integrations) == 0 {
		t.Errorf("%+v, %v", site, err)
	}
}
