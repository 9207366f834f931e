package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

func aSite() Site {
	return Site{
		Publishers: []SitePublisher{{ID: "pub_shop", Name: "Shop"}},
		Integrations: []SiteIntegration{{ID: testUUID, Publisher: "pub_shop", Name: "Checkout",
			Level: "L2", ChallengeAge: 18, Method: "sandbox",
			CallbackOrigins: []string{"https://a.example"}, BrowserOrigins: []string{"https://b.example"},
			WebhookURL: "https://shop.example/hooks", Secret: "whsec_Jx2m9QpL0vTzR4kW7nBd"}},
	}
}

// Origins of the configuration are kept as browsers write them (contract 32).
func TestSiteOrigins(t *testing.T) {
	s := aSite()
	s.Integrations[0].CallbackOrigins = []string{"https://A.example:443", "https://b.example:8443"}
	s.Integrations[0].BrowserOrigins = []string{"https://b.example:443"}
	if err := s.Validate(testCatalog, false); err != nil {
		t.Fatal(err)
	}
	i := s.Integrations[0].integration()
	if !slices.Equal(i.CallbackOrigins, []string{"https://a.example", "https://b.example:8443"}) ||
		!slices.Equal(i.BrowserOrigins, []string{"https://b.example"}) {
		t.Errorf("%q and %q", i.CallbackOrigins, i.BrowserOrigins)
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
			s.Integrations[0].WebhookURL, s.Integrations[0].Secret, s.Integrations[0].WebhookOff = "", "",
				true
		}},
		{`publisher "shop": id must be`, func(s *Site) { s.Publishers[0].ID = "shop" }},
		{`publisher "pub_shop": it occurs twice`,
			func(s *Site) { s.Publishers = append(s.Publishers, s.Publishers[0]) }},
		{"it occurs twice", func(s *Site) { s.Integrations = append(s.Integrations, s.Integrations[0]) }},
		{`there is no publisher "pub_other"`, func(s *Site) { s.Integrations[0].Publisher = "pub_other" }},
		{`method is "oidc"`, func(s *Site) { s.Integrations[0].Method = "oidc" }},
		{"has no webhook_url", func(s *Site) {
			s.Integrations[0].WebhookURL, s.Integrations[0].Secret = "",
				""
		}},
		{"a webhook secret but no webhook_url",
			func(s *Site) { s.Integrations[0].WebhookURL, s.Integrations[0].WebhookOff = "", true }},
		{"easily guessed parts", func(s *Site) { s.Integrations[0].Secret = "summer-2026-shop" }},
		{"its webhook secret: it has 1025 bytes; at most 1024 are allowed", func(s *Site) {
			s.Integrations[0].Secret = strings.Repeat("Jx2m9QpL", 128) + "0"
		}},
		{"", func(s *Site) { s.Publishers[0].Name, s.Integrations[0].Name = strings.Repeat("é", 100), "" }},
		{`publisher "pub_shop": name has 101 characters; at most 100 are allowed`,
			func(s *Site) { s.Publishers[0].Name = strings.Repeat("é", 101) }},
		{`publisher "pub_shop": name has characters that cannot be seen`,
			func(s *Site) { s.Publishers[0].Name = "Shop\u202e" }},
		{`publisher "pub_shop": name has space`, func(s *Site) { s.Publishers[0].Name = " " }},
		{"name has characters that cannot be seen", func(s *Site) { s.Integrations[0].Name = "a\nb" }},
		{"callback_origins has 101 origins; at most 100 are allowed", func(s *Site) {
			s.Integrations[0].CallbackOrigins = slices.Repeat([]string{"https://shop.example"}, 101)
		}},
		{"has 5 characters", func(s *Site) { s.Integrations[0].Secret = "short" }},
	} {
		s := aSite()
		c.change(&s)
		err := s.Validate(testCatalog, false)
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "short") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

