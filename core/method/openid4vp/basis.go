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

// Fingerprint implements method.Fingerprinter. A verdict depends on one trust anchor or one issuer's key,
// which is its Trust, so other anchors and keys may change. It depends on the types of documents, if they
// are a setting.
func (o *openID) Fingerprint() string {
	about := []string{o.settings.profile.name}
	if o.settings.profile.sdJWT.types == nil {
		about = append(about, slices.Sorted(slices.Values(o.settings.types))...)
	}
	return verdict.Digest(about...)
}

// Trusts implements method.Truster. The lists are read only if the settings do not have the anchor.
func (o *openID) Trusts(ctx context.Context, trust string) (bool, error) {
	anchor, ok := o.settings.anchorIn(trust)
	if !ok {
		return false, nil
	}
	is := func(a mdoc.Anchor) bool { return a.Fingerprint() == anchor }
	isKey := func(k mdoc.IssuerKey) bool { return k.Fingerprint() == anchor }
	if anchor == "" || slices.ContainsFunc(o.settings.anchors, is) ||
		slices.ContainsFunc(o.settings.keys, isKey) {
		return anchor != "", nil
	}
	anchors, err := o.anchors(ctx)
	return err == nil && slices.ContainsFunc(anchors, is), err
}
