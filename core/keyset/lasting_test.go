package keyset

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

// theft is a fleet whose ring has leaked and was then rotated. The thief can write to the store.
type theft struct {
	*fleet
	leaked, file keyring.File
	old          *token.Ring // the thief's ring
	running      *instance
}

// host returns the host of an instance.
func (w *theft) host(i *instance) host.Host {
	return host.WithDefaults(host.Host{KV: i.KV(), Sealer: i, Now: w.clock.Now, Random: w.random})
}

// newTheft returns a fleet with a publisher and a ring that was rotated an hour after it was created. No
// instance has read the store since.
func newTheft(t *testing.T) *theft {
	f := newFleet(t)
	w := &theft{fleet: f, leaked: f.generate()}
	f.clock.Advance(time.Hour)
	w.running = f.instance(w.leaked, 0)
	w.store(w.running, "ours")
	w.tend(time.Minute)
	var err error
	w.old, err = w.leaked.Ring("verge.example", f.random, f.clock.Now)
	coretest.Must(t, err)
	w.file = w.leaked
	w.rotate()
	return w
}

func (w *theft) rotate() {
	w.t.Helper()
	w.file.Keys = slices.Clone(w.file.Keys)
	coretest.Must(w.t, w.file.Rotate(w.random, w.clock.Now(), 30*time.Second))
	coretest.Must(w.t, w.running.Use(w.file))
}

// tend advances the time while the running instance polls the store.
func (w *theft) tend(d time.Duration) {
	w.t.Helper()
	for range d / poll {
		w.clock.Advance(poll)
		coretest.Must(w.t, w.running.Refresh(ctx))
	}
}

// signed is long enough for all records to be signed with only the new key.
const signed = 30*time.Second + aloneAfter + 4*poll

func (w *theft) directory(i *instance) *integration.Directory {
	return integration.NewDirectory(host.Host{KV: i.KV(), Sealer: i, Now: i.cfg.Now, Random: w.random,
		Log: i.cfg.Log})
}

// store makes an instance write a publisher.
func (w *theft) store(i *instance, id string) {
	w.t.Helper()
	coretest.Must(w.t, w.directory(i).PutPublisher(ctx, integration.Publisher{ID: id}))
}

// plant writes a publisher to the store that a ring has signed.
func (w *theft) plant(ring *token.Ring, id string) {
	w.t.Helper()
	at := kv.Key{Partition: "c", Name: "c/pub/" + id}
	value, err := token.SignRecord(ring, at.String(), []byte(`{"id":"`+id+`"}`))
	coretest.Must(w.t, err)
	w.put(at, value)
}

func (w *theft) put(at kv.Key, value []byte) {
	w.t.Helper()
	id, err := kv.NewTxID(w.random)
	coretest.Must(w.t, err)
	tx := kv.Tx{ID: id, Partition: at.Partition, Puts: []kv.Put{{Name: at.Name, Value: value}}}
	if value == nil {
		tx.Puts, tx.Deletes = nil, []string{at.Name}
	}
	coretest.Must(w.t, w.fleet.store.Commit(ctx, tx))
}

func (w *theft) read(at kv.Key) []byte {
	w.t.Helper()
	it, err := w.fleet.store.Get(ctx, at)
	coretest.Must(w.t, err)
	return it.Value
}

// fresh returns an instance that starts now and has read the store twice.
func (w *theft) fresh() *instance {
	w.t.Helper()
	i := w.instance(w.file, 0)
	w.clock.Advance(poll)
	coretest.Must(w.t, i.Refresh(ctx))
	return i
}

// finds checks whether an instance accepts a publisher as written by this service.
func (w *theft) finds(i *instance, id string, want bool) {
	w.t.Helper()
	_, err := w.directory(i).Publisher(ctx, id)
	switch {
	case want && err != nil:
		w.t.Errorf("contract 16: publisher %s is rejected: %v", id, err)
	case !want && !errors.Is(err, token.ErrRecord):
		w.t.Errorf("contract 16: publisher %s of a replaced ring: %v, want ErrRecord", id, err)
	}
}

// gainsNothing checks that neither the running instance nor a new one accepts the thief's records.
func (w *theft) gainsNothing() {
	w.t.Helper()
	w.plant(w.old, "theirs")
	w.finds(w.running, "theirs", false)
	w.tend(time.Minute)
	w.finds(w.running, "theirs", false)
	w.running = w.fresh()
	w.tend(signed)
	w.finds(w.running, "theirs", false)
	w.finds(w.running, "ours", true)
	if _, until, err := w.running.Open(token.Flow, w.sealed()); err != nil || until.IsZero() ||
		!host.ValidAt(w.file.Keys[0].SealsFrom, until) ||
		host.ValidAt(w.file.Keys[0].SealsFrom.Add(host.ClockMargin+time.Minute), until) {
		w.t.Errorf("contract 16: the replaced key opens data dated until %s, %v", until, err)
	}
}

