package operate

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// Actors who may sign a member out see in how many browsers the member is signed in, and the last use
// (contract 43). Others do not.
func TestAdminsSeeTheSessionsOfMembers(t *testing.T) {
	w := newFixture(t)
	rp, err := webauthn.NewRelyingParty("verify.verge.example", "Verge", w.BaseURL)
	coretest.Must(t, err)
	w.People = member.New(w.Host.Host, member.Config{OperatorToken: "op_only_for_tests_long_enough",
		Passkeys: &rp})
	device := passkeytest.New(w.BaseURL)
	w.enrols(t, device)
	w.Clock.Advance(10 * time.Minute)
	w.signsIn(t, device)
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
			t.Errorf("contract 43: an actor of kind %s sees %+v, want 2 sessions, used at %s", who.Kind, s,
				now)
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

// A list of members reads a bounded number of sessions, for any members. A caller that follows Next sees
// every member once.
func TestMembers_Limit(t *testing.T) {
	w := newFixture(t)
	rp, err := webauthn.NewRelyingParty("verify.verge.example", "Verge", w.BaseURL)
	coretest.Must(t, err)
	w.People = member.New(w.Host.Host, member.Config{OperatorToken: "op_only_for_tests_long_enough",
		Passkeys: &rp})
	const members, sessions = 3, 120
	for range members {
		device := passkeytest.New(w.BaseURL)
		w.enrols(t, device)
		for range sessions - 1 {
			w.signsIn(t, device)
		}
	}
	for who, want := range map[*Actor][]int{&operator: {2, 1}, &viewer: {members}} {
		seen := map[string]bool{}
		c := Cursor{}
		for n, items := range want {
			calls := w.Store.Calls()
			page, err := w.Members(ctx, *who, pubA, c)
			coretest.Must(t, err)
			if last := n == len(want)-1; len(page.Items) != items || (page.Next == "") != last {
				t.Fatalf("contract 43: a %s: page %d has %d members, next %q", who.Role, n+1, len(page.Items),
					page.Next)
			}
			if asked := w.Store.Calls() - calls; asked > 2*mostSessionReads {
				t.Errorf("contract 43: a %s: page %d asks the store %d times", who.Role, n+1, asked)
			}
			for _, m := range page.Items {
				seen[m.ID] = true
				if who.May(memberChange) && m.Sessions.Count != 100 {
					t.Errorf("contract 43: %+v, want that 100 are counted", m.Sessions)
				}
			}
			c.After = page.Next
		}
		if len(seen) != members {
			t.Errorf("contract 43: a %s sees %d members, want %d", who.Role, len(seen), members)
		}
	}
}

// signsIn opens a session.
func (w *fixture) signsIn(t *testing.T, device *passkeytest.Authenticator) {
	t.Helper()
	ceremony, err := w.People.BeginSignIn()
	coretest.Must(t, err)
	answer, err := device.Get(ceremony.Options)
	coretest.Must(t, err)
	_, _, err = w.People.SignIn(ctx, ceremony.Form, answer.JSON(), nil)
	coretest.Must(t, err)
}

// enrols makes a member of publisher A who has that device, and a session.
func (w *fixture) enrols(t *testing.T, device *passkeytest.Authenticator) {
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
