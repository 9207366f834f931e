package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// keep puts a signed item, as other packages do.
func (w *fixture) keep(t testing.TB, name, object string, expires time.Time) {
	t.Helper()
	value, err := token.SignRecord(w.Host.Sealer, itemKey(name).String(), []byte(object))
	coretest.Must(t, err)
	id, err := kv.NewTxID(w.Host.Random)
	coretest.Must(t, err)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: id, Partition: Partition,
		Puts: []kv.Put{{Name: name, Value: value, Expires: expires}}}))
}

// Contract 16: items that a superseded key has signed stay unchanged, so that a later key does not make them
// valid.
func TestResealSignsNothingOfASupersededKey(t *testing.T) {
	w := newFixture(t)
	keys := bound(t, w)
	var names []string
	for _, prefix := range slices.Concat(resigned, history) {
		names = append(names, prefix+"x")
		w.keep(t, prefix+"x", `{"n":1}`, time.Time{})
	}
	_, err := w.SavePublisher(ctx, Publisher{ID: "pub_a"}, "")
	coretest.Must(t, err)
	i := Integration{ID: testUUID, PublisherID: "pub_a", Webhook: Webhook{URL: "https://hooks.example"}}
	coretest.Must(t, w.PutIntegration(ctx, i, "a secret of ours"))
	names = append(names, publisherItems+"pub_a", integrationItems+testUUID)
	coretest.Must(t, keys.Rotate(w.Host.Random, w.Clock.Now(), time.Minute))
	keys.Keys[0].Alone = true
	w.use(t, keys)
	coretest.Must(t, w.Reseal(ctx))
	for _, name := range names {
		if by := token.RecordedWith(w.raw(t, name).Value); by != keys.Keys[1].ID {
			t.Errorf("contract 16: %s is signed by %s", name, by)
		}
	}
}

// Contract 16: Reseal signs what other packages keep in the partition, too. Only the signature changes.
func TestResealSignsWhatOthersKeep(t *testing.T) {
	w := newFixture(t)
	keys := bound(t, w)
	expires := w.Clock.Now().Add(48 * time.Hour).Truncate(time.Second)
	var names []string
	for _, prefix := range resigned {
		for n := range 70 {
			names = append(names, fmt.Sprintf("%sx%03d", prefix, n))
			w.keep(t, names[len(names)-1], fmt.Sprintf(`{"n":%d}`, n), expires)
		}
	}
	_, err := w.SavePublisher(ctx, Publisher{ID: "pub_a"}, "", w.entry(t, "publisher.create")...)
	coretest.Must(t, err)
	w.plant(t, "c/mem/forged", []byte(`{"n":1,"m":"`+strings.Repeat("A", 27)+`"}`))
	w.plant(t, "c/mem/plain", []byte(`1`))
	coretest.Must(t, keys.Rotate(w.Host.Random, w.Clock.Now(), time.Minute))
	w.Clock.Advance(2 * time.Minute)
	w.use(t, keys)

	// One of them is changed while the others are signed again.
	changed := false
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		touches := func(p kv.Put) bool { return p.Name == "c/con/x003" }
		if c.Method == "Commit" && !changed && slices.ContainsFunc(c.Tx.Puts, touches) {
			changed = true
			w.keep(t, "c/con/x003", `{"n":"changed"}`, expires)
		}
		return kvtest.Pass
	}
	coretest.Must(t, w.Reseal(ctx))
	w.Store.Decide = nil
	for n, name := range names {
		it := w.raw(t, name)
		want := fmt.Sprintf(`{"n":%d,`, n%70)
		if name == "c/con/x003" {
			want = `{"n":"changed",`
		}
		if by := token.RecordedWith(it.Value); by != keys.Keys[0].ID || !it.Expires.Equal(expires) {
			t.Errorf("contract 16: %s is signed by %q and expires at %s", name, by, it.Expires)
		}
		if !strings.HasPrefix(string(it.Value), want) {
			t.Errorf("contract 16: Reseal made of %s: %s, want %s", name, it.Value, want)
		}
		if _, err := token.CheckRecord(w.Host.Sealer, it.Key.String(), it.Value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := token.CheckRecord(w.Host.Sealer, "c/c/mem/forged",
		w.raw(t, "c/mem/forged").Value); err == nil {
		t.Error("contract 19: Reseal signed what is forged")
	}

	w.Clock.Advance(host.ClockMargin + time.Hour)
	coretest.Must(t, keys.Retire(keys.Keys[1].ID, w.Clock.Now(), time.Minute, true))
	w.use(t, keys)
	for _, publisher := range []string{"", "pub_a"} {
		got, _, err := audit.List(ctx, w.Memory, w.Host.Sealer, publisher, "", 10)
		if err != nil || len(got) != 1 {
			t.Errorf("audit: without the old key the audit of %q is %+v, %v", publisher, got, err)
		}
	}
	writes := 0
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			writes++
		}
		return kvtest.Pass
	}
	coretest.Must(t, w.Reseal(ctx))
	if writes != 0 {
		t.Errorf("Reseal writes %d times what the newest key has signed", writes)
	}
}
