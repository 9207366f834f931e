package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/console"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/liststore"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// people are those who ask, from the one who may most to the one who may nothing.
var people = []string{"operator", "watcher", "admin", "developer", "viewer", "newcomer", ""}

// pageTests lists every page, with the people who may see it. Others get 404, and people who are not signed
// in see no page.
var pageTests = map[string]struct {
	path   string
	sees   string // people, separated by blanks
	reject string // people whose role does not allow it
	status int    // 0: 200
}{
	"home":    {path: "/console", sees: "operator watcher admin developer viewer newcomer", status: 303},
	"sign-in": {path: "/console/sign-in", sees: "operator watcher admin developer viewer newcomer"},
	"invitation": {path: "/console/invitation?invitation=vrg_inv_good",
		sees: "operator watcher admin developer viewer newcomer"},
	"link": {path: "/console/link?link=vrg_in_good",
		sees: "operator watcher admin developer viewer newcomer"},
	"account":     {path: "/console/account", sees: "operator watcher admin developer viewer newcomer"},
	"publishers":  {path: "/console/publishers", sees: "operator watcher"},
	"undelivered": {path: "/console/undelivered", sees: "operator watcher"},
	"operators":   {path: "/console/operators", sees: "operator watcher"},
	"methods":     {path: "/console/methods", sees: "operator watcher"},
	"audit-all":   {path: "/console/audit", sees: "operator watcher"},

	"overview":     {path: mine, sees: "operator watcher admin developer viewer"},
	"brand":        {path: mine + "/brand", sees: "operator admin", reject: "watcher developer viewer"},
	"publisher":    {path: mine + "/settings", sees: "operator admin", reject: "watcher developer viewer"},
	"integrations": {path: mine + "/integrations", sees: "operator watcher admin developer viewer"},
	"new-integration": {path: mine + "/integrations/new", sees: "operator admin developer",
		reject: "watcher viewer"},
	"integration": {path: shop, sees: "operator watcher admin developer viewer"},
	"webhook":     {path: shop + "/webhook", sees: "operator watcher admin developer viewer"},
	"openid":      {path: shop + "/openid", sees: "operator watcher admin developer viewer"},
	"test":        {path: mine + "/test", sees: "operator watcher admin developer viewer"},
	"keys":        {path: mine + "/keys", sees: "operator watcher admin developer viewer"},
	"deliveries":  {path: mine + "/deliveries", sees: "operator watcher admin developer viewer"},
	"delivery": {path: mine + "/deliveries/" + shopID + "/" + deadID,
		sees: "operator watcher admin developer viewer"},
	"sessions": {path: mine + "/sessions", sees: "operator watcher admin developer viewer"},
	"session": {path: mine + "/sessions/" + sessionID,
		sees: "operator watcher admin developer viewer"},
	"usage":          {path: mine + "/usage", sees: "operator watcher admin developer viewer"},
	"usage-csv":      {path: mine + "/usage.csv", sees: "operator watcher admin developer viewer"},
	"members":        {path: mine + "/members", sees: "operator watcher admin developer viewer"},
	"report-all":     {path: "/console/report", sees: "operator", reject: "watcher"},
	"report-all-tar": {path: "/console/report.tar", sees: "operator", reject: "watcher"},
	"report":         {path: mine + "/report", sees: "operator admin", reject: "watcher developer viewer"},
	"report-tar": {path: mine + "/report.tar", sees: "operator admin",
		reject: "watcher developer viewer"},
	"audit": {path: mine + "/audit", sees: "operator watcher admin developer viewer"},
}

func has(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

func TestPages_AllRoles(t *testing.T) {
	rows := console.PageRows()
	if len(rows) != len(pageTests) {
		t.Errorf("there are %d pages and %d rows here", len(rows), len(pageTests))
	}
	for _, row := range rows {
		test, ok := pageTests[row.Name]
		if !ok {
			t.Errorf("the page %s has no row here: say who sees it", row.Name)
			continue
		}
		for _, who := range people {
			want := 404
			switch {
			case row.Open:
				want = 200
			case who == "":
				want = 303 // to the sign-in
			case has(test.reject, who):
				want = 403
			case has(test.sees, who):
				want = max(test.status, 200)
			}
			resp := newFixture(t).ask("GET", test.path, who, "")
			if resp.Status != want {
				t.Errorf("%s for %q: %d, want %d", row.Name, who, resp.Status, want)
			}
			if who == "" && !row.Open && !strings.HasPrefix(resp.Header.Get("Location"), "/console/sign-in") {
				t.Errorf("%s without sign-in redirects to %q", row.Name, resp.Header.Get("Location"))
			}
			if resp.Status != 303 && row.Name != "usage-csv" &&
				!(strings.HasSuffix(row.Name, "-tar") && resp.Status == 200) &&
				resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s for %q is %s: a person never sees anything else than a page", row.Name, who,
					resp.Header.Get("Content-Type"))
			}
		}
	}
}

// actTests has every form, and who may send it. Everybody else who sees the page gets 403, and nothing is
// done. A form that another page has as well has a row with the name of that page before its own.
var actTests = map[string]struct {
	page string // the path, if it is not the page's in pageTests
	form string
	may  string // people, with blanks between
	did  string // the operation
}{
	"sign-out":            {may: "operator watcher admin developer viewer newcomer"},
	"sign-out-everywhere": {may: "admin developer viewer", did: "member.change"},
	"add-passkey":         {form: "credential=good", may: "admin developer viewer"},
	"end-session":         {form: "session=con_1", may: "admin developer viewer"},
	"remove-passkey":      {form: "passkey=psk_1", may: "admin developer viewer"},

	"create-publisher":      {form: "name=Neu", may: "operator", did: "publisher.create"},
	"create-operator-token": {form: "name=a&role=viewer", may: "operator", did: "operator.create"},
	"revoke-operator-token": {form: "id=op_1", may: "operator", did: "operator.revoke"},
	"save-publisher": {
		form: "name=Neu&version={version}",
		may:  "operator admin",
		did:  "publisher.change",
	},
	"archive-publisher": {form: "version={version}", may: "operator", did: "publisher.archive"},
	"save-brand": {form: "accent=%231f5c4d&version={version}", may: "operator admin",
		did: "publisher.change"},
	"end-passkeys":       {may: "operator", did: "passkeys.end"},
	"create-link":        {form: "role=viewer", may: "operator", did: "link.create"},
	"create-integration": {form: "name=Neu", may: "operator admin developer", did: "integration.create"},
	"save-integration": {form: "name=Neu&version={version}", may: "operator admin developer",
		did: "integration.change"},
	"webhook save-integration": {page: mine + "/integrations/" + kioskID + "/webhook",
		form: "version={version}&webhook_url=https://kiosk.example/hook", may: "operator admin developer",
		did: "integration.change"},
	"archive-integration": {form: "version={version}", may: "operator admin", did: "integration.archive"},
	"test-webhook":        {may: "operator admin developer", did: "webhook.test"},
	"test-staged":         {may: "operator admin developer", did: "webhook.test"},
	"stage-webhook": {page: mine + "/integrations/" + kioskID + "/webhook", form: "version={version}",
		may: "operator admin developer", did: "webhook.change"},
	"drop-staged":   {form: "version={version}", may: "operator admin developer", did: "webhook.change"},
	"rotate-secret": {form: "version={version}", may: "operator admin developer", did: "webhook.change"},
	"send-test-event": {form: "type=verification.started&integration_id=" + shopID,
		may: "operator admin developer", did: "webhook.test"},
	"start-test-session": {form: "integration_id=" + shopID, may: "operator admin developer",
		did: "session.test"},
	"create-key":        {may: "operator admin developer", did: "key.create"},
	"revoke-key":        {form: "key=key_1", may: "operator admin developer", did: "key.revoke"},
	"resend":            {may: "operator admin developer", did: "delivery.resend"},
	"find-session":      {form: "session_id=" + sessionID, may: "operator watcher admin developer viewer"},
	"invite-member":     {form: "name=a&role=viewer", may: "operator admin", did: "member.invite"},
	"revoke-invitation": {form: "invitation=inv_1", may: "operator admin", did: "member.invite"},
	"change-role":       {form: "member=mem_viewer&role=admin", may: "operator admin", did: "member.change"},
	"sign-out-member":   {form: "member=mem_viewer", may: "operator admin", did: "member.change"},
	"remove-member":     {form: "member=mem_viewer", may: "operator admin", did: "member.remove"},

	// These are for those who are not signed in.
	"sign-in":         {form: "token=right"},
	"sign-in-passkey": {form: "credential=good"},
	"enrol":           {form: "token=vrg_inv_good&name=Karen&credential=good"},
	"use-link":        {form: "token=vrg_in_good"},
}

