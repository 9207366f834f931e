package mdoc_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/testharness/wallettest"
)

// unusual are items that neither a passkey nor a used part of a document has.
var unusual = map[string]string{
	"a float of 16 bits":            "f93f00",
	"a float of 64 bits":            "fb3ff199999999999a",
	"NaN":                           "f97e00",
	"a tag for a UUID":              "d82550000102030405060708090a0b0c0d0e0f",
	"an integer of 72 bits":         "c249010000000000000000",
	"an unknown tag of 64 bits":     "dbffffffffffffffff01",
	"undefined":                     "f7",
	"simple(99)":                    "f863",
	"bytes of indefinite length":    "5f4101420203ff",
	"a text of indefinite length":   "7f6161626263ff",
	"an array of indefinite length": "9f01f7ff",
	"a map of indefinite length":    "bf4101f93f00ff",
	"a map with a key of each type": "a641010120020163616263f4f5f6f7f93c0000",
	"eight levels":                  "8181818181818100",
}

// unusualItem is one of unusual.
func unusualItem(t testing.TB, name string) cbor.Item {
	t.Helper()
	i, err := cbor.Read(unhex(t, unusual[name]), cbor.Options{Any: true})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return i
}

// within gives a member of a member another value.
func within(outer, name string, value cbor.Item) func(cbor.Item) cbor.Item {
	return func(i cbor.Item) cbor.Item {
		return wallettest.With(i, outer, wallettest.With(i.Member(outer), name, value))
	}
}

// Issuers and wallets may put every item into parts that Verge does not use (ISO/IEC 18013-5).
func TestVerify_UnusedParts(t *testing.T) {
	issuer := newIssuer(nil)
	places := map[string]func(p *wallettest.Presentation, value cbor.Item){
		"a member of the response": func(p *wallettest.Presentation, v cbor.Item) {
			member(response, "extension", v)(p)
		},
		"errors of the document": func(p *wallettest.Presentation, v cbor.Item) {
			member(document, "errors", textMap(docType, textMap("portrait", v)))(p)
		},
		"a member of the security object": func(p *wallettest.Presentation, v cbor.Item) {
			member(object, "status", v)(p)
		},
		"keyInfo": func(p *wallettest.Presentation, v cbor.Item) {
			edit(object, within("deviceKeyInfo", "keyInfo", header(-70000, v)))(p)
		},
		"keyAuthorizations": func(p *wallettest.Presentation, v cbor.Item) {
			edit(object, within("deviceKeyInfo", "keyAuthorizations", v))(p)
		},
		"expectedUpdate": func(p *wallettest.Presentation, v cbor.Item) {
			edit(object, within("validityInfo", "expectedUpdate", v))(p)
		},
		"a member of an element": func(p *wallettest.Presentation, v cbor.Item) { member(item, "x", v)(p) },
		"an element that was not asked for": func(p *wallettest.Presentation, v cbor.Item) {
			p.Set("portrait", v)
		},
		"an element of another namespace": func(p *wallettest.Presentation, v cbor.Item) {
			p.Set("weight", v)
			p.Elements[len(p.Elements)-1].Namespace = "org.example.1"
		},
		"an element of the device": func(p *wallettest.Presentation, v cbor.Item) {
			p.DeviceNamespaces = textMap("org.example.1", textMap("battery", v))
		},
		"a protected header": func(p *wallettest.Presentation, v cbor.Item) {
			edit(wallettest.PartIssuerProtected, func(cbor.Item) cbor.Item {
				return header(1, cbor.Integer(-7), -70000, v)
			})(p)
		},
		"an unprotected header": func(p *wallettest.Presentation, v cbor.Item) {
			place(deviceAuth, 1, header(-70000, v))(p)
		},
	}
	for place, put := range places {
		for name := range unusual {
			t.Run(place+", "+name, func(t *testing.T) {
				p, ask := present(t, issuer)
				put(p, unusualItem(t, name))
				if got := try(t, p, ask); got != "" {
					t.Errorf("refused as %q", got)
				}
			})
		}
	}
}

// The same items are no values of used parts.
func TestVerify_UnusualItemsAreNoValues(t *testing.T) {
	issuer := newIssuer(nil)
	for name := range unusual {
		p, ask := present(t, issuer)
		p.Set(element, unusualItem(t, name))
		if got := try(t, p, ask); got != "not true" {
			t.Errorf("%s as the element asked for: %q", name, got)
		}
	}
}

// An optional member whose value is undefined is absent. Credo writes such members.
func TestVerify_UndefinedMembers(t *testing.T) {
	undefined := unusualItem(t, "undefined")
	runCases(t, []verifyCase{
		{"documentErrors", member(response, "documentErrors", undefined), ""},
		{"errors", member(document, "errors", undefined), ""},
		{"a MAC in addition to the signature", member(deviceAuth, "deviceMac", undefined), ""},
		{"expectedUpdate", edit(object, within("validityInfo", "expectedUpdate", undefined)), ""},
		{"keyAuthorizations", edit(object, within("deviceKeyInfo", "keyAuthorizations", undefined)), ""},
		{"the algorithm of the device's key", edit(object, func(i cbor.Item) cbor.Item {
			pairs, _ := i.Member("deviceKeyInfo").Member("deviceKey").Pairs()
			pairs = append(pairs, cbor.Pair{Key: cbor.Integer(3), Value: undefined})
			return wallettest.With(i, "deviceKeyInfo", textMap("deviceKey", cbor.Map(pairs...)))
		}), ""},
		{"all namespaces", edit(document, within("issuerSigned", "nameSpaces", undefined)), "no element"},
		{"a required member: status", member(response, "status", undefined), "status"},
		{"a required member: the object's type", member(object, "docType", undefined), "mso"},
	})
}

