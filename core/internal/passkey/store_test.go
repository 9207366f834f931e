package passkey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/passkeytest"
)

var ctx = context.Background()

const origin = "https://verify.verge.example"

// fixture is a Store on a test store, and a device.
type fixture struct {
	*Store
	t      *testing.T
	clock  *kvtest.Clock
	faulty *kvtest.Faulty
	memory *memory.Store
	device *passkeytest.Authenticator
	log    *strings.Builder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t, clock: kvtest.NewClock(), log: &strings.Builder{}, device: passkeytest.New(origin)}
	w.memory = memory.New(memory.Config{Now: w.clock.Now})
	w.faulty = &kvtest.Faulty{KV: w.memory}
	random := &coretest.Random{}
	ring, err := token.NewRing("verify.verge.example", random,
		token.Key{ID: "9f02ab31", Secret: make([]byte, 32)})
	coretest.Must(t, err)
	party, err := webauthn.NewRelyingParty("verify.verge.example", "Verge", origin)
	coretest.Must(t, err)
	h := host.Host{KV: w.faulty, Sealer: ring, Verify: signing.Verify, Now: w.clock.Now, Random: random,
		Log: slog.New(slog.NewTextHandler(w.log, nil))}
	w.Store = &Store{Host: host.WithDefaults(h), Party: party, Life: 365 * 24 * time.Hour}
	return w
}

// create creates a passkey on the device, and returns the browser's response.
func (w *fixture) create(changes ...func(*passkeytest.Ceremony)) (challenge, answer []byte) {
	w.t.Helper()
	challenge, err := w.NewChallenge()
	coretest.Must(w.t, err)
	options, err := w.Creation(challenge, "Age check")
	coretest.Must(w.t, err)
	a, err := w.device.Create(options, changes...)
	coretest.Must(w.t, err)
	return challenge, a.JSON()
}

// made stores a new passkey of the device.
func (w *fixture) made(p Proof) New {
	w.t.Helper()
	n, err := w.Read(w.create())
	coretest.Must(w.t, err)
	p.Proven = w.clock.Now().UTC()
	coretest.Must(w.t, w.Keep(ctx, n, p))
	return n
}

// asked uses the device's passkey, and returns the browser's response.
func (w *fixture) asked(changes ...func(*passkeytest.Ceremony)) (challenge []byte, at time.Time,
	answer []byte) {
	w.t.Helper()
	challenge, err := w.NewChallenge()
	coretest.Must(w.t, err)
	options, err := w.Request(challenge)
	coretest.Must(w.t, err)
	a, err := w.device.Get(options, changes...)
	coretest.Must(w.t, err)
	return challenge, w.clock.Now(), a.JSON()
}

func (w *fixture) use(changes ...func(*passkeytest.Ceremony)) (Record, error) {
	challenge, at, answer := w.asked(changes...)
	return w.Use(ctx, challenge, at, answer)
}

var anEstimate = Proof{Basis: verdict.Basis{Level: "L1", ChallengeAge: 25, Method: "camera",
	Kind: "estimator", Fingerprint: "f", Trust: "t"}, Publisher: "pub_a"}

func TestStore_KeepAndUse(t *testing.T) {
	w := newFixture(t)
	w.made(anEstimate)
	w.clock.Advance(time.Hour)
	for range 2 {
		r, err := w.use()
		if err != nil || r.Basis != anEstimate.Basis || r.Publisher != "pub_a" ||
			!r.Proven.Equal(r.Made) || !r.Blocked.IsZero() ||
			r.Until.Sub(r.Made) != 365*24*time.Hour || !r.Made.Equal(w.clock.Now().Add(-time.Hour)) {
			t.Fatalf("contract 38: %+v, %v", r, err)
		}
	}
	w.clock.Advance(365*24*time.Hour - time.Hour)
	if _, err := w.use(); !errors.Is(err, ErrUnknown) {
		t.Errorf("contract 38: a passkey whose time is over: %v", err)
	}
	if n, _, err := w.CountOf(ctx, "pub_a", MaxCount); n != 0 || err != nil {
		t.Errorf("contract 38: %d passkeys are counted after their time, %v", n, err)
	}
}

