package kinds

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/method"
)

// Contract 32: each setting that a kind declares is one that an integration can set, and no others are.
func TestOverrides(t *testing.T) {
	configs := map[string]method.Config{
		"oidc": {Settings: json.RawMessage(`{"issuer":"https://id.example","client_id":"verge",` +
			`"acr_values":["high","low"],"proof":{"claim":["over18"],"equals":true,"age":18}}`),
			Secrets: map[string]string{"client_secret": "secret"}},
		"estimator": {Settings: json.RawMessage(`{"profile":"plain","url":"https://faces.example/",` +
			`"deviation":4}`), Secrets: map[string]string{"token": "secret"}},
	}
	values := map[string]string{"acr_values": `["low"]`, "deviation": "3", "floor": "12"}
	for _, k := range All {
		if (k.Narrow == nil) != (k.Overrides == nil) {
			t.Errorf("%s has one of Overrides and Narrow", k.Name)
		}
		if k.Overrides == nil {
			continue
		}
		c := configs[k.Name]
		if wrong := k.Check(c); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		declared := k.Overrides(c)
		if len(declared) == 0 {
			t.Errorf("%s declares no setting", k.Name)
		}
		for name, value := range values {
			is := false
			for _, o := range declared {
				is = is || o.Name == name
				if o.Label == "" || o.Hint == "" || o.Values == nil && o.Default == "" {
					t.Errorf("%s: %+v has no text for people", k.Name, o)
				}
			}
			wrong := k.Narrow(c, json.RawMessage(`{"`+name+`":`+value+`}`)).Err()
			if is != (wrong == nil) {
				t.Errorf("%s declares %s: %t, and Narrow returns %v", k.Name, name, is, wrong)
			}
		}
		if got := declared[0]; k.Name == "oidc" && strings.Join(got.Values, " ") != "high low" {
			t.Errorf("the choices are %q, want those of the method", got.Values)
		}
	}
}
