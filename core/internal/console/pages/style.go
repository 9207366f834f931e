package pages

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/brand"
	"github.com/verge-id/verge/core/internal/usage"
)

//go:embed console.css
var css []byte

//go:embed console.js
var js []byte

// Asset is a file that pages load from this host.
type Asset struct {
	Path        string
	ContentType string
	ETag        string // in quotes, as in the header
	Body        []byte // must not be changed
}

// AssetsPath is the prefix of every asset's path. The rest of the path changes with the content, so that
// browsers may cache an asset indefinitely.
const AssetsPath = Root + "/assets/"

var (
	style  = asset("console", "css", "text/css; charset=utf-8", slices.Concat([]byte(usage.Style), css))
	script = asset("console", "js", "text/javascript; charset=utf-8", js)
)

func asset(name, ext, contentType string, body []byte) Asset {
	hash := hashOf(body)
	return Asset{AssetsPath + name + "." + hash + "." + ext, contentType, `"` + hash + `"`, body}
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Style returns the stylesheet of all pages.
func Style() Asset { return style }

// FindAsset returns the asset with that path.
func FindAsset(path string) (Asset, bool) {
	switch path {
	case style.Path:
		return style, true
	case script.Path:
		return script, true
	}
	accent, isPreview := strings.CutPrefix(path, previewPath)
	accent, isSheet := strings.CutSuffix(accent, ".css")
	c, ok := brand.ParseColour("#" + accent)
	if !ok || !isPreview || !isSheet {
		return Asset{}, false
	}
	return Asset{path, "text/css; charset=utf-8", `"` + previewVersion + `"`, c.Preview()}, true
}

// previewPath is the path of the colours of a preview. The script completes it with an accent and ".css".
var previewPath = AssetsPath + "accent." + previewVersion + "."

// previewVersion is a hash of the colours of one accent, so that a release with other rules has other paths.
var previewVersion = hashOf(brand.Colour(0x3366cc).Preview())

func previewSheet(accent string) string {
	return previewPath + strings.TrimPrefix(accent, "#") + ".css"
}

// Script returns the script of the pages that ask for it.
func Script() Asset { return script }
