package operate

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// Contract 42: of two who change the same version, the second learns that it is no longer that.
func TestChange_LostUpdate(t *testing.T) {
	w := newFixture(t)
	seen, err := w.Integration(ctx, admin, intA)
	coretest.Must(t, err)
	_, err = w.ChangeIntegration(ctx, admin, intA, seen.Version, IntegrationInput{Name: text("First")})
	coretest.Must(t, err)
	_, err = w.ChangeIntegration(ctx, developer, intA, seen.Version, IntegrationInput{Name: text("Second")})
	if !errors.Is(err, web.PreconditionFailed) {
		t.Errorf("%v, want PRECONDITION_FAILED", err)
	}
	if is, err := w.Integration(ctx, admin, intA); err != nil || is.Name != "First" {
		t.Errorf("%q, %v", is.Name, err)
	}
}

// Contract 42: If-Match with "*" changes any version, even during concurrent changes. A named version is
// rejected then.
func TestAnyVersionIsChangedWhateverOthersDo(t *testing.T) {
	for what, change := range map[string]func(w *fixture, version, name string) error{
		"an integration": func(w *fixture, version, name string) error {
			_, err := w.ChangeIntegration(ctx, admin, intA, version, IntegrationInput{Name: &name})
			return err
		},
		"a secret": func(w *fixture, version, _ string) error {
			_, err := w.RotateSecret(ctx, admin, intA, version, true)
			return err
		},
		"a publisher": func(w *fixture, version, name string) error {
			_, err := w.ChangePublisher(ctx, admin, pubA, version, PublisherInput{Name: &name})
			return err
		},
	} {
		for _, named := range []bool{false, true} {
			t.Run(fmt.Sprint(what, ", a version is named: ", named), func(t *testing.T) {
				w := newFixture(t)
				version := ""
				if named {
					i, err := w.Integration(ctx, admin, intA)
					coretest.Must(t, err)
					if version = i.Version; what == "a publisher" {
						p, err := w.Publisher(ctx, admin, pubA)
						coretest.Must(t, err)
						version = p.Version
					}
				}
				overtaken := false
				w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
					if c.Method == "Commit" && !overtaken {
						overtaken = true
						coretest.Must(t, change(w, "", "First"))
					}
					return kvtest.Pass
				}
				err := change(w, version, "Second")
				if named && !errors.Is(err, web.PreconditionFailed) || !named && err != nil || !overtaken {
					t.Errorf("%v, overtaken: %v", err, overtaken)
				}
				w.Store.Decide = nil
				all, err := w.Audit(ctx, admin, pubA, Cursor{})
				coretest.Must(t, err)
				if want := map[bool]int{true: 1, false: 2}[named]; len(all.Items) != want {
					t.Errorf("the audit has %d entries, want %d", len(all.Items), want)
				}
			})
		}
	}
}

// TestChange_Unchanged: contract 42: a change to the stored values has no audit entry and no new version.
func TestChange_Unchanged(t *testing.T) {
	const secret = "whsec_Jx2m9QpL0vTzR4kW7nBd"
	w := newFixture(t)
	_, err := w.ChangeIntegration(ctx, admin, intA, "",
		IntegrationInput{WebhookInput: &WebhookInput{Secret: text(secret)}})
	coretest.Must(t, err)
	staged, err := w.StageWebhook(ctx, admin, intA, "", WebhookInput{URL: text("https://new.example/")})
	coretest.Must(t, err)
	p, err := w.Publisher(ctx, admin, pubA)
	coretest.Must(t, err)
	in := IntegrationInput{Name: &staged.Name, Level: &staged.Level, ChallengeAge: &staged.ChallengeAge,
		Methods: &[]string{"sandbox"}, CallbackOrigins: &staged.CallbackOrigins, Passkeys: text("off"),
		WebhookInput: &WebhookInput{URL: &staged.Webhook.URL, Secret: text(secret)}}
	for range 2 {
		is, err := w.ChangeIntegration(ctx, admin, intA, staged.Version, in)
		if err != nil || is.Version != staged.Version || is.Staged == nil || is.Name != staged.Name {
			t.Errorf("%+v, %v; want version %s", is, err, staged.Version)
		}
		_, err = w.StageWebhook(ctx, admin, intA, "", WebhookInput{URL: text("https://new.example/"),
			Secret: text(secret)})
		coretest.Must(t, err)
		got, err := w.ChangePublisher(ctx, admin, pubA, p.Version, PublisherInput{Name: &p.Name})
		if err != nil || got.Version != p.Version || got.Name != p.Name {
			t.Errorf("%+v, %v; want version %s", got, err, p.Version)
		}
	}
	all, err := w.Audit(ctx, admin, pubA, Cursor{})
	if err != nil || len(all.Items) != 2 {
		t.Errorf("the audit has %+v, %v; want the secret and the staging", all.Items, err)
	}
	removed, err := w.Directory.ReadIntegration(ctx, intA)
	coretest.Must(t, err)
	removed.Value.Removed = true
	coretest.Must(t, w.Directory.PutIntegration(ctx, removed.Value, secret))
	_, err = w.ChangeIntegration(ctx, admin, intA, "", in)
	coretest.Must(t, err)
	if is, err := w.Integration(ctx, admin, intA); err != nil || is.Removed {
		t.Errorf("contract 46: an integration without a block in the file, saved by hand: %+v, %v", is, err)
	}
	if _, err := w.ChangeIntegration(ctx, admin, intA, "0", in); !errors.Is(err, web.PreconditionFailed) {
		t.Errorf("another version: %v", err)
	}
}

