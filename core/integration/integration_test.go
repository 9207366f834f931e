package integration

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const (
	testUUID  = "694069ac-4d4e-475f-906b-2f11c5eca7bd"
	otherUUID = "11111111-4d4e-475f-906b-2f11c5eca7bd"
	secret    = "whsec_only_for_tests"
)

var ctx = context.Background()

// fixture is a directory on a store that counts its calls, with a clock that the test moves.
type fixture struct {
	*Directory
	*testhost.Host
	gets  atomic.Int64
	lists atomic.Int64
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{Host: testhost.New(t)}
	w.Store.Decide = w.count
	w.Host.Sealer = ring(t, 0)
	w.Directory = NewDirectory(w.Host.Host)
	return w
}

func (w *fixture) count(c kvtest.Call) kvtest.Fault {
	switch c.Method {
	case "Get":
		w.gets.Add(1)
	case "List":
		w.lists.Add(1)
	}
	return kvtest.Pass
}

// another is a second instance on the same store.
func (w *fixture) another() *Directory { return NewDirectory(w.Host.Host) }

// ring returns a ring with its keys in the given order: 0 is the first key, 1 the second.
func ring(t testing.TB, order ...int) *token.Ring {
	t.Helper()
	var keys []token.Key
	for _, n := range order {
		keys = append(keys, token.Key{
			ID:     []string{"9f02ab31", "07c1d2e4"}[n],
			Secret: bytes.Repeat([]byte{byte(n + 1)}, 32),
		})
	}
	r, err := token.NewRing("verify.verge.example", &coretest.Random{}, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sample() Integration {
	return Integration{
		ID:              testUUID,
		PublisherID:     "pub_a",
		Level:           "L1",
		ChallengeAge:    25,
		Method:          "sandbox",
		Webhook:         Webhook{URL: "https://hooks.publisher.example/verge"},
		BrowserOrigins:  []string{"https://www.publisher.example"},
		CallbackOrigins: []string{"https://www.publisher.example"},
	}
}

// seed puts a publisher with an integration.
func (w *fixture) seed(t testing.TB) {
	t.Helper()
	coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_a", Name: "A"}))
	coretest.Must(t, w.PutIntegration(ctx, sample(), secret))
}

func (w *fixture) integration(t testing.TB, d *Directory) *Integration {
	t.Helper()
	i, err := d.Integration(ctx, testUUID)
	coretest.Must(t, err)
	return i
}

func TestKeysHaveTheFormOfTheContract(t *testing.T) {
	for _, prefix := range []string{SecretPrefix, PublicPrefix} {
		key, err := GenerateKey(prefix, &coretest.Random{})
		coretest.Must(t, err)
		if !strings.HasPrefix(key, prefix) || len(key) != len(prefix)+43+6 || !WellFormed(prefix, key) {
			t.Errorf("contract 12: %q is not a key of prefix %s", key, prefix)
		}
		other := map[string]string{SecretPrefix: PublicPrefix, PublicPrefix: SecretPrefix}[prefix]
		if WellFormed(other, key) || WellFormed(other, other+key[len(prefix):]) {
			t.Errorf("contract 12: a key of prefix %s passes for one of %s", prefix, other)
		}
	}
	// All bits of the random bytes must be in the text, so the greatest number must fit.
	least, err := GenerateKey(SecretPrefix, bytes.NewReader(make([]byte, 32)))
	coretest.Must(t, err)
	most, err := GenerateKey(SecretPrefix, bytes.NewReader(bytes.Repeat([]byte{0xff}, 32)))
	coretest.Must(t, err)
	if want := SecretPrefix + strings.Repeat("0", 43); !strings.HasPrefix(least, want) {
		t.Errorf("contract 12: 32 zero bytes give %q", least)
	}
	if most[len(SecretPrefix)] == '0' || len(most) != len(least) {
		t.Errorf("contract 12: the greatest 32 bytes give %q: it has lost digits or has too many", most)
	}
	if key, err := GenerateKey(SecretPrefix, bytes.NewReader(make([]byte, 31))); err == nil {
		t.Errorf("of 31 random bytes it made %q", key)
	}
}

// The form of a key is published for scanners, so keys that exist must stay well formed.
func TestKey_Form(t *testing.T) {
	key, err := GenerateKey(SecretPrefix, bytes.NewReader(bytes.Repeat([]byte{0xab}, 32)))
	coretest.Must(t, err)
	if want := "svc_sk_ehv1hsdOHPxDuX3xn9YyIKbgl4yJuySCWzdimD4heup1iAKBE"; key != want {
		t.Errorf("contract 12: 32 bytes of 0xab give %q, want %q", key, want)
	}
}

func TestKey_Mistyped(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	key, _, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	w.gets.Store(0)
	reject := func(rule, text string) {
		t.Helper()
		if k, err := w.Key(ctx, SecretPrefix, text); !errors.Is(err, ErrNotFound) {
			t.Errorf("contract 12: %s: %+v, %v", rule, k, err)
		}
	}
	for at := len(SecretPrefix); at < len(key); at++ {
		for _, c := range []byte(base62) {
			if c != key[at] {
				reject("one character mistyped", key[:at]+string(c)+key[at+1:])
			}
		}
		if at+1 < len(key) && key[at] != key[at+1] {
			reject("two characters swapped", key[:at]+key[at+1:at+2]+key[at:at+1]+key[at+2:])
		}
	}
	reject("nothing", "")
	reject("prefix alone", SecretPrefix)
	reject("cut off", key[:len(key)-1])
	reject("one more", key+"0")
	reject("line feed behind", key+"\n")
	reject("space in front", " "+key)
	reject("a character outside the alphabet", key[:20]+"-"+key[21:])
	reject("a character outside ASCII", key[:20]+"é"+key[22:])
	reject("prefix in upper case", strings.ToUpper(SecretPrefix)+key[len(SecretPrefix):])
	reject("public prefix", PublicPrefix+key[len(SecretPrefix):])
	if n := w.gets.Load(); n != 0 {
		t.Errorf("contract 12: mistyped keys caused %d look-ups", n)
	}
	if _, err := w.Key(ctx, SecretPrefix, key); err != nil || w.gets.Load() != 1 {
		t.Errorf("the key itself: %v after %d look-ups", err, w.gets.Load())
	}
	// A public key must not be accepted as a secret one, although it is well formed.
	public, _, err := w.CreateKey(ctx, "pub_a", testUUID, nil)
	coretest.Must(t, err)
	reject("a public key where a secret one is asked for", public)
}

// The record decides on the rights of a key, not only the prefix that its holder writes.
func TestRecord_OtherKind(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	text, err := GenerateKey(SecretPrefix, w.Host.Random)
	coretest.Must(t, err)
	coretest.Must(t, w.putKey(ctx, text, Key{PublisherID: "pub_a", IntegrationID: testUUID}, nil))
	if k, err := w.Key(ctx, SecretPrefix, text); !errors.Is(err, ErrNotFound) {
		t.Errorf("spec, Authentication: the record of a public key passes under a secret key's "+
			"prefix: %+v, %v",
			k, err)
	}
	if err := w.ImportKey(ctx, text, Key{PublisherID: "pub_a", IntegrationID: testUUID}); err == nil {
		t.Error("spec, Authentication: a secret key's text was kept as a public key")
	}
}

func TestCreateKey(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_b"}))
	expires := w.Clock.Now().Add(time.Hour)
	text, k, err := w.CreateKey(ctx, "pub_a", testUUID, &expires)
	coretest.Must(t, err)
	if !WellFormed(PublicPrefix, text) || !k.Public() || k.PublisherID != "pub_a" ||
		k.IntegrationID != testUUID || k.Last4 != text[len(text)-4:] ||
		!k.Created.Equal(w.Clock.Now()) || !strings.HasPrefix(k.ID, "key_") {
		t.Errorf("contract 12: key %+v", k)
	}
	got, err := w.another().Key(ctx, PublicPrefix, text)
	coretest.Must(t, err)
	if got.ID != k.ID || !got.Active(expires.Add(-1)) || got.Active(expires) {
		t.Errorf("contract 12: %+v is active until %s and not after that", got, expires)
	}
	for _, c := range []struct{ name, publisher, integration string }{
		{"contract 12: no such publisher", "pub_x", ""},
		{"contract 12: no such integration", "pub_a", otherUUID},
		{"contract 5, 404: another publisher's integration", "pub_b", testUUID},
	} {
		text, _, err := w.CreateKey(ctx, c.publisher, c.integration, nil)
		if !errors.Is(err, ErrNotFound) || text != "" {
			t.Errorf("%s: key %q, %v", c.name, text, err)
		}
	}
	keys, err := listAll[Key](ctx, w.Directory, keyItems)
	if err != nil || len(keys) != 1 || keys[0].ID != k.ID {
		t.Errorf("contract 12: listed are %+v, %v", keys, err)
	}
}

func TestKey_TwoValid(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	old, oldKey, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	fresh, _, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	for _, text := range []string{old, fresh} {
		if k, err := w.Key(ctx, SecretPrefix, text); err != nil || !k.Active(w.Clock.Now()) {
			t.Errorf("contract 12: %+v, %v", k, err)
		}
	}
	_, err = w.RevokeKey(ctx, oldKey.ID)
	coretest.Must(t, err)
	if k, err := w.Key(ctx, SecretPrefix, fresh); err != nil || !k.Active(w.Clock.Now()) {
		t.Errorf("contract 12: revoking the old key revoked the new one too: %+v, %v", k, err)
	}
}

func TestRevocation_WithinFiveSeconds(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	text, key, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	elsewhere := w.another()
	active := func(d *Directory) bool {
		t.Helper()
		k, err := d.Key(ctx, SecretPrefix, text)
		coretest.Must(t, err)
		return k.Active(w.Clock.Now())
	}
	if !active(w.Directory) || !active(elsewhere) {
		t.Fatal("a new key is not active")
	}
	revoked, err := w.RevokeKey(ctx, key.ID)
	coretest.Must(t, err)
	if revoked.Revoked == nil || revoked.ID != key.ID {
		t.Errorf("revoked: %+v", revoked)
	}
	if active(w.Directory) {
		t.Error("contract 12: the key is still active at the instance that revoked it")
	}
	w.Clock.Advance(5*time.Second - time.Nanosecond)
	active(elsewhere) // may be either; a read must not make the old answer younger
	w.Clock.Advance(time.Nanosecond)
	if active(elsewhere) {
		t.Error("contract 12: after 5 seconds another instance still accepts the key")
	}

	again, err := w.RevokeKey(ctx, key.ID)
	if err != nil || !again.Revoked.Equal(*revoked.Revoked) {
		t.Errorf("revoked twice: %+v, %v, want the first time", again, err)
	}
	for _, id := range []string{
		"",
		"key_",
		"key_0000000000000000",
		key.ID + "0",
		key.ID[:19],
		strings.TrimPrefix(key.ID, "key_"),
	} {
		if k, err := w.RevokeKey(ctx, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("revoking %q: %+v, %v", id, k, err)
		}
	}
}

func TestCache_Life(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	d := w.another()
	reads := func() int64 {
		t.Helper()
		w.gets.Store(0)
		w.integration(t, d)
		return w.gets.Load()
	}
	for _, step := range []struct {
		name    string
		advance time.Duration
		want    int64
	}{
		{"the first read asks the KV twice", 0, 2},
		{"the next does not", 0, 0},
		{"nor an instant before 5 s", 5*time.Second - 1, 0},
		{"at 5 s it reads the generation", 1, 1},
		{"which is valid for another 5 s", 5*time.Second - 1, 0},
		{"a clock that went back makes no entry younger", -(5*time.Second - 1) - 5*time.Second, 1},
		{"after a minute the entry is read again", time.Minute, 2},
	} {
		w.Clock.Advance(step.advance)
		if got := reads(); got != step.want {
			t.Errorf("contract 12: %s: %d reads, want %d", step.name, got, step.want)
		}
	}
	// An absent item must not be cached as absent.
	if _, err := d.Publisher(ctx, "pub_new"); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_new"}))
	if _, err := d.Publisher(ctx, "pub_new"); err != nil {
		t.Errorf("a publisher that was just added: %v", err)
	}
}

// While nothing changes, the generation is the only item that an instance reads again. Any change is noticed
// within 5 seconds of it, and at the first read after them.
func TestCache_Generation(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	d := w.another()
	look := func() (gets, lists int64) {
		t.Helper()
		w.gets.Store(0)
		w.lists.Store(0)
		w.integration(t, d)
		if _, err := d.Publisher(ctx, "pub_a"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.BrowserOrigin(ctx, "https://shop.example"); err != nil {
			t.Fatal(err)
		}
		return w.gets.Load(), w.lists.Load()
	}
	want := func(title string, gets, lists int64) {
		t.Helper()
		if g, l := look(); g != gets || l != lists {
			t.Errorf("contract 12: %s: %d gets and %d lists, want %d and %d", title, g, l, gets, lists)
		}
	}
	want("at first", 3, 1)
	for range 3 {
		w.Clock.Advance(5 * time.Second)
		want("no change", 1, 0)
	}
	w.Clock.Advance(5*time.Second - 1)
	coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_new"}))
	want("before the 5 s end", 0, 0)
	w.Clock.Advance(1)
	want("after another publisher has changed", 3, 1)
	w.Clock.Advance(5 * time.Second)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Key.Name == generationItem {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	if _, err := d.Publisher(ctx, "pub_a"); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("contract 12: without the generation: %v, want an error", err)
	}
}

// A record whose key was retired is rejected within 5 seconds, even if the store did not change.
func TestCache_RetiredKey(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	d := w.another()
	w.integration(t, d)
	d.sealer = ring(t, 1)
	w.Clock.Advance(5 * time.Second)
	if _, err := d.Integration(ctx, testUUID); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 16: %v, want the record rejected", err)
	}
}

// A writer to the store who restores the generation hides a revocation for a minute at most.
func TestCache_GenerationRestored(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	d := w.another()
	text, key, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	if _, err := d.Key(ctx, SecretPrefix, text); err != nil {
		t.Fatal(err)
	}
	before, err := w.Memory.Get(ctx, itemKey(generationItem))
	coretest.Must(t, err)
	_, err = w.RevokeKey(ctx, key.ID)
	coretest.Must(t, err)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: before.Tx, Partition: Partition,
		Puts: []kv.Put{{Name: generationItem}}}))
	w.Clock.Advance(cacheMost)
	if k, err := d.Key(ctx, SecretPrefix, text); err != nil || k.Active(w.Clock.Now()) {
		t.Errorf("contract 12: %+v, %v, want the revoked key", k, err)
	}
}

