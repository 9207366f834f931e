package demo_test

import (
	"os"

	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness/kit"
)

// axeFile is axe-core, which .ci/install installs.
const axeFile = "/usr/local/lib/axe/node_modules/axe-core/axe.min.js"

// axe returns what axe-core finds wrong with the page. It runs beside the page's content security policy.
func (w *walk) axe() []string {
	w.t.Helper()
	script, err := os.ReadFile(kit.File(w.t, axeFile))
	if err != nil {
		w.t.Fatal(err)
	}
	return get(w, chromedp.Evaluate[[]string](string(script)+`;
		axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.flatMap(v =>
			v.nodes.map(n => v.id + ": " + v.help + ": " + n.html + ": " + n.failureSummary)))`,
		chromedp.EvalAwaitPromise))
}
