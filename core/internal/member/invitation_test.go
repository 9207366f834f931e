package member

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// spentFor fails the test if the secret is still valid in any way.
func (w *fixture) spentFor(t *testing.T, rule, secret string) {
	t.Helper()
	if i, err := w.ReadInvitation(ctx, secret); err != ErrSpent || i != (Invitation{}) {
		t.Errorf("%s: ReadInvitation returned %+v, %v", rule, i, err)
	}
	if p, err := w.enrolBy(t, secret); err != ErrSpent || p.cookie != "" {
		t.Errorf("%s: it makes %+v, %v", rule, p.Actor, err)
	}
}

func TestInvitation_WorksOnce(t *testing.T) {
	w := newFixture(t)
	secret, _ := w.invite(t, root, "pub_a", RoleAdmin)
	_, again, err := w.BeginEnrolment(ctx, secret, "Ada")
	coretest.Must(t, err)
	_, err = w.enrolBy(t, secret)
	coretest.Must(t, err)

	w.spentFor(t, "contract 43: an invitation that was used", secret)
	cookie, s, err := w.Enrol(ctx, secret, again.Form, "Eve", newDevice(t).create(t, again), nil)
	notTwice(t, "contract 43: a page of the invitation that was open before", cookie, s, err, ErrSpent)
	if all, _, err := w.Members(ctx, "pub_a", "", 10); err != nil || len(all) != 1 {
		t.Errorf("contract 43: members: %+v, %v", all, err)
	}
}

func TestInvitation_ConcurrentUse(t *testing.T) {
	w := newFixture(t)
	secret, _ := w.invite(t, root, "pub_a", RoleAdmin)
	_, c, err := w.BeginEnrolment(ctx, secret, "Ada")
	coretest.Must(t, err)
	answer := newDevice(t).create(t, c)
	var first person
	w.between(func() {
		first, err = w.enrolBy(t, secret)
		coretest.Must(t, err)
	})
	cookie, s, err := w.Enrol(ctx, secret, c.Form, "Eve", answer, nil)
	notTwice(t, "contract 43: the slower of two", cookie, s, err, ErrSpent)
	w.opens(t, "contract 43: the faster of two", first.cookie)
	if all, _, err := w.Members(ctx, "pub_a", "", 10); err != nil || len(all) != 1 || all[0].ID != first.ID {
		t.Errorf("contract 43: members: %+v, %v", all, err)
	}
	if n := len(w.items(t, sessionItems)); n != 1 {
		t.Errorf("contract 43: %d sessions, want one", n)
	}
}

// The store can apply the first try of a commit after the second one (kv.ErrUnknown), when the record has
// been used and deleted.
func TestCreate_LateCommit(t *testing.T) {
	w := newFixture(t)
	w.fail(kvtest.Delay)
	secret, _ := w.invite(t, root, "pub_a", RoleAdmin)
	_, err := w.enrolBy(t, secret)
	coretest.Must(t, err)
	w.Store.Deliver(ctx)
	w.spentFor(t, "contract 43: an invitation that was used before its first commit arrives", secret)

	w.fail(kvtest.Delay)
	link, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleAdmin, nil)
	coretest.Must(t, err)
	_, _, err = w.UseLink(ctx, link, nil)
	coretest.Must(t, err)
	w.Store.Deliver(ctx)
	cookie, s, err := w.UseLink(ctx, link, nil)
	notTwice(t, "contract 43: a link that was used before its first commit arrives", cookie, s, err, ErrSpent)

	w.fail(kvtest.Delay)
	cookie, _, err = w.SignInOperator(ctx, configuredToken, nil)
	coretest.Must(t, err)
	coretest.Must(t, w.SignOut(ctx, cookie))
	w.Store.Deliver(ctx)
	w.gone(t, "contract 43: a session that was signed out before its first commit arrives", cookie)
}

