package openid4vp_test

import (
	"crypto/ecdsa"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/testharness/wallettest"
)

const (
	eID        = "urn:ch.admin.fedpol.eid"
	issuerDID  = "did:webvh:QmIssuer:registry.example:api:v1:did:1"
	serviceDID = "did:webvh:QmService:registry.example:api:v1:did:2"
	serviceKey = serviceDID + "#auth-1"
)

// swissIssuer is an issuer that has a DID and no certificate.
func swissIssuer(key string) *wallettest.Issuer {
	i := wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon})
	i.Chain, i.KeyID = nil, issuerDID+key
	return i
}

// keySet is the file with the keys of issuers.
func keySet(all ...*wallettest.Issuer) string {
	var keys []map[string]any
	for _, i := range all {
		keys = append(keys, wallettest.JWK(&i.Key.PublicKey, i.KeyID))
	}
	b, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err) // texts
	}
	return string(b)
}

// swiss makes the wallet of a fixture the Swiss one.
func (w *fixture) swiss() {
	service, _ := signing()
	w.wallet.Format, w.wallet.TextToken, w.wallet.OnlyGet = sdJWT, true, true
	w.wallet.Services = map[string]*ecdsa.PublicKey{serviceKey: &service.PublicKey}
	w.wallet.Claims = map[string]any{"age_over_16": "true", "age_over_18": "true", "age_over_65": "false",
		"birth_date": "1986-02-28", "family_name": "Muster"}
}

func newSwissFixture(t testing.TB, changes settings) *fixture {
	t.Helper()
	w := newFixture(t, config(t, "swiyu", changes))
	w.swiss()
	return w
}

// The request is as the Swiss profile has it, and names the service by its DID.
func TestSwiyu_Request(t *testing.T) {
	w := newSwissFixture(t, nil)
	v := w.shows()
	link, err := url.Parse(v.Code)
	if err != nil || link.Scheme != "swiyu-verify" || link.Query().Has("request_uri_method") ||
		link.Query().Get("client_id") != "decentralized_identifier:"+serviceDID {
		t.Errorf("contract 39: the link is %q, %v", v.Code, err)
	}
	r, err := w.wallet.Open(t.Context(), v.Code)
	if err != nil {
		t.Fatal(err)
	}
	if r.Profile != "swiss-profile-verification:1.0.0" || r.ResponseMode != "direct_post.jwt" ||
		r.Encryption != "A256GCM" || strings.Join(r.Types, " ") != eID+" betaid-sdjwt" {
		t.Errorf("contract 39: the request is %+v", r)
	}
	if len(v.Credentials) > 0 {
		t.Errorf("contract 55: the browser is asked: %+v", v.Credentials)
	}
	for age, want := range map[int]string{16: "age_over_16", 18: "age_over_18", 65: "age_over_65",
		15: "birth_date", 21: "birth_date"} {
		w.asks(age)
		r, err := w.wallet.Open(t.Context(), w.shows().Code)
		if err != nil || len(r.Claims) != 1 || strings.Join(r.Claims[0], ".") != want {
			t.Errorf("contract 39: at %d it asks for %q, want %s: %v", age, r.Claims, want, err)
		}
	}
}

// The claims of a Swiss E-ID decide. Its booleans may be texts.
func TestSwiyu_Verdicts(t *testing.T) {
	const failed, approved, rejected = method.AttemptFailed, method.Approved, method.Rejected
	for _, c := range []struct {
		rule    string
		age     int
		claims  map[string]any
		verdict method.Verdict
		proven  int
	}{
		{"a text", 18, map[string]any{"age_over_18": "true"}, approved, 18},
		{"a boolean", 18, map[string]any{"age_over_18": true}, approved, 18},
		{"too young", 18, map[string]any{"age_over_18": "false"}, rejected, 0},
		{"another text", 18, map[string]any{"age_over_18": "yes"}, failed, 0},
		{"another age", 18, map[string]any{"age_over_65": "true"}, failed, 0},
		{"a date that was not asked for", 18, map[string]any{"birth_date": "1986-02-28"}, failed, 0},
		{"a date", 21, map[string]any{"birth_date": "1986-02-28"}, approved, 21},
		{"a date of someone younger", 21, map[string]any{"birth_date": "2008-02-28"}, rejected, 0},
		{"an age instead of the date", 21, map[string]any{"age_over_65": "true"}, failed, 0},
	} {
		w := newSwissFixture(t, nil)
		w.asks(c.age)
		kept, err := w.send(w.message(w.shows().Code, claims(c.claims)))
		if err != nil {
			t.Fatalf("contract 39: %s: %v", c.rule, err)
		}
		d := w.act(nil, kept)
		if d.Verdict != c.verdict || d.Age != c.proven || len(d.Trust) != 64 ||
			!keptForm.MatchString(string(kept)) {
			t.Errorf("contract 39: %s: %+v, kept as %q", c.rule, d, kept)
		}
	}
}

