package testharness

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// Page is a page in a browser: of the hosted flow, or of another site.
type Page struct {
	URL    string // address of the page
	Status int
	Header http.Header
	Body   []byte

	Kind  string // data-page of the document: method, failed, expired, …
	Lang  string
	Forms []Form
	Links []string // href of every link and stylesheet, as written

	// Hop is the address to which the page sends the browser automatically, or "": the publisher's, or
	// another site of a method. The harness goes there only with Follow.
	Hop string

	// Again is the address of the service that the page reloads automatically after a moment, or "". The
	// harness goes there only with LoadAgain.
	Again string

	// Wallet is the address that opens an app on this device, and Code the content of its QR code for another
	// device. Number is the number that a person compares on two devices.
	Wallet, Code, Number string

	// Callback is the Hop of a page that sends the browser to the publisher. Nil: the page does not.
	Callback *Return

	browser *browser
}

// Form is one form of a page.
type Form struct {
	Outcome string // its data-outcome
	Chooses string // its data-method: the method that the user chooses by it
	Step    string // its data-step, such as camera
	Hand    bool   // its data-hand: a phone shall do the step
	Method  string // of HTTP
	Action  string
	EncType string
	Fields  url.Values // hidden inputs
	File    string     // name of its file input; "": none
	Picture []byte     // content of that input

	// Data has its data- attributes, by the name without data-. "options" are the options for the browser's
	// passkeys.
	Data map[string]string

	order []string // the names of Fields, as the page has them
}

// Add adds a field to a form, like a script or a user with a debugger.
func (f *Form) Add(name, value string) {
	if !f.Fields.Has(name) {
		f.order = append(f.order, name)
	}
	f.Fields.Add(name, value)
}

// Return is a browser's way back to the publisher.
type Return struct {
	URL         string
	ResultToken string
	SessionID   string
	State       string
	HasState    bool
}

// returnTo takes a callback apart.
func returnTo(callback string) *Return {
	u, err := url.Parse(callback)
	if err != nil {
		return nil
	}
	q := u.Query()
	return &Return{URL: callback, ResultToken: q.Get("result_token"), SessionID: q.Get("session_id"),
		State: q.Get("state"), HasState: q.Has("state")}
}

// Form returns the form of an outcome. Without such a form, the test fails.
func (p *Page) Form(outcome string) Form {
	p.browser.h.t.Helper()
	return p.form("data-outcome", outcome, func(f Form) string { return f.Outcome })
}

// form returns the form whose attribute has that value. Without such a form, the test fails.
func (p *Page) form(attribute, value string, of func(Form) string) Form {
	p.browser.h.t.Helper()
	for _, f := range p.Forms {
		if of(f) == value {
			fields := url.Values{}
			for name, values := range f.Fields {
				fields[name] = slices.Clone(values)
			}
			f.Fields, f.order = fields, slices.Clone(f.order)
			return f
		}
	}
	p.browser.h.t.Fatalf("testharness: page %q (%d) has no form with %s=%q", p.Kind, p.Status, attribute,
		value)
	return Form{}
}

func (p *Page) parse() {
	// As a browser without script reads it.
	doc, err := html.ParseWithOptions(bytes.NewReader(p.Body), html.ParseOptionEnableScripting(false))
	if err != nil {
		return
	}
	var form *Form
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "html":
			p.Lang = attr(n, "lang")
		case "body":
			p.Kind = attr(n, "data-page")
		case "meta":
			if _, to, ok := strings.Cut(attr(n, "content"), ";url="); ok &&
				attr(n, "http-equiv") == "refresh" {
				p.Again = to
			}
		case "a", "link":
			p.Links = append(p.Links, attr(n, "href"))
			if has(n, "data-hop") {
				p.Hop = attr(n, "href")
			}
			if has(n, "data-wallet") {
				p.Wallet = attr(n, "href")
			}
		case "svg":
			if has(n, "data-qr") {
				p.Code = attr(n, "data-qr")
			}
		case "strong":
			if has(n, "data-number") && n.FirstChild != nil {
				p.Number = n.FirstChild.Data
			}
		case "form":
			p.Forms = append(p.Forms, Form{
				Outcome: attr(n, "data-outcome"), Chooses: attr(n, "data-method"), Step: attr(n, "data-step"),
				Hand:   has(n, "data-hand"),
				Method: strings.ToUpper(attr(n, "method")), Action: attr(n, "action"),
				EncType: attr(n, "enctype"), Fields: url.Values{}, Data: dataOf(n),
			})
			form = &p.Forms[len(p.Forms)-1]
		case "input":
			switch name := attr(n, "name"); {
			case form == nil:
			case attr(n, "type") == "file":
				form.File = name
			default:
				form.Add(name, attr(n, "value"))
			}
		}
	}
	if p.Again == p.Hop {
		p.Again = ""
	}
	if p.Hop != "" && p.Kind == completedKind {
		p.Callback = returnTo(p.Hop)
	}
}

// dataOf returns the data- attributes of an element.
func dataOf(n *html.Node) map[string]string {
	data := map[string]string{}
	for _, a := range n.Attr {
		if name, ok := strings.CutPrefix(a.Key, "data-"); ok {
			data[name] = a.Val
		}
	}
	return data
}

// completedKind is the kind of the page that sends the browser to the publisher.
const completedKind = "completed"

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
