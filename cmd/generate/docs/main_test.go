package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestCommittedPageIsCurrent(t *testing.T) {
	description, err := os.ReadFile("../../../core/internal/api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Render(description)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../core/internal/api/docs.html")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs.html is not what openapi.yaml gives: run go generate in core/internal/api")
	}
}

const small = `
info: {title: T, summary: S, description: "Some *text*.\n\n## A part\n\n<!-- checks -->\n\n<!-- standard checks -->\n\n<script>alert(1)</script>"}
paths:
  /p:
    post:
      operationId: op
      summary: Sum <b>
      security: [{secretKey: []}]
      parameters:
        - {name: X, in: header, required: true, description: An x., schema: {type: string, maxLength: 9}}
      requestBody:
        content:
          application/json: {schema: {$ref: '#/components/schemas/Child'}, example: {b: 1, a: ["<", null]}}
      responses:
        '204': {description: Done.}
        '404': {$ref: '#/components/responses/Lost'}
        '400':
          description: Bad.
          content: {application/json: {schema: {$ref: '#/components/schemas/Error'}}}
webhooks: {w: {post: {operationId: on, summary: W, deprecated: true}}}
components:
  responses: {Lost: {description: Nothing is here., headers: {Y: {schema: {type: string}}}}}
  schemas:
    Error: {type: object, properties: {oops: {type: string}}}
    Parent:
      type: object
      required: [a]
      properties: {a: {type: string, description: From the parent.}, b: {type: [number, 'null']}}
    Child:
      allOf: [{$ref: '#/components/schemas/Parent'}]
      properties: {a: {const: fixed}, c: {type: object, properties: {d: {type: [string, 'null'], enum: [x, y, null]}}}}
`

func TestRender(t *testing.T) {
	page, err := Render([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	for rule, want := range map[string]string{
		"the introduction is Markdown":     `<p>Some <em>text</em>.</p>`,
		"its headings are in the contents": `<li><a href="#a-part">A part</a></li>`,
		"and can be linked to":             `<h2 id="a-part">A part</h2>`,
		"an operation can be linked to":    `id="op"`,
		"text is escaped":                  `Sum &lt;b&gt;`,
		"who may call":                     `Authentication: secret key<`,
		"a parameter has its place": `<dt><code>X</code> <span class="type">string, in header</span> ` +
			`<strong>required</strong></dt>`,
		"a limit": `<span class="limit">at most 9 characters</span>`,
		"a member joined from two schemas": `<dt><code>a</code> <span class="type">string</span> ` +
			`<strong>required</strong></dt>` + "\n" + `<dd>From the parent. Always <code>fixed</code>.</dd>`,
		"a member of several types": `<span class="type">number or null</span>`,
		"a member of a member":      `<dt><code>c.d</code>`,
		"the values of an enum, of which null is a type": `<span class="type">string or null</span></dt>` + "\n" +
			`<dd> One of <code>x</code>, <code>y</code>.`,
		"examples are JSON in written order": "{\n  &#34;b&#34;: 1,\n" +
			"  &#34;a&#34;: [\n    &#34;&lt;&#34;,\n    null\n  ]\n}",
		"an error refers to the one place":      `<h5>Body: an <a href="#errors">error</a></h5>`,
		"the one place shows its members":       `<dt><code>oops</code>`,
		"what is deprecated is marked":          `class="operation deprecated" id="on"`,
		"the mark for the checks is kept":       "<!-- checks -->\n",
		"the second mark is kept":               "<!-- standard checks -->\n",
		"an operation leads to a shared answer": `<a class="status" href="#answer-Lost">404</a> <span>Nothing is here.`,
		"a shared answer is in one place":       `<details id="answer-Lost">`,
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%s: %s is not in\n%s", rule, want, page)
		}
	}
	if strings.Count(string(page), "<code>oops</code>") != 1 {
		t.Error("the members of an error are shown more than once")
	}
	if strings.Contains(string(page), "alert(1)</script>") {
		t.Error("HTML in the description reached the page")
	}
}

func TestRenderSaysWhatIsBroken(t *testing.T) {
	for _, c := range []struct{ rule, text, want string }{
		{"a reference to nothing", strings.Replace(small, "schemas/Parent'", "schemas/Missing'", 1),
			"nothing is at #/components/schemas/Missing"},
		{"an operation without a name", strings.Replace(small, "operationId: op", "x: y", 1),
			"POST /p has no operationId"},
		{"no YAML", "a: [", "sequence"},
	} {
		if _, err := Render([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.rule, err, c.want)
		}
	}
}

// TestPageKeepsToItsPolicy checks that the page works with default-src 'none'; style-src 'self'; script-src
// 'self'. The API inserts the samples and the form that sends a request.
func TestPageKeepsToItsPolicy(t *testing.T) {
	page, err := os.ReadFile("../../../core/internal/api/docs.html")
	if err != nil {
		t.Fatal(err)
	}
	for mark, inserted := range map[string]string{`<script src="/docs/docs.js" defer></script>`: "",
		samplesMark: `<h3 id="try"></h3>`} {
		if bytes.Count(page, []byte(mark)) != 1 {
			t.Errorf("the page does not have %q once", mark)
		}
		page = bytes.Replace(page, []byte(mark), []byte(inserted), 1)
	}
	for rule, pattern := range map[string]string{
		"script":             `(?i)<script|<[^>]+\son[a-z]+\s*=|javascript:`,
		"inline style":       `(?i)<style|<[^>]+\sstyle\s*=`,
		"anything loaded":    `(?i)<[^>]+\s(src|srcset|action|data)\s*=|<(iframe|object|embed|form|base|img)`,
		"a link to outside":  `(?i)<[^>]+\shref="[^#/]|<[^>]+\shref="//`,
		"a second sheet":     `(?s)rel="stylesheet".*rel="stylesheet"`,
		"a value left empty": `<code></code>|<no value>|%!`,

		"code that the keyboard does not reach (WCAG 2.1.1)": `<pre>|<pre [^t]|<pre tabindex="0">|` +
			`aria-label=""|<table>`,
	} {
		if found := regexp.MustCompile(pattern).Find(page); found != nil {
			t.Errorf("the page has %s: %.80q", rule, found)
		}
	}
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllSubmatch(page, -1) {
		if ids[string(m[1])] {
			t.Errorf("two elements are %q", m[1])
		}
		ids[string(m[1])] = true
	}
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllSubmatch(page, -1) {
		if !ids[string(m[1])] {
			t.Errorf("a link leads to %q, which is not there", m[1])
		}
	}
}
