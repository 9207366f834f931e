package console_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/console"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/member"
	core "github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/testharness/passkeytest"
)

const operatorToken = "an operator token of the configuration"

// let gives a console the real Access: package member on the store of the test.
func (w *fixture) let(t testing.TB, rpID, origin string) *console.People {
	t.Helper()
	rp, err := core.NewRelyingParty(rpID, "Verge", origin)
	coretest.Must(t, err)
	p := &console.People{
		Registry:  member.New(w.Host.Host, member.Config{OperatorToken: operatorToken, Passkeys: &rp}),
		Directory: w.directory,
		Guard: &operate.TokenGuard{Limiter: &ratelimit.Limiter{Store: ratelimit.NewLocal(100)},
			Limit:      ratelimit.PerMinute(20),
			Operations: w.Operations},
		Sealer: w.Host.Host.Sealer, Now: w.Host.Host.Now, Random: w.Host.Host.Random,
	}
	w.Access, w.Operations.People = p, p.Registry
	return p
}

// invite makes an invitation as an operator, and returns its secret.
func invite(t testing.TB, p *console.People) string {
	t.Helper()
	o, err := p.Registry.FindOperator(context.Background(), operatorToken)
	coretest.Must(t, err)
	secret, _, err := p.Registry.Invite(context.Background(), o.Actor(), mineID, "Karen Jones",
		operate.RoleAdmin, nil)
	coretest.Must(t, err)
	return secret
}

// ceremony returns the options and the state of the form with that action.
func ceremony(t testing.TB, doc *html.Node, action string) (options []byte, state string) {
	t.Helper()
	form := with(doc, "data-action", action)
	if form == nil {
		t.Fatalf("there is no form %s on the page", action)
	}
	field := with(form, "name", "state")
	return []byte(attr(form, "data-options")), attr(field, "value")
}

// opened returns the cookie that an answer sets.
func opened(t testing.TB, header string) string {
	t.Helper()
	value, _, _ := strings.Cut(strings.TrimPrefix(header, cookieName+"="), ";")
	if value == "" {
		t.Fatalf("no session: Set-Cookie is %q", header)
	}
	return value
}

// posts sends the form of an action with the session's own token, which it takes from the page.
func (w *fixture) posts(t testing.TB, page, path, cookie, action, form string) (status int, location string) {
	t.Helper()
	found := with(parse(t, w.ask("GET", page, cookie, "")), "data-action", action)
	token := with(found, "name", "csrf")
	resp := w.ask("POST", path, cookie, "do="+action+"&"+form+"&csrf="+url.QueryEscape(attr(token, "value")))
	return resp.Status, resp.Header.Get("Location")
}

// newcomer is a member with an invitation, a device for passkeys, and the cookie of a session later.
type newcomer struct {
	*fixture
	t        *testing.T
	people   *console.People
	secret   string
	device   *passkeytest.Authenticator
	cookie   string
	passkeys []operate.Passkey
}

// Contract 30: an empty form is no wrong token.
func TestSignIn_EmptyToken(t *testing.T) {
	w := newFixture(t)
	w.let(t, "verify.example", base)
	for range 30 {
		if resp := w.ask("POST", "/console/sign-in", "", "do=sign-in&token="); resp.Status != 401 {
			t.Fatalf("contract 30: without a token: %d", resp.Status)
		}
	}
}

func TestSignIn_Member(t *testing.T) {
	w := newFixture(t)
	people := w.let(t, "verify.example", base)
	m := &newcomer{fixture: w, t: t, people: people, secret: invite(t, people), device: passkeytest.New(base)}
	m.enrols()
	m.signsOut()
	m.signsIn()
	m.mayAddAPasskeyOnlyAtFirst()
	elsewhere := m.signsInElsewhere(m.addsAPasskey())
	m.endsTheSession(elsewhere)
	m.removesAPasskey()
	m.isInTheAudit()
}

