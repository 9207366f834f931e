package demo_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
)

// colours makes the browser prefer that colour scheme.
func colours(scheme string) step {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// accept makes the browser ask for pages in that language.
func accept(language string) step {
	return command(network.SetExtraHTTPHeaders,
		network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": language}})
}

// TestLayout opens every page on phones and on a desktop, with the longest possible host name, and keeps
// pictures of them (walk.picture).
func TestLayout(t *testing.T) {
	long.Skip(t, "TestLayout")
	w := newWalk(t)
	label := strings.Repeat("averylonghostname", 3)
	long := "http://" + label + "." + label + "." + label + ".x.localhost:8080/return"
	const short = "https://shop.example/return"

	open := func(callback string, outcomes ...string) string {
		s := w.Start(testharness.Body{"callback_url": callback})
		p := w.Open(s.RedirectURL)
		for _, o := range outcomes {
			p = p.Submit(o)
		}
		return p.URL
	}
	used := func(callback string) string {
		s := w.Start(testharness.Body{"callback_url": callback})
		w.Validate(w.Approve(s).ResultToken)
		return s.RedirectURL
	}
	pages := map[string]string{
		"home": w.BaseURL + "/", "docs": w.BaseURL + "/docs",
		"not-found": w.BaseURL + "/nowhere", "damaged": w.BaseURL + web.HostedPath,
		"shop": w.url + "/", "shop-problem": w.url + "/callback?state=a&session_id=a&result_token=a",
	}
	callbacks := map[string]string{"-long": long}
	if pictures() != "" {
		callbacks[""] = short
	}
	for name, callback := range callbacks {
		pages["method"+name] = open(callback)
		pages["attempt"+name] = open(callback, "fail_attempt")
		pages["cancelled"+name] = open(callback, "cancel")
		pages["failed"+name] = open(callback, "reject")
		pages["used"+name] = used(callback)
	}
	sizes, schemes := [][2]int64{{320, 640}, {390, 844}}, []string{"light"}
	if pictures() != "" {
		sizes, schemes = append(sizes, [2]int64{1280, 900}), append(schemes, "dark")
	}
	for _, size := range sizes {
		for _, scheme := range schemes {
			w.do(chromedp.EmulateViewport(size[0], size[1]), colours(scheme))
			for name, url := range pages {
				t.Run(fmt.Sprintf("WCAG 1.4.10: %s, %d wide, %s", name, size[0], scheme), func(t *testing.T) {
					w := *w
					w.t = t
					w.open(url)
					w.holds(name)
				})
			}
		}
	}
	t.Run("WCAG 1.4.10: every language on a phone", func(t *testing.T) {
		w := *w
		w.t = t
		w.do(chromedp.EmulateViewport(320, 640))
		for _, lang := range []string{"de", "es", "fr", "pt", "it"} {
			w.do(accept(lang))
			for _, name := range []string{"attempt-long", "failed-long", "home"} {
				w.open(pages[name])
				w.holds(lang + " " + name)
			}
		}
		w.do(accept("en"))
	})
	t.Run("WCAG 1.4.4: text at twice its size on a phone", func(t *testing.T) {
		w := *w
		w.t = t
		twice := command(page.SetFontSizes, page.SetFontSizesParams{
			FontSizes: &page.FontSizes{Standard: 32, Fixed: 26}})
		w.do(chromedp.EmulateViewport(390, 844), twice)
		method := open(short)
		for _, lang := range []string{"de", "es", "fr", "pt", "it"} {
			w.do(accept(lang))
			w.open(method)
			w.holds(lang + " twice the size")
			for _, word := range w.broken() {
				t.Errorf("%s: a line ends inside of %q", lang, word)
			}
		}
		w.do(accept("en"), command(page.SetFontSizes, page.SetFontSizesParams{
			FontSizes: &page.FontSizes{Standard: 16, Fixed: 13}}))
	})
	t.Run("contract 22: the time left is right at each load", func(t *testing.T) {
		w := *w
		w.t = t
		w.do(chromedp.EmulateViewport(390, 844))
		w.Advance(6 * time.Minute)
		w.open(pages["method-long"])
		w.reads("About 4 minutes left")
		w.Advance(3*time.Minute + 30*time.Second)
		w.do(chromedp.Reload())
		w.reads("Less than a minute left")
		w.Advance(time.Minute)
		w.do(chromedp.Reload())
		w.reads("expired")
		w.holds("expired")
	})
}

// holds fails the test if the page scrolls sideways, or if something in it scrolls that the keyboard
// does not reach.
func (w *walk) holds(name string) {
	w.t.Helper()
	w.picture(name)
	type found struct {
		Wide int
		View int
		Lost []string
	}
	f := get(w, chromedp.Evaluate[found](`({
		Wide: document.documentElement.scrollWidth, View: document.documentElement.clientWidth,
		Lost: [...document.querySelectorAll("body *")]
			.filter(e => e.scrollWidth > e.clientWidth && e.tabIndex < 0 &&
				["auto", "scroll"].includes(getComputedStyle(e).overflowX))
			.map(e => e.outerHTML.slice(0, 80))})`))
	if f.Wide > f.View {
		w.t.Errorf("%s is %d wide on a screen of %d", name, f.Wide, f.View)
	}
	for _, e := range f.Lost {
		w.t.Errorf("WCAG 2.1.1: %s: the keyboard cannot scroll %s", name, e)
	}
}

// broken are the words of headings and buttons that need more than one line.
func (w *walk) broken() []string {
	w.t.Helper()
	return get(
		w,
		chromedp.Evaluate[[]string](`[...document.querySelectorAll("h1, h2, main button")].flatMap(e => {
		const words = [], texts = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
		for (let text; (text = texts.nextNode());) {
			for (const m of text.data.matchAll(/[^\s-]+/g)) {
				const range = document.createRange();
				range.setStart(text, m.index);
				range.setEnd(text, m.index + m[0].length);
				if (new Set([...range.getClientRects()].map(r => r.top)).size > 1) {
					words.push(m[0]);
				}
			}
		}
		return words;
	})`),
	)
}