// body is the form of an action with the token that the one who sends it has.
func body(name, form, who string) string {
	form = strings.TrimPrefix(strings.TrimPrefix(form, "do="+name), "&") // views have it, too
	return "do=" + name + "&" + form + "&csrf=" + forms(who).FormToken(name)
}

func TestConsole_FormsByRole(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range console.PageRows() {
		for _, name := range row.Acts {
			key := row.Name + " " + name
			if _, ok := actTests[key]; !ok {
				key = name
			}
			seen[key] = true
			test, ok := actTests[key]
			if !ok {
				t.Errorf("the form %s has no row here: say who may send it", name)
				continue
			}
			path := test.page
			if path == "" {
				path = pageTests[row.Name].path
			}
			for _, who := range people {
				w := newFixture(t)
				page := w.ask("GET", path, who, "")
				shown := bytes.Contains(page.Body, []byte(`data-action="`+name+`"`))
				resp := w.ask("POST", path, who, body(name, test.form, who))
				allowed := row.Open || has(test.may, who)
				switch {
				case allowed && resp.Status != 303:
					t.Errorf("%s for %q: %d, want 303\n%s", name, who, resp.Status, resp.Body)
				case !allowed && resp.Status == 303 && name != "sign-out": // no one: already signed out
					t.Errorf("%s for %q was carried out", name, who)
				case !allowed && who != "" && has(pageTests[row.Name].sees, who) && row.Name != "account" &&
					resp.Status != 403:
					t.Errorf("%s for %q: %d, want 403", name, who, resp.Status)
				case !allowed && who == "newcomer" && row.Name != "account" && resp.Status != 404:
					t.Errorf("%s for another publisher's member: %d, want 404", name, resp.Status)
				}
				if page.Status == 200 && shown != allowed {
					t.Errorf("%s for %q: shown is %v, allowed is %v", name, who, shown, allowed)
				}
				if did := w.did(); (allowed && test.did != "") != slices.Equal(did, []string{test.did}) {
					t.Errorf("%s for %q did %v", name, who, did)
				}
			}
		}
	}
	for name := range actTests {
		if !seen[name] {
			t.Errorf("there is a row for %s, and no such form", name)
		}
	}
}

// For a member, items of other publishers do not exist.
func TestConsole_OtherPublisher(t *testing.T) {
	theirs := "/console/p/" + othersID
	for _, path := range []string{theirs, theirs + "/integrations", theirs + "/keys",
		theirs + "/integrations/" + foreignID,
		mine + "/integrations/" + foreignID, mine + "/integrations/" + foreignID + "/webhook",
		mine + "/integrations/" + foreignID + "/openid",
		mine + "/test?integration=" + foreignID, mine + "/usage?integration=" + foreignID,
		mine + "/usage.csv?integration=" + foreignID, mine + "/deliveries?integration=" + foreignID,
		mine + "/sessions?integration=" + foreignID,
		mine + "/deliveries/" + foreignID + "/" + deadID, mine + "/sessions/" + theirsID,
		theirs + "/sessions/" + theirsID} {
		for _, who := range []string{"admin", "viewer"} {
			if got := newFixture(t).ask("GET", path, who, "").Status; got != 404 {
				t.Errorf("%s for %s: %d, want 404", path, who, got)
			}
		}
	}
	// An operator sees all publishers, but each thing only below its own.
	for _, path := range []string{mine + "/integrations/" + foreignID,
		mine + "/integrations/" + foreignID + "/openid", mine + "/sessions/" + theirsID,
		mine + "/deliveries/" + foreignID + "/" + deadID} {
		if got := newFixture(t).ask("GET", path, "operator", "").Status; got != 404 {
			t.Errorf("%s for an operator: %d, want 404", path, got)
		}
	}
	for _, c := range []struct{ path, name, form string }{
		{mine + "/test", "send-test-event", "type=verification.started&integration_id=" + foreignID},
		{mine + "/test", "start-test-session", "integration_id=" + foreignID},
		{mine + "/keys", "create-key", "integration_id=" + foreignID},
		{mine + "/keys", "create-key", "publisher_id=" + othersID},
		{mine + "/integrations/new", "create-integration", "name=a&publisher_id=" + othersID},
		{mine + "/members", "remove-member", "member=mem_other"},
		{mine + "/integrations/" + foreignID, "save-integration", "name=a&version={version}"},
		{mine + "/integrations/" + foreignID + "/webhook", "rotate-secret", "version={version}"},
		{mine + "/integrations/" + foreignID + "/webhook", "save-integration",
			"webhook_url=https://shop.example/hook&version={version}"},
	} {
		w := newFixture(t)
		if got := w.ask("POST", c.path, "admin", body(c.name, c.form, "admin")).Status; got != 404 ||
			len(w.did()) > 0 {
			t.Errorf("%s %s: %d, and it did %v; want 404 and nothing", c.name, c.form, got, w.did())
		}
	}
	resp := newFixture(t).ask("POST", mine+"/sessions", "admin",
		body("find-session", "session_id="+theirsID, "admin"))
	if resp.Status != 422 || !bytes.Contains(resp.Body, []byte("no such session")) {
		t.Errorf("finding another publisher's session: %d", resp.Status)
	}
}

// Contract 45 lists forms and fields, so that programs can fill them in.
func TestForms_Contract(t *testing.T) {
	for _, c := range []struct{ action, who, path, fields string }{
		{"sign-in", "", "/console/sign-in", "token"},
		{"sign-out", "viewer", mine, ""},
		{"create-publisher", "operator", "/console/publishers", "name"},
		{"create-integration", "developer", mine + "/integrations/new",
			"publisher_id name level challenge_age minimum_age " +
				"methods webhook_url callback_origins browser_origins"},
		{"save-integration", "developer", shop,
			"publisher_id name level challenge_age minimum_age methods webhook_url " +
				"callback_origins browser_origins version"},
		{"archive-integration", "admin", shop, "version"},
		{"rotate-secret", "developer", shop + "/webhook", "version"},
		{"test-webhook", "developer", shop + "/webhook", ""},
		{"send-test-event", "developer", mine + "/test", "type"},
		{"create-key", "developer", mine + "/keys", "publisher_id integration_id expires"},
		{"revoke-key", "developer", mine + "/keys", ""},
		{"resend", "developer", mine + "/deliveries/" + shopID + "/" + deadID, ""},
		{"find-session", "viewer", mine + "/sessions", "session_id"},
		{"invite-member", "admin", mine + "/members", "name role"},
		{"remove-member", "admin", mine + "/members", ""},
	} {
		doc := parse(t, newFixture(t).ask("GET", c.path, c.who, ""))
		form := with(doc, "data-action", c.action)
		if form == nil {
			t.Errorf("contract 45: %s has no form %s", c.path, c.action)
			continue
		}
		if attr(form, "method") != "post" || !strings.HasPrefix(attr(form, "action"), "/console/") {
			t.Errorf("contract 45: %s is sent by %s to %s", c.action, attr(form, "method"),
				attr(form, "action"))
		}
		fields := c.fields
		if c.who != "" {
			fields += " csrf"
		}
		for name := range strings.FieldsSeq(fields) {
			if with(form, "name", name) == nil {
				t.Errorf("contract 45: %s has no field %s", c.action, name)
			}
		}
	}
}

// A member who signed in long ago must sign in again to add a passkey.
func TestPasskey_AnotherNeedsFreshSignIn(t *testing.T) {
	doc := parse(t, newFixture(t).ask("GET", "/console/account", "late", ""))
	if with(doc, "data-action", "add-passkey") != nil ||
		with(doc, "href", "/console/sign-in?next=%2Fconsole%2Faccount") == nil {
		t.Errorf("the page offers another passkey, or no way to sign in again: %s", text(doc))
	}
	if doc := parse(t, newFixture(t).ask("GET", "/console/account", "admin", "")); with(doc, "data-action",
		"add-passkey") == nil {
		t.Errorf("the page offers no other passkey: %s", text(doc))
	}
}

