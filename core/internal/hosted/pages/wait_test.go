package pages

import (
	"bytes"
	"fmt"
	"html"
	"strconv"
	"strings"
	"testing"
	"time"
)

// addWaits adds the pages of a hand-off, and those that wait.
func addWaits(add func(name string, change func(*View))) {
	add("box, with its code on a phone", func(v *View) {
		v.Kind, v.AgainURL, v.AgainAfter = Method, againURL, 3*time.Second
		v.Open, v.Code, v.CodeShown = "openid4vp://?client_id=a", "https://b.example/c", true
	})
	add("camera, or a phone", func(v *View) {
		v.Kind, v.Words, v.Camera, v.Hand = Method, "estimator", true,
			true
	})
	add("camera of a phone", func(v *View) {
		v.Kind, v.Words, v.Camera, v.OnPhone = Method, "estimator", true, true
	})
	add("phone awaited", func(v *View) {
		v.Kind, v.AgainURL, v.AgainAfter, v.Number = PhoneWait, againURL, 3*time.Second, "42"
		v.Code, v.RetryURL = "https://b.example/verify/phone/c", "/verify?flow=a"
	})
	add("phone at it", func(v *View) {
		v.Kind, v.AgainURL, v.AgainAfter, v.Number, v.Taken = PhoneWait, againURL, 3*time.Second, "42", true
	})
	add("phone asked", func(v *View) {
		v.Kind, v.OnPhone, v.Number, v.Choices = Phone, true, "42", []string{"begin"}
	})
	add("box, answered", func(v *View) {
		v.Kind, v.AgainURL, v.AgainAfter, v.Answered = Method, againURL, 3*time.Second, true
	})
}

// The last page of a check has one button, which returns to the site. If the check can continue from a page,
// that is its button.
func TestLastPage_Button(t *testing.T) {
	all := views()
	for name, want := range map[string]string{
		"failed PROVIDER_REJECTED": "https://shop.example", "failed MAX_ATTEMPTS": "https://shop.example",
		"failed UNKNOWN": "https://shop.example", "failed USER_CANCELLED": "https://shop.example",
		"failed TIMEOUT": "https://shop.example", "expired": "https://shop.example",
		"expired, confirmed": "https://shop.example", "used": "https://shop.example",
		"damaged": "https://shop.example", "cancelled, retry": "/verify?flow=a.b-c",
		"not_allowed, retry": "/verify?flow=a.b-c", "unavailable, retry": "/verify?flow=a.b-c",
		"damaged, no site, no time": "", "home, no site, no time": "",
	} {
		doc, _ := render(t, all[name])
		var buttons []string
		for _, a := range find(doc, "a") {
			if attr(a, "class") == "button" {
				buttons = append(buttons, attr(a, "href"))
			}
		}
		if strings.Join(buttons, " ") != want || len(find(doc, "button")) > 0 {
			t.Errorf("contract 24: %s: the buttons lead to %q, want %q", name, buttons, want)
		}
	}
}

func TestWalletPage_Device(t *testing.T) {
	tests := map[string]bool{"method of kind openid4vp": true, "wallet of this device": false}
	for name, other := range tests {
		_, raw := render(t, views()[name])
		if got := strings.Contains(raw, "or on your phone"); got != other {
			t.Errorf("contract 39: %s: the page offers another device: %v, want %v", name, got, other)
		}
	}
}

// A page that waits has one way to respond and at most three others.
func TestWaitingPage_WaysOut(t *testing.T) {
	for _, name := range []string{"box", "box, with its code on a phone", "box, answered", "phone awaited",
		"phone at it"} {
		v := views()[name]
		v.AnotherURL = "/verify?flow=a&method="
		doc, raw := render(t, v)
		ways := len(find(doc, "button"))
		for _, a := range find(doc, "a") {
			if attr(a, "href") != againURL { // which a browser without script has
				ways++
			}
		}
		if ways > 4 || strings.Contains(raw, html.EscapeString(v.AnotherURL)) {
			t.Errorf("contract 34: %s has %d ways out, or leads to another method", name, ways)
		}
	}
}

// A page that waits gives its script and a browser without script the same values.
func TestWaitingPage_Script(t *testing.T) {
	all := views()
	for name, state := range map[string]string{"box": "waiting", "box, answered": "answered",
		"phone awaited": "waiting", "phone at it": "taken", "asked, again": "waiting"} {
		doc, raw := render(t, all[name])
		body, after := find(doc, "body")[0], all[name].AgainAfter/time.Second
		if attr(body, "data-state") != state || attr(body, "data-again") != againURL ||
			attr(body, "data-after") != strconv.Itoa(int(after)) {
			t.Errorf("contract 34: %s: %s", name, raw[strings.Index(raw, "<body"):][:200])
		}
		refresh := fmt.Sprintf(`<noscript><meta http-equiv="refresh" content="%d;url=%s"></noscript>`,
			3*after, html.EscapeString(againURL))
		if strings.Count(raw, refresh) != 1 || strings.Count(raw, "http-equiv") != 1 {
			t.Errorf("contract 34: %s loads itself with script, too, or not without: want %s", name, refresh)
		}
	}
	for _, word := range []string{"eval", "innerHTML", "localStorage", "document.cookie", "http:", "https:"} {
		if bytes.Contains(waitJS, []byte(word)) {
			t.Errorf("contract 22: the script has %q", word)
		}
	}
}
