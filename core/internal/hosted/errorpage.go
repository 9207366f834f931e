package hosted

import (
	"context"

	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/web"
)

// ErrorPage returns the page of core.Config.ErrorPage. If the request itself is wrong, such as one of an
// OpenID client, the page shows the text of the API error, if there is one, to the site's developers.
func ErrorPage(service pages.Service, status int, text string, req *web.Request) *web.Response {
	kind := rejectionKind(status)
	if req != nil && req.Path == FilePath {
		switch status {
		case 405:
			kind = pages.NoPicture
		case 413:
			kind = pages.PhotoTooLarge
		}
	}
	again := kind == pages.Unavailable || kind == pages.TooSlow || kind == pages.TooOften
	// Only a GET is offered again: a form must be sent again by the page that has it.
	return render(status, pages.View{Kind: kind, Service: service, Lang: languageOf(req), Cause: text,
		Reload: again && req != nil && req.Method == "GET"})
}

func rejectionKind(status int) pages.Kind {
	switch {
	case status == 404:
		return pages.NotFound
	case status == 408:
		return pages.TooSlow
	case status == 413:
		return pages.TooLarge
	case status == 414, status == 431:
		return pages.TooLong
	case status == 415:
		return pages.NotAForm
	case status == 429:
		return pages.TooOften
	case status >= 500:
		return pages.Unavailable
	}
	return pages.Rejected
}

// Home returns the front page, for a person who opens the host.
func (h *Hosted) Home(_ context.Context, c *router.Call) *web.Response {
	return h.respond(page{status: 200, view: pages.View{Kind: pages.Home, Lang: languageOf(c.Request)}})
}
