package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

func numbered(n int, publisher string) Integration {
	i := sample()
	i.ID, i.PublisherID = fmt.Sprintf("%08x-4d4e-475f-906b-2f11c5eca7bd", n), publisher
	return i
}

// forget removes the index, as if an earlier release had written the store.
func (w *fixture) forget(t testing.TB) {
	t.Helper()
	var names []string
	coretest.Must(t, w.each(ctx, "c/of/", func(it kv.Item) error {
		names = append(names, it.Key.Name)
		return nil
	}))
	for chunk := range slices.Chunk(names, kv.MaxTx) {
		id, err := kv.NewTxID(w.Host.Random)
		coretest.Must(t, err)
		coretest.Must(t, w.Store.Commit(ctx, kv.Tx{ID: id, Partition: Partition, Deletes: chunk}))
	}
}

// pages reads a list to its end in pages of n.
func pages[T any](t testing.TB, list func(after string, n int) ([]T, string, error), n int) (all []T) {
	t.Helper()
	for after := ""; ; {
		page, next, err := list(after, n)
		coretest.Must(t, err)
		if len(page) > n {
			t.Fatalf("a page of %d has %d", n, len(page))
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		if next <= after {
			t.Fatalf("after %q comes %q", after, next)
		}
		after = next
	}
}

func TestLists(t *testing.T) {
	w := newFixture(t)
	var ofA, ofB []string
	for n, publisher := range []string{"pub_a", "pub_b", "pub_a", "pub_ab", "pub_a", "pub_b", "pub_a"} {
		coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: publisher}))
		i := numbered(n, publisher)
		coretest.Must(t, w.PutIntegration(ctx, i, secret))
		switch publisher {
		case "pub_a":
			ofA = append(ofA, i.ID)
		case "pub_b":
			ofB = append(ofB, i.ID)
		}
	}
	var keys []string
	for range 5 {
		_, k, err := w.CreateKey(ctx, "pub_a", "", nil)
		coretest.Must(t, err)
		keys = append(keys, k.ID)
		_, _, err = w.CreateKey(ctx, "pub_b", "", nil)
		coretest.Must(t, err)
	}
	slices.Sort(keys)
	for _, n := range []int{1, 2, 3, 7, 100} {
		publishers := pages(t, func(after string, n int) ([]Versioned[Publisher], string, error) {
			return w.ListPublishers(ctx, after, n)
		}, n)
		if len(publishers) != 3 || publishers[0].Value.ID != "pub_a" || publishers[0].Version == "" {
			t.Errorf("contract 42: in pages of %d the publishers are %+v", n, publishers)
		}
		for publisher, want := range map[string][]string{"pub_a": ofA, "pub_b": ofB, "pub_none": nil,
			"pub_": nil} {
			var got []string
			for _, v := range pages(t, func(after string, n int) ([]Versioned[Integration], string, error) {
				return w.ListIntegrations(ctx, publisher, after, n)
			}, n) {
				now, err := w.ReadIntegration(ctx, v.Value.ID)
				coretest.Must(t, err)
				if now.Version != v.Version || v.Value.Webhook.URL != sample().Webhook.URL {
					t.Errorf("contract 42: listed as %+v, read as %+v", v, now)
				}
				got = append(got, v.Value.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("contract 42: in pages of %d the integrations of %s are %v, want %v", n, publisher,
					got, want)
			}
		}
		all := pages(t, func(after string, n int) ([]Versioned[Integration], string, error) {
			return w.ListIntegrations(ctx, "", after, n)
		}, n)
		if len(all) != 7 {
			t.Errorf("contract 42: in pages of %d there are %d integrations", n, len(all))
		}
		var got []string
		for _, k := range pages(t, func(after string, n int) ([]Key, string, error) {
			return w.ListKeys(ctx, "pub_a", after, n)
		}, n) {
			got = append(got, k.ID)
		}
		if !slices.Equal(got, keys) {
			t.Errorf("contract 42: in pages of %d the keys of pub_a are %v, want %v", n, got, keys)
		}
		every := pages(t, func(after string, n int) ([]Key, string, error) {
			return w.ListKeys(ctx, "", after, n)
		}, n)
		if len(every) != 10 {
			t.Errorf("contract 42: in pages of %d there are %d keys", n, len(every))
		}
	}
	for _, after := range []string{"x", "c/pub/", "key_", "key_/../../c/pub/p", ofA[0][:35], " "} {
		_, _, err1 := w.ListPublishers(ctx, after, 10)
		_, _, err2 := w.ListIntegrations(ctx, "", after, 10)
		_, _, err3 := w.ListKeys(ctx, "pub_a", after, 10)
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, ErrCursor) {
				t.Errorf("contract 42: with the cursor %q: %v", after, err)
			}
		}
	}
}

// Contract 42: an entry of the index counts only if the record agrees. An attacker who can write to the store
// cannot show a publisher another's data.
func TestIndex_OtherPublishers(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	coretest.Must(t, w.PutPublisher(ctx, Publisher{ID: "pub_b"}))
	text, _, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	w.plant(t, integrationIndex+"pub_b/"+testUUID, []byte("1"))
	w.plant(t, integrationIndex+"pub_b/"+otherUUID, []byte("1"))
	w.plant(t, keyIndex+"pub_b/"+strings.TrimPrefix(itemName(text), keyItems), []byte("1"))
	got, _, err := w.ListIntegrations(ctx, "pub_b", "", 10)
	if err != nil || len(got) != 0 {
		t.Errorf("contract 42: pub_b has the integrations %+v, %v", got, err)
	}
	keys, _, err := w.ListKeys(ctx, "pub_b", "", 10)
	if err != nil || len(keys) != 0 {
		t.Errorf("contract 42: pub_b has the keys %+v, %v", keys, err)
	}
}