// Contract 38: the store has no name and no data of a session. Only the device has the user handle.
func TestKeep_StoredData(t *testing.T) {
	w := newFixture(t)
	n := w.made(anEstimate)
	names := map[string]bool{}
	for p := range partitions {
		items, err := w.memory.List(ctx, kv.Key{Partition: partition(p)}, "", 10)
		coretest.Must(t, err)
		for _, it := range items {
			names[it.Key.Name] = true
			for _, secret := range []string{"Age check", string(n.ID()),
				string(w.device.Passkeys[0].UserHandle)} {
				if strings.Contains(it.Key.Name+string(it.Value), secret) {
					t.Errorf("contract 38: %s has %q", it.Key, secret)
				}
			}
			if it.Expires.IsZero() {
				t.Errorf("contract 38: %s has no expiry", it.Key)
			}
		}
	}
	hash := hashOf(n.ID())
	if len(names) != 2 || !names["k/"+hash] || !names["o/pub_a/"+hash] {
		t.Errorf("contract 38: the store has %v", names)
	}
}

// Attacks on the use of a passkey.
func TestUse_Rejected(t *testing.T) {
	flags := func(clear, set byte) func(*passkeytest.Ceremony) {
		return func(c *passkeytest.Ceremony) { c.Flags = c.Flags&^clear | set }
	}
	for name, change := range map[string]func(*passkeytest.Ceremony){
		"the type of making": func(c *passkeytest.Ceremony) { c.Type = "webauthn.create" },
		"another challenge": func(c *passkeytest.Ceremony) {
			c.Challenge = strings.Repeat("A", 43)
		},
		"another origin": func(c *passkeytest.Ceremony) { c.Origin = "https://evil.example" },
		"http": func(c *passkeytest.Ceremony) {
			c.Origin = "http://verify.verge.example"
		},
		"another port": func(c *passkeytest.Ceremony) { c.Origin += ":8443" },
		"a subdomain": func(c *passkeytest.Ceremony) {
			c.Origin = "https://a.verify.verge.example"
		},
		"from another site's frame":     func(c *passkeytest.Ceremony) { c.CrossOrigin = true },
		"with a top origin":             func(c *passkeytest.Ceremony) { c.Members = `,"topOrigin":"https://a.example"` },
		"another relying party":         func(c *passkeytest.Ceremony) { c.RPID = "evil.example" },
		"the user was not there":        flags(passkeytest.UserPresent, 0),
		"the user was not verified":     flags(passkeytest.UserVerified, 0),
		"backed up, and never eligible": flags(passkeytest.BackupEligible, passkeytest.BackedUp),
		"another eligibility":           flags(passkeytest.BackupEligible|passkeytest.BackedUp, 0),
		"something behind it":           func(c *passkeytest.Ceremony) { c.Behind = []byte{0} },
	} {
		t.Run("contract 38: "+name, func(t *testing.T) {
			w := newFixture(t)
			w.made(anEstimate)
			_, err := w.use(change)
			var rejection *webauthn.Rejection
			if !errors.As(err, &rejection) {
				t.Fatalf("%v, want a refusal", err)
			}
			if r, err := w.use(); err != nil || !r.Blocked.IsZero() {
				t.Errorf("afterwards: %+v, %v", r, err)
			}
		})
	}
	t.Run("contract 38: a bogus signature", func(t *testing.T) {
		w := newFixture(t)
		w.made(anEstimate)
		challenge, at, answer := w.asked()
		other, err := passkeytest.NewKey(passkeytest.ES256)
		coretest.Must(t, err)
		w.device.Passkeys[0].Key = other
		_, _, forged := w.asked()
		var rejection *webauthn.Rejection
		if _, err := w.Use(ctx, challenge, at, forged); !errors.As(err, &rejection) {
			t.Errorf("%v, want a refusal", err)
		}
		if _, err := w.Use(ctx, challenge, at, answer); err != nil {
			t.Errorf("the valid response: %v", err)
		}
	})
	t.Run("contract 38: extra members of the client data are no harm", func(t *testing.T) {
		w := newFixture(t)
		w.made(anEstimate)
		if _, err := w.use(func(c *passkeytest.Ceremony) { c.Members = `,"other_keys":"are welcome"` }); err != nil {
			t.Error(err)
		}
	})
	t.Run("contract 38: an unknown passkey", func(t *testing.T) {
		w := newFixture(t)
		w.create()
		if _, err := w.use(); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v, want ErrUnknown", err)
		}
	})
}

