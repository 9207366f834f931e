package trustlist

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// maxCanonical is the maximum number of bytes of a canonical form. It can be longer than the document,
// because declarations of namespaces are repeated where they are used.
const maxCanonical = 4 * MaxSize

// canonical returns the form of an element by Exclusive XML Canonicalization 1.0 without comments and without
// a prefix list, leaving out one of the elements in it.
func canonical(e, without *element) ([]byte, *Error) {
	return canonicalWithin(e, without, maxCanonical)
}

func canonicalWithin(e, without *element, limit int) ([]byte, *Error) {
	w := canonicalWriter{without: without, limit: limit}
	w.element(e)
	if w.Len() > w.limit {
		return nil, rejected(TooLarge, "its canonical form has more than 64 MiB")
	}
	return w.Bytes(), nil
}

type canonicalWriter struct {
	bytes.Buffer
	without  *element
	limit    int       // stops writing
	rendered []binding // declarations that the output has around this place, innermost last
}

func (w *canonicalWriter) element(e *element) {
	if e == w.without || w.Len() > w.limit {
		return
	}
	outside := len(w.rendered)
	name := qualified(e.prefix, e.name)
	w.WriteString("<" + name)
	w.declarations(e)
	w.attributes(e)
	w.WriteByte('>')
	for _, n := range e.children {
		if n.element != nil {
			w.element(n.element)
		} else {
			_, _ = textEscapes.WriteString(w, n.text)
		}
	}
	w.WriteString("</" + name + ">")
	w.rendered = w.rendered[:outside]
}

// declarations writes the namespaces that an element uses in its name or in those of its attributes, if the
// output around it has not declared them.
func (w *canonicalWriter) declarations(e *element) {
	used := []binding{{e.prefix, e.space}}
	for _, a := range e.attributes {
		if a.prefix != "" && a.prefix != "xml" {
			used = append(used, binding{a.prefix, a.space})
		}
	}
	slices.SortFunc(used, func(a, b binding) int { return strings.Compare(a.prefix, b.prefix) })
	for _, b := range slices.Compact(used) {
		if w.declared(b.prefix) == b.space {
			continue
		}
		w.rendered = append(w.rendered, b)
		if b.prefix == "" {
			w.attribute("xmlns", b.space)
		} else {
			w.attribute("xmlns:"+b.prefix, b.space)
		}
	}
}

// declared returns the namespace that a prefix stands for in the output.
func (w *canonicalWriter) declared(prefix string) string {
	for _, b := range slices.Backward(w.rendered) {
		if b.prefix == prefix {
			return b.space
		}
	}
	return ""
}

// attributes writes the attributes of an element in order: by namespace, then by name.
func (w *canonicalWriter) attributes(e *element) {
	sorted := slices.SortedFunc(slices.Values(e.attributes), func(a, b attribute) int {
		return cmp.Or(strings.Compare(a.space, b.space), strings.Compare(a.name, b.name))
	})
	for _, a := range sorted {
		w.attribute(qualified(a.prefix, a.name), a.value)
	}
}

func (w *canonicalWriter) attribute(name, value string) {
	w.WriteString(" " + name + `="`)
	_, _ = valueEscapes.WriteString(w, value)
	w.WriteByte('"')
}

func qualified(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + ":" + name
}

var (
	textEscapes  = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#xD;")
	valueEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;", "\t", "&#x9;", "\n", "&#xA;",
		"\r", "&#xD;")
)
