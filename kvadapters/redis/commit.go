package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/verge-id/verge/core/kv"
)

// Commits and claims remove expired names from the index. Only one in sweepEvery does so, so that the
// others do not pay for the search.
const (
	sweepEvery  = 8
	sweepAtOnce = 64 // a commit adds 8 for each of its puts
)

// Commit implements kv.KV.
func (s *Store) Commit(ctx context.Context, tx kv.Tx) error {
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	base := s.base(tx.Partition)
	t := s.translate(base, tx)
	reply, err := s.do(ctx, request{base: base, script: commitScript, share: t, commit: true, size: t.size})
	if err != nil {
		return err
	}
	if accepted(reply) {
		return nil
	}
	return conflict(tx, reply)
}

// conflict decodes the script's reply: pairs of a failed check's number and its item, and the numbers of
// lost leases.
func conflict(tx kv.Tx, reply any) error {
	var parts []any
	if replies, _ := reply.([]any); len(replies) == 1 {
		parts, _ = replies[0].([]any)
	}
	if len(parts) != 2 {
		return damaged("the reply to a commit is %v", reply)
	}
	found, _ := parts[0].([]any)
	lost, _ := parts[1].([]any)
	c := new(kv.Conflict)
	for i := 0; i+1 < len(found); i += 2 {
		n, _ := found[i].(int64)
		if n < 0 || n >= int64(len(tx.Checks)) {
			return damaged("the reply contains a check %d, which the commit does not have", n)
		}
		item, err := decodeItem(kv.Key{Partition: tx.Partition, Name: tx.Checks[n].Name}, found[i+1])
		if err != nil {
			return err
		}
		c.Items = append(c.Items, item)
	}
	for _, v := range lost {
		n, _ := v.(int64)
		if n < 0 || n >= int64(len(tx.Held)) {
			return damaged("the reply contains a lease %d, which the commit does not have", n)
		}
		c.Lost = append(c.Lost, tx.Held[n].TaskID)
	}
	return c
}

// transaction is one call of Commit, as input of the script.
type transaction struct {
	counts [7]byte  // whether to sweep, and the number of parts of each kind
	items  []string // the keys of the items, without duplicates
	uses   []byte   // the index in items of each check, put and delete
	args   []any
	tasks  []string // the ids of its tasks: held, scheduled or cancelled
	parts  int      // at most kv.MaxTx
	size   int      // approximate number of bytes
}

// translate returns the script's input for a valid tx of the partition whose keys begin with base.
func (s *Store) translate(base string, tx kv.Tx) *transaction {
	t := &transaction{
		counts: [7]byte{0, byte(len(tx.Checks)), byte(len(tx.Held)), byte(len(tx.Puts)),
			byte(len(tx.Deletes)), byte(len(tx.Schedule)), byte(len(tx.Cancel))},
		items: make([]string, 0, len(tx.Checks)+len(tx.Puts)+len(tx.Deletes)),
		uses:  make([]byte, 0, len(tx.Checks)+len(tx.Puts)+len(tx.Deletes)),
		tasks: make([]string, 0, len(tx.Held)+len(tx.Schedule)+len(tx.Cancel)),
		args:  make([]any, 0, len(tx.Checks)+2*len(tx.Held)+2*len(tx.Puts)+3*len(tx.Schedule)+len(tx.Cancel)),
		size:  1,
	}
	for _, n := range t.counts {
		t.parts += int(n)
	}
	if s.commits.Add(1)%sweepEvery == 0 {
		t.counts[0] = 1
	}
	base += "i:"
	item := func(name string) {
		key := base + name
		i := slices.Index(t.items, key)
		if i < 0 {
			i = len(t.items)
			t.items = append(t.items, key)
		}
		t.uses = append(t.uses, byte(i))
	}
	for _, c := range tx.Checks {
		item(c.Name)
		t.args = append(t.args, c.Tx)
	}
	for _, h := range tx.Held {
		t.tasks = append(t.tasks, h.TaskID)
		t.args = append(t.args, h.TaskID, h.Lease)
	}
	for _, p := range tx.Puts {
		item(p.Name)
		expires := expiry(p.Expires)
		last := ""
		if expires != 0 {
			last = strconv.FormatInt(expires-1, 10) // Redis removes a key only after this time
		}
		t.args = append(t.args, encodeItem(tx.ID, expires, p.Value), last)
		t.size += len(p.Value)
	}
	for _, name := range tx.Deletes {
		item(name)
	}
	for _, task := range tx.Schedule {
		due := ceil(task.Due)
		t.tasks = append(t.tasks, task.ID)
		t.args = append(t.args, task.ID, encodeTask(due, task.Payload), strconv.FormatInt(due, 10))
		t.size += len(task.Payload)
	}
	for _, id := range tx.Cancel {
		t.tasks = append(t.tasks, id)
		t.args = append(t.args, id)
	}
	return t
}

// mostParts is the maximum number of parts in one run of the script: it refers to each key by one byte, and
// Lua cannot pass many thousands of arguments.
const mostParts = 250

func (t *transaction) run(base string) run { return &commits{base: base, of: []*transaction{t}} }

func (t *transaction) replies() int { return 1 }

// commits is a run of the script with several transactions. They have no item and no task in common,
// because the script reads for all of them before it writes.
type commits struct {
	base    string
	of      []*transaction
	parts   int
	touched map[string]bool // keys of items, and ids of tasks; nil while there is only one transaction
}

func (c *commits) take(other shareable) bool {
	t, ok := other.(*transaction)
	if !ok {
		return false
	}
	if c.touched == nil {
		c.touched = make(map[string]bool)
		c.touch(c.of[0])
	}
	touched := func(name string) bool { return c.touched[name] }
	if c.parts+t.parts > mostParts || slices.ContainsFunc(t.items, touched) ||
		slices.ContainsFunc(t.tasks, touched) {
		return false
	}
	c.touch(t)
	c.of = append(c.of, t)
	return true
}

func (c *commits) touch(t *transaction) {
	c.parts += t.parts
	for _, key := range t.items {
		c.touched[key] = true
	}
	for _, id := range t.tasks {
		c.touched[id] = true
	}
}

// harmless returns false: an executed commit would find its own writes and be rejected.
func (c *commits) harmless() bool { return false }

func (c *commits) words() (keys []string, args []any) {
	items, words := 0, 0
	for _, t := range c.of {
		items, words = items+len(t.items), words+1+len(t.args)
	}
	keys = append(make([]string, 0, 4+items), fixed(c.base)...)
	args = make([]any, 0, words)
	for _, t := range c.of {
		head := append(make([]byte, 0, len(t.counts)+len(t.uses)), t.counts[:]...)
		for _, i := range t.uses {
			head = append(head, byte(len(keys)+1)+i)
		}
		keys = append(keys, t.items...)
		args = append(append(args, head), t.args...)
	}
	return keys, args
}

// accepted reports whether the script executed the transaction of this reply.
func accepted(reply any) bool {
	replies, _ := reply.([]any)
	return len(replies) == 1 && replies[0] == int64(1)
}