// enrols takes the invitation, which is good for one publisher and for one time.
func (m *newcomer) enrols() {
	m.t.Helper()
	page := m.ask("GET", "/console/invitation?invitation="+m.secret, "", "")
	options, state := ceremony(m.t, parse(m.t, page), "enrol")
	made, err := m.device.Create(options)
	coretest.Must(m.t, err)
	form := "do=enrol&name=Karen+Jones&token=" + m.secret + "&state=" + url.QueryEscape(state) +
		"&credential=" + url.QueryEscape(string(made.JSON()))
	resp := m.ask("POST", "/console/invitation", "", form)
	if resp.Status != 303 || !strings.HasPrefix(resp.Header.Get("Location"), mine+"?note=") {
		m.t.Fatalf("enrolling: %d to %s\n%s", resp.Status, resp.Header.Get("Location"), resp.Body)
	}
	m.cookie = opened(m.t, resp.Header.Get("Set-Cookie"))
	if m.ask("GET", mine, m.cookie, "").Status != 200 || m.ask("GET", "/console/p/"+othersID, m.cookie,
		"").Status != 404 {
		m.t.Error("a member sees one publisher, and no other")
	}
	for path, method := range map[string]string{"/console/invitation?invitation=" + m.secret: "GET",
		"/console/invitation": "POST"} {
		if again := m.ask(method, path, "", form); again.Status != 410 || again.Header.Has("Set-Cookie") {
			m.t.Errorf("the invitation a second time, %s: %d, want 410", method, again.Status)
		}
	}
}

func (m *newcomer) signsOut() {
	m.t.Helper()
	if status, to := m.posts(m.t, mine, "/console/account", m.cookie, "sign-out", ""); status != 303 {
		m.t.Errorf("signing out: %d to %s", status, to)
	}
	if got := m.ask("GET", mine, m.cookie, "").Status; got != 303 {
		m.t.Errorf("the cookie from before the sign-out: %d, want 303 to the sign-in", got)
	}
}

// proves is the form for signing in with a passkey of a device.
func (m *newcomer) proves(device *passkeytest.Authenticator) string {
	m.t.Helper()
	options, state := ceremony(m.t, parse(m.t, m.ask("GET", "/console/sign-in", "", "")), "sign-in-passkey")
	answer, err := device.Get(options)
	coretest.Must(m.t, err)
	return "do=sign-in-passkey&state=" + url.QueryEscape(state) + "&credential=" +
		url.QueryEscape(string(answer.JSON()))
}

func (m *newcomer) signsIn() {
	m.t.Helper()
	form := m.proves(m.device)
	resp := m.ask("POST", "/console/sign-in", "", form)
	m.cookie = opened(m.t, resp.Header.Get("Set-Cookie"))
	if got := m.ask("GET", mine, m.cookie, "").Status; resp.Status != 303 || got != 200 {
		m.t.Errorf("signing in: %d, then %d", resp.Status, got)
	}
	if again := m.ask("POST", "/console/sign-in", "", form); again.Status != 401 ||
		again.Header.Has("Set-Cookie") {
		m.t.Errorf("a passkey's response for the second time: %d, want 401", again.Status)
	}
}

func (m *newcomer) mayAddAPasskeyOnlyAtFirst() {
	m.t.Helper()
	m.Clock.Advance(10 * time.Minute)
	account := string(m.ask("GET", "/console/account", m.cookie, "").Body)
	if strings.Contains(account, "add-passkey") || !strings.Contains(account, "Sign in again to add one") ||
		!strings.Contains(account, "Passkey 1") {
		m.t.Errorf("10 minutes after signing in the page offers another passkey:\n%s", account)
	}
	m.Clock.Advance(-10 * time.Minute)
}

// addsAPasskey adds one called laptop, and returns its device.
func (m *newcomer) addsAPasskey() *passkeytest.Authenticator {
	m.t.Helper()
	laptop := passkeytest.New(base)
	page := parse(m.t, m.ask("GET", "/console/account", m.cookie, ""))
	options, state := ceremony(m.t, page, "add-passkey")
	added, err := laptop.Create(options)
	coretest.Must(m.t, err)
	if status, to := m.posts(m.t, "/console/account", "/console/account", m.cookie, "add-passkey",
		"name=laptop&state="+url.QueryEscape(state)+"&credential="+
			url.QueryEscape(string(added.JSON()))); status != 303 {
		m.t.Errorf("adding a passkey: %d to %s", status, to)
	}
	m.passkeys, _, err = m.people.Passkeys(context.Background(), m.cookie)
	coretest.Must(m.t, err)
	if len(m.passkeys) != 2 {
		m.t.Fatalf("the member has %d passkeys, want 2", len(m.passkeys))
	}
	return laptop
}

