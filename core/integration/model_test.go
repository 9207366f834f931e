package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

func TestValidatePublisher(t *testing.T) {
	for _, c := range []struct {
		name, id string
		ok       bool
	}{
		{"spec, publisher_id: prefix and letters", "pub_Abc-1_2", true},
		{"spec, publisher_id: one character", "pub_a", true},
		{"spec, publisher_id: 64 characters", "pub_" + strings.Repeat("a", 64), true},
		{"spec, publisher_id: 65 characters", "pub_" + strings.Repeat("a", 65), false},
		{"spec, publisher_id: nothing", "", false},
		{"spec, publisher_id: prefix alone", "pub_", false},
		{"spec, publisher_id: no prefix", "abc", false},
		{"spec, publisher_id: space", "pub_a b", false},
		{"spec, publisher_id: slash", "pub_a/b", false},
		{"spec, publisher_id: outside ASCII", "pub_ä", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := (Publisher{ID: c.id}).Validate(); (err == nil) != c.ok {
				t.Errorf("%q: %v", c.id, err)
			}
		})
	}
}

// testCatalog has the methods of the tests' service.
var testCatalog = testhost.Catalog(testhost.Kind("sandbox", nil, true), testhost.Kind("wallet", nil, false))

// judged is a change of a valid integration, and the expected error of Validate.
type judged struct {
	rule   string
	change func(*Integration)
	dev    bool
	want   string // in the error, "" for none
}

// judge runs Validate on each change.
func judge(t *testing.T, cases []judged) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			i := sample()
			c.change(&i)
			err := i.Validate(testCatalog, c.dev)
			if c.want == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestValidateIntegration(t *testing.T) {
	id := func(id string) func(*Integration) { return func(i *Integration) { i.ID = id } }
	level := func(level string) func(*Integration) { return func(i *Integration) { i.Level = level } }
	age := func(age int) func(*Integration) { return func(i *Integration) { i.ChallengeAge = age } }
	method := func(name string) func(*Integration) { return func(i *Integration) { i.Method = name } }
	judge(t, []judged{
		{"spec, Integration: the sample is accepted", func(*Integration) {}, false, ""},
		{"spec, Integration: L2 is a level", level("L2"), false, ""},
		{"spec, Integration: L3 is no level", level("L3"), false, "level"},
		{"spec, Integration: a level is needed", level(""), false, "level"},
		{"spec, Integration: the id is a UUID", id("x"), false, "UUID"},
		{"contract 25: the id is without the prefix that events give it", id("int_" + testUUID), false,
			"UUID"},
		{"spec, Integration: the UUID is in lower case", id(strings.ToUpper(testUUID)), false, "lower case"},
		{"spec, Integration: the challenge age may be 1", age(1), false, ""},
		{"spec, Integration: the challenge age may be 99", age(99), false, ""},
		{"spec, Integration: the challenge age is not 0", age(0), false, "challenge_age"},
		{"spec, Integration: the challenge age is not 100", age(100), false, "challenge_age"},
		{"spec, Integration: the challenge age is not negative", age(-1), false, "challenge_age"},
		{"spec, Integration: a method is needed", method(""), false, "method"},
		{"spec, Integration: the error for an unknown method names those that exist",
			method("palm"), false, "sandbox, wallet"},
		{"contract 8: a public key that pages use needs callback origins",
			func(i *Integration) { i.CallbackOrigins = nil }, false, "callback_origins"},
		{"contract 8: in dev it does not", func(i *Integration) { i.CallbackOrigins = nil }, true, ""},
		{"contract 8: secret keys alone need no callback origins", func(i *Integration) {
			i.CallbackOrigins, i.BrowserOrigins = nil, nil
		}, false, ""},
	})
}

