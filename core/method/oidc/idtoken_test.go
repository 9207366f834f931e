package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/oidctest"
)

func raw64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// TestClaimsOfTheIDToken has the rows of tokens that the provider signs and that are not for this request.
func TestClaimsOfTheIDToken(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, settings{"acr_values": []string{"substantial", "high"}})
	now := w.clock().Unix()
	set := func(name string, v any) func(h, c map[string]any) {
		return func(_, c map[string]any) { c[name] = v }
	}
	drop := func(name string) func(h, c map[string]any) {
		return func(_, c map[string]any) { delete(c, name) }
	}
	both := func(fs ...func(h, c map[string]any)) func(h, c map[string]any) {
		return func(h, c map[string]any) {
			for _, f := range fs {
				f(h, c)
			}
		}
	}
	for _, c := range []struct {
		rule   string
		change func(header, claims map[string]any)
		reason string // "": it is accepted
	}{
		{"another iss", set("iss", "https://attacker.example"), "jwt_iss"},
		{"iss with a slash at its end", set("iss", w.provider.URL+"/"), "jwt_iss"},
		{"no iss", drop("iss"), "jwt_claims"},
		{"iss that is a list", set("iss", []string{w.provider.URL}), "jwt_claims"},
		{"another aud", set("aud", "another"), "jwt_aud"},
		{"no aud", drop("aud"), "jwt_claims"},
		{"aud that is an empty list", set("aud", []string{}), "jwt_claims"},
		{"aud with a number", set("aud", []any{clientID, 1}), "jwt_claims"},
		{"aud that is a list of this client", set("aud", []string{clientID}), ""},
		{"several aud without azp", set("aud", []string{clientID, "another"}), "jwt_azp"},
		{"several aud, azp another", both(set("aud", []string{clientID, "another"}), set("azp", "another")),
			"jwt_azp"},
		{"several aud, azp this client", both(set("aud", []string{clientID, "another"}),
			set("azp", clientID)), ""},
		{"contract 36: this client twice in aud", set("aud", []string{clientID, clientID}), ""},
		{"this client twice in aud, and another", set("aud", []string{clientID, clientID, "another"}),
			"jwt_azp"},
		{"azp another", set("azp", "another"), "jwt_azp"},
		{"azp that is a number", set("azp", 1), "jwt_azp"},
		{"another nonce", set("nonce", "another"), "jwt_nonce"},
		{"no nonce", drop("nonce"), "jwt_nonce"},
		{"an empty nonce", set("nonce", ""), "jwt_nonce"},
		{"no exp", drop("exp"), "jwt_claims"},
		{"exp null", set("exp", nil), "jwt_claims"},
		{"exp that is a text", set("exp", "1900000000"), "jwt_claims"},
		{"exp in infinity", set("exp", json.Number("1e300")), "jwt_claims"},
		{"exp before 1970", set("exp", -1), "jwt_claims"},
		{"exp past by 61 s", set("exp", now-61), "jwt_exp"},
		{"exp past by 59 s", set("exp", now-59), ""},
		{"exp with a fraction", set("exp", float64(now)+60.5), ""},
		{"no iat", drop("iat"), "jwt_iat"},
		{"iat null", set("iat", nil), "jwt_iat"},
		{"iat that is a text", set("iat", "1"), "jwt_claims"},
		{"contract 36: iat 61 s ahead", set("iat", now+61), "jwt_iat"},
		{"contract 36: iat 60 s ahead", set("iat", now+60), ""},
		{"nbf 61 s ahead", set("nbf", now+61), "jwt_nbf"},
		{"nbf 59 s ahead", set("nbf", now+59), ""},
		{"no acr though one was asked for", drop("acr"), "jwt_acr"},
		{"an acr that was not asked for", set("acr", "low"), "jwt_acr"},
		{"contract 36: an acr of two values that were asked for", set("acr", "high substantial"), ""},
		{"an acr with a value that was not asked for", set("acr", "high low"), "jwt_acr"},
		{"an acr with a space behind it", set("acr", "high "), "jwt_acr"},
		{"an acr that is a space", set("acr", " "), "jwt_acr"},
		{"acr that is a list", set("acr", []string{"substantial"}), "jwt_acr"},
		{"no sub", drop("sub"), "jwt_sub"},
		{"an empty sub", set("sub", ""), "jwt_sub"},
		{"a sub of 256 bytes", set("sub", strings.Repeat("x", 256)), "jwt_sub"},
		{"sub that is a number", set("sub", 1), "jwt_sub"},

		{"unknown crit", func(h, _ map[string]any) { h["crit"] = []string{"x"}; h["x"] = 1 }, "jwt_crit"},
		{"empty crit", func(h, _ map[string]any) { h["crit"] = []string{} }, "jwt_crit"},
		{"crit null", func(h, _ map[string]any) { h["crit"] = nil }, "jwt_crit"},
		{"b64 false", func(h, _ map[string]any) { h["b64"] = false }, "jwt_crit"},
		{"another typ", func(h, _ map[string]any) { h["typ"] = "at+jwt" }, "jwt_header"},
		{"no typ", func(h, _ map[string]any) { delete(h, "typ") }, ""},
		{"contract 36: typ as a media type", func(h, _ map[string]any) { h["typ"] = "application/jwt" }, ""},
		{"contract 36: typ as a media type in capitals",
			func(h, _ map[string]any) { h["typ"] = "APPLICATION/JWT" }, ""},
		{"another media type", func(h, _ map[string]any) { h["typ"] = "application/at+jwt" }, "jwt_header"},
		{"a kid of 1,000 bytes that no key has",
			func(h, _ map[string]any) { h["kid"] = strings.Repeat("k", 1000) }, "jwt_no_key"},
		{"typ in lower case", func(h, _ map[string]any) { h["typ"] = "jwt" }, ""},
		{"an unknown kid", func(h, _ map[string]any) { h["kid"] = "another" }, "jwt_no_key"},
		{"kid that is a number", func(h, _ map[string]any) { h["kid"] = 1 }, "jwt_header"},
		{"an empty kid", func(h, _ map[string]any) { h["kid"] = "" }, "jwt_header"},
		{"no kid, and one key that fits", func(h, _ map[string]any) { delete(h, "kid") }, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w.t = t
			w.provider.Tamper(c.change)
			d, err := w.login()
			if c.reason == "" {
				wantVerdict(t, c.rule, d, err, method.Approved)
			} else {
				wantRejection(t, c.rule, d, err, c.reason)
			}
		})
	}
}

