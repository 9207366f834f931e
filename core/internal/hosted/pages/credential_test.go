package pages

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// credentialPage returns the form of the page that asks the browser's wallets.
func credentialPage(t *testing.T) (doc, form *html.Node) {
	t.Helper()
	doc, _ = render(t, views()["wallet, asked"])
	for _, f := range find(doc, "form") {
		if attr(f, "data-step") == "credential" {
			return doc, f
		}
	}
	t.Fatal("contract 39: the page has no form data-step=credential")
	return nil, nil
}

func TestCredentialForm_Page(t *testing.T) {
	doc, form := credentialPage(t)
	if !has(form, "hidden") || attr(form, "method") != "post" || attr(form, "action") != "/verify/wallet" {
		t.Errorf("contract 39: without its script the form is shown: %v, and posts to %q",
			!has(form, "hidden"), attr(form, "action"))
	}
	var fields []Field
	for _, in := range find(form, "input") {
		fields = append(fields, Field{attr(in, "name"), attr(in, "value")})
	}
	want := []Field{{"flow", "flow-token"}, {"provider", "provider-token"}, {"credential", ""}}
	if !slices.Equal(fields, want) {
		t.Errorf("the form posts %v, want %v", fields, want)
	}
	if attr(form, "data-protocol") != "org-iso-mdoc" || attr(form, "data-request") != `{"a":"b\"<"}` {
		t.Errorf("the request is %q by %q", attr(form, "data-request"), attr(form, "data-protocol"))
	}
	// Programs that know the first request alone find it where it was before there were several.
	if want := `[{"protocol":"openid4vp-v1-signed","data":{"request":"a.b.c"}}]`; attr(form,
		"data-more") != want {
		t.Errorf("contract 55: the other requests are %s, want %s", attr(form, "data-more"), want)
	}
	var scripts []string
	for _, s := range find(doc, "script") {
		scripts = append(scripts, attr(s, "src"))
	}
	if want := []string{WaitScript().Path, CredentialScript().Path}; !slices.Equal(scripts, want) {
		t.Errorf("the page loads %v, want %v", scripts, want)
	}
	// The script rejects by the form that the page has for that.
	if !slices.ContainsFunc(find(doc, "form"),
		func(f *html.Node) bool { return attr(f, "data-outcome") == "cancel" }) {
		t.Error("the page has no form for cancelling")
	}
}

// The script and the page have no common language but names, so a mistyped one would be silent.
func TestCredential_ScriptMatchesPage(t *testing.T) {
	_, form := credentialPage(t)
	var used []string
	for _, m := range regexp.MustCompile(`form\.dataset\.([a-z]+)`).FindAllSubmatch(credentialJS, -1) {
		used = append(used, string(m[1]))
	}
	for _, m := range regexp.MustCompile(`\{ ([a-z, ]+) \} = form\.dataset`).FindAllSubmatch(credentialJS,
		-1) {
		used = append(used, strings.Split(string(m[1]), ", ")...)
	}
	if len(used) < 5 {
		t.Fatalf("the script uses the attributes %q", used)
	}
	for _, name := range used {
		if !has(form, "data-"+name) {
			t.Errorf("the script reads data-%s, which the form does not have", name)
		}
	}
	if parts(form)["says"] == nil {
		t.Error("the form has no part in which it says something")
	}
}

// The notice about a document that does not help does not ask for another attempt with it.
func TestDocumentNotice(t *testing.T) {
	for _, reason := range documentReasons {
		for _, left := range []int{0, 1, 2} {
			v := views()["wallet, "+reason]
			v.Notice.AttemptsLeft = left
			p, err := compose(v, "en", messages("en"))
			if err != nil {
				t.Fatal(err)
			}
			heading, about := messages("en")("notice."+reason), messages("en")("notice."+reason+".text")
			want := map[int]string{0: about, 1: about + " You have 1 attempt left.",
				2: about + " You have 2 attempts left."}[left]
			if p.notice == nil || heading == "" || about == "" || p.notice.heading != heading ||
				p.notice.text != want {
				t.Errorf("contract 55: %s, %d attempts left: %+v, want %q", reason, left, p.notice, want)
			}
		}
	}
}
