package mdoc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// The one suite of HPKE (RFC 9180) that org-iso-mdoc uses, in base mode: DHKEM(P-256, HKDF-SHA256),
// HKDF-SHA256 and AES-128-GCM. The standard library's crypto/hpke knows many more, post-quantum ones too, and
// links them all into the guest. Tests hold this against it.
var (
	kemSuite  = []byte{'K', 'E', 'M', 0, 0x10}
	hpkeSuite = []byte{'H', 'P', 'K', 'E', 0, 0x10, 0, 1, 0, 1}
)

// hpkeOpen opens the first message to a key. encapsulated is the sender's ephemeral key.
func hpkeOpen(private *ecdh.PrivateKey, encapsulated, info, ciphertext []byte) ([]byte, error) {
	ephemeral, err := ecdh.P256().NewPublicKey(encapsulated) // it rejects points that are not on the curve
	if err != nil {
		return nil, err
	}
	agreed, err := private.ECDH(ephemeral)
	if err != nil {
		return nil, err
	}
	k := schedule{suite: kemSuite}
	shared := k.expand(k.extract(nil, "eae_prk", agreed), "shared_secret",
		slices.Concat(encapsulated, private.PublicKey().Bytes()), sha256.Size)

	k.suite = hpkeSuite
	const base = 0 // the mode without authentication of either side
	about := slices.Concat([]byte{base}, k.extract(nil, "psk_id_hash", nil),
		k.extract(nil, "info_hash", info))
	secret := k.extract(shared, "secret", nil)
	key, nonce := k.expand(secret, "key", about, 16), k.expand(secret, "base_nonce", about, 12)
	if k.err != nil {
		return nil, k.err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return gcm.Open(nil, nonce, ciphertext, nil)
}

// schedule derives keys for a suite (RFC 9180, section 4). It keeps the first error.
type schedule struct {
	suite []byte
	err   error
}

func (k *schedule) extract(salt []byte, label string, material []byte) []byte {
	b, err := hkdf.Extract(sha256.New, slices.Concat([]byte("HPKE-v1"), k.suite, []byte(label), material),
		salt)
	k.keep(err)
	return b
}

func (k *schedule) expand(secret []byte, label string, info []byte, size int) []byte {
	labelled := binary.BigEndian.AppendUint16(nil, uint16(size))
	labelled = slices.Concat(labelled, []byte("HPKE-v1"), k.suite, []byte(label), info)
	b, err := hkdf.Expand(sha256.New, secret, string(labelled), size)
	k.keep(err)
	return b
}

func (k *schedule) keep(err error) {
	if k.err == nil {
		k.err = err
	}
}
