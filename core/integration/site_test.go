package integration

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

func aSite() Site {
	return Site{
		Publishers: []Publisher{{ID: "pub_shop", Name: "Shop"}},
		Integrations: []SiteIntegration{{ID: testUUID, Publisher: "pub_shop", Name: "Checkout",
			Level: "L2", ChallengeAge: 18, Method: "sandbox",
			CallbackOrigins: []string{"https://a.example"}, BrowserOrigins: []string{"https://b.example"},
			WebhookURL: "https://shop.example/hooks", Secret: "whsec_Jx2m9QpL0vTzR4kW7nBd"}},
	}
}

func TestReadSite(t *testing.T) {
	b, err := json.Marshal(aSite())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSite(b); err != nil || !reflect.DeepEqual(got, aSite()) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"a member that there is not": `{"integrations": [{"secret_file": "svc_hidden"}]}`,
		"a wrong type":               `{"integrations": [{"secret": ["svc_hidden"]}]}`,
		"no JSON":                    `{"svc_hidden`,
		"something behind":           `{} {}`,
		"nothing":                    ``,
	} {
		if _, err := ReadSite([]byte(text)); err == nil || strings.Contains(err.Error(), "svc_hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSiteValidate(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Site)
	}{
		{"", func(*Site) {}},
		{"", func(s *Site) {
			s.Integrations[0].WebhookURL, s.Integrations[0].Secret, s.Integrations[0].WebhookOff = "", "", true
		}},
		{`publisher "shop": id must be`, func(s *Site) { s.Publishers[0].ID = "shop" }},
		{`publisher "pub_shop": it is there twice`,
			func(s *Site) { s.Publishers = append(s.Publishers, s.Publishers[0]) }},
		{"it is there twice", func(s *Site) { s.Integrations = append(s.Integrations, s.Integrations[0]) }},
		{`there is no publisher "pub_other"`, func(s *Site) { s.Integrations[0].Publisher = "pub_other" }},
		{`method is "oidc"`, func(s *Site) { s.Integrations[0].Method = "oidc" }},
		{"has no webhook_url", func(s *Site) { s.Integrations[0].WebhookURL, s.Integrations[0].Secret = "", "" }},
		{"a webhook secret but no webhook_url",
			func(s *Site) { s.Integrations[0].WebhookURL, s.Integrations[0].WebhookOff = "", true }},
		{"what guessers try first", func(s *Site) { s.Integrations[0].Secret = "summer-2026-shop" }},
		{"its webhook secret: it has 1025 bytes; at most 1024 are allowed", func(s *Site) {
			s.Integrations[0].Secret = strings.Repeat("Jx2m9QpL", 128) + "0"
		}},
		{"has 5 characters", func(s *Site) { s.Integrations[0].Secret = "short" }},
	} {
		s := aSite()
		c.change(&s)
		err := s.Validate(testCatalog, false)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "short") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

// The host decides in which order the writes of a site are made, and how many at once. No write depends on
// another.
func TestPut(t *testing.T) {
	w := newWorld(t)
	backwards := func(writes []func() error) error {
		if len(writes) != 2 {
			t.Errorf("%d writes for a publisher and an integration", len(writes))
		}
		for n := range writes {
			if err := writes[len(writes)-1-n](); err != nil {
				return err
			}
		}
		return nil
	}
	if err := w.Put(ctx, aSite(), backwards); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Integration(ctx, testUUID); err != nil {
		t.Error(err)
	}
	if p, err := w.Publisher(ctx, "pub_shop"); err != nil || p.Name != "Shop" {
		t.Errorf("%+v, %v", p, err)
	}

	broken := errors.New("no thread is left")
	renamed := aSite()
	renamed.Publishers[0].Name = "Store"
	if err := w.Put(ctx, renamed, func([]func() error) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the host", err)
	}
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			return kvtest.Refuse
		}
		return kvtest.Pass
	}
	err := w.Put(ctx, renamed, nil)
	if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "publisher pub_shop") {
		t.Errorf("got %v, want the error of the write that failed", err)
	}
}

// Contract 46: the site that was applied last is not applied again. A site with any difference is. What a
// site no longer names stays in the store, archived.
func TestApply(t *testing.T) {
	w := newWorld(t)
	writes := 0
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			writes++
		}
		return kvtest.Pass
	}
	apply := func(d *Directory, s Site, want bool) {
		t.Helper()
		before := writes
		if err := d.Apply(ctx, s); err != nil {
			t.Fatal(err)
		}
		if got := writes > before; got != want {
			t.Errorf("it wrote: %v, want %v", got, want)
		}
	}
	apply(w.Directory, aSite(), true)
	i, err := w.Integration(ctx, testUUID)
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.WebhookSecret(i)
	if err != nil || got != aSite().Integrations[0].Secret || i.PublisherID != "pub_shop" ||
		i.Webhook.URL != "https://shop.example/hooks" {
		t.Errorf("%+v, secret %q, %v", i, got, err)
	}
	if p, err := w.Publisher(ctx, "pub_shop"); err != nil || p.Name != "Shop" {
		t.Errorf("%+v, %v", p, err)
	}
	apply(w.another(), aSite(), false)

	renamed := aSite()
	renamed.Publishers[0].Name = "Store"
	apply(w.Directory, renamed, true)
	apply(w.Directory, aSite(), true)
	changed := aSite()
	changed.Integrations[0].Secret = "another secret of it"
	apply(w.Directory, changed, true)
	i, _ = w.Integration(ctx, testUUID)
	if got, err := w.WebhookSecret(i); err != nil || got != "another secret of it" {
		t.Errorf("secret %q, %v", got, err)
	}

	apply(w.Directory, Site{}, true)
	if i, err := w.another().Integration(ctx, testUUID); err != nil || i.Archived == nil {
		t.Errorf("an integration that the site no longer names: %+v, %v", i, err)
	}
	apply(w.Directory, changed, true)

	rotated := w.Host.Host
	rotated.Sealer = ring(t, 1, 0)
	apply(NewDirectory(rotated), changed, true)
	apply(NewDirectory(rotated), changed, false)
}

// A site that was applied in part does not count as applied.
func TestApplyThatFails(t *testing.T) {
	w := newWorld(t)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			if c.Tx.Puts[0].Name == "c/int/"+testUUID {
				return kvtest.Refuse
			}
		}
		return kvtest.Pass
	}
	if err := w.Apply(ctx, aSite()); !errors.Is(err, kv.ErrUnavailable) {
		t.Fatal(err)
	}
	w.Store.Decide = nil
	if err := w.Apply(ctx, aSite()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Integration(ctx, testUUID); err != nil {
		t.Error(err)
	}
}
