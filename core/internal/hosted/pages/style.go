package pages

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/verge-id/verge/core/internal/brand"
)

//go:embed verge.css
var css []byte

// The mark of the pages, which cmd/generate/icon draws.
//
//go:embed favicon.ico
var ico []byte

// Asset is a file that pages load from this host.
type Asset struct {
	Path         string
	ContentType  string
	ETag         string // quoted, as the header wants it
	CacheControl string
	Body         []byte // not to be changed
}

// AssetsPath begins the path of an asset whose name changes with its content.
const AssetsPath = "/verify/assets/"

// Content types of assets.
const (
	javaScript = "text/javascript; charset=utf-8"
	styleSheet = "text/css; charset=utf-8"
)

var style = asset("verge", "css", styleSheet, css)

// asset returns an asset whose path changes with its content, so it may be cached indefinitely.
func asset(name, ext, contentType string, body []byte) Asset {
	digest := hash(body)
	return Asset{
		Path:         AssetsPath + name + "." + digest + "." + ext,
		ContentType:  contentType,
		ETag:         `"` + digest + `"`,
		CacheControl: "public, max-age=31536000, immutable",
		Body:         body,
	}
}

// AccentSheet returns the stylesheet with the colours of an accent, #rrggbb. It is false if the text is none.
func AccentSheet(accent string) (Asset, bool) {
	c, ok := brand.ParseColour(accent)
	if !ok {
		return Asset{}, false
	}
	return asset(accentName+c.String()[1:], "css", styleSheet, c.Sheet()), true
}

const accentName = "accent."

// FindAccent returns the stylesheet of an accent with that path.
func FindAccent(path string) (Asset, bool) {
	rest, _ := strings.CutPrefix(path, AssetsPath+accentName)
	digits, _, _ := strings.Cut(rest, ".")
	a, ok := AccentSheet("#" + digits)
	return a, ok && a.Path == path
}

// favicon has the path that browsers request automatically.
var favicon = Asset{
	Path:         "/favicon.ico",
	ContentType:  "image/x-icon",
	ETag:         `"` + hash(ico) + `"`,
	CacheControl: "public, max-age=86400",
	Body:         ico,
}

// Style returns the stylesheet of all pages.
func Style() Asset { return style }

// Icon returns the picture that browsers show next to the title.
func Icon() Asset { return favicon }

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
