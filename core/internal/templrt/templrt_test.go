package templrt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestEscapeString(t *testing.T) {
	for _, c := range []struct{ rule, in, want string }{
		{"a tag stays text", `<script>alert(1)</script>`, `&lt;script&gt;alert(1)&lt;/script&gt;`},
		{"a quote does not end an attribute", `" onclick="x`, `&#34; onclick=&#34;x`},
		{"nor does a single one", `' onclick='x`, `&#39; onclick=&#39;x`},
		{"what looks escaped is shown as it is", `&lt;`, `&amp;lt;`},
		{"NUL, which parsers drop or replace, never reaches them", "<\x00b", "&lt;\uFFFDb"},
		{"a lone lead byte cannot swallow the quote after it", "\xe2\"", "\uFFFD&#34;"},
		{"text of any language passes", "Größe 年齢 “ok”", "Größe 年齢 “ok”"},
	} {
		if got := EscapeString(c.in); got != c.want {
			t.Errorf("%s: %q became %q, want %q", c.rule, c.in, got, c.want)
		}
	}
}

func FuzzEscapeString(f *testing.F) {
	for _, s := range []string{"", "<", "a&b", "\x00", "\xff\"", "'>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if out := EscapeString(s); strings.ContainsAny(out, "<>\"'\x00") {
			t.Errorf("%q became %q, which is not plain text", s, out)
		}
	})
}

func TestJoinURLErrs(t *testing.T) {
	for _, c := range []struct {
		rule, in string
		ok       bool
	}{
		{"https passes", "https://shop.example/a?b=c#d", true},
		{"http passes, for development", "http://localhost:8080", true},
		{"a scheme is not case sensitive", "HTTPS://shop.example", true},
		{"a path passes", "/verify?flow=a:b", true},
		{"a query alone passes, colon or not", "?a:b", true},
		{"javascript runs", "javascript:alert(1)", false},
		{"in any case", "JaVaScRiPt:alert(1)", false},
		{"a tab inside the scheme is stripped by browsers", "java\tscript:alert(1)", false},
		{"a newline as well", "java\nscript:alert(1)", false},
		{"a blank in front as well", " javascript:alert(1)", false},
		{"a control character in front as well", "\x01javascript:alert(1)", false},
		{"data is a separate document", "data:text/html,x", false},
		{"no unknown scheme", "intent://x", false},
		{"nor an empty one", "://x", false},
	} {
		got, err := JoinURLErrs(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
		}
		if c.ok && string(got) != c.in || !c.ok && got != InvalidURL {
			t.Errorf("%s: %q became %q", c.rule, c.in, got)
		}
	}
}

func TestJoinReportsErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := JoinStringErrs("x", broken); !errors.Is(err, broken) {
		t.Errorf("JoinStringErrs reports %v", err)
	}
	if got, err := JoinURLErrs(SafeURL("wallet://a")); got != "wallet://a" || err != nil {
		t.Errorf("a URL that was judged became %q, %v", got, err)
	}
	if _, err := JoinURLErrs("x", broken); !errors.Is(err, broken) {
		t.Errorf("JoinURLErrs reports %v", err)
	}
	e := Error{Err: broken, FileName: "page.templ", Line: 3, Col: 7}
	if !errors.Is(e, broken) || e.Error() != "page.templ:3:7: broken" {
		t.Errorf("Error says %q", e)
	}
}

func text(s string) Component {
	return ComponentFunc(func(_ context.Context, w io.Writer) error {
		return WriteString(w, 1, s)
	})
}

func TestChildren(t *testing.T) {
	render := func(c Component) string {
		var b strings.Builder
		if err := c.Render(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	given := context.Background()
	if got := render(GetChildren(given)); got != "" {
		t.Errorf("a component without children renders %q for them", got)
	}
	given = WithChildren(given, text("child"))
	if got := render(GetChildren(given)); got != "child" {
		t.Errorf("children render %q", got)
	}
	cleared := ClearChildren(given)
	if got := render(GetChildren(cleared)); got != "" {
		t.Errorf("cleared children still render %q: a nested component would repeat them", got)
	}
	if got := render(GetChildren(given)); got != "child" {
		t.Errorf("clearing for a nested component took the children from the outer one: %q", got)
	}
	if got := render(GetChildren(WithChildren(cleared, text("new")))); got != "new" {
		t.Errorf("children after clearing render %q", got)
	}
}

// failing takes n writes and then fails.
type failing struct{ n int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestBuffer(t *testing.T) {
	var out bytes.Buffer
	b, existing := GetBuffer(&out)
	if existing {
		t.Error("a plain writer is taken for a Buffer: it would never be flushed")
	}
	if again, existing := GetBuffer(b); !existing || again != b {
		t.Error("a nested component does not share the outer one's Buffer")
	}
	if _, err := b.WriteString("a"); err != nil {
		t.Error(err)
	}
	if err := WriteString(b, 1, "b"); err != nil {
		t.Error(err)
	}
	if err := ReleaseBuffer(b); err != nil || out.String() != "ab" {
		t.Errorf("released %q, %v", &out, err)
	}

	b, _ = GetBuffer(&failing{})
	b.WriteString("x")
	if err := ReleaseBuffer(b); !errors.Is(err, errFull) {
		t.Errorf("a writer that fails at the end is reported as %v", err)
	}
}

func TestGeneratedTemplatePassesItsInput(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(context.Background(), key{}, "value")
	var out strings.Builder
	err := GeneratedTemplate(func(in GeneratedComponentInput) error {
		return WriteString(in.Writer, 1, in.Context.Value(key{}).(string))
	}).Render(ctx, &out)
	if err != nil || out.String() != "value" {
		t.Errorf("rendered %q, %v", &out, err)
	}
}