// A webhook secret is one line of printable ASCII (contract 13), and so is a staged secret.
func TestWebhookSecretIsOneLine(t *testing.T) {
	const good = "whsec_Jx2m9QpL0vTzR4kW7nBd"
	for given, says := range map[string]string{
		good:            "",
		good + "\n":     "more than one line",
		good + "\r\nx":  "more than one line",
		good + "\u200b": "byte 27 of it is not printable ASCII",
		"\ufeff" + good: "byte 1 of it is not printable ASCII",
		good + "\t":     "not printable ASCII",
		"größe" + good:  "not printable ASCII",
	} {
		w := newFixture(t)
		i := &WebhookInput{URL: text("https://hooks.shop.example/a"), Secret: &given}
		age := 25
		_, created := w.CreateIntegration(ctx, admin, IntegrationInput{Publisher: pubA, Name: text("Shop"),
			Level: text("L1"), ChallengeAge: &age, Methods: &[]string{"sandbox"}, WebhookInput: i})
		_, staged := w.StageWebhook(ctx, admin, intA, "", *i)
		for what, err := range map[string]error{"created": created, "staged": staged} {
			var wrong *web.Error
			if says == "" {
				if err != nil {
					t.Errorf("%s with a good secret: %v", what, err)
				}
			} else if !errors.As(err, &wrong) || wrong.Details[0].Field != "webhook_secret" ||
				!strings.Contains(wrong.Details[0].Message, says) ||
				strings.Contains(wrong.Details[0].Message, good) {
				t.Errorf("%s with %q: %v", what, given, err)
			}
		}
	}
}

