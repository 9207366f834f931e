package demo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// Places on pages.
const (
	backInTheShop = `.outcome #outcome`
	bankPage      = `form[action="/idp/answer"]`
	cameraForm    = `form[data-step="camera"]`
	options       = `form[action="/start"] summary` // opens the shop's choices
)

// part selects a visible part of the camera's page.
func part(name string) string { return cameraForm + ` [data-part="` + name + `"]:not([hidden])` }

// chooses begins a verification with an integration of the shop and ends on the hosted page.
func (w *walk) chooses(integration string) {
	w.t.Helper()
	w.open(w.url + "/")
	w.do(chromedp.Click(options), chromedp.Click(`input[value="`+integration+`"]`))
	w.press(`form[action="/start"] button`)
	w.shows(`body[data-page]`)
}

// shows waits until a page is loaded that has what the selector names.
func (w *walk) shows(selector string) {
	w.t.Helper()
	w.wait(selector, func() bool {
		found, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool](
			`document.readyState === "complete" && document.querySelector(`+strconv.Quote(selector)+`) !== null`))
		return err == nil && found
	})
}

// click clicks the element of selector and waits for the element next.
func (w *walk) click(selector, next string) {
	w.t.Helper()
	w.do(chromedp.Click(selector))
	w.shows(next)
}

func answer(choice string) string { return bankPage + ` button[value="` + choice + `"]` }

// estimate sets the estimate of all later pictures.
func (w *walk) estimate(choice string) {
	w.t.Helper()
	resp, err := http.PostForm(w.others+"/estimator/answer", url.Values{"choice": {choice}})
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		w.t.Fatalf("the estimator's page answers %d", resp.StatusCode)
	}
}

// cookies are the names of the browser's cookies of the service.
func (w *walk) cookies() (names []string) {
	w.t.Helper()
	var all []*network.Cookie
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		got, err := cdp.Call(ctx, t, network.GetCookies,
			network.GetCookiesParams{URLs: []string{w.BaseURL + "/"}})
		all = got.Cookies
		return err
	}))
	for _, c := range all {
		if strings.HasPrefix(c.Name, "verge-") {
			if !c.HTTPOnly || c.SameSite != network.CookieSameSiteLax {
				w.t.Errorf("contract 34: the cookie %s is HttpOnly %v, SameSite %s", c.Name, c.HTTPOnly,
					c.SameSite)
			}
			names = append(names, c.Name)
		}
	}
	slices.Sort(names) // the name of the other cookie ends in ".left"
	return names
}

func TestChromiumBank(t *testing.T) {
	long.Skip(t, "TestChromiumBank")
	t.Run("contract 34: over three origins and back, with a cookie of the service alone", func(t *testing.T) {
		w := newWalk(t)
		w.chooses(bankID)
		w.reads("Confirm your age with Demo Bank ID")
		w.click(`form[data-outcome="begin"] button`, bankPage)
		if at := w.location(); !strings.HasPrefix(at, w.others+"/idp/login?") {
			t.Errorf("the browser is at %s, want the bank at %s", at, w.others)
		}
		names := w.cookies()
		if len(names) != 2 || strings.TrimSuffix(names[0], ".left") != strings.TrimSuffix(names[1], ".left") {
			t.Errorf("contract 34: the browser has %v for the service, want the cookie of the "+
				"request, and one with .left", names)
		}
		w.reads("SIMULATED", "This is not a real bank")
		w.click(answer("adult"), backInTheShop)
		if at := w.location(); at != w.url+"/result" {
			t.Errorf("the browser is at %s, want the shop", at)
		}
		w.reads("Your age is verified", "Demo Bank ID", "L2", "18")
		w.inbox("started", "completed")
	})

	t.Run("contract 35: cancelled at the bank, then too young", func(t *testing.T) {
		w := newWalk(t)
		w.chooses(bankID)
		w.click(`form[data-outcome="begin"] button`, bankPage)
		w.click(answer("cancel"), `body[data-page="cancelled"]`)
		w.press(`main a[href^="/verify?"]`)
		w.click(`form[data-outcome="begin"] button`, bankPage)
		w.click(answer("younger"), `body[data-page="failed"]`)
		w.reads("Your age was not confirmed")
		w.inbox("started", "failed")
	})

	t.Run("contract 34: the address of the return in another browser", func(t *testing.T) {
		w := newWalk(t)
		w.chooses(bankID)
		w.click(`form[data-outcome="begin"] button`, bankPage)
		w.do(command(network.ClearBrowserCookies, cdp.Empty{}))
		w.click(answer("adult"), `body[data-page="elsewhere"]`)
		w.reads("Please continue in the other browser")
		w.inbox("started")
	})

	t.Run("WCAG 2.1.1: with the keyboard alone", func(t *testing.T) {
		w := newWalk(t)
		w.open(w.url + "/")
		w.tabTo(options)
		w.do(chromedp.KeyEvent(kb.Enter))
		w.tabTo(`input[name="integration"]`)
		w.do(chromedp.KeyEvent(kb.ArrowDown))
		w.tabTo(`form[action="/start"] button`)
		w.enter(`form[data-outcome="begin"] button`)
		w.tabTo(`form[data-outcome="begin"] button`)
		w.enter(bankPage)
		w.tabTo(answer("adult"))
		w.enter(backInTheShop)
		w.reads("Your age is verified", "Demo Bank ID")
	})
}

