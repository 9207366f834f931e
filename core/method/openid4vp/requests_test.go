package openid4vp_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/testharness/wallettest"
)

// Protocols of the Digital Credentials API.
const (
	isoProtocol      = "org-iso-mdoc"
	unsignedProtocol = "openid4vp-v1-unsigned"
	signedProtocol   = "openid4vp-v1-signed"
)

var allProtocols = []string{isoProtocol, unsignedProtocol, signedProtocol}

// A wallet answers the request of each protocol, whichever the browser chooses.
func TestBrowserProtocols(t *testing.T) {
	for name, c := range map[string]struct {
		profile string
		changes settings
	}{
		"in the clear":        {"eu-av", settings{"browser": allProtocols}},
		"encrypted":           {"eu-av", settings{"browser": allProtocols, "encrypted": true}},
		"of a signed profile": {"mdl", settings{"browser": allProtocols}},
		"named by the hash":   {"pid", settings{"browser": allProtocols, "client_id_prefix": "x509_hash"}},
		"with a registration": {"mdl", settings{"browser": allProtocols, "verifier_info": registration}},
		"with a reader":       {"mdl", settings{"browser": allProtocols, "reader_certificate": readerPEM()}},
		"on this device only": {"eu-av", settings{"browser": allProtocols, "cross_device": false}},
	} {
		for _, protocol := range allProtocols {
			t.Run("contract 55: "+name+", "+protocol, func(t *testing.T) {
				w := newFixture(t, config(t, c.profile, c.changes))
				w.wantByBrowser(w.answered(w.requestTo(protocol), service), method.Approved, "")
				set := func(p *wallettest.Presentation) {
					p.Set("age_over_18", false)
					p.Set("birth_date", born("2020-01-01"))
				}
				w.wantByBrowser(w.answered(w.requestTo(protocol), service, set), method.Rejected, "")
			})
		}
	}
}

const registration = `[{"format":"registration_cert","data":"eyJhbGciOiJFUzI1NiJ9.e30.AA"}]`

func readerPEM() string {
	_, certificate := reading()
	return certificate
}

// The protocols by profile and setting. The first page that waits has a request for each.
func TestBrowserSetting(t *testing.T) {
	for _, c := range []struct {
		profile string
		changes settings
		want    []string
	}{
		{"eu-av", nil, []string{isoProtocol}},
		{"eu-av", settings{"browser": true}, []string{isoProtocol}},
		{"eu-av", settings{"browser": false}, nil},
		{"eu-av", settings{"browser": []string{}}, nil},
		{"mdl", nil, []string{isoProtocol, signedProtocol}},
		{"mdl", settings{"browser": true}, []string{isoProtocol, signedProtocol}},
		{"mdl", settings{"browser": true, "request": "value"}, []string{isoProtocol}},
		{"pid", settings{"browser": []string{signedProtocol}}, []string{signedProtocol}},
		{"pid", settings{"browser": []string{unsignedProtocol, isoProtocol}},
			[]string{unsignedProtocol, isoProtocol}},
	} {
		var got []string
		for _, r := range newFixture(t, config(t, c.profile, c.changes)).shows().Credentials {
			got = append(got, r.Protocol)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("contract 55: %s with %v asks by %q, want %q", c.profile, c.changes, got, c.want)
		}
	}
}

