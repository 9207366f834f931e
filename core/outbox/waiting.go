package outbox

import (
	"context"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Waiting is an event whose last attempt failed and that will be tried again.
// A task cannot be listed; this stands beside it, written by the commit that
// schedules the retry and gone with the one that ends the event. So an event
// that its first attempt delivers, as most do, costs nothing more.
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

// Waiting lists up to n events of a partition that wait for a retry, behind
// the event id after.
func (o *Outbox) Waiting(ctx context.Context, p kv.Partition, after string, n int) ([]Waiting, error) {
	return listed[Waiting](ctx, o.KV, kv.Key{Partition: p, Name: waitingPrefix}, after, n)
}

// put keeps w until long after its retry: while no instance runs, nothing is
// tried and yet it waits.
func (w Waiting) put() kv.Put {
	return kv.Put{Name: waitingPrefix + w.Event, Value: join(w, nil), Expires: w.Due.Add(deadLife)}
}
