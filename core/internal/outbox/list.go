package outbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/timeline"
	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/kv"
)

// Query chooses entries of the log.
type Query struct {
	Integrations []string // bare UUIDs; the result contains only their entries
	State        string   // one of the State constants; "": any
	Type         string   // of the event; "": any
	After        string   // Page.Next of the previous page; "": the first page
	Limit        int      // maximum deliveries per page; less than 1 means 50, at most 200
}

// Page is a part of the log, the latest events first.
type Page struct {
	Deliveries []Delivery

	// Next is the cursor of the next page, or "" at the end. A page can have a next one although it has few
	// deliveries or none: it has then read the maximum number of entries.
	Next string
}

var (
	// ErrCursor: After is not the Next of any page.
	ErrCursor = errors.New("outbox: not a cursor of the log")
	// ErrNoEntry: the log does not have this entry, or no longer.
	ErrNoEntry = errors.New("outbox: no such entry in the log")
)

const (
	usualPage   = 50
	mostPage    = 200
	mostEntries = 2000 // read per page, if a filter skips entries
)

// Deliveries returns one page of the log. It merges the events of all partitions by their time. It reads only
// the entries that a page needs, so that a long log costs no more than a short one. Entries that this service
// did not write are left out and counted.
func (o *Outbox) Deliveries(ctx context.Context, q Query) (Page, error) {
	if q.After != "" && !isPlace(q.After) {
		return Page{}, ErrCursor
	}
	limit := q.Limit
	if limit < 1 {
		limit = usualPage
	}
	limit = min(limit, mostPage)
	prefix := logPrefix
	switch q.State {
	case StateWaiting:
		prefix = waitingInLog
	case StateDead:
		prefix = deadInLog
	}
	return o.list(ctx, q, prefix, limit)
}

// mostTests is the maximum number of test events that Tests returns.
const mostTests = 500

// Tests returns the test events of an integration that were created at or after since, the oldest first. If
// there are more than mostTests, it returns the oldest of the latest 2,000, and more is true.
//
// An event is logged when its receiver has responded, so events can appear out of the order of their
// creation. To poll, pass a time somewhat before the last event.
func (o *Outbox) Tests(ctx context.Context, integration string, since time.Time) (
	found []Delivery, more bool, err error) {
	q := Query{Integrations: []string{integration}}
	for len(found) < mostEntries {
		page, err := o.list(ctx, q, testsInLog, mostPage)
		if err != nil {
			return nil, false, err
		}
		q.After = page.Next
		for _, d := range page.Deliveries {
			if d.Created.Before(since) {
				q.After = ""
				break
			}
			if d.Test { // an attacker with write access to the store could have copied another entry here
				found = append(found, d)
			}
		}
		if q.After == "" {
			break
		}
	}
	slices.Reverse(found)
	if len(found) > mostTests {
		return found[:mostTests], true, nil
	}
	return found, false, nil
}

// list returns one page of the entries with a prefix.
func (o *Outbox) list(ctx context.Context, q Query, prefix string, limit int) (Page, error) {
	var sources []*timeline.Source
	for _, p := range o.Partitions {
		for _, integration := range q.Integrations {
			prefix := kv.Key{Partition: p, Name: prefix + integration + "/"}
			sources = append(sources, timeline.NewSource(prefix, q.After))
		}
	}
	var page Page
	last := q.After
	for read := 0; ; read++ {
		next, err := timeline.First(ctx, o.KV, sources, limit-len(page.Deliveries))
		if err != nil || next == nil {
			return page, err
		}
		if len(page.Deliveries) == limit || read == mostEntries {
			page.Next = last
			return page, nil
		}
		var item kv.Item
		item, last = next.Take()
		d, err := o.read(item, strings.TrimPrefix(item.Key.Name, prefix))
		switch {
		case errors.Is(err, errNotAnEntry):
			o.suspect(item.Key)
			continue
		case err != nil:
			return Page{}, err
		}
		if (q.State == "" || d.State == q.State) && (q.Type == "" || d.Type == q.Type) {
			page.Deliveries = append(page.Deliveries, d)
		}
	}
}

// suspect logs an item of the log that this service did not write.
func (o *Outbox) suspect(key kv.Key) {
	o.Log.Warn("the store holds what this service did not write, as an entry of the log", "item",
		key.String())
	o.Count(metric.NotAuthentic)
}

// Find returns the entry of an integration at a place. It returns ErrNoEntry if there is no such entry.
func (o *Outbox) Find(ctx context.Context, integration, place string) (Delivery, error) {
	if !isPlace(place) {
		return Delivery{}, ErrNoEntry
	}
	name := integration + "/" + place
	for _, p := range o.Partitions {
		item, err := o.KV.Get(ctx, kv.Key{Partition: p, Name: logPrefix + name})
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return Delivery{}, err
		}
		d, err := o.read(item, name)
		if errors.Is(err, errNotAnEntry) {
			o.suspect(item.Key)
			continue
		}
		return d, err
	}
	return Delivery{}, ErrNoEntry
}

// maxPerTimestamp is the maximum number of entries that OfSession reads for one integration, partition and
// millisecond. Usually there are a few.
const maxPerTimestamp = 1000

// OfSession returns the events of a session, oldest first. ended is the end of the session according to its
// record, or zero if it is active. Events before their first attempt are not included.
func (o *Outbox) OfSession(ctx context.Context, id session.ID, ended time.Time) ([]Delivery, error) {
	var events []Delivery
	moments := []time.Time{id.Created}
	if !ended.IsZero() && ended.UnixMilli() != id.Created.UnixMilli() {
		moments = append(moments, ended)
	}
	for _, moment := range moments {
		name := id.Integration + "/" + timeline.Prefix(moment)
		prefix := kv.Key{Partition: id.Partition.Name(), Name: logPrefix + name}
		items, err := o.KV.List(ctx, prefix, "", maxPerTimestamp)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			d, err := o.read(item, strings.TrimPrefix(item.Key.Name, logPrefix))
			if errors.Is(err, errNotAnEntry) {
				o.suspect(item.Key)
				continue
			}
			if err != nil {
				return nil, err
			}
			// The session id of a test event cannot be parsed.
			if of, err := session.ParseID(o.Sealer, d.Session); err == nil && of.Random == id.Random {
				events = append(events, d)
			}
		}
	}
	return events, nil
}

// isEventID reports whether s has the form of an event's id.
func isEventID(s string) bool {
	rest, ok := strings.CutPrefix(s, "evt_")
	_, err := uuid.Parse(rest)
	return ok && err == nil
}
