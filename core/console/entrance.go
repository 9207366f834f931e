package console

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/member"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/webauthn"
)

// Entrance is the Door of a service: package member judges who comes in, and package operate enters it into the
// audit. All fields are needed.
type Entrance struct {
	People   *member.Registry
	Desk     *operate.Desk
	Now      func() time.Time
	Limiter  *ratelimit.Limiter
	Failures ratelimit.Limit // of wrong operator tokens of an address, together with those of the operators' API
}

var _ Door = (*Entrance)(nil)

// Session implements Door.
func (e *Entrance) Session(ctx context.Context, cookie string) (Session, error) {
	s, err := e.People.Session(ctx, cookie)
	return shown(s), refusal(err)
}

func shown(s member.Session) Session {
	return Session{Actor: operate.Actor(s.Actor), Expires: s.Expires, Forms: s}
}

// SignInOperator implements Door.
func (e *Entrance) SignInOperator(ctx context.Context, client netip.Addr, token string) (string, Session, error) {
	cookie, s, err := e.People.SignInOperator(ctx, token, e.came)
	if !errors.Is(err, member.ErrNotFound) {
		return cookie, shown(s), refusal(err)
	}
	result, err := e.Limiter.Take(ctx, e.Now(),
		[]ratelimit.Rule{ratelimit.ClientRule(ratelimit.OperatorRule, client, e.Failures)})
	if err != nil {
		return "", Session{}, err
	}
	if !result.Allowed {
		return "", Session{}, &TooOften{RetryAfter: time.Duration(result.RetryAfter) * time.Second}
	}
	return "", Session{}, &Refusal{Message: "This is no operator token of this service, or one that was revoked."}
}

// came makes the audit entry of somebody who came in.
func (e *Entrance) came(s member.Session) ([]kv.Put, error) {
	return e.Desk.Entry(operate.Actor(s.Actor), operate.SignedIn, s.Publisher, s.ID)
}

// BeginSignIn implements Door.
func (e *Entrance) BeginSignIn(context.Context) (Ceremony, error) {
	c, err := e.People.BeginSignIn()
	return ceremony(c), refusal(err)
}

func ceremony(c member.Ceremony) Ceremony { return Ceremony{Options: string(c.Options), Form: c.Form} }

// SignIn implements Door.
func (e *Entrance) SignIn(ctx context.Context, form, answer string) (string, Session, error) {
	cookie, s, err := e.People.SignIn(ctx, form, []byte(answer), e.came)
	return cookie, shown(s), refusal(err)
}

// Invitation implements Door.
func (e *Entrance) Invitation(ctx context.Context, secret string) (Invited, Ceremony, error) {
	i, err := e.People.ReadInvitation(ctx, secret)
	if err != nil {
		return Invited{}, Ceremony{}, refusal(err)
	}
	publisher, err := e.nameOf(ctx, i.Publisher)
	if err != nil {
		return Invited{}, Ceremony{}, err
	}
	invited := Invited{Publisher: publisher, Name: i.Name, Role: i.Role, Expires: i.Expires}
	shown := publisher
	if i.Name != "" {
		shown = i.Name + " (" + publisher + ")"
	}
	_, c, err := e.People.BeginEnrolment(ctx, secret, shown)
	return invited, ceremony(c), refusal(err)
}

// nameOf returns the name of a publisher, or its id if it has none.
func (e *Entrance) nameOf(ctx context.Context, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	p, err := e.Desk.Directory.Publisher(ctx, id)
	if err != nil {
		return "", err
	}
	if p.Name == "" {
		return id, nil
	}
	return p.Name, nil
}

// Enrol implements Door.
func (e *Entrance) Enrol(ctx context.Context, secret, form, name, answer string) (string, Session, error) {
	cookie, s, err := e.People.Enrol(ctx, secret, form, name, []byte(answer),
		func(s member.Session) ([]kv.Put, error) {
			return e.Desk.Entry(operate.Actor(s.Actor), operate.Enrolled, s.Publisher, s.ID)
		})
	return cookie, shown(s), refusal(err)
}

