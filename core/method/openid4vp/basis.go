package openid4vp

import (
	"context"
	"slices"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/method"
)

var (
	_ method.Fingerprinter = (*openID)(nil)
	_ method.Truster       = (*openID)(nil)
)

// Fingerprint implements method.Fingerprinter. Of the trust anchors a verdict depends on one alone, which is
// its Trust, so the others may change.
func (o *openID) Fingerprint() string { return verdict.Digest(o.settings.profile.name) }

// Trusts implements method.Truster. The lists are read only if the settings do not have the anchor.
func (o *openID) Trusts(ctx context.Context, anchor string) (bool, error) {
	is := func(a mdoc.Anchor) bool { return a.Fingerprint() == anchor }
	if anchor == "" || slices.ContainsFunc(o.settings.anchors, is) {
		return anchor != "", nil
	}
	anchors, err := o.anchors(ctx)
	return err == nil && slices.ContainsFunc(anchors, is), err
}
