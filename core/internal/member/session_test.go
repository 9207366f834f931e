package member

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

func TestSession_CookieEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, w *fixture, p person) error
		here bool // ends only this session, not the member's others
	}{
		{"a sign-out", func(_ *testing.T, w *fixture, p person) error { return w.SignOut(ctx, p.cookie) },
			true},
		{"a sign-out everywhere", func(_ *testing.T, w *fixture, p person) error {
			_, err := w.SignOutEverywhere(ctx, p.Actor, p.ID, nil)
			return err
		}, false},
		{"the removal of the member", func(_ *testing.T, w *fixture, p person) error {
			return w.Remove(ctx, root, p.ID, nil)
		}, false},
		{"the removal of the passkey that opened it", func(t *testing.T, w *fixture, p person) error {
			other := w.addPasskey(t, p)
			cookie, s, err := w.signIn(t, other)
			coretest.Must(t, err)
			_, err = w.RemovePasskey(ctx, s, p.passkey, nil)
			w.opens(t, "contract 43: the session of the remaining passkey", cookie)
			return err
		}, false},
		{"an hour without a request", func(_ *testing.T, w *fixture, _ person) error {
			w.Clock.Advance(time.Hour)
			return nil
		}, false},
	} {
		w := newFixture(t)
		p := w.enrol(t, "pub_a", RoleAdmin)
		second, _, err := w.signIn(t, p.device)
		coretest.Must(t, err)
		w.opens(t, "contract 43: before "+c.name, p.cookie)
		coretest.Must(t, c.end(t, w, p))
		w.gone(t, "contract 43: the cookie from before "+c.name, p.cookie)
		if _, err := w.another(t).Session(ctx, p.cookie); err != ErrNoSession {
			t.Errorf("contract 43: on another instance the cookie from before %s: %v", c.name, err)
		}
		if c.here {
			w.opens(t, "contract 43: another session after "+c.name, second)
		} else {
			w.gone(t, "contract 43: another session after "+c.name, second)
		}
	}
}

func TestSession_OperatorCookieEnds(t *testing.T) {
	w := newFixture(t)
	soon := w.Clock.Now().Add(30 * time.Minute)
	text, o, err := w.CreateOperator(ctx, "ci", RoleOperator, nil, nil)
	coretest.Must(t, err)
	short, _, err := w.CreateOperator(ctx, "guest", RoleViewer, &soon, nil)
	coretest.Must(t, err)
	open := func(text string) string {
		cookie, s, err := w.SignInOperator(ctx, text, nil)
		coretest.Must(t, err)
		if got := w.opens(t, "contract 43: an operator's session", cookie); got.Actor != s.Actor {
			t.Errorf("contract 43: the operator is %+v and then %+v", s.Actor, got.Actor)
		}
		return cookie
	}
	stored, guest, configured := open(text), open(short), open(configuredToken)

	_, err = w.RevokeOperator(ctx, o.ID)
	coretest.Must(t, err)
	w.gone(t, "contract 43: the cookie of an operator with a revoked token", stored)
	w.Clock.Advance(30 * time.Minute)
	w.gone(t, "contract 43: the cookie of an operator with an expired token", guest)
	w.opens(t, "contract 43: the cookie of the configured token", configured)
	w.OperatorToken = "another token in the configuration"
	w.gone(t, "contract 43: the cookie of a configured token that was replaced", configured)
	w.OperatorToken = ""
	w.gone(t, "contract 43: the cookie of a configured token that was removed", configured)
	for _, text := range []string{"", text, short, operatorPrefix, stored, configuredToken} {
		cookie, s, err := w.SignInOperator(ctx, text, nil)
		notTwice(t, "contract 43: an invalid token", cookie, s, err, web.ErrNotFound)
	}
}

// A session lasts 12 hours if it is used, and an hour if not. At most one request in five minutes writes.
func TestSession_Life(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	opened := w.Clock.Now()
	before := w.commits
	for w.Clock.Now().Before(opened.Add(2 * time.Hour)) {
		w.Clock.Advance(time.Minute)
		w.opens(t, "contract 43: in use", p.cookie)
	}
	if writes := w.commits - before; writes != 24 {
		t.Errorf("contract 43: 120 requests in two hours wrote %d times, want once in 5 minutes", writes)
	}
	w.Clock.Advance(time.Hour - time.Millisecond)
	w.opens(t, "contract 43: idle for less than an hour", p.cookie)
	for w.Clock.Now().Before(opened.Add(12*time.Hour - 50*time.Minute)) {
		w.Clock.Advance(50 * time.Minute)
		w.opens(t, "contract 43: in use", p.cookie)
	}
	w.Clock.Advance(opened.Add(12*time.Hour - time.Millisecond).Sub(w.Clock.Now()))
	w.opens(t, "contract 43: before 12 hours are over", p.cookie)
	w.Clock.Advance(time.Millisecond)
	w.gone(t, "contract 43: after 12 hours in use", p.cookie)

	p = w.enrol(t, "pub_a", RoleAdmin)
	item, err := w.Memory.Get(ctx, key(p.name))
	coretest.Must(t, err)
	if !item.Expires.Equal(w.Clock.Now().Add(time.Hour)) {
		t.Errorf("contract 43: the store forgets the session at %v, want in an hour", item.Expires)
	}
	w.Clock.Advance(4 * time.Minute)
	w.opens(t, "contract 43: in use", p.cookie)
	w.Clock.Advance(56 * time.Minute)
	w.plant(t, item.Key.Name, item.Value)
	w.gone(t, "contract 43: idle too long, in a store whose clock is late", p.cookie)
}

