package adminclient

import (
	"context"
	"net/url"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/outbox"
)

// A version that is "" is whatever version there is. Any other must be the present one, or nothing is changed
// and the error has the code PRECONDITION_FAILED.

// Publishers lists the publishers that have a text in their name or id, all if it is "".
func (c *Client) Publishers(ctx context.Context, name string) ([]operate.Publisher, error) {
	return list[operate.Publisher](ctx, c, admin.PublishersPath, "publishers", of("name", name))
}

// Publisher returns one publisher.
func (c *Client) Publisher(ctx context.Context, id string) (*operate.Publisher, error) {
	return read[operate.Publisher](ctx, c, fill(admin.PublisherPath, id))
}

// Overview tells what a publisher has done and has left to do.
func (c *Client) Overview(ctx context.Context, publisher string) (*operate.Overview, error) {
	return read[operate.Overview](ctx, c, fill(admin.OverviewPath, publisher))
}

// CreatePublisher makes a publisher.
func (c *Client) CreatePublisher(ctx context.Context, p admin.PublisherRequest) (*operate.Publisher, error) {
	return post[operate.Publisher](ctx, c, admin.PublishersPath, p)
}

// ChangePublisher changes a publisher.
func (c *Client) ChangePublisher(ctx context.Context, id, version string, p admin.PublisherRequest) (
	*operate.Publisher, error) {
	return change[operate.Publisher](ctx, c, "PATCH", fill(admin.PublisherPath, id), version, p)
}

// ArchivePublisher archives a publisher.
func (c *Client) ArchivePublisher(ctx context.Context, id, version string) (*operate.Publisher, error) {
	return change[operate.Publisher](ctx, c, "POST", fill(admin.ArchivePublisherPath, id), version,
		struct{}{})
}

// Passkeys counts the passkeys that users have made at a publisher's sites.
func (c *Client) Passkeys(ctx context.Context, publisher string) (*operate.UserPasskeys, error) {
	return read[operate.UserPasskeys](ctx, c, admin.PasskeysPath+"?publisher_id="+url.QueryEscape(publisher))
}

// EndPasskeys ends all of them.
func (c *Client) EndPasskeys(ctx context.Context, publisher string) (*operate.UserPasskeys, error) {
	return post[operate.UserPasskeys](ctx, c, admin.EndPasskeysPath,
		admin.PasskeysRequest{PublisherID: publisher})
}

// Integrations lists the integrations of a publisher, of all if publisher is "", that have a text in their
// name or id, all if it is "".
func (c *Client) Integrations(ctx context.Context, publisher, name string) ([]operate.Integration, error) {
	return list[operate.Integration](ctx, c, admin.IntegrationsPath, "integrations",
		of("publisher_id", publisher, "name", name))
}

// Integration returns one integration.
func (c *Client) Integration(ctx context.Context, id string) (*operate.Integration, error) {
	return read[operate.Integration](ctx, c, fill(admin.IntegrationPath, id))
}

// CreateIntegration makes an integration. If a webhook secret was made, the answer has it, once.
func (c *Client) CreateIntegration(ctx context.Context, i admin.IntegrationRequest) (*operate.Changed,
	error) {
	return post[operate.Changed](ctx, c, admin.IntegrationsPath, i)
}

// ChangeIntegration changes an integration.
func (c *Client) ChangeIntegration(ctx context.Context, id, version string, i admin.IntegrationRequest) (
	*operate.Changed, error) {
	return change[operate.Changed](ctx, c, "PATCH", fill(admin.IntegrationPath, id), version, i)
}

// ArchiveIntegration archives an integration.
func (c *Client) ArchiveIntegration(ctx context.Context, id, version string) (*operate.Integration, error) {
	return change[operate.Integration](ctx, c, "POST", fill(admin.ArchiveIntegrationPath, id), version,
		struct{}{})
}

// StageWebhook stages another address or secret beside the present ones.
func (c *Client) StageWebhook(ctx context.Context, id, version string, w admin.WebhookRequest) (
	*operate.Changed, error) {
	return change[operate.Changed](ctx, c, "POST", fill(admin.StagePath, id), version, w)
}

// DropStaged forgets what was staged.
func (c *Client) DropStaged(ctx context.Context, id, version string) (*operate.Integration, error) {
	return change[operate.Integration](ctx, c, "POST", fill(admin.DropPath, id), version, struct{}{})
}

// RotateSecret makes a new webhook secret. The answer has it, once.
func (c *Client) RotateSecret(ctx context.Context, id, version string, staged bool) (*operate.Changed,
	error) {
	return change[operate.Changed](ctx, c, "POST", fill(admin.RotatePath, id), version,
		admin.RotateRequest{Staged: staged})
}

// TestIntegration runs the signed webhook test of an integration, of what is staged if staged. The server
// records the result.
func (c *Client) TestIntegration(ctx context.Context, id string, staged bool) (*operate.TestReport, error) {
	path := fill(admin.TestPath, id)
	if staged {
		path += "?staged=1"
	}
	return post[operate.TestReport](ctx, c, path, struct{}{})
}