// An object has digests of many elements that the wallet does not send.
func TestVerify_ManyDigests(t *testing.T) {
	issuer := newIssuer(nil)
	for _, n := range []int{257, 1000} {
		p, ask := present(t, issuer)
		edit(object, func(i cbor.Item) cbor.Item {
			pairs, _ := i.Member("valueDigests").Member(docType).Pairs()
			for decoy := range n {
				digest := make([]byte, 32)
				binary.BigEndian.PutUint32(digest, uint32(decoy))
				pairs = append(pairs,
					cbor.Pair{Key: cbor.Integer(1<<33 + int64(decoy)), Value: cbor.Bytes(digest)})
			}
			return wallettest.With(i, "valueDigests", textMap(docType, cbor.Map(pairs...)))
		})(p)
		if got := try(t, p, ask); got != "" {
			t.Errorf("%d digests: refused as %q", n, got)
		}
	}
}

// Documents of a trial on public reports. Their issuer's root was not kept, so the path ends there.
func TestVerify_TrialDocuments(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("../../../../shared/vectors/cases", "mdoc-*.hex"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("../shared/vectors/cases is not there")
	}
	ask := askOfVectors(t)
	ask.EKU = []string{wallettest.AgeSigner}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, digits, _ := strings.Cut(string(text), "\n")
		b, err := hex.DecodeString(strings.TrimSpace(digits))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := mdoc.Verify(t.Context(), b, ask); outcome(t, p, err) != "untrusted" {
			t.Errorf("%s: %q", filepath.Base(file), outcome(t, p, err))
		}
		top, err := cbor.Read(b, cbor.Options{Any: true})
		if err != nil {
			t.Fatalf("%s: %v", filepath.Base(file), err)
		}
		documents, _ := top.Member("documents").List()
		parts, _ := documents[0].Member("issuerSigned").Member("issuerAuth").List()
		payload, _ := parts[2].Bytes()
		outer, err := cbor.Read(payload, cbor.Options{Any: true})
		_, content, _ := outer.Tag()
		object, _ := content.Bytes()
		if _, errObject := cbor.Read(object, cbor.Options{Any: true}); err != nil || errObject != nil {
			t.Errorf("%s: the security object: %v, %v", filepath.Base(file), err, errObject)
		}
	}
}

// The proof names the anchor that the document led to, and no other one.
func TestVerify_Anchor(t *testing.T) {
	one, other := newIssuer(nil), newIssuer(between(1))
	for _, issuer := range []*wallettest.Issuer{one, other} {
		p, ask := present(t, issuer)
		ask.Anchors = []mdoc.Anchor{{Certificate: one.Root}, {Certificate: other.Root}}
		response, err := p.Response()
		if err != nil {
			t.Fatal(err)
		}
		proof, err := mdoc.Verify(t.Context(), response, ask)
		want := fmt.Sprintf("%x", sha256.Sum256(issuer.Root.Raw))
		if err != nil || proof.Anchor.Fingerprint() != want {
			t.Errorf("%v, %v, want %s", proof.Anchor, err, want)
		}
	}
}

// Only a date of the calendar, with its tag, is a date.
func TestValue_Date(t *testing.T) {
	issuer := newIssuer(nil)
	full := func(s string) cbor.Item { return cbor.Tagged(1004, cbor.Text(s)) }
	for _, c := range []struct {
		name  string
		value cbor.Item
		want  string
	}{
		{"a date", full("1990-02-28"), "1990-02-28"},
		{"a leap day", full("2000-02-29"), "2000-02-29"},
		{"a leap day of no leap year", full("2001-02-29"), ""},
		{"a year", full("1990"), ""},
		{"a time behind it", full("1990-02-28T00:00:00Z"), ""},
		{"another order", full("28-02-1990"), ""},
		{"nothing", full(""), ""},
		{"without its tag", cbor.Text("1990-02-28"), ""},
		{"with the tag of a time", cbor.Tagged(0, cbor.Text("1990-02-28")), ""},
		{"in bytes", cbor.Tagged(1004, cbor.Bytes([]byte("1990-02-28"))), ""},
		{"a number", cbor.Tagged(1004, cbor.Integer(19900228)), ""},
		{"true", cbor.Bool(true), ""},
	} {
		p, ask := present(t, issuer)
		p.Set("birth_date", c.value)
		ask.Elements = []string{"birth_date"}
		response, err := p.Response()
		if err != nil {
			t.Fatal(err)
		}
		proof, err := mdoc.Verify(t.Context(), response, ask)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		date, ok := proof.Elements["birth_date"].Date()
		if ok != (c.want != "") || ok && date.Format("2006-01-02") != c.want {
			t.Errorf("%s: %v, %v", c.name, date, ok)
		}
	}
}
