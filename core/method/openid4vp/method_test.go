package openid4vp_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/testharness/wallettest"
)

// forms of a request: all four that wallets of today know, and a few more.
var forms = map[string]struct {
	profile string
	changes settings
}{
	"eu-av by value":            {"eu-av", nil},
	"eu-av by value, encrypted": {"eu-av", settings{"encrypted": true}},
	"mdl signed, by its host":   {"mdl", nil},
	"pid signed, by its hash":   {"pid", settings{"client_id_prefix": "x509_hash"}},
	"mdl signed, not encrypted": {"mdl", settings{"encrypted": false}},
	"pid by value":              {"pid", settings{"request": "value", "encrypted": false}},
	"eu-av signed, to a wallet's app": {"eu-av",
		settings{"request": "signed", "scheme": "https://wallet.example/ask"}},
}

// A wallet answers the link on the same device and the code on another one, whichever form the request has.
func TestAnswers(t *testing.T) {
	for name, f := range forms {
		t.Run("contract 39: "+name, func(t *testing.T) {
			w := newWorld(t, config(t, f.profile, f.changes))
			v := w.shows()
			for link, address := range map[string]string{v.Open: box + method.SameDevice, v.Code: box} {
				m := w.message(link)
				if m.URL != address {
					t.Errorf("the answer to %.60s goes to %s, want %s", link, m.URL, address)
				}
				kept, err := w.send(m)
				if err != nil {
					t.Fatal(err)
				}
				if d := w.act(nil, kept); d.Verdict != method.Approved {
					t.Errorf("%+v, want an approval", d)
				}
				// The address is signed, and not only where the answer is posted.
				other := map[string]string{box: box + method.SameDevice,
					box + method.SameDevice: box}[address]
				kept, err = w.post(other, formType, m.Form.Encode())
				w.wantRefused("device_signature", kept, err)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	for name, c := range map[string]struct {
		config method.Config
		begins string
		has    []string // parameters
	}{
		"the EU's age verification": {config(t, "eu-av", nil), "av://?",
			[]string{"client_id", "client_metadata", "dcql_query", "nonce", "response_mode", "response_type",
				"response_uri", "state"}},
		"a driving licence": {config(t, "mdl", nil), "openid4vp://?", []string{"client_id", "request_uri"}},
		"an identity": {config(t, "pid", nil), "eudi-openid4vp://?",
			[]string{"client_id", "request_uri"}},
		"another scheme": {config(t, "eu-av", settings{"scheme": "haip"}), "haip://?",
			[]string{"client_id", "client_metadata", "dcql_query", "nonce", "response_mode", "response_type",
				"response_uri", "state"}},
		"an app's address": {config(t, "mdl", settings{"scheme": "https://wallet.example/ask"}),
			"https://wallet.example/ask?", []string{"client_id", "request_uri"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.config)
			v := w.shows()
			if !slices.Equal(v.Choices, []string{"cancel"}) {
				t.Errorf("the page that waits has %v", v.Choices)
			}
			for link, address := range map[string]string{v.Open: box + ".s", v.Code: box} {
				text, ok := strings.CutPrefix(link, c.begins)
				query, err := url.ParseQuery(text)
				if !ok || err != nil {
					t.Fatalf("the link is %s, %v", link, err)
				}
				var names []string
				for n := range query {
					names = append(names, n)
				}
				slices.Sort(names)
				if !slices.Equal(names, c.has) {
					t.Errorf("the link has %v, want %v", names, c.has)
				}
				if uri := query.Get("response_uri") + query.Get("request_uri"); uri != address {
					t.Errorf("the answer goes to %s, want %s", uri, address)
				}
				if client := query.Get("client_id"); query.Has("response_uri") &&
					client != "redirect_uri:"+address {
					t.Errorf("the client is %s", client)
				}
			}
		})
	}
}

// Only the element of exactly the age is asked for, or one of those that the profile has above it.
func TestQueries(t *testing.T) {
	for _, c := range []struct {
		profile string
		age     int
		query   string
	}{
		{"eu-av", 18, `{"credentials":[{"id":"proof_of_age","format":"mso_mdoc",` +
			`"meta":{"doctype_value":"eu.europa.ec.av.1"},"claims":[{"path":["eu.europa.ec.av.1","age_over_18"]}]}]}`},
		{"eu-av", 9, `{"credentials":[{"id":"proof_of_age","format":"mso_mdoc",` +
			`"meta":{"doctype_value":"eu.europa.ec.av.1"},"claims":[{"path":["eu.europa.ec.av.1","age_over_09"]}]}]}`},
		{"mdl", 18, `{"credentials":[{"id":"driving_licence","format":"mso_mdoc",` +
			`"meta":{"doctype_value":"org.iso.18013.5.1.mDL"},"claims":[` +
			`{"id":"age_over_18","path":["org.iso.18013.5.1","age_over_18"]},` +
			`{"id":"age_over_21","path":["org.iso.18013.5.1","age_over_21"]}],` +
			`"claim_sets":[["age_over_18"],["age_over_21"]]}]}`},
		{"mdl", 21, `{"credentials":[{"id":"driving_licence","format":"mso_mdoc",` +
			`"meta":{"doctype_value":"org.iso.18013.5.1.mDL"},` +
			`"claims":[{"path":["org.iso.18013.5.1","age_over_21"]}]}]}`},
		{"pid", 16, `{"credentials":[{"id":"identity","format":"mso_mdoc",` +
			`"meta":{"doctype_value":"eu.europa.ec.eudi.pid.1"},` +
			`"claims":[{"path":["eu.europa.ec.eudi.pid.1","age_over_16"]}]}]}`},
	} {
		w := newWorld(t, config(t, c.profile, settings{"request": "value", "encrypted": false}))
		w.session.MinimumAge = c.age
		_, text, _ := strings.Cut(w.shows().Code, "?")
		query, err := url.ParseQuery(text)
		if err != nil || query.Get("dcql_query") != c.query {
			t.Errorf("contract 39: %s, %d years: %s, %v", c.profile, c.age, query.Get("dcql_query"), err)
		}
	}
}

// What a document says decides, and nothing else does.
func TestVerdicts(t *testing.T) {
	says := func(elements ...any) func(*wallettest.Presentation) {
		return func(p *wallettest.Presentation) {
			p.Elements = nil
			for n := 0; n < len(elements); n += 2 {
				p.Set(elements[n].(string), elements[n+1])
			}
		}
	}
	for _, c := range []struct {
		rule, profile string
		change        func(*wallettest.Presentation)
		verdict       method.Verdict
		reason        string // it is refused for
	}{
		{"true is an approval", "eu-av", says("age_over_18", true), method.Approved, ""},
		{"false is a final no", "eu-av", says("age_over_18", false), method.Rejected, ""},
		{"a higher age was not asked for", "eu-av", says("age_over_21", true), 0, "no_element"},
		{"a lower age was not asked for", "eu-av", says("age_over_16", true), 0, "no_element"},
		{"a licence that says no more than 21", "mdl", says("age_over_21", true), method.Approved, ""},
		{"a licence of somebody below 21 says nothing about 18", "mdl", says("age_over_21", false),
			method.AttemptFailed, ""},
		{"a licence that says both", "mdl", says("age_over_21", false, "age_over_18", true), method.Approved,
			""},
		{"the exact age wins", "mdl", says("age_over_21", true, "age_over_18", false), method.Rejected, ""},
		{"25 was not asked for", "mdl", says("age_over_25", true), 0, "no_element"},
		{"1 is not true", "eu-av", says("age_over_18", 1), 0, "element_no_bool"},
		{`"true" is not true`, "eu-av", says("age_over_18", "true"), 0, "element_no_bool"},
		{"nothing is proven by nothing", "eu-av", says(), 0, "no_element"},
	} {
		t.Run("contract 39: "+c.rule, func(t *testing.T) {
			w := newWorld(t, config(t, c.profile, nil))
			kept, err := w.send(w.message(w.shows().Code, c.change))
			if c.reason != "" {
				w.wantRefused(c.reason, kept, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := w.act(nil, kept); d.Verdict != c.verdict {
				t.Errorf("%+v, want %v", d, c.verdict)
			}
			said, anchor, _ := strings.Cut(string(kept), ":")
			if len(said) > 16 || !w.method.(method.Truster).Trusts(anchor) {
				t.Errorf("%q is kept, which may be more than the verdict", kept)
			}
		})
	}
}

// The answers that are none are made of a wallet's good one.
const plain, encrypted = "eu-av by value", "eu-av by value, encrypted"

// of is a message with another member.
func of(m wallettest.Message, name, value string) string {
	m.Form.Set(name, value)
	return m.Form.Encode()
}

// token is the presentation of a message.
func token(m wallettest.Message) string {
	var t map[string][]string
	if err := json.Unmarshal([]byte(m.Form.Get("vp_token")), &t); err != nil {
		panic(err)
	}
	return t["proof_of_age"][0]
}

// noAnswers is the table of attacks on the address of a box.
var noAnswers = []struct {
	rule, form string
	body       func(w *world, m wallettest.Message) string
	reason     string
}{
	{"another state", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "state", "AAAAAAAAAAAAAAAAAAAAAA")
	}, "answer_state"},
	{"no state", plain, func(_ *world, m wallettest.Message) string {
		m.Form.Del("state")
		return m.Form.Encode()
	}, "answer_state"},
	{"two states", plain, func(_ *world, m wallettest.Message) string {
		return m.Form.Encode() + "&state=a"
	}, "answer_member_twice"},
	{"no form", plain, func(*world, wallettest.Message) string { return "a=%zz" }, "answer_form"},
	{"nothing", plain, func(*world, wallettest.Message) string { return "" }, "vp_token"},
	{"a token that is no JSON", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", "{")
	}, "vp_token"},
	{"a token that is an array", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `["a"]`)
	}, "vp_token"},
	{"a token with a member twice", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":["a"],"proof_of_age":["a"]}`)
	}, "vp_token"},
	{"a credential that was not asked for", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `{"identity":["`+token(m)+`"]}`)
	}, "vp_token_credential"},
	{"another credential beside it", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":["`+token(m)+`"],"identity":["a"]}`)
	}, "vp_token_credential"},
	{"two presentations", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":["`+token(m)+`","`+token(m)+`"]}`)
	}, "vp_token_presentations"},
	{"no presentation", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":[]}`)
	}, "vp_token_presentations"},
	{"a text instead of an array", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":"`+token(m)+`"}`)
	}, "vp_token_presentations"},
	{"a number as presentation", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":[1]}`)
	}, "vp_token_presentations"},
	{"base64 with padding", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":["`+token(m)+`="]}`)
	}, "vp_token_encoding"},
	{"an empty presentation", plain, func(_ *world, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":[""]}`)
	}, "vp_token_encoding"},
	{"an answer to another nonce", plain, func(w *world, _ wallettest.Message) string {
		return w.message(w.shows().Code, func(p *wallettest.Presentation) {
			p.Session.Nonce = "AAAAAAAAAAAAAAAAAAAAAA"
		}).Form.Encode()
	}, "device_signature"},
	{"an answer to a client without its prefix", plain, func(w *world, _ wallettest.Message) string {
		return w.message(w.shows().Code, func(p *wallettest.Presentation) {
			p.Session.ClientID = strings.TrimPrefix(p.Session.ClientID, "redirect_uri:")
		}).Form.Encode()
	}, "device_signature"},
	{"an answer to another address", plain, func(w *world, _ wallettest.Message) string {
		return w.message(w.shows().Code, func(p *wallettest.Presentation) {
			p.Session.ResponseURI = "https://evil.example/"
		}).Form.Encode()
	}, "device_signature"},
	{"a replay from the question before", plain, func(w *world, m wallettest.Message) string {
		w.begin() // draws another nonce
		_, text, _ := strings.Cut(w.shows().Code, "?")
		query, err := url.ParseQuery(text)
		if err != nil {
			w.Fatal(err)
		}
		return of(m, "state", query.Get("state"))
	}, "device_signature"},
	{"a document of another issuer", plain, func(w *world, _ wallettest.Message) string {
		w.wallet.Issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon})
		return w.message(w.shows().Code).Form.Encode()
	}, "untrusted"},
	{"an issuer of driving licences", plain, func(w *world, _ wallettest.Message) string {
		w.wallet.Issuer = issuers["mdl"]
		return w.message(w.shows().Code).Form.Encode()
	}, "certificate_eku"},
	{"an error with another state", plain, func(*world, wallettest.Message) string {
		return "error=access_denied&state=a"
	}, "answer_state"},
	{"an error without a state", encrypted, func(*world, wallettest.Message) string {
		return "error=access_denied"
	}, "answer_state"},
	{"an answer in the clear where an encrypted one was asked for", encrypted,
		func(w *world, _ wallettest.Message) string {
			r, err := w.wallet.Open(w.Context(), w.shows().Code)
			if err != nil {
				w.Fatal(err)
			}
			r.ResponseMode = "direct_post"
			m, err := w.wallet.Present(r)
			if err != nil {
				w.Fatal(err)
			}
			return m.Form.Encode()
		}, "not_encrypted"},
	{"an encrypted answer that is signed as if it were in the clear", encrypted,
		func(w *world, _ wallettest.Message) string {
			return w.message(w.shows().Code, func(p *wallettest.Presentation) {
				p.Session.Thumbprint = nil
			}).Form.Encode()
		}, "device_signature"},
	{"an encrypted answer that was changed", encrypted, func(_ *world, m wallettest.Message) string {
		jwe := []byte(m.Form.Get("response"))
		tag := slices.Index(jwe, '.') // the header
		jwe[tag-3] ^= 1
		return of(m, "response", string(jwe))
	}, ""},
	{"an answer that is encrypted to another question", encrypted,
		func(w *world, m wallettest.Message) string {
			w.begin()
			return m.Form.Encode()
		}, "jwe_not_opened"},
	{"no encrypted answer", encrypted, func(_ *world, m wallettest.Message) string {
		return of(m, "response", "a.b.c")
	}, "jwe_form"},
}