func TestInvitation_Life(t *testing.T) {
	w := newFixture(t)
	secret, _ := w.invite(t, root, "pub_a", RoleAdmin)
	w.Clock.Advance(24*time.Hour - 4*time.Minute)
	_, open, err := w.BeginEnrolment(ctx, secret, "Ada")
	coretest.Must(t, err)
	w.Clock.Advance(4*time.Minute - time.Millisecond)
	if _, err := w.ReadInvitation(ctx, secret); err != nil {
		t.Errorf("contract 43: just before its end: %v", err)
	}
	w.Clock.Advance(time.Millisecond)
	w.spentFor(t, "contract 43: after 24 hours", secret)
	_, _, err = w.Enrol(ctx, secret, open.Form, "Ada", newDevice(t).create(t, open), nil)
	if err != ErrSpent {
		t.Errorf("contract 43: a page that was open when it ended: %v", err)
	}
}

// An invitation ends on time even if the store's clock is late and still has it.
func TestInvitation_StoreWithLateClock(t *testing.T) {
	w := newFixture(t)
	secret, i := w.invite(t, root, "pub_a", RoleAdmin)
	name := invitationItems + hashOf(secret)
	item, err := w.Memory.Get(ctx, key(name))
	coretest.Must(t, err)
	w.plant(t, name, item.Value) // without an expiry
	w.Clock.Advance(invitationLife)
	w.spentFor(t, "contract 43: after 24 hours", secret)
	if err := w.Withdraw(ctx, "pub_a", i.ID); err != web.ErrNotFound {
		t.Errorf("contract 43: withdrawn after its end: %v", err)
	}
}

func TestInvitation_Malformed(t *testing.T) {
	w := newFixture(t)
	secret, _ := w.invite(t, root, "pub_a", RoleAdmin)
	link, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleAdmin, nil)
	coretest.Must(t, err)
	never, err := newSecret(w, invitationPrefix)
	coretest.Must(t, err)
	calls := w.Store.Calls()
	for name, text := range map[string]string{
		"nothing": "", "a part": secret[:len(secret)-1], "more": secret + "0", "a link's": link,
		"its hash": hashOf(secret), "a typing error": secret[:20] + string(secret[20]^1) + secret[21:],
		"a path":         invitationPrefix + "../../c/mem/",
		"another prefix": linkPrefix + secret[len(invitationPrefix):],
	} {
		if i, err := w.ReadInvitation(ctx, text); err != ErrSpent {
			t.Errorf("contract 43: %s: ReadInvitation returned %+v, %v", name, i, err)
		}
	}
	if n := w.Store.Calls() - calls; n != 0 {
		t.Errorf("contract 12: %d store calls for malformed secrets", n)
	}
	if _, err := w.ReadInvitation(ctx, never); err != ErrSpent {
		t.Errorf("contract 43: an unknown secret: %v", err)
	}
}

func TestInvitation_Withdrawn(t *testing.T) {
	w := newFixture(t)
	secret, i := w.invite(t, root, "pub_a", RoleAdmin)
	for _, c := range []struct{ publisher, id string }{
		{"pub_b", i.ID}, {"pub_a", ""}, {"pub_a", "inv_"}, {"pub_a", "inv_0000000000000000"},
		{"pub_a", hashOf(secret)}, {"pub_a", "op_" + i.ID[4:]}, {"pub_a", i.ID[:10]},
	} {
		if err := w.Withdraw(ctx, c.publisher, c.id); err != web.ErrNotFound {
			t.Errorf("contract 43: %s withdraws %q: %v", c.publisher, c.id, err)
		}
	}
	if _, err := w.ReadInvitation(ctx, secret); err != nil {
		t.Fatalf("contract 43: withdrawn by another publisher: %v", err)
	}
	coretest.Must(t, w.Withdraw(ctx, "pub_a", i.ID, kv.Put{Name: "c/aud/x", Value: mark}))
	w.spentFor(t, "contract 43: an invitation that was withdrawn", secret)
	if len(w.items(t, "c/aud/")) != 1 || len(w.items(t, "c/of/inv/pub_a/")) != 0 {
		t.Errorf("contract 43: the withdrawal left %v", w.items(t, "c/"))
	}
	if err := w.Withdraw(ctx, "pub_a", i.ID); err != web.ErrNotFound {
		t.Errorf("contract 43: withdrawn twice: %v", err)
	}

	secret, i = w.invite(t, root, "pub_a", RoleAdmin)
	w.between(func() {
		_, err := w.enrolBy(t, secret)
		coretest.Must(t, err)
	})
	if err := w.Withdraw(ctx, "pub_a", i.ID); err != web.ErrNotFound {
		t.Errorf("contract 43: withdrawn while it was used: %v, want an error, since it was used", err)
	}
}

