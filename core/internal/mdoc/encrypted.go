package mdoc

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// maxEncrypted is the maximum number of bytes of an encrypted response. Only a response with a proof needs as
// much. The limit of the request's body is lower, unless a method asks for proofs.
const maxEncrypted = MaxZKResponse

// ivSize and tagSize are the sizes for AES-GCM in a JWE (RFC 7518, section 5.3).
const (
	ivSize  = 12
	tagSize = 16
)

// OpenJWE opens a response by direct_post.jwt: a JWE in its compact form, encrypted by ECDH-ES on P-256 with
// A128GCM or A256GCM. keyID is the kid of the key in the request, which the wallet must name. An error is a
// *Rejection. The payload is not checked. It may be compressed if zip is true.
//
// The wallet chooses apu and apv. They are part of the key derivation and no proof.
func OpenJWE(compact string, private *ecdh.PrivateKey, keyID string, zip bool) (payload []byte, err error) {
	if len(compact) > maxEncrypted {
		return nil, rejected(tooLarge)
	}
	parts := strings.Split(compact, ".")
	if len(parts) != 5 || parts[1] != "" { // the key is agreed upon, so none is sent
		return nil, rejected(badJWE)
	}
	header, okHeader := strict64.Decode(parts[0])
	iv, okIV := strict64.Decode(parts[2])
	ciphertext, okText := strict64.Decode(parts[3])
	tag, okTag := strict64.Decode(parts[4])
	if !okHeader || !okIV || !okText || !okTag || len(iv) != ivSize || len(tag) != tagSize {
		return nil, rejected(badJWE)
	}
	key, zip, err := contentKey(header, private, keyID, zip)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, rejected(jweNotOpened)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, rejected(jweNotOpened)
	}
	if payload, err = gcm.Open(nil, iv, slices.Concat(ciphertext, tag), []byte(parts[0])); err != nil {
		return nil, rejected(jweNotOpened)
	}
	if zip {
		return inflate(payload)
	}
	return payload, nil
}

// inflate returns the plaintext of a payload that is compressed by DEFLATE (RFC 7516, section 4.1.3).
func inflate(payload []byte) ([]byte, error) {
	from := bytes.NewReader(payload)
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(from), maxEncrypted+1))
	switch {
	case len(plain) > maxEncrypted:
		return nil, rejected(tooLarge)
	case err != nil || from.Len() > 0: // data behind the end
		return nil, rejected(jweNotOpened)
	}
	return plain, nil
}

// contentKey returns the key that a JWE is encrypted with (RFC 7518, section 4.6), and whether the payload is
// compressed, which it may be if zip is true.
func contentKey(header []byte, private *ecdh.PrivateKey, keyID string, zip bool) ([]byte, bool, error) {
	o, err := strictjson.ReadForeign(header)
	text := func(name string) string {
		s, _ := o.Value(name).Text()
		return s
	}
	zip = zip && text("zip") == "DEF"
	if err != nil || o.Has("crit") || o.Has("zip") && !zip {
		return nil, false, rejected(badJWEHeader)
	}
	size := 0
	switch text("enc") {
	case "A128GCM":
		size = 16
	case "A256GCM":
		size = 32
	}
	if text("alg") != "ECDH-ES" || size == 0 {
		return nil, false, rejected(badEncryption)
	}
	if text("kid") != keyID {
		return nil, false, rejected(otherKeyID)
	}
	partyU, okU := decodeOptional(o.Value("apu"))
	partyV, okV := decodeOptional(o.Value("apv"))
	if !okU || !okV {
		return nil, false, rejected(badJWEHeader)
	}
	ephemeral, ok := readJWK(o.Value("epk"))
	if !ok || ephemeral.Equal(private.PublicKey()) { // our own key as the ephemeral key is rejected
		return nil, false, rejected(badEphemeral)
	}
	secret, err := private.ECDH(ephemeral)
	if err != nil {
		return nil, false, rejected(badEphemeral)
	}
	// The Concat KDF of NIST SP 800-56A. One round of SHA-256 is as long as the longest key.
	sum := sha256.Sum256(slices.Concat([]byte{0, 0, 0, 1}, secret,
		sized([]byte(text("enc"))), sized(partyU), sized(partyV),
		binary.BigEndian.AppendUint32(nil, uint32(8*size))))
	return sum[:size], zip, nil
}

// sized puts the length of b before it.
func sized(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }

// readJWK reads a public key on P-256.
func readJWK(v strictjson.Value) (*ecdh.PublicKey, bool) {
	o, ok := v.Object()
	kind, _ := o.Value("kty").Text()
	curve, _ := o.Value("crv").Text()
	x, okX := decodeOptional(o.Value("x"))
	y, okY := decodeOptional(o.Value("y"))
	if !ok || kind != "EC" || curve != "P-256" || !okX || !okY || len(x) != 32 || len(y) != 32 {
		return nil, false
	}
	// It rejects points that are not on the curve.
	public, err := ecdh.P256().NewPublicKey(slices.Concat([]byte{4}, x, y))
	return public, err == nil
}

// decodeOptional reads the base64url of a member that may be missing.
func decodeOptional(v strictjson.Value) ([]byte, bool) {
	if !v.Present() {
		return nil, true
	}
	s, ok := v.Text()
	if !ok {
		return nil, false
	}
	return strict64.Decode(s)
}

// OpenHPKE opens a response by org-iso-mdoc: the CBOR of an EncryptedResponse (ISO/IEC 18013-7, Annex C),
// encrypted by HPKE with DHKEM(P-256), HKDF-SHA256 and AES-128-GCM. It is bound to the transcript. An error
// is a *Rejection. The DeviceResponse is not checked.
func OpenHPKE(encryptedResponse []byte, private *ecdh.PrivateKey, transcript []byte) ([]byte, error) {
	if len(encryptedResponse) > maxEncrypted {
		return nil, rejected(tooLarge)
	}
	response, err := cbor.Read(encryptedResponse, large)
	if err != nil {
		return nil, rejected(badHPKE)
	}
	parts, _ := response.List()
	if len(parts) != 2 {
		return nil, rejected(badHPKE)
	}
	name, _ := parts[0].Text()
	encapsulated, okKey := parts[1].Member("enc").Bytes()
	ciphertext, okText := parts[1].Member("cipherText").Bytes()
	if name != dcapi || !okKey || !okText {
		return nil, rejected(badHPKE)
	}
	plain, err := hpkeOpen(private, encapsulated, transcript, ciphertext)
	if err != nil {
		return nil, rejected(hpkeNotOpened)
	}
	return plain, nil
}
