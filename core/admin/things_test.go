package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// sample returns the values of the placeholders in the paths and bodies of the table of all routes.
func (w *fixture) sample(t testing.TB) *strings.Replacer {
	t.Helper()
	k, err := w.Operations.CreateKey(ctx, root, operate.KeyInput{Publisher: "pub_a"})
	coretest.Must(t, err)
	i, err := w.Operations.Invite(ctx, root, "pub_a", "Ina", operate.RoleViewer)
	coretest.Must(t, err)
	o, err := w.Operations.CreateOperatorToken(ctx, root, "Otto", operate.RoleOperator, nil)
	coretest.Must(t, err)
	id, err := session.NewID(w.Host.Random, testUUID, 1, 25, w.Clock.Now(), 0)
	coretest.Must(t, err)
	text, err := id.Format(w.Host.Sealer)
	coretest.Must(t, err)
	event := w.bury(t, "p1", 1)[0]
	logged, err := w.Operations.Deliveries(ctx, root, operate.DeliveryQuery{Integration: testUUID})
	coretest.Must(t, err)
	w.answer = w.receiver
	return strings.NewReplacer("KEY", k.Info.ID, "INVITATION", i.ID, "TOKEN", o.Info.ID, "SESSION", text,
		"EVENT", event, "PLACE", logged.Items[0].Place, "SHOP", testUUID, "NOBODY",
		"mem_"+strings.Repeat("0", 32), "NEXT", w.Clock.Now().UTC().Format(time.RFC3339))
}

// row is one route: which function of operate.Operations it asks, whether a viewer may, and a request that
// is good.
type row struct {
	does   string
	viewer bool
	path   string
	body   string
	code   web.Code // the error if the item does not exist
}

