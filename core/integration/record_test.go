package integration

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
)

// bound gives the fixture a ring whose keys are this release's, so that nothing without a MAC is
// accepted.
func bound(t *testing.T, w *fixture) keyring.File {
	t.Helper()
	kr, err := keyring.Generate(w.Host.Random, w.Clock.Now())
	coretest.Must(t, err)
	w.use(t, kr)
	return kr
}

func (w *fixture) use(t *testing.T, kr keyring.File) {
	t.Helper()
	ring, err := kr.Ring("verify.verge.example", w.Host.Random, w.Clock.Now)
	coretest.Must(t, err)
	w.Host.Sealer = ring
	w.Directory = NewDirectory(w.Host.Host)
}

func (w *fixture) raw(t *testing.T, name string) kv.Item {
	t.Helper()
	it, err := w.Store.Get(ctx, kv.Key{Partition: Partition, Name: name})
	coretest.Must(t, err)
	return it
}

func (w *fixture) plant(t *testing.T, name string, value []byte) {
	t.Helper()
	coretest.Must(t, w.Store.Commit(ctx, kv.Tx{ID: "forger", Partition: Partition,
		Puts: []kv.Put{{Name: name, Value: value}}}))
	w.Directory = NewDirectory(w.Host.Host)
}

// TestRecord_StoreWriter: contract 19. Someone who can write to the store can neither make nor
// change a key or an integration.
func TestRecord_StoreWriter(t *testing.T) {
	t.Run("contract 19: their own key", func(t *testing.T) {
		w := newFixture(t)
		bound(t, w)
		text, err := GenerateKey(SecretPrefix, w.Host.Random)
		coretest.Must(t, err)
		b, err := json.Marshal(Key{ID: keyID(text), PublisherID: "pub_a", Last4: text[len(text)-4:],
			Created: w.Clock.Now()})
		coretest.Must(t, err)
		w.plant(t, itemName(text), b)
		if k, err := w.Key(ctx, SecretPrefix, text); !errors.Is(err, ErrNotFound) {
			t.Errorf("contract 19: a planted key is %+v, %v", k, err)
		}
		if all, err := listAll[Key](ctx, w.Directory, keyItems); err != nil || len(all) != 0 {
			t.Errorf("contract 19: a planted key is listed: %+v, %v", all, err)
		}
	})
	t.Run("contract 19: another's record under the hash of their own key", func(t *testing.T) {
		w := newFixture(t)
		bound(t, w)
		coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_a"}))
		theirs, _, err := w.CreateKey(ctx, "pub_a", "", nil)
		coretest.Must(t, err)
		mine, err := GenerateKey(SecretPrefix, w.Host.Random)
		coretest.Must(t, err)
		w.plant(t, itemName(mine), w.raw(t, itemName(theirs)).Value)
		if k, err := w.Key(ctx, SecretPrefix, mine); !errors.Is(err, ErrNotFound) {
			t.Errorf("contract 19: a moved key is %+v, %v", k, err)
		}
	})
	t.Run("contract 19: an integration with another URL", func(t *testing.T) {
		w := newFixture(t)
		bound(t, w)
		w.seed(t)
		it := w.raw(t, "c/int/"+testUUID)
		w.plant(t, "c/int/"+testUUID, []byte(strings.Replace(string(it.Value), `"challenge_age"`,
			`"x":1,"challenge_age"`, 1)))
		if i, err := w.Integration(ctx, testUUID); !errors.Is(err, token.ErrRecord) {
			t.Errorf("contract 19: an altered integration is %+v, %v", i, err)
		}
		if got := w.Logged.String(); !strings.Contains(got, "kind=integration") {
			t.Errorf("contract 19: the log lacks the kind of record: %s", got)
		}
		// The operator's configuration repairs it.
		coretest.Must(t, w.PutIntegration(ctx, sample(), secret))
		if _, err := w.Integration(ctx, testUUID); err != nil {
			t.Errorf("put again: %v", err)
		}
	})
}

// TestRecord_StoreReader: contract 19. The store holds in clear neither the URL nor anything that would
// confirm a guess of the secret.
func TestRecord_StoreReader(t *testing.T) {
	w := newFixture(t)
	bound(t, w)
	w.seed(t)
	i, err := w.Integration(ctx, testUUID)
	coretest.Must(t, err)
	if i.Webhook.URL != sample().Webhook.URL || i.Webhook.Hidden || !i.Webhook.Sends() {
		t.Fatalf("read back as %+v", i.Webhook)
	}
	coretest.Must(t, w.RecordReadiness(ctx, i, secret, true))
	if ok, err := w.Ready(ctx, i); err != nil || !ok {
		t.Fatalf("ready: %v, %v", ok, err)
	}
	for _, name := range []string{"c/int/" + testUUID, "c/ready/" + testUUID} {
		value := string(w.raw(t, name).Value)
		for _, clear := range []string{
			sample().Webhook.URL,
			secret,
			plainFingerprint(sample().Webhook.URL, secret),
		} {
			if strings.Contains(value, clear) {
				t.Errorf("contract 19: %s holds %q: %s", name, clear, value)
			}
		}
	}
}

