package operate

import (
	"context"
	"errors"
	"reflect"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/web"
)

// Prefix begins the path of every endpoint.
const Prefix = "/admin/v1/"

const (
	publishers   = Prefix + "publishers"
	integrations = Prefix + "integrations"
	keys         = Prefix + "keys"
	deliveries   = Prefix + "deliveries"
	sessions     = Prefix + "sessions"
	trustLists   = Prefix + "trust-lists"
	passkeys     = Prefix + "passkeys"
	members      = Prefix + "members"
	invitations  = Prefix + "invitations"
	operators    = Prefix + "operators"
)

// maxSite is the maximum size of a configuration, as of the largest body of a public route.
const maxSite = 1 << 20

// maxPublisher is the maximum size of a publisher: a logo in base64, and the other fields.
const maxPublisher = (integration.MaxLogo+2)/3*4 + web.MaxBody

// The endpoints. The comment of each is its text in openapi.yaml of package admin, which is generated: a
// summary, a description, and after "200:" the description of the response.
var (
	// ListPublishers: List publishers
	// 200: Publishers, in the order of their ids.
	ListPublishers = &Endpoint[Search, Page[Publisher]]{Name: "listPublishers", Method: "GET",
		Path: publishers, List: "publishers", right: publisherList,
		do: (*Operations).Publishers}

	// CreatePublisher: Create a publisher
	// 200: The publisher.
	CreatePublisher = &Endpoint[PublisherInput, Publisher]{Name: "createPublisher", Method: "POST",
		Path: publishers, right: publisherCreate, body: maxPublisher,
		do: (*Operations).CreatePublisher}

	// ReadPublisher: Read a publisher
	// 200: The publisher.
	ReadPublisher = &Endpoint[string, Publisher]{Name: "readPublisher", Method: "GET",
		Path: publishers + "/{id}", right: publisherRead, thing: "publisher",
		do: (*Operations).Publisher}

	// ChangePublisher: Change a publisher
	// Absent fields keep their values. The hosted pages have the new brand within 5 seconds.
	// 200: The publisher after the change.
	ChangePublisher = &Endpoint[PublisherUpdate, Publisher]{Name: "changePublisher", Method: "PATCH",
		Path: publishers + "/{id}", right: publisherChange, thing: "publisher", body: maxPublisher,
		do: func(o *Operations, ctx context.Context, who Actor, in PublisherUpdate) (Publisher, error) {
			return o.ChangePublisher(ctx, who, in.Versioned.ID, in.Version, in.PublisherInput)
		}}

	// ArchivePublisher: Archive a publisher
	// Its integrations no longer start sessions, and its keys no longer authenticate. Sessions in progress
	// continue to their end.
	// 200: The archived publisher.
	ArchivePublisher = &Endpoint[Versioned, Publisher]{Name: "archivePublisher", Method: "POST",
		Path: publishers + "/{id}/archive", right: publisherArchive, thing: "publisher",
		do: func(o *Operations, ctx context.Context, who Actor, in Versioned) (Publisher, error) {
			return o.ArchivePublisher(ctx, who, in.ID, in.Version)
		}}

	// ReadOverview: Read the overview of a publisher
	// The steps to go live, the events that are not delivered, and the sessions of today by outcome.
	// 200: The overview.
	ReadOverview = &Endpoint[string, Overview]{Name: "readOverview", Method: "GET",
		Path: publishers + "/{id}/overview", right: publisherRead, thing: "publisher",
		do: (*Operations).Overview}

	// ListIntegrations: List integrations
	// Without `limit` and `after` the response contains all of them.
	// 200: Integrations of the publisher, or of all publishers.
	//
	// ListIntegrations and ListKeys return everything in one response if the request has no limit, for
	// earlier releases of the command line.
	ListIntegrations = &Endpoint[IntegrationQuery, Page[Integration]]{Name: "listIntegrations",
		Method: "GET", Path: integrations, List: "integrations", right: integrationList,
		do: func(o *Operations, ctx context.Context, who Actor, in IntegrationQuery) (Page[Integration],
			error) {
			return part(in.Cursor, func(c Cursor) (Page[Integration], error) {
				return o.Integrations(ctx, who, in.Publisher, Search{in.Name, c})
			})
		}}

	// CreateIntegration: Create an integration
	// If it has a webhook and you give no secret, one is generated. The response contains it, once.
	// 200: The integration.
	CreateIntegration = &Endpoint[IntegrationInput, Changed]{Name: "createIntegration",
		Method: "POST", Path: integrations, right: integrationCreate, thing: "publisher",
		do: (*Operations).CreateIntegration}

	// ReadIntegration: Read an integration
	// 200: The integration.
	ReadIntegration = &Endpoint[string, Integration]{Name: "readIntegration", Method: "GET",
		Path: integrations + "/{id}", right: integrationRead, thing: "integration",
		do: (*Operations).Integration}

	// ChangeIntegration: Change an integration
	// Absent fields keep their values. A new webhook address or secret is effective immediately and ends
	// readiness. Stage it to keep readiness.
	// 200: The integration after the change.
	ChangeIntegration = &Endpoint[IntegrationUpdate, Changed]{Name: "changeIntegration",
		Method: "PATCH", Path: integrations + "/{id}", right: integrationChange, thing: "integration",
		do: func(o *Operations, ctx context.Context, who Actor, in IntegrationUpdate) (Changed, error) {
			return o.ChangeIntegration(ctx, who, in.ID, in.Version, in.IntegrationInput)
		}}

	// ArchiveIntegration: Archive an integration
	// It no longer starts sessions. Sessions in progress continue to their end, and their events are
	// delivered.
	// 200: The archived integration.
	ArchiveIntegration = &Endpoint[Versioned, Integration]{Name: "archiveIntegration",
		Method: "POST", Path: integrations + "/{id}/archive", right: integrationArchive, thing: "integration",
		do: func(o *Operations, ctx context.Context, who Actor, in Versioned) (Integration, error) {
			return o.ArchiveIntegration(ctx, who, in.ID, in.Version)
		}}

	// StageWebhook: Stage another webhook address or secret
	// The present ones stay in use until the staged ones have been tested.
	// 200: The integration with the staged webhook.
	StageWebhook = &Endpoint[StagedWebhook, Changed]{Name: "stageWebhook", Method: "POST",
		Path: integrations + "/{id}/stage", right: webhookChange, thing: "integration",
		do: func(o *Operations, ctx context.Context, who Actor, in StagedWebhook) (Changed, error) {
			return o.StageWebhook(ctx, who, in.ID, in.Version, in.WebhookInput)
		}}

	// DropStaged: Drop the staged webhook
	// 200: The integration without it.
	DropStaged = &Endpoint[Versioned, Integration]{Name: "dropStaged", Method: "POST",
		Path: integrations + "/{id}/drop", right: webhookChange, thing: "integration",
		do: func(o *Operations, ctx context.Context, who Actor, in Versioned) (Integration, error) {
			return o.DropStaged(ctx, who, in.ID, in.Version)
		}}

	// RotateSecret: Generate a new webhook secret
	// The response contains it, once. Readiness ends, unless the secret is staged.
	// 200: The integration with the new secret.
	RotateSecret = &Endpoint[Rotation, Changed]{Name: "rotateSecret", Method: "POST",
		Path: integrations + "/{id}/rotate", right: webhookChange, thing: "integration",
		do: func(o *Operations, ctx context.Context, who Actor, in Rotation) (Changed, error) {
			return o.RotateSecret(ctx, who, in.ID, in.Version, in.Staged)
		}}

	// TestWebhook: Run the signed webhook test
	// A good event and four bad ones are sent. The webhook is Ready if the good one gets 2xx and each bad
	// one 401. The result is recorded. A staged webhook that is Ready replaces the present one.
	// 200: The responses.
	TestWebhook = &Endpoint[WebhookTestInput, TestReport]{Name: "testWebhook", Method: "POST",
		Path: integrations + "/{id}/test", right: webhookTest, thing: "integration",
		do: func(o *Operations, ctx context.Context, who Actor, in WebhookTestInput) (TestReport, error) {
			return o.TestWebhook(ctx, who, in.Integration, in.Staged)
		}}

	// SendTestEvent: Send a test event
	// It has `test` set and is delivered like every event.
	// 200: The request and the response.
	SendTestEvent = &Endpoint[TestEventInput, Exchange]{Name: "sendTestEvent", Method: "POST",
		Path: integrations + "/{id}/test-event", right: webhookTest, thing: "integration",
		do: func(o *Operations, ctx context.Context, who Actor, in TestEventInput) (Exchange, error) {
			return o.SendTestEvent(ctx, who, in.Integration, in.Type)
		}}

	// StartTestSession: Start a test session
	// The integration must offer only methods of the kind sandbox.
	// 200: The session.
	StartTestSession = &Endpoint[TestSessionInput, TestSession]{Name: "startTestSession",
		Method: "POST", Path: integrations + "/{id}/test-session", right: sessionTest, thing: "integration",
		do: func(o *Operations, ctx context.Context, who Actor, in TestSessionInput) (TestSession, error) {
			return o.StartTestSession(ctx, who, in.Integration, in.CallbackURL)
		}}

	// ListKeys: List keys
	// Without `limit` and `after` the response contains all of them.
	// 200: Records of keys, without the keys themselves.
	ListKeys = &Endpoint[PublisherQuery, Page[Key]]{Name: "listKeys", Method: "GET", Path: keys,
		List: "keys", right: keyList,
		do: func(o *Operations, ctx context.Context, who Actor, in PublisherQuery) (Page[Key], error) {
			return part(in.Cursor, func(c Cursor) (Page[Key], error) {
				return o.Keys(ctx, who, in.Publisher, c)
			})
		}}

	// CreateKey: Create a key
	// With `integration_id` it is a public key. The integration must list callback origins.
	// 200: The key. No other response contains it.
	//
	// CreateKey does not take a value of another type as absent. Otherwise a request for a public key could
	// create a secret one, or one that never expires.
	CreateKey = &Endpoint[KeyInput, CreatedKey]{Name: "createKey", Method: "POST", Path: keys,
		right: keyCreate, thing: "publisher, or it has no such integration",
		do: (*Operations).CreateKey}

	// RevokeKey: Revoke a key
	// All instances reject it within 5 seconds.
	// 200: The revoked key.
	RevokeKey = &Endpoint[string, Key]{Name: "revokeKey", Method: "POST",
		Path: keys + "/{id}/revoke", right: keyRevoke, thing: "key",
		do: (*Operations).RevokeKey}

	// ListDeliveries: List deliveries
	// With `integration_id` it lists the events of the last 7 days and the attempts to deliver them, the
	// latest first. Otherwise it lists the failed events (`dead`) of all integrations, or the
	// waiting ones with `state=waiting`, without attempts.
	// 200: Events.
	ListDeliveries = &Endpoint[DeliveryQuery, Page[Delivery]]{Name: "listDeliveries", Method: "GET",
		Path: deliveries, List: "deliveries", right: deliveryList, thing: "event",
		do: (*Operations).Deliveries}

	// ListAllDeliveries is ListDeliveries without an integration, of all publishers.
	ListAllDeliveries = &Endpoint[DeliveryQuery, Page[UndeliveredEvent]]{Name: "listAllDeliveries",
		Method: "GET", Path: deliveries, List: "deliveries", right: deliveryList, thing: "event",
		do: func(o *Operations, ctx context.Context, who Actor, in DeliveryQuery) (Page[UndeliveredEvent],
			error) {
			if in.State == DeliveryWaiting {
				return o.Waiting(ctx, who, in.most())
			}
			return o.Dead(ctx, who, in.most())
		}}

	// ReadDelivery: Read a delivery
	// 200: The event and its attempts.
	ReadDelivery = &Endpoint[EventAt, Delivery]{Name: "readDelivery", Method: "GET",
		Path: deliveries + "/{id}", right: deliveryList, thing: "event", needs: "integration_id",
		do: func(o *Operations, ctx context.Context, who Actor, in EventAt) (Delivery, error) {
			return o.Delivery(ctx, who, in.Integration, in.Place)
		}}

	// Resend: Send an event again
	// With `integration_id` the path has the place of the event from a list, otherwise the id of a failed
	// event. A failed event is scheduled from its beginning. A waiting event is sent now. A delivered event
	// cannot be sent again.
	// 200: The event is scheduled.
	Resend = &Endpoint[EventAt, resent]{Name: "resend", Method: "POST",
		Path: deliveries + "/{id}/resend", right: deliveryResend, thing: "event",
		do: (*Operations).resendAt}

	// ListUndelivered: Count undelivered events by publisher
	// Of all publishers: how many events wait for another attempt, and how many have failed. The
	// publisher with the oldest waiting event comes first. Counts have a limit, and `more` marks those that
	// reached it. List the deliveries of an integration to see its events.
	// 200: The publishers that have such events.
	ListUndelivered = &Endpoint[struct{}, Undelivered]{Name: "listUndelivered", Method: "GET",
		Path: Prefix + "undelivered", right: deliveryList,
		do: func(o *Operations, ctx context.Context, who Actor, _ struct{}) (Undelivered, error) {
			return o.Undelivered(ctx, who)
		}}

	// ListSessions: List finished sessions
	// The sessions of a publisher that have ended, the latest end first, with filters for the integration,
	// the outcome, the last method that the user tried, and the days of the end (UTC). A response may have
	// fewer than `limit` sessions and a `next`: it reads about 2,000 entries.
	// 200: Finished sessions.
	ListSessions = &Endpoint[FinishedQuery, Page[FinishedSession]]{Name: "listSessions", Method: "GET",
		Path: sessions, List: "sessions", right: sessionRead, thing: "publisher",
		do: (*Operations).FinishedSessions}

	// ReadSession: Read a session
	// The response never contains the state, the user id or personal data.
	// 200: The session.
	ReadSession = &Endpoint[string, Session]{Name: "readSession", Method: "GET",
		Path: sessions + "/{session}", right: sessionRead, thing: "session",
		do: (*Operations).Session}

	// ReadUsage: Read usage
	// The sessions of an integration, or of the first 200 integrations of a publisher, by day and outcome.
	// `more` is true if the publisher has other integrations.
	// 200: One entry a day, including the first and the last.
	ReadUsage = &Endpoint[UsageQuery, Usage]{Name: "readUsage", Method: "GET",
		Path: Prefix + "usage", right: usageRead, thing: "publisher or integration",
		do: (*Operations).usage}

	// ReadReport: Read the report for regulators
	// Methods, settings and their changes, outcomes and retention, without data of persons: as JSON and as a
	// page for print. Each has a signature in DER and base64, by ECDSA on P-256 with SHA-256, over the bytes
	// of the string. Without `publisher_id` it is about all publishers. 400 if the service has no key for
	// reports.
	// 200: The report with its signatures and the public key.
	ReadReport = &Endpoint[ReportQuery, signedReport]{Name: "readReport", Method: "GET",
		Path: Prefix + "report", right: reportRead, thing: "publisher",
		do: (*Operations).Report}

	// CountPasskeys: Count users' passkeys
	// The number of active passkeys that users have created at the publisher's sites.
	// 200: The count.
	CountPasskeys = &Endpoint[OfPublisher, UserPasskeys]{Name: "countPasskeys", Method: "GET",
		Path: passkeys, right: passkeysCount, thing: "publisher", needs: "publisher_id",
		do: func(o *Operations, ctx context.Context, who Actor, in OfPublisher) (UserPasskeys, error) {
			return o.Passkeys(ctx, who, in.Publisher, passkey.MaxCount)
		}}

	// EndPasskeys: End users' passkeys
	// Ends all passkeys that users have created at the publisher's sites until now. The users are verified
	// again. This cannot be undone.
	// 200: The remaining passkeys.
	EndPasskeys = &Endpoint[OfPublisher, UserPasskeys]{Name: "endPasskeys", Method: "POST",
		Path: passkeys + "/end", right: passkeysEnd, thing: "publisher",
		do: func(o *Operations, ctx context.Context, who Actor, in OfPublisher) (UserPasskeys, error) {
			return o.EndPasskeys(ctx, who, in.Publisher)
		}}

	// ListMembers: List the members of a publisher
	// A response may have fewer than `limit` members and a `next`: it looks up about 200 sessions.
	// 200: Members.
	ListMembers = &Endpoint[PublisherQuery, Page[Member]]{Name: "listMembers", Method: "GET",
		Path: members, List: "members", right: memberList, needs: "publisher_id",
		do: func(o *Operations, ctx context.Context, who Actor, in PublisherQuery) (Page[Member], error) {
			return o.Members(ctx, who, in.Publisher, in.Cursor)
		}}

	// ChangeRole: Give a member another role
	// 200: The member.
	ChangeRole = &Endpoint[RoleInput, Member]{Name: "changeRole", Method: "POST",
		Path: members + "/{id}/role", right: memberChange, thing: "member",
		do: func(o *Operations, ctx context.Context, who Actor, in RoleInput) (Member, error) {
			return o.ChangeRole(ctx, who, in.Member, in.Role)
		}}

	// SignOutMember: End all console sessions of a member
	// 200: The member.
	SignOutMember = &Endpoint[string, Member]{Name: "signOutMember", Method: "POST",
		Path: members + "/{id}/sign-out", right: memberChange, thing: "member",
		do: (*Operations).SignOutMember}

	// RemoveMember: Remove a member
	// The console sessions of the member end immediately.
	// 200: The member is gone.
	RemoveMember = &Endpoint[string, Done]{Name: "removeMember", Method: "POST",
		Path: members + "/{id}/remove", right: memberRemove, thing: "member",
		do: func(o *Operations, ctx context.Context, who Actor, in string) (Done, error) {
			return Done{"done"}, o.RemoveMember(ctx, who, in)
		}}

	// ListInvitations: List the open invitations to a publisher
	// 200: Invitations, without their links.
	ListInvitations = &Endpoint[PublisherQuery, Page[Invitation]]{Name: "listInvitations",
		Method: "GET", Path: invitations, List: "invitations", right: memberList, needs: "publisher_id",
		do: func(o *Operations, ctx context.Context, who Actor, in PublisherQuery) (Page[Invitation], error) {
			return o.Invitations(ctx, who, in.Publisher, in.Cursor)
		}}

	// Invite: Invite a person
	// The link works once, within 24 hours.
	// 200: The invitation. No other response contains the link.
	Invite = &Endpoint[InvitationInput, Invitation]{Name: "invite", Method: "POST",
		Path: invitations, right: memberInvite, thing: "publisher",
		do: func(o *Operations, ctx context.Context, who Actor, in InvitationInput) (Invitation, error) {
			return o.Invite(ctx, who, in.Publisher, in.Name, in.Role)
		}}

	// WithdrawInvitation: Withdraw an invitation
	// 200: The invitation is gone.
	WithdrawInvitation = &Endpoint[InvitationOf, Done]{Name: "withdrawInvitation", Method: "POST",
		Path: invitations + "/{id}/withdraw", right: memberInvite, thing: "invitation", needs: "publisher_id",
		do: func(o *Operations, ctx context.Context, who Actor, in InvitationOf) (Done, error) {
			return Done{"done"}, o.WithdrawInvitation(ctx, who, in.Publisher, in.ID)
		}}

	// CreateLink: Create a single-use sign-in link
	// It opens the console once, within 5 minutes. Your own dashboard can send publishers there.
	// Without `publisher_id` it is a link for an operator.
	// 200: The link. No other response contains it.
	CreateLink = &Endpoint[LinkInput, SignInLink]{Name: "createLink", Method: "POST",
		Path: Prefix + "links", right: linkCreate, thing: "publisher",
		do: func(o *Operations, ctx context.Context, who Actor, in LinkInput) (SignInLink, error) {
			return o.CreateLink(ctx, who, in.Publisher, in.Name, in.Role)
		}}

	// ListOperators: List operator tokens
	// The first page begins with the token of the configuration, which `limit` does not count.
	// 200: Records of tokens, without the tokens themselves.
	ListOperators = &Endpoint[Cursor, Page[OperatorToken]]{Name: "listOperators", Method: "GET",
		Path: operators, List: "operators", right: operatorList,
		do: (*Operations).OperatorTokens}

	// CreateOperator: Create an operator token
	// 200: The token. No other response contains it.
	CreateOperator = &Endpoint[OperatorInput, CreatedOperatorToken]{Name: "createOperator",
		Method: "POST", Path: operators, right: operatorCreate,
		do: func(o *Operations, ctx context.Context, who Actor, in OperatorInput) (CreatedOperatorToken,
			error) {
			return o.CreateOperatorToken(ctx, who, in.Name, in.Role, in.Expires)
		}}

	// ReadSelf: Read the operator token of the request
	// 200: The token's id, name and role.
	//
	// ReadSelf returns the token of the request, or the error of the operation that the input names.
	// So the core's host authorizes callers of its own paths, such as admin.ModulePath, by the same rules and
	// with the same count of wrong tokens.
	ReadSelf = &Endpoint[selfInput, OperatorToken]{Name: "readSelf", Method: "GET",
		Path: operators + "/self",
		do: func(o *Operations, _ context.Context, who Actor, in selfInput) (OperatorToken, error) {
			var err error
			if in.May != "" {
				err = o.Authorize(who, in.May)
			}
			return OperatorToken{ID: who.ID, Name: who.Name, Role: who.Role}, err
		}}

	// RevokeOperator: Revoke an operator token
	// The token and all console sessions that it opened end immediately.
	// 200: The revoked token.
	RevokeOperator = &Endpoint[string, OperatorToken]{Name: "revokeOperator", Method: "POST",
		Path: operators + "/{id}/revoke", right: operatorRevoke, thing: "operator token",
		do: (*Operations).RevokeOperatorToken}

	// ListAudit: Read the audit
	// The changes of the last year and their actors, the latest first.
	// 200: Entries.
	ListAudit = &Endpoint[PublisherQuery, Page[AuditEntry]]{Name: "listAudit", Method: "GET",
		Path: Prefix + "audit", List: "audit", right: auditRead,
		do: func(o *Operations, ctx context.Context, who Actor, in PublisherQuery) (Page[AuditEntry], error) {
			return o.Audit(ctx, who, in.Publisher, in.Cursor)
		}}

	// ListMethods: List the methods of the service
	// 200: Methods, in the order of the configuration.
	ListMethods = &Endpoint[struct{}, Page[Method]]{Name: "listMethods", Method: "GET",
		Path: Prefix + "methods", List: "methods", right: methodList,
		do: func(o *Operations, ctx context.Context, who Actor, _ struct{}) (Page[Method], error) {
			all, err := o.Methods(ctx, who)
			return Page[Method]{Items: all}, err
		}}

	// ListTrustLists: List the trusted lists of the methods
	// Every list that the settings of a method name, with the last good list in the store.
	// 200: Trusted lists, in the order of the configuration.
	ListTrustLists = &Endpoint[struct{}, Page[TrustList]]{Name: "listTrustLists", Method: "GET",
		Path: trustLists, List: "trust_lists", right: trustListRead,
		do: func(o *Operations, ctx context.Context, who Actor, _ struct{}) (Page[TrustList], error) {
			all, err := o.TrustLists(ctx, who)
			return Page[TrustList]{Items: all}, err
		}}

	// LoadTrustList: Load a trusted list
	// Stores a list whose signature the caller has verified with the configuration of the method. `verge
	// method list-load` does both. It is for services that cannot fetch lists, such as a Worker; any
	// other service returns 400. The body may have 1 MiB.
	// 200: The stored list.
	LoadTrustList = &Endpoint[TrustListInput, TrustList]{Name: "loadTrustList", Method: "POST",
		Path: trustLists, right: trustListLoad, thing: "trusted list", body: maxSite,
		do: (*Operations).LoadTrustList}

	// ApplySite: Apply a configuration
	// Puts the publishers and integrations that a configuration names into the store, and archives those
	// of an earlier configuration that it no longer names (`removed_from_file`). A start and SIGHUP do
	// not archive these. `verge apply FILE` sends it. The body may have 1 MiB. In `details`,
	// `integrations.0.level` is the level of the first integration.
	// 200: The changes, made or planned.
	ApplySite = &Endpoint[SiteInput, Applied]{Name: "applySite", Method: "POST",
		Path: Prefix + "site", right: siteApply, body: maxSite,
		do: (*Operations).applySite}
)

