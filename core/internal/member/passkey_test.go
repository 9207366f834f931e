package member

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

// addPasskey adds another passkey to a person, on another device.
func (w *fixture) addPasskey(t testing.TB, p person) *device {
	t.Helper()
	d, err := w.tryPasskey(t, p.Session)
	coretest.Must(t, err)
	return d
}

func (w *fixture) tryPasskey(t testing.TB, s Session) (*device, error) {
	t.Helper()
	c, err := w.BeginPasskey(ctx, s)
	if err != nil {
		return nil, err
	}
	d := newDevice(t)
	_, err = w.AddPasskey(ctx, s, c.Form, "phone", d.create(t, c), nil)
	return d, err
}

func rejected(err error) bool {
	var r *webauthn.Rejection
	return errors.As(err, &r)
}

func TestSignIn_AssertionWorksOnce(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	c, err := w.BeginSignIn()
	coretest.Must(t, err)
	answer := p.get(t, c)
	w.between(func() {
		_, _, err := w.SignIn(ctx, c.Form, answer, nil)
		coretest.Must(t, err)
	})
	cookie, s, err := w.SignIn(ctx, c.Form, answer, nil)
	notTwice(t, "contract 43: an assertion replayed immediately", cookie, s, err, ErrLate)
	cookie, s, err = w.SignIn(ctx, c.Form, answer, nil)
	notTwice(t, "contract 43: a replayed assertion", cookie, s, err, ErrLate)
	w.Clock.Advance(challengeLife - time.Millisecond)
	cookie, s, err = w.SignIn(ctx, c.Form, answer, nil)
	notTwice(t, "contract 43: an assertion replayed at the last moment", cookie, s, err, ErrLate)
	if n := len(w.items(t, sessionItems)); n != 2 {
		t.Errorf("contract 43: %d sessions, want that of the enrolment and one", n)
	}
}

func TestForm_Life(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	for _, c := range []struct {
		age  time.Duration
		want error
	}{
		{5*time.Minute - time.Millisecond, nil}, {5 * time.Minute, ErrLate}, {6 * time.Minute, ErrLate},
		{-5 * time.Minute, nil}, {-5*time.Minute - time.Millisecond, ErrLate},
	} {
		ceremony, err := w.BeginSignIn()
		coretest.Must(t, err)
		w.Clock.Advance(c.age)
		if _, _, err := w.SignIn(ctx, ceremony.Form, p.get(t, ceremony), nil); err != c.want {
			t.Errorf("contract 43: a form that is %v old: %v, want %v", c.age, err, c.want)
		}
		w.Clock.Advance(-c.age)
	}
}

func TestSignIn_Rejected(t *testing.T) {
	w := newFixture(t)
	ada, bob := w.enrol(t, "pub_a", RoleAdmin), w.enrol(t, "pub_b", RoleViewer)
	stranger := newDevice(t)
	stranger.handle = ada.handle
	forger := newDevice(t) // claims to have Ada's passkey
	forger.id, forger.handle = ada.id, ada.handle
	elsewhere := ada.device.copied()
	elsewhere.origin = "https://verify.verge.example.evil.example"
	mixed := bob.device.copied() // signs as Bob, and claims to be Ada
	mixed.handle = ada.handle
	for _, c := range []struct {
		name string
		*device
		change func([]byte) []byte
		want   error // nil: a *webauthn.Rejection
	}{
		{"a passkey that is not enrolled", stranger, nil, ErrUnknownPasskey},
		{"another key under Ada's id", forger, nil, nil},
		{"a response from another page", elsewhere, nil, nil},
		{"the passkey of another publisher's member, in Ada's name", mixed, nil, nil},
		{"no JSON", ada.device, func([]byte) []byte { return []byte("{") }, nil},
		{"nothing", ada.device, func([]byte) []byte { return nil }, nil},
		{"a registration response", ada.device, func(b []byte) []byte {
			return changed(t, b, "authenticatorData", "attestationObject")
		}, nil},
	} {
		ceremony, err := w.BeginSignIn()
		coretest.Must(t, err)
		answer := c.get(t, ceremony)
		if c.change != nil {
			answer = c.change(answer)
		}
		cookie, s, err := w.SignIn(ctx, ceremony.Form, answer, nil)
		if cookie != "" || s.ID != "" || c.want != nil && err != c.want || c.want == nil && !rejected(err) {
			t.Errorf("contract 43: %s signs in as %+v, %v", c.name, s.Actor, err)
		}
	}
	// Bob's passkey signs in to Bob's publisher, and to no other.
	if _, s, err := w.signIn(t, bob.device); err != nil || s.Publisher != "pub_b" || s.ID != bob.ID {
		t.Errorf("contract 43: Bob signs in as %+v, %v", s.Actor, err)
	}
	coretest.Must(t, w.Remove(ctx, root, bob.ID, nil))
	if _, s, err := w.signIn(t, bob.device); err != ErrUnknownPasskey {
		t.Errorf("contract 43: a member who was removed signs in as %+v, %v", s.Actor, err)
	}
}

