package console

import (
	"context"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/operate"
)

// Access finds the signed-in person, and signs people in and out. Errors that the methods do not list are
// failures of the store.
type Access interface {
	// Session returns the session of a cookie, or ErrNoSession.
	Session(ctx context.Context, cookie string) (Session, error)

	// SignInOperator opens a session for an operator token. The error is web.Unauthorized for a wrong token,
	// and web.RateLimited for too many of them from the address.
	SignInOperator(ctx context.Context, client netip.Addr, token string) (cookie string, s Session, err error)

	// BeginSignIn returns the data of the page for a passkey, or ErrNoPasskeys.
	BeginSignIn(ctx context.Context) (Ceremony, error)

	// SignIn opens a session for the member whose passkey responded, or returns a *web.Error.
	SignIn(ctx context.Context, form, response string) (cookie string, s Session, err error)

	// Invitation returns the content of an invitation, and the data of the page for its passkey, without
	// using the invitation up. The error is a *web.Error, or ErrNoPasskeys together with the content.
	Invitation(ctx context.Context, secret string) (Invited, Ceremony, error)

	// Enrol uses an invitation up, creates the member, and opens a session, or returns a *web.Error.
	Enrol(ctx context.Context, secret, form, name, response string) (cookie string, s Session, err error)

	// Link returns the content of a sign-in link, without using it up. The error is a *web.Error.
	Link(ctx context.Context, secret string) (Linked, error)

	// UseLink uses a sign-in link up and opens a session, or returns a *web.Error.
	UseLink(ctx context.Context, secret string) (cookie string, s Session, err error)

	// SignOut ends a session. A cookie without a session is not an error.
	SignOut(ctx context.Context, cookie string) error

	// Passkeys returns the passkeys of the session's member, and the data of the page for another passkey.
	// The Ceremony is zero if another one is not possible.
	Passkeys(ctx context.Context, cookie string) ([]operate.Passkey, Ceremony, error)

	// AddPasskey and RemovePasskey change them, or return a *web.Error.
	AddPasskey(ctx context.Context, cookie, form, name, response string) error
	RemovePasskey(ctx context.Context, cookie, id string) error

	// Sessions returns all sessions of the session's member, latest first.
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

// Forms creates and checks the tokens of a session's forms. A token is bound to the session and the action.
type Forms interface {
	FormToken(action string) string
	CheckForm(action, token string) bool // in constant time
}

// Ceremony is the data of a page for a passkey's response.
type Ceremony struct {
	Options string // JSON for the browser's navigator.credentials
	Form    string // returned unchanged with the response

	// SignInFirst reports for a zero Ceremony that a passkey is possible after a fresh sign-in.
	SignInFirst bool
}

// Invited is the content of an invitation.
type Invited struct {
	Publisher string // its name
	Name      string // of the person, by the inviting member; may be empty
	Role      operate.Role
	Expires   time.Time
}

// Linked is the content of a sign-in link.
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
