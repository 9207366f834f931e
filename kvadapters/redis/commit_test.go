package redis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
)

// committing returns the request of a commit, as it waits for its batch.
func committing(s *Store, tx kv.Tx) *pending {
	base := s.base(tx.Partition)
	t := s.translate(base, tx)
	r := request{base: base, script: commitScript, share: t, commit: true, size: t.size}
	return &pending{request: r, node: s.client.(*redis.Client)}
}

// onMini returns a store on a miniredis that has the commit script.
func onMini(t *testing.T) (*Store, *miniredis.Miniredis) {
	t.Helper()
	m := miniredis.RunT(t)
	s, err := Open(t.Context(), "redis://"+m.Addr(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.client.(*redis.Client).ScriptLoad(t.Context(), commitScript.text).Err(); err != nil {
		t.Fatal(err)
	}
	return s, m
}

func creates(id, name string) kv.Tx {
	return kv.Tx{ID: id, Partition: "p", Checks: []kv.Check{{Name: name}},
		Puts: []kv.Put{{Name: name, Value: []byte(id)}}}
}

func TestCommits_SharedRun(t *testing.T) {
	s, _ := onMini(t)
	large := func(first int) kv.Tx {
		tx := kv.Tx{ID: fmt.Sprint("large", first), Partition: "p"}
		for i := range kv.MaxTx {
			tx.Deletes = append(tx.Deletes, fmt.Sprint(first, "-", i))
		}
		return tx
	}
	elsewhere := creates("2", "b")
	elsewhere.Partition = "q"
	holds := kv.Tx{ID: "3", Partition: "p", Held: []kv.Held{{TaskID: "t", Lease: "l"}}}
	for _, c := range []struct {
		rule string
		txs  []kv.Tx
		want []int // number of transactions in each run
	}{
		{"two that have nothing in common", []kv.Tx{creates("1", "a"), creates("2", "b")}, []int{2}},
		{"two partitions", []kv.Tx{creates("1", "a"), elsewhere}, []int{1, 1}},
		{"an item in common", []kv.Tx{creates("1", "a"), creates("2", "a"), creates("3", "b")}, []int{2, 1}},
		{"a check of an item that another deletes",
			[]kv.Tx{{ID: "1", Partition: "p", Deletes: []string{"a"}}, creates("2", "a")}, []int{1, 1}},
		{"a task in common",
			[]kv.Tx{holds, {ID: "4", Partition: "p", Cancel: []string{"t"}}}, []int{1, 1}},
		{"a task that another schedules", []kv.Tx{
			{ID: "4", Partition: "p", Schedule: []kv.Task{{ID: "t", Due: time.Unix(1, 0)}}}, holds},
			[]int{1, 1}},
		{"as many parts as a run can have", []kv.Tx{large(1), large(2), large(3), large(4)}, []int{3, 1}},
	} {
		var batch []*pending
		for _, tx := range c.txs {
			batch = append(batch, committing(s, tx))
		}
		var got []int
		for _, run := range runs(batch) {
			got = append(got, len(run.of))
			if len(run.keys) > 255 {
				t.Errorf("%s: a run has %d keys, more than a byte can count", c.rule, len(run.keys))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: runs of %v, want %v", c.rule, got, c.want)
		}
	}
}

// The test executes transactions of every kind in one run.
func TestCommits_SeparateResults(t *testing.T) {
	s, m := onMini(t)
	due := time.Unix(100, 0)
	for _, tx := range []kv.Tx{
		creates("first", "taken"), creates("first", "old"), creates("first", "kept"),
		{ID: "tasks", Partition: "p", Schedule: []kv.Task{
			{ID: "done", Due: due}, {ID: "again", Due: due}, {ID: "lost", Due: due}}},
	} {
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	tasks, _, err := s.Claim(t.Context(), "p", due, time.Hour, 10)
	if err != nil || len(tasks) != 3 {
		t.Fatal(tasks, err)
	}
	held := func(id string) []kv.Held {
		i := slices.IndexFunc(tasks, func(task kv.Task) bool { return task.ID == id })
		return []kv.Held{{TaskID: id, Lease: tasks[i].Lease}}
	}
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	batch := []*pending{
		committing(s, creates("second", "taken")),
		committing(s, kv.Tx{ID: "second", Partition: "p", Held: held("done"), Cancel: []string{"done"},
			Puts: []kv.Put{{Name: "log", Value: []byte("delivered"), Expires: later}}}),
		committing(s, kv.Tx{ID: "second", Partition: "p",
			Held:   []kv.Held{{TaskID: "lost", Lease: "another"}},
			Puts:   []kv.Put{{Name: "never", Value: []byte("x"), Expires: later}},
			Cancel: []string{"lost"}, Deletes: []string{"kept"},
			Schedule: []kv.Task{{ID: "never", Due: due}}}),
		committing(s, kv.Tx{ID: "second", Partition: "p", Held: held("again"),
			Schedule: []kv.Task{{ID: "again", Due: due.Add(time.Minute), Payload: []byte("2")}}}),
		committing(s, kv.Tx{ID: "second", Partition: "p", Deletes: []string{"old"}}),
		committing(s, creates("second", "new")),
	}
	if n := len(runs(batch)); n != 1 {
		t.Fatalf("%d runs, want 1", n)
	}
	s.sendBatch(route{}, batch)
	for i, p := range batch {
		if rejected := i == 0 || i == 2; p.err != nil || accepted(p.reply) == rejected {
			t.Errorf("transaction %d: %v, %v", i, p.reply, p.err)
		}
	}
	var c *kv.Conflict
	if err := conflict(creates("second", "taken"), batch[0].reply); !errors.As(err, &c) ||
		len(c.Items) != 1 || c.Items[0].Tx != "first" {
		t.Errorf("the first transaction found %v, want the existing item", err)
	}

	items, err := s.List(t.Context(), kv.Key{Partition: "p"}, "", 10)
	var names []string
	for _, it := range items {
		names = append(names, fmt.Sprintf("%s by %s", it.Key.Name, it.Tx))
		if want := (map[bool]time.Time{true: later})[it.Key.Name == "log"]; !it.Expires.Equal(want) {
			t.Errorf("%s expires at %v, want %v", it.Key.Name, it.Expires, want)
		}
	}
	want := []string{"kept by first", "log by second", "new by second", "taken by first"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("items: %v, %v, want %v", names, err, want)
	}
	if expiries, _ := m.ZMembers("{verge:p}x"); !slices.Equal(expiries, []string{"log"}) {
		t.Errorf("names that expire: %v, want only the log", expiries)
	}
	left, _, err := s.Claim(t.Context(), "p", due.Add(2*time.Hour), time.Hour, 10)
	var ids []string
	for _, task := range left {
		ids = append(ids, task.ID+string(task.Payload))
	}
	if want := []string{"again2", "lost"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("tasks: %v, %v, want %v", ids, err, want)
	}
	err = s.Commit(t.Context(), kv.Tx{ID: "late", Partition: "p", Held: held("again")})
	if !kv.IsConflict(err) {
		t.Errorf("the lease of a task that was scheduled again: %v, want a conflict", err)
	}
}

// One transaction has an item of a wrong type.
func TestCommits_RetriedAlone(t *testing.T) {
	s, m := onMini(t)
	if _, err := m.Lpush("{verge:p}i:list", "stray"); err != nil {
		t.Fatal(err)
	}
	good, bad, other := committing(s, creates("1", "a")), committing(s, creates("2", "list")),
		committing(s, creates("3", "b"))
	s.sendBatch(route{}, []*pending{good, bad, other})
	if bad.err == nil || !accepted(good.reply) || !accepted(other.reply) {
		t.Errorf("an item of a wrong type: %v; the others of its run: %v and %v", bad.err, good, other)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: name}); err != nil {
			t.Errorf("item %s: %v", name, err)
		}
	}
}

// If an error may have come after the first write, each transaction's outcome is unknown.
func TestCommits_UnknownNotRetried(t *testing.T) {
	s, m := onMini(t)
	for answer, again := range map[string]bool{
		"VERGEHALF NOPERM":                    false,
		"ERR something unknown":               false,
		"OOM command not allowed":             true,
		"WRONGTYPE Operation against a key":   true,
		"NOSCRIPT No matching script":         true,
		"READONLY You can't write against it": true,
	} {
		m.SetError(answer)
		batch := []*pending{committing(s, creates("1", "a")), committing(s, creates("2", "b"))}
		commands := runs(batch)
		s.pipeline(batch[0].node, false, commands)
		if got := commands[0].again(); len(commands) != 1 || got != again {
			t.Errorf("after %q: retried is %v, want %v", answer, got, again)
		}
	}
	m.SetError("")
	m.Close()
	batch := []*pending{committing(s, creates("1", "a")), committing(s, creates("2", "b"))}
	commands := runs(batch)
	s.pipeline(batch[0].node, false, commands)
	if commands[0].again() {
		t.Error("a run whose reply was lost is retried")
	}
}

func TestCommits_Keys(t *testing.T) {
	s, _ := onMini(t)
	one := s.translate("{verge:p}", kv.Tx{ID: "1", Partition: "p",
		Checks: []kv.Check{{Name: "a", Tx: "0"}}, Deletes: []string{"a"}})
	two := s.translate("{verge:p}", kv.Tx{ID: "2", Partition: "p",
		Held: []kv.Held{{TaskID: "t", Lease: "l"}}, Deletes: []string{"b", "c"}, Cancel: []string{"t"}})
	run := one.run("{verge:p}")
	if !run.take(two) {
		t.Fatal("two transactions that touch different items are not executed in one run")
	}
	keys, args := run.words()
	got := fmt.Sprintf("%v %v", keys, args)
	want := "[{verge:p}n {verge:p}x {verge:p}d {verge:p}t {verge:p}i:a {verge:p}i:b {verge:p}i:c] " +
		"[[0 1 0 0 1 0 0 5 5] 0 [0 0 1 0 2 0 1 6 7] t l t]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