// A session that ends while a request updates its idle time stays ended.
func TestSession_EndsDuringRequest(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	w.Clock.Advance(10 * time.Minute)
	w.between(func() { coretest.Must(t, w.SignOut(ctx, p.cookie)) })
	if _, err := w.Registry.Session(ctx, p.cookie); err != nil {
		t.Errorf("the earlier request: %v", err)
	}
	w.gone(t, "contract 43: signed out during a request", p.cookie)

	p = w.enrol(t, "pub_a", RoleAdmin)
	w.Clock.Advance(10 * time.Minute)
	w.fail(kvtest.Delay, kvtest.Delay)
	w.opens(t, "contract 43: a read-only store still serves sessions", p.cookie)
	coretest.Must(t, w.SignOut(ctx, p.cookie))
	w.Store.Deliver(ctx)
	w.gone(t, "contract 43: signed out before a late write", p.cookie)
}

// If a secret or challenge is used many times concurrently, one use succeeds.
func TestRegistry_ConcurrentUse(t *testing.T) {
	w := newFixture(t)
	link, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleAdmin, nil)
	coretest.Must(t, err)
	invitation, _ := w.invite(t, root, "pub_a", RoleAdmin)
	_, enrol, err := w.BeginEnrolment(ctx, invitation, "Ada")
	coretest.Must(t, err)
	p := w.enrol(t, "pub_a", RoleAdmin)
	signIn, err := w.BeginSignIn()
	coretest.Must(t, err)
	answer := p.get(t, signIn)
	w.Store.Decide = nil
	for name, use := range map[string]func() (string, Session, error){
		"link": func() (string, Session, error) { return w.UseLink(ctx, link, nil) },
		"invitation": func() (string, Session, error) {
			return w.Enrol(ctx, invitation, enrol.Form, "Ada", newDevice(t).create(t, enrol), nil)
		},
		"assertion": func() (string, Session, error) { return w.SignIn(ctx, signIn.Form, answer, nil) },
	} {
		var wg sync.WaitGroup
		cookies := make([]string, 8)
		for n := range cookies {
			wg.Go(func() { cookies[n], _, _ = use() })
		}
		wg.Wait()
		won := slices.DeleteFunc(cookies, func(cookie string) bool { return cookie == "" })
		if len(won) != 1 {
			t.Errorf("contract 43: one %s opened %d sessions", name, len(won))
		}
	}
}

func TestSession_NewRole(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	other := w.another(t)
	if s, err := other.Session(ctx, p.cookie); err != nil || s.Role != RoleAdmin {
		t.Fatalf("contract 43: %+v, %v", s.Actor, err)
	}
	_, err := w.ChangeRole(ctx, root, p.ID, RoleViewer, nil)
	coretest.Must(t, err)
	if s, err := other.Session(ctx, p.cookie); err != nil || s.Role != RoleViewer {
		t.Errorf("contract 43: on another instance the member is still %s, %v", s.Role, err)
	}
}

func TestSession_MalformedCookie(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	never, err := newSecret(w, cookiePrefix)
	coretest.Must(t, err)
	link, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleAdmin, nil)
	coretest.Must(t, err)
	calls := w.Store.Calls()
	for _, text := range []string{"", p.cookie + "0", p.cookie[1:], hashOf(p.cookie), p.name, link,
		cookiePrefix} {
		w.gone(t, "contract 43: "+text, text)
		coretest.Must(t, w.SignOut(ctx, text))
	}
	if n := w.Store.Calls() - calls; n != 0 {
		t.Errorf("contract 12: %d store calls for malformed cookies", n)
	}
	w.gone(t, "contract 43: a cookie that was never made", never)
	coretest.Must(t, w.SignOut(ctx, never))
}

func TestFormTokens(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	other, _, err := w.signIn(t, p.device)
	coretest.Must(t, err)
	s, theirs := w.opens(t, "contract 43", p.cookie), w.opens(t, "contract 43", other)
	token := s.FormToken("create-key")
	if again := w.opens(t, "contract 43", p.cookie); again.FormToken("create-key") != token ||
		!again.CheckForm("create-key", token) || !p.Session.CheckForm("create-key", token) {
		t.Error("contract 43: a form's token is rejected in its own session")
	}
	for name, ok := range map[string]bool{
		"of another action":          s.CheckForm("revoke-key", token),
		"of another session":         theirs.CheckForm("create-key", token),
		"that is missing":            s.CheckForm("create-key", ""),
		"that is cut":                s.CheckForm("create-key", token[:len(token)-1]),
		"that is longer":             s.CheckForm("create-key", token+"A"),
		"of no session":              Session{}.CheckForm("create-key", Session{}.FormToken("create-key")),
		"that is the session's name": s.CheckForm("create-key", s.name),
	} {
		if ok {
			t.Errorf("contract 43: a form passes with a token %s", name)
		}
	}
	// A reader of the store cannot compute a token.
	item, err := w.Memory.Get(ctx, key(s.name))
	coretest.Must(t, err)
	if bytes.Contains(item.Value, s.key) || slices.Equal(formKey(s.name), s.key) {
		t.Error("contract 43: the key of forms can be computed from the store")
	}
}
