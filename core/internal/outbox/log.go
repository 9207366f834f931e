package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/timeline"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// States of a Delivery.
const (
	StateDelivered = "delivered"
	StateWaiting   = "waiting" // there will be another attempt
	StateDead      = "dead"    // no further attempts; Resend sends it again
)

// Delivery is a log entry: an event and the attempts to deliver it (contract 27).
type Delivery struct {
	Event       string // evt_…
	Type        string
	Session     string
	Integration string // the bare UUID
	Test        bool   // a publisher sent the event to test the receiver; it has no session
	Created     time.Time

	State  string    // one of the State constants
	Reason string    // why it is dead or postponed; otherwise ""
	At     time.Time // of the last change
	Due    time.Time // earliest time of the next attempt; zero unless the event waits

	Attempts []Attempt // oldest first

	// Unrecorded is the number of earlier attempts that are not in Attempts: an earlier release made them, or
	// they exceed mostAttempts.
	Unrecorded int

	Body []byte // the event without publisher_state and external_user_id

	Place     string       // identifies the entry, together with the integration
	Partition kv.Partition // where Resend and SendNow find the event
}

// Attempt is one attempt to deliver an event.
type Attempt struct {
	At     time.Time
	Status int           // of the response; 0: there was no response
	Cause  string        // why there was no response: one of host's Fetch constants
	Took   time.Duration // whole milliseconds
	Fault  string        // of the TLS handshake, if Cause is host.FetchTLS; not stored
}

// logLife is the time for which the log shows a delivered event (contract 27).
const logLife = 7 * 24 * time.Hour

// Names in the log. The prefix is followed by the integration and the place. Entries that wait, are dead or
// are tests are stored a second time under their own prefix, so that listing them does not scan the whole
// log.
const (
	logPrefix     = "l/"
	waitingInLog  = "lw/"
	deadInLog     = "ld/"
	testsInLog    = "lt/"
	placeTime     = timeline.Digits
	placeSize     = placeTime + 1 + len("evt_") + 36
	mostAttempts  = 64 // in one entry
	attemptFields = 3
)

// placeOf returns the place of an event in the log: later times sort first.
func placeOf(moment time.Time, event string) string { return timeline.Prefix(moment) + event }

// subject is the part of an entry that attempts do not change. All its fields are read from the sealed event.
type subject struct {
	integration string
	event       string
	place       string
	body        []byte // the stored values of the event, as kept writes them
	alert       bool   // it goes to the alert URL
}

// The fields of an event that are stored when it is delivered (contract 27), in the order of the
// specification. external_user_id, publisher_state and fields that a later release may add are not stored.
var (
	keptMembers = []string{"id", "type", "created_at", "schema_version", "publisher_id", "integration_id",
		"session_id", "test", "idempotency_key"}
	keptData = []string{"status", "expires_at", "result", "failure", "message", "since"}
)

// Placeholders for a value in an entry. No event has either of them as a value of those fields.
const (
	absent = "null" // the event lacks this field
	known  = "0"    // knownValue returns it
)

// knownValue returns the JSON text of an event field if it follows from the entry's name and the field's
// siblings, otherwise "".
func knownValue(member, event, integration string, sibling func(member string) string) string {
	switch member {
	case "id":
		return `"` + event + `"`
	case "integration_id":
		return `"` + webhook.IntegrationPrefix + integration + `"`
	case "idempotency_key":
		session, opened := strings.CutSuffix(sibling("session_id"), `"`)
		typ, ended := strings.CutPrefix(sibling("type"), `"`)
		if opened && ended {
			return session + ":" + typ
		}
	}
	return ""
}

// subjectOf returns the subject for an event of the integration. It returns nil if this release cannot read
// the event; the log then has no entry for it.
func subjectOf(integration string, event strictjson.Object) *subject {
	id, _, _ := event.String("id")
	data, _, ok := event.Object("data")
	moment, err := momentOf(event, data)
	if !ok || err != nil || !isEventID(id) {
		return nil
	}
	typ, _, _ := event.String("type")
	s := &subject{
		integration: integration,
		event:       id,
		place:       placeOf(moment, id),
		alert:       typ == webhook.TypeFailing,
	}
	if s.body, ok = kept(id, integration, event, data); !ok {
		return nil
	}
	return s
}

