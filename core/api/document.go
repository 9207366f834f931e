package api

import "github.com/verge-id/verge/core/web"

// Document answers GET on the API's own description; nil if there is no such file.
func Document(path string) *web.Response {
	var contentType string
	var body []byte
	switch path {
	case OpenAPIPath:
		contentType, body = "application/yaml; charset=utf-8", OpenAPI()
	case DocsPath:
		contentType, body = "text/html; charset=utf-8", docsPage
	case DocsCSSPath:
		contentType, body = "text/css; charset=utf-8", docsCSS
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
