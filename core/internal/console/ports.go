package console

import (
	"context"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/operate"
)

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
