package openid4vp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/steperror"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	edge "github.com/verge-id/verge/edge/signing"
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
			w := newFixture(t, config(t, f.profile, f.changes))
			v := w.shows()
			for link, address := range map[string]string{v.Open: box + method.SameDevice, v.Code: box} {
				m := w.message(link)
				if m.URL != address {
					t.Errorf("the response to %.60s goes to %s, want %s", link, m.URL, address)
				}
				kept, err := w.send(m)
				if err != nil {
					t.Fatal(err)
				}
				if d := w.act(nil, kept); d.Verdict != method.Approved {
					t.Errorf("%+v, want an approval", d)
				}
				// The address of the response is signed as well.
				other := map[string]string{box: box + method.SameDevice,
					box + method.SameDevice: box}[address]
				kept, err = w.post(other, formType, m.Form.Encode())
				want := "device_signature"
				if m.Form.Has("response") { // it is encrypted to the other request's key
					want = "jwe_not_opened"
				}
				w.wantRejected(want, kept, err)
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
		"a driving licence": {config(t, "mdl", nil), "openid4vp://?", []string{"client_id", "request_uri",
			"request_uri_method"}},
		"an identity": {config(t, "pid", nil), "eudi-openid4vp://?",
			[]string{"client_id", "request_uri", "request_uri_method"}},
		"another scheme": {config(t, "eu-av", settings{"scheme": "haip"}), "haip://?",
			[]string{"client_id", "client_metadata", "dcql_query", "nonce", "response_mode", "response_type",
				"response_uri", "state"}},
		"an app's address": {config(t, "mdl", settings{"scheme": "https://wallet.example/ask"}),
			"https://wallet.example/ask?", []string{"client_id", "request_uri", "request_uri_method"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, c.config)
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

// asked returns the sets of claims of a request for an age, in order of preference, and the elements of the
// request to the browser.
func (w *fixture) asked(age int) (sets [][]string, byBrowser []string) {
	w.Helper()
	w.asks(age)
	v := w.shows()
	_, text, _ := strings.Cut(v.Code, "?")
	parameters, err := url.ParseQuery(text)
	if err != nil {
		w.Fatal(err)
	}
	var query struct {
		Credentials []struct {
			Meta   map[string]string
			Claims []struct {
				ID   string
				Path []string
			}
			Sets [][]string `json:"claim_sets"`
		}
	}
	if err := json.Unmarshal([]byte(parameters.Get("dcql_query")), &query); err != nil ||
		len(query.Credentials) != 1 {
		w.Fatalf("%s, %v", parameters.Get("dcql_query"), err)
	}
	c := query.Credentials[0]
	namespace := c.Meta["doctype_value"]
	if namespace == "org.iso.18013.5.1.mDL" {
		namespace = "org.iso.18013.5.1"
	}
	for n, claim := range c.Claims {
		if len(claim.Path) != 2 || claim.Path[0] != namespace {
			w.Errorf("the path is %q", claim.Path)
		}
		if len(c.Claims) > 1 &&
			(claim.ID != claim.Path[1] || len(c.Sets[n]) != 1 || c.Sets[n][0] != claim.ID) {
			w.Errorf("claim %d is %+v, in the sets %q", n, claim, c.Sets)
		}
		sets = append(sets, []string{claim.Path[1]})
	}
	if len(sets) == 1 && len(c.Sets) > 0 || len(sets) > 1 && len(c.Sets) != len(sets) {
		w.Errorf("%d claims, and the sets %q", len(sets), c.Sets)
	}
	return sets, byBrowserOf(w, v)
}

// byBrowserOf returns the elements of the request to the browser.
func byBrowserOf(w *fixture, v method.View) (names []string) {
	w.Helper()
	if len(v.Credentials) == 0 || v.Credentials[0].Protocol != isoProtocol {
		return nil
	}
	var data struct{ DeviceRequest string }
	if err := json.Unmarshal(v.Credentials[0].Data, &data); err != nil {
		w.Fatal(err)
	}
	b, err := base64.RawURLEncoding.DecodeString(data.DeviceRequest)
	if err != nil {
		w.Fatal(err)
	}
	top, err := cbor.Read(b, cbor.Options{Any: true})
	if err != nil {
		w.Fatal(err)
	}
	documents, _ := top.Member("docRequests").List()
	_, content, _ := documents[0].Member("itemsRequest").Tag()
	inner, _ := content.Bytes()
	items, err := cbor.Read(inner, cbor.Options{Any: true})
	if err != nil {
		w.Fatal(err)
	}
	namespaces, _ := items.Member("nameSpaces").Pairs()
	elements, _ := namespaces[0].Value.Pairs()
	for _, e := range elements {
		name, _ := e.Key.Text()
		names = append(names, name)
	}
	return names
}

// The table of contract 39: what is asked for, by profile and minimum age.
func TestQueries(t *testing.T) {
	over := func(ages ...int) (names []string) {
		for _, age := range ages {
			names = append(names, fmt.Sprintf("age_over_%02d", age))
		}
		return names
	}
	for _, c := range []struct {
		profile string
		age     int
		want    []string
	}{
		{"eu-av", 9, over(9, 18)},
		{"eu-av", 16, over(16, 18)},
		{"eu-av", 18, over(18)},
		{"eu-av", 21, over(21, 18)},
		{"eu-av", 99, over(99, 18)},
		{"mdl", 16, over(16, 18, 21)},
		{"mdl", 18, over(18, 21)},
		{"mdl", 19, over(19, 21)},
		{"mdl", 21, over(21)},
		{"mdl", 25, over(25)},
		{"pid", 16, []string{"birth_date"}},
		{"pid", 18, []string{"birth_date"}},
		{"pid", 99, []string{"birth_date"}},
	} {
		t.Run(fmt.Sprintf("contract 39: %s, %d years", c.profile, c.age), func(t *testing.T) {
			w := newFixture(t, config(t, c.profile, settings{"request": "value", "encrypted": false,
				"browser": true, "formats": []string{"mso_mdoc"}}))
			sets, byBrowser := w.asked(c.age)
			var names []string
			for _, set := range sets {
				names = append(names, set...)
			}
			if !slices.Equal(names, c.want) {
				t.Errorf("the wallet is asked for %q, want %q", names, c.want)
			}
			slices.Sort(c.want)
			slices.Sort(byBrowser)
			if !slices.Equal(byBrowser, c.want) {
				t.Errorf("the browser is asked for %q, want %q", byBrowser, c.want)
			}
		})
	}
}

// A PID may be in either format, and the wallet presents one of them.
func TestQueries_SDJWT(t *testing.T) {
	const (
		mobile = `{"id":"identity","format":"mso_mdoc","meta":{"doctype_value":"eu.europa.ec.eudi.pid.1"},` +
			`"claims":[{"path":["eu.europa.ec.eudi.pid.1","birth_date"]}]}`
		token = `{"id":"identity_sd_jwt","format":"dc+sd-jwt",` +
			`"meta":{"vct_values":["urn:eudi:pid:1","urn:eudi:pid:de:1"]},` +
			`"claims":[{"id":"age_equal_or_over_16","path":["age_equal_or_over","16"]},` +
			`{"id":"birthdate","path":["birthdate"]}],` +
			`"claim_sets":[["age_equal_or_over_16"],["birthdate"]]}`
		choice = `"credential_sets":[{"options":[["identity_sd_jwt"],["identity"]]}]`
	)
	for _, c := range []struct {
		rule    string
		formats []string
		want    string
	}{
		{"both by default", nil, `{"credentials":[` + token + `,` + mobile + `],` + choice + `}`},
		{"both, in any order", []string{"mso_mdoc", "dc+sd-jwt"},
			`{"credentials":[` + token + `,` + mobile + `],` + choice + `}`},
		{"SD-JWT alone", []string{"dc+sd-jwt"}, `{"credentials":[` + token + `]}`},
		{"mobile documents alone", []string{"mso_mdoc"}, `{"credentials":[` + mobile + `]}`},
	} {
		changes := settings{"request": "value"}
		if c.formats != nil {
			changes["formats"] = c.formats
		}
		w := newFixture(t, config(t, "pid", changes))
		w.asks(16)
		_, text, _ := strings.Cut(w.shows().Code, "?")
		parameters, err := url.ParseQuery(text)
		if got := parameters.Get("dcql_query"); err != nil || got != c.want {
			t.Errorf("contract 39: %s: the wallet is asked for %s, want %s", c.rule, got, c.want)
		}
		var metadata struct {
			Formats map[string]map[string][]any `json:"vp_formats_supported"`
		}
		if err := json.Unmarshal([]byte(parameters.Get("client_metadata")), &metadata); err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"dc+sd-jwt", "mso_mdoc"} {
			if _, ok := metadata.Formats[format]; ok != strings.Contains(c.want, format) {
				t.Errorf("contract 39: %s: the request announces %+v", c.rule, metadata.Formats)
			}
		}
		for _, name := range []string{"sd-jwt_alg_values", "kb-jwt_alg_values"} {
			if list := metadata.Formats["dc+sd-jwt"][name]; strings.Contains(c.want, "dc+sd-jwt") &&
				!reflect.DeepEqual(list, []any{"ES256", "ES384", "ES512"}) {
				t.Errorf("contract 39: %s: %s is %v", c.rule, name, list)
			}
		}
	}
}

// Each form of a request announces every algorithm that is verified, and no other one.
func TestAnnouncedAlgorithms(t *testing.T) {
	for name, f := range forms {
		t.Run("contract 39: "+name, func(t *testing.T) {
			w := newFixture(t, config(t, f.profile, f.changes))
			for _, same := range []bool{false, true} {
				metadata := w.metadata(same)
				var m struct {
					Formats map[string]struct {
						Issuer []int64 `json:"issuerauth_alg_values"`
						Device []int64 `json:"deviceauth_alg_values"`
					} `json:"vp_formats_supported"`
				}
				if err := json.Unmarshal(metadata, &m); err != nil {
					t.Fatal(err)
				}
				got, want := m.Formats["mso_mdoc"], []int64{-7, -9, -35, -51, -36, -52}
				if !slices.Equal(got.Issuer, want) || !slices.Equal(got.Device, want) {
					t.Errorf("%s, want %v", metadata, want)
				}
			}
		})
	}
	for _, number := range mdoc.Algorithms() {
		t.Run(fmt.Sprint("contract 39: signed by ", number), func(t *testing.T) {
			curve := map[int64]elliptic.Curve{-7: elliptic.P256(), -9: elliptic.P256(), -35: elliptic.P384(),
				-51: elliptic.P384(), -36: elliptic.P521(), -52: elliptic.P521()}[number]
			w := newFixture(t, config(t, "eu-av", nil))
			issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon, Curve: curve})
			c := config(t, "eu-av", settings{"trust_anchors": []string{string(issuer.PEM())}})
			m, err := openid4vp.Kind.Open(c,
				method.Host{Now: func() time.Time { return noon }, Random: rand.Reader,
					Verify: edge.Verify})
			if err != nil {
				t.Fatal(err)
			}
			w.method, w.wallet.Issuer = m.(method.Requester), issuer
			if w.wallet.Key, err = ecdsa.GenerateKey(curve, rand.Reader); err != nil {
				t.Fatal(err)
			}
			w.begin()
			kept, err := w.send(w.message(w.shows().Code, func(p *wallettest.Presentation) {
				p.Edit = func(part wallettest.Part, i cbor.Item) cbor.Item {
					if part == wallettest.PartIssuerProtected || part == wallettest.PartDeviceProtected {
						return cbor.Map(cbor.Pair{Key: cbor.Integer(1), Value: cbor.Integer(number)})
					}
					return i
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			if d := w.act(nil, kept); d.Verdict != method.Approved {
				t.Errorf("%+v", d)
			}
		})
	}
}

// metadata is the client_metadata of the request.
func (w *fixture) metadata(same bool) []byte {
	w.Helper()
	v := w.shows()
	link := v.Code
	if same {
		link = v.Open
	}
	_, text, _ := strings.Cut(link, "?")
	parameters, err := url.ParseQuery(text)
	if err != nil {
		w.Fatal(err)
	}
	if !parameters.Has("request_uri") {
		return []byte(parameters.Get("client_metadata"))
	}
	q, err := w.get(same)
	if err != nil {
		w.Fatal(err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(string(q.Body), ".")[1])
	if err != nil {
		w.Fatal(err)
	}
	var claims struct {
		Metadata json.RawMessage `json:"client_metadata"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		w.Fatal(err)
	}
	return claims.Metadata
}

// says returns a change of the elements of a document: element, value, and so on.
func says(elements ...any) func(*wallettest.Presentation) {
	return func(p *wallettest.Presentation) {
		p.Elements = nil
		for n := 0; n < len(elements); n += 2 {
			p.Set(elements[n].(string), elements[n+1])
		}
	}
}

// born is the value of birth_date.
func born(date string) cbor.Item { return wallettest.BirthDate(date) }

// The elements of a document decide.
func TestVerdicts(t *testing.T) {
	const failed, approved, rejected = method.AttemptFailed, method.Approved, method.Rejected
	for _, c := range []struct {
		rule, profile string
		age           int
		change        func(*wallettest.Presentation)
		verdict       method.Verdict
		reason        method.Reason
		proven        int
	}{
		{"true is an approval", "eu-av", 18, says("age_over_18", true), approved, "", 18},
		{"false is a final no", "eu-av", 18, says("age_over_18", false), rejected, "", 0},
		{"a higher age was not asked for", "eu-av", 18, says("age_over_21", true), failed,
			method.Unconfirmed, 0},
		{"a lower age was not asked for", "eu-av", 18, says("age_over_16", true), failed,
			method.Unconfirmed, 0},
		{"18 proves 16", "eu-av", 16, says("age_over_18", true), approved, "", 18},
		{"below 18 leaves 16 open", "eu-av", 16, says("age_over_18", false), failed, method.Other, 0},
		{"16 itself decides", "eu-av", 16, says("age_over_18", false, "age_over_16", true), approved, "", 16},
		{"below 16 is a final no", "eu-av", 16, says("age_over_16", false), rejected, "", 0},
		{"21 itself decides", "eu-av", 21, says("age_over_18", true, "age_over_21", false), rejected, "", 0},
		{"over 21", "eu-av", 21, says("age_over_18", true, "age_over_21", true), approved, "", 21},
		{"below 18 is below 21", "eu-av", 21, says("age_over_18", false), rejected, "", 0},
		{"over 18 leaves 21 open", "eu-av", 21, says("age_over_18", true), failed, method.Other, 0},
		{"over 18, and 21 is unreadable", "eu-av", 21, says("age_over_21", 1, "age_over_18", true), failed,
			method.Other, 0},
		{"1 is not true", "eu-av", 18, says("age_over_18", 1), failed, method.Unconfirmed, 0},
		{`"true" is not true`, "eu-av", 18, says("age_over_18", "true"), failed, method.Unconfirmed, 0},
		{"null is not false", "eu-av", 18, says("age_over_18", cbor.Null()), failed, method.Unconfirmed, 0},
		{"nothing is proven by nothing", "eu-av", 18, says(), failed, method.Unconfirmed, 0},

		{"a licence that says no more than 21", "mdl", 18, says("age_over_21", true), approved, "", 21},
		{"a licence of a person below 21 leaves 18 open", "mdl", 18, says("age_over_21", false),
			failed, method.Other, 0},
		{"a licence that says both", "mdl", 18, says("age_over_21", false, "age_over_18", true), approved, "",
			18},
		{"the exact age wins", "mdl", 18, says("age_over_21", true, "age_over_18", false), rejected, "", 0},
		{"the next age wins", "mdl", 16, says("age_over_21", true, "age_over_18", false), failed,
			method.Other, 0},
		{"18 proves 16 by a licence", "mdl", 16, says("age_over_18", true), approved, "", 18},
		{"25 was not asked for", "mdl", 18, says("age_over_25", true), failed, method.Unconfirmed, 0},
		{"21 does not prove 25", "mdl", 25, says("age_over_21", true), failed, method.Unconfirmed, 0},
		{"18 is unreadable, and 21 is true", "mdl", 18, says("age_over_18", "yes", "age_over_21", true),
			approved, "", 21},

		// noon is 22 November 2026.
		{"the 18th birthday", "pid", 18, says("birth_date", born("2008-11-22")), approved, "", 18},
		{"the day before it", "pid", 18, says("birth_date", born("2008-11-23")), rejected, "", 0},
		{"the exact age is not returned", "pid", 18, says("birth_date", born("1950-01-01")),
			approved, "", 18},
		{"16 years", "pid", 16, says("birth_date", born("2010-11-22")), approved, "", 16},
		{"no date", "pid", 18, says(), failed, method.Unconfirmed, 0},
		{"a date without its tag", "pid", 18, says("birth_date", "1990-01-01"), failed,
			method.Unconfirmed, 0},
		{"a date that is none", "pid", 18, says("birth_date", born("1990-02-30")), failed,
			method.Unconfirmed, 0},
		{"a year", "pid", 18, says("birth_date", born("1990")), failed, method.Unconfirmed, 0},
		{"a date of tomorrow", "pid", 18, says("birth_date", born("2026-11-23")), failed,
			method.Unconfirmed, 0},
		{"a date without its year", "pid", 18, says("birth_date", born("0000-01-01")), failed,
			method.Unconfirmed, 0},
		{"a date of 1850", "pid", 18, says("birth_date", born("1850-01-01")), failed, method.Unconfirmed, 0},
		{"true is no date", "pid", 18, says("birth_date", true), failed, method.Unconfirmed, 0},
		{"an element that PIDs had once", "pid", 18, says("age_over_18", true), failed,
			method.Unconfirmed, 0},
	} {
		t.Run(fmt.Sprintf("contract 39: %s, %d: %s", c.profile, c.age, c.rule), func(t *testing.T) {
			w := newFixture(t, config(t, c.profile, settings{"browser": true}))
			w.asks(c.age)
			w.wallet.Elements[fmt.Sprintf("age_over_%02d", c.age)] = true // so it has what is asked for
			kept, err := w.send(w.message(w.shows().Code, c.change))
			if err != nil {
				t.Fatal(err)
			}
			w.wantDecision(w.act(nil, kept), c.verdict, c.reason, c.proven)
			w.wantDecision(w.act(w.inBrowser(service, c.change), nil), c.verdict, c.reason, c.proven)
			if !keptForm.MatchString(string(kept)) {
				t.Errorf("%q is kept, which may be more than the result", kept)
			}
		})
	}
}

// keptForm is the kept form of a document: the result, an age that was asked for, and the anchor.
var keptForm = regexp.MustCompile(`^(approved:(16|18|21)|rejected:0|other_age:0|unconfirmed:0):[0-9a-f]{64}$`)

// anchor is the fingerprint of the wallet's issuer.
func (w *fixture) anchor() string {
	return mdoc.Anchor{Certificate: w.wallet.Issuer.Root}.Fingerprint()
}

func (w *fixture) wantDecision(d method.Decision, verdict method.Verdict, reason method.Reason, age int) {
	w.Helper()
	if d.Verdict != verdict || d.Reason != reason || d.Age != age || d.Trust != w.anchor() {
		w.Errorf("%+v, want %v for %q, with the age %d", d, verdict, reason, age)
	}
	if named := d.Setting == "profile" && d.Detail != ""; named != (verdict == method.AttemptFailed) {
		w.Errorf("the setting is %q, with %q", d.Setting, d.Detail)
	}
}

// The profiles whose issuers use both key purposes accept both.
func TestSignersOfProfiles(t *testing.T) {
	for _, c := range []struct {
		profile, eku, reason string
	}{
		{"eu-av", wallettest.AgeSigner, ""},
		{"eu-av", wallettest.MDLSigner, ""},
		{"pid", wallettest.AgeSigner, ""},
		{"pid", wallettest.MDLSigner, ""},
		{"mdl", wallettest.MDLSigner, ""},
		{"mdl", wallettest.AgeSigner, "certificate_eku"},
		{"eu-av", "1.3.6.1.5.5.7.3.1", "certificate_eku"},
		{"pid", "none", "certificate_eku"},
	} {
		t.Run("contract 39: "+c.profile+" by "+c.eku, func(t *testing.T) {
			issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon, EKU: c.eku})
			w := newFixture(t, config(t, c.profile,
				settings{"trust_anchors": []string{string(issuer.PEM())}}))
			w.wallet.Issuer = issuer
			kept, err := w.send(w.message(w.shows().Code))
			if c.reason != "" {
				w.wantFault(method.Untrusted, c.reason, kept, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d := w.act(nil, kept)
			trusted, err := w.method.(method.Truster).Trusts(t.Context(), d.Trust)
			if d.Verdict != method.Approved || !trusted || err != nil {
				t.Errorf("%+v", d)
			}
		})
	}
}

// With cross_device = false, only a wallet on the browser's own device answers.
func TestCrossDevice_Off(t *testing.T) {
	for name, f := range forms {
		t.Run("contract 39: "+name, func(t *testing.T) {
			off := settings{"cross_device": false}
			maps.Copy(off, f.changes)
			before := newFixture(t, config(t, f.profile, f.changes))
			w := newFixture(t, config(t, f.profile, off))
			if v := before.shows(); v.Here || v.Code == "" {
				t.Errorf("by default the page has %+v", v)
			}
			first := w.session
			first.ResponseURI = ""
			if v := w.shows(); !v.Here || v.Code != "" || v.Open == "" || !w.method.Show(first, nil).Here {
				t.Errorf("the page has %+v", v)
			}
			kept, err := w.send(w.message(w.shows().Open))
			if err != nil {
				t.Fatal(err)
			}
			d, err := w.method.Act(t.Context(), w.session,
				method.Step{Response: kept, Back: true, State: w.state})
			if err != nil || d.Verdict != method.Approved {
				t.Errorf("an answer from the same device: %+v, %v", d, err)
			}

			// The attacker knows the address of the box from the link, and makes a request for another
			// device. The page from before the setting changed has the same request.
			before.state = w.state
			m := before.message(before.shows().Code)
			kept, err = w.send(m)
			w.wantRejected("cross_device", kept, err)
			declined := url.Values{"error": {"access_denied"}, "state": {m.Form.Get("state")}}
			kept, err = w.post(box, formType, declined.Encode())
			w.wantRejected("cross_device", kept, err)
			if q, err := w.get(false); !errors.Is(err,
				method.ErrStep) {
				t.Errorf("the request for another device is served: %+v, %v", q, err)
			}
			if kept, err = before.send(m); err != nil {
				t.Fatal(err)
			}
			_, err = w.method.Act(t.Context(), w.session, method.Step{Response: kept, State: w.state})
			w.wantRejected("outdated", nil, err)
		})
	}
}

// The browser's own dialog is not affected: Verge does not learn where its wallet is.
func TestCrossDevice_TheBrowserChooses(t *testing.T) {
	w := newFixture(t, config(t, "eu-av", settings{"cross_device": false}))
	w.wantByBrowser(w.inBrowser(service), method.Approved, "")
}

// The invalid responses are created from a wallet's valid response.
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
	body       func(w *fixture, m wallettest.Message) string
	reason     string
}{
	{"another state", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "state", "AAAAAAAAAAAAAAAAAAAAAA")
	}, "answer_state"},
	{"no state", plain, func(_ *fixture, m wallettest.Message) string {
		m.Form.Del("state")
		return m.Form.Encode()
	}, "answer_state"},
	{"two states", plain, func(_ *fixture, m wallettest.Message) string {
		return m.Form.Encode() + "&state=a"
	}, "answer_form"},
	{"a state in bad encoding", plain, func(*fixture, wallettest.Message) string { return "state=%zz" },
		"answer_form"},
	{"no form", plain, func(*fixture, wallettest.Message) string { return "a=%zz" }, "vp_token"},
	{"nothing", plain, func(*fixture, wallettest.Message) string { return "" }, "vp_token"},
	{"a token that is no JSON", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", "{")
	}, "vp_token"},
	{"a token that is an array", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `["a"]`)
	}, "vp_token"},
	{"a token with a member twice", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":["a"],"proof_of_age":["a"]}`)
	}, "vp_token_presentations"},
	{"a credential that was not asked for", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `{"identity":["`+token(m)+`"]}`)
	}, "vp_token_credential"},
	{"an additional credential", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":["`+token(m)+`"],"identity":["a"]}`)
	}, "vp_token_credential"},
	{"two presentations", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":["`+token(m)+`","`+token(m)+`"]}`)
	}, "vp_token_presentations"},
	{"no presentation", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":[]}`)
	}, "vp_token_presentations"},
	{"a text instead of an array", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":"`+token(m)+`"}`)
	}, "vp_token_presentations"},
	{"a number as presentation", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":[1]}`)
	}, "vp_token_presentations"},
	{"base64 with padding", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":["`+token(m)+`="]}`)
	}, "vp_token_encoding"},
	{"an empty presentation", plain, func(_ *fixture, m wallettest.Message) string {
		return of(m, "vp_token", `{"proof_of_age":[""]}`)
	}, "vp_token_encoding"},
	{"a response to another nonce", plain, func(w *fixture, _ wallettest.Message) string {
		return w.message(w.shows().Code, func(p *wallettest.Presentation) {
			p.Session.Nonce = "AAAAAAAAAAAAAAAAAAAAAA"
		}).Form.Encode()
	}, "device_signature"},
	{"a response to a client without its prefix", plain, func(w *fixture, _ wallettest.Message) string {
		return w.message(w.shows().Code, func(p *wallettest.Presentation) {
			p.Session.ClientID = strings.TrimPrefix(p.Session.ClientID, "redirect_uri:")
		}).Form.Encode()
	}, "device_signature"},
	{"a response to another address", plain, func(w *fixture, _ wallettest.Message) string {
		return w.message(w.shows().Code, func(p *wallettest.Presentation) {
			p.Session.ResponseURI = "https://evil.example/"
		}).Form.Encode()
	}, "device_signature"},
	{"a replay from the request before", plain, func(w *fixture, m wallettest.Message) string {
		w.begin() // draws another nonce
		_, text, _ := strings.Cut(w.shows().Code, "?")
		query, err := url.ParseQuery(text)
		if err != nil {
			w.Fatal(err)
		}
		return of(m, "state", query.Get("state"))
	}, "device_signature"},
	{"an error with another state", plain, func(*fixture, wallettest.Message) string {
		return "error=access_denied&state=a"
	}, "answer_state"},
	{"an error without a state", encrypted, func(*fixture, wallettest.Message) string {
		return "error=access_denied"
	}, "answer_state"},
	{"an unencrypted response to a request for an encrypted one", encrypted,
		func(w *fixture, _ wallettest.Message) string {
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
		func(w *fixture, _ wallettest.Message) string {
			return w.message(w.shows().Code, func(p *wallettest.Presentation) {
				p.Session.Thumbprint = nil
			}).Form.Encode()
		}, "device_signature"},
	{"an encrypted answer that was changed", encrypted, func(_ *fixture, m wallettest.Message) string {
		jwe := []byte(m.Form.Get("response"))
		tag := slices.Index(jwe, '.') // the header
		jwe[tag-3] ^= 1
		return of(m, "response", string(jwe))
	}, ""},
	{"a response that is encrypted for another request", encrypted,
		func(w *fixture, m wallettest.Message) string {
			w.begin()
			return m.Form.Encode()
		}, "jwe_not_opened"},
	{"no encrypted answer", encrypted, func(_ *fixture, m wallettest.Message) string {
		return of(m, "response", "a.b.c")
	}, "jwe_form"},
}

