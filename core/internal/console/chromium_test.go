package console_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// axeFile is axe-core, which .ci/install installs.
const axeFile = "/usr/local/lib/axe/node_modules/axe-core/axe.min.js"

// browser is Chromium in front of a console.
type browser struct {
	*fixture
	t   *testing.T
	ctx context.Context
	url string
	who string // who is signed in; "": no one
	axe string

	status  int         // of the responses, without the console; 0: the console's
	signsIn chan string // receives the mode of each request for the sign-in page, if not nil
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	axe, err := os.ReadFile(testenv.File(t, axeFile))
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{fixture: newFixture(t), t: t, axe: string(axe)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.url, b.BaseURL, b.Operations.BaseURL = server.URL, server.URL, server.URL
	b.starts.Dev, b.Operations.Dev = true, true // test sessions return to the console, at an http address
	b.ctx = chromium.Start(t)
	return b
}

// ServeHTTP hands requests to the console, with the cookie of who is signed in.
func (b *browser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req := &web.Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Header: web.Header(r.Header),
		Body:   body, Client: netip.MustParseAddr("127.0.0.1")}
	if b.signsIn != nil && r.URL.Path == "/console/sign-in" {
		b.signsIn <- r.Header.Get("Sec-Fetch-Mode")
	}
	if b.status != 0 {
		w.WriteHeader(b.status)
		return
	}
	if b.who != "" {
		req.Header.Set("Cookie", "verge-console="+b.who)
	}
	route, text, _ := b.Console.Routes().Find(req)
	if route == nil {
		http.NotFound(w, r)
		return
	}
	resp, err := route.Handle(r.Context(), &router.Call{Request: req, Route: route, Text: text})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.Status)
	w.Write(resp.Body)
}

func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// scheme sets the preferred colour scheme: light or dark.
func (b *browser) scheme(name string) {
	b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}))
}

func eval[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// picture keeps a screenshot in the folder that VERGE_PICTURES names, for a person to look at.
func (b *browser) picture(name string) {
	dir := os.Getenv("VERGE_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".png"), png,
		0o644); err != nil {
		b.t.Fatal(err)
	}
}

// wide reports elements that are wider than the screen, except scrollable elements.
const wide = `document.documentElement.scrollWidth > innerWidth
	? [...document.querySelectorAll("main *, header *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
		.slice(0, 3).map(e => e.outerHTML.slice(0, 120))
	: []`

// wrapped returns the links and buttons of table rows whose icon is on one line and whose word is on another.
const wrapped = `[...document.querySelectorAll("td.acts summary")]
	.filter(e => e.clientHeight > 2 * parseFloat(getComputedStyle(e).lineHeight)).map(e => e.innerText)`

// cut reports lists whose longest choice is wider than the list, which a browser cuts.
const cut = `[...document.querySelectorAll("select")].filter(e => e.checkVisibility()).map(e => {
		const style = getComputedStyle(e), pen = document.createElement("canvas").getContext("2d");
		pen.font = style.font;
		const room = e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 20; // the arrow
		return [...e.options].filter(o => pen.measureText(o.text).width > room).map(o => e.name + ": " + o.text);
	}).flat()`

// TestPagesAreAccessible opens every page on a desktop in light mode and on a phone in dark mode. axe-core
// reports no errors, and no element is wider than the screen.
func TestPagesAreAccessible(t *testing.T) {
	long.Skip(t, "TestPagesAreAccessible")
	b := newBrowser(t)
	screens := []struct {
		name, scheme string
		size         chromedp.Action[chromedp.Void]
	}{
		{"desktop light", "light", chromedp.EmulateViewport(1280, 800)},
		{"phone dark", "dark", chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile)},
		{"desktop dark", "dark", chromedp.EmulateViewport(1280, 800)},
		{"phone light", "light", chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile)},
	}
	if os.Getenv("VERGE_PICTURES") == "" {
		screens = screens[:2]
	}
	for _, screen := range screens {
		b.do(screen.size)
		b.scheme(screen.scheme)
		for _, s := range views {
			if only := os.Getenv("VERGE_ONLY"); only != "" && !strings.Contains(s.name, only) {
				continue
			}
			b.who = s.who
			path := s.path
			if s.form != "" {
				path = b.posted(t, s)
			}
			path, _ = b.real(path, "")
			b.do(chromedp.Navigate(b.url + path))
			b.picture(s.name + " " + screen.name)
			b.judge(s.name + " on " + screen.name)
		}
	}
	b.longNames()
	b.legend()
}

// judge fails the test if axe-core finds something wrong with the page, or if something is wider than the
// screen.
func (b *browser) judge(name string) {
	b.t.Helper()
	for _, wrong := range eval[[]string](b, wide) {
		b.t.Errorf("%s: wider than the screen: %s", name, wrong)
	}
	for _, wrong := range eval[[]string](b, cut) {
		b.t.Errorf("%s: a choice is cut: %s", name, wrong)
	}
	for _, wrong := range eval[[]string](b, wrapped) {
		b.t.Errorf("%s: on two lines: %s", name, wrong)
	}
	for _, wrong := range eval[[]string](b, b.axe+`;
		axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.flatMap(v =>
			v.nodes.map(n => v.id + ": " + v.help + ": " + n.html + ": " + n.failureSummary)))`) {
		b.t.Errorf("%s: %s", name, wrong)
	}
}

