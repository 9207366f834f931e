package simulation

import (
	"bytes"
	"cmp"
	"html"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/web"
)

// browser has the cookies of one browser, for all of its tabs.
type browser struct {
	w       *world
	cookies map[string]string
	address byte
	served  []served // requests that can have completed its session
	of      *browser // the browser whose step a phone does; nil: this is no phone
}

// served is a request that an instance may have handled at any time between asked and until.
type served struct {
	trust        proofSettings
	asked, until time.Time
}

// page is a page that a browser shows.
type page struct {
	answer
	at     string // its address
	kind   string // data-page of the document
	forms  []form
	hop    string // the address to which the page sends the browser, or ""
	code   string // the code for a wallet on another device, or ""
	app    string // the link for a wallet on this device, or ""
	number string // that a person compares on two devices, or ""
}

// form is one form of a page, by the attribute that names it.
type form struct {
	outcome string // data-outcome
	step    string // data-step or data-method
	act     string // data-action, in the console
	hand    bool   // data-hand
	action  string
	options string // of a passkey
	fields  url.Values
}

// unclear reports whether the page does not show the result of the step: there was no response, or an error.
func (p page) unclear() bool { return !p.known() || p.status == 429 }

func (b *browser) get(address string) page { return b.send("GET", address, nil) }

func (b *browser) post(f form) page { return b.send("POST", f.action, f.fields) }

// send sends a request and follows the redirects of the service.
func (b *browser) send(method, address string, fields url.Values) page {
	if fields == nil {
		return b.sendBody(method, address, "", nil)
	}
	return b.sendBody(method, address, "application/x-www-form-urlencoded", []byte(fields.Encode()))
}

func (b *browser) sendBody(method, address, contentType string, body []byte) page {
	for range 5 {
		req := request(method, strings.TrimPrefix(address, baseURL), "", nil)
		req.Client = netip.AddrFrom4([4]byte{198, 51, 100, b.address})
		req.Header["Accept"] = []string{"text/html"}
		req.Header["Sec-Fetch-Site"] = []string{"same-origin"}
		if body != nil {
			req.Header["Content-Type"], req.Body = []string{contentType}, body
		}
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(b.cookies)) {
			pairs = append(pairs, name+"="+b.cookies[name])
		}
		if len(pairs) > 0 {
			req.Header["Cookie"] = []string{strings.Join(pairs, "; ")}
		}
		asked := b.w.now
		a := b.w.ask(false, req)
		// A page without a way back means that this request has not completed the session.
		waits := a.status == 200 && !bytes.Contains(a.body, []byte("<a data-hop "))
		if a.by != nil && !waits {
			by := served{a.by.trust, asked, b.w.now}
			if a.status == 0 { // the instance may be at work until the request's time is over
				by.until = asked.Add(patience)
			}
			b.served = append(b.served, by)
		}
		b.keep(a.header)
		to := a.header.Get("Location")
		if a.status != 303 || to == "" {
			return read(address, a)
		}
		method, address, body = "GET", to, nil
	}
	return page{at: address}
}

func (b *browser) keep(h web.Header) {
	for _, line := range h["Set-Cookie"] {
		pair, attributes, _ := strings.Cut(line, ";")
		name, value, _ := strings.Cut(pair, "=")
		if strings.Contains(attributes, "Max-Age=0") || value == "" {
			delete(b.cookies, name)
		} else {
			b.cookies[name] = value
		}
	}
}

// read reads a page as the service writes it. A parser of HTML would take longer than the service does.
func read(at string, a answer) page {
	p := page{answer: a, at: at}
	text := string(a.body)
	p.kind = attribute(text, "data-page")
	p.code, p.number = attribute(text, "data-qr"), ""
	if _, rest, ok := strings.Cut(text, "<a data-hop "); ok {
		p.hop = attribute(rest, "href")
	}
	if _, rest, ok := strings.Cut(text, "<a data-wallet "); ok {
		p.app = attribute(rest, "href")
	}
	if _, rest, ok := strings.Cut(text, "<strong data-number>"); ok {
		p.number, _, _ = strings.Cut(rest, "<")
	}
	for {
		_, rest, ok := strings.Cut(text, "<form ")
		if !ok {
			return p
		}
		var this string
		this, text, _ = strings.Cut(rest, "</form>")
		p.forms = append(p.forms, readForm(this))
	}
}

func readForm(text string) form {
	tag, text, _ := strings.Cut(text, ">")
	f := form{
		fields:  url.Values{},
		outcome: attribute(tag, "data-outcome"),
		action:  attribute(tag, " action"),
		options: attribute(tag, "data-options"),
		act:     attribute(tag, "data-action"),
		hand:    strings.Contains(tag, "data-hand"),
		step:    cmp.Or(attribute(tag, "data-step"), attribute(tag, "data-method")),
	}
	for {
		_, input, ok := strings.Cut(text, `<input type="hidden" `)
		if !ok {
			return f
		}
		tag, text, _ = strings.Cut(input, ">")
		f.fields.Set(attribute(tag, "name"), attribute(tag, "value"))
	}
}

// attribute returns the value of the first attribute with that name.
func attribute(text, name string) string {
	_, rest, ok := strings.Cut(text, name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}

// find returns the form that a function accepts.
func (p page) find(accept func(form) bool) (form, bool) {
	for _, f := range p.forms {
		if accept(f) {
			return f, true
		}
	}
	return form{}, false
}
