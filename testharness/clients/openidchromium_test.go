package clients

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/long"
)

// contract 50: a user with a phone opens a static site behind Apache, is verified and sees the site.
func TestOpenIDClient_Chromium(t *testing.T) {
	long.Skip(t, "TestOpenIDClient_Chromium")
	ctx := chromium.Start(t)
	address := freeAddress(t)
	h := newOpenIDProvider(t, "http://"+address+"/oauth2/callback")
	h.AdvanceTo(time.Now()) // Apache has its own clock
	startApache(t, h, address)

	phone := chromedp.EmulateViewport(320, 640, chromedp.EmulateMobile, chromedp.EmulateTouch)
	if err := chromedp.Do(ctx, phone, chromedp.Navigate("http://"+address+"/index.html")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	const approve = `document.querySelector('form[data-outcome=approve] button')`
	width := becomes(t, ctx, `String(document.documentElement.scrollWidth)`, approve)
	if width != "320" {
		t.Errorf("WCAG 2.2, 1.4.10: the page is %s pixels wide on a screen of 320", width)
	}
	becomes(t, ctx, `String(`+approve+`.click() ?? '')+'pressed'`, approve)
	said := becomes(t, ctx, `document.body.textContent + ' ' + location.href`,
		`location.host === '`+address+`' && document.body.textContent !== ''`)
	if want := "for adults http://" + address + "/index.html"; said != want {
		t.Errorf("the browser shows %q, want %q", said, want)
	}
}

// becomes waits until the condition holds in the page, and returns the script's text. Between two pages a
// browser has no document.
func becomes(t *testing.T, ctx context.Context, script, condition string) string {
	t.Helper()
	for ctx.Err() == nil {
		said, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(`+condition+`) ? `+script+` : ''`))
		if err == nil && said != "" {
			return said
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("this did not happen in time: %s", condition)
	return ""
}
