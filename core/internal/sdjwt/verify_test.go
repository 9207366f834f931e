package sdjwt_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/sdjwt"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wallettest"
)

// attack is a change of a presentation, and the reason of its rejection: "" if it is accepted.
type attack struct {
	name   string
	change change
	want   string
}

func (w *fixture) try(rule string, attacks []attack) {
	w.Helper()
	for _, a := range attacks {
		_, err := sdjwt.Verify(w.Context(), w.present(a.change), w.ask())
		if why := w.why(err); why != a.want {
			w.Errorf("%s: %s: %q, want %q", rule, a.name, why, a.want)
		}
	}
}

func TestVerify_Claims(t *testing.T) {
	w := newFixture(t)
	w.wallet.Claims["nationalities"] = []any{"DE", "FR"}
	for _, c := range []struct {
		name     string
		disclose [][]string
		change   change
		over     string
		born     string
	}{
		{"the age alone", [][]string{overPath}, nil, "true", ""},
		{"the date of birth alone", [][]string{bornPath}, nil, "", "1986-02-28"},
		{"both", [][]string{overPath, bornPath}, nil, "true", "1986-02-28"},
		{"nothing", nil, nil, "", ""},
		{"elements of an array", [][]string{{"nationalities"}, overPath}, nil, "true", ""},
		{"another age", [][]string{{"age_equal_or_over", "21"}}, nil, "", ""},
		{"claims that everyone sees", nil, claim("age_equal_or_over", map[string]any{"18": false}), "false",
			""},
		{"a name with a dot", nil, claim("age_equal_or_over.18", true), "", ""},
		{"1 is not true", nil, claim("age_equal_or_over", map[string]any{"18": 1}), "", ""},
		{`"true" is not true`, nil, claim("age_equal_or_over", map[string]any{"18": "true"}), "", ""},
		{"an age in a list", nil, claim("age_equal_or_over", []any{map[string]any{"18": true}}), "", ""},
		{"a claim that is null", nil, claim("birthdate", json.RawMessage("null")), "", ""},
		{"a claim that occurs twice", nil, claim("age_equal_or_over",
			json.RawMessage(`{"18":true,"18":true}`)), "", ""},
	} {
		p, err := sdjwt.Verify(t.Context(), w.present(func(p *wallettest.Presentation) {
			p.SDJWT.Disclose = c.disclose
		}, c.change), w.ask())
		if err != nil {
			t.Errorf("contract 39: %s: %v", c.name, err)
			continue
		}
		over := ""
		if is, ok := p.Claims[0].Bool(); ok {
			over = map[bool]string{true: "true", false: "false"}[is]
		}
		born, _ := p.Claims[1].Text()
		if over != c.over || born != c.born {
			t.Errorf("contract 39: %s: %q and %q, want %q and %q", c.name, over, born, c.over, c.born)
		}
		if !p.Issuer.Anchor.Certificate.Equal(w.issuer.Root) || len(p.Issuer.Path) != 2 {
			t.Errorf("contract 39: %s: the proof is of %+v", c.name, p.Issuer)
		}
	}
}