// Another instance notices a webhook whose test has failed.
func TestCache_Readiness(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	d := w.another()
	secret, err := w.WebhookSecret(w.integration(t, w.Directory))
	coretest.Must(t, err)
	for _, passed := range []bool{true, false} {
		coretest.Must(t, w.RecordReadiness(ctx, w.integration(t, w.Directory), secret, passed))
		w.Clock.Advance(5 * time.Second)
		if ready, err := d.Ready(ctx, w.integration(t, d)); err != nil || ready != passed {
			t.Errorf("contract 29: ready is %v, %v, want %v", ready, err, passed)
		}
	}
}

// If a record was signed again, an instance that has only its old signature must read it immediately. The
// generation that it knows may be older than the new signature.
func TestCache_SignedAgain(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	d := w.another()
	publisher := func() error {
		_, err := d.Publisher(ctx, "pub_a")
		return err
	}
	coretest.Must(t, publisher())
	w.Clock.Advance(3 * time.Second)
	w.integration(t, d)
	w.Clock.Advance(2 * time.Second)
	coretest.Must(t, publisher()) // the generation is now valid for 5 seconds
	w.Directory.sealer = ring(t, 1, 0)
	coretest.Must(t, w.Reseal(ctx))
	d.sealer = ring(t, 1)
	w.Clock.Advance(3 * time.Second)
	w.integration(t, d)
}

