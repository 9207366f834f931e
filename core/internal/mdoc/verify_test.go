package mdoc_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/testharness/wallettest"
)

// edit changes one part of a presentation.
func edit(part wallettest.Part, change func(cbor.Item) cbor.Item) func(*wallettest.Presentation) {
	return func(p *wallettest.Presentation) {
		p.Edit = func(at wallettest.Part, i cbor.Item) cbor.Item {
			if at == part {
				return change(i)
			}
			return i
		}
	}
}

// member gives a member of a part another value. A zero Item takes it away.
func member(part wallettest.Part, name string, value cbor.Item) func(*wallettest.Presentation) {
	return edit(part, func(i cbor.Item) cbor.Item { return wallettest.With(i, name, value) })
}

// place gives a place of a COSE_Sign1 another value.
func place(part wallettest.Part, n int, value cbor.Item) func(*wallettest.Presentation) {
	return edit(part, func(i cbor.Item) cbor.Item {
		if part == wallettest.PartDeviceAuth {
			return wallettest.With(i, "deviceSignature", atPlace(i.Member("deviceSignature"), n, value))
		}
		return atPlace(i, n, value)
	})
}

func atPlace(i cbor.Item, n int, value cbor.Item) cbor.Item {
	parts, _ := i.List()
	parts[n] = value
	return cbor.Array(parts...)
}

// header is a map with labels of integers: label, value, and so on.
func header(labels ...any) cbor.Item {
	var pairs []cbor.Pair
	for n := 0; n < len(labels); n += 2 {
		pairs = append(pairs, cbor.Pair{Key: cbor.Integer(int64(labels[n].(int))),
			Value: labels[n+1].(cbor.Item)})
	}
	return cbor.Map(pairs...)
}

func inTag24(i cbor.Item) cbor.Item { return cbor.Tagged(24, cbor.Bytes(i.Raw())) }

func textMap(name string, value cbor.Item) cbor.Item {
	return cbor.Map(cbor.Pair{Key: cbor.Text(name), Value: value})
}

func validity(from, until string) cbor.Item {
	date := func(s string) cbor.Item { return cbor.Tagged(0, cbor.Text(s)) }
	v := textMap("signed", date("2026-11-20T00:00:00Z"))
	return wallettest.With(wallettest.With(v, "validFrom", date(from)), "validUntil", date(until))
}

// deviceKey gives the object a key with other labels.
func deviceKey(labels ...any) func(*wallettest.Presentation) {
	return member(wallettest.PartMSO, "deviceKeyInfo", textMap("deviceKey", header(labels...)))
}

type verifyCase struct {
	name   string
	change func(*wallettest.Presentation)
	want   string
}

func runCases(t *testing.T, cases []verifyCase) {
	t.Helper()
	issuer := newIssuer(nil)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, ask := present(t, issuer)
			c.change(p)
			if got := try(t, p, ask); got != c.want {
				t.Errorf("refused as %q, want %q", got, c.want)
			}
		})
	}
}

const (
	response   = wallettest.PartResponse
	document   = wallettest.PartDocument
	object     = wallettest.PartMSO
	issuerAuth = wallettest.PartIssuerAuth
	deviceAuth = wallettest.PartDeviceAuth
	item       = wallettest.PartItem
)