// SendTestEvent sends the integration's receiver a test event.
func (c *Client) SendTestEvent(ctx context.Context, id, eventType string) (*operate.Exchange, error) {
	return post[operate.Exchange](ctx, c, fill(admin.TestEventPath, id),
		admin.TestEventRequest{Type: eventType})
}

// StartTestSession starts a session in the sandbox.
func (c *Client) StartTestSession(ctx context.Context, id, callback string) (*operate.TestSession, error) {
	return post[operate.TestSession](ctx, c, fill(admin.TestSessionPath, id),
		admin.TestSessionRequest{CallbackURL: callback})
}

// Keys lists the API keys of a publisher, of all if publisher is "". What makes a key secret is not in the
// list.
func (c *Client) Keys(ctx context.Context, publisher string) ([]operate.Key, error) {
	return list[operate.Key](ctx, c, admin.KeysPath, "keys", of("publisher_id", publisher))
}

// CreateKey makes an API key. The answer holds the key itself, which can never be asked for again.
func (c *Client) CreateKey(ctx context.Context, k admin.KeyRequest) (*operate.CreatedKey, error) {
	return post[operate.CreatedKey](ctx, c, admin.KeysPath, k)
}

// RevokeKey revokes the API key with that id, for good.
func (c *Client) RevokeKey(ctx context.Context, id string) (*operate.Key, error) {
	return post[operate.Key](ctx, c, fill(admin.RevokePath, id), struct{}{})
}

// Undelivered tells which publishers have events that wait or were given up, and how many.
func (c *Client) Undelivered(ctx context.Context) (*operate.Undelivered, error) {
	return read[operate.Undelivered](ctx, c, admin.UndeliveredPath)
}

// DeadLetters lists the dead letters of all publishers: events that were not delivered.
func (c *Client) DeadLetters(ctx context.Context) ([]outbox.Dead, error) {
	return list[outbox.Dead](ctx, c, admin.DeliveriesPath, "deliveries", of("state", operate.DeliveryDead))
}

// WaitingDeliveries lists the events of all publishers that wait for a retry.
func (c *Client) WaitingDeliveries(ctx context.Context) ([]outbox.Waiting, error) {
	return list[outbox.Waiting](ctx, c, admin.DeliveriesPath, "deliveries",
		of("state", operate.DeliveryWaiting))
}

// DeliveryPage is one page of the deliveries of an integration.
type DeliveryPage struct {
	Deliveries []operate.Delivery `json:"deliveries"`
	Next       string             `json:"next"` // the cursor of the next page
}