func TestUse_Counters(t *testing.T) {
	counter := func(n uint32) func(*passkeytest.Ceremony) {
		return func(c *passkeytest.Ceremony) { c.Counter = n }
	}
	for _, c := range []struct {
		name   string
		counts []uint32
		block  bool
	}{
		{"zero for ever", []uint32{0, 0, 0}, false},
		{"it goes up", []uint32{1, 2, 9}, false},
		{"the same", []uint32{3, 3}, true},
		{"lower", []uint32{3, 2}, true},
		{"zero after it has counted", []uint32{3, 0}, true},
	} {
		t.Run("contract 38: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			w.made(anEstimate)
			var r Record
			for n, count := range c.counts {
				w.clock.Advance(time.Minute)
				var err error
				if r, err = w.use(counter(count)); err != nil {
					t.Fatalf("use %d: %v", n+1, err)
				}
			}
			if r.Blocked.IsZero() == c.block {
				t.Fatalf("blocked %s", r.Blocked)
			}
			w.clock.Advance(time.Minute)
			r, err := w.use(counter(100))
			if err != nil || r.Blocked.IsZero() == c.block {
				t.Errorf("afterwards a higher count: blocked %s, %v", r.Blocked, err)
			}
			if said := strings.Contains(w.log.String(), "copy"); said != c.block {
				t.Errorf("log: %s", w.log)
			}
		})
	}
}

// If sign-ins with one counter value are concurrent, one succeeds. The others are rejected and do not block
// the passkey.
func TestUse_ConcurrentCounters(t *testing.T) {
	w := newFixture(t)
	w.made(anEstimate)
	challenge, at, answer := w.asked(func(c *passkeytest.Ceremony) { c.Counter = 5 })
	w.clock.Advance(time.Second)
	var won, rejected int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r, err := w.Use(ctx, challenge, at, answer)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && r.Blocked.IsZero():
				won++
			case errors.Is(err, webauthn.ErrCounter):
				rejected++
			default:
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	all.Wait()
	if won != 1 || rejected != 7 {
		t.Errorf("contract 38: %d succeeded and %d were rejected, want 1 and 7", won, rejected)
	}
	w.clock.Advance(time.Minute)
	if r, err := w.use(func(c *passkeytest.Ceremony) { c.Counter = 6 }); err != nil || !r.Blocked.IsZero() {
		t.Errorf("contract 38: afterwards: %+v, %v", r, err)
	}
}

// The same, if the second use comes between the read and the write of the first.
func TestUse_Overtaken(t *testing.T) {
	w := newFixture(t)
	w.made(anEstimate)
	challenge, at, answer := w.asked(func(c *passkeytest.Ceremony) { c.Counter = 5 })
	w.clock.Advance(time.Second)
	commits := 0
	w.faulty.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method != "Commit" {
			return kvtest.Pass
		}
		if commits++; commits == 1 {
			if r, err := w.Use(ctx, challenge, at, answer); err != nil || !r.Blocked.IsZero() {
				t.Errorf("contract 38: the first use: %+v, %v", r, err)
			}
		}
		return kvtest.Pass
	}
	if r, err := w.Use(ctx, challenge, at, answer); !errors.Is(err, webauthn.ErrCounter) || commits != 2 {
		t.Errorf("contract 38: the overtaken use, after %d commits: %+v, %v", commits, r, err)
	}
}

func TestRead_Rejected(t *testing.T) {
	long := func(c *passkeytest.Ceremony) { c.ID = make([]byte, 1024) }
	for name, change := range map[string]func(*passkeytest.Ceremony){
		"the type of using":         func(c *passkeytest.Ceremony) { c.Type = "webauthn.get" },
		"another challenge":         func(c *passkeytest.Ceremony) { c.Challenge = strings.Repeat("A", 43) },
		"another origin":            func(c *passkeytest.Ceremony) { c.Origin = "https://evil.example" },
		"the user was not verified": func(c *passkeytest.Ceremony) { c.Flags &^= passkeytest.UserVerified },
		"an id of 1,024 bytes":      long,
		"a key of no algorithm":     func(c *passkeytest.Ceremony) { c.PublicKey = []byte{0xa0} },
		"bytes behind the key":      func(c *passkeytest.Ceremony) { c.PublicKey = append(c.PublicKey, 0) },
	} {
		w := newFixture(t)
		challenge, answer := w.create(change)
		var rejection *webauthn.Rejection
		if _, err := w.Read(challenge, answer); !errors.As(err, &rejection) {
			t.Errorf("contract 38: %s: %v, want a refusal", name, err)
		}
	}
}

