// Package kv is the port through which the core keeps the little it keeps:
// outcomes, "used" marks, tasks and configuration.
//
// An adapter supplies atomicity and nothing else. What a write means (single
// use, attempts, a lost reply) is decided once, in the core. Package kvtest
// is the proof that an adapter keeps the promises made here; passing it is
// the only thing that makes a store an adapter.
//
// One rule shapes everything: a transaction stays inside one partition. It is
// what lets the same core run on one file, on a cluster that hashes keys to
// nodes, and on one durable object per partition.
package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits that every adapter must accept and every caller must respect.
const (
	MaxName  = 256       // bytes in a name; printable ASCII without spaces
	MaxValue = 64 * 1024 // bytes in a value or a task's payload
	MaxTx    = 64        // checks, puts, deletes, tasks, cancels and leases of one Tx together
)

// Partition is a set of keys and tasks that can change together.
type Partition string

// Key names one item.
type Key struct {
	Partition Partition
	Name      string
}

func (k Key) String() string { return string(k.Partition) + "/" + k.Name }

// Item is what a key holds.
type Item struct {
	Key     Key
	Value   []byte
	Tx      string    // ID of the transaction that wrote it: the item's version
	Expires time.Time // zero: never
}

// Check demands that the item under Name was last written by transaction Tx,
// or, where Tx is empty, that there is no such item.
type Check struct {
	Name string
	Tx   string
}

// Put writes Value under Name.
type Put struct {
	Name    string
	Value   []byte
	Expires time.Time // the item is gone from this instant on, by the adapter's clock; zero: never
}

// Task is work that falls due.
type Task struct {
	ID      string
	Due     time.Time
	Payload []byte
	Lease   string // set by Claim: proves, in Tx.Held, that this claim still stands
}

// Held demands that the task's latest claim is the one that returned Lease.
// A lease that has run out but that nobody took over still holds: nobody else
// can have acted on it.
type Held struct {
	TaskID string
	Lease  string
}

// Tx is one atomic change of one partition: all of it happens or none.
// Checks and Held are evaluated first, against the state before the change.
type Tx struct {
	// ID is chosen by the caller, unique for ever, 1 to 64 bytes. Every item
	// written carries it, so that after ErrUnknown the caller can read back
	// and tell its own write from another's.
	ID        string
	Partition Partition
	Checks    []Check
	Held      []Held
	Puts      []Put
	Deletes   []string // a name that is absent is no error
	Schedule  []Task   // adds the task, or replaces the one of the same ID and ends its lease
	Cancel    []string // removes tasks by ID, leased or not; absent is no error
}

var (
	// ErrNotFound says that the key holds nothing, or nothing any more.
	ErrNotFound = errors.New("kv: not found")

	// ErrUnavailable says that the store could not be asked and that nothing changed.
	ErrUnavailable = errors.New("kv: store unavailable")

	// ErrUnknown says that a commit may or may not have happened, now or
	// later. The caller reads back and compares Tx.ID; until it knows, it
	// grants nothing.
	ErrUnknown = errors.New("kv: outcome unknown")
)

// Failed reports whether err is the store's trouble: what was asked of it was
// not done, or may not have been. Whoever watches the store tells of that, once;
// a request that meets it has nothing to add.
func Failed(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) }

// Conflict is the error of a commit whose check or lease failed. Nothing changed.
type Conflict struct {
	Items []Item   // what is there instead, for each failed check whose name holds something
	Lost  []string // IDs of the tasks in Held that are not held any more
}

func (c *Conflict) Error() string {
	names := make([]string, 0, len(c.Items)+len(c.Lost))
	for _, it := range c.Items {
		names = append(names, it.Key.Name)
	}
	names = append(names, c.Lost...)
	return fmt.Sprintf("kv: conflict on [%s]", strings.Join(names, " "))
}

// Item returns the conflicting item of that name.
func (c *Conflict) Item(name string) (Item, bool) {
	for _, it := range c.Items {
		if it.Key.Name == name {
			return it, true
		}
	}
	return Item{}, false
}

// KV is a store. Methods may be called concurrently. Any error other than the
// ones named wraps ErrUnavailable or, from Commit alone, ErrUnknown.
type KV interface {
	// Get returns the item or ErrNotFound. It sees every commit that returned before it was called.
	Get(ctx context.Context, key Key) (Item, error)

	// Commit applies all of tx or nothing; once it returns nil, the change
	// survives what the adapter promises to survive. A failed check or lease
	// is a *Conflict. ErrUnknown means that the outcome cannot be known.
	Commit(ctx context.Context, tx Tx) error

	// Claim leases up to n tasks of the partition that are due at now, until
	// now+lease, earliest first; no other claim returns them meanwhile. next
	// is when the earliest task not claimed falls due or comes free again,
	// zero if there is none, so that the caller can sleep until then.
	Claim(ctx context.Context, p Partition, now time.Time, lease time.Duration, n int) (tasks []Task, next time.Time, err error)

	// List returns up to n items whose names begin with prefix.Name, in byte
	// order, beginning behind the name after ("" for the first page).
	List(ctx context.Context, prefix Key, after string, n int) ([]Item, error)
}

// Charge is one step of a rate counter: the counter's theoretical arrival
// time (TAT) becomes max(TAT, now) + Cost, if that is at most now + Burst.
type Charge struct {
	Name  string
	Cost  time.Duration
	Burst time.Duration
}

// Meter is a capability of stores that several instances share: rate counters
// in one atomic step. A store without it is taken to have one instance only,
// whose counters may stay in that instance's memory.
type Meter interface {
	// Spend applies all charges, or none if one of them is over its burst,
	// and returns the TATs as they were before, in the order of charges (the
	// zero time for a counter not yet known).
	Spend(ctx context.Context, p Partition, now time.Time, charges []Charge) ([]time.Time, error)
}
