package member

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// records are the prefixes of signed items.
var records = []string{memberItems, invitationItems, linkItems, operatorItems, sessionItems}

// act is one operation that writes.
type act struct {
	name  string
	ready func(t *testing.T, w *fixture) (do func() (granted string, err error), holds func() bool)
}

// acts lists all operations that write, each with a check that it was applied exactly once.
var acts = []act{
	{"invite", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		return func() (string, error) {
				secret, _, err := w.Invite(ctx, root, "pub_a", "", RoleAdmin, nil)
				return secret, err
			}, func() bool {
				return len(w.items(t, invitationItems)) == 1 && len(w.items(t, "c/of/inv/pub_a/")) == 1
			}
	}},
	{"withdraw", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		_, i := w.invite(t, root, "pub_a", RoleAdmin)
		return func() (string, error) { return "", w.Withdraw(ctx, "pub_a", i.ID) },
			func() bool { return len(w.items(t, invitationItems))+len(w.items(t, "c/of/inv/pub_a/")) == 0 }
	}},
	{"enrol", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		secret, _ := w.invite(t, root, "pub_a", RoleAdmin)
		_, c, err := w.BeginEnrolment(ctx, secret, "Ada")
		coretest.Must(t, err)
		answer := newDevice(t).create(t, c)
		return func() (string, error) {
				cookie, _, err := w.Enrol(ctx, secret, c.Form, "Ada", answer, nil)
				return cookie, err
			}, func() bool {
				return len(w.items(t, memberItems)) == 1 && len(w.items(t, sessionItems)) == 1 &&
					len(w.items(t, invitationItems)) == 0
			}
	}},
	{"sign in", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		p := w.enrol(t, "pub_a", RoleAdmin)
		p.counts = true
		c, err := w.BeginSignIn()
		coretest.Must(t, err)
		answer := p.get(t, c)
		return func() (string, error) {
				cookie, _, err := w.SignIn(ctx, c.Form, answer, nil)
				return cookie, err
			}, func() bool {
				m, err := w.another(t).Member(ctx, "", p.ID)
				return err == nil && m.Passkeys[0].Credential.Counter == 1 && m.Passkeys[0].Blocked == nil &&
					len(w.items(t, sessionItems)) == 2
			}
	}},
	{"sign in as an operator", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		return func() (string, error) {
			cookie, _, err := w.SignInOperator(ctx, configuredToken, nil)
			return cookie, err
		}, func() bool { return len(w.items(t, sessionItems)) == 1 }
	}},
	{"make a link", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		return func() (string, error) {
			secret, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleAdmin, nil)
			return secret, err
		}, func() bool { return len(w.items(t, linkItems)) == 1 }
	}},
	{"use a link", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		secret, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleAdmin, nil)
		coretest.Must(t, err)
		return func() (string, error) {
			cookie, _, err := w.UseLink(ctx, secret, nil)
			return cookie, err
		}, func() bool { return len(w.items(t, linkItems)) == 0 && len(w.items(t, sessionItems)) == 1 }
	}},
	{"sign out", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		p := w.enrol(t, "pub_a", RoleAdmin)
		return func() (string, error) { return "", w.SignOut(ctx, p.cookie) },
			func() bool { return len(w.items(t, sessionItems)) == 0 }
	}},
	{"sign out everywhere", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		p := w.enrol(t, "pub_a", RoleAdmin)
		return func() (string, error) {
				_, err := w.SignOutEverywhere(ctx, p.Actor, p.ID, nil)
				return "", err
			}, func() bool {
				m, err := w.another(t).Member(ctx, "", p.ID)
				return err == nil && m.Epoch == 1
			}
	}},
	{"change a role", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		w.enrol(t, "pub_a", RoleAdmin)
		p := w.enrol(t, "pub_a", RoleAdmin)
		return func() (string, error) {
			m, err := w.ChangeRole(ctx, p.Actor, p.ID, RoleViewer, nil)
			return string(m.Role), err
		}, func() bool { return w.admins(t, "pub_a") == 1 }
	}},
	{"remove a member", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		w.enrol(t, "pub_a", RoleAdmin)
		p := w.enrol(t, "pub_a", RoleViewer)
		return func() (string, error) { return "", w.Remove(ctx, root, p.ID, nil) },
			func() bool {
				return len(w.items(t, memberItems)) == 1 &&
					len(w.items(t, "c/of/mem/pub_a/")) == 1
			}
	}},
	{"add a passkey", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		p := w.enrol(t, "pub_a", RoleAdmin)
		c, err := w.BeginPasskey(ctx, p.Session)
		coretest.Must(t, err)
		answer := newDevice(t).create(t, c)
		return func() (string, error) {
				m, err := w.AddPasskey(ctx, p.Session, c.Form, "", answer, nil)
				return m.ID, err
			}, func() bool {
				m, err := w.another(t).Member(ctx, "", p.ID)
				return err == nil && len(m.Passkeys) == 2 && len(w.items(t, passkeyItems)) == 2
			}
	}},
	{"remove a passkey", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		p := w.enrol(t, "pub_a", RoleAdmin)
		w.addPasskey(t, p)
		return func() (string, error) {
				m, err := w.RemovePasskey(ctx, p.Session, p.passkey, nil)
				return m.ID, err
			}, func() bool {
				m, err := w.another(t).Member(ctx, "", p.ID)
				return err == nil && len(m.Passkeys) == 1 && len(w.items(t, passkeyItems)) == 1
			}
	}},
	{"make an operator token", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		return func() (string, error) {
			text, _, err := w.CreateOperator(ctx, "ci", RoleViewer, nil, nil)
			return text, err
		}, func() bool { return len(w.items(t, operatorItems)) == 1 }
	}},
	{"revoke an operator token", func(t *testing.T, w *fixture) (func() (string, error), func() bool) {
		_, o, err := w.CreateOperator(ctx, "ci", RoleViewer, nil, nil)
		coretest.Must(t, err)
		return func() (string, error) {
				o, err := w.RevokeOperator(ctx, o.ID)
				return o.ID, err
			}, func() bool {
				all, _, err := w.another(t).Operators(ctx, "", 10)
				return err == nil && all[1].Revoked != nil
			}
	}},
}

