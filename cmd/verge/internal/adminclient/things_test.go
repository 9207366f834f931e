package adminclient_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/testharness"
)

// made is what newThings has made.
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
	m.i, err = adminclient.Do(
		ctx,
		c,
		operate.CreateIntegration,
		operate.IntegrationInput{
			Publisher:    m.p.ID,
			Name:         &name,
			WebhookInput: &operate.WebhookInput{URL: &url},
		},
	)
	must(err)
	silent, err := adminclient.Do(
		ctx,
		c,
		operate.CreateIntegration,
		operate.IntegrationInput{
			Publisher:    m.p.ID,
			Name:         &name,
			WebhookInput: &operate.WebhookInput{Off: &off},
		},
	)
	must(err)
	key, err := adminclient.Do(ctx, c, operate.CreateKey, operate.KeyInput{Publisher: m.p.ID})
	must(err)
	invited, err := adminclient.Do(
		ctx,
		c,
		operate.Invite,
		operate.InvitationInput{Publisher: m.p.ID, Role: operate.RoleViewer},
	)
	must(err)
	token, err := adminclient.Do(
		ctx,
		c,
		operate.CreateOperator,
		operate.OperatorInput{Name: name, Role: operate.RoleViewer},
	)
	must(err)
	session, err := adminclient.Do(
		ctx,
		c,
		operate.StartTestSession,
		operate.TestSessionInput{Integration: silent.ID, CallbackURL: testharness.Callback},
	)
	must(err)
	sent, err := adminclient.Do(
		ctx,
		c,
		operate.SendTestEvent,
		operate.TestEventInput{Integration: m.i.ID, Type: "verification.completed"},
	)
	must(err)
	events, err := c.Deliveries(ctx, operate.DeliveryFilter{Integration: m.i.ID}, "")
	must(err)
	if m.i.Secret == "" || invited.Link == "" || sent.URL != url || len(events.Deliveries) != 1 {
		t.Fatalf("%+v, %+v, %+v, %+v", m.i, invited, sent, events)
	}
	m.key, m.invitation, m.token, m.session = key.Info.ID, invited.ID, token.Info.ID, session.ID
	m.place = events.Deliveries[0].Place
	return m
}

