package testharness

import (
	"bytes"
	"context"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// browser requests pages. It sends header with every request to the service, and stores cookies like a
// browser.
type browser struct {
	h      *Harness
	header http.Header

	mu      sync.Mutex
	cookies []cookie // in the order in which they were set
}

// cookie is a cookie of a host. Browsers do not tell ports apart, and neither does this one.
type cookie struct {
	host    string
	expires time.Time // by the harness's clock; zero: it stays
	*http.Cookie
}

// Open has a new browser follow a redirect_url, and returns the page.
func (h *Harness) Open(redirectURL string) *Page {
	h.t.Helper()
	return h.OpenWith(nil, redirectURL)
}

// OpenWith is Open in a browser that sends header to the service with this and all later requests.
func (h *Harness) OpenWith(header http.Header, redirectURL string) *Page {
	h.t.Helper()
	return (&browser{h: h, header: header}).get(redirectURL, "")
}

// Go shows another address in the browser of this page. The page can still be used, as one in another tab.
func (p *Page) Go(address string) *Page {
	p.browser.h.t.Helper()
	return p.browser.get(address, "")
}

// Reload shows the same address again.
func (p *Page) Reload() *Page {
	p.browser.h.t.Helper()
	return p.Go(p.URL)
}

// AsAnother sends a request to the service that is not this browser's and has none of its cookies, as a
// wallet does that the page has asked.
func (p *Page) AsAnother(method, address string, header http.Header, body []byte) *Response {
	p.browser.h.t.Helper()
	return p.browser.h.Do(method, address, header, body)
}

// LoadAgain loads the address that a waiting page reloads automatically.
func (p *Page) LoadAgain() *Page {
	p.browser.h.t.Helper()
	if p.Again == "" {
		p.browser.h.t.Fatalf("testharness: page %q (%d) does not reload", p.Kind, p.Status)
	}
	return p.Go(p.browser.resolve(p.URL, p.Again))
}

// Follow goes to the address to which the page sends the browser automatically. Other sites may redirect it
// further. The returned page is the first without a redirect: the service's, or another site's.
func (p *Page) Follow() *Page {
	p.browser.h.t.Helper()
	if p.Hop == "" {
		p.browser.h.t.Fatalf("testharness: page %q (%d) sends the browser nowhere", p.Kind, p.Status)
	}
	return p.browser.get(p.Hop, p.URL)
}

// ReturnURL follows the page to another site, up to the address of the service to which that site sends the
// browser back. It returns this address and does not go there. Use Go for that.
func (p *Page) ReturnURL() string {
	b := p.browser
	b.h.t.Helper()
	at, from := p.Hop, p.URL
	for range maxHops {
		if at == "" || b.isOurs(at) {
			break
		}
		at, from = b.location(at, b.send("GET", at, from, nil, nil)), at
	}
	if !b.isOurs(at) {
		b.h.t.Fatalf("testharness: the other site does not send the browser back, but to %q", at)
	}
	return at
}

// maxHops is how many redirects a browser follows.
const maxHops = 20

// get shows an address. from is the page that sent the browser there, "" if the user did.
func (b *browser) get(address, from string) *Page {
	b.h.t.Helper()
	return b.show(address, b.send("GET", address, from, nil, nil))
}

// show makes a page of an answer. It follows redirects.
func (b *browser) show(at string, r *Response) *Page {
	b.h.t.Helper()
	for range maxHops {
		to := b.location(at, r)
		if to == "" {
			p := &Page{URL: at, Status: r.Status, Header: r.Header, Body: r.Body, browser: b}
			p.parse()
			return p
		}
		if b.isOurs(at) && !b.isOurs(to) {
			b.h.t.Errorf("testharness: the service redirects to %s, and not to a page of its "+
				"own (contract 22)", to)
			return &Page{URL: to, Status: r.Status, Header: r.Header, browser: b}
		}
		at, r = to, b.send("GET", to, at, nil, nil)
	}
	b.h.t.Fatalf("testharness: after %d redirects the browser is at %s and still sent on", maxHops, at)
	return nil
}

// location is where an answer redirects to, "" if it does not.
func (b *browser) location(at string, r *Response) string {
	b.h.t.Helper()
	location := r.Header.Get("Location")
	if location == "" {
		return ""
	}
	return b.resolve(at, location)
}

func (b *browser) resolve(at, reference string) string {
	b.h.t.Helper()
	from, err := url.Parse(at)
	b.h.must(err)
	to, err := from.Parse(reference)
	b.h.must(err)
	return to.String()
}

func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (b *browser) isOurs(address string) bool { return origin(address) == b.h.BaseURL }

// send sends one request, with the cookies that belong to it, and keeps those that come back.
func (b *browser) send(method, address, from string, header http.Header, body []byte) *Response {
	b.h.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = b.h.BaseURL + address
	}
	ours := b.isOurs(address)
	all := http.Header{}
	if ours {
		all = b.header.Clone()
		if all == nil {
			all = http.Header{}
		}
	}
	maps.Copy(all, header)
	crossSite := from != "" && origin(from) != origin(address)
	if line := b.cookiesFor(address, crossSite && method != "GET"); line != "" {
		all.Set("Cookie", strings.TrimPrefix(all.Get("Cookie")+"; "+line, "; "))
	}
	do := b.h.Do
	if !ours {
		do = b.h.elsewhere
	}
	r := do(method, address, all, body)
	b.keep(address, r.Header)
	return r
}