// signsInElsewhere returns the cookie of a second session, with the passkey of another device.
func (m *newcomer) signsInElsewhere(device *passkeytest.Authenticator) string {
	m.t.Helper()
	resp := m.ask("POST", "/console/sign-in", "", m.proves(device))
	return opened(m.t, resp.Header.Get("Set-Cookie"))
}

// endsTheSession ends the session that was opened with the laptop.
func (m *newcomer) endsTheSession(elsewhere string) {
	m.t.Helper()
	sessions, err := m.people.Sessions(context.Background(), m.cookie)
	coretest.Must(m.t, err)
	for _, s := range sessions {
		if s.Passkey.Name != "laptop" {
			continue
		}
		if status, _ := m.posts(m.t, "/console/account", "/console/account", m.cookie, "end-session",
			"session="+s.ID); status != 303 {
			m.t.Errorf("ending a session: %d", status)
		}
	}
	if got := m.ask("GET", "/console/account", elsewhere, "").Status; got == 200 {
		m.t.Error("the session that was ended still opens the console")
	}
}

// removesAPasskey removes one of two. The last one stays.
func (m *newcomer) removesAPasskey() {
	m.t.Helper()
	if status, _ := m.posts(m.t, "/console/account", "/console/account", m.cookie, "remove-passkey",
		"passkey="+m.passkeys[1].ID); status != 303 {
		m.t.Errorf("removing a passkey: %d", status)
	}
	if err := m.people.RemovePasskey(context.Background(), m.cookie, m.passkeys[0].ID); err == nil {
		m.t.Error("the last passkey is removed")
	}
}

func (m *newcomer) isInTheAudit() {
	m.t.Helper()
	entries, _, err := audit.List(context.Background(), m.Memory, m.Host.Host.Sealer, mineID, "", 50)
	coretest.Must(m.t, err)
	seen := map[string]bool{}
	for _, e := range entries {
		seen[e.Operation] = true
	}
	for _, want := range []string{"member.enrol", "member.sign-in", "passkey.add", "passkey.remove",
		"session.end"} {
		if !seen[want] {
			m.t.Errorf("the audit does not contain %s: %v", want, seen)
		}
	}
}

func TestSignIn_Operator(t *testing.T) {
	w := newFixture(t)
	people := w.let(t, "verify.example", base)
	resp := w.ask("POST", "/console/sign-in", "", "do=sign-in&token="+url.QueryEscape(operatorToken))
	cookie := opened(t, resp.Header.Get("Set-Cookie"))
	if got := w.ask("GET", "/console/publishers", cookie, "").Status; got != 200 {
		t.Errorf("an operator sees the publishers: %d", got)
	}
	if status, _ := w.posts(t, "/console/publishers", "/console/publishers", cookie, "create-publisher",
		"name=Neu"); status != 303 {
		t.Errorf("creating a publisher: %d", status)
	}
	if got := w.ask("POST", "/console/publishers", cookie,
		"do=create-publisher&name=Neu&csrf=wrong").Status; got != 403 {
		t.Errorf("a form with a wrong token: %d, want 403", got)
	}
	for n := range 21 {
		want := 401
		if n == 20 {
			want = 429
		}
		if got := w.ask("POST", "/console/sign-in", "", "do=sign-in&token=wrong").Status; got != want {
			t.Errorf("wrong token %d: %d, want %d", n+1, got, want)
		}
	}
	right := "do=sign-in&token=" + url.QueryEscape(operatorToken)
	if got := w.ask("POST", "/console/sign-in", "", right).Status; got != 429 {
		t.Errorf("contract 30: the right token behind 20 wrong ones: %d", got)
	}
	w.Host.Clock.Advance(time.Minute)
	if got := w.ask("POST", "/console/sign-in", "", right).Status; got != 303 {
		t.Errorf("contract 30: the right token after the minute: %d", got)
	}

	o, err := people.Registry.FindOperator(context.Background(), operatorToken)
	coretest.Must(t, err)
	secret, _, err := people.Registry.MakeLink(context.Background(), o.Actor(), mineID, "",
		operate.RoleViewer, nil)
	coretest.Must(t, err)
	if got := w.ask("GET", "/console/link?link="+secret, "", "").Status; got != 200 {
		t.Errorf("looking at a link: %d", got)
	}
	resp = w.ask("POST", "/console/link", "", "do=use-link&token="+secret)
	viewer := opened(t, resp.Header.Get("Set-Cookie"))
	if w.ask("GET", mine, viewer, "").Status != 200 || w.ask("GET", mine+"/settings", viewer,
		"").Status != 403 {
		t.Error("a link for a viewer gives a viewer")
	}
	if got := w.ask("POST", "/console/link", "", "do=use-link&token="+secret).Status; got != 410 {
		t.Errorf("a link a second time: %d, want 410", got)
	}
	w.Clock.Advance(13 * time.Hour)
	if got := w.ask("GET", mine, viewer, "").Status; got != 303 {
		t.Errorf("after 13 hours: %d, want 303 to the sign-in", got)
	}
}