func TestVerify_Issuers(t *testing.T) {
	w := newFixture(t)
	tls := wallettest.NewIssuer(wallettest.IssuerConfig{Now: now, EKU: "1.3.6.1.5.5.7.3.1"})
	under := func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }
	certified := func(eku string, change func(*x509.Certificate)) change {
		return func(p *wallettest.Presentation) {
			chain := [][]byte{w.issuer.Certify(&w.issuer.Key.PublicKey, eku, change)}
			p.Issuer = &wallettest.Issuer{Key: w.issuer.Key, Chain: append(chain, w.issuer.Chain[1:]...)}
		}
	}
	w.try("contract 39", []attack{
		{"nothing is changed", nil, ""},
		{"a signer without an extended key usage", certified("none", under), ""},
		{"a signer for TLS", certified("1.3.6.1.5.5.7.3.1", nil), "certificate_eku/untrusted"},
		{"a signer that may not sign", certified("none", func(c *x509.Certificate) {
			c.KeyUsage = x509.KeyUsageKeyAgreement
		}), "certificate_usage/untrusted"},
		{"an expired signer", certified("none", func(c *x509.Certificate) {
			c.NotAfter = now.Add(-time.Minute)
		}), "certificate_validity/not_valid"},
		{"another issuer", func(p *wallettest.Presentation) { p.Issuer = w.stranger }, "untrusted/untrusted"},
		{"another issuer, for TLS", func(p *wallettest.Presentation) { p.Issuer = tls },
			"certificate_eku/untrusted"},
		{"another issuer under the certificates of a trusted one", func(p *wallettest.Presentation) {
			p.Issuer = &wallettest.Issuer{Key: w.stranger.Key, Chain: w.issuer.Chain}
		}, "issuer_signature"},
		{"the anchor in the chain", func(p *wallettest.Presentation) {
			p.Issuer = &wallettest.Issuer{Key: w.issuer.Key, Chain: append(slices.Clone(w.issuer.Chain),
				w.issuer.Root.Raw)}
		}, ""},
		{"the wallet's own key in the header (jwk)", edit(wallettest.PartSDJWT,
			func(header, claims map[string]any) {
				header["jwk"] = claims["cnf"].(map[string]any)["jwk"]
				delete(header, "x5c")
			}), "chain"},
		{"a key that is named by an address", edit(wallettest.PartSDJWT, func(header, _ map[string]any) {
			header["x5u"], header["jku"] = "https://issuer.example/x", "https://issuer.example/x"
			delete(header, "x5c")
		}), "chain"},
		{"no certificates", header("x5c", []string{}), "chain"},
		{"bytes that are no certificate", header("x5c", []string{"AAAA"}), "certificate"},
		{"the algorithm of another curve", header("alg", "ES384"), "cose_algorithm"},
		{"alg none", header("alg", "none"), "sd_jwt_token"},
		{"an HMAC", header("alg", "HS256"), "sd_jwt_token"},
		{"a critical header", header("crit", []string{"x5c"}), "sd_jwt_token"},
		{"a JWT", header("typ", "JWT"), "sd_jwt_token"},
		{"a key binding token", header("typ", "kb+jwt"), "sd_jwt_token"},
		{"no typ", header("typ", nil), "sd_jwt_token"},
		{"a typ with application/", header("typ", "application/dc+sd-jwt"), ""},
	})
	w.try("contract 39", []attack{
		{"another type", claim("vct", "urn:eudi:mdl:1"), "sd_jwt_type/type"},
		{"the base type", claim("vct", "urn:eudi:pid:1"), ""},
		{"the prefix of types", claim("vct", "urn:eudi:pid:"), "sd_jwt_type/type"},
		{"no type", claim("vct", nil), "sd_jwt_type/type"},
		{"a type that is a list", claim("vct", []string{"urn:eudi:pid:1"}), "sd_jwt_type/type"},
		{"another name of the type", edit(wallettest.PartSDJWT, func(_, claims map[string]any) {
			claims["vct"], claims["aka_vcts"] = "urn:example:1", []any{1, "urn:eudi:pid:1"}
		}), ""},
		{"other names that are no list", edit(wallettest.PartSDJWT, func(_, claims map[string]any) {
			claims["vct"], claims["aka_vcts"] = "urn:example:1", "urn:eudi:pid:1"
		}), "sd_jwt_type/type"},
	})
}

