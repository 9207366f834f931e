// Package finished lists the sessions of a publisher that have ended (contract 44).
//
// The commit that ends a session writes the entry, so it needs no separate commit. An entry is stored as long
// as the session's outcome. It contains the id, the outcome and the method, but no data about the user. A
// session that expired without a commit has no entry: its integration sends no events.
package finished

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/timeline"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
)

// The items, signed as records, in the partition of the session:
//
//	f/<publisher>/<time reversed>-<random part of the id>  {"i":"svc_sess_…","o":"completed","w":"bank"}
const prefix = "f/"

// entryJSON is an entry in the store. The MAC that token.SignRecord adds has the name "m".
type entryJSON struct {
	ID      string `json:"i"`
	Outcome string `json:"o"`
	Method  string `json:"w,omitempty"`
}

// Session is one entry.
type Session struct {
	ID      session.ID
	Text    string // the id as publishers know it
	Ended   time.Time
	Outcome string // one of host's Outcome constants
	Method  string // the last method that the user tried; "": none
}

// Put returns the entry of a session.
func Put(sealer host.Sealer, publisher string, s Session, expires time.Time) (kv.Put, error) {
	b, err := json.Marshal(entryJSON{s.Text, s.Outcome, s.Method})
	if err != nil {
		return kv.Put{}, err
	}
	key := kv.Key{Partition: s.ID.Partition.Name(),
		Name: prefix + publisher + "/" + timeline.Prefix(s.Ended) + hex.EncodeToString(s.ID.Random[:])}
	value, err := token.SignRecord(sealer, key.String(), b)
	return kv.Put{Name: key.Name, Value: value, Expires: expires}, err
}

// List reads entries. Host needs KV, Sealer, Log and Count.
type List struct {
	host.Host
	Partitions []kv.Partition
}

// Query chooses entries. A zero field chooses any.
type Query struct {
	Publisher       string
	From, To        host.Day // both included; 0: any
	Integration     string
	Outcome, Method string
	After           string // Page.Next of the page before
	Limit           int    // at least 1
}

// Page is a part of the list, the latest end first. Next is the cursor of the next part, or "". A page with
// fewer entries than the limit can have a next one: it has then read as many entries as one page may read.
type Page struct {
	Sessions []Session
	Next     string
}

// ErrCursor: After is not the Next of any page.
var ErrCursor = errors.New("finished: not a cursor of the list")

// maxEntries is the maximum number of entries that one page reads.
const maxEntries = 2000

// Read returns one page.
func (l *List) Read(ctx context.Context, q Query) (Page, error) {
	if _, ok := timeline.Time(q.After); q.After != "" && !ok || len(q.After) > 64 {
		return Page{}, ErrCursor
	}
	after := q.After
	if q.To != 0 {
		after = max(after, timeline.Prefix((q.To + 1).Begin().Add(-time.Millisecond)))
	}
	var sources []*timeline.Source
	for _, p := range l.Partitions {
		key := kv.Key{Partition: p, Name: prefix + q.Publisher + "/"}
		sources = append(sources, timeline.NewSource(key, after))
	}
	var page Page
	last := after
	for read := 0; ; read++ {
		next, err := timeline.First(ctx, l.KV, sources, q.Limit-len(page.Sessions))
		if err != nil || next == nil {
			return page, err
		}
		if len(page.Sessions) == q.Limit || read == maxEntries {
			page.Next = last
			return page, nil
		}
		var item kv.Item
		item, last = next.Take()
		s, err := l.open(item, last)
		switch {
		case errors.Is(err, token.ErrRecord):
			l.Count(metric.NotAuthentic)
			l.Log.Warn("the store holds an item that this service did not write, as a finished session",
				"item", item.Key.String())
			continue
		case err != nil:
			return Page{}, err
		case q.From != 0 && s.Ended.Before(q.From.Begin()):
			return page, nil
		}
		if matches(q.Integration, s.ID.Integration) && matches(q.Outcome, s.Outcome) &&
			matches(q.Method, s.Method) {
			page.Sessions = append(page.Sessions, s)
		}
	}
}

func matches(wanted, value string) bool { return wanted == "" || wanted == value }

// open returns the session of an item. The error is token.ErrRecord if this service did not write it there.
func (l *List) open(item kv.Item, name string) (s Session, err error) {
	until, err := token.CheckRecord(l.Sealer, item.Key.String(), item.Value)
	if err != nil {
		return s, err
	}
	var e entryJSON
	ended, ok := timeline.Time(name)
	if !ok || token.RecordedWith(item.Value) == "" || json.Unmarshal(item.Value, &e) != nil ||
		!slices.Contains(host.Outcomes(), e.Outcome) || !host.ValidAt(ended, until) {
		return s, token.ErrRecord
	}
	id, err := session.ParseID(l.Sealer, e.ID)
	if errors.Is(err, host.ErrKeyAwaited) {
		return s, err
	}
	if err != nil {
		return s, token.ErrRecord
	}
	return Session{ID: id, Text: e.ID, Ended: ended, Outcome: e.Outcome, Method: e.Method}, nil
}
