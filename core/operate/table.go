package operate

import (
	"context"
	"errors"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/outbox"
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
	trustLists   = Prefix + "trust-lists"
	passkeys     = Prefix + "passkeys"
	members      = Prefix + "members"
	invitations  = Prefix + "invitations"
	operators    = Prefix + "operators"
)

// maxSite is the maximum size of a configuration, as of the largest body of a public route.
const maxSite = 1 << 20

// The endpoints. Their names are the operationIds of openapi.yaml in package admin, which describes them.
var (
	ListPublishers = &Endpoint[Cursor, Page[Publisher]]{Method: "GET", Path: publishers, List: "publishers",
		thing: "publisher", do: (*Operations).Publishers,
		read: func(r *reader) Cursor { return r.search().Cursor }}
	CreatePublisher = &Endpoint[PublisherInput, Publisher]{Method: "POST", Path: publishers,
		thing: "publisher", do: (*Operations).CreatePublisher,
		read: func(r *reader) PublisherInput {
			return PublisherInput{ID: r.given("id"), Name: r.text("name")}
		}}
	ReadPublisher = &Endpoint[string, Publisher]{Method: "GET", Path: publishers + "/{id}",
		thing: "publisher", read: (*reader).id, do: (*Operations).Publisher}
	ChangePublisher = &Endpoint[PublisherUpdate, Publisher]{Method: "PATCH", Path: publishers + "/{id}",
		thing: "publisher",
		read: func(r *reader) PublisherUpdate {
			return PublisherUpdate{r.versioned(), PublisherInput{Name: r.text("name")}}
		},
		do: func(o *Operations, ctx context.Context, who Actor, in PublisherUpdate) (Publisher, error) {
			return o.ChangePublisher(ctx, who, in.Versioned.ID, in.Version, in.PublisherInput)
		}}
	ArchivePublisher = &Endpoint[Versioned, Publisher]{Method: "POST", Path: publishers + "/{id}/archive",
		thing: "publisher", read: (*reader).versioned,
		do: func(o *Operations, ctx context.Context, who Actor, in Versioned) (Publisher, error) {
			return o.ArchivePublisher(ctx, who, in.ID, in.Version)
		}}
	ReadOverview = &Endpoint[string, Overview]{Method: "GET", Path: publishers + "/{id}/overview",
		thing: "publisher", read: (*reader).id, do: (*Operations).Overview}

	// ListIntegrations and ListKeys return everything in one response if the request has no limit, for
	// earlier releases of the command line.
	ListIntegrations = &Endpoint[Search, Page[Integration]]{Method: "GET", Path: integrations,
		List: "integrations", thing: "integration", read: (*reader).search,
		do: func(o *Operations, ctx context.Context, who Actor, in Search) (Page[Integration], error) {
			return part(in.Cursor, func(c Cursor) (Page[Integration], error) {
				return o.Integrations(ctx, who, in.Publisher, c)
			})
		}}
	CreateIntegration = &Endpoint[IntegrationInput, Changed]{Method: "POST", Path: integrations,
		thing: "publisher", do: (*Operations).CreateIntegration,
		read: func(r *reader) IntegrationInput {
			in := r.integration()
			in.Publisher = r.needed("publisher_id", "It says whose integration it is.")
			return in
		}}
	ReadIntegration = &Endpoint[string, Integration]{Method: "GET", Path: integrations + "/{id}",
		thing: "integration", read: (*reader).id, do: (*Operations).Integration}
	ChangeIntegration = &Endpoint[IntegrationUpdate, Changed]{Method: "PATCH", Path: integrations + "/{id}",
		thing: "integration",
		read:  func(r *reader) IntegrationUpdate { return IntegrationUpdate{r.versioned(), r.integration()} },
		do: func(o *Operations, ctx context.Context, who Actor, in IntegrationUpdate) (Changed, error) {
			return o.ChangeIntegration(ctx, who, in.ID, in.Version, in.IntegrationInput)
		}}
	ArchiveIntegration = &Endpoint[Versioned, Integration]{Method: "POST",
		Path: integrations + "/{id}/archive", thing: "integration", read: (*reader).versioned,
		do: func(o *Operations, ctx context.Context, who Actor, in Versioned) (Integration, error) {
			return o.ArchiveIntegration(ctx, who, in.ID, in.Version)
		}}
	StageWebhook = &Endpoint[StagedWebhook, Changed]{Method: "POST", Path: integrations + "/{id}/stage",
		thing: "integration",
		read:  func(r *reader) StagedWebhook { return StagedWebhook{r.versioned(), r.webhook()} },
		do: func(o *Operations, ctx context.Context, who Actor, in StagedWebhook) (Changed, error) {
			return o.StageWebhook(ctx, who, in.ID, in.Version, in.WebhookInput)
		}}
	DropStaged = &Endpoint[Versioned, Integration]{Method: "POST", Path: integrations + "/{id}/drop",
		thing: "integration", read: (*reader).versioned,
		do: func(o *Operations, ctx context.Context, who Actor, in Versioned) (Integration, error) {
			return o.DropStaged(ctx, who, in.ID, in.Version)
		}}
	RotateSecret = &Endpoint[Rotation, Changed]{Method: "POST", Path: integrations + "/{id}/rotate",
		thing: "integration",
		read:  func(r *reader) Rotation { return Rotation{r.versioned(), r.isTrue("staged")} },
		do: func(o *Operations, ctx context.Context, who Actor, in Rotation) (Changed, error) {
			return o.RotateSecret(ctx, who, in.ID, in.Version, in.Staged)
		}}
	TestWebhook = &Endpoint[WebhookTestInput, TestReport]{Method: "POST", Path: integrations + "/{id}/test",
		thing: "integration",
		read:  func(r *reader) WebhookTestInput { return WebhookTestInput{r.ID, r.isSet("staged")} },
		do: func(o *Operations, ctx context.Context, who Actor, in WebhookTestInput) (TestReport, error) {
			return o.TestWebhook(ctx, who, in.Integration, in.Staged)
		}}
	SendTestEvent = &Endpoint[TestEventInput, Exchange]{Method: "POST",
		Path: integrations + "/{id}/test-event", thing: "integration",
		read: func(r *reader) TestEventInput {
			return TestEventInput{r.ID,
				r.needed("type", "It says which event to send, such as verification.completed.")}
		},
		do: func(o *Operations, ctx context.Context, who Actor, in TestEventInput) (Exchange, error) {
			return o.SendTestEvent(ctx, who, in.Integration, in.Type)
		}}
	StartTestSession = &Endpoint[TestSessionInput, TestSession]{Method: "POST",
		Path: integrations + "/{id}/test-session", thing: "integration",
		read: func(r *reader) TestSessionInput {
			return TestSessionInput{r.ID,
				r.needed("callback_url", "It says where the browser goes when the session has ended.")}
		},
		do: func(o *Operations, ctx context.Context, who Actor, in TestSessionInput) (TestSession, error) {
			return o.StartTestSession(ctx, who, in.Integration, in.CallbackURL)
		}}

	ListKeys = &Endpoint[Search, Page[Key]]{Method: "GET", Path: keys, List: "keys", thing: "key",
		read: (*reader).ofPublisher,
		do: func(o *Operations, ctx context.Context, who Actor, in Search) (Page[Key], error) {
			return part(in.Cursor, func(c Cursor) (Page[Key], error) {
				return o.Keys(ctx, who, in.Publisher, c)
			})
		}}
	// CreateKey does not take a value of another type as absent. Otherwise a request for a public key could
	// create a secret one, or one that never expires.
	CreateKey = &Endpoint[KeyInput, CreatedKey]{Method: "POST", Path: keys,
		thing: "publisher, or it has no such integration", do: (*Operations).CreateKey,
		read: func(r *reader) KeyInput {
			return KeyInput{Publisher: r.needed("publisher_id", "It says whose key it is."),
				Integration: r.given("integration_id"), Expires: r.moment("expires")}
		}}
	RevokeKey = &Endpoint[string, Key]{Method: "POST", Path: keys + "/{id}/revoke", thing: "key",
		read: (*reader).id, do: (*Operations).RevokeKey}

	ListDeliveries = &Endpoint[DeliveryQuery, Page[Delivery]]{Method: "GET", Path: deliveries,
		List: "deliveries", thing: "event", read: (*reader).deliveries,
		do: func(o *Operations, ctx context.Context, who Actor, in DeliveryQuery) (Page[Delivery], error) {
			return o.Deliveries(ctx, who, in.DeliveryFilter, in.Cursor)
		}}
	// ListDead and ListWaiting are ListDeliveries without an integration, of all publishers.
	ListDead = &Endpoint[DeliveryQuery, Page[outbox.Dead]]{Method: "GET", Path: deliveries,
		List: "deliveries", thing: "event", read: (*reader).deliveries,
		do: func(o *Operations, ctx context.Context, who Actor, in DeliveryQuery) (Page[outbox.Dead], error) {
			return o.Dead(ctx, who, in.most())
		}}
	ListWaiting = &Endpoint[DeliveryQuery, Page[outbox.Waiting]]{Method: "GET", Path: deliveries,
		List: "deliveries", thing: "event", read: (*reader).deliveries,
		do: func(o *Operations, ctx context.Context, who Actor, in DeliveryQuery) (
			Page[outbox.Waiting], error) {
			return o.Waiting(ctx, who, in.most())
		}}
	ReadDelivery = &Endpoint[EventAt, Delivery]{Method: "GET", Path: deliveries + "/{id}", thing: "event",
		read: (*reader).eventAt,
		do: func(o *Operations, ctx context.Context, who Actor, in EventAt) (Delivery, error) {
			return o.Delivery(ctx, who, in.Integration, in.Place)
		}}
	Resend = &Endpoint[EventAt, Resent]{Method: "POST", Path: deliveries + "/{id}/resend", thing: "event",
		read: (*reader).eventAt,
		do: func(o *Operations, ctx context.Context, who Actor, in EventAt) (Resent, error) {
			if in.Integration != "" {
				d, err := o.Resend(ctx, who, in.Integration, in.Place)
				return Resent{d.Event, "scheduled"}, err
			}
			err := eventID(in.Place)
			if err == nil {
				err = o.ResendEvent(ctx, who, in.Place)
			}
			if errors.Is(err, web.ErrNotFound) {
				err = noSuch("dead event")
			}
			return Resent{in.Place, "scheduled"}, err
		}}
	ListUndelivered = &Endpoint[struct{}, Undelivered]{Method: "GET", Path: Prefix + "undelivered",
		thing: "undelivered", read: none,
		do: func(o *Operations, ctx context.Context, who Actor, _ struct{}) (Undelivered, error) {
			return o.Undelivered(ctx, who)
		}}

	ReadSession = &Endpoint[string, Session]{Method: "GET", Path: Prefix + "sessions/{session}",
		thing: "session", read: (*reader).id, do: (*Operations).Session}
	ReadUsage = &Endpoint[UsageQuery, Usage]{Method: "GET", Path: Prefix + "usage",
		thing: "publisher or integration", read: (*reader).usage,
		do: func(o *Operations, ctx context.Context, who Actor, in UsageQuery) (Usage, error) {
			days, err := o.Usage(ctx, who, in.Integration, in.From, in.To)
			return Usage{query: in, days: days}, err
		}}

	CountPasskeys = &Endpoint[Search, UserPasskeys]{Method: "GET", Path: passkeys, thing: "publisher",
		read: func(r *reader) Search { return Search{Publisher: r.query("publisher_id")} },
		do: func(o *Operations, ctx context.Context, who Actor, in Search) (UserPasskeys, error) {
			return o.Passkeys(ctx, who, in.Publisher, passkey.MaxTally)
		}}
	EndPasskeys = &Endpoint[OfPublisher, UserPasskeys]{Method: "POST", Path: passkeys + "/end",
		thing: "publisher",
		read: func(r *reader) OfPublisher {
			return OfPublisher{r.needed("publisher_id", "It says whose users' passkeys are ended.")}
		},
		do: func(o *Operations, ctx context.Context, who Actor, in OfPublisher) (UserPasskeys, error) {
			return o.EndPasskeys(ctx, who, in.Publisher)
		}}

	ListMembers = &Endpoint[Search, Page[Member]]{Method: "GET", Path: members, List: "members",
		thing: "member", read: (*reader).ofPublisher,
		do: func(o *Operations, ctx context.Context, who Actor, in Search) (Page[Member], error) {
			return o.Members(ctx, who, in.Publisher, in.Cursor)
		}}
	ChangeRole = &Endpoint[RoleInput, Member]{Method: "POST", Path: members + "/{id}/role", thing: "member",
		read: func(r *reader) RoleInput {
			return RoleInput{r.ID, Role(r.needed("role", "It is admin, developer or viewer."))}
		},
		do: func(o *Operations, ctx context.Context, who Actor, in RoleInput) (Member, error) {
			return o.ChangeRole(ctx, who, in.Member, in.Role)
		}}
	SignOutMember = &Endpoint[string, Member]{Method: "POST", Path: members + "/{id}/sign-out",
		thing: "member", read: (*reader).id, do: (*Operations).SignOutMember}
	RemoveMember = &Endpoint[string, Done]{Method: "POST", Path: members + "/{id}/remove", thing: "member",
		read: (*reader).id,
		do: func(o *Operations, ctx context.Context, who Actor, id string) (Done, error) {
			return Done{"done"}, o.RemoveMember(ctx, who, id)
		}}
	ListInvitations = &Endpoint[Search, Page[Invitation]]{Method: "GET", Path: invitations,
		List: "invitations", thing: "invitation", read: (*reader).ofPublisher,
		do: func(o *Operations, ctx context.Context, who Actor, in Search) (Page[Invitation], error) {
			return o.Invitations(ctx, who, in.Publisher, in.Cursor)
		}}
	Invite = &Endpoint[InvitationInput, Invitation]{Method: "POST", Path: invitations, thing: "publisher",
		read: func(r *reader) InvitationInput {
			return InvitationInput{r.needed("publisher_id", "It says whose member the person becomes."),
				r.given("name"), Role(r.needed("role", "It is admin, developer or viewer."))}
		},
		do: func(o *Operations, ctx context.Context, who Actor, in InvitationInput) (Invitation, error) {
			return o.Invite(ctx, who, in.Publisher, in.Name, in.Role)
		}}
	WithdrawInvitation = &Endpoint[InvitationOf, Done]{Method: "POST",
		Path: invitations + "/{id}/withdraw", thing: "invitation",
		read: func(r *reader) InvitationOf { return InvitationOf{r.query("publisher_id"), r.ID} },
		do: func(o *Operations, ctx context.Context, who Actor, in InvitationOf) (Done, error) {
			return Done{"done"}, o.WithdrawInvitation(ctx, who, in.Publisher, in.ID)
		}}
	CreateLink = &Endpoint[LinkInput, SignInLink]{Method: "POST", Path: Prefix + "links", thing: "publisher",
		read: func(r *reader) LinkInput {
			return LinkInput{r.given("publisher_id"), r.given("name"),
				Role(r.needed("role", "It says what the link's holder may do."))}
		},
		do: func(o *Operations, ctx context.Context, who Actor, in LinkInput) (SignInLink, error) {
			return o.CreateLink(ctx, who, in.Publisher, in.Name, in.Role)
		}}

	ListOperators = &Endpoint[Cursor, Page[OperatorToken]]{Method: "GET", Path: operators,
		List: "operators", thing: "operator token", read: (*reader).cursor, do: (*Operations).OperatorTokens}
	CreateOperator = &Endpoint[OperatorInput, CreatedOperatorToken]{Method: "POST", Path: operators,
		thing: "operator token",
		read: func(r *reader) OperatorInput {
			return OperatorInput{r.needed("name", "It says in the audit whose token it is."),
				Role(r.needed("role", "It is operator or viewer.")), r.moment("expires")}
		},
		do: func(o *Operations, ctx context.Context, who Actor, in OperatorInput) (
			CreatedOperatorToken, error) {
			return o.CreateOperatorToken(ctx, who, in.Name, in.Role, in.Expires)
		}}
	// ReadSelf returns the token of the request. With MayParameter, it returns the error of that operation.
	// So the core's host authorizes callers of its own paths, such as admin.ModulePath, by the same rules
	// and with the same count of wrong tokens.
	ReadSelf = &Endpoint[Operation, OperatorToken]{Method: "GET", Path: operators + "/self",
		thing: "operator token",
		read:  func(r *reader) Operation { return Operation(r.query(MayParameter)) },
		do: func(o *Operations, _ context.Context, who Actor, may Operation) (t OperatorToken, err error) {
			if may != "" {
				err = o.Authorize(who, may)
			}
			return OperatorToken{ID: who.ID, Name: who.Name, Role: who.Role}, err
		}}
	RevokeOperator = &Endpoint[string, OperatorToken]{Method: "POST", Path: operators + "/{id}/revoke",
		thing: "operator token", read: (*reader).id, do: (*Operations).RevokeOperatorToken}

	ListAudit = &Endpoint[Search, Page[AuditEntry]]{Method: "GET", Path: Prefix + "audit", List: "audit",
		thing: "publisher or integration", read: (*reader).ofPublisher,
		do: func(o *Operations, ctx context.Context, who Actor, in Search) (Page[AuditEntry], error) {
			return o.Audit(ctx, who, in.Publisher, in.Cursor)
		}}
	ListMethods = &Endpoint[struct{}, Page[Method]]{Method: "GET", Path: Prefix + "methods", List: "methods",
		thing: "method", read: none,
		do: func(o *Operations, ctx context.Context, who Actor, _ struct{}) (Page[Method], error) {
			all, err := o.Methods(ctx, who)
			return Page[Method]{Items: all}, err
		}}
	ListTrustLists = &Endpoint[struct{}, Page[TrustList]]{Method: "GET", Path: trustLists,
		List: "trust_lists", thing: "trusted list", read: none,
		do: func(o *Operations, ctx context.Context, who Actor, _ struct{}) (Page[TrustList], error) {
			all, err := o.TrustLists(ctx, who)
			return Page[TrustList]{Items: all}, err
		}}
	LoadTrustList = &Endpoint[TrustListInput, TrustList]{Method: "POST", Path: trustLists,
		thing: "trusted list", body: maxSite, read: (*reader).trustList, do: (*Operations).LoadTrustList}
	ApplySite = &Endpoint[SiteInput, Applied]{Method: "POST", Path: Prefix + "site", thing: "site",
		body: maxSite,
		read: func(r *reader) SiteInput {
			// null is not a configuration.
			r.object()
			return SiteInput{r.Body, r.isSet("dry_run")}
		},
		do: func(o *Operations, ctx context.Context, who Actor, in SiteInput) (Applied, error) {
			apply := o.ApplySite
			if in.DryRun {
				apply = o.PlanSite
			}
			changes, err := apply(ctx, who, in.Text)
			if changes == nil {
				changes = []Difference{}
			}
			return Applied{!in.DryRun, changes}, err
		}}
)

