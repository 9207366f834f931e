package cli

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/long"
)

// Contract 45, WCAG 2.1.1: a new publisher uses the keyboard alone, from the sign-in to the first key.
func TestConsoleByKeyboard(t *testing.T) {
	long.Skip(t, "TestConsoleByKeyboard")
	t.Parallel()
	browser := chromium.Start(t)
	program, _, _ := testProgram()
	pub, stop := devHere(t, program)
	defer stop()
	p := newConsoleUser(t, browser, pub.BaseURL)
	p.open("/console")
	p.fills(`[name="token"]`, pub.OperatorToken)
	p.enters("Publishers")
	p.fills(`form[data-action="create-publisher"] [name="name"]`, "Acme")
	p.enters("0 of 5 done")
	p.tabs(`main a.button[href$="/integrations/new"]`)
	p.enters("New integration")
	p.fills(`[name="name"]`, "Shop")
	p.tabs(`li[data-method="sandbox"] [role="switch"]`)
	p.types(" ")
	if evaluate[bool](p, `document.activeElement.checked`) {
		t.Error("the blank does not switch a method off")
	}
	p.types(" ")
	p.tabs(`li[data-method="sandbox"] button[value$=" down"]`)
	p.types(kb.Enter)
	if got := evaluate[string](p, `document.querySelector("[data-moved]").textContent`); !strings.HasPrefix(got,
		"sandbox is number 2 of ") {
		t.Errorf("the page says %q of a method that has moved", got)
	}
	p.tabs(`[name="webhook_url"]`)
	p.types(newEndpoint(t).URL)
	p.enters("The integration Shop was created.") // Enter in a field saves, and moves no method
	p.open(strings.TrimSuffix(strings.Split(p.at(), "?")[0], "/webhook"))
	if got := evaluate[string](p, `document.querySelector("[data-method]").dataset.method`); got != "sandbox" {
		t.Errorf("%s is first, want the only method that is on", got)
	}
	p.open(evaluate[string](p, `document.querySelector(".side a[href$='/keys']").href`))
	p.tabs(`form[data-action="create-key"] button`)
	p.enters("The key was created.")
	p.tabs(`.secret button`) // copies the key
}

// tabs presses Tab until the focus is on that element, and fails the test if it cannot be seen.
func (p *consoleUser) tabs(selector string) {
	p.t.Helper()
	for range 90 {
		p.do(chromedp.KeyEvent(kb.Tab))
		if !evaluate[bool](p, `document.activeElement.matches(`+quoted(strings.ReplaceAll(selector, `"`, `'`))+`)`) {
			continue
		}
		if !evaluate[bool](p, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			p.t.Errorf("WCAG 2.4.7: the focus on %s cannot be seen", selector)
		}
		return
	}
	p.t.Fatalf("WCAG 2.1.1: Tab does not lead to %s at %s: %s", selector, p.at(), p.text())
}

func (p *consoleUser) types(text string) { p.t.Helper(); p.do(chromedp.KeyEvent(text)) }

func (p *consoleUser) fills(selector, text string) { p.t.Helper(); p.tabs(selector); p.types(text) }

// enters presses Enter, and waits for a page with the text.
func (p *consoleUser) enters(text string) { p.t.Helper(); p.types(kb.Enter); p.says(text) }
