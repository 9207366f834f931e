package pages

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/verge-id/verge/core/internal/language"
)

// passkeyForms returns the forms with a passkey of a page.
func passkeyForms(t *testing.T, v View) []*html.Node {
	t.Helper()
	doc, _ := render(t, v)
	return slices.DeleteFunc(find(doc, "form"), func(f *html.Node) bool { return !has(f, "data-passkey") })
}

// Contract 38: a form for each page that may have one, hidden until its script has found passkeys.
func TestPasskeyForms(t *testing.T) {
	for name, v := range views() {
		forms := passkeyForms(t, v)
		if len(forms) == 1 != (v.Passkey != nil) || len(forms) > 1 {
			t.Errorf("contract 38: %s has %d forms with a passkey", name, len(forms))
		}
		for _, f := range forms {
			var got []Field
			for _, in := range find(f, "input") {
				if attr(in, "type") != "hidden" {
					t.Errorf("contract 38: %s: a visible input", name)
				}
				got = append(got, Field{attr(in, "name"), attr(in, "value")})
			}
			var want []Field
			if v.Flow != "" {
				want = append(want, Field{"flow", v.Flow})
			}
			want = append(append(want, v.Passkey.Fields...), Field{"credential", ""})
			if !slices.Equal(got, want) {
				t.Errorf("contract 38: %s posts %v, want %v", name, got, want)
			}
			if !has(f, "hidden") || attr(f, "method") != "post" || attr(f, "action") != v.Action ||
				attr(f, "data-options") != v.Passkey.Options || attr(f, "data-failed") == "" {
				t.Errorf("contract 38: %s: the form has %v", name, f.Attr)
			}
			if v.Passkey.Enrol != (attr(f, "data-step") == "enrol") ||
				v.Passkey.Enrol == (attr(f, "data-method") == "passkey") {
				t.Errorf("contract 38: %s: the form is for %q %q", name, attr(f, "data-step"),
					attr(f, "data-method"))
			}
			buttons := find(f, "button")
			if len(buttons) != 1 || attr(buttons[0], "type") != "submit" {
				t.Errorf("contract 38: %s: the form has %d buttons", name, len(buttons))
			}
			if quiet := attr(buttons[0], "class") == "quiet"; quiet == (v.Kind == Passkeys) {
				t.Errorf("%s: the button of the only thing to do stands out from all others: %v", name,
					!quiet)
			}
		}
	}
}

// Contract 38: the callback comes first, and is one click away.
func TestPasskey_OfferLinksToCallback(t *testing.T) {
	for _, lang := range language.All {
		v := views()["completed, enrol"]
		v.Lang = lang
		_, raw := render(t, v)
		hop, form := strings.Index(raw, "data-hop"), strings.Index(raw, "data-passkey")
		if hop < 0 || form < hop {
			t.Errorf("contract 38: %s: the link to the callback is at %d, the passkey at %d", lang, hop, form)
		}
		head, _, _ := strings.Cut(raw, "</head>")
		if !regexp.MustCompile(`<noscript>\s*<meta http-equiv="refresh"[^>]*>\s*</noscript>`).MatchString(head) ||
			strings.Count(head, "http-equiv") != 1 {
			t.Errorf("contract 38: %s: a page with script continues automatically: %s", lang, head)
		}
		if !strings.Contains(raw, "<bdi>shop.example</bdi>") {
			t.Errorf("contract 38: %s: the page does not name its target", lang)
		}
	}
}

// The page with the stored data has no choices, so the state of a passkey has no form.
func TestPasskey_StateHasNoForm(t *testing.T) {
	for page, state := range map[string]string{
		"passkeys, a proof, blocked": "passkeys.blocked",
		"passkeys, a document, over": "passkeys.over",
	} {
		for _, lang := range language.All {
			v := views()[page]
			v.Lang = lang
			doc, _ := render(t, v)
			values := find(doc, "dd")
			if got, want := textOf(values[len(values)-1]), messages(lang)(state); got != want {
				t.Errorf("%s: %s: the state is %q, want %q", lang, page, got, want)
			}
		}
	}
}

func TestPasskey_Name(t *testing.T) {
	at := time.Date(2026, 11, 22, 23, 59, 0, 0, time.UTC)
	for want, site := range map[string]string{
		"Age check, 22 November 2026":               "",
		"Age check, 22 November 2026, shop.example": "https://shop.example/return?order=1",
	} {
		if got := PasskeyName("en", site, at); got != want {
			t.Errorf("contract 38: %q, want %q", got, want)
		}
	}
}

// The script shows only what its form has words for, and takes the parts that the form has.
func TestPasskey_ScriptMatchesForm(t *testing.T) {
	text := string(PasskeyScript().Body)
	for _, part := range []string{"form[data-passkey]", "a[data-hop]", "[data-part=says]", "dataset.options",
		"dataset.failed", "elements.credential"} {
		if !strings.Contains(text, part) {
			t.Errorf("the script does not take %s", part)
		}
	}
	if regexp.MustCompile(`\b(fetch|eval|XMLHttpRequest|innerHTML|localStorage|document\.cookie)\b`).MatchString(text) {
		t.Error("the script does what it need not do")
	}
}
