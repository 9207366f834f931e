package console

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/router"
	templ "github.com/verge-id/verge/core/internal/templrt"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// header returns the headers of every response. With script, they allow our script.
func header(script bool) web.Header {
	if script {
		return router.PageHeader("script-src 'self'; connect-src 'self'; ")
	}
	return router.PageHeader("")
}

func (c *Console) render(status int, f *pages.Frame, body templ.Component) *web.Response {
	b, err := pages.Render(f, body)
	if err != nil {
		panic(err) // only for an invalid template
	}
	h := header(f.Script || f.Live)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", "en")
	return &web.Response{Status: status, Header: h, Body: b}
}

// send renders a page of this visit.
func (v *visit) send(s view) *web.Response {
	if s.raw != nil {
		return s.raw
	}
	if s.frame.Status.Secret != "" {
		s.frame.Script = true // for the copy button
	}
	return v.render(cmp.Or(s.status, 200), s.frame, s.body)
}

// see returns a 303 to a page of the console.
func (c *Console) see(path string) *web.Response {
	h := header(false)
	h.Set("Location", path)
	return &web.Response{Status: 303, Header: h}
}

// goOn returns the response to a form that succeeded.
func (v *visit) goOn(to next) *web.Response {
	path, err := v.keepNote(v.ctx, to.path, cmp.Or(to.cookie, v.cookie), to.note)
	if err != nil && to.note.Secret != "" {
		// The secret exists but can never be shown.
		return v.problem(err)
	}
	resp := v.see(path)
	switch {
	case to.cookie != "":
		resp.Header.Set("Set-Cookie", v.setCookie(to.cookie, to.opened.Expires.Sub(v.now)))
	case to.over:
		resp.Header.Set("Set-Cookie", v.setCookie("", 0))
		resp.Header.Set("Clear-Site-Data", `"cache"`)
	}
	return resp
}

func seconds(d time.Duration) string { return strconv.Itoa(max(int(d.Seconds()), 0)) }

// rejected returns the response to a rejected form: its page, with the values of the form.
func (v *visit) rejected(err error) *web.Response {
	e := router.AsError(err)
	switch {
	case errors.Is(err, errMoved):
		return v.again(200, "")
	case e.Code == web.InvalidRequest && len(e.Details) > 0:
		v.rejection.Problems = sentences(e.Details)
		return v.again(422, "")
	case e.Code == web.PreconditionFailed:
		v.rejection.Theirs = v.theirs()
		return v.again(412, "Someone else has changed this in the meantime, so nothing was saved. Your "+
			"values are still here. Check the other changes, and save again to overwrite them.")
	case errors.Is(err, errPreview):
		return v.again(200, "")
	case errors.Is(err, errNoVersion):
		return v.plainFor(400, pages.ProblemData{Heading: "Reload the page", Tone: pages.Wait,
			Text: "The form contains no version, so nothing was changed. Reload the " +
				"page, and make your change there.", To: v.req.Path, ToText: "Reload the page"})
	case errors.Is(err, operate.ErrManaged):
		return v.again(409, "This is managed by the configuration file. Change it there. Nothing was saved.")
	case errors.Is(err, operate.ErrArchived):
		return v.again(409, "This is archived and cannot be changed. Nothing was changed.")
	case errors.Is(err, operate.ErrNeedsOrigins), e.Code == web.InvalidRequest:
		return v.again(409, names.Replace(e.Message))
	case e.Code == web.Unauthorized:
		return v.again(401, e.Message)
	case e.Code == web.RateLimited:
		resp := v.again(429, e.Message)
		resp.Header.Set("Retry-After", strconv.Itoa(e.RetryAfter))
		return resp
	}
	return v.problem(err)
}

// names replaces the names of fields in messages with the names in forms.
var names = func() *strings.Replacer {
	pairs := []string{"webhook url", "webhook URL"}
	for _, s := range integration.Settings {
		pairs = append(pairs, s.Name, strings.ReplaceAll(s.Name, "_", " "))
	}
	return strings.NewReplacer(pairs...)
}()

// sentences returns the errors as sentences for pages. The same messages are used by the API and for the
// configuration file, where they begin with the name of the field.
func sentences(fields []web.FieldError) []web.FieldError {
	all := slices.Clone(fields)
	for n := range all {
		text := names.Replace(strings.TrimPrefix(all[n].Message, all[n].Field+": "))
		if first, size := utf8.DecodeRuneInString(text); size > 0 {
			text = string(unicode.ToUpper(first)) + text[size:]
		}
		all[n].Message = text
	}
	return all
}