// claimsOf returns the payload and the header of a request object.
func claimsOf(t *testing.T, compact string) (claims, header map[string]any) {
	t.Helper()
	parts := strings.Split(compact, ".")
	for n, into := range []any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[n])
		if err == nil {
			err = json.Unmarshal(b, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return claims, header
}

// The parameters of each request, as OpenID4VP 1.0 and HAIP 1.0 have them: no other one is sent.
func TestRequestParameters(t *testing.T) {
	w := newFixture(t, config(t, "mdl", settings{"browser": allProtocols, "verifier_info": registration}))
	q, err := w.get(true)
	if err != nil {
		t.Fatal(err)
	}
	byLink, header := claimsOf(t, string(q.Body))
	signed, signedHeader := claimsOf(t, signedRequest(t, w.requestTo(signedProtocol)))
	var unsigned map[string]any
	if err := json.Unmarshal(w.requestTo(unsignedProtocol).Data, &unsigned); err != nil {
		t.Fatal(err)
	}
	common := []string{"client_metadata", "dcql_query", "nonce", "response_mode", "response_type",
		"verifier_info"}
	for name, c := range map[string]struct {
		got  map[string]any
		more []string
		mode string
	}{
		"by link":     {byLink, []string{"aud", "client_id", "response_uri", "state"}, "direct_post.jwt"},
		"signed":      {signed, []string{"aud", "client_id", "expected_origins"}, "dc_api.jwt"},
		"not signed":  {unsigned, nil, "dc_api.jwt"},
		"the headers": {header, nil, ""},
	} {
		if c.mode == "" {
			if !reflect.DeepEqual(header, signedHeader) || header["alg"] != "ES256" ||
				header["typ"] != "oauth-authz-req+jwt" || len(header) != 3 {
				t.Errorf("contract 55: the headers are %v and %v", header, signedHeader)
			}
			continue
		}
		want := slices.Sorted(slices.Values(append(slices.Clone(common), c.more...)))
		if got := slices.Sorted(maps.Keys(c.got)); !slices.Equal(got, want) {
			t.Errorf("contract 55: the request %s has %q, want %q", name, got, want)
		}
		if c.got["response_mode"] != c.mode || c.got["response_type"] != "vp_token" {
			t.Errorf("contract 55: the request %s is %v", name, c.got)
		}
		metadata, _ := c.got["client_metadata"].(map[string]any)
		encryptions, _ := metadata["encrypted_response_enc_values_supported"].([]any)
		jwks, _ := metadata["jwks"].(map[string]any)
		keys, _ := jwks["keys"].([]any)
		if len(keys) != 1 || !slices.Equal(encryptions, []any{"A128GCM", "A256GCM"}) {
			t.Fatalf("contract 55: the request %s has %v", name, metadata)
		}
		key, _ := keys[0].(map[string]any)
		if key["kid"] == "" || key["alg"] != "ECDH-ES" || key["use"] != "enc" || key["crv"] != "P-256" {
			t.Errorf("contract 55: the request %s has the key %v", name, key)
		}
	}
	if got := signed["expected_origins"]; !reflect.DeepEqual(got, []any{service}) {
		t.Errorf("contract 55: the origins are %v, want %s", got, service)
	}
	if byLink["client_id"] != "x509_san_dns:"+serviceHost || signed["client_id"] != byLink["client_id"] {
		t.Errorf("contract 55: the clients are %v and %v", byLink["client_id"], signed["client_id"])
	}
}

// HAIP 1.0: the trust anchor is not sent. The certificates between it and the key's own are.
func TestChainWithoutAnchor(t *testing.T) {
	chain := wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon, Between: 1})
	_, own := signing()
	text := own
	for _, der := range [][]byte{chain.Chain[1], chain.Root.Raw} {
		text += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	w := newFixture(t, config(t, "mdl", settings{"certificate": text}))
	q, err := w.get(false)
	if err != nil {
		t.Fatal(err)
	}
	_, header := claimsOf(t, string(q.Body))
	sent, _ := header["x5c"].([]any)
	if len(sent) != 2 || sent[1] != base64.StdEncoding.EncodeToString(chain.Chain[1]) ||
		!strings.Contains(strings.ReplaceAll(own, "\n", ""), sent[0].(string)) {
		t.Errorf("contract 55: %d certificates are sent, want the key's own and the one between", len(sent))
	}
}

// The page is shown often. Requests are signed once, when the pending request is drawn.
func TestSignedOnce(t *testing.T) {
	signed := map[string]int{}
	w := newFixture(t, config(t, "mdl", settings{"browser": allProtocols, "reader_certificate": readerPEM()}))
	m, err := openid4vp.Kind.Open(config(t, "mdl", settings{"browser": allProtocols,
		"reader_certificate": readerPEM()}), method.Host{Now: func() time.Time { return w.now },
		Random: rand.Reader, Sign: func(ctx context.Context, key, algorithm string, b []byte) ([]byte,
			error) {
			signed[key]++
			return sign(ctx, key, algorithm, b)
		}})
	if err != nil {
		t.Fatal(err)
	}
	w.method = m.(method.Requester)
	w.begin()
	first := w.shows().Credentials
	for range 3 {
		if again := w.shows().Credentials; !reflect.DeepEqual(first, again) || len(again) != 3 {
			t.Errorf("contract 55: the page asks by %d protocols, or by other requests", len(again))
		}
	}
	if want := map[string]int{"wallet_private_key": 1, "wallet_reader_key": 1}; !maps.Equal(signed, want) {
		t.Errorf("contract 55: keys have signed %v times, want %v", signed, want)
	}
	if leaf, err := w.wallet.Reader(service, w.requestTo(isoProtocol).Data); err != nil ||
		!strings.Contains(readerPEM(), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: leaf.Raw}))) {
		t.Errorf("contract 55: readerAuth is by %v, %v", leaf, err)
	}
	if leaf, err := w.wallet.Reader("https://evil.example",
		w.requestTo(isoProtocol).Data); err == nil {
		t.Errorf("contract 55: readerAuth holds for another origin: %v", leaf.Subject)
	}
}

// A host that cannot sign leaves the step where it was.
func TestSigningFails(t *testing.T) {
	for name, sign := range map[string]func(context.Context, string, string, []byte) ([]byte, error){
		"an error": func(context.Context, string, string, []byte) ([]byte, error) {
			return nil,
				errors.New("x")
		},
		"a signature of DER": func(context.Context, string, string, []byte) ([]byte,
			error) {
			return make([]byte, 70), nil
		},
	} {
		m, err := openid4vp.Kind.Open(config(t, "mdl", nil),
			method.Host{Now: func() time.Time { return noon }, Random: rand.Reader, Sign: sign})
		if err != nil {
			t.Fatal(err)
		}
		w := newFixture(t, config(t, "mdl", nil))
		d, err := m.Act(t.Context(), w.session, method.Step{Form: url.Values{"outcome": {"begin"}}})
		if err == nil || d.State != nil {
			t.Errorf("contract 55: %s: %+v, %v", name, d, err)
		}
	}
}

