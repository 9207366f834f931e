package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/testhost"
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

func TestValidateIntegration(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Integration)
		dev    bool
		want   string // in the error, "" for none
	}{
		{"spec, Integration: as it should be", func(*Integration) {}, false, ""},
		{"spec, Integration: L2", func(i *Integration) { i.Level = "L2" }, false, ""},
		{"spec, Integration: no UUID", func(i *Integration) { i.ID = "x" }, false, "UUID"},
		{
			"contract 25: with the prefix of events",
			func(i *Integration) { i.ID = "int_" + testUUID },
			false,
			"UUID",
		},
		{"spec, Integration: UUID in upper case", func(i *Integration) {
			i.ID = strings.ToUpper(testUUID)
		}, false, "lower case"},
		{"spec, Integration: level L3", func(i *Integration) { i.Level = "L3" }, false, "level"},
		{"spec, Integration: no level", func(i *Integration) { i.Level = "" }, false, "level"},
		{"spec, Integration: age 0", func(i *Integration) { i.ChallengeAge = 0 }, false, "challenge_age"},
		{"spec, Integration: age 1", func(i *Integration) { i.ChallengeAge = 1 }, false, ""},
		{"spec, Integration: age 99", func(i *Integration) { i.ChallengeAge = 99 }, false, ""},
		{"spec, Integration: age 100", func(i *Integration) { i.ChallengeAge = 100 }, false, "challenge_age"},
		{"spec, Integration: a negative age", func(i *Integration) { i.ChallengeAge = -1 }, false, "challenge_age"},
		{"spec, Integration: no method", func(i *Integration) { i.Method = "" }, false, "method"},
		{
			"spec, Integration: a method that is not there",
			func(i *Integration) { i.Method = "palm" },
			false,
			"sandbox, wallet",
		},
		{"contract 28: webhook over http", func(i *Integration) {
			i.Webhook.URL = "http://a.example"
		}, false, "webhook url"},
		{"contract 28: webhook over http in dev", func(i *Integration) {
			i.Webhook.URL = "http://127.0.0.1:1/x"
		}, true, ""},
		{"contract 28: webhook with another scheme in dev", func(i *Integration) {
			i.Webhook.URL = "ftp://a.example"
		}, true, "webhook url"},
		{"contract 28: webhook with a user name", func(i *Integration) {
			i.Webhook.URL = "https://u:p@a.example"
		}, false, "webhook url"},
		{"contract 28: webhook with a fragment", func(i *Integration) {
			i.Webhook.URL = "https://a.example/#x"
		}, false, "webhook url"},
		{"contract 28: a relative webhook", func(i *Integration) { i.Webhook.URL = "/x" }, false, "webhook url"},
		{"contract 28: a webhook of more than 2048 bytes", func(i *Integration) {
			i.Webhook.URL = "https://a.example/" + strings.Repeat("x", 2048)
		}, false, "webhook url"},
		{
			"contract 8: pages may use a public key, and its callbacks are not limited",
			func(i *Integration) { i.CallbackOrigins = nil },
			false,
			"callback_origins",
		},
		{"contract 8: the same in dev", func(i *Integration) { i.CallbackOrigins = nil }, true, ""},
		{"contract 8: no page, and callbacks not limited: for secret keys", func(i *Integration) {
			i.CallbackOrigins, i.BrowserOrigins = nil, nil
		}, false, ""},
		{"contract 5, 409: webhook off", func(i *Integration) { i.Webhook = Webhook{Off: true} }, false, ""},
		{"contract 5, 409: no webhook yet", func(i *Integration) { i.Webhook = Webhook{} }, false, ""},
		{
			"contract 5, 409: off, and yet with a URL",
			func(i *Integration) { i.Webhook.Off = true },
			false,
			"choose one",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
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
		{"https://A.example", false, false},
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
