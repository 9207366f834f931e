package promises

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/verge-id/verge/core/kv"
)

var commitPromises = []Promise{
	{Atomicity, nothing, "a check without Tx holds only while there is no item", func(r *run) {
		id := r.commit(kv.Tx{Checks: []kv.Check{{Name: "a"}},
			Puts: []kv.Put{{Name: "a", Value: []byte("1")}}})
		c := r.conflict("a exists", kv.Tx{
			Checks: []kv.Check{{Name: "a"}},
			Puts:   []kv.Put{{Name: "a", Value: []byte("2")}},
		})
		it, ok := c.Item("a")
		if !ok {
			r.Fatalf("the conflict does not carry the item that is there instead")
		}
		r.wantItem(it, kv.Item{Key: kv.Key{Partition: part, Name: "a"}, Value: []byte("1"), Tx: id})
		r.wantValue("a", "1")
	}},
	{Atomicity, nothing, "a check by Tx holds only while that transaction wrote the item last", func(r *run) {
		first := r.put("a", "1", never)
		next := r.commit(kv.Tx{
			Checks: []kv.Check{{Name: "a", Tx: first}},
			Puts:   []kv.Put{{Name: "a", Value: []byte("2"), Expires: r.at(600 * second)}},
		})
		c := r.conflict(next+" overwrote a", kv.Tx{Checks: []kv.Check{{Name: "a", Tx: first}}})
		it, ok := c.Item("a")
		if !ok {
			r.Fatalf("the conflict does not carry the item that is there instead")
		}
		r.wantItem(it, kv.Item{
			Key:     kv.Key{Partition: part, Name: "a"},
			Value:   []byte("2"),
			Tx:      next,
			Expires: r.at(600 * second),
		})
		r.commit(kv.Tx{Checks: []kv.Check{{Name: "a", Tx: next}}})
	}},
	{Atomicity, nothing, "a check by Tx fails on a name that holds nothing and the conflict carries no " +
		"item for it", func(r *run) {
		c := r.conflict("nothing was ever written to a",
			kv.Tx{Checks: []kv.Check{{Name: "a", Tx: "someone"}}, Puts: []kv.Put{{Name: "b"}}})
		if len(c.Items) != 0 {
			r.Errorf("the conflict carries %q, want no item: nothing is there instead", names(c.Items))
		}
		r.wantAbsent("b", "its commit was rejected")
	}},
	{Atomicity, nothing, "a conflict carries every failed check and no other", func(r *run) {
		a, b := r.put("a", "1", never), r.put("b", "2", never)
		r.put("c", "3", never)
		c := r.conflict("b and c are not as demanded", kv.Tx{Checks: []kv.Check{
			{Name: "a", Tx: a}, {Name: "b"}, {Name: "c", Tx: b}, {Name: "d"}, {Name: "e", Tx: a},
		}})
		got := names(c.Items)
		slices.Sort(got)
		if !slices.Equal(got, []string{"b", "c"}) || len(c.Lost) != 0 {
			r.Errorf("the conflict carries items %q and lost tasks %q, want items [b c] only", got, c.Lost)
		}
	}},
	{Atomicity, nothing, "all parts of a transaction happen", func(r *run) {
		r.put("old", "1", never)
		r.schedule(kv.Task{ID: "old", Due: r.start})
		id := r.commit(kv.Tx{
			Puts:     []kv.Put{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte("2")}},
			Deletes:  []string{"old"},
			Schedule: []kv.Task{{ID: "new", Due: r.start}},
			Cancel:   []string{"old"},
		})
		for _, name := range []string{"a", "b"} {
			if it := r.get(name); it.Tx != id {
				r.Errorf("%s was written by %s, want %s: every item carries the transaction that wrote it",
					name, it.Tx, id)
			}
		}
		r.wantAbsent("old", "the transaction deleted it")
		r.claimOne("new", r.start, second)
	}},
	{Atomicity, nothing, "a failed check leaves everything as it was", func(r *run) {
		r.put("there", "1", never)
		kept := r.put("old", "1", never)
		r.schedule(kv.Task{ID: "old", Due: r.start, Payload: []byte("1")})
		r.conflict("there is an item under \"there\"", kv.Tx{
			Checks:   []kv.Check{{Name: "absent"}, {Name: "there"}},
			Puts:     []kv.Put{{Name: "a"}, {Name: "old", Value: []byte("2")}},
			Deletes:  []string{"there"},
			Schedule: []kv.Task{{ID: "new", Due: r.start}},
			Cancel:   []string{"old"},
		})
		r.wantUntouched(kept)
	}},
	{Atomicity, nothing, "a lost lease leaves everything as it was", func(r *run) {
		r.put("there", "1", never)
		kept := r.put("old", "1", never)
		r.schedule(kv.Task{ID: "old", Due: r.start, Payload: []byte("1")})
		c := r.conflict("the task was never claimed", kv.Tx{
			Checks:   []kv.Check{{Name: "absent"}},
			Held:     []kv.Held{{TaskID: "old", Lease: "guess"}},
			Puts:     []kv.Put{{Name: "a"}, {Name: "old", Value: []byte("2")}},
			Deletes:  []string{"there"},
			Schedule: []kv.Task{{ID: "new", Due: r.start}},
			Cancel:   []string{"old"},
		})
		if !slices.Equal(c.Lost, []string{"old"}) || len(c.Items) != 0 {
			r.Errorf("the conflict names lost tasks %q and items %q, want the task old only", c.Lost,
				names(c.Items))
		}
		r.wantUntouched(kept)
	}},
	{Atomicity, nothing, "checks see the state before the change", func(r *run) {
		id := r.commit(kv.Tx{
			ID:     "self",
			Checks: []kv.Check{{Name: "a"}, {Name: "b"}},
			Puts:   []kv.Put{{Name: "a"}, {Name: "b"}},
		})
		r.commit(kv.Tx{
			Checks:  []kv.Check{{Name: "a", Tx: id}, {Name: "b", Tx: id}},
			Deletes: []string{"a"},
			Puts:    []kv.Put{{Name: "b"}},
		})
		r.conflict("the check is made before the transaction's own put",
			kv.Tx{ID: "own", Checks: []kv.Check{{Name: "a", Tx: "own"}}, Puts: []kv.Put{{Name: "a"}}})
	}},
	{Atomicity, nothing, "of many concurrent commits on an absent name exactly one wins and the others " +
		"learn which", func(r *run) {
		for round := range 10 {
			name := "used-" + strconv.Itoa(round)
			errs := make([]error, 64)
			parallel(len(errs), func(i int) {
				errs[i] = r.KV.Commit(r.ctx, kv.Tx{
					ID: fmt.Sprintf("%s-%d", name, i), Partition: part,
					Checks:   []kv.Check{{Name: name}},
					Puts:     []kv.Put{{Name: name, Value: []byte(strconv.Itoa(i))}},
					Schedule: []kv.Task{{ID: fmt.Sprintf("%s-%d", name, i), Due: r.start}},
				})
			})
			winner := r.get(name)
			for i, err := range errs {
				id := fmt.Sprintf("%s-%d", name, i)
				var c *kv.Conflict
				switch {
				case err == nil && winner.Tx != id:
					r.Errorf("%s returned nil, but %s won: two commits passed the same check", id,
						winner.Tx)
				case err == nil:
				case !errors.As(err, &c):
					r.Errorf("%s failed with %v, want a *kv.Conflict", id, err)
				case winner.Tx == id:
					r.Errorf("%s was rejected, but %s has its item", id, name)
				default:
					if it, _ := c.Item(name); it.Tx != winner.Tx || string(it.Value) != string(winner.Value) {
						r.Errorf("%s got a conflict with %q of %q, but %q of %q did",
							id, it.Value, it.Tx, winner.Value, winner.Tx)
					}
				}
			}
			if tasks, _ := r.claim(r.start, 3600*second, 64); len(tasks) != 1 || tasks[0].ID != winner.Tx {
				r.Errorf("the tasks %v were scheduled, want only that of the winner %s", ids(tasks),
					winner.Tx)
			}
		}
	}},
	{Atomicity, nothing, "concurrent compare-and-set loses no update", func(r *run) {
		r.put("n", "0", never)
		const workers, each = 8, 10
		parallel(workers, func(w int) {
			for i := range each {
				r.update("n", fmt.Sprintf("add-%d-%d", w, i), 1, "n", -1)
			}
		})
		r.wantValue("n", strconv.Itoa(workers*each))
	}},
	{Atomicity, nothing, "checks on two items keep their sum under concurrent transfers", func(r *run) {
		r.put("a", "1000", never)
		r.put("b", "1000", never)
		parallel(8, func(w int) {
			from, to := "a", "b"
			if w%2 == 1 {
				from, to = to, from
			}
			for i := range 10 {
				r.update(from, fmt.Sprintf("move-%d-%d", w, i), -1-w, to, 1+w)
			}
		})
		a, _ := strconv.Atoi(string(r.get("a").Value))
		b, _ := strconv.Atoi(string(r.get("b").Value))
		if a+b != 2000 {
			r.Errorf("the sum of a and b is %d, want 2000: a commit succeeded though one of its "+
				"checks had failed",
				a+b)
		}
	}},
	{Visibility, nothing,
		"Get sees every commit, of any client, that returned before the call", func(r *run) {
			var latest atomic.Int64
			var writer sync.WaitGroup
			writer.Go(func() {
				for i := int64(1); i <= 100; i++ {
					err := r.KV.Commit(r.ctx, kv.Tx{
						ID: fmt.Sprintf("w-%d", i), Partition: part,
						Puts: []kv.Put{{Name: "n", Value: []byte(strconv.FormatInt(i, 10))}},
					})
					if err != nil {
						r.Errorf("commit: %v", err)
					}
					latest.Store(i)
				}
			})
			parallel(4, func(int) {
				for latest.Load() < 100 && !r.Failed() {
					floor := latest.Load()
					it, err := r.KV.Get(r.ctx, kv.Key{Partition: part, Name: "n"})
					if errors.Is(err, kv.ErrNotFound) && floor == 0 {
						continue
					}
					if err != nil {
						r.Errorf("get: %v", err)
						return
					}
					if got, _ := strconv.ParseInt(string(it.Value), 10, 64); got < floor {
						r.Errorf("get returned write %d after write %d had returned", got, floor)
					}
				}
			})
			writer.Wait()
		}},
}

