package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// Kind is the purpose of a task.
type Kind string

// The two kinds of task.
const (
	Deliver Kind = "deliver" // post an event
	Expire  Kind = "expire"  // end a session whose life is over
)

// Meta is the first line of a task's payload; the event's sealed body follows it. The body is sealed because
// it holds the publisher's state and external user id, and a store may keep deleted data for some time
// (contract 19).
type Meta struct {
	Kind        Kind   `json:"k"`
	Session     string `json:"sid"`
	Integration string `json:"int"`
	Type        string `json:"typ,omitempty"`
	Attempts    int    `json:"n,omitempty"` // attempts so far
	Postponed   int    `json:"h,omitempty"` // how often an internal error postponed it

	// History for the log. No decision depends on it: the task is not authenticated, and an earlier release
	// drops these fields when it writes the task again.
	Before int    `json:"b,omitempty"` // attempts before the event was last resent
	Tried  string `json:"a,omitempty"` // the latest attempts, see withAttempt

	Resent bool `json:"r,omitempty"` // it was dead before; the store lists it as waiting

	// Place is where the index of waiting events lists it. Only the removal from the index depends on it: the
	// body, which also has the place, may have become unreadable.
	Place string `json:"p,omitempty"`
}

// waited reports whether the store may list the event as waiting.
func (m Meta) waited() bool { return m.Attempts > 1 || m.Postponed > 0 || m.Before > 0 || m.Resent }

// owns parses the body of an event. ok reports whether it is the event that the task names, of the
// integration that the task names. The unsealed part of a task determines the receiver: an attacker who can
// write to the store must not be able to send one publisher's event to another (contract 19).
func (m Meta) owns(event string, body []byte) (o strictjson.Object, ok bool) {
	o, err := strictjson.Read(body)
	id, _, ok1 := o.String("id")
	integration, _, ok2 := o.String("integration_id")
	return o, err == nil && ok1 && ok2 && id == event &&
		integration == webhook.IntegrationPrefix+m.Integration
}

// Event returns the task that delivers e, due now.
func Event(sealer host.Sealer, e webhook.Event, integration string, now time.Time) (kv.Task, error) {
	sealed, err := sealer.Seal(token.Event, e.Body())
	if err != nil {
		return kv.Task{}, err
	}
	m := Meta{Kind: Deliver, Session: e.SessionID, Integration: integration, Type: e.Type}
	// Every store keeps whole milliseconds. If a store rounded up a finer time, the event would wait for the
	// next millisecond.
	return kv.Task{ID: taskID(e.ID), Due: now.Truncate(time.Millisecond), Payload: m.payload(sealed)}, nil
}

// Body opens the sealed event from Read or from a dead event. An event dated after its key was replaced is
// not authentic (contract 16).
func Body(sealer host.Sealer, sealed []byte) ([]byte, error) {
	body, until, err := sealer.Open(token.Event, sealed)
	if err != nil || until.IsZero() {
		return body, err
	}
	o, err := strictjson.Read(body)
	if err != nil {
		return nil, host.ErrNotAuthentic
	}
	text, _, ok := o.String("created_at")
	created, err := time.Parse(time.RFC3339, text)
	if !ok || err != nil || !host.ValidAt(created, until) {
		return nil, host.ErrNotAuthentic
	}
	return body, nil
}

// Timer returns the task that ends a session.
func Timer(id session.ID, text string) kv.Task {
	m := Meta{Kind: Expire, Session: text, Integration: id.Integration}
	return kv.Task{ID: id.TimerID(), Due: id.Expires(), Payload: m.payload(nil)}
}

// Read returns the meta of a task and the sealed body of its event.
func Read(t kv.Task) (Meta, []byte, error) {
	line, body, ok := bytes.Cut(t.Payload, []byte{'\n'})
	if !ok {
		return Meta{}, nil, errDamaged
	}
	m, err := readMeta(line)
	return m, body, err
}

// readMeta parses the output of package json. Each delivery is parsed twice, and package json would take a
// tenth of the time of a delivery.
func readMeta(line []byte) (m Meta, err error) {
	o, err := strictjson.Read(line)
	if err != nil {
		return m, errDamaged
	}
	whole := true
	text := func(name string) string {
		value, _, ok := o.String(name)
		whole = whole && ok
		return value
	}
	number := func(name string) int {
		value, _, ok := o.Integer(name)
		whole = whole && ok
		return int(value)
	}
	m = Meta{Kind: Kind(text("k")), Session: text("sid"), Integration: text("int"), Type: text("typ"),
		Attempts: number("n"), Postponed: number("h"), Before: number("b"), Tried: text("a"),
		Place: text("p")}
	resent, present, ok := o.Bool("r")
	m.Resent = resent
	switch {
	case !whole, present && !ok:
		return Meta{}, errDamaged
	case m.Kind != Deliver && m.Kind != Expire:
		return m, errors.New("outbox: damaged task: unknown kind")
	}
	return m, nil
}

var errDamaged = errors.New("outbox: damaged task")

func taskID(event string) string { return "e/" + event }

// payload returns the payload of a task: the same line as of join, but faster, since each event needs it.
func (m Meta) payload(body []byte) []byte {
	w := strictjson.NewWriter(128 + len(m.Session) + len(m.Integration) + len(m.Type) + len(m.Tried) +
		len(m.Place) + len(body))
	w.Text("k", string(m.Kind))
	w.Text("sid", m.Session)
	w.Text("int", m.Integration)
	if m.Type != "" {
		w.Text("typ", m.Type)
	}
	if m.Attempts != 0 {
		w.Number("n", int64(m.Attempts))
	}
	if m.Postponed != 0 {
		w.Number("h", int64(m.Postponed))
	}
	if m.Before != 0 {
		w.Number("b", int64(m.Before))
	}
	if m.Tried != "" {
		w.Text("a", m.Tried)
	}
	if m.Resent {
		w.Bool("r", true)
	}
	if m.Place != "" {
		w.Text("p", m.Place)
	}
	return append(append(w.End(), '\n'), body...)
}

func join(meta any, body []byte) []byte {
	b, err := json.Marshal(meta)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	return append(append(b, '\n'), body...)
}

func split(payload []byte, meta any) (body []byte, err error) {
	line, body, ok := bytes.Cut(payload, []byte{'\n'})
	if !ok || json.Unmarshal(line, meta) != nil {
		return nil, errDamaged
	}
	return body, nil
}
