package keyset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

var ctx = context.Background()

const poll = 3 * time.Second // the interval at which the edge calls Refresh

// fleet is a store and the instances that share it.
type fleet struct {
	t      *testing.T
	clock  *kvtest.Clock
	store  kv.KV
	random *coretest.Random
}

func newFleet(t *testing.T) *fleet {
	clock := kvtest.NewClock()
	return &fleet{
		t:      t,
		clock:  clock,
		store:  memory.New(memory.Config{Now: clock.Now}),
		random: &coretest.Random{},
	}
}

func (f *fleet) generate() keyring.File {
	f.t.Helper()
	kr, err := keyring.Generate(f.random, f.clock.Now())
	coretest.Must(f.t, err)
	return kr
}

// instance is a member of the fleet whose clock is wrong by skew.
type instance struct {
	*Ring
	f       *fleet
	awaited int
}

func (f *fleet) instance(file keyring.File, skew time.Duration) *instance {
	f.t.Helper()
	i := &instance{f: f}
	now := func() time.Time { return f.clock.Now().Add(skew) }
	var err error
	i.Ring, err = New(Config{Host: host.Host{KV: f.store, Now: now, Random: f.random}, Name: "verge.example",
		Keyring: file, Awaited: func() { i.awaited++ }})
	coretest.Must(f.t, err)
	coretest.Must(f.t, i.Refresh(ctx))
	return i
}

func (i *instance) seal() []byte {
	i.f.t.Helper()
	b, err := i.Seal(token.Flow, []byte(`{}`))
	coretest.Must(i.f.t, err)
	return b
}

func (i *instance) write(name string) error {
	id, err := kv.NewTxID(i.f.random)
	coretest.Must(i.f.t, err)
	return i.KV().Commit(ctx, kv.Tx{ID: id, Partition: "p0",
		Puts: []kv.Put{{Name: name, Value: []byte("x")}}})
}

// everything returns the whole content of the store.
func (f *fleet) everything() string {
	var b strings.Builder
	for _, p := range []kv.Partition{"c", "p0"} {
		items, err := f.store.List(ctx, kv.Key{Partition: p}, "", 1000)
		coretest.Must(f.t, err)
		for _, it := range items {
			fmt.Fprintln(&b, it.Key, it.Tx, string(it.Value))
		}
	}
	return b.String()
}

// Contract 16 and I12. The file reaches the instances at different times, and their clocks differ. Every
// token must open everywhere.
func TestRotation_NoFailures(t *testing.T) {
	for _, c := range []struct {
		name    string
		delay   time.Duration
		arrives [3]time.Duration
		skew    [3]time.Duration
	}{
		{"contract 16: one file for all", time.Minute, [3]time.Duration{}, [3]time.Duration{}},
		{"contract 16: one file, active immediately", 0, [3]time.Duration{}, [3]time.Duration{}},
		{
			"contract 16: copies, seconds apart",
			time.Minute,
			[3]time.Duration{0, 7 * time.Second, 35 * time.Second},
			[3]time.Duration{},
		},
		{
			"contract 16: clocks half a minute apart",
			time.Minute,
			[3]time.Duration{0, 2 * time.Second, 5 * time.Second},
			[3]time.Duration{30 * time.Second, 0, -30 * time.Second},
		},
		{"contract 16: all copies arrive after their time", 10 * time.Second,
			[3]time.Duration{61 * time.Second, 62 * time.Second, 63 * time.Second}, [3]time.Duration{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			before := f.generate()
			f.clock.Advance(time.Hour)
			var all [3]*instance
			for n := range all {
				all[n] = f.instance(before, c.skew[n])
			}
			after := keyring.File{Keys: slices.Clone(before.Keys)}
			coretest.Must(t, after.Rotate(f.random, f.clock.Now(), c.delay))

			type sealed struct {
				by   int
				at   time.Duration
				text []byte
			}
			var tokens []sealed
			for at := time.Duration(0); at < 3*time.Minute; at += time.Second {
				for n, i := range all {
					if at == c.arrives[n].Truncate(time.Second) {
						coretest.Must(t, i.Use(after))
					}
					if (at/time.Second)%3 == time.Duration(n) { // each instance polls in a different second
						coretest.Must(t, i.Refresh(ctx))
					}
				}
				for n, i := range all {
					tokens = append(tokens, sealed{n, at, i.seal()})
					if err := i.write("alive"); err != nil {
						t.Fatalf("after %s instance %d cannot write: %v", at, n, err)
					}
				}
				for _, s := range tokens[max(0, len(tokens)-90):] {
					for n, i := range all {
						if _, _, err := i.Open(token.Flow, s.text); err != nil {
							t.Fatalf("instance %d at %s does not open what instance %d sealed at %s: %v", n,
								at, s.by, s.at, err)
						}
					}
				}
				f.clock.Advance(time.Second)
			}
			for n, i := range all {
				if got := i.SealingKey(); got != after.Keys[0].ID {
					t.Errorf("instance %d seals with %s after the rotation, want %s", n, got,
						after.Keys[0].ID)
				}
			}
			if first := token.SealedWith(tokens[0].text); first != before.Keys[0].ID {
				t.Errorf("the first token was sealed with %s, want the old key %s", first, before.Keys[0].ID)
			}
		})
	}
}