// Each of noAnswers is refused, and the box stays open.
func TestWhatIsNoAnswer(t *testing.T) {
	for _, c := range noAnswers {
		t.Run("contract 39: "+c.rule, func(t *testing.T) {
			f := forms[c.form]
			w := newWorld(t, config(t, f.profile, f.changes))
			m := w.message(w.shows().Code)
			body := c.body(w, m)
			kept, err := w.post(box, formType, body)
			if c.reason != "" {
				w.wantRefused(c.reason, kept, err)
			}
			var refusal *method.Refusal
			if !errors.As(err, &refusal) || strings.Contains(err.Error(), body) && body != "" {
				t.Errorf("the error is %v", err)
			}
		})
	}
	w := newWorld(t, config(t, "eu-av", nil))
	for _, contentType := range []string{"", "application/json", "multipart/form-data; boundary=a",
		"text/plain"} {
		kept, err := w.post(box, contentType, w.message(w.shows().Code).Form.Encode())
		if !errors.Is(err, method.ErrMediaType) || !errors.Is(err, method.ErrStep) || kept != nil {
			t.Errorf("contract 39: an answer as %q: %q, %v", contentType, kept, err)
		}
	}
	if _, err := w.post(box, formType+"; charset=utf-8",
		w.message(w.shows().Code).Form.Encode()); err != nil {
		t.Errorf("a form with a charset: %v", err)
	}
	w.state = []byte("not a state")
	if _, err := w.post(box, formType, ""); err == nil || errors.Is(err, method.ErrStep) {
		t.Errorf("a state that is none: %v", err)
	}
}