// rows has every route that needs a token.
var rows = map[string]row{
	"GET " + operate.CreatePublisher.Path: {does: "Publishers", viewer: true, path: "publishers"},
	"POST " + operate.CreatePublisher.Path: {
		does: "CreatePublisher",
		path: "publishers",
		body: `{"name":"New"}`,
	},
	"GET " + operate.ReadPublisher.Path: {does: "Publisher", viewer: true, path: "publishers/pub_a"},
	"PATCH " + operate.ReadPublisher.Path: {
		does: "ChangePublisher",
		path: "publishers/pub_a",
		body: `{"name":"Other"}`,
	},
	"POST " + operate.ArchivePublisher.Path: {does: "ArchivePublisher", path: "publishers/pub_a/archive"},
	"GET " + operate.ReadOverview.Path: {
		does:   "Overview",
		viewer: true,
		path:   "publishers/pub_a/overview",
	},

	"GET " + operate.CountPasskeys.Path: {
		does:   "Passkeys",
		viewer: true,
		path:   "passkeys?publisher_id=pub_a",
	},
	"POST " + operate.EndPasskeys.Path: {
		does: "EndPasskeys",
		path: "passkeys/end",
		body: `{"publisher_id":"pub_a"}`,
	},

	"GET " + operate.ListIntegrations.Path: {
		does:   "Integrations",
		viewer: true,
		path:   "integrations?publisher_id=pub_a",
	},
	"POST " + operate.ListIntegrations.Path: {does: "CreateIntegration", path: "integrations",
		body: `{"publisher_id":"pub_a","name":"New","level":"L1","challenge_age":21,"minimum_age":18,"attempts":2,` +
			`"methods":["sandbox"],"method_settings":null,"passkeys":"publisher",` +
			`"callback_origins":["https://www.publisher.example"],"browser_origins":[],"webhook_off":null,` +
			`"webhook_url":"https://hooks.publisher.example/new","more":1}`},
	"GET " + operate.ReadIntegration.Path: {does: "Integration", viewer: true, path: "integrations/SHOP"},
	"PATCH " + operate.ReadIntegration.Path: {
		does: "ChangeIntegration",
		path: "integrations/SHOP",
		body: `{"name":"Other"}`,
	},
	"POST " + operate.ArchiveIntegration.Path: {
		does: "ArchiveIntegration",
		path: "integrations/SHOP/archive",
	},
	"POST " + operate.StageWebhook.Path: {does: "StageWebhook", path: "integrations/SHOP/stage",
		body: `{"webhook_url":"https://hooks.publisher.example/next","new_webhook_secret":true}`},
	"POST " + operate.DropStaged.Path: {
		does: "DropStaged",
		path: "integrations/SHOP/drop",
		code: web.InvalidRequest,
	},
	"POST " + operate.RotateSecret.Path: {
		does: "RotateSecret",
		path: "integrations/SHOP/rotate",
		body: `{"staged":true}`,
	},
	"POST " + operate.TestWebhook.Path: {does: "TestWebhook", path: "integrations/SHOP/test"},
	"POST " + operate.SendTestEvent.Path: {does: "SendTestEvent", path: "integrations/SHOP/test-event",
		body: `{"type":"verification.completed"}`},
	"POST " + operate.StartTestSession.Path: {
		does: "StartTestSession",
		path: "integrations/SHOP/test-session",
		body: `{"callback_url":"https://www.publisher.example/back"}`,
		code: web.InvalidRequest,
	}, // it is not ready

	"GET " + operate.ListKeys.Path:   {does: "Keys", viewer: true, path: "keys?publisher_id=pub_a"},
	"POST " + operate.ListKeys.Path:  {does: "CreateKey", path: "keys", body: `{"publisher_id":"pub_a"}`},
	"POST " + operate.RevokeKey.Path: {does: "RevokeKey", path: "keys/KEY/revoke"},

	"GET " + operate.ListDeliveries.Path: {does: "Deliveries", viewer: true,
		path: "deliveries?integration_id=SHOP&state=dead"},
	"GET " + operate.ListUndelivered.Path: {does: "Undelivered", viewer: true, path: "undelivered"},
	"GET " + operate.ReadDelivery.Path: {
		does:   "Delivery",
		viewer: true,
		path:   "deliveries/PLACE?integration_id=SHOP",
	},
	"POST " + operate.Resend.Path: {
		does: "Resend",
		path: "deliveries/PLACE/resend?integration_id=SHOP",
	},

	"GET " + operate.ListSessions.Path: {does: "FinishedSessions", viewer: true,
		path: "sessions?publisher_id=pub_a&outcome=completed"},
	"GET " + operate.ReadSession.Path: {does: "Session", viewer: true, path: "sessions/SESSION"},
	"GET " + operate.ReadUsage.Path: {does: "Usage", viewer: true,
		path: "usage?integration_id=SHOP&from=2026-11-01&to=2026-11-20"},

	"GET " + operate.ReadReport.Path: {does: "Report",
		path: "report?publisher_id=pub_a&from=2026-11-01&to=2026-11-20"},

	"GET " + operate.ListMembers.Path: {
		does:   "Members",
		viewer: true,
		path:   "members?publisher_id=pub_a",
	},
	"POST " + operate.ChangeRole.Path: {
		does: "ChangeRole",
		path: "members/NOBODY/role",
		body: `{"role":"viewer"}`,
		code: web.NotFound,
	},
	"POST " + operate.SignOutMember.Path: {
		does: "SignOutMember",
		path: "members/NOBODY/sign-out",
		code: web.NotFound,
	},
	"POST " + operate.RemoveMember.Path: {
		does: "RemoveMember",
		path: "members/NOBODY/remove",
		code: web.NotFound,
	},
	"GET " + operate.ListInvitations.Path: {
		does:   "Invitations",
		viewer: true,
		path:   "invitations?publisher_id=pub_a",
	},
	"POST " + operate.ListInvitations.Path: {does: "Invite", path: "invitations",
		body: `{"publisher_id":"pub_a","name":"Ida","role":"developer"}`},
	"POST " + operate.WithdrawInvitation.Path: {does: "WithdrawInvitation",
		path: "invitations/INVITATION/withdraw?publisher_id=pub_a"},
	"POST " + operate.CreateLink.Path: {
		does: "CreateLink",
		path: "links",
		body: `{"publisher_id":"pub_a","role":"admin"}`,
	},

	"GET " + operate.ListOperators.Path: {does: "OperatorTokens", viewer: true, path: "operators"},
	"POST " + operate.ListOperators.Path: {
		does: "CreateOperatorToken",
		path: "operators",
		body: `{"name":"Oda","role":"viewer"}`,
	},
	"GET " + operate.ReadSelf.Path: {
		does:   "Authorize",
		viewer: true,
		path:   "operators/self?may=module.read",
	},
	"POST " + operate.RevokeOperator.Path: {does: "RevokeOperatorToken", path: "operators/TOKEN/revoke"},
	"GET " + operate.ListAudit.Path:       {does: "Audit", viewer: true, path: "audit"},
	"GET " + operate.ListMethods.Path:     {does: "Methods", viewer: true, path: "methods"},
	"GET " + operate.ListTrustLists.Path:  {does: "TrustLists", viewer: true, path: "trust-lists"},
	"POST " + operate.LoadTrustList.Path: {does: "LoadTrustList", path: "trust-lists",
		body: `{"method":"sandbox","name":"main","configuration":"` + trustList.Digest() + `","document":"a",` +
			`"signer_fingerprint":"b","certificates":[],"issued":"2020-01-01T00:00:00Z",` +
			`"next_update":"NEXT"}`},
	"POST " + operate.ApplySite.Path: {
		does: "ApplySite",
		path: "site",
		body: `{"publishers":[{"id":"pub_f","name":"File"}],` +
			`"integrations":null}`,
	},
}

