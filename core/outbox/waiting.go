package outbox

import (
	"context"
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

// put keeps w until long after its retry. While no instance runs nothing is tried, and the event still
// waits.
func (w Waiting) put() kv.Put {
	return kv.Put{Name: waitingPrefix + w.Event, Value: join(w, nil), Expires: w.Due.Add(deadLife)}
}