// The second of two passkeys with one id does not overwrite the first. Storing the same passkey twice is
// allowed.
func TestKeep_Twice(t *testing.T) {
	w := newFixture(t)
	n := w.made(anEstimate)
	w.clock.Advance(time.Hour)
	better := anEstimate
	better.Level = "L2"
	coretest.Must(t, w.Keep(ctx, n, better))
	if r, err := w.use(); err != nil || r.Level != "L1" {
		t.Errorf("contract 38: kept twice, its record is %+v, %v", r, err)
	}
	other, err := w.Read(w.create(func(c *passkeytest.Ceremony) { c.ID = n.ID() }))
	coretest.Must(t, err)
	if err := w.Keep(ctx, other, better); !errors.Is(err, ErrKnown) {
		t.Errorf("contract 38: another passkey with the same id: %v, want ErrKnown", err)
	}
}

func TestDelete(t *testing.T) {
	w := newFixture(t)
	w.made(anEstimate)
	r, err := w.use()
	coretest.Must(t, err)
	w.faulty.Decide = script(kvtest.LoseReply)
	for range 2 {
		coretest.Must(t, w.Delete(ctx, r.ID()))
	}
	if _, err := w.use(); !errors.Is(err, ErrUnknown) {
		t.Errorf("contract 38: a deleted passkey: %v", err)
	}
	if n, _, err := w.CountOf(ctx, "pub_a", MaxCount); n != 0 || err != nil {
		t.Errorf("contract 38: it still counts: %d, %v", n, err)
	}
	for _, id := range []string{"", "x", strings.ToUpper(r.ID()), r.ID() + "0", "../" + r.ID()[3:]} {
		if err := w.Delete(ctx, id); err != nil {
			t.Errorf("no id %q: %v", id, err)
		}
	}
}

func TestEnd(t *testing.T) {
	w := newFixture(t)
	ofB := anEstimate
	ofB.Publisher = "pub_b"
	for range 12 { // in several partitions
		w.made(anEstimate)
		w.made(ofB)
	}
	longer := anEstimate
	longer.Publisher = "pub_ab" // no name is a prefix of another
	w.made(longer)
	count := func(publisher string, want int) {
		t.Helper()
		if n, more, err := w.CountOf(ctx, publisher, MaxCount); n != want || more || err != nil {
			t.Errorf("contract 38: %s has %d passkeys (%v, %v), want %d", publisher, n, more, err, want)
		}
	}
	count("pub_a", 12)
	count("pub_b", 12)
	count("pub_c", 0)
	w.clock.Advance(time.Second)
	along := kv.Put{Name: "c/along", Value: []byte("x")}
	w.faulty.Decide = script(kvtest.LoseReply)
	coretest.Must(t, w.End(ctx, "pub_a", along))
	count("pub_a", 0)
	count("pub_b", 12)
	if at, err := w.Ended(ctx, "pub_a"); err != nil || !at.Equal(w.clock.Now()) {
		t.Errorf("contract 38: ended %s, %v", at, err)
	}
	if _, err := w.memory.Get(ctx, kv.Key{Partition: "c", Name: "c/along"}); err != nil {
		t.Errorf("the caller's put: %v", err)
	}
	w.clock.Advance(time.Second)
	w.made(anEstimate)
	count("pub_a", 1)
	w.clock.Advance(time.Second)
	coretest.Must(t, w.End(ctx, "pub_a"))
	count("pub_a", 0)
}

