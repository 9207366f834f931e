package operate

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/member"
	"github.com/verge-id/verge/core/webauthn"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// Who may sign a member out sees in how many browsers the member is signed in, and when one was used last
// (contract 43). Others see nothing of it.
func TestAdminsSeeTheSessionsOfMembers(t *testing.T) {
	w := newWorld(t)
	rp, err := webauthn.NewRelyingParty("verify.verge.example", "Verge", w.BaseURL)
	coretest.Must(t, err)
	w.People = member.New(w.Host.Host, member.Config{OperatorToken: "op_only_for_tests_long_enough", Passkeys: &rp})
	device := passkeytest.New(w.BaseURL)
	w.enrols(t, device)
	w.Clock.Advance(10 * time.Minute)
	ceremony, err := w.People.BeginSignIn()
	coretest.Must(t, err)
	answer, err := device.Get(ceremony.Options)
	coretest.Must(t, err)
	_, _, err = w.People.SignIn(ctx, ceremony.Form, answer.JSON(), nil)
	coretest.Must(t, err)
	now := w.Clock.Now().UTC()

	look := func(who Actor) Member {
		page, err := w.Members(ctx, who, pubA, Cursor{})
		coretest.Must(t, err)
		if len(page.Items) != 1 {
			t.Fatalf("%s sees %d members, want 1", who.Role, len(page.Items))
		}
		return page.Items[0]
	}
	for _, who := range []Actor{operator, admin} {
		s := look(who).Sessions
		if s == nil || s.Count != 2 || s.LastUsed == nil || !s.LastUsed.Equal(now) {
			t.Errorf("contract 43: an actor of kind %s sees %+v, want 2 sessions, used at %s", who.Kind, s, now)
		}
	}
	for _, who := range []Actor{developer, viewer} {
		if s := look(who).Sessions; s != nil {
			t.Errorf("contract 43: a %s sees %+v, want nothing", who.Role, s)
		}
	}
	_, err = w.SignOutMember(ctx, admin, look(admin).ID)
	coretest.Must(t, err)
	if s := look(admin).Sessions; s == nil || s.Count != 0 || s.LastUsed != nil {
		t.Errorf("contract 43: after a sign-out everywhere: %+v, want no session", s)
	}
}

// enrols makes a member of publisher A who has that device, and a session.
func (w *world) enrols(t *testing.T, device *passkeytest.Authenticator) {
	t.Helper()
	secret, _, err := w.People.Invite(ctx, member.Actor(operator), pubA, "Ina", RoleViewer, nil)
	coretest.Must(t, err)
	_, ceremony, err := w.People.BeginEnrolment(ctx, secret, "Ina")
	coretest.Must(t, err)
	made, err := device.Create(ceremony.Options)
	coretest.Must(t, err)
	_, _, err = w.People.Enrol(ctx, secret, ceremony.Form, "Ina", made.JSON(), nil)
	coretest.Must(t, err)
}
