package operate

import (
	"context"
	"fmt"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/uuid"
)

// Integrations lists the integrations of a publisher; of all publishers if publisher is "".
func (o *Operations) Integrations(ctx context.Context, who Actor, publisher string, c Search) (
	Page[Integration], error) {
	return o.integrations(ctx, who, publisher, c.Cursor,
		named(c, func(i stored) string { return i.Value.Name + "\n" + i.Value.ID }))
}

// ActiveIntegrations lists the integrations of a publisher that are not archived. Archived ones may precede
// them in the list of all.
func (o *Operations) ActiveIntegrations(ctx context.Context, who Actor, publisher string, c Cursor) (
	Page[Integration], error) {
	return o.integrations(ctx, who, publisher, c, func(i stored) bool { return i.Value.Archived == nil })
}

func (o *Operations) integrations(
	ctx context.Context, who Actor, publisher string, c Cursor, keep func(stored) bool,
) (Page[Integration], error) {
	if err := who.may(integrationList, publisher); err != nil {
		return Page[Integration]{}, err
	}
	found, next, err := find(c, keep, func(after string, n int) ([]stored, string, error) {
		return o.Directory.ListIntegrations(ctx, publisher, after, n)
	}, func(i stored) string { return i.Value.ID })
	if err != nil {
		return Page[Integration]{}, o.apiError(err)
	}
	page := Page[Integration]{Next: next}
	for _, i := range found {
		page.Items = append(page.Items, o.shown(ctx, i))
	}
	return page, nil
}

// Integration returns one integration.
func (o *Operations) Integration(ctx context.Context, who Actor, id string) (Integration, error) {
	i, err := o.integration(ctx, who, integrationRead, id)
	if err != nil {
		return Integration{}, err
	}
	return o.shown(ctx, i), nil
}

type stored = integration.Versioned[integration.Integration]

// integration reads an integration to which who may do op.
func (o *Operations) integration(ctx context.Context, who Actor, op Operation, id string) (stored, error) {
	i, err := o.Directory.ReadIntegration(ctx, id)
	if err != nil {
		return stored{}, o.apiError(err)
	}
	if err := who.may(op, i.Value.PublisherID); err != nil {
		return stored{}, err
	}
	return i, nil
}

// shown is an integration as people see it.
func (o *Operations) shown(ctx context.Context, i stored) Integration {
	v := Integration{Integration: i.Value.Shown(), Sandbox: o.testable(&i.Value), Version: i.Version}
	ready, err := o.Directory.Ready(ctx, &i.Value)
	if err != nil {
		o.Log.Warn("readiness unknown", "integration", i.Value.ID, "publisher", i.Value.PublisherID,
			"error", err.Error())
	}
	v.Ready = ready
	if at, tested, err := o.Directory.LastTest(ctx, &i.Value); err == nil && tested {
		v.Readiness = &Readiness{Ready: ready, At: at}
	}
	if since, alerted, err := o.Outbox.Failing(ctx, &i.Value); err == nil && !since.IsZero() {
		v.Failing = &Failing{Since: since}
		if !alerted.IsZero() {
			v.Failing.Alerted = &alerted
		}
	}
	return v
}

// CreateIntegration creates an integration. If it has a webhook, and the caller gives no secret for it, the
// response has a generated one.
func (o *Operations) CreateIntegration(ctx context.Context, who Actor, in IntegrationInput) (Changed, error) {
	if err := who.may(integrationCreate, in.Publisher); err != nil {
		return Changed{}, err
	}
	id, err := uuid.New(o.Random)
	if err != nil {
		return Changed{}, fmt.Errorf("operate: %w", err)
	}
	i := integration.New(id, in.Publisher)
	wrong := o.wrong()
	if in.Name == nil {
		wrong.add("name", "required", "Give the integration a name.")
	}
	in.applyTo(&i, &wrong)
	if len(i.Offers()[0]) == 0 {
		o.offerFirst(&i)
	}
	secret, made, err := o.applyWebhook(&i, in.WebhookInput, true, &wrong)
	if err != nil {
		return Changed{}, err
	}
	o.judge(i, &wrong)
	if err := wrong.err(); err != nil {
		return Changed{}, err
	}
	if err := o.inUse(ctx, in.Publisher); err != nil {
		return Changed{}, err
	}
	secrets := integration.Secrets{Set: secret}
	entry, err := o.auditEntry(who, integrationCreate, i.PublisherID, i.ID,
		i.Changes(integration.Integration{}, secrets)...)
	if err != nil {
		return Changed{}, err
	}
	if _, err := o.Directory.SaveIntegration(ctx, i, secrets, "", entry...); err != nil {
		return Changed{}, o.apiError(err)
	}
	v, err := o.Integration(ctx, who, i.ID)
	return Changed{v, made}, err
}

