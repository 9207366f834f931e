package api

import _ "embed"

// The page is generated from openapi.yaml, so that the core reads no YAML when it runs. A test compares the
// two.
//
//go:generate go run ../../../cmd/generate/docs -in openapi.yaml -out docs.html

// Paths of the documentation page and its style sheet. The page refers to web.OpenAPIPath, too.
const (
	DocsPath    = "/docs"
	DocsCSSPath = "/docs/docs.css"
	DocsJSPath  = "/docs/docs.js"

	// ExamplesPath has a signed example of every event.
	ExamplesPath = "/docs/events.json"
)

//go:embed openapi.yaml
var openAPI []byte

// docsPage is the same description as an HTML page for people. It has no inline script or style, and loads
// nothing but docsCSS and docsJS.
//
//go:embed docs.html
var docsPage []byte

//go:embed docs.css
var docsCSS []byte

//go:embed docs.js
var docsJS []byte
