package hosted

import (
	"context"
	"errors"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/web"
)

// loadPublisher finds the brand of the integration's publisher. A publisher that was never stored is not
// named.
func (v *visit) loadPublisher() error {
	p, err := v.Directory.Publisher(v.ctx, v.session.Integration.PublisherID)
	if errors.Is(err, integration.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	v.publisher = pages.Publisher{Name: p.Name, Accent: p.Accent}
	if p.Logo != nil {
		v.publisher.Logo, v.publisher.LogoWidth, v.publisher.LogoHeight =
			LogoPath+p.Logo.Name, p.Logo.Width, p.Logo.Height
	}
	return nil
}

// Logo serves the logo of a publisher (contract 52). Its name is a hash of its content, so it may be cached
// indefinitely. Opened as a document, it cannot run scripts or load anything.
func (h *Hosted) Logo(ctx context.Context, c *router.Call) (*web.Response, error) {
	return ServeLogo(ctx, h.Directory, c.Text)
}

// ServeLogo returns the response with a logo of that name.
func ServeLogo(ctx context.Context, d *integration.Directory, name string) (*web.Response, error) {
	file, err := d.Logo(ctx, name)
	if errors.Is(err, integration.ErrNotFound) {
		return nil, web.ErrNoPath
	}
	if err != nil {
		return nil, err
	}
	return &web.Response{Status: 200, Body: file, Header: web.Header{
		"Content-Type":                 {integration.Logo{Name: name}.ContentType()},
		"Etag":                         {`"` + name + `"`},
		"Cache-Control":                {"public, max-age=31536000, immutable"},
		"X-Content-Type-Options":       {"nosniff"},
		"Content-Security-Policy":      {"default-src 'none'; frame-ancestors 'none'; sandbox"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
	}}, nil
}
