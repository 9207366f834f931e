package openid4vp_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/wallettest"
)

const sdJWT = "dc+sd-jwt"

// claims returns a change of the claims of an SD-JWT, all of which are sent.
func claims(all map[string]any) func(*wallettest.Presentation) {
	return func(p *wallettest.Presentation) {
		p.SDJWT.Claims, p.SDJWT.Disclose = all, [][]string{{}}
	}
}

func over(ages map[string]any) map[string]any { return map[string]any{"age_equal_or_over": ages} }

// The claims of an SD-JWT decide as the elements of a mobile document do.
func TestVerdicts_SDJWT(t *testing.T) {
	const failed, approved, rejected = method.AttemptFailed, method.Approved, method.Rejected
	for _, c := range []struct {
		rule    string
		age     int
		claims  map[string]any
		verdict method.Verdict
		reason  method.Reason
		proven  int
	}{
		{"true is an approval", 18, over(map[string]any{"18": true}), approved, "", 18},
		{"false is a final no", 18, over(map[string]any{"18": false}), rejected, "", 0},
		{"another age was not asked for", 18, over(map[string]any{"16": true, "21": true}), failed,
			method.Unconfirmed, 0},
		{"1 is not true", 18, over(map[string]any{"18": 1}), failed, method.Unconfirmed, 0},
		{"\"true\" is not true", 18, over(map[string]any{"18": "true"}), failed, method.Unconfirmed, 0},
		{"the age decides before the date", 18, map[string]any{"birthdate": "1986-02-28",
			"age_equal_or_over": map[string]any{"18": false}}, rejected, "", 0},
		{"the age is unreadable, and the date is not", 18, map[string]any{"birthdate": "1986-02-28",
			"age_equal_or_over": map[string]any{"18": "yes"}}, approved, "", 18},
		{"the 18th birthday", 18, map[string]any{"birthdate": "2008-11-22"}, approved, "", 18},
		{"the day before it", 18, map[string]any{"birthdate": "2008-11-23"}, rejected, "", 0},
		{"16 years", 16, map[string]any{"birthdate": "2010-11-22"}, approved, "", 16},
		{"the name of a mobile document", 18, map[string]any{"birth_date": "1986-02-28"}, failed,
			method.Unconfirmed, 0},
		{"a year", 18, map[string]any{"birthdate": "1986"}, approved, "", 18},
		{"a year that is not over", 18, map[string]any{"birthdate": "2008"}, rejected, "", 0},
		{"an unknown day", 18, map[string]any{"birthdate": "2008-10-00"}, approved, "", 18},
		{"a date without its year", 18, map[string]any{"birthdate": "0000-02-28"}, failed,
			method.Unconfirmed, 0},
		{"a date of tomorrow", 18, map[string]any{"birthdate": "2026-11-23"}, failed, method.Unconfirmed, 0},
		{"a date of 1850", 18, map[string]any{"birthdate": "1850-01-01"}, failed, method.Unconfirmed, 0},
		{"nothing is proven by nothing", 18, map[string]any{}, failed, method.Unconfirmed, 0},
	} {
		w := newFixture(t, config(t, "pid", settings{"browser": allProtocols}))
		w.wallet.Format = sdJWT
		w.asks(c.age)
		kept, err := w.send(w.message(w.shows().Code, claims(c.claims)))
		if err != nil {
			t.Fatalf("contract 39: %s: %v", c.rule, err)
		}
		if !keptForm.MatchString(string(kept)) {
			t.Errorf("contract 39: %s: %q is kept, which may be more than the result", c.rule, kept)
		}
		all := []method.Decision{w.act(nil, kept)}
		for _, protocol := range []string{unsignedProtocol, signedProtocol} {
			all = append(all, w.act(w.answered(w.requestTo(protocol), service, claims(c.claims)), nil))
		}
		for n, d := range all {
			if d.Verdict != c.verdict || d.Reason != c.reason || d.Age != c.proven || d.Trust != w.anchor() {
				t.Errorf("contract 39: %s, way %d: %+v, want %v for %q, with the age %d", c.rule, n, d,
					c.verdict, c.reason, c.proven)
			}
			const asked = "age_equal_or_over.18,birthdate,birth_date"
			if c.age == 18 && c.verdict == failed && d.Detail != asked {
				t.Errorf("contract 48: %s: the detail is %q, want %q", c.rule, d.Detail, asked)
			}
		}
	}
}

