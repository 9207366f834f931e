package integration

import (
	"errors"
	"fmt"
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

// entry returns the audit entry that is written with a change.
func (w *fixture) entry(t testing.TB, operation string) []kv.Put {
	t.Helper()
	puts, err := audit.Entry{Actor: audit.Actor{Kind: audit.Operator}, Publisher: "pub_a",
		Operation: operation}.Puts(w.Host.Sealer, w.Host.Random, w.Clock.Now())
	coretest.Must(t, err)
	return puts
}

// audited returns the entries of the audit, the newest first.
func (w *fixture) audited(t testing.TB) []audit.Entry {
	t.Helper()
	all, _, err := audit.List(ctx, w.Memory, w.Host.Sealer, "", "", 1000)
	coretest.Must(t, err)
	return all
}

// made creates a publisher and an integration as an operator does, and returns the integration.
func (w *fixture) made(t testing.TB) Versioned[Integration] {
	t.Helper()
	_, err := w.SavePublisher(ctx, Publisher{ID: "pub_a", Name: "A"}, "")
	coretest.Must(t, err)
	first := secret
	_, err = w.SaveIntegration(ctx, sample(), Secrets{Set: &first}, "")
	coretest.Must(t, err)
	return w.now(t)
}

// now returns the current integration.
func (w *fixture) now(t testing.TB) Versioned[Integration] {
	t.Helper()
	v, err := w.ReadIntegration(ctx, testUUID)
	coretest.Must(t, err)
	return v
}

func TestSavePublisher(t *testing.T) {
	w := newFixture(t)
	version, err := w.SavePublisher(ctx, Publisher{ID: "pub_a", Name: "A", Managed: true}, "",
		w.entry(t, "x")...)
	coretest.Must(t, err)
	got, err := w.ReadPublisher(ctx, "pub_a")
	coretest.Must(t, err)
	if got.Version != version || got.Value.Name != "A" || got.Value.Managed || got.Value.Archived != nil ||
		!got.Value.Created.Equal(w.Clock.Now().Truncate(time.Millisecond)) {
		t.Errorf("contract 42: %+v, version %q", got, version)
	}
	if len(w.audited(t)) != 1 {
		t.Errorf("the extra items were not written: %+v", w.audited(t))
	}
	if _, err := w.SavePublisher(ctx, Publisher{ID: "pub_a", Name: "Other"}, ""); !errors.Is(err, ErrExists) {
		t.Errorf("a publisher that is there was made again: %v", err)
	}
	if _, err := w.SavePublisher(ctx, Publisher{ID: "pub_b"}, version); !errors.Is(err, ErrNotFound) {
		t.Errorf("a publisher that is not there was changed: %v", err)
	}
	for _, id := range []string{"", "a", "pub_", "pub_a/int/x", "pub_a b"} {
		if _, err := w.SavePublisher(ctx, Publisher{ID: id}, ""); err == nil {
			t.Errorf("a publisher with the id %q was made", id)
		}
	}
	w.Clock.Advance(time.Hour)
	p := got.Value
	p.Name, p.Created = "B", nil
	next, err := w.SavePublisher(ctx, p, version)
	coretest.Must(t, err)
	again, err := w.ReadPublisher(ctx, "pub_a")
	coretest.Must(t, err)
	if again.Version != next || next == version || again.Value.Name != "B" ||
		!again.Value.Created.Equal(*got.Value.Created) {
		t.Errorf("contract 42: changed to %+v", again)
	}
}

// Two people change one integration. The second save fails, and shows the first change.
func TestNoUpdateIsLost(t *testing.T) {
	w := newFixture(t)
	v := w.made(t)
	first, second := v.Value, v.Value
	first.Name, second.ChallengeAge = "First", 40
	_, err := w.SaveIntegration(ctx, first, Secrets{}, v.Version)
	coretest.Must(t, err)
	_, err = w.another().SaveIntegration(ctx, second, Secrets{}, v.Version, w.entry(t, "x")...)
	if !errors.Is(err, ErrStale) {
		t.Errorf("contract 42: the second save: %v", err)
	}
	now := w.now(t)
	if now.Value.Name != "First" || now.Value.ChallengeAge != 25 || len(w.audited(t)) != 0 {
		t.Errorf("contract 42: after both there is %+v and %+v in the audit", now.Value, w.audited(t))
	}
	// Both read the same version before either saves.
	other, tried := w.another(), 0
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && tried == 0 {
			tried++
			_, err := other.SaveIntegration(ctx, second, Secrets{}, now.Version)
			coretest.Must(t, err)
		}
		return kvtest.Pass
	}
	if _, err := w.SaveIntegration(ctx, first, Secrets{}, now.Version); !errors.Is(err, ErrStale) {
		t.Errorf("contract 42: of two simultaneous saves, the second: %v", err)
	}
	if got := w.now(t).Value; got.ChallengeAge != 40 {
		t.Errorf("contract 42: after two simultaneous saves: %+v", got)
	}

	p, err := w.ReadPublisher(ctx, "pub_a")
	coretest.Must(t, err)
	_, err = w.SavePublisher(ctx, Publisher{ID: "pub_a", Name: "First"}, p.Version)
	coretest.Must(t, err)
	_, err = w.SavePublisher(ctx, Publisher{ID: "pub_a", Name: "Second"}, p.Version)
	if again, _ := w.ReadPublisher(ctx, "pub_a"); !errors.Is(err, ErrStale) || again.Value.Name != "First" {
		t.Errorf("contract 42: the second save of a publisher: %v, %+v", err, again)
	}
}

