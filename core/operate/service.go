package operate

import (
	"context"
	"errors"
	"slices"

	"github.com/verge-id/verge/core/audit"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/weburl"
)

// auditPartition is where audit entries are kept.
const auditPartition = integration.Partition

// Audit lists who changed what, the latest first: of one publisher, or of all if publisher is "".
func (d *Desk) Audit(ctx context.Context, who Actor, publisher string, c Cursor) (Page[AuditEntry], error) {
	if err := who.may(AuditRead, publisher); err != nil {
		return Page[AuditEntry]{}, err
	}
	found, next, err := audit.List(ctx, d.KV, d.Sealer, publisher, c.After, c.limit())
	if errors.Is(err, audit.ErrCursor) {
		return Page[AuditEntry]{}, badCursor
	}
	if err != nil {
		return Page[AuditEntry]{}, err
	}
	page := Page[AuditEntry]{Next: next}
	for _, e := range found {
		page.Items = append(page.Items, AuditEntry{ID: e.ID, At: e.At, ActorKind: e.Actor.Kind,
			ActorID: e.Actor.ID, ActorName: e.Actor.Name, Publisher: e.Publisher,
			Operation: Operation(e.Operation), Target: e.Target, Changes: e.Changes})
	}
	return page, nil
}

// Methods lists the service's methods, in the order of the configuration.
func (d *Desk) Methods(_ context.Context, who Actor) ([]Method, error) {
	if err := who.may(MethodList, who.Publisher); err != nil {
		return nil, err
	}
	var all []Method
	for _, e := range d.Catalog {
		all = append(all, Method{Name: e.Name, Kind: e.Kind, Level: e.Level, Sandbox: e.Of.Sandbox})
	}
	return all, nil
}

// PlanSite says what ApplySite would change.
func (d *Desk) PlanSite(ctx context.Context, who Actor, site []byte) ([]Difference, error) {
	s, err := d.site(who, site)
	if err != nil {
		return nil, err
	}
	return d.Directory.Plan(ctx, s)
}

// ApplySite puts the publishers and integrations that a configuration names into the store (contract 46), and
// returns what that has changed.
func (d *Desk) ApplySite(ctx context.Context, who Actor, site []byte) ([]Difference, error) {
	s, err := d.site(who, site)
	if err != nil {
		return nil, err
	}
	changed, err := d.Directory.Plan(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := d.Directory.Put(ctx, s, nil); err != nil {
		return nil, err
	}
	if len(changed) > 0 {
		d.tell(ctx, who, SiteApply, "", "")
	}
	return changed, nil
}

func (d *Desk) site(who Actor, text []byte) (integration.Site, error) {
	if err := who.may(SiteApply, ""); err != nil {
		return integration.Site{}, err
	}
	s, err := integration.ReadSite(text)
	var wrong problem.List
	if err != nil && !errors.As(err, &wrong) {
		return integration.Site{}, &Refused{err.Error()}
	}
	for _, p := range s.Problems(d.Catalog, d.Dev) {
		if !wrong.Has(p.Member) {
			wrong = append(wrong, p)
		}
	}
	if len(wrong) > 0 {
		return integration.Site{}, d.invalid(wrong)
	}
	return s, nil
}

// SendTestEvent sends the integration's receiver a test event of the type, in the way of every event.
func (d *Desk) SendTestEvent(ctx context.Context, who Actor, id, eventType string) (Exchange, error) {
	i, err := d.triable(ctx, who, WebhookTest, id)
	if err != nil {
		return Exchange{}, err
	}
	return d.sendTest(ctx, &i.Value, eventType)
}

// triable reads an integration with which who tries something out by op. One that is archived is not tried.
func (d *Desk) triable(ctx context.Context, who Actor, op Operation, id string) (stored, error) {
	i, err := d.integration(ctx, who, op, id)
	switch {
	case err != nil:
		return stored{}, err
	case i.Value.Archived != nil:
		return stored{}, ErrArchived
	}
	return i, d.readable()
}

// testable reports whether test sessions of an integration can be started: all its methods verify nobody.
func (d *Desk) testable(i *integration.Integration) bool {
	return !slices.ContainsFunc(i.Offers(), func(name string) bool {
		e, known := d.Catalog.Find(name)
		return !known || !e.Of.Sandbox
	})
}

// verifies reports whether an integration has a method that verifies people.
func (d *Desk) verifies(i *integration.Integration) bool {
	return slices.ContainsFunc(i.Offers(), func(name string) bool {
		e, known := d.Catalog.Find(name)
		return known && !e.Of.Sandbox
	})
}

// StartTestSession starts a session with which a publisher tries things out. It needs a method that verifies
// nobody, the sandbox, so that the outcome is the one that the publisher chooses.
func (d *Desk) StartTestSession(ctx context.Context, who Actor, id, callback string) (TestSession, error) {
	i, err := d.triable(ctx, who, SessionTest, id)
	if err != nil {
		return TestSession{}, err
	}
	if err := d.inUse(ctx, i.Value.PublisherID); err != nil {
		return TestSession{}, err
	}
	if !d.testable(&i.Value) {
		return TestSession{},
			&Refused{"A test session needs an integration whose only methods are of the kind " +
				"sandbox. A service in production has none: use a service in test mode."}
	}
	if _, problem := weburl.ParseCallback(callback, weburl.CallbackRules{Dev: d.Dev}); problem != "" {
		return TestSession{}, &Invalid{Fields: []Field{{"callback_url", "value", problem}}}
	}
	ready, err := d.Directory.Ready(ctx, &i.Value)
	if err != nil {
		return TestSession{}, err
	}
	if !ready && !d.Dev {
		return TestSession{}, &Refused{"The integration's signed webhook test has not reported " +
			"Ready. Run the test first, or switch its webhooks off."}
	}
	trial, err := d.StartTest(ctx, &i.Value, callback)
	return TestSession{ID: trial.Session, RedirectURL: trial.RedirectURL, Expires: trial.Expires}, err
}