// Origins are kept as browsers write them (contract 32).
func TestOriginsAreKeptAsBrowsersWriteThem(t *testing.T) {
	w := newFixture(t)
	typed := []string{"https://Shop.example:443", "https://shop.example:8443"}
	age := 25
	made, err := w.CreateIntegration(ctx, admin, IntegrationInput{Publisher: pubA, Name: text("Shop"),
		Level: text("L1"), ChallengeAge: &age, Methods: &[]string{"sandbox"}, CallbackOrigins: &typed,
		BrowserOrigins: &typed})
	coretest.Must(t, err)
	want := []string{"https://shop.example", "https://shop.example:8443"}
	if !slices.Equal(made.CallbackOrigins, want) || !slices.Equal(made.BrowserOrigins, want) {
		t.Errorf("kept as %q and %q", made.CallbackOrigins, made.BrowserOrigins)
	}
	for origin, says := range map[string]string{"https://größe.example": "https://xn--gre-6ka8i.example",
		"https://*.shop.example": "no wildcards", "https://shop.example:0": "port"} {
		_, err := w.ChangeIntegration(ctx, admin, made.ID, "",
			IntegrationInput{BrowserOrigins: &[]string{origin}})
		var wrong *web.Error
		if !errors.As(err, &wrong) || wrong.Details[0].Field != "browser_origins" ||
			!strings.Contains(wrong.Details[0].Message, says) {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

// All wrong values are reported together (contract 5), by their names in forms and the API.
func TestChange_WrongValues(t *testing.T) {
	w := newFixture(t)
	age, attempts := 120, 99
	_, err := w.CreateIntegration(ctx, admin, IntegrationInput{Publisher: pubA, Name: text(" "),
		Level: text("L9"), ChallengeAge: &age, Attempts: &attempts, Methods: &[]string{"nothing"},
		CallbackOrigins: &[]string{
			"ftp://x",
		}, WebhookInput: &WebhookInput{URL: text("http://plain.example/")}})
	wrong, ok := errors.AsType[*web.Error](err)
	if !ok {
		t.Fatal(err)
	}
	for _, field := range []string{"name", "level", "challenge_age", "attempts", "methods",
		"callback_origins", "webhook_url"} {
		found := false
		for _, f := range wrong.Details {
			found = found || f.Field == field && f.Message != "" && f.Code != ""
		}
		if !found {
			t.Errorf("%s is wrong and not named in %+v", field, wrong.Details)
		}
	}
}

// Contract 25: a staged change leaves the old address and secret at work until the staged ones are Ready.
func TestStagedChange_Ready(t *testing.T) {
	w := newFixture(t)
	w.answer = w.verifying(secret)
	report, err := w.TestWebhook(ctx, developer, intA, false)
	coretest.Must(t, err)
	if !report.Ready {
		t.Fatalf("%+v", report)
	}
	staged, err := w.StageWebhook(ctx, developer, intA, "",
		WebhookInput{URL: text("https://new.publisher.example/hook"), NewSecret: true})
	coretest.Must(t, err)
	if staged.Secret == "" || !staged.Ready ||
		staged.Webhook.URL != "https://hooks.publisher.example/?token=canary" {
		t.Errorf("after staging: secret %q, %+v", staged.Secret, staged.Integration)
	}
	if report, err = w.TestWebhook(ctx, developer, intA, true); err != nil || report.Ready ||
		report.Promoted {
		t.Errorf("a receiver that does not know the new secret: %+v, %v", report, err)
	}
	w.answer = w.verifying(staged.Secret)
	if report, err = w.TestWebhook(ctx, developer, intA, true); err != nil || !report.Promoted {
		t.Fatalf("%+v, %v", report, err)
	}
	is, err := w.Integration(ctx, viewer, intA)
	coretest.Must(t, err)
	if !is.Ready || is.Staged != nil || is.Webhook.URL != "https://new.publisher.example/hook" {
		t.Errorf("after the staged one was Ready: %+v", is)
	}
}

// A new address with the same secret can be staged, too.
func TestStagedChange_AddressOnly(t *testing.T) {
	w := newFixture(t)
	_, err := w.StageWebhook(ctx, admin, intA, "",
		WebhookInput{URL: text("https://new.publisher.example/hook")})
	coretest.Must(t, err)
	w.answer = w.verifying(secret)
	if report, err := w.TestWebhook(ctx, admin, intA, true); err != nil || !report.Promoted {
		t.Errorf("%+v, %v", report, err)
	}
}

// A promotion restores no part of the webhook that was replaced after the staging.
func TestStagedChange_ActiveReplaced(t *testing.T) {
	const (
		address    = "https://hooks.publisher.example/?token=canary"
		newAddress = "https://new.publisher.example/"
		other      = "https://other.publisher.example/"
	)
	for _, c := range []struct {
		name      string
		staged    WebhookInput
		replace   func(w *fixture) (secret string)
		url       string
		newSecret bool // the staged one is active
	}{
		{"contract 25: a rotated secret", WebhookInput{URL: text(newAddress)}, func(w *fixture) string {
			r, err := w.RotateSecret(ctx, operator, intA, "", false)
			coretest.Must(t, err)
			return r.Secret
		}, newAddress, false},
		{"contract 25: another address", WebhookInput{NewSecret: true}, func(w *fixture) string {
			_, err := w.ChangeIntegration(ctx, operator, intA, "",
				IntegrationInput{WebhookInput: &WebhookInput{URL: text(other)}})
			coretest.Must(t, err)
			return ""
		}, other, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			staged, err := w.StageWebhook(ctx, operator, intA, "", c.staged)
			coretest.Must(t, err)
			want := c.replace(w)
			if c.newSecret {
				want = staged.Secret
			}
			w.answer = w.verifying(secret)
			if r, err := w.TestWebhook(ctx, operator, intA, true); err != nil || r.Promoted {
				t.Errorf("a receiver with the old secret: %+v, %v", r, err)
			}
			w.answer = w.verifying(want)
			if r, err := w.TestWebhook(ctx, operator, intA, true); err != nil || !r.Promoted {
				t.Fatalf("a receiver with the new secret: %+v, %v", r, err)
			}
			i, err := w.Directory.ReadIntegration(ctx, intA)
			coretest.Must(t, err)
			now, err := w.Directory.WebhookSecret(&i.Value)
			if err != nil || now != want || i.Value.Webhook.URL != c.url || i.Value.Webhook.URL == address {
				t.Errorf("the active webhook is %q, with the new secret: %v, %v", i.Value.Webhook.URL,
					now == want, err)
			}
		})
	}
}

// Switching events off drops the staged webhook: its test would switch them on again.
func TestStagedChange_EventsOff(t *testing.T) {
	w := newFixture(t)
	stages := WebhookInput{URL: text("https://new.publisher.example/hook")}
	_, err := w.StageWebhook(ctx, admin, intA, "", stages)
	coretest.Must(t, err)
	old, err := w.Directory.ReadIntegration(ctx, intA) // of an earlier release, which kept both
	coretest.Must(t, err)
	both := old.Value
	both.Webhook = integration.Webhook{Off: true}
	coretest.Must(t, w.Directory.PutIntegration(ctx, both, ""))
	w.answer = w.verifying(secret)
	if report, err := w.TestWebhook(ctx, admin, intA, true); err == nil {
		t.Errorf("contract 25: the staged webhook is tested: %+v", report)
	}
	off := true
	_, err = w.ChangeIntegration(ctx, admin, intA, "",
		IntegrationInput{WebhookInput: &WebhookInput{Off: &off}})
	coretest.Must(t, err)
	is, err := w.Integration(ctx, viewer, intA)
	coretest.Must(t, err)
	if is.Staged != nil || !is.Webhook.Off {
		t.Errorf("contract 25: after events are off: %+v", is)
	}
}

// Contract 46: what the configuration file names is changed there.
func TestManaged_ReadOnly(t *testing.T) {
	w := newFixture(t)
	site := fmt.Sprintf(
		`{"publishers":[{"id":"pub_f","name":"File"}],"integrations":[{"id":%q,"publisher":"pub_f",
		"name":"Shop","level":"L1","challenge_age":25,"method":"sandbox","webhook_off":true}]}`,
		strings.Replace(intA, "694069ac", "abcdabcd", 1),
	)
	planned, err := w.PlanSite(ctx, operator, []byte(site))
	coretest.Must(t, err)
	applied, err := w.ApplySite(ctx, operator, []byte(site))
	coretest.Must(t, err)
	if len(planned) != 2 || len(applied) != 2 {
		t.Errorf("planned %+v, applied %+v", planned, applied)
	}
	for name, change := range map[string]func() error{
		"publisher": func() error {
			_, err := w.ChangePublisher(ctx, operator, "pub_f", "", PublisherInput{Name: text("x")})
			return err
		},
		"integration": func() error {
			id := strings.Replace(intA, "694069ac", "abcdabcd", 1)
			_, err := w.ChangeIntegration(ctx, operator, id, "", IntegrationInput{Name: text("x")})
			return err
		},
	} {
		if err := change(); !errors.Is(err, ErrManaged) {
			t.Errorf("contract 46: %s: %v, want ErrManaged", name, err)
		}
	}
	if again, err := w.PlanSite(ctx, operator, []byte(site)); err != nil || len(again) != 0 {
		t.Errorf("after it was applied the plan is %+v, %v", again, err)
	}
}

// Contract 42: the audit has every change, and no secret, key, token or link, nor does the log.
func TestAudit_NoSecrets(t *testing.T) {
	w := newFixture(t)
	var secrets []string
	made, err := w.CreateIntegration(ctx, admin, IntegrationInput{Publisher: pubA, Name: text("New"),
		WebhookInput: &WebhookInput{URL: text("https://h.example/path?token=canary-token")}})
	coretest.Must(t, err)
	rotated, err := w.RotateSecret(ctx, admin, made.ID, made.Version, false)
	coretest.Must(t, err)
	staged, err := w.RotateSecret(ctx, admin, made.ID, "", true)
	coretest.Must(t, err)
	key, err := w.CreateKey(ctx, developer, KeyInput{Publisher: pubA})
	coretest.Must(t, err)
	invited, err := w.Invite(ctx, admin, pubA, "Ina", RoleViewer)
	coretest.Must(t, err)
	link, err := w.CreateLink(ctx, operator, pubA, "Lea", RoleViewer)
	coretest.Must(t, err)
	token, err := w.CreateOperatorToken(ctx, operator, "Otto", RoleViewer, nil)
	coretest.Must(t, err)
	_, link.Link, _ = strings.Cut(link.Link, "link=")
	_, invited.Link, _ = strings.Cut(invited.Link, "invitation=")
	secrets = append(secrets, made.Secret, rotated.Secret, staged.Secret, key.Key, invited.Link, link.Link,
		token.Token)
	for n, s := range secrets {
		if len(s) < 10 {
			t.Errorf("secret %d is %q", n, s)
		}
	}
	all, err := w.Audit(ctx, operator, "", Cursor{})
	coretest.Must(t, err)
	var ops []string
	for _, e := range all.Items {
		ops = append(ops, string(e.Operation))
		if e.ActorID == "" || e.At.IsZero() {
			t.Errorf("an entry without its actor or time: %+v", e)
		}
	}
	slices.Sort(ops) // they are of one instant
	want := "integration.create key.create link.create member.invite operator.create " +
		"webhook.change webhook.change"
	if got := strings.Join(ops, " "); got != want {
		t.Errorf("the audit has %q, want %q", got, want)
	}
	items, err := w.Memory.List(ctx, kv.Key{Partition: "c"}, "", 1000)
	coretest.Must(t, err)
	for _, s := range secrets {
		for _, it := range items {
			if bytes.Contains(it.Value, []byte(s)) {
				t.Errorf("contract 19: %s holds a secret", it.Key)
			}
			if strings.Contains(it.Key.Name, "aud/") && bytes.Contains(it.Value, []byte("canary-token")) {
				t.Errorf("%s shows the path or the query of a webhook", it.Key)
			}
		}
		if strings.Contains(w.Logged.String(), s) {
			t.Error("contract 13: the log holds a secret")
		}
	}
	if of, err := w.Audit(ctx, viewer, pubA, Cursor{}); err != nil || len(of.Items) != 6 {
		t.Errorf("the publisher's audit has %d entries, %v; want the 6 that concern it", len(of.Items), err)
	}
}

// An audit entry is written in the commit of its change: a change that fails has none, and one whose reply is
// lost has one.
func TestAudit_SameCommit(t *testing.T) {
	for name, fault := range map[string]kvtest.Fault{"the commit fails": kvtest.Reject,
		"the reply is lost": kvtest.LoseReply} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			failed := false
			w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
				if c.Method != "Commit" || failed {
					return kvtest.Pass
				}
				failed = true
				return fault
			}
			_, err := w.ChangePublisher(ctx, admin, pubA, "", PublisherInput{Name: text("Other")})
			p, readErr := w.Publisher(ctx, admin, pubA)
			coretest.Must(t, readErr)
			all, readErr := w.Audit(ctx, admin, pubA, Cursor{})
			coretest.Must(t, readErr)
			changed := p.Name == "Other"
			if (len(all.Items) == 1) != changed || (err == nil) != changed {
				t.Errorf("changed: %v, entries: %d, error: %v", changed, len(all.Items), err)
			}
		})
	}
}

