package webauthn_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/testharness/passkeytest"
)

type (
	ceremony = passkeytest.Ceremony
	answer   = passkeytest.Answer
)

// shared is a case for both registrations and assertions.
type shared struct {
	name   string
	change func(*ceremony)      // before the response is signed
	edit   func(map[string]any) // of the JSON
	text   func(string) string  // of the JSON
	reason string
}

var sharedCases = []shared{
	{name: "an answer as it must be"},

	// Client data.
	{name: "the other type", reason: "type", change: func(c *ceremony) {
		c.Type = map[string]string{"webauthn.create": "webauthn.get",
			"webauthn.get": "webauthn.create"}[c.Type]
	}},
	{name: "no type", reason: "type", change: func(c *ceremony) { c.Type = "" }},
	{name: "another challenge", reason: "challenge", change: func(c *ceremony) {
		c.Challenge = encode(bytes.Repeat([]byte{1}, 32))
	}},
	{name: "no challenge", reason: "challenge", change: func(c *ceremony) { c.Challenge = "" }},
	{name: "the beginning of the challenge", reason: "challenge", change: func(c *ceremony) {
		c.Challenge = c.Challenge[:20]
	}},
	{name: "the challenge with padding", reason: "challenge",
		change: func(c *ceremony) { c.Challenge += "=" }},
	{name: "another origin", reason: "origin",
		change: func(c *ceremony) { c.Origin = "https://evil.example" }},
	{name: "the origin by http", reason: "origin", change: func(c *ceremony) {
		c.Origin = "http://verify.example"
	}},
	{name: "the origin with another port", reason: "origin",
		change: func(c *ceremony) { c.Origin += ":444" }},
	{name: "the origin with its own port", reason: "origin",
		change: func(c *ceremony) { c.Origin += ":443" }},
	{name: "the origin with a slash", reason: "origin", change: func(c *ceremony) { c.Origin += "/" }},
	{name: "the origin in upper case", reason: "origin", change: func(c *ceremony) {
		c.Origin = "https://Verify.example"
	}},
	{name: "a host below the origin's", reason: "origin", change: func(c *ceremony) {
		c.Origin = "https://a.verify.example"
	}},
	{name: "no origin", reason: "origin", change: func(c *ceremony) { c.Origin = "" }},
	{name: "another origin of the relying party's", change: func(c *ceremony) {
		c.Origin = "https://www.verify.example:8443"
	}},
	{name: "a frame of another site", reason: "cross_origin", change: func(c *ceremony) {
		c.CrossOrigin = true
	}},
	{name: "a topOrigin", reason: "top_origin", change: func(c *ceremony) {
		c.Members = `,"topOrigin":"https://verify.example"`
	}},
	{name: "a topOrigin that is null", reason: "top_origin", change: func(c *ceremony) {
		c.Members = `,"topOrigin":null`
	}},
	{name: "a member that nobody knows", change: func(c *ceremony) {
		c.Members = `,"other_keys_can_be_added_here":"do not compare clientDataJSON against a template"`
	}},
	{name: "an origin twice", reason: "origin", change: func(c *ceremony) {
		c.Members = `,"origin":"https://evil.example"`
	}},
	{name: "a type twice, once escaped", reason: "type", change: func(c *ceremony) {
		c.Members = `,"t\u0079pe":"webauthn.get"`
	}},
	{name: "client data that is no JSON", reason: "client_data", change: func(c *ceremony) { c.Members = `,` }},
	{name: "something behind the client data", reason: "client_data", change: func(c *ceremony) {
		c.Members = `}{`
	}},

	// Authenticator data.
	{name: "another relying party", reason: "rp_id_hash",
		change: func(c *ceremony) { c.RPID = "evil.example" }},
	{name: "a host below the relying party's", reason: "rp_id_hash", change: func(c *ceremony) {
		c.RPID = "www.verify.example"
	}},
	{name: "the user was not present", reason: "user_not_present", change: func(c *ceremony) {
		c.Flags &^= passkeytest.UserPresent
	}},
	{name: "the user was not verified", reason: "user_not_verified", change: func(c *ceremony) {
		c.Flags &^= passkeytest.UserVerified
	}},
	{name: "backed up, but not eligible", reason: "backup_state", change: func(c *ceremony) {
		c.Flags &^= passkeytest.BackupEligible
	}},
	{name: "eligible, and not backed up yet", change: func(c *ceremony) { c.Flags &^= passkeytest.BackedUp }},
	{name: "flags that are reserved", change: func(c *ceremony) { c.Flags |= 0x22 }},
	{name: "the flag of the credential is wrong", reason: "authenticator_data", change: func(c *ceremony) {
		c.Flags ^= passkeytest.Attested
	}},
	{name: "extensions", change: func(c *ceremony) {
		c.Flags |= passkeytest.Extensions
		c.Extensions = cbor.Map(cbor.Pair{Key: cbor.Text("credProtect"), Value: cbor.Integer(2)}).Raw()
	}},
	{name: "extensions without their flag", reason: "authenticator_data", change: func(c *ceremony) {
		c.Extensions = cbor.Map().Raw()
	}},
	{name: "the flag of extensions alone", reason: "authenticator_data", change: func(c *ceremony) {
		c.Flags |= passkeytest.Extensions
	}},
	{name: "extensions that are no map", reason: "authenticator_data", change: func(c *ceremony) {
		c.Flags |= passkeytest.Extensions
		c.Extensions = cbor.Array().Raw()
	}},
	{name: "extensions that are cut", reason: "authenticator_data", change: func(c *ceremony) {
		c.Flags |= passkeytest.Extensions
		c.Extensions = []byte{0xa1, 0x61}
	}},
	{name: "a byte behind the authenticator data", reason: "authenticator_data", change: func(c *ceremony) {
		c.Behind = []byte{0}
	}},
	{name: "a byte behind the extensions", reason: "authenticator_data", change: func(c *ceremony) {
		c.Flags |= passkeytest.Extensions
		c.Extensions, c.Behind = cbor.Map().Raw(), []byte{0xa0}
	}},

	// The JSON around them.
	{name: "no JSON", reason: "json", text: func(s string) string { return s[1:] }},
	{name: "something behind the JSON", reason: "json", text: func(s string) string { return s + "{}" }},
	{name: "an id twice", reason: "member", text: func(s string) string {
		return strings.Replace(s, `"id":`, `"id":"AA","id":`, 1)
	}},
	{name: "64 KiB", text: func(s string) string { return s + strings.Repeat(" ", 64<<10-len(s)) }},
	{name: "a byte more than 64 KiB", reason: "too_large", text: func(s string) string {
		return s + strings.Repeat(" ", 64<<10-len(s)+1)
	}},
	{name: "another type of credential", reason: "member", edit: func(a map[string]any) {
		a["type"] = "password"
	}},
	{name: "no id", reason: "member", edit: func(a map[string]any) { delete(a, "id") }},
	{name: "an id and a rawId that differ", reason: "member", edit: func(a map[string]any) {
		a["rawId"] = "AAAA"
	}},
	{name: "an id with padding", reason: "member", edit: func(a map[string]any) {
		a["id"] = a["id"].(string) + "="
	}},
	{name: "an id of the other alphabet", reason: "member", edit: func(a map[string]any) {
		a["id"], a["rawId"] = "+/+/", "+/+/"
	}},
	{name: "an id with a line end", reason: "member", edit: func(a map[string]any) {
		a["id"] = a["id"].(string)[:4] + "\n" + a["id"].(string)[4:]
	}},
	{name: "an id with bits that no byte uses", reason: "member", edit: func(a map[string]any) {
		a["id"], a["rawId"] = "AB", "AB"
	}},
	{name: "an empty id", reason: "credential_id", edit: func(a map[string]any) {
		a["id"], a["rawId"] = "", ""
	}},
	{name: "no response", reason: "member", edit: func(a map[string]any) { delete(a, "response") }},
	{name: "a response that is null", reason: "member", edit: func(a map[string]any) { a["response"] = nil }},
	{name: "no client data", reason: "member",
		edit: func(a map[string]any) { delete(in(a), "clientDataJSON") }},
	{name: "client data as an object", reason: "member", edit: func(a map[string]any) {
		in(a)["clientDataJSON"] = map[string]any{}
	}},
	{name: "client data in base64 of the other alphabet", reason: "member", edit: func(a map[string]any) {
		in(a)["clientDataJSON"] = in(a)["clientDataJSON"].(string) + "+/=="
	}},
}

