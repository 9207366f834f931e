package promises

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/kv"
)

var never time.Time

var itemPromises = []Promise{
	{Values, nothing, "a key that holds nothing is ErrNotFound", func(r *run) {
		r.wantAbsent("a", "nothing was ever written")
		r.put("a", "1", never)
		r.wantAbsent("b", "only a was written")
		r.wantAbsent("a/", "only a was written")
	}},
	{Values, nothing, "Get returns value, transaction and expiry", func(r *run) {
		expires := r.at(600*second + 123*time.Millisecond)
		forever, limited := r.put("a", "1", never), r.put("b", "2", expires)
		r.wantItem(r.get("a"), kv.Item{Key: kv.Key{Partition: part, Name: "a"}, Value: []byte("1"),
			Tx: forever})
		r.wantItem(r.get("b"), kv.Item{
			Key:     kv.Key{Partition: part, Name: "b"},
			Value:   []byte("2"),
			Tx:      limited,
			Expires: expires,
		})
	}},
	{Values, nothing, "an empty value is a value", func(r *run) {
		id := r.put("a", "", never)
		r.wantItem(r.get("a"), kv.Item{Key: kv.Key{Partition: part, Name: "a"}, Tx: id})
		r.conflict("a check for absence finds an item, though its value is empty",
			kv.Tx{Checks: []kv.Check{{Name: "a"}}})
	}},
	{Expiry, nothing, "an overwrite replaces value, Tx and expiry", func(r *run) {
		first := r.put("a", "1", r.at(2*second))
		later := r.put("a", "2", r.at(600*second))
		if first == later {
			r.Fatalf("the suite used one ID twice")
		}
		r.wantItem(r.get("a"), kv.Item{
			Key:     kv.Key{Partition: part, Name: "a"},
			Value:   []byte("2"),
			Tx:      later,
			Expires: r.at(600 * second),
		})
		r.put("b", "1", r.at(2*second))
		r.put("b", "2", never)
		r.put("c", "1", never)
		r.put("c", "2", r.at(2*second))
		r.Advance(3 * second)
		r.churn() // gives the store a reason to clean up
		r.wantValue("a", "2")
		r.wantValue("b", "2")
		r.wantAbsent("c", "its overwrite gave it an expiry that has passed")
	}},
	{Expiry, StillClock, "an item exists until its expiry and is absent from that time", func(r *run) {
		r.put("a", "1", r.at(2*second))
		r.Advance(2*second - time.Millisecond)
		r.wantValue("a", "1")
		r.Advance(time.Millisecond)
		r.wantAbsent("a", "the clock has reached Expires")
	}},
	{Expiry, nothing, "an expired item is absent to Get, List and checks", func(r *run) {
		old := r.put("a", "1", r.at(2*second))
		r.put("b", "2", never)
		r.Advance(3 * second)
		r.wantAbsent("a", "it has expired")
		r.wantPage("", "", 10, "b")
		c := r.conflict("a was written by "+old+" but has expired since", kv.Tx{
			Checks: []kv.Check{{Name: "a", Tx: old}},
			Puts:   []kv.Put{{Name: "a", Value: []byte("x")}},
		})
		if _, ok := c.Item("a"); ok {
			r.Errorf(
				"the conflict carries an expired item: Items holds what is there instead, and nothing is")
		}
		r.commit(kv.Tx{Checks: []kv.Check{{Name: "a"}}, Puts: []kv.Put{{Name: "a", Value: []byte("3")}}})
		r.churn()
		r.wantValue("a", "3")
	}},
	{Expiry, nothing, "an item put with an expiry that has passed is not there", func(r *run) {
		r.put("a", "1", never)
		r.put("a", "2", r.at(-second))
		r.wantAbsent("a", "its latest write expired before it was made")
	}},
	{Values, nothing, "a deleted item is gone and deleting what is absent is no error", func(r *run) {
		id := r.put("a", "1", r.at(600*second))
		r.commit(kv.Tx{Deletes: []string{"a", "b"}})
		r.wantAbsent("a", "it was deleted")
		r.conflict("a was deleted since "+id+" wrote it", kv.Tx{Checks: []kv.Check{{Name: "a", Tx: id}}})
		r.commit(kv.Tx{Checks: []kv.Check{{Name: "a"}}, Puts: []kv.Put{{Name: "a", Value: []byte("2")}}})
		r.wantValue("a", "2")
	}},
	{Values, nothing, "values are copied in and out", func(r *run) {
		// The text is long enough that a store does not keep a small copy.
		text := strings.Repeat("text", 4000)
		value, payload := []byte(text), []byte(text)
		wantText := func() {
			r.Helper()
			if it := r.get("a"); string(it.Value) != text {
				r.Errorf("the stored value changed when its caller changed its own copy")
			}
		}
		r.commit(kv.Tx{
			Puts:     []kv.Put{{Name: "a", Value: value}},
			Schedule: []kv.Task{{ID: "t", Due: r.start, Payload: payload}},
		})
		clear(value)
		clear(payload)
		wantText()
		clear(r.get("a").Value)
		wantText()
		items, err := r.KV.List(r.ctx, kv.Key{Partition: part}, "", 10)
		if err != nil || len(items) != 1 {
			r.Fatalf("list: %v, %v", items, err)
		}
		clear(items[0].Value)
		wantText()
		it, _ := r.conflict("a is there", kv.Tx{Checks: []kv.Check{{Name: "a"}}}).Item("a")
		clear(it.Value)
		wantText()
		clear(r.claimOne("t", r.start, second).Payload)
		if got := r.claimOne("t", r.at(second), second).Payload; string(got) != text {
			r.Errorf("the task's payload changed when its caller changed its own copy")
		}
	}},
	{Values, nothing, "every name, value and transaction within the limits is accepted", func(r *run) {
		var alphabet strings.Builder
		for c := byte('!'); c <= '~'; c++ {
			alphabet.WriteByte(c)
		}
		value := make([]byte, kv.MaxValue)
		for i := range value {
			value[i] = byte(i * 7)
		}
		for _, name := range []string{alphabet.String(), strings.Repeat("n", kv.MaxName), "!", "~"} {
			id := strings.Repeat("i", 60) + fmt.Sprintf("%04d", len(name)+int(name[0]))
			_, err := r.try(kv.Tx{
				ID: id, Partition: kv.Partition(name),
				Puts:     []kv.Put{{Name: name, Value: value}},
				Schedule: []kv.Task{{ID: name, Due: r.start, Payload: value}},
			})
			if err != nil {
				r.Fatalf("name %q within the limits: %v", name, err)
			}
			it, err := r.KV.Get(r.ctx, kv.Key{Partition: kv.Partition(name), Name: name})
			if err != nil || !bytes.Equal(it.Value, value) || it.Tx != id {
				r.Errorf("name %q: came back with %d bytes of %q, %v", name, len(it.Value), it.Tx, err)
			}
			tasks, _, err := r.KV.Claim(r.ctx, kv.Partition(name), r.start, second, 1)
			if err != nil || len(tasks) != 1 || tasks[0].ID != name || !bytes.Equal(tasks[0].Payload, value) {
				r.Errorf("task %q: came back as %v, %v", name, ids(tasks), err)
			}
		}
		var full kv.Tx
		for i := range kv.MaxTx {
			full.Puts = append(full.Puts, kv.Put{Name: fmt.Sprintf("n%02d", i), Value: value[:1024+i]})
		}
		r.commit(full)
		for _, p := range full.Puts {
			if !bytes.Equal(r.get(p.Name).Value, p.Value) {
				r.Errorf("%s: the value of a full transaction came back changed", p.Name)
			}
		}
	}},
	{Values, nothing, "partitions know nothing of each other", func(r *run) {
		// With partition and name joined by a slash, the first two keys would be equal.
		keys := []kv.Key{
			{Partition: "p", Name: "a/b"},
			{Partition: "p/a", Name: "b"},
			{Partition: "p0", Name: "a/b"},
		}
		for i, k := range keys {
			for _, other := range keys[i:] {
				if _, err := r.KV.Get(r.ctx, other); !errors.Is(err, kv.ErrNotFound) {
					r.Errorf("%q in %q: %v, want ErrNotFound: only other partitions were written",
						other.Name, other.Partition, err)
				}
			}
			r.commit(kv.Tx{
				Partition: k.Partition,
				Checks:    []kv.Check{{Name: k.Name}},
				Puts:      []kv.Put{{Name: k.Name, Value: []byte(k.Partition)}},
				Schedule:  []kv.Task{{ID: "t", Due: r.start, Payload: []byte(k.Partition)}},
			})
		}
		for _, k := range keys {
			items, err := r.KV.List(r.ctx, kv.Key{Partition: k.Partition}, "", 10)
			if err != nil || len(items) != 1 || items[0].Key != k {
				r.Errorf("list of %q: %v, %v, want only %q", k.Partition, names(items), err, k.Name)
			}
		}
		r.commit(kv.Tx{Partition: "p", Deletes: []string{"a/b"}})
		for _, k := range keys[1:] {
			if it, err := r.KV.Get(r.ctx, k); err != nil || string(it.Value) != string(k.Partition) {
				r.Errorf("%q in %q holds %q, %v after a delete in another partition", k.Name, k.Partition,
					it.Value, err)
			}
			tasks, _, err := r.KV.Claim(r.ctx, k.Partition, r.start, second, 10)
			if err != nil || len(tasks) != 1 || string(tasks[0].Payload) != string(k.Partition) {
				r.Errorf("claim in %q: %v, %v, want its own task only", k.Partition, ids(tasks), err)
			}
		}
	}},
	{Values, nothing, "a context that is done means ErrUnavailable and no change", func(r *run) {
		id := r.put("a", "1", never)
		r.schedule(kv.Task{ID: "t", Due: r.start})
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		want := func(call string, err error) {
			r.Helper()
			if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) {
				r.Errorf("%s with a context that is done: %v, want an error that wraps "+
					"ErrUnavailable and not ErrUnknown",
					call, err)
			}
		}
		_, err := r.KV.Get(ctx, kv.Key{Partition: part, Name: "a"})
		want("Get", err)
		_, err = r.KV.List(ctx, kv.Key{Partition: part}, "", 10)
		want("List", err)
		_, _, err = r.KV.Claim(ctx, part, r.start, 60*second, 10)
		want("Claim", err)
		want("Commit", r.KV.Commit(ctx, kv.Tx{
			ID: "late", Partition: part,
			Puts:   []kv.Put{{Name: "a", Value: []byte("2")}, {Name: "b"}},
			Cancel: []string{"t"},
		}))
		if it := r.get("a"); it.Tx != id {
			r.Errorf("a was written by %s, though that commit returned ErrUnavailable", it.Tx)
		}
		r.wantAbsent("b", "its commit returned ErrUnavailable")
		r.claimOne("t", r.start, second)
	}},
}

