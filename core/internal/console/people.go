package console

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core/audit"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/problem"
)

// People is the Access of the service, on package member, with an audit entry for everyone who comes in. All
// fields are needed.
type People struct {
	Registry  *member.Registry
	Directory *integration.Directory
	Guard     *operate.TokenGuard
	Sealer    host.Sealer
	Now       func() time.Time
	Random    io.Reader
}

var _ Access = (*People)(nil)

// Names of what the audit has of people who come in, beside those of package operate.
const (
	signedIn       = "member.sign-in"
	usedLink       = "link.use"
	usedToken      = "operator.sign-in"
	enrolled       = "member.enrol"
	addedPasskey   = "passkey.add"
	removedPasskey = "passkey.remove"
	endedSession   = "session.end"
)

// entry returns an audit entry about what an actor did to itself.
func (p *People) entry(who member.Actor, operation string) ([]kv.Put, error) {
	return audit.Entry{Actor: audit.Actor{Kind: who.Kind, ID: who.ID, Name: who.Name},
		Publisher: who.Publisher,
		Operation: operation, Target: who.ID}.Puts(p.Sealer, p.Random, p.Now())
}

// came is written with the session of somebody who comes in.
func (p *People) came(operation string) member.Along[member.Session] {
	return func(s member.Session) ([]kv.Put, error) { return p.entry(s.Actor, operation) }
}

func shown(s member.Session) Session {
	return Session{Actor: operate.Actor(s.Actor), Expires: s.Expires, Forms: s}
}

// refused turns an error of package member into one for a person.
func refused(err error) error {
	var list problem.List
	var answer *webauthn.Refusal
	say := func(text string) error { return &Refusal{Message: text} }
	switch {
	case err == nil:
		return nil
	case errors.Is(err, member.ErrNoSession):
		return ErrNoSession
	case errors.Is(err, member.ErrNoPasskeys):
		return ErrNoPasskeys
	case errors.Is(err, member.ErrNotFound), errors.Is(err, integration.ErrNotFound):
		return operate.ErrNotFound
	case errors.Is(err, member.ErrSpent):
		return &Refusal{Gone: true,
			Message: "It was used, was withdrawn or is too old, or whoever made it has lost the right " +
				"to make one. Ask for another one."}
	case errors.Is(err, member.ErrLate), errors.Is(err, member.ErrForm):
		return say("The page was open for too long, or was sent twice. Try again.")
	case errors.Is(err, member.ErrProof):
		return say("You signed in more than 10 minutes ago. Sign in again, and then add the passkey.")
	case errors.Is(err, member.ErrKnownPasskey):
		return say("This passkey belongs to a member already. Sign in with it, or make another one.")
	case errors.Is(err, member.ErrUnknownPasskey):
		return say("No member has this passkey. Choose another one, or ask an admin for an invitation.")
	case errors.Is(err, member.ErrLastPasskey):
		return &operate.Refused{Message: "This is your last passkey. Add another one first."}
	case errors.Is(err, member.ErrTooMany):
		return &operate.Refused{Message: "You have as many passkeys as one may have. Remove one first."}
	case errors.As(err, &answer):
		return say("What your device answered cannot be accepted. Try again, or use another device.")
	case errors.As(err, &list):
		var wrong operate.Invalid
		for _, each := range list {
			wrong.Fields = append(wrong.Fields, operate.Field{Field: each.Member, Code: "invalid",
				Message: each.Text})
		}
		return &wrong
	}
	return err
}

// Session implements Access.
func (p *People) Session(ctx context.Context, cookie string) (Session, error) {
	s, err := p.Registry.Session(ctx, cookie)
	if err != nil {
		return Session{}, refused(err)
	}
	return shown(s), nil
}

// SignInOperator implements Access. It counts wrong tokens together with the operators' API.
func (p *People) SignInOperator(ctx context.Context, client netip.Addr, token string) (string, Session,
	error) {
	if err := tooOften(p.Guard.Wait(ctx, client)); err != nil {
		return "", Session{}, err
	}
	cookie, s, err := p.Registry.SignInOperator(ctx, token, p.came(usedToken))
	if !errors.Is(err, member.ErrNotFound) {
		return p.in(cookie, s, err)
	}
	if err := tooOften(p.Guard.Wrong(ctx, client)); err != nil {
		return "", Session{}, err
	}
	return "", Session{}, &Refusal{Message: "This is no operator token, or not any more."}
}