// Contract 12: a key that another request revokes at the same time is revoked, and the audit has one entry.
func TestRevokeKey_Concurrent(t *testing.T) {
	w := newFixture(t)
	k, err := w.CreateKey(ctx, operator, KeyInput{Publisher: pubA})
	coretest.Must(t, err)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			w.Store.Decide = nil
			_, err := w.RevokeKey(ctx, operator, k.Info.ID)
			coretest.Must(t, err)
		}
		return kvtest.Pass
	}
	got, err := w.RevokeKey(ctx, operator, k.Info.ID)
	if err != nil || got.Revoked == nil {
		t.Errorf("%+v, %v", got, err)
	}
	all, err := w.Audit(ctx, admin, pubA, Cursor{})
	coretest.Must(t, err)
	if len(all.Items) != 2 { // created, revoked
		t.Errorf("the audit has %+v", all.Items)
	}
}

// A publisher's first page lists the remaining steps and the completed ones.
func TestOverview_GoLive(t *testing.T) {
	w := newFixture(t)
	p, err := w.CreatePublisher(ctx, operator, PublisherInput{Name: text("New")})
	coretest.Must(t, err)
	done := func() string {
		o, err := w.Overview(ctx, operator, p.ID)
		coretest.Must(t, err)
		var steps []string
		for _, s := range o.Steps {
			if s.Done {
				steps = append(steps, s.Name)
			}
		}
		return strings.Join(steps, " ")
	}
	if got := done(); got != "" {
		t.Errorf("at first: %q", got)
	}
	i, err := w.CreateIntegration(ctx, operator, IntegrationInput{Publisher: p.ID, Name: text("Shop"),
		WebhookInput: &WebhookInput{URL: text("https://hooks.publisher.example/")}})
	coretest.Must(t, err)
	if got := done(); got != "integration" {
		t.Errorf("with an integration: %q", got)
	}
	w.answer = w.verifying(i.Secret)
	_, err = w.TestWebhook(ctx, operator, i.ID, false)
	coretest.Must(t, err)
	_, err = w.CreateKey(ctx, operator, KeyInput{Publisher: p.ID})
	coretest.Must(t, err)
	w.Clock.Advance(6 * time.Second) // past the life of the directory's cache
	if got := done(); got != "integration webhook key" {
		t.Errorf("with a webhook and a key: %q", got)
	}
	counts := host.Counts{}
	counts.Add(host.OutcomeCompleted, 1)
	coretest.Must(t, w.Counted.Record(ctx, host.Totals{Days: []host.DayTotal{{Integration: i.ID,
		Day: host.DayOf(w.Clock.Now()), Instance: "one", Counts: counts}}}))
	if got := done(); got != "integration webhook key session" {
		t.Errorf("after a session in the sandbox: %q", got)
	}
	_, err = w.ChangeIntegration(ctx, operator, i.ID, "",
		IntegrationInput{Methods: &[]string{"sandbox", "register"}})
	coretest.Must(t, err)
	w.Clock.Advance(6 * time.Second)
	if got := done(); got != "integration webhook key session method" {
		t.Errorf("with a method that verifies people: %q", got)
	}
	w.Operations.Dev = true // where methods are simulated
	if got := done(); got != "integration webhook key session" {
		t.Errorf("contract 44: with the same method in development: %q", got)
	}
}

