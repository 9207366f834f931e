package pages

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/brand"
)

// brandedView has the brand of a publisher and of an operator.
func brandedView(v *View) {
	v.Kind, v.Choices = Method, []string{"begin"}
	v.Service = Service{"Age Check", "https://op.example/help", "https://op.example/privacy"}
	v.Publisher = Publisher{Name: "Oak & Ember", Accent: "#1f5c4d", Logo: "/verify/logo/a.b.png",
		LogoWidth: 96, LogoHeight: 48}
}

func TestPublisher_AboveTheHost(t *testing.T) {
	_, page := render(t, views()["branded"])
	_, card, _ := strings.Cut(page, `class="card"`)
	head, _, _ := strings.Cut(page, `class="card"`)
	place := -1
	for _, c := range []struct{ rule, part string }{
		{"contract 52: the logo", `<img src="/verify/logo/a.b.png" alt="" width="96" height="48"`},
		{"contract 52: our words before the name", "Requested by"},
		{"contract 52: the name, as text", "<bdi>Oak &amp; Ember</bdi>"},
		{"contract 52: our words before the host", "The result goes to"},
		{"contract 52: the host", "<bdi>shop.example</bdi>"},
		{"contract 52: the heading", "<h1>"},
	} {
		n := strings.Index(card, c.part)
		if n <= place {
			t.Errorf("%s: %q is at %d, after %d", c.rule, c.part, n, place)
		}
		place = n
	}
	if strings.Contains(head, "Oak") || !strings.Contains(head, "Age Check</title>") {
		t.Errorf("contract 52: the title and the head have the service alone: %s", head)
	}
	accent, ok := AccentSheet("#1F5C4D")
	if !ok || strings.Count(head, `rel="stylesheet"`) != 2 || !strings.Contains(head, accent.Path) {
		t.Errorf("contract 52: the page loads no colours at %s", accent.Path)
	}
	for _, link := range []string{"https://op.example/help", "https://op.example/privacy"} {
		if !strings.Contains(page, `href="`+link+`" target="_blank" rel="noreferrer"`) {
			t.Errorf("contract 52: there is no link to %s", link)
		}
	}
}

func TestAccentSheet_Paths(t *testing.T) {
	a, ok := AccentSheet("#1f5c4d")
	if !ok {
		t.Fatal("contract 52: an accent has no stylesheet")
	}
	if found, ok := FindAccent(a.Path); !ok || string(found.Body) != string(a.Body) ||
		a.ContentType != "text/css; charset=utf-8" {
		t.Errorf("contract 52: the path %s has %s", a.Path, found.Body)
	}
	for _, path := range []string{"", AssetsPath, AssetsPath + "accent.1f5c4d.css",
		AssetsPath + "accent.red.css", strings.Replace(a.Path, "1f5c4d", "1f5c4e", 1),
		strings.Replace(a.Path, "1f5c4d", "1F5C4D", 1), a.Path + "x"} {
		if found, ok := FindAccent(path); ok {
			t.Errorf("contract 52: the path %q has a stylesheet, of %s", path, found.Path)
		}
	}
}

// The palette is computed for the grounds that the stylesheet has.
func TestSchemesAreTheStylesheets(t *testing.T) {
	preview := string(brand.Colour(0x0b6a5a).Preview())
	for scheme, head := range map[string]string{`[data-scheme="light"]`: ":root",
		`[data-scheme="dark"]`: "@media (prefers-color-scheme: dark)"} {
		ours := block(t, string(css), head)
		_, rest, _ := strings.Cut(preview, scheme)
		rule, _, _ := strings.Cut(rest, "}")
		for _, name := range []string{"card", "ground", "text", "muted", "control", "edge"} {
			_, value, ok := strings.Cut(rule, "--"+name+": ")
			if value, _, _ = strings.Cut(value, ";"); !ok ||
				!strings.Contains(ours, "--"+name+": "+value+";") {
				t.Errorf("contract 52: %s: --%s is %q in package brand alone", scheme, name, value)
			}
		}
	}
}
