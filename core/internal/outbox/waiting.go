package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Waiting is an event whose last attempt failed and that will be tried again. Tasks cannot be listed,
// so this item exists besides the task. The commit that schedules the retry writes it, and the commit
// that ends the event deletes it. Most events are delivered at the first attempt, and for those it
// costs nothing.
type Waiting struct {
	Event       string    `json:"event"` // evt_…
	Type        string    `json:"type"`
	Session     string    `json:"session_id"`
	Integration string    `json:"integration_id"`
	Last        string    `json:"last"` // "status 503", "timeout", …
	Attempts    int       `json:"attempts"`
	At          time.Time `json:"at"`  // of the last attempt
	Due         time.Time `json:"due"` // of the next one, at the earliest
}

const waitingPrefix = "w/"

// Waiting lists up to n events of a partition that wait for a retry and whose ids come after the given
// one.
func (o *Outbox) Waiting(ctx context.Context, p kv.Partition, after string, n int) ([]Waiting, error) {
	return listed[Waiting](ctx, o.KV, kv.Key{Partition: p, Name: waitingPrefix}, after, n)
}

// waitingItem is a waiting event as the store has it, before its sealed body. It is a second copy of the
// event's task, for SendNow, because a task cannot be read. An item of an earlier release has neither Task
// nor body.
type waitingItem struct {
	Waiting
	Task Meta `json:"task"`
}

// put keeps w until long after its retry. While no instance runs nothing is tried, and the event still
// waits.
func (w waitingItem) put(sealed []byte) kv.Put {
	return kv.Put{Name: waitingPrefix + w.Event, Value: join(w, sealed), Expires: w.Due.Add(DeadLife)}
}

// ErrNotWaiting: no event that waits for a retry has this id.
var ErrNotWaiting = errors.New("outbox: no such waiting event")

// soon is how near its retry is to an event that SendNow leaves as it is. Another instance, whose clock is
// ahead, may be sending it already.
const soon = 5 * time.Second

// SendNow makes the next attempt of an event that waits for a retry due at once. It counts as that attempt.
// The caller may see events of the integration, or of all if it is "". The error is ErrNotWaiting if p holds
// no such event of that integration. An event that a fault of this service puts off stays as it is.
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
	if w.Task.Kind != Deliver || len(sealed) == 0 {
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
	if w.Due.Before(now.Add(soon)) {
		return nil
	}
	w.Due = now.UTC().Truncate(time.Millisecond)
	tx := kv.Tx{
		Partition: p,
		Checks:    []kv.Check{{Name: item.Key.Name, Tx: item.Tx}},
		Puts:      []kv.Put{w.put(sealed)},
		Schedule:  []kv.Task{{ID: taskID(id), Due: now, Payload: join(w.Task, sealed)}},
	}
	o.enter(&tx, p, e.subject, e.waiting("", w.At, now))
	return o.sendAgain(ctx, tx, now, ErrNotWaiting)
}