// Contract 16. The instance must wait and cannot write. It continues when it has the file.
func TestRotation_LateInstance(t *testing.T) {
	f := newFleet(t)
	before := f.generate()
	f.clock.Advance(time.Hour)
	first, late := f.instance(before, 0), f.instance(before, 0)
	after := keyring.File{Keys: slices.Clone(before.Keys)}
	coretest.Must(t, after.Rotate(f.random, f.clock.Now(), 20*time.Second))
	coretest.Must(t, first.Use(after))
	for range 15 {
		coretest.Must(t, first.Refresh(ctx))
		coretest.Must(t, late.Refresh(ctx))
		f.clock.Advance(poll)
	}
	sealed := first.seal()
	mac, err := first.MAC(token.SessionID, []byte("m"))
	coretest.Must(t, err)
	if _, _, err := late.Open(token.Flow, sealed); !errors.Is(err, host.ErrKeyAwaited) {
		t.Errorf("contract 16: a token of the fleet's new key: %v, want ErrKeyAwaited", err)
	}
	if _, err := late.CheckMAC(token.SessionID, []byte("m"), mac); !errors.Is(err, host.ErrKeyAwaited) {
		t.Errorf("contract 16: a MAC of the fleet's new key: %v, want ErrKeyAwaited", err)
	}
	if late.awaited != 2 {
		t.Errorf("contract 16: the file was requested %d times, want each time", late.awaited)
	}
	stranger := bytes.Clone(sealed)
	copy(stranger[1:5], []byte{1, 2, 3, 4})
	if _, _, err := late.Open(token.Flow, stranger); !errors.Is(err, host.ErrNotAuthentic) {
		t.Errorf("an unused key: %v, want ErrNotAuthentic", err)
	}
	if err := late.Ready(); err == nil || !strings.Contains(err.Error(), after.Keys[0].Fingerprint()) {
		t.Errorf("contract 16: Ready returns %v, want the missing key's fingerprint", err)
	}
	kept := f.everything()
	if err := late.write("late"); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("contract 16: a write gets %v, want ErrUnavailable", err)
	}
	_, _, err = late.KV().Claim(ctx, "p0", f.clock.Now(), time.Minute, 10)
	if !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("contract 16: a claim gets %v, want ErrUnavailable", err)
	}
	if f.everything() != kept {
		t.Error("contract 16: the store has changed")
	}
	coretest.Must(t, late.Use(after))
	if _, _, err := late.Open(token.Flow, sealed); err != nil {
		t.Errorf("with the file: %v", err)
	}
	if err := errors.Join(late.Ready(), late.write("late")); err != nil {
		t.Errorf("with the file: %v", err)
	}
}

// Contract 16. An instance that has not reached the store for a while cannot know the fleet's current keys.
func TestOpen_StaleSet(t *testing.T) {
	f := newFleet(t)
	before := f.generate()
	f.clock.Advance(time.Hour)
	first, away := f.instance(before, 0), f.instance(before, 0)
	after := keyring.File{Keys: slices.Clone(before.Keys)}
	coretest.Must(t, after.Rotate(f.random, f.clock.Now(), 0))
	coretest.Must(t, first.Use(after))
	coretest.Must(t, first.Refresh(ctx))
	f.clock.Advance(Settle)
	sealed := first.seal()
	if got := token.SealedWith(sealed); got != after.Keys[0].ID {
		t.Fatalf("sealed with %s, want the new key", got)
	}
	if _, _, err := away.Open(token.Flow, sealed); !errors.Is(err, host.ErrKeyAwaited) {
		t.Errorf("contract 16: a key that became active since: %v, want ErrKeyAwaited", err)
	}
}