// again shows the page of the form again, in its current state.
func (v *visit) again(status int, notice string) *web.Response {
	v.rejection.Action, v.rejection.Values, v.rejection.Notice = v.acting, v.form, notice
	shown, err := v.page.show(v)
	if err != nil {
		return v.problem(err)
	}
	shown.status = status
	return v.send(shown)
}

// theirs returns the changes by others to the item of this page, latest first. It ends before an own change,
// since the person has seen the earlier ones. If the own change is the latest, it was made in another window.
func (v *visit) theirs() (changes []operate.AuditEntry) {
	if v.publisher == nil {
		return nil
	}
	target := cmp.Or(v.at["integration"], v.publisher.ID)
	recent, err := v.Operations.Audit(v.ctx, v.who(), v.publisher.ID, operate.Cursor{Limit: 20})
	if err != nil {
		return nil // the form with its values is more important
	}
	for _, e := range recent.Items {
		if e.Target != target || len(e.Changes) == 0 {
			continue
		}
		own := e.ActorKind == v.who().Kind && e.ActorID == v.who().ID
		if len(changes) == 3 || own && len(changes) > 0 {
			break
		}
		changes = append(changes, e)
		if own {
			break
		}
	}
	return changes
}

// crossSite is the error page for a form of another site.
var crossSite = pages.ProblemData{Heading: "This form came from another site", Tone: pages.Bad,
	Text: "Nothing was changed. Open the console yourself, and make the change there."}

// problem returns the error page for a page that cannot be shown.
func (v *visit) problem(err error) *web.Response {
	e := router.AsError(err)
	switch {
	case e.Code == web.NotFound:
		return v.plainFor(404, pages.ProblemData{Heading: "Page not found", Tone: pages.Idle,
			Text: "This page does not exist, or you have no access to it. Check the address."})
	case e.Code == web.Forbidden:
		ask := "Ask an admin of your publisher to do this, or to change your role."
		if v.who().Operator() {
			ask = "Ask a person whose token has the role operator."
		}
		return v.plainFor(403, pages.ProblemData{Heading: "Your role does not allow this", Tone: pages.Idle,
			Text: "You are signed in as " + string(v.who().Role) + ". " + ask + " Nothing was changed."})
	case e.Code == web.InvalidRequest && len(e.Details) > 0:
		text := "The address contains an invalid value."
		for _, f := range sentences(e.Details) {
			text += " " + f.Message
		}
		return v.plainFor(400, pages.ProblemData{Heading: "Cannot show this page", Tone: pages.Bad,
			Text: text})
	case e.Code == web.Unauthorized, e.Code == web.TokenExpired:
		return v.plainFor(410, pages.ProblemData{Heading: "This link is no longer valid",
			Tone: pages.Wait,
			Text: e.Message, To: pages.Path("sign-in"), ToText: "Go to the sign-in"})
	case errors.Is(err, ErrNoSession):
		return v.signedOut()
	}
	level := slog.LevelError
	if kv.Failed(err) || errors.Is(err, host.ErrKeyAwaited) {
		level = slog.LevelDebug // package storehealth reports it once
	}
	v.Host.Log.LogAttrs(v.ctx, level, "console page unavailable", slog.String("error", err.Error()))
	resp := v.plainFor(503, pages.ProblemData{Heading: "The console is temporarily unavailable",
		Tone: pages.Bad,
		Text: "The store does not respond. If you have just sent a form, reload the page to see " +
			"whether it was carried out.", To: v.req.Path, ToText: "Reload the page"})
	resp.Header.Set("Retry-After", "2")
	return resp
}

// plainFor returns a page with one message, for the person of this visit.
func (v *visit) plainFor(status int, d pages.ProblemData) *web.Response {
	v.rejection = pages.Form{}
	f := v.frame(d.Heading)
	f.Page = "problem"
	return v.renderProblem(status, f, d)
}

// plain does the same for a request without a visit.
func (c *Console) plain(status int, d pages.ProblemData) *web.Response {
	f := &pages.Frame{Title: d.Heading, Page: "problem", Now: c.Host.Now(), Service: c.Service}
	return c.renderProblem(status, f, d)
}

func (c *Console) renderProblem(status int, f *pages.Frame, d pages.ProblemData) *web.Response {
	if d.To == "" {
		d.To, d.ToText = pages.Root, "Go to the console"
	}
	return c.render(status, f, pages.Problem(f, d))
}