// An SD-JWT counts for one request of one page alone, whichever way it is sent.
func TestAnswers_SDJWT(t *testing.T) {
	for name, changes := range map[string]settings{
		"signed":              {"browser": allProtocols},
		"signed, by its hash": {"client_id_prefix": "x509_hash", "browser": allProtocols},
		"by value":            {"request": "value", "encrypted": false, "browser": allProtocols},
		"SD-JWT alone": {"formats": []string{sdJWT}, "browser": []string{signedProtocol,
			unsignedProtocol}},
	} {
		w := newFixture(t, config(t, "pid", changes))
		w.wallet.Format = sdJWT
		v := w.shows()
		here, there := w.message(v.Open), w.message(v.Code)
		for _, m := range []wallettest.Message{here, there} {
			kept, err := w.send(m)
			if err != nil {
				t.Fatalf("contract 39: %s: %v", name, err)
			}
			if d := w.act(nil, kept); d.Verdict != method.Approved || d.Age != 18 {
				t.Errorf("contract 39: %s: %+v, want an approval", name, d)
			}
		}
		// The nonce of the other address, in a response that is encrypted to the right key.
		other, err := w.wallet.Open(t.Context(), v.Open)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := w.send(w.message(v.Code, func(p *wallettest.Presentation) {
			p.SDJWT.Nonce, p.SDJWT.Audience = other.Nonce, other.ClientID
		}))
		want := "key_binding_nonce"
		if strings.HasPrefix(other.ClientID, "redirect_uri:") {
			want = "key_binding_audience" // which is the address
		}
		w.wantRejected(want, kept, err)
		for _, protocol := range []string{unsignedProtocol, signedProtocol} {
			f := w.answered(w.requestTo(protocol), service)
			if d := w.act(f, nil); d.Verdict != method.Approved {
				t.Errorf("contract 55: %s, by %s: %+v, want an approval", name, protocol, d)
			}
			for rule, c := range map[string]struct{ audience, want string }{
				"the client":     {other.ClientID, "key_binding_audience"},
				"another origin": {"origin:https://evil.example", "key_binding_audience"},
				"a bare origin":  {service, "key_binding_audience"},
				"the page's":     {"origin:" + service, ""},
				"with a slash":   {"origin:" + service + "/", "key_binding_audience"},
			} {
				f := w.answered(w.requestTo(protocol), service, func(p *wallettest.Presentation) {
					p.SDJWT.Audience = c.audience
				})
				d := w.act(f, nil)
				if _, exact := d.Result(); (d.Verdict == method.Approved) != (c.want == "") ||
					c.want != "" && exact != c.want {
					t.Errorf("contract 55: %s, by %s, for %s: %+v", name, protocol, rule, d)
				}
			}
		}
	}
}

// A presentation is in the format of the credential whose id it has.
func TestPresentations_Formats(t *testing.T) {
	token := func(ids map[string]any) string {
		b, err := json.Marshal(ids)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct {
		rule    string
		formats []string
		ids     func(mobile, sdJWT any) map[string]any
		want    string // "": accepted
	}{
		{"a mobile document", nil, func(m, _ any) map[string]any {
			return map[string]any{"identity": m}
		}, ""},
		{"an SD-JWT", nil, func(_, s any) map[string]any {
			return map[string]any{"identity_sd_jwt": s}
		}, ""},
		{"both", nil, func(m, s any) map[string]any {
			return map[string]any{"identity": m, "identity_sd_jwt": s}
		}, "vp_token_credential"},
		{"an SD-JWT by the other id", nil, func(_, s any) map[string]any {
			return map[string]any{"identity": s}
		}, "vp_token_encoding"},
		{"a mobile document by the other id", nil, func(m, _ any) map[string]any {
			return map[string]any{"identity_sd_jwt": m}
		}, "sd_jwt_form"},
		{"two SD-JWTs", nil, func(_, s any) map[string]any {
			return map[string]any{"identity_sd_jwt": append(s.([]any), s.([]any)...)}
		}, "vp_token_presentations"},
		{"an SD-JWT where none is asked for", []string{"mso_mdoc"}, func(_, s any) map[string]any {
			return map[string]any{"identity_sd_jwt": s}
		}, "vp_token_credential"},
		{"a mobile document where none is asked for", []string{sdJWT}, func(m, _ any) map[string]any {
			return map[string]any{"identity": m}
		}, "vp_token_credential"},
	} {
		asked := func(formats []string) settings {
			all := settings{"request": "value", "encrypted": false, "browser": false}
			if formats != nil {
				all["formats"] = formats
			}
			return all
		}
		w := newFixture(t, config(t, "pid", asked(nil)))
		presented := func(format, id string) any {
			w.wallet.Format = format
			var all map[string]any
			m := w.message(w.shows().Code)
			if err := json.Unmarshal([]byte(m.Form.Get("vp_token")), &all); err != nil {
				t.Fatal(err)
			}
			return all[id]
		}
		mobile, compact := presented("mso_mdoc", "identity"), presented(sdJWT, "identity_sd_jwt")
		m := w.message(w.shows().Code)
		m.Form.Set("vp_token", token(c.ids(mobile, compact)))
		if c.formats != nil {
			state := w.state
			w = newFixture(t, config(t, "pid", asked(c.formats)))
			w.state = state
		}
		kept, err := w.send(m)
		if c.want != "" {
			w.wantRejected(c.want, kept, err)
		} else if err != nil {
			t.Errorf("contract 39: %s: %v", c.rule, err)
		}
	}
}

// sdJWTFaults are documents that do not help, each sent for this session.
var sdJWTFaults = []struct {
	rule, reason string
	fault        method.Reason
	change       func(*wallettest.Presentation)
}{
	{"expired", "sd_jwt_expired", method.Expired,
		func(p *wallettest.Presentation) { p.ValidUntil = noon.Add(-time.Hour) }},
	{"not valid yet", "sd_jwt_not_yet_valid", method.Expired,
		func(p *wallettest.Presentation) { p.ValidFrom = noon.Add(time.Hour) }},
	{"of another issuer", "untrusted", method.Untrusted, func(p *wallettest.Presentation) {
		p.Issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon})
	}},
	{"of another type", "sd_jwt_type", method.OtherDocument,
		func(p *wallettest.Presentation) { p.SDJWT.Type = "urn:eudi:mdl:1" }},
}

