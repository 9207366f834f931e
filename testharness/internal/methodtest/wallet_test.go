package methodtest_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/methodtest"
	"github.com/verge-id/verge/testharness/wallettest"
)

// agency is a service that sends requests to wallets, and a wallet with a valid document.
type agency struct {
	*testharness.Harness
	wallet *wallettest.Wallet
}

func newAgency(t *testing.T, s methodtest.Subject) *agency {
	t.Helper()
	a := &agency{}
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch, EKU: wallettest.AgeSigner})
	side := s.Open(t, func() time.Time { return testharness.Epoch })
	var settings map[string]any
	if err := json.Unmarshal(side.Config.Settings, &settings); err != nil {
		t.Fatal(err)
	}
	if settings["profile"] == "mdl" {
		issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch,
			EKU: wallettest.MDLSigner})
	}
	settings["trust_anchors"] = []string{string(issuer.PEM())}
	b, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	side.Config.Settings, side.Config.Name, side.Config.Kind = b, s.Kind, s.Kind
	a.Harness = testharness.New(t, &testharness.Options{Methods: []method.Config{side.Config},
		Keys: side.Keys})
	a.Offer(a.Publisher.L2, s.Kind)
	a.wallet = wallettest.New(issuer)
	a.wallet.Now = a.Now
	return a
}

// ask starts a session, and opens the page that waits for a wallet.
func (a *agency) ask() (testharness.Started, *testharness.Page) {
	s := a.Start(testharness.Body{"integration_id": a.Publisher.L2.ID})
	page := a.Open(s.RedirectURL).Submit("begin")
	a.wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: page}}
	return s, page
}

func (a *agency) status(s testharness.Started) string { return a.Reconcile(s.SessionID).Text("status") }

// On the same device the wallet gets the address to which it sends its user, and only the browser that
// started continues there.
func TestWallet_SameDevice(t *testing.T) {
	for name, subject := range map[string]methodtest.Subject{"by value": methodtest.Wallet,
		"signed": methodtest.SignedWallet} {
		t.Run("contract 39: "+name, func(t *testing.T) {
			a := newAgency(t, subject)
			s, page := a.ask()
			reply, err := a.wallet.Answer(context.Background(), page.Wallet)
			if err != nil || reply.Status != 200 || !strings.Contains(reply.RedirectURI, "response_code=") {
				t.Fatalf("%+v, %v", reply, err)
			}
			if other := a.Open(reply.RedirectURI); other.Callback != nil || other.Kind != "elsewhere" {
				t.Errorf("contract 39: another browser continues, to a %s page", other.Kind)
			}
			if waiting := page.Reload(); waiting.Callback != nil {
				t.Error("contract 39: the page continues without the code")
			}
			if status := a.status(s); status != "PENDING" {
				t.Errorf("the session is %s", status)
			}
			if done := page.Go(reply.RedirectURI); done.Callback == nil {
				t.Errorf("a %s page (%d)", done.Kind, done.Status)
			}
			if status := a.status(s); status != "COMPLETED" {
				t.Errorf("the session is %s", status)
			}
		})
	}
}

const walletForm = "application/x-www-form-urlencoded"

