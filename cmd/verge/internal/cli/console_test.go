package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/wait"
)

// consoleUser opens the console of `verge dev` in a real browser, and has a device for passkeys.
type consoleUser struct {
	t    *testing.T
	ctx  context.Context
	base string
	seen map[string]bool // pages that were checked closely

	device webauthn.AuthenticatorID
}

// newConsoleUser opens a window that shares nothing with the others. Its device has a fingerprint reader that
// always says yes.
func newConsoleUser(t *testing.T, browser context.Context, base string) *consoleUser {
	t.Helper()
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	t.Cleanup(cancel)
	p := &consoleUser{t: t, ctx: ctx, base: base, seen: map[string]bool{}}
	p.do(devtools(webauthn.Enable, webauthn.EnableParams{}),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			made, err := cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator,
				webauthn.AddVirtualAuthenticatorParams{
					Options: &webauthn.VirtualAuthenticatorOptions{Protocol: "ctap2", Transport: "internal",
						HasResidentKey: true, HasUserVerification: true, IsUserVerified: true,
						AutomaticPresenceSimulation: true}})
			p.device = made.AuthenticatorID
			return err
		}))
	return p
}

// devtools is a step that sends one command of the DevTools protocol.
func devtools[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (p *consoleUser) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatalf("%v\nat: %s\nthe page reads: %s", err, p.at(), p.text())
	}
}

func evaluate[T any](p *consoleUser, script string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func (p *consoleUser) at() string { p.t.Helper(); return evaluate[string](p, `location.href`) }

const pageText = `(document.body?.innerText ?? "")`

func (p *consoleUser) text() string {
	p.t.Helper()
	return strings.Join(strings.Fields(evaluate[string](p, pageText)), " ")
}

// open shows a page, given by its address or by its path.
func (p *consoleUser) open(path string) {
	p.t.Helper()
	if strings.HasPrefix(path, "/") {
		path = p.base + path
	}
	p.do(chromedp.Navigate(path))
}

// press clicks what the selector finds and waits for the page after it, unless the page stays.
func (p *consoleUser) press(selector string, leaves ...bool) {
	p.t.Helper()
	if len(leaves) > 0 {
		p.do(chromedp.Click(selector))
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Minute)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(selector)); err != nil {
		p.t.Fatalf("pressing %s: %v\nat: %s\nthe page reads: %s", selector, err, p.at(), p.text())
	}
}

// follow clicks the link with that text.
func (p *consoleUser) follow(text string) { p.t.Helper(); p.open(p.link(text)) }

// link returns where the link with that text leads.
func (p *consoleUser) link(text string) string {
	p.t.Helper()
	to := evaluate[string](p, `[...document.querySelectorAll("main a")]
		.find(a => a.textContent.trim() === `+quoted(text)+`)?.href ?? ""`)
	if to == "" {
		p.t.Fatalf("%s has no link %q: %s", p.at(), text, p.text())
	}
	return to
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

// send fills a form in and presses its button.
func (p *consoleUser) send(action string, pairs ...string) {
	p.t.Helper()
	form := `form[data-action="` + action + `"] `
	for i := 0; i < len(pairs); i += 2 {
		p.do(chromedp.SetValue(form+`[name="`+pairs[i]+`"]`, pairs[i+1]))
	}
	p.press(form + `button[type="submit"]`)
}

// reads fails the test if the page lacks one of the parts.
func (p *consoleUser) reads(parts ...string) {
	p.t.Helper()
	text := p.text()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			p.t.Fatalf("the page at %s does not contain %q: %s", p.at(), part, text)
		}
	}
}

// arrives waits until the browser has reached such an address automatically and has loaded the page.
func (p *consoleUser) arrives(part string) {
	p.t.Helper()
	p.waits("get to "+part, `location.href`, part)
}

func (p *consoleUser) says(text string) {
	p.t.Helper()
	p.waits("say "+text, pageText+`.replace(/\s+/g, " ")`, text)
}

// waits waits until a script returns the part on a page that is loaded. Between two pages a browser has no
// body, or cannot run a script at all; both are errors here, and it asks again.
func (p *consoleUser) waits(what, script, part string) {
	p.t.Helper()
	var got string
	var err error
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%s does not %s: the last response was %q, %v", p.at(), what, got, err)
		}
	}()
	wait.Until(p.t, what, func() bool {
		got, err = chromedp.Run(p.ctx,
			chromedp.Evaluate[string](`document.readyState === "complete" ? `+script+` : ""`))
		return err == nil && strings.Contains(got, part)
	})
}

func (p *consoleUser) secret() string {
	p.t.Helper()
	return evaluate[string](p, `document.querySelector("[data-secret]").textContent`)
}

// tooWide names elements that reach beyond the screen.
const tooWide = `document.documentElement.scrollWidth > innerWidth
	? [...document.querySelectorAll("main *, header *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
		.slice(0, 3).map(e => e.outerHTML.slice(0, 120))
	: []`

var (
	desktop = chromedp.EmulateViewport(1200, 900)
	phone   = chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile)
)

// currentHidden names the present page's link in the navigation if it is out of sight.
const currentHidden = `new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn))).then(() =>
	[...document.querySelectorAll(".side a[aria-current=page]")].filter(a => {
		const at = a.getBoundingClientRect();
		return at.left < -1 || at.right > innerWidth + 1;
	}).map(a => a.textContent))`

// look inspects a page once: on a desktop in light and on a phone in dark, nothing is wider than the screen.
// Package core/internal/console inspects the same pages with axe-core. The folder that VERGE_PICTURES names
// gets pictures, for a person to look at.
func (p *consoleUser) look(name string) {
	p.t.Helper()
	if p.seen[name] {
		return
	}
	p.seen[name] = true
	for _, screen := range []struct {
		name, scheme string
		size         chromedp.Action[chromedp.Void]
	}{
		{"desktop-light", "light", desktop},
		{"phone-dark", "dark", phone},
		{"phone-light", "light", nil},
		{"desktop-dark", "dark", desktop},
	} {
		if screen.name == "phone-light" && os.Getenv("VERGE_PICTURES") == "" {
			break
		}
		if screen.size != nil {
			p.do(screen.size)
		}
		p.do(devtools(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: screen.scheme}}}))
		// An element that fades between the schemes has a colour of neither.
		evaluate[bool](p, `document.getAnimations().forEach(a => a.finish()), true`)
		p.picture(name + "-" + screen.name)
		for _, wrong := range evaluate[[]string](p, tooWide) {
			p.t.Errorf("%s on %s: wider than the screen: %s", name, screen.name, wrong)
		}
	}
	p.do(desktop)
}

func (p *consoleUser) picture(name string) {
	dir := os.Getenv("VERGE_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// endpoint receives events, and makes the mistakes that the walk needs.
type endpoint struct {
	*httptest.Server
	secret   atomic.Value // string
	careless atomic.Bool  // takes events of any age
	rejects  atomic.Bool
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{}
	e.secret.Store("")
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // its sender is gone
		}
		tolerance := time.Duration(0)
		if e.careless.Load() {
			tolerance = 24 * time.Hour
		}
		switch {
		case e.rejects.Load():
			w.WriteHeader(http.StatusGone)
		case webhook.Verify(e.secret.Load().(string), r.Header, body, time.Now(), tolerance) != nil:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(e.Close)
	return e
}
