package hosted

import (
	"context"
	"net/url"

	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// MaxFileBody is the most bytes of a form with a picture: the picture, and room for the other fields.
const MaxFileBody = method.MaxFile + web.MaxBody

// ActFile answers POST on the path of forms with a picture. Apart from how the form is written it is Act.
func (h *Hosted) ActFile(ctx context.Context, c *web.Call) *web.Response {
	req := c.Request
	if c.CheckSize() != nil {
		return h.plain(413, pages.PhotoTooLarge, req)
	}
	contentType := req.Header.Get("Content-Type")
	if web.MediaType(contentType) != "multipart/form-data" {
		return h.plain(415, pages.NotAForm, req)
	}
	form, file, err := web.ReadFileForm(contentType, req.Body, pages.FileField, formParams...)
	if len(file) > method.MaxFile {
		return h.plain(413, pages.PhotoTooLarge, req)
	}
	return h.post(ctx, req, form, file, err)
}

// MaxCredentialBody is the most bytes of a form with the answer of a browser's wallet: the answer as a form
// spells it, and room for the other fields.
const MaxCredentialBody = method.MaxCall + web.MaxBody

// ActCredential answers POST on the path of forms with the response of a browser's wallet. It is Act with
// another limit of the body, and rejects other forms.
func (h *Hosted) ActCredential(ctx context.Context, c *web.Call) *web.Response {
	return h.actOn(ctx, c, func(form url.Values) bool { return form.Has(method.CredentialField) })
}