// forger changes the tokens of a provider on their way. It has the provider's keys.
type forger struct {
	*walk
	esID, rsID   string
	esKey, rsKey crypto.Signer
}

func newForger(t *testing.T) *forger {
	t.Helper()
	w := newWalk(t, oidctest.Config{Clients: []oidctest.Client{{ID: clientID, Secret: secret},
		{ID: "other", Secret: secret, Algorithm: "RS256"}}}, nil)
	f := &forger{walk: w}
	f.esID, f.esKey = w.provider.Key("ES256")
	f.rsID, f.rsKey = w.provider.Key("RS256")
	return f
}

func payloadOf(token string) string { return strings.Split(token, ".")[1] }

func (f *forger) signed(m jwt.SigningMethod, key any, signed string) string {
	signature, err := m.Sign(signed, key)
	if err != nil {
		f.t.Fatal(err)
	}
	return signed + "." + raw64(signature)
}

// es is a header of the provider's ES256 key, with further members.
func (f *forger) es(extra string) string {
	return `{"alg":"ES256","kid":"` + f.esID + `"` + extra + `}`
}

// header signs the same claims under another header.
func (f *forger) header(header string, m jwt.SigningMethod, key any) func(token string) string {
	return func(token string) string {
		return f.signed(m, key, raw64([]byte(header))+"."+payloadOf(token))
	}
}

// claims signs other claims by the provider's key.
func (f *forger) claims(body func(payload []byte) string) func(token string) string {
	return func(token string) string {
		raw, err := base64.RawURLEncoding.DecodeString(payloadOf(token))
		if err != nil {
			f.t.Fatal(err)
		}
		return f.signed(jwt.SigningMethodES256, f.esKey, raw64([]byte(f.es("")))+"."+raw64([]byte(body(raw))))
	}
}

