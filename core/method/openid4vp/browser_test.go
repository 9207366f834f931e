package openid4vp_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/wallettest"
)

// inBrowser returns the page's form after a wallet has responded through the browser.
func (w *fixture) inBrowser(origin string, changes ...func(*wallettest.Presentation)) url.Values {
	w.Helper()
	return w.answered(w.requestTo("org-iso-mdoc"), origin, changes...)
}

// requestTo returns the page's request by a protocol.
func (w *fixture) requestTo(protocol string) method.Credential {
	w.Helper()
	for _, c := range w.shows().Credentials {
		if c.Protocol == protocol {
			return c
		}
	}
	w.Fatalf("the page does not ask the browser by %s", protocol)
	return method.Credential{}
}

// answered returns the page's form when a wallet has answered a request for a page of an origin.
func (w *fixture) answered(c method.Credential, origin string,
	changes ...func(*wallettest.Presentation)) url.Values {
	w.Helper()
	data, err := w.wallet.Credential(origin, c.Protocol, c.Data, changes...)
	if err != nil {
		w.Fatal(err)
	}
	return credentialForm(c.Protocol, string(data))
}

func credentialForm(protocol, data string) url.Values {
	name, err := json.Marshal(protocol)
	if err != nil {
		panic(err)
	}
	return url.Values{method.CredentialField: {`{"protocol":` + string(name) + `,"data":` + data + `}`}}
}

func TestAnswersByTheBrowser(t *testing.T) {
	for _, c := range []struct {
		rule     string
		returns  string // ReturnURL
		origin   string
		change   func(*wallettest.Presentation)
		verdict  method.Verdict
		rejected string
	}{
		{"a wallet's answer", "", service, nil, method.Approved, ""},
		{"the port of https is not in an origin", "https://verge.example:443/verify/return/wallet", service,
			nil, method.Approved, ""},
		{"another port is", "http://localhost:8080/verify/return/wallet", "http://localhost:8080", nil,
			method.Approved, ""},
		{"false is a final no", "", service, func(p *wallettest.Presentation) { p.Set("age_over_18", false) },
			method.Rejected, ""},
		{"another origin", "", "https://evil.example", nil, method.AttemptFailed, "hpke_not_opened"},
		{"another origin in the signed data", "", service, func(p *wallettest.Presentation) {
			p.Session.Origin = "https://evil.example"
		}, method.AttemptFailed, "hpke_not_opened"},
		{"another key signs", "", service, func(p *wallettest.Presentation) {
			p.SignWith, _ = signing()
		}, method.AttemptFailed, "device_signature"},
		{"a document of another issuer", "", service, func(p *wallettest.Presentation) {
			p.Issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon})
		}, method.AttemptFailed, "untrusted"},
	} {
		t.Run("contract 39: "+c.rule, func(t *testing.T) {
			w := newFixture(t, config(t, "eu-av", nil))
			if c.returns != "" {
				w.session.ReturnURL = c.returns
			}
			var changes []func(*wallettest.Presentation)
			if c.change != nil {
				changes = append(changes, c.change)
			}
			w.wantByBrowser(w.inBrowser(c.origin, changes...), c.verdict, c.rejected)
		})
	}
}

// wantByBrowser fails unless a form of the page has that verdict.
func (w *fixture) wantByBrowser(form url.Values, verdict method.Verdict, rejected string) {
	w.Helper()
	w.session.ResponseURI = "" // a form of the page does not wait
	d := w.act(form, nil)
	reason := ""
	if d.Rejection != nil {
		reason = d.Rejection.Reason
	}
	if d.Verdict != verdict || reason != rejected {
		w.Errorf("the verdict is %v, reason %q; want %v, %q", d.Verdict, reason, verdict, rejected)
	}
	want := map[string]method.Reason{"untrusted": method.Untrusted}[rejected]
	if verdict == method.AttemptFailed &&
		d.Reason != cmp.Or(want, method.Unproven) {
		w.Errorf("the page says %q", d.Reason)
	}
	w.session.ResponseURI = box
}

func TestAttacksByTheBrowser(t *testing.T) {
	sealed := func(form url.Values) []byte {
		var answer struct{ Data struct{ Response string } }
		if err := json.Unmarshal([]byte(form.Get(method.CredentialField)), &answer); err != nil {
			panic(err)
		}
		b, err := base64.RawURLEncoding.DecodeString(answer.Data.Response)
		if err != nil {
			panic(err)
		}
		return b
	}
	response := func(b []byte) url.Values {
		return credentialForm("org-iso-mdoc", `{"response":"`+base64.RawURLEncoding.EncodeToString(b)+`"}`)
	}
	for _, c := range []struct {
		rule     string
		form     func(w *fixture) url.Values
		rejected string
	}{
		{"a response to another request", func(w *fixture) url.Values {
			form := w.inBrowser(service)
			w.begin()
			return form
		}, "hpke_not_opened"},
		{"a changed response", func(w *fixture) url.Values {
			b := sealed(w.inBrowser(service))
			b[len(b)-1] ^= 1
			return response(b)
		}, "hpke_not_opened"},
		{"a truncated response", func(w *fixture) url.Values {
			b := sealed(w.inBrowser(service))
			return response(b[:len(b)-1])
		}, "hpke_form"},
		{"no answer", func(*fixture) url.Values { return credentialForm("org-iso-mdoc", `{"response":""}`) },
			"response_encoding"},
		{"a number", func(*fixture) url.Values { return credentialForm("org-iso-mdoc", `{"response":1}`) },
			"response_encoding"},
		{"no data", func(*fixture) url.Values { return credentialForm("org-iso-mdoc", `"data"`) },
			"response_encoding"},
		{"rubbish", func(*fixture) url.Values { return response([]byte{0xff}) }, "hpke_form"},
	} {
		t.Run("contract 39: "+c.rule, func(t *testing.T) {
			w := newFixture(t, config(t, "eu-av", nil))
			w.wantByBrowser(c.form(w), method.AttemptFailed, c.rejected)
		})
	}
	for rule, c := range map[string]struct {
		config method.Config
		form   func(w *fixture) url.Values
	}{
		"a protocol that was not asked for": {config(t, "eu-av", nil), func(w *fixture) url.Values {
			form := w.inBrowser(service)
			form.Set(method.CredentialField,
				strings.Replace(form.Get(method.CredentialField), "org-iso-mdoc", "openid4vp-v1-unsigned", 1))
			return form
		}},
		"no JSON": {config(t, "eu-av", nil),
			func(*fixture) url.Values { return url.Values{"credential": {"{"}} }},
		"a method that does not ask browsers": {config(t, "eu-av", settings{"browser": false}),
			func(*fixture) url.Values { return credentialForm("org-iso-mdoc", `{"response":"AA"}`) }},
		"a page without a request": {config(t, "eu-av", nil), func(w *fixture) url.Values {
			form := w.inBrowser(service)
			w.state = nil
			return form
		}},
	} {
		w := newFixture(t, c.config)
		form := c.form(w)
		d, err := w.method.Act(t.Context(), w.session, method.Step{Form: form, State: w.state})
		if !errors.Is(err, method.ErrStep) {
			t.Errorf("contract 39: %s: %+v, %v", rule, d, err)
		}
	}
}