// elsewhere are the functions of operate.Operations that have no row, and why.
var elsewhere = map[string]string{
	"Dead":        "deliveries without an integration",
	"Waiting":     "deliveries without an integration",
	"ResendEvent": "resend without an integration",
	"PlanSite":    "site with dry_run",
	"Entry":       "for the console",

	"PublisherUsage":     "usage with publisher_id",
	"ActiveIntegrations": "for the overview and the console",
	"SecretKeys":         "for the overview and the console",
	"WithMisread":        "Admin.operations calls it",
	"TellUse":            "Admin.caller calls it",
	"TellWrongToken":     "Admin.caller calls it",
	"TellDone":           "the core's host calls it",
}

// Contract 42: an operator may do everything, and a viewer may read.
func TestRights_Table(t *testing.T) {
	for name, r := range rows {
		for _, role := range []operate.Role{operate.RoleOperator, operate.RoleViewer} {
			t.Run(fmt.Sprintf("%s as %s", name, role), func(t *testing.T) {
				w := newFixture(t)
				named := w.sample(t)
				made, err := w.Operations.CreateOperatorToken(ctx, root, "Olga", role, nil)
				coretest.Must(t, err)
				method, _, _ := strings.Cut(name, " ")
				before := w.stored(t)
				resp, e := w.send(t, question{made.Token, method, operate.Prefix + named.Replace(r.path),
					named.Replace(r.body), "*"})
				want := r.code
				if role == operate.RoleViewer && !r.viewer {
					want = web.Forbidden
				}
				switch {
				case e == nil && want != "" || e != nil && e.Code != want &&
					!(r.code == web.NotFound && want == web.Forbidden && e.Code == web.NotFound):
					t.Errorf("contract 42: %v, want %q: %s", e, want, resp.Body)
				case role == operate.RoleViewer && w.stored(t) != before:
					t.Error("contract 42: a viewer has changed something")
				}
			})
		}
	}
}

// stored returns the content of the store without the audit.
func (w *fixture) stored(t testing.TB) string {
	t.Helper()
	var all []string
	for _, p := range append([]kv.Partition{"c"}, w.Operations.Partitions...) {
		items, err := w.Memory.List(ctx, kv.Key{Partition: p}, "", 10_000)
		coretest.Must(t, err)
		for _, it := range items {
			if !strings.Contains(it.Key.Name, "aud/") {
				all = append(all, fmt.Sprintf("%s %x", it.Key, it.Value))
			}
		}
	}
	return strings.Join(all, "\n")
}

// The error names the missing item.
func TestNotFound_NamesItem(t *testing.T) {
	w := newFixture(t)
	for request, want := range map[string]string{
		"GET passkeys?publisher_id=pub_none":               "There is no such publisher.",
		"POST passkeys/end":                                "There is no such publisher.",
		"GET publishers/pub_none":                          "There is no such publisher.",
		"GET integrations/" + otherUUID:                    "There is no such integration.",
		"GET usage?integration_id=" + otherUUID:            "There is no such publisher or integration.",
		"POST keys/" + strings.Repeat("0", 32) + "/revoke": "There is no such key.",
	} {
		method, path, _ := strings.Cut(request, " ")
		e := w.rejected(t, web.NotFound, method, operate.Prefix+path, `{"publisher_id":"pub_none"}`)
		if e != nil && e.Message != want {
			t.Errorf("%s: %q, want %q", request, e.Message, want)
		}
	}
}