func TestResponses(t *testing.T) {
	none, zero := cbor.Item{}, cbor.Integer(0)
	inDocument := func(outer, name string, value cbor.Item) func(*wallettest.Presentation) {
		return edit(document, func(i cbor.Item) cbor.Item {
			return wallettest.With(i, outer, wallettest.With(i.Member(outer), name, value))
		})
	}
	runCases(t, []verifyCase{
		{"a valid response", func(*wallettest.Presentation) {}, ""},
		{"unknown fields", member(response, "x", zero), ""},
		{"errors of elements", member(document, "errors", cbor.Map()), ""},

		{"contract 39: the version of the second edition", member(response, "version", cbor.Text("1.1")), ""},
		{"an unknown version", member(response, "version", cbor.Text("1.2")), "version"},
		{"no version", member(response, "version", none), "version"},
		{"a version in bytes", member(response, "version", cbor.Bytes([]byte("1.0"))), "version"},
		{"no status", member(response, "status", none), "status"},
		{"a status that is null", member(response, "status", cbor.Null()), "status"},
		{"document errors with a document", member(response, "documentErrors", cbor.Array()), "documents"},
		{"documents in a map", edit(response, func(i cbor.Item) cbor.Item {
			return wallettest.With(i, "documents", cbor.Map())
		}), "documents"},
		{"an array", edit(response, func(i cbor.Item) cbor.Item { return cbor.Array(i) }), "version"},
		{"no document type", member(document, "docType", none), "member"},
		{"a document type in bytes", member(document, "docType", cbor.Bytes([]byte(docType))), "member"},
		{"no issuer", member(document, "issuerSigned", none), "cose"},
		{"no device", member(document, "deviceSigned", none), "member"},
		{"no namespaces", inDocument("issuerSigned", "nameSpaces", none), "no element"},
		{"namespaces in an array", inDocument("issuerSigned", "nameSpaces", cbor.Array()), "member"},
		{"no signature of the issuer", inDocument("issuerSigned", "issuerAuth", none), "cose"},
		{"no namespaces of the device", inDocument("deviceSigned", "nameSpaces", none), "member"},
		{"namespaces of the device without a tag",
			inDocument("deviceSigned", "nameSpaces", cbor.Bytes([]byte{0xa0})), "member"},
		{"namespaces of the device in an array",
			inDocument("deviceSigned", "nameSpaces", inTag24(cbor.Array())), "member"},
		{"namespaces of the device that were not signed",
			inDocument("deviceSigned", "nameSpaces", inTag24(textMap("x", cbor.Map()))), "device_signature"},
		{"no array of elements", inDocument("issuerSigned", "nameSpaces", textMap(docType, cbor.Map())),
			"member"},
		{"a namespace that is a number", inDocument("issuerSigned", "nameSpaces", header(1, cbor.Array())),
			"member"},
	})
}