func TestVerify_Dates(t *testing.T) {
	w := newFixture(t)
	w.try("contract 39", []attack{
		{"expired", claim("exp", now.Add(-31*time.Second).Unix()), "sd_jwt_expired/not_valid"},
		{"within the margin", claim("exp", now.Add(-30*time.Second).Unix()), ""},
		{"no end", claim("exp", nil), ""},
		{"an end with a fraction", claim("exp", float64(now.Unix())+0.5), ""},
		{"an end that is a text", claim("exp", "2099-01-01"), "sd_jwt_dates"},
		{"a negative end", claim("exp", -1), "sd_jwt_dates"},
		{"an end after the year 9999", claim("exp", int64(1)<<62), "sd_jwt_dates"},
		{"an end that occurs twice", edit(wallettest.PartSDJWT, func(_, claims map[string]any) {
			b, _ := json.Marshal(claims)
			claims[""] = json.RawMessage(strings.Replace(string(b), "{", `{"exp":99999999999,`, 1))
		}), "sd_jwt_dates"},
		{"not valid yet", claim("nbf", now.Add(31*time.Second).Unix()), "sd_jwt_not_yet_valid/not_valid"},
		{"issued in the future", claim("iat", now.Add(31*time.Second).Unix()),
			"sd_jwt_not_yet_valid/not_valid"},
		{"no dates", edit(wallettest.PartSDJWT, func(_, claims map[string]any) {
			delete(claims, "exp")
			delete(claims, "nbf")
			delete(claims, "iat")
		}), ""},
		{"issued before the signer's certificate", claim("iat", now.AddDate(-1, 0, 0).Unix()),
			"sd_jwt_signed_outside_certificate"},
	})
}