// I13.
func TestRing_Stranger(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(f *fleet, ours keyring.File) keyring.File
		old  bool // an earlier release used the store, which has no set
	}{
		{"another ring", func(f *fleet, _ keyring.File) keyring.File { return f.generate() }, false},
		{"another secret under the same id", func(f *fleet, ours keyring.File) keyring.File {
			kr := f.generate()
			kr.Keys[0].ID = ours.Keys[0].ID
			return kr
		}, false},
		{"a store that an earlier release has used", func(f *fleet, _ keyring.File) keyring.File {
			return f.generate()
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			ours := f.generate()
			ring, err := ours.Ring("verge.example", f.random, f.clock.Now)
			coretest.Must(t, err)
			on := host.Host{KV: f.store, Sealer: ring, Now: f.clock.Now, Random: f.random}
			coretest.Must(t, integration.NewDirectory(on).PutIntegration(ctx, integration.Integration{
				ID:      "694069ac-4d4e-475f-906b-2f11c5eca7bd",
				Webhook: integration.Webhook{URL: "https://hooks.example"},
			}, "a secret of ours"))
			if !c.old {
				f.instance(ours, 0)
			}
			before := f.everything()
			s := f.instance(c.make(f, ours), 0)
			for range 5 {
				coretest.Must(t, s.Refresh(ctx))
				if err := s.Ready(); !errors.Is(err, ErrUnfit) ||
					!strings.Contains(err.Error(), "another fleet's") {
					t.Errorf("I13: Ready returns %v, want the ring's origin", err)
				}
				if err := s.write("stranger"); !errors.Is(err, kv.ErrUnavailable) {
					t.Errorf("I13: a write gets %v, want ErrUnavailable", err)
				}
				f.clock.Advance(time.Minute)
			}
			if after := f.everything(); after != before {
				t.Errorf("I13: the store was\n%s\nand is now\n%s", before, after)
			}
			if err := f.instance(ours, 0).Ready(); err != nil {
				t.Errorf("I13: afterwards the store's own ring is rejected: %v", err)
			}
		})
	}
}

// Contract 16, authenticated. An attacker who can only write to the store cannot create a set, add a key or
// move a time.
func TestSet_Authenticated(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(value string) string
	}{
		{"contract 16: a key is added", func(v string) string {
			return strings.Replace(v, "[",
				`[{"id":"01020304","fingerprint":"0011223344556677","from":"2027-01-01T00:00:00Z"},`, 1)
		}},
		{"contract 16: a key is retired", func(v string) string {
			return strings.Replace(v, `"from"`, `"retired":true,"from"`, 1)
		}},
		{"contract 16: a time is moved",
			func(v string) string { return strings.Replace(v, "2026", "2036", 1) }},
		{"contract 16: without a MAC", func(v string) string {
			line, _, _ := strings.Cut(v, "\n")
			return line + "\n{}"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			i := f.instance(f.generate(), 0)
			item, err := f.store.Get(ctx, key)
			coretest.Must(t, err)
			altered := c.alter(string(item.Value))
			if altered == string(item.Value) {
				t.Fatal("nothing was altered")
			}
			coretest.Must(t, f.store.Commit(ctx, kv.Tx{
				ID:        "forger",
				Partition: key.Partition,
				Puts:      []kv.Put{{Name: key.Name, Value: []byte(altered)}},
			}))
			coretest.Must(t, i.Refresh(ctx))
			if err := i.Ready(); err == nil {
				t.Error("contract 16: the altered set was accepted")
			}
			if now, err := f.store.Get(ctx, key); err != nil || now.Tx != "forger" {
				t.Errorf("contract 16: an instance that cannot verify the set has changed it (%v)", err)
			}
		})
	}
}

// A retired key does not count as missing. No instance uses it any longer, not even one whose file still
// has it.
func TestNew_NoKeys(t *testing.T) {
	_, err := New(Config{Name: "verify.verge.example"})
	if err == nil || !strings.Contains(err.Error(), "it has no keys") {
		t.Errorf("%v", err)
	}
}

func TestRing_RetiredKey(t *testing.T) {
	f := newFleet(t)
	ring := f.generate()
	f.clock.Advance(time.Hour)
	coretest.Must(t, ring.Rotate(f.random, f.clock.Now(), 0))
	f.clock.Advance(time.Hour)
	a, b := f.instance(ring, 0), f.instance(ring, 0)
	old, err := keyring.File{Keys: ring.Keys[1:]}.Ring("verge.example", f.random, nil)
	coretest.Must(t, err)
	sealed, err := old.Seal(token.Flow, []byte(`{}`))
	coretest.Must(t, err)
	for n, i := range []*instance{a, b} {
		if _, until, err := i.Open(token.Flow, sealed); err != nil || until.IsZero() {
			t.Errorf("contract 16: instance %d opens a token of the replaced key: %v, until %s", n, err,
				until)
		}
	}

	without := keyring.File{Keys: slices.Clone(ring.Keys)}
	coretest.Must(t, without.Retire(ring.Keys[1].ID, f.clock.Now(), time.Hour, true))
	coretest.Must(t, a.Use(without))
	for range 4 {
		coretest.Must(t, a.Refresh(ctx))
		coretest.Must(t, b.Refresh(ctx)) // its file still has the key
		f.clock.Advance(poll)
	}
	for n, i := range []*instance{a, b} {
		if err := errors.Join(i.Ready(), i.write("alive")); err != nil {
			t.Errorf("instance %d after a key was retired: %v", n, err)
		}
		if _, _, err := i.Open(token.Flow, sealed); !errors.Is(err, host.ErrNotAuthentic) {
			t.Errorf("contract 16: instance %d, a retired key's token: %v", n, err)
		}
	}
}