// A setting changes while a page waits. Its signed request no longer fits, so it is left out. The other
// requests stay.
func TestSettingChangedWhileWaiting(t *testing.T) {
	before := settings{"browser": allProtocols, "reader_certificate": readerPEM()}
	for name, c := range map[string]struct {
		change func(w *fixture)
		want   []string
	}{
		"nothing":              {func(*fixture) {}, allProtocols},
		"a lower minimum age":  {func(w *fixture) { w.session.MinimumAge = 16 }, allProtocols},
		"a higher minimum age": {func(w *fixture) { w.session.MinimumAge = 21 }, nil},
		"the host": {func(w *fixture) { w.session.ReturnURL = "https://new.example/verify/return/wallet" },
			[]string{unsignedProtocol}},
	} {
		w := newFixture(t, config(t, "mdl", before))
		c.change(w)
		var got []string
		for _, r := range w.shows().Credentials {
			got = append(got, r.Protocol)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("contract 55: after a change of %s the page asks by %q, want %q", name, got, c.want)
		}
	}
}

// The minimum age changes between a wallet's request and its response. The request asks the same all the
// time, and the response is judged by the elements that the request has asked for.
func TestMinimumAgeChangedWhileWaiting(t *testing.T) {
	for _, c := range []struct {
		rule, profile string
		asked, now    int
		change        func(*wallettest.Presentation)
		verdict       method.Verdict // method.Pending: the response is outdated
		reason        method.Reason
		proven        int
	}{
		{"raised", "mdl", 18, 21, nil, method.Pending, "", 0},
		{"raised, with a date of birth", "pid", 18, 21, nil, method.Pending, "", 0},
		{"lowered, and the higher age is proven", "eu-av", 21, 18, says("age_over_21", true),
			method.Approved, "", 21},
		{"lowered, and the higher age is not", "eu-av", 21, 18, says("age_over_21", false),
			method.AttemptFailed, method.Other, 0},
		{"lowered, and a lower age is not reached", "eu-av", 21, 18, says("age_over_18", false),
			method.Rejected, "", 0},
		{"lowered, and the date is between", "pid", 21, 18, says("birth_date", born("2007-01-01")),
			method.Approved, "", 18},
		{"lowered, and the date is below", "pid", 21, 18, says("birth_date", born("2009-01-01")),
			method.Rejected, "", 0},
	} {
		t.Run("contract 34: "+c.rule, func(t *testing.T) {
			w := newFixture(t, config(t, c.profile, settings{"browser": allProtocols}))
			w.wallet.Elements["age_over_21"] = true
			w.asks(c.asked)
			change := c.change
			if change == nil {
				change = func(*wallettest.Presentation) {}
			}
			m, form := w.message(w.shows().Code, change), w.inBrowser(service, change)
			before := w.shows()
			w.session.MinimumAge = c.now
			kept, err := w.send(m)
			d, formErr := w.method.Act(t.Context(), w.session, method.Step{Form: form, State: w.state})
			if c.verdict == method.Pending {
				_, requestErr := w.get(false)
				for what, err := range map[string]error{"response": err, "form": formErr} {
					var setting *method.SettingError
					if !errors.Is(err, method.ErrOutdated) || !errors.As(err, &setting) ||
						setting.Setting != "minimum_age" {
						t.Errorf("a %s is %v of %+v, want ErrOutdated of minimum_age", what, err, setting)
					}
				}
				if !errors.Is(requestErr, method.ErrOutdated) || !w.shows().Outdated {
					t.Errorf("the request is %v, and the page %+v", requestErr, w.shows())
				}
				return
			}
			if err != nil || formErr != nil {
				t.Fatal(err, formErr)
			}
			if after := w.shows(); !reflect.DeepEqual(after, before) {
				t.Errorf("the page is %+v, and was %+v", after, before)
			}
			for _, d := range []method.Decision{w.act(nil, kept), d} {
				w.wantDecision(d, c.verdict, c.reason, c.proven)
				if d.Verdict == method.AttemptFailed && !strings.Contains(d.Detail, "age_over_21") {
					t.Errorf("the log names %s, which the wallet was not asked for", d.Detail)
				}
			}
		})
	}
}

// The profile changes while a wallet responds. Its document does not count for the new request.
func TestProfileChangedWhileWaiting(t *testing.T) {
	w := newFixture(t, config(t, "mdl", nil))
	m := w.message(w.shows().Code)
	w.method = newFixture(t, config(t, "pid", nil)).method
	if _, err := w.send(m); !errors.Is(err, method.ErrOutdated) || !w.shows().Outdated {
		t.Errorf("contract 34: a response to the former request is %v, want ErrOutdated", err)
	}
}

