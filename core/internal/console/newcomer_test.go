package console_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/webhook"
)

// looked is a page of a person, with texts that it contains and does not contain.
type looked struct {
	who, path string
	make      func(*fixture)
	says      []string
	not       []string
}

func none(*fixture) {}

// look opens pages of a publisher that has an integration without a webhook as well.
func look(t *testing.T, pages map[string]looked) {
	for name, c := range pages {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.put(bare())
			c.make(w)
			body := string(w.ask("GET", c.path, c.who, "").Body)
			for _, want := range c.says {
				want, _ = w.real(want, "")
				if !strings.Contains(body, want) {
					t.Errorf("%s does not say %q:\n%s", c.path, want, body)
				}
			}
			for _, hidden := range c.not {
				hidden, _ = w.real(hidden, "")
				if strings.Contains(body, hidden) {
					t.Errorf("%s says %q:\n%s", c.path, hidden, body)
				}
			}
		})
	}
}

// Each page shows the next step of a new user.
func TestPagesLeadANewcomerOn(t *testing.T) {
	look(t, map[string]looked{
		"a browser that returns from a test session sees the result": {"developer",
			mine + "/test?session_id=" + sessionID + "&result_token=svc_rt_x", none,
			[]string{"You have returned from your test session", "Completed",
				mine + "/sessions/" + sessionID},
			[]string{"svc_rt_x"}},
		"an address with another publisher's session does not show it": {"developer",
			mine + "/test?session_id=" + theirsID, none, []string{"Walk through a session"},
			[]string{"You have returned", theirsID}},
		"an operator sees a session on the pages of its publisher alone": {"operator",
			mine + "/test?session_id=" + theirsID, none, []string{"Walk through a session"},
			[]string{"You have returned", theirsID}},
		"the test console lists the events that are marked as tests": {"developer", mine + "/test", none,
			[]string{"and has test: true.", "as for any other session: they have test: false"}, nil},
		"undelivered events are linked where they are": {"developer", mine, none,
			[]string{"1 event failed", "Show the reason, and resend: Shop",
				"/deliveries?integration=" + shopID + "&amp;state=dead"}, nil},
		"alerts can be selected in the log of deliveries": {"developer",
			mine + "/deliveries?integration=" + shopID + "&type=" + webhook.TypeFailing, none,
			[]string{`<option value="webhook.failing" selected>`}, nil},
		"alerts cannot be sent as tests": {"developer", mine + "/test?integration=" + shopID, none,
			[]string{webhook.TypeExpired}, []string{webhook.TypeFailing}},
		"the session step leads to the sandbox": {"developer", mine, none,
			[]string{"Start a test session in the test console"}, nil},
		"without the sandbox the session step leads to the call": {"developer", mine,
			withoutSandbox, []string{"Start a session from your server with the secret key"},
			[]string{"Start a test session in the test console"}},
		"a publisher without an integration sees the sandbox": {"newcomer", "/console/p/" + newID, none,
			[]string{"Start a test session in the test console"},
			[]string{"Start a session from your server with"}},
		"a live publisher reads that it is live": {"developer", mine, live,
			[]string{"You are live"}, []string{"Go live in"}},
		"an operator can leave the steps to the publisher": {"operator", "/console/p/" + newID, none,
			[]string{"Members of the publisher can do these steps themselves"}, nil},
		"a member sees no hint to leave the steps to others": {"newcomer", "/console/p/" + newID, none,
			nil, []string{"Members of the publisher can do"}},
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
			withoutSandbox,
			[]string{"A service in production has no sandbox", "so start a session from your server"},
			[]string{`data-action="start-test-session"`}},
		"keys come with the call that needs them": {"developer", mine + "/keys", none,
			[]string{"curl " + base + "/api/v1/verify/start", "/docs"}, nil},
		"the webhook page takes the first URL": {"developer", mine + "/integrations/" + bareID + "/webhook",
			none,
			[]string{`data-action="save-integration"`, "A receiver that passes"}, nil},
		"an OpenID client has its values and configurations": {"developer", shop + "/openid", none,
			[]string{base + "/oidc</code>", "<code>" + shopID + "</code>", "#new-key", ": …last4 of key_1.",
				"Ready configurations", `redirect_url = &#34;https://shop.example/oauth2/callback&#34;`, "SECRET_KEY",
				"<code>https://shop.example/realms/REALM/broker/verge/endpoint</code>"},
			[]string{"svc_sk_", "…last4 of key_2", "…last4 of key_3",
				"<code>https://shop.example/oauth2/callback</code> <a"}},
		"a viewer of an OpenID client is offered no key": {"viewer", shop + "/openid", none,
			[]string{"A secret key of this publisher"}, []string{"#new-key"}},
		"an OpenID client that is not ready learns why it has no sessions": {"developer", shop + "/openid",
			func(w *fixture) { w.tested(shopID, false) },
			[]string{"This integration starts sessions in production when its webhook has passed"}, nil},
		"an integration without a redirect URI is no OpenID client yet": {"developer",
			mine + "/integrations/" + kioskID + "/openid", none,
			[]string{"No OpenID client yet", "#save-integration-redirect_uris"}, []string{"SECRET_KEY"}},
		"a service without the OpenID provider has no page for clients": {"developer",
			mine + "/integrations/" + kioskID, withoutProvider, nil, []string{"/openid"}},
		"a client of a service without the OpenID provider reads that the provider is missing": {"developer",
			shop + "/openid", withoutProvider, []string{"No OpenID provider"}, []string{"SECRET_KEY"}},
		"a viewer is offered no URL to set": {"viewer", mine + "/integrations/" + bareID + "/webhook", none,
			[]string{"No webhook yet"}, []string{`data-action="save-integration"`}},
	})
}