// A form is valid for one kind of ceremony, and for one invitation or session.
func TestForm_OtherCeremony(t *testing.T) {
	w := newFixture(t)
	ada, bob := w.enrol(t, "pub_a", RoleAdmin), w.enrol(t, "pub_b", RoleAdmin)
	again, second, err := w.signIn(t, ada.device)
	coretest.Must(t, err)
	w.opens(t, "contract 43", again)
	one, _ := w.invite(t, root, "pub_a", RoleAdmin)
	two, _ := w.invite(t, root, "pub_b", RoleAdmin)
	_, enrolOne, err := w.BeginEnrolment(ctx, one, "Eve")
	coretest.Must(t, err)
	_, enrolTwo, err := w.BeginEnrolment(ctx, two, "Eve")
	coretest.Must(t, err)
	signIn, err := w.BeginSignIn()
	coretest.Must(t, err)
	addAda, err := w.BeginPasskey(ctx, ada.Session)
	coretest.Must(t, err)
	addBob, err := w.BeginPasskey(ctx, bob.Session)
	coretest.Must(t, err)
	sealed, err := w.Ring.Seal("provider", []byte(`{"kind":"sign-in"}`))
	coretest.Must(t, err)

	try := map[string]func(Ceremony) error{
		"enrolling with invitation one": func(c Ceremony) error {
			_, _, err := w.Enrol(ctx, one, c.Form, "Eve", newDevice(t).create(t, c), nil)
			return err
		},
		"signing in": func(c Ceremony) error {
			_, _, err := w.SignIn(ctx, c.Form, ada.get(t, c), nil)
			return err
		},
		"Ada's second session": func(c Ceremony) error {
			_, err := w.AddPasskey(ctx, second, c.Form, "", newDevice(t).create(t, c), nil)
			return err
		},
	}
	own := map[string]Ceremony{"enrolling with invitation one": enrolOne, "signing in": signIn}
	for name, do := range try {
		for _, c := range []Ceremony{enrolOne, enrolTwo, signIn, addAda, addBob,
			{signIn.Options, ""}, {signIn.Options, signIn.Form[:len(signIn.Form)-1]},
			{signIn.Options, formPrefix}, {signIn.Options, signIn.Form + "\n"},
			{signIn.Options, formPrefix + b64.EncodeToString(sealed)}} {
			if c.Form == own[name].Form {
				continue
			}
			if err := do(c); err != ErrForm {
				t.Errorf("contract 43: %s with another form: %v", name, err)
			}
		}
	}
	// The correct form with a response to another challenge.
	other, err := w.BeginSignIn()
	coretest.Must(t, err)
	if _, _, err := w.SignIn(ctx, other.Form, ada.get(t, signIn), nil); !rejected(err) {
		t.Errorf("contract 43: the challenge of another form: %v", err)
	}
	for name, do := range try {
		if c, ok := own[name]; ok {
			if err := do(c); err != nil {
				t.Errorf("contract 43: %s with its own form: %v", name, err)
			}
		}
	}
}

func TestSignIn_CopiedPasskey(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	p.counts = true
	copied := p.device.copied()
	late, err := w.BeginSignIn()
	coretest.Must(t, err)
	overtaken := p.get(t, late) // counter 1
	w.Clock.Advance(time.Second)
	cookie, _, err := w.signIn(t, p.device) // counter 2
	coretest.Must(t, err)
	w.Clock.Advance(time.Second)
	if _, _, err := w.SignIn(ctx, late.Form, overtaken, nil); !errors.Is(err, webauthn.ErrCounter) {
		t.Errorf("contract 43: a response overtaken by a later one: %v", err)
	}
	w.opens(t, "contract 43: an overtaken response does not block the passkey", cookie)
	_, _, err = w.signIn(t, p.device)
	coretest.Must(t, err)
	w.Clock.Advance(time.Second)

	stolen, s, err := w.signIn(t, copied) // counter 1 again
	notTwice(t, "contract 43: the counter goes back", stolen, s, err, webauthn.ErrCounter)
	w.gone(t, "contract 43: a session of a copied passkey", cookie)
	_, s, err = w.signIn(t, p.device)
	notTwice(t, "contract 43: a copied passkey", "", s, err, ErrUnknownPasskey)
	m, err := w.Member(ctx, "pub_a", p.ID)
	if err != nil || m.Passkeys[0].Blocked == nil {
		t.Errorf("contract 43: the member's passkeys are %+v, %v", m.Passkeys, err)
	}
	if !strings.Contains(w.Logged.String(), p.ID) {
		t.Errorf("the log does not name the member:\n%s", w.Logged.String())
	}
}

