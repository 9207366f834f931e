// Package audit stores the changes that people make, for a year. Create an entry with [Entry.Puts] and add it
// to the commit of the change, so that neither exists without the other. [List] returns the newest entries
// first.
//
// An entry must never contain a secret, a key or a token. The caller ensures this: for a webhook's URL it
// passes only the [Origin], and for a secret only the fact that it changed.
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
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
)

// partition is the partition of the configuration (integration.Partition), since an entry is part of its
// commits.
const partition kv.Partition = "c"

// Entries is the prefix of the items with all entries. An entry about a publisher is stored a second time
// among the items of that publisher, under Belonging.
const (
	Entries   = "c/aud/"
	Belonging = "c/of/"
)

// ofPublisher returns the prefix of a publisher's entries.
func ofPublisher(id string) string { return Belonging + id + "/aud/" }

// Kinds of actor.
const (
	Operator = "operator" // the holder of an operator token
	Member   = "member"   // of a publisher
	Link     = "link"     // the user of a sign-in link of an operator
	File     = "file"     // the configuration file
)

// Actor is the author of a change.
type Actor struct {
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Change is one field with its old and new value.
type Change struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// Entry is one change by one actor.
type Entry struct {
	ID        string    `json:"-"` // set by List; also the cursor after the entry
	At        time.Time `json:"at"`
	Actor     Actor     `json:"actor"`
	Publisher string    `json:"publisher,omitempty"` // the publisher concerned, or ""
	Operation string    `json:"operation"`
	Target    string    `json:"target,omitempty"` // the id of the changed object
	Changes   []Change  `json:"changes,omitempty"`
}

// ErrCursor: the cursor does not belong to the list.
var ErrCursor = errors.New("audit: this is not a cursor of the list")

// Limits of an entry. Longer texts are cut, so that an entry never makes a change fail.
const (
	maxText  = 300       // bytes of one text
	maxValue = 32 * 1024 // bytes of an entry in the store
)

// Puts returns the items that store the entry, dated now: one among all entries, and one among the entries of
// its publisher if it has one.
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

// marshal returns the entry as JSON, cut to the limits.
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

// cut shortens a text to at most maxText bytes, at a character boundary.
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

// Origin returns the scheme and host of a URL for an entry. A path or a query may contain a secret of the
// receiver, and entries are stored in the clear. Origin shows the omitted part as "/…".
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

// An id is 16 hexadecimal digits that decrease with time, a hyphen, and 8 random digits. The names of newer
// entries thus sort first.
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

// Before returns the cursor of List for the newest entry that is older than t.
func Before(t time.Time) string {
	last := math.MaxInt64 - t.UnixMilli()
	return fmt.Sprintf("%0*x-%0*x", timeDigits, last, randomDigits, uint32(math.MaxUint32))
}

func isID(s string) bool {
	return len(s) == timeDigits+1+randomDigits && s[timeDigits] == '-' &&
		strings.Trim(s[:timeDigits]+s[timeDigits+1:], "0123456789abcdef") == ""
}

// List returns up to n entries, newest first: all of them, or the entries of one publisher. It starts after
// the entry with the id after, or with the newest entry if after is "". next is the cursor of the next page,
// or "" at the end. A page can be shorter than n, because items that this service did not write are left out.
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

// read returns the entry of an item. It returns token.ErrRecord if no instance of this service wrote the
// item, or if it is signed by a replaced key and dated after the replacement.
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