// A change between the reads of the generation and of a record must not leave the old record valid.
func TestCache_ChangeBetweenReads(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	for _, name := range []string{generationItem, publisherItems + "pub_a"} {
		d := w.another()
		change := true
		w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method == "Get" && c.Key.Name == name && change {
				change = false
				coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_a", Name: "before " + name}))
			}
			return kvtest.Pass
		}
		if _, err := d.Publisher(ctx, "pub_a"); err != nil {
			t.Fatal(err)
		}
		w.Store.Decide = nil
		coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_a", Name: "after " + name}))
		w.Clock.Advance(5 * time.Second)
		p, err := d.Publisher(ctx, "pub_a")
		if err != nil || p.Name != "after "+name {
			t.Errorf("contract 12: %+v, %v, want the latest change", p, err)
		}
	}
}

// The age of an answer counts from when its read was sent, so that a slow read is not used for longer.
func TestRevocation_SlowRead(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	d := w.another()
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if w.count(c); c.Method == "Get" {
			w.Clock.Advance(4 * time.Second)
		}
		return kvtest.Pass
	}
	w.integration(t, d)
	w.Clock.Advance(time.Second)
	w.gets.Store(0)
	if w.integration(t, d); w.gets.Load() != 1 {
		t.Error("contract 12: a read that took 4 s was used for 5 s more")
	}
}