// Each request of one pending request has its own nonce and key, so a public nonce does not reveal
// another request.
func TestPendingRequest_Channels(t *testing.T) {
	w := newFixture(t, config(t, "eu-av", settings{"browser": allProtocols, "encrypted": true}))
	seen := map[string]string{}
	note := func(what, value string) {
		if before := seen[value]; before != "" || len(value) < 22 {
			t.Errorf("contract 55: %s is %q, which is also %s", what, value, before)
		}
		seen[value] = what
	}
	for _, protocol := range []string{unsignedProtocol, signedProtocol} {
		r, err := w.wallet.OpenCredential(service, protocol, w.requestTo(protocol).Data)
		if err != nil {
			t.Fatal(err)
		}
		note("the nonce of "+protocol, r.Nonce)
		note("the key of "+protocol, string(r.Key.Bytes()))
	}
	for name, link := range map[string]string{"link": w.shows().Open, "code": w.shows().Code} {
		r, err := w.wallet.Open(t.Context(), link)
		if err != nil {
			t.Fatal(err)
		}
		note("the nonce of the "+name, r.Nonce)
		note("the key of the "+name, string(r.Key.Bytes()))
	}
	r, err := w.wallet.Open(t.Context(), w.shows().Code)
	if err != nil {
		t.Fatal(err)
	}
	note("the state of the code", r.State)
	if len(w.state) > method.MaxState {
		t.Errorf("the state has %d bytes", len(w.state))
	}
	for name, state := range map[string][]byte{"an earlier version": append([]byte{1}, w.state[1:]...),
		"cut": w.state[:len(w.state)-1], "longer": append(slices.Clone(w.state), 0), "empty": {}} {
		w.state = state
		if v := w.shows(); v.Open != "" || len(v.Credentials) > 0 {
			t.Errorf("contract 39: a state that is %s shows a request", name)
		}
	}
}

// rewritten returns a response with another protocol.
func rewritten(form url.Values, from, to string) url.Values {
	text := form.Get(method.CredentialField)
	return url.Values{method.CredentialField: {strings.Replace(text, from, to, 1)}}
}

// inTheClear returns a response that is not encrypted, with other members before the documents.
func inTheClear(others string) func(w *fixture) url.Values {
	return func(w *fixture) url.Values {
		r, err := w.wallet.OpenCredential(service, signedProtocol, w.requestTo(signedProtocol).Data)
		if err != nil {
			w.Fatal(err)
		}
		p, err := w.wallet.Presentation(wallettest.Session{Handover: wallettest.OpenID4VPOverDCAPI,
			Origin: service, Nonce: r.Nonce}, r.DocType, r.Namespace, r.Elements)
		if err != nil {
			w.Fatal(err)
		}
		response, err := p.Response()
		if err != nil {
			w.Fatal(err)
		}
		return credentialForm(signedProtocol, `{`+others+`"vp_token":{"`+r.Query+`":["`+
			base64.RawURLEncoding.EncodeToString(response)+`"]}}`)
	}
}

// browserAttacks are answers by OpenID4VP over the Digital Credentials API that do not count.
var browserAttacks = []struct {
	rule     string
	changes  settings
	form     func(w *fixture) url.Values
	rejected string // "": method.ErrStep
}{
	{"another origin", nil, func(w *fixture) url.Values {
		return w.answered(w.requestTo(unsignedProtocol), "https://evil.example")
	}, "device_signature"},
	{"an origin with the prefix of other formats", nil, func(w *fixture) url.Values {
		return w.answered(w.requestTo(unsignedProtocol), "origin:"+service)
	}, "device_signature"},
	{"a response to the unsigned request, called one to the signed", nil, func(w *fixture) url.Values {
		return rewritten(w.answered(w.requestTo(unsignedProtocol), service), unsignedProtocol,
			signedProtocol)
	}, "device_signature"},
	{"a response to the signed request, called one to the unsigned", nil, func(w *fixture) url.Values {
		return rewritten(w.answered(w.requestTo(signedProtocol), service), signedProtocol,
			unsignedProtocol)
	}, "device_signature"},
	{"an encrypted response to the unsigned request, called one to the signed", settings{"encrypted": true},
		func(w *fixture) url.Values {
			return rewritten(w.answered(w.requestTo(unsignedProtocol), service), unsignedProtocol,
				signedProtocol)
		}, "jwe_not_opened"},
	{"a response to OpenID4VP, called one to org-iso-mdoc", nil, func(w *fixture) url.Values {
		return rewritten(w.answered(w.requestTo(unsignedProtocol), service), unsignedProtocol,
			isoProtocol)
	}, "response_encoding"},
	{"a response to org-iso-mdoc, called one to OpenID4VP", settings{"encrypted": true},
		func(w *fixture) url.Values {
			return rewritten(w.inBrowser(service), isoProtocol, signedProtocol)
		}, "jwe_form"},
	{"a response by link, posted by the page", nil, func(w *fixture) url.Values {
		m := w.message(w.shows().Open)
		return credentialForm(unsignedProtocol, `{"vp_token":`+m.Form.Get("vp_token")+`}`)
	}, "device_signature"},
	{"a response in the clear where encryption was requested", settings{"encrypted": true}, inTheClear(""),
		"not_encrypted"},
	{"a response in the clear with a null error", settings{"encrypted": true}, inTheClear(`"error":null,`),
		"not_encrypted"},
	{"an encrypted response that is signed as if it were in the clear", settings{"encrypted": true},
		func(w *fixture) url.Values {
			return w.answered(w.requestTo(signedProtocol), service,
				func(p *wallettest.Presentation) { p.Session.Thumbprint = nil })
		}, "device_signature"},
	{"a replay from the request before", nil, func(w *fixture) url.Values {
		form := w.answered(w.requestTo(signedProtocol), service)
		w.begin()
		return form
	}, "device_signature"},
	{"a response with the nonce of another request", nil, func(w *fixture) url.Values {
		return w.answered(w.requestTo(signedProtocol), service,
			func(p *wallettest.Presentation) { p.Session.Nonce = "AAAAAAAAAAAAAAAAAAAAAA" })
	}, "device_signature"},
	{"no token", nil, func(*fixture) url.Values { return credentialForm(signedProtocol, `{}`) }, "vp_token"},
	{"a token that is a text", nil, func(*fixture) url.Values {
		return credentialForm(unsignedProtocol, `{"vp_token":"a"}`)
	}, "vp_token"},
	{"another credential", nil, func(*fixture) url.Values {
		return credentialForm(unsignedProtocol, `{"vp_token":{"identity":["AA"]}}`)
	}, "vp_token_credential"},
	{"two presentations", nil, func(*fixture) url.Values {
		return credentialForm(unsignedProtocol, `{"vp_token":{"proof_of_age":["AA","AA"]}}`)
	}, "vp_token_presentations"},
	{"an encrypted response that is no JWE", settings{"encrypted": true}, func(*fixture) url.Values {
		return credentialForm(signedProtocol, `{"response":"a.b.c"}`)
	}, "jwe_form"},
	{"data that is no object", nil, func(*fixture) url.Values {
		return credentialForm(signedProtocol, `"data"`)
	}, "vp_token"},
	{"an unsigned response where only signed was asked for", settings{"browser": []string{signedProtocol}},
		func(w *fixture) url.Values {
			return rewritten(w.answered(w.requestTo(signedProtocol), service), signedProtocol,
				unsignedProtocol)
		}, ""},
	{"org-iso-mdoc where it was not asked for", settings{"browser": []string{signedProtocol}},
		func(*fixture) url.Values { return credentialForm(isoProtocol, `{"response":"AA"}`) }, ""},
	{"a protocol that does not exist", nil, func(w *fixture) url.Values {
		return rewritten(w.answered(w.requestTo(signedProtocol), service), signedProtocol,
			"openid4vp-v1-multisigned")
	}, ""},
	{"an older name of the protocol", nil, func(w *fixture) url.Values {
		return rewritten(w.answered(w.requestTo(signedProtocol), service), signedProtocol, "openid4vp")
	}, ""},
	{"no protocol", nil, func(*fixture) url.Values {
		return url.Values{method.CredentialField: {`{"data":{}}`}}
	}, ""},
}