// Deliveries returns one page of the deliveries of an integration, the latest first. after is the Next of the
// page before.
func (c *Client) Deliveries(ctx context.Context, f operate.DeliveryFilter, after string) (*DeliveryPage,
	error) {
	query := url.Values{"integration_id": {f.Integration}, "limit": {"50"}}
	for name, value := range map[string]string{"state": f.State, "type": f.Type, "after": after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return read[DeliveryPage](ctx, c, admin.DeliveriesPath+"?"+query.Encode())
}

// Delivery returns one event by its integration and place.
func (c *Client) Delivery(ctx context.Context, integration, place string) (*operate.Delivery, error) {
	return read[operate.Delivery](ctx, c,
		fill(admin.DeliveryPath, place)+"?"+of("integration_id", integration).Encode())
}

// Resend puts an event that was given up back on the schedule, from its beginning. It finds the event by its
// id.
func (c *Client) Resend(ctx context.Context, event string) error {
	_, err := post[struct{}](ctx, c, fill(admin.ResendPath, event), struct{}{})
	return err
}

// ResendAt is Resend for an event of an integration, by its place. An event that waits is sent now.
func (c *Client) ResendAt(ctx context.Context, integration, place string) error {
	_, err := post[struct{}](ctx, c,
		fill(admin.ResendPath, place)+"?"+of("integration_id", integration).Encode(), struct{}{})
	return err
}

// Session returns one session.
func (c *Client) Session(ctx context.Context, id string) (*operate.Session, error) {
	path := admin.SessionPath[:len(admin.SessionPath)-len("{session}")] + url.PathEscape(id)
	return read[operate.Session](ctx, c, path)
}

// Usage tells what happened to an integration's sessions, day by day. from and to are days, or "".
func (c *Client) Usage(ctx context.Context, integration, from, to string) ([]admin.UsageDay, error) {
	query := usageQuery(integration, from, to)
	answer, err := read[struct {
		Days []admin.UsageDay `json:"days"`
	}](ctx, c, admin.UsagePath+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	return answer.Days, nil
}

// UsageCSV is Usage as CSV.
func (c *Client) UsageCSV(ctx context.Context, integration, from, to string) ([]byte, error) {
	query := usageQuery(integration, from, to)
	query.Set("format", "csv")
	var text []byte
	err := c.call(ctx, "GET", admin.UsagePath+"?"+query.Encode(), nil, &text)
	return text, err
}

func usageQuery(integration, from, to string) url.Values {
	query := of("integration_id", integration)
	for name, value := range map[string]string{"from": from, "to": to} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// Members lists the members of a publisher.
func (c *Client) Members(ctx context.Context, publisher string) ([]operate.Member, error) {
	return list[operate.Member](ctx, c, admin.MembersPath, "members", of("publisher_id", publisher))
}

// ChangeRole gives a member another role.
func (c *Client) ChangeRole(ctx context.Context, member string, role operate.Role) (*operate.Member, error) {
	return post[operate.Member](ctx, c, fill(admin.RolePath, member), admin.RoleRequest{Role: role})
}

// SignOutMember ends all sessions of a member.
func (c *Client) SignOutMember(ctx context.Context, member string) (*operate.Member, error) {
	return post[operate.Member](ctx, c, fill(admin.SignOutPath, member), struct{}{})
}

// RemoveMember removes a member.
func (c *Client) RemoveMember(ctx context.Context, member string) error {
	_, err := post[struct{}](ctx, c, fill(admin.RemovePath, member), struct{}{})
	return err
}

// Invitations lists the open invitations to a publisher.
func (c *Client) Invitations(ctx context.Context, publisher string) ([]operate.Invitation, error) {
	return list[operate.Invitation](ctx, c, admin.InvitationsPath, "invitations",
		of("publisher_id", publisher))
}

// Invite invites a person to be a member. The answer has the link, once.
func (c *Client) Invite(ctx context.Context, i admin.InvitationRequest) (*operate.Invitation, error) {
	return post[operate.Invitation](ctx, c, admin.InvitationsPath, i)
}

// WithdrawInvitation ends an invitation that nobody has used.
func (c *Client) WithdrawInvitation(ctx context.Context, publisher, id string) error {
	_, err := post[struct{}](ctx, c,
		fill(admin.WithdrawPath, id)+"?"+of("publisher_id", publisher).Encode(), struct{}{})
	return err
}

// CreateLink makes a single-use sign-in link. The answer has it, once.
func (c *Client) CreateLink(ctx context.Context, l admin.LinkRequest) (*operate.SignInLink, error) {
	return post[operate.SignInLink](ctx, c, admin.LinksPath, l)
}

// OperatorTokens lists the operator tokens. What makes a token secret is not in the list.
func (c *Client) OperatorTokens(ctx context.Context) ([]operate.OperatorToken, error) {
	return list[operate.OperatorToken](ctx, c, admin.OperatorsPath, "operators", nil)
}

// CreateOperatorToken makes an operator token. The answer has it, once.
func (c *Client) CreateOperatorToken(ctx context.Context, o admin.OperatorRequest) (
	*operate.CreatedOperatorToken, error) {
	return post[operate.CreatedOperatorToken](ctx, c, admin.OperatorsPath, o)
}

// RevokeOperatorToken ends an operator token.
func (c *Client) RevokeOperatorToken(ctx context.Context, id string) (*operate.OperatorToken, error) {
	return post[operate.OperatorToken](ctx, c, fill(admin.RevokeOperatorPath, id), struct{}{})
}

// AuditPage is one page of the audit.
type AuditPage struct {
	Entries []operate.AuditEntry `json:"audit"`
	Next    string               `json:"next"` // the cursor of the next page
}

// Audit returns one page of the audit, the latest first: of one publisher, or of all if publisher is "".
func (c *Client) Audit(ctx context.Context, publisher, after string) (*AuditPage, error) {
	query := of("publisher_id", publisher)
	query.Set("limit", "100")
	if after != "" {
		query.Set("after", after)
	}
	return read[AuditPage](ctx, c, admin.AuditPath+"?"+query.Encode())
}

// Methods lists the service's methods.
func (c *Client) Methods(ctx context.Context) ([]operate.Method, error) {
	answer, err := read[struct {
		Methods []operate.Method `json:"methods"`
	}](ctx, c, admin.MethodsPath)
	if err != nil {
		return nil, err
	}
	return answer.Methods, nil
}

// ApplySite puts a site, integration.Site as JSON, into the service's store. With dryRun it says what that
// would change, and changes nothing.
func (c *Client) ApplySite(ctx context.Context, site []byte, dryRun bool) (*admin.SiteAnswer, error) {
	path := admin.SitePath
	if dryRun {
		path += "?dry_run=1"
	}
	var out admin.SiteAnswer
	if err := c.send(ctx, "POST", path, jsonHeader(), site, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// of is a query with one parameter, or none if it is "".
func of(pairs ...string) url.Values {
	query := url.Values{}
	for n := 0; n < len(pairs); n += 2 {
		if pairs[n+1] != "" {
			query.Set(pairs[n], pairs[n+1])
		}
	}
	return query
}