// thefts are the thief's actions, and possible actions of an operator at the same time.
var thefts = []struct {
	name string
	do   func(t *testing.T, w *theft)
}{
	{"the ring and the store", func(t *testing.T, w *theft) {
		w.tend(signed)
		w.gainsNothing()
	}},
	{"a record that was planted before stays", func(t *testing.T, w *theft) {
		w.tend(signed - 2*time.Minute)
		w.plant(w.old, "theirs")
		w.finds(w.running, "theirs", true)
		w.tend(3 * time.Minute)
		w.finds(w.running, "theirs", true)
		w.plant(w.old, "later")
		w.finds(w.running, "later", false)
	}},
	{"the set is deleted under a running instance", func(t *testing.T, w *theft) {
		w.tend(signed)
		whole := w.read(key)
		w.put(key, nil)
		w.tend(poll)
		if line, _, _ := bytes.Cut(whole, []byte("\n")); !bytes.HasPrefix(w.read(key), line) {
			t.Errorf("the set was %s and is %s", whole, w.read(key))
		}
		w.gainsNothing()
	}},
	{"the set from before the rotation is restored under a running instance", func(t *testing.T, w *theft) {
		before := w.read(key)
		w.tend(signed)
		whole := w.read(key)
		w.put(key, before)
		w.tend(poll)
		if !bytes.Equal(w.read(key), whole) {
			t.Errorf("the set was %s and is %s", whole, w.read(key))
		}
		w.gainsNothing()
	}},
	{"the set without the mark is restored under a running instance", func(t *testing.T, w *theft) {
		w.tend(time.Minute)
		before := w.read(key)
		w.tend(signed)
		w.put(key, before)
		w.tend(poll)
		w.gainsNothing()
	}},
	{"the set is deleted before an instance starts", func(t *testing.T, w *theft) {
		w.tend(signed)
		w.put(key, nil)
		w.plant(w.old, "theirs")
		w.running = w.fresh()
		w.gainsNothing()
	}},
	{"the set from before the rotation is restored before an instance starts", func(t *testing.T, w *theft) {
		before := w.read(key)
		w.tend(signed)
		w.put(key, before)
		w.plant(w.old, "theirs")
		w.running = w.fresh()
		w.gainsNothing()
	}},
	{"an instance that reads the store only now", func(t *testing.T, w *theft) {
		other := w.instance(w.file, 0)
		w.tend(signed)
		w.plant(w.old, "theirs")
		w.finds(other, "theirs", true)
		coretest.Must(t, other.Refresh(ctx))
		w.finds(other, "theirs", false)
	}},
	{"an instance whose clock is late writes with the old key", func(t *testing.T, w *theft) {
		late := w.instance(w.file, -4*time.Minute)
		w.tend(3 * time.Minute)
		coretest.Must(t, late.Refresh(ctx))
		w.store(late, "late")
		if by := token.RecordedWith(w.read(kv.Key{Partition: "c",
			Name: "c/pub/late"})); by != w.leaked.Keys[0].ID {
			t.Fatalf("signed with %s", by)
		}
		w.tend(signed)
		w.finds(w.running, "late", true)
		w.gainsNothing()
	}},
	{"an instance whose clock is wrong by more", func(t *testing.T, w *theft) {
		late := w.instance(w.file, -time.Hour)
		w.tend(signed)
		coretest.Must(t, late.Refresh(ctx))
		w.store(late, "late")
		w.finds(w.running, "late", true)
	}},
	{"the ring is rotated twice within a minute", func(t *testing.T, w *theft) {
		w.tend(time.Minute)
		second, err := keyring.File{Keys: w.file.Keys[:1]}.Ring("verge.example", w.random, w.clock.Now)
		coretest.Must(t, err)
		w.rotate()
		w.tend(time.Minute)
		w.finds(w.running, "ours", true)
		w.tend(signed)
		w.plant(second, "second")
		w.finds(w.running, "second", false)
		w.gainsNothing()
	}},
	{"the ring is rotated again later", func(t *testing.T, w *theft) {
		w.tend(signed)
		w.rotate()
		for range 12 { // the first new key counts until the second is alone, the oldest no longer
			w.plant(w.old, "theirs")
			w.finds(w.running, "theirs", false)
			w.finds(w.running, "ours", true)
			w.tend(time.Minute)
		}
	}},
	{"the old key is retired immediately, by force", func(t *testing.T, w *theft) {
		w.tend(time.Minute)
		w.file.Keys = slices.Clone(w.file.Keys)
		coretest.Must(t, w.file.Retire(w.file.Keys[1].ID, w.clock.Now(), time.Hour, true))
		coretest.Must(t, w.running.Use(w.file))
		w.tend(poll)
		w.finds(w.running, "ours", true)
		w.plant(w.old, "theirs")
		w.finds(w.running, "theirs", false)
	}},
	{"the active key is retired, by force", func(t *testing.T, w *theft) {
		w.tend(signed)
		w.file.Keys = slices.Clone(w.file.Keys)
		coretest.Must(t, w.file.Retire(w.file.Keys[0].ID, w.clock.Now(), time.Hour, true))
		coretest.Must(t, w.running.Use(w.file))
		w.tend(signed)
		w.store(w.running, "anew")
		w.finds(w.running, "anew", true)
	}},
	{"a backup from before the rotation is restored and an instance started", func(t *testing.T, w *theft) {
		backup := w.copied()
		w.tend(signed)
		w.fleet.store = backup
		w.running = w.fresh()
		w.finds(w.running, "ours", true)
		w.tend(signed) // the whole store is older than the rotation, so signing repeats
		w.finds(w.running, "ours", true)
		w.plant(w.old, "theirs")
		w.finds(w.running, "theirs", false)
	}},
	{"remaining risk: the set from the minutes of the rotation is restored before a start", func(
		t *testing.T, w *theft) {
		w.tend(time.Minute)
		before := w.read(key)
		w.tend(signed)
		w.put(key, before)
		w.plant(w.old, "theirs")
		w.running = w.fresh()
		w.finds(w.running, "theirs", true) // documented in doc.go
		w.plant(w.old, "later")
		w.finds(w.running, "later", false)
	}},
	{"records of a backup are put into a store that is in use", func(t *testing.T, w *theft) {
		at := kv.Key{Partition: "c", Name: "c/pub/ours"}
		before := w.read(at)
		w.tend(signed)
		w.put(at, before)
		var log strings.Builder
		w.running.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		w.finds(w.running, "ours", false)
		if said := log.String(); !strings.Contains(said, "from a backup") ||
			!strings.Contains(said, "c/pub/ours") {
			t.Errorf("the log says: %s", said)
		}
	}},
	{"short-lived records count by their date", func(t *testing.T, w *theft) {
		w.tend(signed)
		value, err := token.SignRecord(w.old, "s/x", []byte(`{"s":"completed"}`))
		coretest.Must(t, err)
		until, err := token.CheckRecord(w.running, "s/x", value)
		if err != nil || !until.Equal(w.file.Keys[0].SealsFrom) {
			t.Errorf("contract 16: an outcome of the replaced key counts until %s, %v", until, err)
		}
	}},
}