// tabTo presses Tab until the focus is on that element, and fails the test if the focus cannot be seen.
func (w *walk) tabTo(selector string) {
	w.t.Helper()
	type focus struct{ There, Seen bool }
	for range 30 {
		w.do(chromedp.KeyEvent(kb.Tab))
		f := get(w, chromedp.Evaluate[focus](`(e => ({There: e.matches(`+strconv.Quote(selector)+`),
			Seen: [e, e.parentElement].some(e => getComputedStyle(e).outlineStyle !== "none")}))(
				document.activeElement)`))
		if !f.There {
			continue
		}
		if !f.Seen {
			w.t.Errorf("WCAG 2.4.7: the focus on %s cannot be seen", selector)
		}
		return
	}
	w.t.Fatalf("WCAG 2.1.1: Tab does not lead to %s at %s:\n%s", selector, w.location(), w.text())
}

// enter presses Enter and waits for the element next.
func (w *walk) enter(next string) {
	w.t.Helper()
	w.do(chromedp.KeyEvent(kb.Enter))
	w.shows(next)
}

func TestChromiumCamera(t *testing.T) {
	long.Skip(t, "TestChromiumCamera")
	t.Run("contract 37: a still, another one, and used", func(t *testing.T) {
		w := newWalkIn(t, &withCamera, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
		w.chooses(cameraID)
		w.picture("idle")
		w.click(part("start"), part("take"))
		w.picture("live")
		w.click(part("take"), part("use"))
		w.picture("taken")
		w.click(part("retake"), part("take"))
		w.click(part("take"), part("use"))
		w.click(part("use"), backInTheShop)
		w.reads("Your age is verified", "Demo camera", "L1", "25")
		w.inbox("started", "completed")
		w.open(w.others + "/estimator/")
		w.reads("Pictures so far: 1, none of them stored")
	})

	t.Run("contract 37: too young, then another way", func(t *testing.T) {
		w := newWalkIn(t, &withCamera)
		w.estimate("15")
		w.chooses(anyID)
		w.click(`form[data-method="camera"] button`, part("start"))
		w.click(part("start"), part("take"))
		w.click(part("take"), part("use"))
		w.click(part("use"), `.notice`)
		w.reads("The estimate is below the age that the site asks for", "2 attempts left")
		w.click(`.back a[href^="/verify?"]`, `form[data-method="bank"]`)
		w.click(`form[data-method="bank"] button`, `form[data-outcome="begin"]`)
		w.click(`form[data-outcome="begin"] button`, bankPage)
		w.click(answer("adult"), backInTheShop)
		w.inbox("started", "completed")
	})

	t.Run("contract 37: no camera, a file instead", func(t *testing.T) {
		w := newWalk(t)
		w.chooses(cameraID)
		w.click(part("start"), part("file"))
		w.reads("camera")
		w.picture("none")
		w.do(chromedp.SetUploadFiles(`input[type="file"]`, []string{pictureFile(t)}))
		w.shows(part("use"))
		w.click(part("use"), backInTheShop)
		w.reads("Your age is verified", "Demo camera")
	})

	t.Run("contract 37: a phone on its side shows the picture and its button", func(t *testing.T) {
		w := newWalkIn(t, &withCamera, chromedp.EmulateViewport(844, 390, chromedp.EmulateMobile))
		w.chooses(cameraID)
		if !get(w, chromedp.Evaluate[bool](`document.querySelector("#image").validity.valid`)) {
			t.Error("WCAG 4.1.2: a choice that the user does not need is an error")
		}
		for _, step := range [][2]string{{"start", "take"}, {"take", "use"}} {
			w.click(part(step[0]), part(step[1]))
			for _, shown := range []string{"stage", step[1]} {
				if !get(w, chromedp.Evaluate[bool](`(() => {
					const at = document.querySelector('`+part(shown)+`').getBoundingClientRect();
					return at.top > -1 && at.bottom < innerHeight + 1 && at.height > 40;
				})()`)) {
					t.Errorf("after %s, the whole %s is not visible", step[0], shown)
				}
			}
		}
	})
	t.Run("contract 37: a browser that never stops asking for the camera", fileWhileTheBrowserAsks)
	t.Run("contract 37: a camera of few pixels", camerasOfFewPixels)

	t.Run("contract 37: without script", func(t *testing.T) {
		w := newWalk(t, command(emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: true}))
		w.chooses(cameraID)
		w.picture("plain")
		w.do(chromedp.SetUploadFiles(`input[type="file"]`, []string{pictureFile(t)}))
		w.click(part("use"), backInTheShop)
		w.reads("Your age is verified", "Demo camera")
	})

	t.Run("WCAG 2.1.1: with the keyboard alone", func(t *testing.T) {
		w := newWalkIn(t, &withCamera)
		w.chooses(anyID)
		w.tabTo(`form[data-method="camera"] button`)
		w.enter(part("start"))
		w.tabTo(part("start"))
		w.enter(part("take")) // the focus moves to the next button automatically
		w.enter(part("use"))
		w.enter(backInTheShop)
		w.reads("Your age is verified")
	})
}