// Replies are lost, requests are lost and writes arrive late, at every commit.
func TestLostReplies(t *testing.T) {
	for _, c := range []struct {
		faults []kvtest.Fault
		done   bool // the request is known to be done; otherwise the caller receives no access
		holds  bool // the result is in the store
	}{
		{[]kvtest.Fault{kvtest.Reject}, false, false},
		{[]kvtest.Fault{kvtest.LoseRequest}, true, true},
		{[]kvtest.Fault{kvtest.LoseReply}, true, true},
		{[]kvtest.Fault{kvtest.Delay}, true, true},
		{[]kvtest.Fault{kvtest.LoseReply, kvtest.LoseReply}, false, true},
		{[]kvtest.Fault{kvtest.LoseReply, kvtest.Reject}, false, true},
		{[]kvtest.Fault{kvtest.LoseRequest, kvtest.Reject}, false, false},
		{[]kvtest.Fault{kvtest.Delay, kvtest.Delay}, false, true},
	} {
		for _, a := range acts {
			t.Run(fmt.Sprintf("contract 5, 503: %s, %v", a.name, c.faults), func(t *testing.T) {
				w := newFixture(t)
				do, holds := a.ready(t, w)
				if holds() {
					t.Fatal("the result exists before the operation")
				}
				w.fail(c.faults...)
				granted, err := do()
				w.Store.Deliver(ctx)
				w.Store.Decide = nil
				if (err == nil) != c.done || err != nil && (!kv.Failed(err) || granted != "") {
					t.Errorf("granted %q, %v; want done: %v", granted, err, c.done)
				}
				if holds() != c.holds {
					t.Errorf("result stored: %v, want %v", holds(), c.holds)
				}
			})
		}
	}
}