// Sign-in is rejected if the publisher was archived while the page of an invitation or a link was open.
func TestSignIn_ArchivedPublisher(t *testing.T) {
	w := newFixture(t)
	people := w.let(t, "verify.example", base)
	invitation, device := invite(t, people), passkeytest.New(base)
	page := w.ask("GET", "/console/invitation?invitation="+invitation, "", "")
	options, state := ceremony(t, parse(t, page), "enrol")
	made, err := device.Create(options)
	coretest.Must(t, err)
	o, err := people.Registry.FindOperator(context.Background(), operatorToken)
	coretest.Must(t, err)
	link, _, err := people.Registry.MakeLink(context.Background(), o.Actor(), mineID, "",
		operate.RoleAdmin, nil)
	coretest.Must(t, err)
	at := w.Clock.Now()
	coretest.Must(t, people.Directory.PutPublisher(context.Background(),
		integration.Publisher{ID: mineID, Name: "Mine", Archived: &at}))

	for path, form := range map[string]string{
		"/console/invitation": "do=enrol&name=Karen&token=" + invitation +
			"&state=" + url.QueryEscape(state) + "&credential=" + url.QueryEscape(string(made.JSON())),
		"/console/link": "do=use-link&token=" + link,
	} {
		resp := w.ask("POST", path, "", form)
		if resp.Status != 410 || resp.Header.Get("Set-Cookie") != "" {
			t.Errorf("contract 43: %s to an archived publisher: %d, want 410", path, resp.Status)
		}
	}
}

// The script hands over what a real browser's passkeys say.
func TestPasskeysInChromium(t *testing.T) {
	b := newBrowser(t)
	b.url = strings.Replace(b.url, "127.0.0.1", "localhost", 1)
	b.BaseURL = b.url
	people := b.let(t, "localhost", b.url)
	b.do(command(webauthn.Enable, webauthn.EnableParams{}),
		command(webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
			Options: &webauthn.VirtualAuthenticatorOptions{Protocol: "ctap2", Ctap2version: "ctap2_1",
				Transport: "internal", HasResidentKey: true, HasUserVerification: true, IsUserVerified: true,
				AutomaticPresenceSimulation: true}}))
	press := func(action string) {
		t.Helper()
		b.do(chromedp.Click(`form[data-action="` + action + `"] button`))
	}
	arrives := func(text string) {
		t.Helper()
		deadline := time.Now().Add(5 * time.Minute)
		for time.Now().Before(deadline) {
			said, err := chromedp.Run(
				b.ctx,
				chromedp.Evaluate[string](
					`document.readyState === "complete" ? document.body.innerText : ""`,
				),
			)
			if err == nil && strings.Contains(said, text) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("the page does not contain %q:\n%s", text, eval[string](b, `document.body.innerText`))
	}
	b.do(chromedp.Navigate(b.url + "/console/invitation?invitation=" + invite(t, people)))
	press("enrol")
	arrives("Your passkey was created, and you are signed in.")
	press("sign-out")
	arrives("You are signed out.")
	press("sign-in-passkey")
	arrives("You are signed in as Karen Jones.")
	b.do(chromedp.Navigate(b.url + "/console/account"))
	press("add-passkey")
	arrives("This device has a passkey for you already.")
	b.do(chromedp.Navigate(b.url + mine + "/keys"))
	press("create-key")
	arrives("Copy")
}
