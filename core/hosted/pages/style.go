package pages

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
)

//go:embed verge.css
var css []byte

// Asset is a file that pages load from this host. Its path changes with its
// content, so it may be cached for ever.
type Asset struct {
	Path        string
	ContentType string
	ETag        string // quoted, as the header wants it
	Body        []byte // not to be changed
}

var style = func() Asset {
	sum := sha256.Sum256(css)
	hash := hex.EncodeToString(sum[:8])
	return Asset{
		Path:        "/verify/assets/verge." + hash + ".css",
		ContentType: "text/css; charset=utf-8",
		ETag:        `"` + hash + `"`,
		Body:        css,
	}
}()

// Style returns the stylesheet of all pages.
func Style() Asset { return style }