// Revoked keys and archived integrations, which are never deleted, do not hide the active ones.
func TestOverview_AfterManyEnded(t *testing.T) {
	w := newFixture(t)
	p, err := w.CreatePublisher(ctx, operator, PublisherInput{Name: text("New")})
	coretest.Must(t, err)
	for range 60 {
		k, err := w.CreateKey(ctx, operator, KeyInput{Publisher: p.ID})
		coretest.Must(t, err)
		_, err = w.RevokeKey(ctx, operator, k.Info.ID)
		coretest.Must(t, err)
	}
	for n := range overviewIntegrations + 5 {
		i, err := w.CreateIntegration(ctx, operator, IntegrationInput{Publisher: p.ID, Name: text("Shop")})
		coretest.Must(t, err)
		if n > 0 {
			_, err = w.ArchiveIntegration(ctx, operator, i.ID, "")
			coretest.Must(t, err)
		}
	}
	for range 5 { // keys are listed by their hash, in a random order
		_, err = w.CreateKey(ctx, operator, KeyInput{Publisher: p.ID})
		coretest.Must(t, err)
		o, err := w.Overview(ctx, operator, p.ID)
		coretest.Must(t, err)
		if !o.Steps[0].Done || !o.Steps[2].Done || o.More {
			t.Errorf("contract 44: %+v", o)
		}
	}
}

