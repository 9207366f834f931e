package demo_test

import (
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness/testenv"
)

// axeFile is axe-core, which .ci/install installs.
const axeFile = "/usr/local/lib/axe/node_modules/axe-core/axe.min.js"

// axe returns the faults that axe-core finds in the page. It runs outside the page's content security policy,
// and is loaded once for each page.
func (w *walk) axe() []string {
	w.t.Helper()
	var script []byte
	if !get(w, chromedp.Evaluate[bool](`"axe" in window`)) {
		var err error
		if script, err = os.ReadFile(testenv.File(w.t, axeFile)); err != nil {
			w.t.Fatal(err)
		}
	}
	return get(w, chromedp.Evaluate[[]string](string(script)+`;
		axe.run(document, {resultTypes: ["violations"], rules: {"target-size": {enabled: true}}}).then(found =>
			found.violations.flatMap(v => v.nodes.map(n =>
				v.id + ": " + v.help + ": " + n.html + ": " + n.failureSummary)))`,
		chromedp.EvalAwaitPromise))
}

// look is a screen and a colour scheme for the inspection of a page, by axe-core too or by its layout alone.
type look struct {
	name   string
	screen step
	scheme string
	axe    bool
}

// smallPhone is as wide as WCAG 1.4.10 asks for.
var smallPhone = chromedp.EmulateViewport(320, 640, chromedp.EmulateMobile, chromedp.EmulateTouch)

// looks are all of them.
var looks = []look{
	{"phone-light", smallPhone, "light", true}, {"phone-dark", smallPhone, "dark", true},
	{"computer-light", onComputer, "light", true}, {"computer-dark", onComputer, "dark", true},
}

// inEveryLanguage runs a test for each language, with the looks for its inspections: on the phone in
// one colour scheme and on the computer in the other, and in one language all four. Only that language has
// axe-core, which judges elements and colours: the others differ in the lengths of words.
func inEveryLanguage(t *testing.T, walk func(t *testing.T, lang string, in []look)) {
	t.Helper()
	testenv.File(t, axeFile) // without it, the test is skipped
	for n, lang := range []string{"en", "de", "es", "fr", "pt", "it"} {
		in := []look{looks[n%2], looks[3-n%2]}
		in[0].axe, in[1].axe = false, false
		if lang == "de" || pictures() != "" { // German has the longest words
			in = looks
		}
		t.Run("WCAG 2.2: "+lang, func(t *testing.T) { walk(t, lang, in) })
	}
}

// still makes the browser prefer that colour scheme, and no motion, because a colour that is still changing
// belongs to neither scheme.
func still(scheme string) step {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}}})
}

// sees inspects the page in every look of the walk: by axe-core, for a scroll bar sideways, for the order in
// which the keyboard gets to things, for more than one button that stands out, and by a picture for a person.
// It leaves the page in the first look.
func (w *walk) sees(name string) {
	w.t.Helper()
	for _, l := range w.looks {
		w.do(l.screen, still(l.scheme))
		name := name + "-" + l.name
		w.holds(name)
		w.inOrder(name)
		w.leads(name)
		if !l.axe {
			continue
		}
		for _, fault := range w.axe() {
			w.t.Errorf("%s: %s", name, fault)
		}
	}
	w.do(w.looks[0].screen)
}

// inOrder fails the test if the keyboard reaches an element before the element above it.
func (w *walk) inOrder(name string) {
	w.t.Helper()
	for _, wrong := range get(w, chromedp.Evaluate[[]string](`
		[...document.querySelectorAll("a[href], button, input:not([type=hidden])")]
			.filter(e => e.checkVisibility()).map(e => ({top: e.getBoundingClientRect().top, text: e.outerHTML}))
			.filter((e, n, all) => n > 0 && e.top < all[n-1].top - 1).map(e => e.text)`)) {
		w.t.Errorf("WCAG 2.4.3: %s: the keyboard comes late to %s", name, wrong)
	}
}

// leads fails the test if more than one button stands out, so that none of them is the first thing to do. A
// button that is busy has been pressed, and is still under the pointer.
func (w *walk) leads(name string) {
	w.t.Helper()
	filled := get(w, chromedp.Evaluate[[]string](`
		[...document.querySelectorAll("button, a.button")]
			.filter(e => e.checkVisibility() && e.ariaDisabled !== "true" &&
				getComputedStyle(e).backgroundColor !== "rgba(0, 0, 0, 0)").map(e => e.textContent.trim())`))
	if len(filled) > 1 {
		w.t.Errorf("%s: %d buttons stand out: %q", name, len(filled), filled)
	}
}