// TestRoutes_Table keeps the table above complete.
func TestRoutes_Table(t *testing.T) {
	asked := map[string]bool{}
	for _, r := range routes {
		if r.Pattern == indexPath || r.Pattern == openAPIPath {
			continue // these need no token
		}
		for _, method := range r.Methods {
			name := method + " " + r.Pattern
			if method != "HEAD" && rows[name].does == "" {
				t.Errorf("TestRights_Table does not ask for %s", name)
			}
			asked[rows[name].does] = true
		}
	}
	functions := reflect.TypeFor[*operate.Operations]()
	for n := range functions.NumMethod() {
		name := functions.Method(n).Name
		if _, port := reflect.TypeFor[host.Host]().MethodByName(name); port {
			continue
		}
		if asked[name] == (elsewhere[name] != "") {
			t.Errorf("%s has a row: %v; it is asked for elsewhere: %q", name, asked[name], elsewhere[name])
		}
	}
}

// Contract 42: two who change the same version do not overwrite each other. The second learns the present
// one.
func TestVersion_Stale(t *testing.T) {
	for _, c := range []struct{ path, body, action string }{
		{operate.CreatePublisher.Path + "/pub_a", `{"name":"Second"}`, "PATCH"},
		{operate.CreatePublisher.Path + "/pub_a/archive", "", "POST"},
		{operate.ListIntegrations.Path + "/" + testUUID, `{"name":"Second"}`, "PATCH"},
		{operate.ListIntegrations.Path + "/" + testUUID + "/archive", "", "POST"},
		{operate.ListIntegrations.Path + "/" + testUUID + "/stage", `{"new_webhook_secret":true}`, "POST"},
		{operate.ListIntegrations.Path + "/" + testUUID + "/drop", "", "POST"},
		{operate.ListIntegrations.Path + "/" + testUUID + "/rotate", "", "POST"},
	} {
		t.Run(c.action+" "+c.path, func(t *testing.T) {
			w := newFixture(t)
			thing := strings.Join(strings.Split(c.path, "/")[:5], "/")
			ask := func(match string) (*web.Response, *web.Error) {
				return w.send(t, question{operator, c.action, c.path, c.body, match})
			}
			read := func() string {
				resp, e := w.send(t, question{operator, "GET", thing, "", ""})
				if e != nil {
					t.Fatal(e)
				}
				return resp.Header.Get("Etag")
			}
			before := read()
			for _, match := range []string{"", "*x", `"`, `""`, "W/", `W/""`, strings.Trim(before, `"`), "w/" + before, before + ", " + before} {
				why := "malformed"
				if match == "" {
					why = "missing"
				}
				if _, e := ask(match); e == nil || e.Code != web.PreconditionFailed &&
					(e.Code != web.InvalidRequest || !strings.Contains(e.Message, why)) {
					t.Errorf("contract 42: If-Match %q: %v", match, e)
				}
			}
			if strings.HasSuffix(c.path, "/drop") {
				w.must(t, "POST", thing+"/stage", `{"new_webhook_secret":true}`, nil)
			} else {
				w.must(t, "PATCH", thing, `{"name":"First"}`, nil)
			}
			now := read()
			_, e := ask(before)
			if e == nil || e.Code != web.PreconditionFailed || len(e.Details) != 1 ||
				!strings.Contains(e.Details[0].Message, now) {
				t.Fatalf("contract 42: a change of %s, which is %s now: %v", before, now, e)
			}
			if read() != now {
				t.Error("contract 42: it was changed all the same")
			}
			match := now
			if c.action == "PATCH" {
				match = "W/" + now // as proxies make it that compress responses
			}
			resp, e := ask(match)
			if e != nil || resp.Header.Get("Etag") == now || resp.Header.Get("Etag") != read() {
				t.Errorf("contract 42: %v, %q", e, resp.Header.Get("Etag"))
			}
		})
	}
}