func TestSecurityObjects(t *testing.T) {
	none := cbor.Item{}
	second := func(n int) time.Time { return testNow.Add(time.Duration(n) * time.Second) }
	when := func(field func(*wallettest.Presentation) *time.Time,
		at time.Time) func(*wallettest.Presentation) {
		return func(p *wallettest.Presentation) { *field(p) = at }
	}
	signed := func(p *wallettest.Presentation) *time.Time { return &p.Signed }
	from := func(p *wallettest.Presentation) *time.Time { return &p.ValidFrom }
	until := func(p *wallettest.Presentation) *time.Time { return &p.ValidUntil }
	runCases(t, []verifyCase{
		{"SHA-384", func(p *wallettest.Presentation) { p.DigestAlgorithm = "SHA-384" }, ""},
		{"SHA-512", func(p *wallettest.Presentation) { p.DigestAlgorithm = "SHA-512" }, ""},
		{"SHA3-256", func(p *wallettest.Presentation) { p.DigestAlgorithm = "SHA3-256" },
			"mso_digest_algorithm"},
		{"no digest algorithm", member(object, "digestAlgorithm", none), "mso_digest_algorithm"},
		{"another digest algorithm than the digests'",
			member(object, "digestAlgorithm", cbor.Text("SHA-512")), "digest_mismatch"},
		{"a version of tomorrow", member(object, "version", cbor.Text("2.0")), "mso_version"},
		{"the version of a response", member(object, "version", cbor.Text("1.1")), "mso_version"},
		{"no version", member(object, "version", none), "mso_version"},
		{"no document type", member(object, "docType", none), "mso"},
		{"another document type", member(object, "docType", cbor.Text(mdlType)), "mso_document_type"},
		{"no digests", member(object, "valueDigests", none), "mso"},
		{"digests in an array", member(object, "valueDigests", cbor.Array()), "mso"},
		{"digests of another namespace", member(object, "valueDigests", textMap("x", cbor.Map())),
			"digest_missing"},
		{"a digest in text", member(object, "valueDigests", textMap(docType, header(0, cbor.Text("x")))),
			"digest_missing"},
		{"unknown fields", member(object, "status", cbor.Map()), ""},

		{"ended 30 seconds ago", when(until, second(-30)), ""},
		{"ended 31 seconds ago", when(until, second(-31)), "mso_expired"},
		{"good in 30 seconds", when(from, second(30)), ""},
		{"good in 31 seconds", when(from, second(31)), "mso_not_yet_valid"},
		{"signed in 30 seconds", when(signed, second(30)), ""},
		{"signed in 31 seconds", when(signed, second(31)), "mso_not_yet_valid"},
		{"signed a second before its certificate", when(signed, testNow.AddDate(0, 0, -30).Add(-time.Second)),
			"mso_signed_outside_certificate"},
		{"signed after its certificate", when(signed, testNow.AddDate(1, 0, 1)),
			"mso_signed_outside_certificate"},
		{"no dates", member(object, "validityInfo", none), "mso_validity"},
		{"a date with an offset", member(object, "validityInfo",
			validity("2026-11-20T02:00:00+02:00", "2026-12-01T00:00:00Z")), ""},
		{"a date of 30 February", member(object, "validityInfo",
			validity("2026-02-30T00:00:00Z", "2026-12-01T00:00:00Z")), "mso_validity"},
		{"a date without a time", member(object, "validityInfo",
			validity("2026-11-20", "2026-12-01T00:00:00Z")), "mso_validity"},

		{"a payload without a tag", place(issuerAuth, 2, cbor.Bytes(cbor.Map().Raw())), "issuer_signature"},
		{"no device's key", member(object, "deviceKeyInfo", cbor.Map()), "mso_device_key"},
		{"a device's key of another type", deviceKey(1, cbor.Integer(1), -1, cbor.Integer(6), -2, zeros(32)),
			"mso_device_key"},
		{"a device's key on an unknown curve",
			deviceKey(1, cbor.Integer(2), -1, cbor.Integer(8), -2, zeros(32), -3, zeros(32)),
			"mso_device_key"},
		{"a device's key off the curve",
			deviceKey(1, cbor.Integer(2), -1, cbor.Integer(1), -2, zeros(32), -3, zeros(32)),
			"mso_device_key"},
		{"a device's key of 31 bytes",
			deviceKey(1, cbor.Integer(2), -1, cbor.Integer(1), -2, zeros(31), -3, zeros(32)),
			"mso_device_key"},
		{"a device's key in its short form",
			deviceKey(1, cbor.Integer(2), -1, cbor.Integer(1), -2, zeros(32), -3, cbor.Bool(true)),
			"mso_device_key"},
		{"a device's algorithm in text",
			deviceKey(1, cbor.Integer(2), 3, cbor.Text("ES256"), -1, cbor.Integer(1), -2, zeros(32), -3,
				zeros(32)),
			"mso_device_key"},
	})
}

func zeros(n int) cbor.Item { return cbor.Bytes(make([]byte, n)) }

// The issuer signs CBOR in a byte string with a tag.
func TestPayload_Tag(t *testing.T) {
	issuer := newIssuer(nil)
	for name, c := range map[string]struct {
		payload func(object cbor.Item) cbor.Item
		want    string
	}{
		"in its tag":     {inTag24, ""},
		"without a tag":  {func(i cbor.Item) cbor.Item { return i }, "mso"},
		"in another tag": {func(i cbor.Item) cbor.Item { return cbor.Tagged(0, cbor.Bytes(i.Raw())) }, "mso"},
		"not in bytes":   {func(i cbor.Item) cbor.Item { return cbor.Tagged(24, i) }, "mso"},
		"twice in it":    {func(i cbor.Item) cbor.Item { return inTag24(inTag24(i)) }, "mso_version"},
	} {
		p, ask := present(t, issuer)
		var payload []byte
		p.Edit = func(part wallettest.Part, i cbor.Item) cbor.Item {
			switch part {
			case object:
				payload = c.payload(i).Raw()
			case issuerAuth:
				return sign(t, issuer.Key, atPlace(i, 2, cbor.Bytes(payload)), payload)
			}
			return i
		}
		if got := try(t, p, ask); got != c.want {
			t.Errorf("%s: refused as %q, want %q", name, got, c.want)
		}
	}
}