func TestSearchByName(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct{ path, who, name, has, hasNot string }{
		{"/console/publishers", "operator", "Nordlicht", mineID, "Ahrenfeld"},
		{mine + "/integrations", "viewer", "Shop", shopID, kioskID},
	} {
		page := string(w.ask("GET", c.path+"?name="+url.QueryEscape(c.name), c.who, "").Body)
		if !strings.Contains(page, c.has) || strings.Contains(page, c.hasNot) {
			t.Errorf("%s: a search for %s found\n%s", c.path, c.name, page)
		}
		resp := w.ask("GET", c.path+"?name=%3Cnobody%3E", c.who, "")
		doc := parse(t, resp)
		field := with(doc, "role", "search")
		if resp.Status != 200 || field == nil || attr(with(field, "name", "name"), "value") != "<nobody>" ||
			!strings.Contains(string(resp.Body), "No results for “&lt;nobody&gt;” in names and ids.") {
			t.Errorf("%s: nothing found: %d\n%s", c.path, resp.Status, resp.Body)
		}
		if with(parse(t, w.ask("GET", c.path, c.who, "")), "role", "search") != nil {
			t.Errorf("%s: a short list has a search", c.path)
		}
	}
}

// A new integration starts with the sandbox, if the service has it.
func TestIntegration_NewUsesSandbox(t *testing.T) {
	doc := parse(t, newFixture(t).ask("GET", mine+"/integrations/new", "developer", ""))
	form := with(doc, "data-action", "create-integration")
	for name, want := range map[string]string{"methods_order": "sandbox camera bank", "challenge_age": "25"} {
		if got := attr(with(form, "name", name), "value"); got != want {
			t.Errorf("%s begins with %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{"sandbox": true, "camera": false, "bank": false} {
		input := with(form, "name", "methods."+name)
		if on := input != nil && slices.ContainsFunc(input.Attr,
			func(a html.Attribute) bool { return a.Key == "checked" }); on != want {
			t.Errorf("the switch of %s is on: %t, want %t", name, on, want)
		}
	}
}

// The form that switches events off still has the URL. Another URL contradicts it.
func TestForms_EventsOff(t *testing.T) {
	for other, status := range map[string]int{"": 303, "other": 422} {
		w := newFixture(t)
		i, err := w.directory.ReadIntegration(ctx, shopID)
		coretest.Must(t, err)
		resp := w.ask("POST", shop, "developer", body("save-integration", "version={version}&webhook_off=1"+
			"&webhook_url="+url.QueryEscape(i.Value.Webhook.URL+other), "developer"))
		i, err = w.directory.ReadIntegration(ctx, shopID)
		coretest.Must(t, err)
		if resp.Status != status || i.Value.Webhook.Off != (status == 303) {
			t.Errorf("off with the URL and %q: %d, %+v", other, resp.Status, i.Value.Webhook)
		}
	}
}

func TestForms_PassedValues(t *testing.T) {
	w := newFixture(t)
	resp := w.ask("POST", shop, "developer", body("save-integration",
		url.Values{"version": {w.version(shop)}, "name": {" Laden "},
			"level": {"L2"}, "challenge_age": {"21"}, "minimum_age": {""}, "methods": {""},
			"methods_order": {"bank sandbox camera"}, "methods.bank": {"on"}, "methods.camera": {"on"},
			"method_settings.camera.deviation": {" 2,5 "}, "method_settings.bank.acr_values.1": {"on"},
			"webhook_url":      {"https://new.example/"},
			"callback_origins": {"https://a.example\r\n\r\nhttps://b.example"},
			"browser_origins": {
				"",
			}, "passkeys": {"publisher"}}.Encode(),
		"developer"))
	i, err := w.directory.ReadIntegration(ctx, shopID)
	coretest.Must(t, err)
	i.Value.Staged, i.Value.Created, i.Value.Webhook.Sealed = nil, nil, ""
	got, err := json.Marshal(i.Value)
	coretest.Must(t, err)
	want := `{"id":"` + shopID + `","publisher_id":"` + mineID + `","name":"Laden","level":"L2",` +
		`"challenge_age":21,"method":"bank","webhook":{"url":"https://new.example/"},` +
		`"methods":["bank","camera"],"method_settings":{"bank":{"acr_values":["high"]},` +
		`"camera":{"deviation":2.5}},` +
		`"callback_origins":["https://a.example","https://b.example"],` +
		`"redirect_uris":["https://shop.example/oauth2/callback"],"passkeys":"publisher"}`
	if string(got) != want {
		t.Errorf("%d: got  %s\nwant %s", resp.Status, got, want)
	}

	w = newFixture(t)
	w.ask("POST", mine+"/keys", "developer", body("create-key", "expires=2026-12-24&integration_id="+shopID,
		"developer"))
	keys, err := w.Operations.Keys(ctx, w.access.actors["operator"], mineID, operate.Cursor{})
	coretest.Must(t, err)
	midnight := time.Date(2026, 12, 25, 0, 0, 0, 0, time.UTC)
	if !slices.ContainsFunc(keys.Items, func(k operate.Key) bool {
		return k.IntegrationID == shopID && k.Expires != nil && k.Expires.Equal(midnight)
	}) {
		t.Errorf("create-key made none of %+v: a key is good until the end of the day", keys.Items)
	}
	list := string(w.ask("GET", mine+"/keys", "developer", "").Body)
	if !strings.Contains(list, "24 Dec 2026") || strings.Contains(list, "25 Dec 2026") {
		t.Error("contract 45: the list of keys does not have the day of the form")
	}
}

// Each open invitation can be withdrawn in the console.
func TestMembers_ManyInvitations(t *testing.T) {
	w := newFixture(t)
	for n := range operate.MaxLimit + 1 {
		_, err := w.Operations.Invite(ctx, w.access.actors["operator"], mineID, fmt.Sprint("Ada ", n),
			operate.RoleViewer)
		coretest.Must(t, err)
	}
	first := string(w.ask("GET", mine+"/members", "admin", "").Body)
	_, rest, _ := strings.Cut(first, `rel="next" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	second := string(w.ask("GET", html.UnescapeString(next), "admin", "").Body)
	const form = `value="revoke-invitation"`
	if n, m := strings.Count(first, form), strings.Count(second, form); n != operate.MaxLimit || m < 1 {
		t.Errorf("contract 43: %d invitations, and %d on the next page", n, m)
	}
}

// A value that cannot be parsed does not hide the other errors of a form.
func TestConsole_RejectedForm(t *testing.T) {
	for _, c := range []struct {
		path, who, form string
		want            []string
	}{
		{mine + "/integrations/new", "developer",
			"create-integration&attempts=few&methods_order=camera&methods.camera=on" +
				"&method_settings.camera.deviation=few",
			[]string{"The attempts must be a whole number", "Enter a number, such as 3 or 2.5.",
				"Give the integration a name."}},
		{shop, "developer", "save-integration&version={version}&name=&minimum_age=old",
			[]string{"The minimum age must be a whole number", "Give it a name."}},
		{mine + "/keys", "developer", "create-key&expires=tomorrow", []string{"Enter a day"}},
		{"/console/operators", "operator", "create-operator-token&role=viewer&expires=tomorrow",
			[]string{"Enter a day", "Name is missing"}},
	} {
		w := newFixture(t)
		do, form, _ := strings.Cut(c.form, "&")
		resp := w.ask("POST", c.path, c.who, body(do, form, c.who))
		if did := w.did(); resp.Status != 422 || len(did) > 0 {
			t.Errorf("%s: %d, and it did %v; want 422 and nothing", c.form, resp.Status, did)
		}
		for _, want := range c.want {
			if !strings.Contains(string(resp.Body), want) {
				t.Errorf("%s: the page does not contain %q", c.form, want)
			}
		}
	}
}

// A day beyond the range of timestamps is rejected like any other invalid day.
func TestUsage_InvalidDay(t *testing.T) {
	for _, day := range []string{"9999-12-31", "10000-01-01", "2027-02-30", "tomorrow"} {
		w := newFixture(t)
		resp := w.ask("POST", mine+"/keys", "developer", body("create-key", "expires="+day, "developer"))
		if did := w.did(); resp.Status != 422 || len(did) > 0 {
			t.Errorf("a key until %s: %d, and it did %v", day, resp.Status, did)
		}
	}
}

// A rejected form is shown again with its values and errors.
func TestForms_RejectedKeepsInput(t *testing.T) {
	resp := newFixture(t).ask("POST", shop, "developer", body("save-integration",
		"version={version}&name=Laden&challenge_age=old&methods=bank", "developer"))
	page := string(resp.Body)
	if resp.Status != 422 || !strings.Contains(page, `value="Laden"`) ||
		!strings.Contains(page, `value="old"`) ||
		!strings.Contains(page,
			`aria-invalid="true"`) || !strings.Contains(page, "The challenge age must be a whole number") ||
		!strings.Contains(page, `role="alert" tabindex="-1" autofocus`) ||
		!strings.Contains(page, "<title>Error – Shop") {
		t.Errorf("%d:\n%s", resp.Status, page)
	}
	for _, c := range []struct {
		path, form string
		store      kv.KV // nil: one that works
		status     int
		says       string
	}{
		{mine + "/integrations/" + managedID, "save-integration&version={version}", nil, 409,
			"configuration file"},
		{mine + "/integrations/" + oldID, "save-integration&version={version}", nil, 409, "archived"},
		{mine + "/test", "start-test-session&integration_id=" + kioskID, nil, 409, "has not reported Ready"},
		{shop, "save-integration&version={version}", down{err: kv.ErrUnavailable}, 503, "temporarily"},
		{shop, "save-integration&version={version}", down{err: errors.New("broken inside")}, 503,
			"temporarily"},
	} {
		w := newFixture(t)
		do, form, _ := strings.Cut(c.form, "&")
		path, form := w.real(c.path, body(do, form+"&name=Laden", "developer"))
		if broken, ok := c.store.(down); ok {
			broken.KV = w.Memory
			w.Store.KV = broken
		}
		resp := w.ask("POST", path, "developer", form)
		if resp.Status != c.status || !strings.Contains(string(resp.Body), c.says) ||
			strings.Contains(string(resp.Body), "broken inside") {
			t.Errorf("%s %s: %d\n%s", c.path, c.form, resp.Status, resp.Body)
		}
	}
}

// A page shows errors as sentences, with the names of fields in the form.
func TestForms_ErrorSentences(t *testing.T) {
	for form, want := range map[string]string{
		"challenge_age=0": "#save-integration-challenge_age Challenge age is 0; it must be from 1 to 99",
		"methods=a_b": `#save-integration-methods Method is "a_b"; ` +
			"this service has: camera, bank, sandbox",
	} {
		resp := newFixture(t).ask("POST", shop, "developer",
			body("save-integration", "version={version}&"+form, "developer"))
		field, want, _ := strings.Cut(want, " ")
		if got := text(with(parse(t, resp), "href", field)); resp.Status != 422 || got != want {
			t.Errorf("%d, and the page says %q, want %q", resp.Status, got, want)
		}
	}
}

// Without its version, a change could silently undo a change by someone else.
func TestForms_MissingVersion(t *testing.T) {
	some := 0
	for name, test := range actTests {
		if !strings.Contains(test.form, "version=") {
			continue
		}
		some++
		path := test.page
		for _, row := range console.PageRows() {
			if path == "" && slices.Contains(row.Acts, name) {
				path = pageTests[row.Name].path
			}
		}
		who := strings.Fields(test.may)[0]
		for _, version := range []string{"version=", "version=+", "other="} {
			form := regexp.MustCompile(`version=[^&]*`).ReplaceAllString(test.form, version)
			w := newFixture(t)
			action := name[strings.LastIndex(name, " ")+1:]
			resp := w.ask("POST", path, who, body(action, form, who))
			if resp.Status != 400 || !strings.Contains(string(resp.Body), "Reload the page") ||
				!strings.Contains(string(resp.Body), `href="`+path+`"`) || len(w.did()) > 0 {
				t.Errorf("%s with %s: %d, and it did %v", name, form, resp.Status, w.did())
			}
		}
	}
	if some != 9 {
		t.Errorf("%d forms have a version, want 9", some)
	}
}

// If someone else has changed the item in the meantime, the person sees these changes and can still save.
func TestConsole_LostUpdate(t *testing.T) {
	w := newFixture(t)
	resp := w.ask("POST", shop, "admin", body("save-integration", "version=old&name=Laden", "admin"))
	doc := parse(t, resp)
	alert := text(with(doc, "role", "alert"))
	if resp.Status != 412 || !strings.Contains(alert, "Grace Hopper") ||
		!strings.Contains(alert, "challenge_age") {
		t.Errorf("%d, and the page says %q", resp.Status, alert)
	}
	form := with(doc, "data-action", "save-integration")
	for name, want := range map[string]string{"name": "Laden", "version": w.version(shop)} {
		if field := with(form, "name", name); attr(field, "value") != want {
			t.Errorf("the field %s has %q, want %q", name, attr(field, "value"), want)
		}
	}
}

// Changes by others before an own change are already known.
func TestForms_LostUpdate(t *testing.T) {
	inputs := map[string]operate.IntegrationInput{"name": {Name: ptr("Laden")}, "level": {Level: ptr("L2")},
		"methods": {Methods: &[]string{"bank"}}, "passkeys": {Passkeys: ptr("publisher")}}
	for name, c := range map[string]struct {
		changes   string // the latest first
		says, not string
	}{
		"another one, and before that oneself": {"admin:name developer:level admin:methods", "name",
			"level methods"},
		"oneself in another window": {"developer:level admin:methods", "level", "methods"},
		"others, more often than there is room for": {"admin:name admin:level admin:methods admin:passkeys",
			"name level methods", "passkeys"},
	} {
		w := newFixture(t)
		for _, change := range slices.Backward(strings.Fields(c.changes)) {
			who, field, _ := strings.Cut(change, ":")
			w.Clock.Advance(time.Second)
			_, err := w.Operations.ChangeIntegration(ctx, w.access.actors[who], shopID, "", inputs[field])
			coretest.Must(t, err)
		}
		resp := w.ask("POST", shop, "developer",
			body("save-integration", "version=old&name=Laden", "developer"))
		alert := with(parse(t, resp), "role", "alert")
		for field := range strings.FieldsSeq(c.says) {
			if !strings.Contains(text(alert), field+" ") {
				t.Errorf("%s: nothing about %s: %q", name, field, text(alert))
			}
		}
		for field := range strings.FieldsSeq(c.not) {
			if strings.Contains(text(alert), field+" ") {
				t.Errorf("%s: it tells %s: %q", name, field, text(alert))
			}
		}
	}
}

func TestConsole_SecretShownOnce(t *testing.T) {
	for _, c := range []struct{ path, who, name, form, begins string }{
		{mine + "/keys", "developer", "create-key", "", "svc_sk_"},
		{shop + "/webhook", "developer", "rotate-secret", "version={version}", "whsec_"},
		{mine + "/integrations/new", "developer", "create-integration",
			"name=a&webhook_url=https://a.example", "whsec_"},
		{mine + "/members", "admin", "invite-member", "name=a&role=viewer", "vrg_inv_"},
		{mine + "/settings", "operator", "create-link", "role=viewer", "vrg_in_"},
		{"/console/operators", "operator", "create-operator-token", "name=a&role=viewer", "vrg_op_"},
	} {
		w := newFixture(t)
		resp := w.ask("POST", c.path, c.who, body(c.name, c.form, c.who))
		to := resp.Header.Get("Location")
		if resp.Status != 303 || strings.Contains(to, c.begins) || len(resp.Body) > 0 {
			t.Fatalf("%s: %d to %s with %q", c.name, resp.Status, to, resp.Body)
		}
		all, err := w.Memory.List(ctx, kv.Key{Partition: integration.Partition}, "", 1000)
		coretest.Must(t, err)
		others := "watcher"
		if c.who != "operator" {
			others = "operator"
		}
		other := w.ask("GET", to, others, "")
		status := text(with(parse(t, w.ask("GET", to, c.who, "")), "role", "status"))
		secret := regexp.MustCompile(c.begins + "[A-Za-z0-9+/_-]{20,}").FindString(status)
		if secret == "" {
			t.Fatalf("%s: the page after the 303 does not show the new secret: %s", c.name, status)
		}
		notes := 0
		for _, item := range all {
			id, isNote := strings.CutPrefix(item.Key.Name, "c/note/")
			if isNote {
				notes++
			}
			if bytes.Contains(item.Value, []byte(secret)) || isNote && strings.Contains(to, id) {
				t.Errorf("%s: the store has the secret, or the address has the item's name", c.name)
			}
		}
		if notes != 1 {
			t.Errorf("%s: the store has %d notes, want 1", c.name, notes)
		}
		if bytes.Contains(other.Body, []byte(secret)) {
			t.Errorf("%s: another session sees what was made", c.name)
		}
		if again := w.ask("GET", to, c.who, ""); bytes.Contains(again.Body, []byte(secret)) {
			t.Errorf("%s: the secret is shown twice", c.name)
		}
	}
}

// If the store does not confirm that the note is deleted, the secret is not shown: it could be shown twice.
func TestSecret_NoteNotDeleted(t *testing.T) {
	w := newFixture(t)
	to := w.ask("POST", mine+"/keys", "developer", body("create-key", "", "developer")).Header.Get("Location")
	w.Console.Host.KV = down{w.Memory, kv.ErrUnknown}
	page := string(w.ask("GET", to, "developer", "").Body)
	if strings.Contains(page, "svc_sk_") || !strings.Contains(page, "cannot be shown") {
		t.Errorf("the page says\n%s", page)
	}
	if resp := w.ask("POST", mine+"/keys", "developer", body("create-key", "",
		"developer")); resp.Status != 503 {
		t.Errorf("a key whose note cannot be kept: %d, want 503", resp.Status)
	}
	if resp := w.ask("POST", mine+"/keys", "developer", body("revoke-key", "key=key_1",
		"developer")); resp.Status != 303 {
		t.Errorf("a form without a secret needs no note: %d, want 303", resp.Status)
	}
}

// The store can apply the first try of a commit after the second one, when the secret has been shown.
func TestSecret_LateNote(t *testing.T) {
	w := newFixture(t)
	late := &kvtest.Faulty{KV: w.Memory}
	w.Console.Host.KV = late
	commits := 0
	late.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && strings.HasPrefix(c.Tx.ID, "note-") {
			if commits++; commits == 1 {
				return kvtest.Delay
			}
		}
		return kvtest.Pass
	}
	to := w.ask("POST", mine+"/keys", "developer", body("create-key", "", "developer")).Header.Get("Location")
	if page := w.ask("GET", to, "developer", ""); !bytes.Contains(page.Body, []byte("svc_sk_")) {
		t.Fatalf("the page does not show the key: %s", page.Body)
	}
	late.Deliver(ctx)
	page := w.ask("GET", to, "developer", "")
	if bytes.Contains(page.Body, []byte("svc_sk_")) || commits != 2 {
		t.Errorf("contract 43: after %d commits, the page shows the key again", commits)
	}
}

// down is a store that reads, and returns err for each commit.
type down struct {
	kv.KV
	err error
}

func (d down) Commit(context.Context, kv.Tx) error { return d.err }

func TestPostsOfOtherSites(t *testing.T) {
	good := body("create-key", "", "developer")
	for _, c := range []struct {
		rule   string
		who    string
		body   string
		header []string
		want   int
	}{
		{"a form of ours", "developer", good, nil, 303},
		{"another origin", "developer", good, []string{"Sec-Fetch-Site", "", "Origin",
			"https://evil.example"}, 403},
		{"another port", "developer", good, []string{"Sec-Fetch-Site", "", "Origin", base + ":8443"}, 403},
		{"the operators' listener, by fetch metadata", "developer", good,
			[]string{"Origin", "http://127.0.0.1:9090"}, 303},
		{"fetch metadata: cross-site", "developer", good, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"fetch metadata: a sibling host", "developer", good, []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"no fetch metadata and a null origin", "developer", good,
			[]string{"Sec-Fetch-Site", "", "Origin", "null"}, 403},
		{"a browser that withholds the origin", "developer", good, []string{"Origin", "null"}, 303},
		{"a browser without both", "developer", good, []string{"Origin", "", "Sec-Fetch-Site", ""}, 303},
		{"no token", "developer", "do=create-key", nil, 403},
		{"the token of another action", "developer", "do=create-key&csrf=" +
			forms("developer").FormToken("sign-out"), nil, 403},
		{"the token of another session", "developer", body("create-key", "", "admin"), nil, 403},
		{"no session", "", good, nil, 401},
		{"a session that has ended", "gone", good, nil, 401},
		{"no such action", "developer", "do=nothing&csrf=" + forms("developer").FormToken("nothing"), nil,
			400},
		{"JSON", "developer", good, []string{"Content-Type", "application/json"}, 415},
		{"a damaged form", "developer", "do=%zz", nil, 400},
		{"too much", "developer", good + "&x=" + strings.Repeat("x", console.MaxBody), nil, 413},
	} {
		w := newFixture(t)
		resp := w.ask("POST", mine+"/keys", c.who, c.body, c.header...)
		if did := w.did(); resp.Status != c.want || (len(did) > 0) != (c.want == 303) {
			t.Errorf("%s: %d, and it did %v; want %d", c.rule, resp.Status, did, c.want)
		}
		if c.want != 303 && resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: a person never sees anything else than a page", c.rule)
		}
	}
}

