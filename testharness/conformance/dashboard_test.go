package conformance_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
)

// newcomer is a publisher that sets itself up by the console, and who takes part in that.
type newcomer struct {
	t    *testing.T
	h    *testharness.Harness // has the console, and takes a receiver by http, as in dev
	live *testharness.Harness // the same service with the rules of production
	told []string

	operator, mia *visitor
	receiver      *receiver
	home          string // path of the publisher's pages
	integration   string // its id
	key           string
	session       string // the session that the test console started
}

// The walk from an empty service to a verified session in production, with the console alone (contract 43 to
// 45). The steps build on each other.
func TestConsole(t *testing.T) {
	h := newHarness(t, &opts{Production: true, Configure: func(c *core.Config) { c.Dev = true }})
	n := &newcomer{t: t, h: h, receiver: newReceiver(t, h.Now),
		live: newHarness(t, &opts{Production: true, KV: sharing(h), Keyring: h.Keyring})}
	n.operator, n.mia = newVisitor(t, h, &n.told), newVisitor(t, h, &n.told)
	n.isCreated()
	n.invites(n.mia, "Mia", "developer")
	n.setsWebhook()
	n.becomesReady()
	n.triesOut()
	n.repairsDelivery()
	n.changesSecret()
	n.goesLive()
	n.viewerChangesNothing()
	for _, secret := range n.told {
		if strings.Contains(h.Logs()+n.live.Logs(), secret) {
			t.Error("contract 13: a secret that the console has shown is in the log")
		}
	}
	if len(n.told) != 5 { // two invitations, two webhook secrets, a key
		t.Errorf("contract 45: the pages have shown %d secrets, want 5", len(n.told))
	}
}

// page is the path of one of the publisher's pages.
func (n *newcomer) page(parts ...string) string { return n.home + "/" + strings.Join(parts, "/") }

// isCreated: an operator signs in, and creates a publisher with an integration.
func (n *newcomer) isCreated() {
	v := n.operator
	v.open("/console")
	v.sees(200, "Sign in")
	v.send("sign-in", "token", "vrg_op_nobody")
	v.sees(401, "This operator token is not valid")
	v.send("sign-in", "token", n.h.OperatorToken)
	v.open("/console")
	v.send("create-publisher", "name", "Acme & <b>Sons</b>")
	v.sees(200, "The publisher Acme & <b>Sons</b> was created.", "0 of 5 done")
	n.home = v.path
	v.follow("Create an integration")
	v.send("create-integration", "name", "Shop", "level", "L1", "challenge_age", "25", "methods", "sandbox")
	v.sees(200, "The integration Shop was created.", "No webhook")
	n.integration = v.path[strings.LastIndex(v.path, "/")+1:]
	if !strings.HasPrefix(v.path, n.home+"/integrations/") {
		n.t.Fatalf("contract 45: the new integration is shown at %s", v.path)
	}
	v.open(n.home)
	v.sees(200, "1 of 5 done", "Set up its webhook")
}

// invites: the operator passes an invitation on. The invited person creates a passkey, and signs in with it
// again.
func (n *newcomer) invites(guest *visitor, name, role string) {
	n.operator.open(n.page("members"))
	n.operator.send("invite-member", "name", name, "role", role)
	n.operator.sees(200, "The invitation was created.")
	link := n.operator.secret()
	guest.open(link)
	guest.sees(200, "Join Acme & <b>Sons</b>", role)
	guest.prove("enrol", "name", name)
	guest.sees(200, "Your passkey was created", "Overview")
	guest.send("sign-out")
	guest.sees(200, "You are signed out.")
	guest.prove("sign-in-passkey")
	guest.sees(200, "You are signed in as "+name)

	late := newVisitor(n.t, n.h, &[]string{})
	late.open(link)
	late.sees(410, "It was used")
	guest.open("/console/publishers")
	guest.sees(404)
	guest.open("/console/p/" + n.h.Publisher.ID)
	guest.sees(404)
}

// setsWebhook: the member sets the webhook URL, and gets the secret for the receiver.
func (n *newcomer) setsWebhook() {
	v := n.mia
	v.open(n.home)
	v.follow("Set up the webhook")
	v.sees(200, "No webhook yet", "A receiver that passes")
	v.send("save-integration", "webhook_url", "ftp://receiver")
	v.sees(422, "The URL must use https")
	v.send("save-integration", "webhook_url", n.receiver.URL+"/events?tenant=7")
	v.sees(200, "Saved.", "Run the signed test")
	secret := v.secret()
	n.receiver.be(func(r *receiver) { r.secrets = []string{secret} })
}