// TestRecord_EarlierRelease: items of an earlier release are read. They are written again once a bound
// key seals. Some minutes later nothing without a MAC is accepted.
func TestRecord_EarlierRelease(t *testing.T) {
	w := newFixture(t)
	legacy := keyring.File{Keys: []token.RingKey{{Key: token.Key{ID: "9f02ab31", Secret: make([]byte, 32),
		Created: w.Clock.Now()}}}}
	w.use(t, legacy)
	w.seed(t)
	text, _, err := w.CreateKey(ctx, sample().PublisherID, "", nil)
	coretest.Must(t, err)
	i, err := w.Integration(ctx, testUUID)
	coretest.Must(t, err)
	coretest.Must(t, w.RecordReadiness(ctx, i, secret, true))
	names := []string{
		itemName(text),
		"c/int/" + testUUID,
		"c/ready/" + testUUID,
		"c/pub/" + sample().PublisherID,
	}
	for _, name := range names { // as the release before wrote them
		it := w.raw(t, name)
		body, _, _ := strings.Cut(string(it.Value), `,"m":"`)
		w.plant(t, name, []byte(body+"}"))
	}
	holds := func(when string) {
		t.Helper()
		i, err := w.Integration(ctx, testUUID)
		if err != nil || i.Webhook.URL != sample().Webhook.URL {
			t.Fatalf("%s: the integration is %+v, %v", when, i, err)
		}
		if s, err := w.WebhookSecret(i); err != nil || s != secret {
			t.Errorf("%s: the secret is %q, %v", when, s, err)
		}
		if ok, err := w.Ready(ctx, i); err != nil || !ok {
			t.Errorf("%s: ready %v, %v", when, ok, err)
		}
		if _, err := w.Key(ctx, SecretPrefix, text); err != nil {
			t.Errorf("%s: the key: %v", when, err)
		}
	}
	holds("with the ring as it was")
	if v := string(w.raw(t, "c/int/"+testUUID).Value); !strings.Contains(v, sample().Webhook.URL) {
		t.Errorf("the URL is sealed while an earlier release may still run and cannot read it: %s", v)
	}

	coretest.Must(t, legacy.Rotate(w.Host.Random, w.Clock.Now(), time.Minute))
	w.use(t, legacy)
	w.Clock.Advance(2 * time.Minute)
	w.use(t, legacy)
	holds("as the first bound key has begun to seal")
	coretest.Must(t, w.Reseal(ctx))
	for _, name := range names {
		if by := token.RecordedWith(w.raw(t, name).Value); by != legacy.Keys[0].ID {
			t.Errorf("contract 16: %s is signed by %q after Reseal", name, by)
		}
	}
	w.use(t, legacy)
	holds("after Reseal")

	w.Clock.Advance(unsignedLife + host.ClockMargin)
	it := w.raw(t, itemName(text))
	body, _, _ := strings.Cut(string(it.Value), `,"m":"`)
	w.plant(t, itemName(text), []byte(body+"}"))
	if _, err := w.Key(ctx, SecretPrefix, text); !errors.Is(err, ErrNotFound) {
		t.Errorf("contract 19: a key without a MAC is accepted indefinitely: %v", err)
	}
}

// TestReadinessUnderAMACIsResetToo: contract 29, with keys of this release.
func TestReadinessUnderAMACIsResetToo(t *testing.T) {
	w := newFixture(t)
	bound(t, w)
	w.seed(t)
	i, err := w.Integration(ctx, testUUID)
	coretest.Must(t, err)
	for _, c := range []struct {
		name   string
		change func(*Integration) string
		want   bool
	}{
		{"contract 29: as it was tested", func(*Integration) string { return secret }, true},
		{"contract 29: another secret", func(*Integration) string { return "whsec_another" }, false},
		{"contract 29: another URL", func(i *Integration) string { i.Webhook.URL += "2"; return secret },
			false},
	} {
		coretest.Must(t, w.RecordReadiness(ctx, i, secret, true))
		changed := *i
		with := c.change(&changed)
		coretest.Must(t, w.PutIntegration(ctx, changed, with))
		w.Directory = NewDirectory(w.Host.Host)
		kept, err := w.Integration(ctx, testUUID)
		coretest.Must(t, err)
		if got, err := w.Ready(ctx, kept); err != nil || got != c.want {
			t.Errorf("%s: ready %v, %v, want %v", c.name, got, err, c.want)
		}
		coretest.Must(t, w.PutIntegration(ctx, *i, secret))
	}
}