func TestDirectory_StoreFails(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	text, key, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	d := w.another()
	_, err1 := d.Integration(ctx, testUUID)
	_, err2 := d.Key(ctx, SecretPrefix, text)
	_, err3 := d.BrowserOrigin(ctx, "https://www.publisher.example")
	_, err4 := d.RevokeKey(ctx, key.ID)
	_, err5 := listAll[Key](ctx, d, keyItems)
	i := sample()
	ready, err6 := d.Ready(ctx, &i)
	err7 := d.PutIntegration(ctx, i, "")
	for n, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
		if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, ErrNotFound) {
			t.Errorf("contract 5, 503: call %d gives %v", n+1, err)
		}
	}
	if ready {
		t.Error("contract 5: without the KV an integration counts as ready")
	}
}

// dump returns everything that a reader of the store can see.
func (w *fixture) dump(t testing.TB) string {
	t.Helper()
	items, err := w.Store.List(ctx, kv.Key{Partition: Partition}, "", 1000)
	coretest.Must(t, err)
	var b strings.Builder
	for _, it := range items {
		b.WriteString(it.Key.Name + "\n" + string(it.Value) + "\n" + it.Tx + "\n")
	}
	return b.String()
}

func TestRecord_NoSecrets(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	sk, _, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	pk, _, err := w.CreateKey(ctx, "pub_a", testUUID, nil)
	coretest.Must(t, err)
	coretest.Must(t, w.RecordReadiness(ctx, w.integration(t, w.Directory), secret, true))
	dump := w.dump(t)
	if strings.Count(dump, "c/key/") != 2 || !strings.Contains(dump, "pub_a") ||
		!strings.Contains(dump, "c/ready/") {
		t.Fatal("the dump misses what was put")
	}
	for _, text := range []string{sk, pk} {
		for _, part := range []string{
			text,
			text[len(SecretPrefix):],
			text[:20],
			text[len(SecretPrefix) : len(SecretPrefix)+12],
		} {
			if strings.Contains(dump, part) {
				t.Errorf("contract 12: the store holds %q of a key", part)
			}
		}
	}
	if strings.Contains(dump, secret) || strings.Contains(dump, secret[6:]) {
		t.Error("contract 13: the store holds a webhook secret")
	}
}

