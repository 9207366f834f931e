package liststore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

var ctx = context.Background()

var spec = method.TrustList{Name: "main", URL: "https://lists.example/eu.xml", Format: "etsi-ts-119612",
	Signers: [][]byte{[]byte("signer")}, DocType: "eu.europa.ec.av.1", Grace: 7 * 24 * time.Hour}

type fixture struct {
	*testing.T
	*testhost.Host
	store *Store
}

func newFixture(t *testing.T) *fixture {
	h := testhost.New(t)
	return &fixture{t, h, &Store{Host: h.Host}}
}

// another returns the store of another instance.
func (w *fixture) another() *Store { return &Store{Host: w.Host.Host} }

// list returns a list with that number; its document differs for each number.
func (w *fixture) list(sequence uint64) List {
	now := w.Clock.Now()
	return List{Sequence: sequence, Issued: now.Add(-time.Hour), NextUpdate: now.AddDate(0, 0, 30),
		Issuer: "The EU", Signer: "CN=signer", Document: fmt.Sprint("document ", sequence)}
}

func noAudit(*List) ([]kv.Put, error) { return nil, nil }

func (w *fixture) load(list List, certificates ...string) error {
	w.Helper()
	var all [][]byte
	for _, c := range certificates {
		all = append(all, []byte(c))
	}
	_, err := w.store.Load(ctx, "wallet", spec, list, all, noAudit)
	return err
}

func (w *fixture) must(err error) {
	w.Helper()
	coretest.Must(w.T, err)
}

// anchors returns the certificates of a store in one text.
func (w *fixture) anchors(s *Store) string {
	w.Helper()
	found, err := s.Anchors(ctx, "wallet", spec)
	if errors.Is(err, method.ErrNoList) {
		return "none"
	}
	w.must(err)
	return string(bytes.Join(found.Certificates, []byte(" ")))
}

func (w *fixture) wantAnchors(s *Store, want string) {
	w.Helper()
	if got := w.anchors(s); got != want {
		w.Errorf("contract 53: anchors %q, want %q", got, want)
	}
}

func TestLoad_Anchors(t *testing.T) {
	w := newFixture(t)
	other := w.another()
	w.wantAnchors(other, "none")
	w.must(w.load(w.list(1), "a", "b", "a"))
	w.wantAnchors(w.store, "a b")
	w.wantAnchors(other, "none") // it asks again after missingEach
	w.Clock.Advance(missingEach)
	w.wantAnchors(other, "a b")

	w.Clock.Advance(time.Second)
	w.must(w.load(w.list(2), "b"))
	w.wantAnchors(w.store, "b")
	w.Clock.Advance(checkEach - 2*time.Second)
	w.wantAnchors(other, "a b")
	w.Clock.Advance(time.Second)
	w.wantAnchors(other, "b")

	list, err := other.Read(ctx, "wallet", spec)
	w.must(err)
	if list.Entries != 1 || list.Sequence != 2 || list.Name != "main" || list.Format != spec.Format {
		t.Errorf("%+v", list)
	}
}

func TestAnchors_Grace(t *testing.T) {
	w := newFixture(t)
	w.must(w.load(w.list(1), "a"))
	w.Clock.Advance(37 * 24 * time.Hour)
	w.wantAnchors(w.store, "a")
	w.wantAnchors(w.another(), "a")
	w.Clock.Advance(time.Second)
	w.wantAnchors(w.store, "none")
	w.wantAnchors(w.another(), "none")
	if list, err := w.store.Read(ctx, "wallet", spec); err != nil || list.Sequence != 1 {
		t.Errorf("a list that is too old is not shown: %+v, %v", list, err)
	}
	w.Clock.Advance(keptTooOld)
	if _, err := w.store.Read(ctx, "wallet", spec); !errors.Is(err, method.ErrNoList) {
		t.Errorf("a list that is long over: %v", err)
	}
}

