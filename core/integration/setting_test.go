package integration

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/audit"
)

// other returns a valid value of a setting that differs from the one of a new integration.
func other(t *testing.T, s Setting) any {
	t.Helper()
	switch s.Value(&Integration{}).(type) {
	case string:
		if len(s.Options) == 0 {
			return "https://other.example/path"
		}
		return s.Options[len(s.Options)-1].Value
	case int:
		return s.Max
	case []string:
		return []string{"https://other.example"}
	case map[string]json.RawMessage:
		return map[string]json.RawMessage{"sandbox": json.RawMessage(`{}`)}
	}
	t.Fatalf("%s has a type that is not supported", s.Name)
	return nil
}

// A setting that has no field of its name in one of the structs panics here.
func TestSettings_Fields(t *testing.T) {
	toml := map[string]bool{"method_settings": true} // the configuration file has its own form of it
	site := reflect.TypeFor[SiteIntegration]()
	for n := range site.NumField() {
		toml[site.Field(n).Tag.Get("toml")] = true
	}
	for _, s := range Settings {
		record, file := s.Of(&Integration{}), s.Of(&SiteIntegration{})
		if reflect.TypeOf(record) != reflect.TypeOf(file) {
			t.Errorf("%s is %T in the record and %T in the configuration", s.Name, record, file)
		}
		if !toml[s.Name] {
			t.Errorf("the configuration file has no %s", s.Name)
		}
		if s.Label == "" || s.Section == "" || s.Row == 0 {
			t.Errorf("%s is not in the form", s.Name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a setting without a field is not found")
		}
	}()
	Setting{Name: "x"}.Of(&Integration{})
}

// Contract 42: a change of each setting is in the audit.
func TestChanges_EverySetting(t *testing.T) {
	was := New(testUUID, "pub_a")
	for _, s := range Settings {
		i := was
		s.set(&i, other(t, s))
		changed := i.Changes(was, Secrets{})
		if len(changed) != 1 || changed[0].Field != s.Name || changed[0].To == "" ||
			changed[0].From == changed[0].To {
			t.Errorf("%s: the audit has %v", s.Name, changed)
		}
	}
}

// Contract 42: a form that is saved unchanged contains "off". Without a value before, that is no change.
func TestChanges_PasskeysOff(t *testing.T) {
	was := New(testUUID, "pub_a")
	for _, values := range [][2]string{{"", PasskeysOff}, {PasskeysOff, ""}} {
		before, after := was, was
		before.Passkeys, after.Passkeys = values[0], values[1]
		if got := after.Changes(before, Secrets{}); len(got) != 0 {
			t.Errorf("%q: %+v", values, got)
		}
	}
}

// Contract 13: the audit has only the origins of redirect URIs, and an entry if only a path or query changes.
func TestChanges_RedirectURIs(t *testing.T) {
	was := New(testUUID, "pub_a")
	was.RedirectURIs = []string{"https://a.example/back?key=s3cret"}
	i := was
	i.RedirectURIs = []string{"https://a.example/back?key=s3cret2", "https://b.example/",
		"http://[::1]:80/s3cret"}
	want := audit.Change{Field: "redirect_uris", From: "https://a.example/…",
		To: "https://a.example/…, https://b.example, http://[::1]:80/…"}
	if got := i.Changes(was, Secrets{}); !slices.Equal(got, []audit.Change{want}) {
		t.Errorf("%+v", got)
	}
	i.RedirectURIs = []string{"https://a.example/back?key=s3cret3"}
	if got := i.Changes(was, Secrets{}); len(got) != 1 || got[0].From != got[0].To {
		t.Errorf("a changed query: %+v", got)
	}
}

// Contract 61: the alert URL has the rules of a webhook, and the audit has only its origin.
func TestAlertURL(t *testing.T) {
	for url, want := range map[string]string{
		"": "", "https://a.example/alerts?key=s3cret": "", "http://a.example": "alert_url",
		"https://user@a.example": "alert_url", "a.example": "alert_url", "https://10.0.0.7/": "alert_url",
	} {
		i := New(testUUID, "pub_a")
		i.Method, i.AlertURL = "sandbox", url
		wrong := i.Problems(testCatalog, false)
		if got := ""; len(wrong) > 0 {
			got = wrong[0].Member
			if got != want {
				t.Errorf("%s: %v", url, wrong)
			}
		} else if want != "" {
			t.Errorf("%s is accepted", url)
		}
	}
	was, i := New(testUUID, "pub_a"), New(testUUID, "pub_a")
	i.AlertURL = "https://a.example/alerts?key=s3cret"
	want := []audit.Change{{Field: "alert_url", To: "https://a.example/…"}}
	if got := i.Changes(was, Secrets{}); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// Contract 46: the configuration sets each setting, by the same value as the operators' API.
func TestSite_EverySetting(t *testing.T) {
	for _, s := range Settings {
		want := Integration{}
		s.set(&want, other(t, s))
		var site SiteIntegration
		reflect.ValueOf(s.Of(&site)).Elem().Set(reflect.ValueOf(other(t, s)))
		if got := s.Value(new(site.integration())); !reflect.DeepEqual(got, s.Value(&want)) {
			t.Errorf("%s is %v, want %v", s.Name, got, s.Value(&want))
		}
	}
}

func TestNew(t *testing.T) {
	i := New(testUUID, "pub_a")
	i.Method = "sandbox"
	if err := i.Validate(testCatalog, false); err != nil {
		t.Error(err)
	}
	if i.Level != "L1" || i.ChallengeAge != 25 {
		t.Errorf("a new integration has level %s and challenge age %d", i.Level, i.ChallengeAge)
	}
}

// A value out of the range of its setting is rejected with the range.
func TestSettings_Range(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Integration)
		want   string
	}{
		{"a level", func(i *Integration) { i.Level = "L3" }, `level is "L3"; it must be L1 or L2`},
		{"a level in lower case", func(i *Integration) { i.Level = "l1" },
			`level is "l1"; it must be L1 or L2`},
		{"a required text", func(i *Integration) { i.Level = "" }, `level is ""; it must be L1 or L2`},
		{"a required number", func(i *Integration) { i.ChallengeAge = 0 },
			"challenge_age is 0; it must be from 1 to 99"},
		{"a number", func(i *Integration) { i.Attempts = 11 }, "attempts is 11; it must be from 1 to 10"},
		{"a choice", func(i *Integration) { i.Passkeys = "on" },
			`passkeys is "on"; it must be off, publisher or service`},
		{"an origin", func(i *Integration) { i.CallbackOrigins = []string{"x"} }, `callback_origins has "x"; `},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := sample()
			c.change(&i)
			err := i.Validate(testCatalog, false)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want only %s", err, c.want)
			}
		})
	}
}