// update adds x to the number under a in one commit and, if b is another name, y to the number under b. It
// retries until no check fails.
func (r *run) update(a, id string, x int, b string, y int) {
	for attempt := 0; ; attempt++ {
		tx := kv.Tx{ID: fmt.Sprintf("%s-%d", id, attempt), Partition: part}
		add := func(name string, delta int) bool {
			it, err := r.KV.Get(r.ctx, kv.Key{Partition: part, Name: name})
			if err != nil {
				r.Errorf("get %s: %v", name, err)
				return false
			}
			n, err := strconv.Atoi(string(it.Value))
			if err != nil {
				r.Errorf("%s holds %q", name, it.Value)
				return false
			}
			tx.Checks = append(tx.Checks, kv.Check{Name: name, Tx: it.Tx})
			tx.Puts = append(tx.Puts, kv.Put{Name: name, Value: []byte(strconv.Itoa(n + delta))})
			return true
		}
		if !add(a, x) || a != b && !add(b, y) {
			return
		}
		err := r.KV.Commit(r.ctx, tx)
		var c *kv.Conflict
		if err == nil {
			return
		}
		if !errors.As(err, &c) {
			r.Errorf("commit: %v", err)
			return
		}
	}
}

// wantUntouched checks that a rejected transaction changed nothing: neither the item "there", nor the item
// "old" of transaction kept, nor the task "old".
func (r *run) wantUntouched(kept string) {
	r.Helper()
	r.wantAbsent("a", "the transaction that put it was rejected")
	r.wantAbsent("absent", "nothing ever wrote it")
	r.wantValue("there", "1")
	if it := r.get("old"); it.Tx != kept || string(it.Value) != "1" {
		r.Errorf("old holds %q of %s, want 1 of %s: the transaction that overwrote it was rejected",
			it.Value, it.Tx, kept)
	}
	if task := r.claimOne("old", r.start, second); string(task.Payload) != "1" {
		r.Errorf("the task's payload is %q, want 1", task.Payload)
	}
}
