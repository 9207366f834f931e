package operate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/report"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// signedReport is a report for regulators, as JSON and as a page, with signatures (contract 57).
type signedReport = report.Signed

// Limits of a report, so that it fits into one response. A report of one publisher has less.
const (
	maxReportDays         = 365 // before today: the audit has no older entries
	maxReportIntegrations = 250
	maxReportEntries      = 5000 // of the audit, including those that the report leaves out
)

// reported are the operations whose changes are in reports. Others are about persons: members, sign-ins,
// invitations, operator tokens.
var reported = []Operation{publisherCreate, publisherChange, publisherArchive, integrationCreate,
	integrationChange, integrationArchive, webhookChange, keyCreate, keyRevoke, passkeysEnd, siteApply,
	trustListLoad, ModuleActivate}

var errNoReports = errConflict(
	"This service has no key for reports. Its operator sets private_key_file in [report].",
)

// Report returns the signed report about a period. An empty Publisher is the member's own; for an operator it
// is all publishers.
func (o *Operations) Report(ctx context.Context, who Actor, in ReportQuery) (signedReport, error) {
	in.Publisher = cmp.Or(in.Publisher, who.Publisher)
	if err := who.may(reportRead, in.Publisher); err != nil {
		return signedReport{}, err
	}
	if o.Reports.Key == nil {
		return signedReport{}, errNoReports
	}
	first, last, err := o.reportDays(in)
	if err != nil {
		return signedReport{}, err
	}
	d := &report.Document{
		Service:    o.BaseURL,
		Publisher:  in.Publisher,
		From:       first.String(),
		To:         last.String(),
		Created:    o.Now(),
		Mode:       o.Reports.Mode,
		Software:   o.Reports.Software,
		Attempts:   o.Reports.Attempts,
		Outcomes:   counted(host.Counts{}),
		Methods:    []report.Method{},
		Publishers: []report.Publisher{},
		Changes:    []report.Change{},
		Retention:  o.Reports.Retention,
		Notes:      reportNotes,
	}
	for _, e := range o.Catalog {
		d.Methods = append(d.Methods, report.Method{Name: e.Name, Kind: e.Kind, Level: e.Level,
			Sandbox: e.Of.Sandbox || o.Dev, Settings: reportSettings(e, who.Operator())})
	}
	if err := o.reportPublishers(ctx, who, d, first, last); err != nil {
		return signedReport{}, err
	}
	if err := o.reportChanges(ctx, d, first, last); err != nil {
		return signedReport{}, err
	}
	return d.Sign(ctx, o.Reports.Key, o.Sign)
}

var reportNotes = []string{
	"Methods, settings and retention are those at the time of creation. Changes have the earlier " +
		"values of the period. Changes of the configuration file of the service are in its own records.",
	"Counts are summed by instances. An instance that was killed may have lost the counts of its last " +
		"minute. The last day is incomplete if the report was created on it.",
	"The report has no data of users and no names of persons who work with the service.",
}

// reportDays returns the first and the last day of a report.
func (o *Operations) reportDays(in ReportQuery) (first, last host.Day, err error) {
	var wrong invalid
	today := host.DayOf(o.Now())
	last = o.day(&wrong, "to", in.To, today)
	first = o.day(&wrong, "from", in.From, last-29)
	switch {
	case len(wrong.fields) > 0:
	case last > today:
		wrong.add("to", "value", "It must not be after today, which is %s in UTC.", today)
	case first > last:
		wrong.add("from", "value", "From must be on or before to.")
	case first < today-maxReportDays:
		wrong.add("from", "value", "It must be %s or later, at most %d days before today.",
			today-maxReportDays, maxReportDays)
	}
	return first, last, wrong.err()
}

// counted returns counts by outcome.
func counted(c host.Counts) map[string]uint64 {
	all := map[string]uint64{}
	for _, outcome := range host.Outcomes() {
		all[outcome] = c.Of(outcome)
	}
	return all
}

// reportSettings returns the settings of a method. Long values, such as certificates, are digests. Secrets
// are not among the settings. Texts are for operators alone, since they may name internal hosts.
func reportSettings(e method.Entry, texts bool) []report.Value {
	all := []report.Value{}
	settings, err := strictjson.Read(e.Settings)
	if len(e.Settings) == 0 || err != nil {
		return all
	}
	for name, v := range settings.All() {
		text := string(v.JSON())
		if c := text[0]; !texts && c != '-' && c != 't' && c != 'f' && (c < '0' || c > '9') {
			continue
		}
		if s, ok := v.Text(); ok {
			text = s
		}
		if len(text) > 300 {
			digest := sha256.Sum256([]byte(text))
			text = "SHA-256 " + hex.EncodeToString(digest[:])
		}
		all = append(all, report.Value{Name: name, Value: text})
	}
	return all
}

