package console

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// People implements Access on package member, with an audit entry for each sign-in. All fields are required.
type People struct {
	Registry  *member.Registry
	Directory *integration.Directory
	Guard     *operate.TokenGuard
	Sealer    host.Sealer
	Now       func() time.Time
	Random    io.Reader
}

var _ Access = (*People)(nil)

// Operations of the audit about sign-in. Package operate has the others.
const (
	signedIn       = "member.sign-in"
	usedLink       = "link.use"
	usedToken      = "operator.sign-in"
	enrolled       = "member.enrol"
	addedPasskey   = "passkey.add"
	removedPasskey = "passkey.remove"
	endedSession   = "session.end"
)

// entry returns an audit entry about an actor's own account.
func (p *People) entry(who member.Actor, operation string) ([]kv.Put, error) {
	return audit.Entry{Actor: audit.Actor{Kind: who.Kind, ID: who.ID, Name: who.Name},
		Publisher: who.Publisher,
		Operation: operation, Target: who.ID}.Puts(p.Sealer, p.Random, p.Now())
}

// came returns the transaction that is committed with a new session.
func (p *People) came(operation string) member.AuditOf[member.Session] {
	return func(s member.Session) ([]kv.Put, error) { return p.entry(s.Actor, operation) }
}

func shown(s member.Session) Session {
	return Session{Actor: operate.Actor(s.Actor), Expires: s.Expires, Forms: s}
}

// apiError returns the error for the person if err is from another package than member, and else err.
func apiError(err error) error {
	var list problem.List
	var rejected *webauthn.Rejection
	switch {
	case errors.Is(err, integration.ErrNotFound):
		return web.ErrNotFound
	case errors.As(err, &rejected):
		return unauthorized("The response of your device was not accepted. Try again, or use another device.")
	case errors.As(err, &list):
		wrong := &web.Error{Code: web.InvalidRequest}
		for _, each := range list {
			wrong.Details = append(wrong.Details, web.FieldError{Field: each.Member, Code: "invalid",
				Message: each.Text})
		}
		return wrong
	}
	return err
}

// unauthorized returns the error for a failed sign-in.
func unauthorized(message string) error {
	return &web.Error{Code: web.Unauthorized, Message: message}
}

// Session implements Access.
func (p *People) Session(ctx context.Context, cookie string) (Session, error) {
	s, err := p.Registry.Session(ctx, cookie)
	if err != nil {
		return Session{}, apiError(err)
	}
	return shown(s), nil
}

// SignInOperator implements Access. It counts wrong tokens together with the operators' API.
func (p *People) SignInOperator(ctx context.Context, client netip.Addr, token string) (string, Session,
	error) {
	if token == "" {
		return "", Session{}, unauthorized("Enter an operator token.")
	}
	err := p.Guard.Check(ctx, client, func() error {
		_, err := p.Registry.FindOperator(ctx, token)
		return err
	})
	if err == nil {
		return p.in(p.Registry.SignInOperator(ctx, token, p.came(usedToken)))
	}
	if errors.Is(err, web.ErrNotFound) {
		err = unauthorized("This operator token is not valid.")
	}
	return "", Session{}, err
}

// in returns the result of a sign-in.
func (p *People) in(cookie string, s member.Session, err error) (string, Session, error) {
	if err != nil {
		return "", Session{}, apiError(err)
	}
	return cookie, shown(s), nil
}

// BeginSignIn implements Access.
func (p *People) BeginSignIn(context.Context) (Ceremony, error) {
	c, err := p.Registry.BeginSignIn()
	return Ceremony{Options: string(c.Options), Form: c.Form}, apiError(err)
}

// SignIn implements Access.
func (p *People) SignIn(ctx context.Context, form, response string) (string, Session, error) {
	return p.in(p.Registry.SignIn(ctx, form, []byte(response), p.came(signedIn)))
}

// Invitation implements Access.
func (p *People) Invitation(ctx context.Context, secret string) (Invited, Ceremony, error) {
	i, err := p.Registry.ReadInvitation(ctx, secret)
	if err != nil {
		return Invited{}, Ceremony{}, apiError(err)
	}
	name, err := p.publisher(ctx, i.Publisher)
	if err != nil {
		return Invited{}, Ceremony{}, err
	}
	invited := Invited{Publisher: name, Name: i.Name, Role: i.Role, Expires: i.Expires}
	device := name
	if i.Name != "" {
		device = i.Name + ", " + name
	}
	_, c, err := p.Registry.BeginEnrolment(ctx, secret, device)
	return invited, Ceremony{Options: string(c.Options), Form: c.Form}, apiError(err)
}

