package conformance_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// visitor is a person with their own browser, who uses the console. It fills forms in as the pages provide
// them.
type visitor struct {
	t       *testing.T
	h       *testharness.Harness
	device  *passkeytest.Authenticator
	cookies map[string]string
	told    *[]string // secrets that a page has shown, of all visitors: no page shows one again

	path   string // of the page that is open
	status int
	page   *html.Node
}

// newVisitor returns a person who is not signed in. told is shared by all visitors of one service.
func newVisitor(t *testing.T, h *testharness.Harness, told *[]string) *visitor {
	return &visitor{t: t, h: h, device: passkeytest.New(h.BaseURL), cookies: map[string]string{}, told: told}
}

// open shows a page, and follows redirects.
func (v *visitor) open(path string) {
	v.t.Helper()
	v.ask("GET", strings.TrimPrefix(path, v.h.BaseURL), nil)
}

func (v *visitor) ask(method, path string, form url.Values) {
	v.t.Helper()
	for range 4 {
		header := headers("Sec-Fetch-Site", "same-origin", "Accept", "text/html")
		for name, value := range v.cookies {
			header.Add("Cookie", name+"="+value)
		}
		var sent []byte
		if method == "POST" {
			header.Set("Content-Type", "application/x-www-form-urlencoded")
			header.Set("Origin", v.h.BaseURL)
			sent = []byte(form.Encode())
		}
		r := v.h.Do(method, path, header, sent)
		for _, c := range (&http.Response{Header: r.Header}).Cookies() {
			v.cookies[c.Name] = c.Value
		}
		if r.Status != http.StatusSeeOther {
			v.shown(path, r)
			return
		}
		method, path = "GET", strings.TrimPrefix(r.Header.Get("Location"), v.h.BaseURL)
	}
	v.t.Fatalf("contract 43: %s redirects on and on", path)
}

// shown takes in the page that came.
func (v *visitor) shown(path string, r *testharness.Response) {
	v.t.Helper()
	var err error
	if v.page, err = html.Parse(bytes.NewReader(r.Body)); err != nil {
		v.t.Fatal(err)
	}
	v.path, _, _ = strings.Cut(path, "?")
	v.status = r.Status
	for _, secret := range *v.told {
		if bytes.Contains(r.Body, []byte(secret)) {
			v.t.Errorf("contract 45: %s shows a secret again", v.path)
		}
	}
	if secret := v.find("code", "data-secret", ""); secret != nil {
		*v.told = append(*v.told, words(secret))
	}
}

// secret returns the secret that the page shows once.
func (v *visitor) secret() string {
	v.t.Helper()
	shown := v.find("code", "data-secret", "")
	if shown == nil {
		v.t.Fatalf("contract 45: %s shows no secret: %s", v.path, v.main())
	}
	return words(shown)
}

// find returns the first element of a kind with an attribute; a value of "" stands for any.
func (v *visitor) find(kind, name, value string) *html.Node {
	for n := range v.page.Descendants() {
		if n.Type == html.ElementNode && n.Data == kind &&
			slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
				return a.Key == name && (value == "" || a.Val == value)
			}) {
			return n
		}
	}
	return nil
}

// form is one form, as the page has filled it in.
type form struct {
	action, to string
	fields     url.Values
	options    []byte // for a passkey
}

// forms returns the forms that act.
func (v *visitor) forms() (all []form) {
	for n := range v.page.Descendants() {
		if n.Type != html.ElementNode || n.Data != "form" || attribute(n, "method") != "post" {
			continue
		}
		f := form{attribute(n, "data-action"), attribute(n, "action"), url.Values{},
			[]byte(attribute(n, "data-options"))}
		for field := range n.Descendants() {
			if name := attribute(field, "name"); field.Data == "input" {
				f.fields.Set(name, attribute(field, "value"))
			} else if field.Data == "textarea" {
				f.fields.Set(name, text(field, ""))
			} else if field.Data == "option" {
				choice := attribute(field.Parent, "name")
				if marked(field, "selected") || !f.fields.Has(choice) {
					f.fields.Set(choice, attribute(field, "value"))
				}
			}
		}
		all = append(all, f)
	}
	return all
}