// sign signs a COSE_Sign1 on P-256 again.
func sign(t testing.TB, key *ecdsa.PrivateKey, i cbor.Item, payload []byte) cbor.Item {
	t.Helper()
	parts, _ := i.List()
	protected, _ := parts[0].Bytes()
	signed := cbor.Array(cbor.Text("Signature1"), cbor.Bytes(protected), cbor.Bytes(nil), cbor.Bytes(payload))
	signature, err := wallettest.Sign(key, signed.Raw())
	if err != nil {
		t.Fatal(err)
	}
	return atPlace(i, 3, cbor.Bytes(signature))
}

func TestElements(t *testing.T) {
	add := func(namespace, name string, value cbor.Item) func(*wallettest.Presentation) {
		return func(p *wallettest.Presentation) {
			p.Elements = append(p.Elements, wallettest.Element{
				Namespace: namespace, Name: name, Value: value,
				Random: make([]byte, 16), DigestID: uint32(len(p.Elements)),
			})
		}
	}
	many := func(n int) func(*wallettest.Presentation) {
		return func(p *wallettest.Presentation) {
			for len(p.Elements) < n {
				add("", fmt.Sprint("element ", len(p.Elements)), cbor.Bool(true))(p)
			}
		}
	}
	only := func(namespace string) func(*wallettest.Presentation) {
		return func(p *wallettest.Presentation) { p.Elements[0].Namespace = namespace }
	}
	none := cbor.Item{}
	runCases(t, []verifyCase{
		{"one of another namespace", add("x", element, cbor.Bool(false)), ""},
		{"only one of another namespace", only("x"), "no element"},
		{"64 elements", many(64), ""},
		{"65 elements", many(65), "too_many_elements"},
		{"a date that was not asked for", add("", "birth_date", cbor.Tagged(1004, cbor.Text("1990-02-28"))),
			""},
		{"the largest digest id", func(p *wallettest.Presentation) { p.Elements[0].DigestID = 1<<32 - 1 },
			""},
		{"random of 16 bytes", func(p *wallettest.Presentation) { p.Elements[0].Random = make([]byte, 16) },
			""},
		{"random of 15 bytes", func(p *wallettest.Presentation) { p.Elements[0].Random = make([]byte, 15) },
			"item_random"},

		{"false", func(p *wallettest.Presentation) { p.Set(element, false) }, "not true"},
		{"1", func(p *wallettest.Presentation) { p.Set(element, 1) }, "not true"},
		{"true as text", func(p *wallettest.Presentation) { p.Set(element, "true") }, "not true"},
		{"null", func(p *wallettest.Presentation) { p.Set(element, cbor.Null()) }, "not true"},
		{"bytes", func(p *wallettest.Presentation) { p.Set(element, cbor.Bytes([]byte{0xf5})) },
			"not true"},
		{"an array", func(p *wallettest.Presentation) { p.Set(element, cbor.Array(cbor.Bool(true))) },
			"not true"},
		{"a tagged date", func(p *wallettest.Presentation) {
			p.Set(element, cbor.Tagged(1004, cbor.Text("1990-02-28")))
		}, "not true"},
		{"an integer of 65 bits", func(p *wallettest.Presentation) {
			p.Set(element, item64())
		}, "not true"},
		{"no elements at all", func(p *wallettest.Presentation) { p.Elements = nil }, "no element"},

		{"no digest id", member(item, "digestID", none), "item"},
		{"a negative digest id", member(item, "digestID", cbor.Integer(-1)), "item"},
		{"no random", member(item, "random", none), "item"},
		{"random in text", member(item, "random", cbor.Text("0123456789abcdef")), "item"},
		{"no name", member(item, "elementIdentifier", none), "item"},
		{"a name in bytes", member(item, "elementIdentifier", cbor.Bytes([]byte(element))), "item"},
		{"no value", member(item, "elementValue", none), "not true"},
		{"an array instead", edit(item, func(cbor.Item) cbor.Item { return cbor.Array() }), "item"},
		{"an element of two items in its bytes", edit(wallettest.PartSent, func(i cbor.Item) cbor.Item {
			_, content, _ := i.Tag()
			b, _ := content.Bytes()
			return cbor.Tagged(24, cbor.Bytes(append(slices.Clone(b), 0)))
		}), "item"},
		{"without a tag", edit(wallettest.PartSent, func(i cbor.Item) cbor.Item {
			_, content, _ := i.Tag()
			return content
		}), "item"},
		{"the same bytes with a longer head", edit(wallettest.PartSent, func(i cbor.Item) cbor.Item {
			raw := i.Raw() // d8 18, 58 and the length
			return readBack(t, slices.Concat(raw[:2], []byte{0x59, 0}, raw[3:]))
		}), "digest_mismatch"},
	})
}

