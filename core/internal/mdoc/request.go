package mdoc

import (
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"

	"github.com/verge-id/verge/core/cbor"
)

// OpenID4VPTranscript returns the session transcript of OpenID4VP (appendix B.2.6.1). clientID has its
// prefix, as in the request. thumbprint is that of the key which the answer is encrypted to, nil for an
// answer in the clear.
func OpenID4VPTranscript(clientID, nonce string, thumbprint []byte, responseURI string) []byte {
	return transcript("OpenID4VPHandover",
		cbor.Text(clientID), cbor.Text(nonce), bytesOrNull(thumbprint), cbor.Text(responseURI))
}

// DCAPITranscript returns the session transcript of org-iso-mdoc over the Digital Credentials API (ISO/IEC
// 18013-7, Annex C). encryptionInfo is base64url as it was sent, and origin is the page's.
func DCAPITranscript(encryptionInfo, origin string) []byte {
	return transcript(dcapi, cbor.Text(encryptionInfo), cbor.Text(origin))
}

// dcapi is the name of the handover, of the EncryptionInfo and of the EncryptedResponse of Annex C.
const dcapi = "dcapi"

// transcript writes a SessionTranscript. There is neither a device engagement nor a reader's key. The
// handover is its name and the hash of its info.
func transcript(handover string, info ...cbor.Item) []byte {
	hash := sha256.Sum256(cbor.Array(info...).Raw())
	return cbor.Array(cbor.Null(), cbor.Null(), cbor.Array(cbor.Text(handover), cbor.Bytes(hash[:]))).Raw()
}

func bytesOrNull(b []byte) cbor.Item {
	if b == nil {
		return cbor.Null()
	}
	return cbor.Bytes(b)
}

// DeviceRequest returns the request of Annex C: a document of one type, and elements of one namespace of it,
// which are not retained. It is not signed.
func DeviceRequest(docType, namespace string, elements []string) []byte {
	var asked []cbor.Pair
	for _, e := range elements {
		asked = append(asked, pair(e, cbor.Bool(false)))
	}
	items := cbor.Map(pair("docType", cbor.Text(docType)),
		pair("nameSpaces", cbor.Map(pair(namespace, cbor.Map(asked...)))))
	document := cbor.Map(pair("itemsRequest", cbor.Tagged(tagCBOR, cbor.Bytes(items.Raw()))))
	return cbor.Map(pair("version", cbor.Text("1.0")), pair("docRequests", cbor.Array(document))).Raw()
}

// EncryptionInfo returns what Annex C tells the wallet to encrypt with. public is on P-256.
func EncryptionInfo(nonce []byte, public *ecdh.PublicKey) []byte {
	x, y := coordinates(public)
	key := cbor.Map(cbor.Pair{Key: cbor.Integer(keyType), Value: cbor.Integer(typeEC2)},
		cbor.Pair{Key: cbor.Integer(keyCurve), Value: cbor.Integer(curveP256)},
		cbor.Pair{Key: cbor.Integer(keyX), Value: cbor.Bytes(x)},
		cbor.Pair{Key: cbor.Integer(keyY), Value: cbor.Bytes(y)})
	parameters := cbor.Map(pair("nonce", cbor.Bytes(nonce)), pair("recipientPublicKey", key))
	return cbor.Array(cbor.Text(dcapi), parameters).Raw()
}

// Thumbprint returns the SHA-256 thumbprint of a key on P-256 as a JWK (RFC 7638).
func Thumbprint(public *ecdh.PublicKey) []byte {
	x, y := coordinates(public)
	encode := base64.RawURLEncoding.EncodeToString
	hash := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + encode(x) + `","y":"` + encode(y) + `"}`))
	return hash[:]
}

// coordinates splits a key on P-256, which is 4, x, y.
func coordinates(public *ecdh.PublicKey) (x, y []byte) {
	point := public.Bytes()
	return point[1:33], point[33:]
}

func pair(name string, value cbor.Item) cbor.Pair {
	return cbor.Pair{Key: cbor.Text(name), Value: value}
}