func TestBrowserAttacks(t *testing.T) {
	for _, c := range browserAttacks {
		t.Run("contract 55: "+c.rule, func(t *testing.T) {
			changes := settings{"browser": allProtocols}
			maps.Copy(changes, c.changes)
			w := newFixture(t, config(t, "eu-av", changes))
			form := c.form(w)
			if c.rejected != "" {
				w.wantByBrowser(form, method.AttemptFailed, c.rejected)
				return
			}
			d, err := w.method.Act(t.Context(), w.session, method.Step{Form: form, State: w.state})
			if !errors.Is(err, method.ErrStep) {
				t.Errorf("%+v, %v; want no such step", d, err)
			}
		})
	}
}

// A null error is no error, so the encrypted response counts.
func TestBrowser_NullError(t *testing.T) {
	w := newFixture(t, config(t, "eu-av", settings{"browser": allProtocols, "encrypted": true}))
	text := w.answered(w.requestTo(signedProtocol), service).Get(method.CredentialField)
	text = strings.Replace(text, `"data":{`, `"data":{"error":null,`, 1)
	w.wantByBrowser(url.Values{method.CredentialField: {text}}, method.Approved, "")
}

// The wallet of this test rejects a request that another site has copied, as a real one does.
func TestExpectedOrigins(t *testing.T) {
	w := newFixture(t, config(t, "mdl", settings{"browser": allProtocols}))
	for _, origin := range []string{"https://evil.example", service + ":8443", "http://" + serviceHost,
		service + "/"} {
		if data, err := w.wallet.Credential(origin, signedProtocol,
			w.requestTo(signedProtocol).Data); err == nil {
			t.Errorf("contract 55: a request for %s is good for %s: %s", service, origin, data)
		}
	}
}

// A release reads no state of another one, and the user begins the step again.
func TestState_OtherRelease(t *testing.T) {
	w := newFixture(t, config(t, "mdl", settings{"browser": allProtocols}))
	m, form := w.message(w.shows().Code), credentialForm(isoProtocol, `{"response":"AA"}`)
	good := w.state
	for name, state := range map[string][]byte{
		"version 1":       append([]byte{1}, good[1:]...),
		"version 2":       append([]byte{2}, good[1:]...),
		"version 3":       append([]byte{3}, good[1:]...),
		"version 5":       append([]byte{5}, good[1:]...),
		"of another size": append(bytes.Clone(good), 0),
	} {
		w.state = state
		if v := w.shows(); !v.Outdated || v.Open != "" || v.Code != "" || len(v.Credentials) > 0 {
			t.Errorf("contract 55: %s: the page is %+v", name, v)
		}
		_, request := w.get(false)
		_, response := w.send(m)
		_, act := w.method.Act(t.Context(), w.session, method.Step{Form: form, State: state})
		for what, err := range map[string]error{"request": request, "response": response, "form": act} {
			if !errors.Is(err, method.ErrOutdated) {
				t.Errorf("contract 55: %s: a %s is %v, want ErrOutdated", name, what, err)
			}
		}
	}
	if _, err := w.method.Act(t.Context(), w.session, method.Step{Form: form}); !errors.Is(err,
		method.ErrStep) {
		t.Errorf("contract 55: a response before the step began is %v, want ErrStep", err)
	}
	w.state = good
	if w.shows().Outdated {
		t.Error("contract 55: the state of this release is outdated")
	}
}

