package main

import (
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// line is a line of prose and its number in the file.
type line struct {
	number int
	text   string
}

// paragraph is prose that is read as a whole, because phrases run over the ends of lines.
type paragraph []line

// proseOf returns the paragraphs of a file: comments and sentences in strings of Go, templ, JavaScript and
// CSS, Markdown without its code, descriptions and comments of YAML and TOML, and the names of mutants.
func proseOf(name, text string) []paragraph {
	switch path.Ext(name) {
	case ".go", ".js", ".mjs", ".css":
		return ofGo(text)
	case ".templ":
		return append(ofGo(text), ofTags(text)...)
	case ".md":
		return paragraphs(numbered(1, text))
	case ".txt":
		return ofMutants(text)
	default:
		return ofConfiguration(text)
	}
}

// ofGo reads with Go's own scanner, which ignores errors: a templ file is Go between its tags, and JavaScript
// and CSS have the comments of Go.
func ofGo(text string) []paragraph {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), func(token.Position, string) {}, scanner.ScanComments)
	var out []paragraph
	var comment []line
	for {
		pos, kind, literal := s.Scan()
		number := file.Line(pos)
		if kind != token.COMMENT || len(comment) > 0 && number > comment[len(comment)-1].number+1 {
			out = append(out, paragraphs(comment)...)
			comment = nil
		}
		switch kind {
		case token.EOF:
			return out
		case token.COMMENT:
			for i, l := range strings.Split(literal, "\n") {
				if !directive.MatchString(l) {
					comment = append(comment, line{number + i, uncomment.ReplaceAllString(l, "")})
				}
			}
		case token.STRING:
			if value, err := strconv.Unquote(literal); err == nil && sentence(value) {
				out = append(out, paragraphs(numbered(number, indent.ReplaceAllString(value, "")))...)
			}
		}
	}
}

var (
	directive = regexp.MustCompile(`^//(?:go:|line |nolint)|^// Code generated`)
	uncomment = regexp.MustCompile(`^(?://|/\*) ?|\*/$`)
	words     = regexp.MustCompile(`[A-Za-z][a-z']+`)
	indent    = regexp.MustCompile(`(?m)^[ \t]+`)
	markup    = regexp.MustCompile(`[{}<>=]|https?:|SELECT |INSERT `)
)

// sentence reports whether a string is prose, and not a format, a path or code.
func sentence(s string) bool {
	return strings.Count(s, " ") >= 3 && len(words.FindAllString(s, 5)) >= 4 && !markup.MatchString(s)
}

func numbered(first int, text string) (out []line) {
	for i, l := range strings.Split(text, "\n") {
		out = append(out, line{first + i, l})
	}
	return out
}

// ofTags returns the text between the tags of a page.
func ofTags(text string) (out []paragraph) {
	for i, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(tags.ReplaceAllString(l, " ")); sentence(l) {
			out = append(out, paragraph{{i + 1, l}})
		}
	}
	return out
}

var tags = regexp.MustCompile(`<[^>]*>|\{[^}]*\}`)

// ofMutants returns the names in a file of the table of mutants.
func ofMutants(text string) (out []paragraph) {
	for _, l := range numbered(1, text) {
		if name, ok := strings.CutPrefix(l.text, "breaks: "); ok {
			out = append(out, paragraph{{l.number, name}})
		}
	}
	return out
}

// ofConfiguration returns the comments and the values that are sentences.
func ofConfiguration(text string) (out []paragraph) {
	var block []line
	for _, l := range numbered(1, text) {
		l.text = key.ReplaceAllString(strings.TrimSpace(l.text), "")
		if hash := strings.Index(l.text, "# "); hash >= 0 {
			l.text = l.text[hash+2:]
		} else if markup.MatchString(l.text) {
			l.text = ""
		}
		block = append(block, l)
	}
	for _, p := range paragraphs(block) {
		if sentence(p.String()) {
			out = append(out, p)
		}
	}
	return out
}

var key = regexp.MustCompile(`^(?:- )?[A-Za-z_]+: *(?:[|>]-?)?["']?`)

// paragraphs splits lines at empty lines, list items, rows of tables and code.
func paragraphs(lines []line) (out []paragraph) {
	var p paragraph
	end := func() {
		if len(p) > 0 {
			out = append(out, p)
		}
		p = nil
	}
	fence := false
	for _, l := range lines {
		text := strings.TrimSpace(l.text)
		switch {
		case strings.HasPrefix(text, "```"):
			fence = !fence
			end()
		case fence || text == "" || len(p) == 0 && (l.text[0] == '\t' || strings.HasPrefix(l.text, "    ")):
			end()
		case text[0] == '|':
			end()
			for cell := range strings.SplitSeq(strings.Trim(text, "|"), "|") {
				out = append(out, paragraph{{l.number, strings.TrimSpace(cell)}})
			}
		default:
			if mark := item.FindString(text); mark != "" {
				end()
				text = text[len(mark):]
			}
			p = append(p, line{l.number, text})
		}
	}
	end()
	return out
}

var item = regexp.MustCompile(`^(?:#+|[-*+]|\d+\.) +`)

// String returns the paragraph as one line. A quotation or code counts as one word.
func (p paragraph) String() string {
	var b strings.Builder
	for _, l := range p {
		b.WriteString(plain(l.text))
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// at returns the number of the line with the byte of String at an offset.
func (p paragraph) at(offset int) int {
	for _, l := range p {
		if offset -= len(plain(l.text)) + 1; offset < 0 {
			return l.number
		}
	}
	return p[len(p)-1].number
}

var quoted = regexp.MustCompile("`[^`]*`|“[^”]*”|https?://\\S+")

func plain(text string) string {
	return quoted.ReplaceAllString(text, "CODE")
}