// The statuses of an address to which wallets post (contract 34).
func TestWallet_Address(t *testing.T) {
	a := newAgency(t, methodtest.Wallet)
	s, page := a.ask()
	r, err := a.wallet.Open(context.Background(), page.Code)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.wallet.Present(r)
	if err != nil {
		t.Fatal(err)
	}
	good := m.Form.Encode()
	nowhere := strings.Replace(m.URL, "/verify/box/", "/verify/box/AA", 1)[:len(m.URL)]
	for _, c := range []struct {
		rule, method, address, contentType, body string
		status                                   int
	}{
		{"a request by value is not served", "GET", m.URL, "", "", 404},
		{"there is no other method", "OPTIONS", m.URL, "", "", 405},
		{"a JSON response", "POST", m.URL, "application/json", "{}", 415},
		{"no content type", "POST", m.URL, "", good, 415},
		{"a response without proof", "POST", m.URL, walletForm, "vp_token=a", 400},
		{"a response for another device, posted for the same one", "POST", m.URL + ".s", walletForm, good,
			400},
		{"a response of 64 KiB and a byte", "POST", m.URL, walletForm,
			good + strings.Repeat("a", 64<<10+1-len(good)), 413},
		{"64 KiB exactly", "POST", m.URL, walletForm, good + strings.Repeat("a", 64<<10-len(good)), 400},
		{"another address", "POST", nowhere, walletForm, good, 404},
		{"contract 22: the token twice", "POST", m.URL, walletForm, good + "&vp_token=a", 400},
		{"contract 22: an error in bad encoding", "POST", m.URL, walletForm, good + "&error=%zz", 400},
		{"contract 22: the good answer among unknown parameters", "POST", m.URL, walletForm,
			"x=1&x=%zz&" + good + "&y=a;b&%zz&x=2", 200},
		{"the same again", "POST", m.URL, walletForm, "x=1&x=%zz&" + good + "&y=a;b&%zz&x=2", 200},
		{"another one", "POST", m.URL, walletForm, good + "&a=b", 410},
		{"to fetch the question of a box that is closed", "GET", m.URL, "", "", 410},
	} {
		header := http.Header{}
		if c.contentType != "" {
			header.Set("Content-Type", c.contentType)
		}
		got := page.AsAnother(c.method, c.address, header, []byte(c.body))
		if got.Status != c.status || got.Header.Get("Location") != "" ||
			got.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("contract 34, 39: %s: %d, want %d: %s", c.rule, got.Status, c.status, got.Body)
		}
	}
	if status := a.status(s); status != "PENDING" {
		t.Errorf("contract 34: a response has completed the session: %s", status)
	}
	if done := page.LoadAgain(); done.Callback == nil {
		t.Errorf("a %s page (%d)", done.Kind, done.Status)
	}
	if got := page.AsAnother("POST", m.URL, testharness.Headers("Content-Type", walletForm),
		[]byte(good)); got.Status != 404 {
		t.Errorf("contract 39: after the session the status is %d", got.Status)
	}
}

// A signed request can be fetched again by anyone who has the address, until a response arrives.
func TestWallet_SignedRequest(t *testing.T) {
	a := newAgency(t, methodtest.SignedWallet)
	_, page := a.ask()
	u, err := url.Parse(page.Code)
	if err != nil {
		t.Fatal(err)
	}
	address := u.Query().Get("request_uri")
	for range 2 {
		got := page.AsAnother("GET", address, nil, nil)
		if got.Status != 200 || got.Header.Get("Content-Type") != "application/oauth-authz-req+jwt" ||
			got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("contract 39: %d, %v", got.Status, got.Header)
		}
	}
	if reply, err := a.wallet.Answer(context.Background(), page.Code); err != nil || reply.Status != 200 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if got := page.AsAnother("GET", address, nil, nil); got.Status != 410 {
		t.Errorf("contract 39: after the response: %d", got.Status)
	}
	a.Advance(11 * time.Minute)
	if got := page.AsAnother("GET", address, nil, nil); got.Status != 404 && got.Status != 410 {
		t.Errorf("contract 39: after the session: %d", got.Status)
	}
}

// An accepted response is rejected at the address of another session, before and after a rotation of the
// ring.
func TestWallet_ReplayedResponse(t *testing.T) {
	for name, subject := range map[string]methodtest.Subject{"by value": methodtest.Wallet,
		"signed": methodtest.SignedWallet} {
		t.Run("contract 39: "+name, func(t *testing.T) {
			a := newAgency(t, subject)
			_, page := a.ask()
			r, err := a.wallet.Open(context.Background(), page.Code)
			if err != nil {
				t.Fatal(err)
			}
			m, err := a.wallet.Present(r)
			if err != nil {
				t.Fatal(err)
			}
			post := func(page *testharness.Page, address string) int {
				return page.AsAnother("POST", address, testharness.Headers("Content-Type", walletForm),
					[]byte(m.Form.Encode())).Status
			}
			if got := post(page, m.URL); got != 200 {
				t.Fatalf("the first time: %d", got)
			}
			for _, rotate := range []func(){func() {}, a.RotateKeyring} {
				rotate()
				s, next := a.ask()
				r, err := a.wallet.Open(context.Background(), next.Code)
				if err != nil {
					t.Fatal(err)
				}
				if m.Form.Has("state") {
					m.Form.Set("state", r.State)
				}
				if got := post(next, r.ResponseURI); got != 400 {
					t.Errorf("at another session's address: %d, want 400", got)
				}
				if next.LoadAgain().Callback != nil || a.status(s) != "PENDING" {
					t.Errorf("the other session is %s", a.status(s))
				}
			}
			if done := page.LoadAgain(); done.Callback == nil {
				t.Errorf("its own session shows a %s page (%d)", done.Kind, done.Status)
			}
		})
	}
}

