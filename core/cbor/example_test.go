package cbor_test

import (
	"crypto/sha256"
	"fmt"

	"github.com/verge-id/verge/core/cbor"
)

// A key of a passkey: a map whose keys are integers. WebAuthn requires the canonical form.
func ExampleRead() {
	key := []byte{0xa3, 0x01, 0x01, 0x03, 0x27, 0x21, 0x42, 0xca, 0xfe}
	item, err := cbor.Read(key, cbor.Options{Canonical: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	algorithm, ok := item.Label(3).Integer()
	x, _ := item.Label(-2).Bytes()
	fmt.Println(algorithm, ok, fmt.Sprintf("%x", x))

	_, err = cbor.Read(append(key, 0), cbor.Options{Canonical: true})
	fmt.Println(err)
	// Output:
	// -8 true cafe
	// cbor: not acceptable at byte 9: data behind the item
}

// In a mobile document, a digest is over the bytes of an element as its issuer wrote them: tag 24 and bytes
// with an item.
func ExampleItem_Raw() {
	document := cbor.Map(
		cbor.Pair{Key: cbor.Text("docType"), Value: cbor.Text("eu.europa.ec.av.1")},
		cbor.Pair{Key: cbor.Text("elements"), Value: cbor.Array(
			cbor.Tagged(24, cbor.Bytes(cbor.Map(
				cbor.Pair{Key: cbor.Text("elementIdentifier"), Value: cbor.Text("age_over_18")},
				cbor.Pair{Key: cbor.Text("elementValue"), Value: cbor.Bool(true)},
			).Raw())),
		)},
	).Raw()

	any := cbor.Options{Any: true}
	item, err := cbor.Read(document, any)
	if err != nil {
		fmt.Println(err)
		return
	}
	elements, _ := item.Member("elements").List()
	for _, e := range elements {
		digest := sha256.Sum256(e.Raw())
		_, content, _ := e.Tag()
		inner, _ := content.Bytes()
		element, err := cbor.Read(inner, any)
		if err != nil {
			fmt.Println(err)
			return
		}
		name, _ := element.Member("elementIdentifier").Text()
		value, ok := element.Member("elementValue").Bool()
		fmt.Printf("%s %v %v, digest %x…\n", name, value, ok, digest[:4])
	}
	// Output: age_over_18 true true, digest 774329f2…
}

// The transcript of OpenID4VP that a device signs, with the values of the specification's example.
func ExampleArray() {
	thumbprint := []byte("\x42\x83\xec\x92\x7a\xe0\xf2\x08\xda\xaa\x2d\x02\x6a\x81\x4f\x2b" +
		"\x22\xdc\xa5\x2c\xf8\x5f\xfa\x8f\x3f\x86\x26\xc6\xbd\x66\x90\x47")
	handover := sha256.Sum256(cbor.Array(
		cbor.Text("x509_san_dns:example.com"), cbor.Text("exc7gBkxjx1rdc9udRrveKvSsJIq80avlXeLHhGwqtA"),
		cbor.Bytes(thumbprint), cbor.Text("https://example.com/response"),
	).Raw())
	transcript := cbor.Array(cbor.Null(), cbor.Null(),
		cbor.Array(cbor.Text("OpenID4VPHandover"), cbor.Bytes(handover[:])))
	fmt.Printf("%x\n", transcript.Raw())
	// Output:
	// 83f6f682714f70656e494434565048616e646f7665725820048bc053c00442af9b8eed494cefdd9d95240d254b046b11b68013722aad38ac
}
