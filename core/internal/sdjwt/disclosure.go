package sdjwt

import (
	"slices"

	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// Names that SD-JWT reserves (RFC 9901, 4).
const (
	digests   = "_sd"
	algorithm = "_sd_alg"
	element   = "..."
)

// signedClaims are the claims of the issuer's token that must not be disclosed selectively, nor any part of
// them. They are read from the token alone.
var signedClaims = []string{"iss", "nbf", "exp", "cnf", "vct", "vct#integrity", "aka_vcts", "status"}

// disclosure is a claim of an object, or an element of an array if it has no name.
type disclosure struct {
	name    string
	isClaim bool
	value   strictjson.Value
	used    bool
}

// readDisclosure reads a JSON array: a salt, the name of a claim, and its value. A disclosure of an element
// has no name.
func readDisclosure(text string) (d disclosure, ok bool) {
	raw, ok := strict64.Decode(text)
	if !ok {
		return d, false
	}
	// Only an object is read as a whole text, so the array is put into one.
	o, err := strictjson.ReadForeign(slices.Concat([]byte(`{"d":`), raw, []byte("}")))
	if err != nil || len(o.Names()) != 1 {
		return d, false
	}
	parts, _ := o.Value("d").List()
	if len(parts) != 2 && len(parts) != 3 {
		return d, false
	}
	if _, ok := parts[0].Text(); !ok {
		return d, false
	}
	d.value = parts[len(parts)-1]
	if d.isClaim = len(parts) == 3; d.isClaim {
		if d.name, ok = parts[1].Text(); !ok {
			return d, false
		}
	}
	return d, true
}

// walk goes through the claims of a token and of its disclosures.
type walk struct {
	disclosures map[string]*disclosure // by their digests
	seen        map[string]bool        // digests
	ask         Ask
	found       []Value
}

// disclosed returns the values of the claims that are asked for (RFC 9901, 7.1). It visits every claim, since
// a digest may occur twice anywhere in the token.
func disclosed(d document, a Ask) ([]Value, error) {
	if v := d.payload.Value(algorithm); v.Present() {
		if name, _ := v.Text(); name != "sha-256" {
			return nil, rejected(badAlgorithm)
		}
	}
	w := walk{map[string]*disclosure{}, map[string]bool{}, a, make([]Value, len(a.Claims))}
	for _, text := range d.disclosures {
		read, ok := readDisclosure(text)
		if !ok {
			return nil, rejected(badDisclosure)
		}
		digest := hashOf(text)
		if w.disclosures[digest] != nil {
			return nil, rejected(disclosureTwice)
		}
		w.disclosures[digest] = &read
	}
	if err := w.object(d.payload, nil); err != nil {
		return nil, err
	}
	for _, d := range w.disclosures {
		if !d.used {
			return nil, rejected(disclosureUnused)
		}
	}
	return w.found, nil
}

// object visits the claims of an object, and those that are disclosed in it.
func (w *walk) object(o strictjson.Object, path []string) error {
	top := len(path) == 0
	for name, v := range o.All() {
		switch {
		case name == element:
			return rejected(reservedName)
		case name == digests, top && (name == algorithm || slices.Contains(signedClaims, name)):
			continue
		}
		if err := w.value(v, append(path, name)); err != nil {
			return err
		}
	}
	if !o.Has(digests) {
		return nil
	}
	list, ok := o.Value(digests).List()
	if !ok {
		return rejected(badDigest)
	}
	var names []string
	for _, v := range list {
		d, err := w.take(v)
		if err != nil || d == nil {
			if err != nil {
				return err
			}
			continue
		}
		switch {
		case !d.isClaim:
			return rejected(badDisclosure)
		case d.name == digests, d.name == element, d.name == algorithm,
			top && slices.Contains(signedClaims, d.name):
			return rejected(reservedName)
		case o.Has(d.name), slices.Contains(names, d.name):
			return rejected(claimTwice)
		}
		names = append(names, d.name)
		if err := w.value(d.value, append(path, d.name)); err != nil {
			return err
		}
	}
	return nil
}

// inArray stands for an element in the path of a claim. No path that is asked for has it.
const inArray = "\x00"

// value visits the value of a claim.
func (w *walk) value(v strictjson.Value, path []string) error {
	if len(path) > maxDepth {
		return rejected(tooDeep)
	}
	for i, asked := range w.ask.Claims {
		if slices.Equal(asked, path) {
			w.found[i] = Value{v, w.ask.TextBools}
		}
	}
	if o, ok := v.Object(); ok {
		return w.object(o, path)
	}
	list, _ := v.List()
	for _, v := range list {
		if o, _ := v.Object(); o.Has(element) {
			d, err := w.take(o.Value(element))
			switch {
			case err != nil:
				return err
			case len(o.Names()) != 1:
				return rejected(reservedName)
			case d == nil:
				continue
			case d.isClaim:
				return rejected(badDisclosure)
			}
			v = d.value
		}
		if err := w.value(v, append(path, inArray)); err != nil {
			return err
		}
	}
	return nil
}

// take returns the disclosure of a digest, nil if the wallet does not disclose it or the digest is a decoy.
func (w *walk) take(v strictjson.Value) (*disclosure, error) {
	digest, ok := v.Text()
	switch {
	case !ok:
		return nil, rejected(badDigest)
	case w.seen[digest]:
		return nil, rejected(digestTwice)
	}
	w.seen[digest] = true
	d := w.disclosures[digest]
	if d != nil {
		d.used = true
	}
	return d, nil
}