// Errors and next steps are shown where they can be fixed.
func TestPagesSayWhatToMend(t *testing.T) {
	look(t, map[string]looked{
		"keys come with the call that fetches the result": {"developer", mine + "/keys", none,
			[]string{"curl " + base + "/api/v1/verify/validate",
				"Set callback_url to an address of your site"}, nil},
		"who is live finds the calls of their server": {"developer", mine,
			live, []string{mine + "/keys#first-call"}, nil},
		"a webhook that is not ready has its URL corrected where it is": {"developer",
			mine + "/integrations/" + kioskID + "/webhook", none,
			[]string{`data-action="save-integration"`, "Another URL", "Run the test again to see what to fix",
				"when you have lost the secret"}, nil},
		"a webhook that is ready is changed without interruption": {"developer",
			mine + "/integrations/" + managedID + "/webhook",
			func(w *fixture) {
				w.change(managedID, func(i *integration.Integration) { i.Managed = false })
			},
			[]string{"<h2 id=\"stage\">Change without interruption"},
			[]string{"Another URL", "when you have lost the secret"}},
		"where nothing can be changed, no URL is corrected": {"viewer",
			mine + "/integrations/" + kioskID + "/webhook", none, nil, []string{"Another URL"}},
		"the last page of a test session links to the steps": {"developer",
			mine + "/test?session_id=" + sessionID, none,
			[]string{`<a class="button" href="` + mine + `">Back to the overview</a>`,
				`class="quiet-button">Send test event`}, nil},
		"a staged secret for the same URL says that both have to be accepted": {"developer",
			shop + "/webhook",
			func(w *fixture) {
				w.change(shopID, func(i *integration.Integration) { i.Staged.URL = i.Webhook.URL })
			},
			[]string{"so your receiver must accept both"}, nil},
		"a staged URL needs no receiver that accepts both secrets": {"developer", shop + "/webhook", none,
			[]string{"Waiting for its test"}, []string{"so your receiver must accept both"}},
		"an undelivered event keeps its data about the user": {"developer",
			mine + "/deliveries/" + shopID + "/" + deadID, none,
			[]string{"Your receiver also gets publisher_state and external_user_id"},
			[]string{"which are deleted when an event is delivered"}},
		"an event that has arrived does not": {"developer", mine + "/deliveries/" + shopID + "/" + deliveryID,
			none, []string{"which are deleted when an event is delivered"},
			[]string{"Your receiver also gets publisher_state"}},
		"an operator who may not do something is not sent to a publisher's admin": {"watcher",
			mine + "/settings", none, []string{"Ask a person whose token has the role operator."},
			[]string{"Ask an admin"}},
		"a failed event shows the reason in words": {"developer",
			mine + "/deliveries/" + shopID + "/" + deadID, none,
			[]string{"<dt>Failed because</dt><dd>the receiver rejected it</dd>"}, nil},
		"a postponed event is not shown as failed": {"developer",
			mine + "/deliveries/" + lostID + "/" + waitingID, withoutSecret,
			[]string{"<dt>Postponed because</dt><dd>this service cannot read the webhook"},
			[]string{"Failed because"}},
		"a result that can be fetched is shown as such": {"developer", mine + "/sessions/" + sessionID,
			func(w *fixture) { w.aliases[sessionID] = w.completed(4 * time.Minute).Text; w.at(0) },
			[]string{"not fetched yet"}, nil},
		"after the life of the token, the page cannot know": {"developer", mine + "/sessions/" + sessionID,
			func(w *fixture) { w.aliases[sessionID] = w.completed(6 * time.Minute).Text; w.at(0) },
			nil, []string{"not fetched", "fetched by your server"}},
	})
}

