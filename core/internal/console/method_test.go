package console_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/verge-id/verge/core/internal/coretest"
)

// offered returns the methods of the shop.
func (w *fixture) offered() []string {
	w.t.Helper()
	i, err := w.directory.ReadIntegration(ctx, shopID)
	coretest.Must(w.t, err)
	return i.Value.Offers()
}

// Contract 45: the methods of an integration are a list with switches, or names with commas between.
func TestMethods_Saved(t *testing.T) {
	for rule, c := range map[string]struct {
		form string
		want string
	}{
		"the methods that are on, in the order of the list": {
			"methods=&methods_order=bank+sandbox+camera&methods.camera=on&methods.bank=on", "bank camera"},
		"names with commas between decide": {
			"methods=camera,+bank&methods_order=sandbox&methods.sandbox=on", "camera bank"},
		"a form without the list keeps the methods": {"name=Laden", "sandbox"},
		"a program that does not know the switches keeps them": {
			"methods=&methods_order=bank+sandbox+camera&methods.bank=&methods.sandbox=&methods.camera=",
			"sandbox"},
		"a method that the service does not have is left out": {
			"methods_order=palm+bank&methods.palm=on&methods.bank=on", "bank"},
		"a method that the order does not have comes last": {
			"methods_order=camera&methods.camera=on&methods.bank=on", "camera bank"},
	} {
		t.Run("contract 45: "+rule, func(t *testing.T) {
			w := newFixture(t)
			resp := w.ask("POST", shop, "developer", body("save-integration", "version={version}&"+c.form,
				"developer"))
			if got := strings.Join(w.offered(), " "); resp.Status != 303 || got != c.want {
				t.Errorf("%d, methods %q, want 303 and %q", resp.Status, got, c.want)
			}
		})
	}
}

// Contract 45: a button of the list sends the form, which is returned with the method moved and all values,
// without saving it.
func TestMethods_Moved(t *testing.T) {
	for _, c := range []struct{ move, order, focus string }{
		{"camera up", "camera sandbox bank", "camera down"},
		{"camera down", "sandbox bank camera", "camera up"},
		{"bank up", "sandbox bank camera", "bank up"},
		{"sandbox up", "sandbox camera bank", "sandbox down"},
		{"palm up", "sandbox camera bank", ""},
	} {
		w := newFixture(t)
		resp := w.ask("POST", shop, "developer", body("save-integration", url.Values{
			"version": {w.version(shop)}, "name": {"Laden"}, "methods_order": {"sandbox camera bank"},
			"methods.bank": {"on"}, "method_settings.camera.deviation": {"typed"},
			"move": {c.move}}.Encode(), "developer"))
		doc := parse(t, resp)
		for name, want := range map[string]string{"methods_order": c.order, "name": "Laden",
			"method_settings.camera.deviation": "typed"} {
			form := with(doc, "data-action", "save-integration")
			if got := attr(with(form, "name", name), "value"); got != want {
				t.Errorf("%s: %s is %q, want %q", c.move, name, got, want)
			}
		}
		focus := ""
		if button := find(doc, func(n *html.Node) bool {
			return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "autofocus" })
		}); button != nil {
			focus = attr(button, "value")
		}
		if resp.Status != 200 || focus != c.focus || len(w.did()) > 0 ||
			!slices.Equal(w.offered(), []string{"sandbox"}) {
			t.Errorf("%s: %d, focus on %q and not %q, it did %v", c.move, resp.Status, focus, c.focus,
				w.did())
		}
	}
}

// Contract 45: an error is shown at the field of the setting, and a list without a method is an error.
func TestMethods_Rejected(t *testing.T) {
	for _, c := range []struct{ form, field, text string }{
		{"methods_order=sandbox", "methods", "Switch on at least one method."},
		{"methods_order=camera&methods.camera=on&method_settings.camera.deviation=7",
			"method_settings.camera.deviation", "7 is above the method&#39;s 6"},
		{"methods_order=camera&methods.camera=on&method_settings.camera.deviation=many",
			"method_settings.camera.deviation", "Enter a number, such as 3 or 2.5."},
	} {
		w := newFixture(t)
		page := string(w.ask("POST", shop, "developer", body("save-integration", "version={version}&"+c.form,
			"developer")).Body)
		_, beside, _ := strings.Cut(page, `id="save-integration-`+c.field+`-problem"`)
		beside, _, _ = strings.Cut(beside, "<input")
		if !strings.Contains(beside, c.text) || len(w.did()) > 0 {
			t.Errorf("%s: next to the field is %q; it did %v", c.form, beside, w.did())
		}
	}
}
