package cli

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
)

// The walk of a new publisher by the console of `verge dev`, in a real browser with passkeys (contract 43 to
// 45). The same walk without a browser, on every store and engine, is TestConsole in testharness/conformance.
func TestConsoleInChromium(t *testing.T) {
	long.Skip(t, "TestConsoleInChromium")
	t.Parallel()
	browser := chromium.Start(t)
	p, _, _ := testProgram()
	pub, stop := devHere(t, p)
	defer stop()
	w := &consoleWalk{t: t, operator: newConsoleUser(t, browser, pub.BaseURL),
		mia:      newConsoleUser(t, browser, pub.BaseURL),
		endpoint: newEndpoint(t)}
	w.create(pub.OperatorToken)
	w.invite(w.mia, "Mia", "developer")
	w.prepare()
	w.try()
	w.repair()
	w.restage()
	vic := newConsoleUser(t, browser, pub.BaseURL)
	w.invite(vic, "Vic", "viewer")
	w.view(vic)
	w.oversee()
}

type consoleWalk struct {
	t             *testing.T
	operator, mia *consoleUser
	endpoint      *endpoint
	home          string // address of the publisher's pages
	integration   string // of the pages of its integration
}

// create: the operator creates a publisher with an integration.
func (w *consoleWalk) create(token string) {
	o := w.operator
	o.open("/console")
	o.look("sign-in")
	o.send("sign-in", "token", "nobody's")
	o.reads("This operator token is not valid")
	o.look("sign-in-refused")
	o.send("sign-in", "token", token)
	o.reads("Publishers")
	o.look("publishers")
	o.send("create-publisher", "name", "Acme & Sons")
	o.reads("was created", "0 of 5 done")
	w.home = strings.Split(o.at(), "?")[0]
	o.look("overview-new")
	o.follow("Create an integration")
	o.look("integration-new")
	o.press(`li[data-method="sandbox"] [role="switch"]:checked`, false) // off
	o.send("create-integration", "name", "Shop", "level", "L1", "challenge_age", "25")
	o.reads("Switch on at least one method.")
	o.look("integration-new-refused")
	o.press(`li[data-method="sandbox"] [role="switch"]:not(:checked)`, false)
	o.send("create-integration")
	o.reads("The integration Shop was created.")
	w.integration = strings.Split(o.at(), "?")[0]
}

// invite: a person creates a passkey with an invitation, and signs in with it again.
func (w *consoleWalk) invite(guest *consoleUser, name, role string) {
	o := w.operator
	o.open(w.home + "/members")
	o.look("members-empty")
	o.send("invite-member", "name", name, "role", role)
	o.look("members-invited")
	link := o.secret()
	guest.open(link)
	guest.look("invitation")
	guest.send("enrol")
	guest.reads("Your passkey was created", "Overview")
	guest.press(`form[data-action="sign-out"] button`)
	guest.reads("You are signed out.")
	guest.send("sign-in-passkey")
	guest.reads("You are signed in as " + name)
	guest.open("/console/account")
	guest.look("account")
	w.operator.open(link)
	w.operator.reads("It was used")
	w.operator.look("invitation-used")
}

// prepare: a member sets the webhook, fixes the receiver and creates a key.
func (w *consoleWalk) prepare() {
	m, e := w.mia, w.endpoint
	m.open(w.home)
	m.follow("Set up the webhook")
	m.look("webhook-empty")
	m.follow("Go to the settings")
	m.look("integration")
	m.reorders()
	m.follow("Set up the webhook")
	m.send("save-integration", "webhook_url", "https://user@receiver.example")
	m.look("integration-refused")
	m.send("save-integration", "webhook_url", e.URL)
	m.look("webhook-secret")
	e.secret.Store(m.secret())
	e.careless.Store(true)
	m.open(w.integration + "/webhook")
	m.look("webhook-untested")
	m.send("test-webhook")
	m.reads("1 of 5 probes failed", "Reject a t that differs from your clock by more than 300 seconds")
	m.look("webhook-failed")
	e.careless.Store(false)
	m.send("test-webhook")
	m.reads("Ready. Your receiver checks signatures correctly.")
	m.look("webhook-ready")
	m.open(w.home)
	m.look("overview-half")
	m.follow("Create a key")
	m.look("keys-empty")
	m.send("create-key")
	m.reads("The key was created.")
	m.look("keys-secret")
	m.open(w.home + "/keys")
	m.look("keys")
}

// try: the member sends each test event, and walks through a session in the sandbox.
func (w *consoleWalk) try() {
	m := w.mia
	m.open(w.home + "/test")
	m.look("test")
	for _, kind := range webhook.Types() {
		m.send("send-test-event", "type", kind)
		m.reads("your receiver accepted it", "Sent "+kind)
	}
	m.look("test-sent")
	m.send("start-test-session")
	m.look("test-session")
	access := m.link("Open it in a new tab")
	m.follow("Follow the session here")
	session := m.at()
	m.look("session-pending")
	m.open(access)
	m.press(`form[data-outcome="approve"] button`)
	m.arrives(w.home + "/test?")
	m.reads("You have returned from your test session", "Completed")
	m.look("test-back")
	m.open(w.home + "/sessions")
	m.look("sessions")
	m.send("find-session", "session_id", session[strings.LastIndex(session, "/")+1:])
	m.reads("Session found.", "Completed")
	m.look("session")
}

