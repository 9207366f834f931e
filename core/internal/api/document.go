package api

import (
	"bytes"
	"html"
	"sync"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook/snippet"
)

// checksMark is where the page has the checks.
const checksMark = "<!-- checks -->\n"

// Documents are the API's own description, with the limits and the schedule of this service.
type Documents struct {
	phrases []string // in the places of standardPhrases

	// Each is made when it is first asked for, since most guests are never asked. They have no rate limit, so
	// a request must cost no more than sending them.
	description, page, examples func() []byte
}

// NewDocuments returns the documents of a service that does what s says.
func NewDocuments(s Settings) *Documents {
	d := &Documents{phrases: s.phrases()}
	d.description = sync.OnceValue(func() []byte { return d.of(openAPI) })
	d.page = sync.OnceValue(func() []byte { return d.of(withChecks(docsPage)) })
	d.examples = sync.OnceValue(eventExamples)
	return d
}

// Answer answers GET on one of the documents; nil if there is no such file. Nobody may change the body: all
// answers share it.
func (d *Documents) Answer(path string) *web.Response {
	var contentType string
	var body []byte
	switch path {
	case web.OpenAPIPath:
		contentType, body = "application/yaml; charset=utf-8", d.description()
	case DocsPath:
		contentType, body = "text/html; charset=utf-8", d.page()
	case DocsCSSPath:
		contentType, body = "text/css; charset=utf-8", docsCSS
	case ExamplesPath:
		contentType, body = "application/json; charset=utf-8", d.examples()
	default:
		return nil
	}
	return &web.Response{Status: 200, Body: body, Header: web.Header{
		"Content-Type":  {contentType},
		"Cache-Control": {"no-cache"},
		"Content-Security-Policy": {"default-src 'none'; style-src 'self'; img-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
		"X-Content-Type-Options": {"nosniff"},
		"Referrer-Policy":        {"same-origin"},
	}}
}

// withChecks returns the page with the check of a webhook in each language at its mark. They are not in the
// page's file, because the console has most of them, too.
func withChecks(page []byte) []byte {
	var b bytes.Buffer
	before, after, _ := bytes.Cut(page, []byte(checksMark))
	b.Write(before)
	for _, s := range snippet.All() {
		b.WriteString("<details>\n<summary>" + s.Name + "</summary>\n" +
			`<pre tabindex="0" role="group" aria-label="Code: ` + s.Name + `"><code>` +
			html.EscapeString(s.Code) + "</code></pre>\n</details>\n")
	}
	b.Write(after)
	return b.Bytes()
}

// of returns a document with what is configured in place of what is standard.
func (d *Documents) of(document []byte) []byte {
	for i, phrase := range d.phrases {
		if standard := standardPhrases[i]; phrase != standard {
			document = bytes.Replace(document, []byte(standard), []byte(phrase), 1)
		}
	}
	return document
}
