// Package pages renders the pages of the console, for operators and the members of publishers.
//
// Use Render for a page, and Style and Script for the two files that pages load.
//
// The package has no state and makes no decisions. It guarantees that
//
//   - a page loads only the stylesheet and, with Frame.Script, one script, both from this host, and has no
//     inline script or style;
//   - every form is a POST with a token, except filters of lists;
//   - all values are escaped as text.
//
// Every page works without script. Only passkeys need it, because browsers offer them to scripts alone.
package pages

import (
	"bytes"
	"context"
	"net/url"
	"strings"
	"time"

	templ "github.com/verge-id/verge/core/internal/templrt"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

//go:generate go run ../../../../cmd/generate/pages

// Root is the prefix of the path of every page.
const Root = "/console"

// LogoPath is the prefix of a logo's path, for pages that are not at the address of the hosted pages.
const LogoPath = Root + "/logo/"

// Frame is the frame around the body of every page, with the data that forms need.
type Frame struct {
	Title string
	Page  string // the name of the page in the console's table

	// Who is the signed-in person. The zero Actor, without a Kind, means that no one is signed in.
	Who operate.Actor

	// Publisher is the publisher of the page; nil on the pages of the whole service.
	Publisher *operate.Publisher

	// Token returns the token of the forms of one action. It is bound to the session.
	Token func(action string) string

	Status  Status // the result of the last form
	Form    Form   // the values of a rejected form
	Script  bool   // the page loads the script
	Accent  string // the page has a preview of this accent; "": none
	Dev     bool   // the service is for development, so that no method verifies people
	Live    bool   // the page is reloaded while an operation is in progress
	GoOn    string // the page continues to this path immediately
	Service string // its name
	Issuer  string // of the OpenID provider; "": the service has none
	Now     time.Time
}

// Tones of a status, a badge or a notice. Each has a colour and a shape.
const (
	Good = "good"
	Wait = "wait"
	Bad  = "bad"
	Idle = "idle"
)

// Status is the result of the last form. Secret is a secret that it created, which is shown only once.
type Status struct {
	Tone   string
	Text   string
	Secret string
	Label  string // name of the secret
	Advice string // how to use it
}

// Form contains the values of a rejected form, with their errors.
type Form struct {
	Action   string
	Values   url.Values
	Problems []web.FieldError
	Notice   string               // the error of the whole form
	Theirs   []operate.AuditEntry // changes by others in the meantime
}

// lead returns the text above the field errors. A search saves nothing, so its text differs.
func (f Form) lead() string {
	if f.Action == "find-session" || f.Action == "usage" || f.Action == "sessions" {
		return "Please correct the marked fields."
	}
	return "Your changes were not saved. Please correct the marked fields."
}

// Render returns the whole document.
func Render(f *Frame, body templ.Component) ([]byte, error) {
	var out bytes.Buffer
	if err := document(f, body).Render(context.Background(), &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// title returns the title of the page, which tabs show and screen readers read first.
func (f *Frame) title() string {
	title := f.Title
	if f.Form.Notice != "" || len(f.Form.Problems) > 0 {
		title = "Error – " + title
	}
	if f.Publisher != nil {
		title += " · " + called(f.Publisher.Name, f.Publisher.ID)
	}
	return title + " · " + f.Service
}

// May reports whether the signed-in person has the right op. Pages omit actions without the right.
func (f *Frame) May(op operate.Right) bool { return f.Who.May(op) }

// path returns the path of a page of this page's publisher.
func (f *Frame) path(parts ...string) string { return PublisherPath(f.Publisher.ID, parts...) }

// PublisherPath returns the path of a page of a publisher.
func PublisherPath(publisher string, parts ...string) string {
	return Path(append([]string{"p", publisher}, parts...)...)
}

// Path returns the path of a page.
func Path(parts ...string) string {
	path := Root
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// with returns a path with a query, without the pairs that have no value.
func with(path string, pairs ...string) string {
	query := url.Values{}
	for n := 0; n+1 < len(pairs); n += 2 {
		if pairs[n+1] != "" {
			query.Set(pairs[n], pairs[n+1])
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// link is one entry of the navigation.
type link struct{ page, text, href string }

// links returns the navigation: of the publisher, or of the service for operators.
func (f *Frame) links() []link {
	if f.Who.Kind == "" {
		return nil
	}
	if f.Publisher == nil {
		if !f.Who.Operator() {
			return []link{{"", "Back to your publisher", PublisherPath(f.Who.Publisher)}}
		}
		return []link{
			{"publishers", "Publishers", Path("publishers")},
			{"undelivered", "Undelivered", Path("undelivered")},
			{"operators", "Operator tokens", Path("operators")},
			{"methods", "Methods", Path("methods")},
			{"audit-all", "Audit", Path("audit")},
		}
	}
	all := []link{
		{"overview", "Overview", f.path()},
		{"integrations", "Integrations", f.path("integrations")},
		{"test", "Test console", f.path("test")},
		{"keys", "Keys", f.path("keys")},
		{"deliveries", "Deliveries", f.path("deliveries")},
		{"sessions", "Sessions", f.path("sessions")},
		{"usage", "Usage", f.path("usage")},
		{"members", "Members", f.path("members")},
		{"audit", "Audit", f.path("audit")},
	}
	if f.May(operate.ChangePublisher) || f.May(operate.CreateLink) {
		all = append(all, link{"publisher", "Settings", f.path("settings")})
	}
	if f.May(operate.ChangePublisher) {
		all = append(all, link{"brand", "Brand", f.path("brand")})
	}
	return all
}

// under returns the entry in the navigation of a page without a separate one.
func under(page string) string {
	switch page {
	case "new-integration", "integration", "webhook", "openid":
		return "integrations"
	case "delivery":
		return "deliveries"
	case "session":
		return "sessions"
	}
	return ""
}

func (f *Frame) current(page string) string {
	switch {
	case page == f.Page:
		return "page"
	case page != "" && page == under(f.Page):
		return "true"
	}
	return "false"
}

// Input is one field of a form.
type Input struct {
	Name, Label, Hint string
	Value             string

	// Type is the type of the input. "" is text, "lines" a textarea, "choice" a select, and "explained" a
	// select of the first words. A "file" has the media types Accept.
	Type, Accept string

	Options     []Option
	Required    bool
	Mono        bool // ids and addresses
	Optional    bool // shown behind the label
	Placeholder string
	Complete    string // autocomplete; "": off

	id       string
	problems []string
}

// Option is one value to choose.
type Option struct{ Value, Text string }

// Short returns the text before a colon, for a narrow place.
func (o Option) Short() string {
	short, _, _ := strings.Cut(o.Text, ":")
	return short
}

// explained turns options such as "Viewer: read only" into a list of their first words with a hint that
// contains the rest, since a phone cuts a long option.
func explained(i Input) Input {
	var short []Option
	var hint []string
	for _, o := range i.Options {
		short = append(short, Option{o.Value, o.Short()})
		if o.Short() != o.Text {
			hint = append(hint, o.Text+".")
		}
	}
	i.Type, i.Options, i.Hint = "choice", short, strings.Join(hint, " ")
	return i
}

// input adds the values of a rejected form and their errors.
func (f *Frame) input(action string, i Input) Input {
	i.id = action + "-" + i.Name
	if i.Type == "explained" {
		i = explained(i)
	}
	if i.Type == "" {
		i.Type = "text"
	}
	if i.Complete == "" {
		i.Complete = "off"
	}
	if f.Form.Action != action {
		return i
	}
	if f.Form.Values.Has(i.Name) && i.Type != "password" {
		i.Value = f.Form.Values.Get(i.Name)
	}
	for _, p := range f.Form.Problems {
		if p.Field == i.Name {
			i.problems = append(i.problems, p.Message)
		}
	}
	return i
}

// describedBy returns the ids of the elements that describe the input.
func (i Input) describedBy() string {
	switch {
	case len(i.problems) > 0 && i.Hint != "":
		return i.id + "-problem " + i.id + "-hint"
	case len(i.problems) > 0:
		return i.id + "-problem"
	case i.Hint != "":
		return i.id + "-hint"
	}
	return ""
}