// A document at fault fails the attempt, and a response for another service is rejected.
func TestSwiyu_Attacks(t *testing.T) {
	stranger := swissIssuer("#assert-1")
	unknown := swissIssuer("#assert-9")
	unknown.Key = issuers["swiyu"].Key
	for _, c := range []struct {
		rule, reason string
		fault        method.Reason // "": rejected
		change       func(*wallettest.Presentation)
	}{
		{"an unknown key", "untrusted", method.Untrusted, func(p *wallettest.Presentation) {
			p.Issuer = unknown
		}},
		{"signed by another key", "issuer_signature", "", func(p *wallettest.Presentation) {
			p.Issuer = stranger
		}},
		{"an issuer with certificates", "certificate_eku", method.Untrusted,
			func(p *wallettest.Presentation) { p.Issuer = issuers["pid"] }},
		{"another type", "sd_jwt_type", method.OtherDocument,
			func(p *wallettest.Presentation) { p.SDJWT.Type = eID + ":2" }},
		{"for the DID without its prefix", "key_binding_audience", "",
			func(p *wallettest.Presentation) { p.SDJWT.Audience = serviceDID }},
		{"for another service", "key_binding_audience", "", func(p *wallettest.Presentation) {
			p.SDJWT.Audience = "decentralized_identifier:" + issuerDID
		}},
	} {
		w := newSwissFixture(t, nil)
		kept, err := w.send(w.message(w.shows().Code, c.change))
		if c.fault == "" {
			w.wantRejected(c.reason, kept, err)
		} else {
			w.wantFault(c.fault, c.reason, kept, err)
		}
		if c.fault == method.Untrusted {
			if d := w.act(nil, kept); d.Setting != "issuer_keys" {
				t.Errorf("contract 48: %s: the setting is %q", c.rule, d.Setting)
			}
		}
	}
}

// Trust ends with the key: a removed or replaced one ends the verdicts that it led to.
func TestSwiyu_RemovedKey(t *testing.T) {
	w := newSwissFixture(t, nil)
	kept, err := w.send(w.message(w.shows().Code))
	if err != nil {
		t.Fatal(err)
	}
	d := w.act(nil, kept)
	if d.Verdict != method.Approved {
		t.Fatalf("%+v", d)
	}
	second, replaced := swissIssuer("#assert-2"), swissIssuer("#assert-1")
	renamed := &wallettest.Issuer{Key: issuers["swiyu"].Key, KeyID: second.KeyID}
	for name, c := range map[string]struct {
		keys string
		want bool
	}{
		"unchanged":      {keySet(issuers["swiyu"]), true},
		"another added":  {keySet(second, issuers["swiyu"]), true},
		"removed":        {keySet(second), false},
		"another key id": {keySet(renamed), false},
		"replaced":       {keySet(replaced), false},
	} {
		after := newSwissFixture(t, settings{"issuer_keys": []string{c.keys}})
		ok, err := after.method.(method.Truster).Trusts(t.Context(), d.Trust)
		if ok != c.want || err != nil {
			t.Errorf("contract 38: %s: %v, %v, want %v", name, ok, err, c.want)
		}
		after.wallet, after.state = w.wallet, w.state
		kept, err := after.send(after.message(after.shows().Code))
		if approved := err == nil && after.act(nil, kept).Verdict == method.Approved; approved != c.want {
			t.Errorf("contract 39: %s: a new document: %v", name, err)
		}
	}
	print := func(types ...string) string {
		w := newSwissFixture(t, settings{"vct_values": types})
		return w.method.(method.Fingerprinter).Fingerprint()
	}
	if print(eID, "a") != print("a", eID) || print(eID, "a") == print(eID) {
		t.Error("contract 38: the fingerprint has other types of documents")
	}
}

