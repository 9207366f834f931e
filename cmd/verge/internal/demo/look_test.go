package demo_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/digitalcredentials"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wallettest"
)

const (
	beginButton   = `form[data-outcome="begin"] button`
	cancelledPage = `body[data-page="cancelled"]`
	passkeyForm   = `form[data-passkey]:not([hidden])`
	enrolForm     = `form[data-step="enrol"]:not([hidden])`
)

// TestChromiumWalletPages inspects every page that a user with a wallet sees, on this device and on a phone
// that does the step for it.
func TestChromiumWalletPages(t *testing.T) {
	long.Skip(t, "TestChromiumWalletPages")
	inEveryLanguage(t, func(t *testing.T, lang string, in []look) {
		w := newWalk(t, in[0].screen, accept(lang))
		w.looks = in
		w.seeWalletPages()
		phone := w.phone(in[0].screen, accept(lang))
		w.seeWalletHandOff(phone)
	})
}

// documentFaults are documents that do not help. The page has a notice for each.
var documentFaults = []struct {
	name   string
	change func(*wallettest.Presentation)
}{
	{"document_expired", func(p *wallettest.Presentation) { p.ValidUntil = p.Signed.Add(time.Hour) }},
	{"issuer_untrusted", func(p *wallettest.Presentation) {
		p.Issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch})
	}},
	{"other_document", func(p *wallettest.Presentation) { p.DocType = "org.iso.18013.5.1.mDL" }},
}

// seeWalletPages goes through the pages of a wallet on this device.
func (w *walk) seeWalletPages() {
	w.t.Helper()
	w.chooses(walletID)
	w.sees("begin")
	w.click(beginButton, credentialForm+`:not([hidden])`)
	w.sees("waiting")
	w.do(chromedp.Reload())
	w.open(w.location() + "&show=code")
	w.shows(`.ways[data-shown]`)
	w.sees("code")

	w.do(chromedp.Reload())
	w.behaves(digitalcredentials.SetVirtualWalletBehaviorParams{
		Action: digitalcredentials.VirtualWalletActionWait})
	w.click(credentialForm+" button", credentialForm+` button[aria-disabled="true"]`)
	w.sees("asking")
	w.do(chromedp.Reload())
	w.responds("https://evil.example")
	w.click(credentialForm+" button", `.notice`)
	w.sees("unproven")
	for _, c := range documentFaults {
		w.chooses(walletID)
		w.click(beginButton, credentialForm+`:not([hidden])`)
		w.respondsBy("org-iso-mdoc", w.BaseURL, c.change)
		w.click(credentialForm+" button", `.notice`)
		w.sees(c.name)
	}

	w.chooses(walletID)
	w.click(beginButton, walletLink)
	wallet := wallettest.New(w.issuer)
	wallet.Now = w.Now
	r, err := wallet.Answer(context.Background(), w.attribute(walletLink, "href"))
	if err != nil || r.Status != 200 {
		w.t.Fatalf("contract 39: the wallet gets %+v, %v", r, err)
	}
	w.do(chromedp.Reload())
	w.shows(`body[data-state="answered"]`)
	w.sees("answered")

	w.chooses(walletID)
	w.click(beginButton, walletLink)
	w.behaves(digitalcredentials.SetVirtualWalletBehaviorParams{
		Action: digitalcredentials.VirtualWalletActionDecline})
	w.click(credentialForm+" button", cancelledPage)
	w.sees("cancelled")
}

// seeWalletHandOff goes through the pages of two devices. The second one has the wallet.
func (w *walk) seeWalletHandOff(phone *walk) {
	w.t.Helper()
	w.chooses(walletID)
	w.click(beginButton, walletLink)
	w.open(w.location() + "&show=code")
	w.shows(`.ways[data-shown]`)
	get(w, chromedp.Evaluate[any](`document.querySelector("form[data-hand]").requestSubmit()`))
	w.shows(phoneWaits)
	w.sees("phone-awaited")
	link := w.attribute(`svg[data-qr]`, "data-qr")
	w.do(chromedp.Reload())
	phone.open(link)
	phone.sees("phone-asks")
	phone.click(beginButton, `body[data-page="method"]`)
	phone.sees("phone-begin")
	phone.click(beginButton, walletLink)
	phone.sees("phone-waiting")
	w.do(chromedp.Reload())
	w.shows(phoneWaits + ` main:not(:has(svg[data-qr])) .waiting`)
	w.sees("phone-begun")
	other := w.phone(w.looks[0].screen)
	other.open(link)
	other.sees("phone-taken")
	phone.do(chromedp.Reload())
	phone.click(walletLink, walletPage)
	phone.click(shares("adult"), phoneDone)
	phone.sees("phone-done")
	other.open(w.BaseURL + "/verify/phone/" + strings.Repeat("A", 24))
	other.sees("phone-over")
}

