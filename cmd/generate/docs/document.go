package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Types for page.html.
type (
	page struct {
		Title, Summary       string
		Intro, Samples       template.HTML
		Headings             []heading
		Operations, Webhooks []operation
		Answers              []response // those that operations share
		// the body of most error responses; the page shows it once
		Error *body
	}
	heading   struct{ ID, Text string }
	operation struct {
		ID, Method, Path string
		Summary          string
		Description      template.HTML
		Auth             string
		Deprecated       bool
		Parameters       []field
		Request          *body
		Responses        []response
	}
	response struct {
		Status      string // empty for a shared response
		ID          string // of a shared response; an operation then only links to it
		Description template.HTML
		Headers     []field
		Body        *body
	}
	body struct {
		IsError  bool // it has the fields of page.Error
		Fields   []field
		Examples []example
	}
	example struct{ Title, Text string }
	field   struct {
		Name, Where, Type string
		Required          bool
		Limits            []string
		Values            []string
		Description       template.HTML
	}
)

// brokenDocument is the error about a missing part of the description.
type brokenDocument string

func (b brokenDocument) Error() string { return "openapi.yaml: " + string(b) }

// node is a mapping, in its order.
type node = yaml.MapSlice

type document struct{ root node }

func readDocument(text []byte) (*document, error) {
	var root node
	if err := yaml.UnmarshalWithOptions(text, &root, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	return &document{root}, nil
}

func get(n node, key string) any {
	for _, item := range n {
		if item.Key == key {
			return item.Value
		}
	}
	return nil
}

func text(n node, key string) string {
	s, _ := get(n, key).(string)
	return s
}

func list(n node, key string) []any {
	l, _ := get(n, key).([]any)
	return l
}

// sub returns the mapping under key, after following its reference. It returns nil if the key is missing.
func (d *document) sub(n node, key string) node {
	m, _ := get(n, key).(node)
	return d.resolve(m)
}

// resolve follows a reference into this document.
func (d *document) resolve(n node) node {
	ref := text(n, "$ref")
	if ref == "" {
		return n
	}
	at := d.root
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		next, found := get(at, step).(node)
		if !found {
			panic(brokenDocument("nothing is at " + ref))
		}
		at = next
	}
	return d.resolve(at)
}

const errorRef = "#/components/schemas/Error"

func (d *document) page() page {
	info := d.sub(d.root, "info")
	p := page{
		Title:   text(info, "title"),
		Summary: text(info, "summary"),
		Intro:   intro(text(info, "description")),
		Samples: samplesMark,
	}
	if schema := d.sub(d.sub(d.sub(d.root, "components"), "schemas"), "Error"); schema != nil {
		p.Error = &body{Fields: d.fields("", schema)}
	}
	for line := range strings.Lines(text(info, "description")) {
		if title, found := strings.CutPrefix(line, "## "); found {
			title = strings.TrimSpace(title)
			p.Headings = append(p.Headings, heading{strings.ReplaceAll(strings.ToLower(title), " ", "-"),
				title})
		}
	}
	for _, item := range d.sub(d.sub(d.root, "components"), "responses") {
		r := d.response(item.Value.(node))
		r.ID = answerID(item.Key.(string))
		if r.Body != nil && r.Body.IsError {
			if p.Error != nil && p.Error.Examples == nil {
				p.Error.Examples = r.Body.Examples
			}
			r.Body = &body{IsError: true} // the page shows one example of an error, and the description all
		}
		p.Answers = append(p.Answers, r)
	}
	for _, path := range d.sub(d.root, "paths") {
		for _, method := range path.Value.(node) {
			p.Operations = append(p.Operations,
				d.operation(strings.ToUpper(method.Key.(string)), path.Key.(string), method.Value.(node)))
		}
	}
	for _, hook := range d.sub(d.root, "webhooks") {
		p.Webhooks = append(p.Webhooks, d.operation("POST", hook.Key.(string),
			d.sub(hook.Value.(node), "post")))
	}
	return p
}

// mark is a line at which the service inserts the checks of a webhook when it serves the page.
var mark = regexp.MustCompile(`(?m)^<!-- (standard )?checks -->\n`)

// samplesMark marks the place of the samples with the service's own address.
const samplesMark = "<!-- samples -->\n"

// intro renders the introduction, and keeps the marks.
func intro(text string) template.HTML {
	var all template.HTML
	for {
		at := mark.FindStringIndex(text)
		if at == nil {
			return all + markdown(text)
		}
		all += markdown(text[:at[0]]) + template.HTML(text[at[0]:at[1]])
		text = text[at[1]:]
	}
}

func (d *document) operation(method, path string, n node) operation {
	op := operation{
		ID: text(n, "operationId"), Method: method, Path: path, Summary: text(n, "summary"),
		Description: markdown(text(n, "description")), Auth: d.auth(n),
		Deprecated: get(n, "deprecated") == true,
		Request:    d.body(d.sub(n, "requestBody")),
	}
	if op.ID == "" || op.Summary == "" {
		panic(brokenDocument(method + " " + path + " has no operationId or no summary"))
	}
	for _, item := range list(n, "parameters") {
		p := d.resolve(item.(node))
		f := d.field(text(p, "name"), d.sub(p, "schema"))
		f.Where, f.Required = text(p, "in"), get(p, "required") == true
		f.Description = inline(text(p, "description"))
		op.Parameters = append(op.Parameters, f)
	}
	for _, item := range d.sub(n, "responses") {
		answer := d.response(d.resolve(item.Value.(node)))
		answer.Status = fmt.Sprint(item.Key)
		if name, shared := strings.CutPrefix(text(item.Value.(node), "$ref"),
			"#/components/responses/"); shared {
			answer = response{Status: answer.Status, Description: answer.Description, ID: answerID(name)}
		}
		op.Responses = append(op.Responses, answer)
	}
	return op
}

