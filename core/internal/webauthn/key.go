package webauthn

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"math/big"
	"slices"

	"github.com/verge-id/verge/core/cbor"
)

// Labels and values of keys in COSE (RFC 9053, RFC 8230).
const (
	labelType      = 1
	labelAlgorithm = 3
	labelFirst     = -1 // curve; or modulus of RSA
	labelSecond    = -2 // x; or exponent of RSA
	labelThird     = -3 // y

	typeOKP = 1
	typeEC2 = 2
	typeRSA = 3

	curveP256    = 1
	curveEd25519 = 6
)

// Bits of RSA keys. Larger ones only cost time.
const (
	minRSA = 2048
	maxRSA = 4096
)

// verifier reports whether a signature of message is the key's.
type verifier func(message, signature []byte) bool

// readKey reads a public key. The algorithm is the key's own, so no answer can choose another. A key that has
// more or fewer members than its algorithm needs is refused.
func readKey(raw []byte) (verify verifier, ok bool) {
	key, err := cbor.Read(raw, canonical)
	if err != nil {
		return nil, false
	}
	pairs, ok := key.Pairs()
	kind, okKind := key.Label(labelType).Integer()
	algorithm, okAlgorithm := key.Label(labelAlgorithm).Integer()
	if !ok || !okKind || !okAlgorithm {
		return nil, false
	}
	switch {
	case kind == typeEC2 && algorithm == es256 && len(pairs) == 5:
		return readP256(key)
	case kind == typeOKP && algorithm == edDSA && len(pairs) == 4:
		return readEd25519(key)
	case kind == typeRSA && algorithm == rs256 && len(pairs) == 4:
		return readRSA(key)
	}
	return nil, false
}

func readP256(key cbor.Item) (verifier, bool) {
	curve, ok := key.Label(labelFirst).Integer()
	x, okX := key.Label(labelSecond).Bytes()
	y, okY := key.Label(labelThird).Bytes()
	if !ok || curve != curveP256 || !okX || !okY || len(x) != 32 || len(y) != 32 {
		return nil, false
	}
	// It refuses a point that is not on the curve.
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
	return func(message, signature []byte) bool {
		sum := sha256.Sum256(message)
		return ecdsa.VerifyASN1(public, sum[:], signature)
	}, err == nil
}

// readEd25519 cannot tell whether x is a point. If it is none, no signature will verify.
func readEd25519(key cbor.Item) (verifier, bool) {
	curve, ok := key.Label(labelFirst).Integer()
	x, okX := key.Label(labelSecond).Bytes()
	if !ok || curve != curveEd25519 || !okX || len(x) != ed25519.PublicKeySize {
		return nil, false
	}
	return func(message, signature []byte) bool {
		return ed25519.Verify(x, message, signature)
	}, true
}

// readRSA allows the one exponent that everybody uses.
func readRSA(key cbor.Item) (verifier, bool) {
	n, okN := key.Label(labelFirst).Bytes()
	e, okE := key.Label(labelSecond).Bytes()
	if !okN || !okE || len(n) > maxRSA/8 || len(n) == 0 || n[0] == 0 || !slices.Equal(e, []byte{1, 0, 1}) {
		return nil, false
	}
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}
	if public.N.BitLen() < minRSA || public.N.Bit(0) == 0 {
		return nil, false
	}
	return func(message, signature []byte) bool {
		sum := sha256.Sum256(message)
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	}, true
}