// The operator takes an anchor away while sessions are under way. An answer to a question from before is
// refused.
func TestAnAnchorThatIsTakenAway(t *testing.T) {
	w := newWorld(t, config(t, "eu-av", nil))
	good := w.message(w.shows().Code)
	if _, err := w.send(good); err != nil {
		t.Fatalf("before: %v", err)
	}
	byBrowser := w.inBrowser(service)
	after := newWorld(t,
		config(t, "eu-av", settings{"trust_anchors": []string{string(issuers["pid"].PEM())}}))
	after.state = w.state
	kept, err := after.send(good)
	after.wantRefused("untrusted", kept, err)
	after.wantByBrowser(byBrowser, method.AttemptFailed, "untrusted")
}

func TestErrorsOfWallets(t *testing.T) {
	for _, form := range []string{"eu-av by value", "eu-av by value, encrypted", "mdl signed, by its host"} {
		w := newWorld(t, config(t, forms[form].profile, forms[form].changes))
		r, err := w.wallet.Open(t.Context(), w.shows().Code)
		if err != nil {
			t.Fatal(err)
		}
		says := func(name string) (method.Decision, error) {
			kept, err := w.post(box, formType, url.Values{"error": {name}, "state": {r.State},
				"error_description": {"canary of a wallet"}}.Encode())
			if err != nil || strings.Contains(string(kept), "canary") {
				t.Fatalf("contract 39: %s with the right state: %q, %v", name, kept, err)
			}
			return w.method.Act(t.Context(), w.session, method.Step{Kept: kept, State: w.state})
		}
		if d, err := says("access_denied"); err != nil || d.Verdict != method.Cancelled {
			t.Errorf("contract 39: a user who declines: %+v, %v", d, err)
		}
		for name, reason := range map[string]string{"invalid_request": "wallet_error_invalid_request",
			"wallet_unavailable": "wallet_error_wallet_unavailable",
			"canary of a code":   "wallet_error_unknown"} {
			d, err := says(name)
			if d.Verdict != method.Unclassified || err == nil || method.ReasonOf(err) != reason {
				t.Errorf("contract 39: %s: %+v, %v", name, d, err)
			}
		}
	}
}

