package promises

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

var taskPromises = []Promise{
	{Order, nothing, "a task can be claimed from its due time on, not before", func(r *run) {
		due := r.at(10 * second)
		r.schedule(kv.Task{ID: "t", Due: due, Payload: []byte("x")})
		r.wantNoneDue(due.Add(-time.Millisecond), "the task falls due a millisecond later")
		task := r.claimOne("t", due, second)
		if !task.Due.Equal(due) || string(task.Payload) != "x" {
			r.Errorf("the task came back due at %s with payload %q, want %s and x",
				stamp(task.Due), task.Payload, stamp(due))
		}
	}},
	{Leases, nothing, "a partition without tasks has none to claim and no next", func(r *run) {
		tasks, next := r.claim(r.at(9999*second), second, 10)
		if len(tasks) != 0 || !next.IsZero() {
			r.Errorf("claim returned %v and next %s, want nothing and zero", ids(tasks), stamp(next))
		}
		r.put("a", "1", never)
		if _, next := r.claim(r.at(9999*second), second, 10); !next.IsZero() {
			r.Errorf("next is %s in a partition that holds only an item, want zero", stamp(next))
		}
	}},
	{Order, nothing, "tasks are claimed earliest first, up to n at a time", func(r *run) {
		for _, i := range []int{7, 2, 9, 0, 5, 1, 8, 3, 6, 4} {
			// The ids sort against the due times, so that an order by id fails.
			r.schedule(kv.Task{ID: fmt.Sprintf("t%d", 9-i), Due: r.at(time.Duration(i) * time.Millisecond)})
		}
		tasks, next := r.claim(r.at(second), 60*second, 4)
		if want := []string{"t9", "t8", "t7", "t6"}; !slices.Equal(ids(tasks), want) {
			r.Errorf("claim returned %v, want the four earliest in order, %v", ids(tasks), want)
		}
		r.wantNext(next, r.at(4*time.Millisecond), "the fifth task is the earliest that was not claimed")
		tasks, next = r.claim(r.at(6*time.Millisecond), 60*second, 10)
		if want := []string{"t5", "t4", "t3"}; !slices.Equal(ids(tasks), want) {
			r.Errorf("claim returned %v, want those due by now in order, %v", ids(tasks), want)
		}
		r.wantNext(next, r.at(7*time.Millisecond), "the eighth task is the earliest that was not claimed")
	}},
	{Order, nothing, "next is when the earliest task not claimed falls due or comes free again",
		func(r *run) {
			_, next := r.claim(r.start, second, 10)
			r.wantNext(next, time.Time{}, "there is no task")
			r.schedule(kv.Task{ID: "a", Due: r.start}, kv.Task{ID: "late", Due: r.at(100 * second)})
			r.claimOne("a", r.start, 30*second)
			_, next = r.claim(r.at(second), second, 10)
			r.wantNext(next, r.at(30*second), "the lease of a ends before the other task falls due")
			r.claimOne("a", r.at(30*second), 300*second)
			_, next = r.claim(r.at(31*second), second, 10)
			r.wantNext(next, r.at(100*second), "the task late falls due before the lease of a ends")
			r.schedule(kv.Task{ID: "soon", Due: r.at(50 * second)})
			_, next = r.claim(r.at(32*second), second, 10)
			r.wantNext(next, r.at(50*second), "a task was scheduled before all others")
			r.commit(kv.Tx{Cancel: []string{"soon", "late"}})
			_, next = r.claim(r.at(33*second), second, 10)
			r.wantNext(next, r.at(330*second), "only a is left, under its lease")
			r.commit(kv.Tx{Cancel: []string{"a"}})
			_, next = r.claim(r.at(34*second), second, 10)
			r.wantNext(next, time.Time{}, "every task was cancelled")
		}},
	{Order, nothing, "next leaves out what the claim itself took", func(r *run) {
		r.schedule(kv.Task{ID: "a", Due: r.start}, kv.Task{ID: "late", Due: r.at(100 * second)})
		tasks, next := r.claim(r.start, second, 10)
		if len(tasks) != 1 {
			r.Fatalf("claim returned %v, want a", ids(tasks))
		}
		r.wantNext(next, r.at(100*second), "a was claimed just now, so only late was not")
	}},
	{Order, nothing, "a task of an instant long past is due", func(r *run) {
		r.schedule(kv.Task{ID: "a", Due: r.start}, kv.Task{ID: "old", Due: time.Unix(0, 0)})
		if tasks, _ := r.claim(r.start, second, 10); !slices.Equal(ids(tasks), []string{"old", "a"}) {
			r.Errorf("claim returned %v, want [old a]", ids(tasks))
		}
	}},
	{Leases, nothing, "scheduling the same ID replaces due time and payload", func(r *run) {
		r.schedule(kv.Task{ID: "t", Due: r.at(10 * second), Payload: []byte("1")})
		r.schedule(kv.Task{ID: "t", Due: r.at(5 * second), Payload: []byte("2")})
		r.schedule(kv.Task{ID: "u", Due: r.at(5 * second), Payload: []byte("1")})
		r.schedule(kv.Task{ID: "u", Due: r.at(10 * second), Payload: []byte("2")})
		for i, id := range []string{"t", "u"} {
			due := r.at(time.Duration(1+i) * 5 * second)
			task := r.claimOne(id, due, 3600*second)
			if string(task.Payload) != "2" || !task.Due.Equal(due) {
				r.Errorf("%s came back due at %s with payload %q, want %s and 2",
					id, stamp(task.Due), task.Payload, stamp(due))
			}
		}
		r.wantNoneDue(r.at(20*second), "each was replaced, not added")
	}},
	{Leases, nothing,
		"a cancelled task is gone, claimed or not, and cancelling what is absent is no error", func(r *run) {
			r.schedule(kv.Task{ID: "a", Due: r.start}, kv.Task{ID: "b", Due: r.at(second)})
			r.claimOne("a", r.start, 10*second)
			r.commit(kv.Tx{Cancel: []string{"a", "b", "c"}})
			r.wantNoneDue(r.at(3600*second), "both tasks were cancelled")
			r.schedule(kv.Task{ID: "a", Due: r.start})
			r.claimOne("a", r.start, second)
		}},
	{Leases, nothing, "an item and a task of one name are two things", func(r *run) {
		r.commit(kv.Tx{
			Puts:     []kv.Put{{Name: "x", Value: []byte("item")}},
			Schedule: []kv.Task{{ID: "x", Due: r.start}},
		})
		r.commit(kv.Tx{Deletes: []string{"x"}})
		r.claimOne("x", r.start, second)
		r.put("x", "item", never)
		r.commit(kv.Tx{Cancel: []string{"x"}})
		r.wantValue("x", "item")
		r.wantPage("", "", 10, "x")
	}},
	{Order, Idle, "ten thousand tasks are each claimed once and in order", func(r *run) {
		const total = 10_000
		r.scheduleMany(total)
		var last time.Time
		seen := make(map[string]bool)
		for {
			tasks, next := r.claim(r.at(total*time.Millisecond), 3600*second, 100)
			for _, t := range tasks {
				if seen[t.ID] {
					r.Fatalf("%s was claimed twice within its lease", t.ID)
				}
				if t.Due.Before(last) {
					r.Fatalf("%s, due at %s, was claimed after a task due at %s", t.ID, stamp(t.Due),
						stamp(last))
				}
				seen[t.ID], last = true, t.Due
			}
			if len(tasks) == 0 {
				r.wantNext(next, r.at((3600+total/1000)*second), "then the leases end")
				break
			}
		}
		if len(seen) != total {
			r.Errorf("%d tasks were claimed, want %d", len(seen), total)
		}
	}},
}

