package integration

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/token"
)

// stage stages a URL and a secret. "" keeps the current one.
func (w *fixture) stage(t testing.TB, url, staged string) Versioned[Integration] {
	t.Helper()
	v := w.now(t)
	i := v.Value
	i.Staged = &Webhook{URL: url}
	s := Secrets{}
	if staged != "" {
		s.Staged = &staged
	}
	_, err := w.SaveIntegration(ctx, i, s, v.Version)
	coretest.Must(t, err)
	return w.now(t)
}

// readied creates an integration whose webhook is ready.
func (w *fixture) readied(t testing.TB) Versioned[Integration] {
	t.Helper()
	v := w.made(t)
	coretest.Must(t, w.RecordReadiness(ctx, &v.Value, secret, true))
	return v
}

func (w *fixture) ready(t testing.TB, d *Directory) bool {
	t.Helper()
	ok, err := d.Ready(ctx, w.integration(t, d))
	coretest.Must(t, err)
	return ok
}

// Contract 25: a staged webhook has no effect until it is promoted. Then it takes effect as a whole.
func TestStage_Webhook(t *testing.T) {
	for _, c := range []struct {
		name, url, staged  string
		wantURL, wantValue string
	}{
		{"URL and secret", "https://new.example/", "whsec_staged", "https://new.example/", "whsec_staged"},
		{"the URL alone", "https://new.example/", "", "https://new.example/", secret},
		{"the secret alone", "", "whsec_staged", sample().Webhook.URL, "whsec_staged"},
	} {
		t.Run("contract 25: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			bound(t, w)
			w.readied(t)
			v := w.stage(t, c.url, c.staged)
			if v.Value.Staged == nil || v.Value.Staged.URL != c.wantURL || v.Value.Staged.Hidden {
				t.Fatalf("staged: %+v", v.Value.Staged)
			}
			if got, err := w.StagedSecret(&v.Value); err != nil || got != c.wantValue {
				t.Errorf("the staged secret is %q, %v", got, err)
			}
			if got, err := w.WebhookSecret(&v.Value); err != nil || got != secret ||
				v.Value.Webhook.URL != sample().Webhook.URL {
				t.Errorf("meanwhile events go to %s with %q, %v", v.Value.Webhook.URL, got, err)
			}
			if !w.ready(t, w.Directory) || !w.ready(t, w.another()) {
				t.Error("contract 25: a staged change resets readiness")
			}
			if dump := w.dump(t); strings.Contains(dump, "new.example") || strings.Contains(dump, "whsec_") {
				t.Error("contract 19: the store holds what is staged in the clear")
			}

			version, err := w.Promote(ctx, v)
			coretest.Must(t, err)
			now := w.now(t)
			got, err := w.WebhookSecret(&now.Value)
			if err != nil || got != c.wantValue || now.Value.Webhook.URL != c.wantURL ||
				now.Value.Staged != nil || now.Version != version {
				t.Errorf("in place: %+v, %q, %v", now, got, err)
			}
			if !w.ready(t, w.Directory) || !w.ready(t, w.another()) {
				t.Error("contract 25: it is in place and not ready")
			}
			if at, tested, err := w.LastTest(ctx, &now.Value); !tested || err != nil ||
				!at.Equal(w.Clock.Now()) {
				t.Errorf("last test: %v, %v, %v", at, tested, err)
			}
		})
	}
}

func TestPromoteRejects(t *testing.T) {
	w := newFixture(t)
	v := w.readied(t)
	if _, err := w.Promote(ctx, v); !errors.Is(err, errNotStaged) {
		t.Errorf("nothing is staged: %v", err)
	}
	if _, err := w.StagedSecret(&v.Value); !errors.Is(err, errNotStaged) {
		t.Errorf("nothing is staged: %v", err)
	}
	tested := w.stage(t, "https://new.example/", "whsec_staged")
	w.stage(t, "https://other.example/", "whsec_other")
	if _, err := w.Promote(ctx, tested); !errors.Is(err, ErrStale) {
		t.Errorf("contract 25: something else was staged after the test: %v", err)
	}
	now := w.now(t)
	if now.Value.Webhook.URL != sample().Webhook.URL || !w.ready(t, w.Directory) {
		t.Errorf("contract 25: after a refusal there is %+v", now.Value.Webhook)
	}
	at := w.Clock.Now()
	now.Value.Archived = &at
	_, err := w.SaveIntegration(ctx, now.Value, Secrets{}, now.Version)
	coretest.Must(t, err)
	if _, err := w.Promote(ctx, w.now(t)); !errors.Is(err, ErrArchived) {
		t.Errorf("contract 46: an archived integration got another webhook: %v", err)
	}
}

// Contract 25: an unstaged change resets readiness, even next to a staged change.
func TestStage_Unstaged(t *testing.T) {
	w := newFixture(t)
	w.readied(t)
	v := w.stage(t, "https://new.example/", "whsec_staged")
	v.Value.Webhook.URL = "https://elsewhere.example/"
	_, err := w.SaveIntegration(ctx, v.Value, Secrets{}, v.Version)
	coretest.Must(t, err)
	if w.ready(t, w.Directory) {
		t.Error("contract 25: an unstaged change left the integration ready")
	}
	now := w.now(t)
	if got, err := w.StagedSecret(&now.Value); err != nil || got != "whsec_staged" {
		t.Errorf("what was staged: %q, %v", got, err)
	}
	now.Value.Staged = nil
	_, err = w.SaveIntegration(ctx, now.Value, Secrets{}, now.Version)
	coretest.Must(t, err)
	if strings.Contains(w.dump(t), `"staged"`) {
		t.Error("what is no longer staged is still stored")
	}
}

