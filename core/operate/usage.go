package operate

import (
	"bytes"
	"context"
	"slices"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/web"
)

// Usage returns the counts of each day from one day to another, both included. "" is 29 days ago, and today.
func (o *Operations) Usage(ctx context.Context, who Actor, integration, from, to string) (
	[]usage.Day, error) {
	if _, err := o.integration(ctx, who, usageRead, integration); err != nil {
		return nil, err
	}
	first, last, err := o.usageDays(from, to)
	if err != nil {
		return nil, err
	}
	return o.Counted.Read(ctx, integration, first, last)
}

// CSV returns days as CSV. The first column has the id of the query. A publisher with more integrations
// than the days include is an error, because CSV has no place for a remark.
func (q UsageQuery) CSV(days []usage.Day, more bool) ([]byte, error) {
	if more {
		return nil, errInvalid(web.FieldError{Field: "publisher_id", Code: "value",
			Message: "The publisher has more integrations than CSV can add up. Ask for each integration."})
	}
	column, id := "integration_id", q.Integration
	if q.Publisher != "" {
		column, id = "publisher_id", q.Publisher
	}
	var b bytes.Buffer
	err := usage.WriteCSV(&b, column, id, days)
	return b.Bytes(), err
}

// usageDays returns the days of a query for usage. "" is 29 days ago, and today.
func (o *Operations) usageDays(from, to string) (first, last host.Day, err error) {
	var wrong invalid
	last = o.day(&wrong, "to", to, host.DayOf(o.Now()))
	first = o.day(&wrong, "from", from, last-29)
	if len(wrong.fields) == 0 && (first > last || last-first >= usage.MaxDays) {
		wrong.add("from", "value", "From must be on or before to, and at most %d days before it.",
			usage.MaxDays-1)
	}
	return first, last, wrong.err()
}

func (o *Operations) day(wrong *invalid, field, text string, standard host.Day) host.Day {
	if text == "" {
		return standard
	}
	day, ok := host.ParseDay(text)
	if !ok {
		wrong.add(field, "value", "It must be a day, such as 2026-11-20.")
	}
	return day
}

// Most that an overview reads.
const (
	overviewIntegrations = 20
	overviewEvents       = 100
)

// Overview returns the data of a publisher's first page. It reads only the first integrations and events, so
// that its cost is the same for every publisher; More is true if there are others.
func (o *Operations) Overview(ctx context.Context, who Actor, publisher string) (Overview, error) {
	if _, err := o.Publisher(ctx, who, publisher); err != nil {
		return Overview{}, err
	}
	active, err := o.ActiveIntegrations(ctx, who, publisher, Cursor{Limit: overviewIntegrations})
	if err != nil {
		return Overview{}, err
	}
	secret, err := o.SecretKeys(ctx, who, publisher, Cursor{Limit: 1})
	if err != nil {
		return Overview{}, err
	}
	hasKey := len(secret.Items) > 0
	view := Overview{Active: active.Items, More: active.Next != "" || !hasKey && secret.Next != "",
		Today: map[string]uint64{}}
	var ids []string
	names := map[string]string{}
	testable, ready, verifies := "", false, false
	for _, i := range active.Items {
		ids = append(ids, i.ID)
		names[i.ID] = i.Name
		ready = ready || i.Ready
		verifies = verifies || i.Ready && o.verifies(&i.Integration)
		if testable == "" && i.Sandbox {
			testable = i.ID
		}
	}
	completed, err := o.countDays(ctx, &view)
	if err != nil {
		return Overview{}, err
	}
	recent, err := o.FinishedSessions(ctx, who, FinishedQuery{Publisher: publisher,
		Cursor: Cursor{Limit: MaxLimit}})
	if err != nil {
		return Overview{}, err
	}
	view.Recent = recent.Items
	first := ""
	if len(ids) > 0 {
		first = ids[0]
	}
	view.Steps = []Step{
		{StepIntegration, first != "", first},
		{StepWebhook, ready, first},
		{StepKey, hasKey, first},
		{StepSession, completed, testable},
		{StepMethod, verifies, first},
	}
	return view, o.countUndelivered(ctx, ids, names, &view)
}

// countDays adds up the last 30 days and today, and reports whether any session was completed.
func (o *Operations) countDays(ctx context.Context, view *Overview) (completed bool, err error) {
	now := host.DayOf(o.Now())
	if view.Days, err = o.sumDays(ctx, view.Active, now-29, now); err != nil {
		return false, err
	}
	for _, day := range view.Days {
		completed = completed || day.Counts.Of(host.OutcomeCompleted) > 0
	}
	if len(view.Active) > 0 {
		view.Today = counted(view.Days[29].Counts)
	}
	return completed, nil
}

// countUndelivered counts the undelivered events, in total and by integration. names are the integrations'
// names.
func (o *Operations) countUndelivered(
	ctx context.Context, integrations []string, names map[string]string, view *Overview,
) error {
	view.Undelivered = []IntegrationUndelivered{}
	if len(integrations) == 0 {
		return nil
	}
	for _, state := range []string{outbox.StateWaiting, outbox.StateDead} {
		page, err := o.Outbox.Deliveries(ctx, outbox.Query{Integrations: integrations, State: state,
			Limit: overviewEvents})
		if err != nil {
			return err
		}
		more := page.Next != ""
		view.More = view.More || more
		for _, each := range page.Deliveries {
			view.countOne(each, names[each.Integration], more)
		}
	}
	return nil
}

// countOne counts an event that has not arrived. more means that others of its state were not counted.
func (o *Overview) countOne(e outbox.Delivery, name string, more bool) {
	n := slices.IndexFunc(o.Undelivered, func(u IntegrationUndelivered) bool {
		return u.Integration == e.Integration
	})
	if n < 0 {
		n = len(o.Undelivered)
		o.Undelivered = append(o.Undelivered, IntegrationUndelivered{Integration: e.Integration, Name: name})
	}
	of := &o.Undelivered[n]
	of.More = of.More || more
	if e.State == outbox.StateDead {
		o.Dead++
		of.Dead++
	} else {
		o.Waiting++
		of.Waiting++
	}
}