// rejectCall makes the store reject one call, the given number of calls from now.
func (w *fixture) rejectCall(at int) {
	before := w.Store.Calls()
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.N-before == at {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
}

// Each single call of each operation fails in turn. A failed read grants no access.
func TestRegistry_StoreError(t *testing.T) {
	for _, a := range acts {
		for at := 1; ; at++ {
			w := newFixture(t)
			do, holds := a.ready(t, w)
			before := w.Store.Calls()
			w.rejectCall(at)
			granted, err := do()
			calls := w.Store.Calls() - before
			w.Store.Decide = nil
			if calls < at { // every call has failed once
				if err != nil || !holds() || at < 2 {
					t.Errorf("%s, after %d calls: %v", a.name, at, err)
				}
				break
			}
			if !errors.Is(err, kv.ErrUnavailable) || granted != "" || holds() {
				t.Errorf("contract 5, 503: %s, with its call %d failed: %q, %v", a.name, at, granted, err)
			}
		}
	}
}

func TestSession_StoreError(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	operator, _, err := w.SignInOperator(ctx, configuredToken, nil)
	coretest.Must(t, err)
	made, _, err := w.CreateOperator(ctx, "ci", RoleViewer, nil, nil)
	coretest.Must(t, err)
	ci, _, err := w.SignInOperator(ctx, made, nil)
	coretest.Must(t, err)
	for cookie, calls := range map[string]int{p.cookie: 2, operator: 1, ci: 2} {
		for at := 1; at <= calls; at++ {
			w.rejectCall(at)
			if s, err := w.Registry.Session(ctx, cookie); !errors.Is(err, kv.ErrUnavailable) || s.ID != "" {
				t.Errorf("contract 5, 503: with call %d failed, the session is %+v, %v", at, s.Actor, err)
			}
		}
		w.rejectCall(calls + 1)
		w.opens(t, "contract 43: without a failed call", cookie)
	}
}

// everything creates one record of each kind, and returns all secrets that were shown.
func (w *fixture) everything(t *testing.T) (p person, secrets map[string]string) {
	t.Helper()
	used, _ := w.invite(t, root, "pub_a", RoleAdmin)
	p, err := w.enrolBy(t, used)
	coretest.Must(t, err)
	open, _ := w.invite(t, p.Actor, "pub_a", RoleViewer)
	link, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleAdmin, nil)
	coretest.Must(t, err)
	usedLink, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleAdmin, nil)
	coretest.Must(t, err)
	viaLink, _, err := w.UseLink(ctx, usedLink, nil)
	coretest.Must(t, err)
	operator, _, err := w.CreateOperator(ctx, "ci", RoleOperator, nil, nil)
	coretest.Must(t, err)
	asOperator, _, err := w.SignInOperator(ctx, operator, nil)
	coretest.Must(t, err)
	asConfigured, _, err := w.SignInOperator(ctx, configuredToken, nil)
	coretest.Must(t, err)
	c, err := w.BeginSignIn()
	coretest.Must(t, err)
	again, s, err := w.SignIn(ctx, c.Form, p.get(t, c), nil)
	coretest.Must(t, err)
	w.addPasskey(t, p)
	return p, map[string]string{
		"an invitation that was used": used, "an invitation": open,
		"a link": link, "a link that was used": usedLink,
		"an operator token": operator, "the configured token": configuredToken,
		"the cookie of the enrolment": p.cookie, "the cookie of a sign-in": again,
		"the cookie of a link":      viaLink,
		"the cookie of an operator": asOperator, "the cookie of the configured operator": asConfigured,
		"a form": c.Form, "a challenge": readOptions(t, c.Options).Challenge,
		"the token of a form": s.FormToken("create-key"),
	}
}

