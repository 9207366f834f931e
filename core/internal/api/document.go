package api

import (
	"bytes"
	"html"
	"sync"

	"github.com/verge-id/verge/core/internal/snippet"
	"github.com/verge-id/verge/core/web"
)

// Marks of the page. The checks of X-Service-Signature and those of Standard Webhooks replace them.
const (
	checksMark   = "<!-- checks -->\n"
	standardMark = "<!-- standard checks -->\n"
)

// Documents contains the documents of the API, with the limits and the schedule of this service.
type Documents struct {
	phrases []string // replace standardPhrases, in the same order
	baseURL string

	// Each is created on the first request, since most guests receive none. They have no rate limit, so a
	// request must cost no more than sending them. plain is the page without the samples. page is the page
	// for an unknown caller.
	description, plain, page, examples func() []byte
}

// NewDocuments returns the documents of a service with the settings s.
func NewDocuments(s Settings) *Documents {
	d := &Documents{phrases: s.phrases(), baseURL: s.BaseURL}
	d.description = sync.OnceValue(func() []byte { return d.of(openAPI) })
	d.plain = sync.OnceValue(func() []byte { return d.of(withChecks(docsPage)) })
	d.page = sync.OnceValue(func() []byte { return withSamples(d.plain(), d.baseURL, Caller{}) })
	d.examples = sync.OnceValue(eventExamples)
	return d
}

// Document returns one of the documents; nil if there is no such file. Do not change the body: all responses
// share it.
func (d *Documents) Document(path string) *web.Response {
	var contentType string
	var body []byte
	switch path {
	case web.OpenAPIPath:
		contentType, body = "application/yaml; charset=utf-8", d.description()
	case DocsPath:
		contentType, body = "text/html; charset=utf-8", d.page()
	case DocsCSSPath:
		contentType, body = "text/css; charset=utf-8", docsCSS
	case DocsJSPath:
		contentType, body = "text/javascript; charset=utf-8", docsJS
	case ExamplesPath:
		contentType, body = "application/json; charset=utf-8", d.examples()
	default:
		return nil
	}
	return &web.Response{Status: 200, Body: body, Header: web.Header{
		"Content-Type":  {contentType},
		"Cache-Control": {"no-cache"},
		"Content-Security-Policy": {"default-src 'none'; style-src 'self'; img-src 'self'; " +
			"script-src 'self'; connect-src 'self'; base-uri 'none'; " +
			"form-action 'none'; frame-ancestors 'none'"},
		"X-Content-Type-Options": {"nosniff"},
		"Referrer-Policy":        {"same-origin"},
	}}
}

// PageFor returns the page with a caller's values. Caches do not keep it.
func (d *Documents) PageFor(c Caller) *web.Response {
	resp := d.Document(DocsPath)
	resp.Body = withSamples(d.plain(), d.baseURL, c)
	resp.Header.Set("Cache-Control", "no-store")
	return resp
}

// withChecks returns the page with the checks of a webhook in each language at its marks. They are not in the
// page's file, because the console has most of them, too.
func withChecks(page []byte) []byte {
	var b bytes.Buffer
	before, rest, _ := bytes.Cut(page, []byte(checksMark))
	between, after, _ := bytes.Cut(rest, []byte(standardMark))
	all := snippet.All()
	b.Write(before)
	for _, s := range all {
		writeCode(&b, s.Name, s.Code)
	}
	b.Write(between)
	for _, s := range all {
		writeCode(&b, s.Name, s.Standard)
	}
	b.Write(after)
	return b.Bytes()
}

func writeCode(b *bytes.Buffer, language, code string) {
	b.WriteString("<details>\n<summary>" + language + "</summary>\n" +
		`<pre tabindex="0" role="group" aria-label="Code: ` + language + `"><code>` +
		html.EscapeString(code) + "</code></pre>\n</details>\n")
}

// of returns a document in which the configured values replace the standard ones.
func (d *Documents) of(document []byte) []byte {
	for i, phrase := range d.phrases {
		if standard := standardPhrases[i]; phrase != standard {
			document = bytes.Replace(document, []byte(standard), []byte(phrase), 1)
		}
	}
	return document
}