// The host decides the order of a site's writes, and how many run in parallel. No write depends on another.
func TestPut(t *testing.T) {
	w := newFixture(t)
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
	if err := w.Put(ctx, aSite(), KeepRemoved, backwards); err != nil {
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
	failing := func([]func() error) error { return broken }
	if err := w.Put(ctx, renamed, KeepRemoved, failing); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the host", err)
	}
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	err := w.Put(ctx, renamed, KeepRemoved, nil)
	if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "publisher pub_shop") {
		t.Errorf("got %v, want the error of the write that failed", err)
	}
}

// Contract 46: the site that was applied last is not applied again. A site with any difference is. Removed
// integrations continue to work: a deployment of the Worker does not archive.
func TestApply(t *testing.T) {
	w := newFixture(t)
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
	if i, err := w.another().Integration(ctx, testUUID); err != nil || i.Archived != nil || !i.Removed {
		t.Errorf("contract 46: an integration that the site no longer names: %+v, %v", i, err)
	}
	apply(w.Directory, changed, true)

	rotated := w.Host.Host
	rotated.Sealer = ring(t, 1, 0)
	apply(NewDirectory(rotated), changed, true)
	apply(NewDirectory(rotated), changed, false)
}

// A site that was applied in part does not count as applied.
func TestApplyThatFails(t *testing.T) {
	w := newFixture(t)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			if c.Tx.Puts[0].Name == "c/int/"+testUUID {
				return kvtest.Reject
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

// kept returns the site's publisher and integration from the store.
func (w *fixture) kept(t *testing.T) (Publisher, Integration) {
	t.Helper()
	p, err := w.ReadPublisher(ctx, "pub_shop")
	coretest.Must(t, err)
	i, err := w.ReadIntegration(ctx, testUUID)
	coretest.Must(t, err)
	return p.Value, i.Value
}

// Contract 46: a start and SIGHUP never archive. Removed publishers and integrations are marked, logged at
// each start, and work as before.
func TestPut_KeepRemoved(t *testing.T) {
	w := newFixture(t)
	var logs bytes.Buffer
	host := w.Host.Host
	host.Log = slog.New(slog.NewTextHandler(&logs, nil))
	d := NewDirectory(host)
	coretest.Must(t, d.Put(ctx, aSite(), KeepRemoved, nil))
	key, _, err := d.CreateKey(ctx, "pub_shop", "", nil)
	coretest.Must(t, err)
	if logs.Len() > 0 {
		t.Errorf("contract 46: a complete file logs %s", &logs)
	}
	for start := range 2 {
		logs.Reset()
		before := w.dump(t)
		coretest.Must(t, d.Put(ctx, Site{}, KeepRemoved, nil))
		p, i := w.kept(t)
		if p.Archived != nil || i.Archived != nil || !p.Removed || !i.Removed || p.Managed || i.Managed {
			t.Fatalf("contract 46: removed from the file: %+v, %+v", p, i)
		}
		if got, err := d.WebhookSecret(&i); err != nil || got != aSite().Integrations[0].Secret {
			t.Errorf("contract 46: removed from the file, its secret is %q, %v", got, err)
		}
		if k, err := d.Key(ctx, SecretPrefix, key); err != nil || !k.Active(w.Clock.Now()) {
			t.Errorf("contract 46: removed from the file, its key is %+v, %v", k, err)
		}
		if n := strings.Count(logs.String(), "level=WARN"); n != 2 ||
			!strings.Contains(logs.String(), "id="+testUUID) ||
			!strings.Contains(logs.String(), "id=pub_shop") {
			t.Errorf("contract 46: start %d logs %s", start, &logs)
		}
		if start == 1 && w.dump(t) != before {
			t.Error("contract 46: the second start without the block wrote something")
		}
	}
	changes := w.audited(t)[0].Changes
	want := []audit.Change{{Field: "managed", From: "yes", To: "no"},
		{Field: "removed_from_file", From: "no", To: "yes"}}
	if !slices.Equal(changes, want) {
		t.Errorf("contract 46: audited as %+v, want %+v", changes, want)
	}

	coretest.Must(t, d.Put(ctx, aSite(), KeepRemoved, nil))
	if p, i := w.kept(t); p.Removed || i.Removed || !p.Managed || !i.Managed {
		t.Errorf("contract 46: named again: %+v, %+v", p, i)
	}
	coretest.Must(t, d.Put(ctx, Site{}, KeepRemoved, nil))
	coretest.Must(t, d.Put(ctx, Site{}, ArchiveRemoved, nil))
	if p, i := w.kept(t); p.Archived == nil || i.Archived == nil || p.Removed || i.Removed {
		t.Errorf("contract 46: applied after a start without the block: %+v, %+v", p, i)
	}
}

// Contract 46: what the file no longer contains can be changed by hand, and is then independent of the file.
func TestPut_RemovedChangedByHand(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	coretest.Must(t, w.Put(ctx, Site{}, KeepRemoved, nil))
	p, err := w.ReadPublisher(ctx, "pub_shop")
	coretest.Must(t, err)
	i, err := w.ReadIntegration(ctx, testUUID)
	coretest.Must(t, err)
	p.Value.Name, i.Value.Name = "By hand", "By hand"
	_, err = w.SavePublisher(ctx, p.Value, p.Version)
	coretest.Must(t, err)
	_, err = w.SaveIntegration(ctx, i.Value, Secrets{}, i.Version)
	coretest.Must(t, err)
	coretest.Must(t, w.Put(ctx, Site{}, ArchiveRemoved, nil))
	if p, i := w.kept(t); p.Archived != nil || i.Archived != nil || p.Removed || i.Removed || p.Managed {
		t.Errorf("contract 46: changed by hand, then applied: %+v, %+v", p, i)
	}
}

// Contract 46: archived = true archives at a start, too. The other settings then do not matter.
func TestPut_ArchivedInTheFile(t *testing.T) {
	w := newFixture(t)
	site := Site{Publishers: []SitePublisher{{ID: "pub_shop", Archived: true}},
		Integrations: []SiteIntegration{{ID: testUUID, Publisher: "pub_shop", Archived: true}}}
	coretest.Must(t, site.Validate(testCatalog, false))
	before := w.dump(t)
	coretest.Must(t, w.Put(ctx, site, KeepRemoved, nil))
	if w.dump(t) != before {
		t.Error("contract 46: archived = true created something")
	}
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	planned, err := w.Plan(ctx, site, KeepRemoved)
	coretest.Must(t, err)
	for _, each := range planned {
		if each.Action != actionArchive || each.Removed {
			t.Errorf("contract 46: archived = true is planned as %+v", each)
		}
	}
	for range 2 {
		coretest.Must(t, w.Put(ctx, site, KeepRemoved, nil))
		p, i := w.kept(t)
		if p.Archived == nil || i.Archived == nil || p.Name != "Shop" || i.Name != "Checkout" || !i.Managed {
			t.Errorf("contract 46: archived = true: %+v, %+v", p, i)
		}
		w.Clock.Advance(time.Hour)
	}
	if got := w.audited(t)[0]; !strings.HasSuffix(got.Operation, ".archive") {
		t.Errorf("contract 46: audited as %+v", got)
	}
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	if p, i := w.kept(t); p.Archived != nil || i.Archived != nil {
		t.Errorf("contract 46: without archived = true: %+v, %+v", p, i)
	}
	for name, wrong := range map[string]Site{
		"a malformed id": {Integrations: []SiteIntegration{{ID: "x", Archived: true}}},
		"twice": {Integrations: []SiteIntegration{{ID: testUUID, Archived: true},
			{ID: testUUID, Archived: true}}},
	} {
		if wrong.Validate(testCatalog, false) == nil {
			t.Errorf("contract 46: archived = true with %s is accepted", name)
		}
	}
}

// Contract 46: verge apply archives removed publishers and integrations, only if the file managed them. If
// the file adds them again, they are restored, with the secret of the file.
func TestPut_ArchiveRemoved(t *testing.T) {
	w := newFixture(t)
	own := sample()
	own.ID, own.PublisherID = otherUUID, "pub_a"
	coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_a"}))
	coretest.Must(t, w.PutIntegration(ctx, own, secret))
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	p, i := w.kept(t)
	if !p.Managed || !i.Managed || p.Archived != nil || i.Archived != nil || i.Created == nil ||
		p.Created == nil {
		t.Fatalf("contract 46: %+v, %+v", p, i)
	}
	coretest.Must(t, w.RecordReadiness(ctx, &i, aSite().Integrations[0].Secret, true))
	created := *i.Created
	w.Clock.Advance(time.Hour)
	coretest.Must(t, w.Put(ctx, Site{}, ArchiveRemoved, nil))
	p, i = w.kept(t)
	if p.Archived == nil || i.Archived == nil || !p.Managed || !i.Managed ||
		!i.Archived.Equal(w.Clock.Now()) {
		t.Errorf("contract 46: dropped: %+v, %+v", p, i)
	}
	if got, err := w.WebhookSecret(&i); err != nil || got != aSite().Integrations[0].Secret {
		t.Errorf("contract 46: its active sessions end with the secret %q, %v", got, err)
	}
	other, err := w.ReadIntegration(ctx, otherUUID)
	if err != nil || other.Value.Archived != nil || other.Value.Managed {
		t.Errorf("contract 46: the file archived what it never managed: %+v, %v", other, err)
	}
	if archived, err := w.PublisherArchived(ctx, "pub_a"); archived || err != nil {
		t.Errorf("contract 46: the file archived a publisher that it never managed: %v", err)
	}

	at := *i.Archived
	w.Clock.Advance(time.Hour)
	before := w.dump(t)
	coretest.Must(t, w.Put(ctx, Site{}, ArchiveRemoved, nil))
	if w.dump(t) != before {
		t.Error("contract 46: what is archived was archived again")
	}
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	p, i = w.kept(t)
	if p.Archived != nil || i.Archived != nil || !i.Managed || !i.Created.Equal(created) {
		t.Errorf("contract 46: named again, after %s: %+v, %+v", at, p, i)
	}
	if ready, err := w.another().Ready(ctx, &i); !ready || err != nil {
		t.Errorf("contract 46: added again unchanged, it is ready %v, %v", ready, err)
	}
}

// Contract 46: a start with the same file makes no changes, so that versions stay and the audit lists only
// changes.
func TestPutWritesOnlyWhatChanged(t *testing.T) {
	w := newFixture(t)
	bound(t, w)
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	if got := w.audited(t); len(got) != 2 {
		t.Errorf("audit: the first start is audited as %+v", got)
	}
	before := w.dump(t)
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	coretest.Must(t, NewDirectory(w.Host.Host).Put(ctx, aSite(), KeepRemoved, nil))
	if w.dump(t) != before {
		t.Error("contract 46: the second start wrote something")
	}
	for _, c := range []struct {
		change func(*SiteIntegration)
		want   audit.Change
	}{
		{func(i *SiteIntegration) { i.Name = "Other" },
			audit.Change{Field: "name", From: "Checkout", To: "Other"}},
		{func(i *SiteIntegration) { i.Secret = "whsec_another0987654321" },
			audit.Change{Field: "webhook.secret", From: hidden, To: hidden}},
		{func(i *SiteIntegration) { i.WebhookURL += "?x" }, audit.Change{Field: "webhook.url",
			From: "https://shop.example/…", To: "https://shop.example/…"}},
		{func(i *SiteIntegration) {
			i.MethodSettings = map[string]json.RawMessage{"sandbox": json.RawMessage(`{ "a": 1 }`)}
		}, audit.Change{Field: "method_settings", To: `{"sandbox":{"a":1}}`}},
	} {
		site := aSite()
		c.change(&site.Integrations[0])
		w.Clock.Advance(time.Second)
		coretest.Must(t, w.Put(ctx, site, KeepRemoved, nil))
		got := w.audited(t)[0]
		if got.Actor.Kind != audit.File || got.Operation != "integration.change" || got.Target != testUUID ||
			got.Publisher != "pub_shop" || !reflect.DeepEqual(got.Changes, []audit.Change{c.want}) {
			t.Errorf("audit: audited as %+v, want %+v", got, c.want)
		}
		w.Clock.Advance(time.Second)
		coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	}
	if got := len(w.audited(t)); got != 10 {
		t.Errorf("audit: %d entries", got)
	}
	if dump := w.dump(t); strings.Contains(dump, "whsec_") || strings.Contains(dump, "/hooks") {
		t.Error("contract 19: the store holds a secret or a webhook's address")
	}
}

// Contract 46: what Plan says is what Put does, and Plan does nothing.
func TestPlan(t *testing.T) {
	w := newFixture(t)
	show := func(s Site) (got []string) {
		t.Helper()
		before := w.dump(t)
		all, err := w.Plan(ctx, s, ArchiveRemoved)
		coretest.Must(t, err)
		if w.dump(t) != before {
			t.Error("contract 46: a plan changed the store")
		}
		for _, d := range all {
			var fields []string
			for _, c := range d.Changes {
				fields = append(fields, c.Field)
			}
			got = append(got, d.Action+" "+d.Kind+" "+d.ID+" of "+d.Publisher+": "+strings.Join(fields, " "))
		}
		return got
	}
	renamed := aSite()
	renamed.Publishers[0].Name = "Store"
	renamed.Integrations[0].ChallengeAge = 21
	for _, c := range []struct {
		site Site
		want []string
	}{
		{Site{}, nil},
		{aSite(), []string{"create publisher pub_shop of pub_shop: name managed",
			"create integration " + testUUID +
				" of pub_shop: publisher_id name level challenge_age methods " +
				"callback_origins browser_origins webhook.url webhook.secret managed"}},
		{aSite(), nil},
		{renamed, []string{"change publisher pub_shop of pub_shop: name",
			"change integration " + testUUID + " of pub_shop: challenge_age"}},
		{Site{Publishers: renamed.Publishers}, []string{"archive integration " + testUUID +
			" of pub_shop: archived"}},
		{Site{}, []string{"archive publisher pub_shop of pub_shop: archived"}},
		{Site{}, nil},
		{renamed, []string{"change publisher pub_shop of pub_shop: archived",
			"change integration " + testUUID + " of pub_shop: archived"}},
	} {
		if got := show(c.site); !slices.Equal(got, c.want) {
			t.Errorf("contract 46: planned is %q, want %q", got, c.want)
		}
		coretest.Must(t, w.Put(ctx, c.site, ArchiveRemoved, nil))
	}
	b, err := json.Marshal(renamed)
	coretest.Must(t, err)
	all, err := w.Plan(ctx, aSite(), ArchiveRemoved)
	coretest.Must(t, err)
	told, err := json.Marshal(all)
	coretest.Must(t, err)
	if strings.Contains(string(told), "whsec_") || !strings.Contains(string(b), "whsec_") {
		t.Errorf("contract 46: a plan shows a secret: %s", told)
	}
}

// Contract 46: the file takes over manual and damaged records.
func TestSite_FileTakesOver(t *testing.T) {
	w := newFixture(t)
	bound(t, w)
	coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_shop", Name: "By hand"}))
	byHand := aSite().Integrations[0].integration()
	byHand.Passkeys = PasskeysPublisher
	coretest.Must(t, w.PutIntegration(ctx, byHand, "whsec_by_hand"))
	w.stage(t, "https://staged.example/", "whsec_staged")
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	p, i := w.kept(t)
	got, err := w.WebhookSecret(&i)
	if err != nil || !p.Managed || p.Name != "Shop" || !i.Managed || i.Staged != nil || i.Created != nil ||
		i.Passkeys != "" || got != aSite().Integrations[0].Secret {
		t.Errorf("contract 46: %+v, %+v, %q, %v", p, i, got, err)
	}
	for name, forged := range map[string]string{
		publisherItems + "pub_shop": `{"id":"pub_shop","name":"Forged","managed":true}`,
		integrationItems + testUUID: `{"id":"` + testUUID + `","managed":true}`,
		integrationItems + "x":      `{`,
	} {
		w.plant(t, name, []byte(forged))
	}
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	if p, i := w.kept(t); p.Name != "Shop" || i.Name != "Checkout" {
		t.Errorf("contract 19: the file did not repair %+v, %+v", p, i)
	}
}

// Contract 46: several instances start with the same file at the same time. Each change is made and reported
// once.
func TestInstancesThatStartTogether(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	renamed := aSite()
	renamed.Publishers[0].Name, renamed.Integrations[0].Name = "Store", "Till"
	other := w.another()
	first := true
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && first {
			first = false
			coretest.Must(t, other.Put(ctx, renamed, KeepRemoved, nil))
		}
		return kvtest.Pass
	}
	coretest.Must(t, w.Put(ctx, renamed, KeepRemoved, nil))
	w.Store.Decide = nil
	if p, i := w.kept(t); p.Name != "Store" || i.Name != "Till" {
		t.Errorf("contract 46: %+v, %+v", p, i)
	}
	if got := w.audited(t); len(got) != 4 {
		t.Errorf("audit: told %d times: %+v", len(got), got)
	}
	// An instance that always loses returns an error.
	n, nested := 0, false
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && !nested {
			n, nested = n+1, true
			coretest.Must(t, other.PutPublisher(ctx, Publisher{ID: "pub_shop", Name: fmt.Sprint(n)}))
			nested = false
		}
		return kvtest.Pass
	}
	if err := w.Put(ctx, aSite(), KeepRemoved, nil); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("an instance that always loses: %v", err)
	}
}