// Contract 43: an invitation and a link end when their creator loses the right to create them.
func TestInvitation_CreatorLosesRight(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(w *fixture, maker person) error
	}{
		{"removed", func(w *fixture, maker person) error { return w.Remove(ctx, root, maker.ID, nil) }},
		{"no longer an admin", func(w *fixture, maker person) error {
			_, err := w.ChangeRole(ctx, root, maker.ID, RoleDeveloper, nil)
			return err
		}},
	} {
		w := newFixture(t)
		maker := w.enrol(t, "pub_a", RoleAdmin)
		secret, _ := w.invite(t, maker.Actor, "pub_a", RoleAdmin)
		if _, err := w.ReadInvitation(ctx, secret); err != nil {
			t.Errorf("contract 43: an admin's invitation: %v", err)
		}
		coretest.Must(t, c.end(w, maker))
		w.spentFor(t, "contract 43: the invitation of an admin: "+c.name, secret)
	}

	w := newFixture(t)
	maker := w.enrol(t, "pub_b", RoleAdmin)
	secret, _ := w.invite(t, maker.Actor, "pub_a", RoleAdmin)
	w.spentFor(t, "contract 43: the invitation of another publisher's admin", secret)
	secret, _ = w.invite(t, Actor{Kind: "file", ID: "file"}, "pub_a", RoleAdmin)
	w.spentFor(t, "contract 43: the invitation of a kind of actor that may not invite", secret)
	secret, _ = w.invite(t, w.viaLink(t, root).Actor, "pub_a", RoleViewer)
	_, err := w.enrolBy(t, secret)
	coretest.Must(t, err)

	_, ci, err := w.CreateOperator(ctx, "ci", RoleOperator, nil, nil)
	coretest.Must(t, err)
	secret, _ = w.invite(t, ci.Actor(), "pub_a", RoleAdmin)
	byLink, _ := w.invite(t, w.viaLink(t, ci.Actor()).Actor, "pub_a", RoleAdmin)
	for _, secret := range []string{secret, byLink} {
		if _, err := w.ReadInvitation(ctx, secret); err != nil {
			t.Errorf("contract 43: an operator's invitation: %v", err)
		}
	}
	_, err = w.RevokeOperator(ctx, ci.ID)
	coretest.Must(t, err)
	w.spentFor(t, "contract 43: the invitation of a revoked token", secret)
	w.spentFor(t, "contract 43: the invitation by a link of a revoked token", byLink)

	_, viewer, err := w.CreateOperator(ctx, "wall", RoleViewer, nil, nil)
	coretest.Must(t, err)
	secret, _ = w.invite(t, viewer.Actor(), "pub_a", RoleAdmin)
	w.spentFor(t, "contract 43: the invitation of a read-only operator", secret)

	secret, _ = w.invite(t, root, "pub_a", RoleAdmin)
	byLink, _ = w.invite(t, w.viaLink(t, root).Actor, "pub_a", RoleAdmin)
	w.OperatorToken = "another token in the configuration"
	w.spentFor(t, "contract 43: the invitation of a configured token that was replaced", secret)
	w.spentFor(t, "contract 43: the invitation by a link of a configured token that was replaced", byLink)
	w.OperatorToken = ""
	w.spentFor(t, "contract 43: the invitation of a configured token that was removed", secret)
	w.OperatorToken = configuredToken
	if _, err := w.ReadInvitation(ctx, secret); err != nil {
		t.Errorf("contract 43: with the same token in the configuration again: %v", err)
	}
}