// kept returns the values of keptMembers and keptData as one JSON array. ok is false if a value equals a
// placeholder.
func kept(id, integration string, event, data strictjson.Object) (array []byte, ok bool) {
	array = append(make([]byte, 0, 512), '[')
	end := len(array) // after the last value that is not absent
	add := func(value string) {
		if len(array) > 1 {
			array = append(array, ',')
		}
		if value == "" {
			array = append(array, absent...)
			return
		}
		array = append(array, value...)
		end = len(array)
	}
	for _, member := range keptMembers {
		value := event.Raw(member)
		switch {
		case value == known:
			return nil, false
		case value != "" && value == knownValue(member, id, integration, event.Raw):
			value = known
		}
		add(value)
	}
	for _, member := range keptData {
		value := data.Raw(member)
		if value == known {
			return nil, false
		}
		add(value)
	}
	return append(array[:end], ']'), true
}

// keptBody returns the event whose values kept has written.
func keptBody(event, integration string, values []json.RawMessage) []byte {
	sibling := func(member string) string { return string(values[slices.Index(keptMembers, member)]) }
	body := make([]byte, 0, 1024)
	add := func(members []string, values []json.RawMessage) {
		body = append(body, '{')
		first := true
		for n, member := range members[:min(len(members), len(values))] {
			value := string(values[n])
			switch value {
			case absent:
				continue
			case known:
				value = knownValue(member, event, integration, sibling)
			}
			if !first {
				body = append(body, ',')
			}
			first = false
			body = append(append(append(append(body, '"'), member...), `":`...), value...)
		}
	}
	envelope := min(len(values), len(keptMembers))
	add(keptMembers, values[:envelope])
	body = append(body, `,"data":`...)
	add(keptData, values[envelope:])
	return append(body, "}}"...)
}

// momentOf returns the sort time of an event in the log: the start of the session for a started event,
// its end for the others. OfSession can compute both.
func momentOf(event, data strictjson.Object) (time.Time, error) {
	expires, present, _ := data.String("expires_at")
	if !present {
		created, _, _ := event.String("created_at")
		return time.Parse(time.RFC3339, created)
	}
	moment, err := time.Parse(time.RFC3339, expires)
	if typ, _, _ := event.String("type"); typ == webhook.TypeStarted {
		moment = moment.Add(-session.Life)
	}
	return moment, err
}

// state is the part of an entry that an attempt changes.
type state struct {
	is     string // one of the State constants
	reason string
	at     time.Time
	due    time.Time
	tried  string // as in Meta
	made   int    // attempts in all
}

// entryJSON is an entry in the store. The names are short because every event has an entry. token.SignRecord
// adds the MAC as "m".
type entryJSON struct {
	State  string            `json:"s"`
	Reason string            `json:"r,omitempty"`
	At     int64             `json:"t"` // milliseconds since 1970, as Due
	Due    int64             `json:"u,omitempty"`
	Tried  string            `json:"a,omitempty"`
	Made   int               `json:"n,omitempty"`
	Body   []json.RawMessage `json:"b,omitempty"` // as kept writes it; the last field
}

// enter adds the log entry of an event to tx, in the same commit. An unreadable event has no entry. If an
// entry cannot be signed, the result of the attempt is recorded without it.
func (o *Outbox) enter(tx *kv.Tx, p kv.Partition, s *subject, now state) {
	if s == nil {
		return
	}
	name := s.integration + "/" + s.place
	value, err := o.entry(kv.Key{Partition: p, Name: logPrefix + name}, s, now)
	if err != nil {
		o.Log.Warn("delivery not logged", "event", s.event, "error", err.Error())
		return
	}
	put := func(prefix string, expires time.Time) {
		tx.Puts = append(tx.Puts, kv.Put{Name: prefix + name, Value: value, Expires: expires})
	}
	switch now.is {
	case StateDelivered:
		put(logPrefix, now.at.Add(logLife))
	case StateWaiting:
		put(logPrefix, now.due.Add(DeadLife))
		put(waitingInLog, now.due.Add(DeadLife))
	case StateDead:
		put(logPrefix, now.at.Add(DeadLife))
		put(deadInLog, now.at.Add(DeadLife))
	}
}

// leave removes an event from the index of waiting or of dead events.
func leave(tx *kv.Tx, prefix string, s *subject) {
	if s != nil {
		tx.Deletes = append(tx.Deletes, prefix+s.integration+"/"+s.place)
	}
}

// listAt sets the place of an event that begins to wait. An unreadable event keeps its place.
func (m *Meta) listAt(s *subject) {
	if s != nil {
		m.Place = s.place
	}
}