// publisher returns the name of a publisher. Invitations and links of a deleted or archived publisher are no
// longer valid.
func (p *People) publisher(ctx context.Context, id string) (string, error) {
	found, err := p.Directory.ReadPublisher(ctx, id)
	if errors.Is(err, integration.ErrNotFound) || err == nil && found.Value.Archived != nil {
		return "", &web.Error{Code: web.TokenExpired, Message: "The publisher no longer exists."}
	}
	return found.Value.Name, err
}

// Enrol implements Access.
func (p *People) Enrol(ctx context.Context, secret, form, name, response string) (string, Session, error) {
	i, err := p.Registry.ReadInvitation(ctx, secret)
	if err == nil {
		_, err = p.publisher(ctx, i.Publisher)
	}
	if err != nil {
		return "", Session{}, apiError(err)
	}
	return p.in(p.Registry.Enrol(ctx, secret, form, name, []byte(response), p.came(enrolled)))
}

// Link implements Access.
func (p *People) Link(ctx context.Context, secret string) (Linked, error) {
	l, err := p.Registry.ReadLink(ctx, secret)
	if err != nil {
		return Linked{}, apiError(err)
	}
	linked := Linked{Role: l.Role, Expires: l.Expires}
	if l.Publisher != "" {
		linked.Publisher, err = p.publisher(ctx, l.Publisher)
	}
	return linked, err
}

// UseLink implements Access.
func (p *People) UseLink(ctx context.Context, secret string) (string, Session, error) {
	if _, err := p.Link(ctx, secret); err != nil {
		return "", Session{}, err
	}
	return p.in(p.Registry.UseLink(ctx, secret, p.came(usedLink)))
}

// SignOut implements Access.
func (p *People) SignOut(ctx context.Context, cookie string) error {
	return p.Registry.SignOut(ctx, cookie)
}

// Passkeys implements Access.
func (p *People) Passkeys(ctx context.Context, cookie string) ([]operate.Passkey, Ceremony, error) {
	s, err := p.Registry.Session(ctx, cookie)
	if err != nil {
		return nil, Ceremony{}, apiError(err)
	}
	m, err := p.Registry.Member(ctx, s.Publisher, s.ID)
	if err != nil {
		return nil, Ceremony{}, apiError(err)
	}
	var all []operate.Passkey
	for _, each := range m.Passkeys {
		all = append(all, shownPasskey(each))
	}
	c, err := p.Registry.BeginPasskey(ctx, s)
	switch {
	case errors.Is(err, member.ErrNoPasskeys):
		return all, Ceremony{}, nil
	case errors.Is(err, member.ErrProof):
		return all, Ceremony{SignInFirst: true}, nil
	}
	return all, Ceremony{Options: string(c.Options), Form: c.Form}, apiError(err)
}

// AddPasskey implements Access.
func (p *People) AddPasskey(ctx context.Context, cookie, form, name, response string) error {
	s, err := p.Registry.Session(ctx, cookie)
	if err == nil {
		_, err = p.Registry.AddPasskey(ctx, s, form, name, []byte(response), p.changed(s, addedPasskey))
	}
	return apiError(err)
}

// RemovePasskey implements Access.
func (p *People) RemovePasskey(ctx context.Context, cookie, id string) error {
	s, err := p.Registry.Session(ctx, cookie)
	if err == nil {
		_, err = p.Registry.RemovePasskey(ctx, s, id, p.changed(s, removedPasskey))
	}
	return apiError(err)
}

// Sessions implements Access.
func (p *People) Sessions(ctx context.Context, cookie string) ([]pages.SignedIn, error) {
	s, err := p.Registry.Session(ctx, cookie)
	if err != nil {
		return nil, apiError(err)
	}
	found, err := p.Registry.Sessions(ctx, s)
	if err != nil {
		return nil, apiError(err)
	}
	var all []pages.SignedIn
	for _, each := range found {
		all = append(all, pages.SignedIn{ID: each.ID, Since: each.Opened, Seen: each.Seen,
			Passkey: shownPasskey(each.Passkey), Current: each.Current})
	}
	return all, nil
}

// EndSession implements Access.
func (p *People) EndSession(ctx context.Context, cookie, id string) error {
	s, err := p.Registry.Session(ctx, cookie)
	if err != nil {
		return apiError(err)
	}
	entry, err := p.entry(s.Actor, endedSession)
	if err != nil {
		return err
	}
	return apiError(p.Registry.EndSession(ctx, s, id, entry...))
}

func shownPasskey(p member.Passkey) operate.Passkey {
	return operate.Passkey{ID: p.ID, Name: p.Name, Created: p.Created, LastUsed: p.LastUsed}
}

// changed returns the audit entry of a change that a member makes to their passkeys.
func (p *People) changed(s member.Session, operation string) member.AuditOf[member.Member] {
	return func(member.Member) ([]kv.Put, error) { return p.entry(s.Actor, operation) }
}
