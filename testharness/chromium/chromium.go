// Package chromium starts Chromium for tests. Use [Start] for a browser that ends with its test, and
// [Options] with [Program] for a browser that several tests share.
package chromium

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness/testenv"
)

// limit is far above the time that the tests of one browser need.
const limit = 20 * time.Minute

// Start returns the context of a browser. Its profile is empty, and more are options of the one test.
func Start(t testing.TB, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	options := append(Options(Program(t), t.TempDir()), more...)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("Chromium does not start: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	return ctx
}

// Program returns the path of the browser, or skips the test. It prefers the headless shell: the same engine
// without the windows of a desktop, which needs a third of the processor time.
func Program(t testing.TB) string {
	t.Helper()
	return testenv.Program(t, "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
}

// Options returns the options of a browser that stores its profile in a directory and sends only the
// requests of the tests. Its start may take minutes on a machine with other work.
func Options(program, profile string) []chromedp.ExecAllocatorOption {
	return append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(profile),
		chromedp.WSURLReadTimeout(5*time.Minute),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-features", unused))
}

// unused are features of Chromium that make a process for each window or page, which no test uses: features
// for the address bar, and a process for the next site.
const unused = "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,SpareRendererForSitePerProcess"