// Link implements Door.
func (e *Entrance) Link(ctx context.Context, secret string) (Linked, error) {
	l, err := e.People.ReadLink(ctx, secret)
	if err != nil {
		return Linked{}, refusal(err)
	}
	publisher, err := e.nameOf(ctx, l.Publisher)
	return Linked{Publisher: publisher, Role: l.Role, Expires: l.Expires}, err
}

// UseLink implements Door.
func (e *Entrance) UseLink(ctx context.Context, secret string) (string, Session, error) {
	cookie, s, err := e.People.UseLink(ctx, secret, e.came)
	return cookie, shown(s), refusal(err)
}

// SignOut implements Door.
func (e *Entrance) SignOut(ctx context.Context, cookie string) error {
	return refusal(e.People.SignOut(ctx, cookie))
}

// Passkeys implements Door.
func (e *Entrance) Passkeys(ctx context.Context, cookie string) ([]operate.Passkey, Ceremony, error) {
	s, err := e.People.Session(ctx, cookie)
	if err != nil {
		return nil, Ceremony{}, refusal(err)
	}
	m, err := e.People.Member(ctx, s.Publisher, s.ID)
	if err != nil {
		return nil, Ceremony{}, refusal(err)
	}
	var passkeys []operate.Passkey
	for _, p := range m.Passkeys {
		passkeys = append(passkeys, operate.Passkey{ID: p.ID, Created: p.Created, LastUsed: p.LastUsed})
	}
	c, err := e.People.BeginPasskey(ctx, s)
	if errors.Is(err, member.ErrTooMany) || errors.Is(err, member.ErrNoPasskeys) {
		return passkeys, Ceremony{}, nil
	}
	return passkeys, ceremony(c), refusal(err)
}

// AddPasskey implements Door.
func (e *Entrance) AddPasskey(ctx context.Context, cookie, form, name, answer string) error {
	s, err := e.People.Session(ctx, cookie)
	if err != nil {
		return refusal(err)
	}
	_, err = e.People.AddPasskey(ctx, s, form, name, []byte(answer), e.changed(s))
	return refusal(err)
}

// RemovePasskey implements Door.
func (e *Entrance) RemovePasskey(ctx context.Context, cookie, id string) error {
	s, err := e.People.Session(ctx, cookie)
	if err != nil {
		return refusal(err)
	}
	_, err = e.People.RemovePasskey(ctx, s, id, e.changed(s))
	return refusal(err)
}

// changed makes the audit entry of a change of a member's passkeys.
func (e *Entrance) changed(s member.Session) member.Along[member.Member] {
	return func(m member.Member) ([]kv.Put, error) {
		return e.Desk.Entry(operate.Actor(s.Actor), operate.PasskeyChanged, m.Publisher, m.ID)
	}
}

// refusal turns an error of package member into what the console tells a person. It leaves any other error, which
// is the store's.
func refusal(err error) error {
	var answer *webauthn.Refusal
	var wrong problem.List
	switch {
	case err == nil:
		return nil
	case errors.Is(err, member.ErrNoSession):
		return ErrNoSession
	case errors.Is(err, member.ErrNoPasskeys):
		return ErrNoPasskeys
	case errors.Is(err, member.ErrSpent):
		return &Refusal{Gone: true, Message: "This link was used, was withdrawn, or is too old. Ask for a new one."}
	case errors.Is(err, member.ErrLate), errors.Is(err, member.ErrForm):
		return &Refusal{Message: "This page was open for too long, or was sent before. Load it again, and try again."}
	case errors.Is(err, member.ErrUnknownPasskey), errors.Is(err, member.ErrNotFound):
		return &Refusal{Message: "No member has this passkey, or it was removed. Try another one, or ask for an invitation."}
	case errors.Is(err, member.ErrKnownPasskey):
		return &Refusal{Message: "This passkey is a member's already. Use another device, or sign in with it."}
	case errors.Is(err, member.ErrTooMany):
		return &Refusal{Message: "You have as many passkeys as one member can have. Remove one first."}
	case errors.Is(err, member.ErrLastPasskey):
		return &Refusal{Message: "This is your last passkey, and without it you could not sign in. Add another one first."}
	case errors.As(err, &answer):
		return &Refusal{Message: "The passkey's answer could not be accepted. Try again, or use another passkey."}
	case errors.As(err, &wrong):
		return &Refusal{Message: wrong[0].Text}
	}
	return err
}