// A form of a session that has ended is not lost: the page stays, and its link opens another tab.
func TestSignedOut_Form(t *testing.T) {
	w := newFixture(t)
	resp := w.ask("POST", mine+"/keys", "gone", "do=create-key")
	if resp.Status != 401 || !bytes.Contains(resp.Body, []byte(`href="/console/sign-in" target="_blank"`)) {
		t.Errorf("contract 45: %d, with no link to a new tab:\n%s", resp.Status, resp.Body)
	}
	resp = w.ask("POST", "/console/account", "gone", "do=sign-out")
	if to := resp.Header.Get("Location"); resp.Status != 303 || to != "/console/sign-in?out=1" {
		t.Errorf("a second sign-out: %d, to %q", resp.Status, to)
	}
}

func TestSignIn(t *testing.T) {
	w := newFixture(t)
	resp := w.ask("POST", "/console/sign-in", "", "do=sign-in&token=right")
	want := cookieName + "=operator; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=43200"
	if got := resp.Header.Get("Set-Cookie"); got != want ||
		!strings.HasPrefix(resp.Header.Get("Location"), "/console/publishers") {
		t.Errorf("the cookie is %q, want %q; on to %s", got, want, resp.Header.Get("Location"))
	}
	if page := w.ask("GET", resp.Header.Get("Location"), "operator", ""); !bytes.Contains(page.Body,
		[]byte("signed in with the token of the configuration")) {
		t.Error("the page after sign-in does not confirm it")
	}
	for token, status := range map[string]int{"wrong": 401, "": 401, "often": 429} {
		resp := w.ask("POST", "/console/sign-in", "", "do=sign-in&token="+token)
		if resp.Status != status || resp.Header.Has("Set-Cookie") ||
			bytes.Contains(resp.Body, []byte(`value="`+token+`"`)) && token != "" {
			t.Errorf("token %q: %d", token, resp.Status)
		}
		if status == 429 && resp.Header.Get("Retry-After") != "30" {
			t.Error("429 without Retry-After")
		}
	}
	for next, want := range map[string]string{mine + "/keys?after=1": mine + "/keys?after=1",
		"https://evil.example": "/console/publishers",
		"//evil.example":       "/console/publishers", "/console//evil": "/console/publishers",
		"/console/\\evil": "/console/publishers",
		"/verify":         "/console/publishers", "/console/../verify": "/console/publishers",
		"/console/%2e%2E/verify": "/console/publishers", "/console/\nx": "/console/publishers"} {
		resp := newFixture(t).ask("POST", "/console/sign-in", "",
			"do=sign-in&token=right&next="+url.QueryEscape(next))
		if got := resp.Header.Get("Location"); !strings.HasPrefix(got, want) {
			t.Errorf("next %q leads to %q, want %q", next, got, want)
		}
	}
	resp = w.ask("POST", "/console/account", "operator", body("sign-out", "", "operator"))
	if got := resp.Header.Get("Set-Cookie"); !strings.Contains(got, cookieName+"=;") ||
		!strings.HasSuffix(got, "Max-Age=0") {
		t.Errorf("signing out sets %q", got)
	}
	if got := w.ask("GET", "/console/publishers", "operator", ""); got.Status != 303 {
		t.Errorf("the cookie from before a sign-out: %d, want 303 to the sign-in", got.Status)
	}
	if page := w.ask("GET", resp.Header.Get("Location"), "", ""); !bytes.Contains(page.Body,
		[]byte(`role="status"`)) {
		t.Error("the page after sign-out does not confirm it")
	}
	w = newFixture(t)
	w.BaseURL = "http://localhost:8080"
	resp = w.ask("POST", "/console/sign-in", "", "do=sign-in&token=right", "Origin", "http://localhost:8080")
	if got := resp.Header.Get("Set-Cookie"); !strings.HasPrefix(got, "verge-console=") ||
		strings.Contains(got, "Secure") {
		t.Errorf("by http the cookie is %q", got)
	}
}

