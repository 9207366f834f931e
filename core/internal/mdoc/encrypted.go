package mdoc

import (
	"crypto/ecdh"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/jwe"
)

// maxEncrypted is the maximum number of bytes of an encrypted response. Only a response with a proof needs as
// much. The limit of the request's body is lower, unless a method asks for proofs.
const maxEncrypted = MaxZKResponse

// Encryptions are the values of enc that OpenJWE accepts.
var Encryptions = []string{"A128GCM", "A256GCM"}

// OpenJWE opens a response by direct_post.jwt: a JWE in its compact form, encrypted by ECDH-ES on P-256 with
// one of Encryptions. keyID is the kid of the key in the request, which the wallet must name. An error is a
// *Rejection. The payload is not checked. It may be compressed if zip is true.
//
// The wallet chooses apu and apv. They are part of the key derivation and no proof.
func OpenJWE(compact string, private *ecdh.PrivateKey, keyID string, zip bool) (payload []byte, err error) {
	m, err := jwe.Read(compact, jwe.Rules{Size: maxEncrypted, Algorithms: []string{jwe.ECDH},
		Encryptions: Encryptions, Deflate: zip})
	switch {
	case err == jwe.ErrSize:
		return nil, rejected(tooLarge)
	case err == jwe.ErrForm:
		return nil, rejected(badJWE)
	case err == jwe.ErrAlgorithm:
		return nil, rejected(badEncryption)
	case err == jwe.ErrEphemeral:
		return nil, rejected(badEphemeral)
	case err != nil:
		return nil, rejected(badJWEHeader)
	case m.KeyID != keyID:
		return nil, rejected(otherKeyID)
	case m.Ephemeral.Equal(private.PublicKey()): // our own key as the ephemeral key is rejected
		return nil, rejected(badEphemeral)
	}
	secret, err := private.ECDH(m.Ephemeral)
	if err != nil {
		return nil, rejected(badEphemeral)
	}
	payload, ok := m.Open(m.Derive(secret))
	switch {
	case !ok:
		return nil, rejected(jweNotOpened)
	case !m.Deflated:
		return payload, nil
	}
	switch payload, err = jwe.Inflate(payload, maxEncrypted); err {
	case nil:
		return payload, nil
	case jwe.ErrSize:
		return nil, rejected(tooLarge)
	}
	return nil, rejected(jweNotOpened)
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