// Two responses of one authenticator arrive together: the second check sees the first one's counter.
func TestSignIn_ConcurrentCounters(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	p.counts = true
	c, err := w.BeginSignIn()
	coretest.Must(t, err)
	first := p.get(t, c)
	w.between(func() {
		_, _, err := w.signIn(t, p.device)
		coretest.Must(t, err)
	})
	cookie, s, err := w.SignIn(ctx, c.Form, first, nil)
	notTwice(t, "contract 43: the lower counter of two, checked second", cookie, s, err, webauthn.ErrCounter)
}

func TestAddAndRemovePasskeys(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	if _, err := w.RemovePasskey(ctx, p.Session, p.passkey, nil); err != ErrLastPasskey {
		t.Errorf("contract 43: removing the last passkey: %v", err)
	}
	c, err := w.BeginPasskey(ctx, p.Session)
	coretest.Must(t, err)
	options := readOptions(t, c.Options)
	if len(options.Exclude) != 1 || options.Exclude[0].ID != b64.EncodeToString(p.id) ||
		options.User.ID != b64.EncodeToString(p.handle) || options.User.Name != "Ada" {
		t.Errorf("contract 43: options: %s", c.Options)
	}
	phone := newDevice(t)
	answer := phone.create(t, c)
	m, err := w.AddPasskey(ctx, p.Session, c.Form, "phone", answer, nil)
	if err != nil || len(m.Passkeys) != 2 || m.Passkeys[1].Name != "phone" {
		t.Fatalf("contract 43: passkeys: %+v, %v", m.Passkeys, err)
	}
	if _, err := w.AddPasskey(ctx, p.Session, c.Form, "phone", answer, nil); err != ErrLate {
		t.Errorf("contract 43: the same answer again: %v", err)
	}
	cookie, s, err := w.signIn(t, phone)
	if err != nil || s.Actor != p.Actor {
		t.Fatalf("contract 43: with the new passkey: %+v, %v", s.Actor, err)
	}
	if _, err := w.RemovePasskey(ctx, s, "psk_0000000000000000", nil); err != web.ErrNotFound {
		t.Errorf("contract 43: a passkey that is not the member's: %v", err)
	}
	if _, err := w.RemovePasskey(ctx, s, m.Passkeys[0].ID, nil); err != nil {
		t.Errorf("contract 43: the first passkey: %v", err)
	}
	if _, _, err := w.signIn(t, p.device); err != ErrUnknownPasskey {
		t.Errorf("contract 43: with the removed passkey: %v", err)
	}
	if _, err := w.RemovePasskey(ctx, s, m.Passkeys[1].ID, nil); err != ErrLastPasskey {
		t.Errorf("contract 43: the last passkey: %v", err)
	}
	w.opens(t, "contract 43: rejected changes end no session", cookie)
	if n := len(w.items(t, passkeyItems)); n != 1 {
		t.Errorf("%d passkeys are known, want one", n)
	}

	// One passkey cannot belong to two members.
	secret, _ := w.invite(t, root, "pub_b", RoleAdmin)
	_, e, err := w.BeginEnrolment(ctx, secret, "Eve")
	coretest.Must(t, err)
	twice := phone.copied()
	if _, _, err := w.Enrol(ctx, secret, e.Form, "Eve", twice.create(t, e), nil); err != ErrKnownPasskey {
		t.Errorf("contract 43: enrolling with another member's passkey: %v", err)
	}
	if _, err := w.ReadInvitation(ctx, secret); err != nil {
		t.Errorf("contract 43: a rejected response used the invitation: %v", err)
	}
	bob, err := w.enrolBy(t, secret)
	coretest.Must(t, err)
	b, err := w.BeginPasskey(ctx, bob.Session)
	coretest.Must(t, err)
	if _, err := w.AddPasskey(ctx, bob.Session, b.Form, "", twice.create(t, b), nil); err != ErrKnownPasskey {
		t.Errorf("contract 43: adding another member's passkey: %v", err)
	}
}