// Errors of wallets over the Digital Credentials API are in the data, encrypted or not.
func TestBrowserErrors(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		w := newFixture(t, config(t, "eu-av", settings{"browser": allProtocols, "encrypted": encrypted}))
		says := func(data string) (method.Decision, error) {
			return w.method.Act(t.Context(), w.session, method.Step{State: w.state,
				Form: credentialForm(signedProtocol, data)})
		}
		if d, err := says(`{"error":"access_denied"}`); err != nil || d.Verdict != method.Cancelled {
			t.Errorf("contract 55: a user who declines: %+v, %v", d, err)
		}
		for name, reason := range map[string]string{"invalid_request": "wallet_error_invalid_request",
			"canary": "wallet_error_unknown"} {
			if d, err := says(`{"error":"` + name + `"}`); method.ReasonOf(err) != reason {
				t.Errorf("contract 55: %s: %+v, %v", name, d, err)
			}
		}
	}
}

// fetched posts a form to the box as a wallet that fetches the request object.
func (w *fixture) fetched(body, accept string) (claims map[string]any, err error) {
	w.Helper()
	c := method.Call{Address: box, ContentType: formType, Accept: accept, Body: []byte(body)}
	if !w.method.Fetches(c) {
		return nil, errNoFetch
	}
	q, err := w.method.Request(w.Context(), w.session, w.state, c)
	if err != nil {
		return nil, err
	}
	part := strings.Split(string(q.Body), ".")[1]
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil {
		err = json.Unmarshal(b, &claims)
	}
	return claims, err
}

var errNoFetch = errors.New("it is taken for a response")

const jar = "application/oauth-authz-req+jwt"

// A request object is fetched by POST, and has the wallet's nonce then.
func TestWalletNonce(t *testing.T) {
	long := strings.Repeat("a", 256)
	for _, c := range []struct {
		rule, body, accept string
		nonce              any
		rejected           bool
		response           bool
	}{
		{"a nonce", "wallet_nonce=qPmxiNFCR3QTm19POc8u", jar, "qPmxiNFCR3QTm19POc8u", false, false},
		{"with metadata", "wallet_metadata=%7B%7D&wallet_nonce=a", jar, "a", false, false},
		{"metadata alone", "wallet_metadata=%7B%7D", "*/*", nil, false, false},
		{"metadata that is no JSON is not read", "wallet_metadata=%7B&wallet_metadata=%zz", jar, nil, false,
			false},
		{"nothing", "", jar, nil, false, false},
		{"nothing, among other types", "", "text/html, Application/OAuth-authz-req+JWT;q=0.9", nil, false,
			false},
		{"a nonce of other characters", "wallet_nonce=%22%5C%3C+~", jar, `"\< ~`, false, false},
		{"256 characters", "wallet_nonce=" + long, jar, long, false, false},
		{"257 characters", "wallet_nonce=a" + long, jar, nil, true, false},
		{"a nonce twice", "wallet_nonce=a&wallet_nonce=a", jar, nil, true, false},
		{"an empty nonce", "wallet_nonce=", jar, nil, true, false},
		{"a nonce with a line", "wallet_nonce=a%0a", jar, nil, true, false},
		{"a nonce that is not ASCII", "wallet_nonce=%C3%BC", jar, nil, true, false},
		{"a nonce in bad encoding", "wallet_nonce=%zz", jar, nil, true, false},
		{"a parameter that is unknown", "wallet_nonce=a&x=1&x=%zz", jar, "a", false, false},
		{"a response", "vp_token=a&state=b", jar, nil, false, true},
		{"an encrypted response with a nonce", "response=a&wallet_nonce=b", jar, nil, false, true},
		{"an error of the wallet", "error=a&wallet_nonce=b", jar, nil, false, true},
		{"a name in percent encoding", "%76p_token=a&wallet_nonce=b", jar, nil, false, true},
		{"nothing, and no type", "", "", nil, false, true},
		{"another type", "", "application/json", nil, false, true},
	} {
		t.Run("contract 55: "+c.rule, func(t *testing.T) {
			w := newFixture(t, config(t, "mdl", nil))
			claims, err := w.fetched(c.body, c.accept)
			var rejection *method.Rejection
			switch {
			case c.response:
				if !errors.Is(err, errNoFetch) {
					t.Errorf("it is a request: %v, %v", claims, err)
				}
			case c.rejected:
				if !errors.As(err, &rejection) || rejection.Reason != "wallet_nonce" {
					t.Errorf("%v, %v; want a refusal", claims, err)
				}
			case err != nil || claims["wallet_nonce"] != c.nonce || claims["nonce"] == "":
				t.Errorf("the request is %v, %v; want the nonce %v", claims, err, c.nonce)
			}
		})
	}
	w := newFixture(t, config(t, "eu-av", nil))
	if claims, err := w.fetched("wallet_nonce=a", jar); !errors.Is(err, errNoFetch) {
		t.Errorf("contract 55: a request in the link is served: %v, %v", claims, err)
	}
	w = newFixture(t, config(t, "mdl", settings{"cross_device": false}))
	if claims, err := w.fetched("wallet_nonce=a", jar); !errors.Is(err, method.ErrStep) {
		t.Errorf("contract 39: a request for another device is served: %v, %v", claims, err)
	}
}

