package adminclient_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/testharness"
)

// made has the things that newThings creates.
type made struct {
	p                                      *operate.Publisher
	i                                      *operate.Changed // with a webhook
	key, invitation, token, session, place string
}

// newThings makes one of each.
func newThings(t *testing.T, c *adminclient.Client, url string) (m made) {
	t.Helper()
	ctx := t.Context()
	name, off := "New", true
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	m.p, err = adminclient.Do(ctx, c, operate.CreatePublisher, operate.PublisherInput{Name: &name})
	must(err)
	m.i, err = adminclient.Do(ctx, c, operate.CreateIntegration, operate.IntegrationInput{
		Publisher: m.p.ID, Name: &name, WebhookInput: &operate.WebhookInput{URL: &url}})
	must(err)
	silent, err := adminclient.Do(ctx, c, operate.CreateIntegration, operate.IntegrationInput{
		Publisher: m.p.ID, Name: &name, WebhookInput: &operate.WebhookInput{Off: &off}})
	must(err)
	key, err := adminclient.Do(ctx, c, operate.CreateKey, operate.KeyInput{Publisher: m.p.ID})
	must(err)
	invited, err := adminclient.Do(ctx, c, operate.Invite,
		operate.InvitationInput{Publisher: m.p.ID, Role: operate.RoleViewer})
	must(err)
	token, err := adminclient.Do(ctx, c, operate.CreateOperator,
		operate.OperatorInput{Name: name, Role: operate.RoleViewer})
	must(err)
	session, err := adminclient.Do(ctx, c, operate.StartTestSession,
		operate.TestSessionInput{Integration: silent.ID, CallbackURL: testharness.Callback})
	must(err)
	sent, err := adminclient.Do(ctx, c, operate.SendTestEvent,
		operate.TestEventInput{Integration: m.i.ID, Type: "verification.completed"})
	must(err)
	events, next, err := adminclient.Page(ctx, c, operate.ListDeliveries,
		operate.DeliveryQuery{Integration: m.i.ID})
	must(err)
	if m.i.Secret == "" || invited.Link == "" || sent.URL != url || len(events) != 1 || next != "" {
		t.Fatalf("%+v, %+v, %+v, %+v", m.i, invited, sent, events)
	}
	m.key, m.invitation, m.token, m.session = key.Info.ID, invited.ID, token.Info.ID, session.ID
	m.place = events[0].Place
	return m
}

// request is a request to the service. It fails if the response is not as expected.
type request func(ctx context.Context, c *adminclient.Client) error

// do sends one request to an endpoint.
func do[In, Out any](e *operate.Endpoint[In, Out], in In) request {
	return func(ctx context.Context, c *adminclient.Client) error {
		_, err := adminclient.Do(ctx, c, e, in)
		return err
	}
}

// all reads a list to its end. It must have at least that number of items.
func all[In, T any](e *operate.Endpoint[In, operate.Page[T]], in In, least int) request {
	return func(ctx context.Context, c *adminclient.Client) error {
		list, err := adminclient.All(ctx, c, e, in)
		if err == nil && len(list) < least {
			return fmt.Errorf("the list has %d items", len(list))
		}
		return err
	}
}

// fails is a request that the service rejects with a status.
func fails(r request, status int) request {
	return func(ctx context.Context, c *adminclient.Client) error {
		err := r(ctx, c)
		var rejected *adminclient.Error
		if errors.As(err, &rejected) && rejected.Status == status && rejected.RequestID != "" {
			return nil
		}
		return fmt.Errorf("%w, want status %d", err, status)
	}
}

// others are the requests for which the client has methods.
func others(m made) map[string]request {
	i := m.i.ID
	return map[string]request{
		"DeadLetters": func(ctx context.Context, c *adminclient.Client) error {
			_, err := c.DeadLetters(ctx)
			return err
		},
		"WaitingDeliveries": func(ctx context.Context, c *adminclient.Client) error {
			_, err := c.WaitingDeliveries(ctx)
			return err
		},
		"UsageCSV": func(ctx context.Context, c *adminclient.Client) error {
			text, err := c.UsageCSV(ctx, operate.UsageQuery{Integration: i})
			if err == nil && !strings.HasPrefix(string(text), "integration_id,") {
				err = fmt.Errorf("it is no CSV: %s", text)
			}
			return err
		},
	}
}