func TestVerify_Disclosures(t *testing.T) {
	w := newFixture(t)
	d := wallettest.Disclosure
	extra := d("salt", "email", "a@example.com")
	element := d("salt", "DE")
	raw := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	inList := func(value any, disclosures ...string) change {
		return func(p *wallettest.Presentation) {
			claim("list", value)(p)
			sent(func(all []string) []string { return append(all, disclosures...) })(p)
		}
	}
	w.try("contract 39", []attack{
		{"one more", hidden(extra), ""},
		{"SHA-256 is the default", claim("_sd_alg", nil), ""},
		{"another hash", claim("_sd_alg", "sha-512"), "sd_jwt_digest_algorithm"},
		{"a hash that is a number", claim("_sd_alg", 256), "sd_jwt_digest_algorithm"},
		{"made up by the wallet", sent(func(all []string) []string {
			return append(all, d("salt", "birthdate", "1950-01-01"))
		}), "sd_jwt_disclosure_unused"},
		{"of another document", sent(func(all []string) []string { return append(all, extra) }),
			"sd_jwt_disclosure_unused"},
		{"sent twice", sent(func(all []string) []string { return append(all, all[0]) }),
			"sd_jwt_disclosure_twice"},
		{"in another order", sent(func(all []string) []string { slices.Reverse(all); return all }), ""},
		{"a member without its object", sent(func(all []string) []string { return all[:1] }),
			"sd_jwt_disclosure_unused"},
		{"padding", sent(func(all []string) []string { return append(all, extra+"==") }),
			"sd_jwt_disclosure"},
		{"empty", sent(func(all []string) []string { return append(all, "") }), "sd_jwt_disclosure"},
		{"64 of them", func(p *wallettest.Presentation) {
			p.SDJWT.Disclose = nil
			var all []string
			for i := range 64 {
				all = append(all, d("salt", string(rune('A'+i)), i))
			}
			hidden(all...)(p)
		}, ""},
		{"65 of them", sent(func([]string) []string { return repeat(extra, 65) }), "sd_jwt_form"},
		{"no JSON", hidden(raw("x")), "sd_jwt_disclosure"},
		{"an object", hidden(raw(`{"a":1}`)), "sd_jwt_disclosure"},
		{"one element", hidden(raw(`["salt"]`)), "sd_jwt_disclosure"},
		{"four elements", hidden(raw(`["salt","a",1,2]`)), "sd_jwt_disclosure"},
		{"a salt that is a number", hidden(raw(`[1,"a",1]`)), "sd_jwt_disclosure"},
		{"a name that is a number", hidden(raw(`["salt",1,1]`)), "sd_jwt_disclosure"},
		{"more than an array", hidden(raw(`["salt","a",1],"d":["salt","birthdate","1950-01-01"]`)),
			"sd_jwt_disclosure"},
		{"another member behind the array", hidden(raw(`["salt","a",1],"e":1`)), "sd_jwt_disclosure"},
		{"an element of an array in an object", hidden(element), "sd_jwt_disclosure"},
		{"of a claim that is there", func(p *wallettest.Presentation) {
			claim("email", "b@example.com")(p)
			hidden(extra)(p)
		}, "sd_jwt_claim_twice"},
		{"two of one name", hidden(extra, d("other salt", "email", "b@example.com")), "sd_jwt_claim_twice"},
		{"named _sd", hidden(d("salt", "_sd", []string{})), "sd_jwt_reserved_name"},
		{"named _sd_alg", hidden(d("salt", "_sd_alg", "none")), "sd_jwt_reserved_name"},
		{"named ...", hidden(d("salt", "...", "x")), "sd_jwt_reserved_name"},
		{"a claim named ...", claim("...", "x"), "sd_jwt_reserved_name"},
		{"that moves the end", func(p *wallettest.Presentation) {
			claim("exp", nil)(p)
			hidden(d("salt", "exp", 99999999999))(p)
		}, "sd_jwt_reserved_name"},
		{"of the status", hidden(d("salt", "status", map[string]any{})), "sd_jwt_reserved_name"},
		{"of the issuer", hidden(d("salt", "iss", "x")), "sd_jwt_reserved_name"},
		{"of the key", func(p *wallettest.Presentation) {
			claim("cnf", map[string]any{"_sd": []string{wallettest.Digest(extra)}})(p)
			sent(func(all []string) []string { return append(all, extra) })(p)
		}, "sd_jwt_disclosure_unused"},
		{"of the date of issue", func(p *wallettest.Presentation) {
			claim("iat", nil)(p)
			hidden(d("salt", "iat", now.Unix()))(p)
		}, ""},
		{"a digest that occurs twice", edit(wallettest.PartSDJWT, func(_, claims map[string]any) {
			all := claims["_sd"].([]string)
			claims["_sd"] = append(all, all[0])
		}), "sd_jwt_digest_twice"},
		{"a decoy that occurs twice, at two levels", edit(wallettest.PartSDJWT,
			func(_, claims map[string]any) {
				claims["address"] = map[string]any{"_sd": claims["_sd"].([]string)[:1]}
			}), "sd_jwt_digest_twice"},
		{"a digest that is a number", claim("_sd", []any{1}), "sd_jwt_digest"},
		{"digests that are no list", claim("_sd", "x"), "sd_jwt_digest"},
		{"digests that are null", claim("_sd", json.RawMessage("null")), "sd_jwt_digest"},
		{"digests that occur twice", claim("other", json.RawMessage(`{"_sd":[],"_sd":[]}`)), "sd_jwt_digest"},

		{"an element of an array", inList([]any{map[string]any{"...": wallettest.Digest(element)}}, element),
			""},
		{"an element that is not sent", inList([]any{map[string]any{"...": wallettest.Digest(element)}}), ""},
		{"an element twice", inList([]any{map[string]any{"...": wallettest.Digest(element)},
			map[string]any{"...": wallettest.Digest(element)}}, element), "sd_jwt_digest_twice"},
		{"an element with a name", inList([]any{map[string]any{"...": wallettest.Digest(extra)}}, extra),
			"sd_jwt_disclosure"},
		{"an element with other members", inList([]any{map[string]any{"...": wallettest.Digest(element),
			"a": 1}}, element), "sd_jwt_reserved_name"},
		{"an element whose digest is a number", inList([]any{map[string]any{"...": 1}}), "sd_jwt_digest"},

		{"a claim in 16 objects", inside(nested(16)), ""},
		{"a claim in 17 objects", inside(nested(17)), "sd_jwt_depth"},
	})
}

