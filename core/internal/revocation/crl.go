package revocation

import (
	"context"
	"crypto/x509"
	"encoding/asn1"
	"math/big"
	"slices"
	"time"

	"github.com/verge-id/verge/core/internal/mdoc"
)

// Errors of certificate revocation lists.
const (
	errCRL         Error = "the certificate revocation list cannot be read"
	errCRLDates    Error = "the certificate revocation list has no usable dates"
	errDelta       Error = "the certificate revocation list is a delta, which is useless without its base"
	errScope       Error = "the certificate revocation list is not of this certificate"
	errCRLCritical Error = "the certificate revocation list has a critical extension that is not known"
	errCRLSigner   Error = "the issuer of the certificate has not signed the revocation list"
)

// crlFresh is the time after which a newer list is asked for. Issuers date their lists for weeks, and
// publish another one earlier when they revoke a certificate.
const crlFresh = time.Hour

// Extensions of certificate revocation lists (RFC 5280, section 5.2 and 5.3).
var (
	extCRLNumber  = asn1.ObjectIdentifier{2, 5, 29, 20}
	extReason     = asn1.ObjectIdentifier{2, 5, 29, 21}
	extDelta      = asn1.ObjectIdentifier{2, 5, 29, 27}
	extScope      = asn1.ObjectIdentifier{2, 5, 29, 28} // issuingDistributionPoint
	extAuthority  = asn1.ObjectIdentifier{2, 5, 29, 35}
	extInvalidity = asn1.ObjectIdentifier{2, 5, 29, 24}
)

// CRL is a certificate revocation list of one issuer.
type CRL struct {
	Dates
	size    int
	serials map[string]bool
	scope   scope
}

// scope is an issuingDistributionPoint. A list without one is of all certificates of its issuer.
type scope struct {
	present     bool
	named       bool     // the list is at its names only
	names       []string // addresses
	users       bool     // only certificates that are no authority's
	authorities bool     // only certificates of authorities
}

// Size is the number of bytes that the list takes in memory.
func (c *CRL) Size() int { return c.size }

// Revoked reports whether a certificate is in the list, for any reason and date of the revocation. It is not
// ok if the list is not of this certificate.
func (c *CRL) Revoked(certificate *x509.Certificate) (revoked, ok bool) {
	if certificate.IsCA && c.scope.users || !certificate.IsCA && c.scope.authorities ||
		!c.scope.isOf(certificate) {
		return false, false
	}
	return c.serials[serialOf(certificate.SerialNumber)], true
}

func serialOf(n *big.Int) string { return n.String() }

// ReadCRL reads a list in DER that was fetched from a distribution point of the certificate number n of
// by.Path. The error is an Error, or the host's, which could not check the signature.
func ReadCRL(ctx context.Context, der []byte, by mdoc.Lists, n int, now time.Time) (*CRL, error) {
	if len(der) >= MaxSize {
		return nil, errSize
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil || len(list.Raw) < len(der) {
		return nil, errCRL
	}
	switch signed, err := by.VerifyCRL(ctx, n, list); {
	case err != nil:
		return nil, err
	case !signed:
		return nil, errCRLSigner
	}
	c := &CRL{size: len(der), serials: make(map[string]bool, len(list.RevokedCertificateEntries))}
	if c.Dates, err = datesOf(list, now); err != nil {
		return nil, err
	}
	if err := c.readExtensions(list); err != nil {
		return nil, err
	}
	for _, e := range list.RevokedCertificateEntries {
		for _, x := range e.Extensions {
			if x.Critical && !x.Id.Equal(extReason) && !x.Id.Equal(extInvalidity) {
				return nil, errCRLCritical // such as certificateIssuer: the entry is another issuer's
			}
		}
		c.serials[serialOf(e.SerialNumber)] = true
	}
	return c, nil
}

// datesOf checks the dates of a list. RFC 5280 demands a nextUpdate.
func datesOf(list *x509.RevocationList, now time.Time) (d Dates, err error) {
	d = Dates{Issued: list.ThisUpdate, Fresh: now.Add(crlFresh), Until: list.NextUpdate}
	switch {
	case d.Issued.IsZero() || d.Until.IsZero():
		return d, errCRLDates
	case d.Issued.After(now.Add(margin)):
		return d, errFuture
	case !d.Until.After(now):
		return d, errExpired
	}
	return d, nil
}

// readExtensions checks that the list is whole, and reads its scope.
func (c *CRL) readExtensions(list *x509.RevocationList) error {
	for _, x := range list.Extensions {
		switch {
		case x.Id.Equal(extDelta):
			return errDelta
		case x.Id.Equal(extScope):
			if c.scope.present || !c.scope.read(x.Value) {
				return errScope
			}
		case x.Critical && !x.Id.Equal(extCRLNumber) && !x.Id.Equal(extAuthority):
			return errCRLCritical
		}
	}
	return nil
}

// issuingDistributionPoint is the extension of that name (RFC 5280, section 5.2.5).
type issuingDistributionPoint struct {
	Point struct {
		Raw      asn1.RawContent
		FullName []asn1.RawValue `asn1:"optional,tag:0"`
	} `asn1:"optional,tag:0"`
	Users       bool           `asn1:"optional,tag:1"`
	Authorities bool           `asn1:"optional,tag:2"`
	Reasons     asn1.BitString `asn1:"optional,tag:3"`
	Indirect    bool           `asn1:"optional,tag:4"`
	Attributes  bool           `asn1:"optional,tag:5"`
}

// tagURI is the tag of a GeneralName that is a URI.
const tagURI = 6

// read reads the extension. It reports whether the list is one for all reasons, of public key certificates
// and of its own issuer alone.
func (s *scope) read(der []byte) bool {
	var p issuingDistributionPoint
	rest, err := asn1.Unmarshal(der, &p)
	s.named = len(p.Point.Raw) > 0
	if err != nil || len(rest) > 0 || p.Reasons.BitLength > 0 || p.Indirect || p.Attributes {
		return false
	}
	s.present, s.users, s.authorities = true, p.Users, p.Authorities
	for _, name := range p.Point.FullName {
		if name.Class == asn1.ClassContextSpecific && name.Tag == tagURI {
			s.names = append(s.names, string(name.Bytes))
		}
	}
	return true
}

// isOf reports whether the list names no address, or one of a certificate's distribution points
// (RFC 5280, section 6.3.3, b 2 i). It may have been fetched from another of them: they are alternatives.
func (s *scope) isOf(certificate *x509.Certificate) bool {
	return !s.named || slices.ContainsFunc(certificate.CRLDistributionPoints, func(address string) bool {
		return slices.Contains(s.names, address)
	})
}
