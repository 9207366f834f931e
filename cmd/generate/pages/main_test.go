package main

import (
	"strings"
	"testing"
)

const generated = `package x

import "github.com/a-h/templ"
import templruntime "github.com/a-h/templ/runtime"

func a() templ.Component   { return templruntime.GeneratedTemplate(nil) }
`

func TestRewrite(t *testing.T) {
	got, err := rewrite([]byte(generated))
	if err != nil {
		t.Fatal(err)
	}
	want := `package x

import templ "github.com/verge-id/verge/core/internal/templrt"
import templruntime "github.com/verge-id/verge/core/internal/templrt"

//go:noinline
func a() templ.Component { return templruntime.GeneratedTemplate(nil) }
`
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
}

func TestRewriteRejectsWhatItDoesNotKnow(t *testing.T) {
	for rule, src := range map[string]string{
		"a compiler that imports otherwise": strings.Replace(generated,
			`import "github.com/a-h/templ"`, `import t "github.com/a-h/templ"`, 1),
		"no runtime import": strings.Replace(generated,
			"import templruntime", "// import templruntime", 1),
		"a template that imports templ itself": generated + "\nimport \"github.com/a-h/templ/safehtml\"\n",
		"what is not Go":                       generated + "}",
	} {
		if got, err := rewrite([]byte(src)); err == nil {
			t.Errorf("%s: no error, but\n%s", rule, got)
		}
	}
}
