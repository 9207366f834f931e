// Package templrt is the runtime of our templ templates.
//
// templ (github.com/a-h/templ) compiles a .templ file into Go code that calls a
// runtime package. templ's own runtime imports net/http and os, which the core
// must not. This package is the part of it that our templates call. The generator
// below replaces the calls that write. Put
//
//	//go:generate go run ../../../../cmd/generate/pages
//
// (the path to that generator) into the package that holds the
// .templ files; it runs the compiler and points the generated imports here.
//
// It offers text and attribute expressions, conditions, loops, URL attributes and
// components with children. It leaves out on purpose: inline style and script,
// nonces and CSS components, which our Content-Security-Policy forbids; spread
// attributes, class expressions and expressions that return an error, which we do
// not use; and raw HTML, which is not safe. A template that uses one of these does
// not compile.
//
// It promises that an expression comes out as text, wherever in a document it
// stands. It never becomes a tag, an attribute or a script.
package templrt

import (
	"bytes"
	"context"
	"html"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Component is a rendered template.
type Component interface {
	// Render writes the component's HTML. After an error, w holds a part of it.
	Render(ctx context.Context, w io.Writer) error
}

// ComponentFunc is a function as a Component.
type ComponentFunc func(ctx context.Context, w io.Writer) error

// Render calls the function.
func (f ComponentFunc) Render(ctx context.Context, w io.Writer) error { return f(ctx, w) }

// NopComponent renders nothing. It stands for the children of a component that
// was given none.
var NopComponent Component = ComponentFunc(func(context.Context, io.Writer) error { return nil })

// GeneratedComponentInput is the input of a generated body. With it, generated code need not import context
// and io.
type GeneratedComponentInput struct {
	Context context.Context
	Writer  io.Writer
}

// GeneratedTemplate is a generated body as a Component.
func GeneratedTemplate(f func(GeneratedComponentInput) error) Component {
	return ComponentFunc(func(ctx context.Context, w io.Writer) error {
		return f(GeneratedComponentInput{ctx, w})
	})
}

type childrenKey struct{}

// InitializeContext returns the context unchanged. The function of templ prepares a context that is later
// changed in place; ours is never changed in place.
func InitializeContext(ctx context.Context) context.Context { return ctx }

// WithChildren hands children to the component that is rendered next.
func WithChildren(ctx context.Context, children Component) context.Context {
	return context.WithValue(ctx, childrenKey{}, children)
}

// ClearChildren takes the children away again. Otherwise a nested component would
// inherit those of the component around it.
func ClearChildren(ctx context.Context) context.Context {
	if ctx.Value(childrenKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, childrenKey{}, nil)
}

// GetChildren returns the children handed over, or NopComponent.
func GetChildren(ctx context.Context) Component {
	if c, ok := ctx.Value(childrenKey{}).(Component); ok {
		return c
	}
	return NopComponent
}

// Buffer collects the many small writes of one document. [ReleaseBuffer] writes them together, and returns
// the error: the generator removes the checks after each one.
type Buffer struct {
	b bytes.Buffer
	w io.Writer
}

// buffers has Buffers that have grown to the size of a document.
var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// Write adds p. A component that is not generated may call it.
func (b *Buffer) Write(p []byte) (int, error) { return b.b.Write(p) }

// HTML adds literal HTML of the template.
func (b *Buffer) HTML(s string) { b.b.WriteString(s) }

// Text adds an expression as text.
func (b *Buffer) Text(s string) { b.b.WriteString(EscapeString(s)) }

// URL adds an expression as a URL, for href and action. A URL of a scheme other than http and https becomes
// InvalidURL, so that none can run as script.
func (b *Buffer) URL(s string) { b.SafeURL(safeURL(s)) }

// SafeURL adds a URL unchanged: the template's author has had it judged.
func (b *Buffer) SafeURL(s SafeURL) { b.Text(string(s)) }

// GetBuffer returns w itself if it is a Buffer already, and a new one around w
// otherwise. So a document has one Buffer, however deep its components are nested.
func GetBuffer(w io.Writer) (b *Buffer, existing bool) {
	if b, ok := w.(*Buffer); ok {
		return b, true
	}
	b = buffers.Get().(*Buffer)
	b.b.Reset()
	b.w = w
	return b, false
}

// ReleaseBuffer writes the document. The component that created the buffer calls
// it, once and last.
func ReleaseBuffer(b *Buffer) error {
	_, err := b.w.Write(b.b.Bytes())
	b.w = nil
	buffers.Put(b)
	return err
}

// EscapeString makes text safe between tags and inside quoted attributes (the
// compiler quotes every attribute). It replaces NUL and invalid UTF-8, which HTML
// cannot contain, because parsers treat these in different ways.
func EscapeString(s string) string {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}
	return html.EscapeString(s)
}

// SafeURL is a URL that is safe in href or action.
type SafeURL string

// InvalidURL replaces an unsafe URL. It opens no page.
const InvalidURL SafeURL = "about:invalid"

// safeURL checks s as browsers parse it. Browsers strip tabs and newlines anywhere and leading white space
// before they search for a scheme. A strict parser does not. So safeURL rejects every URL with such
// characters.
func safeURL(s string) SafeURL {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }) {
		return InvalidURL
	}
	end := strings.IndexAny(s, ":/?#")
	if end >= 0 && s[end] == ':' && !strings.EqualFold(s[:end], "https") &&
		!strings.EqualFold(s[:end], "http") {
		return InvalidURL
	}
	return SafeURL(s)
}