// readBack returns an item with exactly these bytes.
func readBack(t testing.TB, b []byte) cbor.Item {
	t.Helper()
	i, err := cbor.Read(b, cbor.Options{Any: true})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// item64 is 2^64 - 1.
func item64() cbor.Item {
	i, _ := cbor.Read(append([]byte{0x1b}, bytes.Repeat([]byte{0xff}, 8)...), cbor.Options{})
	return i
}

func TestSignatures(t *testing.T) {
	none := cbor.Item{}
	es256 := cbor.Bytes(header(1, cbor.Integer(-7)).Raw())
	runCases(t, []verifyCase{
		{"ESP256 by the issuer", edit(wallettest.PartIssuerProtected, func(cbor.Item) cbor.Item {
			return header(1, cbor.Integer(-9))
		}), ""},
		{"ESP256 by the device", edit(wallettest.PartDeviceProtected, func(cbor.Item) cbor.Item {
			return header(1, cbor.Integer(-9))
		}), ""},
		{"an unknown header", edit(wallettest.PartIssuerProtected, func(cbor.Item) cbor.Item {
			return header(1, cbor.Integer(-7), 99, cbor.Integer(1))
		}), ""},
		{"EdDSA", edit(wallettest.PartIssuerProtected, func(cbor.Item) cbor.Item {
			return header(1, cbor.Integer(-8))
		}), "cose_algorithm"},
		{"an algorithm by its name", edit(wallettest.PartIssuerProtected, func(cbor.Item) cbor.Item {
			return header(1, cbor.Text("ES256"))
		}), "cose_algorithm"},
		{"ES512 for a key on P-256", edit(wallettest.PartDeviceProtected, func(cbor.Item) cbor.Item {
			return header(1, cbor.Integer(-36))
		}), "cose_algorithm"},
		{"no algorithm", place(issuerAuth, 0, cbor.Bytes(nil)), "cose"},
		{"an algorithm in both headers", edit(deviceAuth, func(i cbor.Item) cbor.Item {
			return wallettest.With(i, "deviceSignature",
				atPlace(i.Member("deviceSignature"), 1, header(1, cbor.Integer(-7))))
		}), "cose_algorithm"},
		{"something critical that is not signed", place(deviceAuth, 1, header(2, cbor.Array())),
			"cose_critical"},
		{"a key's id of the device", place(deviceAuth, 1, header(4, cbor.Bytes([]byte("kid")))), ""},
		{"a signature with a tag", edit(issuerAuth,
			func(i cbor.Item) cbor.Item { return cbor.Tagged(24, i) }), "cose"},
		{"a signature of three parts", edit(issuerAuth, func(i cbor.Item) cbor.Item {
			parts, _ := i.List()
			return cbor.Array(parts[:3]...)
		}), "cose"},
		{"a protected header that is a map", place(issuerAuth, 0, header(1, cbor.Integer(-7))), "cose"},
		{"a protected header in text", place(issuerAuth, 0, cbor.Text("x")), "cose"},
		{"a protected header with something behind", place(issuerAuth, 0,
			cbor.Bytes(append(header(1, cbor.Integer(-7)).Raw(), 0))), "cose"},
		{"an unprotected header that is an array", place(issuerAuth, 1, cbor.Array()), "cose"},
		{"a chain in text", place(issuerAuth, 1, header(33, cbor.Text("x"))), "chain"},
		{"a chain of texts", place(issuerAuth, 1, header(33, cbor.Array(cbor.Text("x")))), "chain"},
		{"an empty chain", place(issuerAuth, 1, header(33, cbor.Array())), "chain"},
		{"a payload in text", place(issuerAuth, 2, cbor.Text("x")), "cose"},
		{"a signature in text", place(issuerAuth, 3, cbor.Text("x")), "cose"},
		{"an empty signature", place(issuerAuth, 3, cbor.Bytes(nil)), "issuer_signature"},
		{"a byte behind the signature of the device", edit(deviceAuth, func(i cbor.Item) cbor.Item {
			parts, _ := i.Member("deviceSignature").List()
			signature, _ := parts[3].Bytes()
			longer := cbor.Bytes(append(slices.Clone(signature), 0))
			return wallettest.With(i, "deviceSignature", atPlace(i.Member("deviceSignature"), 3, longer))
		}), "device_signature"},
		{"a signature of the device that is all zero", place(deviceAuth, 3, zeros(64)), "device_signature"},
		{"a payload of the device that is empty", place(deviceAuth, 2, cbor.Bytes(nil)), "device_auth"},
		{"another field in addition to the device's signature", member(deviceAuth, "x", cbor.Null()), ""},
		{"no signature of the device", member(deviceAuth, "deviceSignature", none), "device_auth"},
		{"a MAC that is null", member(deviceAuth, "deviceMac", cbor.Null()), "device_mac"},
		{"a signature of the device that is an array of two",
			member(deviceAuth, "deviceSignature", cbor.Array(es256, cbor.Map())), "cose"},
		{"something else is signed", edit(wallettest.PartAuthentication, func(i cbor.Item) cbor.Item {
			return atPlace(i, 0, cbor.Text("ReaderAuthentication"))
		}), "device_signature"},
	})
}

// TestVerify_ProtectedChain has the certificates in the protected header (RFC 9360), in both headers, which
// RFC 9052, section 3, forbids, or in neither.
func TestVerify_ProtectedChain(t *testing.T) {
	issuer, other := newIssuer(between(1)), newIssuer(nil)
	chainOf := func(i *wallettest.Issuer) cbor.Item {
		var all []cbor.Item
		for _, der := range i.Chain {
			all = append(all, cbor.Bytes(der))
		}
		return cbor.Array(all...)
	}
	for _, c := range []struct {
		name                   string
		protected, unprotected cbor.Item
		want                   string
	}{
		{"the protected header", chainOf(issuer), cbor.Map(), ""},
		{"one certificate in the protected header", cbor.Bytes(issuer.Chain[0]), cbor.Map(), "untrusted"},
		{"both headers", chainOf(issuer), header(33, chainOf(issuer)), "cose"},
		{"another chain in the unprotected header", chainOf(issuer), header(33, chainOf(other)), "cose"},
		{"a text in the protected header", cbor.Text("x"), cbor.Map(), "chain"},
		{"neither header", cbor.Item{}, cbor.Map(), "chain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ask := present(t, issuer)
			p.Edit = func(part wallettest.Part, i cbor.Item) cbor.Item {
				switch {
				case part == wallettest.PartIssuerAuth:
					return atPlace(i, 1, c.unprotected)
				case part == wallettest.PartIssuerProtected && c.protected.Present():
					return header(1, cbor.Integer(-7), 33, c.protected)
				}
				return i
			}
			if got := try(t, p, ask); got != c.want {
				t.Errorf("rejected as %q, want %q", got, c.want)
			}
		})
	}
}