var leasePromises = []Promise{
	{Leases, nothing, "no other claim returns a leased task until the lease ends", func(r *run) {
		r.schedule(kv.Task{ID: "t", Due: r.start})
		first := r.claimOne("t", r.start, 10*second)
		r.wantNoneDue(r.start, "the task is leased")
		r.wantNoneDue(r.at(10*second-time.Millisecond), "the lease ends a millisecond later")
		again := r.claimOne("t", r.at(10*second), 10*second)
		if again.Lease == first.Lease {
			r.Errorf("both claims returned the lease %q, so the first holder passes for the second",
				first.Lease)
		}
		if !again.Due.Equal(r.start) {
			r.Errorf("the task's due time became %s through a claim, want %s", stamp(again.Due),
				stamp(r.start))
		}
		r.wantNoneDue(r.at(20*second-time.Millisecond), "the second lease ends a millisecond later")
	}},
	{Leases, nothing, "concurrent claims share no task", func(r *run) {
		const total = 300
		r.scheduleMany(total)
		var mu sync.Mutex
		claimed := make(map[string]string)
		parallel(16, func(w int) {
			for n := 1 + w%7; ; {
				tasks, _, err := r.KV.Claim(r.ctx, part, r.at(3600*second), 60*second, n)
				if err != nil {
					r.Errorf("claim: %v", err)
					return
				}
				if len(tasks) == 0 {
					return
				}
				mu.Lock()
				for _, t := range tasks {
					if other, ok := claimed[t.ID]; ok {
						r.Errorf("%s was claimed by two under the leases %s and %s", t.ID, other, t.Lease)
					}
					claimed[t.ID] = t.Lease
				}
				mu.Unlock()
			}
		})
		if len(claimed) != total {
			r.Errorf("%d tasks were claimed, want %d", len(claimed), total)
		}
		for id, lease := range claimed {
			r.commit(kv.Tx{Held: []kv.Held{{TaskID: id, Lease: lease}}, Cancel: []string{id}})
		}
		r.wantNoneDue(r.at(7200*second), "every task was cancelled by its holder")
	}},
	{Leases, nothing, "a claim and a commit that cancels the task never both have it", func(r *run) {
		for i := range 50 {
			id := fmt.Sprintf("t%d", i)
			r.schedule(kv.Task{ID: id, Due: r.start})
			old := r.claimOne(id, r.start, second)
			var tasks []kv.Task
			var claimErr, commitErr error
			parallel(2, func(w int) {
				if w == 0 { // the holder whose lease has ended finishes the task
					_, commitErr = r.try(kv.Tx{Held: []kv.Held{{TaskID: id, Lease: old.Lease}},
						Cancel: []string{id}})
				} else { // another claim takes over the task
					tasks, _, claimErr = r.KV.Claim(r.ctx, part, r.at(second), second, 1)
				}
			})
			var c *kv.Conflict
			if claimErr != nil || commitErr != nil && !errors.As(commitErr, &c) {
				r.Fatalf("claim: %v, commit: %v", claimErr, commitErr)
			}
			if took, finished := len(tasks) == 1, commitErr == nil; took == finished {
				r.Fatalf("round %d: the old holder finished: %v, a new one took over: %v, want exactly one",
					i, finished, took)
			}
			r.commit(kv.Tx{Cancel: []string{id}})
		}
	}},
	{Leases, nothing, "Held holds under the latest claim", func(r *run) {
		r.schedule(kv.Task{ID: "t", Due: r.start})
		task := r.claimOne("t", r.start, 10*second)
		r.commit(kv.Tx{
			Held: []kv.Held{{TaskID: "t", Lease: task.Lease}},
			Puts: []kv.Put{{Name: "a", Value: []byte("1")}},
		})
		r.wantValue("a", "1")
		r.commit(kv.Tx{Held: []kv.Held{{TaskID: "t", Lease: task.Lease}}, Cancel: []string{"t"}})
		r.wantLost(task, "the task was cancelled")
		r.wantNoneDue(r.at(3600*second), "the task was cancelled")
	}},
	{Leases, nothing, "Held holds after the lease has ended if no claim took over", func(r *run) {
		r.schedule(kv.Task{ID: "t", Due: r.start}, kv.Task{ID: "u", Due: r.at(1000 * second)})
		task := r.claimOne("t", r.start, 2*second)
		r.Advance(3 * second)
		if tasks, _ := r.claim(r.at(second), second, 10); len(tasks) != 0 {
			r.Fatalf("claim returned %v within the lease", ids(tasks))
		}
		r.commit(kv.Tx{Held: []kv.Held{{TaskID: "t", Lease: task.Lease}}, Cancel: []string{"t"}})
		r.wantNoneDue(r.at(999*second), "the task was cancelled")
	}},
	{Leases, nothing, "Held is lost once another claim took over", func(r *run) {
		r.schedule(kv.Task{ID: "t", Due: r.start})
		old := r.claimOne("t", r.start, 10*second)
		latest := r.claimOne("t", r.at(10*second), 10*second)
		r.wantLost(old, "another claim took the task over")
		r.commit(kv.Tx{Held: []kv.Held{{TaskID: "t", Lease: latest.Lease}}, Cancel: []string{"t"}})
	}},
	{Leases, nothing, "Held is lost once the task was cancelled, even if it was scheduled again",
		func(r *run) {
			r.schedule(kv.Task{ID: "t", Due: r.start})
			task := r.claimOne("t", r.start, 10*second)
			r.commit(kv.Tx{Cancel: []string{"t"}})
			r.wantLost(task, "the task was cancelled")
			r.schedule(kv.Task{ID: "t", Due: r.start})
			r.wantLost(task, "the task that was claimed is gone; this is another one of its ID")
			r.claimOne("t", r.start, second)
		}},
	{Leases, nothing, "scheduling the same ID ends the lease", func(r *run) {
		r.schedule(kv.Task{ID: "t", Due: r.start})
		task := r.claimOne("t", r.start, 100*second)
		r.schedule(kv.Task{ID: "t", Due: r.at(second)})
		r.wantLost(task, "the task was scheduled again")
		r.claimOne("t", r.at(second), 100*second)
		r.wantLost(task, "the task was scheduled again and claimed by another")
	}},
	{Leases, nothing, "a holder puts its own task off", func(r *run) {
		r.schedule(kv.Task{ID: "t", Due: r.start, Payload: []byte("1")})
		task := r.claimOne("t", r.start, 100*second)
		r.commit(kv.Tx{
			Held:     []kv.Held{{TaskID: "t", Lease: task.Lease}},
			Schedule: []kv.Task{{ID: "t", Due: r.at(5 * second), Payload: []byte("2")}},
		})
		r.wantNoneDue(r.at(5*second-time.Millisecond), "it falls due a millisecond later")
		again := r.claimOne("t", r.at(5*second), second)
		if string(again.Payload) != "2" || !again.Due.Equal(r.at(5*second)) {
			r.Errorf("the task came back due at %s with payload %q, want %s and 2",
				stamp(again.Due), again.Payload, stamp(r.at(5*second)))
		}
	}},
	{Leases, nothing, "an empty, guessed or borrowed lease holds nothing", func(r *run) {
		r.schedule(kv.Task{ID: "t", Due: r.start})
		r.wantLost(kv.Task{ID: "t"}, "the task was never claimed")
		task := r.claimOne("t", r.start, 10*second)
		r.schedule(kv.Task{ID: "u", Due: r.start})
		other := r.claimOne("u", r.start, 10*second)
		r.wantLost(kv.Task{ID: "t"}, "the lease is empty")
		r.wantLost(kv.Task{ID: "t", Lease: task.Lease + "0"}, "no claim returned that lease")
		r.wantLost(kv.Task{ID: "t", Lease: other.Lease}, "the lease is another task's")
		r.wantLost(kv.Task{ID: "v", Lease: task.Lease}, "there is no such task")
	}},
	{Leases, nothing, "a conflict names every lost task and no other", func(r *run) {
		r.schedule(kv.Task{ID: "a", Due: r.start}, kv.Task{ID: "b", Due: r.start},
			kv.Task{ID: "c", Due: r.start})
		tasks, _ := r.claim(r.start, second, 10)
		if len(tasks) != 3 {
			r.Fatalf("claim returned %v, want three", ids(tasks))
		}
		var tx kv.Tx
		for _, t := range tasks {
			tx.Held = append(tx.Held, kv.Held{TaskID: t.ID, Lease: t.Lease})
		}
		r.commit(kv.Tx{Cancel: []string{"a", "c"}})
		c := r.conflict("a and c were cancelled", tx)
		slices.Sort(c.Lost)
		if !slices.Equal(c.Lost, []string{"a", "c"}) {
			r.Errorf("the conflict names %v, want [a c]", c.Lost)
		}
	}},
}

