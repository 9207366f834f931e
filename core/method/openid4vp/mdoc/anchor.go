package mdoc

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// Anchor is a certificate authority whose document signers are trusted.
type Anchor struct{ Certificate *x509.Certificate }

// Fingerprint returns the SHA-256 of the certificate in hex, as tools print it.
func (a Anchor) Fingerprint() string {
	hash := sha256.Sum256(a.Certificate.Raw)
	return hex.EncodeToString(hash[:])
}

// ParseAnchors reads trust anchors: certificates in PEM, with or without text between them, or in DER one
// after the other. The error says which certificate cannot be used and why. Dates are not looked at: Verify
// does that each time.
//
// An anchor is a certificate authority with an ECDSA key on P-256, P-384 or P-521. It need not be
// self-signed.
func ParseAnchors(pemOrDER []byte) ([]Anchor, error) {
	ders, err := certificates(pemOrDER)
	if err != nil {
		return nil, err
	}
	var anchors []Anchor
	for i, der := range ders {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %w", i+1, err)
		}
		if why := checkAuthority(c); why != "" {
			// The common name alone: to write the whole name, a guest would have to bring an encoder.
			return nil, fmt.Errorf("certificate %d (%s) cannot be a trust anchor: %s",
				i+1, c.Subject.CommonName, unusable[why])
		}
		anchors = append(anchors, Anchor{c})
	}
	return anchors, nil
}

// unusable says by the reason of checkAuthority what is wrong with an anchor.
var unusable = map[string]string{
	badCertKey:   "its key must be ECDSA on P-256, P-384 or P-521",
	badExtension: "it has name constraints, or a critical extension that is not understood here",
	notAuthority: "it is no certificate authority that may sign certificates; use the one that has issued it",
}

// certificates splits a file into the DER of each certificate.
func certificates(b []byte) (ders [][]byte, err error) {
	begins := bytes.Count(b, []byte("-----BEGIN "))
	if begins == 0 {
		all, err := x509.ParseCertificates(b)
		if err != nil {
			return nil, fmt.Errorf("it is neither PEM nor certificates in DER: %w", err)
		}
		for _, c := range all {
			ders = append(ders, c.Raw)
		}
	}
	for rest := b; begins > 0; begins-- {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			// pem.Decode passes over what is damaged, so it runs out of blocks before it has seen all begin.
			return nil, fmt.Errorf("one of its PEM blocks is damaged; %d can be read", len(ders))
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PEM block %d is a %s; trust anchors are certificates", len(ders)+1,
				block.Type)
		}
		ders = append(ders, block.Bytes)
	}
	if len(ders) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return ders, nil
}