// Contract 13: no secret that was shown is in the store or in the log.
func TestRegistry_StoresHashesOnly(t *testing.T) {
	w := newFixture(t)
	_, secrets := w.everything(t)
	var all bytes.Buffer
	for _, it := range w.items(t, "") {
		fmt.Fprintf(&all, "%s %s\n", it.Key, it.Value)
	}
	for _, prefix := range append(records, passkeyItems, usedItems, "c/of/") {
		if len(w.items(t, prefix)) == 0 {
			t.Errorf("the test created no item under %s", prefix)
		}
	}
	all.Write(w.Logged.Bytes())
	for name, secret := range secrets {
		for _, part := range []string{secret, secret[len(secret)-20:],
			secret[len(secret)-24 : len(secret)-6]} {
			if bytes.Contains(all.Bytes(), []byte(part)) {
				t.Errorf("contract 13: the store or the log has %s", name)
			}
		}
	}
	// The configured token may be easy to guess. Its plain hash would confirm a guess.
	if bytes.Contains(all.Bytes(), []byte(hashOf(configuredToken))) {
		t.Error("contract 19: the store has a hash of the configured token")
	}
}

// Contract 19: an attacker who can write to the store can neither create, change nor move a record.
func TestRegistry_ForgedRecords(t *testing.T) {
	w := newFixture(t)
	p, secrets := w.everything(t)
	use := map[string]func() error{
		memberItems: func() error { _, err := w.Registry.Session(ctx, p.cookie); return err },
		invitationItems: func() error {
			_, err := w.ReadInvitation(ctx, secrets["an invitation"])
			return err
		},
		linkItems: func() error { _, err := w.ReadLink(ctx, secrets["a link"]); return err },
		operatorItems: func() error {
			_, err := w.FindOperator(ctx, secrets["an operator token"])
			return err
		},
		sessionItems: func() error {
			_, err := w.Registry.Session(ctx, secrets["the cookie of a link"])
			return err
		},
	}
	for _, prefix := range records {
		if use[prefix] == nil {
			t.Fatalf("the test uses no record under %s", prefix)
		}
		coretest.Must(t, use[prefix]())
		items := w.items(t, prefix)
		for name, forge := range map[string]func(kv.Item) []byte{
			"without a MAC": func(it kv.Item) []byte {
				return append(it.Value[:bytes.LastIndex(it.Value, []byte(`,"m":"`))], '}')
			},
			"with a byte changed": func(it kv.Item) []byte {
				return bytes.Replace(it.Value, []byte(`"at":"2`), []byte(`"at":"3`), 1)
			},
			"with a MAC for another name": func(it kv.Item) []byte {
				b := it.Value[:bytes.LastIndex(it.Value, []byte(`,"m":"`))]
				signed, err := token.SignRecord(w.Ring, it.Key.String()+"0", append(b, '}'))
				coretest.Must(t, err)
				return signed
			},
			"no JSON": func(it kv.Item) []byte { return []byte("{") },
			"empty":   func(it kv.Item) []byte { return nil },
			"signed, and of another form": func(it kv.Item) []byte {
				signed, err := token.SignRecord(w.Ring, it.Key.String(), []byte(`{"of":7}`))
				coretest.Must(t, err)
				return signed
			},
		} {
			for _, it := range items {
				w.plant(t, it.Key.Name, forge(kv.Item{Key: it.Key, Value: bytes.Clone(it.Value)}))
			}
			w.counted = nil
			if err := use[prefix](); !errors.Is(err, token.ErrRecord) {
				t.Errorf("contract 19: a record under %s %s: %v", prefix, name, err)
			}
			if !slices.Contains(w.counted, metric.NotAuthentic) {
				t.Errorf("contract 19: a record under %s %s is not counted", prefix, name)
			}
			for _, it := range items {
				w.plant(t, it.Key.Name, it.Value)
			}
		}
		coretest.Must(t, use[prefix]())
	}
}