func TestVerify_KeyBinding(t *testing.T) {
	w := newFixture(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk := func(name string, value any) change {
		return edit(wallettest.PartSDJWT, func(_, claims map[string]any) {
			put(claims["cnf"].(map[string]any)["jwk"].(map[string]any), name, value)
		})
	}
	w.try("contract 39", []attack{
		{"another audience", binding("aud", "x509_san_dns:evil.example"), "key_binding_audience"},
		{"no audience", binding("aud", nil), "key_binding_audience"},
		{"two audiences", binding("aud", []string{client, "x"}), "key_binding_audience"},
		{"the page's origin by link", binding("aud", "origin:https://verge.example"), "key_binding_audience"},
		{"another nonce", binding("nonce", "AAAAAAAAAAAAAAAAAAAAAAAA"), "key_binding_nonce"},
		{"no nonce", binding("nonce", nil), "key_binding_nonce"},
		{"a nonce twice", binding("", json.RawMessage(`{"aud":"`+client+`","nonce":"`+nonce+`","nonce":"`+
			nonce+`"}`)), "key_binding_nonce"},
		{"of other disclosures", binding("sd_hash", wallettest.Digest("x")), "key_binding_hash"},
		{"without a hash", binding("sd_hash", nil), "key_binding_hash"},
		{"5 minutes old", binding("iat", now.Add(-5*time.Minute).Unix()), ""},
		{"older", binding("iat", now.Add(-5*time.Minute-time.Second).Unix()), "key_binding_date"},
		{"5 minutes ahead", binding("iat", now.Add(5*time.Minute).Unix()), ""},
		{"further ahead", binding("iat", now.Add(5*time.Minute+time.Second).Unix()), "key_binding_date"},
		{"without a date", binding("iat", nil), "key_binding_date"},
		{"a date that is a text", binding("iat", "now"), "key_binding_date"},
		{"an end", binding("exp", now.Unix()), ""},
		{"an end that is past", binding("exp", now.Add(-5*time.Minute-time.Second).Unix()),
			"key_binding_date"},
		{"an end that is a text", binding("exp", "never"), "key_binding_date"},
		{"a beginning", binding("nbf", now.Add(5*time.Minute).Unix()), ""},
		{"a beginning that is to come", binding("nbf", now.Add(5*time.Minute+time.Second).Unix()),
			"key_binding_date"},
		{"members that are not used", binding("transaction_data_hashes", []string{"x"}), ""},
		{"a JWT", bindingHeader("typ", "JWT"), "key_binding"},
		{"no typ", bindingHeader("typ", nil), "key_binding"},
		{"alg none", bindingHeader("alg", "none"), "key_binding"},
		{"an HMAC", bindingHeader("alg", "HS256"), "key_binding"},
		{"the algorithm of another curve", bindingHeader("alg", "ES384"), "key_binding"},
		{"a critical header", bindingHeader("crit", []string{"b64"}), "key_binding"},
		{"its own key in the header", bindingHeader("jwk", map[string]any{}), ""},
		{"by another key", func(p *wallettest.Presentation) { p.SignWith = other }, "key_binding_signature"},
		{"by the issuer's key", func(p *wallettest.Presentation) { p.SignWith = w.issuer.Key },
			"key_binding_signature"},
		{"no key in the document", claim("cnf", nil), "sd_jwt_key"},
		{"a key by its id", claim("cnf", map[string]any{"kid": "1"}), "sd_jwt_key"},
		{"an RSA key", jwk("kty", "RSA"), "sd_jwt_key"},
		{"a curve that is unknown", jwk("crv", "secp256k1"), "sd_jwt_key"},
		{"a point off the curve", jwk("y", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), "sd_jwt_key"},
		{"a key that is padded", edit(wallettest.PartSDJWT, func(_, claims map[string]any) {
			key := claims["cnf"].(map[string]any)["jwk"].(map[string]any)
			key["x"] = key["x"].(string) + "="
		}), "sd_jwt_key"},
	})
	for _, curve := range []elliptic.Curve{elliptic.P384(), elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		w.try("contract 39", []attack{{curve.Params().Name,
			func(p *wallettest.Presentation) { p.DeviceKey = key }, ""}})
	}
}

func TestVerify_Forms(t *testing.T) {
	w := newFixture(t)
	good := w.present(nil)
	parts := strings.Split(good, "~")
	for _, c := range []struct{ name, text, want string }{
		{"nothing is changed", good, ""},
		{"empty", "", "sd_jwt_form"},
		{"a JWT", parts[0], "sd_jwt_form"},
		{"no key binding", strings.Join(parts[:len(parts)-1], "~") + "~", "key_binding"},
		{"no disclosures", parts[0] + "~" + parts[len(parts)-1], "key_binding_hash"},
		{"one disclosure less", parts[0] + "~" + strings.Join(parts[2:], "~"), "key_binding_hash"},
		{"data behind it", good + "~", "sd_jwt_disclosure"},
		{"two key bindings", good + "~" + parts[len(parts)-1], "sd_jwt_disclosure"},
		{"another payload", strings.Replace(good, ".", ".e", 1), "sd_jwt_token"},
		{"the JSON form", `{"payload":"e30"}`, "sd_jwt_form"},
		{"too large", good + strings.Repeat("a", 64<<10), "sd_jwt_size"},
		{"64 KiB of separators", strings.Repeat("~", 64<<10), "sd_jwt_form"},
	} {
		_, err := sdjwt.Verify(t.Context(), c.text, w.ask())
		if why := w.why(err); why != c.want {
			t.Errorf("contract 39: %s: %q, want %q", c.name, why, c.want)
		}
	}
}

// With an empty field of a request, nothing is accepted.
func TestVerify_EmptyField(t *testing.T) {
	w := newFixture(t)
	for name, c := range map[string]struct {
		empty   func(*sdjwt.Ask)
		binding change
		want    string
	}{
		"types":    {func(a *sdjwt.Ask) { a.Types = nil }, nil, "sd_jwt_type/type"},
		"audience": {func(a *sdjwt.Ask) { a.Audience = "" }, binding("aud", ""), "key_binding_audience"},
		"nonce":    {func(a *sdjwt.Ask) { a.Nonce = "" }, binding("nonce", ""), "key_binding_nonce"},
		"anchors":  {func(a *sdjwt.Ask) { a.Issuers.Anchors = nil }, nil, "untrusted/untrusted"},
		"purposes": {func(a *sdjwt.Ask) { a.Issuers.EKU = nil }, nil, "certificate_eku/untrusted"},
		"time":     {func(a *sdjwt.Ask) { a.Issuers.Now = time.Time{} }, nil, "certificate_validity"},
	} {
		a := w.ask()
		c.empty(&a)
		_, err := sdjwt.Verify(t.Context(), w.present(c.binding), a)
		if why := w.why(err); why != c.want {
			t.Errorf("contract 39: without %s: %q, want %q", name, why, c.want)
		}
	}
}

// A document at fault names its fault only if the wallet has signed this request with it.
func TestVerify_Faults(t *testing.T) {
	w := newFixture(t)
	foreign := func(p *wallettest.Presentation) { p.Issuer = w.stranger }
	for name, spoil := range map[string]change{
		"another nonce":    binding("nonce", "x"),
		"another audience": binding("aud", "x"),
		"an old binding":   binding("iat", now.AddDate(0, 0, -1).Unix()),
		"another key":      func(p *wallettest.Presentation) { p.SignWith = w.stranger.Key },
	} {
		_, err := sdjwt.Verify(t.Context(), w.present(foreign, spoil), w.ask())
		if why := w.why(err); why != "untrusted" {
			t.Errorf("contract 55: %s: %q, want untrusted", name, why)
		}
	}
}

func TestVerify_Status(t *testing.T) {
	w := newFixture(t)
	const uri = "https://issuer.example/lists/1"
	list := func(o map[string]any) change { return claim("status", map[string]any{"status_list": o}) }
	for _, c := range []struct {
		name   string
		change change
		want   mdoc.Status
	}{
		{"none", nil, mdoc.Status{}},
		{"a place in a list", func(p *wallettest.Presentation) {
			p.Status = wallettest.StatusReference(uri, 7)
		}, mdoc.Status{Kind: mdoc.StatusList, URI: uri, Index: 7}},
		{"another mechanism", claim("status", map[string]any{"x": 1}), mdoc.Status{Kind: mdoc.OtherStatus}},
		{"both", claim("status", map[string]any{"x": 1, "status_list": map[string]any{"uri": uri, "idx": 0}}),
			mdoc.Status{Kind: mdoc.StatusList, URI: uri}},
		{"a text", claim("status", "valid"), mdoc.Status{Kind: mdoc.MalformedStatus}},
		{"empty", claim("status", map[string]any{}), mdoc.Status{Kind: mdoc.MalformedStatus}},
		{"hidden", claim("status", map[string]any{"_sd": []string{wallettest.Digest("x")}}),
			mdoc.Status{Kind: mdoc.MalformedStatus}},
		{"no address", list(map[string]any{"idx": 1}), mdoc.Status{Kind: mdoc.MalformedStatus}},
		{"no index", list(map[string]any{"uri": uri}), mdoc.Status{Kind: mdoc.MalformedStatus}},
		{"an index that is a text", list(map[string]any{"uri": uri, "idx": "1"}),
			mdoc.Status{Kind: mdoc.MalformedStatus}},
		{"a negative index", list(map[string]any{"uri": uri, "idx": -1}),
			mdoc.Status{Kind: mdoc.MalformedStatus}},
		{"a long address", list(map[string]any{"uri": "https://" + strings.Repeat("a", 2048), "idx": 1}),
			mdoc.Status{Kind: mdoc.MalformedStatus}},
	} {
		p, err := sdjwt.Verify(t.Context(), w.present(c.change), w.ask())
		s := p.Issuer.Status
		if err != nil || s.Kind != c.want.Kind || s.URI != c.want.URI || s.Index != c.want.Index {
			t.Errorf("contract 54: %s: %+v, %v, want %+v", c.name, s, err, c.want)
		}
	}
}

// An error of the host is no rejection, because nothing is known then.
func TestVerify_HostError(t *testing.T) {
	w := newFixture(t)
	broken := errors.New("broken")
	for _, text := range []string{w.present(nil),
		w.present(func(p *wallettest.Presentation) { p.Issuer = w.stranger })} {
		for failing := range 4 {
			a, n := w.ask(), 0
			good := a.Issuers.Verify
			a.Issuers.Verify = func(ctx context.Context, name string, key, message, signed []byte) (bool,
				error) {
				if n++; n-1 == failing {
					return false, broken
				}
				return good(ctx, name, key, message, signed)
			}
			_, err := sdjwt.Verify(t.Context(), text, a)
			if n > failing && !errors.Is(err, broken) {
				t.Errorf("contract 41: call %d: %v", failing, err)
			}
		}
	}
}

// A presentation has no bit that is open to change.
func TestVerify_EveryBit(t *testing.T) {
	w := newFixture(t)
	good := []byte(w.present(nil))
	a := w.ask()
	for bit := 0; bit < 8*len(good); bit += long.Pick(t, "TestVerify_EveryBit", 61, 1) {
		good[bit/8] ^= 1 << (bit % 8)
		if _, err := sdjwt.Verify(t.Context(), string(good), a); err == nil {
			t.Errorf("contract 39: with bit %d of byte %d (%q) it is accepted", bit%8, bit/8, good[bit/8])
		}
		good[bit/8] ^= 1 << (bit % 8)
	}
}

// FuzzVerify: no other text than the wallet's is accepted, and each rejection has a reason.
func FuzzVerify(f *testing.F) {
	w := newFixture(f)
	good, a := w.present(nil), w.ask()
	parts := strings.Split(good, "~")
	f.Add(good)
	element := []any{map[string]any{"...": "x"}}
	f.Add(parts[0] + "~" + wallettest.Disclosure("salt", "a", element) + "~" + parts[1])
	f.Add(strings.Repeat("~", 70))
	f.Add("e30.e30.e30~W10~e30.e30.e30")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := sdjwt.Verify(t.Context(), text, a)
		var rejection *mdoc.Rejection
		if err == nil && text != good ||
			err != nil && (!errors.As(err, &rejection) || rejection.Reason == "") {
			t.Errorf("%q: %v", text, err)
		}
	})
}