// Endpoints returns all endpoints.
func Endpoints() []Served {
	return []Served{
		ListPublishers, CreatePublisher, ReadPublisher, ChangePublisher, ArchivePublisher, ReadOverview,
		ListIntegrations, CreateIntegration, ReadIntegration, ChangeIntegration, ArchiveIntegration,
		StageWebhook, DropStaged, RotateSecret, TestWebhook, SendTestEvent, StartTestSession,
		ListKeys, CreateKey, RevokeKey,
		anyDeliveries{ListDeliveries}, ReadDelivery, Resend, ListUndelivered,
		ReadSession, ReadUsage,
		CountPasskeys, EndPasskeys,
		ListMembers, ChangeRole, SignOutMember, RemoveMember,
		ListInvitations, Invite, WithdrawInvitation, CreateLink,
		ListOperators, CreateOperator, ReadSelf, RevokeOperator, ListAudit, ListMethods,
		ListTrustLists, LoadTrustList, ApplySite,
	}
}

// anyDeliveries serves ListDeliveries, ListDead and ListWaiting, which have one path.
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
	case "", DeliveryDead:
		return ListDead.Serve(ctx, o, who, r)
	case DeliveryWaiting:
		return ListWaiting.Serve(ctx, o, who, r)
	}
	read := &reader{Request: r}
	if read.cursor(); read.err != nil {
		return nil, read.err
	}
	return nil, &web.Error{Code: web.InvalidRequest,
		Message: "state is neither dead nor waiting; any other list needs integration_id."}
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

