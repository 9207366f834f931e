package sdjwt_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/sdjwt"
	"github.com/verge-id/verge/testharness/wallettest"
)

const (
	did   = "did:webvh:QmIssuer:registry.example:api:v1:did:1"
	other = "did:webvh:QmOther:registry.example:api:v1:did:2"
)

// keysOf returns the configured keys of issuers, by their DID URLs.
func (w *fixture) keysOf(public map[string]*ecdsa.PublicKey) (keys []mdoc.IssuerKey) {
	w.Helper()
	set := struct {
		Keys []map[string]any `json:"keys"`
	}{}
	for id, k := range public {
		set.Keys = append(set.Keys, wallettest.JWK(k, id))
	}
	b, err := json.Marshal(set)
	if err == nil {
		keys, err = mdoc.ParseIssuerKeys(b)
	}
	if err != nil {
		w.Fatal(err)
	}
	return keys
}

// byKey returns a change that replaces the certificates of a document by a kid.
func byKey(kid any) change {
	return edit(wallettest.PartSDJWT, func(header, _ map[string]any) {
		put(header, "x5c", nil)
		put(header, "kid", kid)
	})
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A document by a DID counts by the configured key that its kid names, and by nothing else.
func TestVerify_IssuerKeys(t *testing.T) {
	w := newFixture(t)
	strange := newKey(t, elliptic.P256())
	a := w.ask()
	a.Issuers.Anchors, a.Issuers.EKU = nil, nil
	a.Issuers.Keys = w.keysOf(map[string]*ecdsa.PublicKey{did + "#assert-1": &w.issuer.Key.PublicKey,
		did + "#assert-2": &newKey(t, elliptic.P384()).PublicKey, other + "#assert-1": &strange.PublicKey})
	signedBy := func(key *ecdsa.PrivateKey) change {
		return func(p *wallettest.Presentation) { p.Issuer = &wallettest.Issuer{Key: key} }
	}
	for _, c := range []struct {
		rule   string
		change []change
		want   string
	}{
		{"its key", []change{byKey(did + "#assert-1")}, ""},
		{"iss of another DID is ignored", []change{byKey(did + "#assert-1"), claim("iss", other)}, ""},
		{"no iss", []change{byKey(did + "#assert-1"), claim("iss", nil)}, ""},
		{"an unknown key of the DID", []change{byKey(did + "#assert-9")}, "untrusted/untrusted"},
		{"a key of an unknown DID", []change{byKey("did:webvh:QmNew:registry.example#assert-1")},
			"untrusted/untrusted"},
		{"an unknown DID, iss of a known one", []change{byKey("did:webvh:QmNew:registry.example#assert-1"),
			claim("iss", did)}, "untrusted/untrusted"},
		{"the key of another known DID", []change{byKey(other + "#assert-1")}, "issuer_signature"},
		{"signed by a stranger", []change{byKey(did + "#assert-1"), signedBy(strange)}, "issuer_signature"},
		{"a relative kid with iss", []change{byKey("#assert-1"), claim("iss", did)}, "chain"},
		{"a bare kid with iss", []change{byKey("assert-1"), claim("iss", did)}, "chain"},
		{"the DID alone", []change{byKey(did)}, "chain"},
		{"two names of keys", []change{byKey(did + "#assert-1#assert-1")}, "chain"},
		{"a space after it", []change{byKey(did + "#assert-1 ")}, "chain"},
		{"no kid", []change{byKey(nil), claim("iss", did)}, "chain"},
		{"a kid that is a number", []change{byKey(1)}, "sd_jwt_token"},
		{"alg none", []change{byKey(did + "#assert-1"), header("alg", "none")}, "sd_jwt_token"},
		{"an HMAC with the public key", []change{byKey(did + "#assert-1"), header("alg", "HS256")},
			"sd_jwt_token"},
		{"alg of another curve", []change{byKey(did + "#assert-1"), header("alg", "ES384")},
			"cose_algorithm"},
		{"a key on another curve", []change{byKey(did + "#assert-2")}, "cose_algorithm"},
		{"its own key in jwk", []change{byKey("did:webvh:QmNew:registry.example#assert-1"),
			header("jwk", wallettest.JWK(&w.issuer.Key.PublicKey, "x"))}, "untrusted/untrusted"},
		{"certificates next to the kid", []change{header("kid", did+"#assert-1")},
			"certificate_eku/untrusted"},
		{"expired", []change{byKey(did + "#assert-1"), claim("exp", now.Unix()-60)},
			"sd_jwt_expired/not_valid"},
		{"issued in the future", []change{byKey(did + "#assert-1"), claim("iat", now.Unix()+60)},
			"sd_jwt_not_yet_valid/not_valid"},
	} {
		p, err := sdjwt.Verify(t.Context(), w.present(c.change...), a)
		if why := w.why(err); why != c.want {
			t.Errorf("contract 39: %s: %q, want %q", c.rule, why, c.want)
		}
		if err == nil && (p.Issuer.Key.ID != did+"#assert-1" || len(p.Issuer.Trust()) != 64) {
			t.Errorf("contract 39: %s: it leads to %q, %q", c.rule, p.Issuer.Key.ID, p.Issuer.Trust())
		}
	}
	a.Issuers.Keys = a.Issuers.Keys[:0]
	if _, err := sdjwt.Verify(t.Context(), w.present(byKey(did+"#assert-1")), a); w.why(err) !=
		"untrusted/untrusted" {
		t.Errorf("contract 39: a removed key: %v", err)
	}
}

// Types count exactly, unless they end in a colon, and texts count as booleans only where they are expected.
func TestVerify_TypesAndTexts(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct {
		types []string
		vct   string
		want  string
	}{
		{[]string{"betaid-sdjwt", "urn:ch:eid"}, "urn:ch:eid", ""},
		{[]string{"betaid-sdjwt"}, "betaid-sdjwt-2", "sd_jwt_type/type"},
		{[]string{"betaid-sdjwt"}, "betaid", "sd_jwt_type/type"},
		{[]string{""}, "betaid", "sd_jwt_type/type"},
		{[]string{"urn:ch:"}, "urn:ch:eid", ""},
	} {
		a := w.ask()
		a.Types = c.types
		_, err := sdjwt.Verify(t.Context(), w.present(claim("vct", c.vct)), a)
		if why := w.why(err); why != c.want {
			t.Errorf("contract 39: %q for %q: %q, want %q", c.vct, c.types, why, c.want)
		}
	}
	for _, c := range []struct {
		texts    bool
		value    any
		over, ok bool
	}{
		{true, "true", true, true}, {true, "false", false, true}, {true, true, true, true},
		{true, "True", false, false}, {true, "1", false, false}, {true, 1, false, false},
		{true, "", false, false}, {false, "true", false, false},
	} {
		a := w.ask()
		a.TextBools, a.Claims = c.texts, [][]string{{"age_over_18"}}
		p, err := sdjwt.Verify(t.Context(), w.present(func(p *wallettest.Presentation) {
			p.SDJWT.Claims, p.SDJWT.Disclose = map[string]any{"age_over_18": c.value}, [][]string{{}}
		}), a)
		if err != nil {
			t.Fatal(err)
		}
		if over, ok := p.Claims[0].Bool(); ok != c.ok || ok && over != c.over {
			t.Errorf("contract 39: %#v, texts %v: %v, %v", c.value, c.texts, over, ok)
		}
	}
}

// A file with keys is a JWK Set of public keys with DID URLs, of limited size.
func TestParseIssuerKeys(t *testing.T) {
	public := &newKey(t, elliptic.P256()).PublicKey
	jwk := func(changes map[string]any) map[string]any {
		k := wallettest.JWK(public, did+"#assert-1")
		for name, v := range changes {
			put(k, name, v)
		}
		return k
	}
	set := func(keys ...map[string]any) string {
		b, err := json.Marshal(map[string]any{"keys": keys})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	many := make([]map[string]any, 65)
	for n := range many {
		many[n] = jwk(nil)
	}
	for name, c := range map[string]struct{ text, want string }{
		"good":                 {set(jwk(map[string]any{"use": "sig", "alg": "ES256"})), ""},
		"64 keys":              {set(many[:64]...), ""},
		"65 keys":              {set(many...), "1 to 64 keys"},
		"no key":               {set(), "1 to 64 keys"},
		"over the limit":       {set(jwk(nil)) + strings.Repeat(" ", 64<<10), "at most 65536"},
		"no JSON":              {"did:webvh:x", "no JWK Set"},
		"one key":              {`{"kid":"x"}`, "no JWK Set"},
		"a private key":        {set(jwk(map[string]any{"d": "AA"})), "key 1: it is a private key"},
		"a kid that is no URL": {set(jwk(map[string]any{"kid": did})), "key 1: its kid"},
		"another scheme":       {set(jwk(map[string]any{"kid": "https://a#b"})), "key 1: its kid"},
		"a line break in it":   {set(jwk(map[string]any{"kid": did + "#a\nb"})), "key 1: its kid"},
		"a long kid": {set(jwk(map[string]any{"kid": did + "#" + strings.Repeat("a", 512)})),
			"key 1: its kid"},
		"no kid": {set(jwk(nil), jwk(map[string]any{"kid": nil})), "key 2: its kid"},
		"a point off the curve": {set(jwk(map[string]any{"x": strings.Repeat("A", 43)})),
			"key 1: it must be a public key"},
		"another type": {set(jwk(map[string]any{"kty": "OKP", "crv": "Ed25519"})), "key 1: it must be"},
		"secp256k1":    {set(jwk(map[string]any{"crv": "secp256k1"})), "key 1: it must be"},
	} {
		_, err := mdoc.ParseIssuerKeys([]byte(c.text))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("contract 39: %s: %v, want %q", name, err, c.want)
		}
	}
	w := newFixture(t)
	one := w.keysOf(map[string]*ecdsa.PublicKey{did + "#a": public})[0]
	again := w.keysOf(map[string]*ecdsa.PublicKey{did + "#a": public})[0]
	renamed := w.keysOf(map[string]*ecdsa.PublicKey{other + "#a": public})[0]
	replaced := w.keysOf(map[string]*ecdsa.PublicKey{did + "#a": &newKey(t, elliptic.P256()).PublicKey})[0]
	if f := one.Fingerprint(); f != again.Fingerprint() || f == renamed.Fingerprint() ||
		f == replaced.Fingerprint() || one.DID() != did {
		t.Error("contract 38: the fingerprint does not tell keys and their DIDs apart")
	}
}
