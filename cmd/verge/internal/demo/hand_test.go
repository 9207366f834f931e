package demo_test

import (
	"bytes"
	"encoding/json"
	"image"
	_ "image/png"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"

	"github.com/verge-id/verge/testharness/long"
)

// Places on the pages of a hand-off.
const (
	handButton = `form[data-hand] button`
	phoneWaits = `body[data-page="phone_wait"]`
	phoneDone  = `body[data-page="phone_done"]`
)

var (
	onPhone    = chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch)
	onComputer = chromedp.EmulateViewport(1280, 900)
	noScript   = command(emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
)

// phone is another browser with the same service: a phone with a camera.
func (w *walk) phone(before ...step) *walk {
	w.t.Helper()
	phone := *w
	phone.tab(withCamera.start(w.t), append([]step{onPhone}, before...)...)
	return &phone
}

// code reads the QR code on the screen as a camera would, and fails the test if it is another text than the
// page says. A page that waits may load itself again in the meantime, so a code that is not read is tried
// again.
func (w *walk) code() string {
	w.t.Helper()
	type shown struct {
		Text          string
		Width, Module float64
	}
	var err error
	for n := range 20 {
		if n > 0 {
			time.Sleep(50 * time.Millisecond) // the page was about to load itself again
		}
		w.shows(`svg[data-qr]`)
		var page shown
		page, err = chromedp.Run(w.ctx, chromedp.Evaluate[shown](`(e => ({Text: e.dataset.qr,
			Width: e.getBoundingClientRect().width,
			Module: e.getBoundingClientRect().width / e.viewBox.baseVal.width
		}))(document.querySelector("svg[data-qr]"))`))
		if err != nil {
			continue
		}
		if page.Width == 0 {
			w.picture("failure")
			w.t.Fatal("contract 34: the page has a code but does not show it")
		}
		if page.Module < 3 {
			w.t.Errorf("contract 34: a module of the code is %.2f pixels wide, want 3", page.Module)
		}
		var text string
		if text, err = w.scan(); err != nil {
			continue
		}
		if text != page.Text {
			w.t.Errorf("contract 34: the code on the page reads %q, want %q", text, page.Text)
		}
		return text
	}
	w.picture("failure")
	w.t.Fatalf("contract 34: the code on the page cannot be read: %v", err)
	return ""
}

// scan reads the QR code in a screenshot.
func (w *walk) scan() (string, error) {
	png, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return "", err
	}
	picture, _, err := image.Decode(bytes.NewReader(png))
	if err != nil {
		return "", err
	}
	bitmap, err := gozxing.NewBinaryBitmapFromImage(picture)
	if err != nil {
		return "", err
	}
	hints := map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_TRY_HARDER: true}
	read, err := qrcode.NewQRCodeReader().Decode(bitmap, hints)
	if err != nil {
		return "", err
	}
	return read.GetText(), nil
}

// top is where something begins on the page, or -1 if it is not shown.
func (w *walk) top(selector string) float64 {
	w.t.Helper()
	return get(w, chromedp.Evaluate[float64](`(e => e && e.checkVisibility() ? e.getBoundingClientRect().top + scrollY : -1)(
		document.querySelector("`+selector+`"))`))
}