// The page shows the user's decision in the wallet. No attempt is counted.
func TestWallet_UserDeclines(t *testing.T) {
	a := newAgency(t, methodtest.Wallet)
	s, page := a.ask()
	if reply, err := a.wallet.Decline(context.Background(), page.Code); err != nil || reply.Status != 200 {
		t.Fatalf("%+v, %v", reply, err)
	}
	done := page.LoadAgain()
	if done.Kind != "cancelled" || a.status(s) != "PENDING" {
		t.Errorf("contract 39: a %s page, and the session is %s", done.Kind, a.status(s))
	}
	again := done.Go(s.RedirectURL).Submit("begin")
	a.wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: again}}
	if reply, err := a.wallet.Answer(context.Background(), again.Code); err != nil || reply.Status != 200 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if done := again.LoadAgain(); done.Callback == nil {
		t.Errorf("the second time: a %s page (%d)", done.Kind, done.Status)
	}
}

// byBrowser returns the page's form, with a wallet's response through the browser.
func (a *agency) byBrowser(t *testing.T, page *testharness.Page, origin string) testharness.Form {
	t.Helper()
	f := page.StepForm("credential", nil)
	data, err := a.wallet.Credential(origin, f.Data["protocol"], []byte(f.Data["request"]))
	if err != nil {
		t.Fatal(err)
	}
	f.Fields.Set("credential", `{"protocol":"org-iso-mdoc","data":`+string(data)+`}`)
	return f
}

func TestWallet_Browser(t *testing.T) {
	a := newAgency(t, methodtest.Wallet)
	s, page := a.ask()
	if p := page.Header.Get("Permissions-Policy"); !strings.Contains(p, "digital-credentials-get=(self)") ||
		!strings.Contains(page.Header.Get("Content-Security-Policy"), "script-src 'self'") {
		t.Errorf("contract 39: the page may not ask: %s, %s", p, page.Header.Get("Content-Security-Policy"))
	}
	bad := a.byBrowser(t, page, "https://evil.example")
	failed := page.SubmitForm(bad)
	if failed.Kind != "method" || !strings.Contains(string(failed.Body), "could not verify your wallet") {
		t.Errorf("contract 39: a response to another origin: a %s page (%d): %s", failed.Kind, failed.Status,
			failed.Body)
	}
	if again := page.SubmitForm(bad); again.Callback != nil {
		t.Error("contract 23: a form of an earlier attempt is evaluated")
	}
	if logs := a.Logs(); !strings.Contains(logs, "hpke_not_opened") {
		t.Error("the log lacks the reason")
	}
	if metrics := a.Metrics(); !strings.Contains(metrics, "hpke_not_opened") {
		t.Error("the metrics lack the reason")
	}
	page = failed.Submit("begin")
	good := a.byBrowser(t, page, a.BaseURL)
	if done := page.SubmitForm(good); done.Callback == nil {
		t.Fatalf("contract 39: a %s page (%d)", done.Kind, done.Status)
	}
	if late := page.SubmitForm(good); late.Callback == nil || a.status(s) != "COMPLETED" {
		t.Errorf("contract 39: the same again: a %s page, and the session is %s", late.Kind, a.status(s))
	}
}

