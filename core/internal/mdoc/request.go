package mdoc

import (
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
)

// OpenID4VPTranscript returns the session transcript of OpenID4VP (appendix B.2.6.1). clientID has its
// prefix, as in the request. thumbprint belongs to the key that encrypts the response, nil for a
// response in the clear.
func OpenID4VPTranscript(clientID, nonce string, thumbprint []byte, responseURI string) []byte {
	return transcript("OpenID4VPHandover",
		cbor.Text(clientID), cbor.Text(nonce), bytesOrNull(thumbprint), cbor.Text(responseURI))
}

// OpenID4VPDCAPITranscript returns the session transcript of OpenID4VP over the Digital Credentials API
// (appendix B.2.6.2). origin is the page's, without a prefix. thumbprint belongs to the key that
// encrypts the response, nil for a response in the clear.
func OpenID4VPDCAPITranscript(origin, nonce string, thumbprint []byte) []byte {
	return transcript("OpenID4VPDCAPIHandover", cbor.Text(origin), cbor.Text(nonce), bytesOrNull(thumbprint))
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

// Items are the elements that a DeviceRequest asks for: of one namespace of one type of document. None is
// retained.
type Items struct {
	DocType, Namespace string
	Elements           []string

	// Circuits are offered for a zero-knowledge proof of the elements. Empty: none is asked for. With
	// ProofRequired, the wallet may not send the document itself.
	Circuits      []host.Circuit
	ProofRequired bool
}

// ZKSystem is the name of the system of proofs in requests.
const ZKSystem = "longfellow-libzk-v1"

// zkRequest returns the request for a proof (ISO/IEC 18013-5, second edition, 10.2.7).
func (i Items) zkRequest() cbor.Item {
	var systems []cbor.Item
	for _, c := range i.Circuits {
		number := func(n int) cbor.Item { return cbor.Integer(int64(n)) }
		parameters := cbor.Map(pair("version", number(c.Version)), pair("circuit_hash", cbor.Text(c.Name)),
			pair("num_attributes", number(c.Elements)), pair("block_enc_hash", number(c.Hash)),
			pair("block_enc_sig", number(c.Signature)))
		systems = append(systems, cbor.Map(pair("zkSystemId", cbor.Text(c.Name)),
			pair("system", cbor.Text(ZKSystem)), pair("params", parameters)))
	}
	return cbor.Map(
		pair("systemSpecs", cbor.Array(systems...)),
		pair("zkRequired", cbor.Bool(i.ProofRequired)),
	)
}

// bytes returns the ItemsRequestBytes.
func (i Items) bytes() cbor.Item {
	var asked []cbor.Pair
	for _, e := range i.Elements {
		asked = append(asked, pair(e, cbor.Bool(false)))
	}
	members := []cbor.Pair{pair("docType", cbor.Text(i.DocType)),
		pair("nameSpaces", cbor.Map(pair(i.Namespace, cbor.Map(asked...))))}
	if len(i.Circuits) > 0 {
		members = append(members, pair("requestInfo", cbor.Map(pair("zkRequest", i.zkRequest()))))
	}
	return cbor.Tagged(tagCBOR, cbor.Bytes(cbor.Map(members...).Raw()))
}

// ReaderSignature is a signature of ReaderAuthentication, and the certificates of its key in DER: the key's
// own first, then those above it.
type ReaderSignature struct {
	Chain     [][]byte
	Signature []byte // by ES256, r and s
}

// DeviceRequest returns the request of Annex C. Without a reader it is not signed.
func DeviceRequest(items Items, reader *ReaderSignature) []byte {
	parts := []cbor.Pair{pair("itemsRequest", items.bytes())}
	if reader != nil {
		parts = append(parts, pair("readerAuth", reader.sign1()))
	}
	return cbor.Map(pair("version", cbor.Text("1.0")),
		pair("docRequests", cbor.Array(cbor.Map(parts...)))).Raw()
}

// readerHeader is the protected header of readerAuth: ES256.
var readerHeader = cbor.Map(cbor.Pair{Key: cbor.Integer(headerAlgorithm), Value: cbor.Integer(-7)}).Raw()

// ReaderAuthentication returns the bytes that a reader signs for readerAuth (ISO/IEC 18013-5, 9.1.4): the
// Sig_structure over the transcript and the items. transcript is the CBOR of a SessionTranscript of this
// package.
func ReaderAuthentication(items Items, transcript []byte) []byte {
	session, err := cbor.Read(transcript, options)
	if err != nil {
		panic("mdoc: a transcript that is no CBOR: " + err.Error()) // this package has written it
	}
	authentication := cbor.Array(cbor.Text("ReaderAuthentication"), session, items.bytes())
	payload := cbor.Tagged(tagCBOR, cbor.Bytes(authentication.Raw()))
	return cbor.Array(cbor.Text("Signature1"), cbor.Bytes(readerHeader), cbor.Bytes(nil),
		cbor.Bytes(payload.Raw())).Raw()
}

// sign1 returns the COSE_Sign1. Its payload is detached.
func (r *ReaderSignature) sign1() cbor.Item {
	var chain []cbor.Item
	for _, der := range r.Chain {
		chain = append(chain, cbor.Bytes(der))
	}
	header := cbor.Array(chain...)
	if len(chain) == 1 { // one certificate is not an array (RFC 9360, section 2)
		header = chain[0]
	}
	return cbor.Array(cbor.Bytes(readerHeader),
		cbor.Map(cbor.Pair{Key: cbor.Integer(headerChain), Value: header}), cbor.Null(),
		cbor.Bytes(r.Signature))
}

// EncryptionInfo returns the EncryptionInfo of Annex C, with nonce and key. public is on P-256.
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
	hash := sha256.Sum256(
		[]byte(`{"crv":"P-256","kty":"EC","x":"` + encode(x) + `","y":"` + encode(y) + `"}`),
	)
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