func TestInvitationsAndLinks(t *testing.T) {
	for _, c := range []struct {
		method, path, form string
		want               int
	}{
		{"GET", "/console/invitation?invitation=vrg_inv_good", "", 200},
		{"GET", "/console/invitation?invitation=used", "", 410},
		{"GET", "/console/invitation", "", 410},
		{"POST", "/console/invitation", "do=enrol&token=used&name=a&credential=good", 303},
		{"POST", "/console/invitation", "do=enrol&token=vrg_inv_good&credential=good", 422},
		{"POST", "/console/invitation", "do=enrol&token=vrg_inv_good&name=a&credential=bad", 401},
		{"GET", "/console/link?link=vrg_in_good", "", 200},
		{"GET", "/console/link?link=used", "", 410},
		{"POST", "/console/link", "do=use-link&token=used", 410},
		{"POST", "/console/link", "do=use-link&token=vrg_in_good", 303},
	} {
		resp := newFixture(t).ask(c.method, c.path, "", c.form)
		if resp.Status != c.want {
			t.Errorf("%s %s %s: %d, want %d", c.method, c.path, c.form, resp.Status, c.want)
		}
		if c.method == "GET" && resp.Header.Has("Set-Cookie") {
			t.Errorf("contract 22: GET %s signs in", c.path)
		}
	}
	w := newFixture(t)
	w.access.noKeys = true
	for _, path := range []string{"/console/sign-in", "/console/invitation?invitation=vrg_inv_good"} {
		page := string(w.ask("GET", path, "", "").Body)
		if !strings.Contains(page, "Passkeys need a host name") ||
			strings.Contains(page, "data-passkey") {
			t.Errorf("%s where there are no passkeys:\n%s", path, page)
		}
	}
	w = newFixture(t)
	w.Dev = true
	if page := string(w.ask("GET", "/console/link?link=vrg_in_good", "", "").Body); !strings.Contains(page,
		"data-at-once") {
		t.Error("in dev a link does not open automatically")
	}
	if page := string(newFixture(t).ask("GET", "/console/link?link=vrg_in_good", "",
		"").Body); strings.Contains(page, "data-at-once") || strings.Contains(page, "<script") {
		t.Error("outside dev a link opens automatically")
	}
}