func TestSaveIntegrationKeepsSecrets(t *testing.T) {
	w := newFixture(t)
	bound(t, w)
	v := w.made(t)
	i := v.Value
	i.Name, i.Webhook.Sealed = "Other", "what a caller left here"
	_, err := w.SaveIntegration(ctx, i, Secrets{}, v.Version)
	coretest.Must(t, err)
	kept := w.now(t)
	got, err := w.WebhookSecret(&kept.Value)
	if err != nil || got != secret || kept.Value.Webhook.URL != sample().Webhook.URL ||
		kept.Value.Name != "Other" {
		t.Errorf("%+v, secret %q, %v", kept.Value, got, err)
	}
	another := "whsec_another"
	_, err = w.SaveIntegration(ctx, kept.Value, Secrets{Set: &another}, kept.Version)
	coretest.Must(t, err)
	now := w.now(t)
	if got, err := w.WebhookSecret(&now.Value); err != nil || got != another {
		t.Errorf("contract 25: the new secret is %q, %v", got, err)
	}
	long := strings.Repeat("s", maxSecret+1)
	if _, err := w.SaveIntegration(ctx, now.Value, Secrets{Set: &long}, now.Version); err == nil {
		t.Error("a secret that is too long was kept")
	}
	if strings.Contains(w.dump(t), another) || strings.Contains(w.dump(t), sample().Webhook.URL) {
		t.Error("contract 19: the store holds a secret or a URL in the clear")
	}
}

func TestSaveIntegrationRejects(t *testing.T) {
	w := newFixture(t)
	v := w.made(t)
	change := func(change func(*Integration)) Integration {
		i := v.Value
		change(&i)
		return i
	}
	none := "whsec_staged"
	for _, c := range []struct {
		name    string
		i       Integration
		secrets Secrets
		version string
		want    error // nil: any
	}{
		{"it is there", change(func(*Integration) {}), Secrets{}, "", ErrExists},
		{"it is not there", change(func(i *Integration) { i.ID = otherUUID }), Secrets{}, v.Version,
			ErrNotFound},
		{"no such publisher", change(func(i *Integration) { i.ID, i.PublisherID = otherUUID, "pub_x" }),
			Secrets{}, "", ErrNotFound},
		{"it cannot move to another publisher", change(func(i *Integration) { i.PublisherID = "pub_b" }),
			Secrets{}, v.Version, nil},
		{"the id is no UUID", change(func(i *Integration) { i.ID = "x" }), Secrets{}, "", nil},
		{"a staged webhook without a URL", change(func(i *Integration) {
			i.Webhook, i.Staged = Webhook{Off: true}, &Webhook{}
		}), Secrets{Staged: &none}, v.Version, nil},
		{"a secret for nothing staged", v.Value, Secrets{Staged: &none}, v.Version, nil},
	} {
		before := w.dump(t)
		_, err := w.SaveIntegration(ctx, c.i, c.secrets, c.version, w.entry(t, "x")...)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if w.dump(t) != before {
			t.Errorf("%s: the store was changed", c.name)
		}
	}
}