// A POST without content has no Content-Type.
func TestFetches_NoContent(t *testing.T) {
	w := newFixture(t, config(t, "mdl", nil))
	for _, c := range []struct {
		body, accept string
		want         bool
	}{{"", jar, true}, {"", "*/*", false}, {"wallet_nonce=a", jar, false}} {
		got := w.method.Fetches(method.Call{Address: box, Accept: c.accept, Body: []byte(c.body)})
		if got != c.want {
			t.Errorf("contract 55: %q that accepts %q: %v", c.body, c.accept, got)
		}
	}
}

// Wallets that do not know POST get the request by GET, without a wallet_nonce.
func TestWalletThatOnlyGets(t *testing.T) {
	w := newFixture(t, config(t, "mdl", nil))
	w.wallet.OnlyGet = true
	kept, err := w.send(w.message(w.shows().Open))
	if err != nil || w.act(nil, kept).Verdict != method.Approved {
		t.Errorf("contract 55: %q, %v", kept, err)
	}
}

// sameJSON compares the meaning of two texts. No text is null.
func sameJSON(t *testing.T, got json.RawMessage, want string) bool {
	t.Helper()
	var a, b any
	if len(got) == 0 {
		got = json.RawMessage("null")
	}
	if err := errors.Join(json.Unmarshal(got, &a), json.Unmarshal([]byte(want), &b)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(a, b)
}

func TestVerifierInfo(t *testing.T) {
	for _, c := range []struct {
		profile string
		changes settings
	}{
		{"mdl", settings{"browser": allProtocols}},
		{"eu-av", settings{"browser": allProtocols}},
	} {
		c.changes["verifier_info"] = " " + registration + "\n"
		w := newFixture(t, config(t, c.profile, c.changes))
		for _, protocol := range []string{unsignedProtocol, signedProtocol} {
			r, err := w.wallet.OpenCredential(service, protocol, w.requestTo(protocol).Data)
			if err != nil || !sameJSON(t, r.VerifierInfo, registration) {
				t.Errorf("contract 55: %s by %s has verifier_info %s, %v", c.profile, protocol,
					r.VerifierInfo, err)
			}
		}
		r, err := w.wallet.Open(t.Context(), w.shows().Open)
		want := map[string]string{"mdl": registration, "eu-av": "null"}[c.profile]
		if err != nil || !sameJSON(t, r.VerifierInfo, want) {
			t.Errorf("contract 55: the link of %s has verifier_info %s, %v", c.profile, r.VerifierInfo, err)
		}
	}
}

// The operator's fields of client_metadata are in each request that has room for them, next to Verge's own
// fields.
func TestClientMetadata(t *testing.T) {
	const own = `{"gw_rp_metadata_bytes":"2BhYKA"}`
	for _, profile := range []string{"mdl", "eu-av"} {
		w := newFixture(t, config(t, profile, settings{"browser": allProtocols, "client_metadata": own,
			"encrypted": true}))
		signed, _ := claimsOf(t, signedRequest(t, w.requestTo(signedProtocol)))
		var unsigned map[string]any
		if err := json.Unmarshal(w.requestTo(unsignedProtocol).Data, &unsigned); err != nil {
			t.Fatal(err)
		}
		var byLink map[string]any
		if err := json.Unmarshal(w.metadata(false), &byLink); err != nil {
			t.Fatal(err)
		}
		for name, m := range map[string]any{"signed": signed["client_metadata"],
			"unsigned": unsigned["client_metadata"], "by link": byLink} {
			metadata, _ := m.(map[string]any)
			want := any("2BhYKA")
			if name == "by link" && profile == "eu-av" {
				want = nil
			}
			if metadata["gw_rp_metadata_bytes"] != want || metadata["jwks"] == nil ||
				metadata["vp_formats_supported"] == nil {
				t.Errorf("contract 55: %s, %s: client_metadata is %v", profile, name, metadata)
			}
		}
	}
}

// signedRequest returns the request object of openid4vp-v1-signed.
func signedRequest(t *testing.T, c method.Credential) string {
	t.Helper()
	var data struct{ Request string }
	if err := json.Unmarshal(c.Data, &data); err != nil {
		t.Fatal(err)
	}
	return data.Request
}

// documentFaults are documents that do not help, each sent for this session.
var documentFaults = []struct {
	rule, reason string
	fault        method.Reason
	change       func(*wallettest.Presentation)
}{
	{"expired", "mso_expired", method.Expired,
		func(p *wallettest.Presentation) { p.ValidUntil = noon.Add(-time.Hour) }},
	{"not valid yet", "mso_not_yet_valid", method.Expired,
		func(p *wallettest.Presentation) { p.ValidFrom = noon.Add(time.Hour) }},
	{"signed by a certificate that has expired", "certificate_validity", method.Expired,
		func(p *wallettest.Presentation) {
			p.Issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon.AddDate(-2, 0, 0)})
		}},
	{"of another issuer", "untrusted", method.Untrusted, func(p *wallettest.Presentation) {
		p.Issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon})
	}},
	{"by a certificate for TLS", "certificate_eku", method.Untrusted, func(p *wallettest.Presentation) {
		p.Issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon, EKU: "1.3.6.1.5.5.7.3.1"})
	}},
	{"of another type", "document_type", method.OtherDocument,
		func(p *wallettest.Presentation) { p.DocType = "org.iso.18013.5.1.mDL" }},
}