// Resent is the output of Resend.
type Resent struct {
	Event  string `json:"event"`
	Status string `json:"status"`
}

// Applied lists the changes of a configuration.
type Applied struct {
	Applied     bool         `json:"applied"` // false: a dry run
	Differences []Difference `json:"differences"`
}

// Usage has the sessions of an integration by day.
type Usage struct {
	Days []UsageDay `json:"days"`

	query UsageQuery
	days  []usage.Day
}

// UsageDay has the sessions of one day by outcome.
type UsageDay struct {
	Day    string            `json:"day"` // 2026-11-20, UTC
	Counts map[string]uint64 `json:"counts"`
}

func (u Usage) response() (*web.Response, error) {
	if u.query.CSV {
		var b strings.Builder
		if err := usage.WriteCSV(&b, u.query.Integration, u.days); err != nil {
			return nil, err
		}
		return &web.Response{Status: 200, Body: []byte(b.String()), Header: web.Header{
			"Content-Type":           {"text/csv; charset=utf-8"},
			"Cache-Control":          {"no-store"},
			"X-Content-Type-Options": {"nosniff"},
		}}, nil
	}
	u.Days = make([]UsageDay, len(u.days))
	for n, day := range u.days {
		u.Days[n] = UsageDay{day.Day.String(), map[string]uint64{}}
		for _, outcome := range host.Outcomes() {
			u.Days[n].Counts[outcome] = day.Counts.Of(outcome)
		}
	}
	return web.JSON(200, u), nil
}