// An SD-JWT at fault fails the attempt with its reason, if the wallet has signed this session with it.
func TestDocumentFaults_SDJWT(t *testing.T) {
	w := newFixture(t, config(t, "pid", settings{"browser": allProtocols}))
	w.wallet.Format = sdJWT
	for _, c := range sdJWTFaults {
		kept, err := w.send(w.message(w.shows().Code, c.change))
		w.wantFault(c.fault, c.reason, kept, err)
		kept, err = w.send(w.message(w.shows().Code, c.change, func(p *wallettest.Presentation) {
			p.SDJWT.Nonce = "AAAAAAAAAAAAAAAAAAAAAA"
		}))
		if w.wantRejected(c.reason, kept, err); err == nil {
			t.Errorf("contract 55: %s: a stranger's document spends an attempt", c.rule)
		}
		d := w.act(w.answered(w.requestTo(signedProtocol), service, c.change), nil)
		if _, exact := d.Result(); d.Verdict != method.AttemptFailed || d.Reason != c.fault ||
			exact != c.reason {
			t.Errorf("contract 55: %s: %+v", c.rule, d)
		}
	}
}

// The status of an SD-JWT is looked up like the status of a mobile document.
func TestRevocation_SDJWT(t *testing.T) {
	for _, c := range []struct {
		rule     string
		setting  string
		index    int64 // -1: no status
		verdict  method.Verdict
		reason   method.Reason
		requests int
	}{
		{"valid", "if_present", 0, method.Approved, "", 1},
		{"revoked", "if_present", 1, method.AttemptFailed, method.DocumentRevoked, 1},
		{"suspended", "if_present", 2, method.AttemptFailed, method.DocumentRevoked, 1},
		{"beyond the list", "if_present", 9, method.AttemptFailed, method.Unconfirmed, 1},
		{"no status", "if_present", -1, method.Approved, "", 0},
		{"no status, which must be", "required", -1, method.AttemptFailed, method.Unconfirmed, 0},
		{"revoked, and not checked", "off", 1, method.Approved, "", 0},
	} {
		changes := settings{"profile": "pid", "revocation": c.setting, "request": "value",
			"encrypted": false, "browser": false}
		r := newRegistry(t, changes)
		r.wallet.Format = sdJWT
		kept, err := r.send(r.message(r.shows().Code, func(p *wallettest.Presentation) {
			if c.index >= 0 {
				p.Status = wallettest.StatusReference(listURI, c.index)
			}
		}))
		if err != nil {
			t.Fatalf("contract 54: %s: %v", c.rule, err)
		}
		d := r.act(nil, kept)
		if d.Verdict != c.verdict || d.Reason != c.reason || len(r.asked) != c.requests {
			t.Errorf("contract 54: %s: %+v after %q, want %v for %q", c.rule, d, r.asked, c.verdict, c.reason)
		}
	}
}
