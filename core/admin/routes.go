package admin

import (
	"github.com/verge-id/verge/core/web"
)

// Patterns of the routes.
const (
	indexPath = "/" // GET, without a token
	prefix    = Root + "v1/"

	openAPIPath = prefix + "openapi.yaml" // GET, without a token

	PublishersPath       = prefix + "publishers"
	PublisherPath        = PublishersPath + "/{id}"
	ArchivePublisherPath = PublisherPath + "/archive"
	OverviewPath         = PublisherPath + "/overview"

	IntegrationsPath       = prefix + "integrations"
	IntegrationPath        = IntegrationsPath + "/{id}"
	ArchiveIntegrationPath = IntegrationPath + "/archive"
	StagePath              = IntegrationPath + "/stage"
	DropPath               = IntegrationPath + "/drop"
	RotatePath             = IntegrationPath + "/rotate"
	TestPath               = IntegrationPath + "/test"
	TestEventPath          = IntegrationPath + "/test-event"
	TestSessionPath        = IntegrationPath + "/test-session"

	KeysPath   = prefix + "keys"
	RevokePath = KeysPath + "/{id}/revoke"

	DeliveriesPath = prefix + "deliveries"
	DeliveryPath   = DeliveriesPath + "/{id}"
	ResendPath     = DeliveryPath + "/resend"

	UndeliveredPath = prefix + "undelivered"

	SessionPath = prefix + "sessions/{session}"
	UsagePath   = prefix + "usage"

	PasskeysPath    = prefix + "passkeys"
	EndPasskeysPath = PasskeysPath + "/end"

	MembersPath        = prefix + "members"
	RolePath           = MembersPath + "/{id}/role"
	SignOutPath        = MembersPath + "/{id}/sign-out"
	RemovePath         = MembersPath + "/{id}/remove"
	InvitationsPath    = prefix + "invitations"
	WithdrawPath       = InvitationsPath + "/{id}/withdraw"
	LinksPath          = prefix + "links"
	OperatorsPath      = prefix + "operators"
	SelfPath           = OperatorsPath + "/self"
	RevokeOperatorPath = OperatorsPath + "/{id}/revoke"
	AuditPath          = prefix + "audit"
	MethodsPath        = prefix + "methods"
	SitePath           = prefix + "site"
)

// maxSite is the most bytes of a configuration, as of the largest body of a public route.
const maxSite = 1 << 20

var (
	get   = []string{"GET", "HEAD"}
	post  = []string{"POST"}
	patch = []string{"PATCH"}
)

// routes has every route of operators. Package web says how to add one. Handle
// answers the first two itself, since they need no token.
var routes = web.Table[handler]{
	{Methods: get, Pattern: indexPath, Label: label, Only: isGet},
	{Methods: get, Pattern: openAPIPath, Label: label},

	{Methods: get, Pattern: PublishersPath, Label: label, Handle: (*Admin).publishers},
	{Methods: post, Pattern: PublishersPath, Label: label, Handle: (*Admin).createPublisher},
	{Methods: get, Pattern: PublisherPath, Label: label, Handle: (*Admin).publisher},
	{Methods: patch, Pattern: PublisherPath, Label: label, Handle: (*Admin).changePublisher},
	{Methods: post, Pattern: ArchivePublisherPath, Label: label, Handle: (*Admin).archivePublisher},
	{Methods: get, Pattern: OverviewPath, Label: label, Handle: (*Admin).overview},

	{Methods: get, Pattern: IntegrationsPath, Label: label, Handle: (*Admin).integrations},
	{Methods: post, Pattern: IntegrationsPath, Label: label, Handle: (*Admin).createIntegration},
	{Methods: get, Pattern: IntegrationPath, Label: label, Handle: (*Admin).integration},
	{Methods: patch, Pattern: IntegrationPath, Label: label, Handle: (*Admin).changeIntegration},
	{Methods: post, Pattern: ArchiveIntegrationPath, Label: label, Handle: (*Admin).archiveIntegration},
	{Methods: post, Pattern: StagePath, Label: label, Handle: (*Admin).stage},
	{Methods: post, Pattern: DropPath, Label: label, Handle: (*Admin).drop},
	{Methods: post, Pattern: RotatePath, Label: label, Handle: (*Admin).rotate},
	{Methods: post, Pattern: TestPath, Label: label, Handle: (*Admin).test},
	{Methods: post, Pattern: TestEventPath, Label: label, Handle: (*Admin).testEvent},
	{Methods: post, Pattern: TestSessionPath, Label: label, Handle: (*Admin).testSession},

	{Methods: get, Pattern: KeysPath, Label: label, Handle: (*Admin).keys},
	{Methods: post, Pattern: KeysPath, Label: label, Handle: (*Admin).createKey},
	{Methods: post, Pattern: RevokePath, Label: label, Handle: (*Admin).revokeKey},

	{Methods: get, Pattern: DeliveriesPath, Label: label, Handle: (*Admin).deliveries},
	{Methods: get, Pattern: DeliveryPath, Label: label, Handle: (*Admin).delivery},
	{Methods: post, Pattern: ResendPath, Label: label, Handle: (*Admin).resend},
	{Methods: get, Pattern: UndeliveredPath, Label: label, Handle: (*Admin).undelivered},

	{Methods: get, Pattern: SessionPath, Label: label, Handle: (*Admin).session},
	{Methods: get, Pattern: UsagePath, Label: label, Handle: (*Admin).usage},

	{Methods: get, Pattern: PasskeysPath, Label: label, Handle: (*Admin).passkeys},
	{Methods: post, Pattern: EndPasskeysPath, Label: label, Handle: (*Admin).endPasskeys},

	{Methods: get, Pattern: MembersPath, Label: label, Handle: (*Admin).members},
	{Methods: post, Pattern: RolePath, Label: label, Handle: (*Admin).changeRole},
	{Methods: post, Pattern: SignOutPath, Label: label, Handle: (*Admin).signOutMember},
	{Methods: post, Pattern: RemovePath, Label: label, Handle: (*Admin).removeMember},
	{Methods: get, Pattern: InvitationsPath, Label: label, Handle: (*Admin).invitations},
	{Methods: post, Pattern: InvitationsPath, Label: label, Handle: (*Admin).invite},
	{Methods: post, Pattern: WithdrawPath, Label: label, Handle: (*Admin).withdraw},
	{Methods: post, Pattern: LinksPath, Label: label, Handle: (*Admin).createLink},

	{Methods: get, Pattern: OperatorsPath, Label: label, Handle: (*Admin).operators},
	{Methods: post, Pattern: OperatorsPath, Label: label, Handle: (*Admin).createOperator},
	{Methods: get, Pattern: SelfPath, Label: label, Handle: (*Admin).self},
	{Methods: post, Pattern: RevokeOperatorPath, Label: label, Handle: (*Admin).revokeOperator},
	{Methods: get, Pattern: AuditPath, Label: label, Handle: (*Admin).audit},
	{Methods: get, Pattern: MethodsPath, Label: label, Handle: (*Admin).methods},
	{Methods: post, Pattern: SitePath, Label: label, MaxBody: maxSite, Handle: (*Admin).site},
	{Pattern: "{...}", Label: label},
}
