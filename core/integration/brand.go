package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/brand"
	"github.com/verge-id/verge/core/kv"
)

// Logo is the logo of a publisher. Its file is stored apart from the publisher, under its name.
type Logo struct {
	// Name is a hash of the publisher's id, a hash of the file, and the format. So a file belongs to one
	// publisher, and a name to one content.
	Name   string `json:"name"`
	Width  int    `json:"width"` // pixels
	Height int    `json:"height"`
}

// logoItems is the prefix of the files. The name proves the content, so the items have no MAC.
const logoItems = "c/logo/"

// logoRest is the time for which a replaced logo remains.
const logoRest = time.Hour

// MaxLogo is the maximum number of bytes of a logo.
const MaxLogo = brand.MaxLogo

// Bytes of the hashes in a name.
const (
	ownerHash = 8
	fileHash  = 16
)

// SetLogo returns p with the logo in file, or without a logo if file is empty. problem is the reason why the
// file is no logo, or "".
func (p Publisher) SetLogo(file []byte) (next Publisher, problem string) {
	if p.Logo = nil; len(file) == 0 {
		return p, ""
	}
	read, problem := brand.ReadLogo(file)
	if problem != "" {
		return p, problem
	}
	owner := sha256.Sum256([]byte(p.ID))
	p.Logo = &Logo{Width: read.Width, Height: read.Height,
		Name: hex.EncodeToString(owner[:ownerHash]) + "." + hashOf(file) + "." + string(read.Format)}
	return p, ""
}

func hashOf(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:fileHash])
}

// PutLogo returns the writes that go along with p when its logo changes from was to p.Logo, which SetLogo has
// read from file. The old file remains for an hour, for pages that name it.
func (d *Directory) PutLogo(ctx context.Context, was *Logo, p Publisher, file []byte) ([]kv.Put, error) {
	if was.name() == p.Logo.name() {
		return nil, nil
	}
	var puts []kv.Put
	if p.Logo != nil {
		if next, problem := p.SetLogo(file); problem != "" || next.Logo.name() != p.Logo.name() {
			return nil, fmt.Errorf("publisher %q: its logo is not the given file", p.ID)
		}
		puts = []kv.Put{{Name: logoItems + p.Logo.Name, Value: file}}
	}
	if was != nil {
		old, err := d.Logo(ctx, was.Name)
		if err == nil {
			puts = append(puts,
				kv.Put{Name: logoItems + was.Name, Value: old, Expires: d.now().Add(logoRest)})
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return puts, nil
}

// name returns the name of a logo, or "" without one.
func (l *Logo) name() string {
	if l == nil {
		return ""
	}
	return l.Name
}

// ContentType returns the media type of the logo with that name, or "" if it is no name of a logo.
func (l Logo) ContentType() string {
	parts := strings.Split(l.Name, ".")
	if len(parts) != 3 || len(parts[0]) != 2*ownerHash || len(parts[1]) != 2*fileHash ||
		strings.Trim(parts[0]+parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return brand.Format(parts[2]).ContentType()
}

// Logo returns the file of a logo. The error is ErrNotFound if the file is missing or has another hash than
// its name.
func (d *Directory) Logo(ctx context.Context, name string) ([]byte, error) {
	if (Logo{Name: name}).ContentType() == "" {
		return nil, ErrNotFound
	}
	item, err := d.kv.Get(ctx, itemKey(logoItems+name))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	read, problem := brand.ReadLogo(item.Value)
	if problem != "" || !strings.HasSuffix(name, "."+hashOf(item.Value)+"."+string(read.Format)) {
		d.log.Error("logo rejected: the file has another hash", "item", item.Key.String())
		return nil, ErrNotFound
	}
	return item.Value, nil
}

// AccentProblem returns the reason why text is no accent colour, or "". The empty text is none, and valid.
func AccentProblem(text string) string {
	if _, ok := brand.ParseColour(text); !ok && text != "" {
		return "accent must be # and six hexadecimal digits, such as #0b6a5a"
	}
	return ""
}

// brand adds the changes of a brand. A logo is shown by its hash.
func (c *changes) brand(was, p Publisher) {
	c.add("accent", was.Accent, p.Accent)
	c.add("logo", was.Logo.name(), p.Logo.name())
}