func TestValidateTheWebhookOfAnIntegration(t *testing.T) {
	url := func(url string) func(*Integration) { return func(i *Integration) { i.Webhook.URL = url } }
	judge(t, []judged{
		{"contract 28: a webhook is over https", url("http://a.example"), false, "webhook url"},
		{"contract 28: in dev a webhook may be over http", url("http://127.0.0.1:1/x"), true, ""},
		{"contract 28: in dev no other scheme is allowed", url("ftp://a.example"), true, "webhook url"},
		{"contract 28: a webhook has no user name", url("https://u:p@a.example"), false, "webhook url"},
		{"contract 28: a webhook has no fragment", url("https://a.example/#x"), false, "webhook url"},
		{"contract 28: a webhook is absolute", url("/x"), false, "webhook url"},
		{"contract 28: a public address", url("https://8.8.8.8:8443/hook"), false, ""},
		{"contract 28: a public IPv6 address", url("https://[2606:4700::1111]/hook"), false, ""},
		{"contract 28: a private address", url("https://10.0.0.7/hook"), false, "host must be public"},
		{"contract 28: a private address, in dev", url("https://192.168.1.1:443/"), true, "must be public"},
		{"contract 28: a private IPv6 address", url("https://[fd00::1]/hook"), false, "must be public"},
		{"contract 28: a link-local address", url("https://169.254.169.254/"), false, "must be public"},
		{"contract 28: the address of Azure's host agent", url("https://168.63.129.16/"), false,
			"must be public"},
		{"contract 28: http to a public address, in dev", url("http://8.8.8.8/"), true, "must use https"},
		{"contract 28: http to a name, which may be loopback, in dev", url("http://shop.example/"), true, ""},
		{"contract 28: a reserved address", url("https://192.0.2.1/hook"), false, "must be public"},
		{"contract 28: loopback", url("https://127.0.0.1:8443/hook"), false, "must be public"},
		{"contract 28: loopback by IPv6", url("https://[::1]/hook"), false, "must be public"},
		{"contract 28: loopback by IPv6, in dev", url("http://[::1]/hook"), true, ""},
		{"contract 28: loopback by name", url("https://Shop.localhost/"), false, "must be public"},
		{"contract 28: loopback by name, in dev", url("https://localhost/"), true, ""},
		{"contract 28: a staged webhook",
			func(i *Integration) { i.Staged = &Webhook{URL: "https://10.0.0.7/"} }, false, "must be public"},
		{"contract 28: a webhook has at most 2048 bytes",
			url("https://a.example/" + strings.Repeat("x", 2048)), false, "webhook url"},
		{"contract 5, 409: webhooks may be off",
			func(i *Integration) { i.Webhook = Webhook{Off: true} }, false, ""},
		{"contract 5, 409: a webhook may be set later", func(i *Integration) { i.Webhook = Webhook{} }, false,
			""},
		{"contract 5, 409: webhooks that are off have no URL",
			func(i *Integration) { i.Webhook.Off = true }, false, "choose one"},
	})
}

func TestValidateTheOriginsOfAnIntegration(t *testing.T) {
	for _, c := range []struct {
		origin  string
		ok, dev bool // dev: allowed in dev alone
	}{
		{"https://a.example", true, false},
		{"https://a.example:8443", true, false},
		{"http://a.example", false, true},
		{"http://localhost:8080", false, true},
		{"https://a.example/", false, false},
		{"https://a.example/x", false, false},
		{"https://a.example?x", false, false},
		{"https://a.example#x", false, false},
		{"https://u@a.example", false, false},
		{"https://A.example", true, false},
		{"https://*.example", false, false},
		{"https://größe.example", false, false},
		{"a.example", false, false},
		{"https://", false, false},
		{"null", false, false},
		{"*", false, false},
		{"", false, false},
	} {
		for _, dev := range []bool{false, true} {
			for n, list := range []string{"callback_origins", "browser_origins"} {
				t.Run(fmt.Sprintf("contract 7, 8: %s %q, dev %v", list, c.origin, dev), func(t *testing.T) {
					i := sample()
					*[]*[]string{&i.CallbackOrigins, &i.BrowserOrigins}[n] = []string{c.origin}
					err := i.Validate(testCatalog, dev)
					if want := c.ok || dev && c.dev; (err == nil) != want {
						t.Errorf("error %v", err)
					}
					if err != nil && !strings.Contains(err.Error(), list) {
						t.Errorf("error %v does not name %s", err, list)
					}
				})
			}
		}
	}
}

