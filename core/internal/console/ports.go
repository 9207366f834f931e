package console

import (
	"context"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/usage"
	"github.com/verge-id/verge/core/web"
)

// Operations is what can be done. See On.
type Operations interface {
	// WithMisread returns Operations for a form of which some values could not be read. What it is asked for
	// returns an error with these and the other invalid values.
	WithMisread([]web.FieldError) Operations

	Publishers(context.Context, operate.Actor, operate.Cursor) (operate.Page[operate.Publisher], error)
	Publisher(ctx context.Context, who operate.Actor, id string) (operate.Publisher, error)
	CreatePublisher(context.Context, operate.Actor, operate.PublisherInput) (operate.Publisher, error)
	ChangePublisher(ctx context.Context, who operate.Actor, id, version string, in operate.PublisherInput) (
		operate.Publisher, error)
	ArchivePublisher(ctx context.Context, who operate.Actor, id, version string) (operate.Publisher, error)

	Passkeys(ctx context.Context, who operate.Actor, publisher string, most int) (operate.UserPasskeys, error)
	EndPasskeys(ctx context.Context, who operate.Actor, publisher string) (operate.UserPasskeys, error)

	Integrations(ctx context.Context, who operate.Actor, publisher string, c operate.Cursor) (
		operate.Page[operate.Integration], error)
	Integration(ctx context.Context, who operate.Actor, id string) (operate.Integration, error)
	CreateIntegration(context.Context, operate.Actor, operate.IntegrationInput) (operate.Changed, error)
	ChangeIntegration(ctx context.Context, who operate.Actor, id, version string,
		in operate.IntegrationInput) (
		operate.Changed, error)
	ArchiveIntegration(ctx context.Context, who operate.Actor, id, version string) (operate.Integration,
		error)

	StageWebhook(ctx context.Context, who operate.Actor, id, version string, in operate.WebhookInput) (
		operate.Changed, error)
	DropStaged(ctx context.Context, who operate.Actor, id, version string) (operate.Integration, error)
	RotateSecret(ctx context.Context, who operate.Actor, id, version string, staged bool) (operate.Changed,
		error)
	TestWebhook(ctx context.Context, who operate.Actor, id string, staged bool) (operate.TestReport, error)
	SendTestEvent(ctx context.Context, who operate.Actor, id, eventType string) (operate.Exchange, error)
	StartTestSession(ctx context.Context, who operate.Actor, id, callback string) (operate.TestSession, error)

	Keys(ctx context.Context, who operate.Actor, publisher string, c operate.Cursor) (
		operate.Page[operate.Key], error)
	CreateKey(context.Context, operate.Actor, operate.KeyInput) (operate.CreatedKey, error)
	RevokeKey(ctx context.Context, who operate.Actor, id string) (operate.Key, error)

	Undelivered(ctx context.Context, who operate.Actor) (operate.Undelivered, error)
	Deliveries(context.Context, operate.Actor, operate.DeliveryFilter, operate.Cursor) (
		operate.Page[operate.Delivery], error)
	Delivery(ctx context.Context, who operate.Actor, integration, place string) (operate.Delivery, error)
	Resend(ctx context.Context, who operate.Actor, integration, place string) (operate.Delivery, error)

	Session(ctx context.Context, who operate.Actor, id string) (operate.Session, error)
	Usage(ctx context.Context, who operate.Actor, integration, from, to string) ([]usage.Day, error)
	Overview(ctx context.Context, who operate.Actor, publisher string) (operate.Overview, error)

	Members(ctx context.Context, who operate.Actor, publisher string, c operate.Cursor) (
		operate.Page[operate.Member], error)
	Invite(ctx context.Context, who operate.Actor, publisher, name string, role operate.Role) (
		operate.Invitation, error)
	Invitations(ctx context.Context, who operate.Actor, publisher string, c operate.Cursor) (
		operate.Page[operate.Invitation], error)
	WithdrawInvitation(ctx context.Context, who operate.Actor, publisher, id string) error
	ChangeRole(ctx context.Context, who operate.Actor, member string, role operate.Role) (operate.Member,
		error)
	SignOutMember(ctx context.Context, who operate.Actor, member string) (operate.Member, error)
	RemoveMember(ctx context.Context, who operate.Actor, member string) error
	CreateLink(ctx context.Context, who operate.Actor, publisher, name string, role operate.Role) (
		operate.SignInLink, error)

	OperatorTokens(context.Context, operate.Actor, operate.Cursor) (operate.Page[operate.OperatorToken],
		error)
	CreateOperatorToken(ctx context.Context, who operate.Actor, name string, role operate.Role,
		expires *time.Time) (operate.CreatedOperatorToken, error)
	RevokeOperatorToken(ctx context.Context, who operate.Actor, id string) (operate.OperatorToken, error)

	Audit(ctx context.Context, who operate.Actor, publisher string, c operate.Cursor) (
		operate.Page[operate.AuditEntry], error)
	Methods(ctx context.Context, who operate.Actor) ([]operate.Method, error)
}