// Contract 16.
func TestReseal_ActiveKeyOnly(t *testing.T) {
	f := newFleet(t)
	ring := f.generate()
	f.clock.Advance(time.Hour)
	a, b := f.instance(ring, 0), f.instance(ring, 0)
	const id = "694069ac-4d4e-475f-906b-2f11c5eca7bd"
	coretest.Must(t, a.directory.PutIntegration(ctx, integration.Integration{ID: id,
		Webhook: integration.Webhook{URL: "https://hooks.example"}}, "a secret of ours"))
	sealedWith := func() string {
		i, err := integration.NewDirectory(host.Host{KV: f.store, Sealer: a, Now: f.clock.Now}).Integration(
			ctx, id)
		coretest.Must(t, err)
		sealed, ok := token.DecodeText("", i.Webhook.Sealed)
		if !ok {
			t.Fatal("the secret is not sealed")
		}
		return token.SealedWith(sealed)
	}
	after := keyring.File{Keys: slices.Clone(ring.Keys)}
	coretest.Must(t, after.Rotate(f.random, f.clock.Now(), time.Minute))
	coretest.Must(t, a.Use(after))
	coretest.Must(t, b.Use(after))
	for at := time.Duration(0); at < 90*time.Second; at += poll {
		coretest.Must(t, a.Refresh(ctx))
		want := a.SealingKey()
		if got := sealedWith(); got != want {
			t.Fatalf("contract 16: at %s the secret is sealed with %s, and %s seals", at, got, want)
		}
		f.clock.Advance(poll)
		coretest.Must(t, b.Refresh(ctx))
	}
	if got := sealedWith(); got != after.Keys[0].ID {
		t.Errorf("contract 16: after the rotation the secret is sealed with %s, want %s", got,
			after.Keys[0].ID)
	}
	i, err := b.directory.Integration(ctx, id)
	coretest.Must(t, err)
	if secret, err := b.directory.WebhookSecret(i); err != nil || secret != "a secret of ours" {
		t.Errorf("contract 16: the secret is now %q, %v", secret, err)
	}
}

// until follows the set's time, which is later than the file's if the file arrived late.
func TestOpen_ReplacedKey(t *testing.T) {
	f := newFleet(t)
	ring := f.generate()
	f.clock.Advance(time.Hour)
	i := f.instance(ring, 0)
	sealed := i.seal()
	if _, until, err := i.Open(token.Flow, sealed); err != nil || !until.IsZero() {
		t.Errorf("the active key has no end: %s, %v", until, err)
	}
	after := keyring.File{Keys: slices.Clone(ring.Keys)}
	coretest.Must(t, after.Rotate(f.random, f.clock.Now(), 0))
	f.clock.Advance(20 * time.Minute) // the file arrives late
	coretest.Must(t, i.Use(after))
	coretest.Must(t, i.Refresh(ctx))
	begins := f.clock.Now().Add(Settle)
	f.clock.Advance(time.Minute)
	_, until, err := i.Open(token.Flow, sealed)
	if err != nil || !until.Equal(begins) {
		t.Errorf("the replaced key ends %s, %v; its successor became active at %s", until, err, begins)
	}
	if !host.ValidAt(begins, until) || host.ValidAt(until.Add(host.ClockMargin+time.Millisecond), until) {
		t.Error("contract 16: want it to open data dated before the replacement, " +
			"and no data dated after it and the margin")
	}
}

func FuzzParse(f *testing.F) {
	file, err := keyring.Generate(&coretest.Random{}, time.Unix(1_800_000_000, 0))
	coretest.Must(f, err)
	ring := identified(file)
	good := first(ring, time.Unix(1_800_000_100, 0)).marshal(ring)
	f.Add(good)
	f.Add([]byte("[]\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, believed, err := parse(b, ring, time.Unix(1_800_000_200, 0))
		if err != nil {
			return
		}
		line, _, _ := bytes.Cut(b, []byte("\n"))
		want, _, _ := bytes.Cut(good, []byte("\n"))
		if believed.vouched && !bytes.Equal(line, want) {
			t.Errorf("parse accepts the MAC of a set without a key's MAC: %q", b)
		}
		advance(s, ring, time.Unix(1_800_000_200, 0))
		compare(s, believed, ring)
		effective(s, ring)
	})
}
