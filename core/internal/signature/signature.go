// Package signature has the public keys of COSE, JOSE and X.509 in the form that a host verifies with
// ([host.VerifyFunc]). Make a [Key] from the parts of a key, which checks them, and call its Verify.
//
// A key, an algorithm or a signature that does not fit is a signature that is not the key's. The host is not
// asked about it. An error is the host's: it could not check, so nothing is known about the signature.
package signature

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/verge-id/verge/core/host"
)

// Key is a public key. The zero value verifies no signature.
type Key struct {
	der        []byte   // SubjectPublicKeyInfo
	size       int      // bytes of a signature
	algorithms []string // of host.VerifyFunc
}

// Fits reports whether the key can verify by an algorithm of host.VerifyFunc.
func (k Key) Fits(algorithm string) bool { return slices.Contains(k.algorithms, algorithm) }

// Verify reports whether a signature of a message, in the form of JWS, is the key's.
func (k Key) Verify(
	ctx context.Context, verify host.VerifyFunc, algorithm string, message, signature []byte,
) (bool, error) {
	if !k.Fits(algorithm) || len(signature) != k.size {
		return false, nil
	}
	return verify(ctx, algorithm, k.der, message, signature)
}

// VerifyASN1 is Verify for a signature by ECDSA in the form of X.509 and WebAuthn: r and s in DER.
func (k Key) VerifyASN1(
	ctx context.Context, verify host.VerifyFunc, algorithm string, message, signature []byte,
) (bool, error) {
	flat, ok := flatten(signature, k.size/2)
	if !ok {
		return false, nil
	}
	return k.Verify(ctx, verify, algorithm, message, flat)
}

// curve is an elliptic curve whose keys the host verifies with.
type curve struct {
	of         elliptic.Curve
	size       int    // bytes of a coordinate
	head       []byte // of the DER of a key, before the point
	algorithms []string
}

var curves = []curve{
	{elliptic.P256(), 32, []byte("\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01" +
		"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00"), withX509("ES256")},
	{elliptic.P384(), 48, []byte("\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01" +
		"\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00"), withX509("ES384")},
	{elliptic.P521(), 66, []byte("\x30\x81\x9b\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01" +
		"\x06\x05\x2b\x81\x04\x00\x23\x03\x81\x86\x00"), withX509("ES512")},
}

func withX509(jws string) []string {
	return []string{jws, "ecdsa-with-SHA256", "ecdsa-with-SHA384", "ecdsa-with-SHA512"}
}

// EC returns the key with these coordinates on P-256, P-384 or P-521. It is not ok for other curves, for
// coordinates of another length than the curve's, and for a point that is not on the curve.
func EC(on elliptic.Curve, x, y []byte) (k Key, ok bool) {
	at := slices.IndexFunc(curves, func(c curve) bool { return c.of == on })
	if at < 0 || len(x) != curves[at].size || len(y) != curves[at].size {
		return Key{}, false
	}
	point := slices.Concat([]byte{4}, x, y)
	if _, err := ecdsa.ParseUncompressedPublicKey(on, point); err != nil {
		return Key{}, false
	}
	return curves[at].key(point), true
}

// P256 returns the coordinates of a key on P-256 in the form of host.VerifyFunc.
func P256(spki []byte) (x, y []byte, ok bool) {
	point, ok := bytes.CutPrefix(spki, curves[0].head)
	if !ok || len(point) != 65 || point[0] != 4 {
		return nil, nil, false
	}
	x, y = point[1:33], point[33:]
	_, ok = EC(elliptic.P256(), x, y)
	return x, y, ok
}

// OfECDSA returns the key of a certificate, which crypto/x509 has checked. It is not ok for other curves than
// P-256, P-384 and P-521.
func OfECDSA(public *ecdsa.PublicKey) (k Key, ok bool) {
	at := slices.IndexFunc(curves, func(c curve) bool { return c.of == public.Curve })
	if at < 0 {
		return Key{}, false
	}
	point, err := public.Bytes()
	if err != nil {
		return Key{}, false
	}
	return curves[at].key(point), true
}

func (c curve) key(point []byte) Key {
	return Key{slices.Concat(c.head, point), 2 * c.size, c.algorithms}
}

// Ed25519 returns the key with these bytes. It is not ok for another length than 32. If the bytes are no
// point, no signature will verify.
func Ed25519(x []byte) (k Key, ok bool) {
	const head = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"
	if len(x) != 32 {
		return Key{}, false
	}
	return Key{slices.Concat([]byte(head), x), 64, []string{"EdDSA"}}, true
}

// Bits of the modulus of RSA keys. Below the first a signature can be forged. Larger keys only cost time.
const (
	minRSA = 2048
	maxRSA = 8192
)

var byRSA = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}

// RSA returns the key with this modulus and exponent, both big endian. It is not ok unless the modulus is odd
// and has 2,048 to 8,192 bits, and the exponent is odd and from 3 to 2³¹-3, which all libraries can use.
func RSA(modulus, exponent []byte) (k Key, ok bool) {
	if len(modulus) > maxRSA/8 || len(modulus) < minRSA/8 || len(exponent) < 1 || len(exponent) > 4 {
		return Key{}, false
	}
	n := modulus
	for len(n) > 0 && n[0] == 0 {
		n = n[1:]
	}
	e := binary.BigEndian.Uint32(append(make([]byte, 4-len(exponent)), exponent...))
	if bitLen(n) < minRSA || n[len(n)-1]&1 == 0 || e < 3 || e&1 == 0 || e >= 1<<31-1 {
		return Key{}, false
	}
	const algorithm = "\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00"
	pair := der(tagSequence, integer(n), integer(binary.BigEndian.AppendUint32(nil, e)))
	return Key{der(tagSequence, []byte(algorithm), der(tagBitString, []byte{0}, pair)), len(n), byRSA}, true
}

// bitLen returns the bits of a number without leading zero bytes.
func bitLen(n []byte) int {
	if len(n) == 0 {
		return 0
	}
	return 8*(len(n)-1) + bits.Len8(n[0])
}