// tooOften returns the error for an address whose tokens are not judged.
func tooOften(wait time.Duration, err error) error {
	if err != nil || wait == 0 {
		return err
	}
	return &TooOften{RetryAfter: wait.Round(time.Second) + time.Second}
}

// in is the answer to somebody who comes in.
func (p *People) in(cookie string, s member.Session, err error) (string, Session, error) {
	if err != nil {
		return "", Session{}, refused(err)
	}
	return cookie, shown(s), nil
}

// BeginSignIn implements Access.
func (p *People) BeginSignIn(context.Context) (Ceremony, error) {
	c, err := p.Registry.BeginSignIn()
	return Ceremony{Options: string(c.Options), Form: c.Form}, refused(err)
}

// SignIn implements Access.
func (p *People) SignIn(ctx context.Context, form, answer string) (string, Session, error) {
	return p.in(p.Registry.SignIn(ctx, form, []byte(answer), p.came(signedIn)))
}

// Invitation implements Access.
func (p *People) Invitation(ctx context.Context, secret string) (Invited, Ceremony, error) {
	i, err := p.Registry.ReadInvitation(ctx, secret)
	if err != nil {
		return Invited{}, Ceremony{}, refused(err)
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
	return invited, Ceremony{Options: string(c.Options), Form: c.Form}, refused(err)
}

// publisher returns the name of a publisher. An invitation or a link to one that is gone or archived is over.
func (p *People) publisher(ctx context.Context, id string) (string, error) {
	found, err := p.Directory.ReadPublisher(ctx, id)
	if errors.Is(err, integration.ErrNotFound) || err == nil && found.Value.Archived != nil {
		return "", &Refusal{Gone: true, Message: "The publisher is not there any more."}
	}
	return found.Value.Name, err
}

// Enrol implements Access.
func (p *People) Enrol(ctx context.Context, secret, form, name, answer string) (string, Session, error) {
	i, err := p.Registry.ReadInvitation(ctx, secret)
	if err == nil {
		_, err = p.publisher(ctx, i.Publisher)
	}
	if err != nil {
		return "", Session{}, refused(err)
	}
	return p.in(p.Registry.Enrol(ctx, secret, form, name, []byte(answer), p.came(enrolled)))
}

// Link implements Access.
func (p *People) Link(ctx context.Context, secret string) (Linked, error) {
	l, err := p.Registry.ReadLink(ctx, secret)
	if err != nil {
		return Linked{}, refused(err)
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
		return nil, Ceremony{}, refused(err)
	}
	m, err := p.Registry.Member(ctx, s.Publisher, s.ID)
	if err != nil {
		return nil, Ceremony{}, refused(err)
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
	return all, Ceremony{Options: string(c.Options), Form: c.Form}, refused(err)
}

// AddPasskey implements Access.
func (p *People) AddPasskey(ctx context.Context, cookie, form, name, answer string) error {
	s, err := p.Registry.Session(ctx, cookie)
	if err == nil {
		_, err = p.Registry.AddPasskey(ctx, s, form, name, []byte(answer), p.changed(s, addedPasskey))
	}
	return refused(err)
}

// RemovePasskey implements Access.
func (p *People) RemovePasskey(ctx context.Context, cookie, id string) error {
	s, err := p.Registry.Session(ctx, cookie)
	if err == nil {
		_, err = p.Registry.RemovePasskey(ctx, s, id, p.changed(s, removedPasskey))
	}
	return refused(err)
}

// Sessions implements Access.
func (p *People) Sessions(ctx context.Context, cookie string) ([]pages.SignedIn, error) {
	s, err := p.Registry.Session(ctx, cookie)
	if err != nil {
		return nil, refused(err)
	}
	found, err := p.Registry.Sessions(ctx, s)
	if err != nil {
		return nil, refused(err)
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
		return refused(err)
	}
	entry, err := p.entry(s.Actor, endedSession)
	if err != nil {
		return err
	}
	return refused(p.Registry.EndSession(ctx, s, id, entry...))
}

func shownPasskey(p member.Passkey) operate.Passkey {
	return operate.Passkey{ID: p.ID, Name: p.Name, Created: p.Created, LastUsed: p.LastUsed}
}

// changed is written with a change that a member makes to their passkeys.
func (p *People) changed(s member.Session, operation string) member.Along[member.Member] {
	return func(member.Member) ([]kv.Put, error) { return p.entry(s.Actor, operation) }
}