func TestSecret_BoundToRecord(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	i := w.integration(t, w.Directory)
	if got, err := w.WebhookSecret(i); err != nil || got != secret {
		t.Fatalf("secret %q, %v", got, err)
	}
	for _, c := range []struct {
		name   string
		change func(*Integration)
	}{
		{"contract 15: moved to another integration", func(i *Integration) { i.ID = otherUUID }},
		{"contract 15: altered", func(i *Integration) { i.Webhook.Sealed = "B" + i.Webhook.Sealed[1:] }},
		{"contract 15: cut off", func(i *Integration) { i.Webhook.Sealed = i.Webhook.Sealed[:40] }},
		{"contract 15: none", func(i *Integration) { i.Webhook.Sealed = "" }},
		{"contract 15: a token of another purpose", func(i *Integration) {
			b, err := w.Host.Sealer.Seal(token.Flow, []byte(`{"int":"`+testUUID+`","sec":"x"}`))
			coretest.Must(t, err)
			i.Webhook.Sealed = token.EncodeText("", b)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			moved := *i
			c.change(&moved)
			got, err := w.WebhookSecret(&moved)
			if err == nil || got != "" {
				t.Errorf("it opens: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("contract 13: the error holds the secret: %v", err)
			}
		})
	}
}

func TestPutIntegrationKeepsTheSecretAndSealsItAgain(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	before := w.integration(t, w.Directory).Webhook.Sealed

	rotated := w.Host.Host
	rotated.Sealer = ring(t, 1, 0)
	d := NewDirectory(rotated)
	i := sample()
	i.ChallengeAge = 30
	i.Webhook.Sealed = "what a caller left here"
	coretest.Must(t, d.PutIntegration(ctx, i, ""))

	retired := w.Host.Host
	retired.Sealer = ring(t, 1)
	d = NewDirectory(retired)
	kept := w.integration(t, d)
	if kept.ChallengeAge != 30 || kept.Webhook.Sealed == before {
		t.Errorf("put: %+v", kept)
	}
	if got, err := d.WebhookSecret(kept); err != nil || got != secret {
		t.Errorf("contract 16: after a rotation and without the old key the secret is %q, %v: "+
			"it was not sealed again", got, err)
	}

	// Where the kept secret does not open, the write must not lose it.
	lost := w.Host.Host
	lost.Sealer = ring(t, 0)
	if err := NewDirectory(lost).PutIntegration(ctx, sample(), ""); err == nil {
		t.Error("contract 16: a secret that does not open with this ring was deleted")
	}
	if got, err := d.WebhookSecret(w.integration(t, NewDirectory(retired))); err != nil || got != secret {
		t.Errorf("contract 16: the secret is %q, %v", got, err)
	}

	coretest.Must(t, d.PutIntegration(ctx, sample(), "whsec_another"))
	if got, err := d.WebhookSecret(w.integration(t, d)); err != nil || got != "whsec_another" {
		t.Errorf("a new secret: %q, %v", got, err)
	}
	none := sample()
	none.ID, none.Webhook = otherUUID, Webhook{Off: true}
	coretest.Must(t, d.PutIntegration(ctx, none, ""))
	got, err := d.Integration(ctx, otherUUID)
	if err != nil || got.Webhook.Sealed != "" {
		t.Errorf("an integration without secret: %+v, %v", got, err)
	}
}

func TestResealLeavesNothingToAnOldKey(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	lost, none := sample(), sample()
	lost.ID, none.ID = "11111111-1111-4111-8111-111111111111", otherUUID
	none.Webhook = Webhook{Off: true}
	coretest.Must(t, w.PutIntegration(ctx, none, ""))
	foreign := w.Host.Host
	foreign.Sealer = ring(t, 1)
	coretest.Must(t, NewDirectory(foreign).PutIntegration(ctx, lost, "sealed by a key that is gone"))
	before := w.raw(t, "c/int/"+lost.ID)

	coretest.Must(t, w.Reseal(ctx))
	if after := w.raw(t, "c/int/"+lost.ID); after.Tx != before.Tx {
		t.Error("a secret that does not open was deleted")
	}

	rotated := w.Host.Host
	rotated.Sealer = ring(t, 1, 0)
	coretest.Must(t, NewDirectory(rotated).Reseal(ctx))
	retired := w.Host.Host
	retired.Sealer = ring(t, 1)
	d := NewDirectory(retired)
	if got, err := d.WebhookSecret(w.integration(t, d)); err != nil || got != secret {
		t.Errorf("contract 16: after Reseal and without the old key the secret is %q, %v", got, err)
	}
}

func TestSecret_Limit(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	if err := w.PutIntegration(ctx, sample(), strings.Repeat("s", maxSecret)); err != nil {
		t.Error(err)
	}
	if err := w.PutIntegration(ctx, sample(), strings.Repeat("s", maxSecret+1)); err == nil {
		t.Error("it was accepted")
	}
}

func TestReadiness(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	ready := func(d *Directory) bool {
		t.Helper()
		ok, err := d.Ready(ctx, w.integration(t, d))
		coretest.Must(t, err)
		return ok
	}
	test := func(passed bool) {
		t.Helper()
		i := w.integration(t, w.Directory)
		s, err := w.WebhookSecret(i)
		coretest.Must(t, err)
		coretest.Must(t, w.RecordReadiness(ctx, i, s, passed))
	}
	put := func(change func(*Integration), secret string) {
		t.Helper()
		i := sample()
		change(&i)
		coretest.Must(t, w.PutIntegration(ctx, i, secret))
	}
	same := func(*Integration) {}
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"contract 5, 409: never tested", func() {}, false},
		{"contract 29: tested and not ready", func() { test(false) }, false},
		{"contract 29: tested and ready", func() { test(true) }, true},
		{"contract 29: another name or age keeps readiness", func() {
			put(func(i *Integration) { i.ChallengeAge = 40; i.Name = "x" }, "")
		}, true},
		{"spec, Delivery 5: another URL resets", func() {
			put(func(i *Integration) { i.Webhook.URL += "2" }, "")
		}, false},
		{"contract 29: the URL that was tested is ready", func() { put(same, "") }, true},
		{"spec, Delivery 5: another secret resets", func() { put(same, "whsec_another") }, false},
		{"contract 29: the secret that was tested is ready", func() { put(same, secret) }, true},
		{"contract 29: URL and secret changed together", func() {
			put(func(i *Integration) { i.Webhook.URL += "2" }, "whsec_another")
		}, false},
		{"contract 29: tested as it now stands", func() { test(true) }, true},
		{"contract 29: an earlier tested secret is no longer ready", func() { put(same, secret) }, false},
		{"contract 5, 409: no webhook URL counts as not ready", func() {
			put(func(i *Integration) { i.Webhook.URL = "" }, "")
		}, false},
		{"contract 5, 409: switched off explicitly needs no test", func() {
			put(func(i *Integration) { i.Webhook = Webhook{Off: true} }, "")
		}, true},
	} {
		step.do()
		if got := ready(w.Directory); got != step.want {
			t.Errorf("%s: ready %v, want %v", step.name, got, step.want)
		}
		w.Clock.Advance(5 * time.Second)
		if got := ready(w.another()); got != step.want {
			t.Errorf("%s: elsewhere ready %v, want %v", step.name, got, step.want)
		}
	}
}

