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
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// visit is one request of one person.
type visit struct {
	*Console
	ctx       context.Context
	req       *web.Request
	now       time.Time
	page      *page
	at        map[string]string // what stands for the parameters of the path
	query     url.Values
	form      url.Values // of a POST
	file      []byte     // of a POST; empty: none was chosen
	acting    string     // the action that the form asks for
	cookie    string
	session   Session // zero on pages for those who are not signed in
	publisher *operate.Publisher
	note      note       // what the form before this page did
	refusal   pages.Form // what was typed, if the form was refused
	misread   []web.FieldError
}

// cannotRead notes a value of the form that cannot be read. Whoever asks operations for something then hears
// of it, together with what is wrong with the other values.
func (v *visit) cannotRead(field, message string) {
	v.misread = append(v.misread, web.FieldError{Field: field, Code: "value", Message: message})
}

// operations carries out a form whose values have all been read.
func (v *visit) operations() *operate.Operations { return v.Operations.WithMisread(v.misread) }

// visit finds the page of a request and who asks for it, or returns the answer that says why there is none.
func (c *Console) visit(ctx context.Context, req *web.Request) (*visit, *web.Response) {
	v := &visit{Console: c, ctx: ctx, req: req, now: c.Host.Now(), cookie: req.Header.Cookie(c.cookieName())}
	var err error
	if v.query, err = web.ReadParameters(req.Query, params...); err != nil {
		return nil, c.plain(400, pages.ProblemData{Heading: "The address cannot be read", Tone: pages.Bad,
			Text: "It has something twice, or something on the way has damaged it. Open the page again."})
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
		return nil, v.problem(web.ErrNotFound) // the service as a whole is not there for a member
	}
	if v.page.op != nil && !v.who().May(v.page.op) {
		return nil, v.problem(operate.RoleForbids(v.page.op, v.who().Role))
	}
	if id := v.query.Get(noteParam); id != "" && req.Method == "GET" {
		v.note = v.takeNote(id)
	}
	return v, nil
}

// params are the parameters that addresses and forms of the console may have. Others are ignored
// (web.ReadParameters).
var params = func() []string {
	all := []string{
		// of every form
		"do", "csrf", "version",
		// of addresses
		"after", "from", "integration", invitationParam, linkParam, "method", "next", noteParam, "out",
		"outcome", "state", "to",
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

// fields are the parameters that forms may have: params, and those of the methods of the service.
func (c *Console) fields() []string {
	return append(slices.Clone(params), pages.MethodFields(operate.MethodsOf(c.Operations.Catalog))...)
}

func (v *visit) who() operate.Actor { return v.session.Actor }

// HasCookie reports whether a request has the cookie of the console.
func (c *Console) HasCookie(req *web.Request) bool { return req.Header.Cookie(c.cookieName()) != "" }

// Sample returns the integration for the samples in the documentation, and a callback URL that it allows: the
// integration that the address names, or else the one that is most in use at the publisher of the person who
// is signed in. Both are "" if there is none.
func (c *Console) Sample(ctx context.Context, req *web.Request) (id, callback string) {
	session, err := c.Access.Session(ctx, req.Header.Cookie(c.cookieName()))
	if err != nil || session.Actor.Kind == "" {
		return "", ""
	}
	var chosen *operate.Integration
	query, err := web.ReadParameters(req.Query, "integration")
	if err == nil && query.Get("integration") != "" {
		if i, err := c.Operations.Integration(ctx, session.Actor, query.Get("integration")); err == nil {
			chosen = &i
		}
	} else if session.Actor.Publisher != "" {
		found, err := c.Operations.Integrations(ctx, session.Actor, session.Actor.Publisher,
			operate.Search{Cursor: operate.Cursor{Limit: operate.MaxLimit}})
		if err == nil {
			chosen = mostInUse(byName(found.Items))
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

// signedOut leads to the page to sign in. A browser that came by a link from another site did not send its
// cookie, since that is for our own pages alone. A page of ours therefore asks once more.
func (v *visit) signedOut() *web.Response {
	if v.req.Method == "POST" {
		return v.plainFor(401, pages.ProblemData{Heading: "You are signed out", Tone: pages.Wait,
			Text: "Your session is over, so nothing was changed. Sign in, and send the form again.",
			To:   pages.Path("sign-in"), ToText: "Sign in"})
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

// frame is what stands around a page of this visit.
func (v *visit) frame(title string) *pages.Frame {
	f := &pages.Frame{Title: title, Publisher: v.publisher, Now: v.now, Form: v.refusal,
		Status: v.note.status(), Dev: v.Dev, Issuer: v.Issuer, Service: v.Service}
	if v.page != nil {
		f.Page = v.page.name
	}
	if v.session.Forms != nil && (v.page == nil || !v.page.open) {
		f.Who, f.Token = v.who(), v.session.Forms.FormToken
	}
	return f
}

// cookieName is the name of the console's cookie. Browsers take the prefix by https alone.
func (c *Console) cookieName() string {
	if strings.HasPrefix(c.BaseURL, "https:") {
		return "__Host-verge-console"
	}
	return "verge-console"
}

// setCookie is the header that gives the browser a session, or with an empty value takes it away.
func (c *Console) setCookie(value string, life time.Duration) string {
	text := c.cookieName() + "=" + value + "; Path=/; HttpOnly; SameSite=Strict"
	if strings.HasPrefix(c.BaseURL, "https:") {
		text += "; Secure"
	}
	return text + "; Max-Age=" + seconds(life)
}

// local reports whether a path is one of the console, so that signing in leads nowhere else. A browser takes
// %2e for a dot, and two dots for the way up. No path of the console has two dots.
func local(path string) bool {
	dots := strings.NewReplacer("%2e", ".", "%2E", ".").Replace(path)
	return (path == pages.Root || strings.HasPrefix(path, pages.Root+"/")) && !strings.ContainsFunc(path,
		func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) && !strings.Contains(path, "//") &&
		!strings.Contains(dots, "..")
}

// text returns a field of the form without blanks around it, or nil if the form does not have it.
func (v *visit) text(name string) *string {
	if !v.form.Has(name) {
		return nil
	}
	s := strings.TrimSpace(v.form.Get(name))
	return &s
}

// must returns a field, or "".
func (v *visit) must(name string) string { return strings.TrimSpace(v.form.Get(name)) }

// version returns the version of the thing that the form changes, as the page had it. Every form of ours that
// changes a thing with a version says it. A change without it could undo that of somebody else.
func (v *visit) version() (string, error) {
	if version := v.must("version"); version != "" {
		return version, nil
	}
	return "", errNoVersion
}

var errNoVersion = errors.New("console: the form does not say which version it changes")

// cursor asks for the part of a list that the address names.
func (v *visit) cursor() operate.Cursor { return operate.Cursor{After: v.query.Get("after")} }

// whole reports whether a list has all that there is. Then the page can have an order of its own.
func (v *visit) whole(next string) bool { return next == "" && v.query.Get("after") == "" }

// named is cursor for a list in which one can search by name.
func (v *visit) named() operate.Search {
	return operate.Search{Name: strings.TrimSpace(v.query.Get("name")), Cursor: v.cursor()}
}
