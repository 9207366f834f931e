package member

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
)

func newSecret(w *fixture, prefix string) (string, error) {
	return integration.GenerateKey(prefix, w.Host.Random)
}

// spentLink fails the test if the secret still opens the console.
func (w *fixture) spentLink(t *testing.T, rule, secret string) {
	t.Helper()
	if l, err := w.ReadLink(ctx, secret); err != ErrSpent || l != (Link{}) {
		t.Errorf("%s: ReadLink returned %+v, %v", rule, l, err)
	}
	cookie, s, err := w.UseLink(ctx, secret, nil)
	notTwice(t, rule, cookie, s, err, ErrSpent)
}

func TestLink_WorksOnce(t *testing.T) {
	w := newFixture(t)
	secret, l, err := w.MakeLink(ctx, root, "pub_a", "Ada", RoleDeveloper, nil)
	coretest.Must(t, err)
	for range 2 {
		if shown, err := w.ReadLink(ctx, secret); err != nil || shown != l {
			t.Errorf("contract 43: ReadLink returned %+v, %v", shown, err)
		}
	}
	cookie, s, err := w.UseLink(ctx, secret, nil)
	coretest.Must(t, err)
	want := Actor{KindLink, l.ID, "Ada", RoleDeveloper, "pub_a", Configured}
	if got := w.opens(t, "contract 43: a link", cookie); s.Actor != want || got.Actor != want {
		t.Errorf("contract 43: the link opens %+v and then %+v, want %+v", s.Actor, got.Actor, want)
	}
	w.spentLink(t, "contract 43: a link that was used", secret)

	secret, _, err = w.MakeLink(ctx, root, "pub_a", "", RoleViewer, nil)
	coretest.Must(t, err)
	var first string
	w.between(func() {
		first, _, err = w.UseLink(ctx, secret, nil)
		coretest.Must(t, err)
	})
	cookie, s, err = w.UseLink(ctx, secret, nil)
	notTwice(t, "contract 43: the slower of two concurrent uses", cookie, s, err, ErrSpent)
	w.opens(t, "contract 43: the faster of two", first)

	secret, _, err = w.MakeLink(ctx, root, "pub_a", "", RoleViewer, nil)
	coretest.Must(t, err)
	item, err := w.Memory.Get(ctx, key(linkItems+hashOf(secret)))
	coretest.Must(t, err)
	w.Clock.Advance(linkLife)
	w.spentLink(t, "contract 43: a link after 5 minutes", secret)
	w.plant(t, item.Key.Name, item.Value)
	w.spentLink(t, "contract 43: a link after 5 minutes, in a store whose clock is late", secret)
}

func TestLink_CreatorLosesRight(t *testing.T) {
	w := newFixture(t)
	_, ci, err := w.CreateOperator(ctx, "dashboard", RoleOperator, nil, nil)
	coretest.Must(t, err)
	link := func(by Actor, publisher string, role Role) string {
		secret, _, err := w.MakeLink(ctx, by, publisher, "", role, nil)
		coretest.Must(t, err)
		return secret
	}
	used, _, err := w.UseLink(ctx, link(ci.Actor(), "pub_a", RoleAdmin), nil)
	coretest.Must(t, err)
	open := link(ci.Actor(), "pub_a", RoleAdmin)
	w.opens(t, "contract 43: the session of a link", used)
	_, err = w.RevokeOperator(ctx, ci.ID)
	coretest.Must(t, err)
	w.spentLink(t, "contract 43: a link of a revoked token", open)
	w.gone(t, "contract 43: the session of a link of a revoked token", used)

	admin := w.enrol(t, "pub_a", RoleAdmin)
	w.spentLink(t, "contract 43: a link created by a member", link(admin.Actor, "pub_a", RoleAdmin))
	_, wall, err := w.CreateOperator(ctx, "wall", RoleViewer, nil, nil)
	coretest.Must(t, err)
	w.spentLink(t, "contract 43: a link by a read-only operator",
		link(wall.Actor(), "", RoleOperator))
}

// A link without a publisher is for a person who has the token already, such as the person who ran a command.
func TestLink_Operator(t *testing.T) {
	w := newFixture(t)
	for _, role := range []Role{RoleOperator, RoleViewer} {
		secret, _, err := w.MakeLink(ctx, root, "", "", role, nil)
		coretest.Must(t, err)
		cookie, s, err := w.UseLink(ctx, secret, nil)
		coretest.Must(t, err)
		want := Actor{KindOperator, Configured, Configured, role, "", ""}
		if got := w.opens(t, "contract 43: an operator's link", cookie); got.Actor != want ||
			s.Actor != want {
			t.Errorf("contract 43: an operator's link opens %+v and then %+v, want %+v", s.Actor, got.Actor,
				want)
		}
		w.OperatorToken = "another token in the configuration"
		w.gone(t, "contract 43: the session of a configured token that was replaced", cookie)
		w.OperatorToken = configuredToken
	}
}

func TestLink_Malformed(t *testing.T) {
	w := newFixture(t)
	invitation, _ := w.invite(t, root, "pub_a", RoleAdmin)
	never, err := newSecret(w, linkPrefix)
	coretest.Must(t, err)
	for _, text := range []string{"", never, never + "0", invitation, linkPrefix} {
		w.spentLink(t, "contract 43: "+text, text)
	}
	if linkLife != 5*time.Minute || invitationLife != 24*time.Hour {
		t.Errorf("contract 43: a link lives %v, an invitation %v", linkLife, invitationLife)
	}
}
