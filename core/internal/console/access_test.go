package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core/internal/console"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// access has one actor for each cookie.
type access struct {
	actors map[string]operate.Actor // by cookie
	now    func() time.Time
	noKeys bool // no passkeys here
	down   error
	did    []string
}

var actors = map[string]operate.Actor{
	"operator": {Kind: operate.KindOperator, ID: "configuration", Name: "configuration",
		Role: operate.RoleOperator},
	"watcher": {Kind: operate.KindOperator, ID: "op_2", Name: "Support desk", Role: operate.RoleViewer},
	"admin": {Kind: operate.KindMember, ID: "mem_admin", Name: "Ada Byron", Role: operate.RoleAdmin,
		Publisher: mineID},
	"developer": {Kind: operate.KindMember, ID: "mem_developer", Name: "Grace Hopper",
		Role:      operate.RoleDeveloper,
		Publisher: mineID},
	"viewer": {Kind: operate.KindMember, ID: "mem_viewer", Name: "Annie Easley", Role: operate.RoleViewer,
		Publisher: mineID},
	"other": {Kind: operate.KindMember, Name: "Radia Perlman", Role: operate.RoleAdmin, Publisher: othersID},
	// This member signed in a while ago.
	"late": {Kind: operate.KindMember, ID: "mem_late", Name: "Mary Jackson", Role: operate.RoleDeveloper,
		Publisher: mineID},
	"newcomer": {Kind: operate.KindLink, ID: "link_1", Name: "sign-in link", Role: operate.RoleAdmin,
		Publisher: newID},
}

// forms makes tokens that depend on the session and the action.
type forms string

func (f forms) FormToken(action string) string {
	sum := sha256.Sum256([]byte(string(f) + "/" + action))
	return hex.EncodeToString(sum[:8])
}

func (f forms) CheckForm(action, token string) bool { return token == f.FormToken(action) }

func (a *access) Session(_ context.Context, cookie string) (console.Session, error) {
	if a.down != nil {
		return console.Session{}, a.down
	}
	who, ok := a.actors[cookie]
	if !ok {
		return console.Session{}, console.ErrNoSession
	}
	return console.Session{Actor: who, Expires: a.now().Add(12 * time.Hour), Forms: forms(cookie)}, nil
}

func (a *access) open(ctx context.Context, cookie string) (string, console.Session, error) {
	s, err := a.Session(ctx, cookie)
	return cookie, s, err
}

func (a *access) SignInOperator(ctx context.Context, _ netip.Addr, token string) (string, console.Session,
	error) {
	switch token {
	case "right":
		return a.open(ctx, "operator")
	case "often":
		return "", console.Session{}, &web.Error{Code: web.RateLimited, RetryAfter: 30,
			Message: "Too many wrong tokens from your address. " +
				"Try again in a minute."}
	}
	return "", console.Session{}, &web.Error{
		Code:    web.Unauthorized,
		Message: "This operator token is not valid.",
	}
}

const options = `{"challenge":"AAAA","rpId":"verify.example","user":{"id":"AAAA","name":"a","displayName":"a"}}`

func (a *access) BeginSignIn(context.Context) (console.Ceremony, error) {
	if a.noKeys {
		return console.Ceremony{}, console.ErrNoPasskeys
	}
	return console.Ceremony{Options: options, Form: "vrg_form_1"}, a.down
}

func (a *access) SignIn(ctx context.Context, _, answer string) (string, console.Session, error) {
	if answer != "good" {
		return "", console.Session{}, &web.Error{
			Code:    web.Unauthorized,
			Message: "No member has this passkey.",
		}
	}
	return a.open(ctx, "admin")
}

func (a *access) Invitation(_ context.Context, secret string) (console.Invited, console.Ceremony, error) {
	i := console.Invited{Publisher: "Nordlicht Spirits", Name: "Karen Jones", Role: operate.RoleDeveloper,
		Expires: a.now().Add(20 * time.Hour)}
	switch {
	case secret != "vrg_inv_good":
		return console.Invited{}, console.Ceremony{}, &web.Error{Code: web.TokenExpired,
			Message: "The invitation was used, was withdrawn, or is too old. Ask for another one."}
	case a.noKeys:
		return i, console.Ceremony{}, console.ErrNoPasskeys
	}
	return i, console.Ceremony{Options: options, Form: "vrg_form_2"}, nil
}

func (a *access) Enrol(ctx context.Context, secret, _, name, answer string) (string, console.Session, error) {
	if name == "" {
		return "", console.Session{}, &web.Error{
			Code: web.InvalidRequest,
			Details: []web.FieldError{{Field: "name",
				Code:    "required",
				Message: "Write your name."}},
		}
	}
	if answer != "good" {
		return "", console.Session{}, &web.Error{
			Code:    web.Unauthorized,
			Message: "The passkey was not created. Try again.",
		}
	}
	return a.open(ctx, "developer")
}

func (a *access) Link(_ context.Context, secret string) (console.Linked, error) {
	if secret != "vrg_in_good" {
		return console.Linked{}, &web.Error{
			Code:    web.TokenExpired,
			Message: "The link was used, or is too old.",
		}
	}
	return console.Linked{Publisher: "Brandneu", Role: operate.RoleAdmin,
		Expires: a.now().Add(5 * time.Minute)}, nil
}

func (a *access) UseLink(ctx context.Context, secret string) (string, console.Session, error) {
	if _, err := a.Link(ctx, secret); err != nil {
		return "", console.Session{}, err
	}
	return a.open(ctx, "newcomer")
}

func (a *access) SignOut(_ context.Context, cookie string) error {
	delete(a.actors, cookie)
	return nil
}

func (a *access) Passkeys(_ context.Context, cookie string) ([]operate.Passkey, console.Ceremony, error) {
	day := a.now().Add(-50 * 24 * time.Hour)
	all := []operate.Passkey{{ID: "psk_1", Created: day, LastUsed: &day},
		{ID: "psk_2", Name: "phone", Created: day}}
	if cookie == "late" {
		return all, console.Ceremony{SignInFirst: true}, nil
	}
	return all, console.Ceremony{Options: options, Form: "vrg_form_3"}, nil
}

func (a *access) Sessions(context.Context, string) ([]pages.SignedIn, error) {
	now, phone := a.now(), operate.Passkey{ID: "psk_2", Name: "phone"}
	return []pages.SignedIn{
		{ID: "con_2", Since: now.Add(-5 * time.Minute), Seen: now, Passkey: phone, Current: true},
		{ID: "con_1", Since: now.Add(-3 * time.Hour), Seen: now.Add(-time.Hour), Passkey: phone}}, nil
}

func (a *access) EndSession(_ context.Context, _, id string) error {
	if id != "con_1" {
		return web.ErrNotFound
	}
	a.did = append(a.did, "end "+id)
	return nil
}

func (a *access) AddPasskey(_ context.Context, _, _, _, answer string) error {
	if answer != "good" {
		return &web.Error{Code: web.Unauthorized, Message: "The passkey was not created. Try again."}
	}
	a.did = append(a.did, "add")
	return nil
}

func (a *access) RemovePasskey(_ context.Context, _, id string) error {
	a.did = append(a.did, "remove "+id)
	return nil
}
