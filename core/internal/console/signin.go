package console

import (
	"errors"

	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// landing returns the first page after sign-in.
func landing(who operate.Actor) string {
	if who.Operator() {
		return pages.Path("publishers")
	}
	return pages.PublisherPath(who.Publisher)
}

func home(v *visit) (view, error) { return view{raw: v.see(landing(v.who()))}, nil }

// Parameters of addresses that package operate creates.
const (
	invitationParam = "invitation"
	linkParam       = "link"
)

const noPasskeys = "Passkeys need a host name, and this service has an IP address."

func showSignIn(v *visit) (view, error) {
	d := pages.SignInData{Next: v.query.Get("next")}
	if v.form != nil {
		d.Next = v.form.Get("next")
	}
	if !local(d.Next) {
		d.Next = ""
	}
	if v.query.Has("out") {
		v.note = note{Tone: pages.Idle, Text: "You are signed out."}
	}
	ceremony, err := v.Access.BeginSignIn(v.ctx)
	switch {
	case errors.Is(err, ErrNoPasskeys):
		d.Off = noPasskeys
	case err != nil:
		return view{}, err
	}
	d.Options, d.State = ceremony.Options, ceremony.Form
	f := v.frame("Sign in")
	f.Script = d.Off == ""
	return view{frame: f, body: pages.SignIn(f, d)}, nil
}

// enter returns the next page of a session that was just opened.
func (v *visit) enter(cookie string, s Session, err error) (next, error) {
	if err != nil {
		return next{}, err
	}
	to := landing(s.Actor)
	if wanted := v.form.Get("next"); local(wanted) {
		to = wanted
	}
	text := "You are signed in as " + s.Actor.Name + "."
	if s.Actor.Kind == operate.KindOperator { // the name belongs to a token, perhaps of a program
		text = "You are signed in as " + string(s.Actor.Role) + ", with the token " + s.Actor.Name + "."
		switch {
		case v.Dev: // whose operator token belongs to one developer
			text = "You are signed in as " + string(s.Actor.Role) + "."
		case s.Actor.ID == operate.Configured:
			text = "You are signed in with the token of the configuration. Give each operator a " +
				"token of their own."
		}
	}
	if s.Actor.Name == "" {
		text = "You are signed in as " + string(s.Actor.Role) + ", with a sign-in link."
	}
	return next{path: to, note: done(text), cookie: cookie, opened: s}, nil
}

func signIn(v *visit) (next, error) {
	cookie, s, err := v.Access.SignInOperator(v.ctx, v.req.Client, v.must("token"))
	return v.enter(cookie, s, err)
}

func signInPasskey(v *visit) (next, error) {
	cookie, s, err := v.Access.SignIn(v.ctx, v.form.Get("state"), v.form.Get("credential"))
	return v.enter(cookie, s, err)
}

func showInvitation(v *visit) (view, error) {
	secret := v.query.Get(invitationParam)
	if v.form != nil {
		secret = v.form.Get("token")
	}
	i, ceremony, err := v.Access.Invitation(v.ctx, secret)
	d := pages.InvitationData{Token: secret, Publisher: i.Publisher, Name: i.Name, Role: i.Role,
		Until: day(i.Expires), Options: ceremony.Options, State: ceremony.Form}
	switch {
	case errors.Is(err, ErrNoPasskeys):
		d.Off = noPasskeys
	case err != nil:
		return view{}, err
	}
	f := v.frame("Join " + i.Publisher)
	f.Script = d.Off == ""
	return view{frame: f, body: pages.Invitation(f, d)}, nil
}

func enrol(v *visit) (next, error) {
	cookie, s, err := v.Access.Enrol(v.ctx, v.form.Get("token"), v.form.Get("state"), v.must("name"),
		v.form.Get("credential"))
	to, err := v.enter(cookie, s, err)
	to.note.Text = "Welcome. Your passkey was created, and you are signed in."
	return to, err
}

func showLink(v *visit) (view, error) {
	secret := v.query.Get(linkParam)
	if v.form != nil {
		secret = v.form.Get("token")
	}
	l, err := v.Access.Link(v.ctx, secret)
	if err != nil {
		return view{}, err
	}
	f := v.frame("Sign in")
	f.Script = v.Dev
	return view{frame: f, body: pages.Link(f, pages.LinkData{Token: secret,
		Publisher: l.Publisher, Role: l.Role, At: v.Dev && v.form == nil, Until: day(l.Expires)})}, nil
}

func useLink(v *visit) (next, error) {
	cookie, s, err := v.Access.UseLink(v.ctx, v.form.Get("token"))
	return v.enter(cookie, s, err)
}

func showAccount(v *visit) (view, error) {
	d := pages.AccountData{Until: day(v.session.Expires)}
	if v.who().Kind == operate.KindMember {
		passkeys, ceremony, err := v.Access.Passkeys(v.ctx, v.cookie)
		if err != nil {
			return view{}, err
		}
		d.Passkeys, d.Options, d.State = passkeys, ceremony.Options, ceremony.Form
		d.SignInFirst = ceremony.SignInFirst
		if d.Sessions, err = v.Access.Sessions(v.ctx, v.cookie); err != nil {
			return view{}, err
		}
	}
	f := v.frame("You")
	f.Script = d.Options != ""
	return view{frame: f, body: pages.Account(f, d)}, nil
}

// signedOutPath is the page after a sign-out.
var signedOutPath = pages.Path("sign-in") + "?out=1"

func signOut(v *visit) (next, error) {
	if err := v.Access.SignOut(v.ctx, v.cookie); err != nil {
		return next{}, err
	}
	return next{path: signedOutPath, over: true}, nil
}

func signOutEverywhere(v *visit) (next, error) {
	if _, err := v.Operations.SignOutMember(v.ctx, v.who(), v.who().ID); err != nil {
		return next{}, err
	}
	return next{path: signedOutPath, over: true}, nil
}

func endSession(v *visit) (next, error) {
	err := v.Access.EndSession(v.ctx, v.cookie, v.form.Get("session"))
	if errors.Is(err, web.ErrNotFound) {
		err = &web.Error{Code: web.InvalidRequest, Message: "This session has already ended."}
	}
	return next{path: pages.Path("account"), note: done("The session was signed out.")}, err
}

// members returns a form that rejects people without passkeys.
func members(do func(*visit) (next, error)) func(*visit) (next, error) {
	return func(v *visit) (next, error) {
		if v.who().Kind != operate.KindMember {
			return next{}, &web.Error{Code: web.InvalidRequest,
				Message: "Only members of a publisher have passkeys and other sessions."}
		}
		return do(v)
	}
}

func addPasskey(v *visit) (next, error) {
	err := v.Access.AddPasskey(v.ctx, v.cookie, v.form.Get("state"), v.must("name"), v.form.Get("credential"))
	return next{path: pages.Path("account"),
		note: done("The passkey was added. You can sign in with it.")}, err
}

func removePasskey(v *visit) (next, error) {
	err := v.Access.RemovePasskey(v.ctx, v.cookie, v.form.Get("passkey"))
	return next{path: pages.Path("account"),
		note: done("The passkey was removed, and its sessions have ended.")}, err
}
