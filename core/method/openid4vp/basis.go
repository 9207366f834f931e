package openid4vp

import (
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

// Trusts implements method.Truster.
func (o *openID) Trusts(anchor string) bool {
	return slices.ContainsFunc(o.settings.anchors,
		func(a mdoc.Anchor) bool { return a.Fingerprint() == anchor })
}
