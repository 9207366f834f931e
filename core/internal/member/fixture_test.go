package member

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const configuredToken = "an operator token of the configuration"

var (
	ctx  = context.Background()
	root = configured.Actor()
)

// fixture is a registry on a store with faults that the test chooses, and a clock that the test moves.
type fixture struct {
	*Registry
	*testhost.Host
	commits int
	counted []string
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{Host: testhost.New(t)}
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			w.commits++
		}
		return kvtest.Pass
	}
	w.Host.Observer = testhost.Observer{OnCount: func(event string) { w.counted = append(w.counted, event) }}
	w.Registry = w.another(t)
	return w
}

// another returns a second instance on the same store.
func (w *fixture) another(t testing.TB) *Registry {
	t.Helper()
	rp, err := webauthn.NewRelyingParty(rpID, "Verge", origin)
	coretest.Must(t, err)
	return New(w.Host.Host, Config{OperatorToken: configuredToken, Passkeys: &rp})
}

// person is a member with a passkey and a session.
type person struct {
	*device
	Session
	cookie string
}

func (w *fixture) invite(t testing.TB, by Actor, publisher string, role Role) (secret string, i Invitation) {
	t.Helper()
	secret, i, err := w.Invite(ctx, by, publisher, "", role, nil)
	coretest.Must(t, err)
	return secret, i
}

// enrol creates a member with an invitation of the operator.
func (w *fixture) enrol(t testing.TB, publisher string, role Role) person {
	t.Helper()
	secret, _ := w.invite(t, root, publisher, role)
	p, err := w.enrolBy(t, secret)
	coretest.Must(t, err)
	return p
}

func (w *fixture) enrolBy(t testing.TB, secret string) (person, error) {
	t.Helper()
	_, c, err := w.BeginEnrolment(ctx, secret, "Ada at Shop")
	if err != nil {
		return person{}, err
	}
	d := newDevice(t)
	cookie, s, err := w.Enrol(ctx, secret, c.Form, "Ada", d.create(t, c), nil)
	return person{d, s, cookie}, err
}

// viaLink returns the session of an admin of pub_a who used a link of the operator.
func (w *fixture) viaLink(t testing.TB, by Actor) Session {
	t.Helper()
	secret, _, err := w.MakeLink(ctx, by, "pub_a", "", RoleAdmin, nil)
	coretest.Must(t, err)
	cookie, _, err := w.UseLink(ctx, secret, nil)
	coretest.Must(t, err)
	return w.opens(t, "contract 43: the session of a link", cookie)
}

// signIn opens a session with a passkey.
func (w *fixture) signIn(t testing.TB, d *device) (cookie string, s Session, err error) {
	t.Helper()
	c, err := w.BeginSignIn()
	coretest.Must(t, err)
	return w.SignIn(ctx, c.Form, d.get(t, c), nil)
}

// gone fails the test if the cookie still opens a session.
func (w *fixture) gone(t testing.TB, rule, cookie string) {
	t.Helper()
	if s, err := w.Registry.Session(ctx, cookie); err != ErrNoSession {
		t.Errorf("%s: the cookie opens %+v, %v", rule, s.Actor, err)
	}
}

// opens fails the test if the cookie opens no session.
func (w *fixture) opens(t testing.TB, rule, cookie string) Session {
	t.Helper()
	s, err := w.Registry.Session(ctx, cookie)
	if err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	return s
}

// fail sets the faults of the next commits, in order. Later commits pass.
func (w *fixture) fail(faults ...kvtest.Fault) {
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method != "Commit" || len(faults) == 0 {
			return kvtest.Pass
		}
		next := faults[0]
		faults = faults[1:]
		return next
	}
}

// between runs do once, immediately before the next commit.
func (w *fixture) between(do func()) {
	done := false
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && !done {
			done = true
			do()
		}
		return kvtest.Pass
	}
}

// items returns all stored items with the prefix.
func (w *fixture) items(t testing.TB, prefix string) []kv.Item {
	t.Helper()
	all, err := w.Memory.List(ctx, kv.Key{Partition: integration.Partition, Name: prefix}, "", 10_000)
	coretest.Must(t, err)
	return all
}

func (w *fixture) plant(t testing.TB, name string, value []byte) {
	t.Helper()
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "forger", Partition: integration.Partition,
		Puts: []kv.Put{{Name: name, Value: value}}}))
}

// notTwice fails the test if a used secret or challenge works again.
func notTwice(t testing.TB, rule, cookie string, s Session, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || cookie != "" || s.ID != "" {
		t.Errorf("%s: cookie %q, %+v, %v; want %v", rule, cookie, s.Actor, err, want)
	}
}