// repair: an event that the receiver rejects is dead, and arrives when it is sent again.
func (w *consoleWalk) repair() {
	m, e := w.mia, w.endpoint
	e.rejects.Store(true)
	m.open(w.home + "/test")
	m.send("start-test-session")
	wait.Until(w.t, "a dead event", func() bool {
		m.open(w.home + "/deliveries?state=dead")
		return strings.Contains(m.text(), "410")
	})
	m.open(w.home)
	m.reads("1 event failed")
	m.look("overview-dead")
	m.follow("Show the reason, and resend: Shop")
	m.look("deliveries-dead")
	m.follow("started")
	m.reads("Failed", "410")
	m.look("delivery-dead")
	e.rejects.Store(false)
	m.send("resend")
	m.reads("The event is being resent.")
	at := m.at()
	wait.Until(w.t, "the event arrives", func() bool {
		m.open(strings.Split(at, "?")[0])
		return strings.Contains(m.text(), "Delivered")
	})
	m.look("delivery")
	m.open(w.home + "/deliveries")
	m.look("deliveries")
}

// restage: a new secret takes the old one's place when the receiver has it.
func (w *consoleWalk) restage() {
	m := w.mia
	m.open(w.integration + "/webhook")
	m.send("stage-webhook", "secret", "new")
	m.look("webhook-staged")
	secret := m.secret()
	m.send("test-staged")
	m.reads("Not ready", "Waiting for its test")
	m.look("webhook-staged-failed")
	w.endpoint.secret.Store(secret)
	m.send("test-staged")
	m.reads("The staged webhook is now active")
	m.open(w.home + "/usage")
	m.look("usage")
}

// view: a viewer sees everything and finds no form that changes something.
func (w *consoleWalk) view(vic *consoleUser) {
	for _, page := range []string{w.home, w.home + "/integrations", w.integration, w.integration + "/webhook",
		w.home + "/test", w.home + "/keys", w.home + "/deliveries", w.home + "/members", w.home + "/audit"} {
		vic.do(phone)
		vic.open(page)
		for _, hidden := range evaluate[[]string](vic, currentHidden) {
			w.t.Errorf("%s on a phone: the link of the present page is out of sight: %s", page, hidden)
		}
		for _, action := range evaluate[[]string](vic, `[...document.querySelectorAll("form[data-action]")]
			.map(f => f.dataset.action)`) {
			if action != "sign-out" {
				w.t.Errorf("%s shows a viewer the form %s", page, action)
			}
		}
		vic.look("viewer-" + page[strings.LastIndex(page, "/")+1:][:4])
	}
}

// oversee: the pages that operators alone have.
func (w *consoleWalk) oversee() {
	o := w.operator
	for _, page := range []string{"publishers", "operators", "methods", "audit", "nowhere"} {
		o.open("/console/" + page)
		o.look("operator-" + page)
	}
	o.open(w.home + "/settings")
	o.look("settings")
	o.open(w.home + "/members")
	o.look("members")
	o.open(w.home)
	o.look("overview")
}

// reorders: a method is switched on and moved, and the settings are fields without commas or JSON.
func (p *consoleUser) reorders() {
	p.t.Helper()
	const names = `[...document.querySelectorAll("[data-method]")].map(li => li.dataset.method).join(" ")`
	before := strings.Fields(evaluate[string](p, names))
	last := before[len(before)-1]
	p.press(`li[data-method="`+last+`"] [role="switch"]`, false)
	up := `button[name="move"][value="` + last + ` up"]`
	for range before[1:] {
		p.press(up, false)
	}
	after := strings.Fields(evaluate[string](p, names))
	if after[0] != last || evaluate[string](p, `document.activeElement.value`) != last+" down" {
		p.t.Errorf("contract 45: the script moves %q to %q", before, after)
	}
	p.send("save-integration")
	p.reads("Saved.")
	if now := evaluate[string](p, names); now != strings.Join(after, " ") {
		p.t.Errorf("contract 45: the order %q is saved as %q", after, now)
	}
	p.look("integration-two-methods")
	p.press(`li[data-method="`+last+`"] [role="switch"]`, false) // test sessions need the sandbox alone
	p.send("save-integration")
	p.reads("Saved.")
	for _, wrong := range evaluate[[]string](p, `[...document.querySelectorAll("main input, main textarea")]
		.filter(e => e.checkVisibility() && e.type !== "hidden" && /[,{]/.test(e.value)).map(e => e.outerHTML)`) {
		p.t.Errorf("contract 45: a list with commas, or JSON: %s", wrong)
	}
}
