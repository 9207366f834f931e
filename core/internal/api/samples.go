package api

import (
	"bytes"
	"embed"
	"html"
	"strings"

	"github.com/verge-id/verge/core/web"
)

// samplesMark is where the page has the samples of the calls and the request to try.
const samplesMark = "<!-- samples -->\n"

//go:embed samples
var sampleFiles embed.FS

var samples = []struct{ name, file string }{
	{"Node.js", "node.mjs"}, {"Python", "python.py"}, {"Go", "go.txt"},
}

// Caller has the values of the person who reads the documentation. Empty fields are unknown.
type Caller struct {
	Integration string // its id
	Callback    string // an address that the integration allows
}

// sampleValues returns the values for the names in a sample.
func sampleValues(baseURL string, c Caller) *strings.Replacer {
	pairs := []string{"BASE_URL", baseURL}
	if c.Integration != "" {
		pairs = append(pairs, "INTEGRATION_ID", c.Integration)
	}
	if c.Callback != "" {
		pairs = append(pairs, "CALLBACK_URL", c.Callback)
	}
	return strings.NewReplacer(pairs...)
}

// sampleCode returns the code of a sample.
func sampleCode(file string) string {
	b, err := sampleFiles.ReadFile("samples/" + file)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(b)
}

// withSamples returns the page with the samples at their mark, for a caller.
func withSamples(page []byte, baseURL string, c Caller) []byte {
	var b bytes.Buffer
	before, after, _ := bytes.Cut(page, []byte(samplesMark))
	b.Write(bytes.ReplaceAll(before, []byte("$BASE_URL"), []byte(html.EscapeString(baseURL))))
	values := sampleValues(baseURL, c)
	for _, s := range samples {
		b.WriteString("<details>\n<summary>" + s.name + "</summary>\n" +
			`<pre tabindex="0" role="group" aria-label="Start and validate: ` + s.name + `"><code>` +
			html.EscapeString(values.Replace(sampleCode(s.file))) + "</code></pre>\n</details>\n")
	}
	field := func(name, label, value, holder string) {
		b.WriteString(`<p><label for="try-` + name + `">` + label + `</label><input id="try-` + name + `" name="` +
			name + `" required autocomplete="off" spellcheck="false" value="` + html.EscapeString(value) +
			`" placeholder="` + holder + `"></p>` + "\n")
	}
	b.WriteString(`<h3 id="try">Send a request</h3>
<p>Start a session from this page with a public key. The integration must list <code>` +
		html.EscapeString(baseURL) + `</code> as a browser origin, and the callback's origin as a callback origin.</p>
<p data-try-off>The form needs JavaScript.</p>
<form data-try="` + web.StartPath + `" hidden>
`)
	field("public_key", "Public key", "", "svc_pk_…")
	field("integration_id", "Integration id", c.Integration, "3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11")
	field("callback_url", "Callback URL", c.Callback, "https://shop.example/callback")
	b.WriteString(`<p><button type="submit">Start a session</button></p>
</form>
<pre tabindex="0" role="status" aria-label="Response" data-try-response hidden></pre>
<p data-try-link hidden><a rel="noopener">Open the redirect_url</a></p>
`)
	b.Write(after)
	return b.Bytes()
}