// Contract 42: every list is shown whole, page by page.
func TestCursors(t *testing.T) {
	w := newFixture(t)
	const n = 13
	for i := range n {
		name := fmt.Sprintf("%02d", i)
		w.must(t, "POST", operate.CreatePublisher.Path, `{"id":"pub_`+name+`","name":"`+name+`"}`, nil)
		w.must(t, "POST", operate.ListIntegrations.Path,
			`{"publisher_id":"pub_a","name":"`+name+`","webhook_off":true}`, nil)
		w.must(t, "POST", operate.ListKeys.Path, `{"publisher_id":"pub_a"}`, nil)
		w.must(t, "POST", operate.ListInvitations.Path, `{"publisher_id":"pub_a","role":"viewer"}`, nil)
		w.must(t, "POST", operate.ListOperators.Path, `{"name":"`+name+`","role":"viewer"}`, nil)
		w.Clock.Advance(time.Second)
	}
	for path, want := range map[string]int{
		"publishers?": n + 1, "integrations?": n + 1, "integrations?publisher_id=pub_a&": n + 1,
		"integrations?publisher_id=pub_00&": 0, "keys?": n, "keys?publisher_id=pub_a&": n,
		"invitations?publisher_id=pub_a&": n, "operators?": n + 1, "audit?": 5*n + 1,
		"audit?publisher_id=pub_00&":  1,
		"members?publisher_id=pub_a&": 0, "deliveries?": 0,
	} {
		name, _, _ := strings.Cut(path, "?")
		for _, limit := range []int{1, 5, want + 1, 200} {
			seen := map[string]bool{}
			for after, pages := "", 0; ; pages++ {
				var page map[string]json.RawMessage
				w.must(t, "GET", fmt.Sprintf("%s%slimit=%d&after=%s", operate.Prefix, path, limit, after), "",
					&page)
				var things []map[string]any
				coretest.Must(t, json.Unmarshal(page[name], &things))
				most := limit
				if path == "operators?" && after == "" {
					most++ // the token of the configuration is not counted
				}
				if things == nil || len(things) > most || pages > want {
					t.Fatalf("contract 42: %s: page %d has %s", path, pages, page[name])
				}
				for _, thing := range things {
					seen[fmt.Sprint(thing["id"])] = true
				}
				if page["next"] == nil {
					break
				}
				coretest.Must(t, json.Unmarshal(page["next"], &after))
			}
			if len(seen) != want {
				t.Errorf("contract 42: %s by %d shows %d things, want %d", path, limit, len(seen), want)
			}
		}
		for _, limit := range []string{"0", "-1", "201", "x", "1e1", "9999999999999999999"} {
			e := w.rejected(t, web.InvalidRequest, "GET", operate.Prefix+path+"limit="+limit, "")
			if e == nil || len(e.Details) != 1 || e.Details[0].Field != "limit" {
				t.Errorf("contract 5: %slimit=%s: %v", path, limit, e)
			}
		}
	}
	// Earlier releases of the command line ask without a limit and expect all.
	for _, path := range []string{operate.ListKeys.Path, operate.ListIntegrations.Path} {
		for range 5 {
			w.must(t, "POST", operate.ListKeys.Path, `{"publisher_id":"pub_a"}`, nil)
		}
		var page map[string]json.RawMessage
		w.must(t, "GET", path, "", &page)
		if page["next"] != nil {
			t.Errorf("%s is not whole", path)
		}
	}
}