func TestFingerprint_URLAndSecret(t *testing.T) {
	if bytes.Equal(testedMessage("https://a.example/x", "y"), testedMessage("https://a.example/", "xy")) ||
		plainFingerprint("https://a.example/x", "y") == plainFingerprint("https://a.example/", "xy") {
		t.Error("contract 29: a character moved from the URL to the secret leaves the fingerprint as it was")
	}
}

func TestBrowserOrigin(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	other := sample()
	other.ID, other.BrowserOrigins = otherUUID, []string{"https://app.publisher.example:8443"}
	coretest.Must(t, w.PutIntegration(ctx, other, secret))
	d := w.another()
	allowed := func(d *Directory, origin string) bool {
		t.Helper()
		ok, err := d.BrowserOrigin(ctx, origin)
		coretest.Must(t, err)
		return ok
	}
	for origin, want := range map[string]bool{
		"https://www.publisher.example":      true,
		"https://app.publisher.example:8443": true,
		"https://app.publisher.example":      false,
		"http://www.publisher.example":       false,
		"https://evil.example":               false,
		"https://www.publisher.example.evil": false,
		"null":                               false,
		"":                                   false,
	} {
		if got := allowed(d, origin); got != want {
			t.Errorf("contract 7: %q is allowed: %v", origin, got)
		}
	}
	if n := w.lists.Load(); n != 1 {
		t.Errorf("8 origins caused %d listings, want 1", n)
	}
	if allowed(w.Directory, "https://new.example") {
		t.Error("contract 7: an unlisted origin is allowed")
	}
	other.BrowserOrigins = []string{"https://new.example"}
	coretest.Must(t, w.PutIntegration(ctx, other, ""))
	if !allowed(w.Directory, "https://new.example") {
		t.Error("contract 7: the instance that stored a new origin does not allow it immediately")
	}
	w.Clock.Advance(5*time.Second - 1)
	if allowed(d, "https://new.example") {
		t.Error("the cache was not used for 5 s")
	}
	w.Clock.Advance(1)
	if !allowed(d, "https://new.example") || allowed(d, "https://app.publisher.example:8443") {
		t.Error("contract 7: after 5 s another instance still has the old origins")
	}
}

