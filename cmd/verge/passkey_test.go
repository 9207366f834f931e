package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/edge/adminclient"
)

// A user with a real browser makes a passkey after a check and goes on with it (contract 38). The same without a
// browser, on every store and engine, is TestPasskeys in testharness/conformance.
func TestPasskeysInChromium(t *testing.T) {
	t.Parallel()
	browser := startChromium(t)
	program, _, _ := testProgram()
	pub, stop := devHere(t, program)
	defer stop()
	client, err := adminclient.New(adminclient.Config{URL: pub.AdminURL, Token: pub.OperatorToken})
	if err != nil {
		t.Fatal(err)
	}
	on := integration.PasskeysService
	l2, err := client.ChangeIntegration(context.Background(), pub.IntegrationIDL2, "",
		admin.IntegrationRequest{Passkeys: &on})
	if err != nil || l2.Passkeys != on {
		t.Fatalf("%+v, %v", l2, err)
	}
	u := newConsoleUser(t, browser, pub.BaseURL)
	begin := func(id string) {
		t.Helper()
		status, _, b, err := pub.api("POST", "/api/v1/verify/start", map[string]string{"integration_id": id,
			"callback_url": pub.DemoURL + "/nowhere"})
		var s struct {
			RedirectURL string `json:"redirect_url"`
		}
		if err != nil || status != 200 || json.Unmarshal(b, &s) != nil {
			t.Fatalf("start: %d %s, %v", status, b, err)
		}
		u.open(s.RedirectURL)
	}
	const (
		use   = `form[data-method="passkey"]`
		enrol = `form[data-step="enrol"]`
	)
	shows := func(selector string) bool {
		return evaluate[bool](u, `!(document.querySelector(`+"`"+selector+"`"+`)?.hidden ?? true)`)
	}
	appears := func(selector string) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); !shows(selector); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("contract 38: %s does not show %s: %s", u.at(), selector, u.text())
			}
		}
	}
	arrives := func(part string) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); !strings.Contains(u.at(), part); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("contract 38: the browser is at %s and not at %s: %s", u.at(), part, u.text())
			}
		}
	}
	says := func(text string) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); !strings.Contains(u.text(), text); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("contract 38: %s does not say %q: %s", u.at(), text, u.text())
			}
		}
	}
	callback := "/nowhere?result_token="

	// Make one. The page waits for the user, and the callback is one click away.
	begin(pub.IntegrationIDAll)
	u.press(`form[data-method="sandbox"] button`)
	u.press(`form[data-outcome="approve"] button`)
	appears(enrol)
	u.reads("Next time with a passkey?", "Continue to")
	u.look("passkey-enrol")
	u.do(chromedp.Click(enrol + ` button`))
	arrives(callback)

	// Use it in the next session, and on the page after cancelling.
	begin(pub.IntegrationIDAll)
	appears(use)
	u.look("passkey-choose")
	u.do(chromedp.Click(use + ` button`))
	arrives(callback)

	begin(pub.IntegrationIDAll)
	u.press(`form[data-method="sandbox"] button`)
	appears(use)
	u.look("passkey-method")
	u.press(`form[data-outcome="cancel"] button`)
	appears(use)
	u.look("passkey-cancelled")
	u.do(chromedp.Click(use + ` button`))
	arrives(callback)

	// L1 is not enough for L2, and the page says why.
	begin(pub.IntegrationIDL2)
	appears(use)
	u.do(chromedp.Click(use + ` button`))
	says("this site asks for a check with an ID")
	appears(use)
	u.look("passkey-refused")

	// An authenticator that does not verify its user, and one that signs badly.
	for _, bad := range []webauthn.SetResponseOverrideBitsParams{{IsBadUV: new(true)}, {IsBogusSignature: new(true)}} {
		bad.AuthenticatorID = u.device
		u.do(devtools(webauthn.SetResponseOverrideBits, bad))
		begin(pub.IntegrationIDAll)
		appears(use)
		u.do(chromedp.Click(use + ` button`))
		says("could not be verified")
		u.do(devtools(webauthn.SetResponseOverrideBits, webauthn.SetResponseOverrideBitsParams{
			AuthenticatorID: u.device, IsBadUV: new(false), IsBogusSignature: new(false)}))
	}

	// See and delete what is kept.
	u.open("/verify/passkeys")
	appears(use)
	u.look("passkeys")
	u.do(chromedp.Click(use + ` button`))
	says("A check that you are 18 or older")
	u.look("passkeys-kept")
	u.press(`form[data-outcome="delete"] button`)
	u.reads("It is deleted")
	begin(pub.IntegrationIDAll)
	appears(use)
	u.do(chromedp.Click(use + ` button`))
	says("We have no record of it")

	// A device that cannot keep a passkey goes on at once, and so does a user who declines.
	u.do(devtools(webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: u.device}))
	begin(pub.IntegrationIDAll)
	u.press(`form[data-method="sandbox"] button`)
	u.press(`form[data-outcome="approve"] button`)
	appears(enrol)
	u.do(chromedp.Click(enrol + ` button`))
	arrives(callback)
	u.do(devtools(webauthn.RemoveVirtualAuthenticator,
		webauthn.RemoveVirtualAuthenticatorParams{AuthenticatorID: u.device}))
	begin(pub.IntegrationIDAll)
	u.press(`form[data-method="sandbox"] button`)
	u.do(chromedp.Click(`form[data-outcome="approve"] button`))
	arrives(callback)
}