// A page that counts passkeys reads a limited number of them.
func TestCountOf_Limit(t *testing.T) {
	w := newFixture(t)
	for p := range partitions {
		for n := range 300 {
			coretest.Must(t, w.memory.Commit(ctx, kv.Tx{ID: fmt.Sprintf("%032x", 1000*p+n),
				Partition: partition(p), Puts: []kv.Put{{Name: belongs("pub_a", strconv.Itoa(n)),
					Value: []byte(made.Format(time.RFC3339Nano))}}}))
		}
	}
	lists := 0
	w.faulty.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "List" {
			lists++
		}
		return kvtest.Pass
	}
	n, more, err := w.CountOf(ctx, "pub_a", 1000)
	if n != 1200 || !more || lists != 4 || err != nil {
		t.Errorf("contract 38: %d passkeys, more %v, by %d calls, %v", n, more, lists, err)
	}
	if n, more, err := w.CountOf(ctx, "pub_a", MaxCount); n != 2400 || more || err != nil {
		t.Errorf("contract 38: %d passkeys, more %v, %v", n, more, err)
	}
}

// Contract 19: an attacker who can write to the store can neither create nor move a passkey.
func TestStore_ForgedItems(t *testing.T) {
	w := newFixture(t)
	n := w.made(anEstimate)
	coretest.Must(t, w.End(ctx, "pub_b"))
	key, _ := keyOf(hashOf(n.ID()))
	good, err := w.memory.Get(ctx, key)
	coretest.Must(t, err)
	plant := func(key kv.Key, value string) {
		t.Helper()
		id, err := kv.NewTxID(w.Random)
		coretest.Must(t, err)
		coretest.Must(t, w.memory.Commit(ctx, kv.Tx{ID: id, Partition: key.Partition,
			Puts: []kv.Put{{Name: key.Name, Value: []byte(value)}}}))
	}
	counted := 0
	w.Observer = testhost.Observer{OnCount: func(event string) {
		if event == metric.NotAuthentic {
			counted++
		}
	}}
	body, _, _ := strings.Cut(string(good.Value), `,"m":`)
	for name, value := range map[string]string{
		"a higher level":   strings.Replace(string(good.Value), `"L1"`, `"L2"`, 1),
		"no MAC":           body + "}",
		"not even a value": "{",
		"nothing":          "",
	} {
		plant(key, value)
		if r, err := w.use(); !errors.Is(err, token.ErrRecord) {
			t.Errorf("contract 19: %s: %+v, %v", name, r, err)
		}
	}
	if counted != 4 {
		t.Errorf("contract 19: %d were counted, want 4", counted)
	}
	w.made(anEstimate) // another one, stored under the first one's name
	moved, _ := keyOf(hashOf(w.device.Passkeys[1].ID))
	plant(moved, string(good.Value))
	if _, err := w.use(); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 19: a record of another passkey: %v", err)
	}
	mark, err := w.memory.Get(ctx, endItem("pub_b"))
	coretest.Must(t, err)
	for name, value := range map[string]string{"another publisher's": string(mark.Value), "no MAC": `{"at":1}`} {
		plant(endItem("pub_a"), value)
		if _, err := w.Ended(ctx, "pub_a"); !errors.Is(err, token.ErrRecord) {
			t.Errorf("contract 19: an end: %s: %v", name, err)
		}
	}
	coretest.Must(t, w.End(ctx, "pub_a"))
	if _, err := w.Ended(ctx, "pub_a"); err != nil {
		t.Errorf("contract 38: ended over a forged item: %v", err)
	}
}

func TestStore_Faults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []kvtest.Fault
		want   error
	}{
		{"refused", []kvtest.Fault{kvtest.Reject}, kv.ErrUnavailable},
		{"the request is lost", []kvtest.Fault{kvtest.LoseRequest}, nil},
		{"the reply is lost", []kvtest.Fault{kvtest.LoseReply}, nil},
		{"two replies are lost", []kvtest.Fault{kvtest.LoseReply, kvtest.LoseReply}, kv.ErrUnknown},
	} {
		t.Run("contract 5: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			n, err := w.Read(w.create())
			coretest.Must(t, err)
			w.faulty.Decide = script(c.faults...)
			if err := w.Keep(ctx, n, anEstimate); !errors.Is(err, c.want) {
				t.Fatalf("keeping: %v, want %v", err, c.want)
			}
			w.faulty.Decide = nil
			coretest.Must(t, w.Keep(ctx, n, anEstimate))
			w.clock.Advance(time.Minute)
			challenge, at, answer := w.asked(func(c *passkeytest.Ceremony) { c.Counter = 3 })
			w.faulty.Decide = script(c.faults...)
			if _, err := w.Use(ctx, challenge, at, answer); !errors.Is(err, c.want) {
				t.Errorf("using: %v, want %v", err, c.want)
			}
			w.faulty.Decide = nil
			w.clock.Advance(time.Minute)
			if r, err := w.use(func(c *passkeytest.Ceremony) { c.Counter = 4 }); err != nil ||
				!r.Blocked.IsZero() {
				t.Errorf("afterwards: %+v, %v", r, err)
			}
		})
	}
}

