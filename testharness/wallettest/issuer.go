package wallettest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Extended key usages of document signers.
const (
	AgeSigner = "1.3.130.2.0.0.1.2" // proofs of age of the EU
	MDLSigner = "1.0.18013.5.1.2"   // mobile driving licences
)

// IssuerConfig is given to NewIssuer once. The zero value is an issuer of the EU's proofs of age.
type IssuerConfig struct {
	// EKU is the extended key usage of the document signer. "": AgeSigner. "none": no such extension.
	EKU string

	// Curve is the curve of all its keys: P-256, P-384 or P-521. It determines the algorithm of documents,
	// too. Nil: P-256.
	Curve elliptic.Curve

	// Now is when it is made. Its certificates are good from 30 days before until a year after. Zero: the
	// present time.
	Now time.Time

	// Between is how many authorities stand between the root and the signer.
	Between int

	// Change changes a certificate before it is signed. 0 is the signer, the last is the root. Nil: none.
	Change func(n int, template *x509.Certificate)
}

// Issuer issues documents. Its root is the trust anchor. Its document signer signs.
type Issuer struct {
	Root *x509.Certificate

	// Chain is the chain in each document: the signer's certificate, and the certificates of authorities
	// between it and the root, in DER. The root is not in it.
	Chain [][]byte

	// Key is the signer's.
	Key *ecdsa.PrivateKey

	// KeyID is the DID URL of the key, which SD-JWTs have instead of the certificates. "": they have these.
	KeyID string

	// above is the authority that has issued the signer's certificate.
	above    *x509.Certificate
	aboveKey *ecdsa.PrivateKey
}

// NewIssuer makes an issuer with fresh keys. It panics on an IssuerConfig that no certificate can have.
func NewIssuer(c IssuerConfig) *Issuer {
	if c.Curve == nil {
		c.Curve = elliptic.P256()
	}
	if c.Now.IsZero() {
		c.Now = time.Now()
	}
	if c.EKU == "" {
		c.EKU = AgeSigner
	}
	issuer := new(Issuer)
	var above *x509.Certificate
	var aboveKey *ecdsa.PrivateKey
	last := c.Between + 1
	for n := last; n >= 0; n-- {
		issuer.above, issuer.aboveKey = above, aboveKey
		key, err := ecdsa.GenerateKey(c.Curve, rand.Reader)
		if err != nil {
			panic(err) // the random reader never fails
		}
		template := c.template(n, last)
		if above == nil {
			above, aboveKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, above, &key.PublicKey, aboveKey)
		if err != nil {
			panic(fmt.Sprintf("wallettest: certificate %d: %v", n, err))
		}
		if above, err = x509.ParseCertificate(der); err != nil {
			panic(fmt.Sprintf("wallettest: certificate %d: %v", n, err))
		}
		aboveKey = key
		if n == last {
			issuer.Root = above
		} else {
			issuer.Chain = append([][]byte{der}, issuer.Chain...)
		}
	}
	issuer.Key = aboveKey
	return issuer
}

// Renewed returns another certificate of the authority that has issued the signer's, in DER. It has the same
// name and key. change may change it before it is signed.
func (i *Issuer) Renewed(change func(*x509.Certificate)) []byte {
	template := *i.above
	template.SerialNumber = big.NewInt(200)
	template.NotAfter = template.NotAfter.AddDate(1, 0, 0)
	template.PublicKey = &i.aboveKey.PublicKey
	if change != nil {
		change(&template)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, i.above, template.PublicKey, i.aboveKey)
	if err != nil {
		panic(fmt.Sprintf("wallettest: renewed certificate: %v", err))
	}
	return der
}

// template is a certificate before it is signed.
func (c IssuerConfig) template(n, last int) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(100 + n)),
		Subject:      pkix.Name{Country: []string{"UT"}, CommonName: fmt.Sprintf("Test authority %d", n)},
		NotBefore:    c.Now.AddDate(0, 0, -30), NotAfter: c.Now.AddDate(1, 0, 0),
		BasicConstraintsValid: true, IsCA: true, MaxPathLen: n - 1, MaxPathLenZero: n == 1,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	switch n {
	case 0:
		template.Subject.CommonName = "Test document signer"
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.BasicConstraintsValid, template.IsCA, template.MaxPathLen = false, false, 0
		if c.EKU != "none" {
			template.ExtraExtensions = []pkix.Extension{extendedKeyUsage(c.EKU)}
		}
	case last:
		template.Subject.CommonName = "Test root of issuers"
	}
	if c.Change != nil {
		c.Change(n, template)
	}
	return template
}

// extendedKeyUsage writes the extension, which is critical (ISO/IEC 18013-5, annex B).
func extendedKeyUsage(id string) pkix.Extension {
	var oid asn1.ObjectIdentifier
	for number := range strings.SplitSeq(id, ".") {
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("wallettest: the extended key usage %q is no object identifier", id))
		}
		oid = append(oid, n)
	}
	value, err := asn1.Marshal([]asn1.ObjectIdentifier{oid})
	if err != nil {
		panic(fmt.Sprintf("wallettest: the extended key usage %q: %v", id, err))
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: value}
}

// PEM returns the root's certificate, for the settings of the service.
func (i *Issuer) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Root.Raw})
}