// registration is a case for registrations only.
type registration struct {
	shared
	algorithm int64 // 0: ES256
}

// member changes the new key: it sets the value of a label, or removes the label if the value is a zero Item.
func member(label int64, value cbor.Item) func(*ceremony) {
	return func(c *ceremony) {
		key, _ := cbor.Read(c.PublicKey, cbor.Options{})
		pairs, _ := key.Pairs()
		pairs = slices.DeleteFunc(pairs, func(p cbor.Pair) bool {
			n, _ := p.Key.Integer()
			return n == label
		})
		if value.Present() {
			pairs = append(pairs, cbor.Pair{Key: cbor.Integer(label), Value: value})
		}
		c.PublicKey = cbor.Map(pairs...).Raw()
	}
}

// rsaKey replaces the key by one with this modulus and exponent.
func rsaKey(n, e []byte) func(*ceremony) {
	return func(c *ceremony) {
		member(-1, cbor.Bytes(n))(c)
		member(-2, cbor.Bytes(e))(c)
	}
}

// odd returns an odd number of that many bits.
func odd(bits int) []byte {
	b := bytes.Repeat([]byte{0xff}, (bits+7)/8)
	if bits%8 > 0 {
		b[0] >>= 8 - bits%8
	}
	return b
}

func bytesOf(n int) cbor.Item { return cbor.Bytes(bytes.Repeat([]byte{7}, n)) }