// A cached list ends with its grace, although the store is not asked.
func TestAnchors_GraceEndsInCache(t *testing.T) {
	w := newFixture(t)
	list := w.list(1)
	list.NextUpdate = w.Clock.Now().Add(-spec.Grace + 30*time.Second)
	list.Issued = list.NextUpdate.Add(-time.Hour)
	w.must(w.load(list, "a"))
	w.wantAnchors(w.store, "a")
	w.Clock.Advance(31 * time.Second)
	w.wantAnchors(w.store, "none")
}

// dated is a list by what orders it.
type dated struct {
	sequence uint64
	issued   time.Duration // after the first list
	document string
}

func TestLoad_Order(t *testing.T) {
	for _, c := range []struct {
		name         string
		first, after dated
		want         error
	}{
		{"a higher number", dated{4, 0, "a"}, dated{5, 0, "b"}, nil},
		{"a lower number", dated{5, 0, "a"}, dated{4, 0, "b"}, ErrLower},
		{"a lower number, issued later", dated{5, 0, "a"}, dated{4, time.Minute, "b"}, ErrLower},
		{"the same list", dated{5, 0, "a"}, dated{5, 0, "a"}, nil},
		{"the number with other content", dated{5, 0, "a"}, dated{5, 0, "b"}, ErrContent},
		{"the number with other content, issued later", dated{5, 0, "a"}, dated{5, time.Minute, "b"},
			ErrContent},
		{"no number, issued later", dated{0, 0, "a"}, dated{0, time.Minute, "b"}, nil},
		{"no number, issued earlier", dated{0, 0, "a"}, dated{0, -time.Minute, "b"}, ErrLower},
		{"no number, issued at the same time", dated{0, 0, "a"}, dated{0, 0, "b"}, ErrContent},
		{"no number after a number", dated{1, 0, "a"}, dated{0, time.Minute, "b"}, ErrLower},
	} {
		t.Run("contract 53: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			list := func(d dated) List {
				l := w.list(d.sequence)
				l.Issued, l.Document = l.Issued.Add(d.issued), d.document
				return l
			}
			w.must(w.load(list(c.first), "a"))
			if err := w.load(list(c.after), "b"); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			want := "b"
			if c.want != nil {
				want = "a"
			}
			w.wantAnchors(w.store, want)
			w.wantAnchors(w.another(), want)
		})
	}
}

