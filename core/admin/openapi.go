package admin

import (
	_ "embed"

	"github.com/verge-id/verge/core/web"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the description of the API for machines.
func OpenAPI() []byte { return openAPI }

// document describes the API for machines. It contains nothing of this service.
func document() *web.Response {
	return &web.Response{Status: 200, Body: OpenAPI(), Header: web.Header{
		"Content-Type":           {"application/yaml; charset=utf-8"},
		"Cache-Control":          {"no-cache"},
		"X-Content-Type-Options": {"nosniff"},
	}}
}
