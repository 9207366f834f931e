package etcd

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// etcd decides by comparing bytes. The result must be what the adapter would decide by reading the
// record.
func FuzzBoundsHoldExactlyTheLiveRecordsOfATx(f *testing.F) {
	f.Add("tx", "tx", uint64(5), uint64(5), []byte("v"))
	f.Add("tx", "tx", uint64(6), uint64(5), []byte{})
	f.Add("tx", "tx", uint64(5), uint64(6), []byte{0xff, 0xff, 0xff})
	f.Add("a", "ab", uint64(never), uint64(1), []byte{2})
	f.Add("ab", "a", uint64(never), uint64(1), []byte{2})
	f.Add("a\x00", "a", uint64(1<<56), uint64(1), []byte{1})
	f.Add("b", "a", uint64(9), uint64(never-1), []byte{1})
	f.Add("tx", "tx", uint64(never), uint64(never-1), []byte{})
	f.Fuzz(func(t *testing.T, tx, asked string, expires, now uint64, value []byte) {
		if len(tx) < 1 || len(tx) > 64 || len(asked) < 1 || len(asked) > 64 || now == never {
			return
		}
		stored := encodeItem(tx, expires, value)
		rec, ok := decodeItem([]byte(stored))
		if !ok || rec.tx != tx || rec.expires != expires || string(rec.value) != string(value) {
			t.Fatalf("%q until %d = %q came back as %+v", tx, expires, value, rec)
		}
		between := stored > aliveAfter(asked, now) && stored < lastOf(asked)
		if want := tx == asked && !rec.expired(now); between != want {
			t.Errorf("the record of %q until %d lies between the bounds of %q at %d: %v, want %v",
				tx, expires, asked, now, between, want)
		}
	})
}

func FuzzDecodersTakeAnything(f *testing.F) {
	l := layout{"verge/"}
	f.Add([]byte(encodeItem("tx", never, []byte("v"))))
	f.Add([]byte(encodeTask(7, []byte("p"))))
	f.Add([]byte(encodeCounter(7)))
	f.Add([]byte(newLease(7, "0123456789abcdef", 3)))
	f.Add([]byte(l.due("p", 7, "id")))
	f.Add([]byte(l.expiry(7, l.item("p", "name"))))
	f.Add([]byte(l.expiry(7, l.meter("p", "name"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if rec, ok := decodeItem(b); ok && encodeItem(rec.tx, rec.expires, rec.value) != string(b) {
			t.Errorf("%q is read as an item, but encodes differently", b)
		}
		if due, payload, ok := decodeTask(b); ok && encodeTask(due, payload) != string(b) {
			t.Errorf("%q is read as a task, but encodes differently", b)
		}
		if tat, ok := decodeCounter(b); ok && encodeCounter(tat) != string(b) {
			t.Errorf("%q is read as a counter, but encodes differently", b)
		}
		if ends, ok := leaseEnds(string(b)); ok && !strings.HasPrefix(string(b), newLease(ends, "", 0)[:17]) {
			t.Errorf("%q is read as a lease until %d", b, ends)
		}
		ready, id, err := l.splitDue("p", string(b))
		if err == nil && !strings.EqualFold(l.due("p", ready, id), string(b)) {
			t.Errorf("%q is read as an entry of task %q", b, id)
		}
		key, err := l.splitExpiry(string(b))
		if err == nil && !strings.HasSuffix(string(b), strings.TrimPrefix(key, "verge/")) {
			t.Errorf("%q is read as an entry of %q", b, key)
		}
	})
}

func TestEntriesSortByTime(t *testing.T) {
	l := layout{"v/"}
	times := []time.Time{
		time.Unix(-1<<40, 0), time.Unix(-1, 0), time.Unix(0, 0), time.Unix(0, 1),
		time.Unix(1, 0), time.Date(2026, 11, 20, 22, 10, 0, 1, time.UTC), time.Unix(1<<40, 0),
	}
	for i, at := range times[1:] {
		for _, p := range []kv.Partition{"p", "~"} {
			before, after := l.due(p, sortable(times[i]), "z"), l.due(p, sortable(at), "a")
			if before >= after || after >= l.dueEnd(p) || before < l.dueFrom(p, 0) {
				t.Errorf("the entry %q does not sort before %q, both within their partition", before, after)
			}
			if from := l.dueFrom(p, sortable(at)); before >= from || after < from {
				t.Errorf("%q does not sort between the earlier entries and the others", from)
			}
		}
		if sortable(at) == never || sortable(at) == 0 && i < len(times)-2 {
			t.Errorf("%v encodes to the value that means never", at)
		}
	}
}
