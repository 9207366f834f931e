package demo_test

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/digitalcredentials"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wallettest"
)

// Places on pages.
const (
	walletLink     = `a[data-wallet]`
	walletPage     = `form[action="/wallet/answer"]`
	credentialForm = `form[data-step="credential"]`
)

func shares(choice string) string { return walletPage + ` button[value="` + choice + `"]` }

// asksWallet begins a verification and ends on the page that waits for a wallet.
func (w *walk) asksWallet() {
	w.t.Helper()
	w.chooses(walletID)
	w.reads("Confirm your age with your wallet")
	w.click(`form[data-outcome="begin"] button`, walletLink)
}

// behaves has the browser's virtual wallet do something with the next request of this page.
func (w *walk) behaves(p digitalcredentials.SetVirtualWalletBehaviorParams) {
	w.t.Helper()
	w.do(command(digitalcredentials.SetVirtualWalletBehavior, p))
}

// responds has the virtual wallet answer what the page asks, as a wallet that is asked by a page of that
// origin.
func (w *walk) responds(origin string) {
	w.t.Helper()
	wallet := wallettest.New(w.issuer)
	wallet.Now = w.Now
	data, err := wallet.Credential(origin, w.attribute(credentialForm, "data-protocol"),
		[]byte(w.attribute(credentialForm, "data-request")))
	if err != nil {
		w.t.Fatal(err)
	}
	w.behaves(digitalcredentials.SetVirtualWalletBehaviorParams{
		Action:   digitalcredentials.VirtualWalletActionRespond,
		Protocol: "org-iso-mdoc", Response: jsonv2.Value(data)})
}

func TestChromiumWallet(t *testing.T) {
	t.Run("contract 39: on the same device", func(t *testing.T) {
		w := newWalk(t)
		w.asksWallet()
		w.picture("wallet-asked")
		w.click(walletLink, walletPage)
		w.reads("PRETEND!", "This is not a real wallet", "age_over_18")
		w.picture("wallet-pretended")
		w.click(shares("adult"), backInTheShop)
	})
	t.Run("contract 39: on another device", func(t *testing.T) {
		w := newWalk(t, onComputer) // elsewhere the code is a link away
		w.asksWallet()
		w.picture("wallet-code")
		code := w.code()
		resp, err := http.Get(code)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		link := regexp.MustCompile(`name="link" value="([^"]+)"`).FindSubmatch(page)
		if err != nil || link == nil {
			t.Fatalf("%v: %s", err, page)
		}
		form := url.Values{"choice": {"adult"}, "link": {strings.ReplaceAll(string(link[1]), "&amp;", "&")}}
		resp, err = http.PostForm(w.others+"/wallet/answer", form)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("the wallet answers %v, %v", resp, err)
		}
		resp.Body.Close()
		w.shows(backInTheShop) // by itself
	})
	t.Run("contract 39: declined in the wallet", func(t *testing.T) {
		w := newWalk(t)
		w.asksWallet()
		w.click(walletLink, walletPage)
		w.click(shares("decline"), `body[data-page="cancelled"]`)
	})
}

// The browser asks its own wallets. What it shows for that is not a part of the page, so a virtual wallet
// answers.
func TestChromiumDigitalCredentials(t *testing.T) {
	long.Skip(t, "TestChromiumDigitalCredentials")
	t.Run("contract 39: the browser's wallet answers", func(t *testing.T) {
		w := newWalk(t)
		w.asksWallet()
		w.picture("wallet-browser")
		w.responds(w.BaseURL)
		w.click(credentialForm+" button", backInTheShop)
	})
	t.Run("contract 39: an answer for another origin is a failed attempt", func(t *testing.T) {
		w := newWalk(t)
		w.asksWallet()
		w.responds("https://evil.example")
		w.click(credentialForm+" button", `.notice`)
		w.reads("We could not verify the wallet")
	})
	t.Run("contract 39: the user declines", func(t *testing.T) {
		w := newWalk(t)
		w.asksWallet()
		w.behaves(digitalcredentials.SetVirtualWalletBehaviorParams{
			Action: digitalcredentials.VirtualWalletActionDecline})
		w.click(credentialForm+" button", `body[data-page="cancelled"]`)
	})
	t.Run("contract 39: the page does not load itself while the browser asks", func(t *testing.T) {
		w := newWalk(t)
		w.asksWallet()
		w.behaves(digitalcredentials.SetVirtualWalletBehaviorParams{
			Action: digitalcredentials.VirtualWalletActionWait})
		w.do(chromedp.Click(credentialForm + " button"))
		w.shows(credentialForm + ` button[aria-disabled="true"]`)
		before := w.requests("/verify")
		time.Sleep(4 * time.Second) // longer than the page waits
		if after := w.requests("/verify"); after != before {
			t.Errorf("the page has loaded itself %d times", after-before)
		}
		w.reads("Your browser is asking your wallet")
	})
}

// requests is how often the service was asked for a path.
func (w *walk) requests(path string) int {
	return strings.Count(w.Logs(), `"method":"GET","route":"verify","path":"`+path+`"`)
}