// Pages with a rejected form are as accessible as the others.
func TestRejectedFormsAreAccessible(t *testing.T) {
	long.Skip(t, "TestRejectedFormsAreAccessible")
	b := newBrowser(t)
	b.who = "admin"
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	for _, c := range []struct{ name, path, action, change string }{
		{"refused", mine + "/integrations/new", "create-integration", `f.name.required = false; f.minimum_age.type = "text";
			f.minimum_age.value = "old"`},
		{"stale", shop, "save-integration", `f.version.value = "old"; f.elements.namedItem("name").value = "Laden"`},
	} {
		b.do(chromedp.Navigate(b.url + c.path))
		if _, err := chromedp.RunResponse(b.ctx, chromedp.Evaluate[chromedp.Void](
			`const f = document.querySelector('form[data-action="`+c.action+`"]'); f.noValidate = true; `+c.change+
				`; f.requestSubmit()`)); err != nil {
			t.Fatal(err)
		}
		if said := eval[string](b, `document.querySelector("[role=alert]")?.innerText ?? ""`); said == "" {
			t.Errorf("%s: the page shows no error", c.name)
		}
		b.picture(c.name + " phone light")
		b.judge(c.name)
	}
}

// A live page shows its next state, but not while the user has input, a selection or the focus in it.
func TestLivePage(t *testing.T) {
	b := newBrowser(t)
	b.who = "developer"
	b.do(chromedp.Navigate(b.url + b.posted(t, view{who: "developer", path: mine + "/test",
		form: "do=start-test-session&integration_id=" + managedID})))
	for _, c := range []struct {
		name, act string
		status    int
		replaced  bool
	}{
		{name: "not in use", replaced: true},
		{name: "typed text", act: `form.callback_url.value = "https://shop.example/back"`},
		{name: "another choice", act: `form.type.selectedIndex = 2`},
		{name: "a selection", act: `getSelection().selectAllChildren(live.querySelector("h1"))`},
		{name: "the focus", act: `form.callback_url.focus()`},
		{name: "the service is unavailable", status: 503},
		{name: "too many requests", status: 429},
		{name: "available again", replaced: true},
	} {
		b.status = c.status
		got := eval[string](b, `(async () => {
			const live = document.querySelector("[data-live]");
			const fields = live.querySelectorAll("[name=callback_url], [name=type]");
			const form = Object.fromEntries([...fields].map((field) => [field.name, field]));
			`+c.act+`;
			await refresh();
			const same = document.querySelector("[data-live]") === live;
			document.activeElement.blur();
			getSelection().removeAllRanges();
			form.callback_url.value = "";
			form.type.selectedIndex = 0;
			return same ? "kept" : "replaced";
		})()`)
		if (got == "replaced") != c.replaced {
			t.Errorf("%s: the live part was %s", c.name, got)
		}
	}
	b.who, b.signsIn = "", make(chan string, 9)
	b.do(chromedp.Evaluate[chromedp.Void](`void refresh()`))
	for fetched := range 2 { // by the script, and as a page
		if mode := wait.For(b.signsIn); (mode == "navigate") != (fetched == 1) {
			t.Errorf("after the sign-out, request %d for the sign-in page is by %s", fetched, mode)
		}
	}
}

// legend fails the test if the legend of a chart has no colours in a high contrast mode.
func (b *browser) legend() {
	b.t.Helper()
	b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}}),
		chromedp.Navigate(b.url+mine))
	if colours := eval[int](b, `new Set([...document.querySelectorAll(".usage-legend li")].map((one) =>
		getComputedStyle(one, "::before").backgroundColor)).size`); colours < 3 {
		b.t.Errorf("a legend of %d colours", colours)
	}
}

// longNames fails the test if long words of names, or a window of a middle width, make a table wider than the
// page.
func (b *browser) longNames() {
	b.t.Helper()
	b.who = "operator"
	for _, path := range []string{"/console/publishers", mine, mine + "/integrations", mine + "/members",
		mine + "/keys", mine + "/sessions"} {
		b.do(chromedp.Navigate(b.url + path))
		for _, width := range []int64{900, 1024, 1135, 1140, 1280} {
			b.do(chromedp.EmulateViewport(width, 800))
			if found := eval[[]string](b, wide); len(found) > 0 {
				b.t.Errorf("%s at %d: wider than the screen: %v", path, width, found)
			}
		}
		rows := eval[int](b, `[...document.querySelectorAll("td.main, td.named")].map((name) => {
			name.textContent = "Donaudampfschiff".repeat(5);
		}).length`)
		if found := eval[[]string](b, wide); rows == 0 || len(found) > 0 {
			b.t.Errorf("%s, %d long names: wider than the screen: %v", path, rows, found)
		}
	}
}

// posted sends a form and returns the next address.
func (b *browser) posted(t *testing.T, s view) string {
	t.Helper()
	path, form := b.real(s.path, s.form+"&csrf="+forms(s.who).FormToken(formName(s.form)))
	req := &web.Request{
		Method: "POST",
		Path:   path,
		Header: web.Header{},
		Body:   []byte(form),
		Client: netip.MustParseAddr("127.0.0.1"),
	}
	req.Header.Set("Cookie", "verge-console="+s.who)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp := b.Act(context.Background(), &router.Call{Request: req, Route: &router.Route{}})
	if resp.Status != 303 {
		t.Fatalf("%s: the form was answered %d:\n%s", s.name, resp.Status, resp.Body)
	}
	return resp.Header.Get("Location")
}