// Endpoints returns all endpoints.
func Endpoints() []Served {
	return []Served{
		ListPublishers, CreatePublisher, ReadPublisher, ChangePublisher, ArchivePublisher, ReadOverview,
		ListIntegrations, CreateIntegration, ReadIntegration, ChangeIntegration, ArchiveIntegration,
		StageWebhook, DropStaged, RotateSecret, TestWebhook, SendTestEvent, StartTestSession, ListKeys,
		CreateKey, RevokeKey, anyDeliveries{ListDeliveries}, ReadDelivery, Resend, ListUndelivered,
		ListSessions, ReadSession, ReadUsage, ReadReport, CountPasskeys, EndPasskeys, ListMembers, ChangeRole,
		SignOutMember, RemoveMember, ListInvitations, Invite, WithdrawInvitation, CreateLink, ListOperators,
		CreateOperator, ReadSelf, RevokeOperator, ListAudit, ListMethods, ListTrustLists, LoadTrustList,
		ApplySite,
	}
}

// anyDeliveries serves ListDeliveries and ListAllDeliveries, which have one path.
type anyDeliveries struct {
	*Endpoint[DeliveryQuery, Page[Delivery]]
}

// Serve implements Served.
func (e anyDeliveries) Serve(ctx context.Context, o *Operations, who Actor, r Request) (
	*web.Response, error) {
	if r.Query.Get("integration_id") != "" {
		return e.Endpoint.Serve(ctx, o, who, r)
	}
	switch r.Query.Get("state") {
	case "", DeliveryDead, DeliveryWaiting:
		return ListAllDeliveries.Serve(ctx, o, who, r)
	}
	if _, err := read(r, e.Method, reflect.ValueOf(new(Cursor)).Elem()); err != nil {
		return nil, err
	}
	return nil, &web.Error{Code: web.InvalidRequest,
		Message: "state is neither dead nor waiting; any other list needs integration_id."}
}

