// Command pages compiles the .templ files of the current folder into Go
// that runs on core/internal/templrt instead of templ's own runtime.
//
// go generate runs it in the folder of the templates. A second run makes no changes, so "go generate && git
// diff --exit-code" proves that the committed code is current. It is a build tool and never part of the core,
// so it may use os and run programs.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// compiler is named with its version and is not in go.mod, because none of its code is linked.
const compiler = "github.com/a-h/templ/cmd/templ@v0.3.977"

const runtimePackage = "github.com/verge-id/verge/core/internal/templrt"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate/pages:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := filepath.Glob("*.templ")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no .templ file in the current folder: run it from the package that " +
			"holds the templates")
	}
	for _, name := range files {
		compiled, err := compile(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out, err := rewrite(compiled)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(strings.TrimSuffix(name, ".templ")+"_templ.go", out, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile asks for one file on standard output. So a failure half-way leaves no file that imports the
// wrong runtime.
func compile(name string) ([]byte, error) {
	cmd := exec.Command("go", "run", compiler, "generate", "-f", name, "-stdout")
	cmd.Env = append(os.Environ(), "GOOS=", "GOARCH=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	return out, nil
}

// component begins the function of a template. Without the directive that rewrite puts before it, the
// compiler copies a template into every place that uses it, which made the guest 600 KB larger (90 KB with
// gzip).
var component = regexp.MustCompile(`(?m)^(func .*templ\.Component\s+\{)`)

// The compiler writes literal HTML, texts and URLs, and checks the error after each write. Package templrt
// returns the first error when it releases the buffer, so each write is one call. This made the guest 640 KB
// smaller (83 KB with gzip).
var (
	literal = regexp.MustCompile(`templ_\w+_Err = templruntime\.WriteString\((templ_\w+_Buffer), \d+, (.*)\)\n` +
		check)
	text    = expression("JoinStringErrs", `.*?`)
	url     = expression("JoinURLErrs", `.*?`)
	safeURL = expression("JoinURLErrs", `templ\.SafeURL\(.*?`)
)

const check = `\s*if templ_\w+_Err != nil \{\n\s*return templ_\w+_Err\n\s*\}\n`

// expression matches the statements that write an expression. The expression is the first group, the buffer
// the second.
func expression(join, pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)var templ_\w+ (?:string|templ\.SafeURL)\n` +
		`\s*templ_\w+, templ_\w+_Err = templ\.` + join + `\((` + pattern + `)\)\n` +
		`\s*if templ_\w+_Err != nil \{\n\s*return templ\.Error\{[^\n]*\n\s*\}\n` +
		`\s*_, templ_\w+_Err = (templ_\w+_Buffer)\.WriteString\(templ\.EscapeString\(templ_\w+\)\)\n` + check)
}

// rewrite replaces the two runtime imports, keeps the compiler from copying templates, and writes to the
// buffer without a check of each error. Apart from formatting, it changes no other byte. Our runtime is one
// package, imported under both names.
func rewrite(src []byte) ([]byte, error) {
	for _, imp := range []struct{ from, to string }{
		{"\nimport \"github.com/a-h/templ\"\n", "\nimport templ \"" + runtimePackage + "\"\n"},
		{"\nimport templruntime \"github.com/a-h/templ/runtime\"\n",
			"\nimport templruntime \"" + runtimePackage + "\"\n"},
	} {
		if n := bytes.Count(src, []byte(imp.from)); n != 1 {
			return nil, fmt.Errorf("%q occurs %d times in what %s made, not once: "+
				"its output has changed, look at it", strings.TrimSpace(imp.from), n, compiler)
		}
		src = bytes.Replace(src, []byte(imp.from), []byte(imp.to), 1)
	}
	if bytes.Contains(src, []byte(`"github.com/a-h/templ`)) {
		return nil, fmt.Errorf("an import of github.com/a-h/templ is left: take it out of the template")
	}
	src = component.ReplaceAll(src, []byte("//go:noinline\n$1"))
	src = literal.ReplaceAll(src, []byte("$1.HTML($2)\n"))
	src = text.ReplaceAll(src, []byte("$2.Text($1)\n"))
	src = safeURL.ReplaceAll(src, []byte("$2.SafeURL($1)\n"))
	src = url.ReplaceAll(src, []byte("$2.URL($1)\n"))
	return format.Source(src)
}
