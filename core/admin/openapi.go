package admin

import (
	"context"
	_ "embed"

	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/web"
)

//go:generate go test -run ^TestOpenAPI_Generated$ . -update

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the OpenAPI description.
func OpenAPI() []byte { return openAPI }

// document serves the description of the API. It has no data of the service.
func document(context.Context, *router.Call) *web.Response {
	return &web.Response{Status: 200, Body: OpenAPI(), Header: web.Header{
		"Content-Type":           {"application/yaml; charset=utf-8"},
		"Cache-Control":          {"no-cache"},
		"X-Content-Type-Options": {"nosniff"},
	}}
}
