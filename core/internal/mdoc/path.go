package mdoc

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// crypto/x509 could build the path. But it can also read the system's roots, and then a guest imports what
// that takes. The paths of mobile documents are short, and have none of what makes paths hard.

// maxChain is the most certificates that an answer may bring. ISO/IEC 18013-5 has one, the document signer's.
// Some send the anchor along, and others have an authority between the two.
const maxChain = 3

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

// signer returns the certificate of the document signer, the first of a chain, if it is good, and the trust
// anchor that has issued it. chain is in DER. It is the path to the anchor in order. The anchor may be in it
// or not. Certificates after the anchor are ignored.
//
// ISO/IEC 18013-5 has signer and authority name the same country. That is not compared: operators trust
// authorities and no countries, and nothing here depends on a country.
func (a Ask) signer(chain [][]byte) (*x509.Certificate, Anchor, error) {
	none := Anchor{}
	if len(chain) < 1 || len(chain) > maxChain {
		return nil, none, refused(badChain)
	}
	var path []*x509.Certificate
	for i, der := range chain {
		if i > 0 && a.isAnchor(der) {
			break
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, none, refused(badCertificate)
		}
		path = append(path, c)
	}
	if why := a.checkSigner(path[0]); why != "" {
		return nil, none, refused(why)
	}
	for i, c := range path[1:] {
		if why := a.checkIssuer(c, i); why != "" {
			return nil, none, refused(why)
		}
		if !mayHaveIssued(c, path[i]) {
			return nil, none, refused(badChain)
		}
	}
	// Signatures cost most, so they come last, and the anchor's comes first: whoever has no certificate of an
	// anchor can cause no others to be checked.
	anchor, why := a.anchorOf(path)
	if why != "" {
		return nil, none, refused(why)
	}
	for i, c := range slices.Backward(path[1:]) {
		if !hasSigned(c, path[i]) {
			return nil, none, refused(badChain)
		}
	}
	return path[0], anchor, nil
}

func (a Ask) isAnchor(der []byte) bool {
	return slices.ContainsFunc(a.Anchors, func(t Anchor) bool { return bytes.Equal(t.Certificate.Raw, der) })
}

// anchorOf returns the trust anchor that has issued the last certificate of a path, or why none has.
// Authorities change their keys and keep their names, or renew a certificate and keep the key, so there may
// be several to try.
func (a Ask) anchorOf(path []*x509.Certificate) (anchor Anchor, why string) {
	last := path[len(path)-1]
	why = untrusted
	for _, t := range a.Anchors {
		if !mayHaveIssued(t.Certificate, last) || !hasSigned(t.Certificate, last) {
			continue
		}
		if why = a.checkIssuer(t.Certificate, len(path)-1); why == "" {
			return t, ""
		}
	}
	return Anchor{}, why
}

// checkSigner returns why a certificate is not one of a document signer, "" if it is.
func (a Ask) checkSigner(c *x509.Certificate) (why string) {
	_, ok := publicKey(c)
	switch {
	case !ok:
		return badCertKey
	case !usableExtensions(c):
		return badExtension
	case !within(a.Now, c.NotBefore, c.NotAfter):
		return outOfDate
	case c.IsCA || c.KeyUsage&x509.KeyUsageDigitalSignature == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0:
		return notSigner
	case !a.hasPurpose(c):
		return wrongPurpose
	}
	return ""
}

// checkIssuer returns why a certificate may not have issued another, "" if it may. below is how many
// authorities stand between the two.
func (a Ask) checkIssuer(c *x509.Certificate, below int) (why string) {
	if why := checkAuthority(c); why != "" {
		return why
	}
	limited := c.MaxPathLen > 0 || c.MaxPathLenZero
	switch {
	case !within(a.Now, c.NotBefore, c.NotAfter):
		return outOfDate
	case limited && below > c.MaxPathLen:
		return pathTooLong
	case hasExtension(c, extExtendedKeyUsage) && !slices.Contains(purposes(c), anyPurpose) &&
		!a.hasPurpose(c):
		return wrongPurpose
	}
	return ""
}

// checkAuthority returns why a certificate is not one of an authority, whatever the time. "" if it is.
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

// usableExtensions reports whether all that a certificate demands of us is done here. Name constraints are
// not, so they are refused even where they are not critical.
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

// hasPurpose reports whether a certificate names one of the extended key usages that are asked for.
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

// hasSigned reports whether a certificate was signed by another's key.
func hasSigned(issuer, c *x509.Certificate) bool {
	hash := certificateHash[c.SignatureAlgorithm]
	public, ok := publicKey(issuer)
	return ok && hash != nil && issued.once(issuer.RawSubjectPublicKeyInfo, c.Raw, func() bool {
		return ecdsa.VerifyASN1(public, hash(c.RawTBSCertificate), c.Signature)
	})
}

// issued remembers certificates whose signature was good. A few document signers sign for millions of people,
// and a check costs a quarter of an answer. Nothing in it goes stale: whether a key has made a signature
// depends on no time and no setting, and everything else about a certificate is checked each time.
var issued signatures

// maxIssued bounds what issued holds. Only certificates below a trust anchor come into it.
const maxIssued = 256

// signatures are digests of a key and of what it has signed, with the signature.
type signatures struct {
	mu   sync.Mutex
	good map[[sha256.Size]byte]bool
}

// once calls check if it has not said yes to the same key and certificate before.
func (s *signatures) once(key, certificate []byte, check func() bool) bool {
	all := binary.BigEndian.AppendUint32(nil, uint32(len(key)))
	digest := sha256.Sum256(append(append(all, key...), certificate...))
	s.mu.Lock()
	known := s.good[digest]
	s.mu.Unlock()
	if known {
		return true
	}
	if !check() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.good == nil || len(s.good) >= maxIssued {
		s.good = map[[sha256.Size]byte]bool{}
	}
	s.good[digest] = true
	return true
}

var certificateHash = map[x509.SignatureAlgorithm]func([]byte) []byte{
	x509.ECDSAWithSHA256: sum256, x509.ECDSAWithSHA384: sum384, x509.ECDSAWithSHA512: sum512,
}

// curves are those that algorithms of COSE are for, without the Brainpool curves, which Go does not have.
var curves = []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}

// publicKey returns a certificate's key. It is not ok if no algorithm of COSE is for it.
func publicKey(c *x509.Certificate) (public *ecdsa.PublicKey, ok bool) {
	public, ok = c.PublicKey.(*ecdsa.PublicKey)
	return public, ok && slices.Contains(curves, public.Curve)
}

// margin is how far the clocks of an issuer and of this service may differ.
const margin = 30 * time.Second

// within reports whether now is in a period that includes both of its ends, give or take the margin.
func within(now, from, until time.Time) bool {
	return !now.Add(margin).Before(from) && !now.Add(-margin).After(until)
}
