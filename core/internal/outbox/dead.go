package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
)

// Reasons why an event is dead or postponed.
const (
	rejected  = "refused"   // the receiver returned 4xx; only the receiver can fix that
	exhausted = "exhausted" // every attempt failed; Last is the result of the last one
	noTarget  = "no_target" // the integration was deleted, or no longer sends events
	onlyTest  = "test"      // a test event has one attempt; only the log has this reason

	// noSecret: the webhook secret cannot be opened. The operator can fix that, so events are postponed.
	// Earlier releases marked them as dead.
	noSecret = "no_secret"

	// keyAwaited: another instance sealed the event with a key that this instance has not read yet. The event
	// is postponed.
	keyAwaited = "key_awaited"

	// unreadable: the key that sealed the event was retired too early, or the store holds another event under
	// its name. In both cases the event is lost.
	unreadable = "unreadable"
)

// UndeliveredEvent is an event that waits for a retry, or a dead one, which is not retried unless an operator
// resends it.
type UndeliveredEvent struct {
	Event       string     `json:"event"` // evt_…
	Type        string     `json:"type"`
	Session     string     `json:"session_id"`
	Integration string     `json:"integration_id"`
	Reason      string     `json:"reason,omitempty"` // one of the constants above, if it is dead
	Last        string     `json:"last"`             // "status 503", "timeout", …
	Attempts    int        `json:"attempts"`
	At          time.Time  `json:"at"`            // of the last attempt
	Due         *time.Time `json:"due,omitempty"` // earliest time of the next attempt, if it waits
}

// ErrNotDead: no dead event has this id.
var ErrNotDead = errors.New("outbox: no such dead event")

const deadPrefix = "d/"

// deadItem is a dead event as it is stored, before its sealed body.
type deadItem struct {
	UndeliveredEvent
	Before int    `json:"before,omitempty"` // this field and the next as in Meta
	Tried  string `json:"tried,omitempty"`
}

// Dead returns up to n dead events of a partition, from the first id after the given one.
func (o *Outbox) Dead(ctx context.Context, p kv.Partition, after string, n int) (
	[]UndeliveredEvent, error) {
	return listed(ctx, o.KV, kv.Key{Partition: p, Name: deadPrefix}, after, n)
}

// listed returns the contents of up to n items whose names are prefix plus an event id after the given one.
func listed(ctx context.Context, store kv.KV, prefix kv.Key, after string, n int) (
	[]UndeliveredEvent, error) {
	if after != "" {
		after = prefix.Name + after
	}
	items, err := store.List(ctx, prefix, after, n)
	if err != nil {
		return nil, err
	}
	out := make([]UndeliveredEvent, len(items))
	for i, it := range items {
		if _, err := split(it.Value, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", it.Key, err)
		}
	}
	return out, nil
}

// Resend schedules a dead event again from the beginning, due now, with the same id and bytes. It covers
// events of the given integration, or of all integrations if that is "". It returns ErrNotDead if p has no
// such dead event. of is the event's integration, or "" if the event cannot be opened.
func (o *Outbox) Resend(ctx context.Context, p kv.Partition, id, integration string) (of string, err error) {
	key := kv.Key{Partition: p, Name: deadPrefix + id}
	item, err := o.KV.Get(ctx, key)
	if errors.Is(err, kv.ErrNotFound) {
		return "", ErrNotDead
	}
	if err != nil {
		return "", err
	}
	var d deadItem
	sealed, err := split(item.Value, &d)
	if err != nil {
		return "", err
	}
	m := Meta{Kind: Deliver, Session: d.Session, Integration: d.Integration, Type: d.Type,
		Before: d.Before + d.Attempts, Tried: d.Tried, Resent: true}
	e, err := o.seen(m, id, sealed, integration)
	if errors.Is(err, errNotTheirs) {
		return "", ErrNotDead
	}
	if err != nil {
		return "", err
	}
	m.listAt(e.subject)
	if e.subject != nil {
		of = e.subject.integration
	}
	now := o.Now()
	tx := kv.Tx{
		Partition: p,
		Checks:    []kv.Check{{Name: key.Name, Tx: item.Tx}},
		Deletes:   []string{key.Name},
		Schedule:  []kv.Task{{ID: taskID(id), Due: now, Payload: m.payload(sealed)}},
	}
	leave(&tx, deadInLog, e.subject)
	o.enter(&tx, p, e.subject, e.waiting("", now, now))
	return of, o.sendAgain(ctx, tx, now, ErrNotDead)
}

// errNotTheirs: the event belongs to another integration than the caller may see.
var errNotTheirs = errors.New("outbox: another integration's event")

// seen opens an event for a caller who may see events of the given integration, or of all if that is "". The
// fields next to the sealed event are not authenticated, so the integration is read from the sealed event.
func (o *Outbox) seen(m Meta, id string, sealed []byte, integration string) (event, error) {
	e := event{Meta: m, id: id, sealed: sealed}
	if integration != "" && m.Integration != integration {
		return e, errNotTheirs
	}
	_, subject, err := o.open(m, id, sealed)
	e.subject = subject
	switch {
	case err == nil || integration == "": // the attempt will report the error
		return e, nil
	case errors.Is(err, host.ErrKeyAwaited):
		return e, err
	}
	return e, errNotTheirs
}

// sendAgain commits tx, which schedules one event, due at due. tx checks the item that the caller has read.
// If that item has changed, sendAgain returns gone.
func (o *Outbox) sendAgain(ctx context.Context, tx kv.Tx, due time.Time, gone error) error {
	var err error
	if tx.ID, err = kv.NewTxID(o.Random); err != nil {
		return err
	}
	err = o.KV.Commit(ctx, tx)
	lost := errors.Is(err, kv.ErrUnknown)
	if lost {
		err = kv.CommitSurely(ctx, o.KV, tx)
	}
	switch {
	case kv.IsConflict(err) && lost:
		err = nil // another caller may have been first, but the event is sent in any case
	case kv.IsConflict(err):
		return gone // another caller was first
	case lost && err != nil:
		return fmt.Errorf("%w: %w", kv.ErrUnknown, err)
	}
	if err == nil {
		o.Wake(tx.Partition, due)
	}
	return err
}
