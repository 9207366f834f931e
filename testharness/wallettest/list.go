package wallettest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"time"
)

// List is a trusted list of the certificates that may issue proofs of age, by ETSI TS 119 602.
type List struct {
	Sequence           uint64
	Issued, NextUpdate time.Time
	Certificates       []*x509.Certificate
}

// ListSigner signs trusted lists.
type ListSigner struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewListSigner returns a signer whose certificate is valid for a year from a month before now.
func NewListSigner(now time.Time) *ListSigner {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("wallettest: " + err.Error())
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()),
		Subject:   pkix.Name{Country: []string{"UT"}, CommonName: "Test signer of lists"},
		NotBefore: now.AddDate(0, -1, 0), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic("wallettest: " + err.Error())
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		panic("wallettest: " + err.Error())
	}
	return &ListSigner{c, key}
}

// PEM returns the signer's certificate, for the settings of the service.
func (s *ListSigner) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate.Raw})
}

// Sign returns a list as its operator publishes it: a JWS.
func (s *ListSigner) Sign(l List) ([]byte, error) {
	name := func(text string) []any { return []any{map[string]string{"lang": "en", "value": text}} }
	certificates := []any{}
	for _, c := range l.Certificates {
		certificates = append(
			certificates,
			map[string]string{"val": base64.StdEncoding.EncodeToString(c.Raw)},
		)
	}
	service := map[string]any{"ServiceInformation": map[string]any{"ServiceName": name("Proofs of age"),
		"ServiceTypeIdentifier":  "http://ec.europa.eu/tools/lotl/av/TrstSvc/Svctype/PAA",
		"ServiceStatus":          "http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/granted",
		"StatusStartingTime":     l.Issued.UTC().Format(time.RFC3339),
		"ServiceDigitalIdentity": map[string]any{"X509Certificates": certificates}}}
	payload, err := json.Marshal(map[string]any{"LoTE": map[string]any{
		"ListAndSchemeInformation": map[string]any{
			"LoTEVersionIdentifier": 1,
			"LoTESequenceNumber":    l.Sequence,
			"ListIssueDateTime":     l.Issued.UTC().Format(time.RFC3339),
			"NextUpdate":            l.NextUpdate.UTC().Format(time.RFC3339),
			"SchemeOperatorName":    name("Test operator of lists"),
		},
		"TrustedEntitiesList": []any{map[string]any{
			"TrustedEntityInformation": map[string]any{"TEName": name("Test provider")},
			"TrustedEntityServices":    []any{service}}}}})
	if err != nil {
		return nil, err
	}
	header, err := json.Marshal(map[string]any{"alg": "ES256",
		"x5c": []string{base64.StdEncoding.EncodeToString(s.Certificate.Raw)}})
	if err != nil {
		return nil, err
	}
	signed := base64.RawURLEncoding.EncodeToString(
		header,
	) + "." + base64.RawURLEncoding.EncodeToString(
		payload,
	)
	signature, err := Sign(s.key, []byte(signed))
	if err != nil {
		return nil, err
	}
	return []byte(signed + "." + base64.RawURLEncoding.EncodeToString(signature)), nil
}
