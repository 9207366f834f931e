package settings

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

func TestConfig(t *testing.T) {
	want := Config{LogLevel: -4, Keyring: json.RawMessage(`{"version":1}`), Host: "verge.example"}
	want.Config = core.Config{
		BaseURL:       "https://verge.example",
		Test:          true,
		OperatorToken: "op",
		Console:       "off",
		Partitions:    4,
		Attempts:      2,
		OutcomeLife:   time.Hour,
		Lease:         29 * time.Second,
		AttemptTime:   14 * time.Second,
		Limits:        web.Limits{SecretPerIP: ratelimit.PerMinute(5)},
		Schedule:      webhook.Schedule{Delays: []time.Duration{5 * time.Second}, JitterPercent: -1},
		Methods: []method.Config{
			{Name: "sandbox", Kind: "sandbox", Title: "Test"},
			{
				Name:     "bankid",
				Kind:     "oidc",
				Level:    "L2",
				Title:    "Bank ID",
				Titles:   map[string]string{"de": "Bankausweis"},
				Settings: json.RawMessage(`{"issuer":"https://id.example","scope":["openid"]}`),
				Secrets:  map[string]string{"client_secret": "hush"},
				Keys:     []string{"client"},
			},
		},
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	form := `{"base_url":"https://verge.example","test":true,"operator_token":"op","console":"off","partitions":4,` +
		`"attempts":2,"outcome_life_ms":3600000,"attempt_time_ms":14000,"lease_ms":29000,"secret_per_ip":5,` +
		`"retries_ms":[5000],"jitter_percent":-1,"methods":[{"name":"sandbox","kind":"sandbox","title":"Test"},` +
		`{"name":"bankid","kind":"oidc","level":"L2",` +
		`"settings":{"issuer":"https://id.example","scope":["openid"]},"secrets":{"client_secret":"hush"},` +
		`"keys":["client"],"title":{"":"Bank ID","de":"Bankausweis"}}],` +
		`"log_level":-4,"keyring":{"version":1},"host":"verge.example"}`
	if string(b) != form {
		t.Errorf("%s\nwant %s", b, form)
	}
	if got, err := Read(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %+v\nwant %+v", err, got, want)
	}
	if got, err := Read([]byte(`{"base_url":"x","retries_ms":[]}`)); err != nil || got.Schedule.Delays == nil {
		t.Errorf("an empty list of retries: %+v, %v, want it empty and not the contract's", got, err)
	}
	_, err = Read([]byte(`{"base_url":"x","attempts":null,"log_level":0,"retries_ms":[0]}`))
	if err != nil {
		t.Errorf("no number is a 0 that means the default, but the error is %v", err)
	}
	zeros := `{"partitions":0,"outcome_life_ms":0,"attempt_time_ms":0,"lease_ms":-0,"PUBLIC_PER_IP":0,
		"public_per_key":0,"secret_per_ip":0,"reconcile_per_key":0,"jitter_percent":0}`
	for in, says := range map[string]string{
		`{"attempts":0}`: "configuration's attempts must not be 0: give more, or leave it out for the default",
		zeros: "partitions, outcome_life_ms, attempt_time_ms, lease_ms, public_per_ip, " +
			"public_per_key, secret_per_ip, reconcile_per_key, jitter_percent must not be 0",
		`{"methods":[{"name":"a","kinds":"b"}]}`:          "kinds",
		`{"methods":[{"name":7}]}`:                        "methods.name must not be a number",
		`{"methods":[{"secrets":{"a":{"canary7":"x"}}}]}`: "methods.secrets must not be a object",
		`{"base_urls":"x"}`:                               "base_urls",
		`{"operator_token":"canary7"`:                     "cannot be read",
		`{"operator_token":"canary7",}`:                   "no JSON at byte 29",
		`{"lease_ms":9223372036854775807}`:                "it has more milliseconds than a duration can have",
		`{"retries_ms":[1,"canary7"]}`:                    "retries_ms must not be a string",
		`{"partitions":"canary7"}`:                        "partitions must not be a string",
		`{"base_url":"x"}{"canary7":"x"}`:                 "something follows",
	} {
		_, err := Read([]byte(in))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "canary7") {
			t.Errorf("%s: %v, want %s", in, err, says)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"base_url":"https://verge.example","retries_ms":[1,2],"keyring":{}}`))
	f.Add([]byte(`{"methods":[{"name":"a","kind":"b","settings":{"c":1},"secrets":{"d":"e"},"keys":["f"]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Read(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Read(again); err != nil {
			t.Errorf("%s is accepted, but written again as %s it is rejected: %v (%+v)", b, again, err, d)
		}
	})
}