// becomesReady: a receiver that does not check the time fails the signed test. The page explains the fix.
func (n *newcomer) becomesReady() {
	v := n.mia
	n.receiver.be(func(r *receiver) { r.careless = true })
	v.open(n.page("integrations", n.integration, "webhook"))
	v.sees(200, "Not tested")
	v.send("test-webhook")
	v.sees(200, "Not ready: 1 of 5 probes failed.", "Accepts a valid event Passed",
		"Rejects an old event Failed", "Expected: 401. Received: 204",
		"Reject a t that differs from your clock by more than 300 seconds", "Node.js", "Python", "PHP", "Go")
	n.receiver.be(func(r *receiver) { r.careless = false })
	v.send("test-webhook")
	v.sees(200, "Ready. Your receiver checks signatures correctly.", "Rejects an old event Passed")
	n.receiver.takes() // the good probes

	v.open(n.home)
	v.sees(200, "2 of 5 done")
	v.follow("Create a key")
	v.send("create-key")
	v.sees(200, "The key was created.", "Start a session from your server", n.integration)
	n.key = v.secret()
	v.open(n.page("keys"))
	v.sees(200, "…"+n.key[len(n.key)-4:], "Active")
}

// triesOut: the member sends every event as a test, walks through a session in the sandbox, and looks it up.
func (n *newcomer) triesOut() {
	v := n.mia
	for _, kind := range webhook.Types() {
		v.open(n.page("test"))
		v.send("send-test-event", "type", kind)
		v.sees(200, "The event was sent, and your receiver accepted it.", "Sent "+kind, "204")
		if got := n.receiver.takes(); len(got) != 1 || got[0].Type != kind || !got[0].Test {
			n.t.Errorf("contract 44: the receiver got %v, want one test of %s", got, kind)
		}
	}
	v.send("start-test-session")
	v.sees(200, "The test session was started.", "Pending")
	door := v.link("Open it in a new tab")
	v.follow("Follow the session here")
	v.sees(200, "Pending")
	n.session = v.path[strings.LastIndex(v.path, "/")+1:]
	back := n.h.Open(door).Submit("approve").Callback
	if back == nil || back.SessionID != n.session ||
		!strings.HasPrefix(back.URL, n.h.BaseURL+n.page("test")+"?") {
		n.t.Fatalf("contract 44: the test session returns to %+v", back)
	}
	v.open(strings.TrimPrefix(back.URL, n.h.BaseURL))
	v.sees(200, "You have returned from your test session", "Completed")
	wantStatus(n.t, n.h.ValidateAs(testharness.Bearer(n.key), back.ResultToken), 200)
	n.h.Settle()

	v.open(n.page("sessions"))
	v.send("find-session", "session_id", "svc_sess_nothing")
	v.sees(422, "This publisher has no such session")
	v.send("find-session", "session_id", n.session)
	v.sees(200, "Session found.", "Completed", "fetched by your server",
		"L1: an estimate of at least 25, or a proof")
	v.open(n.page("deliveries"))
	v.sees(200, "completed", "started", "Delivered", "204", "test")
	v.follow("completed")
}

// repairsDelivery: an event that the receiver rejects becomes dead, and arrives when it is resent.
func (n *newcomer) repairsDelivery() {
	v := n.mia
	n.receiver.takes()
	n.receiver.be(func(r *receiver) { r.rejects = true })
	v.open(n.page("test"))
	v.send("start-test-session")
	n.h.Settle()
	if got := n.receiver.takes(); len(got) != 0 {
		n.t.Fatalf("the receiver that refuses took %v", got)
	}
	v.open(n.home)
	v.sees(200, "1 event failed")
	v.follow("Show the reason, and resend: Shop")
	v.sees(200, "Failed", "410")
	v.follow("started")
	v.sees(200, "Failed", "410")
	n.receiver.be(func(r *receiver) { r.rejects = false })
	v.send("resend")
	v.sees(200, "The event is being resent.")
	sent := v.path
	n.h.Settle()
	if got := n.receiver.takes(); len(got) != 1 || got[0].Type != "verification.started" || got[0].Test {
		n.t.Errorf("contract 27: sent again came %v", got)
	}
	v.open(sent)
	v.sees(200, "Delivered", "410", "204")
}

// changesSecret: a new secret waits until the receiver has it. Events are signed with the old one until then.
func (n *newcomer) changesSecret() {
	v := n.mia
	v.open(n.page("integrations", n.integration, "webhook"))
	v.send("stage-webhook", "secret", "new")
	v.sees(200, "The change is staged.", "Waiting for its test")
	secret := v.secret()
	v.send("test-staged")
	v.sees(200, "Not ready: 1 of 5 probes failed.", "Waiting for its test", "Active webhook Ready")
	v.open(n.page("test"))
	v.send("send-test-event", "type", "verification.started")
	n.receiver.be(func(r *receiver) { r.secrets = append(r.secrets, secret) })
	v.open(n.page("integrations", n.integration, "webhook"))
	v.send("test-staged")
	v.sees(200, "Ready. The staged webhook is now active", "Change without interruption")
	v.open(n.page("test"))
	v.send("send-test-event", "type", "verification.started")
	var signed []int
	for _, e := range n.receiver.takes() {
		signed = append(signed, e.secret)
	}
	if !slices.Equal(signed, []int{0, 1, 1}) {
		n.t.Errorf("contract 25: events were signed with the secrets %v, want the old one, and then the new "+
			"one for the probe and an event", signed)
	}
}

