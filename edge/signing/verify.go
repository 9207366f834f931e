package signing

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha256" // so that crypto.SHA256 is available
	_ "crypto/sha512"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// verification is the implementation of an algorithm of host.VerifyFunc.
type verification struct {
	hash crypto.Hash // 0: the algorithm hashes itself
	pss  bool
	fits func(public any) bool // reports whether a public key is of the algorithm's type and size
}

var verifications = map[string]verification{
	"ES256": byECDSA(crypto.SHA256, elliptic.P256()),
	"ES384": byECDSA(crypto.SHA384, elliptic.P384()),
	"ES512": byECDSA(crypto.SHA512, elliptic.P521()),

	"ecdsa-with-SHA256": byECDSA(crypto.SHA256, elliptic.P256(), elliptic.P384(), elliptic.P521()),
	"ecdsa-with-SHA384": byECDSA(crypto.SHA384, elliptic.P256(), elliptic.P384(), elliptic.P521()),
	"ecdsa-with-SHA512": byECDSA(crypto.SHA512, elliptic.P256(), elliptic.P384(), elliptic.P521()),

	"RS256": byRSA(crypto.SHA256, false), "PS256": byRSA(crypto.SHA256, true),
	"RS384": byRSA(crypto.SHA384, false), "PS384": byRSA(crypto.SHA384, true),
	"RS512": byRSA(crypto.SHA512, false), "PS512": byRSA(crypto.SHA512, true),

	"EdDSA": {fits: func(public any) bool { _, ok := public.(ed25519.PublicKey); return ok }},
}

func byECDSA(hash crypto.Hash, curves ...elliptic.Curve) verification {
	return verification{hash: hash, fits: func(public any) bool {
		k, ok := public.(*ecdsa.PublicKey)
		return ok && slices.Contains(curves, k.Curve)
	}}
}

func byRSA(hash crypto.Hash, pss bool) verification {
	return verification{hash: hash, pss: pss, fits: func(public any) bool {
		k, ok := public.(*rsa.PublicKey)
		return ok && k.N.BitLen() >= minRSA && k.N.BitLen() <= maxRSA
	}}
}

// errPublicKey is the error for an unusable public key.
var errPublicKey = errors.New("signing: the public key cannot be read, or does not fit the algorithm")

// Verify is host.Host's Verify, implemented with the standard library.
func Verify(ctx context.Context, algorithm string, publicKey, message, signature []byte) (bool, error) {
	by, ok := verifications[algorithm]
	if !ok {
		return false, fmt.Errorf("signing: no signature is verified by %.20q", algorithm)
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	public, err := x509.ParsePKIXPublicKey(publicKey)
	if err != nil || !by.fits(public) {
		return false, errPublicKey
	}
	if by.hash != 0 {
		h := by.hash.New()
		h.Write(message)
		message = h.Sum(nil)
	}
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		size := (k.Params().BitSize + 7) / 8
		if len(signature) != 2*size {
			return false, nil
		}
		r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
		return ecdsa.Verify(k, message, r, s), nil
	case *rsa.PublicKey:
		if by.pss {
			options := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
			return rsa.VerifyPSS(k, by.hash, message, signature, options) == nil, nil
		}
		return rsa.VerifyPKCS1v15(k, by.hash, message, signature) == nil, nil
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, signature), nil
	}
	return false, errPublicKey
}
