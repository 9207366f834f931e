package audit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

var ctx = context.Background()

func write(t testing.TB, h *testhost.Host, e Entry) {
	t.Helper()
	puts, err := e.Puts(h.Sealer, h.Random, h.Clock.Now())
	coretest.Must(t, err)
	put(t, h, puts...)
}

func put(t testing.TB, h *testhost.Host, puts ...kv.Put) {
	t.Helper()
	id, err := kv.NewTxID(h.Random)
	coretest.Must(t, err)
	coretest.Must(t, h.Store.Commit(ctx, kv.Tx{ID: id, Partition: partition, Puts: puts}))
}

// targets returns the targets of all entries of a list, read in pages of n.
func targets(t testing.TB, h *testhost.Host, publisher string, n int) (all []string) {
	t.Helper()
	for after := ""; ; {
		page, next, err := List(ctx, h.KV, h.Sealer, publisher, after, n)
		coretest.Must(t, err)
		for _, e := range page {
			all = append(all, e.Target)
		}
		if next == "" {
			return all
		}
		after = next
	}
}

func TestList_NewestFirst(t *testing.T) {
	h := testhost.New(t)
	var all, ofA []string
	for n := range 25 {
		e := Entry{Operation: "key.create", Target: fmt.Sprint("key_", n), Publisher: "pub_a"}
		if n%5 == 0 {
			e.Publisher = []string{"pub_b", ""}[n%2]
		}
		write(t, h, e)
		h.Clock.Advance(time.Millisecond)
		all = append(all, e.Target)
		if e.Publisher == "pub_a" {
			ofA = append(ofA, e.Target)
		}
	}
	slices.Reverse(all)
	slices.Reverse(ofA)
	for _, n := range []int{1, 7, 25, 100} {
		if got := targets(t, h, "", n); !slices.Equal(got, all) {
			t.Errorf("audit: in pages of %d all entries are %v", n, got)
		}
		if got := targets(t, h, "pub_a", n); !slices.Equal(got, ofA) {
			t.Errorf("audit: in pages of %d a publisher's entries are %v", n, got)
		}
	}
	if got := targets(t, h, "pub_", 10); len(got) != 0 {
		t.Errorf("contract 42: a publisher whose id is a prefix of another's sees %v", got)
	}
	if _, _, err := List(ctx, h.KV, h.Sealer, "", "c/pub/x", 10); !errors.Is(err, ErrCursor) {
		t.Errorf("an invalid cursor: %v", err)
	}
}

func TestEntry_RoundTrip(t *testing.T) {
	h := testhost.New(t)
	want := Entry{At: h.Clock.Now().UTC().Truncate(time.Millisecond),
		Actor: Actor{Member, "mem_1", "Ada <b>"}, Publisher: "pub_a", Operation: "integration.change",
		Target: testhost.UUID, Changes: []Change{{"name", "Old & \"odd\"", "Neu ä"}}}
	write(t, h, want)
	got, next, err := List(ctx, h.KV, h.Sealer, "pub_a", "", 10)
	coretest.Must(t, err)
	if len(got) != 1 || next != "" || !isID(got[0].ID) {
		t.Fatalf("%+v, %q", got, next)
	}
	want.ID = got[0].ID
	if !reflect.DeepEqual(got[0], want) {
		t.Errorf("%+v, want %+v", got[0], want)
	}
}

// An entry is deleted after a year, in both lists.
func TestEntry_Life(t *testing.T) {
	h := testhost.New(t)
	write(t, h, Entry{Operation: "key.create", Publisher: "pub_a"})
	h.Clock.Advance(364 * 24 * time.Hour)
	if len(targets(t, h, "", 10)) != 1 || len(targets(t, h, "pub_a", 10)) != 1 {
		t.Error("audit: an entry is deleted before its year is over")
	}
	h.Clock.Advance(2 * 24 * time.Hour)
	if len(targets(t, h, "", 10)) != 0 || len(targets(t, h, "pub_a", 10)) != 0 {
		t.Error("audit: an entry exists after more than a year")
	}
}

