package demo_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/digitalcredentials"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
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

// responds has the virtual wallet answer what the page asks by org-iso-mdoc, as a wallet that is asked by a
// page of that origin.
func (w *walk) responds(origin string) {
	w.t.Helper()
	w.respondsBy("org-iso-mdoc", origin)
}

// respondsBy is responds by a protocol.
func (w *walk) respondsBy(protocol, origin string, changes ...func(*wallettest.Presentation)) {
	w.t.Helper()
	type request struct {
		Protocol string
		Data     json.RawMessage
	}
	var all []request
	if err := json.Unmarshal([]byte(w.attribute(credentialForm, "data-more")), &all); err != nil {
		w.t.Fatal(err)
	}
	all = append(all, request{w.attribute(credentialForm, "data-protocol"),
		json.RawMessage(w.attribute(credentialForm, "data-request"))})
	at := slices.IndexFunc(all, func(r request) bool { return r.Protocol == protocol })
	if at < 0 {
		w.t.Fatalf("contract 55: the page does not ask by %s", protocol)
	}
	wallet := wallettest.New(w.issuer)
	wallet.Now = w.Now
	data, err := wallet.Credential(origin, protocol, all[at].Data, changes...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.behaves(digitalcredentials.SetVirtualWalletBehaviorParams{
		Action:   digitalcredentials.VirtualWalletActionRespond,
		Protocol: protocol, Response: jsonv2.Value(data)})
}

// allProtocols is a method that asks the browser by all protocols, and the key that signs its requests.
func allProtocols(t *testing.T, issuer *wallettest.Issuer) (key []byte, c method.Config) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: testharness.Epoch.AddDate(0, 0, -1),
		NotAfter: testharness.Epoch.AddDate(1, 0, 0)}
	if der, err = x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey,
		private); err != nil {
		t.Fatal(err)
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	settings, err := json.Marshal(map[string]any{"profile": "eu-av", "encrypted": true,
		"trust_anchors": []string{string(issuer.PEM())}, "certificate": certificate,
		"client_id_prefix": "x509_hash",
		"browser":          []string{"openid4vp-v1-signed", "openid4vp-v1-unsigned", "org-iso-mdoc"}})
	if err != nil {
		t.Fatal(err)
	}
	return key, method.Config{Name: "protocols", Kind: "openid4vp", Keys: []string{"private_key"},
		Settings: settings}
}

func TestChromiumWallet(t *testing.T) {
	t.Run("contract 39: on the same device", func(t *testing.T) {
		w := newWalk(t)
		w.asksWallet()
		w.picture("wallet-asked")
		w.click(walletLink, walletPage)
		w.reads("SIMULATED", "This is not a real wallet", "age_over_18")
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
		w.shows(backInTheShop) // automatically
	})
	t.Run("contract 39: declined in the wallet", func(t *testing.T) {
		w := newWalk(t)
		w.asksWallet()
		w.click(walletLink, walletPage)
		w.click(shares("decline"), `body[data-page="cancelled"]`)
	})
}

// The browser asks its own wallets. Its dialog is not a part of the page, so a virtual wallet
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
	for _, protocol := range []string{"org-iso-mdoc", "openid4vp-v1-unsigned", "openid4vp-v1-signed"} {
		t.Run("contract 55: of three protocols the browser chooses "+protocol, func(t *testing.T) {
			w := newWalk(t)
			w.chooses(protocolsID)
			w.click(beginButton, walletLink)
			w.respondsBy(protocol, w.BaseURL)
			w.click(credentialForm+" button", backInTheShop)
		})
	}
	for protocol, shown := range map[string]string{"org-iso-mdoc": ":not([hidden])", "none": "[hidden]"} {
		t.Run("contract 55: the browser supports "+protocol, func(t *testing.T) {
			w := newWalk(t)
			w.do(runsFirst(`DigitalCredential.userAgentAllowsProtocol = (p) => p === "` + protocol + `"`))
			w.asksWallet()
			w.shows(credentialForm + shown)
		})
	}
	t.Run("contract 55: an error of the wallet counts no attempt", func(t *testing.T) {
		w := newWalk(t)
		w.chooses(protocolsID)
		w.click(beginButton, walletLink)
		w.behaves(digitalcredentials.SetVirtualWalletBehaviorParams{
			Action:   digitalcredentials.VirtualWalletActionRespond,
			Protocol: "openid4vp-v1-signed", Response: jsonv2.Value(`{"error":"invalid_request"}`)})
		w.click(credentialForm+" button", `.notice`)
		w.reads("did not respond")
	})
	t.Run("contract 39: a response for another origin is a failed attempt", func(t *testing.T) {
		w := newWalk(t)
		w.asksWallet()
		w.responds("https://evil.example")
		w.click(credentialForm+" button", `.notice`)
		w.reads("We could not verify your wallet")
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