// Seeds can be changed: they are not managed and not in the audit, and a start does not archive.
func TestSeed(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Seed(ctx, aSite(), nil))
	v := w.now(t)
	if v.Value.Managed || len(w.audited(t)) != 0 {
		t.Errorf("seeded: %+v, audited: %+v", v.Value, w.audited(t))
	}
	v.Value.ChallengeAge = 30
	_, err := w.SaveIntegration(ctx, v.Value, Secrets{}, v.Version)
	coretest.Must(t, err)
	w.stage(t, "https://staged.example/", "whsec_staged")
	coretest.Must(t, w.Seed(ctx, aSite(), nil))
	again := w.now(t).Value
	if again.ChallengeAge != 18 || again.Staged == nil || again.Managed {
		t.Errorf("seeded again: %+v", again)
	}
	coretest.Must(t, w.Seed(ctx, Site{}, nil))
	if i := w.now(t).Value; i.Archived != nil {
		t.Errorf("a seed that is gone was archived: %+v", i)
	}
}

// An instance of the previous release can read this release's records, including unknown fields.
func TestSite_EarlierRelease(t *testing.T) {
	w := newFixture(t)
	bound(t, w)
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	coretest.Must(t, w.Put(ctx, Site{}, KeepRemoved, nil))
	coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_a"}))
	own := sample()
	own.ID = otherUUID
	coretest.Must(t, w.PutIntegration(ctx, own, secret))
	v, err := w.ReadIntegration(ctx, otherUUID)
	coretest.Must(t, err)
	v.Value.Staged = &Webhook{URL: "https://new.example/"}
	_, err = w.SaveIntegration(ctx, v.Value, Secrets{}, v.Version)
	coretest.Must(t, err)
	for _, id := range []string{testUUID, otherUUID} {
		it := w.raw(t, integrationItems+id)
		if _, err := token.CheckRecord(w.Host.Sealer, it.Key.String(), it.Value); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		var old struct {
			ID          string   `json:"id"`
			PublisherID string   `json:"publisher_id"`
			Level       string   `json:"level"`
			Method      string   `json:"method"`
			Origins     []string `json:"callback_origins"`
			Webhook     struct {
				Off    bool   `json:"off"`
				Sealed string `json:"sealed"`
				Hidden bool   `json:"hidden"`
			} `json:"webhook"`
		}
		coretest.Must(t, json.Unmarshal(it.Value, &old))
		sealed, _ := token.DecodeText("", old.Webhook.Sealed)
		claims, _, err := w.Host.Sealer.Open(token.Secret, sealed)
		if err != nil || old.ID != id || old.Method != "sandbox" || len(old.Origins) != 1 ||
			!old.Webhook.Hidden ||
			!strings.Contains(string(claims), `"int":"`+id+`","sec":"`) ||
			strings.Contains(string(claims), "new.example") {
			t.Errorf("%s is read as %+v with %s, %v", id, old, claims, err)
		}
	}
}