// elsewhere sends one request to another server than the service.
func (h *Harness) elsewhere(method, address string, header http.Header, body []byte) *Response {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	h.must(err)
	req.Header = header
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := client(transport).Do(req)
	if err != nil {
		h.t.Errorf("testharness: %s of another site: %v", method, err)
		return &Response{Request: req}
	}
	defer resp.Body.Close()
	r := &Response{Request: req, RequestBody: body, Status: resp.StatusCode, Header: resp.Header}
	if r.Body, err = io.ReadAll(resp.Body); err != nil {
		h.t.Errorf("testharness: %s of another site: %v", method, err)
	}
	return r
}

// cookiesFor is the Cookie line of a request. Cookies with SameSite=Lax or Strict stay away from a POST that
// another site has caused.
func (b *browser) cookiesFor(address string, foreignPost bool) string {
	u, err := url.Parse(address)
	b.h.must(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	var pairs []string
	for _, c := range b.cookies {
		expired := !c.expires.IsZero() && !b.h.Now().Before(c.expires)
		if c.host != u.Hostname() || expired || c.Secure && u.Scheme != "https" ||
			foreignPost && c.SameSite != http.SameSiteNoneMode {
			continue
		}
		pairs = append(pairs, c.Name+"="+c.Value)
	}
	return strings.Join(pairs, "; ")
}

// keep stores the cookies of a response's Set-Cookie lines.
func (b *browser) keep(address string, header http.Header) {
	b.h.t.Helper()
	u, err := url.Parse(address)
	b.h.must(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range header["Set-Cookie"] {
		c, err := http.ParseSetCookie(line)
		if err != nil {
			b.h.t.Errorf("testharness: a Set-Cookie line that no browser takes: %v", err)
			continue
		}
		if strings.HasPrefix(c.Name, "__Host-") && (!c.Secure || c.Path != "/" || c.Domain != "" ||
			u.Scheme != "https") {
			continue // browsers reject it
		}
		b.cookies = slices.DeleteFunc(b.cookies, func(old cookie) bool {
			return old.host == u.Hostname() && old.Name == c.Name
		})
		if c.MaxAge < 0 {
			continue
		}
		kept := cookie{host: u.Hostname(), Cookie: c}
		if c.MaxAge > 0 {
			kept.expires = b.h.Now().Add(time.Duration(c.MaxAge) * time.Second)
		}
		b.cookies = append(b.cookies, kept)
	}
}

// Submit sends the form of an outcome and returns the page that follows. Where
// that leads to the callback, the page has it.
func (p *Page) Submit(outcome string) *Page {
	p.browser.h.t.Helper()
	return p.SubmitForm(p.Form(outcome))
}

// Post sends the form of an outcome and follows nothing.
func (p *Page) Post(outcome string) *Response {
	p.browser.h.t.Helper()
	return p.PostForm(p.Form(outcome))
}

// Choose sends the form that chooses a method and returns the page that follows.
func (p *Page) Choose(method string) *Page {
	p.browser.h.t.Helper()
	return p.SubmitForm(p.form("data-method", method, func(f Form) string { return f.Chooses }))
}

// HandOff sends the form for doing the step on a phone, and returns the page that waits for the phone. Its
// Code is for the phone, which is another browser: Harness.Open.
func (p *Page) HandOff() *Page {
	p.browser.h.t.Helper()
	return p.SubmitForm(p.HandForm())
}

// HandForm is the form that has the step done on a phone.
func (p *Page) HandForm() Form {
	p.browser.h.t.Helper()
	return p.form("data-hand", "", func(f Form) string {
		if f.Hand {
			return ""
		}
		return "no"
	})
}

// Upload sends a picture with the form of a step, such as camera, and returns the page that follows.
func (p *Page) Upload(step string, picture []byte) *Page {
	p.browser.h.t.Helper()
	return p.SubmitForm(p.StepForm(step, picture))
}

// StepForm is the form of a step with a picture in it.
func (p *Page) StepForm(step string, picture []byte) Form {
	p.browser.h.t.Helper()
	f := p.form("data-step", step, func(f Form) string { return f.Step })
	f.Picture = picture
	return f
}

// SubmitForm sends a form and returns the page that follows. The form may have been changed, as by a script.
func (p *Page) SubmitForm(f Form) *Page {
	p.browser.h.t.Helper()
	to := p.browser.resolve(p.URL, f.Action)
	return p.browser.show(to, p.PostForm(f))
}

// PostForm sends a form and follows nothing.
func (p *Page) PostForm(f Form) *Response {
	p.browser.h.t.Helper()
	b := p.browser
	to := b.resolve(p.URL, f.Action)
	contentType, body := "application/x-www-form-urlencoded", []byte(f.Fields.Encode())
	if f.EncType == "multipart/form-data" {
		contentType, body = f.multipart(b.h)
	}
	return b.send("POST", to, p.URL, Headers("Content-Type", contentType), body)
}

// multipart writes a form as browsers do.
func (f Form) multipart(h *Harness) (contentType string, body []byte) {
	h.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	h.must(w.SetBoundary("----WebKitFormBoundary" + "7MA4YWxkTrZu0gW9"))
	for _, name := range f.order {
		for _, value := range f.Fields[name] {
			h.must(w.WriteField(name, value))
		}
	}
	if f.File != "" {
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {`form-data; name="` + f.File + `"; filename="still.jpg"`},
			"Content-Type":        {"image/jpeg"},
		})
		h.must(err)
		_, err = part.Write(f.Picture)
		h.must(err)
	}
	h.must(w.Close())
	return w.FormDataContentType(), b.Bytes()
}
