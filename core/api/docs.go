package api

import _ "embed"

// The page is made from openapi.yaml when the code is written, so that the
// core reads no YAML when it runs. A test holds the two together.
//
//go:generate go run ../../cmd/generate/docs -in openapi.yaml -out docs.html

// Where the description and the page are served. The page asks for the other two by these paths.
const (
	OpenAPIPath = "/api/v1/openapi.yaml"
	DocsPath    = "/docs"
	DocsCSSPath = "/docs/docs.css"
)

//go:embed openapi.yaml
var openAPI []byte

// docsPage is the same description as an HTML page for people. It has no
// script and no inline style, and loads nothing but docsCSS.
//
//go:embed docs.html
var docsPage []byte

//go:embed docs.css
var docsCSS []byte

// OpenAPI is the API's description in OpenAPI 3.1, as YAML. The caller must not change it.
func OpenAPI() []byte { return openAPI }
