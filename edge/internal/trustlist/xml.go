package trustlist

import (
	"bytes"
	"encoding/xml"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxAttributes = 64 // of an element
	maxNamespace  = 256

	namespaceXML   = "http://www.w3.org/XML/1998/namespace"
	namespaceXMLNS = "http://www.w3.org/2000/xmlns/"
)

// element is an element of an XML document. Comments are not kept: exclusive canonicalization without
// comments removes them, and the text around one is one text.
type element struct {
	parent     *element
	prefix     string
	space      string // the namespace that the prefix stands for
	name       string
	attributes []attribute
	namespaces []binding // that the element declares
	children   []node
}

// attribute is an attribute other than a declaration of a namespace.
type attribute struct{ prefix, space, name, value string }

// binding is a prefix and the namespace that it stands for.
type binding struct{ prefix, space string }

// node is an element, or a text if it has none.
type node struct {
	*element
	text string
}

// namespace is the form of namespaces. Other libraries reject relative ones, and disagree about odd ones.
var namespace = regexp.MustCompile(
	`^(https?://[A-Za-z0-9.-]+(/[A-Za-z0-9._~/-]*)?(#[A-Za-z0-9._~/-]*)?|urn:[A-Za-z0-9:._-]+)$`)

// declaration is the content of an XML declaration.
var declaration = regexp.MustCompile(
	`^version=("1\.0"|'1\.0')([ \t\r\n]+encoding=("(?i:utf-8)"|'(?i:utf-8)'))?` +
		`([ \t\r\n]+standalone=("(yes|no)"|'(yes|no)'))?[ \t\r\n]*$`)

// errXML is the error of a document that is not well-formed XML in UTF-8.
var errXML = rejected(Malformed, "it is not well-formed XML in UTF-8")

// xmlReader builds the tree of a document.
type xmlReader struct {
	document []byte
	*xml.Decoder
	root     *element
	open     *element // the element that the next token is in
	depth    int
	elements int
}

// readXML returns the root of a document. It rejects document types, and so entities, and processing
// instructions.
func readXML(document []byte) (*element, *Error) {
	document = bytes.TrimPrefix(document, []byte("\ufeff"))
	if !legal(document) {
		return nil, errXML
	}
	r := xmlReader{document: document, Decoder: xml.NewDecoder(bytes.NewReader(document))}
	for {
		start := r.InputOffset()
		token, err := r.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, errXML
		}
		if err := r.token(token, start); err != nil {
			return nil, err
		}
	}
	if r.root == nil || r.open != nil {
		return nil, errXML
	}
	return r.root, nil
}

// legal reports whether a document has only characters that XML allows. The decoder does not check comments.
func legal(document []byte) bool {
	for len(document) > 0 {
		c, size := utf8.DecodeRune(document)
		control := c < ' ' && c != '\t' && c != '\n' && c != '\r'
		if c == utf8.RuneError || control || c == 0xFFFE || c == 0xFFFF {
			return false
		}
		document = document[size:]
	}
	return true
}

// token adds a token, which begins at an offset of the document.
func (r *xmlReader) token(token xml.Token, start int64) *Error {
	switch t := token.(type) {
	case xml.StartElement:
		if !spaced(r.document[start:r.InputOffset()]) {
			return errXML
		}
		return r.start(t)
	case xml.EndElement:
		if r.open == nil || t.Name.Space != r.open.prefix || t.Name.Local != r.open.name {
			return errXML
		}
		r.open = r.open.parent
		r.depth--
	case xml.CharData:
		return r.text(string(t))
	case xml.ProcInst:
		if t.Target != "xml" || start != 0 || !declaration.Match(t.Inst) {
			return rejected(Unsupported, "it has a processing instruction, or another encoding than UTF-8")
		}
	case xml.Directive:
		return rejected(Unsupported, "it has a document type")
	}
	return nil
}

// text adds a text.
func (r *xmlReader) text(text string) *Error {
	if r.open == nil {
		if strings.Trim(text, " \t\r\n") != "" {
			return errXML
		}
		return nil
	}
	// It stands for a reference to a character that does not exist.
	if strings.ContainsRune(text, utf8.RuneError) {
		return errXML
	}
	r.open.children = append(r.open.children, node{text: text})
	return nil
}

// spaced reports whether there is white space before each attribute of a tag. The decoder does not
// require it.
func spaced(tag []byte) bool {
	var quote byte
	for i, c := range tag {
		switch {
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == c && c != 0:
			quote = 0
			if i+1 < len(tag) && !strings.ContainsRune(" \t\r\n/>", rune(tag[i+1])) {
				return false
			}
		}
	}
	return true
}