func TestOverview_UnknownPublisher(t *testing.T) {
	w := newFixture(t)
	if o, err := w.Overview(ctx, operator, "pub_nobody"); !errors.Is(err, web.ErrNotFound) {
		t.Errorf("contract 5, 404: the overview of a missing publisher: %+v, %v", o, err)
	}
}

// A search compares names and ids, continues where a response ends, and finds all matches.
func TestSearchByName(t *testing.T) {
	w := newFixture(t)
	const many = 2*MaxLimit + 7
	for n := range many {
		name := fmt.Sprintf("Shop %03d", n)
		if n%100 == 0 {
			name = fmt.Sprintf("Kiosk %03d ÄÖ", n)
		}
		_, err := w.CreatePublisher(ctx, operator,
			PublisherInput{ID: fmt.Sprintf("pub_n%03d", n), Name: &name})
		coretest.Must(t, err)
	}
	named := "Other"
	_, err := w.CreatePublisher(ctx, operator, PublisherInput{ID: "pub_AcmeCorp", Name: &named})
	coretest.Must(t, err)
	for _, c := range []struct {
		name        string
		limit, want int
	}{{"kiosk", 0, 5}, {"acmec", 0, 1}, {"ACMEC", 0, 1}, {" KIOSK ", 2, 5}, {"äö", 1, 5},
		{"shop", 100, many - 5}, {"pub_n40", 3, 7}, {"nobody", 0, 0}} {
		var got []string
		for cursor := (Search{Name: c.name, Cursor: Cursor{Limit: c.limit}}); ; {
			page, err := w.Publishers(ctx, operator, cursor)
			coretest.Must(t, err)
			if len(page.Items) > cursor.limit() {
				t.Errorf("%q: a part of %d, want at most %d", c.name, len(page.Items), cursor.limit())
			}
			for _, p := range page.Items {
				got = append(got, p.ID)
			}
			if cursor.After = page.Next; cursor.After == "" {
				break
			}
		}
		if !slices.IsSorted(got) || len(slices.Compact(got)) != c.want {
			t.Errorf("%q: found %d, want %d: %v", c.name, len(got), c.want, got)
		}
	}
	for name, want := range map[string]int{"shop": 1, intA[:8]: 1, intB[:8]: 0, "kiosk": 0} {
		page, err := w.Integrations(ctx, viewer, pubA, Search{Name: name})
		coretest.Must(t, err)
		if len(page.Items) != want {
			t.Errorf("%q: found %d integrations, want %d", name, len(page.Items), want)
		}
	}
}

