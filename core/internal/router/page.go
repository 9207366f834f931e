package router

import (
	"context"

	"github.com/verge-id/verge/core/web"
)

// PageHeader returns the header of every page for people (contract 22, 43). Such a page cannot be framed,
// cached or indexed. It loads its stylesheet and pictures from this host, and sends its forms there. more is
// the addition of a page with a script to the Content-Security-Policy, such as "script-src 'self'; ".
func PageHeader(more string) web.Header {
	return web.Header{
		"Content-Security-Policy": {"default-src 'none'; style-src 'self'; img-src 'self'; " + more +
			"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
		"X-Frame-Options":              {"DENY"},
		"X-Content-Type-Options":       {"nosniff"},
		"Referrer-Policy":              {"same-origin"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"Permissions-Policy":           {"camera=(), microphone=(), geolocation=(), payment=()"},
		"Strict-Transport-Security":    {"max-age=31536000"},
		"Cache-Control":                {"no-store"},
		"X-Robots-Tag":                 {"noindex, nofollow"},
	}
}

// LimitPages limits a handler of pages by the client's address. The files that pages load, and the
// documentation, have no rate: they cost the store nothing.
func LimitPages(l web.Limits, serve Handler) Handler {
	return func(ctx context.Context, c *Call) (*web.Response, error) {
		err := c.Take(ctx, l.PagesPerIP.ForClient("page-ip", c.Client))
		if err != nil {
			return nil, err
		}
		return serve(ctx, c)
	}
}

// NotModified returns a 304 response with the entity tag. It has no body, and so no Content-Type.
func NotModified(tag string) *web.Response {
	header := make(web.Header, 8)
	header["Etag"], header["Cache-Control"] = []string{tag}, []string{"no-store"}
	return &web.Response{Status: 304, Header: header}
}