// resendAt sends an event again that is in the log of an integration, or, without an integration, a dead one.
func (o *Operations) resendAt(ctx context.Context, who Actor, in EventAt) (resent, error) {
	if in.Integration != "" {
		d, err := o.Resend(ctx, who, in.Integration, in.Place)
		return resent{d.Event, "scheduled"}, err
	}
	err := eventID(in.Place)
	if err == nil {
		err = o.ResendEvent(ctx, who, in.Place)
	}
	if errors.Is(err, web.ErrNotFound) {
		err = noSuch("failed event")
	}
	return resent{in.Place, "scheduled"}, err
}

// applySite applies a configuration, or only compares it.
func (o *Operations) applySite(ctx context.Context, who Actor, in SiteInput) (Applied, error) {
	apply := o.ApplySite
	if in.DryRun {
		apply = o.PlanSite
	}
	changes, err := apply(ctx, who, in.Text)
	if changes == nil {
		changes = []Difference{}
	}
	return Applied{!in.DryRun, changes}, err
}

// part returns a part of a list, or the whole list if c selects none.
func part[T any](c Cursor, list func(Cursor) (Page[T], error)) (Page[T], error) {
	if c.Limit > 0 || c.After != "" {
		return list(c)
	}
	var whole Page[T]
	for c.Limit = MaxLimit; ; {
		page, err := list(c)
		if err != nil {
			return Page[T]{}, err
		}
		whole.Items = append(whole.Items, page.Items...)
		if c.After = page.Next; c.After == "" {
			return whole, nil
		}
	}
}