// Contract 16. When all long-lived records are signed with the new key, a leaked and replaced ring cannot
// create any, regardless of its holder's actions on the store.
func TestTheft_LongLivedRecords(t *testing.T) {
	for _, c := range thefts {
		t.Run(c.name, func(t *testing.T) { c.do(t, newTheft(t)) })
	}
}

// Contract 16. No kind of long-lived record is accepted if a replaced ring has signed it.
func TestTheft_AllRecordKinds(t *testing.T) {
	const id = "694069ac-4d4e-475f-906b-2f11c5eca7bd"
	w := newTheft(t)
	at := w.clock.Now().UTC()
	of := &usage.Usage{Host: w.host(w.running)}
	coretest.Must(t, of.Record(ctx, host.Totals{Days: []host.DayTotal{{Integration: id, Day: host.DayOf(at),
		Instance: "ours", Counts: host.Counts{1}}}}))
	entry := audit.Entry{Operation: "publisher.create", Actor: audit.Actor{}}
	puts, err := entry.Puts(w.old, w.random, at)
	coretest.Must(t, err)
	w.tend(signed)
	for _, p := range puts {
		w.put(kv.Key{Partition: "c", Name: p.Name}, p.Value)
	}
	entries, _, err := audit.List(ctx, w.running.KV(), w.running, "", "", 10)
	if err != nil || len(entries) != 0 {
		t.Errorf("contract 16: the audit is %+v, %v", entries, err)
	}

	count := kv.Key{Partition: usagePartition(t, w, id),
		Name: "u/" + id + "/" + host.DayOf(at).String() + "/theirs"}
	value, err := token.SignRecord(w.old, count.String(), []byte(`{"started":1000}`))
	coretest.Must(t, err)
	w.put(count, value)
	days, err := of.Read(ctx, id, host.DayOf(at), host.DayOf(at))
	if err != nil || days[0].Counts != (host.Counts{1}) {
		t.Errorf("contract 16: the usage is %+v, %v", days, err)
	}

	members := member.New(host.Host{KV: w.running.KV(), Sealer: w.running, Now: w.clock.Now,
		Random: w.random}, member.Config{})
	someone := "mem_" + strings.Repeat("0", 32)
	object := []byte(
		`{"at":"` + at.Format(time.RFC3339) + `","of":{"id":"` + someone + `","publisher":"ours"}}`,
	)
	name := kv.Key{Partition: "c", Name: "c/mem/" + someone}
	for _, signer := range []host.Sealer{w.running, w.old} {
		value, err = token.SignRecord(signer, name.String(), object)
		coretest.Must(t, err)
		w.put(name, value)
		m, err := members.Member(ctx, "ours", someone)
		if want := signer == host.Sealer(w.old); errors.Is(err, token.ErrRecord) != want {
			t.Errorf("contract 16: a member %+v, %v; refused: want %v", m, err, want)
		}
	}
}

