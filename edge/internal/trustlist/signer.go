package trustlist

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of the algorithms
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"math/big"
	"slices"
	"time"
)

// maxChain is the maximum number of certificates that a document names for its signature.
const maxChain = 5

// Extended key usages of certificates that sign lists.
var (
	usageETSI  = asn1.ObjectIdentifier{0, 4, 0, 2231, 3, 0}
	usageVICAL = asn1.ObjectIdentifier{1, 0, 18013, 5, 1, 8}
)

// algorithm is a signature algorithm.
type algorithm struct {
	hash  crypto.Hash
	curve elliptic.Curve // nil: that of the key, if the family is ECDSA
	family
}

type family int

const (
	familyECDSA family = iota // r and s, each as long as the order of the curve
	familyRSA                 // PKCS #1 v1.5
	familyPSS                 // with MGF1 of the same hash, and a salt as long as the hash
)

var curves = []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}

// Sizes of RSA keys in bits.
const minRSA, maxRSA = 2048, 8192

// verify returns an error if the signature of a text is not the key's.
func (a algorithm) verify(key crypto.PublicKey, signed, signature []byte) *Error {
	h := a.hash.New()
	h.Write(signed)
	digest := h.Sum(nil)
	valid := false
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if a.family != familyECDSA || !slices.Contains(curves, key.Curve) ||
			a.curve != nil && a.curve != key.Curve {
			return rejected(Unsupported, "its algorithm is not one of the signer's key")
		}
		size := (key.Params().BitSize + 7) / 8
		if len(signature) == 2*size {
			r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
			valid = ecdsa.Verify(key, digest, r, s)
		}
	case *rsa.PublicKey:
		if a.family == familyECDSA {
			return rejected(Unsupported, "its algorithm is not one of the signer's key")
		}
		if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
			return rejected(Unsupported, "the signer's RSA key has less than 2,048 or more than 8,192 bits")
		}
		if a.family == familyPSS {
			options := rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: a.hash}
			valid = rsa.VerifyPSS(key, a.hash, digest, signature, &options) == nil
		} else {
			valid = rsa.VerifyPKCS1v15(key, a.hash, digest, signature) == nil
		}
	default:
		return rejected(Unsupported, "the signer's key is neither RSA nor ECDSA")
	}
	if !valid {
		return rejected(WrongSignature, "its signature is not that of the signer's key")
	}
	return nil
}

// readChain reads the certificates that a document names for its signature. The signer is the first.
func readChain(ders [][]byte) ([]*x509.Certificate, *Error) {
	if len(ders) == 0 {
		return nil, rejected(Malformed, "it does not name the certificate that signed it")
	}
	if len(ders) > maxChain {
		return nil, rejected(TooLarge, "it names more than five certificates for its signature")
	}
	var chain []*x509.Certificate
	for _, der := range ders {
		certificate, skip := readCertificate(der)
		if skip != "" {
			return nil, rejected(Malformed, "a certificate of its signature cannot be read")
		}
		chain = append(chain, certificate)
	}
	return chain, nil
}

// checkSigner returns an error unless the first certificate of a chain may sign lists: because it is one of
// the signers, or because one of them has issued it for that, directly or through the rest of the chain.
func checkSigner(chain, signers []*x509.Certificate, usage asn1.ObjectIdentifier, now time.Time) *Error {
	signer := chain[0]
	if now.Before(signer.NotBefore) || now.After(signer.NotAfter) {
		return rejected(SignerExpired, "the certificate that signed it is not valid now")
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, trusted := range signers {
		if bytes.Equal(trusted.Raw, signer.Raw) {
			return nil
		}
		if trusted.IsCA {
			roots.AddCert(trusted)
		}
	}
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	chains, err := signer.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, // checked below: Go does not name these usages
	})
	if err != nil {
		return chainError(err)
	}
	if !slices.ContainsFunc(chains, func(c []*x509.Certificate) bool { return mayIssue(c, usage) }) {
		return rejected(SignerInvalid, "the certificate that signed it was not issued for signing lists")
	}
	return nil
}

func chainError(err error) *Error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return rejected(SignerUnknown, "the certificate that signed it is not configured, nor is its issuer")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return rejected(SignerExpired, "a certificate between the signer and its issuer is not valid now")
	}
	return rejected(SignerInvalid, "the certificate that signed it has an invalid chain")
}

// mayIssue reports whether the first certificate of a chain is for signing lists, and no certificate between
// it and the configured one is for other purposes only.
func mayIssue(chain []*x509.Certificate, usage asn1.ObjectIdentifier) bool {
	signer := chain[0]
	const signing = x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment
	if !hasUsage(signer, usage) || signer.KeyUsage != 0 && signer.KeyUsage&signing == 0 {
		return false
	}
	for _, c := range chain[1 : len(chain)-1] {
		limited := len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) > 0
		if limited && !hasUsage(c, usage) && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) {
			return false
		}
	}
	return true
}

func hasUsage(c *x509.Certificate, usage asn1.ObjectIdentifier) bool {
	return slices.ContainsFunc(c.UnknownExtKeyUsage, usage.Equal)
}