var durabilityPromises = []Promise{
	{Durability, Restart, "what a commit changed before it returned survives", func(r *run) {
		r.put("gone", "1", never)
		r.put("short", "1", r.at(2*second))
		r.schedule(kv.Task{ID: "cancelled", Due: r.start}, kv.Task{ID: "moved", Due: r.start})
		id := r.commit(kv.Tx{
			Puts:    []kv.Put{{Name: "a", Value: []byte("1"), Expires: r.at(600 * second)}},
			Deletes: []string{"gone"},
			Schedule: []kv.Task{
				{ID: "t", Due: r.at(second), Payload: []byte("x")},
				{ID: "moved", Due: r.at(5 * second)},
			},
			Cancel: []string{"cancelled"},
		})
		r.KV = r.Reopen()
		r.wantItem(r.get("a"), kv.Item{
			Key:     kv.Key{Partition: part, Name: "a"},
			Value:   []byte("1"),
			Tx:      id,
			Expires: r.at(600 * second),
		})
		r.wantAbsent("gone", "it was deleted")
		task := r.claimOne("t", r.at(second), 10*second)
		if string(task.Payload) != "x" || !task.Due.Equal(r.at(second)) {
			r.Errorf("the task came back due at %s with payload %q, want %s and x",
				stamp(task.Due), task.Payload, stamp(r.at(second)))
		}
		r.claimOne("moved", r.at(5*second), 10*second)
		r.Advance(3 * second)
		r.wantAbsent("short", "it has expired")
	}},
	{Durability, Restart, "a leased task is never lost and its lease never returned twice", func(r *run) {
		r.schedule(kv.Task{ID: "t", Due: r.start})
		task := r.claimOne("t", r.start, 10*second)
		r.KV = r.Reopen()
		again := r.claimOne("t", r.at(10*second), 10*second)
		if again.Lease == task.Lease {
			r.Errorf("the lease %q was returned before and after", task.Lease)
		}
		r.wantLost(task, "another claim took the task over")
		r.commit(kv.Tx{Held: []kv.Held{{TaskID: "t", Lease: again.Lease}}, Cancel: []string{"t"}})
		r.KV = r.Reopen()
		r.wantNoneDue(r.at(3600*second), "the task was cancelled")
	}},
}

