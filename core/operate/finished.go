package operate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/finished"
	"github.com/verge-id/verge/core/internal/usage"
)

// FinishedSession is a session that has ended. It has nothing about the user.
type FinishedSession struct {
	ID          string
	Integration string
	Level       string
	Outcome     string // one of host's Outcome constants
	Method      string // the last method that the user tried; "": none
	Started     time.Time
	Ended       time.Time
}

// FinishedQuery selects finished sessions. An empty field selects all.
type FinishedQuery struct {
	Integration     string
	Outcome, Method string
	From, To        string // days, both included
	Cursor
}

// Empty reports whether the query selects all.
func (q FinishedQuery) Empty() bool {
	q.Cursor = Cursor{}
	return q == FinishedQuery{}
}

// FinishedSessions lists the sessions of a publisher that have ended, the latest end first (contract 44).
func (o *Operations) FinishedSessions(ctx context.Context, who Actor, publisher string, q FinishedQuery) (
	Page[FinishedSession], error) {
	if _, err := o.Publisher(ctx, who, publisher); err != nil {
		return Page[FinishedSession]{}, err
	}
	if err := who.may(sessionRead, publisher); err != nil {
		return Page[FinishedSession]{}, err
	}
	var wrong invalid
	from, to := o.day(&wrong, "from", q.From, 0), o.day(&wrong, "to", q.To, 0)
	if len(wrong.fields) == 0 && to != 0 && from > to {
		wrong.add("from", "value", "From must be on or before to.")
	}
	if q.Outcome != "" && (q.Outcome == host.OutcomeStarted || !slices.Contains(host.Outcomes(), q.Outcome)) {
		wrong.add("outcome", "value", "There is no such outcome.")
	}
	if err := wrong.err(); err != nil {
		return Page[FinishedSession]{}, err
	}
	list := finished.List{Host: o.Host, Partitions: o.Partitions}
	found, err := list.Read(ctx, finished.Query{Publisher: publisher, From: from, To: to,
		Integration: q.Integration, Outcome: q.Outcome, Method: q.Method, After: q.After, Limit: q.limit()})
	if errors.Is(err, finished.ErrCursor) {
		return Page[FinishedSession]{}, badCursor
	}
	page := Page[FinishedSession]{Next: found.Next}
	for _, s := range found.Sessions {
		page.Items = append(page.Items, FinishedSession{ID: s.Text, Integration: s.ID.Integration,
			Level: s.ID.Level.String(), Outcome: s.Outcome, Method: s.Method, Started: s.ID.Created,
			Ended: s.Ended})
	}
	return page, err
}

// PublisherUsage adds up Usage of all integrations of a publisher, including archived ones. more is true if
// the publisher has more integrations than are added up.
func (o *Operations) PublisherUsage(ctx context.Context, who Actor, publisher, from, to string) (
	days []usage.Day, more bool, err error) {
	page, err := o.Integrations(ctx, who, publisher, Search{Cursor: Cursor{Limit: MaxLimit}})
	if err != nil {
		return nil, false, err
	}
	first, last, err := o.usageDays(from, to)
	if err != nil {
		return nil, false, err
	}
	for day := first; day <= last; day++ {
		days = append(days, usage.Day{Day: day})
	}
	for _, i := range page.Items {
		if err := who.may(usageRead, i.PublisherID); err != nil {
			return nil, false, err
		}
		each, err := o.Counted.Read(ctx, i.ID, first, last)
		if err != nil {
			return nil, false, err
		}
		for n := range each {
			days[n].Counts = days[n].Counts.Plus(each[n].Counts)
		}
	}
	return days, page.Next != "", nil
}