// hs256 replaces the signature by a MAC, which an attacker makes if the key is public.
func (f *forger) hs256(key []byte) func(token string) string {
	return func(token string) string {
		signed := raw64([]byte(`{"alg":"HS256","kid":"`+f.esID+`"}`)) + "." + payloadOf(token)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(signed))
		return signed + "." + raw64(mac.Sum(nil))
	}
}

// forgery is a change of the provider's token, and why the token is then rejected.
type forgery struct {
	rule   string
	change func(token string) string
	reason string // "": it is accepted
}

// check walks a login with each forgery.
func (f *forger) check(t *testing.T, cases []forgery) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			f.t = t
			f.provider.Rewrite(c.change)
			d, err := f.login()
			if c.reason == "" {
				wantVerdict(t, c.rule, d, err, method.Approved)
			} else {
				wantRejection(t, c.rule, d, err, c.reason)
			}
		})
	}
}

// TestAlgorithmOfTheIDToken: the algorithm must belong to the named key.
func TestAlgorithmOfTheIDToken(t *testing.T) {
	f := newForger(t)
	set, err := json.Marshal(f.provider.KeySet())
	if err != nil {
		t.Fatal(err)
	}
	point, err := f.esKey.Public().(*ecdsa.PublicKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	f.check(t, []forgery{
		{"alg none without a signature", func(token string) string {
			return raw64([]byte(`{"alg":"none"}`)) + "." + payloadOf(token) + "."
		}, "jwt_form"},
		{"alg none with a signature", func(token string) string {
			return raw64([]byte(`{"alg":"none"}`)) + "." + payloadOf(token) + ".AA"
		}, "jwt_alg"},
		{"alg None", func(token string) string {
			return raw64([]byte(`{"alg":"None"}`)) + "." + payloadOf(token) + ".AA"
		}, "jwt_alg"},
		{"HS256 with the public key", f.hs256(point), "jwt_alg"},
		{"HS256 with the key set", f.hs256(set), "jwt_alg"},
		{"HS256 with the client secret", f.hs256([]byte(secret)), "jwt_alg"},
		{"ES384", f.header(`{"alg":"ES384","kid":"`+f.esID+`"}`, jwt.SigningMethodES256, f.esKey), "jwt_alg"},
		{"no alg", f.header(`{"kid":"`+f.esID+`"}`, jwt.SigningMethodES256, f.esKey), "jwt_alg"},
		{"alg that is a list", f.header(`{"alg":["ES256"]}`, jwt.SigningMethodES256, f.esKey), "jwt_alg"},
		{"RS256 under the id of an EC key",
			f.header(`{"alg":"RS256","kid":"`+f.esID+`"}`, jwt.SigningMethodRS256, f.rsKey),
			"jwt_no_key"},
		{"ES256 under the id of an RSA key",
			f.header(`{"alg":"ES256","kid":"`+f.rsID+`"}`, jwt.SigningMethodES256, f.esKey),
			"jwt_no_key"},
		{"PS256 by a key that is for RS256",
			f.header(`{"alg":"PS256","kid":"`+f.rsID+`"}`, jwt.SigningMethodPS256, f.rsKey),
			"jwt_no_key"},
		{"RS256 by a key that is for RS256",
			f.header(`{"alg":"RS256","kid":"`+f.rsID+`"}`, jwt.SigningMethodRS256, f.rsKey), ""},
	})
}

// TestKeyOfTheIDToken: a key comes from the provider's set, and never from the token.
func TestKeyOfTheIDToken(t *testing.T) {
	f := newForger(t)
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := foreign.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	f.check(t, []forgery{
		{"a foreign key", f.header(f.es(""), jwt.SigningMethodES256, foreign), "jwt_signature"},
		{"jwk in the header", f.header(f.es(`,"jwk":{"kty":"EC","crv":"P-256","x":"`+raw64(point[1:33])+
			`","y":"`+raw64(point[33:])+`"}`), jwt.SigningMethodES256, foreign), "jwt_signature"},
		{"jku and x5u in the header",
			f.header(f.es(`,"jku":"https://attacker.example/keys","x5u":"https://attacker.example/c"`),
				jwt.SigningMethodES256, foreign), "jwt_signature"},
		{"jku in the header of a good token", f.header(f.es(`,"jku":"https://attacker.example/keys"`),
			jwt.SigningMethodES256, f.esKey), ""},
	})
}

// TestJSONOfTheIDToken: header and claims are one object each, with no member twice.
func TestJSONOfTheIDToken(t *testing.T) {
	f := newForger(t)
	f.check(t, []forgery{
		{"a member of the header twice", f.header(f.es(`,"alg":"ES256"`), jwt.SigningMethodES256, f.esKey),
			"jwt_alg"},
		{"contract 22: an unknown member of the header twice", f.header(f.es(`,"x":1,"x":2`),
			jwt.SigningMethodES256,
			f.esKey), ""},
		{"a key's name twice", f.header(f.es(`,"kid":"a"`), jwt.SigningMethodES256, f.esKey), "jwt_header"},
		{"a header that is a list", f.header(`[]`, jwt.SigningMethodES256, f.esKey), "jwt_header"},
		{"a claim twice", f.claims(func(p []byte) string {
			return strings.Replace(string(p), "{", `{"is_over_18":false,`, 1)
		}), "jwt_claims"},
		{"a claim twice by an escape", f.claims(func(p []byte) string {
			return strings.Replace(string(p), "{", `{"is_over_1\u0038":false,`, 1)
		}), "jwt_claims"},
		{"contract 22: an unknown claim twice", f.claims(func(p []byte) string {
			return strings.Replace(string(p), "{", `{"x":{"y":1,"y":2},"x":3,`, 1)
		}), ""},
		{"the audience twice", f.claims(func(p []byte) string {
			return strings.Replace(string(p), "{", `{"aud":"verge",`, 1)
		}), "jwt_claims"},
		{"the nonce twice", f.claims(func(p []byte) string {
			return strings.Replace(string(p), "{", `{"nonce":"a",`, 1)
		}), "jwt_claims"},
		{"the party twice", f.claims(func(p []byte) string {
			return strings.Replace(string(p), "{", `{"azp":"verge","azp":"verge",`, 1)
		}), "jwt_claims"},
		{"the end twice", f.claims(func(p []byte) string {
			return strings.Replace(string(p), "{", `{"exp":1,`, 1)
		}), "jwt_claims"},
		{"claims that are null", f.claims(func([]byte) string { return "null" }), "jwt_claims"},
		{"claims that are a list", f.claims(func([]byte) string { return "[]" }), "jwt_claims"},
		{"claims with data behind them", f.claims(func(p []byte) string { return string(p) + "{}" }),
			"jwt_claims"},
		{"the same claims with white space",
			f.claims(func(p []byte) string { return " " + string(p) + "\n" }), ""},
	})
}

// TestFormOfTheIDToken: a token is three parts in strict base64url.
func TestFormOfTheIDToken(t *testing.T) {
	f := newForger(t)
	f.check(t, []forgery{
		{"five parts", func(token string) string { return token + ".AA.AA" }, "jwt_form"},
		{"two parts", func(token string) string { return token[:strings.LastIndexByte(token, '.')] },
			"jwt_form"},
		{"JSON serialisation", func(token string) string {
			p := strings.Split(token, ".")
			return `{"protected":"` + p[0] + `","payload":"` + p[1] + `","signature":"` + p[2] + `"}`
		}, "jwt_form"},
		{"a dot at the end", func(token string) string { return token + "." }, "jwt_form"},
		{"padded base64", func(token string) string { return token + "==" }, "jwt_form"},
		{"a line break in base64", func(token string) string { return token[:20] + "\n" + token[20:] },
			"jwt_form"},
		{"bits that no byte uses", func(token string) string {
			const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
			last := strings.IndexByte(digits, token[len(token)-1])
			return token[:len(token)-1] + digits[last|1:last|1+1]
		}, "jwt_form"},
		{"a space in front", func(token string) string { return " " + token }, "jwt_form"},
	})
}

// TestSignatureOfTheIDToken: the signature is one of exactly these bytes, in the form that JWS has.
func TestSignatureOfTheIDToken(t *testing.T) {
	f := newForger(t)
	f.check(t, []forgery{
		{"no signature", func(token string) string { return token[:strings.LastIndexByte(token, '.')+1] },
			"jwt_form"},
		{"a signature cut by a byte", func(token string) string { return token[:len(token)-2] },
			"jwt_signature"},
		{"a DER signature", func(token string) string {
			signed := token[:strings.LastIndexByte(token, '.')]
			sum := sha256.Sum256([]byte(signed))
			der, err := f.esKey.Sign(rand.Reader, sum[:], crypto.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			return signed + "." + raw64(der)
		}, "jwt_signature"},
		{"a signature of zeros", func(token string) string {
			return token[:strings.LastIndexByte(token, '.')+1] + raw64(make([]byte, 64))
		}, "jwt_signature"},
		{"the claims of another token", func(token string) string {
			p := strings.Split(token, ".")
			return p[0] + "." + raw64([]byte(`{"is_over_18":true}`)) + "." + p[2]
		}, "jwt_signature"},
	})
}

// TestIDToken_Ed25519: contract 36: Ed25519 (RFC 9864) is another name of EdDSA, of tokens and of keys.
func TestIDToken_Ed25519(t *testing.T) {
	for algorithm, accepted := range map[string]bool{"EdDSA": true, "ES256": false, "RS256": false} {
		w := newWalk(t, oidctest.Config{Clients: []oidctest.Client{
			{ID: clientID, Secret: secret, Algorithm: algorithm}}}, nil)
		w.provider.Tamper(func(header, _ map[string]any) { header["alg"] = "Ed25519" })
		d, err := w.login()
		if accepted {
			wantVerdict(t, algorithm, d, err, method.Approved)
			continue
		}
		wantRejection(t, algorithm, d, err, "jwt_no_key")
	}
}

// TestKeySets has the rows of keys that must not check a signature. The token is good; the set decides.
func TestKeySets(t *testing.T) {
	w := newWalk(t, oidctest.Config{Clients: []oidctest.Client{{ID: clientID, Secret: secret}}}, nil)
	signing := func(algorithm string) oidctest.Config {
		return oidctest.Config{Clients: []oidctest.Client{
			{ID: clientID, Secret: secret, Algorithm: algorithm}}}
	}
	r, ed := newWalk(t, signing("RS256"), nil), newWalk(t, signing("EdDSA"), nil)
	type jwk = map[string]any
	edit := func(f func(k jwk)) func(k jwk) []any { return func(k jwk) []any { f(k); return []any{k} } }
	set := func(name string, v any) func(k jwk) []any { return edit(func(k jwk) { k[name] = v }) }
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule   string
		walk   *walk
		keys   func(k jwk) []any // of the provider's own key
		reason string            // "": it is accepted
	}{
		{"the key alone", w, func(k jwk) []any { return []any{k} }, ""},
		{"a key without alg and use", w, edit(func(k jwk) { delete(k, "alg"); delete(k, "use") }), ""},
		{"a key without kid, the token has one", w, edit(func(k jwk) { delete(k, "kid") }), "jwt_no_key"},
		{"use enc", w, set("use", "enc"), "jwt_no_key"},
		{"key_ops without verify", w, set("key_ops", []string{"sign"}), "jwt_no_key"},
		{"key_ops with verify", w, set("key_ops", []string{"sign", "verify"}), ""},
		{"alg of another type", w, set("alg", "RS256"), "jwt_no_key"},
		{"alg that is a number", w, set("alg", 1), "jwt_no_key"},
		{"alg Ed25519", ed, set("alg", "Ed25519"), ""},
		{"alg Ed25519 of another key", w, set("alg", "Ed25519"), "jwt_no_key"},
		{"another curve", w, set("crv", "P-384"), "jwt_no_key"},
		{"oct", w, func(k jwk) []any { return []any{jwk{"kty": "oct", "k": "AAAA", "kid": k["kid"]}} },
			"jwt_no_key"},
		{"a point off the curve", w, set("x", raw64(make([]byte, 32))), "jwt_no_key"},
		{"a coordinate of 33 bytes", w, edit(func(k jwk) { k["x"] = "AA" + k["x"].(string) }), "jwt_no_key"},
		{"contract 36: padded coordinates", w, edit(func(k jwk) {
			k["x"], k["y"] = k["x"].(string)+"=", k["y"].(string)+"="
		}), ""},
		{"contract 36: a padded modulus and exponent", r, edit(func(k jwk) {
			k["n"], k["e"] = k["n"].(string)+"==", k["e"].(string)
		}), ""},
		{"contract 36: a padded Ed25519 key", ed, edit(func(k jwk) { k["x"] = k["x"].(string) + "=" }), ""},
		{"padding of a wrong length", w, edit(func(k jwk) { k["x"] = k["x"].(string) + "==" }), "jwt_no_key"},
		{"padding alone", w, set("x", "===="), "jwt_no_key"},
		{"two keys of one kid", w, func(k jwk) []any { return []any{k, k} }, "jwt_no_key"},
		{"a second key of the kid and another type", w, func(k jwk) []any {
			return []any{k, jwk{"kty": "OKP", "crv": "Ed25519", "x": raw64(make([]byte, 32)),
				"kid": k["kid"]}}
		}, ""},
		{"things that are no keys", w, func(k jwk) []any { return []any{1, "x", nil, []any{}, jwk{}, k} },
			""},
		{"64 keys", w, func(k jwk) []any { return append(make([]any, 63), k) }, ""},
		{"65 keys", w, func(k jwk) []any { return append(make([]any, 64), k) }, "jwks"},
		{"1,000 keys", w, func(k jwk) []any { return append(make([]any, 999), k) }, "jwks"},
		{"RSA without alg", r, edit(func(k jwk) { delete(k, "alg") }), ""},
		{"RSA of 1,024 bits", r, set("n", raw64(small.N.Bytes())), "jwt_no_key"},
		{"RSA of 16,384 bits", r, set("n", raw64(append([]byte{0x80}, make([]byte, 2047)...))), "jwt_no_key"},
		{"an even modulus", r, edit(func(k jwk) {
			n, _ := base64.RawURLEncoding.DecodeString(k["n"].(string))
			k["n"] = raw64(new(big.Int).Sub(new(big.Int).SetBytes(n), big.NewInt(1)).Bytes())
		}), "jwt_no_key"},
		{"e = 1", r, set("e", "AQ"), "jwt_no_key"},
		{"e = 2", r, set("e", "Ag"), "jwt_no_key"},
		{"e absent", r, edit(func(k jwk) { delete(k, "e") }), "jwt_no_key"},
		{"e of 64 bits", r, set("e", raw64([]byte{1, 0, 0, 0, 0, 0, 0, 1})), "jwt_no_key"},
		{"Ed25519", ed, func(k jwk) []any { return []any{k} }, ""},
		{"Ed25519 of 31 bytes", ed, set("x", raw64(make([]byte, ed25519.PublicKeySize-1))), "jwt_no_key"},
		{"no keys", w, func(jwk) []any { return []any{} }, "jwt_no_key"},
		{"keys that are null", w, func(jwk) []any { return nil }, "jwks"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			c.walk.t = t
			c.walk.open()
			own := c.walk.provider.KeySet()["keys"].([]any)[0].(map[string]any)
			c.walk.provider.Fault(oidctest.KeysPath,
				oidctest.Fault{Body: string(encode(t, map[string]any{"keys": c.keys(own)}))})
			d, err := c.walk.login()
			if c.reason == "" {
				wantVerdict(t, c.rule, d, err, method.Approved)
			} else {
				wantRejection(t, c.rule, d, err, c.reason)
			}
		})
	}
}

// TestNoKeyID: a token without a key id is good only if one key can be meant.
func TestNoKeyID(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	w.provider.Tamper(func(h, _ map[string]any) { delete(h, "kid") })
	own := w.provider.KeySet()["keys"].([]any)[0].(map[string]any)
	other := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": raw64(make([]byte, 32)), "kid": "ed"}
	second := newWalk(t, oidctest.Config{}, nil).provider.KeySet()["keys"].([]any)[0].(map[string]any)
	second["kid"] = "second"
	for _, c := range []struct {
		rule   string
		keys   []any
		reason string // "": it is accepted
	}{
		{"one key", []any{own}, ""},
		{"one key of the algorithm, another of another one", []any{other, own}, ""},
		{"two keys of the algorithm", []any{own, second}, "jwt_no_key"},
	} {
		w.open()
		w.provider.Fault(oidctest.KeysPath,
			oidctest.Fault{Body: string(encode(t, map[string]any{"keys": c.keys}))})
		d, err := w.login()
		if c.reason == "" {
			wantVerdict(t, c.rule, d, err, method.Approved)
		} else {
			wantRejection(t, c.rule, d, err, c.reason)
		}
	}
}