// churn makes more commits and claims than there are items to sweep, so that a store which cleans up during
// calls has cleaned up.
func (r *run) churn() {
	r.Helper()
	for range 8 {
		r.put("zz-churn", "x", never)
		r.commit(kv.Tx{Deletes: []string{"zz-churn"}})
		r.claim(r.at(-3600*second), second, 1)
	}
}

func (r *run) wantPage(prefix, after string, n int, want ...string) {
	r.Helper()
	items, err := r.KV.List(r.ctx, kv.Key{Partition: part, Name: prefix}, after, n)
	if err != nil {
		r.Fatalf("list: %v", err)
	}
	if !slices.Equal(names(items), want) {
		r.Errorf("list of up to %d of %q behind %q:\ngot  %q\nwant %q", n, prefix, after, names(items), want)
	}
}

var listPromises = []Promise{
	{Order, nothing, "List returns the names of the prefix in byte order with their items", func(r *run) {
		var all []string
		for _, name := range []string{"b", "a", "a/2", "a/10", "a/1", "a0", "B", "~", "!", "a-b", "a~"} {
			r.put(name, "of "+name, r.at(600*second))
			all = append(all, name)
		}
		slices.Sort(all)
		r.wantPage("", "", 100, all...)
		r.wantPage("a/", "", 100, "a/1", "a/10", "a/2")
		r.wantPage("a/1", "", 100, "a/1", "a/10")
		r.wantPage("a/3", "", 100)
		r.wantPage("~", "", 100, "~")
		items, err := r.KV.List(r.ctx, kv.Key{Partition: part, Name: "a/"}, "", 100)
		if err != nil {
			r.Fatalf("list: %v", err)
		}
		for _, it := range items {
			r.wantItem(it, r.get(it.Key.Name))
		}
	}},
	{Order, nothing, "List takes every character of a prefix as it is", func(r *run) {
		for _, name := range []string{"x*1", "xa1", "x?1", "x[a]1", `x\1`, "x{1}", "x%1", "x_1"} {
			r.put(name, "", never)
		}
		r.wantPage("x*", "", 10, "x*1")
		r.wantPage("x?", "", 10, "x?1")
		r.wantPage("x[a]", "", 10, "x[a]1")
		r.wantPage(`x\`, "", 10, `x\1`)
		r.wantPage("x{", "", 10, "x{1}")
		r.wantPage("x%", "", 10, "x%1")
		r.wantPage("x_", "", 10, "x_1")
	}},
	{Order, nothing, "List pages without a gap or a repeat", func(r *run) {
		var want []string
		for i := range 57 {
			name := fmt.Sprintf("c/%03d", i)
			want = append(want, name)
			r.put(name, "", never)
		}
		r.put("b/9", "", never)
		r.put("d/0", "", never)
		for _, n := range []int{1, 10, 19, 57, 58} {
			var got []string
			for after := ""; ; after = got[len(got)-1] {
				items, err := r.KV.List(r.ctx, kv.Key{Partition: part, Name: "c/"}, after, n)
				if err != nil {
					r.Fatalf("list: %v", err)
				}
				got = append(got, names(items)...)
				if len(items) < n || len(got) > 2*len(want) {
					break
				}
			}
			if !slices.Equal(got, want) {
				r.Errorf("pages of %d:\ngot  %q\nwant %q", n, got, want)
			}
		}
	}},
	{Order, nothing, "after may be absent and outside of the prefix", func(r *run) {
		for _, name := range []string{"c/1", "c/3", "d/1"} {
			r.put(name, "", never)
		}
		r.wantPage("c/", "c/2", 10, "c/3")
		r.wantPage("c/", "c/3", 10)
		r.wantPage("c/", "a", 10, "c/1", "c/3")
		r.wantPage("c/", "d/0", 10)
	}},
	{Expiry, nothing, "expired items do not count on a page", func(r *run) {
		for i := range 20 {
			r.put(fmt.Sprintf("c/%02d", i), "", r.at(2*second))
		}
		r.put("c/20", "", never)
		r.put("c/21", "", never)
		r.Advance(3 * second)
		r.wantPage("c/", "", 1, "c/20")
		r.wantPage("c/", "c/05", 10, "c/20", "c/21")
	}},
}
