package hosted

import (
	"slices"

	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/web"
)

// page renders a page of this visit.
func (v *visit) page(status int, view pages.View) *web.Response {
	view.Lang = v.lang
	view.Action, view.FileAction, view.Flow = web.HostedPath, web.FilePath, v.flow
	view.Level, view.ChallengeAge = v.session.ID.Level.String(), v.session.ID.ChallengeAge
	view.Now, view.ExpiresAt = v.now, v.session.ID.Expires()
	view.SiteOrigin, _ = weburl.Site(string(v.claims.Callback))
	view.Sandbox = view.Sandbox || v.onlySandbox()
	view.Dev = v.Dev
	view.OnPhone = v.phone != nil
	return render(status, view)
}

// onlySandbox reports whether nothing that the integration offers is real.
func (v *visit) onlySandbox() bool {
	return len(v.offers) > 0 && !slices.ContainsFunc(v.offers, isBound)
}

// plain renders a page for a visitor without a good flow token.
func (h *Hosted) plain(status int, kind pages.Kind, req *web.Request) *web.Response {
	return render(status, pages.View{Kind: kind, Lang: languageOf(req)})
}

func render(status int, view pages.View) *web.Response {
	body, err := pages.Render(view)
	if err != nil {
		panic(err) // a View that we made ourselves
	}
	script := ""
	if view.Camera || view.Credential != nil || view.Passkey != nil || view.AgainURL != "" {
		script = "script-src 'self'; "
	}
	if view.AgainURL != "" {
		script += "connect-src 'self'; "
	}
	header := web.PageHeader(script)
	if view.Camera {
		header.Set("Permissions-Policy", "camera=(self), microphone=(), geolocation=(), payment=()")
	}
	if view.Credential != nil {
		header.Set("Permissions-Policy",
			"camera=(), microphone=(), geolocation=(), payment=(), digital-credentials-get=(self)")
	}
	if view.Passkey != nil {
		header.Set("Permissions-Policy", header.Get("Permissions-Policy")+
			", publickey-credentials-get=(self), publickey-credentials-create=(self)")
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Language", view.Lang)
	return &web.Response{Status: status, Header: header, Body: body}
}

// hop is the only way by which the browser leaves our site (contract 22): a page that goes on to the address
// by itself and also has it as a link. A redirect after the POST would not do: form-action would have to
// allow it, and each further redirect of the publisher as well. The page sends no referrer, since its own
// address holds the flow token.
func (v *visit) hop(view pages.View, to string) *web.Response {
	view.HopURL = to
	resp := v.page(200, view)
	resp.Header.Set("Referrer-Policy", "no-referrer")
	return resp
}

// seeOther answers a POST: it sends the browser to a page of ours.
func (v *visit) seeOther(location string) *web.Response {
	header := web.PageHeader("")
	header.Set("Location", location)
	return &web.Response{Status: 303, Header: header}
}

var assets = []pages.Asset{pages.Style(), pages.Icon(), pages.CameraScript(), pages.CredentialScript(),
	pages.PasskeyScript(), pages.WaitScript()}

// HasAsset reports whether pages load a file from this path.
func HasAsset(path string) bool {
	return slices.ContainsFunc(assets, func(a pages.Asset) bool { return a.Path == path })
}

// Asset answers GET on a file that pages load; nil if there is no such file.
func Asset(path string) *web.Response {
	for _, a := range assets {
		if path == a.Path {
			return &web.Response{Status: 200, Body: a.Body, Header: web.Header{
				"Content-Type":           {a.ContentType},
				"Etag":                   {a.ETag},
				"Cache-Control":          {a.CacheControl},
				"X-Content-Type-Options": {"nosniff"},
			}}
		}
	}
	return nil
}