// fileWhileTheBrowserAsks chooses a file while the browser asks for the camera, which never ends.
func fileWhileTheBrowserAsks(t *testing.T) {
	w := newWalk(t, runsFirst(`navigator.mediaDevices.getUserMedia = () => new Promise(() => {})`))
	w.chooses(cameraID)
	w.shows(part("file"))
	w.click(part("start"), `body[data-camera="asking"]`)
	w.picture("asking")
	w.shows(part("file"))
	w.do(chromedp.SetUploadFiles(`input[type="file"]`, []string{pictureFile(t)}))
	w.shows(part("use"))
	w.click(part("use"), backInTheShop)
	w.reads("Your age is verified", "Demo camera")
}

// camerasOfFewPixels takes stills with cameras that give few pixels.
func camerasOfFewPixels(t *testing.T) {
	for _, c := range []struct {
		width, height, across, down int // of the camera and of the still; 0: without one
	}{{352, 288, 256, 288}, {288, 352, 264, 352}, {640, 256, 256, 256}, {320, 240, 0, 0}} {
		w := newWalk(t, runsFirst(fmt.Sprintf(`navigator.mediaDevices.getUserMedia = async () => {
			const drawn = document.createElement("canvas");
			[drawn.width, drawn.height] = [%d, %d];
			drawn.getContext("2d").fillRect(0, 0, 9, 9);
			return drawn.captureStream(10);
		}`, c.width, c.height)))
		w.chooses(cameraID)
		w.click(part("start"), part("take"))
		if c.across == 0 {
			w.click(part("take"), `body[data-camera="small"]`)
			w.reads("at least 256 pixels")
			w.shows(part("file"))
			continue
		}
		w.click(part("take"), part("use"))
		still := get(w, chromedp.Evaluate[string](
			`(e => e.width + "x" + e.height)(document.querySelector("canvas"))`))
		if want := fmt.Sprintf("%dx%d", c.across, c.down); still != want {
			t.Errorf("a camera of %d x %d gives a still of %s, want %s", c.width, c.height, still, want)
		}
		w.click(part("use"), backInTheShop)
		w.reads("Your age is verified")
	}
}

