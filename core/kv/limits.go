package kv

import "fmt"

// Validate returns an error for the first limit that tx exceeds. Adapters call it first, so that such a
// caller fails in tests on any store. The error wraps ErrUnavailable, because nothing changed.
func (tx Tx) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: transaction %q: %s", ErrUnavailable, tx.ID, fmt.Sprintf(format, args...))
	}
	if len(tx.ID) < 1 || len(tx.ID) > 64 {
		return bad("an ID of %d bytes, want 1 to 64", len(tx.ID))
	}
	if !validName(string(tx.Partition)) {
		return bad("partition %q is not a name", tx.Partition)
	}
	n := len(tx.Checks) + len(tx.Held) + len(tx.Puts) + len(tx.Deletes) + len(tx.Schedule) + len(tx.Cancel)
	if n > MaxTx {
		return bad("%d parts, want at most %d", n, MaxTx)
	}
	for _, c := range tx.Checks {
		if !validName(c.Name) {
			return bad("check of %q, which is not a name", c.Name)
		}
	}
	for _, h := range tx.Held {
		if !validName(h.TaskID) {
			return bad("held task %q is not a name", h.TaskID)
		}
	}
	for _, p := range tx.Puts {
		if !validName(p.Name) {
			return bad("put to %q, which is not a name", p.Name)
		}
		if len(p.Value) > MaxValue {
			return bad("value of %q has %d bytes, want at most %d", p.Name, len(p.Value), MaxValue)
		}
	}
	for _, name := range tx.Deletes {
		if !validName(name) {
			return bad("delete of %q, which is not a name", name)
		}
	}
	for _, t := range tx.Schedule {
		if !validName(t.ID) {
			return bad("task %q is not a name", t.ID)
		}
		if t.Due.IsZero() {
			return bad("task %q has no due time", t.ID)
		}
		if len(t.Payload) > MaxValue {
			return bad("payload of task %q has %d bytes, want at most %d", t.ID, len(t.Payload), MaxValue)
		}
	}
	for _, id := range tx.Cancel {
		if !validName(id) {
			return bad("cancelled task %q is not a name", id)
		}
	}
	return nil
}

func validName(s string) bool {
	if len(s) < 1 || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
