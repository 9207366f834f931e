package console

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// visit is one request of a person.
type visit struct {
	*Console
	ctx       context.Context
	req       *web.Request
	now       time.Time
	page      *page
	at        map[string]string // the values of the path's parameters
	query     url.Values
	form      url.Values // of a POST
	file      []byte     // of a POST; empty: no file was chosen
	acting    string     // the action of the form
	cookie    string
	session   Session // zero without sign-in
	publisher *operate.Publisher
	note      note       // the result of the form before this page
	rejection pages.Form // the values of a rejected form
	misread   []web.FieldError
}

// cannotRead records an error for a form value that cannot be parsed. Calls of operations then return it
// together with the errors of the other values.
func (v *visit) cannotRead(field, message string) {
	v.misread = append(v.misread, web.FieldError{Field: field, Code: "value", Message: message})
}

// operations returns the operations. Call it when all values of the form have been read.
func (v *visit) operations() *operate.Operations { return v.Operations.WithMisread(v.misread) }

// visit returns the page of a request and its person, or an error response. form is the form of a POST.
func (c *Console) visit(ctx context.Context, req *web.Request, form url.Values) (*visit, *web.Response) {
	v := &visit{Console: c, ctx: ctx, req: req, now: c.Host.Now(), form: form,
		cookie: req.Header.Cookie(c.cookieName())}
	var err error
	if v.query, err = formdata.ReadParameters(req.Query, params...); err != nil {
		return nil, c.plain(400, pages.ProblemData{Heading: "The address cannot be read", Tone: pages.Bad,
			Text: "It has a duplicate parameter, or was damaged in transit. Open the page again."})
	}
	v.page, v.at = find(strings.TrimPrefix(req.Path, pages.Root))
	if v.cookie != "" {
		v.session, err = c.Access.Session(ctx, v.cookie)
		if err != nil && !errors.Is(err, ErrNoSession) {
			return nil, v.problem(err)
		}
	}
	if v.page == nil {
		return nil, v.problem(web.ErrNotFound)
	}
	if v.page.open {
		return v, nil
	}
	if v.session.Actor.Kind == "" {
		return nil, v.signedOut()
	}
	if id, ok := v.at["publisher"]; ok {
		p, err := c.Operations.Publisher(ctx, v.who(), id)
		if err != nil {
			return nil, v.problem(err)
		}
		v.publisher = &p
	} else if !v.who().Operator() && v.page.op != nil {
		return nil, v.problem(web.ErrNotFound) // pages of the whole service do not exist for members
	}
	if v.page.op != nil && !v.who().May(v.page.op) {
		return nil, v.problem(v.who().Forbids(v.page.op))
	}
	if id := v.query.Get(noteParam); id != "" && req.Method == "GET" {
		v.note = v.takeNote(id)
	}
	return v, nil
}

// params are the parameters of addresses and forms of the console. Others are ignored
// (formdata.ReadParameters).
var params = func() []string {
	all := []string{
		// of every form
		"do", "csrf", "version",
		// of addresses
		"after", "from", "integration", invitationParam, "invited", linkParam, "method", "next", noteParam,
		"out", "outcome", "state", "to",
		// of forms
		"accent", "callback_url", "credential", "expires", "id", "integration_id", "key", "member", "name",
		"no_logo", "passkey", "preview", "publisher_id", "role", "secret", "session", "session_id", "token",
		"type", "webhook_off", "webhook_url",
	}
	for _, s := range integration.Settings {
		if s.Name != "method_settings" { // a form has a field for each of them: see fields
			all = append(all, s.Name)
		}
	}
	return all
}()

// fields returns the parameters of forms: params, and those of the service's methods.
func (c *Console) fields() []string {
	return append(slices.Clone(params), pages.MethodFields(operate.MethodsOf(c.Operations.Catalog))...)
}

func (v *visit) who() operate.Actor { return v.session.Actor }

// HasCookie reports whether a request has the cookie of the console.
func (c *Console) HasCookie(req *web.Request) bool { return req.Header.Cookie(c.cookieName()) != "" }

// Sample returns the integration for the samples in the documentation, and a callback URL that it allows: the
// integration in the address, or else the default integration of the signed-in person's publisher. Both are
// "" if none exists.
func (c *Console) Sample(ctx context.Context, req *web.Request) (id, callback string) {
	session, err := c.Access.Session(ctx, req.Header.Cookie(c.cookieName()))
	if err != nil || session.Actor.Kind == "" {
		return "", ""
	}
	var chosen *operate.Integration
	query, err := formdata.ReadParameters(req.Query, "integration")
	if err == nil && query.Get("integration") != "" {
		if i, err := c.Operations.Integration(ctx, session.Actor, query.Get("integration")); err == nil {
			chosen = &i
		}
	} else if session.Actor.Publisher != "" {
		all, err := c.choices(ctx, session.Actor, session.Actor.Publisher)
		if err == nil {
			chosen = mostInUse(all)
		}
	}
	if chosen == nil {
		return "", ""
	}
	if len(chosen.CallbackOrigins) > 0 {
		callback = chosen.CallbackOrigins[0] + "/callback"
	}
	return chosen.ID, callback
}