const (
	bareID = "77777777-7777-4777-8777-777777777706" // an integration without a webhook
	lostID = "77777777-7777-4777-8777-777777777707" // one without a webhook secret
)

func bare() integration.Integration {
	return integration.Integration{ID: bareID, PublisherID: mineID, Name: "Bare", Level: "L1",
		ChallengeAge: 25, Method: "sandbox"}
}

// withoutProvider switches the OpenID provider off.
func withoutProvider(w *fixture) { w.Issuer = "" }

// withoutSandbox gives every integration a method that verifies people.
func withoutSandbox(w *fixture) {
	for _, id := range []string{shopID, kioskID, managedID, bareID} {
		w.change(id, func(i *integration.Integration) { i.Method = "bank" })
	}
}

// live takes the last steps to go live.
func live(w *fixture) {
	w.change(managedID, func(i *integration.Integration) { i.Method = "bank" })
	w.used(host.OutcomeCompleted)
}

// withoutSecret adds an event of an integration whose webhook has no secret.
func withoutSecret(w *fixture) {
	i := bare()
	i.ID, i.Webhook = lostID, integration.Webhook{URL: "https://lost.example/verge"}
	coretest.Must(w.t, w.directory.PutIntegration(ctx, i, ""))
	w.start(lostID, 2)
	w.deliver(2)
	page, err := w.Operations.Deliveries(ctx, w.access.actors["operator"],
		operate.DeliveryQuery{Integration: lostID})
	coretest.Must(w.t, err)
	w.aliases[waitingID] = page.Items[0].Place
}

// The first URL of a webhook creates a secret. It is shown on the page of the webhook test.
func TestWebhook_FirstURLLinksToTest(t *testing.T) {
	w := newFixture(t)
	w.put(bare())
	page := mine + "/integrations/" + bareID
	status, to := w.posts(t, page+"/webhook", page, "developer", "save-integration",
		"version={version}&webhook_url=https://shop.example/hook")
	if status != 303 || !strings.HasPrefix(to, page+"/webhook?note=") {
		t.Errorf("%d to %s, want 303 to the page of the webhook", status, to)
	}
}

// A rejected or corrected URL is shown on the page where it was entered.
func TestWebhook_RejectedURL(t *testing.T) {
	w := newFixture(t)
	page := mine + "/integrations/" + kioskID + "/webhook"
	status, to := w.posts(t, page, page, "developer", "save-integration",
		"version={version}&webhook_url=https://shop.example/hook")
	if status != 303 || !strings.HasPrefix(to, page+"?note=") {
		t.Errorf("%d to %s, want 303 to the page of the webhook", status, to)
	}
	resp := w.ask(
		"POST",
		page,
		"developer",
		"do=save-integration&version={version}&webhook_url=ftp://shop.example"+
			"&csrf="+url.QueryEscape(forms("developer").FormToken("save-integration")),
	)
	body := string(resp.Body)
	for _, want := range []string{"Another URL", `id="save-integration-webhook_url-problem"`,
		`value="ftp://shop.example"`} {
		if resp.Status != 422 || !strings.Contains(body, want) {
			t.Errorf("%d without %s:\n%s", resp.Status, want, body)
		}
	}
}

// The error names the missing setting as in the form.
func TestKey_RejectedMessage(t *testing.T) {
	w := newFixture(t)
	w.put(bare())
	resp := w.ask("POST", mine+"/keys", "developer", "do=create-key&integration_id="+bareID+
		"&csrf="+url.QueryEscape(forms("developer").FormToken("create-key")))
	body := string(resp.Body)
	if resp.Status != 409 || !strings.Contains(body, "List them in callback origins") ||
		strings.Contains(body, "callback_origins, then") {
		t.Errorf("%d:\n%s", resp.Status, body)
	}
}

// The page of a search without results does not mention changes.
func TestSearch_NoResults(t *testing.T) {
	w := newFixture(t)
	for path, c := range map[string]struct {
		form string
		says bool
	}{mine + "/sessions": {"find-session", false}, mine + "/integrations/new": {"create-integration", true}} {
		resp := w.ask("POST", path, "developer",
			body(c.form, "session_id=svc_sess_nothing&name=", "developer"))
		if said := strings.Contains(string(resp.Body), "Your changes were not saved"); resp.Status != 422 ||
			said != c.says || !strings.Contains(string(resp.Body), "lease correct the marked fields") {
			t.Errorf("%s: %d, it speaks of changes: %t", c.form, resp.Status, said)
		}
	}
}