// Contract 46: an archived record cannot be changed until it is restored.
func TestArchive(t *testing.T) {
	w := newFixture(t)
	v := w.made(t)
	at := w.Clock.Now().Add(time.Hour) // the directory's own clock counts
	i := v.Value
	i.Archived = &at
	version, err := w.SaveIntegration(ctx, i, Secrets{}, v.Version)
	coretest.Must(t, err)
	archived := w.now(t)
	if archived.Value.Archived == nil || archived.Value.Archived.After(w.Clock.Now()) ||
		archived.Version != version {
		t.Fatalf("archived: %+v", archived)
	}
	i = archived.Value
	i.Name = "Other"
	if _, err := w.SaveIntegration(ctx, i, Secrets{}, version); !errors.Is(err, ErrArchived) {
		t.Errorf("contract 46: an archived integration was changed: %v", err)
	}
	if _, _, err := w.CreateKey(ctx, "pub_a", testUUID, nil); !errors.Is(err, ErrArchived) {
		t.Errorf("contract 46: an archived integration got a key: %v", err)
	}
	if ok, err := w.BrowserOrigin(ctx, sample().BrowserOrigins[0]); ok || err != nil {
		t.Errorf("contract 46: pages of an archived integration may use keys: %v", err)
	}
	i.Archived = nil
	_, err = w.SaveIntegration(ctx, i, Secrets{}, version)
	coretest.Must(t, err)
	back := w.now(t).Value
	if got, err := w.WebhookSecret(&back); err != nil || got != secret || back.Archived != nil {
		t.Errorf("brought back: %+v, %q, %v", back, got, err)
	}

	p, err := w.ReadPublisher(ctx, "pub_a")
	coretest.Must(t, err)
	p.Value.Archived = &at
	pv, err := w.SavePublisher(ctx, p.Value, p.Version)
	coretest.Must(t, err)
	if archived, err := w.PublisherArchived(ctx, "pub_a"); !archived || err != nil {
		t.Errorf("contract 46: the publisher is not archived: %v", err)
	}
	if _, err := w.SavePublisher(ctx, p.Value, pv); !errors.Is(err, ErrArchived) {
		t.Errorf("contract 46: an archived publisher was changed: %v", err)
	}
	fresh := sample()
	fresh.ID = otherUUID
	if _, err := w.SaveIntegration(ctx, fresh, Secrets{}, ""); !errors.Is(err, ErrArchived) {
		t.Errorf("contract 46: an archived publisher got an integration: %v", err)
	}
	if _, _, err := w.CreateKey(ctx, "pub_a", "", nil); !errors.Is(err, ErrArchived) {
		t.Errorf("contract 46: an archived publisher got a key: %v", err)
	}
	if archived, err := w.PublisherArchived(ctx, "pub_none"); archived || err != nil {
		t.Errorf("a missing publisher: archived %v, %v", archived, err)
	}
}

// An integration whose secret no key of the ring opens can be archived. That does not delete its secret.
func TestSave_LostSecret(t *testing.T) {
	w := newFixture(t)
	v := w.made(t)
	sealed := w.Host.Sealer
	claims := []byte(`{"int":"` + testUUID + `","sec":"x"}`)
	lost, err := ring(t, 1).Seal(token.Secret, claims)
	coretest.Must(t, err)
	stored := v.Value
	stored.Webhook = Webhook{Sealed: token.EncodeText("", lost), Hidden: true}
	b, err := w.signed(record{integrationItems + testUUID, stored})
	coretest.Must(t, err)
	w.plant(t, b.Name, b.Value)

	v = w.now(t)
	at := w.Clock.Now()
	i := v.Value
	i.Archived = &at
	_, err = w.SaveIntegration(ctx, i, Secrets{}, v.Version)
	coretest.Must(t, err)
	kept := w.now(t).Value
	if kept.Archived == nil || kept.Webhook.Sealed != stored.Webhook.Sealed || !kept.Webhook.Hidden {
		t.Errorf("archived as %+v", kept)
	}
	w.Host.Sealer = ring(t, 0, 1)
	w.Directory = NewDirectory(w.Host.Host)
	if got, err := w.WebhookSecret(&kept); err != nil || got != "x" {
		t.Errorf("with its key the secret is %q, %v", got, err)
	}
	w.Host.Sealer = sealed
	w.Directory = NewDirectory(w.Host.Host)
	v = w.now(t)
	v.Value.Archived, v.Value.Webhook = nil, Webhook{URL: "https://new.example/"}
	if _, err := w.SaveIntegration(ctx, v.Value, Secrets{}, v.Version); err == nil {
		t.Error("contract 16: another URL was set, and the secret that does not open was replaced by nothing")
	}
}

