package pages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// axeFile is axe-core, which .ci/install installs.
const axeFile = "/usr/local/lib/axe/node_modules/axe-core/axe.min.js"

// branded are pages with everything that a publisher's accent colours.
func branded() map[string]pages.View {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	method := pages.View{
		Kind:         pages.Method,
		Level:        "L1",
		ChallengeAge: 25,
		Action:       "/verify",
		Flow:         "flow-token",
		SiteOrigin:   "https://oakember.example",
		ExpiresAt:    noon.Add(8 * time.Minute),
		Now:          noon,
		Choices:      []string{"begin", "cancel"},
		Service: pages.Service{Name: "Age Check", HelpURL: "https://example.com/help",
			PrivacyURL: "https://example.com/privacy"},
		Publisher: pages.Publisher{Name: "Oak & Ember", Accent: "#1f5c4d", Logo: "/logo.png", LogoWidth: 96,
			LogoHeight: 48},
	}
	choose := method
	choose.Kind, choose.Choices = pages.Choose, nil
	choose.Notice = pages.Notice{AttemptFailed: true, AttemptsLeft: 2}
	choose.Methods = []pages.Option{{Name: "camera", Words: "estimator"},
		{Name: "bank", Words: "oidc", Title: "BankID", Unavailable: true}}
	waiting := method
	waiting.Kind, waiting.Number, waiting.Choices = pages.PhoneWait, "42", nil
	waiting.Code = "https://example.com/x"
	waiting.AgainURL, waiting.AgainAfter, waiting.RetryURL = "/verify?flow=a", 3*time.Second, "/verify?flow=b"
	return map[string]pages.View{"method": method, "choose": choose, "phone": waiting}
}

// site serves the pages and their files, with the policy of the hosted pages.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	logo := image.NewNRGBA(image.Rect(0, 0, 96, 48))
	for n := range 48 {
		logo.Set(n, n, color.NRGBA{A: 255})
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, logo); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v, ok := branded()[r.URL.Path[1:]]; ok {
			maps.Copy(w.Header(), router.PageHeader(""))
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			body, err := pages.Render(v)
			if err != nil {
				t.Error(err)
			}
			w.Write(body)
			return
		}
		a, ok := pages.FindAccent(r.URL.Path)
		switch {
		case r.URL.Path == "/logo.png":
			a = pages.Asset{ContentType: "image/png", Body: picture.Bytes()}
		case r.URL.Path == pages.Style().Path:
			a = pages.Style()
		case !ok:
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", a.ContentType)
		w.Write(a.Body)
	}))
	t.Cleanup(server.Close)
	return server
}

// withColours gives the page the colours of each path, and returns axe's faults.
const withColours = `;(async (paths) => {
	const faults = [];
	for (const path of paths) {
		const old = document.querySelector('link[href*="accent."]'), next = old.cloneNode();
		next.href = path;
		await new Promise((done, fail) => { next.onload = done; next.onerror = fail; old.after(next); });
		old.remove();
		const found = await axe.run(document, {runOnly: ["color-contrast"], resultTypes: ["violations"]});
		for (const v of found.violations)
			for (const n of v.nodes) faults.push(path + ": " + n.html + ": " + n.failureSummary);
	}
	return faults;
})`

// allOfAxe returns what axe finds wrong with the page by all of its rules.
const allOfAxe = `;axe.run(document, {resultTypes: ["violations"], rules: {"target-size": {enabled: true}}})
	.then(found => found.violations.flatMap(v =>
		v.nodes.map(n => v.id + ": " + v.help + ": " + n.html + ": " + n.failureSummary)))`

// prefers makes the browser prefer a colour scheme.
func prefers(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
				{Name: "prefers-reduced-motion", Value: "reduce"}}})
		return err
	})
}

// TestChromiumBrands sees by axe that 200 random accents give the pages enough contrast, in light and dark.
// Package brand computes the same without a browser, including colours that axe does not check.
func TestChromiumBrands(t *testing.T) {
	long.Skip(t, "TestChromiumBrands")
	ctx := chromium.Start(t)
	script, err := os.ReadFile(testenv.File(t, axeFile))
	if err != nil {
		t.Fatal(err)
	}
	axe := string(script)
	server := site(t)
	random := rand.New(rand.NewPCG(52, 200))
	var accents []string
	for range 200 {
		a, ok := pages.AccentSheet(fmt.Sprintf("#%06x", random.IntN(1<<24)))
		if !ok {
			t.Fatal("contract 52: a random colour is no accent")
		}
		accents = append(accents, a.Path)
	}
	list, err := json.Marshal(accents)
	if err != nil {
		t.Fatal(err)
	}
	screens := map[string]chromedp.Action[chromedp.Void]{"desktop": chromedp.EmulateViewport(1280, 800),
		"phone": chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile)}
	for screen, view := range screens {
		for _, scheme := range []string{"light", "dark"} {
			for path := range branded() {
				name := path + " on " + screen + " in " + scheme
				page := chromedp.Navigate(server.URL + "/" + path)
				if err := chromedp.Do(ctx, view, prefers(scheme), page); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				keepPicture(t, ctx, "brand "+name)
				scripts := []string{axe + allOfAxe}
				if screen == "phone" && path == "method" {
					scripts = append(scripts, axe+withColours+"("+string(list)+")")
				}
				for _, script := range scripts {
					faults, err := chromedp.Run(
						ctx,
						chromedp.Evaluate[[]string](script, chromedp.EvalAwaitPromise),
					)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					for _, fault := range faults {
						t.Errorf("contract 52: %s: %s", name, fault)
					}
				}
			}
		}
	}
}

// keepPicture keeps a screenshot in the folder that VERGE_PICTURES names, for a person to look at.
func keepPicture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("VERGE_PICTURES")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".png"), picture, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