// Contract 13: the secret part of a key, token, link or webhook secret is in one response, and never again in
// a response or in the log.
func TestSecretsAreToldOnce(t *testing.T) {
	w := newFixture(t)
	named := w.sample(t)
	var secrets []string
	member := func(path, body, name string) {
		t.Helper()
		var made map[string]any
		w.must(t, "POST", operate.Prefix+named.Replace(path), body, &made)
		text, _ := made[name].(string)
		if _, after, found := strings.Cut(text, "="); found && name == "link" { // a secret may end with "="
			text = after
		}
		if len(text) < 20 {
			t.Fatalf("%s has made %q", path, text)
		}
		secrets = append(secrets, text)
	}
	member("keys", `{"publisher_id":"pub_a"}`, "key")
	member("keys", `{"publisher_id":"pub_a","integration_id":"`+testUUID+`"}`, "key")
	member("operators", `{"name":"Oda","role":"operator"}`, "token")
	member("invitations", `{"publisher_id":"pub_a","name":"Ida","role":"admin"}`, "link")
	member("links", `{"role":"operator","name":"Oda"}`, "link")
	member("integrations", `{"publisher_id":"pub_a","name":"N","webhook_url":"https://h.example/"}`, "secret")
	member("integrations/SHOP/rotate", `{"staged":true}`, "secret")
	member("integrations/SHOP/rotate", "", "secret")
	const own = "whsec_one_of_the_callers_own_that_is_long"
	w.must(t, "PATCH", operate.ListIntegrations.Path+"/"+testUUID, `{"webhook_secret":"`+own+`"}`, nil)
	secrets = append(secrets, own)
	for name, r := range rows {
		if !strings.HasPrefix(name, "GET ") && r.does != "TestWebhook" && r.does != "ApplySite" {
			continue
		}
		method, _, _ := strings.Cut(name, " ")
		resp, _ := w.send(
			t,
			question{operator, method, operate.Prefix + named.Replace(r.path), named.Replace(r.body),
				""},
		)
		for _, s := range secrets {
			if bytes.Contains(resp.Body, []byte(s)) {
				t.Errorf("contract 13: %s tells a secret: %s", name, resp.Body)
			}
		}
	}
	for _, s := range secrets {
		if strings.Contains(w.Logged.String(), s) {
			t.Error("contract 13: the log has a secret")
		}
		if strings.Contains(w.stored(t), fmt.Sprintf("%x", s)) {
			t.Error("contract 19: the store has a secret in the clear")
		}
	}
}

// A test of a webhook, an event and a session that are sent by way of the API.
func TestTrialsOverTheAPI(t *testing.T) {
	w := newFixture(t)
	var report operate.TestReport
	w.must(t, "POST", testPath, "", &report)
	if !report.Ready || len(report.Probes) != 5 {
		t.Errorf("contract 29: %+v", report)
	}
	var sent operate.Exchange
	w.must(t, "POST", operate.ListIntegrations.Path+"/"+testUUID+"/test-event",
		`{"type":"verification.failed"}`, &sent)
	if sent.Status != 200 || !sent.Delivered || !strings.Contains(sent.RequestBody, `"test":true`) {
		t.Errorf("contract 44: %+v", sent)
	}
	var started operate.TestSession
	w.must(t, "POST", operate.ListIntegrations.Path+"/"+testUUID+"/test-session",
		`{"callback_url":"https://www.publisher.example/back"}`, &started)
	var shown operate.Session
	w.must(t, "GET", operate.Prefix+"sessions/"+started.ID, "", &shown)
	if shown.Status != "PENDING" || shown.Integration != testUUID {
		t.Errorf("contract 44: %+v", shown)
	}
	w.answer = func(host.FetchRequest) (int, error) { return 0, &host.FetchError{Reason: host.FetchTimeout} }
	w.must(t, "POST", testPath, "", &report)
	w.must(t, "POST", operate.ListIntegrations.Path+"/"+testUUID+"/test-event",
		`{"type":"verification.failed"}`, &sent)
	if report.Ready || sent.Delivered || sent.Cause == "" {
		t.Errorf("contract 29: %+v, %+v", report, sent)
	}
	var plan operate.Applied
	const site = `{"publishers":[{"id":"pub_f","name":"File"}]}`
	for _, text := range []string{"True", "yes", "2", ""} {
		w.rejected(t, web.InvalidRequest, "POST", operate.ApplySite.Path+"?dry_run="+text, site)
	}
	w.must(t, "POST", operate.ApplySite.Path+"?dry_run=1", site, &plan)
	if plan.Applied || len(plan.Differences) != 1 {
		t.Errorf("contract 46: %+v", plan)
	}
	w.rejected(t, web.NotFound, "GET", operate.CreatePublisher.Path+"/pub_f", "")
	w.must(t, "POST", operate.ApplySite.Path, site, &plan)
	if !plan.Applied || len(plan.Differences) != 1 {
		t.Errorf("contract 46: %+v", plan)
	}
	e := w.rejected(t, web.Forbidden, "PATCH", operate.CreatePublisher.Path+"/pub_f", `{"name":"x"}`)
	if e != nil && !strings.Contains(e.Message, "configuration") {
		t.Errorf("contract 46: it does not name the place of the setting: %v", e)
	}
	resp, e := w.send(
		t,
		question{operator, "GET", operate.ReadUsage.Path + "?format=csv&integration_id=" + testUUID, "",
			""},
	)
	if e != nil || !bytes.HasPrefix(resp.Body, []byte("integration")) ||
		bytes.Count(resp.Body, []byte("\n")) != 31 {
		t.Errorf("contract 44: %v, %s", e, resp.Body)
	}
}