// Contract 46: what the file manages is changed by the file alone.
func TestManaged_ReadOnly(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Put(ctx, aSite(), KeepRemoved, nil))
	v := w.now(t)
	p, err := w.ReadPublisher(ctx, "pub_shop")
	coretest.Must(t, err)
	if !v.Value.Managed || !p.Value.Managed {
		t.Fatalf("contract 46: not managed: %+v, %+v", v.Value, p.Value)
	}
	before, entries := w.dump(t), len(w.audited(t))
	v.Value.Managed = false
	for name, save := range map[string]func() (string, error){
		"an integration": func() (string, error) {
			return w.SaveIntegration(ctx, v.Value, Secrets{}, v.Version, w.entry(t, "x")...)
		},
		"a publisher": func() (string, error) {
			return w.SavePublisher(ctx, p.Value, p.Version, w.entry(t, "x")...)
		},
		"a staged change": func() (string, error) { return w.Promote(ctx, v, w.entry(t, "x")...) },
	} {
		if _, err := save(); !errors.Is(err, ErrManaged) {
			t.Errorf("contract 46: %s that the file manages was saved: %v", name, err)
		}
	}
	if w.dump(t) != before || len(w.audited(t)) != entries {
		t.Error("contract 46: the store was changed")
	}
	// Its publisher may make further ones by hand, and keys.
	if _, _, err := w.CreateKey(ctx, "pub_shop", testUUID, nil); err != nil {
		t.Error(err)
	}
	own := sample()
	own.ID, own.PublisherID = otherUUID, "pub_shop"
	s := secret
	if _, err := w.SaveIntegration(ctx, own, Secrets{Set: &s}, ""); err != nil {
		t.Error(err)
	}
}