// sealed returns a token of the thief.
func (w *theft) sealed() []byte {
	w.t.Helper()
	b, err := w.old.Seal(token.Flow, []byte(`{}`))
	coretest.Must(w.t, err)
	return b
}

// copied returns a store with a copy of the fleet's data.
func (w *theft) copied() kv.KV {
	w.t.Helper()
	out := memory.New(memory.Config{Now: w.clock.Now})
	items, err := w.fleet.store.List(ctx, kv.Key{Partition: "c"}, "", 1000)
	coretest.Must(w.t, err)
	for _, it := range items {
		coretest.Must(w.t, out.Commit(ctx, kv.Tx{ID: it.Tx, Partition: "c",
			Puts: []kv.Put{{Name: it.Key.Name, Value: it.Value, Expires: it.Expires}}}))
	}
	return out
}

// Contract 16. The MAC of a replaced key creates no set that drops or moves its successor.
func TestSet_ReplacedRing(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(s *keySet)
	}{
		{"the mark is missing", func(s *keySet) { s.Keys[0].Alone = false }},
		{"the new key begins later", func(s *keySet) { s.Keys[0].From = s.Keys[0].From.Add(time.Hour) }},
		{"the new key is retired", func(s *keySet) { s.Keys[0].Retired = true }},
	} {
		t.Run("contract 16: "+c.name, func(t *testing.T) {
			w := newTheft(t)
			w.tend(signed)
			s, believed, err := parse(w.read(key), identified(w.file), w.clock.Now())
			if err != nil || !believed.vouched || believed.doubt != "" || !s.Keys[0].Alone {
				t.Fatalf("the set is %+v, %+v, %v", s, believed, err)
			}
			c.alter(&s)
			forged := s.marshal(identified(w.leaked))
			w.put(key, forged)
			w.plant(w.old, "theirs")
			for _, i := range []*instance{w.running, w.instance(w.file, 0)} {
				coretest.Must(t, i.Refresh(ctx))
				if err := i.Ready(); !errors.Is(err, ErrUnfit) ||
					!strings.Contains(err.Error(), "not trusted") {
					t.Errorf("ready says %v", err)
				}
				if err := i.write("x"); !errors.Is(err, kv.ErrUnavailable) {
					t.Errorf("a write gets %v, want ErrUnavailable", err)
				}
			}
			if !bytes.Equal(w.read(key), forged) {
				t.Error("an instance that cannot verify the set has changed it")
			}
		})
	}
}

// Contract 16. No instance stops because its file still has a key that was withdrawn before it was active.
func TestRing_WaitingKeyRetired(t *testing.T) {
	w := newTheft(t)
	other := w.instance(w.file, 0)
	w.tend(15 * time.Second) // it is announced
	w.file.Keys = slices.Clone(w.file.Keys)
	coretest.Must(t, w.file.Retire(w.file.Keys[0].ID, w.clock.Now(), time.Hour, false))
	coretest.Must(t, w.running.Use(w.file))
	w.tend(poll)
	coretest.Must(t, other.Refresh(ctx))
	if err := other.Ready(); err != nil {
		t.Errorf("contract 16: %v", err)
	}
	w.tend(signed)
	coretest.Must(t, other.Refresh(ctx))
	if err := other.Ready(); err == nil || !strings.Contains(err.Error(),
		"bring this instance the ring without it") {
		t.Errorf("contract 16: a key whose time has come by the file, and that is retired in the set: %v",
			err)
	}
	coretest.Must(t, other.Use(w.file))
	coretest.Must(t, other.Refresh(ctx))
	if err := other.Ready(); err != nil {
		t.Errorf("contract 16: with the file: %v", err)
	}
}