// send fills in a form of the page and sends it. pairs are fields and what to write into them.
func (v *visitor) send(action string, pairs ...string) {
	v.t.Helper()
	for _, f := range v.forms() {
		if f.action != action {
			continue
		}
		for i := 0; i < len(pairs); i += 2 {
			if !f.fields.Has(pairs[i]) {
				v.t.Fatalf("contract 45: the form %s of %s has no field %s", action, v.path, pairs[i])
			}
			f.fields.Set(pairs[i], pairs[i+1])
		}
		v.ask("POST", f.to, f.fields)
		return
	}
	v.t.Fatalf("contract 45: %s (status %d) has no form %s: %s", v.path, v.status, action, v.main())
}

// prove is send with the device's response to the form.
func (v *visitor) prove(action string, pairs ...string) {
	v.t.Helper()
	for _, f := range v.forms() {
		if f.action != action {
			continue
		}
		ask := v.device.Get
		if action == "enrol" {
			ask = v.device.Create
		}
		answer, err := ask(f.options)
		if err != nil {
			v.t.Fatal(err)
		}
		v.send(action, append(pairs, "credential", string(answer.JSON()))...)
		return
	}
	v.t.Fatalf("contract 43: %s (status %d) has no form %s: %s", v.path, v.status, action, v.main())
}

// main returns the text of the page.
func (v *visitor) main() string {
	if n := v.find("main", "id", "main"); n != nil {
		return words(n)
	}
	return ""
}

// sees checks the status and the text of the page.
func (v *visitor) sees(status int, texts ...string) {
	v.t.Helper()
	said := v.main()
	if v.status != status {
		v.t.Fatalf("contract 45: %s answers %d, want %d: %s", v.path, v.status, status, said)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			v.t.Fatalf("contract 44: %s lacks %q: %s", v.path, text, said)
		}
	}
}

// follow opens the link of the page with that text.
func (v *visitor) follow(text string) {
	v.t.Helper()
	v.open(v.link(text))
}

func (v *visitor) link(text string) string {
	v.t.Helper()
	for n := range v.page.Descendants() {
		if n.Data == "a" && words(n) == text {
			return attribute(n, "href")
		}
	}
	v.t.Fatalf("contract 44: %s has no link %q: %s", v.path, text, v.main())
	return ""
}

// words is the text of an element, with single blanks.
func words(n *html.Node) string { return strings.Join(strings.Fields(text(n, " ")), " ") }

// text is the text of an element, with something between its parts.
func text(n *html.Node, between string) string {
	var parts []string
	for each := range n.Descendants() {
		if each.Type == html.TextNode {
			parts = append(parts, each.Data)
		}
	}
	return strings.Join(parts, between)
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func marked(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// receiver is a publisher's endpoint for events, with the mistakes that the walk needs.
type receiver struct {
	*httptest.Server
	now func() time.Time

	mu       sync.Mutex
	secrets  []string // any of them is good
	careless bool     // takes events of any age
	rejects  bool     // returns 410 to all
	got      []received
}

// received is an event whose signature was good.
type received struct {
	webhook.Event
	secret int // the index of the secret that signed it
}

func newReceiver(t *testing.T, now func() time.Time) *receiver {
	r := &receiver{now: now}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// be changes the receiver, as its developer would.
func (r *receiver) be(change func(*receiver)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// takes returns the events since the last call.
func (r *receiver) takes() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, webhook.MaxBody))
	if err != nil {
		return // the sender has left
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	tolerance := time.Duration(0)
	if r.careless {
		tolerance = 24 * time.Hour
	}
	signed := slices.IndexFunc(r.secrets, func(secret string) bool {
		return webhook.Verify(secret, req.Header, body, r.now(), tolerance) == nil
	})
	var event webhook.Event
	err = json.Unmarshal(body, &event)
	switch {
	case r.rejects:
		w.WriteHeader(http.StatusGone)
	case signed < 0:
		w.WriteHeader(http.StatusUnauthorized)
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	default:
		r.got = append(r.got, received{event, signed})
		w.WriteHeader(http.StatusNoContent)
	}
}
