package console

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/hosted"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// maxBrandBody is the maximum number of bytes of the form with a logo.
const maxBrandBody = integration.MaxLogo + web.MaxBody

// errPreview shows the page again with the values of the form.
var errPreview = errors.New("console: a preview")

// logoField is the name of the input with the logo.
const logoField = "logo_base64" // as in errors of operations

// ActFile serves POST of a form with a file.
func (c *Console) ActFile(ctx context.Context, r *router.Call) *web.Response {
	req := r.Request
	if r.CheckSize() != nil {
		return c.plain(413, pages.ProblemData{Heading: "The logo is too large", Tone: pages.Bad,
			Text: "A logo may have at most 64 KiB. Nothing was changed. Go back and choose a smaller file."})
	}
	contentType := req.Header.Get("Content-Type")
	if web.MediaType(contentType) != "multipart/form-data" {
		return c.plain(415, notOurs)
	}
	form, file, err := formdata.ReadFile(contentType, req.Body, logoField, params...)
	return c.actOn(ctx, req, form, file, err)
}

// logo serves the logo of a publisher. The console may be on another origin than the hosted pages.
func (c *Console) logo(ctx context.Context, r *router.Call) (*web.Response, error) {
	return hosted.ServeLogo(ctx, c.Directory, r.Text)
}

func showBrand(v *visit) (view, error) {
	f := v.frame("Brand")
	f.Script = true
	f.Accent = pages.PreviewAccent(v.publisher.Accent)
	if v.form.Has("accent") {
		f.Accent = pages.PreviewAccent(strings.TrimSpace(v.form.Get("accent")))
	}
	return view{frame: f, body: pages.Brand(f)}, nil
}

func saveBrand(v *visit) (next, error) {
	if v.form.Has("preview") {
		return next{}, errPreview
	}
	version, err := v.version()
	if err != nil {
		return next{}, err
	}
	in := operate.PublisherInput{Accent: v.text("accent")}
	switch {
	case len(v.file) > 0:
		logo := base64.StdEncoding.EncodeToString(v.file)
		in.Logo = &logo
	case v.form.Has("no_logo"):
		in.Logo = new(string)
	}
	_, err = v.Operations.ChangePublisher(v.ctx, v.who(), v.publisher.ID, version, in)
	return next{path: v.mine("brand"),
		note: done("Saved. The pages show the new brand within 5 seconds.")}, err
}