func TestListsReadAllPages(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	const n = 401
	for range n {
		_, _, err := w.CreateKey(ctx, "pub_a", "", nil)
		coretest.Must(t, err)
	}
	keys, err := listAll[Key](ctx, w.Directory, keyItems)
	coretest.Must(t, err)
	seen := map[string]bool{}
	for _, k := range keys {
		seen[k.ID] = true
	}
	if len(keys) != n || len(seen) != n {
		t.Errorf("%d keys are listed, %d different ones, want %d", len(keys), len(seen), n)
	}
}

func TestRecord_Damaged(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Store.Commit(ctx, kv.Tx{ID: "x", Partition: Partition,
		Puts: []kv.Put{{Name: "c/int/" + testUUID, Value: []byte("{")}}}))
	_, err1 := w.Integration(ctx, testUUID)
	_, err2 := w.Integrations(ctx)
	for _, err := range []error{err1, err2} {
		if err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), testUUID) {
			t.Errorf("error %v", err)
		}
	}
}

// A commit that made a key and arrives late must not revive the key after it was revoked.
func TestRevocation_DelayedCreation(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	delayed := false
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && !delayed {
			delayed = true
			return kvtest.Delay
		}
		return kvtest.Pass
	}
	text, key, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	_, err = w.RevokeKey(ctx, key.ID)
	coretest.Must(t, err)
	w.Store.Deliver(ctx)
	if k, err := w.another().Key(ctx, SecretPrefix, text); err != nil || k.Active(w.Clock.Now()) {
		t.Errorf("contract 12: the revoked key is active again: %+v, %v", k, err)
	}
}