// Contract 41: the console of a service in development does not claim that its methods verify people.
func TestMethodsPage_Dev(t *testing.T) {
	for dev, want := range map[bool]string{true: "No one, in development", false: "People"} {
		w := newFixture(t)
		w.Dev = dev
		page := string(w.ask("GET", "/console/methods", "operator", "").Body)
		if got := strings.Contains(page, "</svg>People"); !strings.Contains(page, want) || dev && got {
			t.Errorf("in development %t: no %q in\n%s", dev, want, page)
		}
	}
}

// Contract 53: the page of the methods has the state of each trusted list. A catalog without lists has no
// table.
func TestMethodsPage_TrustLists(t *testing.T) {
	w := newFixture(t)
	list := method.TrustList{Name: "eu", URL: "https://lists.example/", Format: "vical", Grace: time.Hour}
	show := func() string { return string(w.ask("GET", "/console/methods", "operator", "").Body) }
	if page := show(); strings.Contains(page, "Trusted lists") {
		t.Errorf("lists of a service without lists: %s", page)
	}
	o := w.Operations
	o.Catalog, o.Lists = slices.Clone(o.Catalog), &liststore.Store{Host: o.Host}
	o.Catalog[0].Of.Lists = func(method.Config) []method.TrustList { return []method.TrustList{list} }
	o.Catalog[0].Of.IsAnchor = func([]byte) bool { return true }
	if page := show(); !strings.Contains(page, "Missing") {
		t.Errorf("contract 53: %s", page)
	}
	now := o.Now()
	_, err := o.LoadTrustList(
		t.Context(),
		operate.Actor{Kind: operate.KindOperator, Role: operate.RoleOperator},
		operate.TrustListInput{
			Method:        o.Catalog[0].Name,
			Name:          "eu",
			Configuration: list.Digest(),
			Sequence:      1234,
			Issued:        now,
			NextUpdate:    now,
			Document:      "a",
			Certificates:  []string{"AAAA"},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if page := show(); !strings.Contains(page, "</svg>Good") || !strings.Contains(page, ">1234<") {
		t.Errorf("contract 53: %s", page)
	}
}

// A browser that comes from another site sends no cookie, and is not asked to sign in for that.
func TestConsole_LinkFromOtherSite(t *testing.T) {
	w := newFixture(t)
	resp := w.ask("GET", mine+"/keys?after=1", "", "", "Sec-Fetch-Site", "cross-site")
	refresh := with(parse(t, resp), "http-equiv", "refresh")
	if resp.Status != 200 || attr(refresh, "content") != "0;url="+mine+"/keys?after=1" {
		t.Errorf("%d, refresh %q", resp.Status, attr(refresh, "content"))
	}
	resp = w.ask("GET", mine+"/keys?after=1", "", "", "Sec-Fetch-Site", "same-origin")
	want := "/console/sign-in?next=" + url.QueryEscape(mine+"/keys?after=1")
	if resp.Status != 303 || resp.Header.Get("Location") != want {
		t.Errorf("%d to %s, want %s", resp.Status, resp.Header.Get("Location"), want)
	}
	two := &web.Request{Method: "GET", Path: "/console/publishers", Header: web.Header{
		"Cookie": {cookieName + "=operator; " + cookieName + "=admin"}}}
	if got := w.Show(context.Background(), &router.Call{Request: two}); got.Status != 303 {
		t.Errorf("two cookies of the name: %d, want none to count", got.Status)
	}
}

// Contract 34: another host of the domain can set a cookie whose name begins with Unicode white space.
func TestCookie_Planted(t *testing.T) {
	for _, white := range []string{"\u2000", "\u00a0", "\u3000", "\u0085"} {
		w := newFixture(t)
		planted := &web.Request{Method: "GET", Path: "/console/publishers", Header: web.Header{
			"Cookie": {white + cookieName + "=operator"}}}
		if got := w.Show(context.Background(), &router.Call{Request: planted}); got.Status != 303 {
			t.Errorf("contract 34: a cookie with the name %q: %d, want none to count", white+cookieName,
				got.Status)
		}
	}
}

func TestPages_StoreUnavailable(t *testing.T) {
	w := newFixture(t)
	w.access.down = kv.ErrUnavailable
	if got := w.ask("GET", mine, "admin", ""); got.Status != 503 || got.Header.Get("Retry-After") == "" {
		t.Errorf("without sessions: %d", got.Status)
	}
	w = newFixture(t)
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	for _, row := range console.PageRows() {
		if path := pageTests[row.Name].path; strings.HasPrefix(path, mine) {
			if got := w.ask("GET", path, "admin", ""); got.Status != 503 {
				t.Errorf("%s: %d, want 503", path, got.Status)
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	w := newFixture(t)
	for _, s := range views {
		if s.form != "" {
			continue
		}
		resp := w.ask("GET", s.path, s.who, "")
		policy := resp.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "form-action 'self'", "frame-ancestors 'none'",
			"base-uri 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", s.name, policy, part)
			}
		}
		hasScript := find(parse(t, resp), func(n *html.Node) bool { return n.Data == "script" }) != nil
		if strings.Contains(policy, "script-src 'self'") != hasScript {
			t.Errorf("%s: the page has a script: %v; the policy is %q", s.name, hasScript, policy)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Frame-Options": "DENY",
			"Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff"} {
			if resp.Header.Get(name) != want {
				t.Errorf("%s: %s is %q", s.name, name, resp.Header.Get(name))
			}
		}
	}
	style := w.ask("GET", pages.Style().Path, "", "")
	if style.Status != 200 || !strings.Contains(style.Header.Get("Cache-Control"), "immutable") ||
		style.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("the stylesheet: %d %v", style.Status, style.Header)
	}
}

// Every class that a page uses has a rule, so that none is a typing error.
func TestClassesHaveRules(t *testing.T) {
	w := newFixture(t)
	css := string(pages.Style().Body)
	for _, s := range views {
		path := s.path
		if s.form != "" {
			path = w.ask("POST", s.path, s.who, body(formName(s.form), s.form, s.who)).Header.Get("Location")
		}
		for n := range parse(t, w.ask("GET", path, s.who, "")).Descendants() {
			for class := range strings.FieldsSeq(attr(n, "class")) {
				if !regexp.MustCompile(`\.` + class + `[\s.,:{)\[]`).MatchString(css) {
					t.Errorf("%s: the stylesheet has no class %q", s.name, class)
				}
			}
		}
	}
}

// ARIA 1.2: an element without a role has no name, so screen readers may ignore its label.
func TestPages_LabelsHaveRoles(t *testing.T) {
	w := newFixture(t)
	for _, s := range views {
		path := s.path
		if s.form != "" {
			path = w.ask("POST", s.path, s.who, body(formName(s.form), s.form, s.who)).Header.Get("Location")
		}
		for n := range parse(t, w.ask("GET", path, s.who, "")).Descendants() {
			if slices.Contains([]string{"pre", "p", "div", "span", "code"}, n.Data) &&
				attr(n, "aria-label") != "" && attr(n, "role") == "" {
				t.Errorf("%s: <%s> %q has no role", s.name, n.Data, attr(n, "aria-label"))
			}
		}
	}
}

// canary is text that breaks out wherever it is not escaped.
const canary = `'"><script>alert(1)</script>&lt;`

func TestStoredTextComesOutAsText(t *testing.T) {
	w := newFixtureWith(t, canary)
	w.body = canary
	for _, id := range []string{shopID, kioskID, managedID, oldID, foreignID} {
		i, err := w.directory.ReadIntegration(ctx, id)
		coretest.Must(t, err)
		w.change(id, func(i *integration.Integration) {
			i.Webhook.URL += canary
			i.BrowserOrigins = append(i.BrowserOrigins, canary)
		})
		w.tested(id, i.Value.Archived == nil && id != kioskID)
	}
	for cookie, who := range w.access.actors {
		if !strings.HasSuffix(who.Name, canary) {
			who.Name += canary
		}
		w.access.actors[cookie] = who
	}
	for _, s := range views {
		path := s.path
		if s.form != "" {
			path = w.ask("POST", s.path, s.who, body(formName(s.form), s.form, s.who)).Header.Get("Location")
		}
		resp := w.ask("GET", path, s.who, "")
		if bytes.Contains(resp.Body, []byte("<script>")) || bytes.Contains(resp.Body,
			[]byte("alert(1)</script>")) {
			t.Errorf("%s: stored text became a tag", s.name)
		}
		doc := parse(t, resp)
		if s.form != "" && resp.Status != 200 {
			t.Errorf("%s: %d", s.name, resp.Status)
		}
		for n := range doc.Descendants() {
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.Contains(a.Key, "<") {
					t.Errorf("%s: <%s> has the attribute %s", s.name, n.Data, a.Key)
				}
			}
		}
		if s.who != "" && !strings.Contains(text(doc), canary) {
			t.Errorf("%s: the page does not show the text as it is stored", s.name)
		}
	}
}

