package testharness

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// Page is what a browser shows of the hosted flow, or the place it was sent to.
type Page struct {
	URL    string // where the browser stands
	Status int
	Header http.Header
	Body   []byte

	Kind  string // data-page of the document: method, failed, expired, …
	Lang  string
	Forms []Form
	Links []string // href of every link and stylesheet, as written

	// Callback is where the page sends the browser on by itself, if that is to
	// the publisher. The harness does not go there.
	Callback *Return

	browser *browser
}

// Form is one form of a page.
type Form struct {
	Outcome string // its data-outcome
	Method  string
	Action  string
	Fields  url.Values // hidden inputs
}

// Return is a browser's way back to the publisher.
type Return struct {
	URL         string
	ResultToken string
	SessionID   string
	State       string
	HasState    bool
}

// browser looks at pages. It sends header with every request.
type browser struct {
	h      *Harness
	header http.Header
}

// Open has a new browser follow a redirect_url, and returns the page.
func (h *Harness) Open(redirectURL string) *Page {
	h.t.Helper()
	return h.OpenWith(nil, redirectURL)
}

// OpenWith is Open in a browser that sends header with this and all later requests.
func (h *Harness) OpenWith(header http.Header, redirectURL string) *Page {
	h.t.Helper()
	return (&browser{h, header}).get(redirectURL)
}

func (b *browser) get(target string) *Page {
	b.h.t.Helper()
	return b.show(target, b.h.Do("GET", target, b.header, nil))
}

// show makes a page of an answer. It follows redirects.
func (b *browser) show(target string, r *Response) *Page {
	b.h.t.Helper()
	if location := r.Header.Get("Location"); location != "" {
		from, err := url.Parse(target)
		b.h.must(err)
		to, err := from.Parse(location)
		b.h.must(err)
		if to.Scheme+"://"+to.Host != b.h.BaseURL {
			b.h.t.Errorf("testharness: the service redirects to %s, and not to a page of its own (contract 22)", to)
			return &Page{URL: location, Status: r.Status, Header: r.Header, browser: b}
		}
		return b.get(to.String())
	}
	p := &Page{URL: target, Status: r.Status, Header: r.Header, Body: r.Body, browser: b}
	p.parse()
	return p
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

// Reload shows the same address again.
func (p *Page) Reload() *Page {
	p.browser.h.t.Helper()
	return p.browser.get(p.URL)
}

// Form returns the form of an outcome. If there is none, the test fails.
func (p *Page) Form(outcome string) Form {
	p.browser.h.t.Helper()
	for _, f := range p.Forms {
		if f.Outcome == outcome {
			return f
		}
	}
	p.browser.h.t.Fatalf("testharness: page %q (%d) has no form %q", p.Kind, p.Status, outcome)
	return Form{}
}

// Submit sends the form of an outcome and returns the page that follows. Where
// that leads to the callback, the page has it.
func (p *Page) Submit(outcome string) *Page {
	p.browser.h.t.Helper()
	target, r := p.post(p.Form(outcome))
	return p.browser.show(target, r)
}

// Post sends the form of an outcome and follows nothing.
func (p *Page) Post(outcome string) *Response {
	p.browser.h.t.Helper()
	_, r := p.post(p.Form(outcome))
	return r
}

func (p *Page) post(f Form) (target string, r *Response) {
	p.browser.h.t.Helper()
	from, err := url.Parse(p.URL)
	p.browser.h.must(err)
	to, err := from.Parse(f.Action)
	p.browser.h.must(err)
	header := p.browser.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	return to.String(), p.browser.h.Do("POST", to.String(), header, []byte(f.Fields.Encode()))
}

func (p *Page) parse() {
	doc, err := html.Parse(bytes.NewReader(p.Body))
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
		case "a", "link":
			p.Links = append(p.Links, attr(n, "href"))
			if has(n, "data-hop") {
				p.Callback = returnTo(attr(n, "href"))
			}
		case "form":
			p.Forms = append(p.Forms, Form{
				Outcome: attr(n, "data-outcome"), Method: strings.ToUpper(attr(n, "method")),
				Action: attr(n, "action"), Fields: url.Values{},
			})
			form = &p.Forms[len(p.Forms)-1]
		case "input":
			if form != nil {
				form.Fields.Add(attr(n, "name"), attr(n, "value"))
			}
		}
	}
}

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