// A forged record in a list is left out: it must not hide the genuine ones.
func TestLists_ForgedRecords(t *testing.T) {
	w := newFixture(t)
	p, secrets := w.everything(t)
	forged := "mem_" + strings.Repeat("0", 32)
	b, err := json.Marshal(record[Member]{w.Clock.Now(),
		Member{ID: forged, Publisher: "pub_a", Role: RoleAdmin}})
	coretest.Must(t, err)
	w.plant(t, memberItems+forged, b)
	w.plant(t, ofMember("pub_a", forged), mark)
	w.plant(t, invitationItems+strings.Repeat("0", 64), b)
	w.plant(t, ofInvitation("pub_a", strings.Repeat("0", 64)), mark)
	w.plant(t, operatorItems+strings.Repeat("0", 64), b)
	members, _, err := w.Members(ctx, "pub_a", "", 10)
	if err != nil || len(members) != 1 || members[0].ID != p.ID {
		t.Errorf("contract 19: members: %+v, %v", members, err)
	}
	invitations, _, err := w.Invitations(ctx, "pub_a", "", 10)
	if err != nil || len(invitations) != 1 {
		t.Errorf("contract 19: invitations: %+v, %v", invitations, err)
	}
	operators, _, err := w.Operators(ctx, "", 10)
	if err != nil || len(operators) != 2 {
		t.Errorf("contract 19: operator tokens: %+v, %v", operators, err)
	}
	// A forged member does not count as a remaining admin.
	if err := w.Remove(ctx, p.Actor, p.ID, nil); err != ErrLastAdmin {
		t.Errorf("contract 19: the last genuine admin: %v", err)
	}
	if err := w.Withdraw(ctx, "pub_a", "inv_0000000000000000"); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 19: withdrawing a forged invitation: %v", err)
	}
	// A passkey item that points to another member does not sign in.
	w.plant(t, passkeyItems+hashOf(string(p.id)), []byte(forged))
	if _, s, err := w.signIn(t, p.device); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 19: a forged member signs in as %+v, %v", s.Actor, err)
	}
	bob := w.enrol(t, "pub_b", RoleAdmin)
	w.plant(t, passkeyItems+hashOf(string(p.id)), []byte(bob.ID))
	if _, s, err := w.signIn(t, p.device); err != ErrUnknownPasskey {
		t.Errorf("contract 19: Ada's passkey signs in as %+v, %v", s.Actor, err)
	}
	if cookie := secrets["the cookie of a sign-in"]; cookie == "" {
		t.Error("the test made no sign-in")
	}
}

// use replaces the fixture's key ring.
func (w *fixture) use(t *testing.T, kr keyring.File) {
	t.Helper()
	ring, err := kr.Ring(rpID, w.Host.Random, w.Clock.Now)
	coretest.Must(t, err)
	w.Host.Sealer = ring
	w.Registry = w.another(t)
}

// Contract 16: records from before a rotation work after it, on an instance that has both keys. An attacker
// who has only the old ring cannot forge a record dated after the replacement.
func TestRegistry_Rotation(t *testing.T) {
	w := newFixture(t)
	kr, err := keyring.Generate(w.Host.Random, w.Clock.Now())
	coretest.Must(t, err)
	w.use(t, kr)
	p, secrets := w.everything(t)
	c, err := w.BeginSignIn()
	coretest.Must(t, err)
	old := kr
	old.Keys = slices.Clone(kr.Keys)
	w.Clock.Advance(time.Minute)
	coretest.Must(t, kr.Rotate(w.Host.Random, w.Clock.Now(), 0))
	w.use(t, kr)

	for _, name := range []string{"the cookie of the enrolment", "the cookie of a sign-in",
		"the cookie of a link", "the cookie of an operator", "the cookie of the configured operator"} {
		w.opens(t, "contract 16: after a rotation, "+name, secrets[name])
	}
	_, _, err = w.SignIn(ctx, c.Form, p.get(t, c), nil)
	coretest.Must(t, err)
	_, _, err = w.UseLink(ctx, secrets["a link"], nil)
	coretest.Must(t, err)
	_, err = w.enrolBy(t, secrets["an invitation"])
	coretest.Must(t, err)
	_, err = w.FindOperator(ctx, secrets["an operator token"])
	coretest.Must(t, err)

	// Ten minutes later, an attacker has the replaced ring and can write to the store.
	w.Clock.Advance(10 * time.Minute)
	w.use(t, old)
	forged, o, err := w.CreateOperator(ctx, "forged", RoleOperator, nil, nil)
	coretest.Must(t, err)
	cookie, _, err := w.UseLink(ctx, func() string {
		secret, _, err := w.MakeLink(ctx, root, "pub_a", "", RoleAdmin, nil)
		coretest.Must(t, err)
		return secret
	}(), nil)
	coretest.Must(t, err)
	late, err := w.BeginSignIn()
	coretest.Must(t, err)
	w.use(t, kr)
	// Signing the directory again does not make the record valid.
	coretest.Must(t, integration.NewDirectory(w.Host.Host).Reseal(ctx))
	if _, err := w.FindOperator(ctx, forged); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 16: an operator token %s by a ring that was replaced: %v", o.ID, err)
	}
	if s, err := w.Registry.Session(ctx, cookie); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 16: a session by a ring that was replaced: %+v, %v", s.Actor, err)
	}
	if _, _, err := w.SignIn(ctx, late.Form, p.get(t, late), nil); err != ErrForm {
		t.Errorf("contract 16: a form by a ring that was replaced: %v", err)
	}
}