// Instances that have not read the integration again, or not the readiness, still start sessions. Without
// that a change that was staged to avoid a gap would make one of five seconds.
func TestNoInstanceIsUnreadyWhileAChangeTakesItsPlace(t *testing.T) {
	w := newFixture(t)
	w.readied(t)
	oldIntegration, oldReadiness := w.another(), w.another()
	v := w.stage(t, "https://new.example/", "whsec_staged")
	seen := w.integration(t, oldIntegration) // with the old webhook
	if !w.ready(t, oldReadiness) {
		t.Fatal("not ready before")
	}
	_, err := w.Promote(ctx, v)
	coretest.Must(t, err)
	if ok, err := oldIntegration.Ready(ctx, seen); !ok || err != nil {
		t.Errorf("contract 25: with the integration of before: ready %v, %v", ok, err)
	}
	now := w.now(t)
	if ok, err := oldReadiness.Ready(ctx, &now.Value); !ok || err != nil {
		t.Errorf("contract 25: with the readiness of before: ready %v, %v", ok, err)
	}
	// Later the earlier webhook is no longer ready.
	w.Clock.Advance(beforeLife)
	if ok, err := w.another().Ready(ctx, seen); ok || err != nil {
		t.Errorf("contract 29: the earlier webhook is ready indefinitely: %v", err)
	}
}

// A webhook that was not ready does not become ready by being replaced.
func TestStage_ReplacedBeforeReady(t *testing.T) {
	w := newFixture(t)
	w.made(t)
	v := w.stage(t, "https://new.example/", "whsec_staged")
	old := v.Value
	_, err := w.Promote(ctx, v)
	coretest.Must(t, err)
	if ok, err := w.another().Ready(ctx, &old); ok || err != nil {
		t.Errorf("contract 29: it is ready without a test: %v", err)
	}
}

// The test of the earlier webhook ends after the staged one replaced it. Its result is ignored.
func TestStage_LateResult(t *testing.T) {
	w := newFixture(t)
	old := w.readied(t)
	v := w.stage(t, "https://new.example/", "whsec_staged")
	_, err := w.Promote(ctx, v)
	coretest.Must(t, err)
	if err := w.RecordReadiness(ctx, &old.Value, secret, false); !errors.Is(err, ErrStale) {
		t.Errorf("contract 29: the late result: %v", err)
	}
	if !w.ready(t, w.another()) {
		t.Error("contract 29: the late result of an old test made the new webhook unready")
	}
}

// Contract 19: a sealed secret opens in its own place alone.
func TestStage_SecretBoundToRecord(t *testing.T) {
	w := newFixture(t)
	w.made(t)
	v := w.stage(t, "https://new.example/", "whsec_staged")
	moved := v.Value
	moved.ID = otherUUID
	if got, err := w.StagedSecret(&moved); err == nil || got != "" {
		t.Error("contract 19: a staged secret opens in another integration")
	}
	signs := v.Value
	signs.Webhook.Sealed = v.Value.Staged.Sealed
	if got, err := w.WebhookSecret(&signs); err == nil || got != "" {
		t.Error("contract 25: a staged secret signs")
	}
	staged := v.Value
	staged.Staged = &Webhook{Sealed: v.Value.Webhook.Sealed}
	if got, err := w.StagedSecret(&staged); err == nil || got != "" {
		t.Error("contract 25: the secret that signs counts as a tested one")
	}
	if shown := v.Value.Shown(); shown.Webhook.Sealed != "" || shown.Staged.Sealed != "" ||
		v.Value.Staged.Sealed == "" {
		t.Errorf("contract 13: shown is %+v", shown)
	}
	// A whole record that is copied to another name is not read.
	w.plant(t, integrationItems+otherUUID, w.raw(t, integrationItems+testUUID).Value)
	if i, err := w.ReadIntegration(ctx, otherUUID); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 19: a moved integration is %+v, %v", i, err)
	}
	w.plant(t, publisherItems+"pub_b", w.raw(t, publisherItems+"pub_a").Value)
	if p, err := w.ReadPublisher(ctx, "pub_b"); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 19: a moved publisher is %+v, %v", p, err)
	}
}

// Contract 16: after a rotation and Reseal no old key is needed, not even for a staged secret.
func TestResealKeepsAStagedSecret(t *testing.T) {
	w := newFixture(t)
	keys := bound(t, w)
	w.readied(t)
	w.stage(t, "https://new.example/", "whsec_staged")
	coretest.Must(t, keys.Rotate(w.Host.Random, w.Clock.Now(), time.Minute))
	w.Clock.Advance(2 * time.Minute)
	w.use(t, keys)
	before := w.now(t)
	coretest.Must(t, w.Reseal(ctx))
	once := w.now(t)
	if once.Version == before.Version {
		t.Error("contract 16: Reseal left it to the old key")
	}
	coretest.Must(t, w.Reseal(ctx))
	if w.now(t).Version != once.Version {
		t.Error("Reseal writes again what the newest key has sealed")
	}
	w.Clock.Advance(host.ClockMargin + time.Hour)
	coretest.Must(t, keys.Retire(keys.Keys[1].ID, w.Clock.Now(), time.Minute, true))
	w.use(t, keys)
	v := w.now(t)
	got, err := w.StagedSecret(&v.Value)
	if err != nil || got != "whsec_staged" || v.Value.Staged.URL != "https://new.example/" {
		t.Errorf("contract 16: without the old key %+v, %q, %v", v.Value.Staged, got, err)
	}
	if _, err := w.Promote(ctx, v); err != nil || !w.ready(t, w.Directory) {
		t.Errorf("contract 25: after the rotation: %v", err)
	}
}