// Lists go by cursor, so that a page costs the same for ten integrations and for ten thousand.
func TestPages_LargePublisher(t *testing.T) {
	small, w := newLargeFixture(t, 1_000), newLargeFixture(t, 10_000)
	last := largeIntegration(9_999)
	for _, path := range []string{mine, mine + "/integrations", mine + "/deliveries", mine + "/usage",
		mine + "/keys",
		mine + "/test?integration=" + last.ID} {
		resp := w.ask("GET", path, "admin", "")
		if resp.Status != 200 || len(resp.Body) > 200_000 {
			t.Errorf("%s: %d with %d bytes", path, resp.Status, len(resp.Body))
		}
		if strings.Contains(path, last.ID) && !bytes.Contains(resp.Body, []byte(last.Name)) {
			t.Error("an integration after the first 200 cannot be chosen")
		}
		few := testing.AllocsPerRun(1, func() { small.ask("GET", path, "admin", "") })
		if many := testing.AllocsPerRun(1, func() { w.ask("GET", path, "admin", "") }); many > 12*few {
			t.Errorf("%s allocates %.0f times with ten times the integrations, and %.0f before", path, many,
				few)
		}
	}
	for path, want := range map[string]string{
		mine + "/keys?integration=" + last.ID: `value="` + last.ID + `" selected`,
		mine + "/keys":                        "At most 200 integrations are listed",
		mine + "/integrations/" + last.ID:     "/keys?integration=" + last.ID + `">Keys`,
	} {
		if body := w.ask("GET", path, "admin", "").Body; !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s does not contain %q", path, want)
		}
	}
	first := parse(t, w.ask("GET", mine+"/integrations", "admin", ""))
	to := attr(with(first, "rel", "next"), "href")
	second := w.ask("GET", to, "admin", "")
	if !bytes.Contains(second.Body, []byte("Kiosk 60<")) ||
		!bytes.Contains(second.Body, []byte("Back to the first page")) {
		t.Errorf("the next part, %s, has %d bytes", to, len(second.Body))
	}
}

// Archived integrations and revoked keys, which are never deleted, do not hide the active ones (contract 44).
func TestPages_ManyEnded(t *testing.T) {
	w := newFixture(t)
	w.change(shopID, func(i *integration.Integration) { i.Archived = ptr(w.now) })
	w.change(managedID, func(i *integration.Integration) { i.Archived = ptr(w.now) })
	for n := range 201 {
		w.put(usual(integration.Integration{ID: fmt.Sprintf("00000000-7777-4777-8777-%012d", n), Name: "Old",
			Archived: ptr(w.now)}))
	}
	revoke := func(id string) {
		_, err := w.directory.RevokeKey(ctx, id)
		coretest.Must(t, err)
	}
	revoke(w.aliases["key_1"])
	for n := 0; ; n++ {
		made, err := w.Operations.CreateKey(ctx, actors["developer"], operate.KeyInput{Publisher: mineID})
		coretest.Must(t, err)
		first, _, err := w.directory.ListKeys(ctx, mineID, "", operate.MaxLimit)
		coretest.Must(t, err)
		isFirst := slices.ContainsFunc(first, func(k integration.Key) bool { return k.ID == made.Info.ID })
		if n > 250 && !isFirst {
			w.aliases["last4"] = made.Info.Last4
			break
		}
		revoke(made.Info.ID)
	}
	for path, want := range map[string]string{
		mine:                 "/integrations/" + kioskID + "/webhook",
		shop + "/openid":     "secret key of this publisher: …" + w.aliases["last4"],
		mine + "/test":       `value="` + kioskID + `" selected`,
		mine + "/deliveries": `value="` + kioskID + `" selected`,
	} {
		if body := w.ask("GET", path, "developer", "").Body; !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s does not contain %q:\n%s", path, want, body)
		}
	}
}

