package wallettest

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	"github.com/verge-id/verge/core/cbor"
)

// SealJWE encrypts to a key on P-256 by ECDH-ES, as a JWE in its compact form. header has enc, and may have
// kid, apu and apv. Other fields are copied into the header, too, and override the correct values.
func SealJWE(payload []byte, to *ecdh.PublicKey, header map[string]any) (string, error) {
	return sealJWE(rand.Reader, payload, to, header)
}

func sealJWE(random io.Reader, payload []byte, to *ecdh.PublicKey, header map[string]any) (string, error) {
	scalar := make([]byte, 32)
	read(random, scalar)
	ephemeral, err := ecdh.P256().NewPrivateKey(scalar)
	if err != nil { // one of 2^32 numbers is too large
		return "", fmt.Errorf("wallettest: the ephemeral key: %w", err)
	}
	secret, err := ephemeral.ECDH(to)
	if err != nil {
		return "", fmt.Errorf("wallettest: the ephemeral key: %w", err)
	}
	point := ephemeral.PublicKey().Bytes()
	all := map[string]any{"alg": "ECDH-ES", "epk": map[string]any{
		"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:]),
	}}
	maps.Copy(all, header)
	written, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("wallettest: the header: %w", err)
	}
	enc, _ := all["enc"].(string)
	size := 16
	if enc == "A256GCM" {
		size = 32
	}
	gcm, err := gcm(concatKDF(secret, enc, party(all["apu"]), party(all["apv"]), size))
	if err != nil {
		return "", err
	}
	iv := make([]byte, gcm.NonceSize())
	read(random, iv)
	first := encode(written)
	sealed := gcm.Seal(nil, iv, payload, []byte(first))
	text, tag := sealed[:len(payload)], sealed[len(payload):]
	return first + ".." + encode(iv) + "." + encode(text) + "." + encode(tag), nil
}

// Deflate compresses the payload of a JWE whose header has the zip DEF.
func Deflate(payload []byte) []byte {
	var packed bytes.Buffer
	z, err := flate.NewWriter(&packed, flate.BestCompression)
	if err == nil {
		_, err = z.Write(payload)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // a buffer accepts everything
	}
	return packed.Bytes()
}

// party decodes apu or apv.
func party(v any) []byte {
	text, _ := v.(string)
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}

// concatKDF derives up to 32 bytes (RFC 7518, section 4.6.2).
func concatKDF(secret []byte, algorithm string, partyU, partyV []byte, size int) []byte {
	h := sha256.New()
	h.Write([]byte{0, 0, 0, 1})
	h.Write(secret)
	for _, field := range [][]byte{[]byte(algorithm), partyU, partyV} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(field))))
		h.Write(field)
	}
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(size)*8))
	return h.Sum(nil)[:size]
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("wallettest: %w", err)
	}
	return cipher.NewGCM(block)
}

// SealHPKE encrypts to a key on P-256 as ISO/IEC 18013-7, Annex C wants it, and returns the CBOR of the
// EncryptedResponse.
func SealHPKE(plain []byte, to *ecdh.PublicKey, transcript []byte) ([]byte, error) {
	public, err := hpke.NewDHKEMPublicKey(to)
	if err != nil {
		return nil, fmt.Errorf("wallettest: the recipient's key: %w", err)
	}
	encapsulated, sender, err := hpke.NewSender(public, hpke.HKDFSHA256(), hpke.AES128GCM(), transcript)
	if err != nil {
		return nil, fmt.Errorf("wallettest: %w", err)
	}
	text, err := sender.Seal(nil, plain)
	if err != nil {
		return nil, fmt.Errorf("wallettest: %w", err)
	}
	return cbor.Array(cbor.Text(AnnexC), cbor.Map(
		pair("enc", cbor.Bytes(encapsulated)), pair("cipherText", cbor.Bytes(text)),
	)).Raw(), nil
}