// The status list of a document is signed by a key of the same DID.
func TestSwiyu_StatusList(t *testing.T) {
	issuer, second := issuers["swiyu"], swissIssuer("#status-1")
	foreign := swissIssuer("#status-1")
	foreign.KeyID = serviceDID + "#status-1"
	all := settings{"profile": "swiyu", "request": "signed", "trust_anchors": nil, "certificate": nil,
		"key_id":      serviceKey,
		"issuer_keys": []string{keySet(issuer, second, foreign)}, "vct_values": []string{eID}}
	for _, c := range []struct {
		rule    string
		signer  *wallettest.Issuer
		index   int64
		want    method.Verdict
		checked bool
	}{
		{"valid", issuer, 0, method.Approved, true},
		{"revoked", issuer, 1, method.AttemptFailed, true},
		{"suspended", issuer, 2, method.AttemptFailed, true},
		{"valid, by another key of the DID", second, 0, method.Approved, true},
		{"revoked, by another key of the DID", second, 1, method.AttemptFailed, true},
		{"by a key of another DID", foreign, 1, method.Approved, false},
		{"by an unknown key", swissIssuer("#new"), 1, method.Approved, false},
		{"by certificates", issuers["pid"], 1, method.Approved, false},
	} {
		r := newRegistry(t, all)
		r.swiss()
		r.wallet.Issuer = issuer
		r.served[listURI] = func() host.FetchResponse {
			l := wallettest.StatusList{URI: listURI, Bits: 2, List: []byte{0b11_10_01_00},
				Issued: r.now.Add(-time.Hour), Expires: r.now.Add(time.Hour), Key: c.signer.Key,
				Chain: c.signer.Chain}
			if c.signer.KeyID != "" {
				l.Change = func(header, _ map[string]any) {
					delete(header, "x5c")
					header["kid"] = c.signer.KeyID
				}
			}
			return response("application/statuslist+jwt", l.JWT())
		}
		kept, err := r.send(r.message(r.shows().Code, func(p *wallettest.Presentation) {
			p.Status = wallettest.StatusReference(listURI, c.index)
		}))
		if err != nil {
			t.Fatalf("contract 54: %s: %v", c.rule, err)
		}
		if d := r.act(nil, kept); d.Verdict != c.want || (len(r.measured) == 0) != c.checked {
			t.Errorf("contract 54: %s: %+v, %v", c.rule, d, r.measured)
		}
	}
}

// Each mistake in the settings of the profile is reported at its setting.
func TestSettings_Swiyu(t *testing.T) {
	anchor := []string{string(issuers["pid"].PEM())}
	_, certificate := signing()
	checkSettings(t, []settingsCase{
		{"the least that is needed", "swiyu", nil, "", ""},
		{"no keys", "swiyu", settings{"issuer_keys": nil}, "issuer_keys", "JWK Sets"},
		{"no list of keys", "swiyu", settings{"issuer_keys": "a"}, "issuer_keys", "a list of files"},
		{"an empty list of keys", "swiyu", settings{"issuer_keys": []string{}}, "issuer_keys", "a list"},
		{"a file over the limit", "swiyu", settings{"issuer_keys": []string{keySet(issuers["swiyu"]) +
			strings.Repeat(" ", 64<<10)}}, "issuer_keys", "at most 65536"},
		{"a key twice", "swiyu", settings{"issuer_keys": []string{keySet(issuers["swiyu"]),
			keySet(issuers["swiyu"])}}, "issuer_keys", "occurs twice"},
		{"certificates of issuers", "swiyu", settings{"trust_anchors": anchor}, "trust_anchors", "DIDs"},
		{"no types", "swiyu", settings{"vct_values": nil}, "vct_values", "1 to 16 types"},
		{"a prefix of types", "swiyu", settings{"vct_values": []string{"urn:ch:"}}, "vct_values", "no type"},
		{"a type twice", "swiyu", settings{"vct_values": []string{eID, eID}}, "vct_values", "twice"},
		{"types of another profile", "pid", settings{"vct_values": []string{eID}}, "vct_values", "fixed"},
		{"no key of the service", "swiyu", settings{"key_id": nil}, "key_id", "did:webvh"},
		{"a DID without a key", "swiyu", settings{"key_id": serviceDID}, "key_id", "did:webvh"},
		{"a certificate of the service", "swiyu", settings{"certificate": certificate}, "certificate_file",
			"its DID"},
		{"a key of a DID for a certificate", "mdl", settings{"key_id": serviceKey}, "key_id",
			"decentralized_identifier"},
		{"another format", "swiyu", settings{"formats": []string{"mso_mdoc"}}, "formats", "dc+sd-jwt"},
		{"issuers by DID for mobile documents", "mdl", settings{"issuer_keys": []string{
			keySet(issuers["swiyu"])}}, "issuer_keys", "dc+sd-jwt"},
		{"a PID of an issuer by DID", "pid", settings{"trust_anchors": nil, "issuer_keys": []string{
			keySet(issuers["swiyu"])}}, "", ""},
		{"a DID of the service for a PID", "pid", settings{"client_id_prefix": "decentralized_identifier",
			"certificate": nil, "key_id": serviceKey}, "", ""},
	})
	k, err := mdoc.ParseIssuerKeys([]byte(keySet(issuers["swiyu"])))
	if err != nil || k[0].DID() != issuerDID {
		t.Errorf("%+v, %v", k, err)
	}
	c := config(t, "swiyu", nil)
	h := method.Host{Now: func() time.Time { return noon }, Sign: sign}
	r, err := openid4vp.Probe(t.Context(), c, h.For(c.Name), service)
	if err != nil || len(r.Findings) < 2 || slices.ContainsFunc(r.Findings,
		func(f method.Finding) bool { return !f.Good }) {
		t.Errorf("contract 39: the report is %+v, %v", r, err)
	}
}
