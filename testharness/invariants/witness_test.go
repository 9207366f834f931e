package invariants_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// witness is placed between a service and its store, and between a service and its receivers. It sees facts
// that receivers and clients cannot see: the leases in flight, and the state of the service at each POST.
type witness struct {
	kv.KV
	fetch host.Fetcher
	now   func() time.Time
	t     testing.TB

	attemptTime time.Duration       // the service's
	before      func(webhook.Event) // called between the decision to post and the POST; may be nil

	mu     sync.Mutex
	events map[string]*seen     // by event id
	leases map[string]time.Time // ends by task: claimed, without an outcome that was certainly recorded
	early  []string             // violations of I5 and I7
}

// seen is the history of one event.
type seen struct {
	attempts []attempt
	over     bool // delivered or dead, and the store has confirmed the record
	unsure   int  // records that the store has not confirmed

	leases map[string]time.Time // ends by lease, without the lease that recorded the end
}

// overtaken reports whether a POST may start although the end is recorded (I5). It was decided under a lease
// that had room for an attempt, and that lease had ended when the POST started, so that another instance
// could take the event over. Between the two the service was suspended, or its clock was set ahead, for
// longer than an attempt may take. No check in the service prevents that, because it can be suspended after
// every check. The event may therefore be posted again, as after every fault (spec, Delivery 2).
//
// The decision is known to the second. As AttemptTime is at least a second, a POST that started without delay
// counts as overtaken only if a lease has ended within that delay.
func (s *seen) overtaken(decided, began time.Time, attemptTime time.Duration) bool {
	for _, until := range s.leases {
		if !decided.Add(attemptTime).After(until) && !began.Before(until) {
			return true
		}
	}
	return false
}

// attempt is one POST by the clock of the service.
type attempt struct {
	began, ended time.Time
	status       int // 0: no response
}

const eventTask = "e/"

func newWitness(t testing.TB, store kv.KV, fetch host.Fetcher, now func() time.Time,
	attemptTime time.Duration) *witness {
	return &witness{KV: store, fetch: fetch, now: now, t: t, attemptTime: attemptTime,
		events: map[string]*seen{}, leases: map[string]time.Time{}}
}

// store returns the witness as a store, with the optional interfaces of the real store.
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
		e = &seen{leases: map[string]time.Time{}}
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
		if id, isEvent := strings.CutPrefix(t.ID, eventTask); isEvent {
			w.event(id).leases[t.Lease] = now.Add(lease)
		}
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
			delete(w.event(id).leases, h.Lease)
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
	if w.before != nil {
		w.before(e)
	}
	a := attempt{began: w.now()}
	signed, err := strconv.ParseInt(req.Header[webhook.HeaderTimestamp], 10, 64)
	if err != nil {
		w.t.Errorf("the service posted an event without its time: %v", err)
	}
	w.mu.Lock()
	if s := w.event(e.ID); s.over && !s.overtaken(time.Unix(signed, 0), a.began, w.attemptTime) {
		w.early = append(w.early, fmt.Sprintf("%s %s is posted again at %v, though its end was "+
			"recorded; it was signed at %v, leases end at %v", e.ID, e.Type, a.began, signed, s.leases))
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

// inFlight counts the deliveries that are claimed and have no outcome, and whose lease had not ended that
// long ago.
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

// of returns the history of an event.
func (w *witness) of(id string) seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := *w.event(id)
	s.attempts = slices.Clone(s.attempts)
	return s
}

// unsure returns the number of records that the store has not confirmed.
func (w *witness) unsure() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		n += e.unsure
	}
	return n
}

// improper returns the violations.
func (w *witness) improper() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.early)
}

// TestWitness_Overtaken lists POSTs after a recorded end, and whether they are allowed.
func TestWitness_Overtaken(t *testing.T) {
	const lease, whole = 25 * time.Second, 10 * time.Second
	for _, c := range []struct {
		rule    string
		claims  []time.Duration // from the start; the last of them records the end
		over    bool            // whether it does
		decided time.Duration
		began   time.Duration
		allowed bool
	}{
		{"before the end", []time.Duration{0}, false, 1, 1, true},
		{"the holder that recorded the end, immediately", []time.Duration{0}, true, 1, 1, false},
		{"the holder that recorded the end, after its lease", []time.Duration{0}, true, 1, lease, false},
		{"an earlier holder that was suspended until its lease ended",
			[]time.Duration{0, lease}, true, lease - whole, lease, true},
		{"an earlier holder whose lease had no room left for an attempt",
			[]time.Duration{0, lease}, true, lease - whole + time.Second, lease, false},
		{"an earlier holder that was not suspended",
			[]time.Duration{0, lease}, true, lease + time.Second, lease + time.Second, false},
		{"an earlier holder whose lease lasts: two have the event",
			[]time.Duration{0, 1}, true, 1, lease - 1, false},
		{"the first of two earlier holders",
			[]time.Duration{0, lease, 2 * lease}, true, 1, 2*lease + 1, true},
	} {
		t.Run("I5: "+c.rule, func(t *testing.T) {
			start := time.Unix(1_800_000_000, 0)
			now := start
			w := newWitness(t, oneTask{}, answers204{}, func() time.Time { return now }, whole)
			held := kv.Held{TaskID: eventTask + "evt_1"}
			for _, at := range c.claims {
				tasks, _, err := w.Claim(t.Context(), "p", start.Add(at), lease, 1)
				must(t, err)
				held.Lease = tasks[0].Lease
			}
			if c.over {
				must(t, w.Commit(t.Context(), kv.Tx{Held: []kv.Held{held}, Cancel: []string{held.TaskID}}))
			}
			now = start.Add(c.began)
			signed := strconv.FormatInt(start.Add(c.decided).Unix(), 10)
			_, err := w.Fetch(t.Context(), host.FetchRequest{Body: []byte(`{"id":"evt_1"}`),
				Header: map[string]string{webhook.HeaderTimestamp: signed}})
			must(t, err)
			if got := w.improper(); (len(got) == 0) != c.allowed {
				t.Errorf("allowed: want %v, got %v", c.allowed, got)
			}
		})
	}
}

// oneTask is a store with one task, which can be claimed at any time.
type oneTask struct{ kv.KV }

func (oneTask) Claim(_ context.Context, _ kv.Partition, now time.Time, _ time.Duration, _ int) (
	[]kv.Task, time.Time, error) {
	return []kv.Task{{ID: eventTask + "evt_1", Due: now, Lease: now.String()}}, time.Time{}, nil
}

func (oneTask) Commit(context.Context, kv.Tx) error { return nil }

// answers204 is a receiver that returns 204.
type answers204 struct{}

func (answers204) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	return host.FetchResponse{Status: 204}, nil
}