// Contract 42: a caller can read the name and the rights of its token.
func TestToken_Rights(t *testing.T) {
	w := newFixture(t)
	made, err := w.Operations.CreateOperatorToken(ctx, root, "Olga", operate.RoleViewer, nil)
	coretest.Must(t, err)
	rejected, _ := w.send(t,
		question{made.Token, "POST", operate.ListOperators.Path, `{"name":"x","role":"viewer"}`, ""})
	for _, c := range []struct {
		rule, token, query string
		status             int
		says               string
	}{
		{"the configuration's", operator, "", 200,
			`{"id":"configuration","name":"configuration","role":"operator"}`},
		{"a viewer's", made.Token, "", 200, `{"id":"` + made.Info.ID + `","name":"Olga","role":"viewer"}`},
		{"an operator may", operator, "?may=module.activate", 200, `"configuration"`},
		{"a viewer may read", made.Token, "?may=module.read", 200, `"Olga"`},
		{"a viewer cannot activate a module", made.Token, "?may=module.activate", 403, string(rejected.Body)},
		{"a viewer cannot create a backup", made.Token, "?may=backup.make", 403, string(rejected.Body)},
		{"an operation of a later release", operator, "?may=module.melt", 400, `"field":"may"`},
		{"a wrong token", "guess", "?may=module.read", 401, "UNAUTHORIZED"},
	} {
		resp, _ := w.send(t, question{c.token, "GET", operate.ReadSelf.Path + c.query, "", ""})
		if resp.Status != c.status || !strings.Contains(string(resp.Body), c.says) {
			t.Errorf("contract 42: %s: %d %s, want %d %s", c.rule, resp.Status, resp.Body, c.status, c.says)
		}
	}
}

// Contract 42: the use of a token is in the audit, once an hour and address.
func TestToken_UseIsAudited(t *testing.T) {
	w := newFixture(t)
	uses := func() (n int) {
		page, err := w.Operations.Audit(ctx, root, "", operate.Cursor{})
		coretest.Must(t, err)
		for _, e := range page.Items {
			if e.Operation == "operator.use" {
				n++
			}
		}
		return n
	}
	for range 5 {
		w.must(t, "GET", operate.ListMethods.Path, "", nil)
	}
	w.rejected(t, web.NotFound, "GET", operate.CreatePublisher.Path+"/pub_x", "")
	if n := uses(); n != 1 {
		t.Errorf("%d uses are in the audit, want 1", n)
	}
	w.Clock.Advance(useStep)
	w.must(t, "GET", operate.ListMethods.Path, "", nil)
	if n := uses(); n != 2 {
		t.Errorf("%d uses are in the audit after an hour, want 2", n)
	}
	if _, e := w.send(t, question{token: "guess", method: "GET", path: operate.ListMethods.Path}); e == nil ||
		uses() != 2 {
		t.Error("a wrong token is in the audit as a use")
	}
	var s seen
	for n := range 3 * maxSeen {
		s.first(fmt.Sprint(n), from, w.Clock.Now())
	}
	if len(s.last) > maxSeen {
		t.Errorf("%d uses are remembered", len(s.last))
	}
}