// reportPublishers adds the publishers with their integrations and counts.
func (o *Operations) reportPublishers(
	ctx context.Context, who Actor, d *report.Document, first, last host.Day,
) error {
	place := map[string]int{}
	add := func(p Publisher) {
		place[p.ID] = len(d.Publishers)
		d.Publishers = append(d.Publishers, report.Publisher{ID: p.ID, Name: p.Name, Archived: p.Archived,
			Integrations: []report.Integration{}})
	}
	if d.Publisher != "" {
		p, err := o.Publisher(ctx, who, d.Publisher)
		if err != nil {
			return err
		}
		add(p)
	} else {
		for c := (Cursor{Limit: MaxLimit}); ; {
			page, err := o.Publishers(ctx, who, Search{Cursor: c})
			if err != nil {
				return err
			}
			for _, p := range page.Items {
				add(p)
			}
			if len(d.Publishers) > maxReportIntegrations {
				return reportTooLarge
			}
			if c.After = page.Next; c.After == "" {
				break
			}
		}
	}
	n := 0
	for c := (Cursor{Limit: MaxLimit}); ; {
		page, err := o.Integrations(ctx, who, d.Publisher, Search{Cursor: c})
		if err != nil {
			return err
		}
		if n += len(page.Items); n > maxReportIntegrations {
			return reportTooLarge
		}
		for _, i := range page.Items {
			at, known := place[i.PublisherID]
			if !known { // created since the list was read
				continue
			}
			added, err := o.reportIntegration(ctx, d, i, first, last)
			if err != nil {
				return err
			}
			d.Publishers[at].Integrations = append(d.Publishers[at].Integrations, added)
		}
		if c.After = page.Next; c.After == "" {
			return nil
		}
	}
}

var reportTooLarge = errInvalid(web.FieldError{Field: "publisher_id", Code: "value",
	Message: "The report would have more than " + strconv.Itoa(maxReportIntegrations) +
		" publishers or integrations. Request one for each publisher."})

func (o *Operations) reportIntegration(ctx context.Context, d *report.Document, i Integration,
	first, last host.Day,
) (report.Integration, error) {
	r := report.Integration{ID: i.ID, Name: i.Name, Archived: i.Archived, Days: []report.Day{}}
	for _, s := range integration.Settings {
		text := s.Audited(&i.Integration)
		switch {
		case s.Name == "minimum_age":
			text = strconv.Itoa(i.Minimum())
		case s.Name == "attempts" && i.Attempts == 0:
			text = strconv.Itoa(d.Attempts)
		}
		r.Settings = append(r.Settings, report.Value{Name: s.Name, Value: text})
	}
	days, err := o.Counted.Read(ctx, i.ID, first, last)
	if err != nil {
		return r, err
	}
	var sum host.Counts
	for _, day := range days {
		if day.Counts != (host.Counts{}) {
			r.Days = append(r.Days, report.Day{Day: day.Day.String(), Outcomes: counted(day.Counts)})
		}
		for _, outcome := range host.Outcomes() {
			sum.Add(outcome, day.Counts.Of(outcome))
			d.Outcomes[outcome] += day.Counts.Of(outcome)
		}
	}
	r.Outcomes = counted(sum)
	return r, nil
}

// reportChanges adds the changes of the period, the oldest first.
func (o *Operations) reportChanges(ctx context.Context, d *report.Document, first, last host.Day) error {
	end := (last + 1).Begin()
	after, read := audit.Before(end), 0
	for after != "" {
		entries, next, err := audit.List(ctx, o.KV, o.Sealer, d.Publisher, after, MaxLimit)
		if err != nil {
			return err
		}
		after = next
		for _, e := range entries {
			if e.At.Before(first.Begin()) {
				after = ""
				break
			}
			if read++; read > maxReportEntries {
				return errInvalid(web.FieldError{Field: "from", Code: "value",
					Message: "The audit has more than " + strconv.Itoa(maxReportEntries) +
						" entries in this period. Request a shorter period."})
			}
			if !slices.Contains(reported, Operation(e.Operation)) {
				d.Omitted++
				continue
			}
			d.Changes = append(d.Changes, reportChange(e))
		}
	}
	slices.Reverse(d.Changes)
	return nil
}

// reportChange returns an entry of the audit without its actor's name. It has the values of settings of
// integrations alone, because others may be names.
func reportChange(e audit.Entry) report.Change {
	c := report.Change{At: e.At, By: e.Actor.Kind, Publisher: e.Publisher, Operation: e.Operation,
		Target: e.Target}
	for _, f := range e.Changes {
		field := report.Field{Name: f.Field}
		if slices.ContainsFunc(integration.Settings,
			func(s integration.Setting) bool { return s.Name == f.Field }) {
			field.From, field.To = f.From, f.To
		}
		c.Fields = append(c.Fields, field)
	}
	return c
}