// On returns the Operations of the service.
func On(o *operate.Operations) Operations { return operations{o} }

type operations struct{ *operate.Operations }

func (o operations) WithMisread(misread []web.FieldError) Operations {
	return operations{o.Operations.WithMisread(misread)}
}

// Access says who is signed in, and signs people in and out. An error that no method names is a failure of
// the store.
type Access interface {
	// Session returns the session that a cookie opens, or ErrNoSession.
	Session(ctx context.Context, cookie string) (Session, error)

	// SignInOperator opens a session for who shows an operator token. The error is web.Unauthorized for a
	// wrong token, and web.RateLimited for too many of them from the address.
	SignInOperator(ctx context.Context, client netip.Addr, token string) (cookie string, s Session, err error)

	// BeginSignIn returns what the page needs for a passkey, or ErrNoPasskeys.
	BeginSignIn(ctx context.Context) (Ceremony, error)

	// SignIn opens a session for the member whose passkey answered, or returns a *web.Error.
	SignIn(ctx context.Context, form, answer string) (cookie string, s Session, err error)

	// Invitation returns what an invitation says, and what the page needs for its passkey. It uses nothing
	// up. The error is a *web.Error, or ErrNoPasskeys beside what the invitation says.
	Invitation(ctx context.Context, secret string) (Invited, Ceremony, error)

	// Enrol uses an invitation up, makes the member, and opens a session, or returns a *web.Error.
	Enrol(ctx context.Context, secret, form, name, answer string) (cookie string, s Session, err error)

	// Link returns what a sign-in link says. It uses nothing up. The error is a *web.Error.
	Link(ctx context.Context, secret string) (Linked, error)

	// UseLink uses a sign-in link up and opens a session, or returns a *web.Error.
	UseLink(ctx context.Context, secret string) (cookie string, s Session, err error)

	// SignOut ends a session. A cookie that opens none is no error.
	SignOut(ctx context.Context, cookie string) error

	// Passkeys returns the passkeys of the member who has the session, and what the page needs for another
	// one. The Ceremony is zero if there can be no other.
	Passkeys(ctx context.Context, cookie string) ([]operate.Passkey, Ceremony, error)

	// AddPasskey and RemovePasskey change them, or return a *web.Error.
	AddPasskey(ctx context.Context, cookie, form, name, answer string) error
	RemovePasskey(ctx context.Context, cookie, id string) error

	// Sessions returns the sessions of the member who has the session, the latest first.
	Sessions(ctx context.Context, cookie string) ([]pages.SignedIn, error)

	// EndSession ends one of them. The error is web.ErrNotFound if there is no such session.
	EndSession(ctx context.Context, cookie, id string) error
}

// Session is a console session.
type Session struct {
	Actor   operate.Actor
	Expires time.Time // at the latest
	Forms   Forms
}

// Forms makes and checks the tokens of a session's forms. A token is bound to the session and the action.
type Forms interface {
	FormToken(action string) string
	CheckForm(action, token string) bool // in constant time
}

// Ceremony is what a page needs so that a passkey answers.
type Ceremony struct {
	Options string // JSON for the browser's navigator.credentials
	Form    string // comes back with the answer as it is

	// SignInFirst says of a zero Ceremony that there can be one after a fresh sign-in.
	SignInFirst bool
}

// Invited is what an invitation says.
type Invited struct {
	Publisher string // its name
	Name      string // of the person, as the one who invites knows it; may be empty
	Role      operate.Role
	Expires   time.Time
}

// Linked is what a sign-in link says.
type Linked struct {
	Publisher string // its name; "": the service as a whole
	Role      operate.Role
	Expires   time.Time
}

// Errors of Access, in addition to [web.Error].
var (
	ErrNoSession  = member.ErrNoSession
	ErrNoPasskeys = member.ErrNoPasskeys
)