func TestValidateNamesEveryProblemOfAnIntegration(t *testing.T) {
	everything := Integration{
		ID:              "x",
		Level:           "L9",
		ChallengeAge:    500,
		Method:          "palm",
		Webhook:         Webhook{URL: "x"},
		CallbackOrigins: []string{"x"},
	}
	err := everything.Validate(testCatalog, false)
	if err == nil || strings.Count(err.Error(), "\n")+1 != 6 {
		t.Errorf("want all six problems, got: %v", err)
	}
}

func TestValidateMethodsOfAnIntegration(t *testing.T) {
	wallet := testhost.Kind("wallet", nil, false)
	wallet.Narrow = func(_ method.Config, settings json.RawMessage) (wrong problem.List) {
		if string(settings) != `{}` {
			wrong.Add("scope", "only the method may set it")
		}
		return wrong
	}
	wallet.Oldest = func(method.Config) int { return 18 }
	camera := testhost.Kind("camera", nil, false)
	camera.Level, camera.Estimates = "L1", true
	catalog := testhost.Catalog(testhost.Kind("sandbox", nil, true), wallet, camera)
	several := func(names ...string) func(*Integration) {
		return func(i *Integration) { i.Method, i.Methods = names[0], names }
	}
	for _, c := range []struct {
		rule   string
		change func(*Integration)
		want   string // in the error, "" for none
	}{
		{"several methods", several("camera", "wallet"), ""},
		{"a method twice", several("wallet", "wallet"), "twice"},
		{"a method that is not there", several("wallet", "palm"), `"palm"`},
		{"a method below the level", func(i *Integration) {
			several("wallet", "camera")(i)
			i.Level = "L2"
		}, `"camera", which proves L1; the integration needs L2`},
		{"an age that the method does not prove", func(i *Integration) {
			i.Method, i.MinimumAge = "wallet", 21
		}, "proves no age above 18"},
		{"the default age is the smaller of 18 and the challenge age", func(i *Integration) {
			i.Method, i.ChallengeAge = "wallet", 25
		}, ""},
		{"an estimate below the age that must be proven", func(i *Integration) {
			i.Method, i.ChallengeAge, i.MinimumAge = "camera", 18, 21
		}, "too young"},
		{"a negative minimum age", func(i *Integration) { i.MinimumAge = -1 }, "minimum_age"},
		{"a minimum age of a hundred", func(i *Integration) { i.MinimumAge = 100 }, "minimum_age"},
		{"ten attempts", func(i *Integration) { i.Attempts = 10 }, ""},
		{"eleven attempts", func(i *Integration) { i.Attempts = 11 }, "attempts"},
		{"a negative number of attempts", func(i *Integration) { i.Attempts = -1 }, "attempts"},
		{"settings for a method that it has not", func(i *Integration) {
			i.MethodSettings = map[string]json.RawMessage{"camera": json.RawMessage(`{}`)}
		}, "none of its methods"},
		{"settings for a method that has none", func(i *Integration) {
			i.MethodSettings = map[string]json.RawMessage{"sandbox": json.RawMessage(`{}`)}
		}, "nothing to set"},
		{"settings that are not stricter", func(i *Integration) {
			several("wallet")(i)
			i.MethodSettings = map[string]json.RawMessage{"wallet": json.RawMessage(`{"scope":"x"}`)}
		}, "method_settings.wallet.scope: only the method may set it"},
	} {
		t.Run("contract 32: "+c.rule, func(t *testing.T) {
			i := sample()
			c.change(&i)
			err := i.Validate(catalog, false)
			if c.want == "" && err != nil || c.want != "" &&
				(err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