// The step session links to an integration for a test session, if there is one.
func TestOverview_TestSession(t *testing.T) {
	const first = "00000000-0000-4000-8000-000000000001"
	w := newFixture(t)
	coretest.Must(t, w.Directory.PutIntegration(ctx, integration.Integration{ID: first, PublisherID: pubA,
		Name: "First", Level: "L1", ChallengeAge: 25, Method: "sandbox", Methods: []string{"sandbox", "bank"},
		Webhook: integration.Webhook{Off: true}}, ""))
	want := map[string]string{StepIntegration: first, StepWebhook: first, StepKey: first, StepSession: intA,
		StepMethod: first}
	o, err := w.Overview(ctx, developer, pubA)
	coretest.Must(t, err)
	for _, s := range o.Steps {
		if s.Integration != want[s.Name] {
			t.Errorf("the step %s leads to %s, want %s", s.Name, s.Integration, want[s.Name])
		}
	}
	_, err = w.ArchiveIntegration(ctx, admin, intA, "")
	coretest.Must(t, err)
	o, err = w.Overview(ctx, developer, pubA)
	coretest.Must(t, err)
	if step := o.Steps[3]; step.Name != StepSession || step.Integration != "" {
		t.Errorf("without such an integration the step %s leads to %q, want none", step.Name,
			step.Integration)
	}
}

// An archived integration cannot be changed or tested, and starts no test session.
func TestArchive_KeepsRecords(t *testing.T) {
	w := newFixture(t)
	i, err := w.ArchiveIntegration(ctx, admin, intA, "")
	coretest.Must(t, err)
	if i.Archived == nil {
		t.Error("it is not archived")
	}
	_, err = w.ChangeIntegration(ctx, admin, intA, "", IntegrationInput{Name: text("x")})
	if !errors.Is(err, ErrArchived) {
		t.Errorf("a change: %v", err)
	}
	if _, err := w.StartTestSession(ctx, admin, intA, "https://www.publisher.example/"); !errors.Is(err,
		ErrArchived) {
		t.Errorf("a test session: %v", err)
	}
	sent := 0
	w.answer = func(host.FetchRequest) (int, error) { sent++; return 200, nil }
	if _, err := w.TestWebhook(ctx, admin, intA, false); !errors.Is(err, ErrArchived) || sent > 0 {
		t.Errorf("contract 42: the webhook test of an archived integration: %v, %d requests", err, sent)
	}
	if _, err := w.CreateKey(ctx, admin, KeyInput{Publisher: pubA, Integration: intA}); !errors.Is(err,
		ErrArchived) {
		t.Errorf("a public key: %v", err)
	}
	if stored, err := w.Directory.ReadIntegration(ctx, intA); err != nil ||
		stored.Value.Webhook == (integration.Webhook{}) {
		t.Errorf("its webhook, for active sessions: %+v, %v", stored.Value.Webhook, err)
	}
}