// Contract 19: an attacker who can write to the store can neither create an entry, nor move one to another
// publisher or time.
func TestList_ForgedEntries(t *testing.T) {
	h := testhost.New(t)
	write(t, h, Entry{Operation: "key.create", Target: "key_1", Publisher: "pub_a"})
	items, err := h.Store.List(ctx, kv.Key{Partition: partition, Name: Entries}, "", 10)
	coretest.Must(t, err)
	value, id := items[0].Value, strings.TrimPrefix(items[0].Key.Name, Entries)
	earlier := "0" + id[1:]
	body, _, _ := strings.Cut(string(value), `,"m":"`)
	put(t, h,
		kv.Put{Name: ofPublisher("pub_b") + id, Value: value},
		kv.Put{Name: Entries + earlier, Value: value},
		kv.Put{Name: ofPublisher("pub_c") + id, Value: []byte(body + "}")},
		kv.Put{Name: ofPublisher("pub_d") + id, Value: []byte("{")})
	for _, publisher := range []string{"pub_b", "pub_c", "pub_d"} {
		if got := targets(t, h, publisher, 10); len(got) != 0 {
			t.Errorf("contract 19: %s sees %v", publisher, got)
		}
	}
	if got := targets(t, h, "", 10); !slices.Equal(got, []string{"key_1"}) {
		t.Errorf("contract 19: all entries are %v", got)
	}
}

// Contract 16: a leaked ring that was replaced cannot sign an entry of today.
func TestList_ReplacedRing(t *testing.T) {
	h := testhost.New(t)
	keys, err := keyring.Generate(h.Random, h.Clock.Now())
	coretest.Must(t, err)
	use := func(k keyring.File) {
		t.Helper()
		h.Sealer, err = k.Ring("verify.verge.example", h.Random, h.Clock.Now)
		coretest.Must(t, err)
	}
	use(keys)
	leaked := h.Sealer
	write(t, h, Entry{Operation: "key.create", Target: "before"})
	coretest.Must(t, keys.Rotate(h.Random, h.Clock.Now(), time.Minute))
	h.Clock.Advance(time.Hour)
	use(keys)
	puts, err := Entry{Operation: "key.create", Target: "forged"}.Puts(leaked, h.Random, h.Clock.Now())
	coretest.Must(t, err)
	put(t, h, puts...)
	if got := targets(t, h, "", 10); !slices.Equal(got, []string{"before"}) {
		t.Errorf("contract 16: the entries are %v", got)
	}
}

func TestList_ReadsOnlyPage(t *testing.T) {
	h := testhost.New(t)
	for range 300 {
		write(t, h, Entry{Operation: "key.create", Publisher: "pub_a"})
		h.Clock.Advance(time.Second)
	}
	h.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method != "List" {
			t.Errorf("List calls %s", c.Method)
		}
		return kvtest.Pass
	}
	calls := h.Store.Calls()
	page, next, err := List(ctx, h.KV, h.Sealer, "pub_a", "", 50)
	coretest.Must(t, err)
	if len(page) != 50 || next != page[49].ID || h.Store.Calls() != calls+1 {
		t.Errorf("%d entries, next %q, %d calls", len(page), next, h.Store.Calls()-calls)
	}
}

// An entry that is too long does not make its change fail.
func TestEntry_Cut(t *testing.T) {
	h := testhost.New(t)
	long := strings.Repeat("ä<", 1000)
	e := Entry{Operation: "integration.change", Target: long, Publisher: "pub_a"}
	for range 500 {
		e.Changes = append(e.Changes, Change{"name", long, long})
	}
	write(t, h, e)
	got, _, err := List(ctx, h.KV, h.Sealer, "", "", 1)
	coretest.Must(t, err)
	last := got[0].Changes[len(got[0].Changes)-1]
	if len(got[0].Changes) < 2 || last.Field != "…" || !utf8.ValidString(got[0].Target) ||
		!strings.HasSuffix(got[0].Target, "…") || len(got[0].Target) > maxText {
		t.Errorf("%d changes, the last %+v, target %q", len(got[0].Changes), last, got[0].Target)
	}
}

func TestOrigin(t *testing.T) {
	for url, want := range map[string]string{
		"":                                     "",
		"https://a.example":                    "https://a.example",
		"https://a.example/":                   "https://a.example",
		"https://a.example:8443/hooks/s3cret":  "https://a.example:8443/…",
		"https://a.example/?token=s3cret":      "https://a.example/…",
		"s3cret":                               "…",
		"https://user:s3cret@a.example/":       "https://a.example",
		"https://a.example/%zz-that-is-broken": "…",
	} {
		if got := Origin(url); got != want {
			t.Errorf("%q is shown as %q, want %q", url, got, want)
		}
	}
}

func TestPuts_NoRandomness(t *testing.T) {
	h := testhost.New(t)
	puts, err := Entry{Operation: "x"}.Puts(h.Sealer, strings.NewReader("abc"), h.Clock.Now())
	if err == nil || puts != nil {
		t.Errorf("%+v, %v", puts, err)
	}
}