func TestInvitations(t *testing.T) {
	w := newFixture(t)
	var want []Invitation
	for range 5 {
		_, i := w.invite(t, root, "pub_a", RoleViewer)
		want = append(want, i)
		w.invite(t, root, "pub_b", RoleViewer)
	}
	slices.SortFunc(want, func(a, b Invitation) int { return strings.Compare(a.ID, b.ID) })
	var got []Invitation
	for after := ""; ; {
		some, next, err := w.Invitations(ctx, "pub_a", after, 2)
		coretest.Must(t, err)
		got = append(got, some...)
		if next == "" {
			break
		}
		after = next
	}
	if !slices.Equal(got, want) {
		t.Errorf("contract 43: listed %+v, want %+v", got, want)
	}
	if _, _, err := w.Invitations(ctx, "pub_a", "inv_x", 2); !wrongMember(err, "after") {
		t.Errorf("an invented cursor: %v", err)
	}
	w.Clock.Advance(invitationLife)
	if some, _, err := w.Invitations(ctx, "pub_a", "", 10); err != nil || len(some) != 0 {
		t.Errorf("contract 43: listed after their end: %+v, %v", some, err)
	}
}

func TestRegistry_InvalidValues(t *testing.T) {
	w := newFixture(t)
	past := w.Clock.Now()
	for _, c := range []struct {
		name    string
		members []string // that are invalid
		do      func() error
	}{
		{"a role of operators for a member", []string{"role"}, func() error {
			_, _, err := w.Invite(ctx, root, "pub_a", "", RoleOperator, nil)
			return err
		}},
		{"no role", []string{"role"}, func() error {
			_, _, err := w.Invite(ctx, root, "pub_a", "Ada", "", nil)
			return err
		}},
		{"a name with an invisible character", []string{"name"}, func() error {
			_, _, err := w.Invite(ctx, root, "pub_a", "Ada\u202etpircs", RoleAdmin, nil)
			return err
		}},
		{"a name of two lines, and an unknown role", []string{"name", "role"}, func() error {
			_, _, err := w.Invite(ctx, root, "pub_a", "Ada\nRoot", "root", nil)
			return err
		}},
		{"a name that is no UTF-8", []string{"name"}, func() error {
			_, _, err := w.Invite(ctx, root, "pub_a", "\xff", RoleAdmin, nil)
			return err
		}},
		{"a name with five marks on a character", []string{"name"}, func() error {
			_, _, err := w.Invite(ctx, root, "pub_a", "A"+strings.Repeat("\u0301", 5), RoleAdmin, nil)
			return err
		}},
		{"a name with space at its ends", nil, func() error {
			_, _, err := w.Invite(ctx, root, "pub_a", " Ada ", RoleAdmin, nil)
			return err
		}},
		{"a name of 101 characters", []string{"name"}, func() error {
			_, _, err := w.MakeLink(ctx, root, "pub_a", strings.Repeat("ä", 101), RoleAdmin, nil)
			return err
		}},
		{"a name of 100 characters, with a joiner", nil, func() error {
			_, _, err := w.MakeLink(ctx, root, "pub_a", strings.Repeat("ä", 99)+"\u200c", RoleAdmin, nil)
			return err
		}},
		{"a link to a publisher with an operator's role", []string{"role"}, func() error {
			_, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleOperator, nil)
			return err
		}},
		{"a link to all publishers with a member's role", []string{"role"}, func() error {
			_, _, err := w.MakeLink(ctx, root, "", "", RoleAdmin, nil)
			return err
		}},
		{"an operator token without a name, with a member's role, that has ended",
			[]string{"name", "role", "expires"}, func() error {
				_, _, err := w.CreateOperator(ctx, " ", RoleAdmin, &past, nil)
				return err
			}},
		{"an operator token by the name of the configured one", []string{"name"}, func() error {
			_, _, err := w.CreateOperator(ctx, Configured, RoleOperator, nil, nil)
			return err
		}},
		{"a member's new role", []string{"role"}, func() error {
			_, err := w.ChangeRole(ctx, root, "mem_x", RoleOperator, nil)
			return err
		}},
	} {
		if err := c.do(); !wrongMember(err, c.members...) {
			t.Errorf("contract 5: %s: %v, want errors in %v", c.name, err, c.members)
		}
	}
}

// wrongMember reports whether err lists exactly these fields as invalid.
func wrongMember(err error, members ...string) bool {
	list, ok := errors.AsType[problem.List](err)
	if !ok {
		return err == nil && len(members) == 0
	}
	var got []string
	for _, p := range list {
		got = append(got, p.Member)
	}
	return slices.Equal(got, members)
}