// start adds an element.
func (r *xmlReader) start(t xml.StartElement) *Error {
	r.elements++
	r.depth++
	if r.elements > maxElements || r.depth > maxDepth || len(t.Attr) > maxAttributes {
		return rejected(TooLarge, "it has too many or too deeply nested elements, or too many attributes")
	}
	if r.open == nil && r.root != nil {
		return errXML
	}
	e := &element{parent: r.open, prefix: t.Name.Space, name: t.Name.Local}
	for _, a := range t.Attr {
		if err := e.declare(a); err != nil {
			return err
		}
	}
	for _, a := range t.Attr {
		if err := e.attribute(a); err != nil {
			return err
		}
	}
	var ok bool
	if e.space, ok = e.lookup(e.prefix); !ok || e.prefix == "xml" || !ncName.MatchString(e.name) {
		return errXML
	}
	if r.open == nil {
		r.root = e
	} else {
		r.open.children = append(r.open.children, node{element: e})
	}
	r.open = e
	return nil
}

// ncName is the form of a name without a prefix: that of an NCName, in ASCII. The decoder accepts a:b:c and
// a:-b.
var ncName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9._-]*$`)

// isDeclaration reports whether an attribute declares a namespace.
func isDeclaration(a xml.Attr) bool {
	return a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns"
}

// declare adds a declaration of a namespace.
func (e *element) declare(a xml.Attr) *Error {
	if !isDeclaration(a) {
		return nil
	}
	b := binding{prefix: a.Name.Local, space: a.Value}
	if a.Name.Space == "" {
		b.prefix = ""
	}
	reserved := b.prefix == "xml" || b.prefix == "xmlns" ||
		b.space == namespaceXML || b.space == namespaceXMLNS
	undeclared := b.prefix == "" && b.space == ""
	if reserved || b.prefix != "" && !ncName.MatchString(b.prefix) || len(b.space) > maxNamespace ||
		!undeclared && !namespace.MatchString(b.space) {
		return rejected(Unsupported, "it declares a namespace in a form that is not accepted")
	}
	if slices.ContainsFunc(e.namespaces, func(o binding) bool { return o.prefix == b.prefix }) {
		return errXML
	}
	e.namespaces = append(e.namespaces, b)
	return nil
}

// attribute adds an attribute, once all namespaces are declared.
func (e *element) attribute(a xml.Attr) *Error {
	if isDeclaration(a) {
		return nil
	}
	n := attribute{prefix: a.Name.Space, name: a.Name.Local, value: a.Value}
	if n.prefix != "" {
		var ok bool
		if n.space, ok = e.lookup(n.prefix); !ok {
			return errXML
		}
	}
	// xml:id has rules of its own, which libraries disagree about.
	if !ncName.MatchString(n.name) || n.prefix == "xml" && n.name == "id" ||
		strings.ContainsRune(n.value, utf8.RuneError) {
		return errXML
	}
	if slices.ContainsFunc(e.attributes, func(o attribute) bool { return o.is(n.space, n.name) }) {
		return errXML
	}
	e.attributes = append(e.attributes, n)
	return nil
}

// lookup returns the namespace that a prefix stands for in an element.
func (e *element) lookup(prefix string) (space string, ok bool) {
	if prefix == "xml" {
		return namespaceXML, true
	}
	for at := e; at != nil; at = at.parent {
		for _, b := range at.namespaces {
			if b.prefix == prefix {
				return b.space, true
			}
		}
	}
	return "", prefix == ""
}

// is reports whether an element has a name in a namespace.
func (e *element) is(space, name string) bool { return e.space == space && e.name == name }

// value returns the value of an attribute without a namespace.
func (e *element) value(name string) (value string, ok bool) {
	for _, a := range e.attributes {
		if a.space == "" && a.name == name {
			return a.value, true
		}
	}
	return "", false
}

// elements returns the child elements. It is not ok if there is text between them other than white space.
func (e *element) elements() (elements []*element, ok bool) {
	for _, n := range e.children {
		switch {
		case n.element != nil:
			elements = append(elements, n.element)
		case strings.Trim(n.text, " \t\r\n") != "":
			return nil, false
		}
	}
	return elements, true
}

// content returns the text of an element without white space around it. It is not ok if it has a child
// element.
func (e *element) content() (text string, ok bool) {
	var b strings.Builder
	for _, n := range e.children {
		if n.element != nil {
			return "", false
		}
		b.WriteString(n.text)
	}
	return strings.Trim(b.String(), " \t\r\n"), true
}

// all calls a function for an element and each element in it.
func (e *element) all(visit func(*element)) {
	visit(e)
	for _, n := range e.children {
		if n.element != nil {
			n.element.all(visit)
		}
	}
}