// goesLive: in production the key starts sessions while the integration is ready.
func (n *newcomer) goesLive() {
	start := func() *testharness.Response {
		n.live.Pause(6 * time.Second) // what an instance has read of an integration it may use for 5 seconds
		n.h.Pause(6 * time.Second)
		return n.live.Do("POST", web.StartPath, testharness.Bearer(n.key),
			n.live.StartBody(body{"integration_id": n.integration}))
	}
	n.receiver.be(func(r *receiver) { r.careless = true })
	n.mia.open(n.page("integrations", n.integration, "webhook"))
	n.mia.send("test-webhook")
	wantError(n.t, start(), 409, "INTEGRATION_NOT_READY")
	n.receiver.be(func(r *receiver) { r.careless = false })
	n.mia.send("test-webhook")
	n.receiver.takes()
	r := start()
	wantStatus(n.t, r, 200)
	n.live.Settle()
	back := n.live.Open(r.Text("redirect_url")).Submit("approve").Callback
	if back == nil {
		n.t.Fatal("the session in production was not approved")
	}
	wantStatus(n.t, n.live.ValidateAs(testharness.Bearer(n.key), back.ResultToken), 200)
	n.live.Settle()
	var types []string
	for _, e := range n.receiver.takes() {
		types = append(types, e.Type)
	}
	if !slices.Equal(types, []string{"verification.started", "verification.completed"}) {
		n.t.Errorf("contract 26: the receiver got %v", types)
	}
	record(n.t, n.h, n.live)
	n.mia.open(n.home)
	n.mia.sees(200, "4 of 5 done", "its methods do not verify real users",
		"Nothing. All events were delivered")
	n.mia.open(n.page("usage.csv") + "?integration=" + n.integration)
	if n.mia.status != 200 {
		n.t.Errorf("contract 44: usage as CSV answers %d", n.mia.status)
	}
}

// viewerChangesNothing: a person has every form open as an admin, and becomes a viewer. The forms are
// rejected, and no page has them any longer.
func (n *newcomer) viewerChangesNothing() {
	vic := newVisitor(n.t, n.h, &n.told)
	n.invites(vic, "Vic", "admin")
	pages := []string{n.home, n.page("settings"), n.page("integrations", "new"),
		n.page("integrations", n.integration),
		n.page("integrations", n.integration, "webhook"), n.page("test"), n.page("keys"),
		n.page("deliveries"),
		n.page("sessions"), n.page("usage"), n.page("members"), n.page("audit")}
	kept := map[string]form{} // by action
	for _, page := range pages {
		vic.open(page)
		for _, f := range vic.forms() {
			kept[f.action] = f
		}
	}
	for _, must := range []string{"save-publisher", "create-integration", "save-integration",
		"archive-integration",
		"test-webhook", "stage-webhook", "rotate-secret", "send-test-event", "start-test-session",
		"create-key",
		"revoke-key", "invite-member", "change-role", "sign-out-member", "remove-member"} {
		if _, has := kept[must]; !has {
			n.t.Errorf("contract 45: an admin has no form %s", must)
		}
	}
	n.operator.open(n.page("members"))
	for _, f := range n.operator.forms() {
		if f.action == "change-role" && f.fields.Get("role") == "admin" { // Vic's: Mia is a developer
			f.fields.Set("role", "viewer")
			n.operator.ask("POST", f.to, f.fields)
		}
	}
	n.operator.sees(200, "Vic is viewer now.")
	before := n.entries()
	may := map[string]bool{"find-session": true, "sign-out": true}
	for action, f := range kept {
		if !may[action] {
			vic.ask("POST", f.to, f.fields)
			vic.sees(403, "Your role does not allow this", "signed in as viewer")
		}
	}
	if after := n.entries(); after != before {
		n.t.Errorf("contract 43: a viewer's forms have made %d entries in the audit", after-before)
	}
	for _, page := range pages {
		vic.open(page)
		if vic.status != 200 && vic.status != 403 {
			n.t.Errorf("contract 43: %s answers a viewer %d", page, vic.status)
		}
		for _, f := range vic.forms() {
			if !may[f.action] {
				n.t.Errorf("contract 45: %s shows a viewer the form %s", page, f.action)
			}
		}
	}
}

// entries counts what the audit of the publisher has on its first page.
func (n *newcomer) entries() (count int) {
	n.operator.open(n.page("audit"))
	n.operator.sees(200, "Vic")
	for each := range n.operator.find("ol", "class", "audit").ChildNodes() {
		if each.Data == "li" {
			count++
		}
	}
	return count
}