// Access to a signed-in browser is not enough to add a permanent passkey.
func TestAddPasskey_FreshSignIn(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	w.Clock.Advance(proofLife - time.Millisecond)
	c, err := w.BeginPasskey(ctx, p.Session)
	coretest.Must(t, err)
	w.Clock.Advance(time.Millisecond)
	if _, err := w.AddPasskey(ctx, p.Session, c.Form, "", newDevice(t).create(t, c), nil); err != ErrProof {
		t.Errorf("contract 43: with a form from 10 minutes after signing in: %v", err)
	}
	if _, err := w.BeginPasskey(ctx, p.Session); err != ErrProof {
		t.Errorf("contract 43: 10 minutes after signing in: %v", err)
	}
	_, s, err := w.signIn(t, p.device)
	coretest.Must(t, err)
	if _, err := w.tryPasskey(t, s); err != nil {
		t.Errorf("contract 43: after signing in again: %v", err)
	}
}

func TestAddPasskey_Names(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	for _, name := range []string{"", "phone", ""} {
		c, err := w.BeginPasskey(ctx, p.Session)
		coretest.Must(t, err)
		_, err = w.AddPasskey(ctx, p.Session, c.Form, name, newDevice(t).create(t, c), nil)
		coretest.Must(t, err)
	}
	m, err := w.Member(ctx, "pub_a", p.ID)
	coretest.Must(t, err)
	var names []string
	for _, each := range m.Passkeys {
		names = append(names, each.Name)
	}
	if want := "Passkey 1, Passkey 2, phone, Passkey 3"; strings.Join(names, ", ") != want {
		t.Errorf("the passkeys are called %q, want %s", names, want)
	}
}

func TestPasskeys_EndedSession(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	w.addPasskey(t, p)
	c, err := w.BeginPasskey(ctx, p.Session)
	coretest.Must(t, err)
	_, err = w.SignOutEverywhere(ctx, p.Actor, p.ID, nil)
	coretest.Must(t, err)
	if _, err := w.AddPasskey(ctx, p.Session, c.Form, "", newDevice(t).create(t, c),
		nil); err != ErrNoSession {
		t.Errorf("contract 43: adding after a sign-out everywhere: %v", err)
	}
	if _, err := w.RemovePasskey(ctx, p.Session, p.passkey, nil); err != ErrNoSession {
		t.Errorf("contract 43: removing after a sign-out everywhere: %v", err)
	}
	_, s, err := w.SignInOperator(ctx, configuredToken, nil)
	coretest.Must(t, err)
	if _, err := w.tryPasskey(t, s); err != web.ErrNotFound {
		t.Errorf("contract 43: an operator has no passkeys: %v", err)
	}
}

func TestAddPasskey_Limit(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	for range maxPasskeys - 1 {
		w.addPasskey(t, p)
	}
	if _, err := w.tryPasskey(t, p.Session); err != ErrTooMany {
		t.Errorf("contract 43: an eleventh passkey: %v", err)
	}
	// The whole removal, with audit entries, fits into one commit.
	err := w.Remove(ctx, root, p.ID, func(Member) ([]kv.Put, error) {
		return []kv.Put{{Name: "c/aud/1", Value: mark}, {Name: "c/aud/2", Value: mark}}, nil
	})
	coretest.Must(t, err)
	if left := w.items(t, passkeyItems); len(left) != 0 {
		t.Errorf("contract 43: items of a removed member: %v", left)
	}
}

// An invalid name does not use the invitation, and the form can be sent again.
func TestEnrol_NameRequired(t *testing.T) {
	w := newFixture(t)
	secret, _ := w.invite(t, root, "pub_a", RoleAdmin)
	_, c, err := w.BeginEnrolment(ctx, secret, "Ada")
	coretest.Must(t, err)
	answer := newDevice(t).create(t, c)
	if _, _, err := w.Enrol(ctx, secret, c.Form, " ", answer, nil); !wrongMember(err, "name") {
		t.Errorf("contract 5: without a name: %v", err)
	}
	if _, _, err := w.Enrol(ctx, secret, c.Form, "Ada", answer, nil); err != nil {
		t.Errorf("contract 43: with the name, and the same response: %v", err)
	}
	p := w.enrol(t, "pub_a", RoleAdmin)
	add, err := w.BeginPasskey(ctx, p.Session)
	coretest.Must(t, err)
	_, err = w.AddPasskey(ctx, p.Session, add.Form, "a\x00b", newDevice(t).create(t, add), nil)
	if !wrongMember(err, "name") {
		t.Errorf("contract 5: a passkey's name: %v", err)
	}
}
