package mdoc

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/verge-id/verge/core/internal/signature"
)

// crypto/x509 could build the path. But it can also read the system's roots, and the code for that would be
// in the guest. The paths of mobile documents are short, without the features that make paths hard.

// maxVerified is the maximum number of signatures that are verified for one response: the issuer's, the
// device's, and those of the path.
const maxVerified = 2 + maxTried + maxPath - 1

// maxPath is the maximum number of certificates below the anchor. ISO/IEC 18013-5 has one, the document
// signer's. Some issuers have intermediate authorities. Others in a response, such as the anchor's, do not
// count, because they are not read.
const maxPath = 3

// Extensions of certificates (RFC 5280, section 4.2.1).
var (
	extKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	extAltName          = asn1.ObjectIdentifier{2, 5, 29, 17}
	extBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	extNameConstraints  = asn1.ObjectIdentifier{2, 5, 29, 30}
	extExtendedKeyUsage = asn1.ObjectIdentifier{2, 5, 29, 37}
)

// anyPurpose is anyExtendedKeyUsage. An authority may have it, but not a document signer.
const anyPurpose = "2.5.29.37.0"

// signer returns the certificate of the signer, the first of a chain, if it is valid, with those between
// it and a trust anchor, and the trust anchor, which a listed signer is itself. chain is in DER. It is the
// path to the anchor in order. The anchor may be in it or not. Another root is ignored, and so are
// certificates after it or the anchor.
//
// ISO/IEC 18013-5 has signer and authority name the same country. That is not compared: operators trust
// authorities and no countries, and nothing here depends on a country.
func (a Ask) signer(ctx context.Context, chain [][]byte) ([]*x509.Certificate, Anchor, error) {
	none := Anchor{}
	if len(chain) == 0 {
		return nil, none, rejected(badChain)
	}
	listed := a.isAnchor(chain[0]) // a document signer of a trusted list
	if listed {
		chain = chain[:1]
	}
	var path []*x509.Certificate
	for i, der := range chain {
		if i > 0 && a.isAnchor(der) {
			break
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, none, rejected(badCertificate)
		}
		if i > 0 && mayHaveIssued(c, c) {
			// A root that is no anchor may be another certificate of one. An authority's certificate for its
			// own next key has an authority key identifier (RFC 5280, 4.2.1.1), and so is no root here.
			break
		}
		if path = append(path, c); len(path) > maxPath {
			return nil, none, rejected(badChain)
		}
	}
	if why := a.checkSigner(path[0]); why != "" {
		return nil, none, rejected(why)
	}
	if listed {
		return path, Anchor{path[0]}, nil
	}
	for i, c := range path[1:] {
		if why := a.checkIssuer(c, path[1:i+1]); why != "" {
			return nil, none, rejected(why)
		}
		if !mayHaveIssued(c, path[i]) {
			return nil, none, rejected(badChain)
		}
	}
	// Signatures cost most, so they are checked last. The anchor's signature is first: without a certificate
	// of an anchor, an attacker cannot cause further checks.
	anchor, err := a.anchorOf(ctx, path)
	if err != nil {
		return nil, none, err
	}
	for i, c := range slices.Backward(path[1:]) {
		signed, err := a.hasSigned(ctx, c, path[i])
		if err != nil {
			return nil, none, err
		}
		if !signed {
			return nil, none, rejected(badChain)
		}
	}
	return path, anchor, nil
}

func (a Ask) isAnchor(der []byte) bool {
	return slices.ContainsFunc(a.Anchors, func(t Anchor) bool { return bytes.Equal(t.Certificate.Raw, der) })
}

// maxTried is the maximum number of trust anchors whose key is tried for one certificate. Authorities have
// one or two at a time by the same name. A list with more of them would let a response cost as many
// verifications.
const maxTried = 16

