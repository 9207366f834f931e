package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/kv"
)

const waitingPrefix = "w/"

// Waiting returns up to n events of a partition that wait for a retry, from the first id after the given one.
func (o *Outbox) Waiting(ctx context.Context, p kv.Partition, after string, n int) (
	[]UndeliveredEvent, error) {
	return listed(ctx, o.KV, kv.Key{Partition: p, Name: waitingPrefix}, after, n)
}

// waitingItem is a waiting event as it is stored, before its sealed body. Tasks cannot be listed or read, so
// this item is a second copy of the event's task, for lists and SendNow. The commit that schedules the retry
// writes it, and the commit that ends the event deletes it. An event that is delivered at the first attempt
// has no such item. An item of an earlier release has neither Task nor body.
type waitingItem struct {
	UndeliveredEvent
	Task Meta `json:"task"`
}

// put keeps w until long after its retry: if no instance runs, the event is not retried and still waits.
func (w waitingItem) put(sealed []byte) kv.Put {
	return kv.Put{Name: waitingPrefix + w.Event, Value: join(w, sealed), Expires: w.Due.Add(DeadLife)}
}

// ErrNotWaiting: no waiting event has this id.
var ErrNotWaiting = errors.New("outbox: no such waiting event")

// soon is the minimum time to the retry for SendNow to change it. Another instance, whose clock is ahead, may
// already be sending an event that is due sooner.
const soon = 5 * time.Second

// overdueAttempts is the number of attempt times after which an event that was due, and still waits, cannot
// be in an attempt: its task was postponed, such as for a full destination.
const overdueAttempts = 3

// SendNow makes the next attempt of a waiting event due now. The attempt counts as that retry. The call
// covers events of the given integration, or of all integrations if that is "". It returns ErrNotWaiting if p
// has no such event.
func (o *Outbox) SendNow(ctx context.Context, p kv.Partition, id, integration string) error {
	item, err := o.KV.Get(ctx, kv.Key{Partition: p, Name: waitingPrefix + id})
	if errors.Is(err, kv.ErrNotFound) {
		return ErrNotWaiting
	}
	if err != nil {
		return err
	}
	var w waitingItem
	sealed, err := split(item.Value, &w)
	if err != nil {
		return err
	}
	if w.Task.Kind != Deliver || len(sealed) == 0 || w.Due == nil {
		return ErrNotWaiting
	}
	e, err := o.seen(w.Task, id, sealed, integration)
	if errors.Is(err, errNotTheirs) {
		return ErrNotWaiting
	}
	if err != nil {
		return err
	}
	now := o.Now()
	if w.Due.Before(now.Add(soon)) && w.Due.After(now.Add(-overdueAttempts*o.AttemptTime)) {
		return nil
	}
	*w.Due = now.UTC().Truncate(time.Millisecond)
	tx := kv.Tx{
		Partition: p,
		Checks:    []kv.Check{{Name: item.Key.Name, Tx: item.Tx}},
		Puts:      []kv.Put{w.put(sealed)},
		Schedule:  []kv.Task{{ID: taskID(id), Due: now, Payload: w.Task.payload(sealed)}},
	}
	o.enter(&tx, p, e.subject, e.waiting("", w.At, now))
	return o.sendAgain(ctx, tx, now, ErrNotWaiting)
}