// The device's key is on another curve than the issuer's.
func TestVerify_DeviceAlgorithm(t *testing.T) {
	for _, c := range []struct {
		curve     elliptic.Curve
		algorithm cbor.Item // in the key
		want      string
	}{
		{elliptic.P256(), cbor.Item{}, ""},
		{elliptic.P384(), cbor.Item{}, ""},
		{elliptic.P521(), cbor.Item{}, ""},
		{elliptic.P256(), cbor.Integer(-7), ""},
		{elliptic.P256(), cbor.Integer(-35), "cose_algorithm"},
		{elliptic.P384(), cbor.Integer(-35), ""},
	} {
		p, ask := present(t, newIssuer(nil))
		var err error
		if p.DeviceKey, err = ecdsa.GenerateKey(c.curve, rand.Reader); err != nil {
			t.Fatal(err)
		}
		if c.algorithm.Present() {
			edit(object, func(i cbor.Item) cbor.Item {
				pairs, _ := i.Member("deviceKeyInfo").Member("deviceKey").Pairs()
				pairs = append(pairs, cbor.Pair{Key: cbor.Integer(3), Value: c.algorithm})
				return wallettest.With(i, "deviceKeyInfo", textMap("deviceKey", cbor.Map(pairs...)))
			})(p)
		}
		if got := try(t, p, ask); got != c.want {
			t.Errorf("%s with %x: refused as %q, want %q", c.curve.Params().Name, c.algorithm.Raw(), got,
				c.want)
		}
	}
}

