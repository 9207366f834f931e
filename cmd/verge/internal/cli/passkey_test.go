package cli

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/long"
)

// passkeyUser has a session checked in a real browser, with a passkey or without.
type passkeyUser struct {
	*consoleUser
	pub *publisher
}

const (
	usePasskey  = `form[data-method="passkey"]`
	makePasskey = `form[data-step="enrol"]`
	atCallback  = "/nowhere?result_token="
)

// A user with a real browser creates a passkey after a check and uses it the next time (contract 38). The
// same without a browser, on every store and engine, is TestPasskeys in testharness/conformance.
func TestPasskeysInChromium(t *testing.T) {
	long.Skip(t, "TestPasskeysInChromium")
	t.Parallel()
	browser := chromium.Start(t)
	program, _, _ := testProgram()
	pub, stop := devHere(t, program)
	defer stop()
	client, err := adminclient.New(adminclient.Config{URL: pub.AdminURL, Token: pub.OperatorToken})
	if err != nil {
		t.Fatal(err)
	}
	on := integration.PasskeysService
	l2, err := adminclient.Do(
		context.Background(),
		client,
		operate.ChangeIntegration,
		operate.IntegrationUpdate{
			Versioned:        operate.Versioned{ID: pub.IntegrationIDL2},
			IntegrationInput: operate.IntegrationInput{Passkeys: &on},
		},
	)
	if err != nil || l2.Passkeys != on {
		t.Fatalf("%+v, %v", l2, err)
	}
	u := &passkeyUser{consoleUser: newConsoleUser(t, browser, pub.BaseURL), pub: pub}
	u.makesAPasskey()
	u.usesIt()
	u.isRejected()
	u.deletesIt()
	u.goesOnWithoutOne()
}

// makesAPasskey: the page waits for the user, and the callback is one click away.
func (u *passkeyUser) makesAPasskey() {
	u.t.Helper()
	u.begin(u.pub.IntegrationIDAll)
	u.press(`form[data-method="sandbox"] button`)
	u.press(`form[data-outcome="approve"] button`)
	u.appears(makePasskey)
	u.reads("Next time with a passkey?", "Continue to")
	u.look("passkey-enrol")
	u.click(makePasskey)
	u.arrives(atCallback)
}

// usesIt uses the passkey in the next session, and on the page after cancelling.
func (u *passkeyUser) usesIt() {
	u.t.Helper()
	u.begin(u.pub.IntegrationIDAll)
	u.appears(usePasskey)
	u.look("passkey-choose")
	u.click(usePasskey)
	u.arrives(atCallback)

	u.begin(u.pub.IntegrationIDAll)
	u.press(`form[data-method="sandbox"] button`)
	u.appears(usePasskey)
	u.look("passkey-method")
	u.press(`form[data-outcome="cancel"] button`)
	u.appears(usePasskey)
	u.look("passkey-cancelled")
	u.click(usePasskey)
	u.arrives(atCallback)
}

// isRejected: L1 is not enough for L2, and the page explains it. An authenticator that does not verify its
// user is rejected too, and so is one that signs badly.
func (u *passkeyUser) isRejected() {
	u.t.Helper()
	u.begin(u.pub.IntegrationIDL2)
	u.appears(usePasskey)
	u.click(usePasskey)
	u.says("this site asks for one with an ID")
	u.appears(usePasskey)
	u.look("passkey-refused")

	for _, bad := range []webauthn.SetResponseOverrideBitsParams{
		{IsBadUV: new(true)}, {IsBogusSignature: new(true)},
	} {
		bad.AuthenticatorID = u.device
		u.do(devtools(webauthn.SetResponseOverrideBits, bad))
		u.begin(u.pub.IntegrationIDAll)
		u.appears(usePasskey)
		u.click(usePasskey)
		u.says("could not be verified")
		u.do(devtools(webauthn.SetResponseOverrideBits, webauthn.SetResponseOverrideBitsParams{
			AuthenticatorID: u.device, IsBadUV: new(false), IsBogusSignature: new(false)}))
	}
}

// deletesIt sees and deletes what is kept.
func (u *passkeyUser) deletesIt() {
	u.t.Helper()
	u.open("/verify/passkeys")
	u.appears(usePasskey)
	u.look("passkeys")
	u.click(usePasskey)
	u.says("A check that you are 18 or older")
	u.look("passkeys-kept")
	u.press(`form[data-outcome="delete"] button`)
	u.reads("Passkey data deleted")
	u.begin(u.pub.IntegrationIDAll)
	u.appears(usePasskey)
	u.click(usePasskey)
	u.says("We have no record of it")
}

// goesOnWithoutOne: a device that cannot store a passkey continues immediately, and so does a user who
// declines.
func (u *passkeyUser) goesOnWithoutOne() {
	u.t.Helper()
	u.do(devtools(webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: u.device}))
	u.begin(u.pub.IntegrationIDAll)
	u.press(`form[data-method="sandbox"] button`)
	u.press(`form[data-outcome="approve"] button`)
	u.appears(makePasskey)
	u.click(makePasskey)
	u.arrives(atCallback)
	u.do(devtools(webauthn.RemoveVirtualAuthenticator,
		webauthn.RemoveVirtualAuthenticatorParams{AuthenticatorID: u.device}))
	u.begin(u.pub.IntegrationIDAll)
	u.press(`form[data-method="sandbox"] button`)
	u.do(chromedp.Click(`form[data-outcome="approve"] button`))
	u.arrives(atCallback)
}

// begin starts a session of an integration and opens its page.
func (u *passkeyUser) begin(integrationID string) {
	u.t.Helper()
	status, _, b, err := u.pub.api("POST", "/api/v1/verify/start", map[string]string{
		"integration_id": integrationID, "callback_url": u.pub.DemoURL + "/nowhere"})
	var s struct {
		RedirectURL string `json:"redirect_url"`
	}
	if err != nil || status != 200 || json.Unmarshal(b, &s) != nil {
		u.t.Fatalf("start: %d %s, %v", status, b, err)
	}
	u.open(s.RedirectURL)
}

// click presses the button of a form whose script continues when the device has responded.
func (u *passkeyUser) click(form string) {
	u.t.Helper()
	u.do(chromedp.Click(form + ` button`))
}

// appears waits until what the selector finds is in sight.
func (u *passkeyUser) appears(selector string) {
	u.t.Helper()
	script := "String(document.querySelector(`" + selector + "`)?.hidden)"
	u.waits("show "+selector, script, "false")
}