// wantLost checks that a commit with the task's lease is rejected.
func (r *run) wantLost(task kv.Task, why string) {
	r.Helper()
	c := r.conflict(why, kv.Tx{
		Held: []kv.Held{{TaskID: task.ID, Lease: task.Lease}},
		Puts: []kv.Put{{Name: "lost"}},
	})
	if !slices.Equal(c.Lost, []string{task.ID}) {
		r.Errorf("the conflict names the lost tasks %q, want %q, because %s", c.Lost, task.ID, why)
	}
	r.wantAbsent("lost", "its commit was rejected")
}

// scheduleMany schedules task number i of total at i milliseconds. It uses full transactions of several
// callers, so that a store which groups commits can group them.
func (r *run) scheduleMany(total int) {
	r.Helper()
	const callers = 8
	parallel(callers, func(w int) {
		for at := w * kv.MaxTx; at < total; at += callers * kv.MaxTx {
			var tx kv.Tx
			for i := at; i < min(at+kv.MaxTx, total); i++ {
				tx.Schedule = append(tx.Schedule, kv.Task{
					ID:      fmt.Sprintf("t%05d", i),
					Due:     r.at(time.Duration(i) * time.Millisecond),
					Payload: []byte("x"),
				})
			}
			if _, err := r.try(tx); err != nil {
				r.Errorf("commit: %v", err)
			}
		}
	})
}
