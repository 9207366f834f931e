package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// guest is a person with a link to the console: an invitation that makes a member, or a sign-in link for a
// session. Anyone who has the link can be the guest.
type guest struct {
	shop   *shop
	name   string
	link   string
	member bool // by an invitation

	posts     time.Time // when someone posts the form of the link
	entered   *browser  // the browser that the link has admitted
	author    span      // the revocation of the operator token that created the link
	removed   span
	demoted   span // to a viewer
	signedOut span // of all sessions that were open
}

// span is an operator's request that was acknowledged, if not zero.
type span struct{ asked, acknowledged time.Time }

// before reports whether the request was acknowledged before a time.
func (s span) before(at time.Time) bool { return !s.acknowledged.IsZero() && s.acknowledged.Before(at) }

// console is a browser in the console.
type console struct {
	*browser
	guest  *guest
	device *passkeytest.Authenticator
	opened time.Time // when its session was open, at the latest
}

// admit is an operator who admits guests, and who removes and demotes them later.
func (w *world) admit() {
	act := w.current.act
	for n := range 1 + act.pick(2) {
		w.sleep(time.Duration(5+act.pick(100)) * time.Second)
		w.met(switchMembers)
		s := w.shops[act.pick(2)]
		g := &guest{shop: s, name: fmt.Sprintf("%s guest %d", w.current.name, n+1), member: !act.chance(300)}
		token, tokenID := operatorToken, ""
		if act.chance(300) {
			token, tokenID = w.newOperator(g.name)
		}
		path := "/admin/v1/links"
		if g.member {
			path = "/admin/v1/invitations"
		}
		a := w.ask(true, request("POST", path, token, map[string]string{"publisher_id": s.publisher,
			"name": g.name, "role": "admin"}))
		if g.link = a.text("link"); a.status != 200 {
			continue
		}
		w.person(g.name, func() { w.enter(g, byte(180+n)) })
		if act.chance(600) {
			w.person("finder of the link of "+g.name, func() { w.enter(g, byte(190+n)) })
		}
		w.sleep(time.Duration(act.pick(90)) * time.Second)
		if tokenID != "" {
			g.author = w.operate("revokes the token of the author of "+g.name,
				"/admin/v1/operators/"+tokenID+"/revoke", nil)
		}
		w.sleep(time.Duration(act.pick(90)) * time.Second)
		if id := w.memberID(g); id != "" {
			w.endMembership(g, id)
		}
	}
}

// operate is an operator's request. It returns when it was acknowledged, or zero.
func (w *world) operate(what, path string, body any) (s span) {
	asked := w.now
	a := w.ask(true, request("POST", path, operatorToken, body))
	w.tell(w.current.name, "%s: %d", what, a.status)
	if a.status != 200 {
		return s
	}
	return span{asked, w.now}
}

func (w *world) endMembership(g *guest, id string) {
	path := "/admin/v1/members/" + id
	switch w.current.act.pick(4) {
	case 1:
		g.removed = w.operate("removes "+g.name, path+"/remove", nil)
	case 2:
		g.demoted = w.operate("demotes "+g.name, path+"/role", map[string]string{"role": "viewer"})
	case 3:
		g.signedOut = w.operate("signs out "+g.name, path+"/sign-out", nil)
	}
}

// newOperator creates an operator token, and returns it and its id.
func (w *world) newOperator(name string) (token, id string) {
	a := w.ask(true, request("POST", "/admin/v1/operators", operatorToken,
		map[string]string{"name": name, "role": "operator"}))
	var created struct {
		Token string
		Info  struct{ ID string }
	}
	if a.status != 200 || json.Unmarshal(a.body, &created) != nil {
		return operatorToken, ""
	}
	return created.Token, created.Info.ID
}

// memberID returns the id of a guest who is a member, or "".
func (w *world) memberID(g *guest) string {
	a := w.ask(true, request("GET", "/admin/v1/members?publisher_id="+g.shop.publisher, operatorToken, nil))
	var list struct {
		Members []struct{ ID, Name string } `json:"members"`
	}
	_ = json.Unmarshal(a.body, &list)
	for _, m := range list.Members {
		if m.Name == g.name {
			return m.ID
		}
	}
	return ""
}

// enter is a guest, or the finder of the link: they open it, and work in the console.
func (w *world) enter(g *guest, address byte) {
	act := w.current.act
	b := &console{browser: &browser{w: w, cookies: map[string]string{}, address: address}, guest: g,
		device: passkeytest.New(baseURL)}
	b.device.Algorithm, b.device.Random = passkeytest.EdDSA, &random{act.next()}
	w.sleep(time.Duration(1+act.pick(60)) * time.Second)
	b.send("HEAD", g.link, nil)
	p := b.get(g.link)
	f, ok := p.find(func(f form) bool { return f.act == "use-link" || f.act == "enrol" })
	if !ok {
		return
	}
	at := w.now.Add(time.Duration(1+act.pick(60)) * time.Second)
	if g.posts.After(w.now) && act.chance(800) {
		at = g.posts // both at the same time
	}
	g.posts = at
	w.sleep(at.Sub(w.now))
	if f.act == "enrol" {
		made, err := b.device.Create([]byte(f.options))
		if err != nil {
			return // the device has the passkey already
		}
		f.fields.Set("name", g.name)
		f.fields.Set(method.CredentialField, string(made.JSON()))
	}
	asked := w.now
	b.post(f)
	if len(b.cookies) > 0 {
		w.judge.admitted(g, b.browser, asked)
		b.opened = w.now
	}
	for range 2 + act.pick(6) {
		w.sleep(time.Duration(1+act.pick(60)) * time.Second)
		w.work(b)
	}
}