// Contract 16. No record is rejected before all are signed, and the next Refresh continues.
func TestReseal_Crash(t *testing.T) {
	w := newTheft(t)
	late := w.instance(w.file, -4*time.Minute)
	w.tend(3 * time.Minute)
	coretest.Must(t, late.Refresh(ctx))
	for n := range 5 {
		w.store(late, string(rune('a'+n)))
	}
	w.clock.Advance(signed)
	broken := &kvtest.Faulty{KV: w.fleet.store}
	broken.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && c.Tx.Puts[0].Name == "c/pub/c" {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	whole := w.fleet.store
	w.fleet.store = broken
	crashed, err := New(Config{Host: host.Host{KV: broken, Now: w.clock.Now, Random: w.random},
		Name: "verge.example", Keyring: w.file})
	coretest.Must(t, err)
	if err := crashed.Refresh(ctx); err == nil {
		t.Fatal("the store did not fail")
	}
	for n := range 5 {
		w.finds(&instance{Ring: crashed, f: w.fleet}, string(rune('a'+n)), true)
	}
	w.fleet.store = whole
	next := w.instance(w.file, 0)
	for n := range 5 {
		w.finds(next, string(rune('a'+n)), true)
	}
	w.plant(w.old, "theirs")
	w.finds(next, "theirs", false)
	w.finds(next, "ours", true)
}

// Contract 16 and 44. The counts of past days stay when the key that signed them is retired.
func TestReseal_Usage(t *testing.T) {
	const id, apiKey = "694069ac-4d4e-475f-906b-2f11c5eca7bd", "svc_sk_k1"
	w := newTheft(t)
	today := host.DayOf(w.clock.Now())
	of := func(i *instance) *usage.Usage {
		return &usage.Usage{Host: w.host(i)}
	}
	record := func(by string, n uint64) {
		t.Helper()
		coretest.Must(t, of(w.running).Record(ctx, host.Totals{
			Days: []host.DayTotal{{Integration: id, Day: today, Instance: by, Counts: host.Counts{n}}},
			Keys: []host.KeyUse{{Key: apiKey, Day: today}},
		}))
	}
	sum := func(when string, want uint64) {
		t.Helper()
		days, err := of(w.running).Read(ctx, id, today, today)
		coretest.Must(t, err)
		last, err := of(w.running).LastUse(ctx, []string{apiKey})
		coretest.Must(t, err)
		if got := days[0].Counts[0]; got != want || last[apiKey] != today {
			t.Errorf("contract 44: %s the sum is %d, want %d; the key was last used on %v", when, got, want,
				last)
		}
	}
	for n := range 100 {
		record("i"+string(rune('a'+n/26))+string(rune('a'+n%26)), 3)
	}
	sum("before the rotation", 300)

	// A replaced ring creates no usage of a later day, not even if it is signed again.
	at := kv.Key{Partition: usagePartition(t, w, id), Name: "u/" + id + "/" + (today + 3).String() + "/evil"}
	value, err := token.SignRecord(w.old, at.String(), []byte(`{"started":1000}`))
	coretest.Must(t, err)
	w.put(at, value)
	w.tend(signed)
	sum("after the rotation", 300)
	record("zz", 7)

	w.file.Keys = slices.Clone(w.file.Keys)
	coretest.Must(t, w.file.Retire(w.file.Keys[1].ID, w.clock.Now(), time.Hour, true))
	coretest.Must(t, w.running.Use(w.file))
	w.tend(poll)
	sum("after the old key was retired", 307)
	days, err := of(w.running).Read(ctx, id, today+3, today+3)
	if err != nil || days[0].Counts[0] != 0 {
		t.Errorf("contract 16: a replaced ring has created usage of %s: %v, %v", today+3, days, err)
	}
}

// usagePartition returns the partition of an integration's usage.
func usagePartition(t *testing.T, w *theft, id string) kv.Partition {
	t.Helper()
	for n := range 8 {
		p := kv.Partition("u" + string(rune('0'+n)))
		items, err := w.fleet.store.List(ctx, kv.Key{Partition: p, Name: "u/" + id}, "", 1)
		coretest.Must(t, err)
		if len(items) > 0 {
			return p
		}
	}
	t.Fatal("no usage is kept")
	return ""
}