// Items that this service did not write are omitted, and a failing store is an error, not an empty list.
func TestIndex_ForgedRecord(t *testing.T) {
	w := newFixture(t)
	bound(t, w)
	w.seed(t)
	forged := numbered(1, "pub_a")
	w.plant(t, integrationItems+forged.ID, []byte(`{"id":"`+forged.ID+`","publisher_id":"pub_a"}`))
	w.plant(t, integrationIndex+"pub_a/"+forged.ID, []byte("1"))
	for _, publisher := range []string{"", "pub_a"} {
		got, _, err := w.ListIntegrations(ctx, publisher, "", 10)
		if err != nil || len(got) != 1 || got[0].Value.ID != testUUID {
			t.Errorf("contract 19: of %q: %+v, %v", publisher, got, err)
		}
	}
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	_, _, err1 := w.ListIntegrations(ctx, "", "", 10)
	_, _, err2 := w.ListIntegrations(ctx, "pub_a", "", 10)
	_, _, err3 := w.ListKeys(ctx, "pub_a", "", 10)
	_, _, err4 := w.ListPublishers(ctx, "", 10)
	for n, err := range []error{err1, err2, err3, err4, w.Index(ctx)} {
		if !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("contract 5, 503: call %d: %v", n+1, err)
		}
	}
}

// TestTenThousandIntegrations: a page costs what it shows, however many there are, and the index of an
// earlier release's store is made in one pass.
func TestTenThousandIntegrations(t *testing.T) {
	const all, publishers = 10_000, 100
	w := newFixture(t)
	for n := range all {
		coretest.Must(t, w.PutIntegration(ctx, numbered(n, fmt.Sprintf("pub_%d", n%publishers)), ""))
	}
	commits := 0
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if w.count(c); c.Method == "Commit" {
			commits++
		}
		return kvtest.Pass
	}
	costs := func() (lists, gets, writes int) {
		lists, gets, writes = int(w.lists.Swap(0)), int(w.gets.Swap(0)), commits
		commits = 0
		return lists, gets, writes
	}
	costs()

	page, next, err := w.ListIntegrations(ctx, "pub_7", "", 20)
	coretest.Must(t, err)
	if lists, gets, writes := costs(); len(page) != 20 || next == "" || lists != 1 || gets != 20 ||
		writes != 0 {
		t.Errorf("a page of 20 costs %d lists, %d gets, %d commits", lists, gets, writes)
	}
	page, _, err = w.ListIntegrations(ctx, "", numbered(5000, "").ID, 50)
	coretest.Must(t, err)
	if lists, gets, _ := costs(); len(page) != 50 || lists != 1 || gets != 0 {
		t.Errorf("a page of 50 of all costs %d lists and %d gets", lists, gets)
	}

	pass := 2 * (all/listPage + 1) // the records and the index
	coretest.Must(t, w.Index(ctx))
	if lists, gets, writes := costs(); lists != pass+2 || gets != 0 || writes != 0 {
		t.Errorf("comparing an index that is whole costs %d lists, %d gets, %d commits; want %d lists",
			lists, gets, writes, pass+2)
	}
	w.forget(t)
	costs()
	coretest.Must(t, w.Index(ctx))
	if lists, gets, writes := costs(); lists != pass/2+1+2 || gets != 0 || writes != all/kv.MaxTx+1 {
		t.Errorf("making the index costs %d lists, %d gets, %d commits", lists, gets, writes)
	}
	if got := pages(t, func(after string, n int) ([]Versioned[Integration], string, error) {
		return w.ListIntegrations(ctx, "pub_99", after, n)
	}, 50); len(got) != all/publishers {
		t.Errorf("pub_99 has %d integrations", len(got))
	}
}

// An instance of an earlier release in the same fleet writes no index. The next start of this release does. A
// lost reply makes no difference.
func TestIndex_EarlierRelease(t *testing.T) {
	w := newFixture(t)
	w.seed(t)
	_, key, err := w.CreateKey(ctx, "pub_a", "", nil)
	coretest.Must(t, err)
	for _, fault := range []kvtest.Fault{kvtest.Pass, kvtest.LoseReply, kvtest.LoseRequest} {
		w.forget(t)
		tried := false
		w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method == "Commit" && !tried {
				tried = true
				return fault
			}
			return kvtest.Pass
		}
		if got, _, err := w.ListIntegrations(ctx, "pub_a", "", 10); err != nil || len(got) != 0 {
			t.Fatalf("without an index: %+v, %v", got, err)
		}
		coretest.Must(t, w.Put(ctx, Site{}, KeepRemoved, nil))
		got, _, err := w.ListIntegrations(ctx, "pub_a", "", 10)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %+v, %v", fault, got, err)
		}
		keys, _, err := w.ListKeys(ctx, "pub_a", "", 10)
		if err != nil || len(keys) != 1 || keys[0].ID != key.ID {
			t.Errorf("%s: %+v, %v", fault, keys, err)
		}
	}
	w.forget(t)
	w.Store.Decide = nil
	coretest.Must(t, w.Apply(ctx, Site{}))
	if got, _, err := w.ListIntegrations(ctx, "pub_a", "", 10); err != nil || len(got) != 1 {
		t.Errorf("after Apply: %+v, %v", got, err)
	}
}