// response describes a response, whose reference is already followed.
func (d *document) response(r node) response {
	answer := response{Description: inline(text(r, "description")), Body: d.body(r)}
	for _, item := range d.sub(r, "headers") {
		h := d.resolve(item.Value.(node))
		f := d.field(item.Key.(string), d.sub(h, "schema"))
		f.Description = inline(text(h, "description"))
		answer.Headers = append(answer.Headers, f)
	}
	return answer
}

// answerID is the anchor of a shared response.
func answerID(name string) string { return "answer-" + name }

// auth returns the required credential in a few words.
func (d *document) auth(n node) string {
	secret, anyone := false, false
	for _, item := range list(n, "security") {
		if get(item.(node), "secretKey") != nil {
			secret = true
		} else {
			anyone = true
		}
	}
	switch {
	case secret && anyone:
		return "secret key, or public key in the body"
	case secret:
		return "secret key"
	case anyone:
		return "none"
	}
	return ""
}

// body returns the content of a request or response, which has one media type.
func (d *document) body(n node) *body {
	content := d.sub(n, "content")
	if len(content) == 0 {
		return nil
	}
	media := content[0].Value.(node)
	b := &body{}
	if schema, _ := get(media, "schema").(node); text(schema, "$ref") == errorRef {
		b.IsError = true
	} else {
		b.Fields = d.fields("", d.resolve(schema))
	}
	if e := get(media, "example"); e != nil {
		b.Examples = append(b.Examples, example{"Example", indented(e)})
	}
	for _, item := range d.sub(media, "examples") {
		e := item.Value.(node)
		b.Examples = append(b.Examples, example{text(e, "summary"), indented(get(e, "value"))})
	}
	return b
}

// fields lists the members of an object. A member of an inner object has a name with a dot.
func (d *document) fields(prefix string, schema node) []field {
	properties, required := d.properties(schema)
	var fields []field
	for _, item := range properties {
		member := d.resolve(item.Value.(node))
		f := d.field(prefix+item.Key.(string), member)
		f.Required = slices.Contains(required, item.Key)
		fields = append(fields, f)
		fields = append(fields, d.fields(f.Name+".", member)...)
		if items := d.sub(member, "items"); items != nil {
			fields = append(fields, d.fields(f.Name+"[].", items)...)
		}
	}
	return fields
}

// properties collects the members of an object and those of its allOf. If both have a member, the
// object's own replaces the other, but keeps its place and its description.
func (d *document) properties(schema node) (properties node, required []any) {
	for _, part := range list(schema, "allOf") {
		more, names := d.properties(d.resolve(part.(node)))
		properties, required = append(properties, more...), append(required, names...)
	}
	for _, item := range d.sub(schema, "properties") {
		at := slices.IndexFunc(properties, func(other yaml.MapItem) bool { return other.Key == item.Key })
		if at < 0 {
			properties = append(properties, item)
			continue
		}
		// The object's own keywords come first, so that get finds them.
		merged := append(slices.Clone(d.resolve(item.Value.(node))),
			d.resolve(properties[at].Value.(node))...)
		properties[at].Value = merged
	}
	return properties, append(required, list(schema, "required")...)
}

// field describes one schema, whose reference is already followed.
func (d *document) field(name string, schema node) field {
	f := field{Name: name, Description: inline(text(schema, "description"))}
	variants := list(schema, "anyOf")
	for _, v := range variants {
		variant := d.field("", d.resolve(v.(node)))
		f.Type = join(f.Type, variant.Type)
		f.Values = append(f.Values, variant.Values...)
	}
	switch t := get(schema, "type").(type) {
	case string:
		f.Type = t
	case []any:
		for _, one := range t {
			f.Type = join(f.Type, fmt.Sprint(one))
		}
	}
	if format := text(schema, "format"); format != "" {
		f.Type += " (" + format + ")"
	}
	if v := get(schema, "const"); v != nil {
		f.Values = []string{fmt.Sprint(v)}
	} else {
		for _, v := range list(schema, "enum") {
			if v != nil { // the type implies it
				f.Values = append(f.Values, fmt.Sprint(v))
			}
		}
	}
	for _, limit := range []struct{ keyword, words string }{
		{"minLength", "at least %v characters"}, {"maxLength", "at most %v characters"},
		{"minimum", "at least %v"}, {"maximum", "at most %v"},
	} {
		if v := get(schema, limit.keyword); v != nil && v != uint64(1) {
			f.Limits = append(f.Limits, fmt.Sprintf(limit.words, v))
		}
	}
	return f
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + " or " + b
}

// indented returns a value as JSON, with the members in their order.
func indented(value any) string {
	var compact, b bytes.Buffer
	writeJSON(&compact, value)
	if err := json.Indent(&b, compact.Bytes(), "", "  "); err != nil {
		panic(brokenDocument("an example: " + err.Error()))
	}
	return b.String()
}

func writeJSON(b *bytes.Buffer, value any) {
	switch v := value.(type) {
	case node:
		for i, item := range v {
			b.WriteByte("{,"[min(i, 1)])
			writeJSON(b, item.Key)
			b.WriteByte(':')
			writeJSON(b, item.Value)
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, item)
		}
		b.WriteByte(']')
	default:
		encoder := json.NewEncoder(b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			panic(brokenDocument("an example: " + err.Error()))
		}
	}
}