// inConsole reports whether the page shows the console to a person who is signed in.
func (p page) inConsole() bool {
	return p.status == 200 && !strings.Contains(p.at, "/sign-in") && !strings.Contains(p.at, "/invitation") &&
		!strings.Contains(p.at, "/link")
}

// work is one step of a guest in the console.
func (w *world) work(b *console) {
	own, asked := baseURL+"/console/p/"+b.guest.shop.publisher, w.now
	switch w.current.act.pick(6) {
	case 0:
		w.judge.inside(b, b.get(own+"/integrations"), asked)
	case 1: // the page of another publisher
		other := w.shops[0]
		if other == b.guest.shop {
			other = w.shops[1]
		}
		if p := b.get(baseURL + "/console/p/" + other.publisher + "/keys"); p.inConsole() {
			w.judge.fail("threats: %s sees the keys of %s", b.guest.name, other.publisher)
		}
	case 2, 3: // post a form that may be old by then
		p := b.get(own + "/keys")
		w.judge.inside(b, p, asked)
		f, ok := p.find(func(f form) bool { return f.act == "create-key" })
		if !ok {
			return
		}
		w.sleep(time.Duration(w.current.act.pick(90)) * time.Second)
		asked = w.now
		w.judge.createdKey(b, b.post(f), asked)
	case 4:
		w.signInAgain(b)
	case 5: // a copy of the cookie outlives no sign-out
		p := b.get(baseURL + "/console/account")
		f, ok := p.find(func(f form) bool { return f.act == "sign-out" })
		if !ok {
			return
		}
		copied := &console{browser: &browser{w: w, cookies: copyOf(b.cookies), address: b.address},
			guest: b.guest, opened: b.opened}
		if p := b.post(f); !strings.Contains(p.at, "out=1") {
			return
		}
		b.opened = time.Time{}
		if p := copied.get(own + "/integrations"); p.inConsole() && !w.judge.forgot {
			w.judge.fail("threats: the session of %s continues after its sign-out", b.guest.name)
		}
		w.judge.reach("member signed out")
	}
}

func copyOf(cookies map[string]string) map[string]string {
	c := map[string]string{}
	maps.Copy(c, cookies)
	return c
}

// signInAgain is a member who signs in by a passkey.
func (w *world) signInAgain(b *console) {
	p := b.get(baseURL + "/console/sign-in")
	f, ok := p.find(func(f form) bool { return f.act == "sign-in-passkey" })
	if !ok {
		return
	}
	used, err := b.device.Get([]byte(f.options))
	if err != nil {
		return
	}
	f.fields.Set(method.CredentialField, string(used.JSON()))
	asked := w.now
	b.cookies = map[string]string{}
	p = b.post(f)
	if len(b.cookies) > 0 {
		b.opened = w.now
		w.judge.inside(b, p, asked)
		w.judge.reach("member signed in")
	}
}

// admitted is a session that a link has opened in a browser.
func (j *judge) admitted(g *guest, b *browser, asked time.Time) {
	j.reach("guest admitted")
	switch {
	case j.forgot:
	case g.entered != nil:
		j.fail("threats: the link of %s admits two browsers", g.name)
	case g.author.before(asked):
		j.fail("threats: the link of %s outlives the right of its author", g.name)
	case j.surelyArchived(g.shop, asked, j.w.now):
		j.fail("contract 46: the link of %s opens the console of an archived publisher", g.name)
	}
	g.entered = b
}

// inside is a page of the console that was asked for at a time.
func (j *judge) inside(b *console, p page, asked time.Time) {
	j.console(p)
	if !p.inConsole() {
		return
	}
	g := b.guest
	switch {
	case j.forgot:
	case b.opened.IsZero():
		j.fail("threats: %s is in the console without a session", g.name)
	case g.removed.before(asked):
		j.fail("threats: %s was removed, and the session continues", g.name)
	case g.signedOut.before(asked) && b.opened.Before(g.signedOut.asked):
		j.fail("threats: %s was signed out, and the session continues", g.name)
	case !g.member && g.author.before(asked):
		j.fail("threats: the session of %s outlives the operator token that it depends on", g.name)
	}
	j.reach("console page")
}

// createdKey is the page after a form for another key was posted.
func (j *judge) createdKey(b *console, p page, asked time.Time) {
	j.inside(b, p, asked)
	if !strings.Contains(string(p.body), "svc_sk_") {
		return
	}
	j.reach("member created a key")
	if b.guest.demoted.before(asked) && !j.forgot {
		j.fail("threats: %s is a viewer, and creates a key", b.guest.name)
	}
}

// console checks a page for errors of the service.
func (j *judge) console(p page) {
	if p.status == 500 {
		u, _ := url.Parse(p.at)
		j.fail("contract 5: the page %s of the console returns 500", u.Path)
	}
}