func withID(id []byte) func(*ceremony) { return func(c *ceremony) { c.ID = id } }

func registrationOf(name, reason string, algorithm int64, change func(*ceremony)) registration {
	return registration{shared{name: name, reason: reason, change: change}, algorithm}
}

func edit(name, reason string, do func(map[string]any)) registration {
	return registration{shared: shared{name: name, reason: reason, edit: do}}
}

var e65537 = []byte{1, 0, 1}

var registrationCases = []registration{
	// The credential's id.
	registrationOf("an id of 1 byte", "", 0, withID([]byte{1})),
	registrationOf("an id of 1,023 bytes", "", 0, withID(make([]byte, 1023))),
	registrationOf("an id of 1,024 bytes", "credential_id", 0, withID(make([]byte, 1024))),
	edit("an id that is not the new credential's", "credential_id", func(a map[string]any) {
		a["id"], a["rawId"] = "AAAA", "AAAA"
	}),
	registrationOf("a credential that is cut", "public_key", 0, func(c *ceremony) { c.PublicKey = nil }),
	registrationOf("a counter that has begun", "", 0, func(c *ceremony) { c.Counter = 4294967295 }),
	registrationOf("an authenticator that says its kind", "", 0, func(c *ceremony) {
		c.AAGUID = [16]byte{1, 2}
	}),

	// Statements.
	registrationOf("a statement of another format", "", 0, func(c *ceremony) {
		c.Format = "packed"
		c.Statement = cbor.Map(cbor.Pair{Key: cbor.Text("alg"), Value: cbor.Integer(-7)},
			cbor.Pair{Key: cbor.Text("sig"), Value: bytesOf(70)})
	}),
	registrationOf("a statement of the format none", "attestation_form", 0, func(c *ceremony) {
		c.Statement = cbor.Map(cbor.Pair{Key: cbor.Text("alg"), Value: cbor.Integer(-7)})
	}),
	registrationOf("a statement that is no map", "attestation_form", 0, func(c *ceremony) {
		c.Statement = cbor.Array()
	}),
	registrationOf("no statement", "attestation_form", 0, func(c *ceremony) { c.Statement = cbor.Item{} }),
	edit("no attestation object", "member", func(a map[string]any) { delete(in(a), "attestationObject") }),
	edit("an attestation object with padding", "member", func(a map[string]any) {
		in(a)["attestationObject"] = in(a)["attestationObject"].(string) + "="
	}),
	edit("an empty attestation object", "attestation_form", func(a map[string]any) {
		in(a)["attestationObject"] = ""
	}),
	edit("an attestation object that is no map", "attestation_form", func(a map[string]any) {
		in(a)["attestationObject"] = encode([]byte{0x80})
	}),
	edit("authenticator data that is a text", "attestation_form", func(a map[string]any) {
		in(a)["attestationObject"] = encode(cbor.Map(
			cbor.Pair{Key: cbor.Text("fmt"), Value: cbor.Text("none")},
			cbor.Pair{Key: cbor.Text("attStmt"), Value: cbor.Map()},
			cbor.Pair{Key: cbor.Text("authData"), Value: cbor.Text("x")}).Raw())
	}),
	edit("authenticator data of 36 bytes", "authenticator_data", func(a map[string]any) {
		in(a)["attestationObject"] = encode(cbor.Map(
			cbor.Pair{Key: cbor.Text("fmt"), Value: cbor.Text("none")},
			cbor.Pair{Key: cbor.Text("attStmt"), Value: cbor.Map()},
			cbor.Pair{Key: cbor.Text("authData"), Value: bytesOf(36)}).Raw())
	}),
	edit("a member more in the attestation object", "attestation_form", func(a map[string]any) {
		in(a)["attestationObject"] = encode(cbor.Map(
			cbor.Pair{Key: cbor.Text("fmt"), Value: cbor.Text("none")},
			cbor.Pair{Key: cbor.Text("attStmt"), Value: cbor.Map()},
			cbor.Pair{Key: cbor.Text("authData"), Value: bytesOf(37)},
			cbor.Pair{Key: cbor.Text("more"), Value: cbor.Null()}).Raw())
	}),
	edit("what toJSON repeats is not read", "", func(a map[string]any) {
		in(a)["authenticatorData"], in(a)["publicKey"], in(a)["transports"] = "AA", "AA", "nonsense"
	}),

	// Keys.
	registrationOf("ES256: a point that is not on the curve", "public_key", 0, member(-3, bytesOf(32))),
	registrationOf("ES256: x of 31 bytes", "public_key", 0, member(-2, bytesOf(31))),
	registrationOf("ES256: y as a sign", "public_key", 0, member(-3, cbor.Bool(true))),
	registrationOf("ES256: no y", "public_key", 0, member(-3, cbor.Item{})),
	registrationOf("ES256: x as a text", "public_key", 0, member(-2, cbor.Text(strings.Repeat("a", 32)))),
	registrationOf("ES256: another curve", "public_key", 0, member(-1, cbor.Integer(2))),
	registrationOf("ES256: another type of key", "public_key", 0, member(1, cbor.Integer(3))),
	registrationOf("ES256: a member more", "public_key", 0, member(2, cbor.Bytes([]byte("kid")))),
	registrationOf("ES256: a private key", "public_key", 0, member(-4, bytesOf(32))),
	registrationOf("an algorithm that was not asked for", "public_key", 0, member(3, cbor.Integer(-35))),
	registrationOf("the algorithm of another type of key", "public_key", 0, member(3, cbor.Integer(-8))),
	registrationOf("no algorithm", "public_key", 0, member(3, cbor.Item{})),
	registrationOf("an algorithm as a text", "public_key", 0, member(3, cbor.Text("ES256"))),
	registrationOf("a key that is no map", "public_key", 0, func(c *ceremony) {
		c.PublicKey = cbor.Null().Raw()
	}),
	registrationOf("a key not in its canonical order", "public_key", passkeytest.EdDSA, func(c *ceremony) {
		c.PublicKey = slices.Concat(c.PublicKey[:1], c.PublicKey[3:5], c.PublicKey[1:3], c.PublicKey[5:])
	}),
	registrationOf("a key with a longer head than needed", "public_key", passkeytest.EdDSA,
		func(c *ceremony) {
			c.PublicKey = slices.Concat(c.PublicKey[:1], []byte{0x18}, c.PublicKey[1:])
		}),
	registrationOf("EdDSA", "", passkeytest.EdDSA, nil),
	registrationOf("EdDSA: x of 33 bytes", "public_key", passkeytest.EdDSA, member(-2, bytesOf(33))),
	registrationOf("EdDSA: X25519", "public_key", passkeytest.EdDSA, member(-1, cbor.Integer(4))),
	registrationOf("EdDSA: with a y", "public_key", passkeytest.EdDSA, member(-3, bytesOf(32))),
	registrationOf("RS256", "", passkeytest.RS256, nil),
	registrationOf("RS256: 2,047 bits", "public_key", passkeytest.RS256, rsaKey(odd(2047), e65537)),
	registrationOf("RS256: 4,096 bits", "", passkeytest.RS256, rsaKey(odd(4096), e65537)),
	registrationOf("RS256: 4,097 bits", "public_key", passkeytest.RS256, rsaKey(odd(4097), e65537)),
	registrationOf("RS256: a zero before the modulus", "public_key", passkeytest.RS256,
		rsaKey(append([]byte{0}, odd(2048)...), e65537)),
	registrationOf("RS256: a modulus that is even", "public_key", passkeytest.RS256,
		rsaKey(append(odd(2040), 0xfe), e65537)),
	registrationOf("RS256: no modulus", "public_key", passkeytest.RS256, rsaKey(nil, e65537)),
	registrationOf("RS256: e is 3", "public_key", passkeytest.RS256, rsaKey(odd(2048), []byte{3})),
	registrationOf("RS256: e is 1", "public_key", passkeytest.RS256, rsaKey(odd(2048), []byte{1})),
	registrationOf("RS256: a zero before e", "public_key", passkeytest.RS256,
		rsaKey(odd(2048), []byte{0, 1, 0, 1})),
}