// Contract 16: a rotation signs every record again, so that the old key can be retired. A record that an
// attacker then plants with the old key is rejected.
func TestReseal(t *testing.T) {
	w := newFixture(t)
	for range 20 {
		w.made(anEstimate)
	}
	ended := w.clock.Now()
	coretest.Must(t, w.End(ctx, "pub_b"))
	forged, _ := keyOf(strings.Repeat("0", hashDigits))
	id, err := kv.NewTxID(w.Random)
	coretest.Must(t, err)
	coretest.Must(t, w.memory.Commit(ctx, kv.Tx{ID: id, Partition: forged.Partition,
		Puts: []kv.Put{{Name: forged.Name, Value: []byte(`{"level":"L2"}`)}}}))
	w.clock.Advance(time.Hour)
	old := token.RingKey{Key: token.Key{ID: "9f02ab31", Secret: make([]byte, 32)}, Bound: true}
	next := token.RingKey{Key: token.Key{ID: "0badcafe", Secret: bytes.Repeat([]byte{1}, 32)},
		SealsFrom: w.clock.Now(), Bound: true}
	ring := func(keys ...token.RingKey) *token.Ring {
		t.Helper()
		r, err := keyring.File{Keys: keys}.Ring("verify.verge.example", w.Random, w.clock.Now)
		coretest.Must(t, err)
		return r
	}
	old.Replaced = next.SealsFrom
	w.Sealer = ring(next, old)
	if _, err := w.use(); err != nil {
		t.Errorf("contract 16: before the records are signed again: %v", err)
	}
	coretest.Must(t, w.Reseal(ctx))
	w.Sealer = ring(next) // without the old key
	signed := 0
	for p := range partitions {
		found, err := w.memory.List(ctx, kv.Key{Partition: partition(p), Name: items}, "", 100)
		coretest.Must(t, err)
		for _, it := range found {
			if it.Key == forged {
				continue
			}
			signed++
			if by := token.RecordedWith(it.Value); by != next.ID || it.Expires.IsZero() {
				t.Errorf("contract 16: %s is signed with %q and expires %s", it.Key, by, it.Expires)
			}
		}
	}
	if at, err := w.Ended(ctx, "pub_b"); err != nil || !at.Equal(ended) || signed != 20 {
		t.Errorf("contract 16: %d records; ended %s, %v", signed, at, err)
	}
	if r, err := w.use(); err != nil || r.Basis != anEstimate.Basis {
		t.Errorf("contract 16: with the old key retired: %+v, %v", r, err)
	}

	planted, err := w.Read(w.create())
	coretest.Must(t, err)
	w.Sealer = ring(old)
	coretest.Must(t, w.Keep(ctx, planted, anEstimate))
	next.Alone = true
	w.Sealer = ring(next, old)
	if _, err := w.use(); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 16: a passkey that a ring made which was replaced: %v", err)
	}
}

// script sets the faults of the next commits.
func script(faults ...kvtest.Fault) func(kvtest.Call) kvtest.Fault {
	return func(c kvtest.Call) kvtest.Fault {
		if c.Method != "Commit" || len(faults) == 0 {
			return kvtest.Pass
		}
		next := faults[0]
		faults = faults[1:]
		return next
	}
}

// The store can apply the first try of a commit after the second one, when the user has deleted the passkey.
func TestKeep_LateCommit(t *testing.T) {
	w := newFixture(t)
	w.faulty.Decide = script(kvtest.Delay)
	n := w.made(anEstimate)
	coretest.Must(t, w.Delete(ctx, hashOf(n.credential.ID)))
	w.faulty.Deliver(ctx)
	if r, err := w.use(); !errors.Is(err, ErrUnknown) {
		t.Errorf("contract 38: a deleted passkey: %+v, %v", r, err)
	}
}