// Done is the output of an operation without any.
type Done struct {
	Status string `json:"status"`
}

// resent is the output of Resend.
type resent struct {
	Event  string `json:"event"`
	Status string `json:"status"`
}

// Applied lists the changes of a configuration.
type Applied struct {
	Applied     bool         `json:"applied"` // false: a dry run
	Differences []Difference `json:"differences"`
}

// usage returns the usage of an integration, or of a publisher.
func (o *Operations) usage(ctx context.Context, who Actor, in UsageQuery) (u Usage, err error) {
	u.query = in
	switch {
	case in.Integration == "" && in.Publisher == "":
		return u, errInvalid(web.FieldError{Field: "integration_id", Code: "required",
			Message: "Required: the id of an integration, or that of a publisher in publisher_id."})
	case in.Integration != "" && in.Publisher != "":
		return u, errInvalid(web.FieldError{Field: "publisher_id", Code: "value",
			Message: "Use either integration_id or publisher_id."})
	case in.Publisher != "":
		u.days, u.More, err = o.PublisherUsage(ctx, who, in.Publisher, in.From, in.To)
	default:
		u.days, err = o.Usage(ctx, who, in.Integration, in.From, in.To)
	}
	return u, err
}

// Usage has the sessions of an integration, or of a publisher, by day.
type Usage struct {
	Days []usageDay `json:"days"`
	More bool       `json:"more,omitempty"` // the publisher has integrations that are not counted

	query UsageQuery
	days  []usage.Day
}

// usageDay has the sessions of one day by outcome.
type usageDay struct {
	Day    string            `json:"day"` // 2026-11-20, UTC
	Counts map[string]uint64 `json:"counts"`
}

func (u Usage) response() (*web.Response, error) {
	if u.query.Format == "csv" {
		text, err := u.query.CSV(u.days, u.More)
		if err != nil {
			return nil, err
		}
		return &web.Response{Status: 200, Body: text, Header: web.Header{
			"Content-Type":           {"text/csv; charset=utf-8"},
			"Cache-Control":          {"no-store"},
			"X-Content-Type-Options": {"nosniff"},
		}}, nil
	}
	u.Days = make([]usageDay, len(u.days))
	for n, day := range u.days {
		u.Days[n] = usageDay{day.Day.String(), counted(day.Counts)}
	}
	return web.JSON(200, u), nil
}
