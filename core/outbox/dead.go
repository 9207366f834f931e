package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Reasons why an event is dead or put off.
const (
	refused   = "refused"   // the receiver answered 4xx; only the receiver can repair that
	exhausted = "exhausted" // every attempt failed; Last says how the last one did
	noTarget  = "no_target" // the integration is gone, or sends no events any more

	// noSecret: the webhook secret cannot be opened. The operator can repair that, so events are put off.
	// Earlier releases gave them up.
	noSecret = "no_secret"

	// keyAwaited: another instance sealed the event with a key that this one
	// has not read yet. It puts events off.
	keyAwaited = "key_awaited"

	// unreadable: the key that sealed the event was retired before its time, or
	// the store holds another event under its name. Either way it is lost.
	unreadable = "unreadable"
)

// Dead is an event that is not tried again unless an operator resends it.
type Dead struct {
	Event       string    `json:"event"` // evt_…
	Type        string    `json:"type"`
	Session     string    `json:"session_id"`
	Integration string    `json:"integration_id"`
	Reason      string    `json:"reason"` // one of the constants above
	Last        string    `json:"last"`   // "status 503", "timeout", …
	Attempts    int       `json:"attempts"`
	At          time.Time `json:"at"`
}

// ErrNotDead: no dead event has this id.
var ErrNotDead = errors.New("outbox: no such dead event")

const deadPrefix = "d/"

// Dead lists up to n dead events of a partition whose ids come after the given one.
func (o *Outbox) Dead(ctx context.Context, p kv.Partition, after string, n int) ([]Dead, error) {
	return listed[Dead](ctx, o.KV, kv.Key{Partition: p, Name: deadPrefix}, after, n)
}

// listed returns the contents of up to n items whose names are prefix and an event id that comes after
// the given one.
func listed[T any](ctx context.Context, store kv.KV, prefix kv.Key, after string, n int) ([]T, error) {
	if after != "" {
		after = prefix.Name + after
	}
	items, err := store.List(ctx, prefix, after, n)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(items))
	for i, it := range items {
		if _, err := split(it.Value, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", it.Key, err)
		}
	}
	return out, nil
}

// Resend schedules a dead event again from the beginning, due at once, with the same id and the same
// bytes. The error is ErrNotDead if p holds no such dead event.
func (o *Outbox) Resend(ctx context.Context, p kv.Partition, event string) error {
	key := kv.Key{Partition: p, Name: deadPrefix + event}
	item, err := o.KV.Get(ctx, key)
	if errors.Is(err, kv.ErrNotFound) {
		return ErrNotDead
	}
	if err != nil {
		return err
	}
	var d Dead
	sealed, err := split(item.Value, &d)
	if err != nil {
		return err
	}
	id, err := kv.NewTxID(o.Random)
	if err != nil {
		return err
	}
	now := o.Now()
	m := Meta{Kind: Deliver, Session: d.Session, Integration: d.Integration, Type: d.Type}
	tx := kv.Tx{
		ID: id, Partition: p,
		Checks:   []kv.Check{{Name: key.Name, Tx: item.Tx}},
		Deletes:  []string{key.Name},
		Schedule: []kv.Task{{ID: taskID(event), Due: now, Payload: join(m, sealed)}},
	}
	err = o.KV.Commit(ctx, tx)
	lost := errors.Is(err, kv.ErrUnknown)
	if lost {
		err = kv.CommitSurely(ctx, o.KV, tx)
	}
	var conflict *kv.Conflict
	switch {
	case errors.As(err, &conflict) && lost:
		err = nil // another caller may have deleted it, but the event is resent in any case
	case errors.As(err, &conflict):
		return ErrNotDead // another caller has just resent it
	case lost && err != nil:
		return fmt.Errorf("%w: %w", kv.ErrUnknown, err)
	}
	if err == nil && o.Wake != nil {
		o.Wake(p, now)
	}
	return err
}