// anchorOf returns the trust anchor that has issued the last certificate of a path. The error is a *Rejection
// if none has. Authorities change their keys and keep their names, or renew a certificate and keep the key,
// so there may be several to try.
func (a Ask) anchorOf(ctx context.Context, path []*x509.Certificate) (Anchor, error) {
	last := path[len(path)-1]
	why, tried := untrusted, 0
	for _, t := range a.Anchors {
		if !mayHaveIssued(t.Certificate, last) {
			continue
		}
		if tried++; tried > maxTried {
			break
		}
		signed, err := a.hasSigned(ctx, t.Certificate, last)
		if err != nil {
			return Anchor{}, err
		}
		if !signed {
			continue
		}
		if why = a.checkIssuer(t.Certificate, path[1:]); why == "" {
			return t, nil
		}
	}
	return Anchor{}, rejected(why)
}

// checkSigner returns why a certificate is not one of a document signer, "" if it is.
func (a Ask) checkSigner(c *x509.Certificate) (why string) {
	if why := checkSignerUse(c); why != "" {
		return why
	}
	switch {
	case !within(a.Now, c.NotBefore, c.NotAfter):
		return outOfDate
	case !a.hasPurpose(c) && !(a.anyPurpose && !hasExtension(c, extExtendedKeyUsage)):
		return wrongPurpose
	}
	return ""
}

// checkSignerUse returns why a certificate is not one of a document signer, without a check of time and
// purpose. "" if it is.
func checkSignerUse(c *x509.Certificate) (why string) {
	_, ok := publicKey(c)
	switch {
	case !ok:
		return badCertKey
	case !usableExtensions(c):
		return badExtension
	case c.IsCA || c.KeyUsage&x509.KeyUsageDigitalSignature == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0:
		return notSigner
	}
	return ""
}

// checkIssuer returns why a certificate may not have issued another, "" if it may. below are the authorities
// between the two. An authority's certificate for its own next key does not count for the length (RFC 5280,
// section 6.1.4).
func (a Ask) checkIssuer(c *x509.Certificate, below []*x509.Certificate) (why string) {
	if why := checkAuthority(c); why != "" {
		return why
	}
	limited, length := c.MaxPathLen > 0 || c.MaxPathLenZero, 0
	for _, b := range below {
		if !bytes.Equal(b.RawSubject, b.RawIssuer) {
			length++
		}
	}
	switch {
	case !within(a.Now, c.NotBefore, c.NotAfter):
		return outOfDate
	case limited && length > c.MaxPathLen:
		return pathTooLong
	case hasExtension(c, extExtendedKeyUsage) && !slices.Contains(purposes(c), anyPurpose) &&
		!a.hasPurpose(c):
		return wrongPurpose
	}
	return ""
}

// checkAuthority returns why a certificate is not one of an authority, without a check of time. "" if it is.
func checkAuthority(c *x509.Certificate) (why string) {
	_, ok := publicKey(c)
	switch {
	case !ok:
		return badCertKey
	case !usableExtensions(c):
		return badExtension
	case !c.BasicConstraintsValid || !c.IsCA || c.KeyUsage&x509.KeyUsageCertSign == 0:
		return notAuthority
	}
	return ""
}

// usableExtensions reports whether this package supports all requirements of a certificate. It does not
// support name constraints, so they are rejected even if they are not critical.
func usableExtensions(c *x509.Certificate) bool {
	for _, e := range c.Extensions {
		known := e.Id.Equal(extKeyUsage) || e.Id.Equal(extBasicConstraints) ||
			e.Id.Equal(extExtendedKeyUsage) || e.Id.Equal(extAltName)
		if e.Critical && !known || e.Id.Equal(extNameConstraints) {
			return false
		}
	}
	return true
}

func hasExtension(c *x509.Certificate, id asn1.ObjectIdentifier) bool {
	for _, e := range c.Extensions {
		if e.Id.Equal(id) {
			return true
		}
	}
	return false
}

// hasPurpose reports whether a certificate has one of the requested extended key usages.
func (a Ask) hasPurpose(c *x509.Certificate) bool {
	return slices.ContainsFunc(purposes(c), func(id string) bool { return slices.Contains(a.EKU, id) })
}