// TestEveryMethod calls every method of the client.
func TestEveryMethod(t *testing.T) {
	h := testharness.New(t, nil)
	var sent recorder
	c, err := adminclient.New(adminclient.Config{URL: listen(t, h.Service), Token: h.OperatorToken,
		HTTP: &http.Client{Transport: &sent}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	m := newThings(t, c, h.Publisher.L1.WebhookURL)
	p, i, name, other := m.p, m.i, "New", "Other"
	const nobody = "mem_00000000000000000000000000000000"
	for _, one := range []struct {
		name string
		call func() error
	}{
		{"Publishers", func() error {
			return holds(adminclient.All(ctx, c, operate.ListPublishers, operate.Cursor{}))
		}},
		{"Publisher", func() error { return told(adminclient.Do(ctx, c, operate.ReadPublisher, p.ID)) }},
		{"Overview", func() error { return told(adminclient.Do(ctx, c, operate.ReadOverview, p.ID)) }},
		{"Integrations", func() error {
			return holds(adminclient.All(ctx, c, operate.ListIntegrations, operate.Search{Publisher: p.ID}))
		}},
		{"Integration", func() error { return told(adminclient.Do(ctx, c, operate.ReadIntegration, i.ID)) }},
		{"TestIntegration", func() error {
			return told(adminclient.Do(ctx, c, operate.TestWebhook,
				operate.WebhookTestInput{Integration: i.ID}))
		}},
		{"Keys", func() error {
			return holds(adminclient.All(ctx, c, operate.ListKeys, operate.Search{Publisher: p.ID}))
		}},
		{"Undelivered", func() error {
			return told(adminclient.Do(ctx, c, operate.ListUndelivered, struct{}{}))
		}},
		{"DeadLetters", func() error { return told(c.DeadLetters(ctx)) }},
		{"WaitingDeliveries", func() error { return told(c.WaitingDeliveries(ctx)) }},
		{"Deliveries", func() error {
			return told(c.Deliveries(ctx, operate.DeliveryFilter{Integration: i.ID,
				State: operate.DeliveryDead}, ""))
		}},
		{"Delivery", func() error {
			return told(adminclient.Do(ctx, c, operate.ReadDelivery,
				operate.EventAt{Integration: i.ID, Place: m.place}))
		}},
		{"Session", func() error { return told(adminclient.Do(ctx, c, operate.ReadSession, m.session)) }},
		{"Usage", func() error {
			return told(adminclient.Do(ctx, c, operate.ReadUsage, operate.UsageQuery{Integration: i.ID}))
		}},
		{"UsageCSV", func() error {
			text, err := c.UsageCSV(ctx, operate.UsageQuery{Integration: i.ID})
			if err == nil && !strings.HasPrefix(string(text), "integration_id,") {
				err = fmt.Errorf("it is no CSV: %s", text)
			}
			return err
		}},
		{"Members", func() error {
			return told(adminclient.All(ctx, c, operate.ListMembers, operate.Search{Publisher: p.ID}))
		}},
		{"Invitations", func() error {
			return holds(adminclient.All(ctx, c, operate.ListInvitations, operate.Search{Publisher: p.ID}))
		}},
		{"CreateLink", func() error {
			return told(
				adminclient.Do(ctx, c, operate.CreateLink, operate.LinkInput{Role: operate.RoleViewer}))
		}},
		{"OperatorTokens", func() error {
			return holds(adminclient.All(ctx, c, operate.ListOperators, operate.Cursor{}))
		}},
		{"Audit", func() error { return told(c.Audit(ctx, p.ID, "")) }},
		{"Methods", func() error { return holds(adminclient.All(ctx, c, operate.ListMethods, struct{}{})) }},
		{"ApplySite", func() error {
			return told(adminclient.Do(ctx, c, operate.ApplySite,
				operate.SiteInput{Text: []byte(`{}`), DryRun: true}))
		}},
		{"Passkeys", func() error {
			return told(adminclient.Do(ctx, c, operate.CountPasskeys, operate.Search{Publisher: p.ID}))
		}},
		{"EndPasskeys", func() error {
			return told(adminclient.Do(ctx, c, operate.EndPasskeys, operate.OfPublisher{Publisher: p.ID}))
		}},
		{"Resend", func() error {
			return wants(told(adminclient.Do(ctx, c, operate.Resend,
				operate.EventAt{Place: "evt_" + i.ID})), 404)
		}},
		{"ResendAt", func() error {
			return wants(told(adminclient.Do(ctx, c, operate.Resend,
				operate.EventAt{Integration: i.ID, Place: m.place})), 400)
		}}, // of a test event
		{"ChangeRole", func() error {
			return wants(told(adminclient.Do(ctx, c, operate.ChangeRole,
				operate.RoleInput{Member: nobody, Role: operate.RoleViewer})),
				404)
		}},
		{"SignOutMember", func() error {
			return wants(told(adminclient.Do(ctx, c, operate.SignOutMember, nobody)), 404)
		}},
		{"RemoveMember", func() error {
			return wants(told(adminclient.Do(ctx, c, operate.RemoveMember, nobody)), 404)
		}},
		{"ChangePublisher", func() error {
			return told(adminclient.Do(ctx, c, operate.ChangePublisher,
				operate.PublisherUpdate{Versioned: operate.Versioned{ID: p.ID, Version: p.Version},
					PublisherInput: operate.PublisherInput{Name: &other}}))
		}},
		{"ChangeIntegration", func() error {
			change := operate.IntegrationInput{Name: &other}
			if err := told(adminclient.Do(ctx, c, operate.ChangeIntegration,
				operate.IntegrationUpdate{Versioned: operate.Versioned{ID: i.ID, Version: i.Version},
					IntegrationInput: change})); err != nil {
				return err
			}
			return wants(told(adminclient.Do(ctx, c, operate.ChangeIntegration,
				operate.IntegrationUpdate{Versioned: operate.Versioned{ID: i.ID, Version: i.Version},
					IntegrationInput: operate.IntegrationInput{Name: &name}})), 412)
		}},
		{"UsageCSV", func() error {
			b, err := c.UsageCSV(ctx, operate.UsageQuery{Integration: i.ID})
			if err == nil && !strings.HasPrefix(string(b), "integration") {
				t.Errorf("the CSV begins %.40q", b)
			}
			return err
		}},
		{"StageWebhook", func() error {
			return told(adminclient.Do(ctx, c, operate.StageWebhook,
				operate.StagedWebhook{Versioned: operate.Versioned{ID: i.ID},
					WebhookInput: operate.WebhookInput{NewSecret: true}}))
		}},
		{"RotateSecret", func() error {
			return told(adminclient.Do(ctx, c, operate.RotateSecret,
				operate.Rotation{Versioned: operate.Versioned{ID: i.ID}, Staged: true}))
		}},
		{"DropStaged", func() error {
			return told(adminclient.Do(ctx, c, operate.DropStaged, operate.Versioned{ID: i.ID}))
		}},
		{"RevokeKey", func() error { return told(adminclient.Do(ctx, c, operate.RevokeKey, m.key)) }},
		{"RevokeOperatorToken", func() error {
			return told(adminclient.Do(ctx, c, operate.RevokeOperator, m.token))
		}},
		{"WithdrawInvitation", func() error {
			return told(adminclient.Do(ctx, c, operate.WithdrawInvitation,
				operate.InvitationOf{Publisher: p.ID, ID: m.invitation}))
		}},
		{"ArchiveIntegration", func() error {
			return told(adminclient.Do(ctx, c, operate.ArchiveIntegration, operate.Versioned{ID: i.ID}))
		}},
		{"ArchivePublisher", func() error {
			return told(adminclient.Do(ctx, c, operate.ArchivePublisher, operate.Versioned{ID: p.ID}))
		}},
	} {
		if err := one.call(); err != nil {
			t.Errorf("%s: %v", one.name, err)
		}
	}
	for _, e := range operate.Endpoints() {
		method, path, _ := e.Route()
		request := regexp.MustCompile(
			"^" + method + " " + regexp.MustCompile(`\{.*\}`).ReplaceAllString(path, "[^/]+") + "$",
		)
		if !slices.ContainsFunc(sent.requests, request.MatchString) && path != operate.ReadSelf.Path {
			t.Errorf("this test does not call %s %s", method, path)
		}
	}
}

// recorder keeps the methods and paths of requests.
type recorder struct{ requests []string }

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.requests = append(r.requests, req.Method+" "+req.URL.Path)
	return http.DefaultTransport.RoundTrip(req)
}

// told reads an error and forgets the answer.
func told[T any](_ T, err error) error { return err }

// holds is told for a list that must not be empty.
func holds[T any](list []T, err error) error {
	if err == nil && len(list) == 0 {
		return errors.New("the list is empty")
	}
	return err
}

// wants is nil if the server answered with that status.
func wants(err error, status int) error {
	var refused *adminclient.Error
	if errors.As(err, &refused) && refused.Status == status && refused.RequestID != "" {
		return nil
	}
	return fmt.Errorf("%w, want status %d", err, status)
}