// Contract 3, 5: a body that is not an object is rejected, and one error lists all invalid fields.
func TestHostileBodies(t *testing.T) {
	w := newFixture(t)
	named := w.sample(t)
	before := w.stored(t)
	for name, r := range rows {
		method, _, _ := strings.Cut(name, " ")
		if r.body == "" {
			continue
		}
		limit := web.MaxBody
		switch r.does {
		case "ApplySite", "LoadTrustList":
			limit = 1 << 20
		case "CreatePublisher", "ChangePublisher":
			limit += 87_384 // a logo in base64
		}
		for _, body := range []string{"x", "null", "[]", `"x"`, "{", `{"a":1}x`, "{}{}", "\xff", "{\"name\":\"\xff\"}",
			`{"name":"a","name":"b","publisher_id":"pub_a","role":"viewer","type":"x","webhook_url":"x","staged":true}`,
			strings.Repeat(`{"a":`, 2000), strings.Repeat("[", 10_000)} {
			w.rejected(t, web.InvalidRequest, method, operate.Prefix+named.Replace(r.path), body)
		}
		w.rejected(t, web.PayloadTooLarge, method, operate.Prefix+named.Replace(r.path),
			strings.Repeat(" ", limit+1))
	}
	for _, c := range []struct{ path, body, fields string }{
		{"POST publishers", `{"id":5,"name":[]}`, "id name"},
		{"POST publishers", `{}`, "name"},
		{"POST publishers", `{"id":"","name":null}`, "id name"},
		{"POST publishers", `{"id":"pub_a","name":"x"}`, "id"},
		{"PATCH integrations/SHOP", `{"name":1,"level":1,"challenge_age":"25","minimum_age":1.5,"attempts":true,` +
			`"methods":"sandbox","method_settings":[],"passkeys":1,"callback_origins":[1],"browser_origins":{},` +
			`"webhook_off":"no","webhook_url":1,"webhook_secret":1,"new_webhook_secret":1}`,
			"attempts browser_origins callback_origins challenge_age level method_settings methods " +
				"minimum_age name new_webhook_secret passkeys webhook_off webhook_secret webhook_url"},
		{"PATCH integrations/SHOP", `{"method_settings":{"sandbox":1}}`, "method_settings.sandbox"},
		{"PATCH integrations/SHOP", `{"challenge_age":99999999999999999999}`, "challenge_age"},
		{"PATCH integrations/SHOP", `{"level":"L9","challenge_age":0}`, "challenge_age level"},
		{"POST integrations", `{"name":"x"}`, "publisher_id"},
		{"POST keys", `{"expires":1}`, "expires publisher_id"},
		{"POST invitations", `{"name":"x"}`, "publisher_id role"},
		{"POST invitations", `{"publisher_id":"pub_a","role":"operator"}`, "role"},
		{"POST operators", `{"name":"x","role":"admin"}`, "role"},
		{"POST links", `{"publisher_id":"pub_a","role":"operator"}`, "role"},
		{"POST integrations/SHOP/test-event", `{"type":"x"}`, "type"},
		{"POST integrations/SHOP/rotate", `{"staged":"yes"}`, "staged"},
		{"GET usage", ``, "integration_id"},
		{"GET usage?integration_id=SHOP&from=x&to=y", ``, "from to"},
		{"GET audit?after=x", ``, "after"},
	} {
		method, path, _ := strings.Cut(c.path, " ")
		e := w.rejected(t, web.InvalidRequest, method, operate.Prefix+named.Replace(path), c.body)
		var fields []string
		if e != nil {
			for _, d := range e.Details {
				fields = append(fields, d.Field)
			}
		}
		slices.Sort(fields)
		if got := strings.Join(slices.Compact(fields), " "); got != c.fields {
			t.Errorf("contract 5: %s %s names %q, want %q", c.path, c.body, got, c.fields)
		}
	}
	if w.stored(t) != before {
		t.Error("contract 5: a refused request has changed something")
	}
}

// For any request, the response is described in openapi.yaml and is never an internal error.
func FuzzRequests(f *testing.F) {
	w := newFixture(f)
	named := w.sample(f)
	for name, r := range rows {
		method, _, _ := strings.Cut(name, " ")
		f.Add(method, operate.Prefix+named.Replace(r.path), named.Replace(r.body), "*")
	}
	f.Add("GET", operate.CreatePublisher.Path+"?after=%00&limit=%zz", "", "")
	f.Add("GET", operate.ListDeliveries.Path+"?after=p9:../../c", "", "")
	f.Fuzz(func(t *testing.T, method, path, body, match string) {
		path, query, _ := strings.Cut(path, "?")
		resp, err := w.Handle(ctx, &web.Request{Method: method, Path: path, Query: query, Body: []byte(body),
			Client: from,
			Header: web.Header{"Authorization": {"Bearer " + operator}, "If-Match": {match}}})
		if err == nil {
			if resp.Status != 200 {
				t.Errorf("status %d without an error", resp.Status)
			}
			return
		}
		if e := router.AsError(err); e.Code == web.Internal || e.Code == web.Unavailable {
			t.Errorf("%s %s?%s %q: %v", method, path, query, body, err)
		}
	})
}