// TestChromiumPasskeyPages inspects every page on which a user creates, uses, sees and deletes a passkey.
func TestChromiumPasskeyPages(t *testing.T) {
	long.Skip(t, "TestChromiumPasskeyPages")
	inEveryLanguage(t, func(t *testing.T, lang string, in []look) {
		w := newWalkTo(t, &withoutCamera, "localhost", in[0].screen, accept(lang)) // passkeys need a name
		w.looks = in
		w.hasDevice()
		w.makesPasskey()
		w.seePasskeyUses()
		w.seePasskeyKept()
	})
}

// hasDevice gives the browser a device that keeps passkeys and has a fingerprint reader that always says yes.
func (w *walk) hasDevice() {
	w.t.Helper()
	w.do(command(webauthn.Enable, webauthn.EnableParams{}),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			made, err := cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator,
				webauthn.AddVirtualAuthenticatorParams{
					Options: &webauthn.VirtualAuthenticatorOptions{Protocol: "ctap2", Transport: "internal",
						HasResidentKey: true, HasUserVerification: true, IsUserVerified: true,
						AutomaticPresenceSimulation: true}})
			w.device = made.AuthenticatorID
			return err
		}))
}

// asksForPasskeys begins a session with passkeys, for a site whose name is as long as names get. more is
// added to the address.
func (w *walk) asksForPasskeys(more string) {
	w.t.Helper()
	label := strings.Repeat("averylonghostname", 3)
	s := w.Start(testharness.Body{"integration_id": keyID,
		"callback_url": "http://" + label + "." + label + ".localhost:9/return"})
	w.open(s.RedirectURL + more)
	w.shows(passkeyForm)
}

// makesPasskey inspects the pages of a first check, and creates a passkey after it.
func (w *walk) makesPasskey() {
	w.t.Helper()
	w.asksForPasskeys("")
	w.sees("choose")
	w.click(`form[data-method="bank"] button`, beginButton)
	w.shows(passkeyForm)
	w.sees("method")
	w.click(beginButton, bankPage)
	w.click(answer("cancel"), cancelledPage)
	w.shows(passkeyForm)
	w.sees("cancelled")
	w.click(`main a[href^="/verify?"]`, `form[data-method="bank"]`)
	w.click(`form[data-method="bank"] button`, beginButton)
	w.click(beginButton, bankPage)
	w.click(answer("adult"), enrolForm)
	w.sees("enrol")
	w.do(chromedp.Click(enrolForm + ` button`))
	w.wait("the browser leaves for the site", func() bool {
		at, err := chromedp.Run(w.ctx, chromedp.Location())
		return err == nil && !strings.HasPrefix(at, w.BaseURL)
	})
}

// seePasskeyUses inspects pages with a passkey that was not accepted.
func (w *walk) seePasskeyUses() {
	w.t.Helper()
	for _, reason := range []string{"level", "blocked"} { // those with the longest words
		w.asksForPasskeys("&" + url.Values{"show": {"passkey"}, "why": {reason}}.Encode())
		w.shows(`.notice`)
		w.sees("refused-" + reason)
	}
	w.asksForPasskeys("")
	w.overrides(true)
	w.click(passkeyForm+` button`, `.notice`)
	w.overrides(false)
	w.shows(passkeyForm)
	w.sees("refused-answer")
}

// overrides has the device sign wrongly, or well again.
func (w *walk) overrides(bogus bool) {
	w.t.Helper()
	w.do(command(webauthn.SetResponseOverrideBits, webauthn.SetResponseOverrideBitsParams{
		AuthenticatorID: w.device, IsBogusSignature: &bogus}))
}

// seePasskeyKept inspects the page of one's own passkey, and deletes the passkey.
func (w *walk) seePasskeyKept() {
	w.t.Helper()
	w.open(w.BaseURL + "/verify/passkeys")
	w.shows(passkeyForm)
	w.sees("passkeys")
	w.overrides(true)
	w.click(passkeyForm+` button`, `.notice`)
	w.overrides(false)
	w.shows(passkeyForm)
	w.sees("passkeys-refused")
	w.click(passkeyForm+` button`, `.facts`)
	w.sees("passkeys-kept")
	w.click(`form[data-outcome="delete"] button`, `main:not(:has(form))`)
	w.sees("passkeys-deleted")
	w.open(w.BaseURL + "/verify/passkeys")
	w.shows(passkeyForm)
	w.click(passkeyForm+` button`, `.notice`)
	w.sees("passkeys-unknown")
}