// offerFirst gives an integration the first method of the service that reaches its level.
func (o *Operations) offerFirst(i *integration.Integration) {
	for _, e := range o.Catalog {
		if e.Reaches(i.Level) {
			i.Method = e.Name
			return
		}
	}
}

// ChangeIntegration changes the integration that has that version. Without a difference, the version stays. A
// new webhook address or secret takes effect immediately and resets readiness; StageWebhook avoids that
// (contract 25).
func (o *Operations) ChangeIntegration(
	ctx context.Context, who Actor, id, version string, in IntegrationInput,
) (Changed, error) {
	var secret *string
	var made string
	changed, err := o.alter(ctx, who, integrationChange, id, version,
		func(i *integration.Integration) (integration.Secrets, error) {
			wrong := o.wrong()
			var err error
			in.applyTo(i, &wrong)
			if secret, made, err = o.applyWebhook(i, in.WebhookInput, false, &wrong); err != nil {
				return integration.Secrets{}, err
			}
			o.judge(*i, &wrong)
			return integration.Secrets{Set: secret}, wrong.err()
		})
	return Changed{changed, made}, err
}

// ArchiveIntegration archives the integration that has that version. It starts no more sessions; active
// sessions continue.
func (o *Operations) ArchiveIntegration(ctx context.Context, who Actor, id, version string) (
	Integration, error) {
	return o.alter(ctx, who, integrationArchive, id, version,
		func(i *integration.Integration) (integration.Secrets, error) {
			now := o.Now().UTC()
			i.Archived = &now
			return integration.Secrets{}, nil
		})
}

// alter changes the integration that has that version; "" means any version.
func (o *Operations) alter(ctx context.Context, who Actor, op Operation, id, version string,
	apply func(*integration.Integration) (integration.Secrets, error)) (Integration, error) {
	return overtaking(version, func() (Integration, error) {
		return o.alterOnce(ctx, who, op, id, version, apply)
	})
}

func (o *Operations) alterOnce(ctx context.Context, who Actor, op Operation, id, version string,
	apply func(*integration.Integration) (integration.Secrets, error)) (Integration, error) {
	was, err := o.integration(ctx, who, op, id)
	if err != nil {
		return Integration{}, err
	}
	switch {
	case was.Value.Managed:
		return Integration{}, ErrManaged
	case was.Value.Archived != nil:
		return Integration{}, ErrArchived
	}
	if err := fresh(version, was.Version); err != nil {
		return o.shown(ctx, was), err
	}
	i := was.Value
	i.Removed = false // a change by hand makes it independent of the file
	secrets, err := apply(&i)
	if err != nil {
		return Integration{}, err
	}
	changes := i.Changes(was.Value, o.newSecrets(&was.Value, secrets))
	if len(changes) == 0 {
		return o.shown(ctx, was), nil
	}
	entry, err := o.auditEntry(who, op, i.PublisherID, i.ID, changes...)
	if err != nil {
		return Integration{}, err
	}
	if _, err := o.Directory.SaveIntegration(ctx, i, secrets, was.Version, entry...); err != nil {
		return Integration{}, o.apiError(err)
	}
	return o.Integration(ctx, who, id)
}

// newSecrets returns s without the secrets that an integration already has.
func (o *Operations) newSecrets(was *integration.Integration, s integration.Secrets) integration.Secrets {
	if is, err := o.Directory.WebhookSecret(was); err == nil && s.Set != nil && *s.Set == is {
		s.Set = nil
	}
	if is, err := o.Directory.StagedSecret(was); err == nil && s.Staged != nil && *s.Staged == is {
		s.Staged = nil
	}
	return s
}

// applyTo sets the given settings in i.
func (in IntegrationInput) applyTo(i *integration.Integration, wrong *invalid) {
	if in.Name != nil {
		i.Name = wrong.name("name", *in.Name)
	}
	i.Apply(&in)
}

// judge adds the problems of i, including those of settings that the caller did not give: a given one may
// contradict them.
func (o *Operations) judge(i integration.Integration, wrong *invalid) {
	for _, p := range i.Problems(o.Catalog, o.Dev) {
		wrong.add(p.Member, "value", "%s", p.Text)
	}
	for _, s := range integration.Settings {
		if list, _ := s.Value(&i).([]string); s.Items != "" && len(list) > integration.MaxItems {
			wrong.add(s.Name, "length", "It has %d %s; at most %d are allowed.", len(list), s.Items,
				integration.MaxItems)
		}
	}
}
