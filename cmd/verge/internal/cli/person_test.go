package cli

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// person walks through sites like a user with a browser: with cookies, along redirects and hop pages.
type person struct {
	t      *testing.T
	http   *http.Client
	at     *url.URL
	status int
	page   *html.Node
	sites  []string // each site that the browser was at, in a row
}

func newPerson(t *testing.T) *person {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t}
	p.http = &http.Client{Jar: jar, Timeout: 30 * time.Second, CheckRedirect: func(r *http.Request,
		via []*http.Request) error {
		p.visits(r.URL)
		if len(via) > 10 {
			return fmt.Errorf("more than ten redirects: %s", r.URL)
		}
		return nil
	}}
	return p
}

func (p *person) visits(u *url.URL) {
	if len(p.sites) == 0 || p.sites[len(p.sites)-1] != u.Host {
		p.sites = append(p.sites, u.Host)
	}
}

func (p *person) open(target string) {
	p.t.Helper()
	req, err := http.NewRequest("GET", target, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.do(req)
}

// do sends a request and goes along until a page stays.
func (p *person) do(req *http.Request) {
	p.t.Helper()
	p.visits(req.URL)
	resp, err := p.http.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	p.at, p.status = resp.Request.URL, resp.StatusCode
	if p.page, err = html.Parse(bytes.NewReader(b)); err != nil {
		p.t.Fatal(err)
	}
	if hop := p.find("a", "data-hop", ""); hop != nil {
		p.open(attribute(hop, "href"))
	}
}

// find returns the first element of that tag with that attribute, or nil.
func (p *person) find(tag, name, value string) *html.Node { return findBelow(p.page, tag, name, value) }

func findBelow(n *html.Node, tag, name, value string) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == tag &&
			slices.ContainsFunc(d.Attr, func(a html.Attribute) bool {
				return a.Key == name && a.Val == value
			}) {
			return d
		}
	}
	return nil
}

func hasAttribute(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// submit posts the form that has that attribute, with its hidden inputs and the values in filled.
func (p *person) submit(name, value string, filled url.Values) {
	p.t.Helper()
	form, fields := p.form(name, value)
	maps.Copy(fields, filled)
	p.post(form, "application/x-www-form-urlencoded", strings.NewReader(fields.Encode()))
}

// send posts the form of a page with a camera, with a picture.
func (p *person) send(picture []byte) {
	p.t.Helper()
	form, fields := p.form("data-step", "camera")
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for field := range fields {
		if err := w.WriteField(field, fields.Get(field)); err != nil {
			p.t.Fatal(err)
		}
	}
	file, err := w.CreatePart(map[string][]string{
		"Content-Disposition": {`form-data; name="image"; filename="picture.jpg"`}, "Content-Type": {"image/jpeg"}})
	if err != nil {
		p.t.Fatal(err)
	}
	file.Write(picture) // into memory
	if err := w.Close(); err != nil {
		p.t.Fatal(err)
	}
	p.post(form, w.FormDataContentType(), &body)
}

func (p *person) form(name, value string) (form *html.Node, hidden url.Values) {
	p.t.Helper()
	form = p.find("form", name, value)
	if form == nil {
		p.t.Fatalf("the page at %s has no form with %s=%q:\n%s", p.at, name, value, p.text())
	}
	hidden = url.Values{}
	for d := range form.Descendants() {
		if d.Type == html.ElementNode && d.Data == "input" && attribute(d, "type") == "hidden" {
			hidden.Add(attribute(d, "name"), attribute(d, "value"))
		}
	}
	return form, hidden
}

func (p *person) post(form *html.Node, contentType string, body io.Reader) {
	p.t.Helper()
	to, err := p.at.Parse(attribute(form, "action"))
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequest("POST", to.String(), body)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Origin", p.at.Scheme+"://"+p.at.Host)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	p.do(req)
}

// text returns the text of the page.
func (p *person) text() string {
	var text strings.Builder
	for d := range p.page.Descendants() {
		if d.Type == html.TextNode {
			text.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// linkTo returns the link that says that.
func (p *person) linkTo(text string) *html.Node {
	p.t.Helper()
	for d := range p.page.Descendants() {
		if d.Type == html.ElementNode && d.Data == "a" && d.FirstChild != nil && d.FirstChild.Data == text {
			return d
		}
	}
	p.t.Fatalf("the page at %s has no link %q:\n%s", p.at, text, p.text())
	return nil
}

// reads fails the test unless the page says all of that.
func (p *person) reads(parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		if text := p.text(); !strings.Contains(text, part) {
			p.t.Fatalf("the page at %s (%d) does not contain %q:\n%s", p.at, p.status, part, text)
		}
	}
}

// somePicture is a JPEG of a size that cameras make.
func somePicture(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 480, 640)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