// A document that is at fault ends the attempt with its reason, if the wallet has sent it for this session.
// The log has the exact reason. Without the wallet's signature of this session it is rejected, and the
// response stays pending.
func TestDocumentFaults(t *testing.T) {
	for _, c := range documentFaults {
		for _, form := range []string{"eu-av by value", "eu-av by value, encrypted"} {
			t.Run("contract 55: "+c.rule+", "+form, func(t *testing.T) {
				changes := maps.Clone(forms[form].changes)
				if changes == nil {
					changes = settings{}
				}
				changes["browser"] = allProtocols
				w := newFixture(t, config(t, "eu-av", changes))
				kept, err := w.send(w.message(w.shows().Code, c.change))
				w.wantFault(c.fault, c.reason, kept, err)
				if len(kept) > 64 {
					t.Errorf("%q is kept", kept)
				}
				for name, spoil := range map[string]func(*wallettest.Presentation){
					"another nonce": func(p *wallettest.Presentation) {
						p.Session.Nonce = "AAAAAAAAAAAAAAAAAAAAAA"
					},
					"another address": func(p *wallettest.Presentation) {
						p.Session.ResponseURI = box + method.SameDevice
					},
					"another key": func(p *wallettest.Presentation) { p.SignWith, _ = signing() },
				} {
					kept, err := w.send(w.message(w.shows().Code, c.change, spoil))
					if w.wantRejected(c.reason, kept, err); err == nil {
						t.Errorf("contract 55: a stranger's document with %s spends an attempt", name)
					}
				}
				for _, protocol := range allProtocols {
					f := w.answered(w.requestTo(protocol), service, c.change)
					d := w.act(f, nil)
					if _, exact := d.Result(); d.Verdict != method.AttemptFailed || d.Reason != c.fault ||
						exact != c.reason {
						t.Errorf("contract 55: by %s: %+v", protocol, d)
					}
				}
			})
		}
	}
	w := newFixture(t, config(t, "eu-av", nil))
	for _, text := range []string{"fault:", "fault:other:untrusted", "fault"} {
		if d, err := w.method.Act(t.Context(), w.session, method.Step{Response: []byte(text),
			State: w.state}); err == nil {
			t.Errorf("%q decides: %+v", text, d)
		}
	}
}

// A request to the browser whose certificate has expired is left out, and the other ways stay.
func TestExpiredCertificates(t *testing.T) {
	for name, c := range map[string]struct {
		changes settings
		want    []string
	}{
		"the reader's": {settings{"reader_certificate": readerPEM(), "browser": allProtocols[:2]},
			[]string{unsignedProtocol}},
		"that of requests": {settings{"browser": allProtocols}, []string{isoProtocol, unsignedProtocol}},
	} {
		w := newFixture(t, config(t, "eu-av", c.changes))
		for _, step := range []struct{ days int }{{0}, {40}} {
			w.now = noon.AddDate(0, 0, step.days)
			w.begin()
			want := c.want
			if step.days == 0 {
				want = c.changes["browser"].([]string)
			}
			var got []string
			for _, r := range w.shows().Credentials {
				got = append(got, r.Protocol)
			}
			if !slices.Equal(got, want) || w.shows().Open == "" {
				t.Errorf("contract 55: %s, after %d days: the page asks by %q, want %q", name, step.days, got,
					want)
			}
		}
	}
}

func FuzzFetch(f *testing.F) {
	for _, body := range []string{"", "wallet_nonce=a", "wallet_nonce=a&wallet_nonce=b", "vp_token=%7B%7D",
		"wallet_metadata=%7B%7D&wallet_nonce=%zz", "a;b&%zz=1", "wallet_nonce=%C3%BC"} {
		f.Add(body, jar)
	}
	w := newFixture(f, config(f, "mdl", nil))
	f.Fuzz(func(t *testing.T, body, accept string) {
		w := *w
		w.TB = t
		claims, err := w.fetched(body, accept)
		var rejection *method.Rejection
		if err != nil && !errors.Is(err, errNoFetch) && !errors.As(err, &rejection) {
			t.Errorf("%v", err)
		}
		if nonce, has := claims["wallet_nonce"].(string); has && (nonce == "" || len(nonce) > 256) {
			t.Errorf("the nonce %q is signed", nonce)
		}
	})
}

func FuzzBrowserResponse(f *testing.F) {
	w := newFixture(f, config(f, "eu-av", settings{"browser": allProtocols, "encrypted": true}))
	for _, text := range []string{"", "{",
		`{"protocol":"openid4vp-v1-signed","data":{"response":"a.b.c.d.e"}}`,
		`{"protocol":"openid4vp-v1-unsigned","data":{"error":"access_denied"}}`,
		`{"protocol":"openid4vp-v1-unsigned","data":{"vp_token":{"proof_of_age":["AA"]}}}`,
		`{"protocol":"org-iso-mdoc","data":{"response":"AA"}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := w.method.Act(t.Context(), w.session, method.Step{State: w.state,
			Form: url.Values{method.CredentialField: {text}}})
		if d.Verdict == method.Approved || d.Verdict == method.Rejected {
			t.Errorf("it decides: %+v, %v", d, err)
		}
	})
}