func TestEnrolAndSignIn(t *testing.T) {
	w := newFixture(t)
	secret, i, err := w.Invite(ctx, root, "pub_a", "Ada", RoleDeveloper, nil)
	coretest.Must(t, err)
	if !strings.HasPrefix(secret, invitationPrefix) || !i.Expires.Equal(w.Clock.Now().Add(24*time.Hour)) ||
		i.Role != RoleDeveloper || i.Publisher != "pub_a" || i.Name != "Ada" {
		t.Errorf("contract 43: invitation %q, %+v", secret, i)
	}
	for range 2 { // showing the invitation does not use it
		if shown, err := w.ReadInvitation(ctx, secret); err != nil || shown != i {
			t.Errorf("contract 43: ReadInvitation returned %+v, %v, want %+v", shown, err, i)
		}
	}
	p, err := w.enrolBy(t, secret)
	coretest.Must(t, err)
	if p.Kind != KindMember || p.Name != "Ada" || p.Role != RoleDeveloper || p.Publisher != "pub_a" ||
		p.Session.Expires != w.Clock.Now().UTC().Add(12*time.Hour) {
		t.Errorf("contract 43: the new member's session is %+v", p.Session)
	}
	if s := w.opens(t, "contract 43: the cookie of the enrolment", p.cookie); s.Actor != p.Actor {
		t.Errorf("contract 43: the cookie's actor is %+v, want %+v", s.Actor, p.Actor)
	}

	c, err := w.BeginSignIn()
	coretest.Must(t, err)
	if named := readOptions(t, c.Options).Allow; len(named) != 0 {
		t.Errorf("contract 43: the sign-in page names passkeys before a response: %v", named)
	}
	w.Clock.Advance(time.Minute)
	cookie, s, err := w.SignIn(ctx, c.Form, p.get(t, c), nil)
	if err != nil || s.Actor != p.Actor || cookie == p.cookie {
		t.Fatalf("contract 43: signed in as %+v, %v", s.Actor, err)
	}
	w.opens(t, "contract 43: the first session after a second", p.cookie)
	m, err := w.Member(ctx, "pub_a", p.ID)
	if err != nil || !m.LastSeen().Equal(w.Clock.Now()) || len(m.Passkeys) != 1 {
		t.Errorf("the member was last seen %v, %v, want %v", m.LastSeen(), err, w.Clock.Now())
	}
	if all, _, err := w.Invitations(ctx, "pub_a", "", 10); err != nil || len(all) != 0 {
		t.Errorf("contract 43: an invitation that was used is listed: %+v, %v", all, err)
	}
}

// The audit entry of a created record is in the same commit, and names the record.
func TestAlong_SameCommit(t *testing.T) {
	w := newFixture(t)
	entry := func(made any) ([]kv.Put, error) {
		return []kv.Put{{Name: "c/aud/x", Value: []byte("1")}}, nil
	}
	before := w.commits
	_, _, err := w.Invite(ctx, root, "pub_a", "", RoleAdmin, func(i Invitation) ([]kv.Put, error) {
		if i.ID == "" {
			t.Error("the entry does not get the invitation's id")
		}
		return entry(i)
	})
	coretest.Must(t, err)
	if w.commits != before+1 || len(w.items(t, "c/aud/")) != 1 {
		t.Errorf("%d commits, entries %v", w.commits-before, w.items(t, "c/aud/"))
	}
	rejected := errors.New("no entry")
	reject := func(Operator) ([]kv.Put, error) { return nil, rejected }
	_, _, err = w.CreateOperator(ctx, "ci", RoleViewer, nil, reject)
	if all, _, listErr := w.Operators(ctx, "", 10); err != rejected || listErr != nil || len(all) != 1 {
		t.Errorf("an operator token without its entry: %v, %v, %v", all, err, listErr)
	}
}

// A host without a log and counters works too.
func TestRegistry_HostWithoutLog(t *testing.T) {
	w := newFixture(t)
	bare := New(host.Host{KV: w.Host.KV, Sealer: w.Host.Sealer, Now: w.Host.Now, Random: w.Host.Random},
		Config{})
	w.plant(t, operatorItems+strings.Repeat("0", 64), []byte(`{"of":{}}`))
	if all, _, err := bare.Operators(ctx, "", 10); err != nil || len(all) != 0 {
		t.Errorf("operators %v, %v", all, err)
	}
	if _, err := bare.BeginSignIn(); err != ErrNoPasskeys {
		t.Errorf("without a host name: %v", err)
	}
	if _, _, err := bare.SignIn(ctx, "", nil, nil); err != ErrNoPasskeys {
		t.Errorf("without a host name: %v", err)
	}
}
