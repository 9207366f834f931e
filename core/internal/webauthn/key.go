package webauthn

import (
	"context"
	"crypto/elliptic"
	"slices"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/signature"
)

// Labels and values of keys in COSE (RFC 9053, RFC 8230).
const (
	labelType      = 1
	labelAlgorithm = 3
	labelFirst     = -1 // curve; modulus of RSA
	labelSecond    = -2 // x; exponent of RSA
	labelThird     = -3 // y

	typeOKP = 1
	typeEC2 = 2
	typeRSA = 3

	curveP256    = 1
	curveEd25519 = 6
)

// maxRSA is the maximum number of bits of an RSA key. Larger ones only cost time.
const maxRSA = 4096

// publicKey is the key of a credential, with the algorithm in it.
type publicKey struct {
	signature.Key
	algorithm string
}

// verify reports whether the key created the signature, which has the form of WebAuthn (section 6.5.5).
func (k publicKey) verify(ctx context.Context, by host.VerifyFunc, message, signature []byte) (bool, error) {
	if k.algorithm == "ES256" {
		return k.VerifyASN1(ctx, by, k.algorithm, message, signature)
	}
	return k.Verify(ctx, by, k.algorithm, message, signature)
}

// readKey reads a public key. The algorithm comes from the key, so a response cannot choose another. A key
// with more or fewer parameters than its algorithm requires is rejected.
func readKey(raw []byte) (k publicKey, ok bool) {
	key, err := cbor.Read(raw, canonical)
	if err != nil {
		return publicKey{}, false
	}
	pairs, ok := key.Pairs()
	kind, okKind := key.Label(labelType).Integer()
	algorithm, okAlgorithm := key.Label(labelAlgorithm).Integer()
	if !ok || !okKind || !okAlgorithm {
		return publicKey{}, false
	}
	switch {
	case kind == typeEC2 && algorithm == es256 && len(pairs) == 5:
		k.algorithm = "ES256"
		k.Key, ok = readP256(key)
	case kind == typeOKP && algorithm == edDSA && len(pairs) == 4:
		k.algorithm = "EdDSA"
		k.Key, ok = readEd25519(key)
	case kind == typeRSA && algorithm == rs256 && len(pairs) == 4:
		k.algorithm = "RS256"
		k.Key, ok = readRSA(key)
	default:
		return publicKey{}, false
	}
	return k, ok
}

func readP256(key cbor.Item) (signature.Key, bool) {
	curve, ok := key.Label(labelFirst).Integer()
	x, okX := key.Label(labelSecond).Bytes()
	y, okY := key.Label(labelThird).Bytes()
	if !ok || curve != curveP256 || !okX || !okY {
		return signature.Key{}, false
	}
	return signature.EC(elliptic.P256(), x, y)
}

// readEd25519 does not check whether x is a point. If it is not, no signature verifies.
func readEd25519(key cbor.Item) (signature.Key, bool) {
	curve, ok := key.Label(labelFirst).Integer()
	x, okX := key.Label(labelSecond).Bytes()
	if !ok || curve != curveEd25519 || !okX {
		return signature.Key{}, false
	}
	return signature.Ed25519(x)
}

// readRSA allows only the exponent that all authenticators use.
func readRSA(key cbor.Item) (signature.Key, bool) {
	n, okN := key.Label(labelFirst).Bytes()
	e, okE := key.Label(labelSecond).Bytes()
	if !okN || !okE || len(n) > maxRSA/8 || len(n) == 0 || n[0] == 0 || !slices.Equal(e, []byte{1, 0, 1}) {
		return signature.Key{}, false
	}
	return signature.RSA(n, e)
}
