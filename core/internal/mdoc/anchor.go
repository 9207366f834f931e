package mdoc

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/verge-id/verge/core/pemfile"
)

// Anchor is a certificate authority whose document signers are trusted, or one document signer of a trusted
// list (ListedAnchor).
type Anchor struct{ Certificate *x509.Certificate }

// Fingerprint returns the SHA-256 of the certificate in hex, as tools print it.
func (a Anchor) Fingerprint() string {
	hash := sha256.Sum256(a.Certificate.Raw)
	return hex.EncodeToString(hash[:])
}

// ParseAnchors reads trust anchors: certificates in PEM, with or without text between them, or concatenated
// in DER. The error names the unusable certificate and the reason. Dates are not checked here: Verify checks
// them each time.
//
// An anchor is a certificate authority with an ECDSA key on P-256, P-384 or P-521. It need not be
// self-signed.
func ParseAnchors(pemOrDER []byte) ([]Anchor, error) {
	certificates, err := certificatesIn(pemOrDER)
	if err != nil {
		return nil, err
	}
	var anchors []Anchor
	for i, c := range certificates {
		if why := checkAuthority(c); why != "" {
			// The common name alone: to write the whole name, a guest would have to bring an encoder.
			return nil, fmt.Errorf("certificate %d (%s) cannot be a trust anchor: %s",
				i+1, c.Subject.CommonName, unusable[why])
		}
		anchors = append(anchors, Anchor{c})
	}
	return anchors, nil
}

// ListedAnchor returns the anchor for a certificate of a trusted list, in DER: a certificate authority as for
// ParseAnchors, or a document signer. Lists name either: the profiles of ETSI TS 119 602 leave the choice to
// the issuer. A listed document signer signs documents, and issues no certificates.
func ListedAnchor(der []byte) (Anchor, bool) {
	c, err := x509.ParseCertificate(der)
	if err != nil || checkAuthority(c) != "" && checkSignerUse(c) != "" {
		return Anchor{}, false
	}
	return Anchor{c}, true
}

// unusable maps the reason of checkAuthority to a text about the anchor.
var unusable = map[string]string{
	badCertKey:   "its key must be ECDSA on P-256, P-384 or P-521",
	badExtension: "it has name constraints, or an unsupported critical extension",
	notAuthority: "it is not a certificate authority that may sign certificates; use its issuer",
}

// certificatesIn returns the certificates of a file.
func certificatesIn(b []byte) ([]*x509.Certificate, error) {
	b, err := pemfile.Text(b)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(b, []byte("-----BEGIN ")) {
		return pemfile.Certificates(b)
	}
	all, err := x509.ParseCertificates(b)
	if err != nil {
		return nil, fmt.Errorf("it is neither PEM nor certificates in DER with supported keys (ECDSA on "+
			"P-256, P-384 or P-521): %w", err)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return all, nil
}
