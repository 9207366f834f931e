package pages

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"slices"

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
	ETag        string // quoted, as the header wants it
	Body        []byte // not to be changed
}

// AssetsPath begins the path of every asset. The rest of the path changes with the content, so that browsers
// may keep an asset for ever.
const AssetsPath = Root + "/assets/"

var (
	style  = asset("console", "css", "text/css; charset=utf-8", slices.Concat([]byte(usage.Style), css))
	script = asset("console", "js", "text/javascript; charset=utf-8", js)
)

func asset(name, ext, contentType string, body []byte) Asset {
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:8])
	return Asset{AssetsPath + name + "." + hash + "." + ext, contentType, `"` + hash + `"`, body}
}

// Style returns the stylesheet of all pages.
func Style() Asset { return style }

// Script returns the script of the pages that ask for it.
func Script() Asset { return script }
