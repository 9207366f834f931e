package pages

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/verge-id/verge/core/internal/language"
)

// cameraPage returns the form of the camera page in a language.
func cameraPage(t *testing.T, lang string) (doc, form *html.Node) {
	t.Helper()
	v := views()["camera"]
	v.Lang = lang
	doc, _ = render(t, v)
	for _, f := range find(doc, "form") {
		if attr(f, "data-step") == "camera" {
			return doc, f
		}
	}
	t.Fatal("contract 37: the page has no form data-step=camera")
	return nil, nil
}

func parts(form *html.Node) map[string]*html.Node {
	all := map[string]*html.Node{}
	for d := range form.Descendants() {
		if name := attr(d, "data-part"); name != "" {
			all[name] = d
		}
	}
	return all
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func TestCamera_WithoutScript(t *testing.T) {
	doc, form := cameraPage(t, "en")
	if attr(form, "method") != "post" || attr(form, "action") != "/verify/file" ||
		attr(form, "enctype") != "multipart/form-data" {
		t.Errorf("the form is posted by %q to %q as %q", attr(form, "method"), attr(form, "action"),
			attr(form, "enctype"))
	}
	var fields []Field
	var file *html.Node
	for _, in := range find(form, "input") {
		switch attr(in, "type") {
		case "hidden":
			fields = append(fields, Field{attr(in, "name"), attr(in, "value")})
		case "file":
			file = in
		default:
			t.Errorf("an input of type %q", attr(in, "type"))
		}
	}
	if want := []Field{{"flow", "flow-token"}, {"provider", "provider-token"}}; !slices.Equal(fields, want) {
		t.Errorf("the form posts %v, want %v", fields, want)
	}
	if file == nil || attr(file, "name") != "image" || attr(file, "accept") != "image/jpeg" ||
		attr(file, "capture") != "user" || !has(file, "required") {
		t.Fatal("contract 37: the form has no file named image that takes a JPEG of the user")
	}
	labelled := slices.ContainsFunc(find(form, "label"), func(l *html.Node) bool {
		return attr(l, "for") == attr(file, "id") && textOf(l) != ""
	})
	hint := slices.ContainsFunc(find(form, "p"), func(p *html.Node) bool {
		return attr(p, "id") == attr(file, "aria-describedby") && strings.Contains(textOf(p), "1 MB")
	})
	if !labelled || !hint {
		t.Errorf("WCAG 3.3.2: the file has a label: %v, and a hint: %v", labelled, hint)
	}

	// Parts that only the script can use are hidden, and parts that are needed without it are not.
	for name, n := range parts(form) {
		want := !slices.Contains([]string{"says", "file", "use", "video", "guide"}, name)
		if has(n, "hidden") != want {
			t.Errorf("without script, the part %q is hidden: %v, want %v", name, has(n, "hidden"), want)
		}
	}
	submits := 0
	for _, b := range find(form, "button") {
		if attr(b, "type") == "submit" {
			submits++
		} else if attr(b, "type") != "button" {
			t.Errorf("the button %q has the type %q", textOf(b), attr(b, "type"))
		}
	}
	if submits != 1 {
		t.Errorf("the form has %d submit buttons, want 1", submits)
	}
	if scripts := find(doc, "script"); len(scripts) != 1 || attr(scripts[0], "src") != CameraScript().Path ||
		!has(scripts[0], "defer") {
		t.Error("the page does not load the one script")
	}
}

func TestPages_Scripts(t *testing.T) {
	for name, v := range views() {
		doc, _ := render(t, v)
		want := v.Kind == Method && (v.Camera || v.Credential != nil) || v.Passkey != nil || v.AgainURL != ""
		if got := len(find(doc, "script")) > 0; got != want {
			t.Errorf("%s: has a script: %v", name, got)
		}
	}
	v := views()["camera"]
	v.FileAction = "https://evil.example/"
	if _, err := Render(v); err == nil {
		t.Error("a form on another host is rendered")
	}
}

// The script and the page have no common language but names, so a mistyped one would be silent.
func TestCamera_ScriptMatchesPage(t *testing.T) {
	_, form := cameraPage(t, "en")
	known := parts(form)
	used := regexp.MustCompile(`part\.([a-z]+)`).FindAllSubmatch(cameraJS, -1)
	if len(used) < 10 {
		t.Fatalf("the script uses %d parts", len(used))
	}
	for _, m := range used {
		if known[string(m[1])] == nil {
			t.Errorf("the script uses the part %q, which the page has not", m[1])
		}
	}
	table := regexp.MustCompile(`(?s)const shown = \{(.*?)\};`).FindSubmatch(cameraJS)
	if table == nil {
		t.Fatal("the script has no table of the shown parts")
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\s+([a-z]+):`).FindAllSubmatch(table[1], -1) {
		shown[string(m[1])] = true
	}
	for name := range known {
		if shown[name] != (name != "says") {
			t.Errorf("the script's table has the part %q: %v", name, shown[name])
		}
	}
	for name := range shown {
		if known[name] == nil {
			t.Errorf("the script shows the part %q, which the page has not", name)
		}
	}
	for _, lang := range language.All {
		_, form := cameraPage(t, lang)
		for _, state := range cameraStates {
			if attr(form, "data-"+state) == "" {
				t.Errorf("%s: the page has no text for the state %s", lang, state)
			}
		}
	}
	for _, state := range cameraStates {
		if !bytes.Contains(cameraJS, []byte(`"`+state+`"`)) {
			t.Errorf("the script never enters the state %q", state)
		}
	}
	if !strings.Contains(strings.Join(slices.Collect(maps.Keys(known)), " "), "stage") {
		t.Error("the page has no stage")
	}
}

// A call that the page's policy forbids would fail silently, and a request could send the picture away.
func TestCamera_ScriptSendsNoRequest(t *testing.T) {
	for _, word := range []string{"fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon", "import", "eval",
		"innerHTML",
		"createObjectURL", "localStorage", "sessionStorage", "document.cookie", "http:", "https:",
		"audio: true"} {
		if bytes.Contains(cameraJS, []byte(word)) {
			t.Errorf("contract 22, 37: the script has %q", word)
		}
	}
	s := CameraScript()
	if !regexp.MustCompile(`^/verify/assets/camera\.[0-9a-f]{16}\.js$`).MatchString(s.Path) ||
		s.ContentType != "text/javascript; charset=utf-8" || !strings.Contains(s.CacheControl, "immutable") {
		t.Errorf("the asset is %s, %s, %s", s.Path, s.ContentType, s.CacheControl)
	}
}
