package operate

import (
	"context"
	"errors"
	"slices"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// auditPartition is where audit entries are kept.
const auditPartition = integration.Partition

// Audit lists changes with their actors, the latest first: of one publisher, or of all if publisher is "".
func (o *Operations) Audit(ctx context.Context, who Actor, publisher string, c Cursor) (
	Page[AuditEntry], error) {
	if err := who.may(auditRead, publisher); err != nil {
		return Page[AuditEntry]{}, err
	}
	found, next, err := audit.List(ctx, o.KV, o.Sealer, publisher, c.After, c.limit())
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
func (o *Operations) Methods(_ context.Context, who Actor) ([]Method, error) {
	if err := who.may(methodList, who.Publisher); err != nil {
		return nil, err
	}
	return MethodsOf(o.Catalog), nil
}

// MethodsOf returns the methods of a catalog.
func MethodsOf(catalog method.Catalog) (all []Method) {
	for _, e := range catalog {
		m := Method{Name: e.Name, Kind: e.Kind, Level: e.Level, Sandbox: e.Of.Sandbox}
		if e.Of.Overrides != nil {
			m.Overrides = e.Of.Overrides(e.Config)
		}
		all = append(all, m)
	}
	return all
}

// PlanSite returns the changes that ApplySite would make.
func (o *Operations) PlanSite(ctx context.Context, who Actor, site []byte) ([]Difference, error) {
	s, err := o.site(who, site)
	if err != nil {
		return nil, err
	}
	return o.Directory.Plan(ctx, s, integration.ArchiveRemoved)
}

// ApplySite puts the publishers and integrations that a configuration names into the store, and archives
// those that only an earlier configuration named (contract 46). It returns the changes.
func (o *Operations) ApplySite(ctx context.Context, who Actor, site []byte) ([]Difference, error) {
	s, err := o.site(who, site)
	if err != nil {
		return nil, err
	}
	changed, err := o.Directory.Plan(ctx, s, integration.ArchiveRemoved)
	if err != nil {
		return nil, err
	}
	err = o.Directory.Put(ctx, s, integration.ArchiveRemoved, nil)
	switch {
	case err != nil && len(changed) > 0: // some changes may be in the store, and a retry no longer finds them
		o.tell(ctx, who, siteApply, "", "", change{Field: "complete", To: "no"})
	case len(changed) > 0:
		o.tell(ctx, who, siteApply, "", "")
	}
	if err != nil {
		return nil, err
	}
	return changed, nil
}

func (o *Operations) site(who Actor, text []byte) (integration.Site, error) {
	if err := who.may(siteApply, ""); err != nil {
		return integration.Site{}, err
	}
	s, err := integration.ReadSite(text)
	var misread problem.List
	if err != nil && !errors.As(err, &misread) {
		return integration.Site{}, errConflict(err.Error())
	}
	if wrong := s.Problems(o.Catalog, o.Dev, misread); len(wrong) > 0 {
		return integration.Site{}, o.invalid(wrong)
	}
	return s, nil
}

// SendTestEvent sends the integration's receiver a test event of the type, in the way of every event.
func (o *Operations) SendTestEvent(ctx context.Context, who Actor, id, eventType string) (Exchange, error) {
	i, err := o.triable(ctx, who, webhookTest, id)
	if err != nil {
		return Exchange{}, err
	}
	return o.sendTest(ctx, &i.Value, eventType)
}

// triable reads an integration for a test by op. It rejects an archived integration.
func (o *Operations) triable(ctx context.Context, who Actor, op Operation, id string) (stored, error) {
	i, err := o.integration(ctx, who, op, id)
	switch {
	case err != nil:
		return stored{}, err
	case i.Value.Archived != nil:
		return stored{}, ErrArchived
	}
	return i, o.readable()
}

// testable reports whether test sessions of an integration can be started: all its methods verify no user.
func (o *Operations) testable(i *integration.Integration) bool {
	return !slices.ContainsFunc(i.Offers(), func(name string) bool {
		e, known := o.Catalog.Find(name)
		return !known || !e.Of.Sandbox
	})
}

// verifies reports whether an integration has a method that verifies people. In development none does.
func (o *Operations) verifies(i *integration.Integration) bool {
	return !o.Dev && slices.ContainsFunc(i.Offers(), func(name string) bool {
		e, known := o.Catalog.Find(name)
		return known && !e.Of.Sandbox
	})
}

// StartTestSession starts a test session of a publisher. It needs the sandbox, a method that verifies no
// user, so that the publisher chooses the outcome.
func (o *Operations) StartTestSession(ctx context.Context, who Actor, id, callback string) (
	TestSession, error) {
	i, err := o.triable(ctx, who, sessionTest, id)
	if err != nil {
		return TestSession{}, err
	}
	if err := o.inUse(ctx, i.Value.PublisherID); err != nil {
		return TestSession{}, err
	}
	if !o.testable(&i.Value) {
		return TestSession{},
			errConflict("A test session needs an integration whose only methods are of the kind " +
				"sandbox. A service in production has none: use a service in test mode.")
	}
	rules := weburl.CallbackRules{Dev: o.Dev, Origins: slices.Clone(i.Value.CallbackOrigins)}
	if len(rules.Origins) > 0 {
		rules.Origins = append(rules.Origins, o.BaseURL) // of the console, whose sessions return to it
	}
	if _, problem := weburl.ParseCallback(callback, rules); problem != "" {
		return TestSession{}, errInvalid(
			web.FieldError{Field: "callback_url", Code: "value", Message: problem})
	}
	ready, err := o.Directory.Ready(ctx, &i.Value)
	if err != nil {
		return TestSession{}, err
	}
	if !ready && !o.Dev {
		return TestSession{}, errConflict("The integration's signed webhook test has not reported " +
			"Ready. Run the test first, or switch its webhooks off.")
	}
	started, err := o.StartTest(ctx, &i.Value, callback)
	return TestSession{ID: started.Session, RedirectURL: started.RedirectURL, Expires: started.Expires}, err
}
