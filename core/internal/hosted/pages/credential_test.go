package pages

import (
	"regexp"
	"slices"
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

func TestTheFormOfTheBrowsersWallets(t *testing.T) {
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
	var scripts []string
	for _, s := range find(doc, "script") {
		scripts = append(scripts, attr(s, "src"))
	}
	if want := []string{WaitScript().Path, CredentialScript().Path}; !slices.Equal(scripts, want) {
		t.Errorf("the page loads %v, want %v", scripts, want)
	}
	// The script refuses by the form that the page has for that.
	if !slices.ContainsFunc(find(doc, "form"),
		func(f *html.Node) bool { return attr(f, "data-outcome") == "cancel" }) {
		t.Error("the page has no form by which the user cancels")
	}
}

// The script and the page have no common language but names, so a mistyped one would be silent.
func TestTheScriptOfTheBrowsersWalletsKnowsThePage(t *testing.T) {
	_, form := credentialPage(t)
	used := regexp.MustCompile(`form\.dataset\.([a-z]+)`).FindAllSubmatch(credentialJS, -1)
	if len(used) < 4 {
		t.Fatalf("the script uses %d attributes", len(used))
	}
	for _, m := range used {
		if !has(form, "data-"+string(m[1])) {
			t.Errorf("the script reads data-%s, which the form does not have", m[1])
		}
	}
	if parts(form)["says"] == nil {
		t.Error("the form has no part in which it says something")
	}
}
