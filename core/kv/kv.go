// Package kv is the port through which the core stores data: outcomes, "used" marks, tasks and
// configuration.
//
// An adapter provides only atomicity. The core defines the meaning of a write in one place: single use,
// attempts, a lost reply. Package kvtest checks the promises of this package. A store that passes it is an
// adapter.
//
// A transaction stays within one partition. So the same core can run on one file, on a cluster that hashes
// keys to nodes, and on one durable object per partition.
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
	MaxTx    = 64        // total of checks, puts, deletes, tasks, cancels and leases of one Tx
)

// Partition is a set of keys and tasks that can change together.
type Partition string

// Key names one item.
type Key struct {
	Partition Partition
	Name      string
}

func (k Key) String() string { return string(k.Partition) + "/" + k.Name }

// Item is the stored item of a key.
type Item struct {
	Key     Key
	Value   []byte
	Tx      string    // ID of the transaction that wrote it: the item's version
	Expires time.Time // zero: never
}

// Check requires that transaction Tx was the last to write the item under Name. If Tx is empty, it requires
// that no such item exists.
type Check struct {
	Name string
	Tx   string
}

// Put writes Value under Name.
type Put struct {
	Name    string
	Value   []byte
	Expires time.Time // the item is absent from this time, by the adapter's clock; zero: never
}

// Task is work that falls due.
type Task struct {
	ID      string
	Due     time.Time
	Payload []byte
	Lease   string // set by Claim; in Tx.Held it proves that this claim is still the latest
}

// Held requires that the task's latest claim is the one that returned Lease. An expired lease is still
// valid as long as no other claim took the task, because no other process can have worked on it.
type Held struct {
	TaskID string
	Lease  string
}

// Tx is one atomic change of one partition: all of it is applied or none. Checks and Held are evaluated
// first, against the state before the change.
type Tx struct {
	// ID is chosen by the caller. It is never reused and has 1 to 64 bytes. Every written item carries it,
	// so that after ErrUnknown the caller can read the item and recognise its own write.
	ID        string
	Partition Partition
	Checks    []Check
	Held      []Held
	Puts      []Put
	Deletes   []string // deleting an absent name is not an error
	Schedule  []Task   // adds the task, or replaces the one with the same ID and ends its lease
	Cancel    []string // removes tasks by ID, leased or not; an absent one is not an error
}

var (
	// ErrNotFound is returned if the key has no item, or its item has expired.
	ErrNotFound = errors.New("kv: not found")

	// ErrUnavailable is returned if the store did not execute the call, and nothing changed.
	ErrUnavailable = errors.New("kv: store unavailable")

	// ErrUnknown means that a commit may or may not have happened, now or later. The caller reads the items
	// and compares Tx.ID. Until then it must deny.
	ErrUnknown = errors.New("kv: outcome unknown")
)

// Failed reports whether err is a failure of the store: the call was not executed, or its outcome is
// unknown. The store's monitor reports such a failure once, so a request need not log it.
func Failed(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) }

// Conflict is the error of a commit whose check or lease failed. Nothing changed.
type Conflict struct {
	Items []Item   // for each failed check, the item under its name, if it exists
	Lost  []string // IDs of the tasks in Held whose lease is no longer valid
}

// IsConflict reports whether err is a *Conflict.
func IsConflict(err error) bool {
	var conflict *Conflict
	return errors.As(err, &conflict)
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

// KV is a store. Its methods may be called concurrently. Every error that is not listed below wraps
// ErrUnavailable or, only for Commit, ErrUnknown.
type KV interface {
	// Get returns the item or ErrNotFound. It sees every commit that returned before Get was called.
	Get(ctx context.Context, key Key) (Item, error)

	// Commit applies all of tx or nothing. After it has returned nil, the change survives the failures that
	// the adapter promises to survive. If a check or lease fails, the error is a *Conflict. ErrUnknown
	// means that the outcome is unknown.
	Commit(ctx context.Context, tx Tx) error

	// Claim leases up to n tasks of the partition that are due at now, earliest first, until now+lease. No
	// other claim returns them until then. next is when the earliest unclaimed task falls due or becomes
	// available again, so that the caller can sleep until then. It is zero if there is no such task.
	Claim(
		ctx context.Context, p Partition, now time.Time, lease time.Duration, n int,
	) (tasks []Task, next time.Time, err error)

	// List returns up to n items whose names begin with prefix.Name, in byte order, after the name after
	// ("" for the first page).
	List(ctx context.Context, prefix Key, after string, n int) ([]Item, error)
}

// Charge is one step of a rate counter. The counter's theoretical arrival time (TAT) becomes max(TAT,
// now) + Cost, if that is at most now + Burst.
type Charge struct {
	Name  string
	Cost  time.Duration
	Burst time.Duration
}

// Meter is a capability of stores that several instances share: it changes rate counters in one atomic
// step. If a store lacks it, the core assumes a single instance, which may keep the counters in its memory.
type Meter interface {
	// Spend applies all charges, or none if one of them exceeds its burst. It returns the previous TATs, in
	// the order of charges. A missing counter has the zero time.
	Spend(ctx context.Context, p Partition, now time.Time, charges []Charge) ([]time.Time, error)
}
