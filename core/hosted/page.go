package hosted

import (
	"net/url"
	"strings"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/hosted/pages"
	"github.com/verge-id/verge/core/web"
)

// page renders a page of this visit.
func (v *visit) page(status int, view pages.View) *web.Response {
	view.Lang = v.lang
	view.Action, view.Flow = api.HostedPath, v.flow
	view.Level, view.ChallengeAge = v.session.ID.Level.String(), v.session.ID.ChallengeAge
	view.Now, view.ExpiresAt = v.now, v.session.ID.Expires()
	view.SiteOrigin = origin(string(v.claims.Callback))
	view.Sandbox = v.provider != nil && v.provider.Prompt(v.provided()).Sandbox
	return v.render(status, view)
}

// plain renders a page for a visitor of whom nothing is known.
func (h *Hosted) plain(status int, kind pages.Kind, req *web.Request) *web.Response {
	return h.render(status, pages.View{Kind: kind, Lang: language(req)})
}

func (h *Hosted) render(status int, view pages.View) *web.Response {
	body, err := pages.Render(view)
	if err != nil {
		panic(err) // a View that we made ourselves
	}
	header := pageHeader(view.SiteOrigin)
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Language", view.Lang)
	return &web.Response{Status: status, Header: header, Body: body}
}

// seeOther answers a POST by sending the browser on with a GET.
func (v *visit) seeOther(location string) *web.Response {
	header := pageHeader(origin(string(v.claims.Callback)))
	header.Set("Location", location)
	return &web.Response{Status: 303, Header: header}
}

// pageHeader allows a page our stylesheet and its own forms and nothing else.
// The callback's origin is among the form targets because Chromium holds the
// redirect after a POST to form-action as well (contract 22).
func pageHeader(callbackOrigin string) web.Header {
	formAction := "'self'"
	switch {
	case strings.Contains(callbackOrigin, "["):
		// CSP has no way to write an IPv6 address: its scheme must do.
		scheme, _, _ := strings.Cut(callbackOrigin, "//")
		formAction += " " + scheme
	case callbackOrigin != "":
		formAction += " " + callbackOrigin
	}
	return web.Header{
		"Content-Security-Policy": {"default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; " +
			"form-action " + formAction + "; frame-ancestors 'none'"},
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

// Asset answers GET on a file that pages load; nil if there is no such file.
func Asset(path string) *web.Response {
	style := pages.Style()
	if path != style.Path {
		return nil
	}
	return &web.Response{Status: 200, Body: style.Body, Header: web.Header{
		"Content-Type":           {style.ContentType},
		"Etag":                   {style.ETag},
		"Cache-Control":          {"public, max-age=31536000, immutable"},
		"X-Content-Type-Options": {"nosniff"},
	}}
}

// origin returns scheme and host of a callback that start has accepted.
func origin(callback string) string {
	u, err := url.Parse(callback)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