// Elements that the wallet signs itself do not count.
func TestVerify_DeviceSignedElements(t *testing.T) {
	p, ask := present(t, newIssuer(nil))
	p.Elements[0].Name = "age_over_21"
	p.DeviceNamespaces = textMap(docType, textMap(element, cbor.Bool(true)))
	if got := try(t, p, ask); got != "no element" {
		t.Errorf("refused as %q", got)
	}
	ask.Elements = []string{"age_over_21"}
	response, err := p.Response()
	if err != nil {
		t.Fatal(err)
	}
	proof, err := mdoc.Verify(t.Context(), response, ask)
	if old, ok := proof.Elements["age_over_21"].Bool(); err != nil || !ok || !old ||
		len(proof.Elements) != 1 {
		t.Errorf("%+v, %v", proof, err)
	}
}

// An Ask that lacks something rejects everything.
func TestVerify_EmptyRequest(t *testing.T) {
	p, right := present(t, newIssuer(nil))
	for name, c := range map[string]struct {
		change func(*mdoc.Ask)
		want   string
	}{
		"nothing":         {func(a *mdoc.Ask) { *a = mdoc.Ask{} }, "document_type"},
		"no type":         {func(a *mdoc.Ask) { a.DocType = "" }, "document_type"},
		"no namespace":    {func(a *mdoc.Ask) { a.Namespace = "" }, "no element"},
		"no elements":     {func(a *mdoc.Ask) { a.Elements = nil }, "no element"},
		"no usage":        {func(a *mdoc.Ask) { a.EKU = nil }, "certificate_eku"},
		"no anchors":      {func(a *mdoc.Ask) { a.Anchors = nil }, "untrusted"},
		"no transcript":   {func(a *mdoc.Ask) { a.Transcript = nil }, "transcript"},
		"no CBOR":         {func(a *mdoc.Ask) { a.Transcript = []byte{0xff} }, "transcript"},
		"no time":         {func(a *mdoc.Ask) { a.Now = time.Time{} }, "certificate_validity"},
		"everything":      {func(*mdoc.Ask) {}, ""},
		"more than it is": {func(a *mdoc.Ask) { a.Elements = []string{element, "age_over_21"} }, ""},
	} {
		ask := right
		c.change(&ask)
		if got := try(t, p, ask); got != c.want {
			t.Errorf("%s: refused as %q, want %q", name, got, c.want)
		}
	}
}

// The cost of a hostile response is bounded by its size. It is measured in allocations, which do not depend
// on a clock.
func TestHostileResponsesCostLittle(t *testing.T) {
	wide := []byte{0xb9, 2040 >> 8, 2040 & 0xff}
	for n := range 2040 {
		wide = append(wide, 0x19, byte(n>>8), byte(n), 0xf6)
	}
	for name, b := range map[string][]byte{
		"a map of 2,040 keys": wide,
		"20,000 levels":       append(bytes.Repeat([]byte{0x81}, 20000), 0),
		"60,000 items":        append([]byte{0x99, 60000 >> 8, 60000 & 0xff}, make([]byte, 60000)...),
		"invalid UTF-8":       {0xa1, 0x62, 0xc3, 0x28, 0xf6},
		"an array of 2^32":    {0x9a, 0xff, 0xff, 0xff, 0xff, 0},
		"64 KiB and a byte":   make([]byte, 64<<10+1),
		"nothing":             {},
	} {
		var err error
		cost := testing.AllocsPerRun(10, func() { _, err = mdoc.Verify(t.Context(), b, mdoc.Ask{}) })
		if reason := reasonOf(t, err); !slices.Contains([]string{"cbor", "too_large", "version"}, reason) ||
			cost > 16 {
			t.Errorf("%s: refused as %q with %v allocations", name, reason, cost)
		}
	}
}