// The integrations of an archived publisher start no session, not even one to try things out.
func TestArchive_NoTests(t *testing.T) {
	w := newFixture(t)
	start := func() error {
		_, err := w.StartTestSession(ctx, admin, intA, "https://www.publisher.example/")
		return err
	}
	w.answer = w.verifying(secret)
	_, err := w.TestWebhook(ctx, admin, intA, false)
	coretest.Must(t, err)
	coretest.Must(t, start())
	_, err = w.ArchivePublisher(ctx, operator, pubA, "")
	coretest.Must(t, err)
	if err := start(); !errors.Is(err, ErrArchived) {
		t.Errorf("contract 46: a test session of an archived publisher: %v", err)
	}
}

// A cursor that no list gave is the caller's mistake, in every list, and no failure of the service.
func TestList_ForeignCursor(t *testing.T) {
	w := newFixture(t)
	c := Cursor{After: "c/of/" + pubB + "/~"}
	for list, ask := range map[string]func() error{
		"publishers": func() error { _, err := w.Publishers(ctx, operator, Search{Cursor: c}); return err },
		"integrations": func() error {
			_, err := w.Integrations(ctx, admin, pubA, Search{Cursor: c})
			return err
		},
		"keys":        func() error { _, err := w.Keys(ctx, admin, pubA, c); return err },
		"members":     func() error { _, err := w.Members(ctx, admin, pubA, c); return err },
		"invitations": func() error { _, err := w.Invitations(ctx, admin, pubA, c); return err },
		"operators":   func() error { _, err := w.OperatorTokens(ctx, operator, c); return err },
		"audit":       func() error { _, err := w.Audit(ctx, admin, pubA, c); return err },
		"deliveries": func() error {
			_, err := w.Deliveries(ctx, admin, DeliveryQuery{Integration: intA, Cursor: c})
			return err
		},
		"dead events": func() error { _, err := w.Dead(ctx, operator, c); return err },
		"dead events, behind none": func() error {
			_, err := w.Dead(ctx, operator, Cursor{After: "p0:"})
			return err
		},
		"waiting events, of no partition": func() error {
			_, err := w.Waiting(ctx, operator, Cursor{After: "p9:evt_1"})
			return err
		},
	} {
		var wrong *web.Error
		if err := ask(); !errors.As(err, &wrong) || len(wrong.Details) != 1 ||
			wrong.Details[0].Field != "after" {
			t.Errorf("%s: %v", list, err)
		}
	}
}

// Such characters would hide the reading direction or the end of a name.
func TestName_InvisibleCharacters(t *testing.T) {
	w := newFixture(t)
	for _, name := range []string{"a\u202eb", "a\u2028b", "a\u200bb", "a\nb", "a\x00b", "a\xff"} {
		_, err := w.CreatePublisher(ctx, operator, PublisherInput{Name: text(name)})
		var wrong *web.Error
		if !errors.As(err, &wrong) || wrong.Details[0].Field != "name" {
			t.Errorf("%q: %v", name, err)
		}
	}
	joined := PublisherInput{Name: text("\u0645\u06cc\u200c\u062e 1 <b>")}
	if _, err := w.CreatePublisher(ctx, operator, joined); err != nil {
		t.Error(err)
	}
}

// Contract 52: no publisher has the name of the service, in any case and with any invisible characters.
func TestName_OfTheService(t *testing.T) {
	w := newFixture(t)
	w.ServiceName = "Verge ID"
	for name, rejected := range map[string]bool{"Verge ID": true, "VERGEid": true, " verge\u00a0id ": true,
		"Ver\u200cge ID": true, "Verge\u200d ID": true, "Verge\ufe0f ID": true, "Verge\u3164ID": true,
		"Verge\u2800ID": true, "Ver\u034fge ID": true, "Verge IDs": false, "Verge": false} {
		_, err := w.CreatePublisher(ctx, operator, PublisherInput{Name: text(name)})
		var wrong *web.Error
		if errors.As(err, &wrong) != rejected {
			t.Errorf("%+q: %v, rejected must be %v", name, err, rejected)
		}
	}
}

// Contract 42: a body can change every setting of an integration.
func TestIntegrationInput_EverySetting(t *testing.T) {
	for _, s := range integration.Settings {
		field := reflect.TypeOf(s.Of(&IntegrationInput{})).Elem() // panics if there is no such field
		if want := reflect.TypeOf(s.Value(&integration.Integration{})); field != reflect.PointerTo(want) {
			t.Errorf("%s is %v in the input, want a pointer to %v", s.Name, field, want)
		}
	}
}