func TestChromiumHandOff(t *testing.T) {
	long.Skip(t, "TestChromiumHandOff")
	for name, before := range map[string][]step{"with script": nil, "without script": {noScript}} {
		t.Run("contract 40: a computer without a camera, "+name, func(t *testing.T) {
			w := newWalk(t, onComputer)
			w.chooses(cameraID)
			w.do(before...)
			if before == nil {
				w.click(part("start"), `body[data-camera="none"]`)
				w.picture("none")
			}
			w.click(handButton, phoneWaits)
			if before == nil {
				w.faultless("phone-awaited")
			}
			number := get(w, chromedp.Evaluate[string](`document.querySelector("[data-number]").innerText`))
			link := w.code()

			phone := w.phone()
			phone.open(link)
			phone.reads("Did you start this on your computer?", number, "127.0.0.1")
			phone.faultless("phone-asks")
			phone.click(`form[data-outcome="begin"] button`, part("start"))
			w.shows(phoneWaits + ` :not(svg[data-qr]) .waiting, ` + phoneWaits + ` .waiting`)
			w.wait("the computer sees that the phone has begun", func() bool {
				// While the page loads itself again it may have no text.
				text, err := chromedp.Run(w.ctx, chromedp.Evaluate[string](`document.body.innerText`))
				return err == nil && strings.Contains(text, "Your phone is connected")
			})
			w.picture("begun")
			other := w.phone()
			other.open(link)
			other.reads("Another device is already doing this check")
			phone.picture("phone-camera")
			phone.click(part("start"), part("take"))
			phone.click(part("take"), part("use"))
			phone.click(part("use"), phoneDone)
			phone.faultless("phone-done")
			w.shows(backInTheShop) // automatically
			w.reads("Your age is verified", "Demo camera", "L1", "25")
			if names := phone.cookies(); len(names) != 1 {
				t.Errorf("contract 40: the phone has the cookies %v, want one", names)
			}
			phone.do(chromedp.Reload())
			phone.reads("This link no longer works")
			w.inbox("started", "completed")
		})
	}

	t.Run("contract 40: a no on the phone, and then a file on the computer", func(t *testing.T) {
		w := newWalk(t, onComputer)
		w.estimate("15")
		w.chooses(cameraID)
		w.click(handButton, phoneWaits)
		phone := w.phone()
		phone.open(w.code())
		phone.click(`form[data-outcome="begin"] button`, part("start"))
		phone.click(part("start"), part("take"))
		phone.click(part("take"), part("use"))
		phone.click(part("use"), phoneDone)
		w.shows(`.notice`)
		w.reads("The estimate is below the age that the site asks for", "2 attempts left")
		w.estimate("30")
		w.click(part("start"), part("file"))
		w.do(chromedp.SetUploadFiles(`input[type="file"]`, []string{pictureFile(t)}))
		w.shows(part("use"))
		w.click(part("use"), backInTheShop)
		w.inbox("started", "completed")
	})
}

// TestChromiumHandOffPages inspects both screens of a hand-off.
func TestChromiumHandOffPages(t *testing.T) {
	long.Skip(t, "TestChromiumHandOffPages")
	inEveryLanguage(t, func(t *testing.T, lang string, in []look) {
		w := newWalk(t, in[0].screen, accept(lang))
		w.looks = in
		phone := w.phone(in[0].screen, accept(lang))
		w.chooses(cameraID)
		w.sees("camera")
		w.click(part("start"), `body[data-camera="none"]`)
		w.sees("camera-none")
		w.click(handButton, phoneWaits)
		w.sees("awaited")
		w.do(chromedp.Reload())
		phone.open(w.attribute(`svg[data-qr]`, "data-qr"))
		phone.sees("asks")
		phone.click(`form[data-outcome="begin"] button`, part("start"))
		phone.sees("camera-of-the-phone")
		w.do(chromedp.Reload())
		w.sees("begun")
		phone.do(command(network.ClearBrowserCookies, cdp.Empty{}), chromedp.Reload())
		phone.sees("taken")
		phone.open(w.BaseURL + "/verify/phone/" + strings.Repeat("A", 24))
		phone.sees("over")
	})
}

