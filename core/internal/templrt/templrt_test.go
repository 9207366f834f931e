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

// written returns what f adds to a Buffer.
func written(t *testing.T, f func(*Buffer)) string {
	t.Helper()
	var out strings.Builder
	b, _ := GetBuffer(&out)
	f(b)
	if err := ReleaseBuffer(b); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestBuffer_URL(t *testing.T) {
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
		want := c.in
		if !c.ok {
			want = string(InvalidURL)
		}
		if got := written(t, func(b *Buffer) { b.URL(c.in) }); got != want {
			t.Errorf("%s: %q became %q", c.rule, c.in, got)
		}
	}
}

func TestBuffer_Escapes(t *testing.T) {
	got := written(t, func(b *Buffer) {
		b.HTML(`<a href="`)
		b.URL("/?a&b")
		b.HTML(`"> <a href="`)
		b.SafeURL("wallet://a?b&c")
		b.HTML(`">`)
		b.Text("<b>")
	})
	if want := `<a href="/?a&amp;b"> <a href="wallet://a?b&amp;c">&lt;b&gt;`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func text(s string) Component {
	return ComponentFunc(func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
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
	b.HTML("a")
	if _, err := b.Write([]byte("b")); err != nil {
		t.Error(err)
	}
	if err := ReleaseBuffer(b); err != nil || out.String() != "ab" {
		t.Errorf("released %q, %v", &out, err)
	}

	for _, size := range []int{1, 10_000} { // fails at the end, and before
		w := &failing{}
		b, _ = GetBuffer(w)
		for range 3 {
			b.Text(strings.Repeat("x", size))
		}
		if err := ReleaseBuffer(b); !errors.Is(err, errFull) {
			t.Errorf("%d bytes: a writer that fails is reported as %v", size, err)
		}
		if w.n != -1 {
			t.Errorf("%d bytes: %d writes, want none after the failed one", size, -w.n)
		}
	}
}

func TestGeneratedTemplatePassesItsInput(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(context.Background(), key{}, "value")
	var out strings.Builder
	err := GeneratedTemplate(func(in GeneratedComponentInput) error {
		_, err := io.WriteString(in.Writer, in.Context.Value(key{}).(string))
		return err
	}).Render(ctx, &out)
	if err != nil || out.String() != "value" {
		t.Errorf("rendered %q, %v", &out, err)
	}
}
