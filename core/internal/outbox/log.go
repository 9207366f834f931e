package outbox

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// States of a Delivery.
const (
	StateDelivered = "delivered"
	StateWaiting   = "waiting" // there will be another attempt
	StateDead      = "dead"    // given up; Resend sends it again
)

// Delivery is what the log tells of an event and of the attempts to deliver it (contract 27).
type Delivery struct {
	Event       string // evt_…
	Type        string
	Session     string
	Integration string // the bare UUID
	Test        bool   // the event was sent to try the receiver; there is no session
	Created     time.Time

	State  string    // one of the State constants
	Reason string    // why it is dead, or why a fault of this service puts it off; otherwise ""
	At     time.Time // of the last change
	Due    time.Time // of the next attempt at the earliest; zero unless the event waits

	Attempts []Attempt // oldest first

	// Unrecorded is how many attempts there were before those. An earlier release of this service made
	// them, or they are more than the log keeps.
	Unrecorded int

	Body []byte // the event without publisher_state and external_user_id

	Place     string       // finds the entry again, together with the integration
	Partition kv.Partition // where Resend and SendNow find the event
}

// Attempt is one try to deliver an event.
type Attempt struct {
	At     time.Time
	Status int           // of the answer; 0: there was none
	Cause  string        // why there was no answer: one of host's Fetch constants
	Took   time.Duration // whole milliseconds
}

// logLife is how long the log shows an event that was delivered (contract 27).
const logLife = 7 * 24 * time.Hour

// Names in the log. An entry has the integration and its place behind the prefix. Entries that wait,
// are dead or are tests are there a second time, so that a list of those need not go through all.
const (
	logPrefix     = "l/"
	waitingInLog  = "lw/"
	deadInLog     = "ld/"
	testsInLog    = "lt/"
	placeTime     = 16 // hexadecimal digits
	placeSize     = placeTime + 1 + len("evt_") + 36
	mostAttempts  = 64 // in one entry
	attemptFields = 3
)

// placeOf returns where an event stands in the log: later moments come first in the order of names.
func placeOf(moment time.Time, event string) string { return placePrefix(moment) + event }

func placePrefix(moment time.Time) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], 1<<63-1-uint64(moment.UnixMilli()))
	return hex.EncodeToString(b[:]) + "-"
}

// subject is the part of an entry that stays the same from one attempt to the next. Everything in it is
// read from the sealed event.
type subject struct {
	integration string
	event       string
	place       string
	body        []byte // what is kept of the event, as kept writes it
}

// The members of an event that are kept when it is delivered (contract 27), in the order of the
// specification. external_user_id and publisher_state are not, nor is what a later release may add.
var (
	keptMembers = []string{"id", "type", "created_at", "schema_version", "publisher_id", "integration_id",
		"session_id", "test", "idempotency_key"}
	keptData = []string{"status", "expires_at", "result", "failure", "message"}
)

// What stands for a value in an entry. No event has either of them as a value of those members.
const (
	absent = "null" // the event has no such member
	known  = "0"    // knownValue has it
)

// knownValue returns the JSON text of a member of an event that the name of its entry and the member's
// siblings determine, or "" if they do not.
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

// subjectOf returns the subject for an event of the integration. Nil: this release cannot read the event,
// and the log does not tell of it.
func subjectOf(integration string, event web.Object) *subject {
	id, _, _ := event.String("id")
	data, _, ok := event.Object("data")
	moment, err := momentOf(event, data)
	if !ok || err != nil || !isEventID(id) {
		return nil
	}
	s := &subject{integration: integration, event: id, place: placeOf(moment, id)}
	if s.body, ok = kept(id, integration, event, data); !ok {
		return nil
	}
	return s
}

// kept returns the values of keptMembers and keptData as one JSON array. ok is false if a value looks like
// one of the texts that stand for others.
func kept(id, integration string, event, data web.Object) (array []byte, ok bool) {
	array = append(make([]byte, 0, 512), '[')
	end := len(array) // behind the last value that is not absent
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

// momentOf returns the time by which an event stands in the log: when the session began for a started
// event, and when it ended for the others. OfSession knows both times.
func momentOf(event, data web.Object) (time.Time, error) {
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

// entryJSON is an entry in the store. The names are short, because every event has an entry. The MAC that
// token.SignRecord adds has the name "m".
type entryJSON struct {
	State  string            `json:"s"`
	Reason string            `json:"r,omitempty"`
	At     int64             `json:"t"` // milliseconds since 1970, as Due
	Due    int64             `json:"u,omitempty"`
	Tried  string            `json:"a,omitempty"`
	Made   int               `json:"n,omitempty"`
	Body   []json.RawMessage `json:"b,omitempty"` // as kept writes it; the last member
}

// enter adds to tx what the log says of an event from now on. It makes the commit no second one. An event
// that is not readable has no entry. If an entry cannot be signed, the result of the attempt is recorded
// without it.
func (o *Outbox) enter(tx *kv.Tx, p kv.Partition, s *subject, now state) {
	if s == nil {
		return
	}
	name := s.integration + "/" + s.place
	value, err := o.entry(kv.Key{Partition: p, Name: logPrefix + name}, s, now)
	if err != nil {
		o.Log.Warn("the log of deliveries lacks an event", "event", s.event, "error", err.Error())
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

// leave adds to tx that the event does not wait any more, or is not dead any more.
func leave(tx *kv.Tx, prefix string, s *subject) {
	if s != nil {
		tx.Deletes = append(tx.Deletes, prefix+s.integration+"/"+s.place)
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
	// Package json would rewrite the values. So they stay byte for byte what they are.
	b = append(append(append(b[:len(b)-1], `,"b":`...), s.body...), '}')
	return token.SignRecord(o.Sealer, key.String(), b)
}

// errNotAnEntry says that the store holds something under an entry's name that this service did not write
// there.
var errNotAnEntry = errors.New("outbox: not an entry of the log")

// read returns the entry that an item holds. name is the item's name without its prefix.
func (o *Outbox) read(item kv.Item, name string) (Delivery, error) {
	key := kv.Key{Partition: item.Key.Partition, Name: logPrefix + name}
	integration, place, _ := strings.Cut(name, "/")
	until, err := token.CheckRecord(o.Sealer, key.String(), item.Value)
	if errors.Is(err, host.ErrKeyAwaited) {
		return Delivery{}, err
	}
	var e entryJSON
	var event webhook.Event
	// Entries are younger than the MACs of records, so each has one.
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

// withAttempt appends an attempt to those that were made before. A text is shorter than JSON and can be
// compared.
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

// readAttempts reads what withAttempt has written. What it cannot read it leaves out.
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

// isPlace reports whether s has the form of a place. A caller may have it from a URL.
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
