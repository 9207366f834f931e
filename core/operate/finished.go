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
	ID          string    `json:"session_id"`
	Integration string    `json:"integration_id"`
	Level       string    `json:"level"`
	Outcome     string    `json:"outcome"`          // one of host's Outcome constants
	Method      string    `json:"method,omitempty"` // the last method that the user tried; "": none
	Started     time.Time `json:"started_at"`
	Ended       time.Time `json:"ended_at"`
}

// FinishedQuery selects finished sessions of a publisher. Any other empty field selects all.
type FinishedQuery struct {
	Publisher   string `query:"publisher_id" need:"Required: the id of a publisher."`
	Integration string `query:"integration_id"`
	Outcome     string `query:"outcome"`
	Method      string `query:"method"` // the last method that the user tried
	From        string `query:"from"`   // the first day of the end, such as 2026-11-20
	To          string `query:"to"`     // the last day
	Cursor
}

// All reports whether the query selects all sessions of the publisher.
func (q FinishedQuery) All() bool {
	return q == FinishedQuery{Publisher: q.Publisher, Cursor: q.Cursor}
}

// FinishedSessions lists the sessions of a publisher that have ended, the latest end first (contract 44).
func (o *Operations) FinishedSessions(ctx context.Context, who Actor, q FinishedQuery) (
	Page[FinishedSession], error) {
	if _, err := o.Publisher(ctx, who, q.Publisher); err != nil {
		return Page[FinishedSession]{}, err
	}
	if err := who.may(sessionRead, q.Publisher); err != nil {
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
	found, err := list.Read(ctx, finished.Query{Publisher: q.Publisher, From: from, To: to,
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
	if _, err := o.Publisher(ctx, who, publisher); err != nil {
		return nil, false, err
	}
	if err := who.may(usageRead, publisher); err != nil {
		return nil, false, err
	}
	page, err := o.Integrations(ctx, who, publisher, Search{Cursor: Cursor{Limit: MaxLimit}})
	if err != nil {
		return nil, false, err
	}
	first, last, err := o.usageDays(from, to)
	if err != nil {
		return nil, false, err
	}
	days, err = o.sumDays(ctx, page.Items, first, last)
	return days, page.Next != "", err
}

// sumDays adds up the counts of integrations, by day.
func (o *Operations) sumDays(ctx context.Context, integrations []Integration, first, last host.Day) (
	[]usage.Day, error) {
	days := make([]usage.Day, last-first+1)
	for n := range days {
		days[n].Day = first + host.Day(n)
	}
	for _, i := range integrations {
		each, err := o.Counted.Read(ctx, i.ID, first, last)
		if err != nil {
			return nil, err
		}
		for n, day := range each {
			days[n].Counts = days[n].Counts.Plus(day.Counts)
		}
	}
	return days, nil
}