// Each of noAnswers is rejected, and the pending response stays open.
func TestResponse_Malformed(t *testing.T) {
	for _, c := range noAnswers {
		t.Run("contract 39: "+c.rule, func(t *testing.T) {
			f := forms[c.form]
			w := newFixture(t, config(t, f.profile, f.changes))
			m := w.message(w.shows().Code)
			body := c.body(w, m)
			kept, err := w.post(box, formType, body)
			if c.reason != "" {
				w.wantRejected(c.reason, kept, err)
			}
			var rejection *method.Rejection
			if !errors.As(err, &rejection) || strings.Contains(err.Error(), body) && body != "" {
				t.Errorf("the error is %v", err)
			}
		})
	}
	w := newFixture(t, config(t, "eu-av", nil))
	for _, contentType := range []string{"", "application/json", "multipart/form-data; boundary=a",
		"text/plain"} {
		kept, err := w.post(box, contentType, w.message(w.shows().Code).Form.Encode())
		if !errors.Is(err, steperror.ErrMediaType) || !errors.Is(err, method.ErrStep) || kept != nil {
			t.Errorf("contract 39: a response as %q: %q, %v", contentType, kept, err)
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

// The operator removes an anchor while sessions are active. A response to an earlier request is rejected.
func TestAnchor_Removed(t *testing.T) {
	w := newFixture(t, config(t, "eu-av", nil))
	good := w.message(w.shows().Code)
	if _, err := w.send(good); err != nil {
		t.Fatalf("before: %v", err)
	}
	byBrowser := w.inBrowser(service)
	after := newFixture(t,
		config(t, "eu-av", settings{"trust_anchors": []string{string(issuers["pid"].PEM())}}))
	after.state = w.state
	kept, err := after.send(good)
	after.wantFault(method.Untrusted, "untrusted", kept, err)
	after.wantByBrowser(byBrowser, method.AttemptFailed, "untrusted")
}

func TestErrorsOfWallets(t *testing.T) {
	for _, form := range []string{"eu-av by value", "eu-av by value, encrypted", "mdl signed, by its host"} {
		w := newFixture(t, config(t, forms[form].profile, forms[form].changes))
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
			return w.method.Act(t.Context(), w.session, method.Step{Response: kept, State: w.state})
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

// A parameter without a value counts as absent (RFC 6749, 3.1): a response with an empty error counts.
func TestAnswer_EmptyParameters(t *testing.T) {
	for _, form := range []string{"eu-av by value", "eu-av by value, encrypted", "mdl signed, by its host"} {
		w := newFixture(t, config(t, forms[form].profile, forms[form].changes))
		m := w.message(w.shows().Code)
		for _, name := range []string{"error", "error_description", "response", "vp_token"} {
			if !m.Form.Has(name) {
				m.Form.Set(name, "")
			}
		}
		kept, err := w.send(m)
		if err != nil {
			t.Fatalf("contract 22: %s: %v", form, err)
		}
		d, err := w.method.Act(t.Context(), w.session, method.Step{Response: kept, State: w.state})
		if err != nil || d.Verdict != method.Approved {
			t.Errorf("contract 22: %s: %+v, %v", form, d, err)
		}
	}
}

// A signed request is the same one however often it is fetched, and it is not served where none is
// signed.
func TestPendingRequest_Fetched(t *testing.T) {
	w := newFixture(t, config(t, "mdl", nil))
	claims := func(same bool) string {
		q, err := w.get(same)
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
	w = newFixture(t, config(t, "eu-av", nil))
	if q, err := w.get(false); !errors.Is(err, method.ErrStep) {
		t.Errorf("contract 39: a request by value is served: %+v, %v", q, err)
	}
}

// Each pending request has its own nonce, state and keys.
func TestPendingRequest_Differs(t *testing.T) {
	w := newFixture(t, config(t, "eu-av", settings{"encrypted": true}))
	seen := map[string]bool{}
	for range 3 {
		v := w.shows()
		_, text, _ := strings.Cut(v.Code, "?")
		query, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{query.Get("nonce"), query.Get("state"), query.Get("client_metadata"),
			string(v.Credentials[0].Data)} {
			if seen[text] || len(text) < 22 {
				t.Errorf("%q was there before, or is short", text)
			}
			seen[text] = true
		}
		w.begin()
	}
}

func TestBeginFindsWhatNoWalletWouldAccept(t *testing.T) {
	w := newFixture(t, config(t, "mdl", nil))
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
	w := newFixture(t, config(t, "eu-av", nil))
	first := w.session
	first.ResponseURI = ""
	if v := w.method.Show(first, nil); !slices.Equal(v.Choices, []string{"begin"}) || v.Open+v.Code != "" ||
		len(v.Credentials) > 0 {
		t.Errorf("the first page has %+v", v)
	}
	if v := w.method.Show(w.session, []byte("x")); v.Open+v.Code != "" || len(v.Credentials) > 0 {
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
	if d, err := w.method.Act(t.Context(), w.session, method.Step{Response: []byte("approve")}); err == nil {
		t.Errorf("what is never kept decides: %+v", d)
	}
	if openid4vp.Kind.Level != "L2" || openid4vp.Kind.Sandbox || openid4vp.Kind.Estimates {
		t.Errorf("the kind is %+v", openid4vp.Kind)
	}
}