// leaveWaiting removes an event from the index of waiting events. An event without a subject also loses its
// log entry, because its body is unreadable. Its task names the place: a forged one is another place of
// this event.
func (m Meta) leaveWaiting(tx *kv.Tx, event string, s *subject) {
	if s != nil {
		leave(tx, waitingInLog, s)
		return
	}
	_, timed := timeline.Time(m.Place)
	id, err := uuid.Parse(m.Integration)
	if timed && err == nil && m.Place[placeTime+1:] == event {
		name := uuid.Format(id) + "/" + m.Place
		tx.Deletes = append(tx.Deletes, logPrefix+name, waitingInLog+name)
	}
}

func (o *Outbox) entry(key kv.Key, s *subject, now state) ([]byte, error) {
	e := entryJSON{State: now.is, Reason: now.reason, At: now.at.UnixMilli(), Tried: now.tried,
		Made: now.made}
	if !now.due.IsZero() {
		e.Due = now.due.UnixMilli()
	}
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	// Package json would rewrite the values; this keeps them byte for byte.
	b = append(append(append(b[:len(b)-1], `,"b":`...), s.body...), '}')
	return token.SignRecord(o.Sealer, key.String(), b)
}

// errNotAnEntry: this service did not write the item that the store holds under an entry's name.
var errNotAnEntry = errors.New("outbox: not an entry of the log")

// read returns the entry of an item. name is the item's name without its prefix.
func (o *Outbox) read(item kv.Item, name string) (Delivery, error) {
	key := kv.Key{Partition: item.Key.Partition, Name: logPrefix + name}
	integration, place, _ := strings.Cut(name, "/")
	until, err := token.CheckRecord(o.Sealer, key.String(), item.Value)
	if errors.Is(err, host.ErrKeyAwaited) {
		return Delivery{}, err
	}
	var e entryJSON
	var event webhook.Event
	// Entries are newer than the MACs of records, so each entry has one.
	if err != nil || token.RecordedWith(item.Value) == "" || json.Unmarshal(item.Value, &e) != nil {
		return Delivery{}, errNotAnEntry
	}
	_, id, _ := strings.Cut(place, "-")
	body := keptBody(id, integration, e.Body)
	if err := json.Unmarshal(body, &event); err != nil {
		return Delivery{}, errNotAnEntry
	}
	d := Delivery{
		Event:       event.ID,
		Type:        event.Type,
		Session:     event.SessionID,
		Integration: integration,
		Test:        event.Test,
		State:       e.State,
		Reason:      e.Reason,
		At:          time.UnixMilli(e.At).UTC(),
		Attempts:    readAttempts(e.Tried),
		Body:        body,
		Place:       place,
		Partition:   item.Key.Partition,
	}
	if e.Due != 0 {
		d.Due = time.UnixMilli(e.Due).UTC()
	}
	d.Unrecorded = max(0, e.Made-len(d.Attempts))
	d.Created, err = time.Parse(time.RFC3339, event.CreatedAt)
	if err != nil || !host.ValidAt(d.At, until) {
		return Delivery{}, errNotAnEntry
	}
	return d, nil
}

// withAttempt appends an attempt to the earlier ones. The text form is shorter than JSON and comparable.
func withAttempt(tried string, a Attempt) string {
	result := a.Cause
	if a.Cause == "" {
		result = strconv.Itoa(a.Status)
	}
	next := fmt.Sprintf("%d:%s:%d", a.At.UnixMilli(), result, a.Took.Milliseconds())
	if tried == "" {
		return next
	}
	if strings.Count(tried, " ") >= mostAttempts-1 {
		_, tried, _ = strings.Cut(tried, " ")
	}
	return tried + " " + next
}

// readAttempts reads the result of withAttempt. It skips malformed parts.
func readAttempts(tried string) []Attempt {
	var all []Attempt
	for text := range strings.FieldsSeq(tried) {
		part := strings.SplitN(text, ":", attemptFields)
		if len(part) != attemptFields {
			continue
		}
		at, err := strconv.ParseInt(part[0], 10, 64)
		took, err2 := strconv.ParseInt(part[2], 10, 64)
		if err != nil || err2 != nil {
			continue
		}
		a := Attempt{At: time.UnixMilli(at).UTC(), Took: time.Duration(took) * time.Millisecond}
		if a.Status, err = strconv.Atoi(part[1]); err != nil {
			a.Status, a.Cause = 0, part[1]
		}
		all = append(all, a)
	}
	return all
}

// isPlace reports whether s has the form of a place. Callers may have it from a URL.
func isPlace(s string) bool {
	if len(s) != placeSize || s[placeTime] != '-' {
		return false
	}
	for i := range placeTime {
		if !strings.ContainsRune("0123456789abcdef", rune(s[i])) {
			return false
		}
	}
	return isEventID(s[placeTime+1:])
}