// signedOut redirects to the sign-in page. A browser that followed a link from another site did not send its
// cookie, which is only for our own pages. Therefore a page of the console requests the address again.
//
// The browser still has the input of a form. After a sign-in in another tab, a reload of the page sends it
// again, and the form is shown with the input.
func (v *visit) signedOut() *web.Response {
	if v.page.name == "account" && v.form.Get("do") == "sign-out" {
		return v.see(signedOutPath)
	}
	if v.req.Method == "POST" {
		return v.plainFor(401, pages.ProblemData{Heading: "You are signed out", Tone: pages.Wait,
			Text: "Your session has ended, so nothing was changed. Sign in in a new tab, and then reload " +
				"this page: it shows the form again with your input.",
			To: pages.Path("sign-in"), ToText: "Sign in in a new tab", NewTab: true})
	}
	here := v.req.Path
	if v.req.Query != "" {
		here += "?" + v.req.Query
	}
	if v.cookie == "" && v.req.Header.Get("Sec-Fetch-Site") == "cross-site" {
		f := v.frame("One moment")
		f.GoOn = here
		return v.render(200, f, pages.GoingOn(f))
	}
	to := pages.Path("sign-in")
	if v.page.name != "home" {
		to += "?next=" + url.QueryEscape(here)
	}
	return v.see(to)
}

// frame returns the frame of a page of this visit.
func (v *visit) frame(title string) *pages.Frame {
	f := &pages.Frame{Title: title, Publisher: v.publisher, Now: v.now, Form: v.rejection,
		Status: v.note.status(), Dev: v.Dev, Issuer: v.Issuer, Service: v.Service}
	if v.page != nil {
		f.Page = v.page.name
	}
	if v.session.Forms != nil && (v.page == nil || !v.page.open) {
		f.Who, f.Token = v.who(), v.session.Forms.FormToken
	}
	return f
}

// cookieName returns the name of the console's cookie. Browsers accept the prefix only over https.
func (c *Console) cookieName() string {
	if strings.HasPrefix(c.BaseURL, "https:") {
		return "__Host-verge-console"
	}
	return "verge-console"
}

// setCookie returns the header that sets the session's cookie, or with an empty value deletes it.
func (c *Console) setCookie(value string, life time.Duration) string {
	text := c.cookieName() + "=" + value + "; Path=/; HttpOnly; SameSite=Strict"
	if strings.HasPrefix(c.BaseURL, "https:") {
		text += "; Secure"
	}
	return text + "; Max-Age=" + seconds(life)
}

// local reports whether a path belongs to the console, so that sign-in redirects nowhere else. Browsers read
// %2e as a dot, and two dots as the parent folder. No path of the console has two dots.
func local(path string) bool {
	dots := strings.NewReplacer("%2e", ".", "%2E", ".").Replace(path)
	return (path == pages.Root || strings.HasPrefix(path, pages.Root+"/")) && !strings.ContainsFunc(path,
		func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) && !strings.Contains(path, "//") &&
		!strings.Contains(dots, "..")
}

// text returns a field of the form without surrounding blanks, or nil if the form does not have it.
func (v *visit) text(name string) *string {
	if !v.form.Has(name) {
		return nil
	}
	s := strings.TrimSpace(v.form.Get(name))
	return &s
}

// must returns a field, or "".
func (v *visit) must(name string) string { return strings.TrimSpace(v.form.Get(name)) }

// version returns the version of the item that the form changes. Every form of the console that changes a
// versioned item contains it. A change without it could undo a change by someone else.
func (v *visit) version() (string, error) {
	if version := v.must("version"); version != "" {
		return version, nil
	}
	return "", errNoVersion
}

var errNoVersion = errors.New("console: the form contains no version")

// cursor returns the part of a list in the address.
func (v *visit) cursor() operate.Cursor { return operate.Cursor{After: v.query.Get("after")} }

// whole reports whether a list is complete. Then the page can sort it.
func (v *visit) whole(next string) bool { return next == "" && v.query.Get("after") == "" }

// named is cursor for a list with a search by name.
func (v *visit) named() operate.Search {
	return operate.Search{Name: strings.TrimSpace(v.query.Get("name")), Cursor: v.cursor()}
}
