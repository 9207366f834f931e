package console_test

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/core/operate"
)

// What a newcomer needs next is on the page where they are.
func TestPagesLeadANewcomerOn(t *testing.T) {
	none := func(*desk) {}
	for name, c := range map[string]struct {
		who, path string
		make      func(*desk)
		says      []string
		not       []string
	}{
		"a browser that comes back from a test session is told how it ended": {"developer",
			mine + "/test?session_id=" + sessionID + "&result_token=svc_rt_x", none,
			[]string{"You are back from your test session", "Completed", mine + "/sessions/" + sessionID},
			[]string{"svc_rt_x"}},
		"an address with another publisher's session shows nothing of it": {"developer",
			mine + "/test?session_id=" + theirsID, none, []string{"Walk through a session"},
			[]string{"You are back", theirsID}},
		"an operator sees a session on the pages of its publisher alone": {"operator",
			mine + "/test?session_id=" + theirsID, none, []string{"Walk through a session"},
			[]string{"You are back", theirsID}},
		"undelivered events are linked where they are": {"developer", mine, none,
			[]string{"3 events given up", "See why, and send again: Kiosk",
				"/deliveries?integration=" + kioskID + "&amp;state=dead"}, nil},
		"the session step leads to the sandbox": {"developer", mine, none,
			[]string{"Start a test session in the test console"}, nil},
		"without the sandbox the session step leads to the call": {"developer", mine,
			func(d *desk) { d.noSandbox = true }, []string{"Start one from your server with the secret key"},
			[]string{"Start a test session in the test console"}},
		"a publisher without an integration is told of the sandbox": {"newcomer", "/console/p/" + newID, none,
			[]string{"Start a test session in the test console"},
			[]string{"Start one from your server with"}},
		"who is live is told so": {"developer", mine, func(d *desk) { d.stepsDone = true },
			[]string{"You are live"}, []string{"Go live in"}},
		"an operator can leave the steps to the publisher": {"operator", "/console/p/" + newID, none,
			[]string{"People of the publisher can do these steps themselves"}, nil},
		"a member is not told to leave the steps to others": {"newcomer", "/console/p/" + newID, none,
			nil, []string{"People of the publisher can do"}},
		"the first member is invited as an admin": {"operator", "/console/p/" + newID + "/members", none,
			[]string{`<option value="admin" selected>`}, nil},
		"who has members invites a developer": {"operator", mine + "/members", none,
			[]string{`<option value="developer" selected>`}, nil},
		"an admin sees where members are signed in": {"admin", mine + "/members", none,
			[]string{"nowhere", "1 browser", "2 browsers"}, nil},
		"who may not sign members out does not see where they are": {"developer", mine + "/members", none,
			[]string{"Grace Hopper"}, []string{`>Signed in<`, "browsers"}},
		"a test session is offered where there is one": {"developer", mine + "/test?integration=" + bareID,
			none,
			[]string{`data-action="start-test-session"`}, nil},
		"where people are verified, no test session is offered": {"developer",
			mine + "/test?integration=" + bareID,
			func(d *desk) { d.integrations[len(d.integrations)-1].Sandbox = false },
			[]string{"so start a session from your server"}, []string{`data-action="start-test-session"`}},
		"keys come with the call that needs them": {"developer", mine + "/keys", none,
			[]string{"curl " + base + "/api/v1/verify/start", "/docs"}, nil},
		"the webhook page takes the first URL": {"developer", mine + "/integrations/" + bareID + "/webhook",
			none,
			[]string{`data-action="save-integration"`, "A receiver that passes"}, nil},
		"a viewer is offered no URL to set": {"viewer", mine + "/integrations/" + bareID + "/webhook", none,
			[]string{"No webhook yet"}, []string{`data-action="save-integration"`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.desk.integrations = append(w.desk.integrations, bare())
			c.make(w.desk)
			body := string(w.ask("GET", c.path, c.who, "").Body)
			for _, want := range c.says {
				if !strings.Contains(body, want) {
					t.Errorf("%s does not say %q:\n%s", c.path, want, body)
				}
			}
			for _, hidden := range c.not {
				if strings.Contains(body, hidden) {
					t.Errorf("%s says %q:\n%s", c.path, hidden, body)
				}
			}
		})
	}
}

const bareID = "77777777-7777-4777-8777-777777777706" // an integration without a webhook

func bare() (i operate.Integration) {
	i.ID, i.PublisherID, i.Name, i.Level, i.ChallengeAge = bareID, mineID, "Bare", "L1", 25
	i.Method, i.Version, i.Sandbox = "sandbox", "v1", true
	return i
}

// The first URL of a webhook makes a secret. The page with it is the one where the receiver is tested.
func TestTheFirstWebhookURLLeadsToItsTest(t *testing.T) {
	w := newWorld(t)
	w.desk.integrations = append(w.desk.integrations, bare())
	page := mine + "/integrations/" + bareID
	status, to := w.posts(t, page+"/webhook", page, "developer", "save-integration",
		"version=v1&webhook_url=https://shop.example/hook")
	if status != 303 || !strings.HasPrefix(to, page+"/webhook?note=") {
		t.Errorf("%d to %s, want 303 to the page of the webhook", status, to)
	}
}