// Contract 16: after a rotation the directory is signed again, and the old key is no longer needed.
func TestRegistry_RetiredKey(t *testing.T) {
	w := newFixture(t)
	kr, err := keyring.Generate(w.Host.Random, w.Clock.Now())
	coretest.Must(t, err)
	w.use(t, kr)
	p, secrets := w.everything(t)
	ends := map[string]time.Time{}
	for _, it := range w.items(t, "") {
		ends[it.Key.Name] = it.Expires
	}
	w.Clock.Advance(time.Minute)
	coretest.Must(t, kr.Rotate(w.Host.Random, w.Clock.Now(), 0))
	w.Clock.Advance(time.Second)
	w.use(t, kr)
	coretest.Must(t, integration.NewDirectory(w.Host.Host).Reseal(ctx))
	kr.Keys = kr.Keys[:1]
	w.use(t, kr)

	for _, prefix := range records {
		for _, it := range w.items(t, prefix) {
			if by := token.RecordedWith(it.Value); by != kr.Keys[0].ID ||
				!it.Expires.Equal(ends[it.Key.Name]) {
				t.Errorf("contract 16: %s is signed by %s and ends %v, not %v", it.Key, by, it.Expires,
					ends[it.Key.Name])
			}
		}
	}
	for name, secret := range secrets {
		if strings.HasPrefix(name, "the cookie") {
			w.opens(t, "contract 16: with the new key alone, "+name, secret)
		}
	}
	_, err = w.ReadInvitation(ctx, secrets["an invitation"])
	coretest.Must(t, err)
	_, err = w.ReadLink(ctx, secrets["a link"])
	coretest.Must(t, err)
	_, err = w.FindOperator(ctx, secrets["an operator token"])
	coretest.Must(t, err)
	_, _, err = w.signIn(t, p.device)
	coretest.Must(t, err)
}

// An instance that has not read the newest key makes no decision about records of that key.
func TestRegistry_AwaitedKey(t *testing.T) {
	w := newFixture(t)
	p, secrets := w.everything(t)
	c, err := w.BeginSignIn()
	coretest.Must(t, err)
	w.Host.Sealer = awaiting{w.Ring}
	w.Registry = w.another(t)
	_, session := w.Registry.Session(ctx, p.cookie)
	_, invitation := w.ReadInvitation(ctx, secrets["an invitation"])
	_, operator := w.FindOperator(ctx, secrets["an operator token"])
	_, _, signIn := w.SignIn(ctx, c.Form, p.get(t, c), nil)
	_, _, list := w.Members(ctx, "pub_a", "", 10)
	for name, err := range map[string]error{"a session": session, "an invitation": invitation,
		"an operator token": operator, "a form": signIn, "a list": list} {
		if !errors.Is(err, host.ErrKeyAwaited) {
			t.Errorf("contract 16: %s of an awaited key: %v", name, err)
		}
	}
}

type awaiting struct{ host.Sealer }

func (awaiting) CheckMAC(string, []byte, []byte) (time.Time, error) {
	return time.Time{}, host.ErrKeyAwaited
}

func (awaiting) Open(string, []byte) ([]byte, time.Time, error) {
	return nil, time.Time{}, host.ErrKeyAwaited
}