// TestClient_Endpoints sends a request to every endpoint.
func TestClient_Endpoints(t *testing.T) {
	h := testharness.New(t, nil)
	c, err := adminclient.New(adminclient.Config{URL: listen(t, h.Service), Token: h.OperatorToken})
	if err != nil {
		t.Fatal(err)
	}
	m := newThings(t, c, h.Publisher.L1.WebhookURL)
	for name, r := range others(m) {
		if err := r(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	name, other := "New", "Other"
	p, i, version := m.p.ID, m.i.ID, operate.Versioned{ID: m.i.ID}
	ofPublisher, at := operate.PublisherQuery{Publisher: p}, operate.EventAt{Integration: i, Place: m.place}
	renamed := operate.IntegrationUpdate{Versioned: operate.Versioned{ID: i, Version: m.i.Version},
		IntegrationInput: operate.IntegrationInput{Name: &other}}
	again := renamed
	again.Name = &name
	const nobody = "mem_00000000000000000000000000000000"
	for n, r := range []request{
		all(operate.ListPublishers, operate.Search{}, 1),
		do(operate.ReadPublisher, p),
		do(operate.ReadOverview, p),
		all(operate.ListIntegrations, operate.IntegrationQuery{Publisher: p}, 1),
		do(operate.ReadIntegration, i),
		do(operate.TestWebhook, operate.WebhookTestInput{Integration: i}),
		all(operate.ListKeys, ofPublisher, 1),
		do(operate.ListUndelivered, struct{}{}),
		do(operate.ReadDelivery, at),
		do(operate.ReadSession, m.session),
		all(operate.ListSessions, operate.FinishedQuery{Publisher: p}, 0),
		do(operate.ReadUsage, operate.UsageQuery{Integration: i}),
		do(operate.ReadUsage, operate.UsageQuery{Publisher: p}),
		fails(do(operate.ReadUsage, operate.UsageQuery{}), 400),
		fails(do(operate.ReadUsage, operate.UsageQuery{Publisher: p, Integration: i}), 400),
		all(operate.ListAudit, ofPublisher, 1),
		all(operate.ListDeliveries, operate.DeliveryQuery{Integration: i, State: operate.DeliveryDead}, 0),
		fails(do(operate.ReadReport, operate.ReportQuery{}), 400), // the service has no key for reports
		all(operate.ListMembers, ofPublisher, 0),
		all(operate.ListInvitations, ofPublisher, 1),
		do(operate.CreateLink, operate.LinkInput{Role: operate.RoleViewer}),
		all(operate.ListOperators, operate.Cursor{}, 1),
		all(operate.ListMethods, struct{}{}, 1),
		all(operate.ListTrustLists, struct{}{}, 0),
		fails(do(operate.LoadTrustList, operate.TrustListInput{Method: "wallet", Name: "issuers"}), 400),
		do(operate.ApplySite, operate.SiteInput{Text: []byte(`{}`), DryRun: true}),
		do(operate.CountPasskeys, operate.OfPublisher{Publisher: p}),
		do(operate.EndPasskeys, operate.OfPublisher{Publisher: p}),
		fails(do(operate.Resend, operate.EventAt{Place: "evt_" + i}), 404),
		fails(do(operate.Resend, at), 400), // of a test event
		fails(do(operate.ChangeRole, operate.RoleInput{Member: nobody, Role: operate.RoleViewer}), 404),
		fails(do(operate.SignOutMember, nobody), 404),
		fails(do(operate.RemoveMember, nobody), 404),
		do(operate.ChangePublisher, operate.PublisherUpdate{
			Versioned:      operate.Versioned{ID: p, Version: m.p.Version},
			PublisherInput: operate.PublisherInput{Name: &other}}),
		do(operate.ChangeIntegration, renamed),
		fails(do(operate.ChangeIntegration, again), 412),
		do(operate.StageWebhook, operate.StagedWebhook{Versioned: version,
			WebhookInput: operate.WebhookInput{NewSecret: true}}),
		do(operate.RotateSecret, operate.Rotation{Versioned: version, Staged: true}),
		do(operate.DropStaged, version),
		do(operate.RevokeKey, m.key),
		do(operate.RevokeOperator, m.token),
		do(operate.WithdrawInvitation, operate.InvitationOf{Publisher: p, ID: m.invitation}),
		do(operate.ArchiveIntegration, version),
		do(operate.ArchivePublisher, operate.Versioned{ID: p}),
	} {
		if err := r(t.Context(), c); err != nil {
			t.Errorf("request %d: %v", n, err)
		}
	}
}