// TestChromiumWaiting inspects the page that waits for an app, on a computer and on a phone.
func TestChromiumWaiting(t *testing.T) {
	long.Skip(t, "TestChromiumWaiting")
	const waits = `svg[data-qr]`
	begin := `form[data-outcome="begin"] button`

	t.Run("contract 34: on a computer the code comes first", func(t *testing.T) {
		for _, scheme := range []string{"light", "dark"} {
			w := newWalk(t, onComputer, colours(scheme))
			w.chooses(appID)
			w.click(begin, waits)
			w.faultless("wait-" + scheme)
			code, link := w.top(waits), w.top(`a[data-wallet]`)
			if code < 0 || link < code || w.top(`.way-show a`) >= 0 {
				t.Errorf("contract 34: the code is at %v and the link at %v", code, link)
			}
			w.threeWays(`a[data-wallet]`, handButton, `[data-outcome=cancel] button`)
			ask := w.code()
			w.answer(ask)
			w.shows(backInTheShop) // automatically
			w.inbox("started", "completed")
		}
	})

	t.Run("contract 34: without script the page loads itself again, less often", func(t *testing.T) {
		w := newWalk(t, onComputer, noScript)
		w.chooses(appID)
		w.click(begin, waits)
		w.shows(`.again a`)
		w.answer(w.attribute(waits, "data-qr"))
		w.shows(backInTheShop) // automatically
	})

	t.Run("contract 34: on a phone the app comes first, and the code stays once it is asked for",
		func(t *testing.T) {
			w := newWalk(t, onPhone)
			w.chooses(appID)
			w.click(begin, `a[data-wallet]`)
			w.faultless("wait")
			if w.top(waits) >= 0 || w.top(`a[data-wallet]`) < 0 || w.top(`.way-show a`) < 0 {
				t.Errorf("contract 34: the code is at %v, the link at %v", w.top(waits),
					w.top(`a[data-wallet]`))
			}
			w.threeWays(`a[data-wallet]`, `.way-show a`, `[data-outcome=cancel] button`)
			w.click(`.way-show a`, `.ways[data-shown]`)
			w.faultless("wait-code")
			ask := w.code()
			w.staysWhileNothingHappens()
			w.do(chromedp.Reload())
			if w.shows(waits); w.top(waits) < 0 {
				t.Error("contract 34: the page that is loaded again hides the code")
			}
			w.answer(ask)
			w.shows(backInTheShop)
		})
}

// staysWhileNothingHappens fails the test if a page that waits loads itself while there is nothing new, or if
// it does not ask.
func (w *walk) staysWhileNothingHappens() {
	w.t.Helper()
	get(w, chromedp.Evaluate[any](`scrollTo(0, 120), document.querySelector("[data-outcome=cancel] button").focus({preventScroll: true})`))
	loaded, asked := w.loaded(), w.requests("/verify")
	at := get(w, chromedp.Evaluate[float64](`scrollY`))
	w.wait("the page asks twice", func() bool { return w.requests("/verify") >= asked+2 })
	if w.loaded() != loaded {
		w.t.Error("contract 34: the page loads itself though nothing has happened")
	}
	if now := get(w, chromedp.Evaluate[float64](`scrollY`)); now != at {
		w.t.Errorf("contract 34: the page has jumped from %v to %v", at, now)
	}
	if !get(w, chromedp.Evaluate[bool](`document.activeElement.matches("[data-outcome=cancel] button")`)) {
		w.t.Error("WCAG 3.2.5: the focus is lost")
	}
}

// threeWays fails the test if the page shows other links and buttons than these, or more than three.
func (w *walk) threeWays(ways ...string) {
	w.t.Helper()
	shown := get(w, chromedp.Evaluate[[]string](`[...document.querySelectorAll("a[href], button, summary")]
		.filter(e => e.checkVisibility()).map(e => e.outerHTML)`))
	if len(shown) != len(ways) || len(ways) > 3 {
		w.t.Errorf("the page has %d ways, want %q: %q", len(shown), ways, shown)
	}
	for _, way := range ways {
		if w.top(way) < 0 {
			w.t.Errorf("the page does not show %s", way)
		}
	}
}

// answer answers for the app that a code asks.
func (w *walk) answer(ask string) {
	w.t.Helper()
	u, err := url.Parse(ask)
	if err != nil {
		w.t.Fatal(err)
	}
	to := u.Query().Get("to")
	body, err := json.Marshal(map[string]string{"answer": "approve", "to": to,
		"nonce": u.Query().Get("nonce")})
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.Post(to, "application/json", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		w.t.Fatalf("contract 34: the answer gets %d", resp.StatusCode)
	}
}

// loaded returns a number that differs for each load of a page.
func (w *walk) loaded() float64 {
	w.t.Helper()
	return get(w, chromedp.Evaluate[float64](`performance.timeOrigin`))
}
