package testenv

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// Browser goes through the hosted flow, with or without a harness. It parses only the parts of a page that it
// needs, and takes little processor time. It belongs to one session: it sends its cookies with every request.
type Browser struct {
	Client  *http.Client // follows no redirect
	cookies map[string]string
}

// Shown has the data of one page in a Browser.
type Shown struct {
	URL    string
	Status int
	Body   string
}

// Open shows an address.
func (b *Browser) Open(address string) (*Shown, error) {
	req, err := http.NewRequest("GET", address, nil)
	if err != nil {
		return nil, err
	}
	return b.send(req)
}

// Verify goes from a redirect_url to the callback, and returns the callback URL with the result token. It
// sends the picture with a camera form, and the form for the outcome on any other page.
func (b *Browser) Verify(redirectURL, callback, outcome string, picture []byte) (string, error) {
	page, err := b.Open(redirectURL)
	for range 6 {
		if err != nil {
			return "", err
		}
		hop := page.Hop()
		switch {
		case strings.HasPrefix(hop, callback):
			return hop, nil
		case hop != "":
			page, err = b.Open(hop)
		case page.Has(`data-step="camera"`):
			page, err = b.Upload(page, picture)
		default:
			page, err = b.Submit(page, outcome)
		}
	}
	return "", fmt.Errorf("testenv: the walk does not end; last page %s, status %d", page.URL, page.Status)
}

// Submit sends the form of an outcome.
func (b *Browser) Submit(page *Shown, outcome string) (*Shown, error) {
	action, fields, err := page.form(`data-outcome="` + outcome + `"`)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest("POST", action, strings.NewReader(fields.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.send(req)
}

// Upload sends a picture by the form with the camera.
func (b *Browser) Upload(page *Shown, picture []byte) (*Shown, error) {
	req, err := page.Picture(picture)
	if err != nil {
		return nil, err
	}
	return b.send(req)
}

// Picture returns a browser's request to upload a picture.
func (p *Shown) Picture(picture []byte) (*http.Request, error) {
	action, fields, err := p.form(`data-step="camera"`)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	body.Grow(len(picture) + 8<<10)
	form := multipart.NewWriter(&body)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := form.WriteField(name, fields.Get(name)); err != nil {
			return nil, err
		}
	}
	file, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="image"; filename="still.jpg"`},
		"Content-Type":        {"image/jpeg"},
	})
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(picture); err != nil {
		return nil, err
	}
	if err := form.Close(); err != nil {
		return nil, err
	}
	req, err := http.NewRequest("POST", action, &body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	return req, nil
}

// send sends a request and follows redirects.
func (b *Browser) send(req *http.Request) (*Shown, error) {
	for range 6 {
		for name, value := range b.cookies {
			req.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		resp, err := b.Client.Do(req)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		for _, c := range resp.Cookies() {
			if b.cookies == nil {
				b.cookies = map[string]string{}
			}
			if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
				delete(b.cookies, c.Name)
			}
		}
		if resp.Header.Get("Location") == "" {
			return &Shown{req.URL.String(), resp.StatusCode, string(body)}, nil
		}
		to, err := req.URL.Parse(resp.Header.Get("Location"))
		if err != nil {
			return nil, err
		}
		if req, err = http.NewRequest("GET", to.String(), nil); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("testenv: %s redirects on and on", req.URL)
}

// Has reports whether the page has a text.
func (p *Shown) Has(text string) bool { return strings.Contains(p.Body, text) }

// Hop is where the page sends the browser, or "".
func (p *Shown) Hop() string {
	_, rest, found := strings.Cut(p.Body, "<a data-hop ")
	if !found {
		return ""
	}
	return attribute(rest, "href")
}

// Wallet returns the address that opens a wallet on this device, or "".
func (p *Shown) Wallet() string {
	_, rest, found := strings.Cut(p.Body, "<a data-wallet ")
	if !found {
		return ""
	}
	return attribute(rest, "href")
}

// Passkey returns the form to use or create a passkey, and the options for the browser's passkeys.
func (p *Shown) Passkey() (action string, fields url.Values, options string, err error) {
	action, fields, err = p.form(" data-passkey ")
	if err == nil {
		_, form, _ := strings.Cut(p.Body, " data-passkey ")
		options = attribute(form, "data-options")
	}
	return action, fields, options, err
}

// form returns where a form leads, and its hidden fields. which is a text of the form's tag.
func (p *Shown) form(which string) (action string, fields url.Values, err error) {
	at := strings.Index(p.Body, which)
	if at < 0 {
		return "", nil, fmt.Errorf("testenv: %s (status %d) has no form with %s", p.URL, p.Status, which)
	}
	text := p.Body[strings.LastIndex(p.Body[:at], "<form"):]
	text, _, _ = strings.Cut(text, "</form>")
	base, err := url.Parse(p.URL)
	if err != nil {
		return "", nil, err
	}
	to, err := base.Parse(attribute(text, "action"))
	if err != nil {
		return "", nil, err
	}
	fields = url.Values{}
	for {
		_, rest, found := strings.Cut(text, `<input type="hidden" `)
		if !found {
			return to.String(), fields, nil
		}
		fields.Set(attribute(rest, "name"), attribute(rest, "value"))
		text = rest
	}
}

// attribute returns the first value of that name in a text of HTML.
func attribute(text, name string) string {
	_, rest, _ := strings.Cut(text, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}