// assertion is a case for assertions only.
type assertion struct {
	shared
	algorithm int64                       // 0: ES256
	before    func(e *enrolled)           // before the response is created
	sign      func(e enrolled, a *answer) // after the signature
}

func assertionOf(name, reason string, before func(*enrolled)) assertion {
	return assertion{shared: shared{name: name, reason: reason}, before: before}
}

func signedAgain(name, reason string, algorithm int64, sign func(enrolled, *answer)) assertion {
	return assertion{shared: shared{name: name, reason: reason}, algorithm: algorithm, sign: sign}
}

// counts sets the stored counter and the counter of the next response.
func counts(stored, next uint32) func(*enrolled) {
	return func(e *enrolled) {
		e.stored.Counter = stored
		e.key.Counter, e.authenticator.Counts = next-1, true
	}
}

func handle(handle string) func(*enrolled) {
	return func(e *enrolled) { e.key.UserHandle = []byte(handle) }
}

var assertionCases = []assertion{
	// The counter.
	assertionOf("a counter of 1 after 0", "", counts(0, 1)),
	assertionOf("a counter of 2^32-1", "", counts(41, 1<<32-1)),
	assertionOf("a counter that stays", "counter", counts(41, 41)),
	assertionOf("a counter that goes back", "counter", counts(41, 40)),
	assertionOf("a counter that goes back to 0", "counter", counts(41, 0)),
	assertionOf("a counter that stays at 0", "", counts(0, 0)),
	signedAgain("a counter that goes back, with a bad signature", "signature", 0,
		func(e enrolled, a *answer) {
			a.AuthenticatorData[36]++ // the last byte of the counter; e.stored has 0
		}),

	// The user.
	assertionOf("no user handle", "", handle("")),
	assertionOf("another user's handle", "user_handle", handle("handle-2")),
	assertionOf("a handle that nobody compares", "", func(e *enrolled) {
		handle("handle-2")(e)
		e.stored.UserHandle = nil
	}),
	{shared: shared{name: "a handle that is null",
		edit: func(a map[string]any) { in(a)["userHandle"] = nil }}},
	{shared: shared{name: "a handle that is a number", reason: "member", edit: func(a map[string]any) {
		in(a)["userHandle"] = 1
	}}},
	assertionOf("another credential", "credential", func(e *enrolled) { e.key.ID = []byte("another") }),
	assertionOf("a credential that lost its backup eligibility", "backup_eligibility", func(e *enrolled) {
		e.authenticator.Flags &^= passkeytest.BackupEligible | passkeytest.BackedUp
	}),
	assertionOf("a credential that became eligible", "backup_eligibility", func(e *enrolled) {
		e.stored.BackupEligible = false
	}),

	// The key.
	assertionOf("another credential's key", "signature", func(e *enrolled) {
		other := passkeytest.New(testOrigin)
		key, err := passkeytest.NewKey(other.Algorithm)
		if err != nil {
			panic(err)
		}
		e.stored.PublicKey = key.Public()
	}),
	assertionOf("no key is stored", "stored_key", func(e *enrolled) { e.stored.PublicKey = nil }),
	assertionOf("the stored key has something behind it", "stored_key", func(e *enrolled) {
		e.stored.PublicKey = append(bytes.Clone(e.stored.PublicKey), 0)
	}),
	{shared: shared{name: "EdDSA"}, algorithm: passkeytest.EdDSA},
	{shared: shared{name: "RS256"}, algorithm: passkeytest.RS256},

	// The signature.
	signedAgain("no signature", "signature", 0, func(_ enrolled, a *answer) { a.Signature = nil }),
	signedAgain("a signature of zeros", "signature", 0, func(_ enrolled, a *answer) { clear(a.Signature) }),
	signedAgain("a signature with a byte behind it", "signature", 0, func(_ enrolled, a *answer) {
		a.Signature = append(a.Signature, 0)
	}),
	signedAgain("EdDSA: a byte behind the signature", "signature", passkeytest.EdDSA,
		func(_ enrolled, a *answer) { a.Signature = append(a.Signature, 0) }),
	signedAgain("RS256: a zero before the signature", "signature", passkeytest.RS256,
		func(_ enrolled, a *answer) { a.Signature = append([]byte{0}, a.Signature...) }),
	signedAgain("the signature of another answer", "signature", 0, func(e enrolled, a *answer) {
		other := *a
		other.ClientData = append(bytes.Clone(a.ClientData), ' ')
		if err := other.Sign(e.key.Key); err != nil {
			panic(err)
		}
		a.Signature = other.Signature
	}),
	{shared: shared{name: "no signature member", reason: "member", edit: func(a map[string]any) {
		delete(in(a), "signature")
	}}},
	{shared: shared{name: "no authenticator data", reason: "member", edit: func(a map[string]any) {
		delete(in(a), "authenticatorData")
	}}},
	{shared: shared{name: "authenticator data of 36 bytes", reason: "authenticator_data",
		edit: func(a map[string]any) { in(a)["authenticatorData"] = encode(make([]byte, 36)) }}},
}

