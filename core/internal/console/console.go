package console

import (
	"context"
	"net/url"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/router"
	templ "github.com/verge-id/verge/core/internal/templrt"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// Console serves the pages. All fields except Issuer and Dev are required.
type Console struct {
	Operations *operate.Operations
	Access     Access
	Host       host.Host // KV, Sealer, Now, Random and Log

	Service string // its name
	BaseURL string // scheme and host of the console, no slash at the end

	// Directory contains the logos of publishers.
	Directory *integration.Directory

	Issuer  string // of the OpenID provider; "": the service has none
	Reports bool   // the service has a key for reports
	Dev     bool   // a sign-in link opens automatically
}

// maxBody is the maximum number of bytes of a form.
const maxBody = 64 * 1024

// Routes returns the routes of the console, for the table of its listener.
func (c *Console) Routes() router.Table {
	get := []string{"GET", "HEAD"}
	return router.Table{
		{Methods: get, Pattern: pages.AssetsPath + "{}", Label: "console", Only: isAsset,
			Handle: router.Page(asset)},
		{Methods: get, Pattern: pages.LogoPath + "{}", Label: "console", Handle: c.logo},
		{Methods: []string{"POST"}, Pattern: pages.PublisherPath("") + "{}/brand", Label: "console",
			MaxBody: maxBrandBody, Handle: router.Page(c.ActFile)},
		{Methods: get, Pattern: pages.Root + "/{...}", Label: "console", Handle: router.Page(c.Show)},
		{Methods: []string{"POST"}, Pattern: pages.Root + "/{...}", Label: "console", MaxBody: maxBody,
			Handle: router.Page(c.Act)},
	}
}

// view is a page that is ready to be rendered.
type view struct {
	frame  *pages.Frame
	body   templ.Component
	raw    *web.Response // instead of a page
	status int           // 0: 200
}

// page is one row of the table of pages.
type page struct {
	name string
	path string        // below the root; {x} stands for one part
	op   operate.Right // required to see the page; nil: any signed-in person
	show func(*visit) (view, error)
	acts []act
	open bool // without sign-in
}

// act is one form of a page.
type act struct {
	name string        // data-action
	op   operate.Right // required to post the form; nil: anyone who may see the page
	// do carries out the form and returns the next page.
	do func(*visit) (next, error)
}

// next is the page after a form, with its message.
type next struct {
	path   string
	note   note
	cookie string // of the session that was opened
	over   bool   // the session has ended
	opened Session
}

// table lists all pages. Package pages renders them.
var table = []page{
	{name: "home", path: "", show: home},
	{name: "sign-in", path: "sign-in", show: showSignIn, open: true, acts: []act{
		{"sign-in", nil, signIn}, {"sign-in-passkey", nil, signInPasskey}}},
	{name: "invitation", path: "invitation", show: showInvitation, open: true,
		acts: []act{{"enrol", nil, enrol}}},
	{name: "link", path: "link", show: showLink, open: true, acts: []act{{"use-link", nil, useLink}}},
	{name: "account", path: "account", show: showAccount, acts: []act{{"sign-out", nil, signOut},
		{"sign-out-everywhere", nil, members(signOutEverywhere)}, {"end-session", nil, members(endSession)},
		{"add-passkey", nil, members(addPasskey)}, {"remove-passkey", nil, members(removePasskey)}}},

	{name: "publishers", path: "publishers", op: operate.ListPublishers, show: showPublishers, acts: []act{
		{"create-publisher", operate.CreatePublisher, createPublisher}}},
	{name: "undelivered", path: "undelivered", op: operate.ListUndelivered, show: showUndelivered},
	{name: "operators", path: "operators", op: operate.ListOperators, show: showOperators, acts: []act{
		{"create-operator-token", operate.CreateOperator, createOperatorToken},
		{"revoke-operator-token", operate.RevokeOperator, revokeOperatorToken}}},
	{name: "methods", path: "methods", op: operate.ListOperators, show: showMethods},
	{name: "audit-all", path: "audit", op: operate.ListOperators, show: showAudit},

	{name: "report-all", path: "report", op: operate.ReadReport, show: showReport},
	{name: "report-all-tar", path: "report.tar", op: operate.ReadReport, show: showReportArchive},

	{name: "overview", path: "p/{publisher}", op: operate.ReadOverview, show: showOverview},
	{name: "publisher", path: "p/{publisher}/settings", op: operate.ChangePublisher, show: showPublisher,
		acts: []act{
			{"save-publisher", operate.ChangePublisher, savePublisher},
			{"archive-publisher", operate.ArchivePublisher, archivePublisher},
			{"end-passkeys", operate.EndPasskeys, endPasskeys},
			{"create-link", operate.CreateLink, createLink}}},
	{name: "brand", path: "p/{publisher}/brand", op: operate.ChangePublisher, show: showBrand,
		acts: []act{{"save-brand", operate.ChangePublisher, saveBrand}}},
	{name: "integrations", path: "p/{publisher}/integrations", op: operate.ListIntegrations,
		show: showIntegrations},
	{name: "new-integration", path: "p/{publisher}/integrations/new", op: operate.CreateIntegration,
		show: showNewIntegration, acts: []act{
			{"create-integration", operate.CreateIntegration, createIntegration}}},
	{name: "integration", path: "p/{publisher}/integrations/{integration}", op: operate.ReadIntegration,
		show: showIntegration, acts: []act{
			{"save-integration", operate.ChangeIntegration, saveIntegration},
			{"archive-integration", operate.ArchiveIntegration, archiveIntegration}}},
	{name: "webhook", path: "p/{publisher}/integrations/{integration}/webhook", op: operate.ReadIntegration,
		show: showWebhook, acts: []act{
			{"save-integration", operate.ChangeIntegration, saveIntegration},
			{"test-webhook", operate.TestWebhook, testWebhook},
			{"test-staged", operate.TestWebhook, testStaged},
			{"stage-webhook", operate.StageWebhook, stageWebhook},
			{"drop-staged", operate.DropStaged, dropStaged},
			{"rotate-secret", operate.RotateSecret, rotateSecret}}},
	{name: "openid", path: "p/{publisher}/integrations/{integration}/openid", op: operate.ReadIntegration,
		show: showOpenID},
	{name: "test", path: "p/{publisher}/test", op: operate.ReadIntegration, show: showTest, acts: []act{
		{"send-test-event", operate.SendTestEvent, sendTestEvent},
		{"start-test-session", operate.StartTestSession, startTestSession}}},
	{name: "keys", path: "p/{publisher}/keys", op: operate.ListKeys, show: showKeys, acts: []act{
		{"create-key", operate.CreateKey, createKey}, {"revoke-key", operate.RevokeKey, revokeKey}}},
	{name: "deliveries", path: "p/{publisher}/deliveries", op: operate.ListDeliveries, show: showDeliveries},
	{name: "delivery", path: "p/{publisher}/deliveries/{integration}/{place}", op: operate.ReadDelivery,
		show: showDelivery, acts: []act{{"resend", operate.Resend, resend}}},
	{name: "sessions", path: "p/{publisher}/sessions", op: operate.ReadSession, show: showSessions,
		acts: []act{
			{"find-session", operate.ReadSession, findSession}}},
	{name: "session", path: "p/{publisher}/sessions/{session}", op: operate.ReadSession, show: showSession},
	{name: "usage", path: "p/{publisher}/usage", op: operate.ReadUsage, show: showUsage},
	{name: "usage-csv", path: "p/{publisher}/usage.csv", op: operate.ReadUsage, show: showUsageCSV},
	{name: "members", path: "p/{publisher}/members", op: operate.ListMembers, show: showMembers, acts: []act{
		{"invite-member", operate.Invite, inviteMember},
		{"revoke-invitation", operate.WithdrawInvitation, withdrawInvitation},
		{"change-role", operate.ChangeRole, changeRole},
		{"sign-out-member", operate.SignOutMember, signOutMember},
		{"remove-member", operate.RemoveMember, removeMember}}},
	{name: "audit", path: "p/{publisher}/audit", op: operate.ListAudit, show: showAudit},
	{name: "report", path: "p/{publisher}/report", op: operate.ReadReport, show: showReport},
	{name: "report-tar", path: "p/{publisher}/report.tar", op: operate.ReadReport, show: showReportArchive},
}

// find returns the page of a path below the root, and the values of its parameters.
func find(path string) (*page, map[string]string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i := range table {
		if at, ok := fits(strings.Split(table[i].path, "/"), parts); ok {
			return &table[i], at
		}
	}
	return nil, nil
}

func fits(pattern, parts []string) (map[string]string, bool) {
	if len(pattern) != len(parts) {
		return nil, false
	}
	at := map[string]string{}
	for i, want := range pattern {
		name, isParam := strings.CutPrefix(want, "{")
		switch {
		case isParam && parts[i] != "":
			at[strings.TrimSuffix(name, "}")] = parts[i]
		case want != parts[i]:
			return nil, false
		}
	}
	return at, true
}

// Show serves GET.
func (c *Console) Show(ctx context.Context, r *router.Call) *web.Response {
	v, rejected := c.visit(ctx, r.Request, nil)
	if rejected != nil {
		return rejected
	}
	shown, err := v.page.show(v)
	if err != nil {
		return v.problem(err)
	}
	return v.send(shown)
}

// Act serves POST.
func (c *Console) Act(ctx context.Context, r *router.Call) *web.Response {
	req := r.Request
	if r.CheckSize() != nil {
		return c.plain(413, pages.ProblemData{Heading: "Too much text", Tone: pages.Bad,
			Text: router.LargerThan(maxBody) + " Go back and shorten what you typed."})
	}
	if web.MediaType(req.Header.Get("Content-Type")) != "application/x-www-form-urlencoded" {
		return c.plain(415, notOurs)
	}
	form, err := formdata.ReadParameters(string(req.Body), c.fields()...)
	return c.actOn(ctx, req, form, nil, err)
}

// notOurs is the error page for a form of another type.
var notOurs = pages.ProblemData{Heading: "Unsupported form", Tone: pages.Bad,
	Text: "The console accepts only its own forms. Programs must use the operators' API."}

// actOn carries out a form. malformed is the error of reading it, or nil.
func (c *Console) actOn(ctx context.Context, req *web.Request, form url.Values, file []byte,
	malformed error) *web.Response {
	if !c.sameSite(req) {
		return c.plain(403, crossSite)
	}
	if malformed != nil {
		return c.plain(400, pages.ProblemData{Heading: "The form cannot be read", Tone: pages.Bad,
			Text: "It was damaged in transit. Reload the page and send the form again."})
	}
	v, rejected := c.visit(ctx, req, form)
	if rejected != nil {
		return rejected
	}
	v.file = file
	return v.act()
}

func (v *visit) act() *web.Response {
	name := v.form.Get("do")
	for _, a := range v.page.acts {
		if a.name != name {
			continue
		}
		v.acting = name
		if !v.page.open && (v.session.Forms == nil || !v.session.Forms.CheckForm(name, v.form.Get("csrf"))) {
			return v.again(403, "This form belongs to an earlier sign-in, so nothing was changed. "+
				"Send it again.")
		}
		if a.op != nil && !v.who().May(a.op) {
			return v.problem(v.who().Forbids(a.op))
		}
		to, err := a.do(v)
		if err != nil {
			return v.rejected(err)
		}
		return v.goOn(to)
	}
	return v.plainFor(400, pages.ProblemData{Heading: "Form not found", Tone: pages.Bad,
		Text: "This page has no form of that name. Reload the page."})
}

// sameSite reports whether a POST came from one of our pages, according to the browser. Current browsers send
// Sec-Fetch-Site over https and on loopback, even if the console is on the operators' listener, whose address
// it does not know. Without this header, the origin decides. If both are missing, the POST is accepted: then
// the form's token protects it, or its content, which other sites do not know: a token, a link or an
// invitation.
func (c *Console) sameSite(req *web.Request) bool {
	if site := req.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	origin := req.Header.Get("Origin")
	return origin == "" || origin == c.BaseURL
}

func isAsset(req *web.Request) bool {
	_, ok := pages.FindAsset(req.Path)
	return ok
}

func asset(_ context.Context, c *router.Call) *web.Response {
	a, ok := pages.FindAsset(c.Path)
	if !ok {
		return nil
	}
	return &web.Response{Status: 200, Body: a.Body, Header: web.Header{
		"Content-Type":                 {a.ContentType},
		"Etag":                         {a.ETag},
		"Cache-Control":                {"public, max-age=31536000, immutable"},
		"X-Content-Type-Options":       {"nosniff"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
	}}
}
