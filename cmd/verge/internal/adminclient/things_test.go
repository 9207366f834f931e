package adminclient_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/admin"
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
	m.p, err = c.CreatePublisher(ctx, admin.PublisherRequest{Name: &name})
	must(err)
	m.i, err = c.CreateIntegration(ctx, admin.IntegrationRequest{PublisherID: m.p.ID, Name: &name,
		WebhookRequest: admin.WebhookRequest{URL: &url}})
	must(err)
	silent, err := c.CreateIntegration(ctx, admin.IntegrationRequest{PublisherID: m.p.ID, Name: &name,
		WebhookRequest: admin.WebhookRequest{Off: &off}})
	must(err)
	key, err := c.CreateKey(ctx, admin.KeyRequest{PublisherID: m.p.ID})
	must(err)
	invited, err := c.Invite(ctx, admin.InvitationRequest{PublisherID: m.p.ID, Role: operate.RoleViewer})
	must(err)
	token, err := c.CreateOperatorToken(ctx, admin.OperatorRequest{Name: name, Role: operate.RoleViewer})
	must(err)
	session, err := c.StartTestSession(ctx, silent.ID, testharness.Callback)
	must(err)
	sent, err := c.SendTestEvent(ctx, m.i.ID, "verification.completed")
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
	c, ctx := client(t, listen(t, h.Service), h.OperatorToken), t.Context()
	m := newThings(t, c, h.Publisher.L1.WebhookURL)
	p, i, name, other := m.p, m.i, "New", "Other"
	const nobody = "mem_00000000000000000000000000000000"
	asked := map[string]bool{"Module": true, "ActivateModule": true, "Backup": true,
		"CreatePublisher": true, "CreateIntegration": true,
		"CreateKey": true, "Invite": true, "CreateOperatorToken": true, "StartTestSession": true,
		"SendTestEvent": true}
	for _, one := range []struct {
		name string
		call func() error
	}{
		{"Publishers", func() error { return holds(c.Publishers(ctx, "")) }},
		{"Publisher", func() error { return told(c.Publisher(ctx, p.ID)) }},
		{"Overview", func() error { return told(c.Overview(ctx, p.ID)) }},
		{"Integrations", func() error { return holds(c.Integrations(ctx, p.ID, "")) }},
		{"Integration", func() error { return told(c.Integration(ctx, i.ID)) }},
		{"TestIntegration", func() error { return told(c.TestIntegration(ctx, i.ID, false)) }},
		{"Keys", func() error { return holds(c.Keys(ctx, p.ID)) }},
		{"Undelivered", func() error { return told(c.Undelivered(ctx)) }},
		{"DeadLetters", func() error { return told(c.DeadLetters(ctx)) }},
		{"WaitingDeliveries", func() error { return told(c.WaitingDeliveries(ctx)) }},
		{"Deliveries", func() error {
			return told(c.Deliveries(ctx, operate.DeliveryFilter{Integration: i.ID,
				State: operate.DeliveryDead}, ""))
		}},
		{"Delivery", func() error { return told(c.Delivery(ctx, i.ID, m.place)) }},
		{"Session", func() error { return told(c.Session(ctx, m.session)) }},
		{"Usage", func() error { return holds(c.Usage(ctx, i.ID, "", "")) }},
		{"UsageCSV", func() error {
			text, err := c.UsageCSV(ctx, i.ID, "", "")
			if err == nil && !strings.HasPrefix(string(text), "integration_id,") {
				err = fmt.Errorf("it is no CSV: %s", text)
			}
			return err
		}},
		{"Members", func() error { return told(c.Members(ctx, p.ID)) }},
		{"Invitations", func() error { return holds(c.Invitations(ctx, p.ID)) }},
		{"CreateLink", func() error {
			return told(
				c.CreateLink(ctx, admin.LinkRequest{Role: operate.RoleViewer}))
		}},
		{"OperatorTokens", func() error { return holds(c.OperatorTokens(ctx)) }},
		{"Audit", func() error { return told(c.Audit(ctx, p.ID, "")) }},
		{"Methods", func() error { return holds(c.Methods(ctx)) }},
		{"ApplySite", func() error { return told(c.ApplySite(ctx, []byte(`{}`), true)) }},
		{"Passkeys", func() error { return told(c.Passkeys(ctx, p.ID)) }},
		{"EndPasskeys", func() error { return told(c.EndPasskeys(ctx, p.ID)) }},
		{"Resend", func() error { return wants(c.Resend(ctx, "evt_"+i.ID), 404) }},
		{"ResendAt", func() error { return wants(c.ResendAt(ctx, i.ID, m.place), 400) }}, // of a test event
		{"ChangeRole", func() error {
			return wants(told(c.ChangeRole(ctx, nobody, operate.RoleViewer)),
				404)
		}},
		{"SignOutMember", func() error { return wants(told(c.SignOutMember(ctx, nobody)), 404) }},
		{"RemoveMember", func() error { return wants(c.RemoveMember(ctx, nobody), 404) }},
		{"ChangePublisher", func() error {
			return told(c.ChangePublisher(ctx, p.ID, p.Version, admin.PublisherRequest{Name: &other}))
		}},
		{"ChangeIntegration", func() error {
			change := admin.IntegrationRequest{Name: &other}
			if err := told(c.ChangeIntegration(ctx, i.ID, i.Version, change)); err != nil {
				return err
			}
			return wants(told(c.ChangeIntegration(ctx, i.ID, i.Version,
				admin.IntegrationRequest{Name: &name})), 412)
		}},
		{"UsageCSV", func() error {
			b, err := c.UsageCSV(ctx, i.ID, "", "")
			if err == nil && !strings.HasPrefix(string(b), "integration") {
				t.Errorf("the CSV begins %.40q", b)
			}
			return err
		}},
		{"StageWebhook", func() error {
			return told(c.StageWebhook(ctx, i.ID, "", admin.WebhookRequest{NewSecret: true}))
		}},
		{"RotateSecret", func() error { return told(c.RotateSecret(ctx, i.ID, "", true)) }},
		{"DropStaged", func() error { return told(c.DropStaged(ctx, i.ID, "")) }},
		{"RevokeKey", func() error { return told(c.RevokeKey(ctx, m.key)) }},
		{"RevokeOperatorToken", func() error { return told(c.RevokeOperatorToken(ctx, m.token)) }},
		{"WithdrawInvitation", func() error { return c.WithdrawInvitation(ctx, p.ID, m.invitation) }},
		{"ArchiveIntegration", func() error { return told(c.ArchiveIntegration(ctx, i.ID, "")) }},
		{"ArchivePublisher", func() error { return told(c.ArchivePublisher(ctx, p.ID, "")) }},
	} {
		asked[one.name] = true
		if err := one.call(); err != nil {
			t.Errorf("%s: %v", one.name, err)
		}
	}
	methods := reflect.TypeFor[*adminclient.Client]()
	for n := range methods.NumMethod() {
		if name := methods.Method(n).Name; !asked[name] {
			t.Errorf("this test does not call %s", name)
		}
	}
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