// A signed request is the same question however often it is fetched, and it is not served where none is
// signed.
func TestQuestions(t *testing.T) {
	w := newWorld(t, config(t, "mdl", nil))
	claims := func(same bool) string {
		q, err := w.method.Request(t.Context(), w.session, w.state, same)
		if err != nil || q.ContentType != "application/oauth-authz-req+jwt" {
			t.Fatalf("%+v, %v", q, err)
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(string(q.Body), ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		return string(payload)
	}
	if one, two := claims(false), claims(false); one != two {
		t.Errorf("contract 39: fetched twice, it asks\n%s\nand\n%s", one, two)
	}
	if here := claims(true); !strings.Contains(here, box+".s") || strings.Contains(claims(false), box+".s") {
		t.Errorf("contract 39: the request for the same device is %s", here)
	}
	for _, secret := range []string{"svc_sess", "wallet_private_key"} {
		if strings.Contains(claims(false), secret) {
			t.Errorf("the request has %s", secret)
		}
	}
	w = newWorld(t, config(t, "eu-av", nil))
	if q, err := w.method.Request(t.Context(), w.session, w.state, false); !errors.Is(err, method.ErrStep) {
		t.Errorf("contract 39: a request by value is served: %+v, %v", q, err)
	}
}

// Each question has its own nonce, state and keys.
func TestQuestionsDiffer(t *testing.T) {
	w := newWorld(t, config(t, "eu-av", settings{"encrypted": true}))
	seen := map[string]bool{}
	for range 3 {
		v := w.shows()
		_, text, _ := strings.Cut(v.Code, "?")
		query, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{query.Get("nonce"), query.Get("state"), query.Get("client_metadata"),
			string(v.Credential.Data)} {
			if seen[text] || len(text) < 22 {
				t.Errorf("%q was there before, or is short", text)
			}
			seen[text] = true
		}
		w.begin()
	}
}

func TestBeginFindsWhatNoWalletWouldAccept(t *testing.T) {
	w := newWorld(t, config(t, "mdl", nil))
	w.session.ReturnURL = "https://elsewhere.example/verify/return/wallet"
	if err := w.method.Begin(t.Context(), w.session); err == nil ||
		!strings.Contains(err.Error(), "base_url") {
		t.Errorf("a certificate for another host: %v", err)
	}
	w.session.ReturnURL = service + "/verify/return/wallet"
	for _, days := range []int{-2, 40} {
		w.now = noon.AddDate(0, 0, days)
		if err := w.method.Begin(t.Context(), w.session); err == nil ||
			!strings.Contains(err.Error(), "2026-12-22") {
			t.Errorf("a certificate that is not valid: %v", err)
		}
	}
}

func TestStepsOfThePage(t *testing.T) {
	w := newWorld(t, config(t, "eu-av", nil))
	first := w.session
	first.Box = ""
	if v := w.method.Show(first, nil); !slices.Equal(v.Choices, []string{"begin"}) || v.Open+v.Code != "" ||
		v.Credential != nil {
		t.Errorf("the first page has %+v", v)
	}
	if v := w.method.Show(w.session, []byte("x")); v.Open+v.Code != "" || v.Credential != nil {
		t.Errorf("a state that is none shows %+v", v)
	}
	if d := w.act(url.Values{"outcome": {"cancel"}}, nil); d.Verdict != method.Cancelled {
		t.Errorf("cancel: %+v", d)
	}
	for _, form := range []url.Values{{}, {"outcome": {"approve"}}, {"vp_token": {"{}"}}} {
		if _, err := w.method.Act(t.Context(), w.session, method.Step{Form: form}); !errors.Is(err,
			method.ErrStep) {
			t.Errorf("the form %v: %v", form, err)
		}
	}
	if d, err := w.method.Act(t.Context(), w.session, method.Step{Kept: []byte("approve")}); err == nil {
		t.Errorf("what is never kept decides: %+v", d)
	}
	if openid4vp.Kind.Level != "L2" || openid4vp.Kind.Sandbox || openid4vp.Kind.Estimates {
		t.Errorf("the kind is %+v", openid4vp.Kind)
	}
}