// runsFirst is a step after which each page runs a script before its own ones.
func runsFirst(script string) step {
	return command(page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// TestChromiumMethodPages inspects every page of the methods on a phone: by axe, for a scroll bar sideways,
// and by pictures for a person.
func TestChromiumMethodPages(t *testing.T) {
	long.Skip(t, "TestChromiumMethodPages")
	testenv.File(t, axeFile) // without it, the test is skipped
	w := newWalkIn(t, &withCamera)
	w.estimate("15")
	w.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	looks := [][2]string{{"en", "light"}, {"de", "light"}, {"de", "dark"}, {"fr", "light"}}
	if pictures() != "" {
		looks = append(looks, [2]string{"en", "dark"}, [2]string{"fr", "dark"})
	}
	for _, look := range looks {
		t.Run(look[0]+", "+look[1], func(t *testing.T) {
			w := *w
			w.t, w.noAxe = t, look[0] != "de" // as inEveryLanguage
			w.do(accept(look[0]), colours(look[1]))
			w.seeMethodPages()
		})
	}
	t.Run("an estimator that is out of order", func(t *testing.T) {
		w := *w
		w.t = t
		w.estimate("broken")
		w.chooses(anyID)
		w.click(`form[data-method="camera"] button`, part("start"))
		w.click(part("start"), part("take"))
		w.click(part("take"), part("use"))
		w.click(part("use"), `body[data-page="unavailable"], .notice`)
		w.faultless("camera-trouble")
	})
	t.Run("the demo's own pages", func(t *testing.T) {
		w := *w
		w.t = t
		for _, scheme := range []string{"light", "dark"} {
			w.do(colours(scheme))
			w.open(w.url + "/")
			w.faultless("shop-" + scheme)
			w.open(w.others + "/estimator/")
			w.faultless("estimator-" + scheme)
			w.chooses(bankID)
			w.click(`form[data-outcome="begin"] button`, bankPage)
			w.faultless("bank-" + scheme)
			w.click(answer("adult"), backInTheShop)
			w.faultless("facts-" + scheme)
			w.press(`.actions a`)
			w.press(`form[action="/forget"] button`)
		}
	})
}

// seeMethodPages goes through the pages that the methods have.
func (w *walk) seeMethodPages() {
	w.t.Helper()
	w.chooses(anyID)
	w.faultless("choose")
	w.click(`form[data-method="camera"] button`, part("start"))
	w.faultless("camera")
	w.click(part("start"), part("take"))
	w.faultless("camera-live")
	w.click(part("take"), part("use"))
	w.faultless("camera-taken")
	w.click(part("use"), `.notice`)
	w.faultless("camera-below")
	w.click(`.back a[href^="/verify?"]`, `form[data-method="bank"]`)
	w.click(`form[data-method="bank"] button`, `form[data-outcome="begin"]`)
	w.faultless("bank")
	release := w.held.hold("/idp/login")
	w.do(chromedp.Click(`form[data-outcome="begin"] button`))
	w.wait("the request to the bank", w.held.came.Load)
	w.do(command(page.StopLoading, cdp.Empty{}))
	release()
	w.faultless("leaving")
	w.click(`a[data-hop]`, bankPage)
	handle := strings.TrimPrefix(w.cookies()[0], "verge-")
	w.open(w.BaseURL + "/verify/return/bank?error=server_error&iss=" + w.others + "/idp&state=" + handle)
	w.shows(`.notice`)
	w.faultless("bank-trouble")
	w.click(`form[data-outcome="begin"] button`, bankPage)
	w.click(answer("cancel"), `body[data-page="cancelled"]`)
	w.faultless("cancelled")
	w.open(w.BaseURL + "/verify/return/bank?state=" + strings.Repeat("a", 22) + "&code=x")
	if kind := w.attribute("body", "data-page"); kind != "elsewhere" {
		w.t.Errorf("contract 34: a return without its cookie shows the page %s", kind)
	}
	w.faultless("elsewhere")
}

// faultless fails the test if axe finds anything on the page, or if it scrolls sideways.
func (w *walk) faultless(name string) {
	w.t.Helper()
	w.holds(name)
	if w.noAxe {
		return
	}
	for _, fault := range w.axe() {
		w.t.Errorf("%s: %s", name, fault)
	}
}