func TestLoad_Dates(t *testing.T) {
	for _, c := range []struct {
		name               string
		issued, nextUpdate time.Duration // from now
		want               error
	}{
		{"issued a moment ago, by a fast clock", host.ClockMargin, time.Hour, nil},
		{"issued in the future", host.ClockMargin + time.Second, time.Hour, ErrFuture},
		{"next update before the issue", -time.Hour, -2 * time.Hour, ErrFuture},
		{"next update in three years", -time.Hour, 3 * 366 * 24 * time.Hour, ErrFuture},
		{"late", -31 * 24 * time.Hour, -spec.Grace, nil},
		{"grace over", -31 * 24 * time.Hour, -spec.Grace - time.Second, ErrTooOld},
	} {
		t.Run("contract 53: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			list := w.list(1)
			list.Issued, list.NextUpdate = w.Clock.Now().Add(c.issued), w.Clock.Now().Add(c.nextUpdate)
			if err := w.load(list, "a"); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// Each setting that decides about a list is in its digest, so a stored list of another configuration is none.
func TestAnchors_OtherConfiguration(t *testing.T) {
	w := newFixture(t)
	w.must(w.load(w.list(1), "a"))
	for name, change := range map[string]func(l *method.TrustList){
		"url":       func(l *method.TrustList) { l.URL += "2" },
		"file":      func(l *method.TrustList) { l.URL, l.File = "", l.URL },
		"format":    func(l *method.TrustList) { l.Format = "vical" },
		"signer":    func(l *method.TrustList) { l.Signers = [][]byte{[]byte("other")} },
		"more":      func(l *method.TrustList) { l.Signers = append(l.Signers, []byte("other")) },
		"documents": func(l *method.TrustList) { l.DocType = "org.iso.18013.5.1.mDL" },
	} {
		l := spec
		change(&l)
		if _, err := w.store.Anchors(ctx, "wallet", l); !errors.Is(err, method.ErrNoList) {
			t.Errorf("contract 53: the list counts for another %s: %v", name, err)
		}
	}
	if _, err := w.store.Anchors(ctx, "other", spec); !errors.Is(err, method.ErrNoList) {
		t.Errorf("contract 53: the list counts for another method: %v", err)
	}
	l := spec
	l.Name, l.Grace = "eu", time.Hour
	if _, err := w.store.Anchors(ctx, "wallet", l); err != nil {
		t.Errorf("another name and grace: %v", err)
	}
}

func TestAnchors_StoreDown(t *testing.T) {
	w := newFixture(t)
	w.must(w.load(w.list(1), "a"))
	w.wantAnchors(w.store, "a")
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	w.wantAnchors(w.store, "a") // it was read a moment ago
	w.Clock.Advance(checkEach)
	if _, err := w.store.Anchors(ctx, "wallet", spec); !kv.Failed(err) || errors.Is(err, method.ErrNoList) {
		t.Errorf("contract 53: a store that does not respond: %v", err)
	}
	if err := w.load(w.list(2), "b"); !kv.Failed(err) {
		t.Errorf("a load: %v", err)
	}
}

// put changes an item of the store as anyone with access to it can.
func (w *fixture) put(k kv.Key, value []byte) {
	w.Helper()
	id, err := kv.NewTxID(w.Random)
	w.must(err)
	w.must(
		w.Memory.Commit(
			ctx,
			kv.Tx{ID: id, Partition: k.Partition, Puts: []kv.Put{{Name: k.Name, Value: value}}},
		),
	)
}

func TestAnchors_DamagedStore(t *testing.T) {
	record, first := key(records, "wallet", spec), piece("wallet", spec, 0)
	other := spec
	other.URL += "2"
	for _, c := range []struct {
		name   string
		change func(w *fixture)
	}{
		{"a piece", func(w *fixture) { w.put(first, []byte("\x00\x00\x00\x01z")) }},
		{"a piece that is cut", func(w *fixture) { w.put(first, []byte("\x00\x00\x00\x02z")) }},
		{"no piece", func(w *fixture) { w.put(first, nil) }},
		{"the record", func(w *fixture) {
			it, err := w.Memory.Get(ctx, record)
			w.must(err)
			w.put(record, bytes.Replace(it.Value, []byte(`"sequence":1`), []byte(`"sequence":9`), 1))
		}},
		{"a record without a MAC", func(w *fixture) { w.put(record, []byte(`{"sequence":1}`)) }},
		{"the record of another list", func(w *fixture) {
			_, err := w.store.Load(ctx, "wallet", other, w.list(1), [][]byte{[]byte("b")}, noAudit)
			w.must(err)
			it, err := w.Memory.Get(ctx, key(records, "wallet", other))
			w.must(err)
			w.put(record, it.Value)
		}},
	} {
		t.Run("contract 19: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			w.must(w.load(w.list(1), "a"))
			c.change(w)
			_, err := w.another().Anchors(ctx, "wallet", spec)
			if !errors.Is(err, token.ErrRecord) || !strings.Contains(err.Error(), "send SIGHUP") {
				t.Errorf("%v, want that it is not authentic, and the correction", err)
			}
			w.must(w.load(w.list(2), "b"))
			w.wantAnchors(w.another(), "b")
		})
	}
}

// A long list has several pieces, and a shorter one leaves none of them.
func TestLoad_Pieces(t *testing.T) {
	w := newFixture(t)
	var many []string
	for n := range 100 {
		many = append(many, fmt.Sprintf("%d%s", n, strings.Repeat("x", 1700)))
	}
	w.must(w.load(w.list(1), many...))
	w.wantAnchors(w.another(), strings.Join(many, " "))
	count := func() int {
		items, err := w.Memory.List(ctx, kv.Key{Partition: integration.Partition, Name: pieces}, "", 100)
		w.must(err)
		return len(items)
	}
	if n := count(); n != 3 {
		t.Errorf("%d pieces", n)
	}
	w.must(w.load(w.list(2), "a"))
	if n := count(); n != 1 {
		t.Errorf("%d pieces are left", n)
	}
	w.wantAnchors(w.another(), "a")
	w.must(w.load(w.list(3)))
	w.wantAnchors(w.another(), "")

	most := make([]string, 11)
	for n := range most {
		most[n] = fmt.Sprintf("%02d%s", n, strings.Repeat("x", 64<<10-6))
	}
	w.must(w.load(w.list(4), most...))
	w.wantAnchors(w.another(), strings.Join(most, " "))
	if err := w.load(w.list(5), append(most, "a")...); !errors.Is(err, ErrTooMany) {
		t.Errorf("contract 53: more than 704 KiB: %v", err)
	}
}

// Lists that several instances load at the same time leave the highest number.
func TestLoad_Concurrent(t *testing.T) {
	w := newFixture(t)
	w.Host.Random = &coretest.Random{}
	var all sync.WaitGroup
	for n := range 5 {
		all.Add(1)
		go func() {
			defer all.Done()
			s := &Store{Host: w.Host.Host}
			_, err := s.Load(
				ctx,
				"wallet",
				spec,
				w.list(uint64(n+1)),
				[][]byte{fmt.Append(nil, n+1)},
				noAudit,
			)
			if err != nil && !errors.Is(err, ErrLower) {
				t.Errorf("%v", err)
			}
		}()
	}
	all.Wait()
	w.wantAnchors(w.another(), "5")
}

// A newer list that another instance stores between read and commit stays.
func TestLoad_Overtaken(t *testing.T) {
	w := newFixture(t)
	other := &Store{Host: w.Host.Host}
	other.KV = w.Memory
	overtaken := false
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && !overtaken {
			overtaken = true
			_, err := other.Load(ctx, "wallet", spec, w.list(5), [][]byte{[]byte("new")}, noAudit)
			w.must(err)
		}
		return kvtest.Pass
	}
	if err := w.load(w.list(4), "old"); !errors.Is(err, ErrLower) {
		t.Errorf("contract 53: %v", err)
	}
	w.wantAnchors(other, "new")
}

// One of several instances fetches, until its claim has ended.
func TestClaim(t *testing.T) {
	w := newFixture(t)
	claim := func() bool {
		t.Helper()
		ok, err := w.another().Claim(ctx, "wallet", spec, w.Clock.Now().Add(time.Minute))
		w.must(err)
		return ok
	}
	if !claim() || claim() {
		t.Error("contract 53: not exactly one instance fetches")
	}
	w.Clock.Advance(time.Minute)
	if !claim() {
		t.Error("a claim does not end")
	}
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	if ok, err := w.another().Claim(ctx, "wallet", spec, w.Clock.Now()); ok || !kv.Failed(err) {
		t.Errorf("a store that does not respond: %v, %v", ok, err)
	}
}

// The record is signed again after a rotation of the key ring.
func TestReseal(t *testing.T) {
	w := newFixture(t)
	w.must(w.load(w.list(1), "a"))
	before, err := w.Memory.Get(ctx, key(records, "wallet", spec))
	w.must(err)
	ring, err := token.NewRing("verify.verge.example", w.Random,
		token.Key{ID: "00000002", Secret: bytes.Repeat([]byte{8}, 32)},
		token.Key{ID: "9f02ab31", Secret: bytes.Repeat([]byte{7}, 32)})
	w.must(err)
	h := w.Host.Host
	h.Sealer = ring
	w.must(integration.NewDirectory(h).Reseal(ctx))
	after, err := w.Memory.Get(ctx, key(records, "wallet", spec))
	w.must(err)
	if token.RecordedWith(after.Value) == token.RecordedWith(before.Value) {
		t.Error("contract 16: the record still has the MAC of the old key")
	}
	w.wantAnchors(&Store{Host: h}, "a")
}