// newLargeFixture returns a fixture whose publisher has that many integrations more.
func newLargeFixture(t *testing.T, count int) *fixture {
	w := newFixture(t)
	for n := range count {
		w.put(largeIntegration(n))
	}
	return w
}

func largeIntegration(n int) integration.Integration {
	return usual(integration.Integration{ID: fmt.Sprintf("99999999-7777-4777-8777-%012d", n),
		Name: fmt.Sprintf("Kiosk %d", n)})
}

// The timeline of a session shows which method and which setting had no success.
func TestSessionPage_Steps(t *testing.T) {
	page := string(newFixture(t).ask("GET", mine+"/sessions/"+sessionID, "viewer", "").Body)
	for _, want := range []string{"Method bank: attempt failed, setting proof.claim (age.over)",
		"unconfirmed"} {
		if !strings.Contains(page, want) {
			t.Errorf("contract 48: the page of a session lacks %q", want)
		}
	}
}

func TestPages_LiveRefresh(t *testing.T) {
	for path, live := range map[string]bool{
		mine + "/deliveries?integration=" + shopID:                 true, // one waits
		mine + "/deliveries?state=delivered&integration=" + shopID: false,
		mine + "/deliveries/" + shopID + "/" + waitingID:           true,
		mine + "/deliveries/" + shopID + "/" + deliveryID:          false,
		mine + "/sessions/" + pendingID:                            true,
		mine + "/sessions/" + sessionID:                            false,
	} {
		page := string(newFixture(t).ask("GET", path, "viewer", "").Body)
		if strings.Contains(page, "data-live") != live || strings.Contains(page,
			`http-equiv="refresh"`) != live {
			t.Errorf("%s: live is %v, want %v", path, !live, live)
		}
	}
}

func TestUsageAsCSV(t *testing.T) {
	resp := newFixture(t).ask("GET", mine+"/usage.csv?integration="+shopID, "viewer", "")
	lines := strings.Split(strings.TrimSpace(string(resp.Body)), "\n")
	if resp.Header.Get("Content-Type") != "text/csv; charset=utf-8" || len(lines) != 31 ||
		resp.Header.Get("Content-Disposition") != `attachment; filename="usage-2026-10-22-2026-11-20.csv"` {
		t.Errorf("%v with %d lines", resp.Header, len(lines))
	}
}

func parse(t testing.TB, resp *web.Response) *html.Node {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(resp.Body))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func find(n *html.Node, ok func(*html.Node) bool) *html.Node {
	if n == nil {
		return nil
	}
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && ok(d) {
			return d
		}
	}
	return nil
}

// with returns the first element with that attribute.
func with(n *html.Node, name, value string) *html.Node {
	return find(n, func(n *html.Node) bool { return attr(n, name) == value })
}

func attr(n *html.Node, name string) string {
	if n == nil {
		return ""
	}
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var out strings.Builder
	if n == nil {
		return ""
	}
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			out.WriteString(d.Data)
		}
	}
	return out.String()
}

// A receiver without a response gets one probe, and advice about the connection.
func TestWebhook_ReceiverWithoutResponse(t *testing.T) {
	w := newFixture(t)
	w.answers, w.cause = []int{0}, host.FetchRefused
	to := w.ask("POST", shop+"/webhook", "developer",
		body("test-webhook", "", "developer")).Header.Get("Location")
	page := text(parse(t, w.ask("GET", to, "developer", "")))
	for _, want := range []string{"your receiver did not respond",
		"Expected: 2xx. Received: no response: nothing listens",
		"Check that the receiver is running", "The other four requests were not sent"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q:\n%s", want, page)
		}
	}
}

// Earlier releases asked for no names.
func TestNames_FallBackToID(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.directory.PutPublisher(ctx, integration.Publisher{ID: mineID}))
	w.change(shopID, func(i *integration.Integration) { i.Name = "" })
	for path, id := range map[string]string{"/console/publishers": mineID, mine: mineID, shop: shopID,
		mine + "/integrations": shopID, mine + "/deliveries": shopID} {
		doc := parse(t, w.ask("GET", path, "operator", ""))
		if !strings.Contains(text(with(doc, "id", "main")), id) {
			t.Errorf("%s does not show %s", path, id)
		}
	}
}

// Operators see publishers with undelivered events, with links to the events. For a member this page does not
// exist. Without such events it describes its content.
func TestUndeliveredOfAllPublishers(t *testing.T) {
	w := newFixture(t)
	for range 70 {
		w.fire(w.start(foreignID, 1), 0, session.Unclassified, session.Step{})
	}
	w.answers = []int{401}
	w.deliver(1)
	page := string(w.ask("GET", "/console/undelivered", "watcher", "").Body)
	for _, want := range []string{"Nordlicht Spirits", "Ahrenfeld Games", "62+ failed",
		`href="` + mine + "/deliveries?integration=" + shopID + `&amp;state=dead"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q:\n%s", want, page)
		}
	}
	if resp := w.ask("GET", "/console/undelivered", "admin", ""); resp.Status != 404 {
		t.Errorf("contract 43: for a member: %d", resp.Status)
	}
	page = string(emptyFixture(t).ask("GET", "/console/undelivered", "operator", "").Body)
	if !strings.Contains(page, "All events delivered") {
		t.Errorf("without such events:\n%s", page)
	}
}

// A member ends one of their sessions on the account page. If the session has already ended, the page reports
// it.
func TestEndingOneSession(t *testing.T) {
	w := newFixture(t)
	page := string(w.ask("GET", "/console/account", "admin", "").Body)
	if strings.Count(page, `data-action="end-session"`) != 1 || !strings.Contains(page, "this browser, now") {
		t.Errorf("the page offers to end a wrong session:\n%s", page)
	}
	resp := w.ask("POST", "/console/account", "admin", body("end-session", "session=con_1", "admin"))
	if resp.Status != 303 || !slices.Equal(w.access.did, []string{"end con_1"}) {
		t.Errorf("%d, and the access did %v", resp.Status, w.access.did)
	}
	resp = w.ask("POST", "/console/account", "admin", body("end-session", "session=con_9", "admin"))
	if resp.Status == 303 || !strings.Contains(string(resp.Body), "This session has already ended.") {
		t.Errorf("a session that is gone: %d\n%s", resp.Status, resp.Body)
	}
}

// Parameters that the console does not read are ignored in an address and in a form, and those that it reads
// occur once.
func TestParametersOfOthers(t *testing.T) {
	for _, c := range []struct {
		rule, text string
		get, post  int
	}{
		{"contract 22: unknown ones", "&utm_source=a&x=1&x=2&x=%zz&y=a;b&%zz=1", 200, 303},
		{"contract 22: a used parameter, twice", "&integration=" + shopID + "&integration=" + shopID, 400,
			400},
		{"contract 22: a used parameter, in bad encoding", "&name=%zz", 400, 400},
	} {
		w := newFixture(t)
		if resp := w.ask("GET", mine+"/test?x="+c.text, "developer", ""); resp.Status != c.get {
			t.Errorf("%s: an address: %d", c.rule, resp.Status)
		}
		if resp := w.ask("GET", "/console/invitation?invitation=vrg_inv_good"+c.text, "",
			""); resp.Status != c.get {
			t.Errorf("%s: an invitation: %d", c.rule, resp.Status)
		}
		if resp := w.ask("GET", "/console/link?link=vrg_in_good"+c.text, "", ""); resp.Status != c.get {
			t.Errorf("%s: a sign-in link: %d", c.rule, resp.Status)
		}
		form := body("create-key", "", "developer") + c.text
		if resp := w.ask("POST", mine+"/keys", "developer", form); resp.Status != c.post {
			t.Errorf("%s: a form: %d", c.rule, resp.Status)
		}
	}
}

// A page counts the passkeys of users up to a limit, so that it costs the same for every publisher.
func TestPublisherPage_CountsPasskeys(t *testing.T) {
	w := newFixture(t)
	w.addPasskeys(2 * passkey.CountPage)
	page := string(w.ask("GET", mine+"/settings", "operator", "").Body)
	if !strings.Contains(page, "more than 1000 passkeys") {
		t.Errorf("contract 38: it counts others than the first 1,000:\n%s", page)
	}
}
