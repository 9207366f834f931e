// Command docs makes the API's documentation page from its OpenAPI
// description. Run it with go generate after a change of openapi.yaml.
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"html/template"
	"os"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
)

func main() {
	in := flag.String("in", "openapi.yaml", "the description")
	out := flag.String("out", "docs.html", "the page")
	flag.Parse()
	description, err := os.ReadFile(*in)
	if err == nil {
		var page []byte
		if page, err = Render(description); err == nil {
			err = os.WriteFile(*out, page, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Render returns the page for a description. The same description gives the same bytes.
func Render(description []byte) (page []byte, err error) {
	doc, err := readDocument(description)
	if err != nil {
		return nil, err
	}
	// Many places need a part of the document that must be there. If it is missing, they panic, and
	// the panic ends here.
	defer func() {
		if broken, is := recover().(brokenDocument); is {
			page, err = nil, broken
		}
	}()
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, doc.page()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// The text needs no HTML, so goldmark removes it.
var commonMark = goldmark.New(goldmark.WithExtensions(extension.Table),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()))

func markdown(text string) template.HTML {
	var b bytes.Buffer
	if err := commonMark.Convert([]byte(text), &b); err != nil {
		panic(brokenDocument("markdown: " + err.Error()))
	}
	// A table may be too wide, too.
	html := strings.ReplaceAll(b.String(), "<table>", `<table tabindex="0" aria-label="Table">`)
	return template.HTML(fence.ReplaceAllStringFunc(html, reachable))
}

// fence is how goldmark begins a block of code.
var fence = regexp.MustCompile(`<pre><code(?: class="language-(\w+)")?>`)

// reachable lets the keyboard reach a block of code, which a user may have to scroll (WCAG 2.1.1), and
// gives it a name for screen readers.
func reachable(begin string) string {
	name := "Code"
	if language := fence.FindStringSubmatch(begin)[1]; language != "" {
		name += ": " + language
	}
	return strings.Replace(begin, "<pre>", `<pre tabindex="0" role="group" aria-label="`+name+`">`, 1)
}

// inline renders Markdown within a line.
func inline(text string) template.HTML {
	html := strings.TrimSpace(string(markdown(text)))
	html = strings.TrimSuffix(strings.TrimPrefix(html, "<p>"), "</p>")
	return template.HTML(html)
}
