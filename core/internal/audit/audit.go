// Package audit keeps who changed what, for a year. An entry is made with Entry.Puts and goes into the
// commit of the change that it tells of, so that neither exists without the other. List shows the newest
// entries first.
//
// An entry never holds a secret, a key or a token. Whoever makes the entry sees to that: of a webhook's
// address it tells where it leads, see Origin, and of a secret only that it changed.
package audit

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
)

// partition is that of the configuration (integration.Partition), since an entry travels in its commits.
const partition kv.Partition = "c"

// Entries is the prefix of the items that hold all entries. Each entry that concerns a publisher is kept a
// second time among the items that belong to that publisher, which begin with Belonging.
const (
	Entries   = "c/aud/"
	Belonging = "c/of/"
)

// ofPublisher returns the prefix of a publisher's entries.
func ofPublisher(id string) string { return Belonging + id + "/aud/" }

// Kinds of actor.
const (
	Operator = "operator" // who has an operator token
	Member   = "member"   // of a publisher
	Link     = "link"     // who came by a sign-in link that an operator made
	File     = "file"     // the configuration file
)

// Actor is who made a change.
type Actor struct {
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Change is one field before and after.
type Change struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// Entry is one change by one actor.
type Entry struct {
	ID        string    `json:"-"` // List sets it; it is also the cursor behind the entry
	At        time.Time `json:"at"`
	Actor     Actor     `json:"actor"`
	Publisher string    `json:"publisher,omitempty"` // whose thing was changed; "" is nobody's
	Operation string    `json:"operation"`
	Target    string    `json:"target,omitempty"` // the id of what was changed
	Changes   []Change  `json:"changes,omitempty"`
}

// ErrCursor says that a list cannot continue behind what was given as its cursor.
var ErrCursor = errors.New("audit: this is not a cursor of the list")

// Limits of an entry. What is longer is cut, so that an entry never makes a change fail.
const (
	maxText  = 300       // bytes of one text
	maxValue = 32 * 1024 // bytes of an entry in the store
)

// Puts returns the items that keep the entry from now on: one among all entries, and one among those of
// its publisher if it has one. At becomes now.
func (e Entry) Puts(sealer host.Sealer, random io.Reader, now time.Time) ([]kv.Put, error) {
	id, err := newID(random, now)
	if err != nil {
		return nil, err
	}
	e.At = now.UTC().Truncate(time.Millisecond)
	object, err := e.marshal()
	if err != nil {
		return nil, err
	}
	names := []string{Entries + id}
	if e.Publisher != "" {
		names = append(names, ofPublisher(e.Publisher)+id)
	}
	var puts []kv.Put
	for _, name := range names {
		value, err := token.SignRecord(sealer, kv.Key{Partition: partition, Name: name}.String(), object)
		if err != nil {
			return nil, err
		}
		puts = append(puts, kv.Put{Name: name, Value: value, Expires: e.At.AddDate(1, 0, 0)})
	}
	return puts, nil
}

// marshal returns the entry as JSON, cut to what is allowed.
func (e Entry) marshal() ([]byte, error) {
	for _, text := range []*string{&e.Actor.Kind, &e.Actor.ID, &e.Actor.Name, &e.Operation, &e.Target} {
		*text = cut(*text)
	}
	changes := make([]Change, len(e.Changes))
	for n, c := range e.Changes {
		changes[n] = Change{cut(c.Field), cut(c.From), cut(c.To)}
	}
	e.Changes = changes
	for {
		b, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
		if len(b) <= maxValue || len(e.Changes) == 0 {
			return b, nil
		}
		e.Changes = append(e.Changes[:len(e.Changes)/2:len(e.Changes)/2], Change{Field: "…"})
		if len(e.Changes) == 1 {
			e.Changes = nil
		}
	}
}

// cut shortens a text to maxText bytes, at a character.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	const mark = "…"
	at := maxText - len(mark)
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at] + mark
}

// Origin returns what an entry may show of a URL: scheme and host. A path or a query may hold a secret of
// the receiver, and the store holds entries in the clear. What it hides it shows as "/…".
func Origin(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		if text == "" {
			return ""
		}
		return "…"
	}
	origin := u.Scheme + "://" + u.Host
	if u.RequestURI() != "/" {
		origin += "/…"
	}
	return origin
}

// An id is 16 hexadecimal digits that become smaller as time goes on, a hyphen, and 8 random ones. So the
// names of newer entries come first.
const (
	timeDigits   = 16
	randomDigits = 8
)

func newID(random io.Reader, now time.Time) (string, error) {
	var b [randomDigits / 2]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("audit: reading randomness: %w", err)
	}
	return fmt.Sprintf("%0*x-%s", timeDigits, math.MaxInt64-now.UnixMilli(), hex.EncodeToString(b[:])), nil
}

func isID(s string) bool {
	return len(s) == timeDigits+1+randomDigits && s[timeDigits] == '-' &&
		strings.Trim(s[:timeDigits]+s[timeDigits+1:], "0123456789abcdef") == ""
}

// List returns up to n entries, the newest first: all of them, or those of one publisher. It begins behind
// the entry whose id is after, or with the newest if after is "". next is the cursor of the next page, and
// "" if there is none. A page can be shorter than n, because what this service did not write is left out.
func List(ctx context.Context, store kv.KV, sealer host.Sealer, publisher, after string, n int) (
	entries []Entry, next string, err error) {
	prefix := Entries
	if publisher != "" {
		prefix = ofPublisher(publisher)
	}
	if after != "" {
		if !isID(after) {
			return nil, "", ErrCursor
		}
		after = prefix + after
	}
	items, err := store.List(ctx, kv.Key{Partition: partition, Name: prefix}, after, n)
	if err != nil {
		return nil, "", err
	}
	for _, it := range items {
		id := strings.TrimPrefix(it.Key.Name, prefix)
		if len(items) == n {
			next = id
		}
		e, err := read(sealer, it)
		if errors.Is(err, token.ErrRecord) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		e.ID = id
		entries = append(entries, e)
	}
	return entries, next, nil
}

// read returns the entry that an item holds. The error is token.ErrRecord if no instance of this service
// wrote it, and also if a key that was replaced signed it at a date when that key did not sign any more.
func read(sealer host.Sealer, it kv.Item) (Entry, error) {
	until, err := token.CheckLongLived(sealer, it.Key.String(), it.Value)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	if err := json.Unmarshal(it.Value, &e); err != nil {
		return Entry{}, fmt.Errorf("%w: %s: %w", token.ErrRecord, it.Key, err)
	}
	if token.RecordedWith(it.Value) == "" || !host.ValidAt(e.At, until) {
		return Entry{}, fmt.Errorf("%w: %s", token.ErrRecord, it.Key)
	}
	return e, nil
}