// Two operators write at the same time. The one who leaves the secret as it is must not restore an old
// one.
func TestKeepingTheSecretDoesNotUndoAChangeOfIt(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	other := w.another()
	once := false
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && !once {
			once = true
			coretest.Must(t, other.PutIntegration(ctx, sample(), "whsec_another"))
		}
		return kvtest.Pass
	}
	err := w.PutIntegration(ctx, sample(), "")
	w.Store.Decide = nil
	got, openErr := other.WebhookSecret(w.integration(t, w.another()))
	coretest.Must(t, openErr)
	if got != "whsec_another" {
		t.Errorf("the new secret was replaced by the old one (%v)", err)
	}
}

// An opened secret is kept as long as a read is, and no longer.
func TestSecret_Cache(t *testing.T) {
	w := newFixture(t)
	opened := 0
	on := w.Host.Host
	on.Sealer = countingSealer{on.Sealer, &opened}
	d := NewDirectory(on)
	coretest.Must(t, w.PutIntegration(ctx, sample(), secret))
	i := w.integration(t, d)
	d.cache.Purge()
	opened = 0
	for n, want := range []int{1, 1, 1, 2} {
		if n > 0 {
			w.Clock.Advance([]time.Duration{0, time.Second, cacheLife - time.Second - 1, 1}[n])
		}
		if _, err := d.WebhookSecret(i); err != nil || opened != want {
			t.Errorf("after %d steps of the clock it was opened %d times, %v; want %d", n, opened, err, want)
		}
	}
	other := *i
	other.ID = "1b5f208d-4c6e-4d7f-9a01-b2c3d4e5f607"
	if got, err := d.WebhookSecret(&other); err == nil || got != "" {
		t.Errorf("contract 19: kept, it signs for another integration: %q, %v", got, err)
	}
}

// countingSealer counts what is opened.
type countingSealer struct {
	host.Sealer
	opened *int
}

func (c countingSealer) Open(purpose string, sealed []byte) ([]byte, time.Time, error) {
	*c.opened++
	return c.Sealer.Open(purpose, sealed)
}