// The address for responses of a browser's wallet accepts only these, and up to its limit.
func TestWallet_BrowserAddress(t *testing.T) {
	a := newAgency(t, methodtest.Wallet)
	s, page := a.ask()
	f := page.StepForm("credential", nil)
	post := func(contentType string, fields url.Values) int {
		return a.Do("POST", f.Action, testharness.Headers("Content-Type", contentType),
			[]byte(fields.Encode())).Status
	}
	with := func(name, value string) url.Values {
		fields := url.Values{}
		maps.Copy(fields, f.Fields)
		fields.Del("credential")
		if name != "" {
			fields.Set(name, value)
		}
		return fields
	}
	for rule, got := range map[string]struct{ status, want int }{
		"no answer":                         {post(walletForm, with("", "")), 400},
		"another form":                      {post(walletForm, with("outcome", "cancel")), 400},
		"no JSON":                           {post(walletForm, with("credential", "{")), 400},
		"a protocol that was not requested": {post(walletForm, with("credential", `{"protocol":"a"}`)), 400},
		"another type":                      {post("application/json", with("credential", "{}")), 415},
		"more than a response of 64 KiB": {post(walletForm, with("credential", strings.Repeat("a", 80<<10))),
			413},
		"a response to another session": {post(walletForm, url.Values{"flow": {"a"}, "credential": {"{}"}}),
			400},
		"64 KiB that are taken and read": {post(walletForm, with("credential", strings.Repeat("a", 64<<10))),
			400},
	} {
		if got.status != got.want {
			t.Errorf("contract 39: %s: %d, want %d", rule, got.status, got.want)
		}
	}
	if got := a.Do("GET", f.Action, nil, nil).Status; got != 405 {
		t.Errorf("contract 39: the address is loaded: %d", got)
	}
	if status := a.status(s); status != "PENDING" {
		t.Errorf("the session is %s", status)
	}
}

// With cross_device = false, a wallet on another device cannot respond, however its link was forwarded.
func TestWallet_SameDeviceOnly(t *testing.T) {
	for name, subject := range map[string]methodtest.Subject{"by value": methodtest.Wallet,
		"signed": methodtest.SignedWallet} {
		t.Run("contract 39: "+name, func(t *testing.T) {
			subject := subject
			opened := subject.Open
			subject.Open = func(t testing.TB, now func() time.Time) methodtest.Side {
				t.Helper()
				side := opened(t, now)
				side.Config.Settings = append([]byte(`{"cross_device":false,`), side.Config.Settings[1:]...)
				return side
			}
			a := newAgency(t, subject)
			s, page := a.ask()
			if page.Code != "" || page.Wallet == "" || strings.Contains(string(page.Body), "data-hand") {
				t.Fatalf("the page shows the code %q and opens %q", page.Code, page.Wallet)
			}
			f := page.Form("cancel")
			f.Fields.Del("outcome")
			f.Add("hand", "open")
			if p := page.SubmitForm(f); p.Status != 200 || p.Kind != "method" {
				t.Errorf("contract 40: a phone gets a %s page (%d)", p.Kind, p.Status)
			}

			// The attacker removes the suffix: a victim's wallet would respond for the attacker's page.
			other := strings.ReplaceAll(page.Wallet, ".s", "")
			r, err := a.wallet.Open(context.Background(), other)
			if name == "signed" {
				if err == nil {
					t.Error("the request for another device is served")
				}
			} else {
				m, err := a.wallet.Present(r)
				if err != nil {
					t.Fatal(err)
				}
				if reply, err := a.wallet.Send(context.Background(), m); err != nil || reply.Status != 400 {
					t.Errorf("a response from another device: %+v, %v", reply, err)
				}
			}
			if waiting := page.LoadAgain(); waiting.Callback != nil || a.status(s) != "PENDING" {
				t.Errorf("it completes: a %s page, and the session is %s", waiting.Kind, a.status(s))
			}
			reply, err := a.wallet.Answer(context.Background(), page.Wallet)
			if err != nil || reply.Status != 200 {
				t.Fatalf("%+v, %v", reply, err)
			}
			if done := page.Go(reply.RedirectURI); done.Callback == nil || a.status(s) != "COMPLETED" {
				t.Errorf("on the same device: a %s page (%d), and the session is %s", done.Kind, done.Status,
					a.status(s))
			}
		})
	}
}

// A document that contains only a "no" to a higher age leaves the requested age open, and costs an
// attempt.
func TestWallet_LicenceWithoutAge(t *testing.T) {
	a := newAgency(t, methodtest.SignedWallet)
	a.wallet.Elements = map[string]any{"age_over_21": false}
	s, page := a.ask()
	if reply, err := a.wallet.Answer(context.Background(), page.Code); err != nil || reply.Status != 200 {
		t.Fatalf("%+v, %v", reply, err)
	}
	done := page.LoadAgain()
	if done.Kind != "method" || !strings.Contains(string(done.Body),
		"does not show whether you are old enough") || a.status(s) != "PENDING" {
		t.Errorf("contract 39: a %s page: %s", done.Kind, done.Body)
	}
}
