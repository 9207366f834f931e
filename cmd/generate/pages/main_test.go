package main

import (
	"bytes"
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

func TestRewrite_Writes(t *testing.T) {
	got, err := rewrite([]byte(generated + writes))
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ = bytes.Cut(got, []byte("func b"))
	want := `() (templ_1a_Err error) {
	templ_1a_Buffer.HTML("<p title=\"")
	templ_1a_Buffer.Text(f("a)\n",
		"b"))
	if x {
		templ_1a_Buffer.URL(u)
		templ_1a_Buffer.SafeURL(templ.SafeURL(s))
	}
	templ_1a_Err = c().Render(ctx, templ_1a_Buffer)
	if templ_1a_Err != nil {
		return templ_1a_Err
	}
	return nil
}
`
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
}

const writes = `
func b() (templ_1a_Err error) {
templ_1a_Err = templruntime.WriteString(templ_1a_Buffer, 1, "<p title=\"")
if templ_1a_Err != nil {
return templ_1a_Err
}
var templ_1a_Var2 string
templ_1a_Var2, templ_1a_Err = templ.JoinStringErrs(f("a)\n",
"b"))
if templ_1a_Err != nil {
return templ.Error{Err: templ_1a_Err, FileName: ` + "`a.templ`" + `, Line: 1, Col: 2}
}
_, templ_1a_Err = templ_1a_Buffer.WriteString(templ.EscapeString(templ_1a_Var2))
if templ_1a_Err != nil {
return templ_1a_Err
}
if x {
var templ_1a_Var3 templ.SafeURL
templ_1a_Var3, templ_1a_Err = templ.JoinURLErrs(u)
if templ_1a_Err != nil {
return templ.Error{Err: templ_1a_Err, FileName: ` + "`a.templ`" + `, Line: 1, Col: 2}
}
_, templ_1a_Err = templ_1a_Buffer.WriteString(templ.EscapeString(templ_1a_Var3))
if templ_1a_Err != nil {
return templ_1a_Err
}
var templ_1a_Var4 templ.SafeURL
templ_1a_Var4, templ_1a_Err = templ.JoinURLErrs(templ.SafeURL(s))
if templ_1a_Err != nil {
return templ.Error{Err: templ_1a_Err, FileName: ` + "`a.templ`" + `, Line: 1, Col: 2}
}
_, templ_1a_Err = templ_1a_Buffer.WriteString(templ.EscapeString(templ_1a_Var4))
if templ_1a_Err != nil {
return templ_1a_Err
}
}
templ_1a_Err = c().Render(ctx, templ_1a_Buffer)
if templ_1a_Err != nil {
return templ_1a_Err
}
return nil
}
`

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