// Every commit is tried with a reply that is lost, a request that is lost, and one that arrives late. The
// change is made once, the extra items are written once, and nothing happens later.
func TestLostReplies(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		prepare func(*testing.T, *fixture)
		do      func(*testing.T, *fixture) error
		done    func(*testing.T, *fixture) bool
	}{
		"SavePublisher makes one": {nil, func(t *testing.T, w *fixture) error {
			_, err := w.SavePublisher(ctx, Publisher{ID: "pub_new"}, "", w.entry(t, "x")...)
			return err
		}, func(_ *testing.T, w *fixture) bool {
			_, err := w.ReadPublisher(ctx, "pub_new")
			return err == nil
		}},
		"SavePublisher changes one": {nil, func(t *testing.T, w *fixture) error {
			p, err := w.ReadPublisher(ctx, "pub_a")
			coretest.Must(t, err)
			_, err = w.SavePublisher(ctx, Publisher{ID: "pub_a", Archived: &at}, p.Version,
				w.entry(t, "x")...)
			return err
		}, func(_ *testing.T, w *fixture) bool {
			archived, err := w.PublisherArchived(ctx, "pub_a")
			return archived && err == nil
		}},
		"SaveIntegration": {nil, func(t *testing.T, w *fixture) error {
			v := w.now(t)
			v.Value.Name = "Other"
			_, err := w.SaveIntegration(ctx, v.Value, Secrets{}, v.Version, w.entry(t, "x")...)
			return err
		}, func(t *testing.T, w *fixture) bool { return w.now(t).Value.Name == "Other" }},
		"CreateKey": {nil, func(t *testing.T, w *fixture) error {
			_, _, err := w.CreateKey(ctx, "pub_a", "", nil, w.entry(t, "x")...)
			return err
		}, func(_ *testing.T, w *fixture) bool {
			all, _, err := w.ListKeys(ctx, "pub_a", "", 10)
			return len(all) == 1 && err == nil
		}},
		"RevokeKey": {func(t *testing.T, w *fixture) {
			_, _, err := w.CreateKey(ctx, "pub_a", "", nil)
			coretest.Must(t, err)
		}, func(t *testing.T, w *fixture) error {
			all, err := listAll[Key](ctx, w.Directory, keyItems)
			coretest.Must(t, err)
			_, err = w.RevokeKey(ctx, all[0].ID, w.entry(t, "x")...)
			return err
		}, func(t *testing.T, w *fixture) bool {
			all, err := listAll[Key](ctx, w.Directory, keyItems)
			coretest.Must(t, err)
			k, err := w.FindKey(ctx, all[0].ID)
			return k.Revoked != nil && err == nil
		}},
		"Promote": {func(t *testing.T, w *fixture) { w.stage(t, "https://new.example/", "whsec_staged") },
			func(t *testing.T, w *fixture) error {
				_, err := w.Promote(ctx, w.now(t), w.entry(t, "x")...)
				return err
			}, func(t *testing.T, w *fixture) bool {
				v := w.now(t)
				ready, err := w.Ready(ctx, &v.Value)
				return v.Value.Webhook.URL == "https://new.example/" && v.Value.Staged == nil && ready &&
					err == nil
			}},
		"Put": {nil, func(_ *testing.T, w *fixture) error {
			return w.Put(ctx, Site{Publishers: []SitePublisher{{ID: "pub_file"}}}, KeepRemoved, nil)
		}, func(_ *testing.T, w *fixture) bool {
			p, err := w.ReadPublisher(ctx, "pub_file")
			return p.Value.Managed && err == nil
		}},
	} {
		for _, fault := range []kvtest.Fault{kvtest.LoseReply, kvtest.LoseRequest, kvtest.Delay,
			kvtest.Reject} {
			t.Run(fmt.Sprintf("%s, %s", name, fault), func(t *testing.T) {
				w := newFixture(t)
				w.made(t)
				if c.prepare != nil {
					c.prepare(t, w)
				}
				tried := 0
				w.Store.Decide = func(call kvtest.Call) kvtest.Fault {
					if call.Method == "Commit" {
						if tried++; tried == 1 {
							return fault
						}
					}
					return kvtest.Pass
				}
				err := c.do(t, w)
				w.Store.Decide = nil
				rejected := fault == kvtest.Reject
				if rejected == (err == nil) || rejected && !errors.Is(err, kv.ErrUnavailable) {
					t.Error(err)
				}
				w.Store.Deliver(ctx)
				w.Directory = w.another()
				if n := len(w.audited(t)); c.done(t, w) == rejected || n > 1 || (n == 0) != rejected {
					t.Errorf("done: %v, in the audit: %+v", c.done(t, w), w.audited(t))
				}
			})
		}
	}
}

// A save with an unknown outcome returns that error, and is not reported as another actor's change.
func TestSave_UnknownOutcome(t *testing.T) {
	w := newFixture(t)
	v := w.made(t)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			return kvtest.LoseReply
		}
		return kvtest.Pass
	}
	_, err := w.SaveIntegration(ctx, v.Value, Secrets{}, v.Version)
	if !errors.Is(err, kv.ErrUnknown) || errors.Is(err, ErrStale) {
		t.Errorf("%v", err)
	}
}

func TestChangesTellNoSecret(t *testing.T) {
	was, is := sample(), sample()
	staged := "whsec_staged"
	was.Webhook.URL = "https://old.example/hooks/s3cret?token=s3cret"
	is.Webhook.URL = "https://new.example/?token=s3cret"
	is.Staged = &Webhook{URL: "https://staged.example/s3cret", Sealed: "x"}
	is.Name, is.ChallengeAge, is.Managed = "Other", 40, true
	first := secret
	var got []string
	for _, c := range is.Changes(was, Secrets{Set: &first, Staged: &staged}) {
		got = append(got, c.Field+": "+c.From+" > "+c.To)
	}
	want := []string{
		"name:  > Other",
		"challenge_age: 25 > 40",
		"webhook.url: https://old.example/… > https://new.example/…",
		"webhook.secret: (secret) > (secret)",
		"staged: no > yes",
		"staged.url:  > https://staged.example/…",
		"staged.secret: (secret) > (secret)",
		"managed: no > yes",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := sample().Changes(sample(), Secrets{}); len(got) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
	// Only the query differs, which is not shown. It is a change all the same.
	is = was
	is.Webhook.URL += "2"
	if got := is.Changes(was, Secrets{}); len(got) != 1 {
		t.Errorf("of a query: %+v", got)
	}
}
