package member

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/web"
)

func TestSessions_ListAndEnd(t *testing.T) {
	w := newFixture(t)
	p, other := w.enrol(t, "pub_a", RoleAdmin), w.enrol(t, "pub_a", RoleAdmin)
	w.Clock.Advance(10 * time.Minute)
	second, s, err := w.signIn(t, p.device)
	coretest.Must(t, err)
	all, err := w.Sessions(ctx, s)
	if err != nil || len(all) != 2 {
		t.Fatalf("contract 43: %+v, %v", all, err)
	}
	now := w.Clock.Now().UTC()
	if a := all[0]; !a.Current || !a.Opened.Equal(now) || !a.Seen.Equal(now) || a.Passkey.ID != p.passkey {
		t.Errorf("contract 43: the current session: %+v", a)
	}
	if a := all[1]; a.Current || !a.Opened.Equal(now.Add(-10*time.Minute)) {
		t.Errorf("contract 43: the previous session: %+v", a)
	}

	theirs, err := w.Sessions(ctx, w.opens(t, "the other member", other.cookie))
	if err != nil || len(theirs) != 1 {
		t.Fatalf("contract 43: of the other member: %+v, %v", theirs, err)
	}
	for _, id := range []string{"", "x", "con_", "con_0123456789abcdef", theirs[0].ID, all[1].ID + "0"} {
		if err := w.EndSession(ctx, s, id); !errors.Is(err, web.ErrNotFound) {
			t.Errorf("contract 43: ending %q: %v", id, err)
		}
	}
	w.opens(t, "contract 43: no session has ended", other.cookie)
	m, err := w.Member(ctx, "pub_a", p.ID)
	coretest.Must(t, err)
	seen, _, err := w.SessionsOf(ctx, m)
	if err != nil || len(seen) != 2 || seen[0].ID != all[0].ID || seen[0].Current {
		t.Errorf("contract 43: for an administrator: %+v, %v", seen, err)
	}

	coretest.Must(t, w.EndSession(ctx, s, all[1].ID))
	w.gone(t, "contract 43: the session that was ended", p.cookie)
	w.opens(t, "contract 43: the session that ended it", second)
	if err := w.EndSession(ctx, s, all[1].ID); !errors.Is(err, web.ErrNotFound) {
		t.Errorf("contract 43: a second time: %v", err)
	}
	if all, err = w.Sessions(ctx, s); err != nil || len(all) != 1 || !all[0].Current {
		t.Errorf("contract 43: after that: %+v, %v", all, err)
	}
}

// The list contains only sessions that open the console.
func TestSessions_EndedAreNotListed(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	out, _, err := w.signIn(t, p.device)
	coretest.Must(t, err)
	coretest.Must(t, w.SignOut(ctx, out))
	w.Clock.Advance(30 * time.Minute)
	cookie, s, err := w.signIn(t, p.device)
	coretest.Must(t, err)
	w.Clock.Advance(31 * time.Minute) // the first one was not used for an hour
	if all, err := w.Sessions(ctx, s); err != nil || len(all) != 1 {
		t.Errorf("contract 43: %+v, %v", all, err)
	}
	_, err = w.SignOutEverywhere(ctx, p.Actor, p.ID, nil)
	coretest.Must(t, err)
	w.gone(t, "contract 43: after a sign-out everywhere", cookie)
	if all, err := w.Sessions(ctx, s); err != nil || len(all) != 0 {
		t.Errorf("contract 43: after a sign-out everywhere: %+v, %v", all, err)
	}
}

// A list of many members reads the sessions only of those who can have one.
func TestSessionsOf_Reads(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	look := func(rule string, open, reads int) {
		t.Helper()
		m, err := w.Member(ctx, "pub_a", p.ID)
		coretest.Must(t, err)
		calls := w.Store.Calls()
		all, n, err := w.SessionsOf(ctx, m)
		if err != nil || len(all) != open || n != reads || w.Store.Calls() != calls+reads {
			t.Errorf("contract 43: %s: %d sessions by %d reads, %d calls, %v, want %d by %d", rule, len(all),
				n, w.Store.Calls()-calls, err, open, reads)
		}
	}
	look("just enrolled", 1, 2)
	w.Clock.Advance(sessionLife - time.Second)
	look("the idle session has ended", 0, 2)
	w.Clock.Advance(time.Second)
	look("older than a session can be", 0, 0)
	_, _, err := w.signIn(t, p.device)
	coretest.Must(t, err)
	look("signed in again", 1, 2)
	w.Clock.Advance(sessionLife)
	look("sign-in older than a session can be", 0, 0)
}

// Operators have no passkey and no such list.
func TestSessions_Operator(t *testing.T) {
	w := newFixture(t)
	_, s, err := w.SignInOperator(ctx, configuredToken, nil)
	coretest.Must(t, err)
	if all, err := w.Sessions(ctx, s); !errors.Is(err, web.ErrNotFound) || all != nil {
		t.Errorf("contract 43: %+v, %v", all, err)
	}
	if err := w.EndSession(ctx, s, "con_0123456789abcdef"); !errors.Is(err, web.ErrNotFound) {
		t.Errorf("contract 43: %v", err)
	}
}