// The page of a new key links to the steps.
func TestAfterAKeyComesTheOverview(t *testing.T) {
	w := newFixture(t)
	_, to := w.posts(t, mine+"/keys", mine+"/keys", "developer", "create-key", "")
	body := string(w.ask("GET", to, "developer", "").Body)
	if !strings.Contains(body, `<a href="`+mine+`">Back to the overview</a>`) {
		t.Errorf("no way back:\n%s", body)
	}
}

// Errors of a form, including values that cannot be parsed, are shown next to their field and in the summary.
func TestForms_ErrorAtField(t *testing.T) {
	w := newFixture(t)
	resp := w.ask("POST", mine+"/integrations/new", "developer", body("create-integration",
		url.Values{"name": {""}, "minimum_age": {"old"}, "methods_order": {"camera"},
			"methods.camera":                   {"on"},
			"method_settings.camera.deviation": {"oops"}}.Encode(), "developer"))
	page := string(resp.Body)
	for _, want := range []string{"Give it a name.", "The minimum age must be a whole number",
		`id="create-integration-method_settings.camera.deviation-problem"`} {
		if resp.Status != 422 || !strings.Contains(page, want) {
			t.Errorf("%d without %q:\n%s", resp.Status, want, page)
		}
	}
	page = string(w.ask("POST", mine+"/integrations/new", "developer",
		body("create-integration", "name=Shop&methods=none,other", "developer")).Body)
	_, beside, _ := strings.Cut(page, `id="create-integration-methods-problem"`)
	beside, _, _ = strings.Cut(beside, "<input")
	if !strings.Contains(beside, "Method is &#34;none&#34;") ||
		!strings.Contains(beside, "Method is &#34;other&#34;") {
		t.Errorf("next to the field is only %s", beside)
	}
	page = string(w.ask("POST", mine+"/integrations/"+kioskID+"/webhook", "developer",
		body("stage-webhook", "version={version}&webhook_url=x", "developer")).Body)
	if !strings.Contains(page, `<details class="later" open>`) {
		t.Errorf("the refused change is folded away:\n%s", page)
	}
}

// A sign-in link need not have a name. Its user is still shown with a name.
func TestLink_WithoutName(t *testing.T) {
	w := newFixture(t)
	nameless := actors["newcomer"]
	nameless.Name = ""
	w.access.actors["newcomer"] = nameless
	resp := w.ask("POST", "/console/link", "", "do=use-link&token=vrg_in_good")
	page := string(w.ask("GET", resp.Header.Get("Location"), "newcomer", "").Body)
	for _, want := range []string{"You are signed in as admin, with a sign-in link.",
		`<span class="name">Sign-in link</span>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	w.posts(t, mine+"/settings", mine+"/settings", "operator", "create-link", "name=+Lea+&role=viewer")
	if changes := w.audit()[0].Changes; !slices.Contains(changes,
		operate.AuditChange{Field: "name", To: "Lea"}) {
		t.Errorf("the audit has %v", changes)
	}
}

// The page explains that a receiver must accept both the current secret and the staged one, and later only
// the new one.
func TestWebhook_StagedSecret(t *testing.T) {
	w := newFixture(t)
	page := shop + "/webhook"
	says := func(form, values, want string) {
		t.Helper()
		to := w.ask("POST", page, "developer", body(form, values, "developer")).Header.Get("Location")
		if shown := string(w.ask("GET", to, "developer", "").Body); !strings.Contains(shown, want) {
			t.Errorf("%s: the page lacks %q:\n%s", form, want, shown)
		}
	}
	says("stage-webhook", "version={version}&webhook_url=https://x.example&secret=new",
		"Configure it in your receiver")
	says("stage-webhook", "version={version}&webhook_url=https://shop.example/webhooks/verge&secret=new",
		"Configure your receiver to accept both")
	w.answers = passes
	says("test-staged", "", "your receiver can stop accepting it")
}

// A page about one integration shows the integration in use by default, not the one with the lowest id, which
// is random.
func TestPages_DefaultIntegration(t *testing.T) {
	w := newFixture(t)
	silent := bare()
	silent.Name, silent.ID = "A first", "00000000-7777-4777-8777-777777777706"
	silent.Webhook.Off = true
	w.put(silent)
	w.put(bare())
	w.change(managedID, func(i *integration.Integration) {
		i.Webhook = integration.Webhook{Off: true}
	})
	for _, page := range []string{"/deliveries", "/test"} {
		body := string(w.ask("GET", mine+page, "developer", "").Body)
		if !strings.Contains(body, `<option value="`+shopID+`" selected`) {
			t.Errorf("%s begins with another integration:\n%s", page, body)
		}
	}
	if body := string(w.ask("GET", mine+"/keys", "developer", "").Body); !strings.Contains(body,
		`"integration_id":"`+shopID) && !strings.Contains(body, "integration_id&#34;:&#34;"+shopID) {
		t.Errorf("the first call names another integration:\n%s", body)
	}
}

