package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

// build describes the origin of a binary.
type build struct {
	Version  string `json:"version"`            // of the module, "(devel)" if built from a work tree
	Revision string `json:"revision,omitempty"` // of the repository
	Modified bool   `json:"modified,omitempty"` // the work tree differed from the revision
	Time     string `json:"time,omitempty"`     // of the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Module   string `json:"module,omitempty"` // SHA-256 of the built-in module
}

func thisBuild() build {
	b := build{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

// name returns the version and the revision, for reports.
func (b build) name() string {
	name := "verge " + b.Version
	if b.Revision != "" {
		name += ", revision " + b.Revision
	}
	if b.Modified {
		name += ", with local changes"
	}
	return name
}

// softwareDigest is digestOfBinary, which is computed only once. It takes a tenth of a start.
var softwareDigest = sync.OnceValue(digestOfBinary)

// digestOfBinary returns the SHA-256 of the running binary, or "" if it cannot be read.
func digestOfBinary() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return ""
	}
	return hex.EncodeToString(digest.Sum(nil))
}

func (c *versionCmd) Run(p *program) error {
	b := thisBuild()
	if m, err := builtInModule(); err == nil {
		b.Module = m.Digest
	}
	if c.JSON {
		return printJSON(p, b)
	}
	fmt.Fprintf(p.stdout, "verge %s\n", b.Version)
	if b.Revision != "" {
		changed := ""
		if b.Modified {
			changed = ", with local changes"
		}
		fmt.Fprintf(p.stdout, "revision %s of %s%s\n", b.Revision, b.Time, changed)
	}
	fmt.Fprintf(p.stdout, "%s %s\n", b.Go, b.Platform)
	if b.Module != "" {
		fmt.Fprintf(p.stdout, "built-in module %s\n", b.Module)
	}
	return nil
}
