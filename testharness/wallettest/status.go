package wallettest

import (
	"bytes"
	"compress/zlib"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/verge-id/verge/core/cbor"
)

// StatusSigner is the extended key usage of certificates that sign status lists.
const StatusSigner = "1.3.6.1.5.5.7.3.30"

// StatusList is a list of the statuses of documents, by draft-ietf-oauth-status-list.
type StatusList struct {
	URI  string
	Bits int    // for each document; 0: 1
	List []byte // the statuses, before they are compressed

	Issued  time.Time
	Expires time.Time     // zero: the list does not name its end
	TTL     time.Duration // 0: none

	// Key signs, and Chain has its certificate first, in DER.
	Key   *ecdsa.PrivateKey
	Chain [][]byte

	// Change changes the header and the claims of a JWT before they are signed. Nil: nothing changes.
	Change func(header, claims map[string]any)

	// ChangeCBOR does so for a CWT. A pair replaces the one of the same label that comes before it. A zero
	// Item removes it.
	ChangeCBOR func() (header, claims []cbor.Pair)
}

// StatusReference returns the status of a document that has a place in a status list.
func StatusReference(uri string, index int64) cbor.Item {
	return cbor.Map(
		pair("status_list", cbor.Map(pair("idx", cbor.Integer(index)), pair("uri", cbor.Text(uri)))),
	)
}

// jwsAlgorithms are the names of COSE's algorithms in JWS.
var jwsAlgorithms = map[int64]string{-7: "ES256", -35: "ES384", -36: "ES512"}

// packed returns the list as it is sent, and the bits.
func (s StatusList) packed() ([]byte, int) {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(s.List) // to memory
	_ = z.Close()
	if s.Bits == 0 {
		s.Bits = 1
	}
	return b.Bytes(), s.Bits
}

// JWT returns the list as a JWT.
func (s StatusList) JWT() []byte {
	chain := []string{}
	for _, der := range s.Chain {
		chain = append(chain, base64.StdEncoding.EncodeToString(der))
	}
	list, bits := s.packed()
	header := map[string]any{"typ": "statuslist+jwt", "alg": jwsAlgorithms[curves[s.Key.Curve].algorithm],
		"x5c": chain}
	claims := map[string]any{"sub": s.URI, "iat": s.Issued.Unix(),
		"status_list": map[string]any{"bits": bits, "lst": base64.RawURLEncoding.EncodeToString(list)}}
	if !s.Expires.IsZero() {
		claims["exp"] = s.Expires.Unix()
	}
	if s.TTL > 0 {
		claims["ttl"] = int64(s.TTL / time.Second)
	}
	if s.Change != nil {
		s.Change(header, claims)
	}
	message := part(header) + "." + part(claims)
	signature, err := Sign(s.Key, []byte(message))
	if err != nil {
		panic(err) // the random reader never fails
	}
	return []byte(message + "." + base64.RawURLEncoding.EncodeToString(signature))
}

// part returns a part of a JWT. A json.RawMessage under "" replaces the whole part.
func part(members map[string]any) string {
	b, err := json.Marshal(members)
	if raw, ok := members[""].(json.RawMessage); ok {
		b = raw
	}
	if err != nil {
		panic(fmt.Sprintf("wallettest: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// CWT returns the list as a CWT.
func (s StatusList) CWT() []byte {
	list, bits := s.packed()
	label := func(n int64, value cbor.Item) cbor.Pair { return cbor.Pair{Key: cbor.Integer(n), Value: value} }
	header := []cbor.Pair{label(headerAlgorithm, cbor.Integer(curves[s.Key.Curve].algorithm)),
		label(16, cbor.Text("application/statuslist+cwt"))}
	claims := []cbor.Pair{label(2, cbor.Text(s.URI)), label(6, cbor.Integer(s.Issued.Unix())),
		label(65533, cbor.Map(pair("bits", cbor.Integer(int64(bits))), pair("lst", cbor.Bytes(list))))}
	if !s.Expires.IsZero() {
		claims = append(claims, label(4, cbor.Integer(s.Expires.Unix())))
	}
	if s.TTL > 0 {
		claims = append(claims, label(65534, cbor.Integer(int64(s.TTL/time.Second))))
	}
	if s.ChangeCBOR != nil {
		inHeader, inClaims := s.ChangeCBOR()
		header, claims = replaced(header, inHeader), replaced(claims, inClaims)
	}
	protected, payload := cbor.Map(header...).Raw(), cbor.Map(claims...).Raw()
	signature, err := sign1(nil, s.Key, protected, payload)
	if err != nil {
		panic(err) // the random reader never fails
	}
	var chain []cbor.Item
	for _, der := range s.Chain {
		chain = append(chain, cbor.Bytes(der))
	}
	unprotected := cbor.Map(label(headerChain, cbor.Array(chain...)))
	if len(chain) == 1 {
		unprotected = cbor.Map(label(headerChain, chain[0]))
	}
	const tag = 18
	return cbor.Tagged(tag, cbor.Array(cbor.Bytes(protected), unprotected, cbor.Bytes(payload),
		cbor.Bytes(signature))).Raw()
}

// replaced returns pairs with others, each of which replaces the pair with its key.
func replaced(pairs, others []cbor.Pair) (all []cbor.Pair) {
	for _, p := range append(pairs, others...) {
		for i, before := range all {
			if bytes.Equal(before.Key.Raw(), p.Key.Raw()) {
				all = append(all[:i], all[i+1:]...)
				break
			}
		}
		if p.Value.Present() {
			all = append(all, p)
		}
	}
	return all
}

// RootKey returns the key of the authority that has issued the document signer's certificate. It is the
// root's unless there are authorities between.
func (i *Issuer) RootKey() *ecdsa.PrivateKey { return i.aboveKey }

// Certify returns a certificate, in DER, by the authority that has issued the document signer's. The template
// is for a signer of status lists with the extended key usage eku, or without one if eku is "none".
func (i *Issuer) Certify(key *ecdsa.PublicKey, eku string, change func(template *x509.Certificate)) []byte {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1000), Subject: pkix.Name{CommonName: "Test signer of status lists"},
		NotBefore: i.above.NotBefore, NotAfter: i.above.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if eku != "none" {
		template.ExtraExtensions = []pkix.Extension{extendedKeyUsage(eku)}
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.above, key, i.aboveKey)
	if err != nil {
		panic(fmt.Sprintf("wallettest: a certificate: %v", err))
	}
	return der
}

// CRL returns a certificate revocation list, in DER, of the authority that has issued the document signer's
// certificate. The serial number of that one is 100.
func (i *Issuer) CRL(template *x509.RevocationList) []byte {
	if template.Number == nil {
		template.Number = big.NewInt(1)
	}
	above := *i.above
	above.KeyUsage |= x509.KeyUsageCRLSign // CreateRevocationList demands it of honest issuers
	der, err := x509.CreateRevocationList(rand.Reader, template, &above, i.aboveKey)
	if err != nil {
		panic(fmt.Sprintf("wallettest: a revocation list: %v", err))
	}
	return der
}
