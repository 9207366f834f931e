package invariants_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// witness stands between a service and its store, and between a service and its
// receivers. It sees what neither receivers nor clients can see: which leases are
// in flight, and what the service knew when it posted.
type witness struct {
	kv.KV
	fetch host.Fetcher
	now   func() time.Time
	t     testing.TB

	mu     sync.Mutex
	events map[string]*seen     // by event id
	leases map[string]time.Time // ends by task: claimed, and no outcome that was surely recorded
	early  []string             // what I5 and I7 forbid
}

// seen is what was seen of one event.
type seen struct {
	attempts []attempt
	over     bool // delivered or dead, and the store has confirmed the record
	unsure   int  // records that the store has not confirmed
}

// attempt is one POST by the clock of the service.
type attempt struct {
	began, ended time.Time
	status       int // 0: no answer
}

const eventTask = "e/"

func newWitness(t testing.TB, store kv.KV, fetch host.Fetcher, now func() time.Time) *witness {
	return &witness{KV: store, fetch: fetch, now: now, t: t, events: map[string]*seen{},
		leases: map[string]time.Time{}}
}

// store is the witness as a store, with the optional interfaces of the real one.
func (w *witness) store() kv.KV {
	if m, ok := w.KV.(kv.Meter); ok {
		return struct {
			*witness
			kv.Meter
		}{w, m}
	}
	return w
}

func (w *witness) event(id string) *seen {
	e := w.events[id]
	if e == nil {
		e = &seen{}
		w.events[id] = e
	}
	return e
}

// Claim implements kv.KV.
func (w *witness) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	tasks, next, err := w.KV.Claim(ctx, p, now, lease, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		w.leases[t.ID] = now.Add(lease)
		if t.Due.After(now.Add(time.Millisecond)) {
			w.early = append(w.early, fmt.Sprintf("task %s is due at %v and was claimed at %v", t.ID, t.Due,
				now))
		}
	}
	return tasks, next, err
}

// Commit implements kv.KV.
func (w *witness) Commit(ctx context.Context, tx kv.Tx) error {
	err := w.KV.Commit(ctx, tx)
	w.mu.Lock()
	defer w.mu.Unlock()
	var conflict *kv.Conflict
	for _, h := range tx.Held {
		if err == nil || errors.As(err, &conflict) {
			delete(w.leases, h.TaskID)
		}
		id, isEvent := strings.CutPrefix(h.TaskID, eventTask)
		if !isEvent {
			continue
		}
		switch {
		case err != nil:
			w.event(id).unsure++
		case slices.Contains(tx.Cancel, h.TaskID):
			w.event(id).over = true
		}
	}
	return err
}

// Fetch implements host.Fetcher.
func (w *witness) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	var e webhook.Event
	if err := json.Unmarshal(req.Body, &e); err != nil {
		w.t.Errorf("the service posted something that is no event: %v", err)
	}
	a := attempt{began: w.now()}
	w.mu.Lock()
	if w.event(e.ID).over {
		w.early = append(w.early,
			fmt.Sprintf("%s %s is posted once more, though its end was recorded", e.ID, e.Type))
	}
	w.mu.Unlock()
	resp, err := w.fetch.Fetch(ctx, req)
	a.ended, a.status = w.now(), resp.Status
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.event(e.ID)
	s.attempts = append(s.attempts, a)
	return resp, err
}

// inFlight counts the deliveries that are claimed, have no outcome, and have a lease that had not ended
// that long ago.
func (w *witness) inFlight(ago time.Duration) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, until := range w.leases {
		if strings.HasPrefix(id, eventTask) && w.now().Before(until.Add(ago)) {
			n++
		}
	}
	return n
}

// of returns what was seen of an event.
func (w *witness) of(id string) seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := *w.event(id)
	s.attempts = slices.Clone(s.attempts)
	return s
}

// unsure returns how many records the store has not confirmed.
func (w *witness) unsure() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		n += e.unsure
	}
	return n
}

// improper returns what was seen and is forbidden.
func (w *witness) improper() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.early)
}
