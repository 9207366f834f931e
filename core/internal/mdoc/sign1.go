package mdoc

import (
	"context"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"slices"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/jws"
	"github.com/verge-id/verge/core/internal/signature"
)

// Labels of COSE headers (RFC 9052, section 3.1; RFC 9360).
const (
	headerAlgorithm = 1
	headerCritical  = 2
	headerChain     = 33 // x5chain
)

// Labels and values of keys in COSE (RFC 9053, section 7.1).
const (
	keyType      = 1
	keyAlgorithm = 3
	keyCurve     = -1
	keyX         = -2
	keyY         = -3

	typeEC2   = 2
	curveP256 = 1
	curveP384 = 2
	curveP521 = 3
)

func sum256(b []byte) []byte { s := sha256.Sum256(b); return s[:] }
func sum384(b []byte) []byte { s := sha512.Sum384(b); return s[:] }
func sum512(b []byte) []byte { s := sha512.Sum512(b); return s[:] }

// algorithm is how a signature is made. ISO/IEC 18013-5 binds each to one curve, as JWS does.
type algorithm struct {
	numbers [2]int64 // of COSE: as in RFC 9053, and fully specified (RFC 9864)
	name    string   // of JWS
}

var algorithms = []algorithm{
	{[2]int64{-7, -9}, "ES256"},
	{[2]int64{-35, -51}, "ES384"},
	{[2]int64{-36, -52}, "ES512"},
}

// Algorithms returns the numbers in COSE of the algorithms that Verify accepts, of issuers and of devices.
func Algorithms() (numbers []int64) {
	for _, a := range algorithms {
		numbers = append(numbers, a.numbers[:]...)
	}
	return numbers
}

// JWSAlgorithms returns the names in JWS of the same algorithms.
func JWSAlgorithms() (names []string) {
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

// signatureAlgorithm returns an algorithm by its number.
func signatureAlgorithm(number int64) (algorithm, bool) {
	for _, a := range algorithms {
		if slices.Contains(a.numbers[:], number) {
			return a, true
		}
	}
	return algorithm{}, false
}

// sign1 is a COSE_Sign1 (RFC 9052, section 4.2).
type sign1 struct {
	protected   []byte // as it was signed
	number      int64  // of the algorithm
	algorithm   algorithm
	unprotected cbor.Item
	payload     cbor.Item
	signature   []byte

	// certificates is the x5chain. ISO/IEC 18013-5 has it in the unprotected header, and RFC 9360 in either.
	certificates cbor.Item
}

// readSign1 reads a COSE_Sign1, which has no tag here. The algorithm must be protected, and no header may be
// critical, because none is known here that would need to be.
func readSign1(i cbor.Item) (s sign1, err error) {
	parts, ok := i.List()
	if !ok || len(parts) != 4 {
		return s, rejected(badSign1)
	}
	var okProtected, okSignature bool
	s.protected, okProtected = parts[0].Bytes()
	s.unprotected, s.payload = parts[1], parts[2]
	s.signature, okSignature = parts[3].Bytes()
	_, okUnprotected := s.unprotected.Pairs()
	if !okProtected || !okUnprotected || !okSignature {
		return s, rejected(badSign1)
	}
	protected, err := cbor.Read(s.protected, options)
	if err != nil {
		return s, rejected(badSign1)
	}
	if protected.Label(headerCritical).Present() || s.unprotected.Label(headerCritical).Present() {
		return s, rejected(critical)
	}
	if s.number, ok = protected.Label(headerAlgorithm).Integer(); !ok {
		return s, rejected(badAlgorithm)
	}
	if s.algorithm, ok = signatureAlgorithm(s.number); !ok || s.unprotected.Label(headerAlgorithm).Present() {
		return s, rejected(badAlgorithm)
	}
	s.certificates = s.unprotected.Label(headerChain)
	if signed := protected.Label(headerChain); signed.Present() {
		if s.certificates.Present() { // a label must not be in both headers (RFC 9052, section 3)
			return s, rejected(badSign1)
		}
		s.certificates = signed
	}
	return s, nil
}

// readChain reads an x5chain, in DER: a single certificate is a byte string, several are an array.
func readChain(i cbor.Item) (ders [][]byte, ok bool) {
	if der, ok := i.Bytes(); ok {
		return [][]byte{der}, true
	}
	list, ok := i.List()
	if !ok {
		return nil, false
	}
	for _, i := range list {
		der, ok := i.Bytes()
		if !ok {
			return nil, false
		}
		ders = append(ders, der)
	}
	return ders, true
}

// verify checks the signature of a payload. The error is a *Rejection for bad if it is not the key's. Any
// other error is the host's, which could not check it.
func (s sign1) verify(
	ctx context.Context, by host.VerifyFunc, key signature.Key, payload []byte, bad string,
) error {
	signed := cbor.Array(cbor.Text("Signature1"), cbor.Bytes(s.protected), cbor.Bytes(nil),
		cbor.Bytes(payload))
	return checkSignature(key, s.algorithm.name, bad, func() (bool, error) {
		return key.Verify(ctx, by, s.algorithm.name, signed.Raw(), s.signature)
	})
}

// checkJWS is sign1.verify for a token of JWS.
func checkJWS(ctx context.Context, by host.VerifyFunc, t jws.Token, key signature.Key, bad string) error {
	return checkSignature(key, t.Algorithm, bad, func() (bool, error) { return t.Verify(ctx, by, key) })
}

// checkSignature calls verify if the algorithm is for the key. The error is a *Rejection for bad if verify
// reports false, or the host's.
func checkSignature(key signature.Key, algorithm, bad string, verify func() (bool, error)) error {
	if !key.Fits(algorithm) {
		return rejected(badAlgorithm)
	}
	ok, err := verify()
	if err != nil {
		return err
	}
	if !ok {
		return rejected(bad)
	}
	return nil
}

var coseCurves = map[int64]elliptic.Curve{
	curveP256: elliptic.P256(), curveP384: elliptic.P384(), curveP521: elliptic.P521(),
}

// readKey reads the device's key, which is EC2. If it names an algorithm, the device signs with it.
func readKey(key cbor.Item) (public signature.Key, number int64, ok bool) {
	kind, _ := key.Label(keyType).Integer()
	curveNumber, _ := key.Label(keyCurve).Integer()
	x, okX := key.Label(keyX).Bytes()
	y, okY := key.Label(keyY).Bytes()
	if number, ok = key.Label(keyAlgorithm).Integer(); !ok && key.Label(keyAlgorithm).Present() {
		return signature.Key{}, 0, false
	}
	if kind != typeEC2 || !okX || !okY {
		return signature.Key{}, 0, false
	}
	public, ok = signature.EC(coseCurves[curveNumber], x, y)
	return public, number, ok
}