// answer creates the response of a case.
func (c shared) answer(t testing.TB, made []byte) []byte {
	t.Helper()
	if c.edit != nil {
		made = edited(t, made, c.edit)
	}
	if c.text != nil {
		made = []byte(c.text(string(made)))
	}
	return made
}

func (c registration) answer(t testing.TB) []byte {
	t.Helper()
	a := *enrol(t, c.algorithm).authenticator
	if c.algorithm == passkeytest.RS256 {
		a.Algorithm = passkeytest.ES256 // the key is replaced by one that took long to create
	}
	e := enrol(t, c.algorithm)
	made, err := a.Create(options(t), func(made *ceremony) {
		if c.algorithm == passkeytest.RS256 {
			made.PublicKey = e.key.Key.Public()
		}
		if c.change != nil {
			c.change(made)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.shared.answer(t, made.JSON())
}

func (c assertion) answer(t testing.TB) (enrolled, []byte) {
	t.Helper()
	e := enrol(t, c.algorithm)
	if c.before != nil {
		c.before(&e)
	}
	made, err := e.authenticator.Get(requestOptions(t), func(made *ceremony) {
		if c.change != nil {
			c.change(made)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.sign != nil {
		c.sign(e, &made)
	}
	return e, c.shared.answer(t, made.JSON())
}

func allRegistrations() (all []registration) {
	for _, c := range sharedCases {
		all = append(all, registration{shared: c})
	}
	return append(all, registrationCases...)
}

func allAssertions() (all []assertion) {
	for _, c := range sharedCases {
		all = append(all, assertion{shared: c})
	}
	return append(all, assertionCases...)
}