// A complete list is sorted by name. The order of the store is random.
func TestWholeListsAreInOrder(t *testing.T) {
	w := newFixture(t)
	for path, want := range map[string][]string{
		mine + "/integrations": {">Kiosk<", ">Lager<", ">Shop<", ">Messe<"},
		mine + "/keys":         {"…last4 of key_2<", "…last4 of key_1<", "…last4 of key_3<"},
	} {
		body := string(w.ask("GET", path, "developer", "").Body)
		_, rest, _ := strings.Cut(body, "<tbody>")
		for _, each := range want {
			var found bool
			each, _ = w.real(each, "")
			if _, rest, found = strings.Cut(rest, each); !found {
				t.Errorf("%s: %s is not where it should be in %v", path, each, want)
			}
		}
	}
	names := []string{"Ada Byron", "Annie Easley", "Grace Hopper"}
	_, rest, _ := strings.Cut(string(w.ask("GET", mine+"/members", "admin", "").Body), "<tbody>")
	for _, name := range names {
		var found bool
		if _, rest, found = strings.Cut(rest, `class="main">`+name); !found {
			t.Errorf("%s is not where they should be in %v", name, names)
		}
	}
}

// Invalid days are reported next to their form.
func TestDaysWithoutSenseAreSaidInTheForm(t *testing.T) {
	resp := newFixture(t).ask("GET", mine+"/usage?from=2026-11-20&to=2026-11-01", "viewer", "")
	body := string(resp.Body)
	for _, want := range []string{`id="usage-from-problem"`, `value="2026-11-20"`, `value="2026-11-01"`} {
		if resp.Status != 400 || !strings.Contains(body, want) || strings.Contains(body, "Download as CSV") ||
			strings.Contains(body, "Nothing was changed") {
			t.Errorf("%d without %s:\n%s", resp.Status, want, body)
		}
	}
}

// Creating a passkey is a sign-in, and the choice of a role fits into its column.
func TestMember_JustJoined(t *testing.T) {
	w := newFixture(t)
	body := string(w.ask("GET", mine+"/members", "admin", "").Body)
	if strings.Contains(body, ">never<") || !strings.Contains(body, ">Developer</option>") {
		t.Errorf("a member who joined never signed in, or a choice is long:\n%s", body)
	}
}

// The report of a staged webhook is below the button for another test of it, and not below the active
// webhook.
func TestWebhook_StagedReport(t *testing.T) {
	w := newFixture(t)
	_, to := w.posts(t, shop+"/webhook", shop+"/webhook", "developer", "test-staged", "")
	page := string(w.ask("GET", to, "developer", "").Body)
	button, report := strings.Index(page, `data-action="test-staged"`), strings.Index(page, `id="report"`)
	if button < 0 || report < button || strings.Count(page, `id="report"`) != 1 {
		t.Errorf("the button is at %d, the report at %d:\n%s", button, report, page)
	}
}

// An invitation without a name, which programs can create, is shown with its id.
func TestInvitation_WithoutName(t *testing.T) {
	w := newFixture(t)
	made, err := w.Operations.Invite(ctx, w.access.actors["admin"], mineID, "", operate.RoleViewer)
	coretest.Must(t, err)
	page := string(w.ask("GET", mine+"/members", "admin", "").Body)
	if !strings.Contains(page, `class="main">`+made.ID) {
		t.Errorf("the invitation has no name:\n%s", page)
	}
}

// Contract 44: the report shows each request of the test and the receiver's response.
func TestWebhook_ReportShowsExchanges(t *testing.T) {
	w := newFixture(t)
	path := mine + "/integrations/" + kioskID + "/webhook"
	resp := w.ask("POST", path, "developer", body("test-webhook", "", "developer"))
	page := string(w.ask("GET", resp.Header.Get("Location"), "developer", "").Body)
	for _, want := range []string{
		"POST https://kiosk.example/webhooks/verge\n", "\nX-Service-Timestamp: 17",
		"&#34;type&#34;:&#34;verification.started&#34;", "it says &lt;no&gt;", "Only the first 1 KiB"} {
		if n := strings.Count(page, want); n != 5 {
			t.Errorf("%q appears %d times, want once for each probe:\n%s", want, n, page)
		}
	}
}
