package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/webhook"
)

// keptDeliveries is the maximum number of requests in the inbox; the oldest are dropped first.
const keptDeliveries = 200

// delivery is one request to the webhook address. Unless Verified, anyone may have sent it.
type delivery struct {
	Seq            int    `json:"seq"`
	ReceivedAt     string `json:"received_at"`
	Verified       bool   `json:"verified"`
	Rejection      string `json:"refusal,omitempty"` // the reason why it was not verified
	Step           int    `json:"step,omitempty"`    // the step of webhook.Verify that rejected it
	EventID        string `json:"id"`
	Type           string `json:"type"`
	SessionID      string `json:"session_id"`
	IdempotencyKey string `json:"idempotency_key"`
	Test           bool   `json:"test"`

	// Attempt counts the verified requests of one idempotency key, from 1. A publisher acts only on
	// the first.
	Attempt   int  `json:"attempt,omitempty"`
	Duplicate bool `json:"duplicate"`
	SameBytes bool `json:"same_bytes"` // as the first of its key

	Body string `json:"body"` // raw, as received
}

// Pretty is the body for reading: indented if it is JSON.
func (d delivery) Pretty() string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(d.Body), "", "  ") != nil {
		return d.Body
	}
	return b.String()
}

// Name is the event's type without the prefix that all types share.
func (d delivery) Name() string {
	if d.Type == "" {
		return "not an event"
	}
	return strings.TrimPrefix(d.Type, "verification.")
}

// Clock is the time of day of ReceivedAt.
func (d delivery) Clock() string {
	return strings.TrimSuffix(d.ReceivedAt[len("2006-01-02T"):], "Z")
}

// inbox keeps the last deliveries, and notifies readers of new ones.
type inbox struct {
	run string // distinguishes the sequence numbers of this process from those of an earlier one

	mu      sync.Mutex
	last    int
	kept    []delivery // oldest first
	changed chan struct{}
}

func newInbox(run string) *inbox {
	return &inbox{run: run, changed: make(chan struct{})}
}

// add numbers the delivery, checks whether its event is a repetition, and keeps it.
func (in *inbox) add(d delivery) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if d.Verified {
		d.Attempt, d.SameBytes = 1, true
		for _, earlier := range in.kept {
			if !earlier.Verified || earlier.IdempotencyKey != d.IdempotencyKey {
				continue
			}
			if d.Attempt == 1 {
				d.SameBytes = earlier.Body == d.Body
			}
			d.Attempt = earlier.Attempt + 1
		}
		d.Duplicate = d.Attempt > 1
	}
	in.last++
	d.Seq = in.last
	if len(in.kept) == keptDeliveries {
		in.kept = append(in.kept[:0], in.kept[1:]...)
	}
	in.kept = append(in.kept, d)
	close(in.changed)
	in.changed = make(chan struct{})
}

// after returns copies of the kept deliveries with a number above seq, oldest first. It closes the
// channel when there is another delivery.
func (in *inbox) after(seq int) ([]delivery, <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, d := range in.kept {
		if d.Seq > seq {
			return append([]delivery(nil), in.kept[i:]...), in.changed
		}
	}
	return nil, in.changed
}

// mark is the event id of a stream. A mark of an earlier process means "from the first delivery on", because
// this process does not have the deliveries of the earlier one.
func (in *inbox) mark(seq int) string { return in.run + "-" + strconv.Itoa(seq) }

func (in *inbox) parseMark(s string) int {
	run, n, _ := strings.Cut(s, "-")
	seq, err := strconv.Atoi(n)
	if run != in.run || err != nil || seq < 0 {
		return 0
	}
	return seq
}

// receive handles the webhook address: verify, store, respond immediately.
func (s *Site) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MaxBody))
	if err != nil {
		http.Error(w, "the body could not be read, or is larger than any event",
			http.StatusRequestEntityTooLarge)
		return
	}
	now := s.conf.Now()
	d := delivery{ReceivedAt: now.UTC().Format(timeLayout), Body: string(body)}
	var event webhook.Event
	if json.Unmarshal(body, &event) == nil {
		d.EventID, d.Type, d.Test = event.ID, event.Type, event.Test
		d.SessionID, d.IdempotencyKey = event.SessionID, event.IdempotencyKey
	}
	err = webhook.Verify(s.conf.WebhookSecret, r.Header, body, now, 0)
	d.Verified = err == nil
	if rejected, ok := errors.AsType[*webhook.VerifyError](err); ok {
		d.Rejection, d.Step = rejected.Reason, rejected.Step
	}
	s.inbox.add(d)
	switch {
	case !d.Verified:
		http.Error(w, err.Error(), http.StatusUnauthorized)
	case d.IdempotencyKey == "":
		http.Error(w, "signed, but not an event", http.StatusBadRequest)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

type inboxPage struct {
	chrome
	Deliveries []delivery // newest first
	Mark       string
	Address    string
}

func (s *Site) showInbox(w http.ResponseWriter, r *http.Request) {
	all, _ := s.inbox.after(0)
	page := inboxPage{
		chrome:  chrome{Title: "Webhook inbox", Active: "inbox"},
		Address: s.conf.DemoURL + "/webhooks",
		Mark:    s.inbox.mark(0),
	}
	for i := len(all) - 1; i >= 0; i-- {
		page.Deliveries = append(page.Deliveries, all[i])
	}
	if len(all) > 0 {
		page.Mark = s.inbox.mark(all[len(all)-1].Seq)
	}
	s.render(w, http.StatusOK, "inbox", page)
}

// listInbox is the inbox for programs: a list, oldest first.
func (s *Site) listInbox(w http.ResponseWriter, r *http.Request) {
	all, _ := s.inbox.after(0)
	if all == nil {
		all = []delivery{}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	json.NewEncoder(w).Encode(all)
}

// streamInbox sends every delivery after the mark in Last-Event-ID or, on a first connection, in the query.
// No stored delivery is lost between the page and the stream, or when the browser reconnects.
func (s *Site) streamInbox(w http.ResponseWriter, r *http.Request) {
	mark := r.Header.Get("Last-Event-ID")
	if mark == "" {
		mark = r.URL.Query().Get("after")
	}
	seq := s.inbox.parseMark(mark)

	out := http.NewResponseController(w)
	out.SetWriteDeadline(time.Time{}) // a stream has no end; it does not matter if there was no deadline
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	fmt.Fprint(w, "retry: 1000\n\n")

	alive := time.NewTicker(15 * time.Second)
	defer alive.Stop()
	for {
		fresh, changed := s.inbox.after(seq)
		for _, d := range fresh {
			var row bytes.Buffer
			if err := pages["inbox"].ExecuteTemplate(&row, "delivery", d); err != nil {
				s.conf.Log.Error("demo: delivery not rendered", "error", err)
				return
			}
			fmt.Fprintf(w, "id: %s\n", s.inbox.mark(d.Seq))
			// A carriage return also ends a line in this format.
			for line := range strings.SplitSeq(strings.ReplaceAll(row.String(), "\r", "\n"), "\n") {
				fmt.Fprintf(w, "data: %s\n", line)
			}
			fmt.Fprint(w, "\n")
			seq = d.Seq
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-alive.C:
			fmt.Fprint(w, ": alive\n\n") // fails if the client is gone
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		}
	}
}