// purposes returns a certificate's extended key usages, as far as they matter: those that crypto/x509 has no
// name for, and anyExtendedKeyUsage.
func purposes(c *x509.Certificate) (ids []string) {
	for _, id := range c.UnknownExtKeyUsage {
		ids = append(ids, id.String())
	}
	if slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) {
		ids = append(ids, anyPurpose)
	}
	return ids
}

// mayHaveIssued compares names, and the key's id where both name it.
func mayHaveIssued(issuer, c *x509.Certificate) bool {
	return bytes.Equal(issuer.RawSubject, c.RawIssuer) &&
		(len(issuer.SubjectKeyId) == 0 || len(c.AuthorityKeyId) == 0 ||
			bytes.Equal(issuer.SubjectKeyId, c.AuthorityKeyId))
}

// hasSigned reports whether a certificate was signed by another's key. The error is the host's.
func (a Ask) hasSigned(ctx context.Context, issuer, c *x509.Certificate) (bool, error) {
	return a.Issued.once(issuer.RawSubjectPublicKeyInfo, c.Raw, func() (bool, error) {
		return a.signedBy(ctx, issuer, c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature)
	})
}

// signedBy reports whether the key of a certificate has made a signature of X.509. The error is the host's.
func (a Ask) signedBy(
	ctx context.Context, issuer *x509.Certificate, by x509.SignatureAlgorithm, message, signed []byte,
) (bool, error) {
	public, ok := publicKey(issuer)
	if !ok {
		return false, nil
	}
	return public.VerifyASN1(ctx, a.Verify, certificateAlgorithm(by), message, signed)
}

// Issued remembers certificates whose signature was good. A few document signers sign for millions of people,
// and a check costs a third of a response. The cache cannot become outdated: whether a key has made a
// signature depends on no time and no setting, and everything else about a certificate is checked each time.
// The zero value is empty. It may be used concurrently.
//
// It is not shared by all of a process, because a replay repeats all calls of a core to its host.
type Issued struct {
	mu   sync.Mutex
	good map[[sha256.Size]byte]bool // by the digest of a key and a certificate with its signature
}

// maxIssued is the maximum number of entries of Issued. Only certificates below a trust anchor come into it.
const maxIssued = 256

// once calls check unless it has reported true for the same key and certificate before.
func (s *Issued) once(key, certificate []byte, check func() (bool, error)) (bool, error) {
	all := binary.BigEndian.AppendUint32(nil, uint32(len(key)))
	digest := sha256.Sum256(append(append(all, key...), certificate...))
	s.mu.Lock()
	known := s.good[digest]
	s.mu.Unlock()
	if known {
		return true, nil
	}
	if ok, err := check(); !ok || err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.good == nil || len(s.good) >= maxIssued {
		s.good = map[[sha256.Size]byte]bool{}
	}
	s.good[digest] = true
	return true, nil
}

// certificateAlgorithm returns the name of an algorithm for host.VerifyFunc, "" if it has none.
func certificateAlgorithm(a x509.SignatureAlgorithm) string {
	switch a {
	case x509.ECDSAWithSHA256:
		return "ecdsa-with-SHA256"
	case x509.ECDSAWithSHA384:
		return "ecdsa-with-SHA384"
	case x509.ECDSAWithSHA512:
		return "ecdsa-with-SHA512"
	}
	return ""
}

// publicKey returns a certificate's key. It is not ok if no algorithm of COSE is for it, as for the Brainpool
// curves, which Go does not have.
func publicKey(c *x509.Certificate) (public signature.Key, ok bool) {
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return signature.Key{}, false
	}
	return signature.OfECDSA(key)
}

// margin is how far the clocks of an issuer and of this service may differ.
const margin = 30 * time.Second

// within reports whether now is in a period that includes both of its ends, give or take the margin.
func within(now, from, until time.Time) bool {
	return !now.Add(margin).Before(from) && !now.Add(-margin).After(until)
}
