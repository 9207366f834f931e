package workers_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/internal/bothservers"
	"github.com/verge-id/verge/edge/internal/server"
	"github.com/verge-id/verge/edge/workers"
	"github.com/verge-id/verge/wasm/abi"
)

var update = flag.Bool("update", false, "write src/routes.js")

const routesFile = "src/routes.js"

func TestRoutes_SameAsCore(t *testing.T) {
	want := routesJS(t)
	if *update {
		if err := os.WriteFile(routesFile, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(routesFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the core's tables make: run go generate ./edge/workers", routesFile)
	}
	if abi.CanaryPath != web.OpenAPIPath {
		t.Errorf("hosts ask a module for %s, and the core has that document at %s", abi.CanaryPath,
			web.OpenAPIPath)
	}
}

// routesJS is the text of src/routes.js.
func routesJS(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("// Made by go generate of the core's tables of routes. Do not edit.\n")
	for _, c := range []struct{ name, value string }{
		{"alivePath", server.AlivePath}, {"readyPath", server.ReadyPath},
		{"canaryPath", abi.CanaryPath}, {"adminRoot", admin.Root},
		{"selfPath", operate.ReadSelf.Path}, {"storePath", admin.StorePath},
		{"pendingPath", web.PendingPath},
	} {
		fmt.Fprintf(&b, "\nexport const %s = %q;", c.name, c.value)
	}
	b.WriteByte('\n')
	for _, list := range []struct {
		name   string
		values []string
	}{{"jurisdictions", workers.Jurisdictions()}, {"locationHints", workers.LocationHints()}} {
		values, err := json.Marshal(list.values)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\nexport const %s = %s;", list.name, values)
	}
	b.WriteByte('\n')
	for _, side := range []struct {
		name   string
		routes web.Table
	}{{"publicRoutes", core.Routes(core.Config{})}, {"adminRoutes", core.AdminRoutes()}} {
		fmt.Fprintf(&b, "\nexport const %s = [\n", side.name)
		for _, r := range side.routes {
			methods, err := json.Marshal(append([]string{}, r.Methods...))
			if err != nil {
				t.Fatal(err)
			}
			waits := ""
			if r.Waits {
				waits = ", waits: true"
			}
			maxURL := ""
			if r.URLLimit() != web.MaxURL {
				maxURL = fmt.Sprintf(", maxURL: %d", r.URLLimit())
			}
			fmt.Fprintf(&b, "  { methods: %s, pattern: %q, label: %q, maxBody: %d%s%s },\n",
				methods, r.Pattern, r.Label, r.BodyLimit(), maxURL, waits)
		}
		b.WriteString("];\n")
	}
	addErrorPages(t, &b)
	return b.Bytes()
}

// addErrorPages adds the texts of the core's error pages by language, their header and their style sheet.
func addErrorPages(t *testing.T, b *bytes.Buffer) {
	type text struct {
		Title string `json:"title"`
		Text  string `json:"text"`
		Again string `json:"again,omitempty"`
	}
	kinds := map[string]int{"rejected": 400, "tooLong": 414, "unavailable": 503}
	pages, header, style := map[string]map[string]text{}, map[string]string{}, ""
	for kind, status := range kinds {
		pages[kind] = map[string]text{}
		for n := range 26 * 26 { // every language of two letters
			lang := string([]byte{byte('a' + n/26), byte('a' + n%26)})
			page := core.Config{}.ErrorPage(status, &web.Request{Method: "GET",
				Header: web.Header{"Accept-Language": {lang}}})
			if page.Header.Get("Content-Language") != lang {
				continue
			}
			part := func(pattern string) string {
				found := regexp.MustCompile(pattern).FindSubmatch(page.Body)
				if found == nil {
					return ""
				}
				return string(found[1])
			}
			pages[kind][lang] = text{part(`<h1>(.*?)</h1>`), part(`<p class="lead">(.*?)</p>`),
				part(`<a class="button" href="">(.*?)</a>`)}
			style = part(`<link rel="stylesheet" href="(.*?)">`)
			for name := range page.Header {
				header[name] = page.Header.Get(name)
			}
		}
	}
	delete(header, "Content-Language")
	for _, c := range []struct {
		name  string
		value any
	}{{"stylesheet", style}, {"errorHeader", header}, {"errorPages", pages}} {
		js, err := json.MarshalIndent(c.value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(b, "\nexport const %s = %s;\n", c.name, js)
	}
}

// The Worker and the native server give a request the same label, its body the same
// limit, and log the same part of its path.
func TestRoutes_SameAsServer(t *testing.T) {
	type question struct {
		Listener string `json:"listener"`
		Method   string `json:"method"`
		Path     string `json:"path"`
	}
	type answer struct {
		Label string `json:"label"`
		Limit int    `json:"limit"`
		URL   int    `json:"url"`
		Waits bool   `json:"waits"`
		Shown string `json:"shown"`
	}
	tables := map[string]web.Table{"public": core.Routes(core.Config{}), "admin": core.AdminRoutes()}
	var questions []question
	var want []answer
	for _, c := range bothservers.Paths(t) {
		for _, method := range []string{"GET", "POST", "PUT"} {
			r := tables[c.Listener].At(method, c.Path)
			questions = append(questions, question{c.Listener, method, c.Path})
			want = append(want, answer{r.Label, r.BodyLimit(), r.URLLimit(), r.Waits, c.Logged})
		}
	}
	var got []answer
	if askWorker(t, "routes", questions, &got); len(got) != len(want) {
		t.Fatalf("%d answers, want %d", len(got), len(want))
	}
	for i, q := range questions {
		if got[i] != want[i] {
			t.Errorf("%s: %s %s: the Worker has %+v, the server %+v", q.Listener, q.Method, q.Path, got[i],
				want[i])
		}
	}
}
