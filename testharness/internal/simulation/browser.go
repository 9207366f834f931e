package simulation

import (
	"html"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/web"
)

// browser has the cookies of one browser, for all of its tabs.
type browser struct {
	w       *world
	cookies map[string]string
	address byte
}

// page is a page that a browser shows.
type page struct {
	answer
	kind  string // data-page of the document
	forms []form
	hop   string // the address to which the page sends the browser, or ""
}

type form struct {
	outcome string
	action  string
	fields  url.Values
}

// unclear reports whether the page leaves open what happened: there was no response, or an error.
func (p page) unclear() bool { return !p.known() || p.status == 429 }

func (b *browser) get(address string) page { return b.send("GET", address, nil) }

func (b *browser) post(f form) page { return b.send("POST", f.action, f.fields) }

// send sends a request and follows the redirects of the service.
func (b *browser) send(method, address string, fields url.Values) page {
	for range 5 {
		req := request(method, strings.TrimPrefix(address, baseURL), "", nil)
		req.Client = netip.AddrFrom4([4]byte{198, 51, 100, b.address})
		req.Header["Accept"] = []string{"text/html"}
		req.Header["Sec-Fetch-Site"] = []string{"same-origin"}
		if fields != nil {
			req.Header["Content-Type"] = []string{"application/x-www-form-urlencoded"}
			req.Body = []byte(fields.Encode())
		}
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(b.cookies)) {
			pairs = append(pairs, name+"="+b.cookies[name])
		}
		if len(pairs) > 0 {
			req.Header["Cookie"] = []string{strings.Join(pairs, "; ")}
		}
		a := b.w.ask(false, req)
		b.keep(a.header)
		to := a.header.Get("Location")
		if a.status != 303 || to == "" {
			return read(a)
		}
		method, address, fields = "GET", to, nil
	}
	return page{}
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
func read(a answer) page {
	p := page{answer: a}
	text := string(a.body)
	if _, rest, ok := strings.Cut(text, ` data-page="`); ok {
		p.kind, _, _ = strings.Cut(rest, `"`)
	}
	if _, rest, ok := strings.Cut(text, `<a data-hop href="`); ok {
		hop, _, _ := strings.Cut(rest, `"`)
		p.hop = html.UnescapeString(hop)
	}
	for {
		_, rest, ok := strings.Cut(text, `<form data-outcome="`)
		if !ok {
			return p
		}
		this, rest, _ := strings.Cut(rest, "</form>")
		text = rest
		f := form{fields: url.Values{}}
		f.outcome, this, _ = strings.Cut(this, `"`)
		_, this, _ = strings.Cut(this, `action="`)
		f.action, this, _ = strings.Cut(this, `"`)
		f.action = html.UnescapeString(f.action)
		for {
			_, input, ok := strings.Cut(this, `<input type="hidden" name="`)
			if !ok {
				break
			}
			var name, value string
			name, input, _ = strings.Cut(input, `" value="`)
			value, this, _ = strings.Cut(input, `"`)
			f.fields.Set(name, html.UnescapeString(value))
		}
		p.forms = append(p.forms, f)
	}
}
