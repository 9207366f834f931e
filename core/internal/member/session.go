package member

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

// sessionLife is the maximum duration of a console session. idleLife is its maximum time without a request.
const (
	sessionLife = 12 * time.Hour
	idleLife    = time.Hour
)

// idleStep is the minimum interval between two updates of a session's idle time, so that not every request
// writes. The idle time can be shorter by up to idleStep, and never longer.
const idleStep = 5 * time.Minute

// cookiePrefix is the prefix of every cookie's value.
const cookiePrefix = "vrg_con_"

// Session is a console session, with the current name and role of its user.
type Session struct {
	Actor
	Opened  time.Time
	Expires time.Time // at the latest

	name    string // of its record
	passkey string // of a member
	epoch   int    // of a member
	key     []byte // of its forms
}

// of reports whether the session belongs to the member and is still valid for them.
func (s Session) of(m Member) bool { return m.Epoch == s.epoch && m.has(s.passkey) }

// session is the stored record. If the person has a record, name and role come from that record.
type session struct {
	Kind      string    `json:"kind"`
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"` // of a link
	Role      Role      `json:"role,omitempty"` // of a link
	Publisher string    `json:"publisher_id,omitempty"`
	Opened    time.Time `json:"opened"`
	Seen      time.Time `json:"seen"`

	By      *granter `json:"by,omitempty"`      // of operators and links
	Passkey string   `json:"passkey,omitempty"` // of members
	Epoch   int      `json:"epoch,omitempty"`   // of members
}

// ends returns the time at which an unused session ends.
func (s session) ends() time.Time {
	end, idle := s.Opened.Add(sessionLife), s.Seen.Add(idleLife)
	if idle.Before(end) {
		return idle
	}
	return end
}

// open commits a new session together with tx. The session ends when by, an operator, loses their right; by
// is nil for a member.
func (r *Registry) open(
	ctx context.Context, s session, by *Actor, tx kv.Tx, audit AuditOf[Session],
) (cookie string, _ Session, err error) {
	if cookie, err = integration.GenerateKey(cookiePrefix, r.random); err != nil {
		return "", Session{}, err
	}
	s.Opened = r.now().UTC()
	s.Seen = s.Opened
	if by != nil {
		v := r.granterOf(*by, cookie)
		s.By = &v
	}
	actor := s.actor()
	if s.Kind == KindOperator {
		actor = asOperator(s, *by)
	}
	opened := view(s, actor, cookie)
	if s.Kind == KindMember {
		s.Name, s.Role = "", "" // stored in the member's record
		tx.Puts = append(tx.Puts, kv.Put{Name: ofSession(s.ID, hashOf(cookie)), Value: mark,
			Expires: s.Opened.Add(sessionLife)})
	}
	err = create(ctx, r, opened.name, s, s.ends(), tx,
		func(session) ([]kv.Put, error) { return audit.puts(opened) })
	if err != nil {
		return "", Session{}, err
	}
	return cookie, opened, nil
}

// view returns a session of the actor.
func view(s session, actor Actor, cookie string) Session {
	return Session{Actor: actor, Opened: s.Opened, Expires: s.Opened.Add(sessionLife),
		name: sessionItems + hashOf(cookie), passkey: s.Passkey, epoch: s.Epoch, key: formKey(cookie)}
}

// asOperator returns the operator of the session. A link with the viewer's role stays limited to that role.
func asOperator(s session, by Actor) Actor {
	if s.Role == RoleViewer {
		by.Role = RoleViewer
	}
	return by
}

// SignInOperator opens a session for an operator token. It returns web.ErrNotFound if the token is not valid;
// the caller counts such failures.
func (r *Registry) SignInOperator(
	ctx context.Context, text string, audit AuditOf[Session],
) (cookie string, s Session, err error) {
	o, err := r.FindOperator(ctx, text)
	if err != nil {
		return "", Session{}, err
	}
	by := o.Actor()
	return r.open(ctx, session{Kind: KindOperator, ID: o.ID}, &by, kv.Tx{}, audit)
}

// Session returns the session of a cookie. It returns ErrNoSession if there is no session, or if it has
// ended. It reads the store each time, so the end of a session takes effect immediately.
func (r *Registry) Session(ctx context.Context, cookie string) (Session, error) {
	if !integration.WellFormed(cookiePrefix, cookie) {
		return Session{}, ErrNoSession
	}
	name, now := sessionItems+hashOf(cookie), r.now()
	s, version, err := read[session](ctx, r, name)
	if errors.Is(err, web.ErrNotFound) || err == nil && !now.Before(s.ends()) {
		err = ErrNoSession
	}
	if err != nil {
		return Session{}, err
	}
	actor, err := r.holder(ctx, s, cookie)
	if err != nil {
		return Session{}, err
	}
	if now.Sub(s.Seen) >= idleStep {
		s.Seen = now.UTC()
		r.move(ctx, name, version, s)
	}
	return view(s, actor, cookie), nil
}

// holder returns the current user of the session.
func (r *Registry) holder(ctx context.Context, s session, cookie string) (actor Actor, err error) {
	if s.Kind == KindMember {
		m, err := r.Member(ctx, s.Publisher, s.ID)
		if errors.Is(err, web.ErrNotFound) || err == nil && !view(s, m.Actor(), cookie).of(m) {
			err = ErrNoSession
		}
		return m.Actor(), err
	}
	if s.By == nil {
		return Actor{}, ErrNoSession
	}
	by, err := r.findGranter(ctx, *s.By, cookie)
	switch {
	case errors.Is(err, ErrSpent) || err == nil && by.Kind != KindOperator:
		return Actor{}, ErrNoSession
	case err != nil:
		return Actor{}, err
	case s.Kind == KindOperator:
		return asOperator(s, by), nil
	}
	return s.actor(), nil
}

// actor returns the user of the session according to its record.
func (s session) actor() Actor {
	a := Actor{Kind: s.Kind, ID: s.ID, Name: s.Name, Role: s.Role, Publisher: s.Publisher}
	if s.Kind == KindLink {
		a.Token = s.By.ID
	}
	return a
}

// move updates the time of the session's last request. If that fails, the session only ends earlier than
// necessary: a concurrent change of the record has priority.
func (r *Registry) move(ctx context.Context, name, version string, s session) {
	p, err := put(r, name, s, s.ends())
	if err != nil {
		return
	}
	_ = r.commit(ctx, kv.Tx{Checks: []kv.Check{{Name: name, Tx: version}}, Puts: []kv.Put{p}})
}

// SignOut ends the session of a cookie. A cookie without a session is no error.
func (r *Registry) SignOut(ctx context.Context, cookie string, audit ...kv.Put) error {
	if !integration.WellFormed(cookiePrefix, cookie) {
		return nil
	}
	return r.commit(ctx, kv.Tx{Deletes: []string{sessionItems + hashOf(cookie)}, Puts: audit})
}

// formKey returns the key of a session's form tokens. It is derived from the cookie, which is not stored, so
// a reader of the store cannot forge a token.
func formKey(cookie string) []byte { return tag([]byte(cookie), "form key") }

// FormToken returns the token for a form of this session and action. Forms of other sessions or actions have
// other tokens.
func (s Session) FormToken(action string) string {
	return base64.RawURLEncoding.EncodeToString(tag(s.key, action))
}

// CheckForm reports, in constant time, whether token is the FormToken of the action.
func (s Session) CheckForm(action, token string) bool {
	return len(s.key) > 0 && hmac.Equal([]byte(token), []byte(s.FormToken(action)))
}

func tag(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}
